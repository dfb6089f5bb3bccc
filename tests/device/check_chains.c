/* SPDX-License-Identifier: MIT */
/* Proves that random chains with random parameters over random rows give the reference's
 * tokens on the device, bit for bit, and that the reference agrees with the oracle. Then it
 * proves that drawn tokens follow the laws of chance. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client.h"

enum { STEPS = 3, NAMES = 12 };

/* Counts of the rows' properties. */
typedef struct census {
    uint32_t rows, tokens, whole, judged, undecided, unfit, beheaded, ended;
    uint32_t stage[NAMES], mirostat[3], adaptive, decays;
} census;

static void count_row(census *c, const batch *b, uint32_t row)
{
    const cls_params *const p = &b->params[row];
    const cls_row *const d = &b->device_trace[row];
    const int greedy = p->temperature < 1e-5f,
              plain = d->cut_key == CLS_KEY_NONE && d->cut_id == CLS_MAX_ID;
    c->tokens += b->token[row] >= 0;
    c->unfit += (b->status[row] & CLS_ROW_UNFIT) != 0;
    if (b->token[row] < 0 || greedy)
        return;
    c->whole += d->kept == 0 && !plain;
    c->beheaded += d->upper_key != CLS_KEY_INF;
    for (int stage = 1; stage < NAMES && p->mirostat == 0; stage++)
        c->stage[stage] += oracle_is_on(p, b->vocab, stage) != 0;
    c->mirostat[p->mirostat]++;
    c->adaptive += p->mirostat == 0 && p->adaptive_target >= 0.0f;
    c->decays += p->mirostat == 0 && p->top_p < 1.0f && p->top_p_decay < 1.0f;
}

static void print_census(const census *c, const char *name)
{
    printf("%s: %u chains, %u tokens, %u of them by search; the oracle saw %u, %u undecided; %u "
           "cut from above, %u "
           "unfit, %u of these by the end of a loop\n",
           name, c->rows, c->tokens, c->whole, c->judged, c->undecided, c->beheaded, c->unfit,
           c->ended);
    printf("  temperature %u, top-k %u, top-p %u (%u decays), min-p %u, top-n-sigma %u, typical "
           "%u, XTC %u, p-less %u, "
           "top-a %u, infill %u, mirostat %u and %u, adaptive %u\n",
           c->stage[CLS_STAGE_TEMPERATURE], c->stage[CLS_STAGE_TOP_K], c->stage[CLS_STAGE_TOP_P],
           c->decays, c->stage[CLS_STAGE_MIN_P], c->stage[CLS_STAGE_TOP_N_SIGMA],
           c->stage[CLS_STAGE_TYPICAL_P], c->stage[CLS_STAGE_XTC], c->stage[CLS_STAGE_P_LESS],
           c->stage[CLS_STAGE_TOP_A], c->stage[CLS_STAGE_INFILL], c->mirostat[1], c->mirostat[2],
           c->adaptive);
}

static batch *random_batch(uint32_t i, uint32_t rows, uint32_t vocab, int dtype, rng *r)
{
    batch *const b = batch_new(rows, vocab, dtype, vocab + rng_below(r, 9), 0);
    for (uint32_t row = 0; row < rows; row++) {
        batch_row(b, row, (row_kind)rng_below(r, ROW_KINDS), rng_bits(r));
        params_random(&b->params[row], vocab, r);
        if (vocab <= 5000 && rng_below(r, 12) == 0)
            params_infill(&b->params[row], vocab, r);
        params_adaptive(&b->params[row], vocab, r);
    }
    b->mask_kind = (int)rng_below(r, 2);
    b->history = i % 3 ? 100 : 0;
    if (i % 4 == 1)
        batch_mask(b, r, i % 8 == 1 ? 50 : 5, 0);
    if (i % 3)
        batch_requests(b, r);
    if (i % 7 == 3)
        batch_bias(b, r, (int)rng_below(r, 3));
    return b;
}

/* Samples several tokens of each row's request. */
static void run_batch(batch *b, device *d, cls_context *context, int search, census *c)
{
    char where[240];
    client s;
    const cls_device_info info = context_info(context);
    b->shortlist = info.shortlist;
    client_open(&s, b, d, context, 1);
    cls_sampler_force_search(s.sampler, search);
    for (uint32_t step = 0; step < STEPS; step++) {
        snprintf(where, sizeof where, "%s, shortlist %u%s, token %u", d->name, info.shortlist,
                 search ? ", by search" : "", step);
        batch_reference(b);
        client_step(&s, d->queue, 0, 0, NULL, NULL);
        must_cl(clFinish(d->queue));
        client_tokens(&s, 0);
        must(cls_sampler_trace(s.sampler, d->queue, b->device_trace, b->rows));
        c->ended += batch_accept_loop_limit(b, d);
        batch_equal(b, where);
        for (uint32_t row = 0; row < b->rows; row++) {
            count_row(c, b, row);
            if ((c->rows + row) % STEPS ==
                step) { /* the slowest part, hence only one step of each row */
                c->undecided += !batch_against_oracle(b, row);
                c->judged++;
            }
            if (b->token[row] < 0) /* for infill, the device's shortlist may hold fewer tokens */
                b->host[row].token = -1;
            batch_accept(b, row);
        }
    }
    c->rows += b->rows;
    client_close(&s);
}

START_TEST(random_chains)
{
    static const uint32_t sizes[] = {111,  1025, 31, 2500, 1023, 5000, 2,
                                     1025, 2500, 1,  5000, 111,  32000};
    device *const d = fixture_device(_i);
    const uint32_t rows = fixture_by_size(10, 25, 25), most = fixture_by_size(100, 1000, 10000);
    census c = {0};
    rng r = {fixture_seed() + 40};
    for (uint32_t i = 0; c.rows < most; i++) {
        const uint32_t vocab = sizes[i % fixture_by_size(3, 12, 13)];
        const int short_list = i % 5 == 4, dtype = short_list ? CLS_F32 : (int)rng_below(&r, 3);
        cls_context *const context = short_list ? fixture_context(d, 1u << CLS_F32, 0, 0, 64)
                                                : fixture_context(d, 0, 0, 0, 0);
        batch *const b = random_batch(i, vocab > 5000 ? 8 : rows, vocab, dtype, &r);
        run_batch(b, d, context ? context : fixture_context(d, 0, 0, 0, 0), rng_below(&r, 3) == 0,
                  &c);
        batch_free(b);
    }
    print_census(&c, d->name);
    ck_assert_msg(c.ended * 10 <= c.tokens, "%u rows ended with a loop, %u have tokens", c.ended,
                  c.tokens);
    ck_assert_msg(c.undecided * 33 <= c.judged, "%u of %u rows are undecided", c.undecided,
                  c.judged);
}
END_TEST

/* Where infill finds no likely token it keeps the first end token, though top-k has cut that. A
 * stage after infill must not remove it. */
START_TEST(end_token_stays)
{
    device *const d = fixture_device(_i);
    census c = {0};
    for (int search = 0; search < 2; search++) {
        batch *const b = batch_new(8, 2500, CLS_F32, 0, 0);
        for (uint32_t row = 0; row < b->rows; row++) {
            cls_params *const p = &b->params[row];
            batch_row(b, row, ROW_NORMAL1, fixture_seed() + row);
            params_set(p, "temperature=100.0 top_k=50 infill=1 typical_p=0.9");
            p->chain = CLS_CHAIN_CUSTOM;
            memcpy(p->stages,
                   (uint8_t[]){CLS_STAGE_TEMPERATURE, CLS_STAGE_TOP_K, CLS_STAGE_INFILL,
                               CLS_STAGE_TYPICAL_P, CLS_STAGE_END},
                   5);
        }
        run_batch(b, d, fixture_context(d, 0, 0, 0, 0), search, &c);
        batch_free(b);
    }
    ck_assert_uint_eq(c.unfit, 0);
    ck_assert_uint_eq(c.tokens, 2 * 8 * STEPS);
}
END_TEST

/* ------------------------------------------------------------- laws of chance */

#define LAW_ROWS 64
#define LAW_STEPS 782 /* 50,048 draws */

static client law_client(device *d, uint32_t vocab, int search)
{
    client s;
    batch *const b = batch_new(LAW_ROWS, vocab, CLS_F32, 0, 0);
    for (uint32_t row = 0; row < b->rows; row++)
        batch_row(b, row, ROW_NORMAL1, fixture_seed());
    client_open(&s, b, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), 1);
    cls_sampler_force_search(s.sampler, search);
    return s;
}

/* Draws from the first slot, at one position each. */
static void count_draws(client *s, uint32_t *counts)
{
    int32_t slots[LAW_ROWS] = {0}, positions[LAW_ROWS];
    s->step.defer_accept = 1;
    s->step.slots.host = slots;
    s->step.positions.host = positions;
    for (uint32_t i = 0; i < LAW_STEPS; i++) {
        for (int32_t row = 0; row < LAW_ROWS; row++)
            positions[row] = (int32_t)i * LAW_ROWS + row;
        client_step(s, s->d->queue, 0, 0, NULL, NULL);
        client_tokens(s, 0);
        for (uint32_t row = 0; row < LAW_ROWS; row++)
            counts[s->b->token[row]]++;
    }
    s->step.slots.host = s->step.positions.host = NULL;
}

/* XTC's random decision: it removes the first token or not, and top-k keeps the first of the rest.
 */
START_TEST(xtc_coin)
{
    static const float chances[] = {0.5f, 0.1f};
    static const uint8_t stages[] = {CLS_STAGE_XTC, CLS_STAGE_TOP_K};
    device *const d = fixture_device(_i);
    for (int i = 0; i < 4; i++) {
        const double chance = (double)chances[i / 2], draws = LAW_ROWS * LAW_STEPS;
        client s = law_client(d, 32, i % 2);
        uint32_t counts[32] = {0}, ids = 0;
        cls_params p = s.b->params[0];
        p.chain = CLS_CHAIN_CUSTOM;
        memcpy(p.stages, stages, sizeof stages);
        p.xtc_probability = chances[i / 2];
        p.xtc_threshold = 0.0f;
        p.top_k = 1;
        must(cls_slot_begin(s.sampler, 0, &p, NULL, 0, NULL, 0));
        count_draws(&s, counts);
        for (uint32_t id = 0; id < 32; id++)
            ids += counts[id] != 0;
        ck_assert_msg(ids == 2, "%s: %u ids, not the first or the last", d->name, ids);
        uint32_t last = 0;
        for (uint32_t id = 1; id < 32; id++)
            last = s.b->values[id] < s.b->values[last] ? id : last;
        ck_assert_msg(fabs(counts[last] - draws * chance) <=
                          5.0 * sqrt(draws * chance * (1.0 - chance)),
                      "%s: %u of %g coins fell, chance %g", d->name, counts[last], draws, chance);
        client_close(&s);
        batch_free(s.b);
    }
}
END_TEST

START_TEST(law)
{
    static const char *const laws[] = {"typical_p=0.7",
                                       "adaptive_target=0.1",
                                       "adaptive_target=0.05 top_k=20",
                                       "dynatemp_range=0.5 top_n_sigma=1.5",
                                       "mirostat=2 mirostat_tau=2.0",
                                       "xtc_probability=1.0 xtc_threshold=0.08"};
    device *const d = fixture_device(_i);
    for (int i = 0; i < 12; i++) {
        client s = law_client(d, 32, i % 2);
        uint32_t counts[32] = {0};
        double probs[32], statistic, limit;
        oracle o;
        cls_params *const p = &s.b->params[0];
        p->chain = i % 4 ? CLS_CHAIN_LLAMA : CLS_CHAIN_DEFAULT;
        p->temperature = 0.8f;
        params_set(p, laws[i / 2]);
        must(cls_slot_begin(s.sampler, 0, p, NULL, 0, NULL, 0));
        count_draws(&s, counts);
        const cls_host_row h = batch_host_row(s.b, 0);
        ck_assert(oracle_make(&o, &h));
        oracle_probs(&o, probs);
        ck_assert_msg(
            oracle_chi_square(probs, counts, 32, LAW_ROWS * LAW_STEPS, &statistic, &limit),
            "%s: %s: chi-square %g, limit %g", d->name, batch_words(s.b, 0), statistic, limit);
        oracle_free(&o);
        client_close(&s);
        batch_free(s.b);
    }
}
END_TEST

/* Over many tokens, the mean surprise of Mirostat approaches tau, and the mean probability of
 * adaptive p approaches its target. Each row has another sampler. */
START_TEST(modes_reach_their_aims)
{
    enum { ROWS = 4, TOKENS = 2000, FIRST = 1000 };
    device *const d = fixture_device(_i);
    batch *const b = batch_new(ROWS, 500, CLS_F32, 0, 0);
    double sum[ROWS] = {0};
    client s;
    for (uint32_t row = 0; row < ROWS; row++) {
        batch_row(b, row, ROW_NORMAL1, fixture_seed() + row);
        b->params[row].mirostat = row < 3 ? row == 0 ? 1 : 2 : 0;
        b->params[row].mirostat_tau = row == 1 ? 2.0f : 3.0f;
        b->params[row].adaptive_target = row == 3 ? 0.3f : -1.0f;
        b->params[row].top_k = row == 3 ? 4 : 0;
    }
    client_open(&s, b, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), 1);
    for (uint32_t i = 0; i < TOKENS; i++) {
        client_step(&s, d->queue, 0, 0, NULL, NULL);
        client_tokens(&s, 0);
        batch_reference(b);
        for (uint32_t row = 0; row < ROWS; row++) {
            ck_assert_msg(b->token[row] == b->host[row].token, "%s: token %u: %s: %d, not %d",
                          d->name, i, batch_words(b, row), b->token[row], b->host[row].token);
            if (i < FIRST)
                continue;
            const cls_adaptive_state before = b->adaptive[row], after = b->host[row].adaptive;
            if (row < 3) /* the change of mu: eta times the surprise above tau */
                sum[row] +=
                    (double)b->params[row].mirostat_tau - (after.mu - before.mu) * 0x1p-20 / 0.1;
            else
                sum[row] += (after.sum - 0.9 * before.sum) * 0x1p-24;
        }
        for (uint32_t row = 0; row < ROWS; row++) {
            b->adaptive[row] = b->host[row].adaptive;
            b->params[row].position++;
        }
    }
    for (uint32_t row = 0; row < ROWS; row++) {
        const double mean = sum[row] / (TOKENS - FIRST),
                     aim = row == 3 ? 0.3 : (double)b->params[row].mirostat_tau;
        printf("%s: %s comes to %g, aims at %g\n", d->name,
               row == 3   ? "adaptive p"
               : row == 0 ? "mirostat 1"
                          : "mirostat 2",
               mean, aim);
        ck_assert_msg(fabs(mean - aim) < (row == 3 ? 0.06 : 0.1),
                      "%s: row %u: a mean of %g, not %g", d->name, row, mean, aim);
    }
    client_close(&s);
    batch_free(b);
}
END_TEST

int main(void)
{
    fixture_random(0);
    fixture_begin(ON_DEVICES);
    add_device_test(random_chains);
    add_device_test(end_token_stays);
    if (fixture_size() != TEST_TINY) {
        add_device_test(xtc_coin);
        add_device_test(law);
        add_device_test(modes_reach_their_aims);
    }
    return fixture_end();
}
