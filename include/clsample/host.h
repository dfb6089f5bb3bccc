/* SPDX-License-Identifier: MIT */
/* clsample: what the host computes of a kept set or of a text, without a request. A sampler on the
 * host (cls_context_create_host()) makes all other calls without a device.
 *
 * These functions have no state, and any thread may call them at any time, also after fork(). */
#ifndef CLSAMPLE_HOST_H
#define CLSAMPLE_HOST_H

#include "draft.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One row's candidates for cls_host_draw(): the lists of cls_outputs.kept, or what the host has
 * left of them. Entries whose id is outside the vocabulary, or whose logit is NaN or -inf, are no
 * candidates. An id that occurs twice may be drawn by either entry. A candidate's weight is
 * e^logit, so the caller divides the logits by the temperature first, or passes the logarithms of
 * probabilities. The weights may have any sum. */
typedef struct cls_host_candidates {
    size_t struct_size;
    const int32_t *ids;          /* [count] */
    const float *logits;         /* [count] */
    uint32_t count;              /* up to 1,048,576 */
    uint32_t vocab;              /* 1 to 1,048,576; default 1,048,576 */
    uint64_t seed, stream;       /* as in cls_params */
    uint32_t position;           /* of this draw */
    uint32_t draw;               /* as cls_step.draws */
    const uint64_t *random_bits; /* 64 random bits in place of Philox's; NULL: Philox */
} cls_host_candidates;

CLS_INIT_FUNCTION(cls_host_candidates)

/* Sets *token to a token that is drawn from the candidates in the order of the list, and to -1 if
 * there is no candidate. The random number is that of cls_sample() at the same seed, stream,
 * position and draw, and the token is the same on every machine. Its distribution is that of
 * cls_sample(), but it is not the token that cls_sample() draws from these candidates, because
 * cls_sample() orders and rounds them differently. cls_accept() enters the token into the slot.
 * Does not allocate.
 * CLS_OK; CLS_BAD_ARGUMENT. */
CLS_API CLS_WARN_UNUSED cls_status cls_host_draw(const cls_host_candidates *candidates,
                                                 int32_t *token);

/* A text in which a watermark may be. */
typedef struct cls_watermark_call {
    size_t struct_size;
    cls_ids output;   /* the output alone, from its first token on; no id is negative */
    uint32_t context; /* watermark_context of cls_params, 1 to 64; there is no default */
    int32_t rule;     /* watermark_rule: a cls_watermark_rule; default CLS_WATERMARK_VLLM */
    uint64_t key;     /* watermark_key of cls_params */

    /* Only with CLS_WATERMARK_SGLANG: watermark_key_b and watermark_mixing, of which the latter has
     * no effect without the former (defaults 0 and 0.5), and what was before the output, of which
     * the last `context` ids count. Without a prompt the first `context` tokens are not counted. */
    uint64_t key_b;
    cls_ids prompt;
    float mixing;

    uint32_t reserved; /* 0 */
} cls_watermark_call;

CLS_INIT_FUNCTION(cls_watermark_call)

/* What a text has of a watermark. */
typedef struct cls_watermark_score {
    size_t struct_size;
    uint32_t scored;   /* tokens that count: of each context the first token after it, of SGLang's
                          4,096 contexts at most */
    uint32_t reserved; /* 0 */
    double score;      /* the sum of -ln(1 - u) over these */

    /* The probability that a text without the watermark has this score or a larger one:
     * Q(scored, score), the tail of the gamma distribution. vLLM calls a text marked if it is at
     * most 0.01. Texts of one template may exceed that rate, since their tokens are not
     * independent. */
    double p_value;
} cls_watermark_score;

CLS_INIT_FUNCTION(cls_watermark_score)

/* Looks for the watermark of cls_params in a text. vLLM with its single key makes the same one, and
 * SGLang the one of its rule. *score was initialized. Allocates 21 bytes for each id of the output
 * for the time of the call.
 * CLS_OK; CLS_BAD_ARGUMENT: an id is negative, among others; CLS_OUT_OF_MEMORY. */
CLS_API CLS_WARN_UNUSED cls_status cls_watermark_detect(const cls_watermark_call *call,
                                                        cls_watermark_score *score);

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_HOST_H */
