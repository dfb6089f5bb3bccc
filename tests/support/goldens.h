/* SPDX-License-Identifier: MIT */
/* Rows whose distributions are known from other sources: tests/vectors/goldens.txt. The tests of
 * the reference and of the device use them. */
#ifndef TESTS_GOLDENS_H
#define TESTS_GOLDENS_H

#include <stdint.h>

#include <clsample.h>

enum { GOLDEN_MOST = 10000 };

typedef struct golden {
    char name[192]; /* its record */
    cls_params params;
    int32_t breaker; /* a DRY breaker of one token */
    cls_ids breakers;
    uint32_t vocab;
    float logits[GOLDEN_MOST];
    int32_t history[8]; /* output so far */
    uint32_t history_count;
    int is_set;                   /* 1: only the kept tokens are known, `first` to `last` */
    double expected[GOLDEN_MOST]; /* the final distribution, by id; in a set 1 or 0 */
    uint32_t kept;
} golden;

/* Returns the goldens and their number. Ends the program if the file cannot be read. */
const golden *goldens(uint32_t *n);

/* Fails if these are not the probabilities [vocab] that a golden expects. A failure's message
 * begins with `where`. */
void golden_check(const golden *g, const float *probs, const char *where);

#endif
