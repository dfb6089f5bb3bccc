/* SPDX-License-Identifier: MIT */
/* job: what the two kernels that run a row's chain know about the row, and the words of its stages.
 * A stage is one function. It asks for what it needs of the current set, and names a cut; whether
 * the shortlist has the set or the whole row must be searched is no business of the stage. */
#include "row/view.cl"
#include "row/locate.cl"
#include "row/fold.cl"

/* What a stage needs, and how it cuts. */
enum {
    NEEDS_MASS = 1,     /* the mass of the set */
    NEEDS_SET = 2,      /* the whole set: a list that may lack some of it is not enough */
    KEEPS_LEAST = 4,    /* at least min_keep tokens; XTC handles that itself */
    BY_KEY = 8,         /* as the first truncation it cuts at a key that the pass can measure */
    BY_PASS = 16,       /* as the first truncation it cuts by a measure of the pass */
    NEEDS_DEPTHS = 32,  /* the sum of its depths, */
    NEEDS_SQUARES = 64, /* of its squares, */
    NEEDS_UNITS = 128,  /* of its units, and of their squares; and its least logit */
};

/* How a stage cuts the set. */
enum {
    CUT_NOTHING = 0, /* it keeps everything */
    CUT_AT_KEY = 1,  /* it keeps what reaches `key` */
    CUT_REACH = 2,   /* it keeps tokens from the top until `target` is reached */
    CUT_TOP = 3, /* it removes tokens from the top, up to the one before the target is reached */
    CUT_TYPICAL = 4,   /* as CUT_REACH, but from the mean depth to both sides */
    CUT_DONE = 5,      /* the stage has changed the list itself */
    CUT_UNDECIDED = 6, /* the list does not hold enough of the row */
    CUT_EMPTY = 7,     /* the row gets no token; the status says why */
};

/* What bounds the set of a truncated row from below before its chain runs. */
typedef struct chain_bound {
    u32 k;                  /* this many tokens suffice; 0: unknown */
    i32 lowest;             /* no token below this key is needed */
    int bounded, by_maxima; /* bounded: `lowest` is valid; by_maxima: top-p bounds the whole row, by
                               the maxima of tiles */
    int first, goes_on; /* first: no truncation came before; goes_on: the next stage may bound the
                           set, too */
    f32 top, scale;     /* the row's largest logit, and the scale of the chain */
    u64 total;          /* the row's mass */
} chain_bound;

/* A stage that keeps what reaches a key bounds the set by it, unless min_keep may keep more. */
static inline void bound_at(chain_bound *b, __global const cls_slot *slot, i32 key)
{
    if (slot->min_keep <= 1) {
        b->lowest = key;
        b->bounded = 1;
    }
}
/* Other stages bound nothing, and hide what comes after them. */
static inline void no_bound(__global const cls_slot *slot, chain_bound *b) { b->goes_on = 0; }

/* The view of a job's row. Not a pointer to a private view: with that, a thread of token-row takes
 * 32 KB of scratch on Intel's GPUs, not 8. */
#if SHARES_VIEW
#define VIEW(w) ((w)->r)
#else
#define VIEW(w) (&(w)->r)
#endif

/* A row, its chain, and the current stage of it. */
typedef struct row_job {
    u32 row;
    i32 slot_index;
    u32 flags; /* the request's, in this step */
    __global const cls_slot *slot;
    /* Truncated by the stages before the current one, where the row is searched. */
#if SHARES_VIEW
    SHARED row_logits *r;
#else
    row_logits r;
#endif
    SHARED shortlist *list;
    __global u64 *sums; /* for what is summed up by mass tiles */
    __global f32 *scratch;
    chain_state c;
    cls_row out;
    /* The current set. */
    int listed;     /* the list holds it, or the first of its tokens */
    f32 top, scale; /* its largest logit, and the scale of the chain */
    u32 tokens;     /* its number of tokens and its mass, where they are known */
    u64 mass;
    /* The cut. */
    int cut, counts; /* counts: `target` is a number of tokens, not a mass */
    i32 key;
    u64 target;
    u32 mean; /* the mean depth, for typical p */
#if SEARCH
    pass_sums pass;
    u64 sum, sum_of_squares; /* what the stage needs of the set, and the set's least logit */
    f32 least;
    int finds_top; /* the row's top was cut, which had this upper cut before */
    i32 upper_before;
#endif
} row_job;

/* Whether the list has the set. The token kernel leaves all other rows to the search. */
#if SEARCH
#define LISTED(w) ((w)->listed)
#else
#define LISTED(w) 1
#endif

/* Returns a sum over the current set. A row's search has taken it: see measure_set(). */
static inline u64 need(const row_job *w, cls_sum what)
{
#if SEARCH
    if (!w->listed)
        return w->sum;
#endif
    return list_sum(VIEW(w), w->list, w->c.kept, what, w->top, w->scale);
}
/* Sums up units of a grid, and their squares. */
static inline void need_units(const row_job *w, f32 grid, u64 *sum)
{
#if SEARCH
    if (!w->listed) {
        sum[0] = w->sum;
        sum[1] = w->sum_of_squares;
        return;
    }
#endif
    for (u32 i = 0; i < 2; i++)
        sum[i] = list_sum(VIEW(w), w->list, w->c.kept, CLS_SUM_UNITS + i, w->top, grid);
}

/* Returns how many tokens of the set reach a key. */
static inline u32 need_count(const row_job *w, i32 key)
{
#if SEARCH
    if (!w->listed)
        return tokens_above(VIEW(w), key - 1, w->list->scratch);
#endif
    return list_count(w->list, w->c.kept, key);
}

/* Returns the least logit of the set. */
static inline f32 need_least(const row_job *w)
{
#if SEARCH
    if (!w->listed)
        return w->least;
#endif
    return rank_logit(w->list, w->c.kept - 1);
}

/* Keeps the tokens that reach a key. */
static inline void at_key(row_job *w, i32 key)
{
    w->cut = CUT_AT_KEY;
    w->key = key;
}
/* Keeps tokens from the top until their mass, or (`counts`) their number, reaches the target. */
static inline void reach(row_job *w, int counts, u64 target)
{
    w->cut = CUT_REACH;
    w->counts = counts;
    w->target = target;
}
/* Removes the first `count` tokens, those that reach `key`, except the last one of them. */
static inline void upper(row_job *w, i32 key, u32 count)
{
    w->cut = CUT_TOP;
    w->counts = 1;
    w->target = count;
    w->key = key;
}

/* Measures what the set has above each of four keys, but not above hi, nor with
 * hole_lo < key <= hole_hi. */
static inline void set_above(const row_job *w, const measure *m, i32 hi, i32 hole_lo, i32 hole_hi,
                             const i32 *key, u64 *sum)
{
#if SEARCH
    if (!w->listed) {
        measure_row(VIEW(w), m, hi, hole_lo, hole_hi, key, sum, w->list->scratch);
        return;
    }
#endif
    list_above(w->list, w->c.kept, m->counts, hi, hole_lo, hole_hi, key, sum);
}

/* Sets the key of an upper cut: all tokens of that key are kept that were. */
static inline void upper_cut(kept_set *set, i32 key)
{
    if (key != set->cut.upper_key) {
        set->cut.upper_first = 0;
        set->cut.upper_last = CLS_MAX_ID;
    }
    set->cut.upper_key = key;
}

/* After an upper cut: sets the set's largest key. An upper cut is at that key, or there is none. */
static inline void new_top(kept_set *set, i32 upper_before, i32 top)
{
    if (set->cut.upper_key != top)
        upper_cut(set, top);
    if (top == set->top_key && set->cut.upper_first == 0 && set->cut.upper_last == CLS_MAX_ID)
        upper_cut(set, upper_before);
    set->top_key = top;
}
