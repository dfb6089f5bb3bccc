/* SPDX-License-Identifier: MIT */
/* Proves that what the host lists of a row gives the same as the row sorted whole: tokens, records,
 * sets and outputs, where a list begins, ends and grows, and with ties there. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hooks.h"
#include "fixture.h"
#include "rows/kinds.h"
#include "one_row_host.h"

enum { MOST = 70000, TOP = 20, KEPT = 600, GIVEN = 40 };

/* ------------------------------------------------------------------------ a row */

/* All that a row gives. */
typedef struct given {
    cls_row trace;
    uint32_t n, rank, top_rank, set_count;
    float logprob, entropy, kept_mass, top_logprobs[TOP], probs[KEPT], raw_logprob;
    int32_t top[TOP], candidates[KEPT], raw_top[TOP], raw_rank, given[GIVEN], ranks[2][GIVEN];
} given;

static int32_t ids[2][MOST];
static float probs[2][MOST];

static void sample(const one_row *row, int whole, given *g)
{
    cls_stateless w;
    memset(g, 0, sizeof *g);
    cls_test_whole_sort = whole;
    must(cls_stateless_open(&w, row));
    cls_sampled *const s = &w.host->row;
    cls_sampled_run(s, w.host->slot, &w.in, 1);
    g->n = s->n;
    cls_row_outputs out = {.top = TOP, .kept = KEPT, .set = row->vocab, .wants_set = 1};
    out.at[CLS_OUT_LOGPROBS] = &g->logprob;
    out.at[CLS_OUT_RANKS] = &g->rank;
    out.at[CLS_OUT_TOP_IDS] = g->top;
    out.at[CLS_OUT_TOP_LOGPROBS] = g->top_logprobs;
    out.at[CLS_OUT_ENTROPY] = &g->entropy;
    out.at[CLS_OUT_KEPT_MASS] = &g->kept_mass;
    out.at[CLS_OUT_CANDIDATE_IDS] = g->candidates;
    out.at[CLS_OUT_CANDIDATE_PROBS] = g->probs;
    out.at[CLS_OUT_PROBS] = probs[whole];
    out.at[CLS_OUT_SET_IDS] = ids[whole];
    out.at[CLS_OUT_SET_COUNTS] = &g->set_count;
    out.given = GIVEN;
    for (int32_t i = 0; i < GIVEN; i++) /* the first and the last tokens */
        g->given[i] = i % 2 != 0 ? i / 2 : (int32_t)row->vocab - 1 - i / 2;
    out.at[CLS_OUT_GIVEN_IDS] = g->given;
    out.at[CLS_OUT_GIVEN_RANKS] = g->ranks[0];
    cls_outputs_write(s, &out);
    g->trace = s->trace;
    memset(&out, 0, sizeof out);
    out.top = TOP;
    out.given = GIVEN;
    out.at[CLS_OUT_GIVEN_IDS] = g->given;
    out.at[CLS_OUT_GIVEN_RANKS] = g->ranks[1];
    out.at[CLS_OUT_LOGPROBS] = &g->raw_logprob;
    out.at[CLS_OUT_RANKS] = &g->raw_rank;
    out.at[CLS_OUT_TOP_IDS] = g->raw_top;
    cls_outputs_clear(&out, row->vocab);
    cls_outputs_write_raw(s, &out);
    cls_host_destroy(w.host);
    cls_test_whole_sort = 0;
}

static void compare(const one_row *row, const char *what)
{
    given fast, whole;
    const size_t n = row->vocab;
    sample(row, 0, &fast);
    sample(row, 1, &whole);
    ck_assert_msg(fast.n == whole.n, "%s: %u tokens are kept, but %u of the sorted row", what,
                  (unsigned)fast.n, (unsigned)whole.n);
    ck_assert_msg(memcmp(&fast.trace, &whole.trace, sizeof fast.trace) == 0,
                  "%s: the record has token %d, cut %d %d, not %d, %d %d", what,
                  (int)fast.trace.token, (int)fast.trace.cut.key, (int)fast.trace.cut.id,
                  (int)whole.trace.token, (int)whole.trace.cut.key, (int)whole.trace.cut.id);
    ck_assert_msg(memcmp(ids[0], ids[1], n * sizeof *ids[0]) == 0, "%s: another set", what);
    ck_assert_msg(memcmp(probs[0], probs[1], n * sizeof *probs[0]) == 0, "%s: other probabilities",
                  what);
    ck_assert_msg(memcmp(&fast, &whole, sizeof fast) == 0, "%s: other outputs", what);
}

/* ---------------------------------------------------------------------- the rows */

typedef enum shape {
    EQUAL,     /* all tokens have one logit */
    QUARTERS,  /* thousands of ties */
    NORMAL,    /* sigma 3 */
    FALLING,   /* the likeliest tokens have the lowest ids, so that a few max tiles have them all */
    RISING,    /* and the highest */
    PEAK_LAST, /* one likely token, which is the last; all others tie */
    ONE_LEFT,  /* one token, with -inf all around */
    NONE_LEFT, /* -inf only */
    SPECIAL,   /* NaN, infinities, zeros of either sign, subnormal and huge numbers, and others */
    HALF_EMPTY, /* whole tiles of -inf */
    SHAPES
} shape;

static const char *const shape_names[SHAPES] = {"equal",   "quarters",  "normal",   "falling",
                                                "rising",  "peak",      "one left", "none left",
                                                "special", "half empty"};

static void fill(float *z, uint32_t n, shape kind, uint64_t seed)
{
    static const float special[] = {NAN,    -NAN,    INFINITY, -INFINITY, 0.0f,  -0.0f,
                                    1e-40f, -1e-40f, 3e38f,    -3e38f,    -1.0f, 0x1p-126f};
    rng r = {seed};
    for (uint32_t i = 0; i < n; i++) {
        const float x = 12.0f * (float)(rng_unit(&r) + rng_unit(&r) + rng_unit(&r)) - 18.0f;
        z[i] = kind == EQUAL       ? -0.75f
               : kind == QUARTERS  ? rintf(x) * 0.25f
               : kind == FALLING   ? 9.0f - 0.01f * (float)i
               : kind == RISING    ? 0.003f * (float)i - 50.0f
               : kind == PEAK_LAST ? (i + 1 == n ? 10.0f : 1.0f)
               : kind == ONE_LEFT  ? (i == n / 3 ? -5.0f : -INFINITY)
               : kind == NONE_LEFT ? -INFINITY
               : kind == SPECIAL   ? (i % 3 ? x : special[rng_below(&r, 12)])
               : kind == HALF_EMPTY && i / 1024 % 2 == 0 && n > 1024 ? -INFINITY
                                                                     : x;
    }
}

/* Rows that end where tiles do, and one token before and after. */
static const uint32_t sizes[] = {1, 2, 63, 64, 65, 1023, 1024, 1025, 4096, 17000, MOST};
enum { SIZES = sizeof sizes / sizeof *sizes };

static float row_of[MOST];

/* All ends of lists: of the list itself, of the tiles whose maxima bound one, and of the row. */
START_TEST(top_k_at_ends)
{
    const uint32_t n = sizes[_i], tiles = (n + 1023) / 1024, blocks = tiles * 16;
    const uint32_t ends[] = {1,   2,      3,          tiles,      tiles + 1, 255,   256,
                             257, blocks, blocks + 1, blocks - 1, n / 2,     n - 1, n};
    char what[160];
    for (int kind = 0; kind < SHAPES; kind++) {
        fill(row_of, n, (shape)kind, 7 + (uint64_t)_i);
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
            cls_params p = default_params();
            p.seed = k;
            p.top_k = (int32_t)ends[k];
            if (n > 20000 && k % 4 != 0)
                continue;
            one_row row = host_row(row_of, n, &p);
            snprintf(what, sizeof what, "%s, %u tokens, top-k %u", shape_names[kind], (unsigned)n,
                     (unsigned)ends[k]);
            compare(&row, what);
        }
    }
}
END_TEST

/* Top-p lists 256 tokens first, and then 1,024. Of equal tokens p keeps as many as it says. */
START_TEST(top_p_at_ends)
{
    static const uint32_t kept[] = {1,   2,    254,  255,  256,  257, 258,
                                    500, 1022, 1023, 1024, 1025, 1026};
    char what[160];
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        for (uint32_t n = 1024; n <= 8192; n *= 8)
            for (int off = -1; off <= 1; off++) {
                cls_params p = default_params();
                fill(row_of, n, EQUAL, 1);
                p.top_p = (float)kept[i] / (float)n + 1e-6f * (float)off;
                if (p.top_p > 1.0f)
                    continue;
                one_row row = host_row(row_of, n, &p);
                snprintf(what, sizeof what, "top-p, %u of %u equal tokens, %d", (unsigned)kept[i],
                         (unsigned)n, off);
                compare(&row, what);
            }
}
END_TEST

/* Rows of which the sample that bounds a long list of top-p sees only the likeliest tokens, only
 * the least likely ones, or only one logit. */
START_TEST(sample_misleads)
{
    static const char *const nuclei[] = {"top_p=0.5", "top_p=0.9", "top_p=0.999"};
    for (int way = 0; way < 3; way++)
        for (uint32_t stride = 61; stride <= 62; stride++)
            for (size_t k = 0; k < sizeof nuclei / sizeof *nuclei; k++) {
                cls_params p = default_params();
                fill(row_of, MOST, NORMAL, stride);
                for (uint32_t i = 0; i < MOST; i += stride)
                    row_of[i] = way == 0 ? 18.5f : way == 1 ? -40.0f : 0.0f;
                for (uint32_t i = 0; i < MOST; i++)
                    row_of[i] *= 0.1f;
                params_set(&p, nuclei[k]);
                one_row row = host_row(row_of, MOST, &p);
                compare(&row, nuclei[k]);
            }
}
END_TEST

static const char *const chains[] = {
    "temperature=0",
    "temperature=0.7",
    "top_p=0.5",
    "top_p=0.999",
    "top_p=0.0",
    "top_p=0.9 min_keep=300",
    "top_p=0.99 top_k=300 temperature=2.0",
    "min_p=0.05",
    "min_p=0.000001",
    "min_p=1.0 min_keep=257",
    "top_a=0.2",
    "top_n_sigma=1.0",
    "top_k=700 top_n_sigma=0.5 stages=top-k,top-n-sigma",
    "typical_p=0.2",
    "typical_p=0.95 min_keep=3",
    "typical_p=0.9 top_p=0.8 stages=top-p,typical",
    "typical_p=0.6 min_p=0.01 stages=min-p,typical",
    "xtc_probability=1.0 xtc_threshold=0.001",
    "xtc_probability=1.0 xtc_threshold=0.02 top_p=0.9 stages=xtc,top-p",
    "p_less=1",
    "dynatemp_range=0.5",
    "dynatemp_range=0.5 min_p=0.02 stages=min-p,temperature,top-p top_p=0.7",
    "mirostat=1 mirostat_tau=4.0",
    "mirostat=2 mirostat_tau=3.0",
    "adaptive_target=0.1",
    "adaptive_target=0.2 min_p=0.01",
    "temperature=0.01 top_p=0.9",
    "temperature=40.0 top_p=0.9",
};

START_TEST(all_stages)
{
    const uint32_t n = sizes[_i];
    char what[200];
    for (int kind = 0; kind < SHAPES; kind++) {
        fill(row_of, n, (shape)kind, 70 + (uint64_t)_i);
        for (size_t k = 0; k < sizeof chains / sizeof *chains; k++) {
            cls_params p = default_params();
            if (n > 20000 && (k + (size_t)kind) % 5 != 0)
                continue;
            params_set(&p, chains[k]);
            p.chain = strstr(chains[k], "stages=") != NULL ? p.chain : CLS_CHAIN_LLAMA;
            p.seed = k + 1;
            one_row row = host_row(row_of, n, &p);
            snprintf(what, sizeof what, "%s, %u tokens, %s", shape_names[kind], (unsigned)n,
                     chains[k]);
            compare(&row, what);
        }
    }
}
END_TEST

/* Adjustments change the maxima of tiles: upwards, downwards, and to none. */
START_TEST(adjusted)
{
    static const char *const rules[] = {"temperature=0", "top_k=5", "top_p=0.9", "temperature=0.9"};
    const uint32_t n = 3000;
    cls_logit_bias bias[1100];
    int32_t text[8], stop[4];
    char what[160];
    for (int kind = 0; kind < SHAPES; kind++)
        for (int way = 0; way < 24; way++) {
            cls_params p = default_params();
            uint32_t top = 0, count = 0;
            fill(row_of, n, (shape)kind, 90 + (uint64_t)kind);
            for (uint32_t i = 1; i < n; i++)
                top = row_of[i] > row_of[top] ? i : top;
            params_set(&p, rules[way % 4]);
            bias[count++] = (cls_logit_bias){(int32_t)top, way < 8 ? -INFINITY : -40.0f};
            bias[count++] = (cls_logit_bias){(int32_t)(n - 1), 30.0f};
            for (uint32_t i = 1024; i < 2048 && way % 2; i++)
                bias[count++] = (cls_logit_bias){(int32_t)i, -INFINITY};
            for (uint32_t i = 0; i < 4; i++) {
                text[i] = text[4 + i] = (int32_t)((top + i) % n);
                stop[i] = (int32_t)((top + 1 + i) % n);
            }
            p.logit_bias = (cls_biases){bias, way < 16 ? count : 0};
            if (way >= 8) {
                p.repetition_penalty = 1.5f;
                p.frequency_penalty = way % 3 ? 3.0f : -3.0f;
                p.no_repeat_ngram = 3;
                p.stop_ids = (cls_ids){stop, 4};
                p.min_tokens = 20;
                p.dry_multiplier = way % 2 ? 0.8f : 0.0f;
            }
            one_row row = host_row(row_of, n, &p);
            row.output = text;
            row.output_count = 8;
            snprintf(what, sizeof what, "%s, way %d", shape_names[kind], way);
            compare(&row, what);
        }
}
END_TEST

/* What both ways share, worked out by hand. */
START_TEST(by_hand)
{
    static const float zeros[] = {-3.0f, -0.0f, 1e-40f, 0.0f, -1e-40f};
    /* Half of the mass lies at no depth, and half one bit below: the mean is between them. */
    static const float halves[] = {-0.6931472f, 0.0f, -0.6931472f};
    const struct {
        const float *z;
        uint32_t n;
        const char *params;
        int32_t kept, token; /* -1: any */
    } rows[] = {
        {zeros, 5, "temperature=0", 1, 1},      /* zeros and subnormal numbers are equal */
        {zeros, 5, "top_k=2 min_p=0.9", 2, -1}, /* and all within any bound of each other */
        {halves, 3, "typical_p=0.4", 1, 1},     /* of two distances the likelier token */
        {halves, 3, "typical_p=0.4 min_keep=2", 2, -1},
        {halves, 3, "top_p=0.5", 1, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int whole = 0; whole < 2; whole++) {
            given g;
            cls_params p = default_params();
            params_set(&p, rows[i].params);
            one_row row = host_row(rows[i].z, rows[i].n, &p);
            sample(&row, whole, &g);
            ck_assert_msg((int32_t)g.n == rows[i].kept &&
                              (rows[i].token < 0 || g.trace.token == rows[i].token),
                          "row %zu by %s: %u kept, token %d", i, rows[i].params, (unsigned)g.n,
                          (int)g.trace.token);
        }
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_test(by_hand);
    add_loop_test(top_k_at_ends, SIZES);
    add_test(top_p_at_ends);
    add_test(sample_misleads);
    add_loop_test(all_stages, SIZES);
    add_test(adjusted);
    return fixture_end();
}
