/* SPDX-License-Identifier: MIT */
/* Computes the log-probabilities, ranks and entropy of a row by brute force: it sorts and sums all
 * tokens in double precision. It shares no code with the library. */
#ifndef TESTS_BRUTE_H
#define TESTS_BRUTE_H

#include <stdint.h>

typedef struct brute {
    uint32_t vocab, n; /* tokens with a logit */
    uint32_t *order;   /* [n] ids: logit descending, id ascending */
    double *value; /* [vocab] the logits; NaN becomes -inf, +inf the largest float, subnormals 0 */
    double *logprob; /* [vocab] */
    int32_t *rank;   /* [vocab] tokens with a logit at least as large; 0: the token has no logit */
    double entropy;
    int rounded; /* 1: log-probabilities are of probabilities, which are rounded to small units */
} brute;

/* Computes everything for softmax(logits), or for the probabilities probs [vocab] if it is not
 * NULL. */
void brute_make(brute *b, const float *logits, uint32_t vocab, const float *probs);
void brute_free(brute *b);

/* Returns whether a log-probability is right within the error of float32. */
int brute_near(double ours, double expected);

/* Check the log-probabilities (and ranks, if they are given) of the n likeliest ids, or of n ids.
 * Return the first place that is wrong, or n. */
uint32_t brute_top(const brute *b, const int32_t *ids, const float *logprobs, uint32_t n);
uint32_t brute_given(const brute *b, const int32_t *ids, const float *logprobs,
                     const int32_t *ranks, uint32_t n);

#endif
