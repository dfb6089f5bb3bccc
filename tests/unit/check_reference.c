/* SPDX-License-Identifier: MIT */
/* Proves the reference, one_sample(): with random numbers at the ends of tokens' intervals, and by
 * the statistics of many draws, which the double-precision oracle expects. The oracle judges sets
 * and probabilities in tests/scripts/oracle.run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "oracle.h"

/* ------------------------------------------------------------------ drawn tokens */

/* A row and the reference's record of it. */
typedef struct subject {
    float logits[2500], adjusted[2500]; /* adjusted: as the chain sees them */
    cls_params params;
    one_row row;
    cls_row record;
    one_result result;
} subject;

/* Samples the logits by the parameters. */
static void sample(subject *s, uint32_t vocab)
{
    s->row = host_row(s->logits, vocab, &s->params);
    must(cls_reference(&s->row, &s->record, &s->result));
    oracle_rounded(&s->row, s->adjusted);
}

static int is_kept(const subject *s, uint32_t i)
{
    const cls_cut *const cut = &s->record.cut;
    const int32_t key = key_of(s->adjusted[i]), id = (int32_t)i;
    if (key > cut->upper_key ||
        (key == cut->upper_key && (id < cut->upper_first || id > cut->upper_last)))
        return 0;
    return key > CLS_KEY_NONE && (key > cut->key || (key == cut->key && id <= cut->id));
}

/* Returns ceil(u * 2^64 / mass), the least random number that draws unit u < mass. */
static uint64_t random_for(uint64_t u, uint64_t mass)
{
    uint64_t quotient = 0, rest = u;
    for (int bit = 0; bit < 64; bit++) {
        const int carry = rest >> 63 != 0;
        rest <<= 1;
        quotient <<= 1;
        if (carry || rest >= mass) {
            rest -= mass;
            quotient |= 1;
        }
    }
    return quotient + (rest != 0);
}

/* The interval of a token that has mass. */
typedef struct interval {
    int32_t token;
    uint64_t first, end;
} interval;

/* Adds up the masses of the kept tokens by the arithmetic of cl/core; they must have the record's
 * mass in all. Returns the first token from `id` on that has mass, or the last one. */
static interval interval_of(const subject *s, uint32_t id)
{
    const cls_row *const record = &s->record;
    const int whole_tiles = record->cut.key == CLS_KEY_NONE && record->cut.id == CLS_MAX_ID;
    const float scale = record->scale, max = float_of_key(record->top_key);
    interval found = {-1, 0, 0};
    uint64_t before = 0;
    for (uint32_t t = 0; t < s->row.vocab; t += CLS_TILE) {
        const uint32_t stop = t + CLS_TILE < s->row.vocab ? t + CLS_TILE : s->row.vocab;
        float top = -INFINITY;
        for (uint32_t i = t; i < stop; i++)
            top = fmaxf(top, s->adjusted[i]);
        if (top == -INFINITY)
            continue;
        top = fminf(top, max);
        const cls_unit unit = unit_of(top, max, split(max, scale).exponent, scale);
        uint64_t sum = 0, mass = 0; /* of the tile up to i, in its units and in the row's */
        for (uint32_t i = t; i < stop; i++) {
            const uint64_t was = mass;
            const uint32_t x =
                is_kept(s, i) ? weight(s->adjusted[i], top, scale, unit.fraction) : 0;
            sum += x;
            mass = whole_tiles ? to_row_units(sum, unit.shift) : mass + to_row_units(x, unit.shift);
            if (mass != was && found.token < (int32_t)id)
                found = (interval){(int32_t)i, before + was, before + mass};
        }
        before += mass;
    }
    ck_assert_msg(before == record->mass, "mass %llu, the record says %llu",
                  (unsigned long long)before, (unsigned long long)record->mass);
    return found;
}

/* Every draw aimed at an end of a token's interval hits the token. */
START_TEST(aimed_draws)
{
    static const float temperatures[] = {1e-4f, 0.8f, 1.0f, 1.3f, 100.0f};
    static subject s;
    rng r = {fixture_seed() + 20};
    uint32_t aimed = 0;
    const uint32_t rows = fixture_by_size(40, 120, 400);
    for (uint32_t i = 0; i < rows; i++) {
        const uint32_t vocab = i % 2 ? 2500 : 111, kind = rng_below(&r, PARAMS_HISTORY);
        /* Plain rows have tiles at many depths. */
        const row_kind of = i % 4 != 1 ? (row_kind)rng_below(&r, ROW_KINDS)
                            : i % 3    ? ROW_OFFSETS
                                       : ROW_TAIL;
        s.params = default_params();
        if (i % 4 != 1) {
            params_kind(&s.params, kind, vocab);
            s.params.temperature = temperatures[rng_below(&r, 5)];
        }
        s.params.seed = rng_bits(&r);
        row_fill(of, s.logits, vocab, s.params.seed);
        sample(&s, vocab);
        if (s.record.mass == 0 || s.params.adaptive_target >= 0.0f) /* it has other weights */
            continue;
        /* Half of them are the first of a tile. */
        const uint32_t id = rng_below(&r, vocab),
                       first = rng_below(&r, 2) ? id : id / CLS_TILE * CLS_TILE;
        const interval w = interval_of(&s, first);
        const uint64_t bits = random_for(rng_below(&r, 2) ? w.end - 1 : w.first, s.record.mass);
        s.row.random_bits = &bits;
        const one_result result = host_result(&s.row);
        ck_assert_msg(result.token == w.token, "%s, %u tokens, parameters %u: aimed at %d, drew %d",
                      row_kind_names[of], vocab, kind, w.token, result.token);
        aimed++;
    }
    ck_assert_uint_gt(aimed, rows / 2);
}
END_TEST

/* The record of a row describes its set by two cuts, also where XTC and typical p cut between equal
 * tokens, one after the other. */
START_TEST(upper_cuts)
{
    static const char *const stages[] = {"stages=temperature,xtc,typical",
                                         "stages=temperature,typical,xtc"};
    static subject s;
    rng r = {fixture_seed() + 25};
    uint32_t cuts = 0, within = 0;
    for (uint32_t i = 0; i < fixture_by_size(64, 320, 960); i++) {
        cls_params *const p = &s.params;
        *p = default_params();
        params_set(p, stages[rng_below(&r, 2)]);
        p->typical_p = 0.05f + 0.9f * (float)rng_unit(&r);
        p->xtc_probability = 0.8f;
        p->xtc_threshold = 0.2f * (float)(rng_unit(&r) * rng_unit(&r));
        p->temperature = i % 2 ? 1.0f : 0.2f;
        p->seed = rng_bits(&r);
        const uint32_t vocab = 40 + rng_below(&r, 200);
        row_fill(i % 4 ? ROW_TIES : ROW_EQUAL, s.logits, vocab, p->seed);
        sample(&s, vocab);
        interval_of(&s, 0); /* fails unless the cuts give the set's mass */
        cuts += s.record.cut.upper_key != CLS_KEY_INF;
        within += s.record.cut.upper_last != CLS_MAX_ID;
    }
    ck_assert(cuts > 10 && within > 0);
}
END_TEST

/* ------------------------------------------------------------------------- chance */

static const char *const laws[] = {
    "",
    "temperature=0.5",
    "top_k=9",
    "top_p=0.8",
    "min_p=0.1",
    "repetition_penalty=1.4 frequency_penalty=0.3 presence_penalty=-0.5",
    "typical_p=0.7",
    "adaptive_target=0.1",
    "adaptive_target=0.05 top_k=20",
    "dynatemp_range=0.5 top_n_sigma=1.5",
    "mirostat=2 mirostat_tau=2.0",
    "xtc_probability=1.0 xtc_threshold=0.08"};
enum { LAWS = sizeof laws / sizeof *laws, DRAWS = 50000 };

static void follows(const one_row *row, const uint32_t counts[32], const char *what)
{
    double probs[32], statistic, limit;
    oracle o;
    ck_assert(oracle_make(&o, row));
    oracle_probs(&o, probs);
    ck_assert_msg(oracle_chi_square(probs, counts, 32, DRAWS, &statistic, &limit),
                  "%s: chi-square %g, limit %g", what, statistic, limit);
    oracle_free(&o);
}

/* Positions are the random counter: 50,000 draws follow the probabilities, and so do draws from the
 * candidates. */
START_TEST(law_of_draws)
{
    static const int32_t ids[] = {3, 3, 3, 8, 9, 9, 21, 30};
    static const cls_logit_bias bias[] = {{5, 1.5f}, {6, -INFINITY}, {5, 0.5f}, {9, 1.0f}};
    rng r = {fixture_seed() + 30 + (uint64_t)_i};
    uint32_t counts[32] = {0}, of_candidates[32] = {0};
    int32_t kept[32], token;
    float logits[32], scaled[32];
    one_result result = {.kept_ids = kept, .kept_capacity = 32};
    cls_host_candidates c;
    cls_params p = default_params();
    params_set(&p, laws[_i]);
    p.chain = _i % 2 ? CLS_CHAIN_LLAMA : CLS_CHAIN_DEFAULT;
    p.seed = rng_bits(&r);
    row_fill(ROW_NORMAL1, logits, 32, rng_bits(&r));
    one_row row = host_row(logits, 32, &p);
    if (_i == 5) {
        p.logit_bias = (cls_biases){bias, 4};
        row.prompt = ids + 6;
        row.prompt_count = 2;
        row.output = ids;
        row.output_count = 6;
    }
    cls_host_candidates_init(&c);
    for (row.position = 0; row.position < DRAWS; row.position++) {
        must(one_sample(&row, &result));
        counts[result.token]++;
        c.position = row.position;
        c.seed = p.seed;
        c.ids = kept;
        c.count = result.kept_count;
        for (uint32_t i = 0; i < c.count; i++)
            scaled[i] = logits[kept[i]] / p.temperature;
        c.logits = scaled;
        must(cls_host_draw(&c, &token));
        of_candidates[token]++;
    }
    follows(&row, counts, laws[_i]);
    if (_i < 5)
        follows(&row, of_candidates, "candidates");
}
END_TEST

/* XTC's decision: it removes the first token or not, and top-k keeps the first of the rest. */
START_TEST(xtc_coin)
{
    const double chance = _i ? 0.1 : 0.5;
    float logits[32];
    uint32_t counts[2] = {0, 0};
    one_result result = {0};
    cls_params p = default_params();
    p.chain = CLS_CHAIN_CUSTOM;
    memcpy(p.stages, (uint8_t[]){CLS_STAGE_XTC, CLS_STAGE_TOP_K, CLS_STAGE_END}, 3);
    p.xtc_probability = (float)chance;
    p.xtc_threshold = 0.0f;
    p.top_k = 1;
    for (int i = 0; i < 32; i++)
        logits[i] = -(float)i; /* all but the last are above the threshold */
    one_row row = host_row(logits, 32, &p);
    for (row.position = 0; row.position < DRAWS; row.position++) {
        must(one_sample(&row, &result));
        ck_assert(result.token == 0 || result.token == 31);
        counts[result.token == 31]++;
    }
    ck_assert_msg(fabs(counts[1] - DRAWS * chance) <= 5.0 * sqrt(DRAWS * chance * (1.0 - chance)),
                  "%u of %d coins fell, chance %g", counts[1], DRAWS, chance);
}
END_TEST

/* Over many tokens, the mean surprise of Mirostat approaches tau, and the mean probability of
 * adaptive p its target. */
START_TEST(modes_reach_their_aims)
{
    static const char *const modes[] = {
        "mirostat=1 mirostat_tau=3.0", "mirostat=2 mirostat_tau=2.0", "mirostat=2 mirostat_tau=3.0",
        "adaptive_target=0.3 top_k=4"};
    enum { TOKENS = 2000, FIRST = 1000 };
    float logits[500];
    double sum = 0;
    one_result result = {0};
    cls_params p = default_params();
    params_set(&p, modes[_i]);
    row_fill(ROW_NORMAL1, logits, 500, fixture_seed() + (uint64_t)_i);
    one_row row = host_row(logits, 500, &p);
    for (row.position = 0; row.position < TOKENS; row.position++) {
        must(one_sample(&row, &result));
        const cls_adaptive_state before = row.adaptive, after = result.adaptive;
        row.adaptive = after;
        if (row.position < FIRST)
            continue;
        /* The change of mu is eta times the surprise above tau. */
        sum += p.mirostat ? (double)p.mirostat_tau - (after.mu - before.mu) * 0x1p-20 / 0.1
                          : (after.sum - 0.9 * before.sum) * 0x1p-24;
    }
    const double mean = sum / (TOKENS - FIRST), aim = p.mirostat ? (double)p.mirostat_tau : 0.3;
    printf("%s comes to %g\n", modes[_i], mean);
    ck_assert_msg(fabs(mean - aim) < (p.mirostat ? 0.1 : 0.06), "a mean of %g, not %g", mean, aim);
}
END_TEST

/* One token at 0 over 129,280 at -18: together they still weigh what they should. */
START_TEST(mass_of_a_tail)
{
    const uint32_t vocab = 129281;
    float *const logits = must_malloc(vocab * sizeof *logits);
    float *const probs = must_malloc(vocab * sizeof *probs);
    double tail = 0.0;
    uint32_t head = 0;
    cls_params p = default_params();
    row_fill(ROW_TAIL, logits, vocab, fixture_seed());
    host_kept_count(logits, vocab, &p, probs);
    for (uint32_t i = 0; i < vocab; i++) {
        tail += logits[i] < 0.0f ? (double)probs[i] : 0.0;
        head = logits[i] < 0.0f ? head : i;
    }
    const double exact = 129280 * exp(-18.0) / (1.0 + 129280 * exp(-18.0));
    ck_assert_msg(fabs(tail / exact - 1.0) < 5e-4, "tail %g, not %g", tail, exact);
    ck_assert(probs[head] > 0.99f);
    free(logits);
    free(probs);
}
END_TEST

/* A state that no token leaves is refused: adaptive p would divide by it, and Mirostat overflow. */
START_TEST(impossible_states)
{
    static const float logits[4] = {4.0f, 3.0f, 2.0f, -1.0f};
    static const struct {
        cls_adaptive_state state;
        int mirostat;        /* 0: adaptive p */
        const char *message; /* NULL: the state is possible */
    } cases[] = {
        {{1, 0, 0, 0, 0},
         0,
         "row->adaptive has mu 0, sum 0 and weight 0: the averages of adaptive"},
        {{1, 0, 0, (1 << 24) - 1, 0}, 0, "weight 16777215: the averages of adaptive p are impos"},
        {{1, 0, (1 << 24) + 1, 1 << 24, 0}, 0, "sum 16777217 and weight 16777216: the averages"},
        {{1, INT32_MAX, 1 << 24, 1 << 24, 0}, 0, NULL},
        {{1, 0, UINT32_MAX, UINT32_MAX, 0}, 0, NULL},
        {{0, INT32_MAX, 0, 0, 0}, 0, NULL},
        {{1, INT32_MAX, 0, 0, 0}, 1, "mu 2147483647, sum 0 and weight 0: Mirostat's mu is"},
        {{1, (1 << 29) + 1, 0, 0, 0}, 1, "Mirostat's mu is impossible"},
        {{1, INT32_MIN, 0, 0, 0}, 2, "Mirostat's mu is impossible"},
        {{1, -(1 << 29) - 1, 0, 0, 0}, 2, "Mirostat's mu is impossible"},
        {{1, 1 << 29, 0, 0, 0}, 1, NULL},
        {{1, -(1 << 29), 0, 0, 0}, 2, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        one_result result = {0};
        cls_params p = default_params();
        p.mirostat = cases[i].mirostat;
        p.adaptive_target = cases[i].mirostat ? -1.0f : 0.5f;
        one_row row = host_row(logits, 4, &p);
        row.adaptive = cases[i].state;
        if (cases[i].message == NULL) {
            must(one_sample(&row, &result));
            continue;
        }
        must_refuse(one_sample(&row, &result), cases[i].message);
    }
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_test(impossible_states);
    add_test(aimed_draws);
    add_test(upper_cuts);
    if (fixture_size() != TEST_TINY) {
        add_loop_test(law_of_draws, LAWS);
        add_loop_test(xtc_coin, 2);
        add_loop_test(modes_reach_their_aims, 4);
        add_test(mass_of_a_tail);
    }
    return fixture_end();
}
