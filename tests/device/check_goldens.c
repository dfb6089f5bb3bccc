/* SPDX-License-Identifier: MIT */
/* Proves that the device gives the known distributions of goldens.h, by the list and by the
 * search. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "goldens.h"

enum { MOST = 10000 };

/* One row's distribution on the device. */
static void run_row(device *d, const cls_params *p, const float *logits, uint32_t vocab,
                    const int32_t *output, uint32_t count, int search, float *probs)
{
    client s;
    batch *const b = batch_new(1, vocab, CLS_F32, 0, 0);
    memcpy(b->data, logits, vocab * sizeof *logits);
    memcpy(b->values, logits, vocab * sizeof *logits);
    b->params[0] = *p;
    b->history = 16;
    b->tokens[0].output = malloc((count + 1) * sizeof *output);
    ck_assert(b->tokens[0].output != NULL);
    memcpy(b->tokens[0].output, output, count * sizeof *output);
    b->tokens[0].output_count = count;
    client_open(&s, b, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), 1);
    cls_sampler_force_search(s.sampler, search);
    s.outputs.probs.buffer = buffer_of(d, vocab * sizeof *probs, NULL);
    client_step(&s, d->queue, 0, 0, NULL, NULL);
    client_tokens(&s, 0);
    buffer_read(d, s.outputs.probs.buffer, vocab * sizeof *probs, probs);
    ck_assert_int_eq(b->status[0], CLS_ROW_OK);
    ck_assert(probs[b->token[0]] > 0.0f);
    clReleaseMemObject(s.outputs.probs.buffer);
    client_close(&s);
    batch_free(b);
}

START_TEST(small_rows)
{
    device *const d = fixture_device(_i);
    for (uint32_t i = 0; i < 2 * n_goldens; i++) {
        const golden *const g = &goldens[i / 2];
        float logits[GOLDEN_TOKENS], probs[GOLDEN_TOKENS];
        cls_params p;
        golden_params(g, &p);
        golden_logits(g, logits);
        run_row(d, &p, logits, g->vocab, g->history, g->history_count, (int)(i % 2), probs);
        for (uint32_t id = 0; id < g->vocab; id++)
            ck_assert_msg(fabs((double)probs[id] - g->expected[id]) <= g->tolerance,
                          "%s: %s%s: token %u: %.9g, not %.9g", d->name, g->name,
                          i % 2 ? ", by search" : "", id, (double)probs[id], g->expected[id]);
    }
}
END_TEST

START_TEST(large_rows)
{
    device *const d = fixture_device(_i);
    float *const logits = malloc(MOST * sizeof *logits), *const probs =
                                                             malloc(MOST * sizeof *probs);
    ck_assert(logits && probs);
    for (uint32_t i = 0; i < 2 * n_golden_sets; i++) {
        const golden_set *const g = &golden_sets[i / 2];
        cls_params p;
        ck_assert(g->vocab <= MOST);
        golden_set_params(g, &p);
        golden_set_logits(g, logits);
        run_row(d, &p, logits, g->vocab, NULL, 0, (int)(i % 2), probs);
        for (uint32_t id = 0; id < g->vocab; id++)
            ck_assert_msg((probs[id] > 0.0f) == (id >= g->first && id < g->first + g->size),
                          "%s: %s%s: token %u is %s", d->name, g->name, i % 2 ? ", by search" : "",
                          id, probs[id] > 0.0f ? "kept" : "dropped");
    }
    free(logits);
    free(probs);
}
END_TEST

int main(void)
{
    fixture_features(CLS_FEATURE_PROBS);
    fixture_begin(ON_DEVICES);
    add_device_test(small_rows);
    if (fixture_size() != TEST_TINY)
        add_device_test(large_rows);
    return fixture_end();
}
