/* SPDX-License-Identifier: MIT */
/* Compiles cl/core/arithmetic.h and cl/core/philox.h as C and proves them against long double
 * arithmetic and brute force. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "fixture.h"
#include "oracle.h"
#include "rows/kinds.h"
#include "core/philox.h"
#include "host/host.h"

static uint32_t trials(void) { return fixture_by_size(2000, 100000, 400000); }

static float random_float(rng *r) { return CLS_AS_F32((int32_t)(uint32_t)rng_bits(r)); }

/* Of all sizes, not only of the largest. */
static uint64_t random_u64(rng *r) { return rng_bits(r) >> rng_below(r, 64); }

/* tanh y: the soft-cap of y with the cap 1. It is within 1.87 2^-24 of the exact value, and never
 * decreases from float to float. Where time is short, not each is compared with the exact value. */
START_TEST(softcap_is_tanh)
{
    const int32_t every = (int32_t)fixture_by_size(211, 61, 1);
    float before = 0.0f;
    double worst = 0.0;
    for (int32_t bits = CLS_AS_I32(0x1p-14f); bits <= CLS_AS_I32(11.0f); bits++) {
        const float y = CLS_AS_F32(bits), t = softcap(y, 1.0f, 1.0f);
        ck_assert_msg(t >= before && t <= 1.0f && t <= y, "%a gives %a after %a", (double)y,
                      (double)t, (double)before);
        before = t;
        if (bits % every == 0)
            worst = fmax(worst, fabs((double)t - tanh((double)y)));
    }
    ck_assert_double_le(worst, 1.87 * 0x1p-24);
    ck_assert_double_ge(worst, 1.5 * 0x1p-24);
    ck_assert(before == 1.0f);
    ck_assert(softcap(0x1p-13f, 1.0f, 1.0f) == 0x1p-13f);
}
END_TEST

static float capped(float x, float cap) { return softcap(x, cap, cls_softcap_reciprocal(cap)); }

/* With any cap: within 2^-22 of it, never decreasing, odd, no larger than the logit and the cap. */
START_TEST(softcap_of_any_logit)
{
    rng r = {1};
    for (uint32_t i = 0; i < 40 * trials(); i++) {
        const float cap = i % 2 ? (float)exp2((double)rng_below(&r, 64) - 32.0 + i % 7)
                                : (float)exp2((double)rng_below(&r, 200000) / 1000.0 - 100.0);
        float x = random_float(&r);
        if (i % 3 != 0) /* about the cap */
            x = (float)((double)cap * exp2((double)rng_below(&r, 20000) / 1000.0 - 16.0));
        if (!(fabsf(x) <= FLT_MAX))
            continue;
        const float y = capped(x, cap), size = fabsf(x),
                    next = capped(nextafterf(size, INFINITY), cap);
        const double exact = (double)cap * tanh((double)x / (double)cap);
        ck_assert_msg(fabs((double)y - exact) <= (double)cap * 0x1p-22, "%a with %a gives %a",
                      (double)x, (double)cap, (double)y);
        ck_assert(fabsf(y) <= size && fabsf(y) <= cap && capped(-x, cap) == -y);
        ck_assert(next >= fabsf(y) || size == FLT_MAX);
        ck_assert(y == oracle_softcap(x, cap));
    }
}
END_TEST

/* Each float16 in order, and what is no number. */
START_TEST(softcap_of_halves)
{
    static const float caps[] = {0x1p-100f, 0.01f, 1.0f, 3.0f, 30.0f, 50.0f, 1e6f, 0x1p+100f};
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        float before = 0.0f;
        for (uint16_t h = 0; h < 0x7c00; h++) {
            const float x = dtype_decode(CLS_F16, &h), y = capped(x, caps[i]);
            ck_assert(y >= before && y == oracle_softcap(x, caps[i]));
            before = y;
        }
        ck_assert(capped(INFINITY, caps[i]) == INFINITY);
        ck_assert(capped(-INFINITY, caps[i]) == -INFINITY);
        ck_assert(isnan(capped(NAN, caps[i])) && capped(0.0f, caps[i]) == 0.0f);
        ck_assert(capped(FLT_MAX, caps[i]) == caps[i]);
    }
}
END_TEST

START_TEST(philox_published_vectors)
{
    static const uint32_t vectors[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d,
         0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
         0x94fdcceb, 0x5001e420, 0x24126ea1},
    };
    const uint32_t *const v = vectors[_i];
    uint32_t c[4] = {v[0], v[1], v[2], v[3]};
    philox4x32(c, v[4], v[5]);
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(c[i], v[6 + i]);
}
END_TEST

START_TEST(philox_counter_layout)
{
    /* counter (position, purpose, stream low, stream high), key the seed; low word first */
    uint32_t c[4] = {7, 0, 0x33333333, 0x44444444};
    philox4x32(c, 0x11111111, 0x22222222);
    const u32 seed[2] = {0x11111111, 0x22222222}, stream[2] = {0x33333333, 0x44444444};
    ck_assert_uint_eq(philox_bits(CLS_PURPOSE_TOKEN, seed, stream, 7, 0),
                      (uint64_t)c[1] << 32 | c[0]);
}
END_TEST

/* a * b in full, by long multiplication in 16-bit digits. */
static uint64_t product_high(uint64_t a, uint64_t b)
{
    uint32_t digit[9] = {0};
    for (int i = 0; i < 4; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < 4; j++) {
            carry += digit[i + j] + (a >> 16 * i & 0xffff) * (b >> 16 * j & 0xffff);
            digit[i + j] = carry & 0xffff;
            carry >>= 16;
        }
        digit[i + 4] = (uint32_t)carry;
    }
    return (uint64_t)digit[7] << 48 | (uint64_t)digit[6] << 32 | (uint64_t)digit[5] << 16 |
           digit[4];
}

START_TEST(multiply_high)
{
    rng r = {fixture_seed()};
    ck_assert_uint_eq(u64_mul_hi(UINT64_MAX, UINT64_MAX), UINT64_MAX - 1);
    ck_assert_uint_eq(u64_mul_hi(UINT64_MAX, 1), 0);
    ck_assert_uint_eq(u64_mul_hi(UINT64_MAX, 0), 0);
    for (uint32_t i = 0; i < trials(); i++) {
        const uint64_t a = random_u64(&r), b = random_u64(&r);
        ck_assert_msg(u64_mul_hi(a, b) == product_high(a, b), "%llu, %llu", (unsigned long long)a,
                      (unsigned long long)b);
    }
}
END_TEST

START_TEST(clean_and_key)
{
    rng r = {fixture_seed() + 1};
    ck_assert(clean(NAN) == -INFINITY && clean(-NAN) == -INFINITY && clean(-INFINITY) == -INFINITY);
    ck_assert(clean(INFINITY) == FLT_MAX && clean(-FLT_MAX) == -FLT_MAX);
    ck_assert(clean(FLT_MIN) == FLT_MIN && clean(-FLT_MIN) == -FLT_MIN);
    ck_assert(!signbit(clean(-0.0f)) && !signbit(clean(-1e-40f)) && clean(1e-40f) == 0.0f);
    ck_assert_int_eq(key_of(-INFINITY), CLS_KEY_NONE);
    ck_assert_int_eq(key_of(INFINITY), CLS_KEY_INF);
    for (uint32_t i = 0; i < trials(); i++) {
        const float a = random_float(&r),
                    b = rng_below(&r, 4) ? random_float(&r) : nextafterf(a, INFINITY);
        const float x = clean(a), y = clean(b);
        ck_assert_msg((x < y) == (key_of(x) < key_of(y)) && (x == y) == (key_of(x) == key_of(y)),
                      "%a, %a", (double)x, (double)y);
        ck_assert(float_of_key(key_of(x)) == x);
        ck_assert_msg((b == INFINITY) || (b > above(key_of(x))) == (key_of(y) > key_of(x)),
                      "%a above %a", (double)b, (double)x);
    }
    ck_assert(!(1e-40f > above(0)) && FLT_MIN > above(0) && !(-1e-40f > above(0)));
}
END_TEST

START_TEST(split_is_exact)
{
    rng r = {fixture_seed() + 2};
    for (uint32_t i = 0; i < trials(); i++) {
        const float max = i % 2 ? clean(random_float(&r)) : (float)(30.0 * rng_normal(&r));
        const float scale = (float)exp2(30.0 * rng_unit(&r) - 10.0);
        if (max == -INFINITY)
            continue;
        const cls_split s = split(max, scale);
        const long double y = (long double)max * (long double)scale; /* 48 bits: exact */
        ck_assert_msg(s.fraction > -1.0f && s.fraction <= 0.0f, "split(%a, %a): fraction %a",
                      (double)max, (double)scale, (double)s.fraction);
        if (fabsl(y) > 0x1p30L) {
            ck_assert_msg(s.exponent == (y > 0 ? 1 << 30 : -(1 << 30)) && s.fraction == 0.0f,
                          "split(%a, %a)", (double)max, (double)scale);
        } else {
            const long double truncated = truncl(y * 0x1p24L) * 0x1p-24L;
            ck_assert_msg(s.exponent + (long double)s.fraction == truncated,
                          "split(%a, %a) is %d%+a, not %La", (double)max, (double)scale, s.exponent,
                          (double)s.fraction, truncated);
        }
    }
    ck_assert(split(0.0f, 1.0f).exponent == 0 && split(0.0f, 1.0f).fraction == 0.0f);
}
END_TEST

/* The weight of a token at a depth under a tile maximum at 0, relative to 2^30:
 * within 2e-7, and the truncation to an integer. */
START_TEST(weight_error)
{
    rng r = {fixture_seed() + 3};
    double worst = 0.0;
    for (uint32_t i = 0; i < trials(); i++) {
        const float fraction = -(float)rng_below(&r, 1u << 24) * 0x1p-24f;
        const float z = -(float)(rng_unit(&r) * (i % 2 ? 45.0 : 3.0));
        const uint32_t x = weight(z, 0.0f, 1.0f, fraction);
        const float q = z + fraction; /* the one rounding that the definition has */
        const double exact = q > -40.0f ? exp2((double)q + 30.0) : 0.0;
        const double error = fabs(x - exact);
        ck_assert_msg(error <= 1.0 + 2e-7 * exact && x <= (1u << 30) + 128,
                      "weight at %a%+a: %u, not %f", (double)z, (double)fraction, x, exact);
        if (exact > 1e9)
            worst = fmax(worst, (error - 1.0) / exact);
    }
    ck_assert(worst <= 2e-7);
    ck_assert_uint_eq(weight(-INFINITY, 5.0f, 1.0f, -0.5f), 0);
    ck_assert_uint_eq(weight(NAN, 5.0f, 1.0f, -0.5f), 0);
    ck_assert_uint_eq(weight(-FLT_MAX, FLT_MAX, 1.0f, 0.0f), 0);
}
END_TEST

/* A token weighs nothing from 30 + c bits under its tile's largest on, c that one's fraction. */
START_TEST(weightless)
{
    rng r = {fixture_seed()};
    for (uint32_t i = 0; i < trials(); i++) {
        const float scale = (float)(1.4426950408889634 / exp(rng_normal(&r)));
        const float max = (float)(30.0 * rng_normal(&r));
        const cls_split at = split(max, scale);
        const double end = 30.0 + (double)at.fraction;
        /* As floats the two lie where rounding puts them. */
        const double slack = 1e-4 + (fabs((double)max) * (double)scale + 30.0) * 0x1p-23;
        const float below = (float)((double)max - (end + slack) / (double)scale),
                    over = (float)((double)max - (end - slack) / (double)scale);
        ck_assert(end > 29.0 && end <= 30.0);
        ck_assert_msg(weight(below, max, scale, at.fraction) == 0, "%.9g weighs under %.9g, %.9g",
                      (double)below, (double)max, (double)scale);
        ck_assert_msg(weight(over, max, scale, at.fraction) > 0,
                      "%.9g weighs nothing under %.9g, %.9g", (double)over, (double)max,
                      (double)scale);
    }
}
END_TEST

/* Rows that lose all that floors can take of one: nearly the bound of doc/arithmetic.md, and not
 * more. */
START_TEST(total_variation)
{
    enum { VOCAB = 1 << 20 };
    float *const z = must_malloc(VOCAB * sizeof *z);
    float *const probs = must_malloc(VOCAB * sizeof *probs);
    for (uint32_t i = 0; i < VOCAB; i++)
        z[i] = (float)((1.0001 - (i == 0 ? 0.0 : i < 1024 ? 29.001 : 42.001)) / 1.4426950408889634);
    for (int whole = 0; whole < 2; whole++) {
        const uint32_t vocab = whole ? VOCAB : 1024;
        const double bound = 1023 * ldexp(1.0, -29) + vocab * ldexp(1.0, -42);
        one_result result = {.probs = probs};
        double sum = 0.0, variation = 0.0;
        cls_params p = default_params();
        p.top_k = (int32_t)vocab - 1;
        one_row row = host_row(z, vocab, &p);
        must(one_sample(&row, &result));
        for (uint32_t i = 0; i < vocab; i++)
            sum += exp((double)z[i] - (double)z[0]);
        for (uint32_t i = 0; i < vocab; i++)
            variation += fabs(exp((double)z[i] - (double)z[0]) / sum - (double)probs[i]) / 2.0;
        ck_assert_msg(variation < bound + 2e-7 && variation > 0.99 * bound,
                      "%u tokens: total variation %g, bound %g", vocab, variation, bound);
    }
    free(z);
    free(probs);
}
END_TEST

START_TEST(units)
{
    rng r = {fixture_seed() + 4};
    for (uint32_t i = 0; i < trials(); i++) {
        const uint64_t mass = random_u64(&r) >> 13;
        const uint32_t shift = rng_below(&r, 64);
        long double exact = floorl(ldexpl((long double)mass, 13 - (int)shift));
        ck_assert(u64_to_f32(mass) >= 0.0f && (long double)to_row_units(mass, shift) == exact);
        /* a deeper tile has a unit lower by its exponent's distance */
        const float max = (float)(20.0 * rng_normal(&r)), tile = max - (float)(60.0 * rng_unit(&r));
        const int32_t e = split(max, 1.0f).exponent, t = split(tile, 1.0f).exponent;
        const uint32_t d = shift_of(max, tile, 1.0f, e, t);
        ck_assert_msg(d == (uint32_t)(e - t) &&
                          d == (uint32_t)(ceil((double)max) - ceil((double)tile)),
                      "%a, %a: %u", (double)max, (double)tile, d);
    }
    ck_assert_uint_eq(shift_of(3e38f, -3e38f, 1.0f, 1 << 30, -(1 << 30)), 63);
    ck_assert_uint_eq(shift_of(3e38f, 1e38f, 1.0f, 1 << 30, 1 << 30),
                      63); /* both clamped: told apart in floats */
    ck_assert_uint_eq(shift_of(5.0f, -INFINITY, 1.0f, 5, 0), 63);
}
END_TEST

START_TEST(top_p_targets)
{
    rng r = {fixture_seed() + 5};
    ck_assert_uint_eq(top_p_target(UINT64_MAX, 0), 0);
    ck_assert_uint_eq(top_p_target(1, 1), 1);
    for (uint32_t i = 0; i < trials(); i++) {
        const uint64_t mass = random_u64(&r);
        const uint32_t p = (uint32_t)random_u64(&r);
        /* ceil(mass * p / 2^32): the high half of mass * p * 2^32, plus one if anything is below */
        const uint64_t floor_ = product_high(mass, (uint64_t)p << 32);
        const uint64_t low = mass * ((uint64_t)p << 32);
        ck_assert_msg(top_p_target(mass, p) == floor_ + (low != 0), "%llu, %u",
                      (unsigned long long)mass, p);
    }
}
END_TEST

START_TEST(depth_keys)
{
    rng r = {fixture_seed() + 6};
    for (uint32_t i = 0; i < trials() / 40; i++) {
        const float max = i % 3 ? (float)(20.0 * rng_normal(&r)) : clean(random_float(&r));
        const float most = rng_below(&r, 5) ? (float)(30.0 * rng_unit(&r)) : 0.0f;
        const float scale = (float)exp2(10.0 * rng_unit(&r) - 5.0);
        if (max == -INFINITY)
            continue;
        const int32_t key = depth_key(max, scale, most);
        ck_assert(key <= key_of(max));
        ck_assert_msg(depth(clean(float_of_key(key)), max, scale) <= most,
                      "max %a, scale %a, most %a", (double)max, (double)scale, (double)most);
        if (key > key_of(-FLT_MAX)) {
            const float below = clean(float_of_key(key - 1));
            ck_assert_msg(!(depth(below, max, scale) <= most),
                          "max %a, scale %a, most %a: %a is kept, too", (double)max, (double)scale,
                          (double)most, (double)below);
        }
        const uint32_t most_q20 = (uint32_t)(most * 0x1p20f);
        const int32_t key_q20 = depth_q20_key(max, scale, most_q20);
        ck_assert(key_q20 <= key_of(max));
        ck_assert(depth_q20(clean(float_of_key(key_q20)), max, scale) <= most_q20);
        if (key_q20 > key_of(-FLT_MAX))
            ck_assert_msg(depth_q20(clean(float_of_key(key_q20 - 1)), max, scale) > most_q20,
                          "max %a, scale %a, most %u", (double)max, (double)scale, most_q20);
    }
}
END_TEST

START_TEST(logarithm)
{
    rng r = {fixture_seed() + 7};
    ck_assert_int_eq(log2_q24(1), 0);
    ck_assert_int_eq(log2_q24(UINT64_C(1) << 63), 63 << 24);
    for (uint32_t i = 0; i < trials(); i++) {
        const uint64_t x = random_u64(&r) | 1;
        const long double exact = log2l((long double)x) * 0x1p24L,
                          error = (long double)log2_q24(x) - exact;
        ck_assert_msg(error > -1.02L && error <= 1e-6L, "log2 of %llu is off by %Lg units",
                      (unsigned long long)x, error);
    }
}
END_TEST

/* What the host makes of parameters: the logarithm and the power in place of the C library's. */
START_TEST(logarithm_of_parameters)
{
    ck_assert(cls_log2(0.0) == -HUGE_VAL && cls_log2(HUGE_VAL) == HUGE_VAL && cls_log2(1.0) == 0.0);
    const uint32_t step = fixture_by_size(99991, 9973, 997);
    for (uint32_t bits = 1; bits < CLS_INF_BITS; bits += step) {
        const double x = CLS_AS_F32((int32_t)bits);
        const long double exact = log2l((long double)x), error = cls_log2(x) - exact;
        ck_assert_msg(fabsl(error) <= fabsl(exact) * 0x1p-51L, "log2 of %a is off by %Lg", x,
                      error);
    }
}
END_TEST

#if defined(__MINGW32__)
/* mingw's powl() is itself off by up to 2^-46 where exponents are large, by 20,000 powers that were
 * computed exactly: cls_power() was off by 2^-53 at most, and the same as elsewhere. */
#define POWER_ERROR 0x1p-45L
#else
#define POWER_ERROR 0x1p-52L
#endif

START_TEST(power_of_parameters)
{
    rng r = {fixture_seed() + 8};
    ck_assert(cls_power(3.0f, 0) == 1.0 && cls_power(1.0f, UINT32_MAX) == 1.0);
    ck_assert(cls_power(2.0f, 127) == 0x1p127 && cls_power(1e30f, 9) >= 1e270);
    for (uint32_t i = 0; i < trials(); i++) {
        const float base = (float)(1.0 + rng_unit(&r) * (i % 2 != 0 ? 4.0 : 0.01));
        const double most = base > 1.0f ? 88.0 / log(base) : 100.0;
        const uint32_t exponent = rng_below(&r, most < 1e6 ? (uint32_t)most + 1 : 1000000);
        const long double exact = powl(base, exponent), error = cls_power(base, exponent) - exact;
        ck_assert_msg(fabsl(error) <= exact * POWER_ERROR, "%a to the %u is off by %Lg",
                      (double)base, (unsigned)exponent, error);
    }
}
END_TEST

/* Every machine and C library has these words: a digest of those of a grid of parameters. */
START_TEST(words_of_parameters)
{
    uint64_t digest = 0;
    for (uint32_t i = 0; i <= 100000; i++) {
        const float x = (float)i / 100000.0f;
        cls_params params;
        cls_slot slot;
        cls_params_init(&params);
        params.min_p = params.top_a = params.xtc_threshold = x;
        params.xtc_probability = 1.0f;
        params.dry_multiplier = 0.1f + x;
        params.dry_base = 1.0f + 3.0f * x;
        ck_assert_int_eq(cls_slot_from_params(&params, 1000, &slot), CLS_OK);
        const uint32_t most = cls_dry_max_exponent(&params);
        digest = cls_hash_word(digest, (uint32_t)CLS_AS_I32(slot.min_p));
        digest = cls_hash_word(digest, slot.top_a);
        digest = cls_hash_word(digest, slot.xtc_depth);
        digest = cls_hash_word(digest, most);
        digest = cls_hash_word(digest, (uint32_t)CLS_AS_I32(cls_dry_penalty(&params, most)));
        digest = cls_hash_word(digest, (uint32_t)CLS_AS_I32(cls_dry_penalty(&params, most / 3)));
    }
    ck_assert_msg(digest == UINT64_C(0x933db4eefce21629), "the digest is %016llx",
                  (unsigned long long)digest);
}
END_TEST

/* Where rows begin: beyond 2^31 elements, 2^32 bytes, and as far as a size_t tells. */
START_TEST(row_places)
{
    static const struct {
        uint64_t offset, stride;
        uint32_t row;
        uint64_t place;
    } cases[] = {
        {0, 128256, 65534, UINT64_C(8405128704)},
        {UINT64_C(1) << 31, 0, 3, UINT64_C(1) << 31},
        {(UINT64_C(1) << 32) - 1, (UINT64_C(1) << 31) + 1, 2, (UINT64_C(1) << 33) + 1},
        {7, UINT64_C(1) << 40, 65534, (UINT64_C(65534) << 40) + 7},
        {UINT64_C(1) << 62, (UINT64_C(1) << 46) - 1, 65534,
         (UINT64_C(1) << 62) + 65534 * ((UINT64_C(1) << 46) - 1)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_msg(row_offset(cases[i].offset, cases[i].stride, cases[i].row) ==
                          (size_t)cases[i].place,
                      "case %u", (unsigned)i);
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_loop_test(philox_published_vectors, 3);
    add_test(philox_counter_layout);
    add_test(multiply_high);
    add_test(clean_and_key);
    add_test(split_is_exact);
    add_test(weight_error);
    add_test(weightless);
    add_test(total_variation);
    add_test(units);
    add_test(top_p_targets);
    add_test(depth_keys);
    add_test(logarithm);
    add_test(logarithm_of_parameters);
    add_test(power_of_parameters);
    add_test(words_of_parameters);
    add_test(row_places);
    add_test(softcap_is_tanh);
    add_test(softcap_of_any_logit);
    add_test(softcap_of_halves);
    return fixture_end();
}
