/* SPDX-License-Identifier: MIT */
/* The cases of the self-test: the parameters of its requests, and their texts and lists. After a
 * case or their order has changed, tests/device/check_selftest --write makes a new table of
 * answers. */
#include "selftest/selftest.h"

#include <math.h>
#include <stdlib.h>

/* clang-format off */
#define F(name, value) {offsetof(cls_params, name), value, 'f'}
#define I(name, value) {offsetof(cls_params, name), value, 'i'}
#define L(name, value) {offsetof(cls_params, name), value, 'l'}
#define PROOF(variants) variants, 0, {0} /* draw 0, and the chain of the parameters */
#define ANY PROOF(0)
#define T CLS_STAGE_TEMPERATURE
#define K CLS_STAGE_TOP_K
#define P CLS_STAGE_TOP_P
#define M CLS_STAGE_MIN_P
#define V(variant) CLS_VARIANT_BIT(CLS_##variant)
#define TOKENS (V(TOKEN_SMALL) | V(TOKEN_1) | V(TOKEN_2) | V(TOKEN_3))
#define OUTPUTS_0 (V(DISTRIBUTION_0) | V(REPORT_0) | V(KEPT_0))
#define OUTPUTS_1 (V(DISTRIBUTION_1) | V(REPORT_1) | V(KEPT_1))
#define DRAFTS (V(RESIDUAL_0) | V(VERIFY_0) | V(REPORT_1))
#define SHARDS (V(PARTIAL_0) | V(MERGE_0))
#define GREEDY F(temperature, 0)
#define DRY(allowed) F(dry_multiplier, 1), F(dry_base, 2), I(dry_allowed_length, allowed)
#define COUNTED F(repetition_penalty, 1.25), F(frequency_penalty, .5), F(presence_penalty, .25)

const cls_selftest_case cls_selftest_cases[] = {
    {ST_RANDOM, ROW_EQUAL, 0, 0, "seed 0", ANY, {L(seed, 0)}},
    {ST_RANDOM, ROW_EQUAL, 0, 0, "seed 2^32 + 1", PROOF(V(SLOTS_0)), {L(seed, 4294967297.)}},
    {ST_RANDOM, ROW_EQUAL, 0, 0, "stream 7", ANY, {L(stream, 7)}},
    {ST_RANDOM, ROW_EQUAL, 0, 0, "stream 2^40", ANY, {L(stream, 1099511627776.)}},
    {ST_RANDOM, ROW_EQUAL, 0, 0, "position 1000000", ANY, {I(position, 1000000)}},
    {ST_RANDOM, ROW_EQUAL, 0, 0, "draw 3", 0, 3, {0}, {L(seed, 1)}},

    {ST_SURVEY, ROW_PEAKED, 0, 0, "greedy", ANY, {GREEDY}},
    {ST_SURVEY, ROW_TIES, 0, 0, "greedy, ties", PROOF(V(TOKEN_0)), {GREEDY}},
    {ST_SURVEY, ROW_EQUAL, 0, 0, "greedy, equal", ANY, {GREEDY}},
    {ST_SURVEY, ROW_NAN, 0, 0, "greedy, NaN", ANY, {GREEDY}},
    {ST_SURVEY, ROW_INF, 0, 0, "greedy, +inf", ANY, {GREEDY}},
    {ST_SURVEY, ROW_EMPTY, 0, 0, "greedy, nothing", ANY, {GREEDY}},
    {ST_SURVEY, ROW_NAN, 0, 0, "NaN", PROOF(V(SURVEY_0)), {F(temperature, 1)}},
    {ST_SURVEY, ROW_INF, 0, 0, "+inf", ANY, {F(temperature, 1)}},
    {ST_SURVEY, ROW_EMPTY, 0, 0, "nothing", ANY, {F(temperature, 1)}},
    {ST_SURVEY, ROW_ONE_NAN, 0, 0, "one NaN", PROOF(V(SURVEY_0)), {F(temperature, 1)}},
    {ST_SURVEY, ROW_ONE_INF, 0, 0, "one +inf", PROOF(V(SURVEY_0)), {F(temperature, 1)}},
    {ST_SURVEY, ROW_ONE, 0, 0, "one token", PROOF(V(SURVEY_0)), {F(temperature, 1)}},

    {ST_MASKS, ROW_PEAKED, WITH_MASK, 0, "mask, greedy", ANY, {GREEDY}},
    {ST_MASKS, ROW_PEAKED, WITH_MASK, 0, "mask", ANY, {F(temperature, 1)}},
    {ST_MASKS, ROW_NAN, WITH_MASK, 0, "mask, NaN, top-k 9", ANY, {I(top_k, 9)}},
    {ST_MASKS, ROW_TEXT, WITH_ALLOWED, 0, "allowed ids", ANY, {F(temperature, 1)}},

    {ST_BIASES, ROW_TEXT, WITH_BIAS, 0, "logit bias", ANY, {F(temperature, 1)}},
    {ST_BIASES, ROW_PEAKED, WITH_DENSE, 0, "dense bias", ANY, {F(temperature, 1)}},
    {ST_BIASES, ROW_NAN, WITH_DENSE | WITH_BIAS | WITH_MASK, 0, "both, mask, NaN",
     ANY, {I(top_k, 12)}},
    {ST_BIASES, ROW_PEAKED, WITH_DENSE | WITH_MASK, 0, "dense bias, mask, top-k 9",
     PROOF(V(SURVEY_1) | V(TOKEN_2) | V(TOKEN_3) | OUTPUTS_1), {I(top_k, 9)}},

    {ST_PENALTIES, ROW_TEXT, WITH_TEXT, 0, "repetition 1.25",
     ANY, {F(repetition_penalty, 1.25), I(top_k, 40)}},
    {ST_PENALTIES, ROW_TEXT, WITH_TEXT, 0, "frequency .5", ANY, {F(frequency_penalty, .5)}},
    {ST_PENALTIES, ROW_TEXT, WITH_TEXT, 0, "presence -1.5", ANY, {F(presence_penalty, -1.5)}},
    {ST_PENALTIES, ROW_TEXT, WITH_TEXT | WITH_EXEMPT, 0, "presence 9, exempt ids",
     ANY, {F(presence_penalty, 9)}},
    {ST_PENALTIES, ROW_TEXT, WITH_TEXT, 0, "all, of all", ANY, {COUNTED, I(penalty_scope, 1)}},
    {ST_PENALTIES, ROW_TEXT, WITH_TEXT | WITH_BIAS, 0, "all, of 6",
     ANY, {COUNTED, I(penalty_window, 6)}},
    {ST_PENALTIES, ROW_TEXT, WITH_TEXT, 0, "all, of 9, 3 and all", ANY,
     {COUNTED, I(repetition_window, 9), I(presence_window, 3)}},

    {ST_HISTORY, ROW_TEXT, WITH_TEXT, 0, "DRY", PROOF(V(PREPARE_0) | DRAFTS), {DRY(2)}},
    {ST_HISTORY, ROW_TEXT, WITH_TEXT, 0, "DRY, greedy", ANY, {DRY(1), GREEDY}},
    {ST_HISTORY, ROW_TEXT, WITH_TEXT | WITH_BREAKERS, 0, "DRY, breakers", ANY, {DRY(1)}},
    {ST_HISTORY, ROW_TEXT, WITH_TEXT, 0, "DRY in 7", ANY, {DRY(1), I(dry_window, 7)}},
    {ST_HISTORY, ROW_TEXT, WITH_TEXT, 0, "n-gram 3", ANY, {I(no_repeat_ngram, 3)}},
    {ST_HISTORY, ROW_TEXT, WITH_TEXT | WITH_EXEMPT, 0, "n-gram 1 in 6, exempt ids",
     ANY, {I(no_repeat_ngram, 1), I(ngram_window, 6), I(ngram_output_only, 1)}},
    {ST_HISTORY, ROW_TEXT, WITH_TEXT, 0, "n-gram 1, top-k 9",
     PROOF(V(PREPARE_0)), {I(no_repeat_ngram, 1), I(top_k, 9)}},
    {ST_HISTORY, ROW_TEXT, WITH_TEXT | WITH_BAD_WORDS, 0, "bad words", ANY, {F(temperature, 1)}},
    {ST_HISTORY, ROW_TEXT, WITH_TEXT | WITH_STOP, 0, "min tokens 9", ANY, {I(min_tokens, 9)}},

    {ST_SHORTLIST, ROW_PEAKED, 0, 0, "16 of a peak", PROOF(TOKENS), {I(top_k, 16)}},
    {ST_SHORTLIST, ROW_TIES, WITH_ALLOWED, 0, "1 of few ties", ANY, {I(top_k, 1)}},
    {ST_SHORTLIST, ROW_TIES, 0, 0, "half of 15 ties", PROOF(TOKENS), {I(top_k, 15), F(top_p, .5)}},
    {ST_SHORTLIST, ROW_EQUAL, 0, 0, "5 of equals", ANY, {I(top_k, 5)}},
    {ST_SHORTLIST, ROW_NAN, 0, 0, "9 beside NaN", ANY, {I(top_k, 9)}},

    {ST_TOP_K, ROW_PEAKED, 0, 0, "top-k 1", PROOF(DRAFTS), {I(top_k, 1)}},
    {ST_TOP_K, ROW_PEAKED, 0, 0, "top-k 10", PROOF(OUTPUTS_0), {I(top_k, 10)}},
    {ST_TOP_K, ROW_PEAKED, 0, 0, "top-k 50, temperature .75",
     ANY, {I(top_k, 50), F(temperature, .75)}},
    {ST_TOP_K, ROW_PEAKED, 0, 0, "top-k 300", ANY, {I(top_k, 300)}},

    {ST_TOP_P, ROW_PEAKED, 0, 0, "top-p 0", ANY, {F(top_p, 0)}},
    {ST_TOP_P, ROW_TEXT, 0, 0, "top-p .5", ANY, {F(top_p, .5)}},
    {ST_TOP_P, ROW_TEXT, 0, 0, "top-p .875", ANY, {F(top_p, .875)}},
    {ST_TOP_P, ROW_TEXT, 0, 0, "top-p .75 of top-k 20", ANY, {F(top_p, .75), I(top_k, 20)}},

    {ST_MIN_P, ROW_PEAKED, 0, 0, "min-p 1", ANY, {F(min_p, 1)}},
    {ST_MIN_P, ROW_TEXT, 0, 0, "min-p .25", ANY, {F(min_p, .25)}},
    {ST_MIN_P, ROW_PEAKED, 0, 0, "min-p .0625, at least 9", ANY, {F(min_p, .0625), I(min_keep, 9)}},
    {ST_TOP_A, ROW_PEAKED, 0, 0, "top-a .0625 of a peak", ANY, {F(top_a, .0625)}},
    {ST_TOP_A, ROW_TEXT, 0, 0, "top-a .5", ANY, {F(top_a, .5)}},

    {ST_SIGMA, ROW_PEAKED, 0, 0, "top-n-sigma 1", ANY, {F(top_n_sigma, 1)}},
    {ST_SIGMA, ROW_TEXT, 0, 0, "top-n-sigma 2.5", ANY, {F(top_n_sigma, 2.5)}},
    {ST_SIGMA, ROW_TEXT, 0, 0, "top-n-sigma 1 of top-k 20", ANY, {F(top_n_sigma, 1), I(top_k, 20)}},
    {ST_TYPICAL, ROW_TEXT, 0, 0, "typical .5 of top-k 30", ANY, {F(typical_p, .5), I(top_k, 30)}},
    {ST_TYPICAL, ROW_TEXT, 0, 0, "typical .875", ANY, {F(typical_p, .875)}},
    {ST_XTC, ROW_TEXT, 0, 0, "XTC 1", ANY, {F(xtc_probability, 1), F(xtc_threshold, .0625)}},
    {ST_XTC, ROW_TEXT, 0, 0, "XTC .5 of top-k 9",
     PROOF(V(TOKEN_3)), {F(xtc_probability, .5), F(xtc_threshold, .0625), I(top_k, 9)}},
    {ST_XTC, ROW_TEXT, WITH_EXEMPT, 0, "XTC 1, exempt ids", ANY,
     {F(xtc_probability, 1), F(xtc_threshold, .03125), I(top_k, 9)}},
    {ST_XTC, ROW_TEXT, WITH_EXEMPT, 0, "XTC 1, exempt ids, searched", ANY,
     {F(xtc_probability, 1), F(xtc_threshold, .03125)}},
    {ST_P_LESS, ROW_PEAKED, 0, 0, "p-less of a peak", ANY, {I(p_less, 1)}},
    {ST_P_LESS, ROW_TEXT, 0, 0, "p-less", ANY, {I(p_less, 1)}},
    {ST_P_LESS, ROW_TEXT, 0, 0, "p-less of top-k 20", ANY, {I(p_less, 1), I(top_k, 20)}},
    {ST_INFILL, ROW_TEXT, 0, 0, "infill of top-k 4", ANY, {I(infill, 1), I(top_k, 4)}},
    {ST_INFILL, ROW_TEXT, 0, 0, "infill of top-k 15", ANY, {I(infill, 1), I(top_k, 15)}},
    {ST_INFILL, ROW_TEXT, WITH_BIAS, 0, "infill with an end", ANY, {I(infill, 1), I(top_k, 5)}},
    {ST_INFILL, ROW_FLAT, 0, 0, "infill of too many", ANY, {I(infill, 1)}},

    {ST_TEMPERATURE, ROW_TEXT, 0, 0, "temperature .125", ANY, {F(temperature, .125)}},
    {ST_TEMPERATURE, ROW_TEXT, 0, 0, "temperature 2 after all", ANY,
     {I(chain, CLS_CHAIN_LLAMA), F(temperature, 2), I(top_k, 40), F(top_p, .875), F(min_p, .0625)}},
    {ST_TEMPERATURE, ROW_TEXT, 0, 0, "temperature 2 before all", ANY,
     {I(chain, CLS_CHAIN_VLLM), F(temperature, 2), I(top_k, 40), F(top_p, .875), F(min_p, .0625)}},
    {ST_TEMPERATURE, ROW_TEXT, 0, 0, "temperature 2 between", 0, 0,
     {P, T, M, K}, {F(temperature, 2), I(top_k, 9), F(top_p, .875), F(min_p, .25)}},
    {ST_TEMPERATURE, ROW_TEXT, 0, 0, "dynamic", ANY, {F(dynatemp_range, .5), I(top_k, 40)}},
    {ST_TEMPERATURE, ROW_PEAKED, 0, 0, "dynamic, exponent 2",
     ANY, {F(dynatemp_range, .75), F(dynatemp_exponent, 2), F(top_p, .5)}},

    {ST_SEARCH, ROW_FLAT, 0, 0, "top-k 3000", ANY, {I(top_k, 3000)}},
    {ST_SEARCH, ROW_FLAT, 0, 0, "top-p .75, flat",
     PROOF(V(PASS_0) | V(SEARCH_0) | V(SEARCH_1)), {F(top_p, .75)}},
    {ST_SEARCH, ROW_TIES, 0, 0, "top-p .75 of ties", ANY, {F(top_p, .75)}},
    {ST_SEARCH, ROW_NAN, 0, 0, "top-p .999, NaN", ANY, {F(top_p, .999)}},
    {ST_SEARCH, ROW_FLAT, 0, 0, "min-p .25, flat", PROOF(V(PASS_0)), {F(min_p, .25)}},
    {ST_SEARCH, ROW_FLAT, 0, 0, "top-n-sigma 2", ANY, {F(top_n_sigma, 2)}},
    {ST_SEARCH, ROW_FLAT, 0, 0, "typical .75", PROOF(V(PASS_0) | V(SEARCH_2)), {F(typical_p, .75)}},
    {ST_SEARCH, ROW_FLAT, 0, 0, "p-less, flat", ANY, {I(p_less, 1)}},
    {ST_SEARCH, ROW_FLAT, 0, 0, "top-a .5, flat", ANY, {F(top_a, .5), F(temperature, .125)}},
    {ST_SEARCH, ROW_FLAT, 0, 0, "top-a .25, flat", ANY, {F(top_a, .25), F(temperature, .0625)}},
    {ST_SEARCH, ROW_FLAT, WITH_TEXT | WITH_MASK, 0, "top-p .75 of top-k 3000",
     PROOF(V(PASS_1) | V(SEARCH_1) | V(SEARCH_2)), {I(top_k, 3000), F(top_p, .75), COUNTED}},
    {ST_SEARCH, ROW_FLAT, WITH_TEXT | WITH_MASK, 0, "min-p .25, changed",
     PROOF(V(PASS_1)), {F(min_p, .25), COUNTED}},
    {ST_SEARCH, ROW_FLAT, 0, 0, "dynamic, top-p .75", ANY, {F(dynatemp_range, .5), F(top_p, .75)}},

    {ST_DRAW, ROW_PEAKED, 0, 0, "all of a peak",
     PROOF(V(TOKEN_0) | OUTPUTS_0), {F(temperature, 1)}},
    {ST_DRAW, ROW_FLAT, 0, 0, "all, flat", ANY, {F(temperature, 1)}},
    {ST_DRAW, ROW_TIES, 0, 0, "all of ties", ANY, {F(temperature, .25)}},
    {ST_DRAW, ROW_TEXT, WITH_TEXT, 0, "all, changed",
     PROOF(V(SLOTS_0) | V(SURVEY_1) | V(TOKEN_2) | V(TOKEN_3)), {COUNTED}},

    {ST_MIROSTAT, ROW_PEAKED, 0, 0, "mirostat 1", ANY, {I(mirostat, 1), F(mirostat_tau, 3)}},
    {ST_MIROSTAT, ROW_TEXT, 0, 0, "mirostat 2", ANY, {I(mirostat, 2), F(mirostat_tau, 2)}},
    {ST_MIROSTAT, ROW_FLAT, 0, 0, "mirostat 2, flat", ANY, {I(mirostat, 2), F(mirostat_tau, 6.25)}},
    {ST_ADAPTIVE, ROW_TEXT, 0, 0, "adaptive .25", ANY, {F(adaptive_target, .25), I(top_k, 20)}},
    {ST_ADAPTIVE, ROW_TEXT, 0, 0, "adaptive .0625",
     ANY, {F(adaptive_target, .0625), F(min_p, .0625)}},
    {ST_DECAY, ROW_TEXT, 0, 0, "decay .5",
     ANY, {F(top_p, .875), F(top_p_decay, .5), F(top_p_min, .125)}},
    {ST_DECAY, ROW_TEXT, WITH_TEXT, 0, "decay, reset",
     ANY, {F(top_p, .875), F(top_p_decay, .5), F(top_p_min, .125), I(top_p_reset_id, 5)}},

    {ST_SLOTS, ROW_TEXT, WITH_TEXT, BY_ACCEPT, "accepted", ANY, {COUNTED, DRY(1)}},
    {ST_SLOTS, ROW_TEXT, WITH_TEXT, BY_REPLACE, "accepted in place of others",
     PROOF(V(ACCEPT_0)), {COUNTED, DRY(1)}},
    {ST_SLOTS, ROW_TEXT, WITH_TEXT, BY_ROLLBACK, "taken back",
     PROOF(V(SLOTS_1)), {COUNTED, DRY(1), I(penalty_window, 6)}},
    {ST_SLOTS, ROW_TEXT, WITH_TEXT, BY_COPY, "forked",
     PROOF(V(SLOTS_1)), {COUNTED, I(no_repeat_ngram, 3)}},
    {ST_SLOTS, ROW_TEXT, WITH_TEXT, BY_APPEND, "in two parts",
     ANY, {COUNTED, I(penalty_scope, 1), I(penalty_window, 12)}},
    {ST_SLOTS, ROW_TEXT, WITH_TEXT | WITH_BIAS, BY_LOAD, "saved and loaded",
     ANY, {COUNTED, DRY(1)}},
    {ST_SLOTS, ROW_TEXT, WITH_TEXT, BY_RESET, "begun again", ANY, {COUNTED}},
    {ST_SLOTS, ROW_TEXT, WITH_TEXT, 0, "the last token", ANY, {I(max_tokens, 9)}},
    {ST_SLOTS, ROW_TEXT, WITH_TEXT, 0, "no more tokens", ANY, {I(max_tokens, 8)}},
    {ST_SLOTS, ROW_TEXT, WITH_TEXT | WITH_STOP | WITH_ALLOWED, 0, "stop ids",
     ANY, {F(temperature, .25)}},
    {ST_SLOTS, ROW_PEAKED, WITH_TEXT, BY_ACCEPT, "accepted, of all",
     PROOF(V(ACCEPT_0)), {F(temperature, 1)}},
    {ST_SLOTS, ROW_PEAKED, WITH_TEXT, BY_REPLACE, "in place of others, of all",
     PROOF(V(ACCEPT_0)), {F(temperature, 1)}},
    {ST_SLOTS, ROW_PEAKED, WITH_TEXT, BY_COPY, "forked, of all",
     PROOF(V(SLOTS_1)), {F(temperature, 1)}},

    {ST_FORCED, ROW_TEXT, WITH_TEXT | WITH_FORCED, 0, "a forced id",
     PROOF(V(FORCE_0)), {COUNTED, I(top_k, 9)}},
    {ST_FORCED, ROW_PEAKED, WITH_FORCED | WITH_MASK, 0, "a masked one", ANY, {I(top_k, 9)}},
    {ST_FORCED, ROW_TEXT, WITH_TEXT | WITH_FORCED, BY_LOAD, "a forced id, loaded",
     ANY, {I(mirostat, 2), F(mirostat_tau, 2)}},
    {ST_FORCED, ROW_TEXT, WITH_TEXT | WITH_THINKING, 0, "a budget of 3",
     PROOF(V(SLOTS_1) | V(FORCE_0) | V(VERIFY_0)), {I(thinking_budget, 3)}},
    {ST_FORCED, ROW_TEXT, WITH_TEXT | WITH_THINKING, BY_ROLLBACK, "a budget of 4, taken back",
     ANY, {I(thinking_budget, 4)}},
    {ST_FORCED, ROW_TEXT, WITH_TEXT | WITH_STOP | WITH_ALLOWED | WITH_THINKING, 0,
     "stop ids in the thinking", PROOF(V(PREPARE_0)),
     {GREEDY, I(thinking_budget, 9), I(stop_action, CLS_STOP_BANNED)}},
    {ST_FORCED, ROW_TEXT, WITH_TEXT | WITH_THINKING, BY_APPEND, "no thinking", ANY, {I(top_k, 9)}},
    {ST_FORCED, ROW_TEXT, WITH_TEXT, BY_ACCEPT, "two tokens, twice",
     PROOF(V(FORCE_0)), {GREEDY, I(loop_repeats, 2), I(loop_max, 1)}},
    {ST_FORCED, ROW_TEXT, WITH_TEXT | WITH_FORCED, 0, "a forced id, then any",
     PROOF(V(FORCE_0)), {F(temperature, 1)}},

    {ST_FORCED, ROW_TEXT, WITH_TEXT | WITH_GRAMMAR, 0, "a grammar",
     PROOF(V(PREPARE_0) | V(SLOTS_1) | V(FORCE_0)), {I(top_k, 9)}},
    {ST_FORCED, ROW_FLAT, WITH_TEXT | WITH_GRAMMAR | WITH_MASK, BY_ROLLBACK,
     "a grammar, taken back", PROOF(V(ACCEPT_0)), {F(temperature, 1)}},
    {ST_FORCED, ROW_TEXT, WITH_TEXT | WITH_GRAMMAR | WITH_ALLOWED, BY_LOAD, "a grammar, loaded",
     ANY, {F(temperature, 2)}},
    {ST_FORCED, ROW_TEXT, WITH_TEXT | WITH_GRAMMAR | WITH_ALLOWED | WITH_STOP | WITH_THINKING, 0,
     "a grammar, only ends", ANY, {I(min_tokens, 99), I(thinking_budget, 3)}},

    {ST_FORCED, ROW_TEXT, WITH_TEXT | WITH_PHASES, BY_ROLLBACK, "parameters of the thinking",
     PROOF(V(SLOTS_1) | V(FORCE_0)), {F(temperature, 2), I(top_k, 20)}},
    {ST_FORCED, ROW_TEXT, WITH_PHASES, 0, "parameters outside the thinking",
     PROOF(V(SLOTS_1) | V(FORCE_0)), {F(temperature, 2), I(top_k, 20)}},

    {ST_FORCED, ROW_PEAKED, WITH_TEXT, 0, "a watermark",
     PROOF(V(WATERMARK_0) | V(FORCE_0)), {I(watermark_context, 4), L(watermark_key, 42)}},
    {ST_FORCED, ROW_TEXT, WITH_TEXT | WITH_MASK, 0, "a watermark of top-k 9",
     PROOF(V(WATERMARK_0)), {I(watermark_context, 6), L(watermark_key, 7), I(top_k, 9)}},
    {ST_FORCED, ROW_PEAKED, WITH_TEXT, 0, "SGLang's watermark, of two keys",
     PROOF(V(WATERMARK_0)),
     {I(watermark_context, 5), L(watermark_key, 42), I(watermark_rule, CLS_WATERMARK_SGLANG),
      L(watermark_key_b, 7)}},
    {ST_FORCED, ROW_FLAT, WITH_TEXT, 0, "a watermark of top-p .75, then as usual",
     ANY, {I(watermark_context, 1), F(top_p, .75)}},

    {ST_SHARDS, ROW_PEAKED, 0, 0, "top-p .9 of top-k 12, a shard",
     PROOF(SHARDS), {I(top_k, 12), F(top_p, .9), F(min_p, .0078125)}},
    {ST_SHARDS, ROW_TEXT, WITH_TEXT, 0, "top-k 12, changed, a shard",
     PROOF(SHARDS), {COUNTED, I(top_k, 12)}},
    {ST_SHARDS, ROW_FLAT, 0, 0, "top-p .9, flat, a shard", ANY, {F(top_p, .9)}},
};
/* clang-format on */
typedef char cls_cases_fit
    [sizeof cls_selftest_cases / sizeof *cls_selftest_cases <= SELFTEST_MOST_CASES ? 1 : -1];
const uint32_t cls_selftest_case_count = sizeof cls_selftest_cases / sizeof *cls_selftest_cases;

const char *const cls_selftest_output_cases[SELFTEST_OUTPUT_CASES] = {
    "greedy",        "top-k 10", "top-p .75, flat",
    "all of a peak", "nothing",  "dense bias, mask, top-k 9"};
const char *const cls_selftest_verified_cases[SELFTEST_REQUESTS] = {
    "top-p .5", "temperature .125", "DRY", "top-k 1", "a budget of 3"};

uint32_t cls_selftest_find(const char *name)
{
    uint32_t i = 0;
    while (i + 1 < cls_selftest_case_count && strcmp(cls_selftest_cases[i].name, name) != 0)
        i++;
    return i;
}

cls_selftest_selection cls_selftest_whole(void)
{
    cls_selftest_selection selection = {
        .vocab = SELFTEST_VOCAB, .parts = UINT32_MAX, .methods = UINT32_MAX};
    for (; selection.count < cls_selftest_case_count; selection.count++)
        selection.cases[selection.count] = selection.count;
    return selection;
}

int32_t cls_selftest_position(const cls_selftest_selection *selection, const char *name)
{
    const uint32_t which = cls_selftest_find(name);
    for (uint32_t i = 0; i < selection->count; i++)
        if (selection->cases[i] == which)
            return (int32_t)i;
    return -1;
}

/* FNV-1a. */
uint32_t cls_selftest_seed(uint32_t i)
{
    uint32_t h = 0x811c9dc5u;
    for (const char *c = cls_selftest_cases[i].name; *c != '\0'; c++)
        h = (h ^ (uint32_t)(unsigned char)*c) * 0x01000193u;
    return h;
}

/* ------------------------------------------------------------------- requests */

static const int32_t prompt[] = {3, 9, 14, 3, 5, 20, 21, 22, 9};
static const int32_t output[] = {5, 6, 7, 8, 11, 5, 6, 7};
static const cls_logit_bias biases[] = {
    {3, 1.5f}, {4000, 6.0f}, {9, -2.0f}, {10, -INFINITY}, {3, .25f}};
static const int32_t stop[] = {1, 2, 3, 4999}, allowed[] = {1, 2, 3, 77, 4999};
static const int32_t one[] = {6}, two[] = {11, 5}, ends[] = {7, 12}, banned[] = {4},
                     exempt[] = {6, 11};
static const int32_t start[] = {8, 11}, other_end[] = {9, 7, 9}, end[] = {7, 8},
                     answer[] = {4998, 4}, forced[] = {4996};
static const int32_t low_answer[] = {998, 4}, low_forced[] = {996}; /* for short rows */
static const cls_ids breakers[] = {{one, 1}, {two, 2}}, bad_words[] = {{ends, 2}, {banned, 1}},
                     thinking_ends[] = {{other_end, 3}, {end, 2}};

/* clang-format off */
#define LIST(array) {array, sizeof(array) / sizeof *(array)}
/* clang-format on */

void cls_selftest_params(uint32_t i, uint32_t vocab, cls_params p[2])
{
    const cls_selftest_case *const c = &cls_selftest_cases[i];
    const uint32_t is_short = vocab < SELFTEST_VOCAB; /* the last id of some lists is no token */
    cls_params_init(p);
    p->seed = cls_selftest_seed(i);
    for (size_t j = 0; j < sizeof c->set / sizeof *c->set && c->set[j].kind != 0; j++) {
        const float real = (float)c->set[j].value;
        const int64_t whole = (int64_t)c->set[j].value;
        const int32_t narrow = (int32_t)whole;
        char *const field = (char *)p + c->set[j].field;
        if (c->set[j].kind == 'f')
            memcpy(field, &real, sizeof real);
        else if (c->set[j].kind == 'i')
            memcpy(field, &narrow, sizeof narrow);
        else
            memcpy(field, &whole, sizeof whole);
    }
    if (c->chain[0] != CLS_STAGE_END) {
        p->chain = CLS_CHAIN_CUSTOM;
        memcpy(p->stages, c->chain, sizeof c->chain);
    }
    if (c->with & WITH_BIAS)
        p->logit_bias = (cls_biases)LIST(biases);
    if (c->with & WITH_STOP)
        p->stop_ids = (cls_ids){stop, sizeof stop / sizeof *stop - is_short};
    if (c->with & WITH_BREAKERS)
        p->dry_breakers = (cls_sequences)LIST(breakers);
    if (c->with & WITH_EXEMPT)
        p->ngram_exempt_ids = p->penalty_exempt_ids = p->xtc_exempt_ids = (cls_ids)LIST(exempt);
    if (c->with & WITH_BAD_WORDS)
        p->bad_words = (cls_sequences)LIST(bad_words);
    if (c->with & WITH_ALLOWED)
        p->allowed_ids = (cls_ids){allowed, sizeof allowed / sizeof *allowed - is_short};
    if (c->with & (WITH_THINKING | WITH_PHASES)) {
        p->thinking_start = (cls_ids)LIST(start);
        p->thinking_ends = (cls_sequences)LIST(thinking_ends);
    }
    if (c->with & WITH_PHASES) {
        cls_params_init(&p[1]);
        p[1].temperature = .5f;
        p[1].top_k = 3;
        p->post_thinking = &p[1];
    }
    if (c->with & WITH_THINKING) {
        p->thinking_forced = (cls_ids)LIST(answer);
        if (is_short)
            p->thinking_forced.ids = low_answer;
    }
}

/* The states of the grammar: 0 and 2 have bitmaps, 1 a list. All allow the text, after which it is
 * in state 1, where the allowed ids are stop ids. */
static int grammar_has(uint32_t state, uint32_t id)
{
    return state == 0 ? id % 7 != 3 : state == 1 ? id < 32 : id % 9 != 0;
}
static uint32_t grammar_goes(uint32_t state, uint32_t id)
{
    return state == 0 ? id % 2 : state == 1 ? 2 : 0;
}

cls_status cls_selftest_grammar(uint32_t i, uint32_t vocab, cls_params *p)
{
    enum { STATES = 3 };
    static const int32_t end_id[] = {30};
    static const uint8_t final_states[STATES] = {0, 0, 1};
    uint64_t offsets[STATES + 1] = {0};
    cls_grammar_options o;
    cls_grammar *grammar;
    if (!(cls_selftest_cases[i].with & WITH_GRAMMAR))
        return CLS_OK;
    uint32_t *const next = malloc((size_t)2 * STATES * vocab * sizeof *next);
    int32_t *const ids = (int32_t *)next + (size_t)STATES * vocab;
    if (next == NULL)
        return cls_no_memory("the self-test");
    for (uint32_t s = 0; s < STATES; s++) {
        uint64_t n = offsets[s];
        for (uint32_t id = 0; id < vocab; id++)
            if (grammar_has(s, id) && id != (uint32_t)end_id[0]) {
                ids[n] = (int32_t)id;
                next[n++] = grammar_goes(s, id);
            }
        offsets[s + 1] = n;
    }
    cls_grammar_options_init(&o);
    o.vocab = vocab;
    o.states = STATES;
    o.offsets = offsets;
    o.ids = ids;
    o.next = next;
    o.final_states = final_states;
    o.end_ids = (cls_ids)LIST(end_id);
    const cls_status status = cls_grammar_create(&o, &grammar);
    p->grammar = grammar;
    free(next);
    return status;
}

cls_selftest_ids cls_selftest_text(uint32_t i, uint32_t vocab)
{
    const cls_selftest_case *const c = &cls_selftest_cases[i];
    cls_selftest_ids text = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    if (c->with & WITH_FORCED) {
        text.forced = (cls_ids)LIST(forced);
        text.forced.ids = vocab < SELFTEST_VOCAB ? low_forced : forced;
    }
    if (!(c->with & WITH_TEXT))
        return text;
    text.prompt = (cls_ids)LIST(prompt);
    if (c->setup != BY_APPEND) /* nothing follows the prompt's second part */
        text.output = (cls_ids)LIST(output);
    return text;
}
