/* SPDX-License-Identifier: MIT */
/* stage: defines the arguments and results of a stage of the chain, in its three forms. Before the
 * chain runs, a stage may bound the set from below (stage_bound). On the shortlist it keeps ranks
 * (list_stage). Over the whole row it names a key, or a measure that the set must reach
 * (row_stage). All forms of a stage are in the stage's file in cl/stages. */
#include "row/shortlist.cl"
#include "row/bracket.cl"
#include "row/sums.cl"

/* What bounds the set of a truncated row from below before its chain runs. */
typedef struct stage_bound {
    u32 k;                  /* this many tokens suffice; 0: unknown */
    i32 lowest;             /* no token below this key is needed */
    int bounded, by_maxima; /* bounded: `lowest` is valid; by_maxima: top-p bounds the whole row, by
                               the maxima of tiles */
    int first, goes_on; /* first: no truncation came before; goes_on: the next stage may bound the
                           set, too */
    f32 scale;
} stage_bound;

/* A stage on the shortlist. It sets `key` and keeps the tokens that reach it; or it leaves `key` at
 * CLS_KEY_INF and has cut the list itself. */
typedef struct list_stage {
    __global const cls_slot *slot;
    shortlist *list;
    const row_logits *r;
    chain_state *c;
    cls_row *out;
    f32 top;  /* the set's largest logit */
    u64 mass; /* of the set, for the stages that need it */
    i32 key;
} list_stage;

/* Keeps the first `count` ranks, but not fewer than min_keep. `inside`: the cut certainly lies
 * inside the list. If min_keep reaches beyond a list that is not complete, nothing changes: the set
 * reaches beyond the list, too. */
static inline void keep_ranks(const list_stage *w, u32 count, int inside)
{
    chain_state *const c = w->c;
    const u32 least = max(count, w->slot->min_keep);
    if (!c->complete && least > c->kept && least > count)
        return;
    c->complete |= inside || count < c->kept;
    c->kept = min(least, c->kept);
}

/* How a stage cuts the whole row. */
#define CUT_NOTHING 0   /* it keeps everything */
#define CUT_AT_KEY 1    /* it keeps what reaches `key` */
#define CUT_AT_TARGET 2 /* it keeps tokens from the top until `target` is reached */
#define CUT_TYPICAL 3   /* as CUT_AT_TARGET, but from the mean depth to both sides */
#define CUT_UPPER 4     /* it has made an upper cut only */
typedef struct row_stage {
    __global const cls_slot *slot;
    row_logits *r;
    __global u64 *work;
    shortlist *list;
    chain_state *c;
    cls_row *out;
    f32 top, scale; /* the set's largest logit, and the scale of the chain */
    u32 tokens;     /* the set's number of tokens and its mass; unknown for a whole row that has the
                       pass */
    u64 mass;
    int xtc_cuts; /* the draw of XTC */
    /* The result. */
    int cut, counts; /* counts: `target` is a number of tokens, not a mass */
    i32 key;
    u64 target;
    u32 mean; /* the mean depth, for typical p */
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
    w->target = count;
}
