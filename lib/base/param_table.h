/* SPDX-License-Identifier: MIT */
/* The parameters of a request and the stages of its chain, each described once. The library takes
 * from here the defaults, the checks and the saved fields; the command takes its options, its JSON
 * keys and its help. tests/unit/check_table compares the struct with it, and
 * tests/command/check_pages.sh the help and the page of clsample-sample. */
#ifndef CLS_PARAM_TABLE_H
#define CLS_PARAM_TABLE_H

#include "clsample.h"

#include <float.h>
#include <math.h>

/* X(p, id, TYPE, field, STAGE, phase, default, least, most, range, option, meta, help)
 *
 * id: the number of the saved field. Numbers are assigned in the order in which parameters are
 *     added. Numbers and defaults never change, because a saved slot omits the last fields if they
 *     have their defaults. 0: the field is not saved, or saved elsewhere.
 * TYPE: FLOAT, INT, UINT and UINT64 are numbers. SWITCH is an int32_t that is 0 or 1; CHOICE is an
 *     int32_t that numbers the words of meta; BYTES is an array.
 * STAGE: the stage that the parameter belongs to; END: none.
 * phase: EACH: post_thinking has a value of its own. BOTH: the request's value holds there, too.
 * range: the end of the message for a value that is not from least to most. NULL: any value is
 *     valid.
 * option: the name of the command's option. This name with underscores and the field's name are
 *     the JSON keys.
 *
 * A group is a section of the command's help, in the order of its rows. p is passed on to X
 * unchanged. */
/* clang-format off */
#define CLS_TEMPERATURE_PARAMS(X, p) \
    X(p, 2, FLOAT, temperature, TEMPERATURE, EACH, 1, 0, FLT_MAX, \
      "0 (greedy) or more, and finite", \
      "temperature", "T", "divide the logits by T; 0 selects the likeliest token (default 1)") \
    X(p, 14, FLOAT, dynatemp_range, TEMPERATURE, EACH, 0, 0, 1e30f, "0 (off) to 1e30", \
      "dynatemp-range", "R", \
      "vary the temperature from T - R to T + R by the entropy (default 0: off)") \
    X(p, 15, FLOAT, dynatemp_exponent, TEMPERATURE, EACH, 1, 0, 1024, "between 0 and 1024", \
      "dynatemp-exp", "E", \
      "raise the relative entropy to the power E for --dynatemp-range (default 1)")

#define CLS_TRUNCATION_PARAMS(X, p) \
    X(p, 3, INT, top_k, TOP_K, EACH, 0, 0, 0, NULL, \
      "top-k", "K", "keep the K likeliest tokens (default 0: off)") \
    X(p, 4, FLOAT, top_p, TOP_P, EACH, 1, -INFINITY, 1, "at most 1 (off)", \
      "top-p", "P", \
      "keep the likeliest tokens until their probabilities sum to P (default 1: off)") \
    X(p, 21, FLOAT, top_p_decay, TOP_P, BOTH, 1, 0x1p-149, 1, "above 0 and at most 1 (off)", \
      "top-p-decay", "D", "multiply top-p by D after every token (default 1: off)") \
    X(p, 22, FLOAT, top_p_min, TOP_P, BOTH, 1e-6f, 0x1p-149, 1, "above 0 and at most 1", \
      "top-p-min", "P", "the least top-p that --top-p-decay leads to (default 1e-6)") \
    X(p, 23, INT, top_p_reset_id, TOP_P, BOTH, -1, 0, 0, NULL, \
      "top-p-reset-id", "ID", \
      "the token after which top-p has its first value again (default -1: none)") \
    X(p, 5, FLOAT, min_p, MIN_P, EACH, 0, 0, 1, "between 0 (off) and 1", \
      "min-p", "P", "keep tokens at least P times as likely as the likeliest (default 0: off)") \
    X(p, 44, FLOAT, top_a, TOP_A, EACH, 0, 0, 1, "between 0 (off) and 1", \
      "top-a", "A", \
      "keep tokens of probability at least A * (largest probability)^2 (default 0: off)") \
    X(p, 16, FLOAT, top_n_sigma, TOP_N_SIGMA, EACH, 0, -INFINITY, 1e6f, \
      "at most 1e6; 0 or less is off", \
      "top-n-sigma", "N", \
      "keep logits within N standard deviations of the largest (default 0: off)") \
    X(p, 17, FLOAT, typical_p, TYPICAL_P, EACH, 1, -INFINITY, 1, "at most 1 (off)", \
      "typical", "P", \
      "keep the most typical tokens until their probabilities sum to P (default 1: off)") \
    X(p, 18, FLOAT, xtc_probability, XTC, EACH, 0, 0, 1, "between 0 (off) and 1", \
      "xtc-probability", "P", "with probability P, remove the likeliest tokens (default 0: off)") \
    X(p, 19, FLOAT, xtc_threshold, XTC, EACH, 0.1f, 0, 1, "between 0 and 1; above 0.5 is off", \
      "xtc-threshold", "P", \
      "XTC keeps the least likely token of probability P or more (default 0.1)") \
    X(p, 20, SWITCH, p_less, P_LESS, EACH, 0, 0, 1, "0 or 1", \
      "p-less", NULL, "keep tokens at least as likely as the sum of squares of all probabilities") \
    X(p, 24, SWITCH, infill, INFILL, EACH, 0, 0, 1, "0 or 1", \
      "infill", NULL, "enable the infill stage of llama.cpp; requires --infill-end") \
    X(p, 30, UINT, min_keep, END, EACH, 1, 0, 0, NULL, \
      "min-keep", "N", "all truncations except top-k keep at least N tokens (default 1)")

#define CLS_DRAW_PARAMS(X, p) \
    X(p, 25, INT, mirostat, END, BOTH, 0, 0, 2, "0 (off), 1 or 2", \
      "mirostat", "N", "replace all truncations by Mirostat 1 or 2 (default 0: off)") \
    X(p, 26, FLOAT, mirostat_tau, END, BOTH, 5, 0, 100, "between 0 and 100", \
      "mirostat-ent", "TAU", "the target surprise of Mirostat, in bits (default 5)") \
    X(p, 27, FLOAT, mirostat_eta, END, BOTH, 0.1f, 0, 100, "between 0 and 100", \
      "mirostat-lr", "ETA", "the learning rate of Mirostat (default 0.1)") \
    X(p, 28, FLOAT, adaptive_target, END, BOTH, -1, -INFINITY, 1, "at most 1; below 0 is off", \
      "adaptive-target", "P", \
      "prefer tokens such that their probability is P on average (default -1: off)") \
    X(p, 29, FLOAT, adaptive_decay, END, BOTH, 0.9f, 0, 0.99f, "between 0 and 0.99", \
      "adaptive-decay", "D", "the decay of the average of --adaptive-target (default 0.9)") \
    X(p, 57, UINT, watermark_context, END, BOTH, 0, 0, 64, "0 (off) to 64", \
      "watermark-context", "N", "mark the text, by its last N tokens (default 0: off)") \
    X(p, 58, UINT64, watermark_key, END, BOTH, 0, 0, 0, NULL, \
      "watermark-key", "KEY", "the key of --watermark-context (default 0)") \
    X(p, 67, CHOICE, watermark_rule, END, BOTH, CLS_WATERMARK_VLLM, CLS_WATERMARK_VLLM, \
      CLS_WATERMARK_SGLANG, "CLS_WATERMARK_VLLM (0) or CLS_WATERMARK_SGLANG (1)", \
      "watermark-rule", "vllm|sglang", "whose detector finds the watermark (default vllm)") \
    X(p, 68, UINT64, watermark_key_b, END, BOTH, 0, 0, 0, NULL, \
      "watermark-key-b", "KEY", "the second key of SGLang's rule (default 0: none)") \
    X(p, 69, FLOAT, watermark_mixing, END, BOTH, 0.5f, 0x1p-32f, 1 - FLT_EPSILON / 2, \
      "above 0 and below 1", \
      "watermark-mixing", "P", "the probability of the first of two keys (default 0.5)") \
    X(p, 70, FLOAT, watermark_max_probability, END, BOTH, 1, 0x1p-32f, 1, \
      "above 0 and at most 1 (off)", \
      "watermark-max-probability", "P", \
      "SGLang's rule: do not mark rows with a likelier token (default 1: off)")

#define CLS_PENALTY_PARAMS(X, p) \
    X(p, 8, FLOAT, repetition_penalty, END, EACH, 1, 1e-30f, 1e30f, \
      "above 0 (from 1e-30 to 1e30); 1 is off", \
      "repetition-penalty", "R", \
      "tokens that occurred: divide logits above 0 by R, multiply others (default 1)") \
    X(p, 9, FLOAT, frequency_penalty, END, EACH, 0, -1e30f, 1e30f, \
      "between -1e30 and 1e30; 0 is off", \
      "frequency-penalty", "F", "subtract F from a token's logit for each occurrence (default 0)") \
    X(p, 10, FLOAT, presence_penalty, END, EACH, 0, -1e30f, 1e30f, \
      "between -1e30 and 1e30; 0 is off", \
      "presence-penalty", "P", "subtract P from the logit of a token that occurred (default 0)") \
    X(p, 11, CHOICE, penalty_scope, END, BOTH, CLS_SCOPE_OUTPUT, CLS_SCOPE_OUTPUT, CLS_SCOPE_ALL, \
      "CLS_SCOPE_OUTPUT (0) or CLS_SCOPE_ALL (1)", \
      "penalty-scope", "output|all", \
      "the tokens that the frequency and presence penalties count (default output)") \
    X(p, 12, UINT, penalty_window, END, BOTH, 0, 0, 16384, "at most 16384; 0 is all", \
      "penalty-window", "N", "the penalties consider the last N tokens (default 0: all)") \
    X(p, 64, UINT, repetition_window, END, BOTH, 0, 0, 16384, \
      "at most 16384; 0 is penalty_window", \
      "repetition-window", "N", \
      "the repetition penalty considers the last N tokens (default 0: --penalty-window)") \
    X(p, 65, UINT, frequency_window, END, BOTH, 0, 0, 16384, \
      "at most 16384; 0 is penalty_window", \
      "frequency-window", "N", \
      "the frequency penalty considers the last N tokens (default 0: --penalty-window)") \
    X(p, 66, UINT, presence_window, END, BOTH, 0, 0, 16384, \
      "at most 16384; 0 is penalty_window", \
      "presence-window", "N", \
      "the presence penalty considers the last N tokens (default 0: --penalty-window)") \
    X(p, 31, FLOAT, dry_multiplier, END, BOTH, 0, -1e30f, 1e30f, \
      "between -1e30 and 1e30; 0 is off", \
      "dry-multiplier", "M", \
      "DRY: subtract M * BASE^(length - allowed) for a repetition (default 0: off)") \
    X(p, 32, FLOAT, dry_base, END, BOTH, 1.75f, -INFINITY, 1e30f, "at most 1e30; below 1 is off", \
      "dry-base", "BASE", "the BASE of DRY (default 1.75)") \
    X(p, 33, UINT, dry_allowed_length, END, BOTH, 2, 0, 0, NULL, \
      "dry-allowed-length", "N", \
      "DRY does not penalize repetitions shorter than N tokens (default 2)") \
    X(p, 34, UINT, dry_window, END, BOTH, 0, 0, 16384, "at most 16384; 0 is all", \
      "dry-penalty-last-n", "N", "DRY considers the last N tokens (default 0: all)")

#define CLS_BAN_PARAMS(X, p) \
    X(p, 35, UINT, no_repeat_ngram, END, BOTH, 0, 0, 16384, "at most 16384; 0 is off", \
      "no-repeat-ngram-size", "N", \
      "ban tokens that would repeat a sequence of N tokens (default 0: off)") \
    X(p, 52, UINT, ngram_window, END, BOTH, 0, 0, 16384, "at most 16384; 0 is all", \
      "ngram-window", "N", "--no-repeat-ngram-size considers the last N tokens (default 0: all)") \
    X(p, 53, SWITCH, ngram_output_only, END, BOTH, 0, 0, 1, "0 or 1", \
      "ngram-output-only", NULL, "--no-repeat-ngram-size does not consider the prompt")

#define CLS_STOP_PARAMS(X, p) \
    X(p, 36, UINT, min_tokens, END, BOTH, 0, 0, 0, NULL, \
      "min-tokens", "N", "ban the stop ids until the output has N tokens (default 0)") \
    X(p, 13, UINT, max_tokens, END, BOTH, 0, 0, 0, NULL, \
      "max-tokens", "N", "stop after N output tokens (default 0: no limit)") \
    X(p, 46, UINT, loop_repeats, END, BOTH, 0, 0, 16384, "0 (off) or 2 to 16384", \
      "loop-repeats", "N", "stop when the output ends with N equal sequences (default 0: off)") \
    X(p, 47, UINT, loop_min, END, BOTH, 1, 1, CLS_MAX_LOOP, "1 to 1024", \
      "loop-min", "N", "--loop-repeats looks for sequences of N or more tokens (default 1)") \
    X(p, 48, UINT, loop_max, END, BOTH, 32, 1, CLS_MAX_LOOP, "1 to 1024", \
      "loop-max", "N", "--loop-repeats looks for sequences of up to N tokens (default 32)") \
    X(p, 59, CHOICE, loop_action, END, BOTH, CLS_LOOP_STOP, CLS_LOOP_STOP, CLS_LOOP_END_THINKING, \
      "CLS_LOOP_STOP (0) or CLS_LOOP_END_THINKING (1)", \
      "loop-action", "stop|end-thinking", \
      "whether a loop stops the request or ends its thinking (default stop)") \
    X(p, 61, CHOICE, stop_action, END, BOTH, CLS_STOP_REQUEST, CLS_STOP_REQUEST, \
      CLS_STOP_END_THINKING, \
      "CLS_STOP_REQUEST (0), CLS_STOP_BANNED (1) or CLS_STOP_END_THINKING (2)", \
      "stop-action", "stop|ban|end-thinking", \
      "while thinking, a stop id stops, is banned or ends the thinking (default stop)")

#define CLS_THINKING_PARAMS(X, p) \
    X(p, 45, UINT, thinking_budget, END, BOTH, 0, 0, INT32_MAX, "at most 2147483647", \
      "thinking-budget", "N", \
      "end the thinking after N tokens, by the ids of --thinking-forced (default 0)") \
    X(p, 55, UINT, relaxed_top_k, END, BOTH, 0, 0, 0, NULL, \
      "relaxed-top-k", "K", \
      "while thinking, accept drafts that are among the K likeliest tokens (default 0: off)") \
    X(p, 56, FLOAT, relaxed_delta, END, BOTH, 0, 0, 1, "between 0 and 1", \
      "relaxed-delta", "P", \
      "and whose probability is at most P below that of the likeliest (default 0)")

#define CLS_SEED_PARAMS(X, p) \
    X(p, 6, UINT64, seed, END, BOTH, 0, 0, 0, NULL, \
      "seed", "N", "row r draws with seed N + r (default 0)") \
    X(p, 7, UINT64, stream, END, BOTH, 0, 0, 0, NULL, \
      "stream", "N", \
      "requests with equal seeds and different streams draw independently (default 0)") \
    X(p, 0, UINT, position, END, BOTH, 0, 0, 0, NULL, \
      "position", "N", "the position of the first output token (default 0)")

#define CLS_PARAMS(X, p) \
    CLS_TEMPERATURE_PARAMS(X, p) CLS_TRUNCATION_PARAMS(X, p) CLS_DRAW_PARAMS(X, p) \
    CLS_PENALTY_PARAMS(X, p) CLS_BAN_PARAMS(X, p) CLS_STOP_PARAMS(X, p) \
    CLS_THINKING_PARAMS(X, p) CLS_SEED_PARAMS(X, p)

/* X(p, kind, list, kept, option, meta, key, help): the parameters that are lists. kind: ids,
 * biases or sequences. key: the JSON key.
 *
 * kept: what the library does with the list: (id, matched, form, length, offset)
 * id: the number of the saved field that has the length. Lists are saved in the order of these.
 * matched: 1 if the latest tokens are compared with the list, or with each of its sequences. Then
 *     the sampler's history must keep as many tokens, but for the last one.
 * form: how kernels get the list: one of the forms of lib/request/lists.c.
 * length, offset: the fields of cls_slot for the list's length and for where it begins. The length
 *     is NONE if the form sets it. A form that has several parts sets the offsets of the others. */
#define CLS_STOP_LISTS(X, p) \
    X(p, ids, stop_ids, (39, 0, stop, AT(n_stop), AT(stop)), \
      "stop-id", "IDS", "stop_ids", "stop after each of these tokens, separated by commas")

#define CLS_BAN_LISTS(X, p) \
    X(p, biases, logit_bias, (38, 0, biases, NONE, AT(bias)), \
      "logit-bias", "ID:VALUE", "logit_bias", \
      "add VALUE to a token's logit, several separated by commas; -inf bans it") \
    X(p, ids, allowed_ids, (40, 0, allowed, NONE, AT(allowed)), \
      "allowed-id", "IDS", "allowed_token_ids", \
      "allow only these tokens, separated by commas") \
    X(p, sequences, bad_words, \
      (42, 1, bad_words, NONE, AT(banned)), \
      "bad-word", "IDS", "bad_words", "ban this sequence of tokens, separated by commas") \
    X(p, ids, ngram_exempt_ids, (54, 0, sorted, AT(n_ngram_exempt), AT(ngram_exempt)), \
      "ngram-exempt-id", "IDS", "ngram_exempt_ids", \
      "tokens, separated by commas, that --no-repeat-ngram-size does not ban")

#define CLS_PENALTY_LISTS(X, p) \
    X(p, ids, penalty_exempt_ids, (62, 0, sorted, AT(n_spared), AT(spared)), \
      "penalty-exempt-id", "IDS", "penalty_exempt_ids", \
      "tokens, separated by commas, without repetition, frequency and presence penalty") \
    X(p, ids, xtc_exempt_ids, (63, 0, sorted, AT(n_xtc_exempt), AT(xtc_exempt)), \
      "xtc-exempt-id", "IDS", "xtc_exempt_ids", \
      "tokens, separated by commas: XTC removes none where it would remove one of these") \
    X(p, sequences, dry_breakers, \
      (41, 0, dry, NONE, AT(dry)), \
      "dry-sequence-breaker", "IDS", "dry_sequence_breakers", \
      "tokens, separated by commas, at which a repetition ends")

#define CLS_THINKING_LISTS(X, p) \
    X(p, ids, thinking_start, \
      (49, 1, plain, AT(n_start), AT(thinking_start)), \
      "thinking-start", "IDS", "thinking_start", \
      "the tokens, separated by commas, that begin the thinking (default: the request does)") \
    X(p, sequences, thinking_ends, (50, 1, thinking_ends, AT(n_ends), AT(thinking_ends)), \
      "thinking-end", "IDS", "thinking_ends", \
      "the tokens, separated by commas, that end the thinking; give each other end again") \
    X(p, ids, thinking_forced, \
      (51, 0, plain, AT(n_thinking_forced), AT(thinking_forced)), \
      "thinking-forced", "IDS", "thinking_forced", \
      "the tokens, separated by commas, that --thinking-budget emits")

#define CLS_LISTS(X, p) \
    CLS_STOP_LISTS(X, p) CLS_BAN_LISTS(X, p) CLS_PENALTY_LISTS(X, p) CLS_THINKING_LISTS(X, p)

/* The chain and only_allowed. X is called as for CLS_PARAMS, but without the last three
 * arguments. */
#define CLS_PARAMS_WITHOUT_OPTION(X, p) \
    X(p, 1, INT, chain, END, EACH, CLS_CHAIN_DEFAULT, 0, 0, NULL) \
    X(p, 37, BYTES, stages, END, EACH, 0, 0, 0, NULL) \
    X(p, 60, PARAMS, post_thinking, END, BOTH, 0, 0, 0, NULL) \
    X(p, 43, INT, only_allowed, END, BOTH, 0, 0, 1, "0 or 1")

#define CLS_LIST_ID(id, ...) id /* of the column `kept`: CLS_LIST_ID kept */

/* The field of a list that points to its elements. */
#define CLS_ARRAY_ids ids
#define CLS_ARRAY_biases biases
#define CLS_ARRAY_sequences sequences

/* X(STAGE, run, keeps_min, name, field, on): the function of the host, cls_stage_RUN; 1 if at least
 * min_keep tokens stay; the stage's name in messages and in the command's chains; the parameter
 * that messages name; whether the parameters p turn the stage on for a vocabulary of `vocab`. */
#define CLS_STAGE_TABLE(X) \
    X(TEMPERATURE, temperature, 0, "temperature", temperature, \
      p->temperature != 1.0f || p->dynatemp_range > 0.0f) \
    X(TOP_K, top_k, 0, "top-k", top_k, p->top_k > 0 && (uint32_t)p->top_k < vocab) \
    X(TOP_P, top_p, 1, "top-p", top_p, p->top_p < 1.0f) \
    X(MIN_P, min_p, 1, "min-p", min_p, p->min_p > 0.0f) \
    X(TOP_N_SIGMA, top_n_sigma, 1, "top-n-sigma", top_n_sigma, p->top_n_sigma > 0.0f) \
    X(TYPICAL_P, typical_p, 0, "typical", typical_p, p->typical_p < 1.0f) \
    X(XTC, xtc, 0, "xtc", xtc_probability, p->xtc_probability > 0.0f && p->xtc_threshold <= 0.5f) \
    X(P_LESS, p_less, 1, "p-less", p_less, p->p_less != 0) \
    X(INFILL, infill, 0, "infill", infill, p->infill != 0) \
    X(TOP_A, top_a, 1, "top-a", top_a, p->top_a > 0.0f)
/* clang-format on */

/* The number of stages that a chain can contain, and the first number that is not a stage. */
enum {
#define CLS_STAGE_COUNTED(stage, run, keeps_min, name, field, on) CLS_STAGE_COUNTED_##stage,
    CLS_STAGE_TABLE(CLS_STAGE_COUNTED)
#undef CLS_STAGE_COUNTED
        CLS_STAGE_COUNT,
    CLS_PUBLIC_STAGES = CLS_STAGE_COUNT + 1
};

/* Returns 1 if the parameters turn a stage of the table on. */
static inline int cls_stage_is_on(unsigned stage, const cls_params *p, uint32_t vocab)
{
    switch (stage) {
#define CLS_STAGE_IS_ON(stage, run, keeps_min, name, field, on) \
    case CLS_STAGE_##stage: \
        return on;
        CLS_STAGE_TABLE(CLS_STAGE_IS_ON)
#undef CLS_STAGE_IS_ON
    default:
        return 0;
    }
}

/* Returns the stages of a preset in order. Each preset has all stages. */
static inline const uint8_t *cls_chain_preset(cls_chain chain)
{
    static const uint8_t presets[][CLS_CHAIN_LENGTH] = {
        [CLS_CHAIN_DEFAULT] = {CLS_STAGE_TEMPERATURE, CLS_STAGE_TOP_K, CLS_STAGE_TOP_P,
                               CLS_STAGE_MIN_P, CLS_STAGE_TOP_A, CLS_STAGE_TOP_N_SIGMA,
                               CLS_STAGE_TYPICAL_P, CLS_STAGE_XTC, CLS_STAGE_P_LESS,
                               CLS_STAGE_INFILL},
        [CLS_CHAIN_VLLM] = {CLS_STAGE_TEMPERATURE, CLS_STAGE_MIN_P, CLS_STAGE_TOP_A,
                            CLS_STAGE_TOP_K, CLS_STAGE_TOP_P, CLS_STAGE_TOP_N_SIGMA,
                            CLS_STAGE_TYPICAL_P, CLS_STAGE_XTC, CLS_STAGE_P_LESS, CLS_STAGE_INFILL},
        [CLS_CHAIN_LLAMA] = {CLS_STAGE_TOP_N_SIGMA, CLS_STAGE_TOP_K, CLS_STAGE_TYPICAL_P,
                             CLS_STAGE_TOP_P, CLS_STAGE_MIN_P, CLS_STAGE_TOP_A, CLS_STAGE_XTC,
                             CLS_STAGE_TEMPERATURE, CLS_STAGE_P_LESS, CLS_STAGE_INFILL},
    };
    return presets[chain];
}

#endif
