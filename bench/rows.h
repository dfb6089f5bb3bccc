/* SPDX-License-Identifier: MIT */
/* The logits, masks and histories of a measurement, and work on all processors of the host. */
#ifndef BENCH_ROWS_H
#define BENCH_ROWS_H

#include "common/cli.h"

/* ---------------------------------------------------------- bench/parallel.c */

/* Calls run(of, i) for each i below n, in several threads. `run` returns 1 if it fails, and no more
 * are begun then. Returns 1 if one failed. */
int bench_each(uint32_t n, int (*run)(void *of, uint32_t i), void *of);

/* -------------------------------------------------------------- bench/rows.c */

typedef enum bench_rows {
    BENCH_LANGUAGE, /* a token of 0.6, then a tail that falls with the id: top-p 0.9 keeps about 300
                     */
    BENCH_FLAT,     /* normal, sigma 1: top-p 0.9 keeps six tokens in ten */
    BENCH_TIES,     /* normal, rounded to quarters: thousands of tokens have the same logit */
    BENCH_SORTED    /* as BENCH_LANGUAGE, and the likeliest tokens have the lowest ids */
} bench_rows;

size_t bench_dtype_size(cls_dtype dtype);

/* Element i as a float. */
float bench_get(const void *rows, cls_dtype dtype, size_t i);

#define BENCH_PAD 16 /* elements of -inf behind the rows */

/* Fills [n, vocab] and the padding after it. The rows are the same on every machine, except for
 * the last bit of functions of its libm. */
int bench_fill_rows(void *rows, cls_dtype dtype, uint32_t n, uint32_t vocab, bench_rows kind);

/* The token with the largest logit; the lowest id of several. */
int32_t bench_likeliest(const void *rows, cls_dtype dtype, uint32_t row, uint32_t vocab);

typedef enum bench_mask {
    BENCH_ALL,    /* all tokens are allowed */
    BENCH_HALF,   /* a random half of the tokens is allowed */
    BENCH_FEW,    /* a random hundredth of the tokens is allowed */
    BENCH_BUT_ONE /* all tokens but a random one are allowed */
} bench_mask;

/* Fills a mask. At least one token of each row is allowed. */
void bench_fill_mask(int32_t *words, uint32_t batch, uint32_t vocab, bench_mask kind);

typedef enum bench_law {
    BENCH_ZIPF,   /* id i with a probability of 1 / (1 + i), as text over a vocabulary sorted by
                     frequency */
    BENCH_UNIFORM /* all with the same probability: a history has tokens of nearly every tile */
} bench_law;

/* Fills n random ids, which depend on the seed. */
void bench_fill_ids(int32_t *ids, uint32_t n, uint32_t vocab, bench_law law, uint64_t seed);

/* A random number from 0 to n - 1, and one between 0 and 1. */
uint32_t bench_random(uint64_t *state, uint32_t n);
double bench_uniform(uint64_t *state);

/* Computes the probabilities of a draft model for a row, at a temperature, and returns the token
 * that the number `uniform` draws from them. */
int32_t bench_fill_draft(float *probs, const void *rows, cls_dtype dtype, uint32_t row,
                         uint32_t vocab, double temperature, double uniform);

#endif
