/* SPDX-License-Identifier: MIT */
/* Makes logits, masks and histories with a separate small random generator, so that all runs on all
 * machines measure the same thing. */
#include "bench/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t next_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Both 0 and 1 are excluded. */
double bench_uniform(uint64_t *state) { return ((double)(next_bits(state) >> 11) + 0.5) * 0x1p-53; }

/* A normal number by Box and Muller. The second number of each pair is not used. */
static double next_normal(uint64_t *state)
{
    const double radius = sqrt(-2.0 * log(bench_uniform(state)));
    return radius * cos(6.283185307179586 * bench_uniform(state));
}

size_t bench_dtype_size(cls_dtype dtype) { return dtype == CLS_F32 ? 4 : 2; }

/* Rounds to nearest, ties to even. No row here comes near the largest binary16. */
static uint16_t to_f16(float x)
{
    uint32_t bits, magnitude, rounded;
    uint16_t sign;
    memcpy(&bits, &x, sizeof bits);
    sign = (uint16_t)(bits >> 16 & 0x8000u);
    magnitude = bits & 0x7fffffffu;
    if (magnitude >= 0x477ff000u) /* it rounds to infinity, or is -inf */
        return sign | 0x7c00u;
    if (magnitude < 0x38800000u) /* below 2^-14: a multiple of 2^-24 */
        return sign | (uint16_t)lrintf(fabsf(x) * 0x1p24f);
    rounded = magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u);
    return sign | (uint16_t)(rounded >> 13);
}

static uint16_t to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static void put(void *rows, cls_dtype dtype, size_t i, float x)
{
    if (dtype == CLS_F32)
        ((float *)rows)[i] = x;
    else
        ((uint16_t *)rows)[i] = dtype == CLS_F16 ? to_f16(x) : to_bf16(x);
}

float bench_get(const void *rows, cls_dtype dtype, size_t i)
{
    uint32_t bits;
    float x;
    if (dtype == CLS_F32)
        return ((const float *)rows)[i];
    bits = ((const uint16_t *)rows)[i];
    if (dtype == CLS_F16) {
        const float magnitude = ldexpf((float)((bits & 0x3ffu) + (bits & 0x7c00u ? 0x400u : 0u)),
                                       (int)(bits & 0x7c00u ? bits >> 10 & 31u : 1u) - 25);
        if ((bits & 0x7c00u) == 0x7c00u)
            return bits & 0x3ffu ? NAN : bits & 0x8000u ? -INFINITY : INFINITY;
        return bits & 0x8000u ? -magnitude : magnitude;
    }
    bits <<= 16;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* One token has 0.6 of the mass. The other logits are normal and fall with the id: without that
 * slope the nucleus would be ten times as large. */
static void fill_language(void *rows, cls_dtype dtype, size_t at, uint32_t vocab, uint64_t *state)
{
    const uint32_t top = (uint32_t)(next_bits(state) % vocab);
    double tail = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        const double x = 3.5 * next_normal(state) - 0.5 * log(1.0 + i);
        if (i != top)
            tail += exp(x);
        put(rows, dtype, at + i, (float)x);
    }
    put(rows, dtype, at + top, vocab > 1 ? (float)log(tail * 0.6 / 0.4) : 0.0f);
}

static int descending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

static int sort_row(void *rows, cls_dtype dtype, size_t at, uint32_t vocab)
{
    float *const row = malloc(vocab * sizeof *row);
    if (row == NULL)
        return cli_fail("out of memory");
    for (uint32_t i = 0; i < vocab; i++)
        row[i] = bench_get(rows, dtype, at + i);
    qsort(row, vocab, sizeof *row, descending);
    for (uint32_t i = 0; i < vocab; i++)
        put(rows, dtype, at + i, row[i]);
    free(row);
    return 0;
}

typedef struct filling {
    void *rows;
    cls_dtype dtype;
    uint32_t vocab;
    bench_rows kind;
} filling;

static int fill_row(void *of, uint32_t row)
{
    const filling *const f = of;
    const size_t at = (size_t)row * f->vocab;
    const bool sorted = f->kind == BENCH_SORTED;
    uint64_t state = ((uint64_t)(sorted ? BENCH_LANGUAGE : f->kind) << 32) + row;
    state = next_bits(&state); /* else rows would be shifts of each other */
    if (f->kind == BENCH_LANGUAGE || sorted) {
        fill_language(f->rows, f->dtype, at, f->vocab, &state);
        return sorted ? sort_row(f->rows, f->dtype, at, f->vocab) : 0;
    }
    for (uint32_t i = 0; i < f->vocab; i++) {
        const double x = next_normal(&state);
        put(f->rows, f->dtype, at + i, (float)(f->kind == BENCH_TIES ? rint(4.0 * x) / 4.0 : x));
    }
    return 0;
}

int bench_fill_rows(void *rows, cls_dtype dtype, uint32_t n, uint32_t vocab, bench_rows kind)
{
    const size_t end = (size_t)n * vocab;
    filling f = {rows, dtype, vocab, kind};
    const int failed = bench_each(n, fill_row, &f);
    for (size_t i = end; i < end + BENCH_PAD; i++)
        put(rows, dtype, i, -INFINITY);
    return failed;
}

int32_t bench_likeliest(const void *rows, cls_dtype dtype, uint32_t row, uint32_t vocab)
{
    const size_t at = (size_t)row * vocab;
    float most = bench_get(rows, dtype, at);
    uint32_t likeliest = 0;
    for (uint32_t i = 1; i < vocab; i++) {
        const float x = bench_get(rows, dtype, at + i);
        if (x > most) {
            most = x;
            likeliest = i;
        }
    }
    return (int32_t)likeliest;
}

void bench_fill_mask(int32_t *words, uint32_t batch, uint32_t vocab, bench_mask kind)
{
    const uint32_t width = (vocab + 31) / 32;
    uint64_t state = 1;
    for (size_t row = 0; row < batch; row++) {
        int32_t *const mask = words + row * width;
        for (size_t i = 0; i < width; i++)
            mask[i] = kind == BENCH_HALF  ? (int32_t)(uint32_t)(next_bits(&state) >> 32)
                      : kind == BENCH_FEW ? 0
                                          : -1;
        for (uint32_t t = 0; kind == BENCH_FEW && t < vocab; t++)
            if (bench_random(&state, 100) == 0)
                mask[t / 32] |= (int32_t)(UINT32_C(1) << t % 32);
        if (kind == BENCH_BUT_ONE && vocab > 1) {
            const uint32_t t = 1 + bench_random(&state, vocab - 1);
            mask[t / 32] ^= (int32_t)(UINT32_C(1) << t % 32);
        }
        mask[0] |= 1;
    }
}

uint32_t bench_random(uint64_t *state, uint32_t n) { return (uint32_t)(next_bits(state) % n); }

/* Zipf's law is drawn by the inverse of its distribution, with an integral in place of the sum. */
void bench_fill_ids(int32_t *ids, uint32_t n, uint32_t vocab, bench_law law, uint64_t seed)
{
    uint64_t state = seed;
    for (uint32_t i = 0; i < n; i++) {
        const double u = bench_uniform(&state);
        const double at = law == BENCH_ZIPF ? exp(u * log(vocab + 1.0)) - 1.0 : u * vocab;
        ids[i] = at < vocab ? (int32_t)at : (int32_t)vocab - 1;
    }
}

int32_t bench_fill_draft(float *probs, const void *rows, cls_dtype dtype, uint32_t row,
                         uint32_t vocab, double temperature, double uniform)
{
    const size_t at = (size_t)row * vocab;
    const float most =
        bench_get(rows, dtype, at + (size_t)bench_likeliest(rows, dtype, row, vocab));
    double sum = 0, left = uniform;
    uint32_t i;
    for (i = 0; i < vocab; i++)
        sum += exp((bench_get(rows, dtype, at + i) - most) / temperature);
    for (i = 0; i < vocab; i++)
        probs[i] = (float)(exp((bench_get(rows, dtype, at + i) - most) / temperature) / sum);
    for (i = 0; i + 1 < vocab && left >= probs[i]; i++)
        left -= probs[i];
    return (int32_t)i;
}
