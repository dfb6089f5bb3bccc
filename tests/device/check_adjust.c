/* SPDX-License-Identifier: MIT */
/* Proves on the device everything that changes logits before the chain: masks of both kinds,
 * dense biases, logit biases, penalties and stop ids. It varies the type of logits, the size
 * of rows, the chain and the path that finds the token. */
#include <stdlib.h>

#include "client.h"

static const uint32_t sizes[] = {1025, 31, 4099, 2, 1024, 33, 1023, 1, 2500, 32001};

/* Makes a third of the rows greedy, so that the adjustments alone decide their token. */
static batch *random_batch(uint32_t i, rng *r)
{
    static const struct {
        int keep, biased;
        uint32_t history;
    } keeps[] = {{CLS_COUNTS_ALL, 1, 50}, {CLS_COUNTS_PRESENCE, 1, 50},
                 {CLS_COUNTS_ALL, 0, 0},  {CLS_COUNTS_PRESENCE, 0, 7},
                 {CLS_COUNTS_NONE, 1, 0}, {CLS_COUNTS_NONE, 0, 3}};
    const uint32_t vocab = sizes[i % fixture_by_size(2, 9, 10)];
    batch *const b = batch_new(fixture_by_size(4, 16, 24), vocab, (int)rng_below(r, 3),
                               vocab + rng_below(r, 3), 0);
    batch_random(b, r);
    b->keep = keeps[i % 4 == 3 ? 4 + i / 4 % 2 : i / 2 % 4].keep;
    b->biased = keeps[i % 4 == 3 ? 4 + i / 4 % 2 : i / 2 % 4].biased;
    b->history = keeps[i % 4 == 3 ? 4 + i / 4 % 2 : i / 2 % 4].history;
    b->forces = i % 5 == 0;
    batch_requests(b, r);
    for (uint32_t row = 0; row < b->rows; row += 3)
        b->params[row].temperature = 0.0f;
    return b;
}

/* Masks narrower than the vocabulary, and rows without a mask or with another row's. */
static void random_mask(batch *b, rng *r)
{
    b->mask_kind = (int)rng_below(r, 2);
    const uint32_t whole = b->mask_kind == CLS_MASK_PACKED ? (b->vocab + 31) / 32 : b->vocab;
    batch_mask(b, r, rng_below(r, 3) ? 60 : 5, rng_below(r, 3) ? 0 : 1 + rng_below(r, whole));
    if (rng_below(r, 2)) {
        b->mask_map = must_malloc(b->rows * sizeof *b->mask_map);
        for (uint32_t row = 0; row < b->rows; row++)
            b->mask_map[row] = (int32_t)rng_below(r, b->rows + 1) - 1;
    }
}

START_TEST(random_requests)
{
    device *const d = fixture_device(_i);
    cls_context *const contexts[] = {fixture_context(d, 0, 0, 0, 0),
                                     fixture_context(d, 1u << CLS_F32, 0, 0, 16)};
    rng r = {fixture_seed()};
    for (uint32_t i = 0; i < fixture_by_size(5, 54, 240); i++) {
        batch *const b = random_batch(i, &r);
        if (i % 3 == 1)
            random_mask(b, &r);
        if (i % 5 > 2)
            batch_bias(b, &r, (int)rng_below(&r, 3));
        batch_check(b, d, i % 2 && contexts[1] && b->dtype == CLS_F32 ? contexts[1] : contexts[0],
                    i % 7 == 6);
        batch_free(b);
    }
}
END_TEST

/* Many steps: counts grow, windows move, biases stay, requests end. */
START_TEST(counts_follow)
{
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 1};
    for (uint32_t i = 0; i < fixture_by_size(2, 8, 24); i++) {
        batch *const b = random_batch(i, &r);
        const uint32_t steps = fixture_by_size(4, 40, 60);
        client s;
        client_open(&s, b, d, fixture_context(d, 0, 0, 0, 0), steps);
        for (uint32_t step = 0; step < steps; step++)
            client_step(&s, d->queue, step, 0, NULL, NULL);
        for (uint32_t step = 0; step < steps; step++) {
            client_tokens(&s, step);
            batch_reference(b);
            for (uint32_t row = 0; row < b->rows; row++) {
                ck_assert_msg(
                    b->token[row] == b->host[row].token && b->status[row] == b->host[row].status,
                    "%s: keep %d, step %u: %s: token %d, status %d; the reference: %d, %d", d->name,
                    b->keep, step, batch_words(b, row), b->token[row], b->status[row],
                    b->host[row].token, b->host[row].status);
                batch_accept(b, row);
            }
        }
        client_close(&s);
        batch_free(b);
    }
}
END_TEST

/* Ids at every position of vectors, words and tiles: one at a time, and all of them. */
START_TEST(every_place)
{
    device *const d = fixture_device(_i);
    const uint32_t vocab = fixture_by_size(70, 1100, 2100), rows = fixture_by_size(14, 110, 110);
    int32_t *const all = must_malloc(vocab * sizeof *all);
    for (uint32_t i = 0; i < vocab; i++)
        all[i] = (int32_t)i;
    for (uint32_t start = 0; start < vocab; start += rows) {
        batch *const b = batch_new(rows, vocab, CLS_F32, vocab + 1, 4);
        for (uint32_t row = 0; row < rows; row++) {
            tokens *const t = &b->tokens[row];
            cls_params *const p = &b->params[row];
            batch_row(b, row, ROW_EQUAL, 1);
            p->temperature = 0.0f;
            p->presence_penalty = row % 2 ? 1.0f : -1.0f; /* all but one lowered, or one raised */
            t->output = must_malloc(vocab * sizeof *t->output);
            for (uint32_t i = 0; i < vocab; i++)
                if ((i == start + row) != row % 2)
                    t->output[t->output_count++] = all[i];
        }
        batch_check(b, d, fixture_context(d, 0, 0, 0, 0), 0);
        for (uint32_t row = 0; row < rows && start + row < vocab; row++)
            ck_assert_int_eq(b->token[row], (int32_t)(start + row));
        batch_free(b);
    }
    free(all);
}
END_TEST

/* An adjusted logit below 2^-120 becomes 0. A penalty on one of several tiny negative logits thus
 * makes it the largest, and code that skips tokens must not miss it. */
START_TEST(raised_to_zero)
{
    static const int32_t places[] = {0, 63, 700, 1100, 2047, 2099};
    enum { ROWS = 2 * sizeof places / sizeof *places };
    device *const d = fixture_device(_i);
    batch *const b = batch_new(ROWS, 2100, CLS_F32, 0, 0);
    for (uint32_t row = 0; row < ROWS; row++) {
        const int32_t place = places[row / 2];
        float *const values = b->values + (size_t)row * b->vocab;
        float *const data = (float *)b->data + (size_t)row * b->stride;
        tokens *const t = &b->tokens[row];
        batch_row(b, row, ROW_EQUAL, row);
        for (uint32_t i = 0; i < b->vocab; i++)
            values[i] = data[i] = (int32_t)i == place ? -0x1p-121f : -0x1p-122f;
        b->params[row].temperature = 0.0f;
        b->params[row].repetition_penalty = 1.1f;
        if (row % 2) { /* the same row by the shortlist */
            b->params[row].temperature = 1.0f;
            b->params[row].top_k = 1;
        }
        t->output = must_malloc(sizeof *t->output);
        t->output[t->output_count++] = place;
    }
    batch_check(b, d, fixture_context(d, 0, 0, 0, 0), 0);
    for (uint32_t row = 0; row < ROWS; row++)
        ck_assert_int_eq(b->token[row], places[row / 2]);
    batch_free(b);
}
END_TEST

/* More tokens than one launch handles, and more than a count can represent. */
START_TEST(long_outputs)
{
    enum { N = 70000 };
    device *const d = fixture_device(_i);
    batch *const b = batch_new(4, 111, CLS_F32, 0, 0);
    b->history = 16384;
    for (uint32_t row = 0; row < b->rows; row++) {
        tokens *const t = &b->tokens[row];
        batch_row(b, row, ROW_COARSE, row);
        b->params[row].frequency_penalty = row % 2 ? 0x1p-13f : -0x1p-12f;
        b->params[row].repetition_penalty = 1.25f;
        b->params[row].penalty_window = row < 2 ? 0 : row == 2 ? 16384 : 9000;
        t->prompt = must_malloc(N * sizeof *t->prompt);
        t->output = must_malloc(N * sizeof *t->output);
        t->prompt_count = t->output_count = N;
        for (uint32_t i = 0; i < N; i++) {
            t->prompt[i] = (int32_t)(i % 100 + 20); /* some ids are invalid */
            t->output[i] = i % 1000 ? 7 : (int32_t)(i / 1000);
        }
    }
    batch_check(b, d, fixture_context(d, 0, 0, 0, 0), 0);
    batch_free(b);
}
END_TEST

int main(void)
{
    fixture_random(CLS_FEATURE_FORCED | CLS_FEATURE_MASK | CLS_FEATURE_BIAS);
    fixture_begin(ON_DEVICES);
    add_device_test(random_requests);
    add_device_test(counts_follow);
    add_device_test(every_place);
    add_device_test(raised_to_zero);
    if (fixture_size() != TEST_TINY)
        add_device_test(long_outputs);
    return fixture_end();
}
