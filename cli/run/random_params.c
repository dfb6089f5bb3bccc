/* SPDX-License-Identifier: MIT */
/* The parameters of random calls. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "run/random.h"

/* Usual values of parameters; for others the table's limits and default serve. How many of eight
 * requests have the parameter: `often`. */
static const struct usual {
    const char *field;
    int often;
    const char *values;
} usual[] = {
    {"temperature", 7, "0 1e-06 1e-4 0.8 0.8 1 1 1.3 100"},
    {"top_k", 4, "-1 0 1 2 3 5 15 16 17 50 255 256 257 600 1073741824"},
    {"top_p", 4, "0 1e-8 0.3 0.9 0.9 0.99999988 1 0.5"},
    {"min_p", 2, "1e-6 0.05 0.05 1 0.3"},
    {"top_n_sigma", 1, "0.5 1 1 1.5 2 3 1e-3 1e6"},
    {"typical_p", 1, "0 1e-8 0.2 0.5 0.9 0.9 0.95"},
    {"xtc_probability", 1, "1 1 0.5 1e-9"},
    {"xtc_threshold", 2, "0.1 0.05 0.02 0.3 0.5 0 1e-3 0.51"},
    {"dynatemp_range", 1, "0.3 0.5 1 2 100"},
    {"dynatemp_exponent", 1, "1 0.5 2 0 1.5 16 1024"},
    {"top_a", 1, "0.2 0.05 1 1e-3 1e-20"},
    {"min_keep", 1, "2 5 300"},
    {"mirostat", 1, "1 2"},
    {"mirostat_tau", 2, "5 3 1 0 100"},
    {"mirostat_eta", 2, "0.1 1 0 100"},
    {"adaptive_target", 1, "0.3 0.55 0.05 0 1"},
    {"adaptive_decay", 2, "0.9 0.5 0 0.99"},
    {"top_p_decay", 1, "0.9 0.5 0.999 1e-6"},
    {"top_p_min", 2, "0.1 1e-6 0.5 1"},
    {"top_p_reset_id", 1, "0 1 2 3"},
    {"repetition_penalty", 2, "1.2 1.2 0.7 1e-30 1e30 2"},
    {"frequency_penalty", 2, "0.4 -0.5 2 1e30 -1e30"},
    {"presence_penalty", 2, "0.4 -0.5 2 1e30"},
    {"penalty_scope", 3, "all output"},
    {"penalty_window", 2, "1 2 5 9 64"},
    {"repetition_window", 1, "1 3 20 64"},
    {"frequency_window", 1, "1 4 20 128"},
    {"presence_window", 1, "2 3 20 64"},
    {"dry_multiplier", 1, "0.8 2 -1"},
    {"dry_base", 1, "1.75 1 1.1 3 0.5"},
    {"dry_allowed_length", 2, "0 1 2 3"},
    {"dry_window", 1, "3 8 20"},
    {"no_repeat_ngram", 1, "1 2 3 4"},
    {"ngram_window", 1, "4 9 20"},
    {"min_tokens", 1, "1 2 4 9"},
    {"max_tokens", 2, "1 3 6 12 40"},
    {"loop_repeats", 1, "2 3 4"},
    {"loop_min", 1, "1 2 3"},
    {"loop_max", 2, "1 2 4 8"},
    {"loop_action", 4, "stop end-thinking"},
    {"stop_action", 2, "stop ban end-thinking"},
    {"thinking_budget", 1, "0 1 2 5"},
    {"relaxed_top_k", 1, "1 2 5"},
    {"relaxed_delta", 1, "0.1 0.5 1"},
    {"watermark_context", 1, "1 2 4 5 16 33"},
    {"watermark_key", 4, "42 18446744073709551615"},
    {"watermark_rule", 2, "vllm sglang"},
    {"watermark_key_b", 2, "7 18446744073709551615"},
    {"watermark_mixing", 2, "0.25 0.9"},
    {"watermark_max_probability", 1, "0.2 0.6 0.95"},
    {"infill", 0, "1"},
    {"seed", 8, "0 1 2 3 77 18446744073709551615"},
    {"stream", 1, "1 5 18446744073709551615"},
    {"position", 2, "1 17 4294967290"},
};

static const struct usual *usual_of(const char *field)
{
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (strcmp(usual[i].field, field) == 0)
            return &usual[i];
    return NULL;
}

/* One of the words of a text. */
static void pick_word(run_maker *m, const char *words, char to[32])
{
    uint32_t n = 1;
    for (const char *at = words; *at != '\0'; at++)
        n += *at == ' ';
    for (uint32_t skip = run_below(m, n); skip > 0; words++)
        skip -= *words == ' ';
    snprintf(to, 32, "%.*s", (int)strcspn(words, " "), words);
}

static void random_number(run_maker *m, cls_params *p, const char *field, double initial,
                          double least, double most)
{
    const struct usual *const u = usual_of(field);
    const int often = run_is_in(m->often, field) ? 7 : u != NULL ? u->often : 1;
    char text[32];
    if ((int)run_below(m, 8) >= often)
        return;
    if (u != NULL)
        pick_word(m, u->values, text);
    else /* a parameter that is new here */
        snprintf(text, sizeof text, "%.9g",
                 run_below(m, 2)   ? initial
                 : run_below(m, 2) ? least
                                   : most);
    cli_param_set(field, field, text, p);
}

static void random_some(run_maker *m, cls_ids *list, uint32_t most)
{
    const uint32_t n = most == 4 && run_below(m, 12) == 0 ? m->vocab : most; /* a long list */
    int32_t *const ids = cli_alloc(n, sizeof *ids);
    *list = (cls_ids){ids, 1 + run_below(m, n)};
    for (uint32_t i = 0; i < list->count; i++)
        ids[i] = (int32_t)run_below(m, run_below(m, 2) ? m->vocab : m->vocab < 6 ? m->vocab : 6);
}

static void random_ids(run_maker *m, cls_ids *list) { random_some(m, list, 4); }

static void random_biases(run_maker *m, cls_biases *list)
{
    const uint32_t most = run_below(m, 4) ? 5 : m->vocab;
    cls_logit_bias *const biases = cli_alloc(most, sizeof *biases);
    *list = (cls_biases){biases, 1 + run_below(m, most)};
    for (uint32_t i = 0; i < list->count; i++)
        biases[i] = (cls_logit_bias){(int32_t)run_below(m, m->vocab),
                                     run_below(m, 5) ? (float)(4 * rng_normal(&m->r)) : -INFINITY};
}

static void random_sequences(run_maker *m, cls_sequences *list)
{
    cls_ids *const sequences = cli_alloc(4, sizeof *sequences);
    *list = (cls_sequences){sequences, 1 + run_below(m, 4)};
    for (uint32_t i = 0; i < list->count; i++)
        random_some(m, &sequences[i], 3);
}

/* What the tables cannot say: which parameters need each other. */
static void settle_params(run_maker *m, cls_params *p)
{
    if (p->loop_min > p->loop_max)
        p->loop_max = p->loop_min;
    if (p->loop_repeats == 1)
        p->loop_repeats = 0;
    if (p->relaxed_top_k == 0)
        p->relaxed_delta = 0.0f;
    if (p->thinking_forced.count == 0) {
        p->thinking_budget = 0;
        if (p->relaxed_top_k == 0 && p->grammar == NULL && p->post_thinking == NULL) {
            p->thinking_start = (cls_ids){NULL, 0};
            p->thinking_ends = (cls_sequences){NULL, 0};
        }
    }
    if (p->watermark_context > m->history || p->mirostat != 0 || p->adaptive_target >= 0.0f ||
        p->relaxed_top_k != 0)
        p->watermark_context = 0;
    if (p->watermark_context == 0) {
        p->watermark_key = 0;
        p->watermark_rule = CLS_WATERMARK_VLLM;
    }
    if (p->watermark_rule != CLS_WATERMARK_SGLANG) {
        p->watermark_key_b = 0;
        p->watermark_max_probability = 1.0f;
    }
    if (p->watermark_key_b == 0)
        p->watermark_mixing = 0.5f;
    uint32_t *const windows[] = {&p->penalty_window, &p->repetition_window, &p->frequency_window,
                                 &p->presence_window};
    for (int i = 0; i < 4; i++)
        if (*windows[i] > m->history)
            *windows[i] = m->history;
    if (p->dry_window > m->history)
        p->dry_window = m->history;
    if (p->ngram_window > m->history)
        p->ngram_window = m->history;
    if (p->no_repeat_ngram > m->history)
        p->no_repeat_ngram = 0;
    if (m->history == 0)
        p->dry_multiplier = 0.0f;
    if (m->history < p->loop_repeats * p->loop_max)
        p->loop_repeats = 0;
    if (p->loop_repeats == 0 || p->thinking_forced.count == 0)
        p->loop_action = CLS_LOOP_STOP;
    if (p->stop_ids.count == 0 ||
        (p->stop_action == CLS_STOP_END_THINKING && p->thinking_forced.count == 0))
        p->stop_action = CLS_STOP_REQUEST;
    if (m->counts == CLS_COUNTS_NONE)
        p->repetition_penalty = 1.0f;
    if (m->counts == CLS_COUNTS_NONE)
        p->presence_penalty = 0.0f;
    if (m->counts != CLS_COUNTS_ALL)
        p->frequency_penalty = 0.0f;
}

/* A chain: a preset or, of one in five, its stages in another order. */
static void random_chain(run_maker *m, cls_params *p)
{
    if (run_below(m, 2))
        p->chain = (int32_t)run_below(m, 3);
    if (run_below(m, 5) != 0)
        return;
    memcpy(p->stages, cls_chain_preset(CLS_CHAIN_DEFAULT), CLS_CHAIN_LENGTH);
    p->chain = CLS_CHAIN_CUSTOM;
    for (uint32_t i = 0; i + 1 < CLS_STAGE_COUNT; i++) {
        const uint32_t k = i + run_below(m, CLS_STAGE_COUNT - i);
        const uint8_t stage = p->stages[i];
        p->stages[i] = p->stages[k];
        p->stages[k] = stage;
    }
}

/* Parameters outside the thinking: values of those that have one for each phase. */
static void random_phase(run_maker *m, cls_params *p)
{
    cls_params *const second = cli_alloc(1, sizeof *second);
    cls_params_init(second);
    random_chain(m, second);
#define RANDOM_EACH(field, initial, least, most) \
    random_number(m, second, #field, (double)(initial), (double)(least), (double)(most));
#define RANDOM_BOTH(field, initial, least, most)
#define RANDOM_OF_PHASE(p, id, type, field, stage, phase, initial, least, most, ...) \
    RANDOM_##phase(field, initial, least, most)
    CLS_PARAMS(RANDOM_OF_PHASE, )
    second->infill = m->has_infill && run_below(m, 6) == 0;
    settle_params(m, second);
    if (p->thinking_start.count == 0)
        random_some(m, &p->thinking_start, 2);
    if (p->thinking_ends.count == 0)
        random_sequences(m, &p->thinking_ends);
    p->thinking_forced = (cls_ids){NULL, 0};
    p->mirostat = 0;
    p->adaptive_target = -1.0f;
    p->top_p_decay = 1.0f;
    p->post_thinking = second;
}

void run_make_params(run_maker *m, cls_params *p, const char *grammar)
{
    cls_params_init(p);
    random_chain(m, p);
    const uint32_t few = run_below(m, 3); /* some requests have few parameters */
#define RANDOM_NUMBER(p, id, type, field, stage, phase, initial, least, most, range, option, meta, \
                      help) \
    if (few != 0 || run_below(m, 4) == 0 || run_is_in(m->often, #field)) \
        random_number(m, p, #field, (double)(initial), (double)(least), (double)(most));
    CLS_PARAMS(RANDOM_NUMBER, p)
#define RANDOM_LIST(p, kind, list, kept, option, meta, key, help) \
    if (run_below(m, 6) == 0 || (run_is_in(m->often, #list) && run_below(m, 4))) \
        random_##kind(m, &(p)->list);
    CLS_LISTS(RANDOM_LIST, p)
    p->infill = m->has_infill && (run_is_in(m->often, "infill") || run_below(m, 6) == 0);
    p->only_allowed = p->allowed_ids.count != 0 && run_below(m, 2);
    p->grammar =
        grammar != NULL ? (const cls_grammar *)grammar : NULL; /* only its presence counts */
    if (run_is_in(m->often, "post_thinking") && run_below(m, 4))
        random_phase(m, p);
    settle_params(m, p);
    p->grammar = NULL;
}

void run_make_bits(run_maker *m, cls_params *p)
{
    static const struct {
        size_t at, size;
    } numbers[] = {
#define PLACE(p, id, type, field, ...) {offsetof(cls_params, field), sizeof(p)->field},
        CLS_PARAMS(PLACE, (cls_params *)0)};
    for (uint32_t n = run_below(m, 6); n > 0; n--) {
        const uint32_t i = run_below(m, sizeof numbers / sizeof *numbers);
        const uint64_t bits = rng_bits(&m->r);
        const cls_params before = *p;
        memcpy((char *)p + numbers[i].at, &bits, numbers[i].size);
        settle_params(m, p);
        if (cls_params_check(p, m->vocab) != CLS_OK)
            *p = before;
    }
}
