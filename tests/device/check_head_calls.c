/* SPDX-License-Identifier: MIT */
/* Proves the LM head's use of queues, events and staging memory, and what its calls refuse. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "head/head.h"
#include "layer.h"

/* -------------------------------------------------------------------- queues */

/* Calls with different maps, one after another without waiting. Each call's logits are copied after
 * it. The calls use one queue or two alternately, in order or out of order. */
static void run_ahead(device *d, layer_product product, cl_command_queue a, cl_command_queue b,
                      const char *where)
{
    enum { CALLS = 9, ROWS = 5, VOCAB = 300, HIDDEN = 40 };
    const size_t size = (size_t)ROWS * VOCAB * sizeof(float);
    rng r = {fixture_seed() + 20};
    const layer_setup w = {product, VOCAB, HIDDEN, ROWS, ROWS, 1, 1, 1, 0, 0};
    int32_t maps[CALLS][ROWS];
    cl_event copied = NULL;
    layer l;
    layer_open(&l, d, &w, &r);
    cl_mem copies = buffer_of(d, CALLS * size, NULL);
    for (uint32_t i = 0; i < CALLS; i++) {
        cl_command_queue queue = i % 2 ? b : a;
        cl_event done = NULL;
        for (uint32_t k = 0; k < ROWS; k++)
            maps[i][k] = (int32_t)rng_below(&r, ROWS + 1) - 1;
        int32_t map[ROWS]; /* host maps are copied by the call */
        memcpy(map, maps[i], sizeof map);
        l.call.which.host = map;
        must(cls_head_logits(l.head, queue, &l.call, copied != NULL,
                             copied != NULL ? &copied : NULL, &done));
        memset(map, 0x7f, sizeof map);
        ck_assert(done != NULL);
        if (copied != NULL)
            clReleaseEvent(copied);
        must_cl(clFlush(queue)); /* the next call may wait for it on the other queue */
        must_cl(clEnqueueCopyBuffer(queue, l.logits_buffer, copies, LAYER_MARGIN * sizeof(float),
                                    i * size, size, 1, &done, &copied));
        must_cl(clFlush(queue));
        clReleaseEvent(done);
    }
    must_cl(clFinish(a));
    must_cl(clFinish(b));
    clReleaseEvent(copied);
    l.map = must_malloc(sizeof maps[0]);
    float *const got = must_malloc(CALLS * size);
    buffer_read(d, copies, CALLS * size, got);
    for (uint32_t i = 0; i < CALLS; i++) {
        memcpy(l.map, maps[i], sizeof maps[i]);
        buffer_write(d, l.logits_buffer, LAYER_MARGIN * sizeof(float), size,
                     got + i * size / sizeof *got);
        layer_check(&l, where);
    }
    free(got);
    clReleaseMemObject(copies);
    layer_close(&l);
}

START_TEST(queues)
{
    device *const d = fixture_device(_i);
    cl_command_queue second = queue_in_order(d), loose = queue_out_of_order(d);
    for (layer_product product = 0; product < LAYER_PRODUCTS; product++) {
        if (!layer_is_supported(d, product, TEST_SMALL))
            continue;
        run_ahead(d, product, d->queue, d->queue, "one queue");
        run_ahead(d, product, d->queue, second, "two queues");
        if (loose != NULL) {
            run_ahead(d, product, loose, loose, "out of order");
            run_ahead(d, product, loose, d->queue, "in and out of order");
        }
    }
    if (loose == NULL)
        printf("%s: no out-of-order queue\n", d->name);
    else
        clReleaseCommandQueue(loose);
    clReleaseCommandQueue(second);
}
END_TEST

static int complete(cl_event event)
{
    cl_int state;
    must_cl(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    return state == CL_COMPLETE;
}

/* A call runs after its events. The head's next call runs after it, even on another queue and
 * without an event. */
static void run_behind_gate(device *d, cl_command_queue queue, cl_command_queue other)
{
    enum { VOCAB = 50, ROWS = 2 };
    rng r = {fixture_seed() + 21};
    const layer_setup w = {LAYER_F16, VOCAB, 20, ROWS, ROWS, 1, 0, 0, 0, 0};
    int32_t maps[2][ROWS] = {{0, 1}, {1, 0}};
    cl_event done[2] = {NULL, NULL};
    layer l;
    layer_open(&l, d, &w, &r);
    cl_mem logits[2] = {l.logits_buffer, buffer_of(d, l.logits_size, l.logits)};
    const cl_event gate = user_event(d->context);
    l.call.which.host = maps[0];
    const cls_status first = cls_head_logits(l.head, queue, &l.call, 1, &gate, &done[0]);
    clFlush(queue);
    l.call.which.host = maps[1];
    l.call.logits.buffer = logits[1];
    const cls_status second = cls_head_logits(l.head, other, &l.call, 0, NULL, &done[1]);
    clFlush(other);
    nanosleep(&(struct timespec){.tv_nsec = 50000000},
              NULL); /* what does not wait has run by then */
    const int early = first == CLS_OK && complete(done[0]),
              early_too = second == CLS_OK && complete(done[1]);
    must_cl(clSetUserEventStatus(
        gate, CL_COMPLETE)); /* before anything fails: else the queue never ends */
    must(first);
    must(second);
    must_cl(clWaitForEvents(2, done)); /* clFinish() of rusticl 22.3 does not wait behind a gate */
    ck_assert_msg(!early, "%s: a call did not wait for its event", d->name);
    ck_assert_msg(!early_too, "%s: a call did not wait for the head's call before it", d->name);
    for (int i = 0; i < 2; i++) {
        l.map = maps[i];
        l.logits_buffer = logits[i];
        layer_check(&l, "behind a gate");
        clReleaseEvent(done[i]);
    }
    l.map = NULL;
    clReleaseMemObject(logits[0]);
    clReleaseEvent(gate);
    layer_close(&l);
}

START_TEST(waits)
{
    device *const d = fixture_device(_i);
    cl_command_queue ordered = queue_in_order(d), loose = queue_out_of_order(d);
    if (!is_oclgrind(d)) {
        run_behind_gate(d, ordered, ordered);
        run_behind_gate(d, ordered, d->queue);
        if (loose != NULL) {
            run_behind_gate(d, loose, loose);
            run_behind_gate(d, loose, ordered);
        }
    }
    if (loose != NULL)
        clReleaseCommandQueue(loose);
    clReleaseCommandQueue(ordered);
}
END_TEST

/* More maps in flight than staging memory holds; no result is lost. */
START_TEST(busy)
{
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 22};
    const layer_setup w = {LAYER_F16, 50, 20, 2, 2, 1, 0, 0, 0, 0};
    int32_t map[2] = {0, 0};
    cls_status status = CLS_OK;
    int calls;
    layer l;
    if (is_oclgrind(d))
        return;
    layer_open(&l, d, &w, &r);
    const cl_event gate = user_event(d->context);
    must_cl(clEnqueueBarrierWithWaitList(d->queue, 1, &gate, NULL));
    l.call.which.host = map;
    for (calls = 0; calls < 100 && status == CLS_OK; calls++) {
        map[0] = calls % 2;
        status = cls_head_logits(l.head, d->queue, &l.call, 0, NULL, NULL);
    }
    const int said = strstr(cls_error_message(), "in flight") != NULL;
    l.call.which.host = NULL; /* no map: never busy */
    cl_event done;
    const cls_status without = cls_head_logits(l.head, d->queue, &l.call, 0, NULL, &done);
    must_cl(clSetUserEventStatus(gate, CL_COMPLETE));
    clReleaseEvent(gate);
    ck_assert_msg(status == CLS_BUSY && said && calls > 8, "%s after %d calls",
                  cls_status_name(status), calls);
    must(without);
    must_end(done);
    layer_check(&l, "without a map");
    l.call.which.host = map;
    layer_run(&l, d->queue);
    l.map = map;
    layer_check(&l, "after CLS_BUSY");
    l.map = NULL;
    layer_close(&l);
}
END_TEST

/* ------------------------------------------------------------------- refused */

#define BAD_OPTION(field, value, word) \
    do { \
        head = l.head; \
        must_refuse_with(l.options, field, value, cls_head_create(d->queue, &l.options, &head), \
                         word); \
        ck_assert_ptr_null(head); \
    } while (0)
#define BAD_CALL(field, value, word) \
    do { \
        cl_event done = (cl_event)&l; \
        must_refuse_with(l.call, field, value, \
                         cls_head_logits(l.head, d->queue, &l.call, 0, NULL, &done), word); \
        ck_assert_ptr_null(done); \
    } while (0)

START_TEST(refused)
{
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 30};
    const layer_setup w = {LAYER_F16, 50, 20, 4, 3, 1, 1, 0, 0, 0};
    const int32_t too_far[] = {0, 1, 3}, too_low[] = {0, -2, 1}, good_map[] = {2, -1, 0};
    cls_head *head = NULL;
    cl_int code;
    layer l;
    layer_open(&l, d, &w, &r);
    BAD_OPTION(struct_size, 0, "options->struct_size");
    BAD_OPTION(vocab, 0, "options->vocab");
    BAD_OPTION(vocab, (1u << 20) + 1, "options->vocab");
    BAD_OPTION(vocab, 52, "options->weight");
    BAD_OPTION(hidden, 0, "options->hidden");
    BAD_OPTION(hidden, 65537, "options->hidden");
    BAD_OPTION(max_rows, 0, "options->max_rows");
    BAD_OPTION(max_rows, 65536, "options->max_rows");
    BAD_OPTION(dtype, CLS_BF16, "options->dtype");
    BAD_OPTION(dtype, -1, "options->dtype");
    BAD_OPTION(weight.buffer, NULL, "options->weight.buffer");
    BAD_OPTION(weight.offset, 1, "options->weight: offset");
    BAD_OPTION(weight.offset, 18, "options->weight");
    BAD_OPTION(weight_stride, 19, "options->weight_stride");
    BAD_OPTION(weight_stride, UINT64_MAX / 4, "options->weight");
    BAD_OPTION(bias.offset, 2, "options->bias: offset");
    BAD_OPTION(bias.offset, 36, "options->bias");
    BAD_OPTION(scale, NAN, "options->scale");
    BAD_OPTION(scale, INFINITY, "options->scale");
    BAD_OPTION(softcap, -1.0f, "options->softcap");
    BAD_OPTION(softcap, NAN, "options->softcap");
    BAD_OPTION(softcap, INFINITY, "options->softcap");
    ck_assert_int_eq(cls_head_create(d->queue, &l.options, NULL), CLS_BAD_ARGUMENT);
    ck_assert_int_eq(cls_head_create(NULL, &l.options, &head), CLS_BAD_ARGUMENT);
    ck_assert_int_eq(cls_head_create(d->queue, NULL, &head), CLS_BAD_ARGUMENT);

    BAD_CALL(struct_size, 0, "call->struct_size");
    BAD_CALL(rows, 0, "call->rows");
    BAD_CALL(rows, 5, "call->rows");
    BAD_CALL(hidden_rows, 2, "call->hidden_rows");
    BAD_CALL(hidden_rows, 4, "call->hidden");
    BAD_CALL(hidden.buffer, NULL, "call->hidden.buffer");
    BAD_CALL(hidden.offset, 3, "call->hidden: offset");
    BAD_CALL(hidden_stride, 19, "call->hidden_stride");
    BAD_CALL(hidden_stride, UINT64_MAX, "call->hidden");
    BAD_CALL(logits.buffer, NULL, "call->logits.buffer");
    BAD_CALL(logits.offset, 2, "call->logits: offset");
    BAD_CALL(logits.offset, 4 * (2 * LAYER_MARGIN + 1), "call->logits");
    BAD_CALL(which.host, too_far, "call->which.host[2]");
    BAD_CALL(which.host, too_low, "call->which.host[1]");
    l.call.which.host = good_map;
    BAD_CALL(which.device.buffer, l.hidden_buffer, "call->which");
    l.call.which.host = NULL;
    l.call.which.device.buffer = l.hidden_buffer;
    BAD_CALL(which.device.offset, 6, "call->which.device");
    BAD_CALL(which.device.offset, 1u << 30, "call->which.device");
    l.call.which.device.buffer = NULL;
    cl_event none = NULL;
    ck_assert_int_eq(cls_head_logits(NULL, d->queue, &l.call, 0, NULL, NULL), CLS_BAD_ARGUMENT);
    ck_assert_int_eq(cls_head_logits(l.head, NULL, &l.call, 0, NULL, NULL), CLS_BAD_ARGUMENT);
    ck_assert_int_eq(cls_head_logits(l.head, d->queue, NULL, 0, NULL, NULL), CLS_BAD_ARGUMENT);
    ck_assert_int_eq(cls_head_logits(l.head, d->queue, &l.call, 1, NULL, NULL), CLS_BAD_ARGUMENT);
    ck_assert_int_eq(cls_head_logits(l.head, d->queue, &l.call, 1, &none, NULL), CLS_BAD_ARGUMENT);

    /* Another OpenCL context. */
    cl_context other = clCreateContext(NULL, 1, &d->id, NULL, NULL, &code);
    must_cl(code);
    cl_command_queue queue = clCreateCommandQueue(other, d->id, 0, &code);
    must_cl(code);
    cl_mem foreign = clCreateBuffer(other, CL_MEM_READ_WRITE, 1 << 20, NULL, &code);
    must_cl(code);
    BAD_OPTION(weight.buffer, foreign, "options->weight");
    BAD_OPTION(bias.buffer, foreign, "options->bias");
    BAD_CALL(hidden.buffer, foreign, "call->hidden");
    BAD_CALL(logits.buffer, foreign, "call->logits");
    ck_assert_int_eq(cls_head_logits(l.head, queue, &l.call, 0, NULL, NULL), CLS_BAD_ARGUMENT);
    ck_assert_int_eq(cls_head_create(queue, &l.options, &head), CLS_BAD_ARGUMENT); /* the weight */
    clReleaseMemObject(foreign);
    clReleaseCommandQueue(queue);
    clReleaseContext(other);

    layer_run(&l, d->queue); /* and still it works */
    layer_check(&l, "after refusals");
    layer_close(&l);
}
END_TEST

/* ------------------------------------------------------------------ products */

/* A head of float32 weights, which the caller destroys, and 1 logit of it: 2 x 3. */
static cls_head *float32_head(device *d, cl_mem weight, uint64_t stride, float *logit)
{
    static const float three = 3.0f;
    cl_mem hidden = buffer_of(d, sizeof three, &three), logits = buffer_of(d, sizeof *logit, NULL);
    cls_head_options o;
    cls_head_call c;
    cls_head *head;
    cls_head_options_init(&o);
    o.vocab = o.hidden = 1;
    o.weight.buffer = weight;
    o.weight_stride = stride;
    must(cls_head_create(d->queue, &o, &head));
    cls_head_call_init(&c);
    c.rows = 1;
    c.hidden.buffer = hidden;
    c.logits.buffer = logits;
    must(cls_head_logits(head, d->queue, &c, 0, NULL, NULL));
    buffer_read(d, logits, sizeof *logit, logit);
    release_buffers(hidden, logits);
    return head;
}

/* float32 weights are CLBlast's on GPUs only, and only where it can count their elements; with and
 * without it there is a product. */
START_TEST(float32_products)
{
    static const struct {
        int forced;
        uint64_t stride;
    } cases[] = {{CLS_HEAD_BY_DEVICE, 1},
                 {CLS_HEAD_OWN_KERNEL, 1},
                 {CLS_HEAD_CLBLAST, 1},
                 {CLS_HEAD_CLBLAST, 1u << 24}};
    static const float two = 2.0f;
    device *const d = fixture_device(_i);
    cl_mem weight = buffer_of(d, sizeof two, &two);
    cl_device_type type;
    must_cl(clGetDeviceInfo(d->id, CL_DEVICE_TYPE, sizeof type, &type, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int wanted = cases[i].forced == CLS_HEAD_CLBLAST ||
                           (cases[i].forced == CLS_HEAD_BY_DEVICE && type == CL_DEVICE_TYPE_GPU);
        float logit;
        if (wanted && !layer_is_supported(d, LAYER_CLBLAST, TEST_TINY) && cls_head_has_clblast())
            continue;
        cls_test_head_product = cases[i].forced;
        cls_head *const head = float32_head(d, weight, cases[i].stride, &logit);
        cls_test_head_product = CLS_HEAD_BY_DEVICE;
        ck_assert_msg(head->clblast == (wanted && cls_head_has_clblast() && cases[i].stride == 1),
                      "%s: case %zu: CLBlast %d", d->name, i, head->clblast);
        ck_assert(logit == 6.0f);
        cls_head_destroy(head);
    }
    clReleaseMemObject(weight);
}
END_TEST

START_TEST(defaults)
{
    cls_head_options o;
    cls_head_call c;
    memset(&o, 0x55, sizeof o);
    memset(&c, 0x55, sizeof c);
    cls_head_options_init(&o);
    cls_head_call_init(&c);
    ck_assert(o.struct_size == sizeof o && c.struct_size == sizeof c);
    ck_assert(o.vocab == 0 && o.hidden == 0 && o.max_rows == 1 && o.dtype == CLS_F32 &&
              o.weight.buffer == NULL);
    ck_assert(o.weight_stride == 0 && o.bias.buffer == NULL && o.scale == 1.0f &&
              o.softcap == 0.0f);
    ck_assert(c.rows == 0 && c.hidden.buffer == NULL && c.which.host == NULL &&
              c.logits.buffer == NULL);
    cls_head_destroy(NULL);
}
END_TEST

int main(void)
{
    fixture_begin(ON_DEVICES);
    add_test(defaults);
    add_device_test(queues);
    add_device_test(waits);
    add_device_test(busy);
    add_device_test(refused);
    add_device_test(float32_products);
    return fixture_end();
}
