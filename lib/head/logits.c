/* SPDX-License-Identifier: MIT */
/* cls_head_logits(): checks the call, uploads a changed map, gathers the hidden rows, multiplies,
 * adds the bias and limits the logits. Nothing here waits. */
#include "head.h"

#include <string.h>

/* -------------------------------------------------------------------- checks */

static cls_status check_which(const cls_head *h, const cls_head_call *call, cls_ranges *ranges)
{
    if (call->which.host != NULL && cls_buffer_is_set(&call->which.device))
        return cls_refuse("call->which has both host and device");
    const cls_status status = cls_buffer_kind_check("call->which.device", &call->which.device);
    if (status != CLS_OK)
        return status;
    if (cls_buffer_is_set(&call->which.device))
        return cls_buffer_check(h->cl, h->device, "call->which.device", &call->which.device,
                                call->rows * sizeof(int32_t), sizeof(int32_t), CLS_KERNEL_READS,
                                ranges);
    if (call->which.host == NULL && call->hidden_rows < call->rows)
        return cls_refuse("call->hidden_rows is %u for %u rows, and there is no call->which",
                          (unsigned)call->hidden_rows, (unsigned)call->rows);
    for (uint32_t i = 0; call->which.host != NULL && i < call->rows; i++)
        if (call->which.host[i] < -1 || call->which.host[i] >= (int64_t)call->hidden_rows)
            return cls_refuse("call->which.host[%u] is %d; it must be -1 to %lld", (unsigned)i,
                              (int)call->which.host[i], (long long)call->hidden_rows - 1);
    return CLS_OK;
}

static cls_status check(cls_head *h, cl_command_queue queue, cls_head_call *call, cl_uint n_wait,
                        const cl_event *wait, int *ordered)
{
    cls_ranges ranges;
    cls_ranges_begin(&ranges);
    memcpy(ranges.calls, h->calls, sizeof h->calls);
    if (call->rows < 1 || call->rows > h->max_rows)
        return cls_refuse("call->rows is %u; the head was created for 1 to %u",
                          (unsigned)call->rows, (unsigned)h->max_rows);
    if (call->hidden_rows == 0)
        call->hidden_rows = call->rows;
    if (call->hidden_stride == 0)
        call->hidden_stride = h->hidden;
    if (call->hidden_stride < h->hidden)
        return cls_refuse("call->hidden_stride is %llu, less than the hidden row of %u",
                          (unsigned long long)call->hidden_stride, (unsigned)h->hidden);
    cls_status status = cls_wait_check(h->cl, n_wait, wait);
    if (status == CLS_OK)
        status = cls_queue_check(h->cl, h->device, queue, ordered);
    if (status == CLS_OK)
        status = cls_buffer_check(
            h->cl, h->device, "call->hidden", &call->hidden,
            cls_extent(call->hidden_rows, call->hidden_stride, h->hidden, sizeof(float)),
            sizeof(float), CLS_KERNEL_READS, &ranges);
    if (status == CLS_OK)
        status = check_which(h, call, &ranges);
    if (status == CLS_OK)
        status = cls_buffer_check(h->cl, h->device, "call->logits", &call->logits,
                                  cls_extent(h->max_rows, h->vocab, h->vocab, sizeof(float)),
                                  sizeof(float), CLS_KERNEL_WRITES, &ranges);
    if (status == CLS_OK)
        status = cls_ranges_check(&ranges);
    memcpy(h->calls, ranges.calls, sizeof h->calls);
    if (status == CLS_OK && h->clblast && call->logits.pointer != NULL)
        status = cls_refuse("call->logits is a pointer, and CLBlast, which multiplies for this "
                            "head, writes only to buffers");
    if (status == CLS_OK && h->clblast &&
        !cls_head_clblast_fits(call->logits.offset / sizeof(float), h->max_rows, h->vocab))
        status = cls_refuse("call->logits.offset is %llu; CLBlast, which multiplies for this head, "
                            "counts elements to 2^31",
                            (unsigned long long)call->logits.offset);
    return status;
}

/* ------------------------------------------------------------------ commands */

/* A call's commands on their way into a queue. If the queue is out of order, a barrier follows
 * each command, because CLBlast takes no wait list. */
typedef struct commands {
    cls_head *head;
    cl_command_queue queue;
    int ordered;
    cls_head_staging *staging; /* for the map, if it changed */
    int retained; /* the queue was retained for the head, whose last call was on another one */
} commands;

static cl_int barrier(const commands *c)
{
    return c->ordered ? CL_SUCCESS : clEnqueueBarrierWithWaitList(c->queue, 0, NULL, NULL);
}

/* All calls share the scratch, so that each one follows the one before it, on any queue. */
static cl_int begin(commands *c, cl_uint n_wait, const cl_event *wait)
{
    cls_head *const h = c->head;
    const int elsewhere = h->last_queue != NULL && h->last_queue != c->queue;
    cl_int code = CL_SUCCESS;
    if (elsewhere && h->last == NULL) /* the last call could not be closed */
        code = clEnqueueBarrierWithWaitList(h->last_queue, 0, NULL, &h->last);
    if (elsewhere) /* without this, some drivers would never run the last call */
        clFlush(h->last_queue);
    if (code == CL_SUCCESS &&
        h->last_queue != c->queue) { /* retained, so that no new queue gets its address */
        code = clRetainCommandQueue(c->queue);
        c->retained = code == CL_SUCCESS;
    }
    if (code == CL_SUCCESS)
        code = barrier(c);
    if (code == CL_SUCCESS && n_wait > 0)
        code = clEnqueueBarrierWithWaitList(c->queue, n_wait, wait, NULL);
    if (code == CL_SUCCESS && elsewhere)
        code = clEnqueueBarrierWithWaitList(c->queue, 1, &h->last, NULL);
    if (code != CL_SUCCESS && c->retained)
        clReleaseCommandQueue(c->queue);
    return code;
}

static cls_status find_staging(cls_head *h, cls_head_staging **out)
{
    cl_int code = CL_SUCCESS;
    for (int i = 0; i < CLS_HEAD_STAGING; i++) {
        const cl_int state = cls_upload_poll(&h->staging[i].done);
        *out = &h->staging[i];
        if (state == CL_COMPLETE)
            return CLS_OK;
        if (state < CL_COMPLETE)
            code = state;
    }
    return code != CL_SUCCESS
               ? cls_fail(CLS_OPENCL_ERROR, code, "cannot query whether an earlier upload is over")
               : cls_fail(
                     CLS_BUSY, CL_SUCCESS,
                     "%d calls with changed maps are in flight: flush the queue and wait for one",
                     CLS_HEAD_STAGING);
}

static int map_changed(const cls_head *h, const int32_t *map, uint32_t rows)
{
    return map != NULL && (h->sent_rows < rows || memcmp(map, h->sent, rows * sizeof *map) != 0);
}

static cl_int upload(const commands *c, const int32_t *map, uint32_t rows)
{
    cls_head *const h = c->head;
    memcpy(c->staging->map, map, rows * sizeof *map);
    h->sent_rows = 0;
    const cl_int code = clEnqueueWriteBuffer(c->queue, h->map, CL_FALSE, 0, rows * sizeof *map,
                                             c->staging->map, 0, NULL, &c->staging->done);
    if (code != CL_SUCCESS) {
        c->staging->done = NULL;
        return code;
    }
    memcpy(h->sent, c->staging->map, rows * sizeof *map);
    h->sent_rows = rows;
    return barrier(c);
}

/* Arguments of a kernel, set one after another. `code` is the first failure. */
typedef struct arguments {
    cl_kernel kernel;
    const cls_pointer_calls *calls;
    cl_uint next;
    cl_int code;
} arguments;

static arguments arguments_of(const cls_head *h, enum cls_head_kernel kernel)
{
    return (arguments){h->kernel[kernel], h->calls, 0, CL_SUCCESS};
}

static void keep_error(arguments *a, cl_int code)
{
    if (a->code == CL_SUCCESS)
        a->code = code;
}

static void set(arguments *a, size_t size, const void *value)
{
    keep_error(a, clSetKernelArg(a->kernel, a->next++, size, value));
}
static void set_mem(arguments *a, cl_mem x) { set(a, sizeof x, &x); }
static void set_buffer(arguments *a, const cls_buffer *b)
{
    if (b->pointer == NULL)
        set_mem(a, b->buffer);
    else
        keep_error(a, a->calls[b->kind].set(a->kernel, a->next++, b->pointer));
}
static void set_u32(arguments *a, uint32_t x) { set(a, sizeof x, &x); }
static void set_u64(arguments *a, uint64_t x) { set(a, sizeof x, &x); }
static void set_float(arguments *a, float x) { set(a, sizeof x, &x); }

/* Launches groups0 times groups1 groups. GPUs have 16 bits for the second dimension, so that more
 * groups are launched in parts. */
static cl_int launch(const commands *c, const arguments *a, size_t groups0, size_t groups1)
{
    enum { MOST = 65535 };
    const uint32_t group = c->head->group;
    cl_int code = a->code;
    for (size_t first = 0; first < groups1 && code == CL_SUCCESS; first += MOST) {
        const size_t left = groups1 - first, local[2] = {group, 1}, offset[2] = {0, first},
                     global[2] = {group * groups0, left < MOST ? left : MOST};
        code = clEnqueueNDRangeKernel(c->queue, a->kernel, 2, first != 0 ? offset : NULL, global,
                                      local, 0, NULL, NULL);
    }
    return code == CL_SUCCESS ? barrier(c) : code;
}

static uint32_t blocks(uint32_t n, uint32_t of) { return (n + of - 1) / of; }

static cl_int gather(const commands *c, const cls_head_call *call)
{
    const cls_head *const h = c->head;
    const int on_device = cls_buffer_is_set(&call->which.device);
    const cls_buffer host = {.buffer = h->map}, *const map =
                                                    on_device ? &call->which.device : &host;
    /* CLBlast always multiplies all rows, the library's kernel whole blocks of them. */
    const uint32_t rows = h->clblast ? h->max_rows : blocks(call->rows, h->rows) * h->rows;
    arguments a = arguments_of(h, CLS_HEAD_GATHER);
    set_buffer(&a, &call->hidden);
    set_u64(&a, call->hidden.offset / sizeof(float));
    set_u64(&a, call->hidden_stride);
    set_u32(&a, call->hidden_rows);
    set_u32(&a, h->hidden);
    set_buffer(&a, map);
    set_u64(&a, map->offset / sizeof(int32_t));
    set_u32(&a, call->which.host != NULL || on_device);
    set_u32(&a, call->rows);
    set_mem(&a, h->scratch);
    return launch(c, &a, rows, 1);
}

static cl_int multiply(const commands *c, const cls_head_call *call)
{
    const cls_head *const h = c->head;
    const uint32_t tokens = h->tokens * (h->group == 1 ? 1 : h->group / CLS_HEAD_LANES);
    arguments a = arguments_of(h, CLS_HEAD_PRODUCT);
    set_buffer(&a, &h->weight);
    set_u64(&a, h->weight_offset);
    set_u64(&a, h->weight_stride);
    set_mem(&a, h->scratch);
    set_u32(&a, h->hidden);
    set_u32(&a, h->vocab);
    set_u32(&a, call->rows);
    set_float(&a, h->scale);
    set_buffer(&a, &call->logits);
    set_u64(&a, call->logits.offset / sizeof(float));
    return launch(c, &a, blocks(call->rows, h->rows), blocks(h->vocab, tokens));
}

static cl_int finish(const commands *c, const cls_head_call *call)
{
    const cls_head *const h = c->head;
    arguments a = arguments_of(h, CLS_HEAD_FINISH);
    const int has_bias = cls_buffer_is_set(&h->bias);
    const cls_buffer none = {.buffer = h->scratch};
    if (!has_bias && h->softcap == 0.0f)
        return CL_SUCCESS;
    set_u32(&a, h->vocab);
    set_buffer(&a, has_bias ? &h->bias : &none);
    set_u64(&a, h->bias_offset);
    set_u32(&a, (uint32_t)has_bias);
    set_float(&a, h->softcap);
    set_float(&a, h->softcap != 0.0f ? cls_softcap_reciprocal(h->softcap) : 0.0f);
    set_buffer(&a, &call->logits);
    set_u64(&a, call->logits.offset / sizeof(float));
    return launch(c, &a, blocks(h->vocab, CLS_HEAD_FINISH_TOKENS), call->rows);
}

/* Ends the call, also one that failed: the next call must follow the commands that are in
 * flight. */
static cl_int end(const commands *c, cl_event *done)
{
    cls_head *const h = c->head;
    if (h->last != NULL)
        clReleaseEvent(h->last);
    if (c->retained && h->last_queue != NULL)
        clReleaseCommandQueue(h->last_queue);
    h->last = NULL;
    h->last_queue = c->queue;
    cl_int code = clEnqueueBarrierWithWaitList(c->queue, 0, NULL, &h->last);
    if (code == CL_SUCCESS && c->staging != NULL)
        code = cls_upload_extend(&c->staging->done, h->last);
    if (code == CL_SUCCESS && done != NULL)
        code = clRetainEvent(h->last);
    if (code == CL_SUCCESS && done != NULL)
        *done = h->last;
    return code;
}

cls_status cls_head_logits(cls_head *h, cl_command_queue queue, const cls_head_call *callers,
                           cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    cls_head_call call;
    commands c = {h, queue, 0, NULL, 0};
    cls_head_call_init(&call);
    if (done != NULL)
        *done = NULL;
    if (h == NULL)
        return cls_refuse("head is NULL");
    cls_status status = cls_struct_read(
        &call, sizeof call, CLS_FIRST_SIZE(&call, CLS_LAST_FIELDS_OF_HEAD), callers, "call", 0);
    if (status == CLS_OK)
        status = check(h, queue, &call, n_wait, wait, &c.ordered);
    if (status != CLS_OK)
        return status;
    const int changed = map_changed(h, call.which.host, call.rows);
    if (changed)
        status = find_staging(h, &c.staging);
    if (status != CLS_OK)
        return status;
    cl_int code = begin(&c, n_wait, wait);
    if (code != CL_SUCCESS) /* at most barriers are in flight */
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot enqueue the logits");
    if (changed)
        code = upload(&c, call.which.host, call.rows);
    if (code == CL_SUCCESS)
        code = gather(&c, &call);
    if (code == CL_SUCCESS && h->clblast) {
        status = cls_head_clblast(h, queue, call.logits.buffer, call.logits.offset / sizeof(float));
        code = status == CLS_OK ? barrier(&c) : CL_SUCCESS;
    } else if (code == CL_SUCCESS) {
        code = multiply(&c, &call);
    }
    if (code == CL_SUCCESS && status == CLS_OK)
        code = finish(&c, &call);
    const cl_int ended = end(&c, status == CLS_OK && code == CL_SUCCESS ? done : NULL);
    if (status != CLS_OK)
        return status;
    return code == CL_SUCCESS && ended == CL_SUCCESS
               ? CLS_OK
               : cls_fail(CLS_OPENCL_ERROR, code != CL_SUCCESS ? code : ended,
                          "cannot enqueue the logits");
}
