/* SPDX-License-Identifier: MIT */
/* Computes the distribution after each stage of a row's chain: the reference samples the row with
 * the first stage alone, then with the first two, and so on. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain.h"
#include "results.h"

/* Numbers beyond those of the public stages: Mirostat replaces the truncations, adaptive p the
 * draw. */
enum { MIROSTAT = 32, ADAPTIVE };

/* ------------------------------------------------------------------- the stages */

static bool is_greedy(const cls_params *p) { return p->temperature < 1e-5f; }

/* The stages that are on, in order. */
static uint32_t stages_of(const cls_params *p, uint32_t vocab, uint8_t stages[CLI_MOST_STAGES])
{
    uint8_t chain[CLS_CHAIN_LENGTH];
    uint32_t n = 0;
    if (cls_chain_stages(p->chain, chain) != CLS_OK) /* no preset: a custom chain */
        memcpy(chain, p->stages, sizeof chain);
    if (is_greedy(p) || p->mirostat != 0) {
        if (cls_stage_is_on(CLS_STAGE_TEMPERATURE, p, vocab))
            stages[n++] = CLS_STAGE_TEMPERATURE;
        if (!is_greedy(p))
            stages[n++] = MIROSTAT;
        return n;
    }
    for (uint32_t i = 0; i < CLS_CHAIN_LENGTH && chain[i] != CLS_STAGE_END; i++)
        if (cls_stage_is_on(chain[i], p, vocab))
            stages[n++] = chain[i];
    if (p->adaptive_target >= 0.0f)
        stages[n++] = ADAPTIVE;
    return n;
}

/* Copies the parameters of a stage. */
static void copy_stage(uint8_t stage, const cls_params *from, cls_params *to)
{
#define COPY(p, id, type, field, its, initial, least, most, range, option, meta, help) \
    if (CLS_STAGE_##its == stage) \
        to->field = from->field;
    CLS_PARAMS(COPY, )
#undef COPY
}

/* The parameters with an empty chain. */
static void without_chain(cls_params *p)
{
    cls_params off;
    cls_params_init(&off);
    p->chain = CLS_CHAIN_CUSTOM;
    memset(p->stages, CLS_STAGE_END, sizeof p->stages);
    for (uint8_t stage = 1; stage < CLS_PUBLIC_STAGES; stage++)
        copy_stage(stage, &off, p);
    p->mirostat = off.mirostat;
    p->adaptive_target = off.adaptive_target;
    if (p->grammar != NULL) /* it does not apply while the request thinks */
        return;
    p->thinking_budget = off.thinking_budget; /* the stages do not concern forced ids */
    p->thinking_start.count = p->thinking_end.count = p->thinking_forced.count = 0;
}

/* Adds a stage to the chain, with its parameters from `from`. */
static void add_stage(uint8_t stage, const cls_params *from, cls_params *p)
{
    const size_t n = strlen((const char *)p->stages); /* they end with CLS_STAGE_END, 0 */
    if (stage == MIROSTAT) {
        p->mirostat = from->mirostat;
    } else if (stage == ADAPTIVE) {
        p->adaptive_target = from->adaptive_target;
    } else {
        copy_stage(stage, from, p);
        p->stages[n] = stage;
    }
}

static void put(cli_shown *to, const char *format, ...)
{
    const size_t used = strlen(to->parameter);
    va_list args;
    va_start(args, format);
    vsnprintf(to->parameter + used, sizeof to->parameter - used, format, args);
    va_end(args);
}

/* Sets the stage's name and the text of its parameters. */
static void describe(uint8_t stage, const cls_host_row *row, cli_shown *to)
{
    const cls_params *const p = row->params;
    switch (stage) {
#define NAME(stage, text, field, on) \
    case CLS_STAGE_##stage: \
        to->name = text; \
        break;
        CLS_STAGE_TABLE(NAME)
    case MIROSTAT:
        to->name = "mirostat";
        break;
    default:
        to->name = "adaptive";
    }
    switch (stage) {
    case CLS_STAGE_TEMPERATURE:
        put(to, is_greedy(p) ? "%g: greedy" : "%g", (double)p->temperature);
        if (p->dynatemp_range > 0.0f && !is_greedy(p))
            put(to, " +- %g by the entropy, exponent %g", (double)p->dynatemp_range,
                (double)p->dynatemp_exponent);
        return;
    case CLS_STAGE_TOP_P:
        put(to, p->top_p_decay < 1.0f ? "%g, decay %g" : "%g", (double)p->top_p,
            (double)p->top_p_decay);
        return;
    case CLS_STAGE_XTC:
        put(to, "probability %g, threshold %g", (double)p->xtc_probability,
            (double)p->xtc_threshold);
        return;
    case MIROSTAT:
        if (row->adaptive.begun != 0)
            put(to, "%" PRId32 ", mu %g", p->mirostat, row->adaptive.mu / 1048576.0);
        else
            put(to, "%" PRId32 ", in its initial state: mu %g", p->mirostat,
                2.0 * (double)p->mirostat_tau);
        return;
    case ADAPTIVE:
        put(to, row->adaptive.begun != 0 ? "target %g" : "target %g, in its initial state",
            (double)p->adaptive_target);
        return;
    }
    /* The others are their one parameter. */
#define SHOW_FLOAT(x) put(to, "%g", (double)(x))
#define SHOW_INT(x) put(to, "%" PRId32, (int32_t)(x))
#define SHOW_UINT(x) put(to, "%" PRIu32, (uint32_t)(x))
#define SHOW_UINT64(x) put(to, "%" PRIu64, (uint64_t)(x))
#define SHOW_SWITCH(x) (void)(x)
#define SHOW_CHOICE(x) (void)(x)
#define SHOW(p, id, type, field, its, initial, least, most, range, option, meta, help) \
    if (CLS_STAGE_##its == stage) \
        SHOW_##type((p)->field);
    CLS_PARAMS(SHOW, p)
}

/* Describes the adjustments before the chain. False: there are none. */
static bool describe_adjustments(const cls_host_row *row, cli_shown *to)
{
    const cls_params *const p = row->params;
    to->name = "adjusted";
    if (row->mask != NULL)
        put(to, ", mask");
    if (p->grammar != NULL)
        put(to, ", grammar");
    if (row->bias != NULL)
        put(to, row->bias_factor == 1.0f ? ", bias" : ", bias * %g", (double)row->bias_factor);
    if (p->logit_bias.count != 0)
        put(to, ", logit bias of %" PRIu32, p->logit_bias.count);
    if (p->allowed_ids.count != 0)
        put(to, ", %" PRIu32 " allowed", p->allowed_ids.count);
    if (p->bad_words.count != 0)
        put(to, ", %" PRIu32 " bad words", p->bad_words.count);
    if (p->no_repeat_ngram != 0)
        put(to, ", no %" PRIu32 "-gram twice%s", p->no_repeat_ngram,
            p->ngram_output_only ? " in the output" : "");
    if (p->min_tokens != 0)
        put(to, ", min tokens %" PRIu32, p->min_tokens);
    if (p->repetition_penalty != 1.0f)
        put(to, ", repetition %g", (double)p->repetition_penalty);
    if (p->frequency_penalty != 0.0f)
        put(to, ", frequency %g", (double)p->frequency_penalty);
    if (p->presence_penalty != 0.0f)
        put(to, ", presence %g", (double)p->presence_penalty);
    if (p->dry_multiplier != 0.0f && p->dry_base >= 1.0f)
        put(to, ", DRY %g * %g^n", (double)p->dry_multiplier, (double)p->dry_base);
    if (to->parameter[0] == '\0')
        return false;
    memmove(to->parameter, to->parameter + 2, strlen(to->parameter + 2) + 1);
    return true;
}

/* ------------------------------------------------------------------ kept tokens */

typedef struct ranked {
    float p;
    uint32_t id;
} ranked;

static int by_rank(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return x->p != y->p ? (x->p < y->p) - (x->p > y->p) : (x->id > y->id) - (x->id < y->id);
}

/* Marks the kept tokens. The probability of some may be too small for a float. Kept tokens follow
 * one another in order, so these are the next ones. (Only the infill stage leaves gaps, and it
 * never keeps that many tokens.) */
static void mark_kept(const cli_shown *shown, const float *adjusted, uint32_t vocab, uint8_t *kept)
{
    ranked *order;
    uint32_t n = 0, at = 0;
    for (uint32_t t = 0; t < vocab; t++)
        n += kept[t] = shown->probs[t] > 0.0f;
    if (n == 0 || n >= shown->kept)
        return;
    order = cli_alloc(vocab, sizeof *order);
    for (uint32_t t = 0; t < vocab; t++)
        order[t] = (ranked){adjusted[t], t};
    qsort(order, vocab, sizeof *order, by_rank);
    while (!kept[order[at].id])
        at++;
    for (; at < vocab && n < shown->kept; at++) {
        n += !kept[order[at].id];
        kept[order[at].id] = 1;
    }
    cli_free(order);
}

static double mass_of(const float *probs, const uint8_t *kept, uint32_t vocab)
{
    double sum = 0;
    for (uint32_t t = 0; t < vocab; t++)
        sum += kept[t] ? (double)probs[t] : 0.0;
    return sum;
}

/* The dynamic temperature between two distributions, of which the first is at temperature 1. It
 * follows from the two tokens whose ratio changed most. 0 if one token is left. */
static double observed_temperature(const cls_params *p, const cli_shown *before,
                                   const cli_shown *after, uint32_t vocab)
{
    uint32_t most = 0, least;
    for (uint32_t t = 1; t < vocab; t++)
        if (after->probs[t] > after->probs[most])
            most = t;
    least = most;
    for (uint32_t t = 0; t < vocab; t++)
        if (after->probs[t] > 1e-20f && before->probs[t] > 1e-30f &&
            after->probs[t] < after->probs[least])
            least = t;
    if (before->kept <= 1)
        return (double)p->temperature;
    if (after->kept == 1)
        return 0;
    if (after->probs[least] == after->probs[most] || before->probs[least] == before->probs[most])
        return (double)p->temperature +
               (double)p->dynatemp_range; /* a uniform distribution has the largest entropy */
    return log((double)before->probs[most] / (double)before->probs[least]) /
           log((double)after->probs[most] / (double)after->probs[least]);
}

/* Runs the reference for the next stage. */
static void show(const cls_host_row *host, cli_explained *e, uint32_t top)
{
    cli_shown *const shown = &e->stage[e->count++];
    cls_host_result result = {.struct_size = sizeof result};
    shown->probs = result.probs = cli_alloc(e->vocab, sizeof *shown->probs);
    cli_sample_host(host, e->row, &result);
    shown->kept = result.kept_count;
    shown->top = cli_alloc(top, sizeof *shown->top);
    shown->top_count = cli_likeliest(shown->probs, e->vocab, 0.0f, top, shown->top);
}

/* Draws the token with the whole chain. */
static void draw(const cls_host_row *host, cli_explained *e)
{
    cls_host_result result = {.struct_size = sizeof result};
    cli_sample_host(host, e->row, &result);
    e->token = result.token;
    e->status = result.status;
    e->raw = cli_probability((double)result.logprob_raw);
    e->final = cli_probability((double)result.logprob_final);
}

/* Finds the kept tokens of all stages, and their masses; `base` is the index of the adjusted row.
 */
static void weigh(cli_explained *e, uint32_t base)
{
    for (uint32_t i = 0; i < e->count; i++) {
        cli_shown *const shown = &e->stage[i];
        const cli_shown *const before = &e->stage[i == 0 ? 0 : i - 1];
        const float *const adjusted = e->stage[i < base ? i : base].probs;
        shown->keeps = cli_alloc(e->vocab, 1);
        mark_kept(shown, adjusted, e->vocab, shown->keeps);
        shown->mass = mass_of(adjusted, shown->keeps, e->vocab);
        shown->share = mass_of(before->probs, shown->keeps, e->vocab);
    }
}

void cli_explain(const cls_host_row *row, uint32_t number, uint32_t top, cli_explained *e)
{
    const cls_params *const all = row->params;
    cls_params params;
    cls_host_row host = *row, plain;
    uint8_t stages[CLI_MOST_STAGES];
    const uint32_t n = stages_of(all, row->vocab, stages);
    uint32_t base = 0;
    memset(e, 0, sizeof *e);
    e->row = number;
    e->vocab = host.vocab;
    e->position = host.position;

    /* The logits alone, without a request. */
    cls_params_init(&params);
    cls_host_row_init(&plain);
    plain.logits = host.logits;
    plain.dtype = host.dtype;
    plain.vocab = host.vocab;
    plain.params = &params;
    e->stage[0].name = "logits";
    show(&plain, e, top);

    params = *all;
    without_chain(&params);
    host.params = &params;
    host.forced_ids = NULL;
    host.forced_count = 0;
    if (describe_adjustments(row, &e->stage[1])) {
        base = 1;
        show(&host, e, top);
    }
    for (uint32_t i = 0; i <= base; i++)
        e->stage[i].temperature = 1.0;
    for (uint32_t i = 0; i < n; i++) {
        cli_shown *const shown = &e->stage[e->count];
        add_stage(stages[i], all, &params);
        describe(stages[i], row, shown);
        shown->temperature = shown[-1].temperature;
        show(&host, e, top);
        if (stages[i] == CLS_STAGE_TEMPERATURE)
            shown->temperature = is_greedy(all) ? 0.0
                                 : all->dynatemp_range > 0.0f
                                     ? observed_temperature(all, shown - 1, shown, e->vocab)
                                     : (double)all->temperature;
    }
    weigh(e, base);
    draw(row, e);
}
