/* SPDX-License-Identifier: MIT */
/* Rows to sample from: the kinds that break samplers, and the three types in
 * which logits come. Shares no code with the library. */
#ifndef TESTS_INPUTS_H
#define TESTS_INPUTS_H

#include <stddef.h>
#include <stdint.h>

/* Splitmix64: the tests' own random numbers. */
typedef struct rng {
    uint64_t state;
} rng;

uint64_t rng_bits(rng *r);
uint32_t rng_below(rng *r, uint32_t n); /* 0 to n-1 */
double rng_unit(rng *r);                /* [0, 1) */
double rng_normal(rng *r);

/* From now on one of them takes its bits from these bytes as long as they last,
 * no more than it needs; NULL: none does. */
void rng_feed(const rng *r, const void *bytes, size_t n);

typedef enum row_kind {
    ROW_PEAKED,   /* one token far above a normal rest */
    ROW_LANGUAGE, /* a head over a tail that falls with the id */
    ROW_NORMAL1,
    ROW_NORMAL3,
    ROW_SPREAD, /* all within 1e-6 */
    ROW_TIES,   /* multiples of a quarter */
    ROW_EQUAL,
    ROW_ASCENDING,
    ROW_DESCENDING,
    ROW_BF16, /* normal, rounded to bf16 */
    ROW_HALF, /* half the tokens at -inf */
    ROW_FEW1, /* so many finite tokens */
    ROW_FEW2,
    ROW_FEW5,
    ROW_FEW10,
    ROW_FEW50,
    ROW_HUGE,      /* +-3e38 */
    ROW_BITS,      /* random bit patterns */
    ROW_SUBNORMAL, /* denormals and signed zeros */
    ROW_TAIL,      /* a head at 0, the rest at -18 */
    ROW_OFFSETS,   /* every 1,024 tokens another level, down to 45 bits deep */
    ROW_SPRINKLED, /* normal with some NaN and infinities */
    ROW_COARSE,    /* sixteenths within +-7.9: f16 and bf16 hold them exactly */
    ROW_GOOD,      /* kinds below have a token in every row */
    ROW_ALL_NAN = ROW_GOOD,
    ROW_ALL_MINUS_INF,
    ROW_KINDS
} row_kind;

extern const char *const row_kind_names[ROW_KINDS];

void row_fill(row_kind kind, float *x, uint32_t n, uint64_t seed);

/* dtype: a cls_dtype. The type's size in bytes; one value there and back.
 * Encoding rounds to nearest even, decoding is exact. */
size_t dtype_size(int dtype);
void dtype_encode(int dtype, float x, void *out);
float dtype_decode(int dtype, const void *in);
extern const char *const dtype_names[3];

#endif
