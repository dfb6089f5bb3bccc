/* SPDX-License-Identifier: MIT */
/* Compiles cl/core/samplers.h as C and proves the error bounds that doc/arithmetic.md states,
 * against double precision. It prints the largest error it met beside each bound. */
#include <math.h>
#include <stdio.h>

#include "fixture.h"
#include "oracle.h"
#include "rows/kinds.h"
#include "core/samplers.h"
#include "core/tiles.h"

/* A row that is one mass tile, with what both sides make of it. */
typedef struct sample_row {
    uint32_t n;
    float z[CLS_TILE], top, scale;
    uint64_t mass, terms, squares;
    double p[CLS_TILE], entropy; /* bits */
} sample_row;

static void take_row(sample_row *s, rng *r)
{
    const double spread = exp2(8.0 * rng_unit(r) - 4.0);
    double sum = 0.0;
    s->n = 2 + rng_below(r, CLS_TILE - 1);
    s->scale = (float)(exp2(4.0 * rng_unit(r) - 2.0) * 1.4426950408889634);
    s->top = -INFINITY;
    s->mass = s->terms = s->squares = 0;
    s->entropy = 0.0;
    for (uint32_t i = 0; i < s->n; i++) {
        s->z[i] = (float)(spread * rng_normal(r) +
                          (i == 0 && rng_below(r, 2) ? 10.0 * rng_unit(r) : 0.0));
        s->top = fmaxf(s->top, s->z[i]);
    }
    const cls_unit unit = unit_of(s->top, s->top, split(s->top, s->scale).exponent, s->scale);
    for (uint32_t i = 0; i < s->n; i++) {
        const uint32_t w = weight(s->z[i], unit.max, s->scale, unit.fraction);
        const uint64_t mass = to_row_units(w, unit.shift);
        s->mass += mass;
        s->terms += depth_term(mass, depth_q20(s->z[i], s->top, s->scale));
        s->squares += square_term(w, unit.shift);
        s->p[i] = exp2(((double)s->z[i] - (double)s->top) * (double)s->scale);
        sum += s->p[i];
    }
    for (uint32_t i = 0; i < s->n; i++) {
        s->p[i] /= sum;
        s->entropy -= s->p[i] > 0.0 ? s->p[i] * log2(s->p[i]) : 0.0;
    }
}

static uint32_t rounds(void) { return fixture_by_size(100, 1000, 5000); }

/* Fails beyond the bound; keeps the largest error met. */
static void within(double error, double bound, double *most, const char *what)
{
    *most = fmax(*most, fabs(error));
    ck_assert_msg(fabs(error) <= bound, "%s is off by %g, more than %g", what, error, bound);
}
static void met(const char *what, double most) { printf("%s: at most %.2g\n", what, most); }

START_TEST(entropies)
{
    rng r = {fixture_seed()};
    sample_row s;
    double surprise = 0.0, mean = 0.0, entropy = 0.0, squares = 0.0;
    for (uint32_t i = 0; i < rounds(); i++) {
        take_row(&s, &r);
        const double size = (double)mass_q20(s.mass, s.top, s.scale) * 0x1p-20;
        const double average = (double)mean_depth_q20(s.terms, s.mass) * 0x1p-20;
        double depths = 0.0, square = 0.0;
        for (uint32_t t = 0; t < s.n; t++) {
            depths += s.p[t] * ((double)s.top - (double)s.z[t]) * (double)s.scale;
            square += s.p[t] * s.p[t];
        }
        /* The surprisal of the largest is the size of the mass. */
        within(size - (s.entropy - depths), 4e-6, &surprise, "log2 of the mass");
        within(average - depths, 4e-5, &mean, "the mean depth");
        within(size + average - s.entropy, 4e-5, &entropy, "the entropy");
        const double limit = -log2(square) - size;
        if (limit > 0.0)
            within((double)p_less_depth(s.mass, s.squares, s.top, s.scale) * 0x1p-20 - limit, 5e-5,
                   &squares, "p-less");
    }
    met("log2 of the mass, bits", surprise);
    met("mean depth, bits", mean);
    met("entropy, bits", entropy);
    met("depth of p-less, bits", squares);
}
END_TEST

START_TEST(temperatures)
{
    rng r = {fixture_seed() + 1};
    double most = 0.0, inverse = 0.0;
    for (uint32_t i = 0; i < 10 * rounds(); i++) {
        const float t = (float)exp2(60.0 * rng_unit(&r) - 16.0);
        within((double)scale_of(t) * (double)t / 1.4426950408889634 - 1.0, 1.3e-7, &inverse,
               "log2(e) / t");
        const uint32_t n = 2 + rng_below(&r, 1000000), exponent = rng_below(&r, 4 * 65536);
        const double h = rng_unit(&r) * log2((double)n);
        const uint32_t entropy = (uint32_t)(h * 1048576.0);
        const float low = (float)rng_unit(&r), span = (float)(2.0 * rng_unit(&r));
        if (h < 0.1)
            continue;
        const double exact =
            (double)low + (double)span * pow(fmin((double)entropy * 0x1p-20 / log2((double)n), 1.0),
                                             (double)exponent / 65536.0);
        within(((double)dynamic_temperature(entropy, n, low, span, exponent) - exact) / exact, 6e-5,
               &most, "the temperature");
    }
    met("log2(e) / t, relative", inverse);
    met("dynamic temperature for an entropy, relative", most);
    ck_assert(dynamic_temperature(0, 5, 0.25f, 1.0f, 65536) == 0.25f);
    ck_assert(dynamic_temperature(0, 5, 0.25f, 1.0f, 0) == 1.25f);
    ck_assert(dynamic_temperature(3u << 20, 8, 0.25f, 1.0f, 65536) == 1.25f);
}
END_TEST

START_TEST(deviations)
{
    rng r = {fixture_seed() + 2};
    double most = 0.0;
    for (uint32_t i = 0; i < rounds(); i++) {
        const uint32_t n = 2 + rng_below(&r, 3000);
        const double spread = exp2(40.0 * rng_unit(&r) - 20.0),
                     offset = rng_below(&r, 2) ? 0.0 : 20.0 * spread * rng_normal(&r);
        double sum = 0.0, squares_ = 0.0;
        float z[3002], top = -INFINITY, least = INFINITY;
        uint64_t units = 0, squares = 0;
        for (uint32_t t = 0; t < n; t++) {
            z[t] = (float)(spread * rng_normal(&r) + offset);
            top = fmaxf(top, z[t]);
            least = fminf(least, z[t]);
            sum += (double)z[t];
        }
        const uint64_t square = rng_bits(&r) >> rng_below(&r, 64), root = square_root(square);
        ck_assert(root * root <= square && square - root * root <= 2 * root);
        if (!(top > least))
            continue;
        const float grid = sigma_grid(top - least);
        for (uint32_t t = 0; t < n; t++) {
            const uint64_t u = sigma_unit(z[t], top, grid);
            units += u;
            squares += u * u;
            squares_ += ((double)z[t] - sum / n) * ((double)z[t] - sum / n);
        }
        const double exact = 1.3 * sqrt(squares_ / n) * (double)grid;
        within((double)sigma_limit(n, units, squares, 1.3f) / exact - 1.0, 4e-6, &most,
               "the deviation");
    }
    met("standard deviation, relative", most);
}
END_TEST

/* How many tokens Mirostat 1 keeps, from the same slope. */
START_TEST(mirostat)
{
    rng r = {fixture_seed() + 3};
    double most = 0.0;
    for (uint32_t i = 0; i < 10 * rounds(); i++) {
        const uint32_t vocab = 2 + rng_below(&r, 262144), ranks = 2 + rng_below(&r, 99);
        const double slope = 3.0 * rng_unit(&r);
        const int32_t mu = (int32_t)(16.0 * rng_unit(&r) * 1048576.0);
        uint64_t terms = 0, squares = 0;
        double top = 0.0, bottom = 0.0;
        for (uint32_t k = 0; k + 1 < ranks; k++) {
            const double step = log2((k + 2.0) / (k + 1.0));
            const uint32_t drop =
                (uint32_t)(fmax(0.0, slope * step + 0.05 * rng_normal(&r)) * 1048576.0);
            terms += (uint64_t)mirostat_step(k) * drop;
            squares += (uint64_t)mirostat_step(k) * mirostat_step(k);
            top += step * drop * 0x1p-20;
            bottom += step * step;
        }
        const double s = top / bottom, e = s - 1.0;
        if (fabs(e) < 1e-3 || s < 0.05)
            continue;
        const double k =
            pow(e * exp2((double)mu * 0x1p-20) / (1.0 - pow((double)vocab, -e)), 1.0 / s);
        const double exact = fmin(fmax(floor(k), 1.0), (double)vocab);
        const uint32_t count = mirostat_count(terms, squares, mu, vocab);
        /* A whole number: off by what k is off by, and then by one. */
        within(((double)count - exact) / (exact * (1.0 + 1.0 / s) + 2000.0), 5e-4, &most,
               "mirostat's k");
    }
    ck_assert_uint_eq(mirostat_count(0, 1, 1 << 20, 1), 1);
    ck_assert_uint_eq(mirostat_count(0, UINT64_C(1) << 48, 12 << 20, 1000), 1000); /* all alike */
    ck_assert_uint_eq(mirostat_count(0, UINT64_C(1) << 48, 1 << 20, 1000), 1);
    ck_assert_uint_eq(mirostat_count(UINT64_C(1) << 44, UINT64_C(1) << 48, -(1 << 29), 1000), 1);
    ck_assert_int_eq(mirostat_next(1 << 20, 3 << 20, 1 << 20, 1 << 24), -(1 << 20));
    ck_assert_int_eq(mirostat_next(1 << 20, 0, 1 << 20, 1 << 23), 3 << 19);
    ck_assert_int_eq(mirostat_next(1 << 29, 0, 100 << 20, 100u << 24), 1 << 29);
}
END_TEST

START_TEST(adaptive)
{
    rng r = {fixture_seed() + 4};
    double most = 0.0, average = 0.0;
    for (uint32_t i = 0; i < 100 * rounds(); i++) {
        const uint32_t q = rng_below(&r, (1u << 30) + 1), aim = rng_below(&r, (1u << 30) + 1);
        const double d = fabs((double)q - (double)aim) * 0x1p-30 / 0.3,
                     exact = 10.0 * 1.4426950408889634 * d * d / (1.0 + d);
        within((double)adaptive_depth(q, aim) * 0x1p-20 - exact, 4e-5, &most, "the depth");
    }
    for (uint32_t i = 0; i < 20; i++) {
        const double decay = 0.99 * rng_unit(&r), target = rng_unit(&r);
        double sum = target / (1.0 - decay), weight_ = 1.0 / (1.0 - decay);
        cls_slot slot;
        memset(&slot, 0, sizeof slot);
        slot.flags = CLS_SLOT_ADAPTIVE;
        slot.target = (uint32_t)(target * 0x1p30);
        slot.adaptive_decay = (uint32_t)(decay * 0x1p32);
        cls_slot_adaptive m = adaptive_begin(&slot);
        for (uint32_t n = 0; n < 200; n++) {
            const uint32_t q = rng_below(&r, (1u << 30) + 1);
            adaptive_p_accept(&m, q, slot.adaptive_decay);
            sum = (double)q * 0x1p-30 + decay * sum;
            weight_ = 1.0 + decay * weight_;
            ck_assert_uint_le(m.sum, m.weight);
            const double exact = fmin(fmax(2.0 * target - sum / weight_, 0.0), 1.0);
            within((double)adaptive_aim(slot.target, m.sum, m.weight) * 0x1p-30 - exact, 3e-6,
                   &average, "the aim");
        }
    }
    met("depth by adaptive p, bits", most);
    met("its aim", average);
}
END_TEST

START_TEST(decays)
{
    cls_slot slot;
    memset(&slot, 0, sizeof slot);
    slot.top_p = 0xf0000000u;
    slot.decay = 0x80000000u;
    slot.top_p_min = 0x40000000u;
    slot.reset_id = 9;
    ck_assert_uint_eq(top_p_next(&slot, slot.top_p, 1), 0x78000000u);
    ck_assert_uint_eq(top_p_next(&slot, 0x78000000u, 1), 0x40000000u);
    ck_assert_uint_eq(top_p_next(&slot, 0x40000000u, 9), 0xf0000000u);
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_test(entropies);
    add_test(temperatures);
    add_test(deviations);
    add_test(mirostat);
    add_test(adaptive);
    add_test(decays);
    return fixture_end();
}
