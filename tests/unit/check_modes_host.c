/* SPDX-License-Identifier: MIT */
/* Proves the state that mirostat, adaptive p and top-p decay carry from token to token, on the
 * host, with values worked out by hand. */
#include "example.h"

static int32_t drawn(example *e, uint64_t random)
{
    e->row.random_bits = &random;
    must(one_sample(&e->row, &e->result));
    e->row.random_bits = NULL;
    return e->result.token;
}

START_TEST(mirostat)
{
    example e;
    START_PROBS(&e, .5, .25, .125, .125);
    e.p.mirostat = 2;
    e.p.mirostat_tau = 1.25f; /* mu is 2.5, which leaves the surprises 1 and 2 */
    e.p.mirostat_eta = 0.5f;
    e.p.top_k = 1; /* it has no effect */
    EXPECT_KEPT(&e, "01");
    /* Token 0 is one of two: its surprise is log2 1.5 = .585 bits, and mu becomes
     * 2.5 - .5 * (.585 - 1.25). */
    ck_assert_int_eq(drawn(&e, 0), 0);
    ck_assert(fabs(e.result.adaptive.mu * 0x1p-20 - (2.5 - 0.5 * (log2(1.5) - 1.25))) < 1e-5);
    ck_assert_int_eq(drawn(&e, UINT64_MAX), 1);
    ck_assert(fabs(e.result.adaptive.mu * 0x1p-20 - (2.5 - 0.5 * (log2(3) - 1.25))) < 1e-5);
    e.row.adaptive = e.result.adaptive; /* mu continues from 2.33 */
    ck_assert(e.row.adaptive.begun != 0);
    EXPECT_KEPT(&e, "01");
    e.row.adaptive.mu = (int32_t)(3.01 * 0x1p20);
    EXPECT_KEPT(&e, "0123");
    e.row.adaptive.mu = (int32_t)(1.99 * 0x1p20);
    EXPECT_KEPT(&e, "0");
    e.row.adaptive.mu = -(1 << 20); /* one token always stays */
    EXPECT_KEPT(&e, "0");
    e.p.temperature = 2.0f; /* the surprises become 1.68, 2.18 and 2.68 */
    e.row.adaptive.mu = (int32_t)(2.2 * 0x1p20);
    EXPECT_KEPT(&e, "01");
    e.x[3] = -200.0f; /* from 64 bits on mu cuts nothing, not even what weighs nothing */
    for (uint32_t below = 0; below < 2; below++) {
        e.row.adaptive.mu = (64 << 20) - (int32_t)below;
        must(one_sample(&e.row, &e.result));
        ck_assert_uint_eq(e.result.kept_count, 4 - below);
    }

    START_PROBS(&e, .5, .25, .125, .125); /* a row without a token leaves the state as it was */
    e.p.mirostat = 2;
    e.row.adaptive = (cls_adaptive_state){1, 12345, 0, 0, 0};
    for (int i = 0; i < 4; i++)
        e.x[i] = -INFINITY;
    must(one_sample(&e.row, &e.result));
    ck_assert_int_eq(e.result.status, CLS_ROW_EMPTY);
    ck_assert_int_eq(e.result.adaptive.mu, 12345);

    START_PROBS(&e, .7); /* one token has no slope */
    e.p.mirostat = 1;
    EXPECT_KEPT(&e, "0");
    START_PROBS(&e, .5, .25, .125, .125);
    e.p.mirostat = 1;
    e.row.adaptive = (cls_adaptive_state){1, -(5 << 20), 0, 0, 0};
    EXPECT_KEPT(&e, "0");
    e.row.adaptive.mu = 50 << 20;
    EXPECT_KEPT(&e, "0123");
    /* s is sum(step * drop) / sum(step^2) over all ranks, the last of which is steep; the
     * vocabulary has 10 tokens. */
    e.x[3] = logf(.01f);
    const double drops[] = {1.0, 1.0, log2(12.5)}, mu = 2.0;
    double terms = 0.0, squares = 0.0;
    for (int i = 0; i < 3; i++) {
        const double step = log2((i + 2.0) / (i + 1.0));
        terms += step * drops[i];
        squares += step * step;
    }
    const double s = terms / squares,
                 k = pow((s - 1.0) * exp2(mu) / (1.0 - pow(10.0, 1.0 - s)), 1.0 / s);
    e.row.adaptive.mu = (int32_t)(mu * 0x1p20);
    must(one_sample(&e.row, &e.result));
    ck_assert_msg(e.result.kept_count == (uint32_t)k, "%u kept, not %g", e.result.kept_count, k);
}
END_TEST

START_TEST(adaptive)
{
    example e;
    START_PROBS(&e, .1, .2, .3, .4);
    e.p.adaptive_target = 0.3f;
    e.p.adaptive_decay = 0.75f;
    ck_assert_int_eq(drawn(&e, UINT64_MAX), 3);
    /* The averages begin as if every draw had met the target: the weight is 4, the sum 1.2. */
    ck_assert(fabs(e.result.adaptive.weight * 0x1p-24 - (1 + 0.75 * 4)) < 1e-6);
    ck_assert(fabs(e.result.adaptive.sum * 0x1p-24 - (0.4 + 0.75 * 1.2)) < 1e-6);
    /* The next draw aims at .6 - 1.3 / 4: twice the target, minus the mean. */
    e.row.adaptive = e.result.adaptive;
    must(one_sample(&e.row, &e.result));
    double weight[4], sum = 0.0;
    for (int i = 0; i < 4; i++) {
        const double d = fabs((i + 1) / 10.0 - (0.6 - 1.3 / 4)) / 0.3;
        sum += weight[i] = exp(-10.0 * d * d / (1 + d));
    }
    for (int i = 0; i < 4; i++)
        ck_assert_msg(fabs((double)e.probs[i] - weight[i] / sum) < 1e-5, "token %d: %g, not %g", i,
                      (double)e.probs[i], weight[i] / sum);
    ck_assert(fabs((double)e.result.logprob_final - log(weight[e.result.token] / sum)) < 1e-4);

    e.row.adaptive.begun = 0; /* A chain leaves .3 and .4, which become 3/7 and 4/7. */
    e.p.top_k = 2;
    e.p.adaptive_target = 0.5f;
    must(one_sample(&e.row, &e.result));
    const double d3 = 1.0 / 14.0 / 0.3; /* both are equally far from the target, .5 */
    ck_assert(d3 > 0.0 && fabs((double)e.probs[2] - 0.5) < 1e-5 &&
              fabs((double)e.probs[3] - 0.5) < 1e-5);
    ck_assert_uint_eq(e.result.kept_count, 2);
}
END_TEST

START_TEST(decay)
{
    const int32_t output[] = {3, 5, -1, 3};
    example e;
    START_PROBS(&e, .41, .29, .2, .1);
    params_set(&e.p, "top_p=0.8 top_p_decay=0.5 top_p_min=0.15 top_p_reset_id=5");
    EXPECT_KEPT(&e, "012");
    ck_assert(fabs(e.result.adaptive.top_p * 0x1p-32 - 0.4) < 1e-6); /* any token but 5 halves it */
    OUTPUT(&e, output); /* token 5 resets it, and token 3 halves it */
    e.row.output_count = 4;
    must(one_sample(&e.row, &e.result));
    ck_assert(fabs(e.result.adaptive.top_p * 0x1p-32 - 0.2) < 1e-6);
    EXPECT_KEPT(&e, "0");
    e.row.adaptive = (cls_adaptive_state){
        1, 0, 0, 0, (uint32_t)(0.69 * 0x1p32)}; /* the adaptive state is used, and not the output */
    EXPECT_KEPT(&e, "01");
    e.row.adaptive.top_p = (uint32_t)(0.2 * 0x1p32); /* it does not fall below the minimum */
    must(one_sample(&e.row, &e.result));
    ck_assert(fabs(e.result.adaptive.top_p * 0x1p-32 - 0.15) < 1e-6);
    e.x[5] = 10.0f;
    must(one_sample(&e.row, &e.result));
    ck_assert_int_eq(e.result.token, 5);
    ck_assert(fabs(e.result.adaptive.top_p * 0x1p-32 - 0.8) < 1e-6);
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_test(mirostat);
    add_test(adaptive);
    add_test(decay);
    return fixture_end();
}
