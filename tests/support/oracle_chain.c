/* SPDX-License-Identifier: MIT */
/* Runs the stages of a chain in order and compares the library's set after each of them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"

/* Returns whether the parameters turn a stage on. */
static int is_on(const cls_params *p, uint32_t vocab, int stage)
{
    switch (stage) {
    case CLS_STAGE_TEMPERATURE:
        return p->temperature != 1.0f || p->dynatemp_range > 0.0f;
    case CLS_STAGE_TOP_K:
        return p->top_k > 0 && (uint32_t)p->top_k < vocab;
    case CLS_STAGE_TOP_P:
        return p->top_p < 1.0f;
    case CLS_STAGE_MIN_P:
        return p->min_p > 0.0f;
    case CLS_STAGE_TOP_N_SIGMA:
        return p->top_n_sigma > 0.0f;
    case CLS_STAGE_TYPICAL_P:
        return p->typical_p < 1.0f;
    case CLS_STAGE_XTC:
        return p->xtc_probability > 0.0f && p->xtc_threshold <= 0.5f;
    case CLS_STAGE_P_LESS:
        return p->p_less != 0;
    case CLS_STAGE_INFILL:
        return p->infill != 0;
    case CLS_STAGE_TOP_A:
        return p->top_a > 0.0f;
    }
    return 0;
}

/* The preset chains as the header documents them, one letter per stage in the order of cls_stage.
 */
static const char letters[] = " tkpmsyxlia";
static const char *const presets[] = {"tkpmasyxli", "tmakpsyxli", "skypmaxtli"};

/* Lists the stages that are on. Returns their number. */
static int chain_of(const cls_params *p, uint32_t vocab, int *stages)
{
    int n = 0;
    for (int i = 0; i < CLS_CHAIN_LENGTH; i++) {
        int stage = CLS_STAGE_END;
        if (p->mirostat != 0)
            stage = i == 0 ? CLS_STAGE_TEMPERATURE : i == 1 ? ORACLE_MIROSTAT : CLS_STAGE_END;
        else if (p->chain == CLS_CHAIN_CUSTOM)
            stage = p->stages[i];
        else if ((size_t)i < strlen(presets[p->chain]))
            stage = (int)(strchr(letters, presets[p->chain][i]) - letters);
        if (stage == CLS_STAGE_END)
            break;
        if (stage == ORACLE_MIROSTAT || is_on(p, vocab, stage))
            stages[n++] = stage;
    }
    return n;
}

/* Returns the parameters with a chain that ends with the n-th of these stages. */
static cls_params shortened(const cls_params *p, const int *stages, int n)
{
    cls_params to, off;
    cls_params_init(&off);
    to = *p;
    to.chain = CLS_CHAIN_CUSTOM;
    memset(to.stages, 0, sizeof to.stages);
    unsigned has = 0;
    for (int i = 0; i < n; i++) {
        to.stages[i] = (uint8_t)stages[i];
        has |= stages[i] < 32 ? 1u << stages[i] : 0u; /* Mirostat's number is larger */
    }
#define UNLESS(stage, field) \
    if (!(has & 1u << (stage))) \
        to.field = off.field;
    UNLESS(CLS_STAGE_TEMPERATURE, temperature)
    UNLESS(CLS_STAGE_TEMPERATURE, dynatemp_range)
    UNLESS(CLS_STAGE_TOP_K, top_k)
    UNLESS(CLS_STAGE_TOP_P, top_p)
    UNLESS(CLS_STAGE_TOP_P, top_p_decay)
    UNLESS(CLS_STAGE_MIN_P, min_p)
    UNLESS(CLS_STAGE_TOP_N_SIGMA, top_n_sigma)
    UNLESS(CLS_STAGE_TYPICAL_P, typical_p)
    UNLESS(CLS_STAGE_XTC, xtc_probability)
    UNLESS(CLS_STAGE_P_LESS, p_less)
    UNLESS(CLS_STAGE_INFILL, infill)
    UNLESS(CLS_STAGE_TOP_A, top_a)
#undef UNLESS
    to.mirostat = 0;
    to.adaptive_target = off.adaptive_target;
    return to;
}

/* Computes the weights and their possible loss, which is up to 2^-29 of the tile's largest weight
 * for each. */
static void measure(const oracle *o, oracle_set *s)
{
    const double top = o->value[s->index[0]], bits = o->scale * 1.4426950408889634;
    long double total = 0, moved = 0, lost = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const double depth = (top - o->value[s->index[i]]) * bits,
                     of_tile = (top - o->top[o->order[s->index[i]] / 1024]) * bits;
        s->depth[i] = depth;
        s->weight[i] = exp2(-depth);
        total += (long double)s->weight[i];
        moved += s->weight[i] > 0.0 ? (long double)(s->weight[i] * depth) : 0.0L;
        lost += depth < 64.0
                    ? (long double)(fmin(s->weight[i], exp2(-29.0 - fmax(0.0, of_tile))) * depth)
                    : 0.0L;
    }
    s->total = (double)total;
    s->slack = 1e-6 + o->scale_error * (double)(moved / total);
    s->lost = (double)(lost / total);
}

static int blame(oracle *o, int stage, const char *what, int32_t id)
{
    static const char *const names[] = {"",       "temperature", "top-k",   "top-p",
                                        "min-p",  "top-n-sigma", "typical", "XTC",
                                        "p-less", "infill",      "top-a"};
    snprintf(o->fault, sizeof o->fault, "after the stage of %s: %s (token %d)",
             stage == ORACLE_MIROSTAT ? "mirostat" : names[stage], what, (int)id);
    return 0;
}

/* Compares a stage's verdicts with the library's set. Adopts the library's choice where a rounding
 * may have decided. */
static int settle(oracle *o, oracle_set *s, int stage, const one_result *library)
{
    const int empty = library->status & (CLS_ROW_UNFIT | CLS_ROW_EMPTY);
    uint32_t kept = 0, first = s->n, unknown = 0, weighing = 0;
    if (empty != o->empty_status)
        return o->undecided || blame(o, stage, "a status", library->status);
    if (empty)
        return 1;
    if (o->last_resort >= 0) {
        if (library->kept_count == 1 && library->probs[o->last_resort] > 0.0f)
            return 1;
        return o->undecided || blame(o, stage, "not the first end id alone", o->last_resort);
    }
    for (uint32_t i = 0; i < s->n; i++) {
        const int32_t id = (int32_t)o->order[s->index[i]];
        const int in = library->probs[id] > 0.0f;
        first = in && first == s->n ? i : first;
        weighing += in != 0;
        if (!in && first < s->n && s->depth[i] - s->depth[first] > ORACLE_MAY_WEIGH_NOTHING) {
            unknown += s->verdict[i] & ORACLE_EITHER; /* the token may be in the set even so */
        } else if (s->verdict[i] & ORACLE_EITHER) {
            s->verdict[i] = (uint8_t)in;
        } else if (in != s->verdict[i]) {
            return o->undecided || blame(o, stage, in ? "is kept" : "is dropped", id);
        }
        kept += s->verdict[i] & ORACLE_IN;
    }
    for (uint32_t id = 0; id < o->vocab; id++)
        weighing -= library->probs[id] > 0.0f;
    if (weighing != 0)
        return o->undecided || blame(o, stage, "a token is back", -1);
    if (kept != library->kept_count && unknown == 0 && !o->undecided)
        return blame(o, stage, "the wrong number of them is kept", (int32_t)library->kept_count);
    o->undecided |= kept != library->kept_count;
    return 1;
}

/* Checks that of equally likely tokens those with lower ids are kept; XTC's upper cut is excepted.
 */
static int ties_are_right(oracle *o, const oracle_set *s, int stage)
{
    for (uint32_t i = 1; i < s->n && stage != CLS_STAGE_XTC && stage != CLS_STAGE_INFILL; i++)
        if (o->value[s->index[i]] == o->value[s->index[i - 1]] &&
            (s->verdict[i] & 1) > (s->verdict[i - 1] & 1))
            return o->undecided || blame(o, stage, "kept before an equal one of lower id",
                                         (int32_t)o->order[s->index[i]]);
    return 1;
}

static void shrink(oracle_set *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->verdict[i] & ORACLE_IN)
            s->index[n++] = s->index[i];
    s->n = n;
}

static int run_chain(oracle *o, const one_row *row, oracle_set *s, float *probs)
{
    int stages[CLS_CHAIN_LENGTH];
    const int n = chain_of(o->params, o->vocab, stages);
    for (int i = 0; i < n && o->last_resort < 0 && o->empty_status == 0; i++) {
        measure(o, s);
        oracle_stage(o, s, row, stages[i]);
        if (stages[i] == CLS_STAGE_TEMPERATURE)
            measure(o, s);
        if (probs != NULL &&
            (stages[i] != CLS_STAGE_TEMPERATURE || o->params->dynatemp_range > 0.0f)) {
            one_row shorter = *row;
            cls_params p = shortened(o->params, stages, i + 1);
            one_result result = {.probs = probs};
            if (i == n - 1) { /* the request's own chain */
                p = *o->params;
                p.adaptive_target = -1.0f;
            }
            shorter.params = &p;
            if (one_sample(&shorter, &result) != CLS_OK)
                return blame(o, stages[i], cls_error_message(), -1);
            if (!settle(o, s, stages[i], &result) || !ties_are_right(o, s, stages[i]))
                return 0;
        }
        shrink(s);
        if (s->n == 0 && o->last_resort < 0)
            return blame(o, stages[i], "nothing is left", -1);
    }
    return 1;
}

int oracle_run(oracle *o, const one_row *row, int follow)
{
    const size_t size = (o->finite + 1) * sizeof(double);
    float *const probs = follow ? malloc(o->vocab * sizeof *probs) : NULL;
    oracle_set s = {.n = o->finite,
                    .index = malloc(size),
                    .depth = malloc(size),
                    .weight = malloc(size),
                    .verdict = malloc(size)};
    if (s.index == NULL || s.depth == NULL || s.weight == NULL || s.verdict == NULL ||
        (follow && probs == NULL))
        abort();
    o->scale = 1.0;
    o->scale_error = 0.0;
    o->last_resort = -1;
    o->empty_status = 0;
    o->undecided = 0;
    for (uint32_t i = 0; i < o->finite; i++)
        s.index[i] = i;
    if (o->params->temperature < 1e-5f)
        s.n = 1;
    const int right = o->params->temperature < 1e-5f || run_chain(o, row, &s, probs);
    memset(o->keep, 0, o->finite);
    for (uint32_t i = 0; i < s.n && o->last_resort < 0; i++)
        o->keep[s.index[i]] = 1;
    o->kept = o->empty_status ? 0 : o->last_resort < 0 ? s.n : 1;
    free(s.index);
    free(s.depth);
    free(s.weight);
    free(s.verdict);
    free(probs);
    return right;
}
