/* SPDX-License-Identifier: MIT */
/* clsample: the sampling parameters of a request. */
#ifndef CLSAMPLE_PARAMS_H
#define CLSAMPLE_PARAMS_H

#include "chain.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One request's sampling parameters. cls_params_init() makes them neutral: temperature 1, no
 * truncation, no penalties, and always the seed 0: give each request a seed of its own. Where a
 * value is "refused", calls with it return CLS_BAD_ARGUMENT. A parameter that is "off" has no
 * effect. chain.h has the order in which they apply. */
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

    /* Keep the smallest set of most likely tokens whose probability, among the tokens that the
     * stages before it kept, reaches top_p. Equal tokens enter it by ascending ids. 1: off
     * (default). 0 or less keeps one token. Above 1 or NaN: refused. (Holtzman et al. 2020) */
    float top_p;

    /* Keep the tokens that are at least min_p times as likely as the most likely one; 1 keeps only
     * the most likely ones. 0: off (default). Outside [0, 1] or NaN: refused. (Nguyen et al. 2024)
     */
    float min_p;

    /* The position of the request's first output token. Positions are the counter of the random
     * numbers. cls_slot_begin() reads this field, and the slot counts on from it. Default 0. */
    uint32_t position;

    /* The same seed, stream and position draw the same random number on every device and in every
     * batch. Streams distinguish requests that share a seed. The generator is Philox4x32-10 (Salmon
     * et al. 2011) with key = seed and counter = (position, purpose, stream low, stream high).
     * Defaults 0. cls_params_init() draws no seed, so that requests whose seeds are not set draw
     * the same tokens from the same logits. The caller draws a seed where none is given, and keeps
     * it to repeat the text. 0 is a seed like any other. */
    uint64_t seed;
    uint64_t stream;

    /* Repetition: the logit of a token that occurs in the prompt or the output is divided by the
     * penalty if it is positive and multiplied by it otherwise, once, however often the token
     * occurs (Keskar et al. 2019). 1: off (default). Below 1e-30, above 1e30 or NaN: refused.
     * Frequency: the penalty times the number of occurrences is subtracted. Presence: the penalty
     * is subtracted if the token occurs. 0: off (default). Beyond +-1e30 or NaN: refused. */
    float repetition_penalty;
    float frequency_penalty;
    float presence_penalty;
    int32_t penalty_scope; /* a cls_penalty_scope; default CLS_SCOPE_OUTPUT */

    /* The three penalties count only this many of the latest tokens of prompt and output together
     * (llama.cpp's repeat_last_n). More than the sampler's `max_history`, or 16,384: refused. 0:
     * all tokens (default). */
    uint32_t penalty_window;

    /* The window of each penalty, of at most 16,384 tokens; 0: penalty_window (default). One that
     * is shorter than another penalty's is at most CLS_MAX_OWN_WINDOW, or the parameters are
     * refused: a step looks through it. (mlx-lm's repetition_context_size, frequency_context_size
     * and presence_context_size) */
    uint32_t repetition_window;
    uint32_t frequency_window;
    uint32_t presence_window;

    /* The request stops when one of these ids becomes its latest output token and the output has at
     * least min_tokens tokens, or min_tokens does not apply. Any number of ids. */
    cls_ids stop_ids;

    /* Any number of biases; those of an id that occurs several times are added. +inf and NaN:
     * refused. A request with biases takes 1/4 byte of device memory for each token of the
     * vocabulary and 4 bytes for each id, and with more than vocab / 128 biases 4 1/8 bytes for
     * each token; one with allowed_ids takes 1/8 byte for each token. */
    cls_biases logit_bias;

    /* Ids that repetition, frequency and presence penalty spare, any number of them: newlines, or
     * the digits and the punctuation of JSON. They count as all others do, so that a change of the
     * list has effect at once. */
    cls_ids penalty_exempt_ids;

    /* Ids that XTC does not remove, any number of them: newlines and ends of text. Where it would
     * remove one of them, it removes no token. (text-generation-webui's rule) */
    cls_ids xtc_exempt_ids;

    /* The chain of CLS_CHAIN_CUSTOM: each stage at most once, ended by CLS_STAGE_END or by the end
     * of the array. A stage whose parameter is set must occur. Other chains: empty (default). */
    uint8_t stages[CLS_CHAIN_LENGTH];

    /* Dynamic temperature: the temperature of the n tokens that are left, with entropy H, is
     * low + (high - low) * (H / ln n)^exponent, where low = max(0, temperature - range) and
     * high = temperature + range. If one token is left, it is `temperature`. If the result is below
     * 1e-5, only the most likely token stays. Range 0: off (default). Refused are a range outside
     * [0, 1e30], a temperature above 1e30 with a range, and an exponent outside [0, 1024]. Default
     * exponent 1. (llama.cpp's temp_ext) */
    float dynatemp_range;
    float dynatemp_exponent;

    /* Keep the tokens whose logit is at least max - top_n_sigma * sigma, where max is the largest
     * logit that is left and sigma the (population) standard deviation of the logits that are left.
     * 0 or less: off (default 0). Above 1e6 or NaN: refused. (Tang et al. 2024) */
    float top_n_sigma;

    /* Keep the tokens whose information is nearest to the entropy until their probability exceeds
     * typical_p. Of two equally near tokens the likelier one comes first, of two equal ones the
     * lower id. 1: off (default). Above 1 or NaN: refused; 0 or less keeps one token.
     * (Meister et al. 2022) */
    float typical_p;

    /* With probability xtc_probability, drop all tokens whose probability is at least xtc_threshold
     * except the least likely of them. A separate random number decides. Probability 0 or a
     * threshold above 0.5: off. Defaults 0 and 0.1. Outside [0, 1] or NaN: refused. (llama.cpp's
     * XTC) */
    float xtc_probability;
    float xtc_threshold;

    /* 1: keep the tokens whose probability is at least the sum of the squares of all probabilities.
     * 0: off (default). (p-less sampling, Tan et al. 2025) */
    int32_t p_less;

    /* After every output token top_p is multiplied by top_p_decay, but not below top_p_min; the
     * token top_p_reset_id restores it. 1: off (default). Refused are a decay or minimum outside
     * (0, 1], and an id that is no token, except -1, which is none. Default minimum 1e-6; default
     * id -1. These parameters have an effect only if top_p is below 1. (TensorRT-LLM) */
    float top_p_decay;
    float top_p_min;
    int32_t top_p_reset_id;

    /* 1: keep tokens as llama.cpp's infill sampler does, with the tables of cls_sampler_infill().
     * To decide which tokens stay, the probability of a token is merged with those of the tokens
     * that it is a prefix of; the tokens that stay keep their own probabilities. If more than 128
     * tokens, or more than the shortlist holds, are left at this stage, the row gets CLS_ROW_UNFIT
     * and no token. If only the first end id would remain and that is masked, the row gets
     * CLS_ROW_EMPTY. Default 0. */
    int32_t infill;

    /* 1 or 2: Mirostat of that version (Basu et al. 2021). The chain is then the temperature and
     * Mirostat, and all truncations above are off. tau is the target surprise in bits, [0, 100];
     * eta is the learning rate, [0, 100]. The slot keeps Mirostat's mu, which begins at 2 tau and
     * is updated when the drawn token is accepted. 0: off. Defaults 0, 5, 0.1. */
    int32_t mirostat;
    float mirostat_tau;
    float mirostat_eta;

    /* Adaptive p: after the chain, the draw prefers tokens whose probability is near a moving
     * value. That value follows from the earlier draws, so that the drawn probabilities are
     * adaptive_target on average. Below 0: off (default -1). Above 1 or NaN: refused.
     * adaptive_decay, [0, 0.99], is the factor by which the weight of an earlier draw in that
     * average decreases with each token; default 0.9. Mirostat turns adaptive p off. (llama.cpp's
     * adaptive_p) */
    float adaptive_target;
    float adaptive_decay;

    /* The least number of tokens that a truncation keeps. Top-k, infill and Mirostat ignore it.
     * Default 1; 0 means 1. */
    uint32_t min_keep;

    /* DRY: multiplier * base^(n - allowed length) is subtracted from the logit of a token that
     * would continue a repetition of length n, if n is at least the allowed length. Repetitions are
     * searched for in the last dry_window tokens of prompt and output. 0 (default): in the
     * sampler's `max_history` tokens, of which DRY sees at most 16,384. More than that: refused.
     * They do not reach beyond the last sequence breaker, and breakers of one token are not
     * penalised. Multiplier 0 (default) or base below 1: off. A negative multiplier rewards
     * repetition. A multiplier beyond +-1e30, a base above 1e30 and NaN are refused. Default base
     * 1.75, allowed length 2. (p-e-w's DRY, as in llama.cpp) */
    float dry_multiplier;
    float dry_base;
    uint32_t dry_allowed_length;
    uint32_t dry_window;
    cls_sequences dry_breakers;

    /* Ban each token that would repeat an n-gram of this many tokens, which occurs in the last
     * `max_history` tokens (at most 16,384), or in those that ngram_window and ngram_output_only
     * select. 1 bans all of these. Above `max_history`, or 16,384: refused. 0: off (default). */
    uint32_t no_repeat_ngram;

    /* Sequences that must not occur in the output: the last id of a sequence is banned while the
     * output ends with the ids before it. A sequence with more than `max_history` + 1 ids, or more
     * than 16,385, is refused. */
    cls_sequences bad_words;

    /* The stop ids are banned until the output has min_tokens tokens. A stop id that enters the
     * output in another way (cls_accept(), cls_slot_begin()'s output) stops the request only if the
     * output, including this id, has at least min_tokens tokens. max_tokens stops the request in
     * any case. Default 0. It does not apply where only ends are left, since nothing could follow:
     * if allowed_ids holds ids and all of them are stop ids, or if the grammar's state and
     * allowed_ids together allow only end ids and stop ids. A stop id that such a state allows ends
     * the text, and with it the request. A step's mask, biases and other bans are not considered:
     * if they forbid all other ids, the row is CLS_ROW_EMPTY. */
    uint32_t min_tokens;

    /* The number of output tokens after which the request stops. Accepted tokens and those of
     * cls_slot_begin()'s `output` count as well. 0: no limit (default). */
    uint32_t max_tokens;

    /* Only these ids may be drawn, any number of them; they cost as much as a mask. An empty list
     * allows all tokens, unless only_allowed is 1: then none is allowed, and the rows are
     * CLS_ROW_EMPTY. A list that is not empty implies only_allowed; set it to 1 where the list may
     * be empty. */
    cls_ids allowed_ids;
    int32_t only_allowed; /* 0 (default) or 1; anything else is refused */

    /* Keep the tokens whose probability is at least top_a times the square of the largest
     * probability that is left. A peaked row keeps fewer tokens than a flat one. 0: off (default).
     * Outside [0, 1] or NaN: refused. (BlinkDL's top-a) */
    float top_a;

    /* Thinking budget: the thinking of a reasoning model ends after thinking_budget tokens. It
     * begins when the text, prompt and output together, ends with the ids of thinking_start (at the
     * beginning of the request if that is empty), and ends when the text ends with one of
     * thinking_ends, at most CLS_MAX_THINKING_ENDS sequences: beside "</think>" it may be what
     * begins a tool call, which no budget interrupts then. With a grammar the thinking begins only
     * where the last id of thinking_start is prompt, so that no string of the output turns the
     * grammar off. Output tokens in between count. When thinking_budget of them have followed
     * without an end, the next rows emit the ids of thinking_forced, one after another, and
     * sampling continues after the last one. A budget of 0 forces it at once, unless loop_action
     * ends the thinking. doc/requests.md, "Thinking budgets", has the details. An empty
     * thinking_forced is off (default). A budget is then refused. So are a start and an end, unless
     * relaxed_top_k or a grammar uses them: a grammar does not apply while the request thinks.
     * Refused are also a budget above 2,147,483,647, and a thinking_start or an end longer than the
     * sampler's `max_history` + 1. (vLLM's thinking_token_budget, TensorRT-LLM's and SGLang's
     * thinking-budget processors) */
    cls_ids thinking_start;
    cls_sequences thinking_ends;
    cls_ids thinking_forced;
    uint32_t thinking_budget;

    /* Loop stop: the request stops, with CLS_ROW_LOOP, when its output ends with loop_repeats
     * copies of the same n tokens, for any n from loop_min to loop_max. Only output tokens since
     * the last chunk of prompt count. loop_repeats 0: off (default); 1 is refused. loop_min and
     * loop_max: 1 to CLS_MAX_LOOP, loop_min at most loop_max; defaults 1 and 32. loop_max times
     * loop_repeats must not exceed the sampler's `max_history`. (vLLM's repetition detection) */
    uint32_t loop_repeats;
    uint32_t loop_min;
    uint32_t loop_max;

    /* The grammar that the output follows, and the state in which it begins; NULL: none (default).
     * Rows draw only ids that the grammar, allowed_ids and the step's mask allow. The slot keeps
     * the grammar, which may be destroyed after the call. One of another vocabulary than the
     * sampler's is refused, and so is a state that it does not have, or one without a grammar.
     * min_tokens bans an end id of the grammar only if stop_ids has it. A request with min_tokens
     * takes a bit of device memory for each state of its grammar. */
    const cls_grammar *grammar;
    uint32_t grammar_state;

    /* Where no_repeat_ngram looks for n-grams. ngram_window: in this many of the latest tokens. 0:
     * in all (default); more than the sampler's `max_history`, or 16,384: refused.
     * ngram_output_only: 1: in the output tokens since the last chunk of prompt; 0: in prompt and
     * output (default). ngram_exempt_ids, any number of ids, are never banned by it. (The rule of
     * DeepSeek-OCR and vLLM's window_size and whitelist_token_ids) */
    uint32_t ngram_window;
    int32_t ngram_output_only;
    cls_ids ngram_exempt_ids;

    /* Relaxed acceptance: while the request thinks (between thinking_start and an end of it), a
     * verification accepts a draft if it is in the row's final set, fewer than relaxed_top_k tokens
     * of the set are likelier, and its probability is at least that of the likeliest less
     * relaxed_delta. It also accepts the row's own draw, which replaces the first draft that it
     * does not accept. A greedy row is judged by all tokens that it may take, at temperature 1.
     * Not lossless; elsewhere the call's method decides. doc/requests.md has the details.
     * relaxed_top_k 0: off (default); a delta is refused then. relaxed_delta: 0 (default) to 1.
     * (TensorRT-LLM's relaxed_topk and relaxed_delta) */
    uint32_t relaxed_top_k;
    float relaxed_delta;

    /* Watermark: the draw takes the token of the row's final set that minimises -ln(u) / p, where p
     * is the token's probability and u a number in (0, 1) that follows from the key, the token and
     * the last watermark_context ids; cls_watermark_detect() finds that in a text. Over all keys
     * such tokens follow the row's distribution (Gumbel's trick). Neither seed nor position decides
     * them, and several rows or `draws` of one slot give one token. Greedy requests, forced ids and
     * the tokens of cls_host_draw() are not marked. A row is drawn as usual, too, if its context
     * already came before one of the 8,192 latest output tokens that the history (`max_history`)
     * still holds. 0: off (default); the fields below must have their defaults then.
     * Refused are more than 64 ids or more than `max_history`, and beside a watermark Mirostat,
     * adaptive p, relaxed_top_k, steps with random_bits, and drafts that are verified by a method
     * other than CLS_VERIFY_MATCH, which marks each token. watermark_rule: a cls_watermark_rule;
     * default CLS_WATERMARK_VLLM. */
    uint32_t watermark_context;
    int32_t watermark_rule;
    uint64_t watermark_key;

    /* Only with CLS_WATERMARK_SGLANG. watermark_key_b: a second key; 0: none (default). Each
     * context takes the first key with the probability watermark_mixing, which is above 0 and below
     * 1; without a second key another than the default, 0.5, is refused.
     * watermark_max_probability: rows whose likeliest token has more than this probability in the
     * final set are drawn as usual; above 0 and at most 1 (default: none of them). */
    uint64_t watermark_key_b;
    float watermark_mixing;
    float watermark_max_probability;

    /* What a loop that loop_repeats finds does: a cls_loop_action. With CLS_LOOP_END_THINKING only
     * loops within the output tokens of the open thinking section count. They get CLS_ROW_LOOP
     * without CLS_ROW_STOPPED, and the next rows emit the ids of thinking_forced, as when a budget
     * is used up. The next section is watched again. A thinking_budget of 0 is then none, and an
     * empty thinking_forced or a loop_repeats of 0 is refused. Default CLS_LOOP_STOP. */
    int32_t loop_action;

    /* What a stop id does while the request thinks, where some models end their text without an
     * answer: a cls_stop_action. With CLS_STOP_BANNED it is banned. With CLS_STOP_END_THINKING it
     * ends the thinking: it is drawn and does not stop the request, and the next rows emit the ids
     * of thinking_forced, as when a budget is used up; a thinking_budget of 0 is then none. In both
     * cases a stop id that enters the output in another way stops the request only if the request
     * does not think after it. Refused are an empty stop_ids, CLS_STOP_END_THINKING with an empty
     * thinking_forced, and drafts that are verified by a method other than CLS_VERIFY_MATCH.
     * Default CLS_STOP_REQUEST. */
    int32_t stop_action;

    /* Parameters by phase: rows outside the thinking (before thinking_start, which is needed, as
     * thinking_ends are, and behind its end) are drawn by those of post_thinking, which is
     * copied: chain and stages, temperature, dynatemp, truncations, min_keep, and repetition,
     * frequency and presence penalty. Its other fields must have their defaults, since those of the
     * request hold for both. Rows behind drafts have phases as their text has. Refused beside it:
     * thinking_forced, Mirostat, adaptive p, top_p_decay, and drafts not verified by
     * CLS_VERIFY_MATCH if one phase alone is greedy. NULL: none (default). (of vLLM) */
    const struct cls_params *post_thinking;
} cls_params;

#define CLS_MAX_LOOP 1024       /* tokens of a loop */
#define CLS_MAX_OWN_WINDOW 128  /* tokens, where another penalty's window is longer */
#define CLS_MAX_THINKING_ENDS 8 /* sequences that end the thinking */

CLS_INIT_FUNCTION(cls_params)

/* Checks the ranges of parameters and the ids in them, for a vocabulary of `vocab` tokens.
 * cls_sampler_check() also checks that a sampler's options allow them. Any thread may call this.
 * CLS_OK; CLS_BAD_ARGUMENT: the message names the field. */
CLS_API CLS_WARN_UNUSED cls_status cls_params_check(const cls_params *params, uint32_t vocab);

/* Sets *max_history to the number of the latest tokens that the parameters look at: the least
 * `max_history` of a sampler that has the whole effect of the penalties' windows, dry_window,
 * ngram_window, no_repeat_ngram, loop_repeats, bad_words, the ids of thinking and
 * watermark_context. DRY and no_repeat_ngram without a window look at all tokens that the history
 * keeps, and a watermark looks for repeated contexts there: they gain from a longer one. A runtime
 * takes the largest number of its requests. Ranges are not checked. Any thread may call this.
 * CLS_OK; CLS_BAD_ARGUMENT: a pointer is NULL, or params->struct_size is wrong. */
CLS_API CLS_WARN_UNUSED cls_status cls_params_history(const cls_params *params,
                                                      uint32_t *max_history);

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_PARAMS_H */
