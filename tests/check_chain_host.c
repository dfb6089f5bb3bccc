/* SPDX-License-Identifier: MIT */
/* The chain, the modes and what looks at the history, on the host: known
 * distributions, and small rows by hand. Random rows: check_reference.c. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "goldens.h"

START_TEST(known_distributions)
{
    const golden *const g = &goldens[_i];
    float logits[GOLDEN_TOKENS], probs[GOLDEN_TOKENS];
    cls_params p;
    cls_host_row row;
    cls_host_result result = {.struct_size = sizeof result, .probs = probs};
    golden_params(g, &p);
    golden_logits(g, logits);
    cls_host_row_default(&row, sizeof row);
    row.logits = logits;
    row.vocab = g->vocab;
    row.params = &p;
    row.output = g->history;
    row.output_count = g->history_count;
    uint32_t kept = 0;
    for (row.position = 0; row.position < 20; row.position++) {
        must(cls_host_sample(&row, &result));
        ck_assert_msg(g->expected[result.token] > 0.0, "%s: drew %d", g->name, result.token);
    }
    for (uint32_t i = 0; i < g->vocab; i++) {
        ck_assert_msg(fabs((double)probs[i] - g->expected[i]) <= g->tolerance, "%s: token %u: %.8g, not %.8g", g->name, i,
                      (double)probs[i], g->expected[i]);
        kept += g->expected[i] > 0.0 || g->history_count != 0; /* penalties leave all */
    }
    ck_assert_msg(result.kept == kept, "%s: %u kept, not %u", g->name, result.kept, kept);
    ck_assert(fabs((double)result.logprob_final - log((double)probs[result.token])) < 1e-6);
}
END_TEST

START_TEST(known_sets)
{
    const golden_set *const g = &golden_sets[_i];
    float *const logits = malloc(g->vocab * sizeof *logits), *const probs = malloc(g->vocab * sizeof *probs);
    cls_params p;
    cls_host_row row;
    cls_host_result result = {.struct_size = sizeof result, .probs = probs};
    ck_assert(logits && probs);
    golden_set_params(g, &p);
    golden_set_logits(g, logits);
    cls_host_row_default(&row, sizeof row);
    row.logits = logits;
    row.vocab = g->vocab;
    row.params = &p;
    must(cls_host_sample(&row, &result));
    ck_assert_msg(result.kept == g->size, "%s: %u kept, not %u", g->name, result.kept, g->size);
    for (uint32_t i = 0; i < g->vocab; i++)
        ck_assert_msg((probs[i] > 0.0f) == (i >= g->first && i - g->first < g->size), "%s: token %u", g->name, i);
    free(logits);
    free(probs);
}
END_TEST

/* ---------------------------------------------------------------- rows by hand */

/* Ten tokens, the first of which are there. */
typedef struct example {
    float x[10];
    cls_params p;
    cls_host_row row;
    cls_host_result result;
    float probs[10];
} example;

#define LENGTH(array) ((uint32_t)(sizeof(array) / sizeof *(array)))
#define PROMPT(e, array) ((e)->row.prompt = (array), (e)->row.prompt_count = LENGTH(array))
#define OUTPUT(e, array) ((e)->row.output = (array), (e)->row.output_count = LENGTH(array))

static void start(example *e)
{
    memset(e, 0, sizeof *e);
    cls_params_default(&e->p, sizeof e->p);
    cls_host_row_default(&e->row, sizeof e->row);
    e->row.logits = e->x;
    e->row.vocab = 10;
    e->row.params = &e->p;
    e->result.struct_size = sizeof e->result;
    e->result.probs = e->probs;
}

static void start_probs(example *e, const double *probs, uint32_t n)
{
    start(e);
    for (uint32_t i = 0; i < 10; i++)
        e->x[i] = i < n ? (float)log(probs[i]) : -INFINITY;
}
#define START_PROBS(e, ...) start_probs((e), (const double[]){__VA_ARGS__}, LENGTH(((const double[]){__VA_ARGS__})))

static void expect_kept(example *e, const char *ids, int line)
{
    char kept[11] = "";
    must(cls_host_sample(&e->row, &e->result));
    for (uint32_t i = 0, n = 0; i < 10; i++)
        if (e->probs[i] > 0.0f) {
            kept[n++] = (char)('0' + i);
            kept[n] = 0;
        }
    ck_assert_msg(strcmp(kept, ids) == 0, "line %d: kept %s, not %s", line, kept, ids);
    ck_assert_msg(e->result.kept == strlen(ids), "line %d: %u kept", line, e->result.kept);
}
#define EXPECT_KEPT(e, ids) expect_kept((e), (ids), __LINE__)

static int32_t drawn(example *e, uint64_t random)
{
    e->row.random = &random;
    must(cls_host_sample(&e->row, &e->result));
    e->row.random = NULL;
    return e->result.token;
}

static void stages(example *e, uint8_t first, uint8_t second)
{
    memset(e->p.stages, 0, sizeof e->p.stages);
    e->p.chain = CLS_CHAIN_CUSTOM;
    e->p.stages[0] = first;
    e->p.stages[1] = second;
}

START_TEST(orders)
{
    example e;
    START_PROBS(&e, .5, .2, .1, .1, .1); /* each truncation sees what is left */
    e.p.top_k = 3;
    e.p.top_p = 0.85f;
    stages(&e, CLS_STAGE_TOP_P, CLS_STAGE_TOP_K);
    EXPECT_KEPT(&e, "012");
    stages(&e, CLS_STAGE_TOP_K, CLS_STAGE_TOP_P); /* of .8: .625, .25, .125 */
    EXPECT_KEPT(&e, "01");

    e.p.top_k = 0;
    e.p.top_p = 1.0f;
    e.p.min_p = 0.3f;
    e.p.temperature = 2.0f; /* flattens: .447 of the largest */
    stages(&e, CLS_STAGE_TEMPERATURE, CLS_STAGE_MIN_P);
    EXPECT_KEPT(&e, "01234");
    stages(&e, CLS_STAGE_MIN_P, CLS_STAGE_TEMPERATURE);
    EXPECT_KEPT(&e, "01");
    ck_assert(fabs((double)(e.probs[0] / e.probs[1]) - sqrt(2.5)) < 1e-5);

    START_PROBS(&e, .4, .3, .2, .1); /* XTC takes the head; the new one measures */
    e.p.xtc_probability = 1.0f;
    e.p.xtc_threshold = 0.25f;
    e.p.min_p = 0.6f;
    stages(&e, CLS_STAGE_XTC, CLS_STAGE_MIN_P);
    EXPECT_KEPT(&e, "12");
    stages(&e, CLS_STAGE_MIN_P, CLS_STAGE_XTC);
    EXPECT_KEPT(&e, "1");

    START_PROBS(&e, .4, .2, .2, .1, .1); /* typical keeps 1 and 2; nothing brings 0 back */
    e.p.typical_p = 0.35f;
    e.p.top_k = 1;
    stages(&e, CLS_STAGE_TYPICAL_P, CLS_STAGE_TOP_K);
    EXPECT_KEPT(&e, "1");
    stages(&e, CLS_STAGE_TOP_K, CLS_STAGE_TYPICAL_P);
    EXPECT_KEPT(&e, "0");
}
END_TEST

/* The fewest that a truncation leaves, in its own order of preference. */
START_TEST(min_keep)
{
    example e;
    START_PROBS(&e, .4, .2, .2, .1, .1);
    e.p.min_keep = 3;
    e.p.top_p = 0.1f;
    EXPECT_KEPT(&e, "012");
    e.p.top_p = 1.0f;
    e.p.min_p = 1.0f;
    EXPECT_KEPT(&e, "012");
    e.p.min_p = 0.0f;
    e.p.top_n_sigma = 0.1f;
    EXPECT_KEPT(&e, "012");
    e.p.top_n_sigma = 0.0f;
    e.p.p_less = 1;
    EXPECT_KEPT(&e, "012");
    e.p.p_less = 0;
    e.p.typical_p = 0.1f; /* entropy 2.12 bits: 2.32 is nearest, then 1.32, then 3.32 */
    EXPECT_KEPT(&e, "012");
    e.p.min_keep = 4;
    EXPECT_KEPT(&e, "0123");
    e.p.min_keep = 2;
    EXPECT_KEPT(&e, "12");
    e.p.typical_p = 1.0f;
    e.p.xtc_probability = 1.0f;
    e.p.xtc_threshold = 0.15f; /* would leave 2, 3, 4 */
    e.p.min_keep = 3;
    EXPECT_KEPT(&e, "234");
    e.p.min_keep = 4;
    EXPECT_KEPT(&e, "01234");
    e.p.top_k = 2; /* none of its business */
    e.p.xtc_probability = 0.0f;
    EXPECT_KEPT(&e, "01");
    e.p.top_p = 0.1f; /* more than there are */
    EXPECT_KEPT(&e, "01");
}
END_TEST

START_TEST(ties)
{
    example e;
    START_PROBS(&e, .2, .2, .2, .2, .2);
    e.p.top_k = 2; /* lower ids first */
    EXPECT_KEPT(&e, "01");
    e.p.top_k = 0;
    e.p.top_p = 0.5f;
    EXPECT_KEPT(&e, "012");
    e.p.top_p = 1.0f;
    e.p.typical_p = 0.5f;
    EXPECT_KEPT(&e, "012");
    e.p.typical_p = 1.0f;
    e.p.top_n_sigma = 0.01f; /* no spread: all */
    EXPECT_KEPT(&e, "01234");
    e.p.top_n_sigma = 0.0f;
    e.p.p_less = 1;
    EXPECT_KEPT(&e, "01234");
    e.p.p_less = 0;
    e.p.xtc_probability = 1.0f; /* the last in order is the least likely */
    EXPECT_KEPT(&e, "4");
    e.p.xtc_probability = 0.0f;

    /* Of one key on the head's side lower ids are nearer: the higher ones go. */
    START_PROBS(&e, .05, .3, .3, .3, .05);
    e.p.typical_p = 0.5f;
    EXPECT_KEPT(&e, "12");
    e.p.top_p = 0.4f; /* and then, from there */
    stages(&e, CLS_STAGE_TYPICAL_P, CLS_STAGE_TOP_P);
    EXPECT_KEPT(&e, "1");
    e.p.typical_p = 0.96f;
    e.p.top_p = 1.0f;
    EXPECT_KEPT(&e, "01234");
    e.p.typical_p = 0.92f;
    EXPECT_KEPT(&e, "0123");
}
END_TEST

/* A stream of its own, which the coin's draws leave alone. */
START_TEST(coin)
{
    example e;
    START_PROBS(&e, .6, .3, .1);
    int heads = 0;
    e.p.xtc_probability = 0.3f;
    e.p.xtc_threshold = 0.2f;
    for (e.row.position = 0; e.row.position < 10000; e.row.position++) {
        must(cls_host_sample(&e.row, &e.result));
        heads += e.result.kept == 2;
        ck_assert(e.result.kept == 2 || e.result.kept == 3);
    }
    ck_assert_msg(abs(heads - 3000) < 5 * 46, "%d of 10000", heads);
    e.row.position = 0;
    const uint32_t kept = e.result.kept;
    uint32_t other = 0;
    for (e.row.draw = 0; e.row.draw < 20; e.row.draw++) { /* another draw tosses again */
        must(cls_host_sample(&e.row, &e.result));
        other += e.result.kept != kept;
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
    e.p.dynatemp_exponent = 1000.0f; /* as good as temperature 0 */
    EXPECT_KEPT(&e, "3");
    e.p.dynatemp_exponent = 0.0f; /* the upper end */
    must(cls_host_sample(&e.row, &e.result));
    ck_assert(fabs((double)(e.probs[3] / e.probs[2]) - pow(4.0 / 3.0, 1 / 0.6)) < 1e-5);
    e.p.dynatemp_exponent = 1.0f;
    e.p.top_k = 1; /* one token: no entropy, the temperature as it is */
    stages(&e, CLS_STAGE_TOP_K, CLS_STAGE_TEMPERATURE);
    EXPECT_KEPT(&e, "3");
    ck_assert(fabsf(e.result.logprob_final) < 1e-6f);

    START_PROBS(&e, .6, .3, .1); /* temperature 0 is greedy, whatever else */
    e.p.temperature = 0.0f;
    e.p.xtc_probability = 1.0f;
    e.p.typical_p = 0.1f;
    e.p.dynatemp_range = 1.0f;
    e.p.mirostat = 2;
    EXPECT_KEPT(&e, "0");
}
END_TEST

/* ------------------------------------------------------------------------ infill */

static const int32_t no_prefixes[10] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

START_TEST(infill)
{
    const int32_t ends[] = {8, 9};
    int32_t prefix_of[10];
    cls_infill tables = {sizeof tables, ends, 2, prefix_of};
    example e;
    memcpy(prefix_of, no_prefixes, sizeof prefix_of);
    START_PROBS(&e, .4, .25, .15, .1, .06, .01, .01, .01, .01);
    e.p.infill = 1;
    ck_assert(cls_host_sample(&e.row, &e.result) == CLS_BAD_ARGUMENT); /* no tables */
    e.row.infill = &tables;
    /* .01 * 3 * 9 < .99; of the rest .4 and .25 are likely, and each is more than a third of .66 */
    EXPECT_KEPT(&e, "018");
    e.x[8] = logf(.04f); /* .04 * 3 * 9 > .99 */
    EXPECT_KEPT(&e, "8");
    e.x[9] = logf(.001f); /* the other end, too */
    EXPECT_KEPT(&e, "89");

    /* "ab" takes what "a" has: the likelier of two, here the longer. */
    START_PROBS(&e, .15, .2, .19, .16, .14, .155, 0, 0, .005);
    e.p.infill = 1;
    e.row.infill = &tables;
    prefix_of[1] = 0;
    EXPECT_KEPT(&e, "18"); /* 1: .35. Alone 2 has .19: less than a fifth */
    prefix_of[1] = -1;
    prefix_of[5] = 4;
    prefix_of[4] = 3; /* 3, 4, 5 are prefixes in a row: .455 to 3 */
    e.x[1] = logf(.21f);
    EXPECT_KEPT(&e, "38"); /* 1 has a fifth of 1.01, but no third of .67 */
    e.x[1] = logf(.25f);
    EXPECT_KEPT(&e, "138");

    /* Nothing is likely enough: the first end alone, with whatever logit. */
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
    ck_assert_uint_eq(e.result.kept, 0);
    ck_assert(isinf(e.result.logprob_raw));

    /* What passed a fifth must pass a share of what did: one of m + 1. */
    START_PROBS(&e, .41, .29, .28, .01, 0, 0, 0, 0, .01);
    e.p.infill = 1;
    e.row.infill = &tables;
    EXPECT_KEPT(&e, "0128"); /* each of three above a quarter */
    e.x[2] = logf(.21f); /* of .92: .23 is less */
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
    x[20] = -INFINITY; /* 128 are looked at: two ends of 1/128 each are more than the rest */
    must(cls_host_sample(&e.row, &e.result));
    ck_assert_int_eq(e.result.status, CLS_ROW_OK);
    ck_assert_uint_eq(e.result.kept, 2);
}
END_TEST

/* ------------------------------------------------------------------------- modes */

START_TEST(mirostat)
{
    example e;
    START_PROBS(&e, .5, .25, .125, .125);
    e.p.mirostat = 2;
    e.p.mirostat_tau = 1.25f; /* mu 2.5: surprises 1 and 2 */
    e.p.mirostat_eta = 0.5f;
    e.p.top_k = 1; /* has no effect */
    EXPECT_KEPT(&e, "01");
    /* Token 0 of the two: log2 1.5 bits. 2.5 - .5 * (.585 - 1.25) */
    ck_assert_int_eq(drawn(&e, 0), 0);
    ck_assert(fabs(e.result.mode.mu * 0x1p-20 - (2.5 - 0.5 * (log2(1.5) - 1.25))) < 1e-5);
    ck_assert_int_eq(drawn(&e, UINT64_MAX), 1);
    ck_assert(fabs(e.result.mode.mu * 0x1p-20 - (2.5 - 0.5 * (log2(3) - 1.25))) < 1e-5);
    e.row.mode = e.result.mode; /* goes on from 2.33 */
    ck_assert(e.row.mode.begun != 0);
    EXPECT_KEPT(&e, "01");
    e.row.mode.mu = (int32_t)(3.01 * 0x1p20);
    EXPECT_KEPT(&e, "0123");
    e.row.mode.mu = (int32_t)(1.99 * 0x1p20);
    EXPECT_KEPT(&e, "0");
    e.row.mode.mu = -(1 << 20); /* at least one */
    EXPECT_KEPT(&e, "0");
    e.p.temperature = 2.0f; /* surprises 1.68, 2.18, 2.68 */
    e.row.mode.mu = (int32_t)(2.2 * 0x1p20);
    EXPECT_KEPT(&e, "01");

    START_PROBS(&e, .5, .25, .125, .125); /* a row without a token: as it was */
    e.p.mirostat = 2;
    e.row.mode = (cls_host_mode){1, 12345, 0, 0, 0};
    for (int i = 0; i < 4; i++)
        e.x[i] = -INFINITY;
    must(cls_host_sample(&e.row, &e.result));
    ck_assert_int_eq(e.result.status, CLS_ROW_EMPTY);
    ck_assert_int_eq(e.result.mode.mu, 12345);

    START_PROBS(&e, .7); /* one token: there is no slope */
    e.p.mirostat = 1;
    EXPECT_KEPT(&e, "0");
    START_PROBS(&e, .5, .25, .125, .125);
    e.p.mirostat = 1;
    e.row.mode = (cls_host_mode){1, -(5 << 20), 0, 0, 0};
    EXPECT_KEPT(&e, "0");
    e.row.mode.mu = 50 << 20;
    EXPECT_KEPT(&e, "0123");
    /* s = sum(step * drop) / sum(step^2) = (1 + .585) / (1 + .342 + .172); n = 10 */
    const double steps[] = {1.0, log2(1.5), log2(4.0 / 3.0)}, s = (steps[0] + steps[1]) / (1.0 + steps[1] * steps[1] + steps[2] * steps[2]);
    const double size = s - 1.0, mu = 1.2, k = pow(size * exp2(mu) / (1.0 - pow(10.0, -size)), 1.0 / s);
    e.row.mode.mu = (int32_t)(mu * 0x1p20);
    must(cls_host_sample(&e.row, &e.result));
    ck_assert_msg(e.result.kept == (uint32_t)k, "%u kept, not %g", e.result.kept, k);
}
END_TEST

START_TEST(adaptive)
{
    example e;
    START_PROBS(&e, .1, .2, .3, .4);
    e.p.adaptive_target = 0.3f;
    e.p.adaptive_decay = 0.75f;
    ck_assert_int_eq(drawn(&e, UINT64_MAX), 3);
    /* Averages begin as if the target had always been: 4 of weight, 1.2 of sum. */
    ck_assert(fabs(e.result.mode.weight * 0x1p-24 - (1 + 0.75 * 4)) < 1e-6);
    ck_assert(fabs(e.result.mode.sum * 0x1p-24 - (0.4 + 0.75 * 1.2)) < 1e-6);
    /* The next aims at .6 - 1.3 / 4. */
    e.row.mode = e.result.mode;
    must(cls_host_sample(&e.row, &e.result));
    double weight[4], sum = 0.0;
    for (int i = 0; i < 4; i++) {
        const double d = fabs((i + 1) / 10.0 - (0.6 - 1.3 / 4)) / 0.3;
        sum += weight[i] = exp(-10.0 * d * d / (1 + d));
    }
    for (int i = 0; i < 4; i++)
        ck_assert_msg(fabs((double)e.probs[i] - weight[i] / sum) < 1e-5, "token %d: %g, not %g", i, (double)e.probs[i], weight[i] / sum);
    ck_assert(fabs((double)e.result.logprob_final - log(weight[e.result.token] / sum)) < 1e-4);

    e.row.mode.begun = 0; /* after a chain: of what is left, .3 and .4, at .75 and 1 of it */
    e.p.top_k = 2;
    e.p.adaptive_target = 0.5f;
    must(cls_host_sample(&e.row, &e.result));
    const double d3 = 1.0 / 14.0 / 0.3; /* 3/7 and 4/7 are equally far from .5 */
    ck_assert(d3 > 0.0 && fabs((double)e.probs[2] - 0.5) < 1e-5 && fabs((double)e.probs[3] - 0.5) < 1e-5);
    ck_assert_uint_eq(e.result.kept, 2);
}
END_TEST

START_TEST(decay)
{
    const int32_t output[] = {3, 5, -1, 3};
    example e;
    START_PROBS(&e, .41, .29, .2, .1);
    e.p.top_p = 0.8f;
    e.p.top_p_decay = 0.5f;
    e.p.top_p_min = 0.15f;
    e.p.top_p_reset_id = 5;
    EXPECT_KEPT(&e, "012");
    ck_assert(fabs(e.result.mode.top_p * 0x1p-32 - 0.4) < 1e-6); /* whatever was drawn, if not 5 */
    OUTPUT(&e, output); /* reset by 5, then halved once */
    e.row.output_count = 4;
    must(cls_host_sample(&e.row, &e.result));
    ck_assert(fabs(e.result.mode.top_p * 0x1p-32 - 0.2) < 1e-6);
    EXPECT_KEPT(&e, "0");
    e.row.mode = (cls_host_mode){1, 0, 0, 0, (uint32_t)(0.69 * 0x1p32)}; /* the mode, not the output */
    EXPECT_KEPT(&e, "01");
    e.row.mode.top_p = (uint32_t)(0.2 * 0x1p32); /* not below the minimum */
    must(cls_host_sample(&e.row, &e.result));
    ck_assert(fabs(e.result.mode.top_p * 0x1p-32 - 0.15) < 1e-6);
    e.x[5] = 10.0f;
    must(cls_host_sample(&e.row, &e.result));
    ck_assert_int_eq(e.result.token, 5);
    ck_assert(fabs(e.result.mode.top_p * 0x1p-32 - 0.8) < 1e-6);
}
END_TEST

/* -------------------------------------------------------------------------- bans */

START_TEST(bans)
{
    const int32_t stop[] = {6, 7}, allowed[] = {1, 2, 4, 6}, prompt[] = {1, 2, 3, -5, 1}, output[] = {2, 4, 99, 2};
    const cls_logit_bias bias[] = {{3, 50.0f}, {2, 1.0f}, {6, -INFINITY}};
    example e;
    start(&e);
    e.p.allowed_ids = allowed;
    e.p.allowed_count = 4;
    EXPECT_KEPT(&e, "1246");
    e.p.logit_bias = bias;
    e.p.logit_bias_count = 3;
    EXPECT_KEPT(&e, "124");
    ck_assert(fabs((double)(e.probs[2] / e.probs[1]) - exp(1.0)) < 1e-5);

    start(&e);
    e.p.stop_ids = stop;
    e.p.stop_count = 2;
    e.p.min_tokens = 3;
    PROMPT(&e, prompt);
    OUTPUT(&e, output); /* three valid ones */
    EXPECT_KEPT(&e, "0123456789");
    e.p.min_tokens = 4;
    EXPECT_KEPT(&e, "01234589");
    e.p.penalty_scope = CLS_SCOPE_ALL; /* nothing brings a banned token back */
    e.p.presence_penalty = -2.0f;
    e.row.prompt = stop;
    e.row.prompt_count = 2;
    EXPECT_KEPT(&e, "01234589");
}
END_TEST

START_TEST(words)
{
    const int32_t prompt[] = {4, 1, 2}, output[] = {3, -1, 4, 2};
    const int32_t one[] = {8}, two[] = {2, 9}, three[] = {4, 2, 5}, of_prompt[] = {2, 3, 4, 2, 0}, others[] = {3, 4, 6};
    const cls_sequence all[] = {{one, 1}, {two, 2}, {three, 3}, {of_prompt, 5}, {others, 3}};
    example e;
    start(&e);
    e.p.bad_words = all;
    e.p.bad_word_count = 5;
    PROMPT(&e, prompt);
    EXPECT_KEPT(&e, "012345679"); /* the prompt's end is no output */
    OUTPUT(&e, output);
    EXPECT_KEPT(&e, "0123467");
    e.row.history = 1;
    EXPECT_KEPT(&e, "01234567");
    e.row.output_count = 3;
    e.row.history = 0;
    EXPECT_KEPT(&e, "01234579");
}
END_TEST

START_TEST(ngrams)
{
    const int32_t prompt[] = {1, 2, 3, 1, 2, 4}, output[] = {5, 1, -7, 2};
    example e;
    start(&e);
    PROMPT(&e, prompt);
    OUTPUT(&e, output);
    e.p.no_repeat_ngram = 3;
    EXPECT_KEPT(&e, "01256789"); /* after 1 2 came 3 and 4 */
    e.row.history = 7;
    EXPECT_KEPT(&e, "012356789"); /* the first 1 2 3 has no 1 any more */
    e.row.history = 0;
    e.p.no_repeat_ngram = 2;
    EXPECT_KEPT(&e, "01256789");
    e.p.no_repeat_ngram = 1;
    EXPECT_KEPT(&e, "06789");
    e.row.history = 2;
    EXPECT_KEPT(&e, "03456789");
    e.row.history = 0;
    e.p.no_repeat_ngram = 4; /* 5 1 2 was there never before */
    EXPECT_KEPT(&e, "0123456789");
    e.p.no_repeat_ngram = 100;
    EXPECT_KEPT(&e, "0123456789");
    e.row.prompt_count = e.row.output_count = 0;
    e.p.no_repeat_ngram = 1;
    EXPECT_KEPT(&e, "0123456789");
}
END_TEST

/* What DRY takes off a token, in logits against token 0. */
static double taken(example *e, int token)
{
    must(cls_host_sample(&e->row, &e->result));
    return log((double)e->probs[0]) - log((double)e->probs[token]);
}
#define EXPECT_TAKEN(e, token, value)                                                                              \
    do {                                                                                                           \
        const double taken_ = taken((e), (token));                                                                 \
        ck_assert_msg(fabs(taken_ - (value)) < 2e-6, "token %d: %.9g, not %.9g", (token), taken_, (double)(value)); \
    } while (0)

START_TEST(dry)
{
    /* The end, 1 2 3, was before 4; 3 before 5; 2 3 before 6. */
    const int32_t prompt[] = {1, 2, 3, 4, 9, 3, 5, -1}, output[] = {8, 2, 3, 6, 1, 2, 3};
    const int32_t a[] = {9}, b[] = {6, 1, 2}, c[] = {6, 1}, d[] = {3}, f[] = {7, 6, 1}, g[] = {1, 2, 3};
    example e;
    cls_sequence breakers[2] = {{a, 1}, {b, 3}};
    start(&e);
    PROMPT(&e, prompt);
    OUTPUT(&e, output);
    e.p.dry_multiplier = 0.5f;
    e.p.dry_base = 2.0f;
    e.p.dry_allowed_length = 1;
    EXPECT_TAKEN(&e, 4, 0.5 * 4);
    EXPECT_TAKEN(&e, 5, 0.5);
    EXPECT_TAKEN(&e, 6, 0.5 * 2);
    EXPECT_TAKEN(&e, 7, 0.0);
    e.p.dry_allowed_length = 2;
    EXPECT_TAKEN(&e, 4, 0.5 * 2);
    EXPECT_TAKEN(&e, 5, 0.0);
    e.p.dry_multiplier = -0.5f; /* rewards */
    EXPECT_TAKEN(&e, 4, -0.5 * 2);
    e.p.dry_multiplier = 0.5f;
    e.p.dry_base = 0.99f; /* off */
    EXPECT_TAKEN(&e, 4, 0.0);
    e.p.dry_base = 1.0f;
    EXPECT_TAKEN(&e, 4, 0.5);
    e.p.dry_base = 2.0f;

    e.p.dry_window = 12; /* 3 4 is in it, 2 3 4 is not */
    e.p.dry_allowed_length = 1;
    EXPECT_TAKEN(&e, 4, 0.5);
    e.p.dry_window = 0;
    e.row.history = 12;
    EXPECT_TAKEN(&e, 4, 0.5);
    e.p.dry_window = 11; /* nor 3 4 */
    EXPECT_TAKEN(&e, 4, 0.0);
    EXPECT_TAKEN(&e, 6, 0.5 * 2);
    e.row.history = 0;
    e.p.dry_window = 0;
    e.p.dry_allowed_length = 0; /* whatever came after another token */
    EXPECT_TAKEN(&e, 4, 0.5 * 8);
    EXPECT_TAKEN(&e, 1, 0.5);
    EXPECT_TAKEN(&e, 7, 0.0);
    e.p.dry_allowed_length = 1;

    e.p.dry_breakers = breakers; /* the longer one reaches up to the last token */
    e.p.dry_breaker_count = 1;
    EXPECT_TAKEN(&e, 4, 0.5 * 4);
    e.p.dry_breaker_count = 2;
    EXPECT_TAKEN(&e, 4, 0.5);
    EXPECT_TAKEN(&e, 6, 0.5);
    breakers[0] = (cls_sequence){c, 2}; /* of one head the longest */
    EXPECT_TAKEN(&e, 4, 0.5);
    breakers[1] = (cls_sequence){f, 3}; /* that is not there */
    EXPECT_TAKEN(&e, 4, 0.5 * 2);
    breakers[1] = (cls_sequence){g, 3}; /* the nearest counts, and it leaves nothing */
    EXPECT_TAKEN(&e, 4, 0.0);
    breakers[0] = (cls_sequence){d, 1};
    EXPECT_TAKEN(&e, 4, 0.0);
    e.row.output_count = 6; /* up to 2, which came before 3 twice: 3 is a breaker of one token */
    EXPECT_TAKEN(&e, 3, 0.0);
    e.p.dry_breaker_count = 0;
    EXPECT_TAKEN(&e, 3, 0.5 * 2);

    e.row.output_count = 7; /* the exponent ends where base^exponent does: 1e20^2 is no float32 */
    e.p.dry_base = 1e20f;
    e.p.dry_multiplier = 1e-20f;
    EXPECT_TAKEN(&e, 4, 1.0);
    e.x[4] = -INFINITY; /* rewarded or not */
    e.p.dry_multiplier = -1e-20f;
    must(cls_host_sample(&e.row, &e.result));
    ck_assert(e.probs[4] == 0.0f);
}
END_TEST

/* The first index of the largest, among values that are none. */
START_TEST(greedy_edges)
{
    static float x[2081];
    const struct { float fill; int at[3]; float value[3]; int32_t token; int status; } rows[] = {
        {1.5f, {0, 0, 0}, {1.5f, 1.5f, 1.5f}, 0, 0},
        {0.0f, {5, 32, 2080}, {3.0f, 3.0f, 3.0f}, 5, 0},
        {0.0f, {0, 7, 8}, {NAN, 1.0f, 0.5f}, 7, CLS_ROW_NAN},
        {0.0f, {5, 17, 17}, {3.0f, NAN, NAN}, 5, CLS_ROW_NAN},
        {0.0f, {5, 32, 32}, {INFINITY, INFINITY, INFINITY}, 5, CLS_ROW_INF},
        {-FLT_MAX, {1, 2, 3}, {-FLT_MAX, -FLT_MAX, -FLT_MAX}, 0, 0},
        {-INFINITY, {1, 2, 3}, {-INFINITY, -INFINITY, -INFINITY}, -1, CLS_ROW_EMPTY},
    };
    cls_params p;
    cls_host_row row;
    cls_host_result result = {.struct_size = sizeof result};
    cls_params_default(&p, sizeof p);
    p.temperature = 0.0f;
    cls_host_row_default(&row, sizeof row);
    row.logits = x;
    row.vocab = LENGTH(x);
    row.params = &p;
    for (uint32_t r = 0; r < LENGTH(rows); r++) {
        for (uint32_t i = 0; i < LENGTH(x); i++)
            x[i] = rows[r].fill;
        for (int i = 0; i < 3; i++)
            x[rows[r].at[i]] = rows[r].value[i];
        must(cls_host_sample(&row, &result));
        ck_assert_msg(result.token == rows[r].token && result.status == rows[r].status, "row %u: token %d, status %d", r,
                      result.token, result.status);
    }
}
END_TEST

static Suite *make(void)
{
    Suite *const s = suite_create("chain_host");
    TCase *const t = tcase_create("chain_host");
    tcase_set_timeout(t, 0);
    tcase_add_loop_test(t, known_distributions, 0, (int)n_goldens);
    tcase_add_loop_test(t, known_sets, 0, (int)n_golden_sets);
    tcase_add_test(t, orders);
    tcase_add_test(t, min_keep);
    tcase_add_test(t, ties);
    tcase_add_test(t, coin);
    tcase_add_test(t, temperatures);
    tcase_add_test(t, infill);
    tcase_add_test(t, mirostat);
    tcase_add_test(t, adaptive);
    tcase_add_test(t, decay);
    tcase_add_test(t, bans);
    tcase_add_test(t, words);
    tcase_add_test(t, ngrams);
    tcase_add_test(t, dry);
    tcase_add_test(t, greedy_edges);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return fixture_run(make, 0);
}
