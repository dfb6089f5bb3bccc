/* SPDX-License-Identifier: MIT */
/* Test vectors of the arithmetic: what the reference computes, as lines of text that
 * tests/vectors/README.md describes. Floats are the eight hexadecimal digits of their bits. */
#ifndef CLS_VECTORS_H
#define CLS_VECTORS_H

#include "clsample.h"
#include "core/philox.h"
#include "reference/reference.h"

#include <stdio.h>

/* ------------------------------------------------------------- random.c */

/* A sequence of random numbers. All helpers are exact, and no expression takes two numbers, because
 * compilers differ in the order of operands: so every compiler gives the same vectors. */
typedef struct sequence {
    uint64_t state;
} sequence;

uint64_t next_bits(sequence *s);
uint32_t next_below(sequence *s, uint32_t n); /* n > 0 */
int next_is_one_in(sequence *s, uint32_t n);
uint64_t next_wide(sequence *s, uint32_t most); /* 64 bits, or up to `most` fewer */

uint32_t bits_of(float x);
float float_of(uint32_t bits);

/* A logit of nearly normal law: four 16-bit numbers added up, in units of 2^-14. */
float next_normal(sequence *s);

/* A float of any bits, or one of those at the limits of floats. */
float next_special(sequence *s);

/* ------------------------------------------------------------- values.c */

/* Writes the vectors of single functions. */
void write_values(FILE *f);

/* --------------------------------------------------------------- rows.c */

#define VECTOR_MOST 6000u /* tokens of a row */

/* How the logits of a row are drawn. */
typedef enum row_kind {
    ROW_NORMAL,
    ROW_TIES,    /* integers from -4 to 4 */
    ROW_BRAIN,   /* bfloat16 */
    ROW_SPECIAL, /* one in eight is special */
    ROW_BITS,    /* any bits */
    ROW_HUGE,    /* of a size around 2^100 */
    ROW_LEVELS,  /* each mass tile at another height */
    ROW_RISING,  /* each mass tile 20 above the one before it */
    ROW_TAIL,    /* one at 0, the others from -18 to -30 */
    ROW_FLAT,    /* equal ones */
    ROW_NOTHING, /* NaN and -inf */
    ROW_KINDS
} row_kind;

/* A row, its parameters, and how many tokens are drawn from it. */
typedef struct vector_row {
    const char *name;
    uint32_t vocab;
    row_kind kind;
    int32_t chain;
    uint8_t stages[CLS_CHAIN_LENGTH]; /* of CLS_CHAIN_CUSTOM */
    float temperature;
    int32_t top_k;
    float top_p, min_p;
    uint32_t min_keep;
    int masked; /* 1: a mask forbids one token in four */
    uint32_t draws;
} vector_row;

/* Draws the logits of a row, computes it and writes it. Returns 0 if the reference fails. */
int write_row(FILE *f, const vector_row *row, sequence *s);

/* Writes the rows of the vectors. Returns 0 if the reference fails. */
int write_rows(FILE *f);

/* -------------------------------------------------------------- lists.c */

/* Writes a list of up to `most` random candidates, with tokens that are drawn from it, and the
 * lists of the vectors. Return 0 if the reference fails. */
int write_list(FILE *f, const char *name, uint32_t most, uint32_t draws, sequence *s);
int write_lists(FILE *f);

/* -------------------------------------------------------- random_rows.c */

/* Writes `rows` random rows with `draws` tokens each, and lists of candidates between them.
 * Returns 0 if the reference fails. */
int write_random(FILE *f, uint64_t seed, uint32_t rows, uint32_t draws);

#endif
