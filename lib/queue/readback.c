/* SPDX-License-Identifier: MIT */
/* Small results on their way to the host: a ring of page-locked memory, an
 * event an entry. */
#include "queue/queue.h"

#include <stdlib.h>

typedef struct entry {
    cl_event done; /* NULL: nothing was read into it yet */
    cl_command_queue queue;
} entry;

struct cls_readback {
    cls_context *context;
    size_t size, stride; /* of an entry; with its padding */
    uint32_t depth;
    uint64_t next; /* the next ticket */
    cl_mem pinned;
    cl_command_queue queue; /* that `data` was mapped by */
    unsigned char *data;
    entry *entries;
};

static void forget(entry *e)
{
    if (e->done != NULL)
        clReleaseEvent(e->done);
    if (e->queue != NULL)
        clReleaseCommandQueue(e->queue);
    e->done = NULL;
    e->queue = NULL;
}

void cls_readback_destroy(cls_readback *r)
{
    int over = 1; /* no read can come any more */
    if (r == NULL)
        return;
    for (uint32_t i = 0; r->entries != NULL && i < r->depth; i++) {
        if (r->entries[i].queue != NULL)
            clFlush(r->entries[i].queue);
        over &= cls_upload_end(&r->entries[i].done);
        forget(&r->entries[i]);
    }
    if (r->data != NULL && over &&
        clEnqueueUnmapMemObject(r->queue, r->pinned, r->data, 0, NULL, NULL) == CL_SUCCESS)
        clFinish(r->queue);
    if (r->queue != NULL)
        clReleaseCommandQueue(r->queue);
    if (r->pinned != NULL && over)
        clReleaseMemObject(r->pinned);
    cls_context_destroy(r->context);
    free(r->entries);
    free(r);
}

cls_status cls_readback_create(cls_context *context, size_t size, uint32_t depth,
                               cls_readback **out)
{
    cl_int code = CL_SUCCESS;
    if (out == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "out is NULL");
    *out = NULL;
    if (context == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "context is NULL");
    if (size < 1 || size > (size_t)1 << 30)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "size is %zu; it must be 1 to 2^30", size);
    if (depth < 1 || depth > 1024)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "depth is %u; it must be 1 to 1024",
                        (unsigned)depth);
    if (size > SIZE_MAX / depth - 63)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "size is %zu and depth %u: together more than this machine's %zu bytes",
                        size, (unsigned)depth, SIZE_MAX);
    cls_readback *const r = calloc(1, sizeof *r);
    if (r == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for a readback");
    cls_context_retain(context);
    r->context = context;
    r->size = size;
    r->stride = (size + 63) / 64 * 64;
    r->depth = depth;
    r->entries = calloc(depth, sizeof *r->entries);
    if (r->entries == NULL) {
        cls_readback_destroy(r);
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for a readback");
    }
    r->pinned = clCreateBuffer(context->cl, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                               r->stride * depth, NULL, &code);
    if (code == CL_SUCCESS)
        r->queue = clCreateCommandQueue(context->cl, context->device, 0, &code);
    if (code == CL_SUCCESS)
        r->data = clEnqueueMapBuffer(r->queue, r->pinned, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                     r->stride * depth, 0, NULL, NULL, &code);
    if (code != CL_SUCCESS) {
        cls_fail(CLS_OPENCL_ERROR, code, "cannot have %zu bytes of page-locked memory",
                 r->stride * depth);
        cls_readback_destroy(r);
        return CLS_OPENCL_ERROR;
    }
    *out = r;
    return CLS_OK;
}

/* *state: CL_COMPLETE, more while it is under way, less if it failed. */
static cl_int ask(const entry *e, cl_int *state)
{
    *state = CL_COMPLETE;
    return e->done != NULL ? clGetEventInfo(e->done, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                            sizeof *state, state, NULL)
                           : CL_SUCCESS;
}

cls_status cls_readback_start(cls_readback *r, cl_command_queue queue, const cls_buffer *from,
                              size_t size, cl_uint n_wait, const cl_event *wait, uint64_t *ticket)
{
    cl_event done = NULL;
    if (r == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "readback is NULL");
    if (from == NULL || from->buffer == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "from is NULL");
    if (ticket == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "ticket is NULL");
    if (size < 1 || size > r->size)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "size is %zu; an entry has %zu bytes", size,
                        r->size);
    if (from->offset != (size_t)from->offset)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "from->offset is %llu; this machine has %zu bytes at most",
                        (unsigned long long)from->offset, SIZE_MAX);
    int ordered;
    cls_status status = cls_wait_check(r->context, n_wait, wait);
    if (status == CLS_OK)
        status = cls_queue_check(r->context, queue, &ordered);
    if (status == CLS_OK)
        status = cls_buffer_check(r->context, "from", from, size, 1, CLS_COPIES, NULL);
    if (status != CLS_OK)
        return status;
    entry *const e = &r->entries[r->next % r->depth];
    cl_int state, code = ask(e, &state);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot ask whether an earlier read is over");
    if (state > CL_COMPLETE)
        return cls_fail(CLS_BUSY, CL_SUCCESS,
                        "all %u reads of the ring are under way: flush the queue and wait for one",
                        (unsigned)r->depth);
    code = clRetainCommandQueue(queue);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot retain queue");
    code = clEnqueueReadBuffer(queue, from->buffer, CL_FALSE, (size_t)from->offset, size,
                               r->data + (size_t)(r->next % r->depth) * r->stride, n_wait, wait,
                               &done);
    if (code != CL_SUCCESS) {
        clReleaseCommandQueue(queue);
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot enqueue the read");
    }
    forget(e);
    e->done = done;
    e->queue = queue;
    *ticket = r->next++;
    return CLS_OK;
}

cls_status cls_readback_get(cls_readback *r, uint64_t ticket, int block, const void **data)
{
    if (r == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "readback is NULL");
    if (data == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "data is NULL");
    *data = NULL;
    if (ticket >= r->next)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "ticket is %llu, but %llu reads were started",
                        (unsigned long long)ticket, (unsigned long long)r->next);
    if (r->next - ticket > r->depth)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "ticket %llu is overwritten: the ring keeps %u", (unsigned long long)ticket,
                        (unsigned)r->depth);
    entry *const e = &r->entries[ticket % r->depth];
    cl_int state, code = ask(e, &state);
    if (code == CL_SUCCESS && state > CL_COMPLETE && block) {
        clFlush(e->queue);
        code = clWaitForEvents(1, &e->done);
        if (code == CL_SUCCESS)
            state = CL_COMPLETE;
        else if (ask(e, &state) == CL_SUCCESS && state <= CL_COMPLETE)
            code = CL_SUCCESS; /* it is over, whatever the waiting says */
    }
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot wait for the read");
    if (state > CL_COMPLETE)
        return cls_fail(CLS_BUSY, CL_SUCCESS, "the read is under way");
    if (state < CL_COMPLETE)
        return cls_fail(CLS_OPENCL_ERROR, state, "the read failed");
    *data = r->data + ticket % r->depth * r->stride;
    return CLS_OK;
}
