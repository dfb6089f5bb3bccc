/* SPDX-License-Identifier: MIT */
/* Rows whose distributions are known from other sources: llama.cpp's own test values, and values
 * computed by its formulas. The tests of the reference and of the device use them. */
#ifndef TESTS_GOLDENS_H
#define TESTS_GOLDENS_H

#include <stdint.h>

#include <clsample.h>

#define GOLDEN_TOKENS 5

/* The offset of a 32-bit field of cls_params, and its value. */
typedef struct golden_setting {
    size_t field;
    double value;
    int is_float;
} golden_setting;

/* A small row and its expected distribution. */
typedef struct golden {
    const char *name;
    golden_setting settings[6]; /* unused if field is 0 */
    uint32_t vocab;
    double input[GOLDEN_TOKENS]; /* probabilities; the logits are their logarithms */
    uint32_t history_count;      /* tokens of output so far */
    int32_t history[8];
    int32_t breaker;                /* a DRY breaker of one token; 0: no breaker */
    double expected[GOLDEN_TOKENS]; /* the final distribution, by id */
    double tolerance;
} golden;

/* A large row of which `size` consecutive ids are kept, from id `first` on. */
typedef enum golden_input {
    GOLDEN_LOG_ID, /* logit ln(id); id 0: -inf */
    GOLDEN_ZIPF    /* logit -1.5 ln(id + 1) */
} golden_input;
typedef struct golden_set {
    const char *name;
    golden_setting settings[6];
    uint8_t stages[CLS_CHAIN_LENGTH]; /* a custom chain; empty: the default chain */
    golden_input input;
    uint32_t vocab, first, size;
} golden_set;

extern const golden goldens[];
extern const uint32_t n_goldens;
extern const golden_set golden_sets[];
extern const uint32_t n_golden_sets;

/* Sets the parameters. Those of a golden point to its breaker. */
void golden_params(const golden *g, cls_params *p);
void golden_set_params(const golden_set *g, cls_params *p);
/* Computes the logits [vocab]. */
void golden_logits(const golden *g, float *logits);
void golden_set_logits(const golden_set *g, float *logits);

#endif
