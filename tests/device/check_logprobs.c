/* SPDX-License-Identifier: MIT */
/* Proves the calls beside the step: log-probabilities of prompts against brute force, and
 * draws from lists of candidates against the host and the laws of chance. */
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
        int32_t *const given = calloc(1, given_size + 4), *const ranks = calloc(1, given_size + 4),
                       *const ids = calloc(1, tops_size + 4);
        float *const logprobs = calloc(1, given_size + 4), *const top_logprobs =
                                                               calloc(1, tops_size + 4);
        cls_logprobs_call call;
        client s;
        ck_assert(given && ranks && ids && logprobs && top_logprobs);
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
        const cl_mem buffers[] = {call.given.ids.buffer, call.given.logprobs.buffer,
                                  call.given.ranks.buffer, call.top.ids.buffer,
                                  call.top.logprobs.buffer};
        for (unsigned j = 0; j < sizeof buffers / sizeof *buffers; j++)
            if (buffers[j])
                clReleaseMemObject(buffers[j]);
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
        {0, 1, s.step.logits.buffer, "call->rows is 0; the sampler was created for 1 to 2"},
        {3, 1, s.step.logits.buffer, "call->rows is 3; the sampler was created for 1 to 2"},
        {2, 1, NULL, "call->logits.buffer is NULL"},
        {2, 0, s.step.logits.buffer,
         "call->top.count and call->given.count are 0: no output is requested"},
        {2, 1, s.step.logits.buffer,
         "call->top.count is 1, but no buffer for it is set (such as call->top.ids)"},
    };
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        call.rows = calls[i].rows;
        call.top.count = calls[i].top_n;
        call.logits.buffer = calls[i].logits;
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

static cls_draw_call open_draw(client *s, const lists *l)
{
    cls_draw_call call;
    cls_draw_call_init(&call);
    call.rows = s->b->rows;
    call.candidates.count = WIDE - 3;
    call.row_stride = WIDE;
    call.candidates.ids.buffer = buffer_of(s->d, sizeof l->ids, l->ids);
    call.candidates.logits.buffer = buffer_of(s->d, sizeof l->logits, l->logits);
    call.candidates.counts.buffer = buffer_of(s->d, sizeof l->counts, l->counts);
    call.tokens = s->step.tokens;
    call.status = s->step.status;
    return call;
}

static void close_draw(const cls_draw_call *call)
{
    clReleaseMemObject(call->candidates.ids.buffer);
    clReleaseMemObject(call->candidates.logits.buffer);
    clReleaseMemObject(call->candidates.counts.buffer);
}

static int32_t on_host(const client *s, const cls_draw_call *call, const lists *l, uint32_t row,
                       uint32_t position, uint32_t draw)
{
    const cls_params *const p = &s->b->params[row];
    const int32_t count = l->counts[row] < 0 ? 0 : l->counts[row];
    cls_host_candidates c;
    int32_t token = -2;
    cls_host_candidates_init(&c);
    c.ids = l->ids + row * WIDE;
    c.logits = l->logits + row * WIDE;
    c.count = (uint32_t)count < call->candidates.count ? (uint32_t)count : call->candidates.count;
    c.vocab = s->b->vocab;
    c.seed = p->seed;
    c.stream = p->stream;
    c.position = position;
    c.draw = draw;
    must(cls_host_draw(&c, &token));
    return token;
}

/* Random lists, some with invalid entries, in consecutive steps: the tokens equal the host's and
 * are accepted by the slots. */
START_TEST(draws)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-40f, 88.0f};
    device *const d = fixture_device(_i);
    client s = small_client(d, ROWS);
    rng r = {fixture_seed()};
    lists l;
    for (uint32_t step = 0; step < fixture_by_size(5, 20, 100); step++) {
        int32_t draw[ROWS];
        for (uint32_t i = 0; i < ROWS * WIDE; i++) {
            l.ids[i] = rng_below(&r, 20) ? (int32_t)rng_below(&r, 100)
                                         : (int32_t)rng_below(&r, 4) * 100 - 100;
            l.logits[i] = rng_below(&r, 20) ? (float)(3.0 * rng_normal(&r)) : odd[rng_below(&r, 7)];
        }
        for (uint32_t row = 0; row < ROWS; row++) {
            l.counts[row] = (int32_t)rng_below(&r, WIDE + 5) - 1;
            draw[row] = step % 2 ? (int32_t)rng_below(&r, 1 << 24) : 0;
        }
        cls_draw_call call = open_draw(&s, &l);
        call.draws.host = draw;
        must(cls_draw(s.sampler, d->queue, &call, 0, NULL, NULL));
        client_tokens(&s, 0);
        for (uint32_t row = 0; row < ROWS; row++) {
            cls_params *const p = &s.b->params[row];
            const int32_t token = on_host(&s, &call, &l, row, p->position, (uint32_t)draw[row]);
            ck_assert_msg(s.b->token[row] == token, "%s: step %u, row %u: %d, on the host %d",
                          d->name, step, row, s.b->token[row], token);
            ck_assert_int_eq(s.b->status[row] & CLS_ROW_EMPTY, token < 0 ? CLS_ROW_EMPTY : 0);
            p->position += token >= 0;
        }
        close_draw(&call);
    }
    close_small(&s);
}
END_TEST

/* The results of a row: accepted or not, ended, skipped, and its index by slots. */
START_TEST(rows_of_draws)
{
    device *const d = fixture_device(_i);
    client s = small_client(d, 4);
    lists l = {{0}, {0}, {0}};
    int32_t latest[4] = {-7, -7, -7, -7};
    const int32_t slots[4] = {2, -1, 0, 1};
    const uint64_t random[4] = {0, 0, UINT64_MAX, 0};
    const int32_t stop = 6;
    for (uint32_t i = 0; i < ROWS * WIDE; i++)
        l.ids[i] = (int32_t)(i % WIDE) + 5;
    for (uint32_t row = 0; row < 4; row++)
        l.counts[row] = 4;
    l.logits[0] = -INFINITY; /* has no weight: not even the number 0 draws it */
    l.logits[2 * WIDE + 3] = NAN;
    l.logits[2 * WIDE + 2] = INFINITY;
    l.counts[3] = 0;
    s.b->params[2].stop_ids.ids = &stop;
    s.b->params[2].stop_ids.count = 1;
    must(cls_slot_params(s.sampler, 2, &s.b->params[2]));
    cls_draw_call call = open_draw(&s, &l);
    call.slots.host = slots;
    call.random_bits.buffer = buffer_of(d, sizeof random, random);
    call.latest.buffer = buffer_of(d, sizeof latest, latest);
    call.invalid_token = 177;
    for (int turn = 0; turn < 3; turn++) { /* deferred, accepted, and after that */
        const int32_t first[3] = {6, 6, 177};
        const int32_t status[3] = {CLS_ROW_STOPPED, CLS_ROW_STOPPED,
                                   CLS_ROW_STOPPED | CLS_ROW_SKIPPED};
        call.defer_accept = turn == 0;
        must(cls_draw(s.sampler, d->queue, &call, 0, NULL, NULL));
        client_tokens(&s, 0);
        ck_assert_int_eq(s.b->token[0], first[turn]);
        ck_assert_int_eq(s.b->status[0], status[turn]);
        ck_assert_int_eq(s.b->token[1], 177);
        ck_assert_int_eq(s.b->status[1], CLS_ROW_SKIPPED);
        ck_assert_int_eq(s.b->token[2], 7);
        ck_assert_int_eq(s.b->status[2], CLS_ROW_NAN | CLS_ROW_INF);
        ck_assert_int_eq(s.b->token[3], 177);
        ck_assert_int_eq(s.b->status[3], CLS_ROW_EMPTY);
    }
    buffer_read(d, call.latest.buffer, sizeof latest, latest);
    ck_assert_int_eq(latest[2], 6);
    ck_assert_int_eq(latest[0], 7);
    ck_assert_int_eq(latest[1], -7);
    clReleaseMemObject(call.random_bits.buffer);
    clReleaseMemObject(call.latest.buffer);
    close_draw(&call);
    close_small(&s);
}
END_TEST

/* A kept set goes to the host as candidates and comes back: the law of the step. */
START_TEST(law)
{
    device *const d = fixture_device(_i);
    batch *const b = batch_new(ROWS, 100, CLS_F32, 0, 0);
    const uint32_t steps = fixture_by_size(60, 600, 3125);
    uint32_t counts[100] = {0};
    int32_t positions[ROWS], slots[ROWS] = {0};
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
    /* As it is: the draw then takes the logits at temperature 1, as it does those of the list. */
    cls_draw_call whole;
    int32_t as_it_is[ROWS];
    cls_draw_call_init(&whole);
    whole.rows = ROWS;
    whole.candidates = s.outputs.kept;
    whole.candidates.probs.buffer = s.step.logits.buffer; /* ignored, whatever it is */
    whole.slots.host = slots;
    whole.defer_accept = 1;
    whole.tokens = s.step.tokens;
    must(cls_draw(s.sampler, d->queue, &whole, 0, NULL, NULL));
    client_tokens(&s, 0);
    memcpy(as_it_is, b->token, sizeof as_it_is);
    cls_draw_call listed = open_draw(&s, &l);
    listed.slots.host = slots;
    listed.defer_accept = 1;
    must(cls_draw(s.sampler, d->queue, &listed, 0, NULL, NULL));
    client_tokens(&s, 0);
    ck_assert_mem_eq(as_it_is, b->token, sizeof as_it_is);
    close_draw(&listed);
    clReleaseMemObject(s.outputs.kept.ids.buffer);
    clReleaseMemObject(s.outputs.kept.logits.buffer);
    clReleaseMemObject(s.outputs.kept.counts.buffer);
    for (uint32_t i = 0; i < ROWS * WIDE; i++)
        l.logits[i] /= 0.7f;
    cls_draw_call call = open_draw(&s, &l);
    call.slots.host = slots;
    call.positions.host = positions;
    call.defer_accept = 1;
    for (uint32_t i = 0; i < steps; i++) {
        for (uint32_t row = 0; row < ROWS; row++)
            positions[row] = (int32_t)(i * ROWS + row);
        must(cls_draw(s.sampler, d->queue, &call, 0, NULL, NULL));
        client_tokens(&s, 0);
        for (uint32_t row = 0; row < ROWS; row++)
            counts[b->token[row]]++;
    }
    const cls_host_row h = batch_host_row(b, 0);
    ck_assert(oracle_make(&o, &h));
    oracle_probs(&o, probs);
    ck_assert_msg(oracle_chi_square(probs, counts, 100, steps * ROWS, &statistic, &limit),
                  "%s: chi-square %g, limit %g", d->name, statistic, limit);
    oracle_free(&o);
    close_draw(&call);
    client_close(&s);
    batch_free(b);
}
END_TEST

START_TEST(draws_refused)
{
    device *const d = fixture_device(_i);
    client s = small_client(d, 2);
    const lists l = {{0}, {0}, {0}};
    cls_draw_call good = open_draw(&s, &l), call = good;
    const int32_t twice[2] = {0, 0}, large[2] = {0, 1 << 24};
#define REFUSED(words) \
    ck_assert_int_eq(cls_draw(s.sampler, d->queue, &call, 0, NULL, NULL), CLS_BAD_ARGUMENT); \
    ck_assert_str_eq(cls_error_message(), words); \
    call = good;
    call.rows = 3;
    REFUSED("call->rows is 3; the sampler was created for 1 to 2")
    call.defer_accept = 2;
    REFUSED("call->defer_accept is 2; it must be 0 or 1")
    call.candidates.count = 16385;
    REFUSED("call->candidates.count is 16385; it must be 1 to 16384")
    call.row_stride = 10;
    REFUSED("call->row_stride is 10, which is less than call->candidates.count, 37")
    call.candidates.ids.buffer = NULL;
    REFUSED("call->candidates.ids.buffer is NULL")
    call.candidates.counts.offset = sizeof l.counts - 4;
    REFUSED(
        "call->candidates.counts needs 8 bytes from offset 60 on, 68 in all, and the buffer has 64")
    call.slots.host = twice;
    REFUSED(
        "call->slots: row 1 uses slot 0, which an earlier row uses; a slot may occur only once if "
        "tokens are accepted")
    call.draws.host = large;
    REFUSED("call->draws: row 1 has the value 16777216; it must be 0 to 16777215")
    close_draw(&good);
    close_small(&s);
}
END_TEST

static Suite *make(void)
{
    Suite *const s = suite_create("logprobs");
    TCase *const t = tcase_create("logprobs");
    tcase_set_timeout(t, 0);
    add_device_test(t, prompts);
    add_device_test(t, prompts_refused);
    add_device_test(t, draws);
    add_device_test(t, rows_of_draws);
    add_device_test(t, law);
    add_device_test(t, draws_refused);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    fixture_random(CLS_FEATURE_LOGPROBS | CLS_FEATURE_DRAW);
    return fixture_run(make, 1);
}
