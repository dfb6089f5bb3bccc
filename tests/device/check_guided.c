/* SPDX-License-Identifier: MIT */
/* Proves that masks on the host may change with every step: a step keeps its own until it has run,
 * and is refused as busy where there is no room for one more; and when the room is taken. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "client.h"

enum { RING = 100, RING_ROWS = 4 };

/* Fills a batch's masks, each of which allows half of the tokens. */
static void fill(batch *b, size_t size, rng *r)
{
    unsigned char *const bytes = b->mask;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(b->mask_kind == CLS_MASK_PACKED ? rng_below(r, 256)
                                   : rng_below(r, 2)               ? 1 + rng_below(r, 255)
                                                                   : 0);
}

/* Masks that change with every step, in one array of the host's. */
typedef struct ring {
    client s;
    batch *b;
    unsigned char *kept[RING]; /* what they were */
    unsigned char *array;
    size_t size;
    uint32_t n;
    rng r;
} ring;

static void ring_open(ring *g, device *d, int kind)
{
    memset(g, 0, sizeof *g);
    g->r.state = fixture_seed() + 71;
    g->b = batch_new(RING_ROWS, 1500, CLS_F32, 0, 0);
    for (uint32_t row = 0; row < RING_ROWS; row++) {
        batch_row(g->b, row, ROW_NORMAL1, row);
        g->b->params[row].top_k = row % 2 ? 40 : 0;
        g->b->params[row].frequency_penalty = row == 3 ? 1.0f : 0.0f;
    }
    g->b->mask_kind = kind;
    batch_mask(g->b, &g->r, 50, 0);
    g->size = (size_t)RING_ROWS * g->b->mask_width * (kind == CLS_MASK_PACKED ? 4 : 1);
    client_open(&g->s, g->b, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), RING);
    clReleaseMemObject(g->s.step.mask.words.buffer);
    g->s.step.mask.words.buffer = NULL;
    g->array = must_malloc(g->size);
    g->s.step.mask.host = g->array;
}

/* The n-th step; its masks are overwritten when the call returns. */
static cls_status ring_step(ring *g, cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    cls_step *const step = &g->s.step;
    fill(g->b, g->size, &g->r);
    memcpy(g->array, g->b->mask, g->size);
    step->tokens.offset = step->status.offset = (uint64_t)g->n * RING_ROWS * sizeof(int32_t);
    const cls_status status = cls_sample(g->s.sampler, g->s.d->queue, step, n_wait, wait, done);
    if (status == CLS_OK) {
        g->kept[g->n] = must_malloc(g->size);
        memcpy(g->kept[g->n++], g->array, g->size);
    }
    memset(g->array, (int)rng_below(&g->r, 256), g->size);
    return status;
}

static void ring_close(ring *g)
{
    must_cl(clFinish(g->s.d->queue));
    for (uint32_t i = 0; i < g->n; i++) {
        memcpy(g->b->mask, g->kept[i], g->size);
        free(g->kept[i]);
        batch_reference(g->b);
        client_tokens(&g->s, i);
        for (uint32_t row = 0; row < RING_ROWS; row++) {
            ck_assert_msg(g->b->token[row] == g->b->host[row].token &&
                              g->b->status[row] == g->b->host[row].status,
                          "%s: step %u of %u, row %u: token %d, not %d", g->s.d->name, i, g->n, row,
                          g->b->token[row], g->b->host[row].token);
            batch_accept(g->b, row);
        }
    }
    client_close(&g->s);
    batch_free(g->b);
    free(g->array);
}

START_TEST(changing_masks)
{
    device *const d = fixture_device(_i);
    for (int kind = CLS_MASK_PACKED; kind <= CLS_MASK_BOOL; kind++) {
        cl_event done[RING];
        uint32_t busy = 0, oldest = 0;
        ring g;
        ring_open(&g, d, kind);
        while (g.n < fixture_by_size(10, RING, RING)) {
            const uint32_t n = g.n;
            const cls_status status = ring_step(&g, 0, NULL, &done[n]);
            ck_assert(status == CLS_OK || status == CLS_BUSY);
            if (status == CLS_BUSY) { /* as many under way as there is staging for */
                ck_assert(oldest < n);
                must_cl(clWaitForEvents(1, &done[oldest++]));
                busy++;
            }
        }
        printf("%s: %u steps with masks of their own, %u times busy\n", d->name, g.n, busy);
        for (uint32_t i = 0; i < g.n; i++)
            clReleaseEvent(done[i]);
        ring_close(&g);
    }
}
END_TEST

/* No step begins before all steps are enqueued. */
START_TEST(gated_masks)
{
    device *const d = fixture_device(_i);
    ring g;
    if (is_oclgrind(d))
        return;
    const cl_event gate = user_event(d->context);
    ring_open(&g, d, CLS_MASK_PACKED);
    cls_status status = ring_step(&g, 1, &gate, NULL);
    while (status == CLS_OK && g.n < RING)
        status = ring_step(&g, 0, NULL, NULL);
    must_cl(clSetUserEventStatus(gate, CL_COMPLETE));
    ck_assert_int_eq(status, CLS_BUSY);
    ck_assert_msg(g.n == CLS_STAGING_COUNT, "%u steps before the ring was full", g.n);
    must_cl(clFinish(d->queue));
    must(ring_step(&g, 0, NULL, NULL));
    ring_close(&g);
    clReleaseEvent(gate);
}
END_TEST

/* Masks on the host take memory when they are first used, or when the sampler is created. */
START_TEST(room_for_host_masks)
{
    enum { VOCAB = 3200, ROWS_HERE = 2 };
    device *const d = fixture_device(_i);
    static uint32_t mask[ROWS_HERE * VOCAB / 32];
    for (int large = 0; large < 2; large++) {
        cls_memory before = {.struct_size = sizeof before}, after = before;
        cls_sampler_options o = sampler_options(VOCAB, ROWS_HERE);
        o.features = CLS_FEATURE_MASK;
        o.host_mask_size = large ? sizeof mask : 0;
        bench b = bench_open(d, &o, NULL);
        cls_params p = default_params();
        for (uint32_t row = 0; row < ROWS_HERE; row++)
            must(cls_slot_begin(b.sampler, row, &p, NULL, 0, NULL, 0));
        b.step.mask.host = mask;
        must(cls_sampler_memory(b.sampler, &before));
        for (uint32_t i = 0; i < 40; i++) { /* more than there are in flight */
            memset(mask, 0, sizeof mask);
            mask[i] = mask[VOCAB / 32 + i] = 1u << (i % 32);
            bench_step(&b);
            ck_assert(b.token[0] == (int32_t)(i * 32 + i % 32) && b.token[1] == b.token[0]);
        }
        must(cls_sampler_memory(b.sampler, &after));
        ck_assert((after.host == before.host) == large &&
                  (after.changes == before.changes) == large);
        bench_close(&b);
    }
}
END_TEST

int main(void)
{
    fixture_random(CLS_FEATURE_MASK | CLS_FEATURE_BIAS);
    fixture_begin(ON_DEVICES);
    add_device_test(room_for_host_masks);
    add_device_test(changing_masks);
    add_device_test(gated_masks);
    return fixture_end();
}
