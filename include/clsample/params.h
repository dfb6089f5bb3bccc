/* SPDX-License-Identifier: MIT */
/* clsample: the sampling parameters of a request. */
#ifndef CLSAMPLE_PARAMS_H
#define CLSAMPLE_PARAMS_H

#include "chain.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The tokens that count for the frequency and the presence penalty. The repetition penalty always
 * takes prompt and output. */
typedef enum cls_penalty_scope {
    CLS_SCOPE_OUTPUT = 0, /* the output (OpenAI, vLLM) */
    CLS_SCOPE_ALL = 1     /* prompt and output (llama.cpp, TensorRT-LLM) */
} cls_penalty_scope;

typedef struct cls_logit_bias {
    int32_t id;
    float bias; /* added to the logit; -inf bans the token */
} cls_logit_bias;

/* Consecutive token ids, all in the vocabulary. */
typedef struct cls_sequence {
    const int32_t *ids; /* [count] */
    uint32_t count;     /* at least 1 */
} cls_sequence;

/* One request's sampling parameters. A call with a value that is refused returns
 * CLS_BAD_ARGUMENT. */
typedef struct cls_params {
    size_t struct_size;
    int32_t chain; /* a cls_chain; default CLS_CHAIN_DEFAULT */

    /* Logits are divided by the temperature. Default 1. Below 1e-5, including 0, the row is greedy:
     * it takes its largest logit, the lowest id among equal ones, and the truncations have no
     * effect. Negative, infinite or NaN: refused. */
    float temperature;

    /* Keep exactly the top_k most likely tokens; of equal tokens at the boundary the lower ids are
     * kept. 0, negative or at least vocab: off. Default 0. */
    int32_t top_k;

    /* Keep the smallest set of most likely tokens (lower ids first among equal ones) whose
     * probability reaches top_p of what the stages before it kept. 1: off (default). 0 or less
     * keeps one token. Above 1 or NaN: refused. (Holtzman et al. 2020) */
    float top_p;

    /* Keep the tokens that are at least min_p times as likely as the most likely one; 1 keeps only
     * the most likely ones. 0: off (default). Outside [0, 1] or NaN: refused. (Nguyen et al. 2024)
     */
    float min_p;

    /* The position of the request's first output token, which is the counter of the random numbers.
     * cls_slot_begin() reads it; the slot counts from there on. Default 0. */
    uint32_t position;

    /* The same seed, stream and position draw the same random number on every device and in every
     * batch. Streams distinguish requests that share a seed. The generator is Philox4x32-10
     * (Salmon et al. 2011) with key = seed and counter = (position, purpose, stream low, stream
     * high). Defaults 0. */
    uint64_t seed;
    uint64_t stream;

    /* A row's logits are changed before the chain in this order: the mask, the step's dense bias,
     * the logit bias, then these three penalties. After each of these a value is limited to the
     * finite floats. A masked or banned token stays out, whatever follows.
     *
     * Repetition: the logit of a token that occurs in the prompt or the output is divided by the
     * penalty if it is positive and multiplied by it otherwise, once, however often the token
     * occurs (Keskar et al. 2019). 1: off (default). Below 1e-30, above 1e30 or NaN: refused.
     * Frequency: the penalty times the number of occurrences is subtracted. Presence: the penalty
     * is subtracted if the token occurs. 0: off (default). Beyond +-1e30 or NaN: refused. */
    float repetition_penalty;
    float frequency_penalty;
    float presence_penalty;
    int32_t penalty_scope; /* a cls_penalty_scope; default CLS_SCOPE_OUTPUT */

    /* All three penalties count only this many of the latest tokens of prompt and output together
     * (llama.cpp's repeat_last_n), at most the sampler's `history`. 0: all tokens (default). */
    uint32_t penalty_window;

    /* The number of output tokens after which the request stops. Accepted tokens and those of
     * cls_slot_begin()'s `output` count as well. 0: no limit (default). */
    uint32_t max_tokens;

    /* The request stops with the first of these ids: when its latest token is an output token and
     * one of them, and the output has at least min_tokens tokens. int32 [stop_count], any number of
     * them; NULL with 0 (default). */
    const int32_t *stop_ids;
    uint32_t stop_count;

    /* [logit_bias_count], any number of them; the biases of an id that occurs several times are
     * added. +inf and NaN: refused. NULL with 0 (default). */
    uint32_t logit_bias_count;
    const cls_logit_bias *logit_bias;

    /* The chain of CLS_CHAIN_CUSTOM: each stage at most once, ended by CLS_STAGE_END or by the end
     * of the array. A stage whose parameter is set must occur. Default: empty. */
    uint8_t stages[CLS_CHAIN_LENGTH];

    /* Dynamic temperature: the temperature of the n tokens that are left, with entropy H, is
     * low + (high - low) * (H / ln n)^exponent, where low = max(0, temperature - range) and
     * high = temperature + range; of one token it is `temperature`. If the result is below 1e-5,
     * only the most likely token stays. Range 0: off (default). A negative, infinite or NaN range
     * and an exponent outside [0, 1024] are refused. Default exponent 1. (llama.cpp's temp_ext) */
    float dynatemp_range;
    float dynatemp_exponent;

    /* Keep the logits of at least max - top_n_sigma * (the standard deviation of the tokens that
     * are left, as a population). 0 or less: off (default 0). Above 1e6 or NaN: refused.
     * (Tang et al. 2024) */
    float top_n_sigma;

    /* Keep the tokens whose information is nearest to the entropy until their probability exceeds
     * typical_p. Of two equally near tokens the likelier one comes first, of two equal ones the
     * lower id. 1: off (default). Above 1 or NaN: refused; 0 or less keeps one token.
     * (Meister et al. 2022) */
    float typical_p;

    /* With this probability, drawn from a separate random stream, drop all tokens that are at least
     * as likely as the threshold except the least likely of them. Probability 0 or a threshold
     * above 0.5: off. Defaults 0 and 0.1. Outside [0, 1] or NaN: refused. (llama.cpp's XTC) */
    float xtc_probability;
    float xtc_threshold;

    /* 1: keep the tokens that are at least as likely as the sum of the squared probabilities.
     * 0: off (default). (p-less sampling, Tan et al. 2025) */
    int32_t p_less;

    /* After every output token top_p is multiplied by top_p_decay, but not below top_p_min; the
     * token top_p_reset_id restores it. 1: off (default). A decay or minimum outside (0, 1] is
     * refused. Default minimum 1e-6; default reset id -1, which is none. These parameters need a
     * top_p below 1. (TensorRT-LLM) */
    float top_p_decay;
    float top_p_min;
    int32_t top_p_reset_id;

    /* 1: keep tokens as llama.cpp's infill sampler does, with the tables of cls_sampler_infill().
     * Merged probabilities decide which tokens stay; the tokens that stay keep their own. If more
     * than 128 tokens, or more than the shortlist holds, are left at this stage, the row gets
     * CLS_ROW_UNFIT and no token; if only the first end id would remain and that is masked, it gets
     * CLS_ROW_EMPTY. Default 0. */
    int32_t infill;

    /* 1 or 2: Mirostat (Basu et al. 2021), with adaptive state: the chain is then the temperature
     * and Mirostat, and the other truncations have no effect. tau is the target surprise in bits,
     * [0, 100]; eta is the learning rate, [0, 100]. mu begins at 2 tau and is updated when the
     * drawn token is accepted. Defaults 0, 5, 0.1. */
    int32_t mirostat;
    float mirostat_tau;
    float mirostat_eta;

    /* Adaptive p: after the chain, tokens are drawn by the distance of their probability from one
     * that keeps the average of the drawn probabilities at the target. Below 0: off (default -1).
     * Above 1 or NaN: refused. The decay, [0, 0.99], says how slowly the average forgets;
     * default 0.9. (llama.cpp's adaptive_p) */
    float adaptive_target;
    float adaptive_decay;

    /* The fewest tokens that a truncation leaves, except top-k and infill. Default 1; 0 means 1. */
    uint32_t min_keep;

    /* DRY: multiplier * base^(n - allowed length) is subtracted from the logit of a token that
     * would continue a repetition of length n, if n is at least the allowed length. Repetitions are
     * found in the last dry_window tokens of prompt and output (0, the default: as many as the
     * sampler's `history`). They do not reach beyond the last sequence breaker, and breakers of one
     * token are not penalised. Multiplier 0 (default) or base below 1: off. A negative multiplier
     * rewards repetition. Beyond +-1e30 or NaN: refused. Default base 1.75, allowed length 2.
     * (p-e-w's DRY, as in llama.cpp) */
    float dry_multiplier;
    float dry_base;
    uint32_t dry_allowed_length;
    uint32_t dry_window;
    const cls_sequence *dry_breakers; /* [dry_breaker_count]; NULL with 0 (default) */
    uint32_t dry_breaker_count;

    /* Ban a token that would repeat an n-gram, of this many tokens, of the last `history` tokens;
     * 1 bans all of these tokens. 0: off (default). */
    uint32_t no_repeat_ngram;

    /* Sequences that must not occur in the output: the last id of a sequence is banned while the
     * output ends with the ids before it. */
    uint32_t bad_word_count;
    const cls_sequence *bad_words;

    /* The stop ids are banned from the first min_tokens tokens of the output. A stop id that enters
     * the output in another way (cls_accept(), cls_slot_begin()'s output) stops the request only if
     * the output then has at least min_tokens tokens. max_tokens stops in any case. Default 0. */
    uint32_t min_tokens;

    /* Only these ids may be drawn: int32 [allowed_count], any number of them; they cost as much as
     * a mask. NULL with 0 (default) allows all tokens, unless only_allowed is 1: then none is
     * allowed, and the rows are CLS_ROW_EMPTY. A count above 0 implies only_allowed; set it to 1
     * where the list may be empty. Either needs a sampler with options->logit_bias. */
    uint32_t allowed_count;
    const int32_t *allowed_ids;
    int32_t only_allowed; /* 0 (default) or 1; anything else is refused */

    /* Keep the tokens whose probability is at least top_a times the square of the largest
     * probability that is left. A peaked row keeps fewer tokens than a flat one. 0: off (default).
     * Outside [0, 1] or NaN: refused. (BlinkDL's top-a) */
    float top_a;
} cls_params;

/* Sets neutral parameters: temperature 1, no truncation, no penalties, seed 0. struct_size is
 * sizeof(cls_params) as the caller's header defines it. */
CLS_API void cls_params_default(cls_params *params, size_t struct_size);
CLS_INIT_FUNCTION(cls_params)

/* Checks parameters for a vocabulary without using them. Whether a sampler was created for them is
 * reported by cls_sampler_check() instead. Any thread may call this.
 * CLS_OK; CLS_BAD_ARGUMENT: the message names the field. */
CLS_API CLS_WARN_UNUSED cls_status cls_params_check(const cls_params *params, uint32_t vocab);

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_PARAMS_H */
