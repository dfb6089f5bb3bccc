/* SPDX-License-Identifier: MIT */
/* Proves thinking budgets, forced ids and loop stops on the device against the reference: random
 * rows and their outputs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "brute.h"
#include "client.h"

enum { CANARY = 0x5a5a5a5a };
#define FEATURES \
    (CLS_FEATURE_FORCED | CLS_FEATURE_ACCEPT | CLS_FEATURE_MASK | CLS_FEATURE_LOGPROBS | \
     CLS_FEATURE_PROBS)

/* ------------------------------------------------------------------------------ rows */

static void random_mask(batch *b, rng *r)
{
    b->mask_kind = (int)rng_below(r, 2);
    const uint32_t whole = b->mask_kind == CLS_MASK_PACKED ? (b->vocab + 31) / 32 : b->vocab;
    batch_mask(b, r, rng_below(r, 3) ? 80 : 10, rng_below(r, 3) ? 0 : 1 + rng_below(r, whole));
    if (rng_below(r, 2))
        return;
    b->mask_map = must_malloc(b->rows * sizeof *b->mask_map);
    for (uint32_t row = 0; row < b->rows; row++)
        b->mask_map[row] = (int32_t)rng_below(r, b->rows + 1) - 1;
}

static batch *random_batch(uint32_t i, rng *r)
{
    static const uint32_t sizes[] = {16, 100, 1025, 33, 7, 4099};
    batch *const b = batch_new(fixture_by_size(4, 12, 16), sizes[i % fixture_by_size(3, 5, 6)],
                               (int)(i % 3), 0, 0);
    batch_random(b, r);
    for (uint32_t row = 0; row < b->rows; row++) { /* more rows without a token than otherwise */
        const cls_params p = b->params[row];
        if (rng_below(r, 6) == 0)
            batch_row(b, row, rng_below(r, 2) ? ROW_ALL_NAN : ROW_ALL_MINUS_INF, 1);
        b->params[row] = p;
        if (rng_below(r, 8) == 0)
            params_infill(&b->params[row], b->vocab, r);
    }
    b->history = i % 5 == 4 ? 0 : 50;
    b->forces = 1;
    batch_requests(b, r);
    if (i % 2)
        random_mask(b, r);
    if (i % 7 == 6)
        batch_bias(b, r, CLS_F32);
    return b;
}

typedef struct census {
    uint32_t rows, forced, undrawn, loops, stopped;
} census;

static void count(census *c, const batch *b)
{
    for (uint32_t row = 0; row < b->rows; row++) {
        const int32_t status = b->host[row].status;
        c->rows++;
        c->forced += (status & CLS_ROW_FORCED) != 0;
        c->undrawn += (status & CLS_ROW_FORCED) && b->trace[row].no_token;
        c->loops += (status & CLS_ROW_LOOP) != 0;
        c->stopped += (status & CLS_ROW_SKIPPED) != 0;
    }
}

/* Several steps of random requests: accepted by the step, after outputs of the final distribution,
 * or deferred and accepted by cls_accept(). */
static void run_batch(batch *b, device *d, uint32_t i, census *c)
{
    char where[200];
    client s;
    int32_t *const latest = must_malloc(b->rows * sizeof *latest);
    int32_t *const got = must_malloc(b->rows * 4);
    const int32_t invalid = i % 3 ? -1 : -7;
    for (uint32_t row = 0; row < b->rows; row++)
        latest[row] = CANARY;
    client_open(&s, b, d, fixture_context(d, 0, 0, 0, 0), 1);
    cls_sampler_force_search(s.sampler, i % 6 == 5);
    const cls_device_info info = context_info(fixture_context(d, 0, 0, 0, 0));
    b->shortlist = info.shortlist;
    const cl_mem latest_buffer = buffer_of(d, b->rows * sizeof *latest, latest),
                 logprobs = buffer_of(d, b->rows * sizeof(float), NULL);
    s.outputs.latest.buffer = latest_buffer;
    s.step.invalid_token = invalid;
    if (b->mask != NULL && i % 4 == 3) {
        clReleaseMemObject(s.step.mask.words.buffer);
        s.step.mask.words.buffer = NULL;
        s.step.mask.host = b->mask;
    }
    for (uint32_t step = 0; step < 5; step++) {
        const int how = (int)((i + step) % 4); /* 1, 2: outputs of either kind; 3: deferred */
        snprintf(where, sizeof where, "%s, batch %u, step %u", d->name, i, step);
        s.outputs.logprob_kind = how == 1 ? CLS_LOGPROB_FINAL : CLS_LOGPROB_RAW;
        s.outputs.logprobs.buffer = how == 1 || how == 2 ? logprobs : NULL;
        s.step.defer_accept = how == 3;
        batch_reference(b);
        client_step(&s, d->queue, 0, 0, NULL, NULL);
        client_tokens(&s, 0);
        must(cls_sampler_trace(s.sampler, d->queue, b->device_trace, b->rows));
        batch_accept_loop_limit(b, d);
        count(c, b);
        for (uint32_t row = 0; row < b->rows; row++) {
            cls_host_result *const h = &b->host[row];
            if (h->token >= 0 && !(b->status[row] & CLS_ROW_UNFIT))
                latest[row] = h->token;
            h->token = h->token < 0 ? invalid : h->token;
        }
        batch_equal(b, where);
        for (uint32_t row = 0; row < b->rows; row++)
            batch_accept(b, row);
        buffer_read(d, latest_buffer, b->rows * sizeof *latest, got);
        for (uint32_t row = 0; row < b->rows; row++)
            ck_assert_msg(got[row] == latest[row], "%s: %s: latest %d, not %d", where,
                          batch_words(b, row), got[row], latest[row]);
        if (how == 3) {
            const cls_ints drawn = {.device = s.step.tokens};
            must(accept_ints(s.sampler, d->queue, b->rows, 1, &drawn, NULL, 0, NULL, NULL));
        }
    }
    client_close(&s);
    release_buffers(latest_buffer, logprobs);
    free(latest);
    free(got);
}

START_TEST(random_rows)
{
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 1};
    census c = {0};
    for (uint32_t i = 0; i < fixture_by_size(8, 40, 240); i++) {
        batch *const b = random_batch(i, &r);
        run_batch(b, d, i, &c);
        batch_free(b);
    }
    printf("%s: %u rows: %u forced (%u of them where nothing could be drawn), %u loops, %u had "
           "stopped\n",
           d->name, c.rows, c.forced, c.undrawn, c.loops, c.stopped);
    ck_assert(c.forced > c.rows / 16 && c.undrawn > 0);
}
END_TEST

/* --------------------------------------------------------------------------- outputs */

enum {
    TOP = 5,
    GIVEN = 2,
    KEPT = 8,
    OUTPUTS = 14,
    LOGPROBS = 0,
    RANKS,
    TOP_IDS,
    TOP_LOGPROBS,
    GIVEN_LOGPROBS,
    GIVEN_RANKS
};

/* The outputs of a step, one after another in a buffer: each one's field and its words of a row. */
typedef struct output {
    cls_buffer *buffer;
    uint32_t width;
} output;

static void list_outputs(cls_outputs *s, uint32_t vocab, output list[OUTPUTS])
{
    const output table[OUTPUTS] = {
        {&s->logprobs, 1},
        {&s->ranks, 1},
        {&s->top.ids, TOP},
        {&s->top.logprobs, TOP},
        {&s->given.logprobs, GIVEN},
        {&s->given.ranks, GIVEN},
        {&s->entropy, 1},
        {&s->kept.counts, 1},
        {&s->kept_mass, 1},
        {&s->kept.ids, KEPT},
        {&s->kept.logits, KEPT},
        {&s->kept.probs, KEPT},
        {&s->probs, vocab},
        {&s->final_logits, vocab},
    };
    memcpy(list, table, sizeof table);
}

/* Runs a client's step with all outputs. Returns them, by output and row. */
static uint32_t *step_outputs(client *s, const int32_t *given, int kind)
{
    const uint32_t rows = s->b->rows;
    output list[OUTPUTS];
    size_t words = 0;
    list_outputs(&s->outputs, s->b->vocab, list);
    for (int i = 0; i < OUTPUTS; i++)
        words += (size_t)rows * list[i].width;
    const cl_mem buffer = buffer_of(s->d, words * 4, NULL),
                 ids = buffer_of(s->d, rows * GIVEN * sizeof *given, given);
    for (size_t i = 0, at = 0; i < OUTPUTS; at += (size_t)rows * list[i++].width)
        *list[i].buffer = (cls_buffer){.buffer = buffer, .offset = at * 4};
    s->outputs.top.count = TOP;
    s->outputs.given.count = GIVEN;
    s->outputs.given.ids.buffer = ids;
    s->outputs.kept.count = KEPT;
    s->outputs.logprob_kind = kind;
    client_step(s, s->d->queue, 0, 0, NULL, NULL);
    client_tokens(s, 0);
    uint32_t *const all = must_malloc(words * 4);
    buffer_read(s->d, buffer, words * 4, all);
    release_buffers(buffer, ids);
    return all;
}

static void *copy_of(const void *array, size_t size)
{
    void *const copy = array != NULL ? malloc(size) : NULL;
    ck_assert(array == NULL || copy != NULL);
    if (copy != NULL)
        memcpy(copy, array, size);
    return copy;
}

/* Returns the same rows and requests without anything that forces an id. */
static batch *unforced(const batch *b)
{
    batch *const plain = batch_pick(b, b->rows, NULL, b->dtype, 0, 0);
    for (uint32_t row = 0; row < b->rows; row++) {
        cls_params *const p = &plain->params[row];
        plain->tokens[row].forced_count = 0;
        p->thinking_start.ids = p->thinking_end.ids = p->thinking_forced.ids = NULL;
        p->thinking_start.count = p->thinking_end.count = p->thinking_forced.count = 0;
        p->thinking_budget = p->loop_repeats = 0;
    }
    plain->mask_kind = b->mask_kind;
    plain->mask_width = b->mask_width;
    plain->mask = copy_of(b->mask, (size_t)b->rows * b->mask_width *
                                       (b->mask_kind == CLS_MASK_PACKED ? 4 : 1));
    plain->mask_map = copy_of(b->mask_map, b->rows * sizeof *b->mask_map);
    plain->bias_dtype = b->bias_dtype;
    plain->bias_factor = b->bias_factor;
    plain->bias = copy_of(b->bias, (size_t)b->rows * b->vocab * dtype_size(b->bias_dtype));
    plain->bias_map = copy_of(b->bias_map, b->rows * sizeof *b->bias_map);
    return plain;
}

/* A row that emits an id although nothing can be drawn: the raw distribution is the model's. */
static void expect_model(const batch *b, uint32_t row, const int32_t *given, uint32_t *const *at,
                         const char *where)
{
    brute of;
    brute_make(&of, b->values + (size_t)row * b->vocab, b->vocab, 1.0, NULL);
    brute_given(&of, &b->host[row].token, (const float *)at[LOGPROBS], (const int32_t *)at[RANKS],
                1, where);
    brute_top(&of, (const int32_t *)at[TOP_IDS], (const float *)at[TOP_LOGPROBS], TOP, where);
    brute_given(&of, given, (const float *)at[GIVEN_LOGPROBS], (const int32_t *)at[GIVEN_RANKS],
                GIVEN, where);
    brute_free(&of);
}

static void expect_no_token(uint32_t *const *at, const output *list, const char *where)
{
    const float none = -INFINITY;
    ck_assert_msg(memcmp(at[LOGPROBS], &none, 4) == 0 && *at[RANKS] == 0, "%s: logprob or rank",
                  where);
    for (uint32_t i = 0; i < list[12].width; i++)
        ck_assert_msg(at[12][i] == 0 && memcmp(&at[13][i], &none, 4) == 0, "%s: token %u", where,
                      i);
    ck_assert_msg(*at[7] == 0, "%s: kept %u", where, *at[7]);
}

/* The outputs of forced rows are those of a deferred step of the same requests without anything
 * forced. The forced id has the log-probability and the rank that this step gives it. */
START_TEST(outputs)
{
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 0, 0, 0, 0);
    rng r = {fixture_seed() + 2};
    uint32_t forced = 0;
    for (uint32_t i = 0; i < fixture_by_size(6, 24, 120); i++) {
        batch *const b = random_batch(i, &r);
        for (uint32_t row = 0; row < b->rows; row++)
            if (b->params[row].thinking_forced.count != 0)
                b->params[row].grammar = NULL; /* without the thinking it would apply */
        batch *const plain = unforced(b);
        const int kind = (int)(i / 3 % 2);
        int32_t given[16 * GIVEN];
        client s, t;
        output list[OUTPUTS];
        batch_reference(b);
        batch_reference(plain);
        for (uint32_t row = 0; row < b->rows; row++) {
            given[row * GIVEN] = b->host[row].token;
            given[row * GIVEN + 1] = (int32_t)rng_below(&r, b->vocab + 1) - 1;
        }
        client_open(&s, b, d, context, 1);
        client_open(&t, plain, d, context, 1);
        t.step.defer_accept = 1;
        uint32_t *const ours = step_outputs(&s, given, kind);
        uint32_t *const theirs = step_outputs(&t, given, kind);
        list_outputs(&s.outputs, b->vocab, list);
        for (uint32_t row = 0; row < b->rows; row++) {
            char where[1700];
            uint32_t *at[OUTPUTS], *other[OUTPUTS];
            const cls_host_result *const h = &b->host[row];
            const int is_forced = (h->status & CLS_ROW_FORCED) != 0,
                      no_draw = plain->host[row].token < 0 || (plain->status[row] & CLS_ROW_UNFIT),
                      raw = kind == CLS_LOGPROB_RAW;
            snprintf(where, sizeof where, "%s, batch %u, %s: %s", d->name, i, raw ? "raw" : "final",
                     batch_words(b, row));
            size_t first = 0;
            for (int k = 0; k < OUTPUTS; first += (size_t)b->rows * list[k++].width) {
                at[k] = ours + first + (size_t)row * list[k].width;
                other[k] = theirs + first + (size_t)row * list[k].width;
            }
            if (b->status[row] & CLS_ROW_UNFIT)
                continue; /* the reference has a larger shortlist for infill */
            ck_assert_msg(b->token[row] == h->token && b->status[row] == h->status,
                          "%s: token %d, status %d; the reference: %d, %d", where, b->token[row],
                          b->status[row], h->token, h->status);
            forced += (uint32_t)is_forced;
            if (h->token < 0) {
                expect_no_token(at, list, where);
                continue;
            }
            if (is_forced && no_draw && raw)
                expect_model(b, row, &given[row * GIVEN], at, where);
            for (int k = 0; k < OUTPUTS; k++) {
                if (is_forced && no_draw && raw && k <= GIVEN_RANKS)
                    continue;
                const uint32_t *const expected =
                    is_forced && k <= RANKS ? other[k == LOGPROBS ? GIVEN_LOGPROBS : GIVEN_RANKS]
                                            : other[k];
                for (uint32_t n = 0; n < list[k].width; n++)
                    ck_assert_msg(at[k][n] == expected[n],
                                  "%s: output %d, word %u is 0x%08x; without a forced id 0x%08x",
                                  where, k, n, at[k][n], expected[n]);
            }
        }
        free(ours);
        free(theirs);
        client_close(&s);
        client_close(&t);
        batch_free(b);
        batch_free(plain);
    }
    ck_assert_uint_gt(forced, 0);
}
END_TEST

int main(void)
{
    fixture_random(FEATURES);
    fixture_begin(ON_DEVICES);
    add_device_test(random_rows);
    add_device_test(outputs);
    return fixture_end();
}
