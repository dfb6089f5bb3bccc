/* SPDX-License-Identifier: MIT */
/* Proves that shards give the tokens and statuses of an unsharded sampler where a split is hardest:
 * rows whose tokens lie in one shard, ties across borders, shards of one token, NaN and infinities
 * in one shard, rows without a token, and flat, sorted and clustered rows with cuts anywhere. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "twin.h"

enum { STEPS = 2 };

/* --------------------------------------------------------------- rows and borders */

/* Rows of logits, made for the borders of a split. */
typedef enum pattern {
    ONE_SHARD,  /* only the tokens of one shard are finite */
    FEW_TOKENS, /* two finite tokens, on both sides of a border */
    NAN_IN_ONE, /* a NaN in one shard */
    INF_IN_ONE, /* +inf in one shard, and a NaN in another */
    INF_IN_TWO, /* +inf on both sides of a border */
    NOTHING,    /* all -inf */
    ONLY_NAN,   /* -inf, and NaN in one shard */
    TIED_TOP,   /* the largest logit on both sides of each border */
    EQUAL,      /* all equal */
    ASCENDING,
    DESCENDING,
    FLAT,         /* all within 1e-6 */
    TWO_CLUSTERS, /* half of the tokens lie 12 below the others */
    FAR_CLUSTERS, /* one token, and all others 40 below */
    FEW_LEVELS,   /* many ties at each of a few levels */
    PATTERNS
} pattern;

static const char *const pattern_names[PATTERNS] = {
    "one shard",  "few tokens", "NaN in one",   "+inf in one",  "+inf in two",
    "nothing",    "only NaN",   "tied top",     "equal",        "ascending",
    "descending", "flat",       "two clusters", "far clusters", "few levels"};

/* Fills a row. */
static void fill(pattern what, float *z, uint32_t vocab, uint32_t n, const uint32_t *borders,
                 rng *r)
{
    const uint32_t shard = rng_below(r, n), first = borders[shard], last = borders[shard + 1];
    const uint32_t border = n > 1 ? borders[1 + rng_below(r, n - 1)] : vocab / 2;
    for (uint32_t i = 0; i < vocab; i++) {
        z[i] = (float)rng_normal(r);
        if (what == EQUAL)
            z[i] = -3.0f;
        else if (what == ASCENDING || what == DESCENDING)
            z[i] = (what == ASCENDING ? 8.0f : -8.0f) * (float)i / (float)vocab;
        else if (what == FLAT)
            z[i] = 1.0f + 1e-6f * z[i];
        else if (what == TWO_CLUSTERS)
            z[i] = 0.01f * z[i] - (rng_below(r, 2) ? 12.0f : 0.0f);
        else if (what == FAR_CLUSTERS)
            z[i] = i == border ? 0.0f : -40.0f + 0.5f * z[i];
        else if (what == FEW_LEVELS)
            z[i] = (float)rng_below(r, 4);
        else if (what == NOTHING || what == ONLY_NAN || what == FEW_TOKENS ||
                 (what == ONE_SHARD && (i < first || i >= last)))
            z[i] = -INFINITY;
    }
    if (what == NAN_IN_ONE || what == ONLY_NAN || what == INF_IN_ONE)
        z[first] = NAN;
    if (what == INF_IN_ONE)
        z[last < vocab ? last : first > 0 ? 0 : 1] = INFINITY;
    if (what == FEW_TOKENS || what == INF_IN_TWO)
        z[border - 1] = z[border < vocab ? border : 0] = what == INF_IN_TWO ? INFINITY : 1.0f;
    for (uint32_t i = 1; i < n && what == TIED_TOP; i++)
        z[borders[i]] = z[borders[i] - 1] = 9.0f;
}

/* The splits: of 1, of shards of one token, with more shards than kept tokens, in one tile, at and
 * beside the borders of tiles. */
static const struct {
    uint32_t vocab, n, borders[12];
} splits_of[] = {{300, 4, {0, 1, 63, 129, 300}},
                 {2500, 3, {0, 1, 2047, 2500}},
                 {2500, 2, {0, 1024, 2500}},
                 {70, 11, {0, 1, 2, 3, 4, 5, 6, 30, 31, 68, 69, 70}},
                 {2500, 1, {0, 2500}},
                 {2049, 4, {0, 1023, 1025, 2048, 2049}},
                 {1100, 7, {0, 100, 200, 333, 1000, 1030, 1090, 1100}},
                 {3100, 5, {0, 5, 700, 702, 2050, 3100}}};

/* Steps of one pattern, with each kind of parameters. */
static void run_pattern(device *d, pattern what, uint32_t split, int bound, rng *r)
{
    const uint32_t vocab = splits_of[split].vocab, n = splits_of[split].n;
    const uint32_t *const borders = splits_of[split].borders;
    batch *const b = batch_new(TWIN_KINDS, vocab, what == FLAT ? CLS_F32 : (int)(what % 3), 0, 0);
    float *const z = must_malloc(vocab * sizeof *z);
    char where[100];
    twin t;
    snprintf(where, sizeof where, "%s, split %u", pattern_names[what], split);
    for (uint32_t row = 0; row < b->rows; row++) {
        batch_row(b, row, ROW_EQUAL, rng_bits(r));
        fill(what, z, vocab, n, borders, r);
        batch_values(b, row, z);
        twin_params(&b->params[row], !bound ? row : row % 2 ? 3 : 5, vocab);
        /* Any targets: ties at the cuts of top-k and top-p. */
        if (bound && row % 2)
            b->params[row].top_k = 1 + (int32_t)rng_below(r, vocab);
        else if (bound)
            b->params[row].top_p = (float)rng_unit(r);
    }
    twin_open(&t, d, b, &(twin_setup){.n = n, .borders = borders}, where);
    for (uint32_t step = 0; step < STEPS; step++) {
        twin_step(&t);
        for (uint32_t row = 0; row < b->rows; row++) {
            const int32_t status = twin_status(&t, row), token = twin_token(&t, row);
            const int empty = what == NOTHING || what == ONLY_NAN;
            ck_assert_int_eq((status & CLS_ROW_EMPTY) != 0, empty);
            ck_assert_int_eq(token < 0, empty);
            ck_assert((status & CLS_ROW_NAN) ||
                      (what != NAN_IN_ONE && what != INF_IN_ONE && what != ONLY_NAN));
            ck_assert((status & CLS_ROW_INF) || (what != INF_IN_ONE && what != INF_IN_TWO));
        }
    }
    twin_close(&t);
    free(z);
    batch_free(b);
}

START_TEST(patterns)
{
    rng r = {fixture_seed() + 700};
    const uint32_t all = sizeof splits_of / sizeof splits_of[0];
    for (uint32_t split = 0; split < fixture_by_size(1, all, all); split++)
        for (uint32_t what = 0; what < PATTERNS; what++)
            if (fixture_size() == TEST_FULL || (what + split) % 2 == 0)
                run_pattern(fixture_device(_i), (pattern)what, split, 0, &r);
}
END_TEST

/* Cuts of top-p and top-k at many places of flat, sorted and clustered rows. */
START_TEST(cuts)
{
    rng r = {fixture_seed() + 701};
    const uint32_t all = sizeof splits_of / sizeof splits_of[0];
    for (uint32_t split = 0; split < fixture_by_size(1, all, all); split++)
        for (uint32_t what = TIED_TOP; what < PATTERNS; what++)
            if (fixture_size() == TEST_FULL || (what + split) % 2 == 1)
                run_pattern(fixture_device(_i), (pattern)what, split, 1, &r);
}
END_TEST

int main(void)
{
    fixture_random(0);
    fixture_begin(ON_DEVICES);
    add_device_test(patterns);
    add_device_test(cuts);
    return fixture_end();
}
