/* SPDX-License-Identifier: MIT */
/* stage: what a stage of the chain is given, and what it answers, in its three
 * forms. Before the chain has run, a stage may bound the set from below
 * (stage_bound). On the shortlist it keeps ranks (list_stage). Over the whole row
 * it names a key, or a measure that the set must reach (row_stage). Each form of a
 * stage is in the stage's own file, cl/stages. */
#include "row/shortlist.cl"
#include "row/bracket.cl"
#include "row/sums.cl"

/* What bounds a truncated row from below before its chain has run. */
typedef struct stage_bound {
    u32 k;                  /* so many tokens suffice; 0: no such number */
    i32 lowest;             /* no token below this key does */
    int bounded, by_maxima; /* by `lowest`; by top-p over the untouched row */
    int first, goes_on;     /* no truncation came before; what comes next may bound, too */
    f32 scale;
} stage_bound;

/* A stage at work on the shortlist. It keeps what is at or above `key`, unless that
 * is CLS_KEY_INF; then it has kept by itself. */
typedef struct list_stage {
    __global const cls_slot *slot;
    shortlist *list;
    __global const i32 *row_key;
    const row_logits *r;
    chain_state *c;
    cls_row *out;
    f32 top;  /* the set's largest logit */
    u64 mass; /* the set's, for the stages that need it */
    i32 key;
} list_stage;

/* A truncation keeps the first `count` ranks, but not fewer than min_keep;
 * `inside`: the cut lies in the list for certain. Where min_keep reaches beyond
 * the list, so does the set. */
static inline void keep_ranks(const list_stage *w, u32 count, int inside)
{
    chain_state *const c = w->c;
    const u32 least = max(count, w->slot->min_keep);
    if (!c->complete && least > c->kept && least > count)
        return;
    c->complete |= inside || count < c->kept;
    c->kept = min(least, c->kept);
}

/* What a stage asks of the search of the whole row. */
#define CUT_NOTHING 0   /* it keeps all */
#define CUT_AT_KEY 1    /* nothing below `key` stays */
#define CUT_AT_TARGET 2 /* the set must reach `target`, from the top */
#define CUT_TYPICAL 3   /* ... from the mean depth, to both sides */
#define CUT_UPPER 4     /* the stage has cut the head, and nothing below */
typedef struct row_stage {
    __global const cls_slot *slot;
    row_logits *r;
    __global const i32 *row_key;
    u32 tiles, n;
    __global u64 *work;
    shortlist *list;
    chain_state *c;
    cls_row *out;
    f32 top, scale; /* of the set: its largest logit, the scale in force */
    u32 tokens;     /* of the set, and its mass; neither of an untouched row that has the pass */
    u64 mass;
    int xtc_cuts; /* XTC's */
    /* The answer. */
    int cut, counts; /* counts: `target` is a number of tokens, not a mass */
    i32 key;
    u64 target;
    u32 mean; /* typical p */
} row_stage;

static inline void cut_at_key(row_stage *w, i32 key)
{
    w->cut = CUT_AT_KEY;
    w->key = key;
}
static inline void cut_at_count(row_stage *w, u32 count)
{
    w->cut = CUT_AT_TARGET;
    w->counts = 1;
    w->target = u64_from(count);
}
