/* SPDX-License-Identifier: MIT */
/* Proves that a token does not depend on what surrounds it: batch, row index, slot, stride,
 * type of logits, shape of the kernels, queue and steps in flight.
 *
 *     check_invariance        eight shapes of kernels
 *     check_invariance all    twenty-two, which PoCL takes minutes to compile */
#include <stdio.h>
#include <string.h>

#include "client.h"

#define ROWS 64

static int all;

/* The rows that the tests permute, with the reference's results. All three types represent their
 * values, and they have every kind of parameters. */
static batch *source(uint32_t vocab)
{
    rng r = {fixture_seed()};
    batch *const b = batch_new(ROWS, vocab, CLS_F32, 0, 0);
    b->history = 100;
    b->forces = 1;
    for (uint32_t row = 0; row < ROWS; row++) {
        batch_row(b, row, row % 4 == 3 ? ROW_EQUAL : ROW_COARSE, rng_bits(&r));
        params_random(&b->params[row], vocab, &r);
    }
    batch_requests(b, &r);
    batch_reference(b);
    return b;
}

static uint32_t vocab_here(void) { return fixture_by_size(70, 2500, 5000); }

static void run_and_free(batch *b, device *d, cls_context *context, const char *what)
{
    if (context != NULL) {
        batch_run(b, d, context, 0);
        batch_equal(b, what);
    }
    batch_free(b);
}

START_TEST(batches_places_strides_types)
{
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 0, 0, 0, 0);
    batch *const b = source(vocab_here());
    uint32_t order[ROWS];
    rng r = {fixture_seed() + 1};
    for (uint32_t i = 0; i < ROWS; i++)
        order[i] = i;
    for (uint32_t i = ROWS - 1; i > 0; i--) {
        const uint32_t j = rng_below(&r, i + 1), was = order[i];
        order[i] = order[j];
        order[j] = was;
    }
    for (uint32_t i = 0; i < fixture_by_size(2, 16, 64); i++)
        run_and_free(batch_pick(b, 1, &order[i], CLS_F32, 0, 0), d, context, "batch of 1");
    run_and_free(batch_pick(b, 7, order, CLS_F32, 0, 0), d, context, "batch of 7");
    run_and_free(batch_pick(b, 7, NULL, CLS_F16, b->vocab + 1, 2), d, context, "f16");
    run_and_free(batch_pick(b, 7, NULL, CLS_BF16, b->vocab + 13, 6), d, context, "bf16");
    run_and_free(batch_pick(b, ROWS, NULL, CLS_F32, 0, 0), d, context, "batch of 64");
    if (fixture_size() != TEST_TINY) {
        run_and_free(batch_pick(b, ROWS, order, CLS_F32, 0, 0), d, context, "rows permuted");
        run_and_free(batch_pick(b, ROWS, order, CLS_F32, b->vocab + 96, 64), d, context,
                     "stride and offset");
        run_and_free(batch_pick(b, ROWS, NULL, CLS_F16, 0, 0), d, context, "64 rows of f16");
        run_and_free(batch_pick(b, ROWS, NULL, CLS_BF16, 0, 0), d, context, "64 rows of bf16");
        batch *const c = batch_pick(b, ROWS, NULL, CLS_F32, 0, 0);
        c->slots = must_malloc(sizeof(int32_t) * ROWS);
        for (uint32_t i = 0; i < ROWS; i++)
            c->slots[i] = (int32_t)order[i];
        run_and_free(c, d, context, "slots permuted");
    }
    batch_free(b);
}
END_TEST

START_TEST(shapes)
{
    static const uint32_t shape[][3] = {
        {1, 0, 0},   {12, 4, 16},     {7, 0, 0},    {0, 8, 64},   {64, 4, 0},
        {0, 16, 0},  {256, 16, 2048}, {3, 2, 16}, /* and all: */
        {16, 2, 64}, {32, 8, 0},      {256, 4, 0},  {0, 2, 0},    {0, 4, 0},
        {0, 8, 0},   {0, 0, 16},      {0, 0, 32},   {0, 0, 64},   {0, 0, 128},
        {0, 0, 256}, {0, 0, 512},     {0, 0, 1024}, {0, 0, 2048},
    };
    device *const d = fixture_device(_i);
    batch *const b = source(vocab_here());
    const uint32_t rows = fixture_by_size(8, ROWS, ROWS),
                   types = fixture_size() == TEST_FULL ? 2u : 1u;
    for (uint32_t i = 0; i < (all ? sizeof shape / sizeof *shape : fixture_by_size(5, 8, 8)); i++)
        for (uint32_t type = 0; type < types; type++) {
            char what[80];
            snprintf(what, sizeof what, "work-group %u, vector %u, shortlist %u", shape[i][0],
                     shape[i][1], shape[i][2]);
            /* one type a context: it compiles in a third of the time */
            const int dtype = (int)(type ? 1 + i % 2 : 0);
            if (type && i % 4)
                continue;
            cls_context *const context =
                fixture_context(d, 1u << dtype, shape[i][0], shape[i][1], shape[i][2]);
            ck_assert_msg(context != NULL || i > 1, "%s: every device can have %s", d->name, what);
            run_and_free(batch_pick(b, rows, NULL, dtype, b->vocab + i, 0), d, context, what);
        }
    batch_free(b);
}
END_TEST

/* Enqueues steps on one or two queues without waiting, each after the event of the previous step or
 * without an event; then compares all results. */
static void steps_ahead(device *d, batch *b, cl_command_queue first, cl_command_queue second,
                        int chained, const char *what)
{
    enum { STEPS = 16 };
    client s;
    cl_event done[STEPS];
    char where[200];
    client_open(&s, b, d, fixture_context(d, 0, 0, 0, 0), STEPS);
    for (uint32_t i = 0; i < STEPS; i++) {
        client_step(&s, i % 2 ? second : first, i, chained && i ? 1 : 0,
                    chained && i ? &done[i - 1] : NULL, &done[i]);
        must_cl(clFlush(i % 2 ? second : first));
    }
    must_cl(clWaitForEvents(1, &done[STEPS - 1]));
    for (uint32_t i = 0; i < STEPS; i++)
        clReleaseEvent(done[i]);
    snprintf(where, sizeof where, "%s, %s", d->name, what);
    client_check(&s, STEPS, where);
    client_close(&s);
}

START_TEST(queues)
{
    device *const d = fixture_device(_i);
    if (is_oclgrind(d))
        return;
    batch *const whole = source(vocab_here());
    batch *const b = batch_pick(whole, 8, NULL, CLS_F32, 0, 0);
    batch_free(whole);
    steps_ahead(d, b, d->queue, d->queue, 0, "in order");
    cl_command_queue other = queue_in_order(d);
    steps_ahead(d, b, d->queue, other, 0, "two queues");
    clReleaseCommandQueue(other);
    other = queue_out_of_order(d);
    if (other != NULL) {
        steps_ahead(d, b, other, other, 0, "out of order");
        steps_ahead(d, b, other, other, 1, "out of order, by events");
        clReleaseCommandQueue(other);
    } else {
        printf("%s: no out-of-order queue\n", d->name);
    }
    batch_free(b);
}
END_TEST

int main(int argc, char **argv)
{
    all = argc > 1 && strcmp(argv[1], "all") == 0;
    fixture_random(CLS_FEATURE_FORCED);
    fixture_begin(ON_DEVICES);
    add_device_test(batches_places_strides_types);
    add_device_test(shapes);
    add_device_test(queues);
    return fixture_end();
}
