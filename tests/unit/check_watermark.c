/* SPDX-License-Identifier: MIT */
/* Proves the watermark's numbers by known answers of vLLM and SGLang, its logarithm against long
 * double, its law over many keys, and the detector on texts with and without the watermark. */
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
        cls_mark mark = {0, {0}, {key[0], key[1]}};
        uint32_t of[4];
        watermark_begin(mark.state, known[i].w);
        for (uint32_t first = 0; first < known[i].w; first += 4)
            watermark_hash(mark.state, known[i].w, first, known[i].context + first, key);
        watermark_words(of, &mark, known[i].id / 4);
        ck_assert_uint_eq(of[known[i].id % 4], known[i].word);
    }
}
END_TEST

/* SGLang's hashes of contexts, of tokens behind the context 1, 2, 3, 4 by either key, and its
 * choice of the key: by version 0.5.23 of its detector. */
START_TEST(sglang_words)
{
    static const uint32_t keys[4] = {0x89abcdef, 0x01234567, 0x76543210, 0xfedcba98};
    static const struct {
        uint32_t n, ids[4], hash, coin;
    } contexts[] = {{4, {1, 2, 3, 4}, 1145416960, 1969321603},
                    {1, {7}, 1343918321, UINT32_C(3909432793)},
                    {2, {5, 100000}, UINT32_C(3464838108), 635249542}};
    static const struct {
        uint32_t id, by_a, by_b;
    } known[] = {{0, 1293512163, UINT32_C(3560368731)},
                 {7, UINT32_C(2441207572), UINT32_C(2428845626)},
                 {8, UINT32_C(2675192736), 874073024},
                 {128255, UINT32_C(3443588910), UINT32_C(3766412400)}};
    cls_mark a = {0}, b = {0};
    uint32_t of_a[4], of_b[4];
    for (size_t i = 0; i < sizeof contexts / sizeof *contexts; i++) {
        const uint32_t coin = contexts[i].coin;
        uint32_t hash = 0;
        for (uint32_t j = 0; j < contexts[i].n; j++)
            hash = murmur_word(hash, contexts[i].ids[j]);
        hash = murmur_end(hash, contexts[i].n);
        ck_assert_uint_eq(hash, contexts[i].hash);
        watermark_keyed(&a, hash, keys, 0);
        watermark_keyed(&b, hash, keys, coin + 1);
        ck_assert_uint_eq(a.state[0], b.state[0]);
        watermark_keyed(&b, hash, keys, coin);
        ck_assert_uint_ne(a.state[0], b.state[0]);
        for (size_t j = 0; j < sizeof known / sizeof *known && i == 0; j++) {
            watermark_words(of_a, &a, known[j].id / 4);
            watermark_words(of_b, &b, known[j].id / 4);
            ck_assert_uint_eq(of_a[known[j].id % 4], known[j].by_a);
            ck_assert_uint_eq(of_b[known[j].id % 4], known[j].by_b);
        }
    }
}
END_TEST

/* The logarithm is off by at most 1.6 units of 2^-56, rises with c, and is at least 2^32 c, or
 * SGLang's 2^23 c, by which most tokens go without it. */
START_TEST(surprises)
{
    const uint32_t step = fixture_by_size(4096, 64, 1);
    uint64_t last = 0;
    double most = 0.0;
    for (uint32_t c = 1; c <= 1u << 24; c += c < 4096 ? 1 : step) {
        const uint64_t s = watermark_surprise(0, ((UINT32_C(1) << 24) - c) << 8);
        const long double x = (long double)c / 16777217.0L,
                          log = c < 1 << 20 ? log1pl(-x) : logl((16777217.0L - c) / 16777217.0L),
                          exact = -log / 0.693147180559945309417232121458L;
        most = fmax(most, (double)fabsl((long double)s - exact * 0x1p56L));
        ck_assert(s > last && s >> 32 >= c);
        last = s;
    }
    last = 0;
    for (uint64_t c = 1; c <= UINT64_C(1) << 32;
         c += c < 4096 ? 1 : 1 + (uint64_t)step * (c / 4096)) {
        const uint64_t s = watermark_surprise(1, (uint32_t)(0 - c));
        const long double x = ((long double)c - 0.5L) / 4294967296.0L,
                          exact =
                              (c < UINT32_C(1) << 30 ? -log1pl(-x)
                                                     : -logl((4294967296.5L - c) / 4294967296.0L)) /
                              0.693147180559945309417232121458L;
        most = fmax(most, (double)fabsl((long double)s - exact * 0x1p56L));
        ck_assert(s > last && s >> 23 >= c);
        last = s;
    }
    ck_assert(watermark_surprise(1, 0) == UINT64_C(33) << 56);
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

/* What SGLang's detector says of texts, by one key and by two, with and without a prompt; of
 * contexts that repeat; and of a text whose contexts are more than it counts. */
static void detected(cls_watermark_call *call, uint32_t n, double sum, double p)
{
    cls_watermark_score score;
    cls_watermark_score_init(&score);
    must(cls_watermark_detect(call, &score));
    ck_assert_msg(score.scored == n && fabs(score.score - sum) < 1e-9 &&
                      fabs(score.p_value - p) < 1e-9,
                  "%u, %.12g, %.12g; SGLang has %u, %.12g, %.12g", (unsigned)score.scored,
                  score.score, score.p_value, (unsigned)n, sum, p);
}
START_TEST(sglang_detector)
{
    static const int32_t one[] = {3}, five[] = {9, 8, 7, 6, 5}, three[] = {5, 6, 7};
    static const struct {
        float mixing;
        uint32_t prompt, n;
        double sum, p;
    } known[] = {{0, 0, 44, 42.42341713981988, 0.5754034238361272},
                 {0, 1, 48, 48.808589560373235, 0.4348143061323705},
                 {0, 5, 48, 45.30644382871411, 0.6360560497637356},
                 {.5, 0, 44, 41.516082920041896, 0.629765953342304},
                 {.5, 1, 48, 46.9173264116196, 0.5434914863599211},
                 {.5, 5, 48, 44.76485471196218, 0.6662074616294614},
                 {.25, 0, 44, 41.89994470265122, 0.606918201067757},
                 {.25, 1, 48, 44.44232819061021, 0.6837926563082518},
                 {.25, 5, 48, 45.644750737352744, 0.6168966026589812}};
    static int32_t text[5000];
    cls_watermark_call call;
    cls_watermark_call_init(&call);
    for (int32_t i = 0; i < 48; i++)
        text[i] = i * i % 97;
    call.rule = CLS_WATERMARK_SGLANG;
    call.context = 4;
    call.key = UINT64_C(0x0123456789abcdef);
    call.output = (cls_ids){text, 48};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        call.key_b = known[i].mixing > 0 ? UINT64_C(0xfedcba9876543210) : 0;
        call.mixing = known[i].mixing > 0 ? known[i].mixing : .5f;
        call.prompt = (cls_ids){known[i].prompt == 1 ? one : five, known[i].prompt};
        detected(&call, known[i].n, known[i].sum, known[i].p);
    }
    for (int32_t i = 0; i < 40; i++)
        text[i] = i % 8;
    call.context = 3;
    call.key = 0x2a;
    call.key_b = 0;
    call.output.count = 40;
    call.prompt = (cls_ids){three, 3};
    detected(&call, 8, 7.646378942708081, 0.5033100258338737);
    uint32_t x = 1;
    for (int i = 0; i < 5000; i++) {
        x = (x * 1103515245u + 12345u) % (UINT32_C(1) << 31);
        text[i] = (int32_t)(x >> 12);
    }
    call.context = 2;
    call.output.count = 5000;
    call.prompt = (cls_ids){three, 1};
    detected(&call, 4096, 4139.04771061248, 0.24968469919817055);
}
END_TEST

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
    REFUSED(context, 65, "call->context is 65; it must be");
    REFUSED(context, 0, "call->context is 0; it must be 1");
    REFUSED(reserved, 1, "call->reserved is 1");
    REFUSED(rule, 2, "call->rule is 2; it must be CLS_WATERMARK_VLLM (0) or CLS_WATERMARK_SGLANG");
    REFUSED(key_b, 1, "call->key_b is set, but call->rule is not CLS_WATERMARK_SGLANG");
    REFUSED(prompt.count, 1, "call->prompt.ids is NULL, but call->prompt.count is 1");
    REFUSED(mixing, 1, "call->mixing is 1; it must be above 0 and below 1");
    REFUSED(struct_size, 8, "call->struct_size");
    must_refuse(cls_watermark_detect(NULL, &score), "call is NULL");
    must_refuse(cls_watermark_detect(&call, NULL), "score is NULL");
    must(cls_watermark_detect(&call, &score));
    ck_assert_uint_eq(score.scored, 1);
}
END_TEST

/* Over many keys the tokens of one context follow the distribution, of plain rows and of sets, by
 * vLLM's rule, by SGLang's, and by that with two keys. */
START_TEST(law)
{
    const int rule = _i / 10, sets = _i / 5 % 2;
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
    e.p.watermark_rule = rule > 0 ? CLS_WATERMARK_SGLANG : CLS_WATERMARK_VLLM;
    e.p.top_k = sets ? 9 : 0;
    for (e.p.watermark_key = 0; e.p.watermark_key < draws; e.p.watermark_key++) {
        e.p.watermark_key_b = rule == 2 ? ~e.p.watermark_key : 0;
        must(one_sample(&e.row, &e.result));
        ck_assert(e.result.token >= 0 && e.result.token < (sets ? 9 : 10));
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

/* By SGLang's rule the seeds decide where a token has more than the greatest probability, where the
 * text has no id, and where the context occurred before; a prompt counts, and the set after top-k.
 */
START_TEST(sglang_marks)
{
    static const double probs[10] = {.5, .2, .1, .1, .05, .03, .015, .004, .00099, .00001};
    static const int32_t ids[] = {3, 1, 3, 1};
    static const struct {
        float most;
        uint32_t prompt, output, context;
        int32_t top_k;
        int marked;
    } known[] = {{1, 0, 1, 4, 0, 1},     {.501f, 0, 1, 4, 0, 1}, {.499f, 0, 1, 4, 0, 0},
                 {.501f, 0, 1, 4, 3, 0}, {.63f, 0, 1, 4, 3, 1},  {1, 0, 0, 4, 0, 0},
                 {1, 1, 0, 4, 0, 1},     {1, 0, 4, 1, 0, 0},     {1, 0, 4, 4, 0, 1},
                 {1, 3, 0, 1, 0, 1}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t differ = 0;
        int32_t first = -1;
        example e;
        start_probs(&e, probs, 10);
        e.row.max_history = 100;
        e.row.prompt = known[i].prompt != 0 ? ids : NULL;
        e.row.prompt_count = known[i].prompt;
        e.row.output = known[i].output != 0 ? ids : NULL;
        e.row.output_count = known[i].output;
        e.p.watermark_rule = CLS_WATERMARK_SGLANG;
        e.p.watermark_context = known[i].context;
        e.p.watermark_max_probability = known[i].most;
        e.p.top_k = known[i].top_k;
        for (e.p.seed = 0; e.p.seed < 30; e.p.seed++) {
            must(one_sample(&e.row, &e.result));
            first = e.p.seed == 0 ? e.result.token : first;
            differ += e.result.token != first;
        }
        ck_assert_msg((differ == 0) == known[i].marked, "case %zu: %u of 29 seeds differ", i,
                      (unsigned)differ);
    }
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_test(words);
    add_test(sglang_words);
    add_test(surprises);
    add_test(detector);
    add_test(sglang_detector);
    add_loop_test(law, 30);
    add_test(texts);
    add_test(sglang_marks);
    return fixture_end();
}
