/* SPDX-License-Identifier: MIT */
/* Proves how random numbers select tokens: numbers at the ends of tokens' intervals, numbers
 * from Philox and from the caller, and the laws of chance over thousands of draws. */
#include <stdlib.h>

#include "oracle.h"
#include "client.h"

START_TEST(aimed)
{
    static const uint32_t sizes[] = {1500, 111, 4099, 1025, 32001};
    device *const d = fixture_device(_i);
    rng r = {fixture_seed()};
    for (uint32_t i = 0; i < fixture_by_size(4, 24, 80); i++) {
        const uint32_t vocab = sizes[i % fixture_by_size(2, 4, 5)];
        batch *const b = batch_new(fixture_by_size(4, 16, 32), vocab, (int)(i % 3), 0, 0);
        int32_t token[32];
        batch_random(b, &r);
        for (uint32_t row = 0; row < b->rows && i % 4 == 0;
             row++) { /* plain rows, tiles at many depths */
            batch_row(b, row, row % 3 ? ROW_OFFSETS : ROW_TAIL, rng_bits(&r));
            b->params[row].temperature = row % 2 ? 1.0f : 0.8f;
        }
        if (i % 6 == 5)
            batch_mask(b, &r, 50, 0);
        batch_reference(b);
        for (uint32_t row = 0; row < b->rows; row++)
            token[row] =
                batch_aim(b, row, rng_below(&r, i % 2 ? 40 : vocab), (int)rng_below(&r, 2));
        batch_check(b, d, fixture_context(d, 0, 0, 0, 0), i % 3 == 2);
        for (uint32_t row = 0; row < b->rows; row++)
            ck_assert_msg(b->token[row] == token[row], "%s: aimed at %d, drew %d",
                          batch_words(b, row), token[row], b->token[row]);
        batch_free(b);
    }
}
END_TEST

/* The random number 0 draws the first token that weighs anything, all ones the last. */
START_TEST(extreme_numbers)
{
    device *const d = fixture_device(_i);
    batch *const b = batch_new(8, 1100, CLS_F32, 0, 0);
    b->random = must_calloc(b->rows, sizeof *b->random);
    for (uint32_t row = 0; row < b->rows; row++) {
        batch_row(b, row, row < 4 ? ROW_NORMAL1 : ROW_HALF, row / 2);
        b->params[row].top_k = row < 2 ? 0 : 30;
        b->random[row] = row % 2 ? UINT64_MAX : 0;
    }
    batch_check(b, d, fixture_context(d, 0, 0, 0, 0), 0);
    ck_assert_int_eq(b->token[0], 0);
    ck_assert_int_eq(b->token[1], 1099);
    batch_free(b);
}
END_TEST

/* Seed, stream and position each make another number, and slots count on by themselves. */
START_TEST(positions_move_on)
{
    device *const d = fixture_device(_i);
    const uint32_t steps = fixture_by_size(3, 6, 12);
    batch *const b = batch_new(8, 700, CLS_F32, 0, 0);
    client s;
    for (uint32_t row = 0; row < b->rows; row++) {
        batch_row(b, row, ROW_NORMAL1, 3);
        b->params[row].seed = row < 3 ? row : 1;
        b->params[row].stream = row < 5 ? 0 : (uint64_t)row << (row % 2 ? 40 : 0);
        b->params[row].position = row == 4 ? UINT32_MAX - 1 : 0; /* wraps */
        b->params[row].top_k = row == 7 ? 60 : 0;
    }
    client_open(&s, b, d, fixture_context(d, 0, 0, 0, 0), steps);
    for (uint32_t i = 0; i < steps; i++)
        client_step(&s, d->queue, i, 0, NULL, NULL);
    for (uint32_t i = 0; i < steps; i++) {
        batch_reference(b);
        client_tokens(&s, i);
        for (uint32_t row = 0; row < b->rows; row++) {
            ck_assert_msg(b->token[row] == b->host[row].token, "%s: step %u, %s: %d, not %d",
                          d->name, i, batch_words(b, row), b->token[row], b->host[row].token);
            b->params[row].position++;
        }
    }
    client_close(&s);
    batch_free(b);
}
END_TEST

/* Draws from one slot, rows times steps of them, by given positions. */
static void count_draws(client *s, uint32_t steps, uint32_t *counts)
{
    int32_t slots[64] = {0}, positions[64];
    s->step.defer_accept = 1;
    s->step.slots.host = slots;
    s->step.positions.host = positions;
    for (uint32_t i = 0; i < steps; i++) {
        for (uint32_t row = 0; row < s->b->rows; row++)
            positions[row] = (int32_t)(i * s->b->rows + row);
        client_step(s, s->d->queue, 0, 0, NULL, NULL);
        client_tokens(s, 0);
        for (uint32_t row = 0; row < s->b->rows; row++)
            counts[s->b->token[row]]++;
    }
    s->step.slots.host = s->step.positions.host = NULL;
}

START_TEST(law)
{
    device *const d = fixture_device(_i);
    for (int path = 0; path < 4; path++) {
        const uint32_t vocab = 32, steps = 782; /* 50,048 draws */
        batch *const b = batch_new(64, vocab, CLS_F32, 0, 0);
        uint32_t counts[32] = {0};
        double probs[32], statistic, limit;
        oracle o;
        client s;
        for (uint32_t row = 0; row < b->rows; row++) {
            batch_row(b, row, ROW_NORMAL1, fixture_seed());
            b->params[row].top_k = path == 1 || path == 3 ? 20 : 0;
            b->params[row].top_p = path >= 2 ? 0.9f : 1.0f;
        }
        client_open(&s, b, d, fixture_context(d, 0, 0, 0, 0), 1);
        cls_sampler_force_search(s.sampler, path == 3);
        count_draws(&s, steps, counts);
        const cls_host_row h = batch_host_row(b, 0);
        ck_assert(oracle_make(&o, &h));
        oracle_probs(&o, probs);
        ck_assert_msg(oracle_chi_square(probs, counts, vocab, steps * 64, &statistic, &limit),
                      "%s: path %d: chi-square %g, limit %g", d->name, path, statistic, limit);
        oracle_free(&o);
        client_close(&s);
        batch_free(b);
    }
}
END_TEST

/* 100,032 draws, a head and 129,280 tokens at -18: 196 +- 42 hits in the tail. */
START_TEST(tail)
{
    device *const d = fixture_device(_i);
    const uint32_t vocab = 129281;
    batch *const b = batch_new(64, vocab, CLS_F32, 0, 0);
    uint32_t *const counts = must_calloc(vocab, sizeof *counts), hits = 0;
    client s;
    for (uint32_t row = 0; row < b->rows; row++)
        batch_row(b, row, ROW_TAIL, fixture_seed());
    client_open(&s, b, d, fixture_context(d, 0, 0, 0, 0), 1);
    count_draws(&s, 1563, counts);
    for (uint32_t i = 0; i < vocab; i++)
        hits += b->values[i] < 0.0f ? counts[i] : 0;
    ck_assert_msg(abs((int)hits - 196) <= 42, "%s: %u tail hits", d->name, hits);
    free(counts);
    client_close(&s);
    batch_free(b);
}
END_TEST

int main(void)
{
    fixture_begin(ON_DEVICES);
    add_device_test(aimed);
    add_device_test(extreme_numbers);
    add_device_test(positions_move_on);
    if (fixture_size() != TEST_TINY)
        add_device_test(law);
    if (fixture_size() == TEST_FULL)
        add_device_test(tail);
    return fixture_end();
}
