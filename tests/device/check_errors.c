/* SPDX-License-Identifier: MIT */
/* Proves that the library reports failures around it and survives them: kernels that do not
 * compile, no memory at creation, objects of another context, events that end in an error,
 * calls from OpenCL's own threads, and queues that a refused step leaves behind. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client.h"
#include "faulty.h"
#include "layer.h"

static void rest(long ms)
{
    const struct timespec t = {0, ms * 1000000};
    nanosleep(&t, NULL);
}

/* ------------------------------------------------------------------------ creation */

START_TEST(kernels_that_do_not_compile)
{
    device *const d = fixture_device(_i);
    cls_device_info info = {.struct_size = sizeof info};
    cls_context *const good = fixture_context(d, 1u << CLS_F32, 0, 0, 0), *context = good;
    const faulty_live before = faulty_alive();
    char log[4096], small[9];
    cls_head_options h;
    cls_head *head = (cls_head *)&info;
    must(cls_context_info(good, &info));
    cls_context_options o = default_context_options();
    o.shortlist = info.shortlist; /* no smaller ones are tried */
    o.work_group = info.work_group;
    o.row_group = info.row_group;
    o.build_log = log;
    o.build_log_size = sizeof log;
    faulty_options = "-cl-std=CL1.2 -DVEC=4 -DWGS=1 -DLIST=64 -DDTYPE=0 -DSUBGROUPS=0 "
                     "-Duint=undeclared_type";
    const cls_status made = cls_context_create(d->context, d->id, &o, &context);
    o.build_log = small;
    o.build_log_size = sizeof small;
    small[8] = 'x';
    const cls_status again = cls_context_create(d->context, d->id, &o, &context);
    must_fail(made, CLS_BUILD_FAILED, "compile");
    must_fail(again, CLS_BUILD_FAILED, "compile");
    ck_assert(cls_error_opencl() != CL_SUCCESS);
    must_say("-DVEC=");
    ck_assert(context == NULL);
    ck_assert_msg(strstr(log, "undeclared_type") != NULL || strstr(log, "error") != NULL,
                  "%s: the log is \"%s\"", d->name, log);
    ck_assert(strlen(small) == 8 && memcmp(small, log, 8) == 0);
    cls_head_options_init(&h);
    h.vocab = h.hidden = 16;
    h.dtype = CLS_F16;
    h.weight.buffer = buffer_of(d, 16 * 16 * 2, NULL);
    const cls_status of_head = cls_head_create(d->queue, &h, &head);
    char head_said[512];
    snprintf(head_said, sizeof head_said, "%s", cls_error_message());
    const faulty_live so_far = faulty_alive();
    cls_sampler *sampler = (cls_sampler *)&info;
    cls_sampler_options so = sampler_options(100, 1);
    so.dtypes = 1u << CLS_BF16; /* which no other test here compiles */
    const cls_status of_sampler = cls_sampler_create(good, &so, &sampler);
    faulty_options = NULL;
    must_fail(of_sampler, CLS_BUILD_FAILED, "did not compile");
    ck_assert(sampler == NULL && cls_error_opencl() != CL_SUCCESS);
    ck_assert_msg(strlen(cls_context_build_log(good)) > 10, "no log");
    ck_assert_str_eq(faulty_leaked(&so_far), "");
    ck_assert_int_eq(of_head, CLS_BUILD_FAILED);
    ck_assert_msg(strstr(head_said, "compile") != NULL && strstr(head_said, "error") != NULL,
                  "no log: %s", head_said);
    ck_assert(head == NULL);
    clReleaseMemObject(h.weight.buffer);
    ck_assert_str_eq(faulty_leaked(&before), "");
}
END_TEST

START_TEST(no_memory_on_the_device)
{
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    /* programs' proofs need buffers, too */
    must(cls_context_compile(context, 0, CLS_FEATURES_ALL));
    const faulty_live before = faulty_alive();
    cls_sampler *sampler = NULL;
    cls_readback *ring = NULL;
    uint32_t n = 0;
    cls_sampler_options o = sampler_options(100, 1);
    for (;; n++) {
        faulty_arm(FAULTY_clCreateBuffer, n, CL_MEM_OBJECT_ALLOCATION_FAILURE, 0);
        faulty_on = 1;
        const cls_status status = cls_sampler_create(context, &o, &sampler);
        faulty_on = 0;
        if (faulty_failed() == FAULTY_COUNT)
            break;
        must_fail(status, CLS_OPENCL_ERROR, "bytes on the device for ");
        ck_assert(sampler == NULL && cls_error_opencl() == CL_MEM_OBJECT_ALLOCATION_FAILURE);
        ck_assert_str_eq(faulty_leaked(&before), "");
    }
    ck_assert_uint_ge(n, 17);
    cls_sampler_destroy(sampler);
    faulty_arm(FAULTY_clCreateBuffer, 0, CL_MEM_OBJECT_ALLOCATION_FAILURE, 0);
    faulty_on = 1;
    const cls_status status = cls_readback_create(context, 64, 2, &ring);
    faulty_on = 0;
    faulty_disarm();
    must_fail(status, CLS_OPENCL_ERROR, "128 bytes of page-locked memory");
    ck_assert(ring == NULL);
    ck_assert_str_eq(faulty_leaked(&before), "");
}
END_TEST

/* ------------------------------------------------------------- of another context */

START_TEST(strangers)
{
    device *const d = fixture_device(_i);
    client s = small_client(d, 2);
    const cls_step good = s.step;
    const cls_outputs none = s.outputs;
    cl_int code;
    const cl_context other = clCreateContext(NULL, 1, &d->id, NULL, NULL, &code);
    must_cl(code);
    const cl_command_queue queue = clCreateCommandQueue(other, d->id, 0, &code);
    must_cl(code);
    const cl_mem buffer = clCreateBuffer(other, CL_MEM_READ_WRITE, 1 << 16, NULL, &code);
    must_cl(code);
    const cl_event event = user_event(other);
    cls_readback *ring;
    uint64_t ticket;
    const cls_buffer theirs = {.buffer = buffer}, ours = {.buffer = s.step.tokens.buffer};
    const cls_ints drawn = {.device = theirs};
    must_refuse(cls_sample(s.sampler, queue, &s.step, 0, NULL, NULL), "queue");
    must_refuse(accept_ints(s.sampler, queue, 1, 1, &drawn, NULL, 0, NULL, NULL), "queue");
    must_refuse(accept_ints(s.sampler, d->queue, 1, 1, &drawn, NULL, 0, NULL, NULL), "tokens");
#define REFUSE(field, name) \
    do { \
        s.field = buffer; \
        must_refuse(cls_sample(s.sampler, d->queue, &s.step, 0, NULL, NULL), \
                    name " belongs to another"); \
        s.step = good; \
        s.step.outputs = &s.outputs; \
        s.outputs = none; \
    } while (0)
    REFUSE(step.logits.values.buffer, "step->logits.values");
    REFUSE(step.slots.device.buffer, "step->slots");
    REFUSE(step.positions.device.buffer, "step->positions");
    REFUSE(step.draws.device.buffer, "step->draws");
    REFUSE(step.random_bits.buffer, "step->random_bits");
    REFUSE(step.mask.words.buffer, "step->mask.words");
    REFUSE(step.bias.values.buffer, "step->bias.values");
    REFUSE(step.tokens.buffer, "step->tokens");
    REFUSE(step.status.buffer, "step->status");
    REFUSE(outputs.logprobs.buffer, "outputs->logprobs");
    REFUSE(outputs.probs.buffer, "outputs->probs");
    REFUSE(outputs.latest.buffer, "outputs->latest");
    REFUSE(outputs.entropy.buffer, "outputs->entropy");
#undef REFUSE
    must(cls_readback_create(fixture_context(d, 1u << CLS_F32, 0, 0, 0), 8, 1, &ring));
    must_refuse(cls_readback_start(ring, queue, &ours, 8, 0, NULL, &ticket), "queue");
    must_refuse(cls_readback_start(ring, d->queue, &theirs, 8, 0, NULL, &ticket), "from");
    /* An event of theirs: said before anything is enqueued. */
    must_refuse(cls_sample(s.sampler, d->queue, &s.step, 1, &event, NULL),
                "wait[0] belongs to another");
    must_refuse(cls_readback_start(ring, d->queue, &ours, 8, 1, &event, &ticket), "wait[0]");
    /* Nothing of this has moved anything. */
    client_step(&s, d->queue, 0, 0, NULL, NULL);
    client_check(&s, 1, d->name);
    must_cl(clSetUserEventStatus(event, CL_COMPLETE));
    cls_readback_destroy(ring);
    clReleaseEvent(event);
    clReleaseMemObject(buffer);
    clReleaseCommandQueue(queue);
    clReleaseContext(other);
    close_small(&s);
}
END_TEST

/* --------------------------------------------------------------- events in error */

/* An event that has failed before the call: refused, and nothing has happened. */
START_TEST(failed_wait)
{
    device *const d = fixture_device(_i);
    const faulty_live before = faulty_alive();
    client s = small_client(d, 2);
    const cl_event events[2] = {user_event(d->context), user_event(d->context)};
    const cls_ints ids = {.host = (const int32_t[]){1, 2}};
    must_cl(clSetUserEventStatus(events[0], CL_COMPLETE));
    must_cl(clSetUserEventStatus(events[1], -42));
    must_fail(cls_sample(s.sampler, d->queue, &s.step, 2, events, NULL), CLS_OPENCL_ERROR,
              "wait[1] has ended with an error");
    ck_assert_int_eq(cls_error_opencl(), -42);
    must_fail(accept_ints(s.sampler, d->queue, 2, 1, &ids, NULL, 1, &events[1], NULL),
              CLS_OPENCL_ERROR, "wait[0] has ended");
    client_step(&s, d->queue, 0, 1, events, NULL);
    client_check(&s, 1, d->name);
    close_small(&s);
    clReleaseEvent(events[0]);
    clReleaseEvent(events[1]);
    ck_assert_str_eq(faulty_leaked(&before), "");
}
END_TEST

/* A step that ends with an error: the sampler is lost, and the next call says so. Another sampler
 * of the context continues the slots that were saved. Drivers differ too much in what they make of
 * a real one (PoCL 3.1 may abort). */
START_TEST(failed_step)
{
    device *const d = fixture_device(_i);
    const faulty_live before = faulty_alive();
    const cls_ints ids = {.host = (const int32_t[]){1, 2}};
    client s = small_client(d, 2);
    unsigned char saved[2][1 << 12];
    size_t size = 0, sizes[2] = {sizeof saved[0], sizeof saved[1]};
    client_step(&s, d->queue, 0, 0, NULL, NULL);
    client_check(&s, 1, d->name);
    for (uint32_t slot = 0; slot < 2; slot++)
        must(cls_slot_save(s.sampler, d->queue, slot, saved[slot], &sizes[slot]));
    must_cl(clFinish(d->queue));
    faulty_state = -42;
    const cls_status next = cls_sample(s.sampler, d->queue, &s.step, 0, NULL, NULL);
    faulty_state = 0;
    must_fail(next, CLS_LOST, "destroy the sampler");
    ck_assert_int_eq(cls_error_opencl(), -42);
    must_fail(cls_sample(s.sampler, d->queue, &s.step, 0, NULL, NULL), CLS_LOST,
              "destroy the sampler");
    ck_assert_int_eq(cls_error_opencl(), -42);
    must_fail(accept_ints(s.sampler, d->queue, 2, 1, &ids, NULL, 0, NULL, NULL), CLS_LOST,
              "destroy the sampler");
    must_fail(cls_slot_reset(s.sampler, 0), CLS_LOST, "destroy the sampler");
    must_fail(cls_slot_save(s.sampler, d->queue, 0, NULL, &size), CLS_LOST, "destroy the sampler");
    cls_sampler_destroy(s.sampler);
    s.sampler = client_sampler(s.b, fixture_context(d, 1u << CLS_F32, 0, 0, 0));
    for (uint32_t slot = 0; slot < 2; slot++)
        must(cls_slot_load(s.sampler, slot, saved[slot], sizes[slot], NULL));
    client_step(&s, d->queue, 0, 0, NULL, NULL);
    client_check(&s, 1, "after the loss");
    close_small(&s);
    ck_assert_str_eq(faulty_leaked(&before), "");
}
END_TEST

/* --------------------------------------------------------------- OpenCL's threads */

/* What a callback has seen. */
typedef struct witness {
    client *s;
    pthread_t thread; /* the test's: an event that is over has its callback called at once */
    atomic_int calls, wrong, here;
} witness;

/* Calls what may be called by any thread at any time, and no OpenCL; must not use Check. */
static void CL_CALLBACK on_done(cl_event event, cl_int state, void *data)
{
    witness *const w = data;
    batch *const b = w->s->b;
    one_result result = {0};
    cls_host_candidates c;
    const int32_t ids[] = {4, 5};
    const float logits[] = {0.0f, 1.0f};
    int32_t token = -1;
    const one_row row = batch_host_row(b, 0);
    cls_params bad = b->params[0];
    (void)event;
    cls_host_candidates_init(&c);
    c.ids = ids;
    c.logits = logits;
    c.count = 2;
    bad.top_p = 2.0f;
    int wrong = state != CL_COMPLETE;
    wrong |= cls_sampler_check(w->s->sampler, &b->params[0]) != CLS_OK;
    wrong |= cls_sampler_check(w->s->sampler, &bad) != CLS_BAD_ARGUMENT ||
             strstr(cls_error_message(), "top_p") == NULL;
    wrong |= cls_params_check(&b->params[0], b->vocab) != CLS_OK;
    wrong |= one_sample(&row, &result) != CLS_OK || result.token != b->host[0].token;
    wrong |= cls_host_draw(&c, &token) != CLS_OK || (token != 4 && token != 5);
    atomic_fetch_add(&w->wrong, wrong);
    atomic_fetch_add(&w->here, pthread_equal(pthread_self(), w->thread) != 0);
    atomic_fetch_add(&w->calls, 1);
}

START_TEST(callbacks)
{
    enum { STEPS = 20 };
    device *const d = fixture_device(_i);
    client s = small_client(d, 2);
    witness w = {.s = &s, .thread = pthread_self()};
    cl_event done;
    batch_reference(s.b);
    cls_slot_reset(s.sampler, 99);
    for (int i = 0; i < STEPS; i++) {
        must(cls_sample(s.sampler, d->queue, &s.step, 0, NULL, &done));
        must_cl(clSetEventCallback(done, CL_COMPLETE, on_done, &w));
        clReleaseEvent(done);
        must_cl(clFlush(d->queue));
    }
    must_cl(clFinish(d->queue));
    for (int i = 0; i < 500 && atomic_load(&w.calls) < STEPS; i++)
        rest(10);
    ck_assert_int_eq(atomic_load(&w.calls), STEPS);
    ck_assert_int_eq(atomic_load(&w.wrong), 0);
    ck_assert_msg(atomic_load(&w.here) || strstr(cls_error_message(), "slot is 99") != NULL,
                  "another thread's message: %s", cls_error_message());
    close_small(&s);
}
END_TEST

/* ------------------------------------------------------ what a refused call left */

/* The event is not complete before the gate opens. */
static void expect_gated(cl_command_queue queue, cl_event done, cl_event gate)
{
    cl_int state = CL_COMPLETE;
    must_cl(clFlush(queue));
    rest(50);
    must_cl(clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    must_cl(clSetUserEventStatus(
        gate, CL_COMPLETE)); /* before anything fails: else the queue never ends */
    ck_assert_msg(state > CL_COMPLETE, "it does not wait for what the refused call left under way");
    must_cl(clFinish(queue));
}

/* A map is uploaded behind a gate, and the first kernel is refused. The same step
 * on another queue, to which the map is no news, must not go before. */
START_TEST(uploads_of_a_refused_step)
{
    enum { ROWS = 4 };
    static const int32_t order[ROWS] = {2, 0, 3, 1};
    device *const d = fixture_device(_i);
    if (is_oclgrind(d))
        return;
    client s = small_client(d, ROWS);
    const cl_command_queue first = queue_in_order(d), second = queue_in_order(d);
    const cl_event gate = user_event(d->context);
    cl_event done = NULL;
    for (uint32_t slot = 0; slot < ROWS; slot++) {
        const cls_logit_bias bias = {(int32_t)(10 + slot), 1000.0f};
        s.b->params[slot].logit_bias = (cls_biases){&bias, 1};
        must(cls_slot_params(s.sampler, slot, &s.b->params[slot]));
        s.b->params[slot].logit_bias.count = 0;
    }
    client_step(&s, first, 0, 0, NULL, NULL); /* the slots' calls are done */
    s.step.slots.host = order;
    faulty_arm(FAULTY_clEnqueueNDRangeKernel, 0, CL_OUT_OF_RESOURCES, 0);
    faulty_on = 1;
    const cls_status refused = cls_sample(s.sampler, first, &s.step, 1, &gate, &done);
    faulty_on = 0;
    const cls_status again = cls_sample(s.sampler, second, &s.step, 0, NULL, &done);
    if (again != CLS_OK)
        clSetUserEventStatus(gate, CL_COMPLETE);
    ck_assert_int_eq(refused, CLS_OPENCL_ERROR);
    must(again);
    expect_gated(second, done, gate);
    client_tokens(&s, 0);
    for (uint32_t row = 0; row < ROWS; row++)
        ck_assert_int_eq(s.b->token[row], 10 + order[row]);
    faulty_disarm();
    clReleaseEvent(done);
    clReleaseEvent(gate);
    clReleaseCommandQueue(first);
    clReleaseCommandQueue(second);
    close_small(&s);
}
END_TEST

/* The same with a head; and so if not even the refused call's end could be marked. */
START_TEST(uploads_of_a_refused_product)
{
    device *const d = fixture_device(_i);
    const layer_setup wish = {LAYER_F16, 64, 16, 4, 4, 1, 0, 0, 0, 0};
    if (is_oclgrind(d))
        return;
    for (int lasting = 0; lasting < 2; lasting++) {
        rng r = {fixture_seed()};
        layer l;
        int32_t map[4] = {3, 1, 0, 2};
        cl_event done = NULL;
        layer_open(&l, d, &wish, &r);
        const cl_command_queue first = queue_in_order(d), second = queue_in_order(d);
        const cl_event gate = user_event(d->context);
        l.call.which.host = map;
        faulty_arm(FAULTY_clEnqueueNDRangeKernel, 0, CL_OUT_OF_RESOURCES, lasting);
        faulty_on = 1;
        const cls_status refused = cls_head_logits(l.head, first, &l.call, 1, &gate, &done);
        faulty_on = 0;
        const cls_status again = cls_head_logits(l.head, second, &l.call, 0, NULL, &done);
        if (again != CLS_OK)
            clSetUserEventStatus(gate, CL_COMPLETE);
        ck_assert_int_eq(refused, CLS_OPENCL_ERROR);
        must(again);
        expect_gated(second, done, gate);
        l.map = must_malloc(sizeof map);
        memcpy(l.map, map, sizeof map);
        layer_check(&l, "after a refused product");
        faulty_disarm();
        clReleaseEvent(done);
        clReleaseEvent(gate);
        clReleaseCommandQueue(first);
        clReleaseCommandQueue(second);
        layer_close(&l);
    }
}
END_TEST

int main(void)
{
    unsetenv("CLS_TEST_PROGRAMS"); /* a compiled program would not fail to compile */
    fixture_features(CLS_FEATURES_ALL);
    fixture_begin(ON_DEVICES);
    add_device_test(kernels_that_do_not_compile);
    add_device_test(no_memory_on_the_device);
    add_device_test(strangers);
    add_device_test(failed_wait);
    add_device_test(failed_step);
    add_device_test(callbacks);
    add_device_test(uploads_of_a_refused_step);
    add_device_test(uploads_of_a_refused_product);
    return fixture_end();
}
