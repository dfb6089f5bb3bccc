/* SPDX-License-Identifier: MIT */
/* What there is to tell of a distribution over some tokens of a row, in double
 * precision: everything sorted, everything summed up. Shares no code with the
 * library. */
#ifndef TESTS_BRUTE_H
#define TESTS_BRUTE_H

#include <stdint.h>

typedef struct brute {
    uint32_t vocab, n; /* tokens with a logit */
    uint32_t *order;   /* [n] ids: logit descending, id ascending */
    double *value;     /* [vocab] the logits meant: NaN is -inf, +inf the largest float */
    double *logprob;   /* [vocab] */
    int32_t *rank;     /* [vocab] how many have a logit as large; 0: none of its own */
    double entropy;
} brute;

/* Of the softmax of scale * logits. probs: [vocab] probabilities in its place, or
 * NULL. */
void brute_make(brute *b, const float *logits, uint32_t vocab, double scale, const float *probs);
void brute_free(brute *b);

/* Whether a log-probability is right. */
int brute_near(double ours, double expected);

/* Of `count` likeliest or given ids. Fail with the words in `where` first. */
void brute_top(const brute *b, const int32_t *ids, const float *logprobs, uint32_t n,
               const char *where);
void brute_given(const brute *b, const int32_t *ids, const float *logprobs, const int32_t *ranks,
                 uint32_t n, const char *where);

#endif
