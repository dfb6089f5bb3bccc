/* SPDX-License-Identifier: MIT */
/* Computes the distribution after each stage of a row's chain: the host samples the row with the
 * first stage alone, then with the first two, and so on. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/probe.h"

/* Numbers beyond those of the public stages: Mirostat replaces the truncations, adaptive p the
 * draw. */
enum { MIROSTAT = 32, ADAPTIVE };

/* --------------------------------------------------------------------- a sample */

static cls_buffer host_buffer(void *pointer, size_t size)
{
    return (cls_buffer){.pointer = pointer, .size = size, .kind = CLS_BUFFER_HOST};
}

static void sample(const cli_probe *probe, cls_step *step)
{
    step->defer_accept = 1; /* the request stays as it is */
    if (cls_sample(probe->sampler, NULL, step, 0, NULL, NULL) != CLS_OK)
        cli_die("%s", cls_error_message());
}

cli_probed cli_probe_row(const cli_probe *probe, const cls_params *params, const cls_step *inputs,
                         float *probs)
{
    static const int32_t slots[] = {0, 1};
    cli_probed out = {.kept = 0};
    cls_step step = *inputs;
    cls_outputs outputs;
    cls_outputs_init(&outputs);
    if (params != NULL && (cls_slot_copy(probe->sampler, 1, 0) != CLS_OK ||
                           cls_slot_params(probe->sampler, 1, params) != CLS_OK ||
                           cls_slot_force(probe->sampler, 1, NULL, 0) != CLS_OK))
        cli_die("%s", cls_error_message());
    step.slots = (cls_ints){.host = &slots[params != NULL]};
    step.outputs = &outputs;
    step.tokens = host_buffer(&out.token, sizeof out.token);
    step.status = host_buffer(&out.status, sizeof out.status);
    outputs.logprobs = host_buffer(&out.raw, sizeof out.raw);
    outputs.kept.counts = host_buffer(&out.kept, sizeof out.kept);
    if (probs != NULL)
        outputs.probs = host_buffer(probs, probe->vocab * sizeof *probs);
    sample(probe, &step);
    cls_outputs_init(&outputs);
    outputs.logprob_kind = CLS_LOGPROB_FINAL;
    outputs.logprobs = host_buffer(&out.final, sizeof out.final);
    sample(probe, &step);
    return out;
}

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
#define COPY(p, id, type, field, its, phase, initial, least, most, range, option, meta, help) \
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
    p->post_thinking = NULL;
    if (p->grammar != NULL) /* it does not apply while the request thinks */
        return;
    p->thinking_budget = off.thinking_budget; /* the stages do not concern forced ids */
    p->thinking_start.count = p->thinking_ends.count = p->thinking_forced.count = 0;
    p->loop_action = off.loop_action; /* without these ids nothing can end the thinking */
    if (p->stop_action == CLS_STOP_END_THINKING)
        p->stop_action = off.stop_action;
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
static void describe(uint8_t stage, const cls_params *p, cli_shown *to)
{
    switch (stage) {
#define NAME(stage, run, keeps_min, text, field, on) \
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
        put(to, "%" PRId32 ", tau %g, eta %g", p->mirostat, (double)p->mirostat_tau,
            (double)p->mirostat_eta);
        return;
    case ADAPTIVE:
        put(to, "target %g, decay %g", (double)p->adaptive_target, (double)p->adaptive_decay);
        return;
    }
    /* The others are their one parameter. */
#define SHOW_FLOAT(x) put(to, "%g", (double)(x))
#define SHOW_INT(x) put(to, "%" PRId32, (int32_t)(x))
#define SHOW_UINT(x) put(to, "%" PRIu32, (uint32_t)(x))
#define SHOW_UINT64(x) put(to, "%" PRIu64, (uint64_t)(x))
#define SHOW_SWITCH(x) (void)(x)
#define SHOW_CHOICE(x) (void)(x)
#define SHOW(p, id, type, field, its, phase, initial, least, most, range, option, meta, help) \
    if (CLS_STAGE_##its == stage) \
        SHOW_##type((p)->field);
    CLS_PARAMS(SHOW, p)
}

/* Describes the adjustments before the chain. False: there are none. */
static bool describe_adjustments(const cli_probe *probe, cli_shown *to)
{
    const cls_params *const p = &probe->params;
    const float factor = probe->step.bias.factor;
    to->name = "adjusted";
    if (probe->step.mask.host != NULL || probe->step.mask.words.pointer != NULL)
        put(to, ", mask");
    if (p->grammar != NULL)
        put(to, ", grammar");
    if (probe->step.bias.values.pointer != NULL)
        put(to, factor == 0.0f || factor == 1.0f ? ", bias" : ", bias * %g", (double)factor);
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

/* Finds the tokens with the largest probabilities above 0, in descending order. top: [most].
 * Returns how many there are. */
static uint32_t likeliest(const float *probs, uint32_t vocab, uint32_t most, uint32_t *top)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < vocab && most != 0; t++) {
        uint32_t at = n;
        if (!(probs[t] > 0.0f) || (n == most && probs[t] <= probs[top[n - 1]]))
            continue;
        if (n < most)
            n++;
        else
            at--;
        for (; at > 0 && probs[top[at - 1]] < probs[t]; at--)
            top[at] = top[at - 1];
        top[at] = t;
    }
    return n;
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

/* Samples the row for the next stage. */
static void show(const cli_probe *probe, const cls_params *params, const cls_step *inputs,
                 cli_explained *e, uint32_t top)
{
    cli_shown *const shown = &e->stage[e->count++];
    shown->probs = cli_alloc(e->vocab, sizeof *shown->probs);
    shown->kept = cli_probe_row(probe, params, inputs, shown->probs).kept;
    shown->top = cli_alloc(top, sizeof *shown->top);
    shown->top_count = likeliest(shown->probs, e->vocab, top, shown->top);
}

/* Draws the token with the whole chain. */
static void draw(const cli_probe *probe, cli_explained *e)
{
    const cli_probed drawn = cli_probe_row(probe, NULL, &probe->step, NULL);
    e->token = drawn.token;
    e->status = drawn.status;
    e->raw = cli_probability((double)drawn.raw);
    e->final = cli_probability((double)drawn.final);
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

void cli_explain(const cli_probe *probe, uint32_t top, cli_explained *e)
{
    const cls_params *const all = &probe->params;
    cls_params params;
    cls_step plain = probe->step;
    uint8_t stages[CLI_MOST_STAGES];
    const uint32_t n = stages_of(all, probe->vocab, stages);
    uint32_t base = 0;
    memset(e, 0, sizeof *e);
    e->vocab = probe->vocab;

    /* The logits alone. */
    cls_params_init(&params);
    memset(&plain.mask, 0, sizeof plain.mask);
    memset(&plain.bias, 0, sizeof plain.bias);
    e->stage[0].name = "logits";
    show(probe, &params, &plain, e, top);

    params = *all;
    without_chain(&params);
    if (describe_adjustments(probe, &e->stage[1])) {
        base = 1;
        show(probe, &params, &probe->step, e, top);
    }
    for (uint32_t i = 0; i <= base; i++)
        e->stage[i].temperature = 1.0;
    for (uint32_t i = 0; i < n; i++) {
        cli_shown *const shown = &e->stage[e->count];
        add_stage(stages[i], all, &params);
        describe(stages[i], all, shown);
        shown->temperature = shown[-1].temperature;
        show(probe, &params, &probe->step, e, top);
        if (stages[i] == CLS_STAGE_TEMPERATURE)
            shown->temperature = is_greedy(all) ? 0.0
                                 : all->dynatemp_range > 0.0f
                                     ? observed_temperature(all, shown - 1, shown, e->vocab)
                                     : (double)all->temperature;
    }
    weigh(e, base);
    draw(probe, e);
}
