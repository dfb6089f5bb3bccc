/* SPDX-License-Identifier: MIT */
/* Reads small results back to the host: a ring of entries in page-locked memory, each with the
 * event of its latest read. */
#include "queue/queue.h"

#include <stdlib.h>

typedef struct entry {
    cl_event done; /* NULL before the first read */
    cl_command_queue queue;
} entry;

struct cls_readback {
    cls_context *context;
    size_t size, stride; /* bytes of an entry without and with padding */
    uint32_t depth;
    uint64_t next; /* the ticket of the next read */
    cl_mem pinned;
    cl_command_queue queue; /* the queue that mapped `data` */
    unsigned char *data;
    entry *entries;
};

static void release_entry(entry *e)
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
    int ended = 1; /* no read can write to `data` any more */
    if (r == NULL)
        return;
    for (uint32_t i = 0; r->entries != NULL && i < r->depth; i++) {
        if (r->entries[i].queue != NULL)
            clFlush(r->entries[i].queue);
        ended &= cls_upload_wait(&r->entries[i].done);
        release_entry(&r->entries[i]);
    }
    if (r->context->shape.host)
        free(r->data);
    else if (r->data != NULL && ended &&
             clEnqueueUnmapMemObject(r->queue, r->pinned, r->data, 0, NULL, NULL) == CL_SUCCESS)
        clFinish(r->queue);
    if (r->queue != NULL)
        clReleaseCommandQueue(r->queue);
    if (r->pinned != NULL && ended)
        clReleaseMemObject(r->pinned);
    cls_context_destroy(r->context);
    free(r->entries);
    free(r);
}

static cls_status check_entry_size(const cls_context *context, size_t size, uint32_t depth)
{
    if (context == NULL)
        return cls_refuse("context is NULL");
    if (size < 1 || size > (size_t)1 << 30)
        return cls_refuse("size is %zu; it must be 1 to 2^30", size);
    if (depth < 1 || depth > 1024)
        return cls_refuse("depth is %u; it must be 1 to 1024", (unsigned)depth);
    if (size > SIZE_MAX / depth - 63)
        return cls_refuse(
            "size is %zu and depth %u; together they exceed this machine's limit of %zu bytes",
            size, (unsigned)depth, SIZE_MAX);
    return CLS_OK;
}

/* Allocates and maps the ring. */
static cls_status map_ring(cls_readback *r)
{
    const cls_context *const c = r->context;
    const size_t size = r->stride * r->depth;
    cl_int code;
    if (c->shape.host)
        return (r->data = malloc(size)) != NULL ? CLS_OK : cls_no_memory("a readback");
    r->pinned = clCreateBuffer(c->cl, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, size, NULL, &code);
    if (code == CL_SUCCESS)
        r->queue = clCreateCommandQueue(c->cl, c->device, 0, &code);
    if (code == CL_SUCCESS)
        r->data = clEnqueueMapBuffer(r->queue, r->pinned, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                     size, 0, NULL, NULL, &code);
    return cls_opencl_status(code, "cannot allocate %zu bytes of page-locked memory", size);
}

cls_status cls_readback_create(cls_context *context, size_t size, uint32_t depth,
                               cls_readback **out)
{
    if (out == NULL)
        return cls_refuse("out is NULL");
    *out = NULL;
    cls_status status = check_entry_size(context, size, depth);
    if (status != CLS_OK)
        return status;
    cls_readback *const r = calloc(1, sizeof *r);
    if (r == NULL)
        return cls_no_memory("a readback");
    cls_context_retain(context);
    r->context = context;
    r->size = size;
    r->stride = (size + 63) / 64 * 64;
    r->depth = depth;
    r->entries = calloc(depth, sizeof *r->entries);
    if (r->entries == NULL) {
        cls_readback_destroy(r);
        return cls_no_memory("a readback");
    }
    status = map_ring(r);
    if (status != CLS_OK) {
        cls_readback_destroy(r);
        return status;
    }
    *out = r;
    return CLS_OK;
}

/* Sets *state to CL_COMPLETE if the read has ended, above while it is in flight, below if it
 * failed. Returns the error if OpenCL cannot say. */
static cl_int query_state(const entry *e, cl_int *state)
{
    *state = CL_COMPLETE;
    return e->done != NULL ? clGetEventInfo(e->done, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                            sizeof *state, state, NULL)
                           : CL_SUCCESS;
}

static cls_status check_start(const cls_readback *r, cl_command_queue queue, const cls_buffer *from,
                              size_t size, cl_uint n_wait, const cl_event *wait,
                              const uint64_t *ticket, cls_ranges *ranges)
{
    if (r == NULL)
        return cls_refuse("readback is NULL");
    if (from == NULL || !cls_buffer_is_set(from))
        return cls_refuse("from is NULL");
    if (ticket == NULL)
        return cls_refuse("ticket is NULL");
    if (size < 1 || size > r->size)
        return cls_refuse("size is %zu; it must be 1 to the entry's %zu bytes", size, r->size);
    int in_order;
    cls_status status = cls_wait_check(r->context->cl, n_wait, wait);
    if (status == CLS_OK)
        status = cls_queue_check(r->context->cl, r->context->device, queue, &in_order);
    if (status == CLS_OK)
        status = cls_buffer_check(r->context->cl, r->context->device, "from", from, size, 1,
                                  CLS_HOST_READS, ranges);
    return status;
}

cls_status cls_readback_start(cls_readback *r, cl_command_queue queue, const cls_buffer *from,
                              size_t size, cl_uint n_wait, const cl_event *wait, uint64_t *ticket)
{
    cl_event done = NULL;
    cls_ranges ranges;
    cls_ranges_begin(&ranges);
    const cls_status status = check_start(r, queue, from, size, n_wait, wait, ticket, &ranges);
    if (status != CLS_OK)
        return status;
    unsigned char *const to = r->data + (size_t)(r->next % r->depth) * r->stride;
    if (r->context->shape.host) {
        memcpy(to, (const char *)from->pointer + from->offset, size);
        *ticket = r->next++;
        return CLS_OK;
    }
    entry *const e = &r->entries[r->next % r->depth];
    cl_int state, code = query_state(e, &state);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot query whether an earlier read has ended");
    if (state > CL_COMPLETE)
        return cls_fail(CLS_BUSY, CL_SUCCESS,
                        "all %u reads of the ring are in flight: flush the queue and wait for one",
                        (unsigned)r->depth);
    code = clRetainCommandQueue(queue);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot retain queue");
    code = cls_buffer_read(queue, from, 0, size, to, ranges.calls, n_wait, wait, &done);
    if (code != CL_SUCCESS) {
        clReleaseCommandQueue(queue);
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot enqueue the read");
    }
    release_entry(e);
    e->done = done;
    e->queue = queue;
    *ticket = r->next++;
    return CLS_OK;
}

cls_status cls_readback_get(cls_readback *r, uint64_t ticket, int block, const void **data)
{
    if (r == NULL)
        return cls_refuse("readback is NULL");
    if (data == NULL)
        return cls_refuse("data is NULL");
    *data = NULL;
    if (ticket >= r->next)
        return cls_refuse("ticket is %llu, but %llu reads were started", (unsigned long long)ticket,
                          (unsigned long long)r->next);
    if (r->next - ticket > r->depth)
        return cls_refuse("ticket %llu was overwritten: the ring keeps the last %u reads",
                          (unsigned long long)ticket, (unsigned)r->depth);
    entry *const e = &r->entries[ticket % r->depth];
    cl_int state, code = query_state(e, &state);
    if (code == CL_SUCCESS && state > CL_COMPLETE && block) {
        clFlush(e->queue);
        code = clWaitForEvents(1, &e->done);
        if (code == CL_SUCCESS)
            state = CL_COMPLETE;
        else if (query_state(e, &state) == CL_SUCCESS && state <= CL_COMPLETE)
            code = CL_SUCCESS; /* the read has ended although waiting failed */
    }
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot wait for the read");
    if (state > CL_COMPLETE)
        return cls_fail(CLS_BUSY, CL_SUCCESS, "the read is in flight");
    if (state < CL_COMPLETE)
        return cls_fail(CLS_OPENCL_ERROR, state, "the read failed");
    *data = r->data + ticket % r->depth * r->stride;
    return CLS_OK;
}
