/* SPDX-License-Identifier: MIT */
/* Makes texts of random calls. They are made from the sampler's options and a seed alone, so that a
 * text can be run on every side, and made shorter where one differs. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "run/calls.h"
#include "run/script.h"

/* ------------------------------------------------------------ random parameters */

/* The most slots and rows of which random calls make use, and bytes of their text. */
enum { MOST_OF_CALL = 256, MOST_BYTES = 1 << 28 };

/* A script while it is made. */
typedef struct maker {
    const run_statement *s;
    rng r;
    run_text text;
    const char *features, *without; /* NULL: all, and none */
    const char *often;              /* parameters of most requests; or NULL */
    uint32_t texts;                 /* the longest random text of a request */
    bool bits;                      /* parameters may have any bits */
    bool has_halves;                /* whether some logits are f16 or bf16 */
    uint32_t vocab, slots, rows, history, rollback, counts;
    uint32_t grammars;
    bool begun[MOST_OF_CALL];
    bool follows[MOST_OF_CALL]; /* a grammar, whose name is the slot's */
    char grammar[MOST_OF_CALL][8];
    bool saved, has_infill;
    char saved_grammar[8];
} maker;

static uint32_t below(maker *m, uint32_t n) { return rng_below(&m->r, n); }

static bool is_in_list(const char *list, const char *name)
{
    return run_listed(list, ',', name) != NULL;
}

static bool has_feature(const maker *m, const char *name)
{
    return (m->features == NULL || is_in_list(m->features, name)) && !is_in_list(m->without, name);
}

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
    {"thinking_budget", 1, "0 1 2 5"},
    {"relaxed_top_k", 1, "1 2 5"},
    {"relaxed_delta", 1, "0.1 0.5 1"},
    {"watermark_context", 1, "1 2 4 5 16"},
    {"watermark_key", 4, "42 18446744073709551615"},
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
static void pick_word(maker *m, const char *words, char to[32])
{
    uint32_t n = 1;
    for (const char *at = words; *at != '\0'; at++)
        n += *at == ' ';
    for (uint32_t skip = below(m, n); skip > 0; words++)
        skip -= *words == ' ';
    snprintf(to, 32, "%.*s", (int)strcspn(words, " "), words);
}

static void random_number(maker *m, cls_params *p, const char *field, double initial, double least,
                          double most)
{
    const struct usual *const u = usual_of(field);
    const int often = is_in_list(m->often, field) ? 7 : u != NULL ? u->often : 1;
    char text[32];
    if ((int)below(m, 8) >= often)
        return;
    if (u != NULL)
        pick_word(m, u->values, text);
    else /* a parameter that is new here */
        snprintf(text, sizeof text, "%.9g", below(m, 2) ? initial : below(m, 2) ? least : most);
    cli_param_set(field, field, text, p);
}

static void random_some(maker *m, cls_ids *list, uint32_t most)
{
    const uint32_t n = most == 4 && below(m, 12) == 0 ? m->vocab : most; /* a long list */
    int32_t *const ids = cli_alloc(n, sizeof *ids);
    *list = (cls_ids){ids, 1 + below(m, n)};
    for (uint32_t i = 0; i < list->count; i++)
        ids[i] = (int32_t)below(m, below(m, 2) ? m->vocab : m->vocab < 6 ? m->vocab : 6);
}

static void random_ids(maker *m, cls_ids *list) { random_some(m, list, 4); }

static void random_biases(maker *m, cls_biases *list)
{
    const uint32_t most = below(m, 4) ? 5 : m->vocab;
    cls_logit_bias *const biases = cli_alloc(most, sizeof *biases);
    *list = (cls_biases){biases, 1 + below(m, most)};
    for (uint32_t i = 0; i < list->count; i++)
        biases[i] = (cls_logit_bias){(int32_t)below(m, m->vocab),
                                     below(m, 5) ? (float)(4 * rng_normal(&m->r)) : -INFINITY};
}

static void random_sequences(maker *m, cls_sequences *list)
{
    cls_ids *const sequences = cli_alloc(4, sizeof *sequences);
    *list = (cls_sequences){sequences, 1 + below(m, 4)};
    for (uint32_t i = 0; i < list->count; i++)
        random_some(m, &sequences[i], 3);
}

/* What the tables cannot say: which parameters need each other. */
static void settle_params(maker *m, cls_params *p)
{
    if (p->loop_min > p->loop_max)
        p->loop_max = p->loop_min;
    if (p->loop_repeats == 1)
        p->loop_repeats = 0;
    if (p->relaxed_top_k == 0)
        p->relaxed_delta = 0.0f;
    if (p->thinking_forced.count == 0) {
        p->thinking_budget = 0;
        if (p->relaxed_top_k == 0 && p->grammar == NULL && p->post_thinking == NULL)
            p->thinking_start = p->thinking_end = (cls_ids){NULL, 0};
    }
    if (p->watermark_context > m->history || p->mirostat != 0 || p->adaptive_target >= 0.0f ||
        p->relaxed_top_k != 0)
        p->watermark_context = 0;
    if (p->watermark_context == 0)
        p->watermark_key = 0;
    if (p->penalty_window > m->history)
        p->penalty_window = m->history;
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
    if (m->counts == CLS_COUNTS_NONE)
        p->repetition_penalty = 1.0f;
    if (m->counts == CLS_COUNTS_NONE)
        p->presence_penalty = 0.0f;
    if (m->counts != CLS_COUNTS_ALL)
        p->frequency_penalty = 0.0f;
}

/* Parameters outside the thinking, of requests that may have some. */
static void random_phase(maker *m, cls_params *p)
{
    static const char *const fields[] = {"temperature",
                                         "top_k",
                                         "top_p",
                                         "min_p",
                                         "typical_p",
                                         "xtc_probability",
                                         "xtc_threshold",
                                         "dynatemp_range",
                                         "top_a",
                                         "min_keep",
                                         "top_n_sigma",
                                         "presence_penalty",
                                         "frequency_penalty",
                                         "repetition_penalty"};
    cls_params *const second = cli_alloc(1, sizeof *second);
    cls_params_init(second);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        random_number(m, second, fields[i], 0.0, 0.0, 0.0);
    settle_params(m, second);
    if (p->thinking_start.count == 0)
        random_some(m, &p->thinking_start, 2);
    if (p->thinking_end.count == 0)
        random_some(m, &p->thinking_end, 2);
    p->thinking_forced = (cls_ids){NULL, 0};
    p->mirostat = 0;
    p->adaptive_target = -1.0f;
    p->top_p_decay = 1.0f;
    p->post_thinking = second;
}

static void random_params(maker *m, cls_params *p, const char *grammar)
{
    cls_params_init(p);
    if (below(m, 2))
        p->chain = (int32_t)below(m, 3);
    const uint32_t few = below(m, 3); /* some requests have few parameters */
#define RANDOM_NUMBER(p, id, type, field, stage, initial, least, most, range, option, meta, help) \
    if (few != 0 || below(m, 4) == 0 || is_in_list(m->often, #field)) \
        random_number(m, p, #field, (double)(initial), (double)(least), (double)(most));
    CLS_PARAMS(RANDOM_NUMBER, p)
#define RANDOM_LIST(p, kind, list, kept, option, meta, key, help) \
    if (below(m, 6) == 0 || (is_in_list(m->often, #list) && below(m, 4))) \
        random_##kind(m, &(p)->list);
    CLS_LISTS(RANDOM_LIST, p)
    p->infill = m->has_infill && below(m, 6) == 0;
    p->only_allowed = p->allowed_ids.count != 0 && below(m, 2);
    p->grammar =
        grammar != NULL ? (const cls_grammar *)grammar : NULL; /* only its presence counts */
    if (is_in_list(m->often, "post_thinking") && below(m, 4))
        random_phase(m, p);
    settle_params(m, p);
    p->grammar = NULL;
    if (below(m, 5) == 0) { /* stages in another order */
        const uint8_t *const preset = cls_chain_preset(CLS_CHAIN_DEFAULT);
        memcpy(p->stages, preset, CLS_CHAIN_LENGTH);
        p->chain = CLS_CHAIN_CUSTOM;
        for (uint32_t i = 0; i + 1 < CLS_STAGE_COUNT; i++) {
            const uint32_t k = i + below(m, CLS_STAGE_COUNT - i);
            const uint8_t stage = p->stages[i];
            p->stages[i] = p->stages[k];
            p->stages[k] = stage;
        }
    }
}

/* Sets some numbers to any bits that the library accepts. */
static void random_bits(maker *m, cls_params *p)
{
    static const struct {
        size_t at, size;
    } numbers[] = {
#define PLACE(p, id, type, field, ...) {offsetof(cls_params, field), sizeof(p)->field},
        CLS_PARAMS(PLACE, (cls_params *)0)};
    for (uint32_t n = below(m, 6); n > 0; n--) {
        const uint32_t i = below(m, sizeof numbers / sizeof *numbers);
        const uint64_t bits = rng_bits(&m->r);
        const cls_params before = *p;
        memcpy((char *)p + numbers[i].at, &bits, numbers[i].size);
        settle_params(m, p);
        if (cls_params_check(p, m->vocab) != CLS_OK)
            *p = before;
    }
}

/* ----------------------------------------------------------------- statements */

static uint32_t a_slot(maker *m) { return below(m, m->slots); }

static uint32_t a_begun_slot(maker *m)
{
    for (uint32_t tries = 0; tries < 8; tries++) {
        const uint32_t slot = a_slot(m);
        if (m->begun[slot])
            return slot;
    }
    return a_slot(m);
}

static int32_t a_token(maker *m, uint32_t words)
{
    if (below(m, 30) == 0)
        return below(m, 2) ? -1 : (int32_t)m->vocab;
    return (int32_t)below(m, words < m->vocab ? words : m->vocab);
}

/* A text of few words or of many. Half of the texts repeat themselves. */
static void add_text(maker *m, const char *key, uint32_t most)
{
    const uint32_t words = below(m, 2) ? 4 : m->vocab, period = 1 + below(m, 6),
                   repeats = below(m, 2);
    int32_t before[8] = {0};
    uint32_t n = below(m, most + 1);
    if (m->texts != 0 && n != 0 && below(m, 2)) {
        run_add(&m->text, " %s=random:%" PRIu32 ":%" PRIu32 ":%" PRIu32, key, below(m, 100000),
                1 + below(m, m->texts), words);
        return;
    }
    if (n == 0)
        return;
    run_add(&m->text, " %s=", key);
    for (uint32_t i = 0; i < n; i++) {
        int32_t *const word = &before[i % period];
        *word = i < period || !repeats || below(m, 12) == 0 ? a_token(m, words) : *word;
        run_add(&m->text, "%s%" PRId32, i > 0 ? "," : "", *word);
    }
}

/* Chooses one of the grammars for a slot, or none. */
static const char *choose_grammar(maker *m, uint32_t slot)
{
    m->follows[slot] = m->grammars != 0 && below(m, 3) == 0;
    snprintf(m->grammar[slot], sizeof m->grammar[slot], "g%" PRIu32,
             m->grammars != 0 ? below(m, m->grammars) : 0);
    return m->follows[slot] ? m->grammar[slot] : NULL;
}

static void add_params(maker *m, uint32_t slot, const char *verb)
{
    cls_params p;
    const char *const grammar = choose_grammar(m, slot);
    for (int tries = 0; tries < 4; tries++) {
        random_params(m, &p, grammar);
        if (cls_params_check(&p, m->vocab) == CLS_OK)
            break;
    }
    if (m->bits)
        random_bits(m, &p);
    run_add(&m->text, "%s %" PRIu32, verb, slot);
    run_add_params(&m->text, &p);
    if (grammar != NULL)
        run_add(&m->text, " grammar=%s", grammar);
}

static void add_begin(maker *m)
{
    const uint32_t slot = a_slot(m);
    add_params(m, slot, "begin");
    add_text(m, "prompt", below(m, 10) ? 12 : 90);
    add_text(m, "output", below(m, 3) ? 0 : 9);
    m->begun[slot] = true;
}

static void add_new_params(maker *m) { add_params(m, a_begun_slot(m), "params"); }

static void add_append(maker *m)
{
    run_add(&m->text, "append %" PRIu32, a_begun_slot(m));
    add_text(m, "prompt", 9);
}

static void add_turn(maker *m)
{
    run_add(&m->text, "turn %" PRIu32, a_begun_slot(m));
    add_text(m, "prompt", 6);
}

static void add_force(maker *m)
{
    run_add(&m->text, "force %" PRIu32, a_begun_slot(m));
    const uint32_t n = below(m, 5);
    for (uint32_t i = 0; i < n; i++)
        run_add(&m->text, "%s%" PRIu32, i > 0 ? "," : " ids=", below(m, m->vocab));
}

static void add_copy(maker *m)
{
    const uint32_t to = a_slot(m), from = a_begun_slot(m);
    run_add(&m->text, "copy %" PRIu32 " from=%" PRIu32, to, from);
    if (!m->begun[from] || to == from)
        return;
    m->begun[to] = true;
    m->follows[to] = m->follows[from];
    memcpy(m->grammar[to], m->grammar[from], sizeof m->grammar[to]);
}

static void add_rollback(maker *m)
{
    const uint32_t most = m->rollback < 6 ? m->rollback : below(m, 4) ? 3 : m->rollback;
    run_add(&m->text, "rollback %" PRIu32 " count=%" PRIu32, a_begun_slot(m),
            below(m, 20) ? below(m, most + 1) : m->rollback + below(m, 2));
}

static void add_reset(maker *m)
{
    const uint32_t slot = a_slot(m);
    run_add(&m->text, "reset %" PRIu32, slot);
    m->begun[slot] = false;
}

static void add_save(maker *m)
{
    const uint32_t slot = a_begun_slot(m);
    run_add(&m->text, "save %" PRIu32 " as=saved", slot);
    if (!m->begun[slot])
        return;
    m->saved = true;
    snprintf(m->saved_grammar, sizeof m->saved_grammar, "%s",
             m->follows[slot] ? m->grammar[slot] : "");
}

static void add_load(maker *m)
{
    const uint32_t slot = a_slot(m);
    if (!m->saved) {
        add_save(m);
        return;
    }
    run_add(&m->text, "load %" PRIu32 " from=saved", slot);
    m->begun[slot] = true;
    m->follows[slot] = m->saved_grammar[0] != '\0';
    memcpy(m->grammar[slot], m->saved_grammar, sizeof m->grammar[slot]);
    if (m->follows[slot])
        run_add(&m->text, " grammar=%s", m->saved_grammar);
}

/* Writes slots of rows, each once unless they may be shared; returns their number. */
static uint32_t add_slots(maker *m, uint32_t most, bool shared)
{
    uint32_t listed[MOST_OF_CALL], n = 0;
    const uint32_t want = 1 + below(m, most < 5 ? most : below(m, 4) ? 4 : most);
    for (uint32_t tries = 0; n < want && tries < 4 * want; tries++) {
        const uint32_t slot = a_begun_slot(m);
        bool twice = !m->begun[slot];
        for (uint32_t i = 0; i < n; i++)
            twice |= listed[i] == slot && !shared;
        if (!twice && n < MOST_OF_CALL)
            listed[n++] = slot;
    }
    run_add(&m->text, " slots=%s", below(m, 3) ? "" : "@");
    for (uint32_t i = 0; i < n; i++)
        run_add(&m->text, "%s%" PRId32, i > 0 ? "," : "", below(m, 25) ? (int32_t)listed[i] : -1);
    if (n == 0)
        run_add(&m->text, "-1");
    return n != 0 ? n : 1;
}

/* Writes a map of rows of which there are `of`. */
static void add_map(maker *m, const char *key, uint32_t rows, uint32_t of)
{
    const bool on_device = below(m, 2);
    run_add(&m->text, " %s=%s", key, on_device ? "@" : "");
    for (uint32_t i = 0; i < rows; i++)
        run_add(&m->text, "%s%" PRId32, i > 0 ? "," : "",
                below(m, 8) == 0 ? -1 : (int32_t)below(m, of + (on_device && below(m, 9) == 0)));
}

static void add_logits(maker *m)
{
    static const char *const types[] = {"f16", "bf16"};
    run_add(&m->text, " logits=random:%" PRIu32, below(m, 1000000));
    if (m->has_halves && below(m, 4) == 0)
        run_add(&m->text, " dtype=%s", types[below(m, 2)]);
}

static void add_inputs(maker *m, uint32_t rows)
{
    add_logits(m);
    if (has_feature(m, "mask") && below(m, is_in_list(m->often, "mask") ? 2 : 5) == 0) {
        run_add(&m->text, " mask=random:%" PRIu32 ":%d", below(m, 100000),
                below(m, 3)   ? 90
                : below(m, 2) ? 30
                              : 2);
        if (below(m, 3) == 0)
            run_add(&m->text, " mask_kind=bool mask_width=%" PRIu32,
                    below(m, 2) ? m->vocab : 1 + below(m, m->vocab));
        else if (below(m, 4) == 0 && m->vocab > 32)
            run_add(&m->text, " mask_width=%" PRIu32, 1 + below(m, m->vocab / 32));
        if (below(m, 3) == 0)
            add_map(m, "mask_map", rows, rows);
        if (below(m, 3) == 0)
            run_add(&m->text, " mask_host=1");
    }
    if (has_feature(m, "bias") && below(m, 6) == 0) {
        run_add(&m->text, " bias=random:%" PRIu32, below(m, 100000));
        if (below(m, 3) == 0)
            run_add(&m->text, " bias_dtype=%s", below(m, 2) ? "f16" : "bf16");
        if (below(m, 3) == 0)
            add_map(m, "bias_map", rows, rows);
        if (below(m, 2))
            run_add(&m->text, " bias_factor=%s", below(m, 2) ? "-0.5" : "3");
    }
}

/* shared: rows may share a slot. */
static void add_outputs(maker *m, bool verifies, bool shared)
{
    const char *before = " outputs=";
    if (!has_feature(m, "outputs") || (below(m, 3) && !is_in_list(m->often, "outputs")))
        return;
    if (below(m, 2)) {
        run_add(&m->text, "%sfinal", before);
        before = ",";
    }
    static const char *const names[] = {"logprobs", "ranks",        "top",     "given",
                                        "probs",    "final_logits", "entropy", "kept_mass",
                                        "kept",     "counts",       "set",     "latest"};
    static const uint32_t counts[] = {0, 0, 7, 5, 0, 0, 0, 0, 9, 0, 20, 0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (below(m, 3) || (verifies && (i == 4 || i == 5)) || ((verifies || shared) && i == 11))
            continue;
        run_add(&m->text, "%s%s", before, names[i]);
        before = ",";
        const uint32_t most = i == 10 && below(m, 2) ? m->vocab : counts[i];
        if (counts[i] != 0)
            run_add(&m->text, ":%" PRIu32, 1 + below(m, most < m->vocab ? most : m->vocab));
    }
    if (below(m, 8) == 0 && strcmp(before, ",") != 0)
        run_add(&m->text, "%spacked:%" PRIu32, before, 1 + below(m, m->vocab * (1 + below(m, 4))));
    else if (strcmp(before, ",") != 0)
        run_add(&m->text, "%slogprobs", before);
}

static void add_step(maker *m)
{
    const bool defers = has_feature(m, "defer") && below(m, 6) == 0, shared = defers && below(m, 2);
    const size_t begin = m->text.length;
    run_add(&m->text, "step");
    const uint32_t rows = add_slots(m, m->rows, shared);
    const size_t slots = m->text.length - begin - strlen("step");
    if (defers)
        run_add(&m->text, " defer=1");
    if (below(m, 8) == 0) {
        run_add(&m->text, " positions=%s", below(m, 2) ? "@" : "");
        for (uint32_t i = 0; i < rows; i++)
            run_add(&m->text, "%s%" PRIu32, i > 0 ? "," : "", below(m, 1000));
    }
    if (shared || below(m, 10) == 0) {
        run_add(&m->text, " draws=%s", below(m, 2) ? "@" : "");
        for (uint32_t i = 0; i < rows; i++)
            run_add(&m->text, "%s%" PRIu32, i > 0 ? "," : "", below(m, 5));
    }
    if (below(m, 8) == 0) {
        add_map(m, "logits_map", rows, rows);
        run_add(&m->text, " logits_rows=%" PRIu32, rows);
    }
    if (below(m, 12) == 0)
        run_add(&m->text, " random_bits=%s:%" PRIu32,
                has_feature(m, "edges") && below(m, 2) ? "edges" : "random", below(m, 1000));
    if (!defers && below(m, 12) == 0)
        run_add(&m->text, " invalid_token=0");
    add_inputs(m, rows);
    add_outputs(m, false, shared);
    if (defers && !shared) {
        char *const same = cli_alloc(slots + 1, 1);
        memcpy(same, m->text.text + begin + strlen("step"), slots);
        run_add(&m->text, "\naccept%s tokens=drawn", same);
    }
}

static void add_verify(maker *m)
{
    static const char *const methods[] = {"match", "match", "standard", "block", "typical"};
    const uint32_t method = below(m, 5);
    const bool trees = method < 2 && below(m, 2);
    uint32_t drafts[MOST_OF_CALL], total = 0;
    const size_t begin = m->text.length;
    run_add(&m->text, "verify");
    const uint32_t requests = add_slots(m, m->rows < 8 ? (m->rows + 1) / 2 : 4, false);
    char *const at = strchr(m->text.text + begin, '@'); /* its maps are on the host */
    if (at != NULL) {
        memmove(at, at + 1, strlen(at));
        m->text.length--;
    }
    run_add(&m->text, " drafts=");
    for (uint32_t i = 0; i < requests; i++) {
        const uint32_t left = m->rows - requests - total;
        drafts[i] = below(m, (left < 5 ? left : 5) + 1);
        total += drafts[i];
        run_add(&m->text, "%s%" PRIu32, i > 0 ? "," : "", drafts[i]);
    }
    run_add(&m->text, " method=%s", methods[method]);
    if (total != 0)
        run_add(&m->text, " ids=%slikely:%" PRIu32, below(m, 2) ? "@" : "", below(m, 100000));
    if (trees && total != 0) {
        const char *before = " parents=";
        for (uint32_t i = 0; i < requests; i++)
            for (uint32_t k = 0; k < drafts[i]; k++) {
                run_add(&m->text, "%s%" PRId32, before, (int32_t)below(m, k + 1) - 1);
                before = ",";
            }
    }
    if ((method == 2 || method == 3) && total != 0 && below(m, 4))
        run_add(&m->text, " draft=%s:%" PRIu32,
                below(m, 2)   ? "near"
                : below(m, 2) ? "probs"
                              : "logits",
                below(m, 100000));
    if (below(m, 6) == 0)
        run_add(&m->text, " disable_bonus=1");
    if (below(m, 6) == 0)
        run_add(&m->text, " max_drafts=%" PRIu32, 5 + below(m, 4));
    for (int i = 0; i < 2; i++)
        if (below(m, 8) == 0) {
            const char *before = i == 0 ? " positions=" : " draws=";
            for (uint32_t k = 0; k < requests; k++, before = ",")
                run_add(&m->text, "%s%" PRIu32, before, below(m, 1000));
        }
    if (method == 4 && below(m, 2))
        run_add(&m->text, " epsilon=0.3 delta=0.6");
    add_inputs(m, total + requests);
    add_outputs(m, true, false);
}

static void add_accept(maker *m)
{
    const uint32_t per_row = below(m, 2) ? 1 : 1 + below(m, 4);
    run_add(&m->text, "accept");
    const uint32_t rows = add_slots(m, m->rows, false);
    if (per_row > 1)
        run_add(&m->text, " per_row=%" PRIu32, per_row);
    run_add(&m->text, " tokens=%s", below(m, 2) ? "@" : "");
    for (uint32_t i = 0; i < rows * per_row; i++)
        run_add(&m->text, "%s%" PRId32, i > 0 ? "," : "",
                below(m, 9) == 0 ? -1
                                 : (int32_t)below(m, below(m, 2) || m->vocab < 4 ? m->vocab : 4));
    if (below(m, 3) == 0) {
        run_add(&m->text, " counts=");
        for (uint32_t i = 0; i < rows; i++)
            run_add(&m->text, "%s%" PRIu32, i > 0 ? "," : "", below(m, per_row + 1));
    }
    if (has_feature(m, "rollback") && m->rollback != 0 && below(m, 3) == 0) {
        run_add(&m->text, " rollback=");
        for (uint32_t i = 0; i < rows; i++)
            run_add(&m->text, "%s%" PRIu32, i > 0 ? "," : "",
                    below(m, m->rollback < 3 ? m->rollback + 1 : 3));
    }
}

static void add_draft(maker *m)
{
    run_add(&m->text, "draft");
    add_slots(m, m->rows, true);
    run_add(&m->text, " k=%" PRIu32 " min_n=%" PRIu32 " max_n=%" PRIu32, 1 + below(m, 6),
            1 + below(m, 2), 2 + below(m, 4));
    if (below(m, 4) == 0)
        run_add(&m->text, " fill=0");
}

static void add_logprobs(maker *m)
{
    run_add(&m->text, "logprobs rows=%" PRIu32, 1 + below(m, m->rows));
    add_logits(m);
    run_add(&m->text, " outputs=top:%" PRIu32 ",given:3",
            1 + below(m, m->vocab < 7 ? m->vocab : 7));
}

static const struct kind {
    const char *feature; /* what `features` must have */
    uint32_t weight;
    void (*add)(maker *m);
} kinds[] = {
    {"begin", 12, add_begin},      {"params", 6, add_new_params}, {"append", 4, add_append},
    {"turn", 2, add_turn},         {"force", 4, add_force},       {"fork", 5, add_copy},
    {"rollback", 6, add_rollback}, {"reset", 1, add_reset},       {"save", 5, add_save},
    {"save", 3, add_load},         {"step", 45, add_step},        {"verify", 14, add_verify},
    {"accept", 8, add_accept},     {"draft", 3, add_draft},       {"logprobs", 2, add_logprobs},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void add_statement(maker *m)
{
    for (;;) {
        uint32_t all = 0, at, i = 0;
        for (int k = 0; k < KINDS; k++)
            all += kinds[k].weight;
        for (at = below(m, all); at >= kinds[i].weight; i++)
            at -= kinds[i].weight;
        const bool always = kinds[i].add == add_begin ||
                            (kinds[i].add == add_step && !is_in_list(m->without, "step"));
        if (!always && !has_feature(m, kinds[i].feature))
            continue;
        kinds[i].add(m);
        run_add(&m->text, "\n");
        return;
    }
}

/* What the lists of a random statement name. */
#define FEATURES \
    "verify|accept|draft|logprobs|params|append|turn|force|fork|rollback|reset|save|grammar|" \
    "infill|mask|bias|outputs|edges|defer|step"
#define NUMBER_WORD(p, id, type, field, stage, initial, least, most, range, option, meta, help) \
#field "|"
#define LIST_WORD(p, kind, list, kept, option, meta, key, help) #list "|"
#define OFTEN CLS_PARAMS(NUMBER_WORD, ) CLS_LISTS(LIST_WORD, ) "post_thinking|mask|outputs"

/* Refuses what no text of calls can be made for: it is made before the library sees the sampler. */
static void check_sampler(const run_statement *s, const cls_sampler_options *o)
{
    const struct {
        const char *name;
        uint32_t value, least, most;
    } limits[] = {{"vocab", o->vocab, 1, 1 << 20},
                  {"slots", o->slot_count, 1, 1 << 24},
                  {"rows", o->max_rows, 1, 65535},
                  {"max_history", o->max_history, 0, 1 << 20},
                  {"max_rollback", o->max_rollback, 0, 1 << 14}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].value < limits[i].least || limits[i].value > limits[i].most)
            run_die(s,
                    "the sampler has %s=%" PRIu32 "; for random calls it must be %" PRIu32
                    " to %" PRIu32,
                    limits[i].name, limits[i].value, limits[i].least, limits[i].most);
}

/* The text of a random statement: one statement a line, of so many calls at most. `sampler` is the
 * latest statement of one before it. */
static char *make_text(const run_statement *s, const run_statement *sampler, uint32_t add_to_seed,
                       uint32_t most_calls)
{
    maker *const m = cli_alloc(1, sizeof *m);
    const uint32_t calls = run_count(s, "calls", 100);
    const cls_sampler_options o = run_sampler_options(sampler, 0);
    run_check_keys(s, "calls seed features without often texts bits", NULL);
    check_sampler(s, &o);
    m->s = s;
    m->r.state = (run_number(s, "seed", 1) + add_to_seed) * 7919 + 17;
    m->features = run_find(s, "features");
    m->without = run_find(s, "without");
    m->often = run_find(s, "often");
    run_check_words(s, "features", FEATURES);
    run_check_words(s, "without", FEATURES);
    run_check_words(s, "often", OFTEN);
    m->texts = run_count(s, "texts", 0);
    m->bits = run_number(s, "bits", 0) != 0;
    m->has_halves = o.dtypes == 7;
    m->vocab = o.vocab;
    m->slots = run_least(o.slot_count, MOST_OF_CALL);
    m->rows = run_least(o.max_rows, MOST_OF_CALL);
    m->history = o.max_history;
    m->rollback = o.max_rollback;
    m->counts = (uint32_t)o.counts;
    if (calls > 1000000)
        run_die(s, "calls=%" PRIu32 " exceeds 1000000", calls);
    if (has_feature(m, "grammar") && m->vocab > 1)
        for (; m->grammars < 3; m->grammars++)
            run_add(&m->text, "grammar g%" PRIu32 " seed=%" PRIu32 " states=%" PRIu32 "\n",
                    m->grammars, below(m, 1000), 1 + below(m, m->grammars == 2 ? 40 : 6));
    if (has_feature(m, "infill") && below(m, 3) == 0) {
        run_add(&m->text, "infill end=0 seed=%" PRIu32 "\n", below(m, 100));
        m->has_infill = true;
    }
    for (uint32_t i = 0; i < m->slots && i < 4; i++) {
        add_begin(m);
        run_add(&m->text, "\n");
    }
    for (uint32_t i = 0; i < calls && i < most_calls; i++) {
        add_statement(m);
        if (m->text.length > MOST_BYTES)
            run_die(s, "the text of %" PRIu32 " random calls is larger than %d bytes", calls,
                    (int)MOST_BYTES);
    }
    if (has_feature(m, "save")) /* what is left in the slots */
        run_add(&m->text, "save 0-%" PRIu32 " as=saved\n", m->slots - 1);
    return m->text.text;
}

run_script run_expand(const run_script *script, uint32_t add_to_seed, uint32_t most_calls)
{
    run_script all = {.path = script->path};
    const run_statement *sampler = NULL;
    for (uint32_t i = 0; i < script->count; i++) {
        const run_statement *const s = &script->statement[i];
        run_script part = {.statement = &script->statement[i], .count = 1};
        if (strcmp(s->verb, "sampler") == 0)
            sampler = s;
        if (strcmp(s->verb, "random") == 0) {
            if (sampler == NULL)
                run_die(s, "there is no sampler yet");
            part = run_parse(script->path, make_text(s, sampler, add_to_seed, most_calls));
            for (uint32_t k = 0; k < part.count; k++) {
                part.statement[k].line = s->line;
                part.statement[k].is_random = true;
            }
        }
        all.statement = cli_grow(all.statement, (size_t)all.count + part.count, sizeof *s);
        memcpy(all.statement + all.count, part.statement, part.count * sizeof *s);
        all.count += part.count;
    }
    return all;
}
