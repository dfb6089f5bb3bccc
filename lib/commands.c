/* SPDX-License-Identifier: MIT */
/* How a call's commands come into a queue: events, uploads, kernel arguments.
 * Nothing here waits or allocates. */
#include "internal.h"

#include <stdlib.h>

cls_status cls_queue_check(const cls_context *c, cl_command_queue queue, int *ordered)
{
    cl_context context = NULL;
    cl_device_id device = NULL;
    cl_command_queue_properties properties = 0;
    if (queue == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "queue is NULL");
    cl_int code = clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    if (code == CL_SUCCESS)
        code = clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    if (code == CL_SUCCESS)
        code = clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_BAD_ARGUMENT, code, "queue is no command queue");
    if (context != c->cl || device != c->device)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "queue belongs to another OpenCL context or device than the cls_context");
    *ordered = !(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    return CLS_OK;
}

cls_status cls_sampler_lost(void)
{
    return cls_fail(CLS_OPENCL_ERROR, CL_SUCCESS, "an earlier step failed half way, and slots may be half changed: destroy the sampler");
}

cls_status cls_wait_check(cl_uint n_wait, const cl_event *wait)
{
    if ((n_wait == 0) != (wait == NULL))
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "n_wait is %u, but wait is %s", (unsigned)n_wait,
                        wait == NULL ? "NULL" : "not NULL");
    for (cl_uint i = 0; i < n_wait; i++)
        if (wait[i] == NULL)
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "wait[%u] is NULL", (unsigned)i);
    return CLS_OK;
}

/* -------------------------------------------------------------------- events */

static void waits(const cls_commands *c, cl_uint *n, const cl_event **wait)
{
    *n = c->previous != NULL ? 1 : c->n_wait;
    *wait = c->previous != NULL ? &c->previous : c->n_wait != 0 ? c->wait : NULL;
}

/* After a command whose event is `event` (NULL in order). */
static void advance(cls_commands *c, cl_event event)
{
    if (c->previous != NULL)
        clReleaseEvent(c->previous);
    c->previous = c->ordered ? NULL : event;
    c->n_wait = 0;
}

static cl_int join(cls_commands *c, cl_uint n_wait, const cl_event *wait)
{
    const cls_sampler *const s = c->sampler;
    c->n_wait = n_wait;
    c->wait = wait;
    if (s->last == NULL || (c->ordered && s->last_queue == c->queue))
        return CL_SUCCESS;
    /* Whoever waits for another queue's event must see that queue flushed: on
     * some drivers it would never run (rusticl). */
    if (s->last_queue != c->queue)
        clFlush(s->last_queue);
    c->own[0] = s->last;
    if (n_wait == 1)
        c->own[1] = wait[0];
    if (n_wait > 1) {
        const cl_int code = clEnqueueMarkerWithWaitList(c->queue, n_wait, wait, &c->own[1]);
        if (code != CL_SUCCESS)
            return code;
        c->marked = 1;
    }
    c->n_wait = n_wait > 0 ? 2 : 1;
    c->wait = c->own;
    return CL_SUCCESS;
}

/* ------------------------------------------------------------------- uploads */

int cls_upload_over(cl_event *done)
{
    cl_int state = CL_COMPLETE;
    if (*done == NULL)
        return 1;
    if (clGetEventInfo(*done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL) != CL_SUCCESS || state > CL_COMPLETE)
        return 0;
    clReleaseEvent(*done);
    *done = NULL;
    return 1;
}

static cls_staging *free_staging(cls_sampler *s)
{
    for (int i = 0; i < CLS_STAGING; i++)
        if (cls_upload_over(&s->staging[i].done))
            return &s->staging[i];
    return NULL;
}

static cl_int upload(cls_commands *c, cl_mem buffer, size_t offset, size_t size, const void *data)
{
    cls_staging *const staging = c->staging;
    cl_uint n;
    const cl_event *wait;
    cl_event event;
    waits(c, &n, &wait);
    const cl_int code = clEnqueueWriteBuffer(c->queue, buffer, CL_FALSE, offset, size, data, n, wait, &event);
    if (code != CL_SUCCESS)
        return code;
    if (staging->done != NULL)
        clReleaseEvent(staging->done);
    staging->done = event;
    if (!c->ordered)
        clRetainEvent(event);
    advance(c, event);
    return CL_SUCCESS;
}

cls_status cls_commands_mask(cls_commands *c, cls_mask *mask)
{
    cls_sampler *const s = c->sampler;
    const uint64_t element = mask->kind == CLS_MASK_BOOL ? 1 : sizeof(int32_t);
    if (mask->host == NULL)
        return CLS_OK;
    const size_t size = (size_t)cls_extent(mask->rows, mask->row_stride, mask->width, element);
    cls_block *const block = &c->staging->masks;
    cl_int code = cls_device_grow(s, &s->masks, size, "masks") == CLS_OK ? CL_SUCCESS : CL_MEM_OBJECT_ALLOCATION_FAILURE;
    if (code == CL_SUCCESS && block->size < size) {
        void *const grown = realloc(block->data, size);
        code = grown == NULL ? CL_OUT_OF_HOST_MEMORY : CL_SUCCESS;
        *block = grown == NULL ? *block : (cls_block){ grown, 0, size };
    }
    if (code != CL_SUCCESS)
        return cls_commands_end(c, code, "no memory for the masks", NULL, NULL);
    memcpy(block->data, mask->host, size);
    code = upload(c, s->masks.buffer, 0, size, block->data);
    if (code != CL_SUCCESS)
        return cls_commands_end(c, code, "cannot upload the masks", NULL, NULL);
    mask->words = (cls_buffer){ s->masks.buffer, 0 };
    return CLS_OK;
}

int cls_map_changed(const cls_sampler *s, enum cls_map which, const int32_t *map, uint32_t rows)
{
    return map != NULL && (s->sent_rows[which] < rows ||
                           memcmp(map, s->sent + (size_t)which * s->max_rows, rows * sizeof *map) != 0);
}

cl_int cls_commands_map(cls_commands *c, enum cls_map which, const int32_t *map, uint32_t rows)
{
    cls_sampler *const s = c->sampler;
    const size_t at = (size_t)which * s->max_rows, size = rows * sizeof *map;
    if (!cls_map_changed(s, which, map, rows))
        return CL_SUCCESS;
    memcpy(c->staging->maps + at, map, size);
    s->sent_rows[which] = 0;
    const cl_int code = upload(c, s->maps, at * sizeof *map, size, c->staging->maps + at);
    if (code == CL_SUCCESS) {
        memcpy(s->sent + at, map, size);
        s->sent_rows[which] = rows;
    }
    return code;
}

/* ------------------------------------------------------------------- kernels */

static void set(cls_arguments *a, size_t size, const void *value)
{
    const cl_int code = clSetKernelArg(a->kernel, a->next++, size, value);
    if (a->code == CL_SUCCESS)
        a->code = code;
}
void cls_set_mem(cls_arguments *a, cl_mem x) { set(a, sizeof x, &x); }
void cls_set_u32(cls_arguments *a, uint32_t x) { set(a, sizeof x, &x); }
void cls_set_u64(cls_arguments *a, uint64_t x) { set(a, sizeof x, &x); }
void cls_set_buffer(cls_arguments *a, const cls_sampler *s, const cls_buffer *b, size_t element)
{
    cls_set_mem(a, b->buffer != NULL ? b->buffer : s->rows);
    cls_set_u64(a, b->offset / element);
}
void cls_set_map(cls_arguments *a, const cls_sampler *s, enum cls_map which, const cls_ints *map)
{
    const cls_buffer host = { s->maps, (uint64_t)which * s->max_rows * sizeof(int32_t) };
    cls_set_buffer(a, s, map->host != NULL ? &host : &map->device, sizeof(int32_t));
}

cl_int cls_commands_launch(cls_commands *c, const cls_arguments *a, uint32_t items, const size_t *groups, cl_event *done)
{
    const size_t local[2] = { items, 1 }, global[2] = { items * groups[0], groups[1] };
    cl_uint n;
    const cl_event *wait;
    cl_event event = NULL;
    if (a->code != CL_SUCCESS)
        return a->code;
    waits(c, &n, &wait);
    const cl_int code = clEnqueueNDRangeKernel(c->queue, a->kernel, 2, NULL, global, local, n, wait,
                                               !c->ordered || done != NULL ? &event : NULL);
    if (code != CL_SUCCESS)
        return code;
    c->sampler->launches++;
    c->started = 1;
    if (done != NULL) {
        *done = event;
        if (!c->ordered)
            clRetainEvent(event);
    }
    advance(c, event);
    return CL_SUCCESS;
}

/* ---------------------------------------------------------------- slot calls */

static void swap(cls_block *a, cls_block *b)
{
    const cls_block was = *a;
    *a = *b;
    *b = was;
}

/* The slot calls since the last step: their words in two uploads, their rounds
 * a launch each. */
static cl_int run_changes(cls_commands *c)
{
    cls_sampler *const s = c->sampler;
    cls_block *const changes = &c->staging->changes, *const words = &c->staging->words;
    const size_t groups[2] = { 1, s->pending_changes.used / sizeof(cls_change) };
    cl_int code = CL_SUCCESS;
    if (s->old_lists != NULL) {
        cl_uint n;
        const cl_event *wait;
        cl_event event = NULL;
        waits(c, &n, &wait);
        code = clEnqueueCopyBuffer(c->queue, s->old_lists, s->lists.buffer, 0, 0, s->old_lists_size, n, wait,
                                   c->ordered ? NULL : &event);
        if (code != CL_SUCCESS)
            return code;
        advance(c, event);
        clReleaseMemObject(s->old_lists);
        s->old_lists = NULL;
    }
    swap(changes, &s->pending_changes);
    swap(words, &s->pending_words);
    s->pending_changes.used = s->pending_words.used = 0;
    code = upload(c, s->changes.buffer, 0, changes->used, changes->data);
    if (code != CL_SUCCESS) { /* nothing happened: they stay to be done */
        swap(changes, &s->pending_changes);
        swap(words, &s->pending_words);
        return code;
    }
    c->started = 1; /* the calls' memory is in use: no way back */
    if (words->used != 0)
        code = upload(c, s->words.buffer, 0, words->used, words->data);
    for (uint32_t round = 1; round <= s->rounds && code == CL_SUCCESS; round++) {
        cls_arguments a = { cls_sampler_kernel(s, CLS_SLOTS), 0, CL_SUCCESS };
        cls_set_mem(&a, s->changes.buffer);
        cls_set_u32(&a, round);
        cls_set_mem(&a, s->words.buffer);
        cls_set_mem(&a, s->slot_buffer);
        cls_set_mem(&a, s->state);
        cls_set_u32(&a, s->layout);
        cls_set_mem(&a, s->lists.buffer);
        cls_set_u32(&a, s->vocab);
        cls_set_u32(&a, s->history);
        cls_set_u32(&a, s->rollback);
        code = cls_commands_launch(c, &a, s->context->shape.row_group, groups, NULL);
    }
    s->rounds = 0;
    s->flush++;
    return code;
}

cls_status cls_commands_begin(cls_commands *c, cls_sampler *s, cl_command_queue queue, int ordered, cl_uint n_wait,
                              const cl_event *wait, int uploads)
{
    memset(c, 0, sizeof *c);
    c->sampler = s;
    c->queue = queue;
    c->ordered = ordered;
    if (s->lost)
        return cls_sampler_lost();
    if (uploads || s->rounds != 0) {
        c->staging = free_staging(s);
        if (c->staging == NULL)
            return cls_fail(CLS_BUSY, CL_SUCCESS, "%d steps with slot calls or changed maps are in flight: flush the queue and wait for one",
                            CLS_STAGING);
    }
    s->launches = 0;
    cl_int code = join(c, n_wait, wait);
    if (code == CL_SUCCESS && s->rounds != 0)
        code = run_changes(c);
    return code == CL_SUCCESS ? CLS_OK : cls_commands_end(c, code, "cannot enqueue what slot calls changed", NULL, NULL);
}

cls_status cls_commands_end(cls_commands *c, cl_int code, const char *what, cl_event end, cl_event *done)
{
    cls_sampler *const s = c->sampler;
    if (c->marked)
        clReleaseEvent(c->own[1]);
    if (c->previous != NULL)
        clReleaseEvent(c->previous);
    if (code != CL_SUCCESS) {
        s->lost |= c->started;
        if (end != NULL)
            clReleaseEvent(end);
        return cls_fail(CLS_OPENCL_ERROR, code, "%s", what);
    }
    if (s->last != NULL)
        clReleaseEvent(s->last);
    if (s->last_queue != c->queue) { /* retained: another queue must not get its address */
        if (s->last_queue != NULL)
            clReleaseCommandQueue(s->last_queue);
        clRetainCommandQueue(c->queue);
        s->last_queue = c->queue;
    }
    s->last = end;
    if (done != NULL) {
        clRetainEvent(end);
        *done = end;
    }
    return CLS_OK;
}
