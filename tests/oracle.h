/* SPDX-License-Identifier: MIT */
/* What a row's distribution ought to be, in double precision: its own
 * adjustments, its own sort, its own exp, its own chain. Shares no code with
 * the library, and is therefore what tells whether the library's arithmetic is
 * right; equality tests only tell that all paths agree. */
#ifndef TESTS_ORACLE_H
#define TESTS_ORACLE_H

#include <stdint.h>

#include <clsample.h>

typedef struct oracle {
    uint32_t vocab;
    int status;       /* the cls_row_status bits that the row should get, but for a token that stops it */
    uint32_t finite;  /* tokens that can be drawn at all */
    uint32_t *order;  /* [finite] ids, most likely first */
    double *value;    /* [finite] their adjusted logits */
    double *error;    /* [finite] how far off float32 may be after the adjustments */
    double scale;     /* of the final distribution: 1 / temperature */
    double slack;     /* the share of the mass that these errors can move */
    /* Every truncation keeps a prefix of the order. Its length: as computed, and
     * the least and the most that ties of mass within 1e-6, and errors, can make of it. */
    uint32_t kept, kept_least, kept_most;
} oracle;

/* Reads the row's logits, mask, biases, tokens and parameters. 0 if out of memory. */
int oracle_make(oracle *o, const cls_host_row *row);
void oracle_free(oracle *o);

/* Fills probs [vocab] with the final distribution of a set of the first `kept`. */
void oracle_probs(const oracle *o, uint32_t kept, double *probs);

/* The natural logarithm of a token's probability among all of [vocab] logits
 * at temperature 1. */
double oracle_logprob_raw(const float *logits, uint32_t vocab, int32_t token);

/* Whether the request ends with its next token being `token`. */
int oracle_stops(const cls_host_row *row, int32_t token);

/* Whether counts of draws follow probs: the chi-square statistic's quantile for
 * alpha 1e-6 is not exceeded, cells expecting fewer than 5 taken together, and
 * nothing was drawn that has no probability. */
int oracle_chi_square(const double *probs, const uint32_t *counts, uint32_t n, uint32_t draws, double *statistic,
                      double *limit);

#endif
