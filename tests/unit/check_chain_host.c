/* SPDX-License-Identifier: MIT */
/* Proves the chain of truncations on the host, with known distributions and with small rows
 * worked out by hand. check_modes_host.c tests adaptive samplers, check_reference.c random
 * rows. */
#include <float.h>
#include <stdlib.h>

#include "example.h"
#include "goldens.h"

START_TEST(known_distributions)
{
    static float probs[GOLDEN_MOST];
    uint32_t n;
    const golden *const g = goldens(&n) + _i;
    cls_host_result result = {.probs = probs};
    cls_host_row row = host_row(g->logits, g->vocab, &g->params);
    row.output = g->history;
    row.output_count = g->history_count;
    for (row.position = 0; row.position < (g->is_set ? 1 : 20); row.position++) {
        must(cls_host_sample(&row, &result));
        ck_assert_msg(g->expected[result.token] > 0.0, "%s: drew %d", g->name, result.token);
    }
    golden_check(g, probs, "host");
    ck_assert_msg(result.kept_count == g->kept, "%s: %u kept, not %u", g->name, result.kept_count,
                  g->kept);
    ck_assert(fabs((double)result.logprob_final - log((double)probs[result.token])) < 1e-6);
}
END_TEST

/* ---------------------------------------------------------------- rows by hand */

/* The first tokens' probabilities, the parameters, and the tokens that they keep. */
static const struct kept {
    const char *probs, *params, *ids;
} kept_by_hand[] = {
    /* Each truncation sees what the one before it left: of .8 the last are .625, .25 and .125. */
    {".5 .2 .1 .1 .1", "top_k=3 top_p=0.85 stages=top-p,top-k", "012"},
    {".5 .2 .1 .1 .1", "top_k=3 top_p=0.85 stages=top-k,top-p", "01"},
    /* The temperature raises the others to .447 of the largest or more. */
    {".5 .2 .1 .1 .1", "min_p=0.3 temperature=2.0 stages=temperature,min-p", "01234"},
    {".5 .2 .1 .1 .1", "min_p=0.3 temperature=2.0 stages=min-p,temperature", "01"},
    /* XTC removes token 0, so min-p measures by token 1. */
    {".4 .3 .2 .1", "xtc_probability=1.0 xtc_threshold=0.25 min_p=0.6 stages=xtc,min-p", "12"},
    {".4 .3 .2 .1", "xtc_probability=1.0 xtc_threshold=0.25 min_p=0.6 stages=min-p,xtc", "1"},
    /* Typical keeps 1 and 2; top-k then counts from 1. */
    {".4 .2 .2 .1 .1", "typical_p=0.35 top_k=1 stages=typical,top-k", "1"},
    {".4 .2 .2 .1 .1", "typical_p=0.35 top_k=1 stages=top-k,typical", "0"},

    /* Each truncation leaves at least min_keep tokens, in the order in which it prefers them. */
    {".4 .2 .2 .1 .1", "min_keep=3 top_p=0.1", "012"},
    {".4 .2 .2 .1 .1", "min_keep=3 min_p=1.0", "012"},
    {".4 .2 .2 .1 .1", "min_keep=3 top_n_sigma=0.1", "012"},
    {".4 .2 .2 .1 .1", "min_keep=3 p_less=1", "012"},
    {".4 .2 .2 .1 .1", "min_keep=3 top_a=1.0 temperature=0.1", "012"},
    /* The entropy is 2.12 bits. A surprise of 2.32 is nearest to it, then 1.32, then 3.32. */
    {".4 .2 .2 .1 .1", "min_keep=3 typical_p=0.1", "012"},
    {".4 .2 .2 .1 .1", "min_keep=4 typical_p=0.1", "0123"},
    {".4 .2 .2 .1 .1", "min_keep=2 typical_p=0.1", "12"},
    /* Without min_keep XTC would leave 2, 3 and 4. */
    {".4 .2 .2 .1 .1", "min_keep=3 xtc_probability=1.0 xtc_threshold=0.15", "234"},
    {".4 .2 .2 .1 .1", "min_keep=4 xtc_probability=1.0 xtc_threshold=0.15", "01234"},
    /* Top-k ignores min_keep, which is then larger than what top-k left. */
    {".4 .2 .2 .1 .1", "min_keep=4 top_k=2", "01"},
    {".4 .2 .2 .1 .1", "min_keep=4 top_k=2 top_p=0.1", "01"},

    /* Of ties, lower ids come first. A token at a threshold stays, and so do all without a spread.
     * For XTC the last in order counts as the least likely. */
    {".2 .2 .2 .2 .2", "top_k=2", "01"},
    {".2 .2 .2 .2 .2", "top_p=0.5", "012"},
    {".2 .2 .2 .2 .2", "min_p=1.0", "01234"},
    {".2 .2 .2 .2 .2", "typical_p=0.5", "012"},
    {".2 .2 .2 .2 .2", "top_n_sigma=0.01", "01234"},
    {".2 .2 .2 .2 .2", "p_less=1", "01234"},
    {".2 .2 .2 .2 .2", "top_a=1.0", "01234"},
    {".2 .2 .2 .2 .2", "xtc_probability=1.0", "4"},
    /* Of equal tokens that are likelier than typical, those of lower ids are nearer: the higher
     * ones are removed. Top-p then starts at the first token that typical left. */
    {".05 .3 .3 .3 .05", "typical_p=0.5", "12"},
    {".05 .3 .3 .3 .05", "typical_p=0.5 top_p=0.4 stages=typical,top-p", "1"},
    {".05 .3 .3 .3 .05", "typical_p=0.96 stages=typical,top-p", "01234"},
    {".05 .3 .3 .3 .05", "typical_p=0.92 stages=typical,top-p", "0123"},
    /* One of two tokens reaches a half, but does not exceed it. */
    {".5 .5", "top_p=0.5", "0"},
    {".5 .5", "typical_p=0.5", "01"},
};

START_TEST(kept_sets)
{
    const struct kept *const c = &kept_by_hand[_i];
    double probs[10];
    uint32_t n = 0;
    example e;
    for (const char *at = c->probs; *at != '\0'; n++)
        probs[n] = strtod(at, (char **)&at);
    start_probs(&e, probs, n);
    params_set(&e.p, c->params);
    expect_kept(&e, c->ids, c->params);
}
END_TEST

/* Proves that of two equal probabilities whose keys differ, the lower logit is more typical. */
START_TEST(nearly_ties)
{
    example e;
    START_PROBS(&e, .5, .5);
    e.x[0] = 2e-8f;
    e.x[1] = 1e-8f;
    e.p.typical_p = 0.3f;
    EXPECT_KEPT(&e, "1");
}
END_TEST

/* Proves that XTC's random decisions use a separate stream and do not change the draws. */
START_TEST(coin)
{
    example e;
    START_PROBS(&e, .6, .3, .1);
    int heads = 0, less_likely = 0;
    e.p.xtc_probability = 0.3f;
    e.p.xtc_threshold = 0.2f;
    for (e.row.position = 0; e.row.position < 10000; e.row.position++) {
        must(cls_host_sample(&e.row, &e.result));
        heads += e.result.kept_count == 2;
        less_likely += e.result.kept_count == 2 && e.result.token == 2;
        ck_assert(e.result.kept_count == 2 || e.result.kept_count == 3);
    }
    ck_assert_msg(abs(heads - 3000) < 5 * 46, "%d of 10000", heads);
    ck_assert_msg(abs(less_likely - heads / 4) < 5 * 24, "%d of %d", less_likely, heads);
    e.row.position = 0;
    const uint32_t kept = e.result.kept_count;
    uint32_t other = 0;
    for (e.row.draw = 0; e.row.draw < 20; e.row.draw++) { /* another draw decides again */
        must(cls_host_sample(&e.row, &e.result));
        other += e.result.kept_count != kept;
    }
    ck_assert(other > 0 && other < 20);
}
END_TEST

START_TEST(temperatures)
{
    example e;
    START_PROBS(&e, .1, .2, .3, .4);
    e.p.temperature = 0.3f;
    e.p.dynatemp_range = 0.3f;
    e.p.dynatemp_exponent = 1000.0f; /* the temperature becomes nearly 0 */
    EXPECT_KEPT(&e, "3");
    e.p.dynatemp_exponent = 0.0f; /* the temperature becomes the upper end of the range */
    must(cls_host_sample(&e.row, &e.result));
    ck_assert(fabs((double)(e.probs[3] / e.probs[2]) - pow(4.0 / 3.0, 1 / 0.6)) < 1e-5);
    e.p.dynatemp_exponent = 1.0f; /* one token has no entropy, so the temperature stays */
    params_set(&e.p, "top_k=1 stages=top-k,temperature");
    EXPECT_KEPT(&e, "3");
    ck_assert(fabsf(e.result.logprob_final) < 1e-6f);

    START_PROBS(&e, .5, .2, .1, .1, .1);
    params_set(&e.p, "min_p=0.3 temperature=2.0 stages=min-p,temperature");
    EXPECT_KEPT(&e, "01");
    ck_assert(fabs((double)(e.probs[0] / e.probs[1]) - sqrt(2.5)) < 1e-5);

    START_PROBS(&e, .6, .3, .1); /* temperature 0 is greedy, whatever the other parameters are */
    params_set(&e.p, "temperature=0.0 xtc_probability=1.0 typical_p=0.1 dynatemp_range=1.0 "
                     "mirostat=2");
    EXPECT_KEPT(&e, "0");
}
END_TEST

/* ------------------------------------------------------------------------ infill */

static const int32_t no_prefixes[10] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

START_TEST(infill)
{
    const int32_t ends[] = {8, 9};
    int32_t prefix_of[10];
    cls_infill tables = {sizeof tables, {ends, 2}, prefix_of};
    example e;
    memcpy(prefix_of, no_prefixes, sizeof prefix_of);
    START_PROBS(&e, .4, .25, .15, .1, .06, .01, .01, .01, .01);
    e.p.infill = 1;
    ck_assert(cls_host_sample(&e.row, &e.result) == CLS_BAD_ARGUMENT); /* the tables are missing */
    e.row.infill = &tables;
    /* .01 * 3 * 9 is less than .99, so infill continues. Of the rest .4 and .25 are likely, and
     * each is more than a third of .66. */
    EXPECT_KEPT(&e, "018");
    e.x[8] = logf(.036f); /* .036 * 3 * 9 is still less than .99 */
    EXPECT_KEPT(&e, "018");
    e.x[8] = logf(.04f); /* .04 * 3 * 9 is more than .99, so the text ends */
    EXPECT_KEPT(&e, "8");
    e.x[9] = logf(.001f); /* both ends stay */
    EXPECT_KEPT(&e, "89");

    /* Of a token and its prefix the likelier, here the longer, takes the probability of both. */
    START_PROBS(&e, .15, .2, .19, .16, .14, .155, 0, 0, .005);
    e.p.infill = 1;
    e.row.infill = &tables;
    prefix_of[1] = 0;
    EXPECT_KEPT(&e, "18"); /* token 1 has .35; token 2, with .19, has less than a fifth */
    prefix_of[1] = -1;
    prefix_of[5] = 4;
    prefix_of[4] = 3; /* 3 is a prefix of 4, and 4 of 5: token 3 takes all .455 */
    e.x[1] = logf(.21f);
    EXPECT_KEPT(&e, "38"); /* token 1 has a fifth of 1.01, but less than a third of .67 */
    e.x[1] = logf(.25f);
    EXPECT_KEPT(&e, "138");

    /* No token is likely enough: only the first end stays, whatever its logit. */
    START_PROBS(&e, .17, .17, .17, .17, .16, .16);
    memcpy(prefix_of, no_prefixes, sizeof prefix_of);
    e.p.infill = 1;
    e.row.infill = &tables;
    e.x[8] = -50.0f;
    EXPECT_KEPT(&e, "8");
    ck_assert_int_eq(e.result.token, 8);
    e.x[8] = -INFINITY;
    e.x[9] = -50.0f;
    must(cls_host_sample(&e.row, &e.result));
    ck_assert_int_eq(e.result.status, CLS_ROW_EMPTY);
    ck_assert_int_eq(e.result.token, -1);
    ck_assert_uint_eq(e.result.kept_count, 0);
    ck_assert(isinf(e.result.logprob_raw));

    /* If m tokens have a fifth, a token stays only if it also has 1 / (m + 1) of their sum. */
    START_PROBS(&e, .41, .29, .28, .01, 0, 0, 0, 0, .01);
    e.p.infill = 1;
    e.row.infill = &tables;
    EXPECT_KEPT(&e, "0128"); /* each of three has more than a quarter */
    e.x[2] = logf(.21f);     /* a quarter of .92 is .23, which is more than .21 */
    EXPECT_KEPT(&e, "018");

    float x[129] = {0}, probs[129];
    int32_t none[129];
    for (int i = 0; i < 129; i++)
        none[i] = -1;
    tables.prefix_of = none;
    e.row.logits = x;
    e.row.vocab = 129;
    e.result.probs = probs;
    must(cls_host_sample(&e.row, &e.result));
    ck_assert_int_eq(e.result.status, CLS_ROW_UNFIT);
    ck_assert_int_eq(e.result.token, -1);
    x[20] = -INFINITY; /* infill accepts 128 tokens; two ends of 1/128 each are enough to end the
                          text */
    must(cls_host_sample(&e.row, &e.result));
    ck_assert_int_eq(e.result.status, CLS_ROW_OK);
    ck_assert_uint_eq(e.result.kept_count, 2);
}
END_TEST

/* Proves that a greedy row draws the first of its largest logits, beside NaN and infinities too. */
START_TEST(greedy_edges)
{
    static float x[2081];
    const struct {
        float fill;
        int at[3];
        float value[3];
        int32_t token;
        int status;
    } rows[] = {
        {1.5f, {0, 0, 0}, {1.5f, 1.5f, 1.5f}, 0, 0},
        {0.0f, {5, 32, 2080}, {3.0f, 3.0f, 3.0f}, 5, 0},
        {0.0f, {0, 7, 8}, {NAN, 1.0f, 0.5f}, 7, CLS_ROW_NAN},
        {0.0f, {5, 17, 17}, {3.0f, NAN, NAN}, 5, CLS_ROW_NAN},
        {0.0f, {5, 32, 32}, {INFINITY, INFINITY, INFINITY}, 5, CLS_ROW_INF},
        {-FLT_MAX, {1, 2, 3}, {-FLT_MAX, -FLT_MAX, -FLT_MAX}, 0, 0},
        {-INFINITY, {1, 2, 3}, {-INFINITY, -INFINITY, -INFINITY}, -1, CLS_ROW_EMPTY},
    };
    cls_host_result result = {0};
    cls_params p = default_params();
    p.temperature = 0.0f;
    cls_host_row row = host_row(x, LENGTH(x), &p);
    for (uint32_t r = 0; r < LENGTH(rows); r++) {
        for (uint32_t i = 0; i < LENGTH(x); i++)
            x[i] = rows[r].fill;
        for (int i = 0; i < 3; i++)
            x[rows[r].at[i]] = rows[r].value[i];
        must(cls_host_sample(&row, &result));
        ck_assert_msg(result.token == rows[r].token && result.status == rows[r].status,
                      "row %u: token %d, status %d", r, result.token, result.status);
    }
}
END_TEST

int main(void)
{
    uint32_t n;
    goldens(&n);
    fixture_begin(ON_HOST);
    add_loop_test(known_distributions, (int)n);
    add_loop_test(kept_sets, LENGTH(kept_by_hand));
    add_test(nearly_ties);
    add_test(coin);
    add_test(temperatures);
    add_test(infill);
    add_test(greedy_edges);
    return fixture_end();
}
