/* SPDX-License-Identifier: MIT */
/* The record of a row: what the kernels pass to each other, and at the end the result. */
#ifndef CLS_RECORD_H
#define CLS_RECORD_H

#include "core/slot.h"

#define CLS_PIVOTS 4

/* What is kept of the order (key descending, id ascending). The lower cut, at the last kept token,
 * keeps a token if its key is above `key`, or equal to it and its id at most `id`. The upper cut,
 * of XTC, typical p and the like, removes keys above upper_key, and of those equal to it the ids
 * outside [upper_first, upper_last]. */
typedef struct cls_cut {
    i32 key, id, upper_key, upper_first, upper_last;
} cls_cut;

typedef struct cls_row {
    u64 mass;    /* of the final set, in row units */
    u64 total;   /* of the whole row, where the chain needs it */
    u64 target;  /* the mass that top-p must reach */
    u64 drawn;   /* the integer in [0, mass), or in [0, adapted), that chose the token */
    u64 adapted; /* the sum of the weights that adaptive p gives to the set */
    u64 target_prob,
        draft_prob; /* units of 2^-63: the probability, in this row's distribution and in the
                       draft's own, of the draft that follows the row. draft_mass and draft_key:
                       mass and largest key of the draft's own row, where that is logits */
    u64 draft_mass;
    i32 token;
    u32 status; /* bits of cls_row_status */
    u32 state;  /* CLS_RECORD_* */
    i32 max_key;
    cls_cut cut;
    f32 scale;    /* of the final weights */
    u32 no_token; /* no token was drawn from the row */
    i32 top_key;  /* the largest key that is kept: weights and depths are relative to it */
    u32 kept;     /* the number of kept tokens, if `listed` or if they were counted; else 0 */
    u32 listed; /* the kept ids lie in the row's part of `row_scratch`: `kept` of them, ascending */
    u32 aim, min_depth; /* of adaptive p: the probability that it aims at, * 2^30, and the least
                           depth that it gives to a token of the set */
    i32 draft_key;
    u32 forced;  /* the token was not drawn from the row: it is one that the request forces or, of a
                    verification, one that takes the place of the row's own */
    i32 emitted; /* of a verification, in record d of a request's: the row that emits the token
                    behind d others, or -1 */
    u32 relaxed; /* of a row of a verification: relaxed acceptance accepts the draft after it */
    cls_slot_adaptive next; /* with CLS_ACCEPTS_LATER: the adaptive state once the token is
                               accepted, of a request that has one */
    i32 pivot[CLS_PIVOTS];  /* keys, ascending; the pass measures what lies above each */
} cls_row;

enum {
    CLS_RECORD_DONE = 0,         /* the token is drawn, or the row has none */
    CLS_RECORD_SEARCH_MASS = 1,  /* the pass measures the masses above the pivots */
    CLS_RECORD_SEARCH_COUNT = 2, /* the pass counts the tokens above the pivots */
    CLS_RECORD_SEARCH_ALL = 3,   /* the search needs more than sums above keys: no pass */
    CLS_RECORD_EMITTED = 4,      /* the request of a verification emits the row's token */
};

/* The bits of cls_row_status that kernels set: those of clsample.h. */
#ifdef __OPENCL_C_VERSION__
enum {
    CLS_ROW_NAN = 1,
    CLS_ROW_INF = 2,
    CLS_ROW_EMPTY = 4,
    CLS_ROW_SKIPPED = 8,
    CLS_ROW_NO_SLOT = 16,
    CLS_ROW_STOPPED = 32,
    CLS_ROW_LENGTH = 64,
    CLS_ROW_UNFIT = 128,
    CLS_ROW_LOOP = 256,
    CLS_ROW_FORCED = 512,
    CLS_ROW_OVERFLOW = 1024,
};
#endif

#endif
