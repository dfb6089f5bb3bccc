/* SPDX-License-Identifier: MIT */
/* Proves the watermark's numbers by known answers of vLLM, its logarithm against long double, its
 * law over many keys, and the detector on texts with and without the watermark. */
#include <stdio.h>

#include "example.h"
#include "rows/kinds.h"
#include "oracle.h"
#include "core/watermark.h"

#define NONE CLS_WATERMARK_NONE

START_TEST(words)
{
    static const uint32_t key[2] = {42, 0};
    static const struct {
        uint32_t w, context[8], id, word;
    } known[] = {{4, {1, 2, 3, 4}, 7, 425429266},     {4, {1, 2, 3, 4}, 8, 2706218805},
                 {4, {4, 5, 6, 7}, 7, 2494036831},    {4, {4, 5, 6, 7}, 8, 3424185538},
                 {3, {NONE, NONE, 7}, 0, 3321204911}, {3, {NONE, NONE, 7}, 1, 2386389489},
                 {3, {NONE, NONE, 7}, 2, 2511108021}, {3, {NONE, NONE, 7}, 3, 191508233},
                 {5, {1, 2, 3, 4, 5}, 7, 3211277280}, {5, {1, 2, 3, 4, 5}, 8, 810111416}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t state[4], of[4];
        watermark_begin(state, known[i].w);
        for (uint32_t first = 0; first < known[i].w; first += 4)
            watermark_hash(state, known[i].w, first, known[i].context + first, key);
        watermark_words(of, state, known[i].id / 4, key);
        ck_assert_uint_eq(of[known[i].id % 4], known[i].word);
    }
}
END_TEST

/* The logarithm is off by at most 1.6 units of 2^-56, rises with c, and is at least 2^32 c, by
 * which most tokens go without it. */
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
    ck_assert(most < 1.6);
}
END_TEST

static double p_by(const int32_t *ids, uint32_t count, uint64_t key, uint32_t n, double sum)
{
    cls_watermark_call call;
    cls_watermark_score score;
    cls_watermark_call_init(&call);
    cls_watermark_score_init(&score);
    call.output = (cls_ids){ids, count};
    call.context = 4;
    call.key = key;
    must(cls_watermark_detect(&call, &score));
    ck_assert(score.scored == n && (sum < 0.0 || fabs(score.score - sum) < 1e-8));
    return score.p_value;
}

static double p_of(const int32_t *ids, uint32_t count, uint32_t n, double sum)
{
    return p_by(ids, count, 42, n, sum);
}

/* Known sums, and texts of random ids: of 2,000 about 20 have a p-value of at most .01. */
START_TEST(detector)
{
    rng r = {1};
    int32_t ids[100];
    uint32_t found = 0;
    cls_watermark_call call;
    cls_watermark_score score;
    for (int32_t i = 0; i < 48; i++)
        ids[i] = i < 24 ? i * i % 97 : i % 8 * (i % 8);
    ck_assert(fabs(p_of(ids, 24, 24, 36.26764966) - .0126248687) < 1e-10);
    ck_assert(fabs(p_of(ids + 24, 24, 12, 21.65812577) - .00915163) < 1e-8);
    ck_assert(p_of(NULL, 0, 0, 0.0) >= 1.0);
    for (uint32_t text = 0; text < 2000; text++) {
        for (int i = 0; i < 100; i++)
            ids[i] = (int32_t)rng_below(&r, 50000);
        found += p_of(ids, 100, 100, -1.0) <= .01;
    }
    printf("%u of 2,000 random texts are found\n", found);
    ck_assert(found >= 7 && found <= 33);
    ids[1] = -1;
    cls_watermark_call_init(&call);
    cls_watermark_score_init(&score);
    call.output = (cls_ids){ids, 1};
    call.context = 4;
#define REFUSED(field, value, words) \
    must_refuse_with(call, field, value, cls_watermark_detect(&call, &score), words)
    REFUSED(output.count, 2, "call->output.ids[1] is -1, which is no");
    REFUSED(output.ids, NULL, "call->output.ids is NULL");
    REFUSED(context, 17, "call->context is 17; it must be");
    REFUSED(context, 0, "call->context is 0; it must be 1");
    REFUSED(reserved, 1, "call->reserved is 1");
    REFUSED(struct_size, 8, "call->struct_size");
    must_refuse(cls_watermark_detect(NULL, &score), "call is NULL");
    must_refuse(cls_watermark_detect(&call, NULL), "score is NULL");
    must(cls_watermark_detect(&call, &score));
    ck_assert_uint_eq(score.scored, 1);
}
END_TEST

/* Over many keys the tokens of one context follow the distribution, of plain rows and of sets. */
START_TEST(law)
{
    static const int32_t output[] = {3, 1, 4, 1, 5};
    static const double probs[10] = {.5, .2, .1, .1, .05, .03, .015, .004, .00099, .00001};
    const uint32_t draws = fixture_by_size(20000, 50000, 500000);
    uint32_t counts[10] = {0};
    double statistic, limit;
    example e;
    start_probs(&e, probs, 10);
    OUTPUT(&e, output);
    e.row.max_history = 100;
    e.p.watermark_context = 1 + (uint32_t)_i % 5;
    e.p.top_k = _i < 5 ? 0 : 9;
    for (e.p.watermark_key = 0; e.p.watermark_key < draws; e.p.watermark_key++) {
        must(one_sample(&e.row, &e.result));
        ck_assert(e.result.token >= 0 && e.result.token < (_i < 5 ? 10 : 9));
        counts[e.result.token]++;
    }
    ck_assert_msg(oracle_chi_square(probs, counts, 10, draws, &statistic, &limit),
                  "chi-square is %g, more than %g", statistic, limit);
}
END_TEST

/* A text of 200 tokens at temperature 1 is found by its key and by no other, of which two differ in
 * the high bits alone. A context that repeats is drawn by the seed, and no other is. */
START_TEST(texts)
{
    const uint64_t key = UINT64_C(0x800000010000002a);
    static const uint64_t others[] = {0x2b, 0x2a, UINT64_C(0x10000002a),
                                      UINT64_C(0x800000010000002b)};
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
    e.p.watermark_context = 4;
    e.p.watermark_key = key;
    for (e.row.output_count = 0; e.row.output_count < 200; e.row.output_count++) {
        for (int i = 0; i < 1000; i++)
            x[i] = (float)(1.5 * rng_normal(&r));
        e.p.seed = rng_bits(&r);
        must(one_sample(&e.row, &e.result));
        ids[e.row.output_count] = e.result.token;
    }
    ck_assert(p_by(ids, 200, key, 200, -1.0) < 1e-6);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        ck_assert(p_by(ids, 200, others[i], 200, -1.0) > 1e-6);
    for (uint32_t repeated = 0; repeated < 2; repeated++) {
        uint32_t differ = 0;
        int32_t first = -1;
        memmove(ids + 196, ids + (repeated ? 96 : 196), 4 * sizeof *ids);
        for (e.p.seed = 0; e.p.seed < 20; e.p.seed++) {
            must(one_sample(&e.row, &e.result));
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
    add_test(detector);
    add_loop_test(law, 10);
    add_test(texts);
    return fixture_end();
}
