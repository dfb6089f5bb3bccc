/* SPDX-License-Identifier: MIT */
#include "brute.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static void *memory(size_t n, size_t size)
{
    void *const p = calloc(n, size);
    if (p == NULL)
        abort();
    return p;
}

static const double *sorted; /* the values of the row that is sorted */

static int by_value_then_id(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return sorted[x] != sorted[y] ? (sorted[x] < sorted[y]) - (sorted[x] > sorted[y])
                                  : (x > y) - (x < y);
}

void brute_make(brute *b, const float *logits, uint32_t vocab, const float *probs)
{
    long double total = 0;
    b->vocab = vocab;
    b->n = 0;
    b->rounded = probs != NULL;
    b->order = memory(vocab, sizeof *b->order);
    b->value = memory(vocab, sizeof *b->value);
    b->logprob = memory(vocab, sizeof *b->logprob);
    b->rank = memory(vocab, sizeof *b->rank);
    for (uint32_t i = 0; i < vocab; i++) {
        b->value[i] = isnan(logits[i])             ? -INFINITY
                      : fabsf(logits[i]) < FLT_MIN ? 0.0
                                                   : fmin((double)logits[i], FLT_MAX);
        b->logprob[i] = -INFINITY;
        if (!isinf(b->value[i]))
            b->order[b->n++] = i;
    }
    sorted = b->value;
    qsort(b->order, b->n, sizeof *b->order, by_value_then_id);
    for (uint32_t i = 0; i < b->n; i++)
        total += expl((long double)(b->value[b->order[i]] - b->value[b->order[0]]));
    b->entropy = 0.0;
    for (uint32_t i = b->n; i-- > 0;) {
        const uint32_t id = b->order[i];
        double *const lp = &b->logprob[id];
        b->rank[id] = i + 1 < b->n && b->value[b->order[i + 1]] == b->value[id]
                          ? b->rank[b->order[i + 1]]
                          : (int32_t)i + 1;
        *lp = b->value[id] - b->value[b->order[0]] - (double)logl(total);
        if (probs)
            *lp = log((double)probs[id]);
        b->entropy -= exp(*lp) > 0.0 ? exp(*lp) * *lp : 0.0;
    }
}

void brute_free(brute *b)
{
    free(b->order);
    free(b->value);
    free(b->logprob);
    free(b->rank);
}

int brute_near(double ours, double expected)
{
    /* If a difference of logits exceeds float32, it counts as infinite at any temperature. */
    if (isinf(expected) || fabs(expected) > 1e36)
        return ours == expected || (isinf(ours) && ours < 0) || fabs(ours / expected - 1.0) < 1e-5;
    return fabs(ours - expected) <= 1e-5 * (1.0 + fabs(expected));
}

static int is_near(const brute *b, double ours, double expected)
{
    return brute_near(ours, expected) ||
           (b->rounded && fabs(ours - expected) <= 0x1p-28 * exp(-expected));
}

uint32_t brute_top(const brute *b, const int32_t *ids, const float *logprobs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const int32_t id = i < b->n ? (int32_t)b->order[i] : -1;
        if ((ids != NULL && ids[i] != id) ||
            (logprobs != NULL &&
             !is_near(b, (double)logprobs[i], id < 0 ? -INFINITY : b->logprob[id])))
            return i;
    }
    return n;
}

uint32_t brute_given(const brute *b, const int32_t *ids, const float *logprobs,
                     const int32_t *ranks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const int is_token = ids[i] >= 0 && (uint32_t)ids[i] < b->vocab;
        if ((logprobs != NULL &&
             !is_near(b, (double)logprobs[i], is_token ? b->logprob[ids[i]] : -INFINITY)) ||
            (ranks != NULL && ranks[i] != (is_token ? b->rank[ids[i]] : 0)))
            return i;
    }
    return n;
}
