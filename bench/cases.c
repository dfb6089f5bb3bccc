/* SPDX-License-Identifier: MIT */
/* The cases that are measured. */
#include <stdio.h>
#include <string.h>

#include "bench/cases.h"
#include "common/params.h"

/* clang-format off */
#define TOPK "temperature=0.8 top_k=50 top_p=0.9"
/* As llama.cpp has them: of all of the history. */
#define PENALTIES " penalty_scope=all repetition_penalty=1.1 frequency_penalty=0.1" \
    " presence_penalty=0.1"
#define LLAMA "chain=llama temperature=0.8 top_k=40 top_p=0.95 min_p=0.05 penalty_scope=all" \
    " penalty_window=64 repetition_penalty=1.1"
#define TYPICAL " chain=llama penalty_scope=all penalty_window=64 repetition_penalty=1.1" \
    " typical_p=0.9"
#define TOPP "top_p=0.9"
#define SIGMA "chain=llama temperature=0.8 top_n_sigma=1 top_k=100" /* sigma of the whole row */
#define START(what) .kind = BENCH_START, .extra = true, .features = what
#define OF_TOPK(times) .goal = times, .goal_topk = 1
/* By Zipf's law a breaker is about one token in 14. */
#define DRY " dry_multiplier=0.8 dry_breakers=1/5/9/13"
#define LOOP " loop_repeats=16 loop_min=8 loop_max=32" /* loops of fewer tokens would occur */
#define THINKING " thinking_ends=0 thinking_forced=0 thinking_budget=2147483647" /* not used up */

const bench_case bench_cases[BENCH_CASES] = {
    {"greedy", "temperature=0", .goal = 1.3},
    {"topk", TOPK, .goal = 1.7, .goal_one = 2.0},
    {"minp", TOPK " min_p=0.05", .goal = 1.7, .goal_one = 2.0},
    {"mask", TOPK, .mask = BENCH_HALF, OF_TOPK(1.25)},
    {"mask_1", TOPK, .mask = BENCH_FEW, OF_TOPK(1.25)},
    {"mask_but_one", TOPK, .mask = BENCH_BUT_ONE, OF_TOPK(1.25)},
    {"penalties", TOPK PENALTIES, .penalized = true, OF_TOPK(1.25)},
    {"thinking", TOPK THINKING, OF_TOPK(1.25)},
    {"forced", TOPK, .forced = true, OF_TOPK(1.25)},
    {"loop", TOPK LOOP, OF_TOPK(1.25)},
    {"watermark", TOPK " watermark_context=4", .history = 1000, OF_TOPK(1.5)},
    {"watermark_plain", "temperature=0.8 watermark_context=4", .history = 64},
    {"plain", "temperature=0.8", .goal = 2.5, .goal_one = 3.0},
    {"topp_peaked", TOPP, .goal = 3.0},
    {"llama", LLAMA, .history = 64, OF_TOPK(1.5)},
    {"dry", LLAMA DRY, .history = 8192, OF_TOPK(1.5)},
    {"dry_1000", LLAMA DRY, .history = 1000, OF_TOPK(1.5)},
    {"dry_100", LLAMA DRY, .history = 100, OF_TOPK(1.5)},
    {"xtc", LLAMA " xtc_probability=0.5", .history = 64, OF_TOPK(1.5)},
    {"typical", LLAMA " typical_p=0.9", .history = 64, OF_TOPK(1.5)},
    {"mirostat", LLAMA " mirostat=2", .history = 64, OF_TOPK(1.5)},
    {"mirostat_late", LLAMA " mirostat=2", .history = 64, .late = true, OF_TOPK(1.5)},
    {"topp_flat", TOPP, .rows = BENCH_FLAT, .goal = 7.0},
    {"topp_ties", TOPP, .rows = BENCH_TIES, .goal = 15.0},
    {"verify", TOPK, .drafts = BENCH_STANDARD, .goal = 2.5},
    {"verify_match", TOPK, .drafts = BENCH_MATCH, .goal = 2.5},
    {"verify_block", TOPK, .drafts = BENCH_BLOCK, .goal = 2.5},
    {"softcap", TOPK, .softcap = 30, OF_TOPK(1.5)},
    {"softcap_plain", "temperature=0.8", .softcap = 30, .extra = true},
    {"softcap_topp", TOPP, .softcap = 30, .extra = true},
    {"kept", TOPP, .kept_set = 1024},
    {"kept_flat", TOPP, .rows = BENCH_FLAT, .kept_set = UINT32_MAX},
    {"serving", "", .kind = BENCH_SERVING},
    {"usual", TOPK " min_p=0.05" PENALTIES, .penalized = true, .history = 500, .extra = true},
    {"minp_alone", "min_p=0.05", .extra = true},
    {"minp_flat", "min_p=0.05", .rows = BENCH_FLAT, .extra = true},
    {"topk_2000", "top_k=2000", .extra = true},
    {"topp_sorted", TOPP, .rows = BENCH_SORTED, .extra = true},
    {"sigma", SIGMA, .rows = BENCH_FLAT, .extra = true},
    {"typical_alone", TYPICAL, .history = 64, .extra = true},
    {"start", "temperature=0.8 top_k=50 top_p=0.95", START(CLS_FEATURE_SHORTLIST)},
    {"start_plain", "temperature=0.8", START(CLS_FEATURE_PLAIN)},
    {"start_search", "temperature=0.8 top_p=0.95",
     START(CLS_FEATURE_SHORTLIST | CLS_FEATURE_SEARCH)},
    {"start_all", "temperature=0.8 top_p=0.95", START(CLS_FEATURES_ALL)},
};
/* clang-format on */

static cls_params params_of[BENCH_CASES];

void bench_set_params(const char *text, cls_params *params)
{
    char key[32], value[32];
    int n = 0;
    cls_params_init(params);
    for (; sscanf(text, " %31[a-z_]=%31s%n", key, value, &n) == 2; text += n)
        cli_param_set(key, key, value, params);
}

const cls_params *bench_params(const bench_case *c) { return &params_of[c - bench_cases]; }

void bench_read_cases(void)
{
    for (size_t i = 0; i < BENCH_CASES; i++)
        bench_set_params(bench_cases[i].params, &params_of[i]);
}

const bench_case *bench_find(const char *name)
{
    size_t i = 0;
    while (strcmp(bench_cases[i].name, name) != 0)
        i++;
    return &bench_cases[i];
}

uint32_t bench_window(const bench_case *c)
{
    const cls_params *const p = bench_params(c);
    const uint32_t loops = p->loop_repeats * p->loop_max;
    return p->dry_multiplier != 0.0f || p->watermark_context != 0 ? c->history
           : p->loop_repeats != 0                                 ? loops
                                                                  : p->penalty_window;
}
