/* SPDX-License-Identifier: MIT */
/* Test vectors of the arithmetic: lines of text that tests/vectors/README.md describes. Functions
 * here read the fields that are given, and write what the reference computes from them. */
#ifndef CLS_VECTORS_H
#define CLS_VECTORS_H

#include "clsample.h"
#include "core/philox.h"
#include "one_row_host.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define VECTOR_MOST 6000u       /* tokens of a row or of a list */
#define VECTOR_LINE (16u << 10) /* characters of a line */

/* A float32 as the eight hexadecimal digits of its bits. */
static inline float float_of(const char *digits)
{
    return CLS_AS_F32((int32_t)(uint32_t)strtoul(digits, NULL, 16));
}
static inline uint32_t bits_of(float x) { return (uint32_t)CLS_AS_I32(x); }

/* Writes the record of a single rule, of n words, with what the rule gives. Returns 0 if there is
 * no such rule or a field is lacking. values.c */
int write_value(FILE *f, char **word, uint32_t n);

/* Takes the next record of a row or of a list, of n words, and writes it, after the results of the
 * records before it. Returns 0 if the reference fails or if the record is wrong. blocks.c */
int write_record(FILE *f, char **word, uint32_t n);

#endif
