/* SPDX-License-Identifier: MIT */
/* How a call's commands come into a queue: events, uploads, kernel arguments.
 * Nothing here waits or allocates. */
#include "sampler/sampler.h"

#include <stdlib.h>

cls_status cls_sampler_lost(void)
{
    return cls_fail(
        CLS_OPENCL_ERROR, CL_SUCCESS,
        "an earlier step failed half way, and slots may be half changed: destroy the sampler");
}

/* -------------------------------------------------------------------- events */

static void waits(const cls_commands *c, cl_uint *n, const cl_event **wait)
{
    *n = c->previous != NULL ? 1 : c->n_wait;
    *wait = c->previous != NULL ? &c->previous : c->n_wait != 0 ? c->wait : NULL;
}

static void drop_previous(cls_commands *c)
{
    if (c->previous != NULL && (c->staging == NULL || c->previous != c->staging->done))
        clReleaseEvent(c->previous);
    c->previous = NULL;
}

/* After a command whose event is `event` (NULL in order). */
static void advance(cls_commands *c, cl_event event)
{
    drop_previous(c);
    c->previous = c->ordered ? NULL : event;
    c->n_wait = 0;
    c->enqueued = 1;
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

static cls_status find_staging(cls_sampler *s, cls_staging **out)
{
    cl_int code = CL_SUCCESS;
    for (int i = 0; i < CLS_STAGING; i++) {
        const cl_int state = cls_upload_state(&s->staging[i].done);
        *out = &s->staging[i];
        if (state == CL_COMPLETE)
            return CLS_OK;
        if (state < CL_COMPLETE)
            code = state;
    }
    return code != CL_SUCCESS
               ? cls_fail(CLS_OPENCL_ERROR, code, "cannot ask whether an earlier upload is over")
               : cls_fail(CLS_BUSY, CL_SUCCESS,
                          "%d steps with slot calls or changed maps are in flight: flush the queue "
                          "and wait for one",
                          CLS_STAGING);
}

/* Bytes of masks of the host's. */
static size_t mask_size(const cls_mask *mask)
{
    return (size_t)cls_extent(mask->rows, mask->row_stride, mask->width,
                              mask->kind == CLS_MASK_BOOL ? 1 : sizeof(int32_t));
}

static cls_status grow_masks(const cls_commands *c, const cls_mask *mask)
{
    cls_block *const block = &c->staging->masks;
    const size_t size = mask_size(mask);
    if (block->size < size) {
        void *const grown = realloc(block->data, size);
        if (grown == NULL)
            return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS,
                            "out of host memory for %zu bytes of masks", size);
        *block = (cls_block){grown, 0, size};
    }
    return cls_device_grow(c->sampler, &c->sampler->masks, size, "masks");
}

static cl_int upload(cls_commands *c, cl_mem buffer, size_t offset, size_t size, const void *data)
{
    cls_staging *const staging = c->staging;
    cl_uint n;
    const cl_event *wait;
    cl_event event;
    waits(c, &n, &wait);
    const cl_int code =
        clEnqueueWriteBuffer(c->queue, buffer, CL_FALSE, offset, size, data, n, wait, &event);
    if (code != CL_SUCCESS)
        return code;
    advance(c, event);
    if (staging->done != NULL)
        clReleaseEvent(staging->done);
    staging->done = event;
    return CL_SUCCESS;
}

cl_int cls_commands_mask(cls_commands *c, cls_mask *mask)
{
    if (mask->host == NULL)
        return CL_SUCCESS;
    const cl_mem buffer = c->sampler->masks.buffer;
    memcpy(c->staging->masks.data, mask->host, mask_size(mask));
    mask->words = (cls_buffer){buffer, 0};
    return upload(c, buffer, 0, mask_size(mask), c->staging->masks.data);
}

int cls_map_changed(const cls_sampler *s, enum cls_map which, const int32_t *map, uint32_t rows)
{
    return map != NULL &&
           (s->sent_rows[which] < rows ||
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

/* By a pattern, which OpenCL copies: no memory of the host's to be kept until it is
 * done. */
static cl_int fill(cls_commands *c, cl_mem buffer, size_t at, const void *block)
{
    cl_uint n;
    const cl_event *wait;
    cl_event event = NULL;
    waits(c, &n, &wait);
    const cl_int code = clEnqueueFillBuffer(c->queue, buffer, block, CLS_ARGS_BLOCK, at,
                                            CLS_ARGS_BLOCK, n, wait, c->ordered ? NULL : &event);
    if (code == CL_SUCCESS)
        advance(c, event);
    return code;
}

cl_int cls_commands_args(cls_commands *c, enum cls_role role, const cls_args *args)
{
    struct cls_told *const told = &c->sampler->told[role];
    cl_int code = CL_SUCCESS;
    for (uint32_t i = 0; i < CLS_ARGS_BLOCKS && code == CL_SUCCESS; i++) {
        const size_t at = i * CLS_ARGS_BLOCK;
        const char *const block = (const char *)args + at;
        char *const sent = (char *)&told->sent + at;
        if ((told->known >> i & 1u) && memcmp(sent, block, CLS_ARGS_BLOCK) == 0)
            continue;
        told->known &= ~(1u << i);
        code = fill(c, told->buffer, at, block);
        if (code == CL_SUCCESS) {
            memcpy(sent, block, CLS_ARGS_BLOCK);
            told->known |= 1u << i;
        }
    }
    return code;
}

void cls_set_buffer(cls_arguments *a, const cls_sampler *s, const cls_buffer *b)
{
    cls_set_mem(a, b->buffer != NULL ? b->buffer : s->rows);
}
void cls_set_map(cls_arguments *a, const cls_sampler *s, const cls_ints *map)
{
    cls_set_mem(a, map->host != NULL            ? s->maps
                   : map->device.buffer != NULL ? map->device.buffer
                                                : s->rows);
}

cl_int cls_commands_launch(cls_commands *c, const cls_arguments *a, const size_t *groups,
                           cl_event *done)
{
    const size_t local[2] = {a->to.group, 1}, global[2] = {a->to.group * groups[0], groups[1]};
    cl_uint n;
    const cl_event *wait;
    cl_event event = NULL;
    if (a->code != CL_SUCCESS)
        return a->code;
    waits(c, &n, &wait);
    const cl_int code = clEnqueueNDRangeKernel(c->queue, a->to.kernel, 2, NULL, global, local, n,
                                               wait, !c->ordered || done != NULL ? &event : NULL);
    if (code != CL_SUCCESS) {
        c->sampler->refused |= a->to.variant;
        return code;
    }
    c->sampler->ran |= a->to.variant;
    c->sampler->launches++;
    c->started = 1;
    advance(c, event);
    if (done != NULL) { /* nothing follows it */
        *done = event;
        c->previous = NULL;
    }
    return CL_SUCCESS;
}

/* ---------------------------------------------------------------- slot calls */

static void swap(cls_block *a, cls_block *b)
{
    const cls_block was = *a;
    *a = *b;
    *b = was;
}

/* Most groups of a launch in its second dimension, which GPUs have 16 bits for. */
#define MOST_GROUPS 65535u

/* What grown lists were before. */
static cl_int copy_lists(cls_commands *c)
{
    cls_sampler *const s = c->sampler;
    cl_uint n;
    const cl_event *wait;
    cl_event event = NULL;
    if (s->old_lists == NULL)
        return CL_SUCCESS;
    waits(c, &n, &wait);
    const cl_int code = clEnqueueCopyBuffer(c->queue, s->old_lists, s->lists.buffer, 0, 0,
                                            s->old_lists_size, n, wait, c->ordered ? NULL : &event);
    if (code != CL_SUCCESS)
        return code;
    advance(c, event);
    clReleaseMemObject(s->old_lists);
    s->old_lists = NULL;
    return CL_SUCCESS;
}

/* Runs changes that don't wait for each other; `first`: where the buffer has the first one's
 * number. */
static cl_int launch_changes(cls_commands *c, uint32_t first, uint32_t n)
{
    const cls_sampler *const s = c->sampler;
    const size_t groups[2] = {1, n};
    cls_arguments a = {
        cls_sampler_kernel(s, CLS_SLOTS, 0, s->pending_state ? CLS_FEATURE_STATE : 0), 0,
        CL_SUCCESS};
    cls_set_mem(&a, s->changes.buffer);
    cls_set_u32(&a, first);
    cls_set_mem(&a, s->words.buffer);
    cls_set_mem(&a, s->slot_buffer);
    cls_set_mem(&a, s->state);
    cls_set_u32(&a, s->layout);
    cls_set_mem(&a, s->lists.buffer);
    cls_set_u32(&a, s->vocab);
    cls_set_u32(&a, s->history);
    cls_set_u32(&a, s->rollback);
    return cls_commands_launch(c, &a, groups, NULL);
}

/* The slot calls since the last step: changes and words in an upload each, rounds
 * in a launch each, or several of MOST_GROUPS. */
static cl_int run_changes(cls_commands *c)
{
    cls_sampler *const s = c->sampler;
    cls_block *const changes = &c->staging->changes, *const words = &c->staging->words;
    const uint32_t n = (uint32_t)(s->pending_changes.used / sizeof(cls_change));
    cl_int code = copy_lists(c);
    if (code != CL_SUCCESS)
        return code;
    const uint32_t *const end = cls_changes_order(s);
    swap(changes, &s->pending_changes);
    swap(words, &s->pending_words);
    s->pending_changes.used = s->pending_words.used = 0;
    code = upload(c, s->changes.buffer, 0, changes->used + n * sizeof(uint32_t), changes->data);
    if (code != CL_SUCCESS) { /* nothing happened: they stay to be done */
        swap(changes, &s->pending_changes);
        swap(words, &s->pending_words);
        return code;
    }
    c->started = 1; /* the calls' memory is in use: no way back */
    if (words->used != 0)
        code = upload(c, s->words.buffer, 0, words->used, words->data);
    for (uint32_t round = 1; round <= s->rounds; round++)
        for (uint32_t i = end[round - 1], many; i < end[round] && code == CL_SUCCESS; i += many) {
            many = end[round] - i < MOST_GROUPS ? end[round] - i : MOST_GROUPS;
            code = launch_changes(c, (uint32_t)(changes->used / sizeof(uint32_t)) + i, many);
        }
    s->rounds = 0;
    s->pending_state = 0;
    s->flush++;
    return code;
}

/* Whether the last step's end is known, and an error (of it, or of what it waited for). */
static int last_failed(const cls_sampler *s, cl_int *code)
{
    cl_int state = CL_COMPLETE;
    if (s->last == NULL || clGetEventInfo(s->last, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state,
                                          &state, NULL) != CL_SUCCESS)
        return 0;
    *code = state < CL_COMPLETE ? state : CL_SUCCESS;
    return state < CL_COMPLETE;
}

cls_status cls_commands_begin(cls_commands *c, cls_sampler *s, cl_command_queue queue, int ordered,
                              cl_uint n_wait, const cl_event *wait, int uploads,
                              const cls_mask *mask)
{
    const int masks = mask != NULL && mask->host != NULL;
    cls_status status = CLS_OK;
    cl_int code = CL_SUCCESS;
    memset(c, 0, sizeof *c);
    c->sampler = s;
    c->queue = queue;
    c->ordered = ordered;
    if (s->lost)
        return cls_sampler_lost();
    if (last_failed(s, &code)) {
        s->lost = 1;
        return cls_fail(CLS_OPENCL_ERROR, code,
                        "the last step ended with an error, and slots may be half changed: destroy "
                        "the sampler");
    }
    if (uploads || masks || s->rounds != 0)
        status = find_staging(s, &c->staging);
    if (status == CLS_OK && masks)
        status = grow_masks(c, mask);
    if (status != CLS_OK)
        return status;
    if (queue != s->last_queue) { /* retained: another queue must not get its address */
        code = clRetainCommandQueue(queue);
        c->retained = code == CL_SUCCESS;
    }
    s->launches = 0;
    if (code == CL_SUCCESS)
        code = join(c, n_wait, wait);
    if (code == CL_SUCCESS && s->rounds != 0)
        code = run_changes(c);
    return code == CL_SUCCESS
               ? CLS_OK
               : cls_commands_end(c, code, "cannot enqueue what slot calls changed", NULL, NULL);
}

/* The sampler's next commands follow `event`, the last one's of this call. */
static void follow(cls_commands *c, cl_event event)
{
    cls_sampler *const s = c->sampler;
    if (s->last != NULL)
        clReleaseEvent(s->last);
    s->last = event;
    if (!c->retained)
        return;
    if (s->last_queue != NULL)
        clReleaseCommandQueue(s->last_queue);
    s->last_queue = c->queue;
    c->retained = 0;
}

/* A call that failed: uploads that came before that are still to be waited for. */
static void give_up(cls_commands *c)
{
    cl_event event = NULL;
    if (c->enqueued && !c->started) {
        const cl_uint n = c->previous != NULL;
        if (clEnqueueMarkerWithWaitList(c->queue, n, n != 0 ? &c->previous : NULL, &event) ==
            CL_SUCCESS)
            follow(c, event);
    }
    c->sampler->lost |= c->enqueued && event == NULL;
    if (c->enqueued)
        clFlush(c->queue); /* whoever destroys the sampler waits for its uploads */
    if (c->retained)
        clReleaseCommandQueue(c->queue);
    drop_previous(c);
}

cls_status cls_commands_end(cls_commands *c, cl_int code, const char *what, cl_event end,
                            cl_event *done)
{
    if (c->marked)
        clReleaseEvent(c->own[1]);
    if (code == CL_SUCCESS)
        drop_previous(c);
    if (code == CL_SUCCESS && c->staging != NULL)
        code = cls_upload_until(&c->staging->done, end);
    if (code == CL_SUCCESS && done != NULL)
        code = clRetainEvent(end);
    if (code != CL_SUCCESS) {
        give_up(c);
        if (end != NULL)
            clReleaseEvent(end);
        return cls_fail(CLS_OPENCL_ERROR, code, "%s", what);
    }
    if (done != NULL)
        *done = end;
    follow(c, end);
    return CLS_OK;
}
