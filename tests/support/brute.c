/* SPDX-License-Identifier: MIT */
#include "brute.h"

#include <math.h>
#include <stdlib.h>

#include "fixture.h"
#include "oracle.h"

void brute_make(brute *b, const float *logits, uint32_t vocab, double scale, const float *probs)
{
    oracle_entry *const entries = must_malloc(vocab * sizeof *entries);
    long double total = 0;
    b->vocab = vocab;
    b->n = 0;
    b->order = must_malloc(vocab * sizeof *b->order);
    b->value = must_malloc(vocab * sizeof *b->value);
    b->logprob = must_malloc(vocab * sizeof *b->logprob);
    b->rank = must_calloc(vocab, sizeof *b->rank);
    for (uint32_t i = 0; i < vocab; i++) {
        b->value[i] = oracle_meant(logits[i]);
        b->logprob[i] = -INFINITY;
        if (!isinf(b->value[i]))
            entries[b->n++] = (oracle_entry){b->value[i], i};
    }
    oracle_sort(entries, b->n);
    for (uint32_t i = 0; i < b->n; i++) {
        b->order[i] = entries[i].id;
        total += expl((long double)(entries[i].value - entries[0].value) * (long double)scale);
    }
    b->entropy = 0.0;
    for (uint32_t i = b->n; i-- > 0;) {
        const uint32_t id = entries[i].id;
        double *const lp = &b->logprob[id];
        b->rank[id] = i + 1 < b->n && entries[i + 1].value == entries[i].value
                          ? b->rank[entries[i + 1].id]
                          : (int32_t)i + 1;
        *lp = (entries[i].value - entries[0].value) * scale - (double)logl(total);
        if (probs)
            *lp = log((double)probs[id]);
        b->entropy -= exp(*lp) > 0.0 ? exp(*lp) * *lp : 0.0;
    }
    free(entries);
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

void brute_top(const brute *b, const int32_t *ids, const float *logprobs, uint32_t n,
               const char *where)
{
    for (uint32_t i = 0; i < n; i++) {
        const int32_t id = i < b->n ? (int32_t)b->order[i] : -1;
        const double expected = id < 0 ? -INFINITY : b->logprob[id];
        ck_assert_msg(ids[i] == id, "%s: place %u has %d, not %d", where, i, ids[i], id);
        ck_assert_msg(brute_near((double)logprobs[i], expected),
                      "%s: place %u, token %d: logprob %.9g, not %.9g", where, i, id,
                      (double)logprobs[i], expected);
    }
}

void brute_given(const brute *b, const int32_t *ids, const float *logprobs, const int32_t *ranks,
                 uint32_t n, const char *where)
{
    for (uint32_t i = 0; i < n; i++) {
        const int is_token = ids[i] >= 0 && (uint32_t)ids[i] < b->vocab;
        const double expected = is_token ? b->logprob[ids[i]] : -INFINITY;
        const int32_t rank = is_token ? b->rank[ids[i]] : 0;
        ck_assert_msg(brute_near((double)logprobs[i], expected),
                      "%s: token %d: logprob %.9g, not %.9g", where, ids[i], (double)logprobs[i],
                      expected);
        ck_assert_msg(ranks[i] == rank, "%s: token %d: rank %d, not %d", where, ids[i], ranks[i],
                      rank);
    }
}
