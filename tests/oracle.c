/* SPDX-License-Identifier: MIT */
#include "oracle.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double meant(float x)
{
    if (isnan(x))
        return -INFINITY;
    if (isinf(x))
        return x > 0 ? FLT_MAX : -INFINITY;
    return fabsf(x) < FLT_MIN ? 0.0 : x;
}

typedef struct entry {
    double value;
    uint32_t id;
} entry;

static int by_value_then_id(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* The weight of a token relative to the likeliest. */
static double weigh(const oracle *o, uint32_t place, double scale)
{
    return exp((o->value[place] - o->value[0]) * scale);
}

static uint32_t cut_top_k(uint32_t n, int32_t k)
{
    return k > 0 && (uint32_t)k < n ? (uint32_t)k : n;
}

static uint32_t cut_top_p(const oracle *o, uint32_t n, double scale, double p, double slack)
{
    if (p >= 1.0)
        return n;
    if (p <= 0.0)
        return 1;
    long double total = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        total += weigh(o, i, scale);
    for (uint32_t i = 0; i < n; i++) {
        sum += weigh(o, i, scale);
        if (sum >= total * (p + slack))
            return i + 1;
    }
    return n;
}

/* In natural logarithms; the slack is the rounding of a float32 depth. */
static uint32_t cut_min_p(const oracle *o, uint32_t n, double scale, double min_p, double slack)
{
    if (min_p <= 0.0)
        return n;
    /* What is less than 2^-100 bits under the maximum counts as the maximum. */
    const double most = fmax(-log(min_p), 0x1p-100 * 0.69314718055994531), depth_slack = slack * most * 0.3;
    uint32_t kept = 0;
    while (kept < n && (o->value[0] - o->value[kept]) * scale <= most + depth_slack)
        kept++;
    return kept ? kept : 1;
}

/* The chains as the header orders them: t, k, p and m for its four stages. */
static uint32_t run_chain(const oracle *o, const cls_params *params, double slack)
{
    static const char *const chains[] = {"tkpm", "tmkp", "kpmt"};
    double scale = 1.0;
    uint32_t n = o->finite;
    for (const char *stage = chains[params->chain]; *stage; stage++) {
        switch (*stage) {
        case 't':
            scale = 1.0 / params->temperature;
            break;
        case 'k':
            n = cut_top_k(n, params->top_k >= (int64_t)o->vocab ? 0 : params->top_k);
            break;
        case 'p':
            n = cut_top_p(o, n, scale, params->top_p, slack);
            break;
        default:
            n = cut_min_p(o, n, scale, params->min_p, slack);
        }
    }
    return n;
}

int oracle_make(oracle *o, const float *logits, uint32_t vocab, const int32_t *mask, uint32_t mask_width,
                const cls_params *params)
{
    entry *entries = malloc(vocab * sizeof *entries);
    memset(o, 0, sizeof *o);
    o->vocab = vocab;
    o->order = malloc(vocab * sizeof *o->order);
    o->value = malloc(vocab * sizeof *o->value);
    if (!entries || !o->order || !o->value) {
        free(entries);
        oracle_free(o);
        return 0;
    }
    for (uint32_t i = 0; i < vocab; i++) {
        if (mask && (i / 32 >= mask_width || !((uint32_t)mask[i / 32] >> (i % 32) & 1u)))
            continue;
        if (isnan(logits[i]))
            o->status |= CLS_ROW_NAN;
        if (isinf(logits[i]) && logits[i] > 0)
            o->status |= CLS_ROW_INF;
        if (isinf(meant(logits[i])))
            continue;
        entries[o->finite].value = meant(logits[i]);
        entries[o->finite++].id = i;
    }
    qsort(entries, o->finite, sizeof *entries, by_value_then_id);
    for (uint32_t i = 0; i < o->finite; i++) {
        o->order[i] = entries[i].id;
        o->value[i] = entries[i].value;
    }
    free(entries);
    if (o->finite == 0) {
        o->status |= CLS_ROW_EMPTY;
        return 1;
    }
    const int greedy = params->temperature < 1e-5f;
    o->scale = greedy ? 1.0 : 1.0 / params->temperature;
    o->kept = greedy ? 1 : run_chain(o, params, 0.0);
    o->kept_least = greedy ? 1 : run_chain(o, params, -1e-6);
    o->kept_most = greedy ? 1 : run_chain(o, params, 1e-6);
    return 1;
}

void oracle_free(oracle *o)
{
    free(o->order);
    free(o->value);
    o->order = NULL;
    o->value = NULL;
}

void oracle_probs(const oracle *o, uint32_t kept, double *probs)
{
    long double total = 0;
    for (uint32_t i = 0; i < o->vocab; i++)
        probs[i] = 0.0;
    for (uint32_t i = 0; i < kept; i++)
        total += weigh(o, i, o->scale);
    for (uint32_t i = 0; i < kept; i++)
        probs[o->order[i]] = (double)(weigh(o, i, o->scale) / total);
}

double oracle_logprob_raw(const float *logits, uint32_t vocab, int32_t token)
{
    double max = -INFINITY;
    long double total = 0;
    for (uint32_t i = 0; i < vocab; i++)
        max = meant(logits[i]) > max ? meant(logits[i]) : max;
    for (uint32_t i = 0; i < vocab; i++)
        total += exp(meant(logits[i]) - max);
    return meant(logits[token]) - max - (double)logl(total);
}

int oracle_chi_square(const double *probs, const uint32_t *counts, uint32_t n, uint32_t draws, double *statistic,
                      double *limit)
{
    double rest_expected = 0, rest_counted = 0, sum = 0;
    uint32_t cells = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double expected = probs[i] * draws, counted = counts[i];
        if (counts[i] && probs[i] <= 0.0)
            return 0;
        if (expected < 5.0) {
            rest_expected += expected;
            rest_counted += counted;
        } else {
            sum += (counted - expected) * (counted - expected) / expected;
            cells++;
        }
    }
    if (rest_expected >= 5.0) {
        sum += (rest_counted - rest_expected) * (rest_counted - rest_expected) / rest_expected;
        cells++;
    }
    /* Wilson and Hilferty's approximation of the quantile; 4.753: normal, 1e-6. */
    const double df = cells > 1 ? cells - 1.0 : 1.0, w = 2.0 / (9.0 * df);
    *statistic = sum;
    *limit = df * pow(1.0 - w + 4.753 * sqrt(w), 3.0);
    return sum <= *limit;
}
