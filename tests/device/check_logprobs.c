/* SPDX-License-Identifier: MIT */
/* Proves the log-probabilities of prompts against brute force, and draws on the host from a step's
 * candidates against the laws of chance. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "brute.h"
#include "client.h"
#include "oracle.h"

/* -------------------------------------------------------------------- prompts */

/* Rows of every kind, bad ones among them; a request in slot 0 does not notice. */
START_TEST(prompts)
{
    static const uint32_t sizes[] = {2500, 1, 31, 33000}, tops[] = {5, 0, 128, 1};
    device *const d = fixture_device(_i);
    rng r = {fixture_seed()};
    for (uint32_t i = 0; i < fixture_by_size(4, 9, 24); i++) {
        const uint32_t vocab = sizes[i % fixture_by_size(3, 3, 4)], top_n = tops[i % 4],
                       given_n = i % 4 == 2   ? 0
                                 : i % 4 == 3 ? 70
                                              : 1 + i % 3;
        batch *const b =
            batch_new(fixture_by_size(8, 24, 48), vocab, (int)(i % 3), vocab + rng_below(&r, 5), 0);
        const size_t tops_size = (size_t)b->rows * top_n * 4,
                     given_size = (size_t)b->rows * given_n * 4;
        int32_t *const given = must_calloc(1, given_size + 4),
                       *const ranks = must_calloc(1, given_size + 4),
                       *const ids = must_calloc(1, tops_size + 4);
        float *const logprobs = must_calloc(1, given_size + 4);
        float *const top_logprobs = must_calloc(1, tops_size + 4);
        cls_logprobs_call call;
        client s;
        batch_random(b, &r);
        for (uint32_t j = 0; j < b->rows * given_n; j++)
            given[j] = (int32_t)rng_below(&r, vocab + 2) - 1;
        batch_reference(b);
        client_open(&s, b, d, fixture_context(d, 0, 0, 0, 0), 1);
        cls_logprobs_call_init(&call);
        call.rows = b->rows;
        call.logits = s.step.logits;
        call.top.count = top_n;
        call.given.count = given_n;
        if (given_n) {
            call.given.ids.buffer = buffer_of(d, given_size, given);
            call.given.logprobs.buffer = buffer_of(d, given_size, NULL);
            call.given.ranks.buffer = buffer_of(d, given_size, NULL);
        }
        if (top_n) {
            call.top.ids.buffer = buffer_of(d, tops_size, NULL);
            call.top.logprobs.buffer = buffer_of(d, tops_size, NULL);
        }
        must(cls_logprobs(s.sampler, d->queue, &call, 0, NULL, NULL));
        ck_assert_uint_eq(cls_sampler_launches(s.sampler), 3); /* slots, survey, report */
        s.begun = 0;
        if (given_n) {
            buffer_read(d, call.given.logprobs.buffer, given_size, logprobs);
            buffer_read(d, call.given.ranks.buffer, given_size, ranks);
        }
        if (top_n) {
            buffer_read(d, call.top.ids.buffer, tops_size, ids);
            buffer_read(d, call.top.logprobs.buffer, tops_size, top_logprobs);
        }
        for (uint32_t row = 0; row < b->rows; row++) {
            char where[1024];
            brute of;
            snprintf(where, sizeof where, "%s: %s", d->name, batch_words(b, row));
            brute_make(&of, b->values + (size_t)row * vocab, vocab, 1.0, NULL);
            brute_top(&of, ids + row * top_n, top_logprobs + row * top_n, top_n, where);
            brute_given(&of, given + row * given_n, logprobs + row * given_n, ranks + row * given_n,
                        given_n, where);
            brute_free(&of);
        }
        client_step(&s, d->queue, 0, 0, NULL, NULL);
        client_tokens(&s, 0);
        for (uint32_t row = 0; row < b->rows; row++)
            ck_assert_msg(b->token[row] == b->host[row].token,
                          "%s: a prompt's logprobs change a request", batch_words(b, row));
        release_buffers(call.given.ids.buffer, call.given.logprobs.buffer, call.given.ranks.buffer,
                        call.top.ids.buffer, call.top.logprobs.buffer);
        client_close(&s);
        batch_free(b);
        free(given);
        free(ranks);
        free(ids);
        free(logprobs);
        free(top_logprobs);
    }
}
END_TEST

START_TEST(prompts_refused)
{
    device *const d = fixture_device(_i);
    client s = small_client(d, 2);
    cls_logprobs_call call;
    cls_logprobs_call_init(&call);
    const struct {
        uint32_t rows, top_n;
        cl_mem logits;
        const char *words;
    } calls[] = {
        {0, 1, s.step.logits.values.buffer, "call->rows is 0; the sampler was created for 1 to 2"},
        {3, 1, s.step.logits.values.buffer, "call->rows is 3; the sampler was created for 1 to 2"},
        {2, 1, NULL, "call->logits.values.buffer is NULL"},
        {2, 0, s.step.logits.values.buffer,
         "call->top.count and call->given.count are 0: no output is requested"},
        {2, 1, s.step.logits.values.buffer,
         "call->top.count is 1, but no buffer for it is set (such as call->top.ids)"},
    };
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        call.rows = calls[i].rows;
        call.top.count = calls[i].top_n;
        call.logits.values.buffer = calls[i].logits;
        ck_assert_int_eq(cls_logprobs(s.sampler, d->queue, &call, 0, NULL, NULL), CLS_BAD_ARGUMENT);
        ck_assert_str_eq(cls_error_message(), calls[i].words);
    }
    close_small(&s);
}
END_TEST

/* ----------------------------------------------------------------------- draws */

enum { ROWS = 16, WIDE = 40 };

typedef struct lists {
    int32_t ids[ROWS * WIDE], counts[ROWS];
    float logits[ROWS * WIDE];
} lists;

static int32_t draw_on_host(const client *s, const lists *l, uint32_t row, uint32_t position)
{
    const cls_params *const p = &s->b->params[row];
    cls_host_candidates c;
    int32_t token = -2;
    cls_host_candidates_init(&c);
    c.ids = l->ids + row * WIDE;
    c.logits = l->logits + row * WIDE;
    c.count = (uint32_t)l->counts[row];
    c.vocab = s->b->vocab;
    c.seed = p->seed;
    c.stream = p->stream;
    c.position = position;
    must(cls_host_draw(&c, &token));
    return token;
}

/* Draws on the host from the kept set of a deferred step follow the law of the step. */
START_TEST(law)
{
    device *const d = fixture_device(_i);
    batch *const b = batch_new(ROWS, 100, CLS_F32, 0, 0);
    const uint32_t steps = fixture_by_size(60, 600, 3125);
    uint32_t counts[100] = {0};
    const int32_t slots[ROWS] = {0};
    double probs[100], statistic, limit;
    lists l;
    oracle o;
    client s;
    for (uint32_t row = 0; row < ROWS; row++) {
        batch_row(b, row, ROW_NORMAL1, fixture_seed());
        b->params[row].temperature = 0.7f;
        b->params[row].top_k = 25;
        b->params[row].top_p = 0.9f;
    }
    client_open(&s, b, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), 1);
    s.step.defer_accept = 1;
    s.step.slots.host = slots;
    s.outputs.kept.count = WIDE;
    s.outputs.kept.ids.buffer = buffer_of(d, sizeof l.ids, NULL);
    s.outputs.kept.logits.buffer = buffer_of(d, sizeof l.logits, NULL);
    s.outputs.kept.counts.buffer = buffer_of(d, sizeof l.counts, NULL);
    client_step(&s, d->queue, 0, 0, NULL, NULL);
    buffer_read(d, s.outputs.kept.ids.buffer, sizeof l.ids, l.ids);
    buffer_read(d, s.outputs.kept.logits.buffer, sizeof l.logits, l.logits);
    buffer_read(d, s.outputs.kept.counts.buffer, sizeof l.counts, l.counts);
    release_buffers(s.outputs.kept.ids.buffer, s.outputs.kept.logits.buffer,
                    s.outputs.kept.counts.buffer);
    for (uint32_t i = 0; i < ROWS * WIDE; i++)
        l.logits[i] /= 0.7f;
    for (uint32_t i = 0; i < steps * ROWS; i++)
        counts[draw_on_host(&s, &l, i % ROWS, i)]++;
    const cls_host_row h = batch_host_row(b, 0);
    ck_assert(oracle_make(&o, &h));
    oracle_probs(&o, probs);
    ck_assert_msg(oracle_chi_square(probs, counts, 100, steps * ROWS, &statistic, &limit),
                  "%s: chi-square %g, limit %g", d->name, statistic, limit);
    oracle_free(&o);
    client_close(&s);
    batch_free(b);
}
END_TEST

int main(void)
{
    fixture_random(CLS_FEATURE_LOGPROBS);
    fixture_begin(ON_DEVICES);
    add_device_test(prompts);
    add_device_test(prompts_refused);
    add_device_test(law);
    return fixture_end();
}
