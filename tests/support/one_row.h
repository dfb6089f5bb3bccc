/* SPDX-License-Identifier: MIT */
/* A row, or the drafts of one request, with all that they depend on in one struct: what judges of
 * the reference compare it by, without a sampler. The arguments are not checked. */
#ifndef ONE_ROW_H
#define ONE_ROW_H

#include "clsample.h"

/* The adaptive state: what Mirostat, adaptive p and top-p decay remember of a request. */
typedef struct cls_adaptive_state {
    uint32_t begun;       /* 0: nothing yet; the other fields are then ignored */
    int32_t mu;           /* Mirostat's mu, bits * 2^20 */
    uint32_t sum, weight; /* adaptive p's weighted sum and its weight, * 2^24 */
    uint32_t top_p;       /* the decayed top_p, * 2^32 */
} cls_adaptive_state;

/* One row for one_sample(). All pointers remain the caller's. one_row_init() and its like
 * set the defaults. */
typedef struct one_row {
    const void *logits;  /* [vocab] of dtype */
    int32_t dtype;       /* a cls_dtype */
    uint32_t vocab;      /* 1 to 1,048,576 */
    const void *mask;    /* as in cls_mask; NULL: everything is allowed */
    uint32_t mask_width; /* as cls_mask.width */
    /* The position of this draw. It is usually params->position plus the number of valid ids in
     * `output`; the caller adds them, the function does not. */
    uint32_t position;
    const uint64_t *random_bits; /* 64 random bits in place of Philox's; NULL: Philox */
    const cls_params *params;    /* as in cls_slot_begin() */
    int32_t invalid_token;       /* the token of a row that has none; default -1 */
    int32_t mask_kind;           /* a cls_mask_kind */
    const void *bias;            /* [vocab] of bias_dtype, as in cls_dense_bias; NULL: none */
    int32_t bias_dtype;          /* a cls_dtype */

    /* The request's tokens so far, as in cls_slot_begin(). After cls_slot_next_turn() the output of
     * earlier turns is prompt. With a grammar a thinking_start in it begins the thinking here,
     * though not on the device. */
    uint32_t prompt_count;
    const int32_t *prompt;
    const int32_t *output;
    uint32_t output_count;
    uint32_t draw; /* as cls_step.draws */

    /* How many of the latest tokens DRY, n-grams and bad words see: the sampler's `max_history`, of
     * which they see at most 16,384. 0: all. */
    uint32_t max_history;
    float bias_factor;        /* as cls_dense_bias.factor; 0 (default): 1 */
    float softcap;            /* as cls_logits.softcap */
    const cls_infill *infill; /* for params->infill, else NULL */

    /* The state before this token: one_result.adaptive of the request's previous token.
     * Default: Mirostat and adaptive p begin here, and top_p has decayed by the tokens of
     * `output`. A state that no token leaves is refused: with adaptive p a weight below 2^24 or
     * less than sum, with Mirostat a mu beyond 2^29. */
    cls_adaptive_state adaptive;

    /* The ids of the next output tokens, as cls_slot_force() sets them: this row emits the first
     * one. In one_verify() the row after k drafts emits forced_ids[k]. NULL with 0 (default).
     */
    const int32_t *forced_ids; /* [forced_count] */
    uint32_t forced_count;
} one_row;

/* What one_sample() returns. Set probs, kept_ids and kept_capacity before the call. */
typedef struct one_result {
    int32_t token;       /* row->invalid_token if there is none */
    int32_t status;      /* cls_row_status bits */
    uint32_t kept_count; /* tokens of the kept set */
    float logprob_raw;   /* as CLS_LOGPROB_RAW */
    /* As CLS_LOGPROB_FINAL, for `token`; -inf if there is none, or if it was forced and is not
     * kept. */
    float logprob_final;
    float *probs;                /* where to write [vocab] probabilities, or NULL */
    cls_adaptive_state adaptive; /* after this token */

    /* The kept set, as cls_kept_set: where to write [kept_capacity] ids, ascending and then -1, or
     * NULL. kept_capacity: 0 to vocab. If it is neither 0 nor enough for kept_count tokens, the
     * status has CLS_ROW_OVERFLOW. */
    int32_t *kept_ids;
    uint32_t kept_capacity;
} one_result;
/* Samples a row. Fails if its parameters, its infill or its adaptive state are refused. */
cls_status one_sample(const one_row *row, one_result *result);

/* One request for one_verify(). All its rows have the vocab and the dtypes of `row`. */
typedef struct one_drafts {
    /* The request at its first row, as for one_sample(), but without random_bits. Its logits,
     * mask and bias have draft_count + 1 rows, one after another, for all rows of the request. */
    const one_row *row;
    uint32_t draft_count; /* 0 to CLS_MAX_DRAFTS */
    int32_t method;       /* a cls_verify_method */
    /* Elements from row to row of the logits, the mask and the bias. 0: vocab for the logits and
     * the bias, and the mask's width for the mask. */
    uint64_t logits_stride, mask_stride, bias_stride;
    const int32_t *ids;          /* [draft_count], ids_stride apart */
    const int32_t *parents;      /* [draft_count], or NULL: as in cls_verify_call */
    const void *draft;           /* [draft_count, vocab] of draft_kind, draft_stride apart */
    int32_t draft_kind;          /* a cls_draft_kind; of CLS_DRAFT_SPARSE: */
    const int32_t *draft_tokens; /* [draft_count, draft_width], as are the floats in `draft` */
    uint32_t draft_width;
    int32_t disable_bonus; /* this and what follows: as in cls_verify_call */
    float epsilon, delta;  /* of CLS_VERIFY_TYPICAL */
    /* Elements from draft to draft of `ids` and of `draft`. 0: 1, and vocab or draft_width. */
    uint64_t ids_stride, draft_stride;

    /* Where to write what one_sample() would return at the row of each emitted token. Each is
     * NULL or has draft_count + 1 entries, as cls_verify_call.outputs and .token_status have places
     * of a request; those without a token have -inf, 0, and statuses as token_status. */
    float *logprobs_raw, *logprobs_final;
    uint32_t *kept_counts;
    int32_t *token_status;
    int32_t *kept_ids;      /* [draft_count + 1, kept_capacity], or NULL: as cls_kept_set */
    uint32_t kept_capacity; /* as one_result.kept_capacity */
} one_drafts;

/* What one_verify() returns, as the outputs of cls_verify(). */
typedef struct one_verified {
    int32_t tokens[CLS_MAX_DRAFTS + 1]; /* then -1 */
    int32_t nodes[CLS_MAX_DRAFTS];      /* then -1 */
    int32_t accepted, emitted;          /* drafts that were emitted, and tokens in all */
    int32_t status;                     /* the cls_row_status bits of all rows that were read */
} one_verified;
/* Verifies the drafts of a request. Fails as one_sample() does. */
cls_status one_verify(const one_drafts *drafts, one_verified *result);

void one_row_init(one_row *row);
void one_drafts_init(one_drafts *drafts);

#endif
