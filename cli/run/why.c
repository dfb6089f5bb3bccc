/* SPDX-License-Identifier: MIT */
/* Says why a step does not give the token that a text expects: another one is forced, something
 * bans it, a stage of the chain removes it, or it is in the set and another token is drawn: then
 * what else in the text would draw it. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "run/probe.h"
#include "run/script.h"

/* ------------------------------------------------------------------------- bans */

enum { LOGIT, MASK, GRAMMAR, BIAS, LOGIT_BIAS, BAD_WORDS, NGRAM, MIN_TOKENS, STOP_ACTION, BANS };

/* Each sentence goes on with the token. */
static const char *const bans[BANS] = {
    [LOGIT] = "a logit of minus infinity or NaN excludes",
    [MASK] = "the mask does not allow",
    [GRAMMAR] = "the grammar does not allow",
    [BIAS] = "the bias bans",
    [LOGIT_BIAS] = "logit_bias bans",
    [BAD_WORDS] = "bad_words bans",
    [NGRAM] = "no_repeat_ngram bans",
    [MIN_TOKENS] = "min_tokens still bans the stop ids, one of which is",
    [STOP_ACTION] = "stop_action, while the request thinks, bans"};

static bool is_allowed_id(const cls_params *p, int32_t token)
{
    bool found = p->allowed_ids.count == 0 && p->only_allowed == 0;
    for (uint32_t i = 0; i < p->allowed_ids.count; i++)
        found |= p->allowed_ids.ids[i] == token;
    return found;
}

static void copy_thinking(const cls_params *from, cls_params *to)
{
    to->thinking_start = from->thinking_start;
    to->thinking_ends = from->thinking_ends;
    to->thinking_forced = from->thinking_forced;
    to->thinking_budget = from->thinking_budget;
}

/* Finds the first ban of a token: samples rows in which only this token is allowed, without a
 * chain, with one more ban each time. BANS: there is none. min_tokens depends on all that is
 * allowed, except by masks, so that a mask allows the token alone then. */
static int find_ban(const cli_probe *probe, int32_t token)
{
    const cls_params *const p = &probe->params;
    uint8_t *const only = cli_alloc(probe->vocab, 1);
    cls_step step = probe->step;
    cls_params params;
    int ban = LOGIT;
    only[token] = 1;
    cls_params_init(&params);
    params.allowed_ids = (cls_ids){&token, 1};
    memset(&step.mask, 0, sizeof step.mask);
    memset(&step.bias, 0, sizeof step.bias);
    for (bool found = false; ban < BANS && !found; ban += !found) {
        switch (ban) {
        case MASK:
            step.mask = probe->step.mask;
            break;
        case GRAMMAR: /* unless the request thinks */
            if (p->grammar == NULL)
                break;
            params.grammar = p->grammar;
            params.grammar_state = p->grammar_state;
            copy_thinking(p, &params);
            break;
        case BIAS:
            step.bias = probe->step.bias;
            break;
        case LOGIT_BIAS:
            params.logit_bias = p->logit_bias;
            break;
        case BAD_WORDS:
            params.bad_words = p->bad_words;
            break;
        case NGRAM:
            params.no_repeat_ngram = p->no_repeat_ngram;
            params.ngram_window = p->ngram_window;
            params.ngram_output_only = p->ngram_output_only;
            params.ngram_exempt_ids = p->ngram_exempt_ids;
            break;
        case MIN_TOKENS:
            memset(&step.mask, 0, sizeof step.mask);
            step.mask.host = only;
            step.mask.kind = CLS_MASK_BOOL;
            step.mask.width = probe->vocab;
            params.allowed_ids = p->allowed_ids;
            params.only_allowed = p->only_allowed;
            params.min_tokens = p->min_tokens;
            params.stop_ids = p->stop_ids;
            break;
        case STOP_ACTION:
            if (p->stop_action != CLS_STOP_BANNED)
                break;
            copy_thinking(p, &params);
            params.stop_action = p->stop_action;
        }
        found = cli_probe_row(probe, &params, &step, NULL).token != token;
    }
    cli_free(only);
    return ban;
}

/* ----------------------------------------------------------------------- reasons */

/* What would draw the token of a row. A step with the wrong seed, or with the rows of another one,
 * draws tokens that are possible: this finds what was mixed up. */
typedef struct fits {
    const cli_probe *probe;
    int32_t token;
    uint32_t tried, found;
    run_text words;
} fits;

enum { MOST_FITS = 3, NEAR_POSITIONS = 4 }; /* that are named; tried on either side */

/* Samples the row in another way, which the words name if it draws the token. */
static void try_fit(fits *f, const cls_params *params, const cls_step *step, const char *format,
                    ...) __attribute__((format(printf, 4, 5)));
static void try_fit(fits *f, const cls_params *params, const cls_step *step, const char *format,
                    ...)
{
    char what[80];
    va_list values;
    f->tried++;
    if (cli_probe_row(f->probe, params, step, NULL).token != f->token)
        return;
    va_start(values, format);
    vsnprintf(what, sizeof what, format, values);
    va_end(values);
    if (f->found++ < MOST_FITS)
        run_add(&f->words, "%s%s", f->found > 1 ? ", and " : "", what);
}

/* Tries the seeds of the other requests. */
static void try_seeds(fits *f, run_side *side)
{
    const cls_params *const own = &f->probe->params;
    for (uint32_t i = 0; i < side->sampler_options.slot_count; i++) {
        cls_params other, params = *own;
        if (!run_has_rules(side, (int32_t)i))
            continue;
        run_params(side, side->rules[i], &other);
        params.seed = other.seed;
        params.stream = other.stream;
        if (params.seed != own->seed)
            try_fit(f, &params, &f->probe->step, "seed %" PRIu64 " (slot %" PRIu32 ") draws it",
                    params.seed, i);
        else if (params.stream != own->stream)
            try_fit(f, &params, &f->probe->step, "stream %" PRIu64 " (slot %" PRIu32 ") draws it",
                    params.stream, i);
    }
}

/* Tries the positions near the row's, where the step names that, and other numbers of draws. */
static void try_positions(fits *f)
{
    const cls_step *const own = &f->probe->step;
    for (int64_t by = -NEAR_POSITIONS; by <= NEAR_POSITIONS; by++) {
        cls_step step = *own;
        const int64_t position =
                          own->positions.host != NULL ? (uint32_t)*own->positions.host + by : -1,
                      draw = own->draws.host != NULL ? *own->draws.host + by : by;
        const int32_t at = (int32_t)(uint32_t)position, number = (int32_t)draw;
        if (by != 0 && position >= 0 && position <= UINT32_MAX) {
            step.positions.host = &at;
            try_fit(f, NULL, &step, "position %" PRId64 " draws it", position);
            step.positions = own->positions;
        }
        if (by != 0 && draw >= 0 && draw <= INT32_MAX) {
            step.draws.host = &number;
            try_fit(f, NULL, &step, "draw %" PRId64 " of the position draws it", draw);
        }
    }
}

/* Tries the step's other rows: their logits, their requests, and both. */
static void try_rows(fits *f, run_side *side, const run_statement *s, uint32_t row)
{
    const cli_probe *const own = f->probe;
    const uint32_t rows = run_step_read(side, s).rows;
    for (uint32_t i = 0; i < rows; i++) {
        cls_step step = own->step, other;
        if (i == row)
            continue;
        run_step_row(side, s, i, &other);
        step.logits = other.logits;
        step.logits_map = other.logits_map;
        try_fit(f, NULL, &step, "the logits of row %" PRIu32 " draw it", i);
        const cli_probe probe = run_probe(side, s, i);
        if (probe.sampler == NULL)
            continue;
        f->probe = &probe;
        step = own->step;
        step.positions = other.positions;
        step.draws = other.draws;
        try_fit(f, NULL, &step, "the request of row %" PRIu32 " draws it", i);
        try_fit(f, NULL, &other, "row %" PRIu32 " draws it", i);
        f->probe = own;
        cls_sampler_destroy(probe.sampler);
    }
}

/* Says what else draws a token that is in the row's set. Some fit by chance, so that it says how
 * many were tried. */
static void put_fits(const cli_probe *probe, run_side *side, const run_statement *s, uint32_t row,
                     int32_t token, run_text *t)
{
    fits f = {.probe = probe, .token = token};
    if (run_find(s, "random_bits") == NULL) {
        try_seeds(&f, side);
        try_positions(&f);
    }
    try_rows(&f, side, s, row);
    if (f.found == 0)
        return;
    run_add(t, "; %s", f.words.text);
    if (f.found > MOST_FITS)
        run_add(t, ", and %" PRIu32 " more", f.found - MOST_FITS);
    run_add(t, " (%" PRIu32 " of %" PRIu32 " others tried)", f.found, f.tried);
}

/* Says which stage removes the token. Returns false if it is in the set and another one is drawn,
 * which it says, too. */
static bool put_stage(const cli_probe *probe, int32_t token, run_text *t)
{
    cli_explained explained, *const e = &explained;
    uint32_t i = 1;
    cli_explain(probe, 0, e);
    while (i < e->count && e->stage[i].keeps[token])
        i++;
    const bool shown = i < e->count && e->stage[i].parameter[0] != '\0';
    if (i < e->count)
        run_add(t,
                "token %" PRId32 " is outside the kept set: stage %s%s%s%s removes it and leaves "
                "%" PRIu32 " of %" PRIu32 " tokens",
                token, e->stage[i].name, shown ? " (" : "", e->stage[i].parameter, shown ? ")" : "",
                e->stage[i].kept, e->stage[i - 1].kept);
    else
        run_add(t,
                "token %" PRId32 ", of final probability %.6f, is also in the set of %" PRIu32
                " tokens, but it is not the one that is drawn",
                token, (double)e->stage[i - 1].probs[token], e->stage[i - 1].kept);
    return i < e->count;
}

/* Says what forces the token that the host gives, or forces one that the mask forbids. */
static void put_forced(const cli_probe *probe, int32_t drawn, run_text *t)
{
    cls_step step = probe->step;
    memset(&step.mask, 0, sizeof step.mask);
    const cli_probed without = cli_probe_row(probe, NULL, &step, NULL);
    if (!(without.status & CLS_ROW_FORCED))
        return;
    if (drawn < 0)
        run_add(t, "the mask does not allow token %" PRId32 ", which is forced", without.token);
    else
        run_add(t, "the request must emit it");
}

void run_why(run_side *side, const run_statement *s, uint32_t row, int32_t token, bool forced,
             run_text *t)
{
    const cli_probe probe = run_probe(side, s, row);
    if (probe.sampler == NULL)
        return;
    const cli_probed drawn = cli_probe_row(&probe, NULL, &probe.step, NULL);
    if (drawn.token == token) {
        run_add(t, "the token is right, but its status is not");
    } else if (drawn.token < 0 || (drawn.status & CLS_ROW_FORCED)) {
        put_forced(&probe, drawn.token, t);
    } else if (token >= 0 && (uint32_t)token >= probe.vocab) {
        run_add(t, "token %" PRId32 " is not in the vocabulary", token);
    } else if (token >= 0 && forced) {
        run_add(t, "nothing forces token %" PRId32, token);
    } else if (token >= 0 && !is_allowed_id(&probe.params, token)) {
        run_add(t, "token %" PRId32 " is not one of the allowed ids", token);
    } else if (token >= 0 && probe.params.post_thinking != NULL) {
        run_add(t, "another token is drawn, by the parameters of the row's phase");
    } else if (token >= 0) {
        const int ban = find_ban(&probe, token);
        if (ban != BANS)
            run_add(t, "%s token %" PRId32, bans[ban], token);
        else if (!put_stage(&probe, token, t))
            put_fits(&probe, side, s, row, token, t);
    }
    cls_sampler_destroy(probe.sampler);
}
