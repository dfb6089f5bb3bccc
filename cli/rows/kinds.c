/* SPDX-License-Identifier: MIT */
#include "rows/kinds.h"
#include "clsample.h"

#include <math.h>
#include <string.h>

static struct {
    const rng *r;
    const unsigned char *bytes;
    size_t n;
} fed;

void rng_feed(const rng *r, const void *bytes, size_t n)
{
    fed.r = r;
    fed.bytes = bytes;
    fed.n = n;
}

static uint64_t food(size_t most)
{
    uint64_t x = 0;
    for (size_t i = 0; i < most && fed.n > 0; i++, fed.n--)
        x |= (uint64_t)*fed.bytes++ << 8 * i;
    return x;
}

uint64_t rng_bits(rng *r)
{
    if (r == fed.r && fed.n > 0)
        return food(sizeof(uint64_t));
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint32_t rng_below(rng *r, uint32_t n)
{
    if (r == fed.r && fed.n > 0)
        return (uint32_t)(food(n <= 256 ? 1 : n <= 65536 ? 2 : 4) % n);
    return (uint32_t)((rng_bits(r) >> 32) * n >> 32);
}

double rng_unit(rng *r) { return (double)(rng_bits(r) >> 11) * 0x1p-53; }

double rng_normal(rng *r)
{
    const double radius = sqrt(-2.0 * log(1.0 - rng_unit(r)));
    return radius * cos(6.283185307179586 * rng_unit(r));
}

const char *const row_kind_names[ROW_KINDS] = {
    "peaked",    "language",   "normal 1", "normal 3", "spread 1e-6", "quarter ties", "equal",
    "ascending", "descending", "bf16",     "half",     "1 finite",    "2 finite",     "5 finite",
    "10 finite", "50 finite",  "huge",     "bits",     "subnormal",   "tail",         "offsets",
    "sprinkled", "coarse",     "all NaN",  "all -inf",
};

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float one_value(row_kind kind, uint32_t i, uint32_t n, rng *r)
{
    switch (kind) {
    case ROW_PEAKED:
    case ROW_NORMAL1:
    case ROW_HALF:
    case ROW_SPRINKLED:
        return (float)rng_normal(r);
    case ROW_LANGUAGE:
        return (float)(rng_normal(r) - 1.2 * log(1.0 + i));
    case ROW_NORMAL3:
        return (float)(20.0 + 3.0 * rng_normal(r));
    case ROW_SPREAD:
        return (float)(1.0 + 1e-6 * rng_unit(r));
    case ROW_TIES:
        return (float)(0.25 * floor(4.0 * rng_normal(r)));
    case ROW_EQUAL:
        return -2.5f;
    case ROW_ASCENDING:
        return (float)(-10.0 + 20.0 * i / n);
    case ROW_DESCENDING:
        return (float)(10.0 - 20.0 * i / n);
    case ROW_BF16: {
        unsigned char half[2];
        dtype_encode(CLS_BF16, (float)(3.0 * rng_normal(r)), half);
        return dtype_decode(CLS_BF16, half);
    }
    case ROW_HUGE:
        return (float)((rng_below(r, 3) - 1.0) *
                       (rng_below(r, 4) == 0 ? 3.4e38 : 3e38 * rng_unit(r)));
    case ROW_BITS:
        return from_bits((uint32_t)rng_bits(r));
    case ROW_SUBNORMAL:
        return from_bits((uint32_t)rng_bits(r) &
                         (rng_below(r, 4) == 0 ? 0x80000000u : 0x807fffffu));
    case ROW_TAIL:
        return -18.0f;
    case ROW_OFFSETS:
        return (float)(rng_normal(r) - 3.1 * (i / 1024 * 7 % 11));
    case ROW_COARSE:
        return (float)((double)rng_below(r, 253) / 16.0 - 7.875);
    case ROW_ALL_NAN:
        return NAN;
    default: /* few finite tokens, or none */
        return -INFINITY;
    }
}

void row_fill(row_kind kind, float *x, uint32_t n, uint64_t seed)
{
    static const uint32_t few[] = {1, 2, 5, 10, 50};
    rng r = {seed ^ ((uint64_t)kind << 56)};
    for (uint32_t i = 0; i < n; i++)
        x[i] = one_value(kind, i, n, &r);
    const uint32_t any = rng_below(&r, n);
    if (kind == ROW_PEAKED)
        x[any] += 14.0f;
    if (kind == ROW_TAIL)
        x[any] = 0.0f;
    if (kind == ROW_LANGUAGE) /* half of all mass on one token */
        x[any / 4] = 4.0f;
    for (uint32_t i = 0; kind == ROW_HALF && i < n; i++)
        if (rng_bits(&r) & 1 && i != any)
            x[i] = -INFINITY;
    if (kind >= ROW_FEW1 && kind <= ROW_FEW50)
        for (uint32_t i = 0; i < few[kind - ROW_FEW1]; i++)
            x[rng_below(&r, n)] = (float)rng_normal(&r);
    if (kind == ROW_SPRINKLED)
        for (uint32_t i = 0; i < n / 50 + 2; i++)
            x[rng_below(&r, n)] = i % 3 == 0   ? NAN
                                  : i % 3 == 1 ? -INFINITY
                                  : i > 40     ? INFINITY
                                               : -1.0f;
}

const char *const dtype_names[3] = {"f32", "f16", "bf16"};

size_t dtype_size(int dtype) { return dtype == CLS_F32 ? 4 : 2; }

/* Rounds |x| to the nearest binary16, ties to even, as a multiple of its unit. */
static uint16_t half_of(double x)
{
    int exponent;
    if (isinf(x) || x >= 65520.0)
        return 0x7c00;
    (void)frexp(x, &exponent); /* x = f * 2^exponent, f in [.5, 1) */
    if (x < 0x1p-14)
        return (uint16_t)nearbyint(x * 0x1p24);
    const double units = nearbyint(ldexp(x, 11 - exponent)); /* 1024 to 2048 */
    return (uint16_t)(((exponent + 14) << 10) + (int)units - 1024);
}

void dtype_encode(int dtype, float x, void *out)
{
    uint32_t bits;
    uint16_t half;
    memcpy(&bits, &x, sizeof bits);
    if (dtype == CLS_F32) {
        memcpy(out, &x, sizeof x);
        return;
    }
    if (isnan(x))
        half = 0x7fff;
    else if (dtype == CLS_BF16)
        half = (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    else
        half = (uint16_t)((bits >> 16 & 0x8000u) | half_of(fabs((double)x)));
    memcpy(out, &half, sizeof half);
}

float dtype_decode(int dtype, const void *in)
{
    uint16_t half;
    float x;
    if (dtype == CLS_F32) {
        memcpy(&x, in, sizeof x);
        return x;
    }
    memcpy(&half, in, sizeof half);
    if (dtype == CLS_BF16)
        return from_bits((uint32_t)half << 16);
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 31)
        return fraction ? NAN : half & 0x8000 ? -INFINITY : INFINITY;
    x = (float)(exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
    return half & 0x8000 ? -x : x;
}
