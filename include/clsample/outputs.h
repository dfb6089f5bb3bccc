/* SPDX-License-Identifier: MIT */
/* clsample: what a step can report about its rows, and log-probabilities of prompts.
 *
 * An output whose buffer is absent is not computed. Buffers that belong to the same list of ids are
 * in one struct, with one count. */
#ifndef CLSAMPLE_OUTPUTS_H
#define CLSAMPLE_OUTPUTS_H

#include "sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The distribution that log-probabilities refer to. */
typedef enum cls_logprob_kind {
    /* The softmax of the caller's logits: at temperature 1, without mask, biases and penalties. */
    CLS_LOGPROB_RAW = 0,
    /* The distribution that the token was drawn from. For a greedy row the logprob of its token is
     * 0, and that of other tokens -inf.
     *
     * The library represents probabilities as integers, the weights, so that a very unlikely token
     * may be kept with the weight 0. Its entry in `probs` is then 0 and its log-probability -inf.
     * A token has the weight 0 if it lies more than 29 to 30 bits (20.1 to 20.8 nats) below the
     * likeliest of the 1,024 tokens of its tile (ids 1024 t to 1024 t + 1023), or more than 42 to
     * 43 bits below the likeliest of the row. In the exact softmax all such tokens together have a
     * probability below 1023 * 2^-29 + vocab * 2^-42,
     * which is at most 2.2e-6 (doc/arithmetic.md). A row that is truncated never draws one of them.
     * A row that is not truncated draws one in less than vocab * 2^-42 of all draws, and the
     * log-probability of the drawn token (`logprobs`) is then finite. */
    CLS_LOGPROB_FINAL = 1
} cls_logprob_kind;

/* The likeliest tokens of each row, in the order of their logits. With a count above 0, at least
 * one of the buffers must be set. Beyond a row's last token the id is -1 and the logprob -inf. */
typedef struct cls_top_tokens {
    uint32_t count;       /* tokens of a row: 0 to 128, and at most cls_device_info.shortlist */
    uint32_t reserved[5]; /* 0 */
    cls_buffer ids;       /* int32 [rows, count] */
    cls_buffer logprobs;  /* float32 [rows, count] */
} cls_top_tokens;

/* Tokens of the caller's choice. With a count above 0, `ids` must be set and at least one of the
 * others. These ids have the logprob -inf and the rank 0: an id outside the vocabulary (such as
 * -1), every id in a row without a token, and with CLS_LOGPROB_FINAL every token that is not kept.
 * A kept token of the weight 0 has a rank and, with CLS_LOGPROB_FINAL, the logprob -inf. To compute
 * ranks, the row is read once for all ids on CPUs, and once for every four ids elsewhere. */
typedef struct cls_given_tokens {
    uint32_t count;       /* ids of a row: 0 to 1024 */
    uint32_t reserved[5]; /* 0 */
    cls_buffer ids;       /* read: int32 [rows, count] */
    cls_buffer logprobs;  /* float32 [rows, count] */
    cls_buffer ranks;     /* int32 [rows, count]; see cls_outputs.ranks */
} cls_given_tokens;

/* Tokens that can be drawn, in the order of their logits: the kept set of each row, for a host that
 * continues filtering. */
typedef struct cls_candidates {
    uint32_t count;       /* candidates of a row for which ids, logits and probs have space */
    uint32_t reserved[5]; /* 0 */
    cls_buffer ids;       /* int32 [rows, count] */
    cls_buffer logits;    /* float32 [rows, count] */
    cls_buffer probs;     /* float32 [rows, count] */
    cls_buffer counts;    /* int32 [rows]: the number of candidates of each row */
} cls_candidates;

/* The ids of each row's kept set, the tokens from which the row's token was drawn; exact at any
 * size. They are the tokens whose entry in `final_logits` is not -inf, those of the weight 0
 * (CLS_LOGPROB_FINAL) included. A row that nothing truncates keeps every allowed token whose logit
 * is neither -inf nor NaN.
 *
 * A row whose set has more than `capacity` tokens gets its token and its state as always, the first
 * `capacity` ids, the true count, and CLS_ROW_OVERFLOW in its status.
 *
 * With `offsets` the sets of a call lie one behind the other, which takes less memory: most sets
 * have a few tokens. `capacity` is then the number of ids of the whole call. Rows get their places
 * in order: row r has ids[offsets[r]] to ids[offsets[r + 1] - 1]. A row whose set does not fit
 * whole into what is left gets no ids, its two offsets are equal, and its status has
 * CLS_ROW_OVERFLOW; a row after it may fit. Counts are always true. The ids from offsets[rows] on
 * are not written. The offsets take one launch more (a kept set takes two), by a single work-group.
 *
 * With these ids and the final log-probability of given ids (`given`, CLS_LOGPROB_FINAL) a trainer
 * replays the distribution that the token was drawn from: doc/requests.md, "Outputs for training".
 */
typedef struct cls_kept_set {
    uint32_t capacity; /* ids of a row: 0 (no kept sets) to the sampler's vocab. With offsets, ids
                          of the call: up to rows * vocab, and to 2^31 - 1. Above 0, at least one of
                          the buffers must be set */
    uint32_t reserved[5]; /* 0 */
    cls_buffer ids;       /* int32 [rows, capacity], ascending; -1 beyond the row's last one. With
                             offsets: int32 [capacity] */
    cls_buffer counts;    /* int32 [rows]: the number of tokens in the set, which may be larger than
                             `capacity`; 1 for a greedy row, 0 without a token */
    cls_buffer offsets;   /* int32 [rows + 1]: where each row's ids begin; absent: see `ids` */
} cls_kept_set;

/* What a step writes beyond tokens and status, of its rows, or a verification of its tokens
 * (cls_verify_call.outputs). Each buffer may be absent.
 *
 * `logprobs`, `ranks`, `top` and `given` are of the distribution that logprob_kind names: the raw
 * logits, or the distribution that the token was drawn from, in which only the tokens of the kept
 * set occur (for a greedy row its token, with the logprob 0). The other outputs are always of the
 * distribution that was drawn from. Tokens are ordered by their logits, likeliest first, and by id
 * among equal ones; this also holds with adaptive p, which changes only probabilities. */
typedef struct cls_outputs {
    size_t struct_size;
    int32_t logprob_kind; /* a cls_logprob_kind; default CLS_LOGPROB_RAW */
    int32_t reserved;     /* 0 */

    /* float32 [rows]: the natural logarithm of the row's token's probability; -inf without a
     * token, and with CLS_LOGPROB_FINAL for a forced token that is not kept. */
    cls_buffer logprobs;
    /* int32 [rows]: the drawn token's rank, which is the number of tokens whose logit is at least
     * as large as its own. A single likeliest token has rank 1, and equal tokens have the same
     * rank. 0 without a token. */
    cls_buffer ranks;

    cls_top_tokens top;     /* the likeliest tokens of each row */
    cls_given_tokens given; /* tokens of the caller's choice */

    /* float32 [rows, vocab], dense: the distribution that was drawn from. It is 0 outside the kept
     * set and for kept tokens of the weight 0 (CLS_LOGPROB_FINAL), one-hot for greedy rows, and all
     * 0 without a token. Its total variation from the exact softmax is below 1.7e-7 * (entropy in
     * bits + 2) + 1023 * 2^-29 + vocab * 2^-42. If nothing truncates a row, a token whose entry is
     * 0 can still be drawn, in less than vocab * 2^-42 of all draws. Unlike tokens, statuses and
     * logprobs, `probs` may differ between devices in the last bit. */
    cls_buffer probs;

    /* float32 [rows, vocab], dense: the adjusted logits (masked, biased and penalised, but not
     * divided by the temperature) of the tokens of the kept set, -inf elsewhere and without a
     * token. */
    cls_buffer final_logits;

    cls_buffer entropy; /* float32 [rows], in nats; 0 for greedy rows and without a token */

    /* float32 [rows]: the share of the kept set in the probability of all allowed tokens, with
     * penalties and temperature applied; 1 for greedy rows, 0 without a token. It may differ
     * between devices in the last bit. */
    cls_buffer kept_mass;

    /* The kept set. count: 0 to cls_device_info.shortlist. ids, logits and probs have the first
     * `count` of its tokens, and beyond its last one -1, -inf and 0. logits: as final_logits.
     * probs: as `probs` above, and they, too, may differ in the last bit. counts: the number of
     * tokens of the whole set, which may be larger than `count`, and 0 without a token; it may be
     * set with a count of 0. The host may change these lists and draw with cls_host_draw(). */
    cls_candidates kept;

    /* int32 [slot_count]: each row's token, at the index of its slot, for a next embedding look-up
     * that is indexed by slots. The entries of slots without a row, and of rows without a token,
     * are unchanged. Two rows of one slot are refused with it in a host map; in a device map either
     * of their tokens may be written. Only rows write it: after slot calls and cls_accept() the
     * runtime must write it (doc/integration.md, "The decode loop"). */
    cls_buffer latest;

    cls_kept_set kept_set; /* requires CLS_FEATURE_KEPT_SETS */
} cls_outputs;

CLS_INIT_FUNCTION(cls_outputs)

/* Log-probabilities of many rows without requests, with CLS_LOGPROB_RAW: of a prompt, or of a text
 * to be scored. */
typedef struct cls_logprobs_call {
    size_t struct_size;
    uint32_t rows;          /* 1 to max_rows; longer prompts take several calls */
    uint32_t reserved;      /* 0 */
    cls_logits logits;      /* [rows, vocab] */
    cls_top_tokens top;     /* the likeliest tokens of each row */
    cls_given_tokens given; /* usually one id a row: the token that follows the row's */
} cls_logprobs_call;

CLS_INIT_FUNCTION(cls_logprobs_call)

/* Enqueues the computation. It reads and changes no slot. It uses only the sampler's memory, some
 * bytes for every 64 logits, and stores no log-softmax [rows, vocab]. Slot calls that were made
 * before take effect with this call. A row without a finite logit has no tokens: its outputs are
 * -1, -inf and 0. Queue, events and results: as cls_sample(). */
CLS_API CLS_WARN_UNUSED cls_status cls_logprobs(cls_sampler *sampler, cl_command_queue queue,
                                                const cls_logprobs_call *call, cl_uint n_wait,
                                                const cl_event *wait, cl_event *done);

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_OUTPUTS_H */
