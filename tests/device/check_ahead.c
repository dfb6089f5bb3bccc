/* SPDX-License-Identifier: MIT */
/* Proves that steps enqueued ahead of the device lose nothing: a staging ring that fills up, masks
 * on the host that change with every step, and results that return through a ring. */
#include <string.h>

#include "fixture.h"
#include "rows/kinds.h"
#include "step/step.h"

enum { VOCAB = 120, MANY = 64 };

static const int32_t prompt[] = {3, 14, 15, 9, 26, 5, 35, 89, 79, 3, 2};

static cls_params params_of(uint32_t i)
{
    cls_params p = default_params();
    p.temperature = i % 3 ? 1.0f : 0.0f;
    p.repetition_penalty = 1.0f + (float)(i % 5) / 4.0f;
    p.frequency_penalty = 0.5f;
    p.penalty_window = i % 4 ? 0 : 6;
    p.seed = i;
    return p;
}

/* A sampler with one slot, whose steps wait for a user event (the gate), and the expected results,
 * which a sampler on the host gives. */
typedef struct gated {
    device *d;
    cls_sampler *sampler, *host;
    cls_context *on_host;
    cls_step step;
    float logits[VOCAB];
    uint32_t mask[(VOCAB + 31) / 32]; /* of the next step; */
    int masked;                       /* 0: there is none */
    int32_t want[MANY];
    uint32_t n;
} gated;

/* The same call on both samplers. */
#define both(g, call) \
    do { \
        cls_sampler *s = (g)->sampler; \
        must(call); \
        s = (g)->host; \
        must(call); \
    } while (0)

static void gated_open(gated *g, device *d)
{
    memset(g, 0, sizeof *g);
    cls_sampler_options o = sampler_options(VOCAB, 1);
    o.max_history = 20;
    o.max_rollback = 4;
    g->d = d;
    must(cls_context_create_host(NULL, &g->on_host));
    must(cls_sampler_create(g->on_host, &o, &g->host));
    must(cls_sampler_create(fixture_context(d, 1u << CLS_F32, 0, 0, 0), &o, &g->sampler));
    row_fill(ROW_COARSE, g->logits, VOCAB, fixture_seed());
    g->step = default_step(1, buffer_of(d, sizeof g->logits, g->logits));
    g->step.tokens.buffer = buffer_of(d, sizeof g->want, NULL);
    const cls_params p = params_of(1);
    both(g, cls_slot_begin(s, 0, &p, TEXT(prompt, 11, NULL, 0)));
}

static cls_buffer on_host(void *at, size_t size)
{
    return (cls_buffer){.pointer = at, .size = size, .kind = CLS_BUFFER_HOST};
}

/* Enqueues the n-th step, which is counted only if the library accepts it. */
static cls_status gated_step(gated *g, cl_uint n_wait, const cl_event *wait)
{
    for (size_t i = 0; i < sizeof g->mask / sizeof *g->mask; i++)
        g->mask[i] = 2654435761u * (g->n + (uint32_t)i + 1);
    g->step.mask.host = g->masked ? g->mask : NULL;
    cls_step step = g->step;
    g->step.tokens.offset = g->n * sizeof(int32_t);
    const cls_status answer = cls_sample(g->sampler, g->d->queue, &g->step, n_wait, wait, NULL);
    if (answer == CLS_OK) {
        step.logits.values = on_host(g->logits, sizeof g->logits);
        step.tokens = on_host(&g->want[g->n++], sizeof *g->want);
        must(cls_sample(g->host, NULL, &step, 0, NULL, NULL));
    }
    memset(g->mask, 0x55, sizeof g->mask); /* a step keeps its own */
    return answer;
}

static void gated_change(gated *g, uint32_t i)
{
    const cls_params p = params_of(i);
    both(g, cls_slot_params(s, 0, &p));
    if (i % 3 == 0 && i % 4 != 2 && g->n > 2)
        both(g, cls_slot_rollback(s, 0, 1));
    if (i % 4 == 1)
        both(g, cls_slot_append_prompt(s, 0, prompt + i % 8, 3));
}

static void gated_close(gated *g)
{
    int32_t tokens[MANY];
    must_cl(clFinish(g->d->queue));
    buffer_read(g->d, g->step.tokens.buffer, sizeof tokens, tokens);
    for (uint32_t i = 0; i < g->n; i++)
        ck_assert_msg(tokens[i] == g->want[i], "%s: step %u of %u: token %d, not %d", g->d->name, i,
                      g->n, tokens[i], g->want[i]);
    cls_sampler_destroy(g->sampler);
    cls_sampler_destroy(g->host);
    cls_context_destroy(g->on_host);
    release_buffers(g->step.logits.values.buffer, g->step.tokens.buffer);
}

/* Each step needs an upload, and none can complete, so the staging ring fills up. Slot calls made
 * before a refused step take effect with the next step. */
START_TEST(full_staging)
{
    device *const d = fixture_device(_i);
    static gated g;
    uint32_t i = 0;
    size_t size = 0;
    if (is_oclgrind(d))
        return;
    const cl_event gate = user_event(d->context);
    gated_open(&g, d);
    cls_status status = gated_step(&g, 1, &gate);
    for (; status == CLS_OK && i < MANY / 2; i++) {
        gated_change(&g, i);
        status = gated_step(&g, 0, NULL);
    }
    const uint32_t accepted = g.n;
    gated_change(&g, i); /* more calls, and still busy */
    const cls_status again = gated_step(&g, 0, NULL);
    const cls_status save = again == CLS_BUSY ? cls_slot_save(g.sampler, d->queue, 0, NULL, &size)
                                              : CLS_OK; /* it waits */
    must_cl(clSetUserEventStatus(
        gate, CL_COMPLETE)); /* before anything fails: else the queue never ends */
    ck_assert_int_eq(status, CLS_BUSY);
    ck_assert_int_eq(again, CLS_BUSY);
    ck_assert_int_eq(save, CLS_BUSY);
    ck_assert_msg(accepted == CLS_STAGING_COUNT, "%u steps before the ring was full", accepted);
    must_cl(clFinish(d->queue));
    must(gated_step(&g, 0, NULL));
    for (uint32_t more = 0; more < 8; more++) {
        gated_change(&g, more);
        must_cl(clFinish(d->queue));
        must(gated_step(&g, 0, NULL));
    }
    gated_close(&g);
    clReleaseEvent(gate);
}
END_TEST

/* Masks fill the ring, too, since each step uploads its own. Steps that upload nothing need no
 * staging: any number may wait. */
START_TEST(without_slot_calls)
{
    device *const d = fixture_device(_i);
    static gated g;
    for (int masked = 0; masked < 2 && !is_oclgrind(d); masked++) {
        const cl_event gate = user_event(d->context);
        gated_open(&g, d);
        g.masked = masked;
        cls_status status = gated_step(&g, 1, &gate);
        while (status == CLS_OK && g.n < MANY)
            status = gated_step(&g, 0, NULL);
        must_cl(clSetUserEventStatus(gate, CL_COMPLETE));
        ck_assert_int_eq(status, masked ? CLS_BUSY : CLS_OK);
        ck_assert_msg(g.n == (masked ? CLS_STAGING_COUNT : MANY), "%u steps", g.n);
        must_cl(clFinish(d->queue));
        if (masked)
            must(gated_step(&g, 0, NULL));
        gated_close(&g);
        clReleaseEvent(gate);
    }
}
END_TEST

/* ------------------------------------------------------------------------ readback */

START_TEST(readback)
{
    enum { DEPTH = 3, READS = 10 };
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    int32_t values[READS][5];
    cls_readback *ring = NULL;
    const void *data = NULL;
    uint64_t ticket;
    for (int i = 0; i < READS; i++)
        for (int j = 0; j < 5; j++)
            values[i][j] = 100 * i + j;
    cls_buffer from = {.buffer = buffer_of(d, sizeof values, values)};
    must(cls_readback_create(context, sizeof values[0], DEPTH, &ring));
    must_refuse(cls_readback_get(ring, 0, 1, &data), "ticket");
    for (uint32_t i = 0; i < READS; i++) {
        from.offset = i * sizeof values[0];
        must(cls_readback_start(ring, d->queue, &from, sizeof values[0] - i % 2 * 4, 0, NULL,
                                &ticket));
        ck_assert_uint_eq(ticket, i);
        must(cls_readback_get(ring, ticket, 1, &data));
        ck_assert(memcmp(data, values[i], sizeof values[0] - i % 2 * 4) == 0);
        for (uint32_t old = 0; old <= i;
             old++) /* the last three results are available, in any order */
            if (old + DEPTH > i) {
                must(cls_readback_get(ring, old, 0, &data));
                ck_assert(memcmp(data, values[old], 16) == 0);
            } else {
                must_refuse(cls_readback_get(ring, old, 1, &data), "ticket");
            }
        must_refuse(cls_readback_get(ring, i + 1, 1, &data), "ticket");
    }
    if (!is_oclgrind(d)) { /* nothing arrives before the gate opens */
        const cl_event gate = user_event(d->context);
        cls_status start[DEPTH + 1], get[DEPTH];
        for (uint32_t i = 0; i < DEPTH; i++) {
            from.offset = i * sizeof values[0];
            start[i] =
                cls_readback_start(ring, d->queue, &from, sizeof values[0], 1, &gate, &ticket);
            get[i] = cls_readback_get(ring, ticket, 0, &data);
        }
        start[DEPTH] = cls_readback_start(ring, d->queue, &from, 4, 0, NULL, &ticket);
        must_cl(clSetUserEventStatus(
            gate, CL_COMPLETE)); /* before anything fails: else the queue never ends */
        for (uint32_t i = 0; i < DEPTH; i++)
            ck_assert(start[i] == CLS_OK && get[i] == CLS_BUSY);
        ck_assert_int_eq(start[DEPTH], CLS_BUSY);
        for (uint32_t i = 0; i < DEPTH; i++) {
            must(cls_readback_get(ring, READS + i, 1, &data));
            ck_assert(memcmp(data, values[i], sizeof values[0]) == 0);
        }
        clReleaseEvent(gate);
    }
    must(cls_readback_start(ring, d->queue, &from, 4, 0, NULL, &ticket));
    cls_readback_destroy(ring); /* with a read in flight */
    clReleaseMemObject(from.buffer);
}
END_TEST

START_TEST(readback_refused)
{
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    cls_readback *ring = NULL;
    const cls_buffer from = {.buffer = buffer_of(d, 64, NULL)}, none = {.buffer = NULL};
    cl_event nothing = NULL;
    const void *data;
    uint64_t ticket;
    must_refuse(cls_readback_create(NULL, 4, 1, &ring), "context");
    ck_assert(ring == NULL);
    must_refuse(cls_readback_create(context, 0, 1, &ring), "size");
    must_refuse(cls_readback_create(context, 4, 0, &ring), "depth");
    must_refuse(cls_readback_create(context, 4, 1, NULL), "out");
    must(cls_readback_create(context, 16, 2, &ring));
    must_refuse(cls_readback_start(NULL, d->queue, &from, 4, 0, NULL, &ticket), "readback");
    must_refuse(cls_readback_start(ring, NULL, &from, 4, 0, NULL, &ticket), "queue");
    must_refuse(cls_readback_start(ring, d->queue, NULL, 4, 0, NULL, &ticket), "from");
    must_refuse(cls_readback_start(ring, d->queue, &none, 4, 0, NULL, &ticket), "from");
    must_refuse(cls_readback_start(ring, d->queue, &from, 0, 0, NULL, &ticket), "size");
    must_refuse(cls_readback_start(ring, d->queue, &from, 17, 0, NULL, &ticket), "size");
    must_refuse(cls_readback_start(ring, d->queue, &from, 4, 1, NULL, &ticket), "wait");
    must_refuse(cls_readback_start(ring, d->queue, &from, 4, 1, &nothing, &ticket), "wait");
    must_refuse(cls_readback_start(ring, d->queue, &from, 4, 0, NULL, NULL), "ticket");
    must(cls_readback_start(ring, d->queue, &from, 4, 0, NULL, &ticket));
    ck_assert_uint_eq(ticket, 0);
    must_refuse(cls_readback_get(NULL, 0, 1, &data), "readback");
    must_refuse(cls_readback_get(ring, 0, 1, NULL), "data");
    must_refuse(cls_readback_get(ring, 1, 1, &data), "ticket");
    must(cls_readback_get(ring, 0, 1, &data));
    cls_readback_destroy(ring);
    cls_readback_destroy(NULL);
    clReleaseMemObject(from.buffer);
}
END_TEST

int main(void)
{
    fixture_random(CLS_FEATURE_ACCEPT | CLS_FEATURE_MASK);
    fixture_begin(ON_DEVICES);
    add_device_test(full_staging);
    add_device_test(without_slot_calls);
    add_device_test(readback);
    add_device_test(readback_refused);
    return fixture_end();
}
