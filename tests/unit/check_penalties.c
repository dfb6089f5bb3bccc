/* SPDX-License-Identifier: MIT */
/* Proves penalties, biases and stop ids on the host against values worked out by hand,
 * including the limits of each parameter and what is refused. check_reference.c tests random
 * rows. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "example.h"

#define BIAS(e, array) ((e)->p.logit_bias.biases = (array), (e)->p.logit_bias.count = LENGTH(array))
#define STOP(e, array) ((e)->p.stop_ids.ids = (array), (e)->p.stop_ids.count = LENGTH(array))

/* Returns a token's logit after all adjustments, minus that of token `zero`. The logarithms of the
 * two probabilities give it. */
static double logit(example *e, int token, int zero)
{
    must(cls_host_sample(&e->row, &e->result));
    return log((double)e->probs[token]) - log((double)e->probs[zero]);
}

#define EXPECT_LOGIT(e, token, zero, value) \
    do { \
        const double found_ = logit((e), (token), (zero)); \
        ck_assert_msg(fabs(found_ - (value)) < 2e-6, "token %d: %.9g, not %.9g", (token), found_, \
                      (double)(value)); \
    } while (0)

/* Returns the token that has the largest logit: the one that a greedy request draws. */
static int32_t largest(example *e)
{
    e->p.temperature = 0.0f;
    must(cls_host_sample(&e->row, &e->result));
    e->p.temperature = 1.0f;
    return e->result.token;
}

START_TEST(each_penalty)
{
    const int32_t prompt[] = {1, 2, 2, 5}, output[] = {2, 3, 3, 3, 4};
    example e;
    start(&e);
    for (int i = 0; i < 10; i++)
        e.x[i] = i % 2 ? -1.0f : 1.0f;
    e.x[0] = 0.0f; /* it occurs nowhere, so that other logits are measured by it */
    PROMPT(&e, prompt);
    OUTPUT(&e, output);
    EXPECT_LOGIT(&e, 2, 0, 1.0); /* the defaults change nothing */
    EXPECT_LOGIT(&e, 3, 0, -1.0);

    e.p.repetition_penalty = 2.0f; /* It applies once to each token of prompt and output; the
                                      logit's sign decides how. */
    EXPECT_LOGIT(&e, 1, 0, -2.0);
    EXPECT_LOGIT(&e, 2, 0, 0.5);
    EXPECT_LOGIT(&e, 3, 0, -2.0);
    EXPECT_LOGIT(&e, 4, 0, 0.5);
    EXPECT_LOGIT(&e, 6, 0, 1.0);
    EXPECT_LOGIT(&e, 7, 0, -1.0);
    e.p.repetition_penalty = 0.5f; /* below 1 it raises logits */
    EXPECT_LOGIT(&e, 1, 0, -0.5);
    EXPECT_LOGIT(&e, 2, 0, 2.0);
    e.p.repetition_penalty = 1.0f;

    e.p.frequency_penalty = 0.25f; /* it counts the output's tokens */
    EXPECT_LOGIT(&e, 1, 0, -1.0);
    EXPECT_LOGIT(&e, 2, 0, 0.75);
    EXPECT_LOGIT(&e, 3, 0, -1.75);
    e.p.penalty_scope = CLS_SCOPE_ALL; /* it counts the prompt's tokens, too */
    EXPECT_LOGIT(&e, 1, 0, -1.25);
    EXPECT_LOGIT(&e, 2, 0, 0.25);
    e.p.frequency_penalty = -0.25f;
    EXPECT_LOGIT(&e, 2, 0, 1.75);
    e.p.frequency_penalty = 0.0f;

    e.p.presence_penalty = 0.5f;
    EXPECT_LOGIT(&e, 2, 0, 0.5);
    EXPECT_LOGIT(&e, 5, 0, -1.5);
    e.p.penalty_scope = CLS_SCOPE_OUTPUT;
    EXPECT_LOGIT(&e, 5, 0, -1.0);
    EXPECT_LOGIT(&e, 3, 0, -1.5);
    e.p.presence_penalty = -2.0f;
    EXPECT_LOGIT(&e, 3, 0, 1.0);

    e.p.repetition_penalty = 4.0f; /* All three apply: a quarter, minus three times .125, plus 2. */
    e.p.frequency_penalty = 0.125f;
    e.p.penalty_scope = CLS_SCOPE_ALL;
    EXPECT_LOGIT(&e, 2, 0, 0.25 - 3 * 0.125 + 2.0);
    EXPECT_LOGIT(&e, 3, 0, -4.0 - 3 * 0.125 + 2.0);
}
END_TEST

START_TEST(biases)
{
    const cls_logit_bias bias[] = {{3, 1.0f},  {7, -INFINITY}, {3, 0.25f}, {0, -2.0f},
                                   {3, -0.5f}, {9, 1e30f},     {9, -1e30f}};
    const int32_t output[] = {3, 7};
    example e;
    start(&e);
    BIAS(&e, bias);
    OUTPUT(&e, output);
    EXPECT_LOGIT(&e, 3, 1, 0.75); /* duplicates add up */
    EXPECT_LOGIT(&e, 0, 1, -2.0);
    EXPECT_LOGIT(&e, 9, 1, 0.0);
    ck_assert(e.probs[7] == 0.0f);
    ck_assert_uint_eq(e.result.kept_count, 9);
    e.p.repetition_penalty = 3.0f; /* it applies after the bias, which made the logit positive */
    EXPECT_LOGIT(&e, 3, 1, 0.25);
    e.p.presence_penalty = -1e30f; /* a penalty does not allow a banned token again */
    e.x[7] = FLT_MAX;
    ck_assert_int_eq(largest(&e), 3);

    float dense[10] = {0};
    start(&e);
    dense[2] = 3.0f;
    dense[4] = -INFINITY;
    e.row.bias = dense;
    EXPECT_LOGIT(&e, 2, 0, 3.0);
    ck_assert(e.probs[4] == 0.0f);
    dense[5] = NAN;
    must(cls_host_sample(&e.row, &e.result));
    ck_assert_int_eq(e.result.status, CLS_ROW_NAN);
    dense[5] = INFINITY;
    ck_assert_int_eq(largest(&e), 5);
    ck_assert_int_eq(e.result.status, CLS_ROW_INF);
    const uint16_t halves[10] = {0, 0x3c00, 0, 0xc000}; /* 1, -2 */
    e.row.bias = halves;
    e.row.bias_dtype = CLS_F16;
    EXPECT_LOGIT(&e, 1, 0, 1.0);
    EXPECT_LOGIT(&e, 3, 0, -2.0);
    const uint16_t upper[10] = {0, 0x3f80, 0, 0xc000}; /* 1, -2 */
    e.row.bias = upper;
    e.row.bias_dtype = CLS_BF16;
    EXPECT_LOGIT(&e, 1, 0, 1.0);
    EXPECT_LOGIT(&e, 3, 0, -2.0);
}
END_TEST

/* Proves what a factor of either sign makes of the values of a dense bias. */
START_TEST(bias_factors)
{
    example e;
    for (int i = 0; i < 4; i++) {
        static const float all[4] = {0.5f, 3.0f, -0.5f, -3.0f};
        const float factor = all[i];
        float dense[10] = {0};
        start(&e);
        e.row.bias = dense;
        e.row.bias_factor = factor;
        dense[1] = 1.0f;
        dense[2] = -2.0f;
        EXPECT_LOGIT(&e, 1, 0, (double)factor);
        EXPECT_LOGIT(&e, 2, 0, -2.0 * (double)factor);
        ck_assert_int_eq(e.result.status, CLS_ROW_OK);
        e.x[3] = 80.0f;
        ck_assert_int_eq(largest(&e), 3);
        const float raw = e.result.logprob_raw;
        dense[3] = -INFINITY; /* bans the token, whatever the sign */
        ck_assert_int_ne(largest(&e), 3);
        ck_assert_int_eq(e.result.status, CLS_ROW_OK);
        ck_assert(e.probs[3] == 0.0f);
        dense[3] = INFINITY; /* counts as NaN, and so does NaN */
        ck_assert_int_ne(largest(&e), 3);
        ck_assert_int_eq(e.result.status, CLS_ROW_NAN);
        dense[3] = NAN;
        ck_assert_int_ne(largest(&e), 3);
        ck_assert_int_eq(e.result.status, CLS_ROW_NAN);
        dense[3] = factor > 0.0f ? FLT_MAX : -FLT_MAX; /* products are finite */
        ck_assert_int_eq(largest(&e), 3);
        ck_assert_int_eq(e.result.status, CLS_ROW_OK);
        dense[3] = -dense[3];
        ck_assert_int_ne(largest(&e), 3);
        ck_assert_int_eq(e.result.status, CLS_ROW_OK);
        must(cls_host_sample(&e.row, &e.result));
        ck_assert_uint_eq(e.result.kept_count, 10); /* it is not banned */
        dense[3] = 5.0f * factor;
        ck_assert_int_eq(largest(&e), 3);
        ck_assert(e.result.logprob_raw == raw); /* of the logits alone */
    }
    /* 0 and 1 add the values as they are, +inf included. */
    for (int i = 0; i < 2; i++) {
        float dense[10] = {0};
        start(&e);
        e.row.bias = dense;
        e.row.bias_factor = (float)i;
        dense[1] = 1.5f;
        EXPECT_LOGIT(&e, 1, 0, 1.5);
        dense[5] = INFINITY;
        ck_assert_int_eq(largest(&e), 5);
        ck_assert_int_eq(e.result.status, CLS_ROW_INF);
    }
}
END_TEST

/* Proves what penalties and biases make of zeros, infinities, NaN and the largest floats. */
START_TEST(odd_logits)
{
    const int32_t output[] = {0, 1, 2, 3, 4, 5};
    const cls_logit_bias bias[] = {{2, 5.0f}, {3, 5.0f}, {4, 1e38f}};
    example e;
    start(&e);
    OUTPUT(&e, output);
    e.p.repetition_penalty = 2.0f;
    EXPECT_LOGIT(&e, 0, 9, 0.0); /* a factor leaves 0 as it is */
    e.p.presence_penalty = 1.0f;
    EXPECT_LOGIT(&e, 0, 9, -1.0);
    e.x[1] = -0.0f;
    EXPECT_LOGIT(&e, 1, 9, -1.0);

    e.p.presence_penalty = e.p.frequency_penalty = -1e30f;
    BIAS(&e, bias);
    for (int i = 0; i < 10; i++)
        e.x[i] = -INFINITY;
    must(cls_host_sample(&e.row, &e.result));
    ck_assert_int_eq(e.result.status, CLS_ROW_EMPTY);
    ck_assert_int_eq(e.result.token, -1);
    e.x[3] = NAN;
    must(cls_host_sample(&e.row, &e.result));
    ck_assert_int_eq(e.result.status, CLS_ROW_EMPTY | CLS_ROW_NAN);
    e.x[9] = -FLT_MAX; /* all other logits are -INFINITY or NaN */
    ck_assert_int_eq(largest(&e), 9);

    /* An infinite logit counts as FLT_MAX, so half of it is less than FLT_MAX. Sums stay finite. */
    start(&e);
    OUTPUT(&e, output);
    e.x[4] = INFINITY;
    e.x[8] = FLT_MAX;
    ck_assert_int_eq(largest(&e), 4);
    e.p.repetition_penalty = 2.0f;
    ck_assert_int_eq(largest(&e), 8);
    ck_assert_int_eq(e.result.status, CLS_ROW_INF);
    e.x[4] = FLT_MAX;
    e.p.repetition_penalty = 0.5f; /* 2 * FLT_MAX counts as FLT_MAX, which is a tie */
    ck_assert_int_eq(largest(&e), 4);
    ck_assert_int_eq(e.result.status, CLS_ROW_OK);
    BIAS(&e, bias);
    ck_assert_int_eq(largest(&e), 4);
    for (int i = 0; i < 10; i++) /* a token at -FLT_MAX * 2 can still be drawn */
        e.x[i] = i < 6 ? -FLT_MAX : -INFINITY;
    e.p.logit_bias = (cls_biases){NULL, 0};
    e.p.repetition_penalty = 2.0f;
    ck_assert_int_eq(largest(&e), 0);
    ck_assert_int_eq(e.result.status, CLS_ROW_OK);
}
END_TEST

START_TEST(windows)
{
    const int32_t prompt[] = {1, -1, 2, 10, 3}, output[] = {INT32_MAX, 4, 4, INT32_MIN, 5};
    /* The tokens are 1 2 3 in the prompt and 4 4 5 in the output: ids outside the vocabulary do not
     * count. times[window][id - 1] says how often an id is in the window. */
    static const int times[8][5] = {{1, 1, 1, 2, 1}, {0, 0, 0, 0, 1}, {0, 0, 0, 1, 1},
                                    {0, 0, 0, 2, 1}, {0, 0, 1, 2, 1}, {0, 1, 1, 2, 1},
                                    {1, 1, 1, 2, 1}, {1, 1, 1, 2, 1}};
    example e;
    start(&e);
    PROMPT(&e, prompt);
    OUTPUT(&e, output);
    e.p.frequency_penalty = 1.0f;
    for (e.p.penalty_scope = 0; e.p.penalty_scope < 2; e.p.penalty_scope++)
        for (e.p.penalty_window = 0; e.p.penalty_window < 8; e.p.penalty_window++)
            for (int id = 1; id <= 5; id++)
                EXPECT_LOGIT(&e, id, 0,
                             id <= 3 && e.p.penalty_scope == CLS_SCOPE_OUTPUT
                                 ? 0
                                 : -times[e.p.penalty_window][id - 1]);
    e.p.frequency_penalty = 0.0f; /* the repetition penalty also ignores what left the window */
    e.p.repetition_penalty = 2.0f;
    e.p.penalty_scope = CLS_SCOPE_OUTPUT;
    e.x[2] = e.x[3] = 1.0f;
    e.p.penalty_window = 4;
    EXPECT_LOGIT(&e, 2, 0, 1.0);
    EXPECT_LOGIT(&e, 3, 0, 0.5);
}
END_TEST

START_TEST(large_counts)
{
    enum { N = 70000 };
    int32_t *const output = must_malloc(N * sizeof *output);
    example e;
    for (int i = 0; i < N; i++)
        output[i] = 2;
    start(&e);
    e.row.output = output;
    e.p.frequency_penalty = 0x1p-13f;
    e.row.output_count = 65535;
    EXPECT_LOGIT(&e, 2, 0, -65535 * 0x1p-13);
    e.row.output_count = N; /* the count stops at 65,535 */
    EXPECT_LOGIT(&e, 2, 0, -65535 * 0x1p-13);
    free(output);
}
END_TEST

START_TEST(stops)
{
    const int32_t stop[] = {6, 8, 6}, before[] = {6, 3, -1}, ended[] = {3, 6, -1};
    example e;
    start(&e);
    STOP(&e, stop);
    ck_assert_int_eq(largest(&e), 0);
    ck_assert_int_eq(e.result.status, CLS_ROW_OK);
    e.x[8] = 1.0f;
    ck_assert_int_eq(largest(&e), 8);
    ck_assert_int_eq(e.result.status, CLS_ROW_STOPPED);
    OUTPUT(&e, before); /* a stop id that is not the latest token does not stop the request */
    e.x[8] = 0.0f;
    ck_assert_int_eq(largest(&e), 0);
    ck_assert_int_eq(e.result.status, CLS_ROW_OK);
    e.p.max_tokens = 3; /* ids outside the vocabulary do not count as tokens */
    ck_assert_int_eq(largest(&e), 0);
    ck_assert_int_eq(e.result.status, CLS_ROW_STOPPED | CLS_ROW_LENGTH);
    e.p.max_tokens = 2;
    e.row.invalid_token = 5;
    ck_assert_int_eq(largest(&e), 5);
    ck_assert_int_eq(e.result.status, CLS_ROW_STOPPED | CLS_ROW_SKIPPED);
    ck_assert_uint_eq(e.result.kept_count, 0);
    e.p.max_tokens = 0;
    OUTPUT(&e, ended);
    ck_assert_int_eq(largest(&e), 5);
    ck_assert_int_eq(e.result.status, CLS_ROW_STOPPED | CLS_ROW_SKIPPED);
    PROMPT(&e, ended); /* a stop id in the prompt does not stop the request */
    e.row.output_count = 0;
    ck_assert_int_eq(largest(&e), 0);
    ck_assert_int_eq(e.result.status, CLS_ROW_OK);
}
END_TEST

START_TEST(bool_masks)
{
    unsigned char mask[10] = {0, 0, 1, 0, 255, 0, 0, 0, 0, 2};
    const int32_t output[] = {0};
    example e;
    start(&e);
    for (int i = 0; i < 10; i++)
        e.x[i] = (float)i;
    e.row.mask = mask;
    e.row.mask_kind = CLS_MASK_BOOL;
    e.row.mask_width = 10;
    ck_assert_int_eq(largest(&e), 9);
    e.row.mask_width = 9; /* tokens beyond the mask's width are not allowed */
    ck_assert_int_eq(largest(&e), 4);
    e.x[3] = NAN; /* the token is not allowed, so its NaN is not reported */
    OUTPUT(&e, output);
    e.p.presence_penalty = -1e30f; /* a penalty does not allow a masked token again */
    ck_assert_int_eq(largest(&e), 4);
    ck_assert_int_eq(e.result.status, CLS_ROW_OK);
    e.row.mask_width = 0; /* 0 means the whole vocabulary, as in a step */
    const float whole = e.x[9];
    e.x[9] = 50.0f;
    ck_assert_int_eq(largest(&e), 9);
    const int32_t words[1] = {1 << 4};
    e.row.mask = words;
    e.row.mask_kind = CLS_MASK_PACKED;
    ck_assert_int_eq(largest(&e), 4);
    e.x[9] = whole;
}
END_TEST

START_TEST(parameters_refused)
{
    static const float bad_repetition[] = {0.0f, -1.0f, 9e-31f, 1.1e30f, INFINITY, NAN};
    static const float bad_amount[] = {1.1e30f, -1.1e30f, INFINITY, -INFINITY, NAN};
    static const int32_t bad_scope[] = {-1, 2};
    static const int32_t bad_ids[] = {-1, 10, INT32_MAX, INT32_MIN};
    static const float bad_bias[] = {INFINITY, NAN};
    int32_t stop[] = {0, 9, 1};
    cls_logit_bias bias[] = {{0, 1.0f}, {9, -INFINITY}, {1, -FLT_MAX}};
    example e;
    start(&e);
    cls_params *const p = &e.p;
    BIAS(&e, bias);
    STOP(&e, stop);
    const cls_params good = *p;
    must(cls_params_check(p, 10));
#define REFUSE(field, values) \
    for (unsigned i = 0; i < LENGTH(values); i++) \
        must_refuse_with(*p, field, (values)[i], cls_params_check(p, 10), #field);
    REFUSE(repetition_penalty, bad_repetition)
    REFUSE(frequency_penalty, bad_amount)
    REFUSE(presence_penalty, bad_amount)
    REFUSE(penalty_scope, bad_scope)
#undef REFUSE
    p->repetition_penalty = 1e-30f;
    p->frequency_penalty = p->presence_penalty = -1e30f;
    p->penalty_window = 16384;
    must(cls_params_check(p, 10));
    must_refuse_with(*p, penalty_window, 16385, cls_params_check(p, 10), "penalty_window");
    *p = good;
    must_refuse_with(*p, logit_bias.biases, NULL, cls_params_check(p, 10), "logit_bias");
    must_refuse_with(*p, stop_ids.ids, NULL, cls_params_check(p, 10), "stop_ids");
    for (unsigned i = 0; i < LENGTH(bad_ids); i++) {
        stop[2] = bias[2].id = bad_ids[i];
        p->stop_ids.count = 2;
        must_refuse(cls_params_check(p, 10), "logit_bias.biases[2].id");
        p->logit_bias.count = 2;
        p->stop_ids.count = 3;
        must_refuse(cls_params_check(p, 10), "stop_ids.ids[2]");
        *p = good;
    }
    stop[2] = bias[2].id = 1;
    for (unsigned i = 0; i < LENGTH(bad_bias); i++) {
        bias[0].bias = bad_bias[i];
        must_refuse(cls_params_check(p, 10), "logit_bias.biases[0].bias");
    }
    bias[0].bias = 0.0f;
    must(cls_params_check(p, 10));
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_test(each_penalty);
    add_test(biases);
    add_test(bias_factors);
    add_test(odd_logits);
    add_test(windows);
    add_test(large_counts);
    add_test(stops);
    add_test(bool_masks);
    add_test(parameters_refused);
    return fixture_end();
}
