/* SPDX-License-Identifier: MIT */
/* Random numbers, rows of logits of kinds that often break samplers, and the three logit types.
 * Shares no code with the library. */
#ifndef CLS_CLI_ROWS_KINDS_H
#define CLS_CLI_ROWS_KINDS_H

#include <stddef.h>
#include <stdint.h>

/* Random numbers by SplitMix64. */
typedef struct rng {
    uint64_t state;
} rng;

uint64_t rng_bits(rng *r);
uint32_t rng_below(rng *r, uint32_t n); /* 0 to n-1 */
double rng_unit(rng *r);                /* [0, 1) */
double rng_normal(rng *r);

/* Makes one generator take its bits from these bytes until they are used up. NULL: no generator
 * does. */
void rng_feed(const rng *r, const void *bytes, size_t n);

typedef enum row_kind {
    ROW_PEAKED,   /* one token far above a normal rest */
    ROW_LANGUAGE, /* a few large logits, and a tail that falls with the id */
    ROW_NORMAL1,
    ROW_NORMAL3,
    ROW_SPREAD, /* all within 1e-6 */
    ROW_TIES,   /* multiples of a quarter */
    ROW_EQUAL,
    ROW_ASCENDING,
    ROW_DESCENDING,
    ROW_BF16, /* normal, rounded to bf16 */
    ROW_HALF, /* half the tokens at -inf */
    ROW_FEW1, /* this many finite logits */
    ROW_FEW2,
    ROW_FEW5,
    ROW_FEW10,
    ROW_FEW50,
    ROW_HUGE,      /* +-3e38 */
    ROW_BITS,      /* random bit patterns */
    ROW_SUBNORMAL, /* denormals and signed zeros */
    ROW_TAIL,      /* a few logits at 0, the rest at -18 */
    ROW_OFFSETS,   /* each 1,024 tokens have a different level, down to 45 bits below the largest */
    ROW_SPRINKLED, /* normal with some NaN and infinities */
    ROW_COARSE,    /* sixteenths within +-7.9, which f16 and bf16 represent exactly */
    ROW_GOOD,      /* rows of the kinds before this one always have a token */
    ROW_ALL_NAN = ROW_GOOD,
    ROW_ALL_MINUS_INF,
    ROW_KINDS
} row_kind;

extern const char *const row_kind_names[ROW_KINDS];

/* Fills a row of n logits. */
void row_fill(row_kind kind, float *x, uint32_t n, uint64_t seed);

/* Return the size in bytes of a cls_dtype, and convert one value. Encoding rounds to nearest even;
 * decoding is exact. */
size_t dtype_size(int dtype);
void dtype_encode(int dtype, float x, void *out);
float dtype_decode(int dtype, const void *in);
extern const char *const dtype_names[3];

#endif
