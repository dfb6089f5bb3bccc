/* SPDX-License-Identifier: MIT */
/* The LM head: against a double-precision product, in every shape; rows that do
 * not depend on their place; queues and events; what it refuses; its logits
 * sampled where they are. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "inputs.h"

/* A head with its inputs on the host, in double precision what it computes. */
typedef struct layer {
    device *d;
    cls_head *head;
    cls_head_options options;
    cls_head_call call;
    uint64_t weight_stride, hidden_stride;
    uint32_t hidden_rows;
    double *weight, *hidden, *bias; /* dense */
    cl_mem weight_buffer, hidden_buffer, bias_buffer, map_buffer, logits_buffer;
    size_t logits_size; /* bytes, with a margin on both sides */
    float *logits;      /* [max_rows, vocab] */
    int32_t *map;       /* [rows], or NULL */
} layer;

enum { MARGIN = 16 }; /* floats before and after the logits */
static const float canary = -12345.5f;

static int has_f32(const device *d)
{
    /* CLBlast's kernels take an interpreter minutes. */
    return cls_head_has_clblast() && strstr(d->name, "Oclgrind") == NULL;
}

/* Rows a stride apart, from `offset` on, in a type; gaps are NaN. Returns the
 * values as the type holds them. */
static cl_mem matrix(device *d, int dtype, uint32_t rows, uint32_t width, uint64_t stride, size_t offset, double spread, rng *r,
                     double **values)
{
    const size_t element = dtype_size(dtype), elements = (size_t)rows * stride + 8;
    unsigned char *const data = malloc(offset + elements * element);
    *values = malloc((size_t)rows * width * sizeof **values);
    ck_assert(data != NULL && *values != NULL);
    memset(data, 0xff, offset + elements * element); /* NaN in all types */
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t k = 0; k < width; k++) {
            unsigned char *const at = data + offset + (i * stride + k) * element;
            dtype_encode(dtype, (float)(spread * rng_normal(r)), at);
            (*values)[(size_t)i * width + k] = (double)dtype_decode(dtype, at);
        }
    }
    cl_mem buffer = buffer_of(d, offset + elements * element, data);
    free(data);
    return buffer;
}

/* What a test chooses; the rest follows from the seed. */
typedef struct wish {
    int dtype;
    uint32_t vocab, hidden, max_rows, rows;
    int plain;           /* no strides, offsets, maps; else by the seed */
    int biased, capped;
    uint32_t work_group, vector; /* of the context */
} wish;

static void layer_open(layer *l, device *d, const wish *w, rng *r)
{
    const size_t element = dtype_size(w->dtype);
    const int plain = w->plain;
    memset(l, 0, sizeof *l);
    l->d = d;
    l->weight_stride = w->hidden + (plain ? 0 : rng_below(r, 4));
    l->hidden_stride = w->hidden + (plain ? 0 : rng_below(r, 5));
    l->hidden_rows = w->rows + (plain ? 0 : rng_below(r, 4));
    cls_head_options *const o = &l->options;
    cls_head_options_default(o, sizeof *o);
    o->vocab = w->vocab;
    o->hidden = w->hidden;
    o->max_rows = w->max_rows;
    o->dtype = w->dtype;
    o->weight.offset = plain ? 0 : element * rng_below(r, 9);
    o->weight_stride = plain ? 0 : l->weight_stride;
    o->scale = plain ? 1.0f : 0.75f;
    o->softcap = w->capped ? 3.0f : 0.0f;
    o->weight.buffer = l->weight_buffer =
        matrix(d, w->dtype, w->vocab, w->hidden, l->weight_stride, (size_t)o->weight.offset, 0.5, r, &l->weight);
    if (w->biased) {
        o->bias.offset = plain ? 0 : 4 * rng_below(r, 9);
        o->bias.buffer = l->bias_buffer = matrix(d, CLS_F32, 1, w->vocab, w->vocab, (size_t)o->bias.offset, 2.0, r, &l->bias);
    }
    cls_context *const context = fixture_context(d, 1u << CLS_F32, w->work_group, w->vector, 0);
    ck_assert(context != NULL);
    const cls_status status = cls_head_create(context, d->queue, o, &l->head);
    ck_assert_msg(status == CLS_OK, "%s: vocab %u, hidden %u, max_rows %u, %s: %s", d->name, w->vocab, w->hidden, w->max_rows,
                  dtype_names[w->dtype], cls_error_message());

    cls_head_call *const c = &l->call;
    cls_head_call_default(c, sizeof *c);
    c->rows = w->rows;
    c->hidden_rows = l->hidden_rows;
    c->hidden.offset = plain ? 0 : 4 * rng_below(r, 9);
    c->hidden_stride = plain ? 0 : l->hidden_stride;
    c->hidden.buffer = l->hidden_buffer =
        matrix(d, CLS_F32, l->hidden_rows, w->hidden, l->hidden_stride, (size_t)c->hidden.offset, 1.0, r, &l->hidden);
    if (!plain && rng_below(r, 3) > 0) {
        l->map = malloc((w->rows + 3) * sizeof *l->map);
        ck_assert(l->map != NULL);
        for (uint32_t i = 0; i < w->rows + 3; i++)
            l->map[i] = (int32_t)rng_below(r, l->hidden_rows + 1) - 1;
        if (rng_below(r, 2)) {
            c->which.host = l->map;
        } else {
            /* From its fourth element on. A row that is not there gives zeros. */
            if (rng_below(r, 2))
                l->map[3] = (int32_t)l->hidden_rows + 7;
            c->which.device.buffer = l->map_buffer = buffer_of(d, (w->rows + 3) * sizeof *l->map, l->map);
            c->which.device.offset = 3 * sizeof *l->map;
            memmove(l->map, l->map + 3, w->rows * sizeof *l->map);
        }
    }
    const size_t n = (size_t)w->max_rows * w->vocab;
    l->logits_size = (n + 2 * MARGIN) * sizeof(float);
    l->logits = malloc(l->logits_size);
    ck_assert(l->logits != NULL);
    for (size_t i = 0; i < n + 2 * MARGIN; i++)
        l->logits[i] = canary;
    c->logits.buffer = l->logits_buffer = buffer_of(d, l->logits_size, l->logits);
    c->logits.offset = MARGIN * sizeof(float);
}

static void layer_close(layer *l)
{
    cl_mem *const buffers[] = {&l->weight_buffer, &l->hidden_buffer, &l->bias_buffer, &l->map_buffer, &l->logits_buffer};
    cls_head_destroy(l->head);
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        if (*buffers[i] != NULL)
            clReleaseMemObject(*buffers[i]);
    free(l->weight);
    free(l->hidden);
    free(l->bias);
    free(l->map);
    free(l->logits);
}

static void layer_run(layer *l, cl_command_queue queue)
{
    must(cls_head_logits(l->head, queue, &l->call, 0, NULL, NULL));
    must_cl(clFinish(queue));
}

static void layer_read(layer *l)
{
    buffer_read(l->d, l->logits_buffer, l->logits_size, l->logits);
}

/* The product in double precision, with the error that float32 sums may have. */
static double expected(const layer *l, uint32_t row, uint32_t token, double *slack)
{
    const cls_head_options *const o = &l->options;
    const int64_t from = l->map != NULL ? l->map[row] : (int64_t)row;
    double sum = 0.0, size = 0.0;
    if (from >= 0 && from < (int64_t)l->hidden_rows) {
        const double *const w = l->weight + (size_t)token * o->hidden, *const h = l->hidden + (size_t)from * o->hidden;
        for (uint32_t k = 0; k < o->hidden; k++) {
            sum += w[k] * h[k];
            size += fabs(w[k] * h[k]);
        }
    }
    double x = (double)o->scale * sum;
    *slack = ldexp((o->hidden + 8.0) * size * fabs((double)o->scale) + 1.0, -24);
    if (l->bias != NULL) {
        x += l->bias[token];
        *slack += ldexp(fabs(x) + fabs(l->bias[token]), -23);
    }
    if (o->softcap > 0.0f) {
        x = (double)o->softcap * tanh(x / (double)o->softcap);
        *slack += ldexp(16.0 * (double)o->softcap, -24);
    }
    return x;
}

static void layer_check(layer *l, const char *where)
{
    const uint32_t vocab = l->options.vocab;
    const uint64_t all = (uint64_t)l->call.rows * vocab * l->options.hidden;
    /* Of large products a sample: the edges and every so many. */
    const uint32_t stride = all > 20000000u ? (uint32_t)(all / 20000000u) : 1;
    const float *const logits = l->logits + MARGIN;
    layer_read(l);
    for (uint32_t i = 0; i < MARGIN; i++)
        ck_assert_msg(l->logits[i] == canary && logits[(size_t)l->options.max_rows * vocab + i] == canary,
                      "%s: %s: writes beside the logits", l->d->name, where);
    for (uint32_t row = 0; row < l->call.rows; row++) {
        for (uint32_t t = 0; t < vocab; t += t < 64 || t + 64 + stride > vocab ? 1 : stride) {
            double slack;
            const double x = expected(l, row, t, &slack), y = (double)logits[(size_t)row * vocab + t];
            ck_assert_msg(fabs(x - y) <= slack, "%s: %s: %s, vocab %u, hidden %u, rows %u of %u: logit %u of row %u is %.9g, not %.9g",
                          l->d->name, where, dtype_names[l->options.dtype], vocab, l->options.hidden, l->call.rows,
                          l->options.max_rows, t, row, y, x);
        }
    }
}

/* ------------------------------------------------------------------- product */

static void product_of(device *d, const wish *w, rng *r, const char *where)
{
    layer l;
    layer_open(&l, d, w, r);
    layer_run(&l, d->queue);
    layer_check(&l, where);
    layer_close(&l);
}

START_TEST(product)
{
    static const struct {
        uint32_t vocab, hidden, rows;
    } shapes[] = {
        {1, 1, 1},   {64, 172, 3}, {5, 3, 9},   {2, 17, 8},  {33, 16, 16},  {7, 257, 1},
        {1, 64, 17}, {3, 15, 2},   {129, 31, 8}, {1025, 48, 7}, {513, 130, 33}, {1024, 256, 64},
    };
    device *const d = fixture_device(_i);
    rng r = {fixture_seed()};
    for (uint32_t i = 0; i < fixture_by_size(8, 24, 48); i++) {
        const uint32_t s = i % fixture_by_size(8, 12, 12);
        const uint32_t rows = shapes[s].rows, some = 1 + rng_below(&r, rows);
        wish w = {CLS_F16, shapes[s].vocab, shapes[s].hidden, rows, i % 3 == 0 ? rows : some, i % 2 == 0,
                  (int)rng_below(&r, 2), (int)rng_below(&r, 2), 0, 0};
        product_of(d, &w, &r, "product");
        w.dtype = CLS_F32;
        if (has_f32(d) && fixture_size() != TEST_TINY)
            product_of(d, &w, &r, "product");
    }
}
END_TEST

START_TEST(large_vocabulary)
{
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 1};
    wish w = {CLS_F16, fixture_by_size(300, 4099, 128256), 64, 4, 4, 0, 1, 1, 0, 0};
    product_of(d, &w, &r, "large vocabulary");
    w.dtype = CLS_F32;
    if (has_f32(d) && fixture_size() == TEST_FULL)
        product_of(d, &w, &r, "large vocabulary");
}
END_TEST

/* Groups of several teams, of one, of one item, and all vectors. */
START_TEST(shapes)
{
    static const uint32_t groups[] = {64, 16, 1, 40}, vectors[] = {4, 2, 16, 8};
    device *const d = fixture_device(_i);
    for (uint32_t i = 0; i < fixture_by_size(2, 4, 4); i++) {
        rng r = {fixture_seed() + 2 + i};
        if (fixture_context(d, 1u << CLS_F32, groups[i], vectors[i], 0) == NULL)
            continue;
        for (uint32_t k = 0; k < 3; k++) {
            const wish w = {CLS_F16, 9 + 31 * k, 1 + 133 * k, 9, 9 - k, 0, (int)(k & 1), (int)(k >> 1), groups[i], vectors[i]};
            product_of(d, &w, &r, "shapes");
        }
    }
}
END_TEST

/* -------------------------------------------------------------------- places */

/* One hidden row at every place of full and partial batches gives the same bits. */
static void same_everywhere(device *d, int dtype, uint32_t vocab, uint32_t hidden, uint32_t max_rows)
{
    rng r = {fixture_seed() + 10};
    const wish w = {dtype, vocab, hidden, max_rows, max_rows, 1, 0, 1, 0, 0};
    layer l;
    layer_open(&l, d, &w, &r);
    layer_run(&l, d->queue);
    layer_read(&l);
    float *const first = malloc(vocab * sizeof *first);
    int32_t *const map = malloc(max_rows * sizeof *map);
    ck_assert(first != NULL && map != NULL);
    memcpy(first, l.logits + MARGIN, vocab * sizeof *first); /* of hidden row 0 among others */
    l.call.which.host = map;
    for (uint32_t n = 1; n <= max_rows; n += n < 3 ? 1 : n) {
        for (uint32_t i = 0; i < n; i++)
            map[i] = (i + n) % 5 == 4 ? (int32_t)rng_below(&r, max_rows) : 0;
        l.call.rows = n;
        layer_run(&l, d->queue);
        layer_read(&l);
        for (uint32_t i = 0; i < n; i++)
            ck_assert_msg(map[i] != 0 || memcmp(first, l.logits + MARGIN + (size_t)i * vocab, vocab * sizeof *first) == 0,
                          "%s: %s, vocab %u, hidden %u: row %u of %u differs from the same row elsewhere", d->name,
                          dtype_names[dtype], vocab, hidden, i, n);
    }
    free(first);
    free(map);
    layer_close(&l);
}

START_TEST(places)
{
    device *const d = fixture_device(_i);
    same_everywhere(d, CLS_F16, 67, 45, 11);
    same_everywhere(d, CLS_F16, fixture_by_size(100, 1025, 4099), 172, fixture_by_size(9, 17, 64));
    if (has_f32(d) && fixture_size() != TEST_TINY) {
        same_everywhere(d, CLS_F32, 67, 45, 11);
        same_everywhere(d, CLS_F32, fixture_by_size(100, 1025, 4099), 172, 64);
    }
}
END_TEST

/* The own kernel: heads for more rows give the same bits, too. */
START_TEST(other_heads)
{
    device *const d = fixture_device(_i);
    float *first = NULL;
    for (uint32_t max_rows = 1; max_rows <= 64; max_rows *= 4) {
        rng r = {fixture_seed() + 11};
        const wish w = {CLS_F16, 77, 100, max_rows, 1, 1, 1, 0, 0, 0};
        layer l;
        layer_open(&l, d, &w, &r);
        layer_run(&l, d->queue);
        layer_read(&l);
        if (first == NULL) {
            first = malloc(77 * sizeof *first);
            ck_assert(first != NULL);
            memcpy(first, l.logits + MARGIN, 77 * sizeof *first);
        }
        ck_assert(memcmp(first, l.logits + MARGIN, 77 * sizeof *first) == 0);
        layer_close(&l);
    }
    free(first);
}
END_TEST

/* -------------------------------------------------------------------- queues */

static cl_command_queue out_of_order(device *d)
{
    cl_int code;
    cl_command_queue queue = clCreateCommandQueue(d->context, d->id, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
    return code == CL_SUCCESS ? queue : NULL;
}

/* Calls with maps of their own, one after another without waiting, copied away
 * behind each; on one queue or on two in turn, in order or not. */
static void run_ahead(device *d, int dtype, cl_command_queue a, cl_command_queue b, const char *where)
{
    enum { CALLS = 9, ROWS = 5, VOCAB = 300, HIDDEN = 40 };
    const size_t size = (size_t)ROWS * VOCAB * sizeof(float);
    rng r = {fixture_seed() + 20};
    const wish w = {dtype, VOCAB, HIDDEN, ROWS, ROWS, 1, 1, 1, 0, 0};
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
        must(cls_head_logits(l.head, queue, &l.call, copied != NULL, copied != NULL ? &copied : NULL, &done));
        memset(map, 0x7f, sizeof map);
        ck_assert(done != NULL);
        if (copied != NULL)
            clReleaseEvent(copied);
        must_cl(clFlush(queue)); /* the next call may wait for it on the other queue */
        must_cl(clEnqueueCopyBuffer(queue, l.logits_buffer, copies, MARGIN * sizeof(float), i * size, size, 1, &done, &copied));
        must_cl(clFlush(queue));
        clReleaseEvent(done);
    }
    must_cl(clFinish(a));
    must_cl(clFinish(b));
    clReleaseEvent(copied);
    l.map = malloc(sizeof maps[0]);
    float *const got = malloc(CALLS * size);
    ck_assert(l.map != NULL && got != NULL);
    buffer_read(d, copies, CALLS * size, got);
    for (uint32_t i = 0; i < CALLS; i++) {
        memcpy(l.map, maps[i], sizeof maps[i]);
        must_cl(clEnqueueWriteBuffer(d->queue, l.logits_buffer, CL_TRUE, MARGIN * sizeof(float), size, got + i * size / sizeof *got,
                                     0, NULL, NULL));
        layer_check(&l, where);
    }
    free(got);
    clReleaseMemObject(copies);
    layer_close(&l);
}

START_TEST(queues)
{
    device *const d = fixture_device(_i);
    cl_int code;
    cl_command_queue second = clCreateCommandQueue(d->context, d->id, 0, &code), loose = out_of_order(d);
    must_cl(code);
    for (int dtype = CLS_F32; dtype <= CLS_F16; dtype++) {
        if (dtype == CLS_F32 && (!has_f32(d) || fixture_size() == TEST_TINY))
            continue;
        run_ahead(d, dtype, d->queue, d->queue, "one queue");
        run_ahead(d, dtype, d->queue, second, "two queues");
        if (loose != NULL) {
            run_ahead(d, dtype, loose, loose, "out of order");
            run_ahead(d, dtype, loose, d->queue, "in and out of order");
        }
    }
    if (loose == NULL)
        printf("%s: no out-of-order queue\n", d->name);
    else
        clReleaseCommandQueue(loose);
    clReleaseCommandQueue(second);
}
END_TEST

/* The call runs after its events, and refuses a map more than it has memory for. */
START_TEST(waits_and_busy)
{
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 21};
    const wish w = {CLS_F16, 50, 20, 2, 2, 1, 0, 0, 0, 0};
    int32_t map[2] = {0, 0};
    cl_int code;
    layer l;
    if (strstr(d->name, "Oclgrind") != NULL) /* which deadlocks on user events */
        return;
    for (int ordered = 0; ordered < 2; ordered++) {
        cl_command_queue queue = ordered ? clCreateCommandQueue(d->context, d->id, 0, &code) : out_of_order(d);
        cl_event gate = clCreateUserEvent(d->context, &code), done = NULL;
        cl_int state = CL_COMPLETE;
        cls_status status = CLS_OK;
        int calls = 0;
        if (queue == NULL)
            continue;
        layer_open(&l, d, &w, &r);
        l.call.which.host = map;
        must(cls_head_logits(l.head, queue, &l.call, 1, &gate, &done));
        must_cl(clFlush(queue));
        must_cl(clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
        ck_assert_int_gt(state, CL_COMPLETE);
        layer_read(&l); /* by another queue */
        ck_assert(l.logits[MARGIN] == canary);
        clReleaseEvent(done);
        for (calls = 1; calls < 100 && status == CLS_OK; calls++) {
            map[0] = calls % 2;
            status = cls_head_logits(l.head, queue, &l.call, 0, NULL, NULL);
        }
        ck_assert_int_eq(status, CLS_BUSY);
        ck_assert_int_gt(calls, 8);
        ck_assert(strstr(cls_error_message(), "in flight") != NULL);
        must_cl(clSetUserEventStatus(gate, CL_COMPLETE));
        must_cl(clFinish(queue));
        must(cls_head_logits(l.head, queue, &l.call, 0, NULL, &done));
        must_cl(clWaitForEvents(1, &done));
        clReleaseEvent(done);
        clReleaseEvent(gate);
        l.map = malloc(sizeof map);
        ck_assert(l.map != NULL);
        memcpy(l.map, map, sizeof map);
        layer_check(&l, "after CLS_BUSY");
        layer_close(&l);
        clReleaseCommandQueue(queue);
    }
}
END_TEST

/* ------------------------------------------------------------------- refused */

static void refuse_create(layer *l, const char *word)
{
    cls_head *head = l->head;
    const cls_status status = cls_head_create(fixture_context(l->d, 1u << CLS_F32, 0, 0, 0), l->d->queue, &l->options, &head);
    ck_assert_msg(status == CLS_BAD_ARGUMENT, "%s: %s: %s", word, cls_status_name(status), cls_error_message());
    ck_assert_msg(strstr(cls_error_message(), word) != NULL, "%s is not in \"%s\"", word, cls_error_message());
    ck_assert(head == NULL);
}

#define BAD_OPTION(field, value, word)  \
    do {                                \
        const cls_head_options good = l.options; \
        l.options.field = (value);      \
        refuse_create(&l, word);        \
        l.options = good;               \
    } while (0)

static void refuse_call(layer *l, const char *word)
{
    cl_event done = (cl_event)l;
    const cls_status status = cls_head_logits(l->head, l->d->queue, &l->call, 0, NULL, &done);
    ck_assert_msg(status == CLS_BAD_ARGUMENT, "%s: %s: %s", word, cls_status_name(status), cls_error_message());
    ck_assert_msg(strstr(cls_error_message(), word) != NULL, "%s is not in \"%s\"", word, cls_error_message());
    ck_assert(done == NULL);
}

#define BAD_CALL(field, value, word) \
    do {                             \
        const cls_head_call good = l.call; \
        l.call.field = (value);      \
        refuse_call(&l, word);       \
        l.call = good;               \
    } while (0)

START_TEST(refused)
{
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 30};
    const wish w = {CLS_F16, 50, 20, 4, 3, 1, 1, 0, 0, 0};
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
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    ck_assert_int_eq(cls_head_create(context, d->queue, &l.options, NULL), CLS_BAD_ARGUMENT);
    ck_assert_int_eq(cls_head_create(NULL, d->queue, &l.options, &head), CLS_BAD_ARGUMENT);
    ck_assert_int_eq(cls_head_create(context, NULL, &l.options, &head), CLS_BAD_ARGUMENT);
    ck_assert_int_eq(cls_head_create(context, d->queue, NULL, &head), CLS_BAD_ARGUMENT);

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
    BAD_CALL(logits.offset, 4 * (2 * MARGIN + 1), "call->logits");
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
    ck_assert_int_eq(cls_head_create(context, queue, &l.options, &head), CLS_BAD_ARGUMENT);
    clReleaseMemObject(foreign);
    clReleaseCommandQueue(queue);
    clReleaseContext(other);

    layer_run(&l, d->queue); /* and still it works */
    layer_check(&l, "after refusals");
    layer_close(&l);
}
END_TEST

/* float32 without CLBlast; and what CLBlast cannot count. */
START_TEST(float32_needs_clblast)
{
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    cl_mem buffer = buffer_of(d, 1 << 16, NULL);
    cls_head_options o;
    cls_head *head = NULL;
    cls_head_options_default(&o, sizeof o);
    o.vocab = 100;
    o.hidden = 64;
    o.weight.buffer = buffer;
    if (!cls_head_has_clblast()) {
        ck_assert_int_eq(cls_head_create(context, d->queue, &o, &head), CLS_UNSUPPORTED_DEVICE);
        ck_assert(head == NULL && strstr(cls_error_message(), "CLBlast") != NULL);
    } else {
        o.vocab = 1 << 20;
        o.hidden = 1;
        o.max_rows = 4096;
        o.weight_stride = 0;
        clReleaseMemObject(buffer);
        buffer = buffer_of(d, 4 << 20, NULL);
        o.weight.buffer = buffer;
        ck_assert_int_eq(cls_head_create(context, d->queue, &o, &head), CLS_UNSUPPORTED_DEVICE);
        ck_assert(head == NULL && strstr(cls_error_message(), "2^31") != NULL);
    }
    clReleaseMemObject(buffer);
}
END_TEST

START_TEST(defaults)
{
    cls_head_options o;
    cls_head_call c;
    memset(&o, 0x55, sizeof o);
    memset(&c, 0x55, sizeof c);
    cls_head_options_default(&o, sizeof o);
    cls_head_call_default(&c, sizeof c);
    ck_assert(o.struct_size == sizeof o && c.struct_size == sizeof c);
    ck_assert(o.vocab == 0 && o.hidden == 0 && o.max_rows == 1 && o.dtype == CLS_F32 && o.weight.buffer == NULL);
    ck_assert(o.weight_stride == 0 && o.bias.buffer == NULL && o.scale == 1.0f && o.softcap == 0.0f);
    ck_assert(c.rows == 0 && c.hidden.buffer == NULL && c.which.host == NULL && c.logits.buffer == NULL);
    cls_head_destroy(NULL);
}
END_TEST

/* ------------------------------------------------------------------ sampling */

/* The sampler reads the logits where the head put them; the host, from the same
 * bits, draws the same tokens. */
START_TEST(sampled_in_place)
{
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    for (int dtype = CLS_F32; dtype <= CLS_F16; dtype++) {
        rng r = {fixture_seed() + 40};
        const uint32_t vocab = fixture_by_size(150, 1025, 4099), rows = 6;
        const wish w = {dtype, vocab, 96, 8, rows, 1, 1, 1, 0, 0};
        cls_sampler_options o;
        cls_sampler *sampler;
        cls_params p;
        cls_step step;
        int32_t tokens[8];
        layer l;
        if (dtype == CLS_F32 && (!has_f32(d) || fixture_size() == TEST_TINY))
            continue;
        layer_open(&l, d, &w, &r);
        cl_mem buffer = buffer_of(d, sizeof tokens, NULL);
        cls_sampler_options_default(&o, sizeof o);
        o.vocab = vocab;
        o.max_rows = 8;
        must(cls_sampler_create(context, &o, &sampler));
        cls_params_default(&p, sizeof p);
        p.top_p = 0.9f;
        p.temperature = 0.8f;
        for (uint32_t i = 0; i < rows; i++) {
            p.seed = 100 + i;
            must(cls_slot_begin(sampler, i, &p, NULL, 0, NULL, 0));
        }
        cls_step_default(&step, sizeof step);
        step.rows = rows;
        step.logits.buffer = l.logits_buffer;
        step.logits.offset = l.call.logits.offset;
        step.tokens.buffer = buffer;
        must(cls_head_logits(l.head, d->queue, &l.call, 0, NULL, NULL));
        must(cls_sample(sampler, d->queue, &step, 0, NULL, NULL));
        buffer_read(d, buffer, sizeof tokens, tokens);
        layer_check(&l, "sampled in place");
        for (uint32_t i = 0; i < rows; i++) {
            cls_host_row row;
            cls_host_result result = {.struct_size = sizeof result};
            cls_host_row_default(&row, sizeof row);
            p.seed = 100 + i;
            row.params = &p;
            row.logits = l.logits + MARGIN + (size_t)i * vocab;
            row.vocab = vocab;
            must(cls_host_sample(&row, &result));
            ck_assert_int_eq(tokens[i], result.token);
            ck_assert_int_ge(tokens[i], 0);
        }
        cls_sampler_destroy(sampler);
        clReleaseMemObject(buffer);
        layer_close(&l);
    }
}
END_TEST

static Suite *make(void)
{
    Suite *const suite = suite_create("head");
    TCase *const tcase = tcase_create("head");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, defaults);
    add_device_test(tcase, product);
    add_device_test(tcase, large_vocabulary);
    add_device_test(tcase, shapes);
    add_device_test(tcase, places);
    add_device_test(tcase, other_heads);
    add_device_test(tcase, queues);
    add_device_test(tcase, waits_and_busy);
    add_device_test(tcase, refused);
    add_device_test(tcase, float32_needs_clblast);
    add_device_test(tcase, sampled_in_place);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return fixture_run(make, 1);
}
