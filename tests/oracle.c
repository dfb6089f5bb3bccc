/* SPDX-License-Identifier: MIT */
#include "oracle.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "inputs.h"

static double meant(float x)
{
    if (isnan(x))
        return -INFINITY;
    if (isinf(x))
        return x > 0 ? FLT_MAX : -INFINITY;
    return fabsf(x) < FLT_MIN ? 0.0 : x;
}

/* ----------------------------------------------------------------- adjustments */

static int is_token(const cls_host_row *row, int32_t id)
{
    return id >= 0 && (uint32_t)id < row->vocab;
}

static int is_allowed(const cls_host_row *row, uint32_t i)
{
    if (row->mask == NULL)
        return 1;
    if (row->mask_kind == CLS_MASK_BOOL)
        return i < row->mask_width && ((const unsigned char *)row->mask)[i];
    return i / 32 < row->mask_width && (((const uint32_t *)row->mask)[i / 32] >> i % 32) % 2;
}

typedef struct tally {
    uint32_t prompt, output; /* times in the window */
} tally;

/* Latest first, as far as the window goes. */
static void take_tally(const cls_host_row *row, tally *of)
{
    uint32_t room = row->params->penalty_window ? row->params->penalty_window : UINT32_MAX;
    for (uint32_t i = row->output_count; i-- > 0;)
        if (is_token(row, row->output[i]) && room && room--)
            of[row->output[i]].output++;
    for (uint32_t i = row->prompt_count; i-- > 0;)
        if (is_token(row, row->prompt[i]) && room && room--)
            of[row->prompt[i]].prompt++;
}

static double limited(double x)
{
    return fmax(-(double)FLT_MAX, fmin(x, (double)FLT_MAX));
}

/* The row's logit of a token with every adjustment; -inf bans. *error: how far
 * off float32 may be. */
static double adjusted(const cls_host_row *row, uint32_t i, float x, const tally *t, double *error)
{
    const cls_params *const p = row->params;
    const uint32_t counted = t->output + (p->penalty_scope == CLS_SCOPE_ALL ? t->prompt : 0);
    double y = meant(x), bias = 0.0;
    int biased = 0;
    *error = 0.0;
    for (uint32_t n = 0; n < p->logit_bias_count; n++)
        if ((uint32_t)p->logit_bias[n].id == i) {
            bias += (double)p->logit_bias[n].bias;
            biased = 1;
        }
    if (isinf(y) || isinf(bias))
        return -INFINITY;
    if (biased) {
        y = limited(y + bias);
        *error += 0x1p-23 * (fabs(y) + fabs(bias));
    }
    if (t->prompt + t->output == 0)
        return y;
    y = limited(y > 0.0 ? y / (double)p->repetition_penalty : y * (double)p->repetition_penalty);
    *error = *error * fmax((double)p->repetition_penalty, 1.0 / (double)p->repetition_penalty) + 0x1p-23 * fabs(y);
    if (counted > 0) {
        const double often = (double)p->frequency_penalty * fmin(counted, 65535.0), present = (double)p->presence_penalty;
        y = limited(y - limited(often));
        *error += 0x1p-23 * (fabs(y) + fabs(often));
        y = limited(y - present);
        *error += 0x1p-23 * fabs(y);
    }
    *error += 0x1p-119; /* less than 2^-120 counts as nothing */
    return y;
}

/* ----------------------------------------------------------------------- order */

typedef struct entry {
    double value, error;
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

/* In natural logarithms; the slack is the rounding of a float32 depth, and the
 * errors of both logits. */
static uint32_t cut_min_p(const oracle *o, uint32_t n, double scale, double min_p, double slack)
{
    if (min_p <= 0.0)
        return n;
    /* What is less than 2^-100 bits under the maximum counts as the maximum. */
    const double most = fmax(-log(min_p), 0x1p-100 * 0.69314718055994531), depth_slack = slack * most * 0.3;
    const double side = slack > 0.0 ? 1.5 : slack < 0.0 ? -1.5 : 0.0;
    uint32_t kept = 0;
    while (kept < n && (o->value[0] - o->value[kept]) * scale <=
                           most + depth_slack + side * scale * (o->error[0] + o->error[kept]))
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

/* The tokens that can be drawn, and what is wrong with the row. */
static void read_row(oracle *o, const cls_host_row *row, const tally *tallies, entry *entries)
{
    for (uint32_t i = 0; i < row->vocab; i++) {
        float x = dtype_decode(row->dtype, (const char *)row->logits + i * dtype_size(row->dtype));
        if (!is_allowed(row, i))
            continue;
        if (row->bias != NULL)
            x += dtype_decode(row->bias_dtype, (const char *)row->bias + i * dtype_size(row->bias_dtype));
        if (isnan(x))
            o->status |= CLS_ROW_NAN;
        if (isinf(x) && x > 0)
            o->status |= CLS_ROW_INF;
        entry *const e = &entries[o->finite];
        e->value = adjusted(row, i, x, &tallies[i], &e->error);
        e->id = i;
        o->finite += !isinf(e->value);
    }
    qsort(entries, o->finite, sizeof *entries, by_value_then_id);
    for (uint32_t i = 0; i < o->finite; i++) {
        o->order[i] = entries[i].id;
        o->value[i] = entries[i].value;
        o->error[i] = entries[i].error;
    }
}

/* How much of the mass the errors can move. */
static double slack_of(const oracle *o)
{
    double moved = 0.0, total = 0.0;
    for (uint32_t i = 0; i < o->finite; i++) {
        total += weigh(o, i, o->scale);
        moved += weigh(o, i, o->scale) * fmin(1.0, (o->error[i] + o->error[0]) * 2.0 * fmax(o->scale, 1.0));
    }
    return moved / total;
}

int oracle_stops(const cls_host_row *row, int32_t token)
{
    uint32_t outputs = 1;
    for (uint32_t i = 0; i < row->output_count; i++)
        outputs += is_token(row, row->output[i]) != 0;
    for (uint32_t i = 0; i < row->params->stop_count; i++)
        if (row->params->stop_ids[i] == token)
            return CLS_ROW_STOPPED;
    return row->params->max_tokens && outputs >= row->params->max_tokens ? CLS_ROW_STOPPED | CLS_ROW_LENGTH : 0;
}

/* Whether it ended with its latest output. */
static int has_stopped(const cls_host_row *row)
{
    cls_host_row before = *row;
    while (before.output_count-- > 0)
        if (is_token(row, row->output[before.output_count]))
            return oracle_stops(&before, row->output[before.output_count]);
    return 0;
}

int oracle_make(oracle *o, const cls_host_row *row)
{
    const uint32_t vocab = row->vocab;
    entry *const entries = malloc(vocab * sizeof *entries);
    tally *const tallies = calloc(vocab, sizeof *tallies);
    memset(o, 0, sizeof *o);
    o->vocab = vocab;
    o->order = malloc(vocab * sizeof *o->order);
    o->value = malloc(vocab * sizeof *o->value);
    o->error = malloc(vocab * sizeof *o->error);
    if (!entries || !tallies || !o->order || !o->value || !o->error) {
        free(entries);
        free(tallies);
        oracle_free(o);
        return 0;
    }
    if (has_stopped(row)) {
        o->status = CLS_ROW_STOPPED | CLS_ROW_SKIPPED;
    } else {
        take_tally(row, tallies);
        read_row(o, row, tallies, entries);
        o->status |= o->finite == 0 ? CLS_ROW_EMPTY : 0;
    }
    free(entries);
    free(tallies);
    if (o->finite == 0)
        return 1;
    const int greedy = row->params->temperature < 1e-5f;
    o->scale = greedy ? 1.0 : 1.0 / (double)row->params->temperature;
    o->slack = slack_of(o);
    o->kept = greedy ? 1 : run_chain(o, row->params, 0.0);
    o->kept_least = greedy ? 1 : run_chain(o, row->params, -1e-6 - o->slack);
    o->kept_most = greedy ? 1 : run_chain(o, row->params, 1e-6 + o->slack);
    return 1;
}

void oracle_free(oracle *o)
{
    free(o->order);
    free(o->value);
    free(o->error);
    o->order = NULL;
    o->value = NULL;
    o->error = NULL;
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
