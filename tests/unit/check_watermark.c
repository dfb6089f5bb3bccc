/* SPDX-License-Identifier: MIT */
/* Proves the watermark's numbers by known answers of vLLM, its logarithm against long double, its
 * law over many keys, and the detector on texts with and without the watermark. */
#include <stdio.h>

#include "example.h"
#include "inputs.h"
#include "oracle.h"
#include "core/watermark.h"

#define NONE CLS_WATERMARK_NONE
static const uint32_t key[2] = {42, 0};

static uint32_t word_of(const uint32_t *context, uint32_t w, uint32_t id)
{
    uint32_t state[4], words[4];
    watermark_begin(state, w);
    for (uint32_t first = 0; first < w; first += 4) {
        uint32_t ids[4] = {0};
        for (uint32_t i = first; i < w && i < first + 4; i++)
            ids[i - first] = context[i];
        watermark_hash(state, w, first, ids, key);
    }
    watermark_words(words, state, id / 4, key);
    return words[id % 4];
}

START_TEST(words)
{
    static const struct {
        uint32_t w, context[5], id, word;
    } known[] = {{4, {1, 2, 3, 4}, 7, 425429266},     {4, {1, 2, 3, 4}, 8, 2706218805},
                 {4, {4, 5, 6, 7}, 7, 2494036831},    {4, {4, 5, 6, 7}, 8, 3424185538},
                 {3, {NONE, NONE, 7}, 0, 3321204911}, {3, {NONE, NONE, 7}, 1, 2386389489},
                 {3, {NONE, NONE, 7}, 2, 2511108021}, {3, {NONE, NONE, 7}, 3, 191508233},
                 {5, {1, 2, 3, 4, 5}, 7, 3211277280}, {5, {1, 2, 3, 4, 5}, 8, 810111416}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        ck_assert_uint_eq(word_of(known[i].context, known[i].w, known[i].id), known[i].word);
}
END_TEST

/* The logarithm is off by at most 1.7 units of 2^-56, never falls with c, and is not below the
 * bound that lets tokens go without it. The first unit has 32 bits. */
START_TEST(surprises)
{
    const uint32_t step = fixture_by_size(4096, 64, 1);
    uint64_t last = 0;
    double most = 0.0;
    for (uint32_t c = 1; c <= 1u << 24; c += c < 4096 ? 1 : step) {
        const uint64_t s = watermark_surprise(c);
        const long double x = (long double)c / 16777217.0L,
                          log = c < 1 << 20 ? log1pl(-x) : logl((16777217.0L - c) / 16777217.0L),
                          exact = -log / 0.693147180559945309417232121458L;
        most = fmax(most, (double)fabsl((long double)s - exact * 0x1p56L));
        ck_assert(s > last && s >> 32 >= c);
        last = s;
    }
    printf("surprises are off by at most %.2f units of 2^-56\n", most);
    ck_assert(most < 1.7);
}
END_TEST

static double p_of(const int32_t *ids, uint32_t count, uint32_t *n, double *score)
{
    double p = -1.0;
    must(cls_watermark_detect(ids, count, 4, 42, n, score, &p));
    return p;
}

START_TEST(goldens)
{
    int32_t ids[24], thrice[24];
    uint32_t n;
    double score;
    for (int32_t i = 0; i < 24; i++) {
        ids[i] = i * i % 97;
        thrice[i] = i % 8 * (i % 8) % 97;
    }
    ck_assert(fabs(p_of(ids, 24, &n, &score) - .0126248687) < 1e-10 && n == 24);
    ck_assert(fabs(score - 36.26764966) < 1e-8);
    ck_assert(fabs(p_of(thrice, 24, &n, &score) - .00915163) < 1e-8 && n == 12);
    ck_assert(fabs(score - 21.65812577) < 1e-8);
    ck_assert(p_of(NULL, 0, &n, &score) >= 1.0 && n == 0 && score <= 0.0);
}
END_TEST

START_TEST(refusals)
{
    static const int32_t bad[] = {3, -1};
    uint32_t n;
    double score, p;
    must_refuse(cls_watermark_detect(bad, 2, 4, 0, &n, &score, &p), "ids[1] is -1, which is no");
    must_refuse(cls_watermark_detect(bad, 1, 17, 0, &n, &score, &p), "context is 17; it must be");
    must_refuse(cls_watermark_detect(bad, 1, 0, 0, &n, &score, &p), "context is 0; it must be 1");
    must_refuse(cls_watermark_detect(NULL, 1, 4, 0, &n, &score, &p), "ids is NULL");
    must_refuse(cls_watermark_detect(bad, 1, 4, 0, NULL, &score, &p), "scored is NULL");
    must_refuse(cls_watermark_detect(bad, 1, 4, 0, &n, NULL, &p), "score is NULL");
    must_refuse(cls_watermark_detect(bad, 1, 4, 0, &n, &score, NULL), "p_value is NULL");
}
END_TEST

/* Of 2,000 texts of random ids about 20 have a p-value of at most .01. */
START_TEST(unmarked)
{
    rng r = {1};
    int32_t ids[100];
    uint32_t n, found = 0;
    double score;
    for (uint32_t text = 0; text < 2000; text++) {
        for (int i = 0; i < 100; i++)
            ids[i] = (int32_t)rng_below(&r, 50000);
        found += p_of(ids, 100, &n, &score) <= .01;
    }
    printf("%u of 2,000 random texts are found\n", found);
    ck_assert(found >= 7 && found <= 33);
}
END_TEST

/* Over many keys, the tokens of one context follow the row's distribution. */
START_TEST(law)
{
    static const int32_t output[] = {3, 1, 4, 1, 5};
    static const double probs[10] = {.5, .2, .1, .1, .05, .03, .015, .004, .00099, .00001};
    const uint32_t draws = fixture_by_size(20000, 50000, 500000);
    uint32_t counts[10] = {0};
    example e;
    double statistic, limit;
    start_probs(&e, probs, 10);
    OUTPUT(&e, output);
    e.row.max_history = 100;
    e.p.watermark_context = 1 + (uint32_t)_i % 5;
    e.p.top_k = _i < 5 ? 0 : 9; /* plain rows, and rows of a set */
    for (uint32_t i = 0; i < draws; i++) {
        e.p.watermark_key = i;
        must(cls_host_sample(&e.row, &e.result));
        ck_assert(e.result.token >= 0 && e.result.token < (_i < 5 ? 10 : 9));
        counts[e.result.token]++;
    }
    ck_assert_msg(oracle_chi_square(probs, counts, 10, draws, &statistic, &limit),
                  "chi-square is %g, more than %g", statistic, limit);
}
END_TEST

/* A text of 200 tokens at temperature 1 is found by its key and by no other; a context that repeats
 * is drawn by the seed. */
START_TEST(texts)
{
    rng r = {fixture_seed()};
    float x[1000];
    int32_t ids[200];
    example e;
    start(&e);
    e.row.logits = x;
    e.row.vocab = 1000;
    e.row.max_history = 300;
    e.result.probs = NULL;
    e.row.output = ids;
    for (e.row.output_count = 0; e.row.output_count < 200; e.row.output_count++) {
        for (int i = 0; i < 1000; i++)
            x[i] = (float)(1.5 * rng_normal(&r));
        e.p.watermark_context = 4;
        e.p.watermark_key = 42;
        e.p.seed = rng_bits(&r);
        must(cls_host_sample(&e.row, &e.result));
        ids[e.row.output_count] = e.result.token;
    }
    uint32_t n;
    double score, other = 0.0;
    const double p = p_of(ids, 200, &n, &score);
    must(cls_watermark_detect(ids, 200, 4, 43, &n, &score, &other));
    printf("a marked text of 200 tokens has p = %.2g, with another key %.2g\n", p, other);
    ck_assert(p < 1e-6 && other > 1e-6);
    for (int repeated = 0; repeated < 2; repeated++) {
        uint32_t differ = 0;
        int32_t first = -1;
        memmove(ids + 196, ids + (repeated ? 96 : 196), 4 * sizeof *ids);
        for (e.p.seed = 0; e.p.seed < 20; e.p.seed++) {
            must(cls_host_sample(&e.row, &e.result));
            first = e.p.seed == 0 ? e.result.token : first;
            differ += e.result.token != first;
        }
        ck_assert_msg((differ != 0) == repeated, "%u of 19 seeds differ", differ);
    }
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_test(words);
    add_test(surprises);
    add_test(goldens);
    add_test(refusals);
    add_test(unmarked);
    add_loop_test(law, 10);
    add_test(texts);
    return fixture_end();
}
