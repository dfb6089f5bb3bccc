/* SPDX-License-Identifier: MIT */
/* Proves known answers on the host: every chain, greedy rows and masks. It also checks which
 * arguments the reference refuses. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "fixture.h"

/* Tokens at exactly top_a times the square of the largest probability are kept: half of 1/4. */
START_TEST(top_a_ties)
{
    for (int shift = -8; shift <= 8; shift++) {
        const float two = 2.0f * 0.69314718f, at = (float)shift;
        const float logits[] = {at, at - 0.69314718f, at - two, at - two};
        cls_params p = default_params();
        p.top_a = 0.5f;
        ck_assert_uint_eq(host_kept_count(logits, 4, &p, NULL), 4);
        p.top_a = 0.501f;
        ck_assert_uint_eq(host_kept_count(logits, 4, &p, NULL), 2);
    }
}
END_TEST

/* One row on which the three chains keep different numbers: at temperature 2
 * the tail weighs more, and what min-p removes first no longer counts for top-p. */
START_TEST(three_chains)
{
    static const float prob[8] = {.40f, .25f, .15f, .08f, .05f, .04f, .02f, .01f};
    float logits[8], probs[8];
    cls_params p = default_params();
    p.temperature = 2.0f;
    p.top_p = .75f;
    p.min_p = .3f;
    for (int i = 0; i < 8; i++)
        logits[i] = logf(prob[i]);
    /* roots: .632 .5 .387 .283 .224 .2 .141 .1, sum 2.467: .75 of it takes 5;
     * .3 * .632 leaves 6 (sum 2.226, of which .75 takes 4); at temperature 1: 3 */
    p.chain = CLS_CHAIN_DEFAULT;
    ck_assert_uint_eq(host_kept_count(logits, 8, &p, probs), 5);
    p.chain = CLS_CHAIN_VLLM;
    ck_assert_uint_eq(host_kept_count(logits, 8, &p, probs), 4);
    p.chain = CLS_CHAIN_LLAMA;
    ck_assert_uint_eq(host_kept_count(logits, 8, &p, probs), 3);
    ck_assert(fabsf(probs[0] - .6325f / 1.5198f) < 1e-3f); /* drawn at temperature 2 all the same */
}
END_TEST

START_TEST(greedy_rows)
{
    enum { N = 2081 };
    float x[N] = {0};
    cls_host_result result = {0};
    cls_params p = default_params();
    p.temperature = _i ? 9.9e-6f : 0.0f;
    p.top_k = 40; /* of no matter */
    cls_host_row row = host_row(x, N, &p);
#define EXPECT(id, bits) \
    do { \
        must(cls_host_sample(&row, &result)); \
        ck_assert_int_eq(result.token, (id)); \
        ck_assert_int_eq(result.status, (bits)); \
    } while (0)
    EXPECT(0, CLS_ROW_OK); /* all equal */
    ck_assert(result.kept_count == 1 && result.logprob_final == 0.0f);
    x[5] = x[32] = x[N - 1] = 1.0f;
    EXPECT(5, CLS_ROW_OK);
    x[5] = x[32] = INFINITY;
    EXPECT(5, CLS_ROW_INF);
    x[32] = NAN;
    x[5] = 3.0f;
    x[0] = NAN;
    EXPECT(5, CLS_ROW_NAN);
    for (int i = 0; i < N; i++)
        x[i] = -FLT_MAX;
    EXPECT(0, CLS_ROW_OK);
    x[17] = -0.0f;
    x[9] = -1e-40f;
    x[80] = 1e-40f;
    EXPECT(9, CLS_ROW_OK); /* zeros all of them: the lowest id */
    for (int i = 0; i < N; i++)
        x[i] = -INFINITY;
    row.invalid_token = 77;
    EXPECT(77, CLS_ROW_EMPTY);
    x[3] = NAN;
    EXPECT(77, CLS_ROW_EMPTY | CLS_ROW_NAN);
#undef EXPECT
}
END_TEST

/* Logits that are further apart than the largest float32 differ by an infinity, so that the lower
 * one weighs nothing, however high the temperature is. */
START_TEST(far_apart)
{
    const float scales[] = {0.4f, 0.6f};
    for (int i = 0; i < 2; i++) {
        const float logits[] = {scales[i] * FLT_MAX, -scales[i] * FLT_MAX};
        float probs[2];
        cls_params p = default_params();
        p.temperature = 1.0e38f;
        ck_assert_uint_eq(host_kept_count(logits, 2, &p, probs), 2);
        ck_assert_msg((probs[1] > 0.0f) == (i == 0), "%g: %g", (double)scales[i], (double)probs[1]);
    }
}
END_TEST

START_TEST(masks)
{
    float x[70];
    int32_t mask[3] = {0, 0, -1};
    cls_host_result result = {0};
    for (int i = 0; i < 70; i++)
        x[i] = (float)i;
    cls_params p = default_params();
    p.temperature = 0.0f;
    cls_host_row row = host_row(x, 70, &p);
    row.mask = mask;
    row.mask_width = 3;
    must(cls_host_sample(&row, &result));
    ck_assert_int_eq(result.token, 69); /* bits beyond the vocabulary are ignored */
    row.mask_width = 2;                 /* and tokens beyond the mask are not allowed */
    must(cls_host_sample(&row, &result));
    ck_assert_int_eq(result.status, CLS_ROW_EMPTY);
    mask[0] = (int32_t)0x80000001u;
    must(cls_host_sample(&row, &result));
    ck_assert_int_eq(result.token, 31);
    x[40] = NAN; /* not allowed, not noticed */
    x[41] = INFINITY;
    must(cls_host_sample(&row, &result));
    ck_assert_int_eq(result.status, CLS_ROW_OK);
    row.mask_width = 0; /* all three words, as in a step */
    must(cls_host_sample(&row, &result));
    ck_assert_int_eq(result.token, 69);
    mask[0] = mask[2] = 0;
    must(cls_host_sample(&row, &result));
    ck_assert_int_eq(result.status, CLS_ROW_EMPTY);
}
END_TEST

START_TEST(parameters_refused)
{
    static const float bad_temperature[] = {-1.0f, -1e-9f, INFINITY, -INFINITY, NAN};
    static const float bad_top_p[] = {1.0001f, 2.0f, INFINITY, NAN};
    static const int32_t bad_switch[] = {-1, 2};
    static const float bad_min_p[] = {-1e-9f, 1.0001f, INFINITY, -INFINITY, NAN};
    cls_params p = default_params();
    must(cls_params_check(&p, 1));
    must(cls_params_check(&p, 1048576));
    must_refuse(cls_params_check(&p, 0), "vocab");
    must_refuse(cls_params_check(&p, 1048577), "vocab");
    must_refuse(cls_params_check(NULL, 5), "params");
#define REFUSE(field, values) \
    for (unsigned i = 0; i < sizeof(values) / sizeof *(values); i++) { \
        must_refuse_with(p, field, (values)[i], cls_params_check(&p, 100), #field); \
    }
    REFUSE(temperature, bad_temperature)
    REFUSE(top_p, bad_top_p)
    REFUSE(min_p, bad_min_p)
    REFUSE(p_less, bad_switch)
    REFUSE(infill, bad_switch)
#undef REFUSE
    must_refuse_with(p, chain, -1, cls_params_check(&p, 100), "chain");
    must_refuse_with(p, chain, 4, cls_params_check(&p, 100), "chain");
    must_refuse_with(p, struct_size, 0, cls_params_check(&p, 100), "struct_size");
    must_refuse_with(p, grammar_state, 1, cls_params_check(&p, 100),
                     "params->grammar_state is 1, but params->grammar is NULL");
    p.top_p = -3.0f; /* as 0: one token */
    p.top_k = INT32_MIN;
    must(cls_params_check(&p, 100));
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_test(top_a_ties);
    add_test(three_chains);
    add_loop_test(greedy_rows, 2);
    add_test(far_apart);
    add_test(masks);
    add_test(parameters_refused);
    return fixture_end();
}
