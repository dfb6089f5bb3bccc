/* SPDX-License-Identifier: MIT */
/* Proves that no call waits for a step on a queue that nobody flushes: commands of one queue may
 * stay there for ever, and each call that waits is made on another one. The OpenCL is a stub that
 * runs commands only when their queue is flushed (stub_cl.h). */
#include "fixture.h"
#include "sampler/sampler.h"
#include "shard/shard.h"
#include "stub_cl.h"

enum { VOCAB = 3000, ROWS = 2 };

typedef struct bench {
    device *d;
    cl_command_queue other; /* which the test never flushes */
    cls_sampler *sampler;
    cls_shard *shard; /* the only one */
    cls_step step;
    cls_outputs outputs;
} bench;

static bench open_bench(device *d, cl_command_queue_properties properties)
{
    bench b = {.d = d};
    cl_int code;
    stub_lazy = 0;
    b.other = clCreateCommandQueue(d->context, d->id, properties, &code);
    must_cl(code);
    cls_sampler_options o = sampler_options(VOCAB, ROWS);
    must(cls_sampler_create(fixture_context(d, 1u << CLS_F32, 0, 0, 0), &o, &b.sampler));
    must(cls_shard_create(b.sampler, NULL, &b.shard));
    cls_params p = default_params();
    p.top_k = 5;
    for (uint32_t slot = 0; slot < ROWS; slot++)
        must(cls_slot_begin(b.sampler, slot, &p, NULL));
    b.step = default_step(ROWS, buffer_of(d, sizeof(float) * ROWS * VOCAB, NULL));
    b.step.tokens.buffer = buffer_of(d, sizeof(int32_t) * ROWS, NULL);
    cls_outputs_init(&b.outputs);
    b.outputs.logprobs.buffer = buffer_of(d, sizeof(float) * ROWS, NULL);
    stub_lazy = 1;
    return b;
}

static void close_bench(bench *b)
{
    cls_shard_destroy(b->shard);
    cls_sampler_destroy(b->sampler);
    release_buffers(b->step.logits.values.buffer, b->step.tokens.buffer,
                    b->outputs.logprobs.buffer);
    clReleaseCommandQueue(b->other);
    stub_lazy = 0;
}

/* Enqueues a step on the other queue, which a next call must wait for. */
static void step_elsewhere(bench *b)
{
    must(cls_sample(b->sampler, b->other, &b->step, 0, NULL, NULL));
}

/* Brings the open step of the only shard to its end. Returns the number of exchanges. */
static int merge(bench *b, enum cls_protocol protocol)
{
    int more = 1, exchanges = 0;
    ck_assert_int_eq(b->shard->protocol, protocol);
    for (; more; exchanges++) {
        const void *partial;
        size_t size;
        must(cls_shard_partial(b->shard, &partial, &size));
        must(cls_shard_merge(b->shard, partial, size, &more, NULL));
    }
    return exchanges;
}

static void gathers(bench *b)
{
    step_elsewhere(b);
    must(cls_shard_gather(b->shard, b->d->queue, ROWS, &b->step.logits, 0, NULL));
    merge(b, CLS_PROTOCOL_LOGITS);
}

static void exchanges_logits(bench *b)
{
    cls_step step = b->step;
    step_elsewhere(b);
    step.outputs = &b->outputs; /* the raw log-probabilities: of the whole row */
    must(cls_shard_sample(b->shard, b->d->queue, &step, 0, NULL));
    merge(b, CLS_PROTOCOL_LOGITS);
}

static void exchanges_rows(bench *b)
{
    step_elsewhere(b);
    must(cls_shard_sample(b->shard, b->d->queue, &b->step, 0, NULL));
    merge(b, CLS_PROTOCOL_ROWS);
}

static void merges_all(bench *b)
{
    step_elsewhere(b);
    must(cls_shard_sample(b->shard, b->d->queue, &b->step, 0, NULL));
    must(cls_shard_merge_all(&b->shard, 1, NULL));
}

static void abandons(bench *b)
{
    step_elsewhere(b);
    must(cls_shard_gather(b->shard, b->d->queue, ROWS, &b->step.logits, 0, NULL));
    must(cls_shard_abandon(b->shard));
}

static void saves(bench *b)
{
    unsigned char bytes[1 << 16];
    size_t size = sizeof bytes;
    step_elsewhere(b);
    /* The stub keeps no slots. */
    ck_assert_int_ne(cls_slot_save(b->sampler, b->d->queue, 0, bytes, &size), CLS_OPENCL_ERROR);
}

static void traces(bench *b)
{
    cls_row rows[ROWS];
    step_elsewhere(b);
    must(cls_sampler_trace(b->sampler, b->d->queue, rows, ROWS));
}

static void reads(bench *b)
{
    cls_readback *ring;
    const void *data;
    uint64_t ticket;
    must(cls_readback_create(b->sampler->context, sizeof(int32_t) * ROWS, 1, &ring));
    step_elsewhere(b);
    must(cls_readback_start(ring, b->other, &b->step.tokens, sizeof(int32_t) * ROWS, 0, NULL,
                            &ticket));
    must(cls_readback_get(ring, ticket, 1, &data));
    step_elsewhere(b);
    must(cls_readback_start(ring, b->other, &b->step.tokens, sizeof(int32_t) * ROWS, 0, NULL,
                            &ticket));
    cls_readback_destroy(ring);
}

static void ends(bench *b) { step_elsewhere(b); } /* the shard and the sampler are destroyed */

static void (*const calls[])(bench *) = {
    gathers, exchanges_logits, exchanges_rows, merges_all, abandons, saves, traces, reads, ends};
enum { CALLS = sizeof calls / sizeof *calls };

START_TEST(waits)
{
    for (int ordered = 0; ordered < 2; ordered++) {
        bench b =
            open_bench(fixture_device(0), ordered ? 0 : CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
        calls[_i](&b);
        close_bench(&b);
    }
}
END_TEST

/* A step waits for the one before it on another queue, also where both are in order: when it has
 * ended, so has that one, which nobody but the library has flushed. */
START_TEST(steps_follow)
{
    bench b = open_bench(fixture_device(0), 0);
    cl_event first, second;
    cl_int state = CL_QUEUED;
    must(cls_sample(b.sampler, b.other, &b.step, 0, NULL, &first));
    must(cls_sample(b.sampler, b.d->queue, &b.step, 0, NULL, &second));
    must_cl(clFlush(b.d->queue));
    must_cl(clWaitForEvents(1, &second));
    must_cl(clGetEventInfo(first, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    ck_assert_int_eq(state, CL_COMPLETE);
    clReleaseEvent(first);
    clReleaseEvent(second);
    close_bench(&b);
}
END_TEST

int main(void)
{
    fixture_features(CLS_FEATURES_ALL);
    cls_test_proofs_compare_nothing = 1; /* this OpenCL computes nothing */
    fixture_begin(ON_DEVICES);
    add_loop_test(waits, CALLS);
    add_test(steps_follow);
    return fixture_end();
}
