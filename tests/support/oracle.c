/* SPDX-License-Identifier: MIT */
#include "oracle.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows/kinds.h"

static int is_token(const one_row *row, int32_t id) { return id >= 0 && (uint32_t)id < row->vocab; }

/* ----------------------------------------------------------------------- order */

static int by_value_then_id(const void *a, const void *b)
{
    const oracle_entry *x = a, *y = b;
    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

void oracle_sort(oracle_entry *entries, uint32_t n)
{
    qsort(entries, n, sizeof *entries, by_value_then_id);
}

/* Collects the tokens that can be drawn, and sets the row's status. */
static void read_row(oracle *o, const one_row *row, const oracle_effect *touches,
                     const float *rounded, oracle_entry *entries)
{
    for (uint32_t i = 0; i < row->vocab; i++)
        o->top[i / 1024] = -INFINITY;
    for (uint32_t i = 0; i < row->vocab; i++) {
        const float x = oracle_raw(row, i);
        double error;
        if (!oracle_allows(row, i) || touches[i].unlisted)
            continue;
        if (isnan(x))
            o->status |= CLS_ROW_NAN;
        if (isinf(x) && x > 0)
            o->status |= CLS_ROW_INF;
        const double y = oracle_adjusted(row, i, x, &touches[i], &error);
        if (!(fabs(y - (double)rounded[i]) <= error) && (double)rounded[i] != y)
            snprintf(o->fault, sizeof o->fault, "token %u becomes %.9g, not %.9g +- %g",
                     (unsigned)i, (double)rounded[i], y, error);
        entries[o->finite].value = (double)rounded[i];
        entries[o->finite].id = i;
        o->finite += !isinf(y);
    }
    oracle_sort(entries, o->finite);
    for (uint32_t i = 0; i < o->finite; i++) {
        o->order[i] = entries[i].id;
        o->value[i] = entries[i].value;
        o->top[entries[i].id / 1024] = fmax(o->top[entries[i].id / 1024], entries[i].value);
    }
}

int oracle_stops(const one_row *row, int32_t token)
{
    uint32_t outputs = 1;
    for (uint32_t i = 0; i < row->output_count; i++)
        outputs += is_token(row, row->output[i]) != 0;
    for (uint32_t i = 0;
         i < row->params->stop_ids.count && outputs >= oracle_min_tokens(row->params); i++)
        if (row->params->stop_ids.ids[i] == token)
            return CLS_ROW_STOPPED;
    return row->params->max_tokens && outputs >= row->params->max_tokens
               ? CLS_ROW_STOPPED | CLS_ROW_LENGTH
               : 0;
}

/* Returns whether the request ended with its last output token. */
static int has_stopped(const one_row *row)
{
    one_row before = *row;
    while (before.output_count-- > 0)
        if (is_token(row, row->output[before.output_count]))
            return oracle_stops(&before, row->output[before.output_count]);
    return 0;
}

/* ------------------------------------------------------------------------ modes */

static double next_top_p(const cls_params *p, double top_p, int32_t token)
{
    return token == p->top_p_reset_id ? (double)p->top_p
                                      : fmax(top_p * (double)p->top_p_decay, (double)p->top_p_min);
}

static int decays(const cls_params *p)
{
    return p->temperature >= 1e-5f && p->mirostat == 0 && p->top_p < 1.0f && p->top_p_decay < 1.0f;
}

static int adapts(const cls_params *p)
{
    return p->temperature >= 1e-5f && p->mirostat == 0 && p->adaptive_target >= 0.0f;
}

static void begin_mode(oracle *o, const one_row *row)
{
    const cls_params *const p = row->params;
    const double rest = 1.0 - (double)p->adaptive_decay;
    o->adaptive = row->adaptive;
    o->top_p = fmax((double)p->top_p, 0.0);
    if (decays(p) && row->adaptive.begun)
        o->top_p = row->adaptive.top_p * 0x1p-32;
    for (uint32_t i = 0; decays(p) && !row->adaptive.begun && i < row->output_count; i++)
        if (is_token(row, row->output[i])) {
            o->top_p = next_top_p(p, o->top_p, row->output[i]);
            o->top_p_error += 4e-10;
        }
    if (row->adaptive.begun)
        return;
    o->adaptive.begun = 1;
    o->adaptive.mu = (int32_t)(2.0 * (double)p->mirostat_tau * 1048576.0 + 0.5);
    o->adaptive.sum = (uint32_t)(fmax(0.0, (double)p->adaptive_target) / rest * 16777216.0);
    o->adaptive.weight = (uint32_t)(16777216.0 / rest);
}

/* Returns a token's index in o->order, or o->finite. */
static uint32_t index_of(const oracle *o, int32_t token)
{
    uint32_t i = 0;
    while (i < o->finite && o->order[i] != (uint32_t)token)
        i++;
    return i;
}

/* Computes the depth of each kept token in bits below the first one. Returns their mass. */
static double measure(const oracle *o, double *depth)
{
    uint32_t top = 0;
    long double total = 0;
    while (top < o->finite && !o->keep[top])
        top++;
    for (uint32_t i = top; i < o->finite; i++) {
        const double apart = o->value[top] - o->value[i]; /* beyond float32 it is an infinity */
        depth[i] = apart > (double)FLT_MAX ? INFINITY : apart * o->scale * 1.4426950408889634;
        total += o->keep[i] ? (long double)exp2(-depth[i]) : 0.0L;
    }
    return (double)total;
}

/* Returns adaptive p's depth in bits for a probability's distance from the target. */
static double adapted(const oracle *o, double q)
{
    const double target = (double)o->params->adaptive_target,
                 average = (double)o->adaptive.sum / o->adaptive.weight;
    const double aim = fmax(0.0, fmin(1.0, 2.0 * target - average)), d = fabs(q - aim) / 0.3;
    return 10.0 * d * d / (1.0 + d) * 1.4426950408889634;
}

double oracle_probs(const oracle *o, double *probs)
{
    double *const depth = malloc((o->finite + 1) * sizeof *depth), error = 2e-6;
    long double mean = 0;
    if (depth == NULL)
        abort();
    for (uint32_t i = 0; i < o->vocab; i++)
        probs[i] = 0.0;
    if (o->last_resort >= 0)
        probs[o->last_resort] = 1.0;
    double total = o->last_resort >= 0 ? 1.0 : measure(o, depth);
    for (uint32_t i = 0; i < o->finite && o->last_resort < 0; i++)
        if (o->keep[i]) {
            probs[o->order[i]] = exp2(-depth[i]) / total;
            mean += probs[o->order[i]] > 0.0 ? (long double)(probs[o->order[i]] * depth[i]) : 0.0L;
        }
    error += o->scale_error * (double)mean;
    if (adapts(o->params) && o->last_resort < 0) {
        double least = INFINITY;
        total = 0.0;
        for (uint32_t i = 0; i < o->finite; i++)
            least = o->keep[i] ? fmin(least, adapted(o, probs[o->order[i]])) : least;
        for (uint32_t i = 0; i < o->finite; i++)
            if (o->keep[i])
                total += probs[o->order[i]] = exp2(least - adapted(o, probs[o->order[i]]));
        for (uint32_t i = 0; i < o->finite; i++)
            probs[o->order[i]] /= total;
        error = 2e-5 + 40.0 * error;
    }
    free(depth);
    return error;
}

const char *oracle_adaptive_fault(const oracle *o, int32_t token, const cls_adaptive_state *after)
{
    static char fault[160];
    const cls_params *const p = o->params;
    const uint32_t index = index_of(o, token);
    double *const depth = malloc((o->finite + 1) * sizeof *depth);
    if (depth == NULL)
        abort();
    const double total = o->last_resort >= 0 || index == o->finite ? 0.0 : measure(o, depth);
    const double bits = total > 0.0 ? fmin(depth[index], 64.0) : 0.0;
    free(depth);
    *fault = 0;
    if (!after->begun)
        snprintf(fault, sizeof fault, "the adaptive state has not begun");
    if (p->mirostat != 0 && p->temperature >= 1e-5f && total > 0.0) {
        const double tau = (double)p->mirostat_tau, eta = (double)p->mirostat_eta,
                     surprise = bits + log2(total);
        const double move = fmax(-512.0, fmin(512.0, eta * (surprise - tau)));
        const double mu = fmax(-512.0, fmin(512.0, o->adaptive.mu * 0x1p-20 - move));
        const double error =
            4e-6 + eta * (1e-5 + surprise * (4e-7 + o->scale_error)) + 6e-8 * fabs(surprise - tau);
        if (fabs(after->mu * 0x1p-20 - mu) > error)
            snprintf(fault, sizeof fault, "mu is %.9g, not %.9g", after->mu * 0x1p-20, mu);
    }
    if (adapts(p) && total > 0.0) {
        const double q = exp2(-bits) / total, decay = (double)p->adaptive_decay;
        const double sum = q + decay * o->adaptive.sum * 0x1p-24,
                     weight = 1.0 + decay * o->adaptive.weight * 0x1p-24;
        if (fabs(after->sum * 0x1p-24 - sum) > 3e-6 + 2.0 * o->scale_error * (bits + 4.0) ||
            fabs(after->weight * 0x1p-24 - weight) > 1e-6)
            snprintf(fault, sizeof fault,
                     "adaptive p's averages are %.9g of %.9g, not %.9g of %.9g",
                     after->sum * 0x1p-24, after->weight * 0x1p-24, sum, weight);
    }
    if (decays(p) &&
        fabs(after->top_p * 0x1p-32 - next_top_p(p, o->top_p, token)) > 1e-9 + o->top_p_error)
        snprintf(fault, sizeof fault, "top-p is %.9g, not %.9g", after->top_p * 0x1p-32,
                 next_top_p(p, o->top_p, token));
    return *fault ? fault : NULL;
}

/* ------------------------------------------------------------------------ whole */

int oracle_make(oracle *o, const one_row *row)
{
    const uint32_t vocab = row->vocab;
    oracle_entry *const entries = malloc(vocab * sizeof *entries);
    oracle_effect *const touches = malloc(vocab * sizeof *touches);
    float *const rounded = malloc(vocab * sizeof *rounded);
    memset(o, 0, sizeof *o);
    o->vocab = vocab;
    o->params = row->params;
    o->last_resort = -1;
    o->order = malloc(vocab * sizeof *o->order);
    o->value = malloc(vocab * sizeof *o->value);
    o->top = malloc((vocab / 1024 + 1) * sizeof *o->top);
    o->keep = calloc(vocab, 1);
    const int there = entries && touches && rounded && o->order && o->value && o->top && o->keep;
    if (there && has_stopped(row)) {
        o->status = CLS_ROW_STOPPED | CLS_ROW_SKIPPED;
    } else if (there) {
        oracle_effects(row, touches);
        oracle_rounded(row, rounded);
        read_row(o, row, touches, rounded, entries);
        o->status |= o->finite == 0 ? CLS_ROW_EMPTY : 0;
    }
    free(entries);
    free(touches);
    free(rounded);
    if (!there) {
        oracle_free(o);
        return 0;
    }
    begin_mode(o, row);
    return o->finite == 0 || oracle_run(o, row, 0);
}

int oracle_follow(oracle *o, const one_row *row)
{
    return o->fault[0] == 0 && (o->finite == 0 || oracle_run(o, row, 1));
}

void oracle_free(oracle *o)
{
    free(o->order);
    free(o->value);
    free(o->top);
    free(o->keep);
    o->order = NULL;
    o->value = o->top = NULL;
    o->keep = NULL;
}

double oracle_logprob_raw(const float *logits, uint32_t vocab, int32_t token)
{
    double max = -INFINITY;
    long double total = 0;
    for (uint32_t i = 0; i < vocab; i++)
        max = oracle_meant(logits[i]) > max ? oracle_meant(logits[i]) : max;
    for (uint32_t i = 0; i < vocab; i++)
        total += exp(oracle_meant(logits[i]) - max);
    return oracle_meant(logits[token]) - max - (double)logl(total);
}

int oracle_chi_square(const double *probs, const uint32_t *counts, uint32_t n, uint32_t draws,
                      double *statistic, double *limit)
{
    double rest_expected = 0, rest_counted = 0, sum = 0, cells = 0;
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
    /* Wilson and Hilferty's approximation of the quantile; 4.753 is the normal quantile for 1e-6.
     */
    const double df = cells > 2.0 ? cells - 1.0 : 1.0, w = 2.0 / (9.0 * df);
    *statistic = sum;
    *limit = df * pow(1.0 - w + 4.753 * sqrt(w), 3.0);
    return sum <= *limit;
}
