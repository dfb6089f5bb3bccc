/* SPDX-License-Identifier: MIT */
/* Rows whose distributions are known from elsewhere: llama.cpp's own test
 * values, and others that its formulas give. Data, for the reference's test and
 * the device's. */
#ifndef TESTS_GOLDENS_H
#define TESTS_GOLDENS_H

#include <stdint.h>

#include <clsample.h>

#define GOLDEN_TOKENS 5

/* A field of cls_params, of 32 bits, and what it is set to. */
typedef struct golden_setting {
    size_t field;
    double value;
    int is_float;
} golden_setting;

/* A small row. */
typedef struct golden {
    const char *name;
    golden_setting settings[6]; /* none where field is 0 */
    uint32_t vocab;
    double input[GOLDEN_TOKENS]; /* probabilities; the logits are their logarithms */
    uint32_t history_count;      /* output so far */
    int32_t history[8];
    int32_t breaker;                /* DRY's, of one token; 0: none */
    double expected[GOLDEN_TOKENS]; /* the distribution that is drawn from, by id */
    double tolerance;
} golden;

/* A large row, of which so many ids in succession survive. */
typedef enum golden_input {
    GOLDEN_LOG_ID, /* logit ln(id); id 0: -inf */
    GOLDEN_ZIPF    /* logit -1.5 ln(id + 1) */
} golden_input;
typedef struct golden_set {
    const char *name;
    golden_setting settings[6];
    uint8_t stages[CLS_CHAIN_LENGTH]; /* of a custom chain; empty: the default one */
    golden_input input;
    uint32_t vocab, first, size;
} golden_set;

extern const golden goldens[];
extern const uint32_t n_goldens;
extern const golden_set golden_sets[];
extern const uint32_t n_golden_sets;

/* The parameters; those of a golden point to its breaker. */
void golden_params(const golden *g, cls_params *p);
void golden_set_params(const golden_set *g, cls_params *p);
/* The logits [vocab]. */
void golden_logits(const golden *g, float *logits);
void golden_set_logits(const golden_set *g, float *logits);

#endif
