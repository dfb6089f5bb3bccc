/* SPDX-License-Identifier: MIT */
/* Proves that host and device give the known distributions of tests/vectors/goldens.txt, the device
 * by the list and by the search. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "goldens.h"
#include "one_row.h"

START_TEST(on_the_host)
{
    static float probs[GOLDEN_MOST];
    uint32_t n;
    const golden *const all = goldens(&n);
    for (const golden *g = all; g < all + n; g++) {
        one_result result = {.probs = probs};
        one_row row = host_row(g->logits, g->vocab, &g->params);
        row.output = g->history;
        row.output_count = g->history_count;
        for (row.position = 0; row.position < (g->is_set ? 1 : 20); row.position++) {
            must(one_sample(&row, &result));
            ck_assert_msg(g->expected[result.token] > 0.0, "%s: drew %d", g->name, result.token);
        }
        golden_check(g, probs, "host");
        ck_assert_msg(result.kept_count == g->kept, "%s: %u kept, not %u", g->name,
                      result.kept_count, g->kept);
        ck_assert(fabs((double)result.logprob_final - log((double)probs[result.token])) < 1e-6);
    }
}
END_TEST

/* Proves one row's distribution on the device. */
static void run_row(device *d, const golden *g, int search)
{
    static float probs[GOLDEN_MOST];
    client s;
    batch *const b = batch_new(1, g->vocab, CLS_F32, 0, 0);
    memcpy(b->data, g->logits, g->vocab * sizeof *g->logits);
    memcpy(b->values, g->logits, g->vocab * sizeof *g->logits);
    b->params[0] = g->params;
    b->history = 16;
    b->tokens[0].output = malloc(sizeof g->history);
    ck_assert(b->tokens[0].output != NULL);
    memcpy(b->tokens[0].output, g->history, sizeof g->history);
    b->tokens[0].output_count = g->history_count;
    client_open(&s, b, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), 1);
    cls_sampler_force_search(s.sampler, search);
    s.outputs.probs.buffer = buffer_of(d, g->vocab * sizeof *probs, NULL);
    client_step(&s, d->queue, 0, 0, NULL, NULL);
    client_tokens(&s, 0);
    buffer_read(d, s.outputs.probs.buffer, g->vocab * sizeof *probs, probs);
    ck_assert_int_eq(b->status[0], CLS_ROW_OK);
    ck_assert(probs[b->token[0]] > 0.0f);
    golden_check(g, probs, search ? "by search" : d->name);
    clReleaseMemObject(s.outputs.probs.buffer);
    client_close(&s);
    batch_free(b);
}

static void run_all(device *d, int are_sets)
{
    uint32_t n;
    const golden *const all = goldens(&n);
    for (uint32_t i = 0; i < 2 * n; i++)
        if (all[i / 2].is_set == are_sets)
            run_row(d, &all[i / 2], (int)(i % 2));
}

START_TEST(small_rows) { run_all(fixture_device(_i), 0); }
END_TEST

START_TEST(large_rows) { run_all(fixture_device(_i), 1); }
END_TEST

int main(void)
{
    fixture_features(CLS_FEATURE_PROBS);
    fixture_begin(ON_DEVICES);
    add_test(on_the_host);
    add_device_test(small_rows);
    if (fixture_size() != TEST_TINY)
        add_device_test(large_rows);
    return fixture_end();
}
