/* SPDX-License-Identifier: MIT */
/* Enqueues the commands of a call: events that order them, uploads, kernel arguments, launches and
 * the pending changes of slots. Nothing here waits; memory is allocated only for masks from the
 * host and for several tokens a row. */
#include "sampler/sampler.h"

#include <stddef.h>
#include <stdlib.h>

static cls_status report_loss(const cls_sampler *s, const char *what)
{
    return cls_fail(CLS_LOST, s->lost, "%s, and slots may be partly changed: destroy the sampler",
                    what);
}

cls_status cls_sampler_lost(const cls_sampler *s)
{
    return report_loss(s, "an earlier step failed in the middle");
}

cls_status cls_sampler_lose(cls_sampler *s, cl_int code, const char *what)
{
    if (s->lost == CL_SUCCESS)
        s->lost = code;
    return report_loss(s, what);
}

void cls_sampler_flush(const cls_sampler *s, cl_command_queue queue)
{
    if (s->last_queue != NULL && s->last_queue != queue)
        clFlush(s->last_queue);
}

/* -------------------------------------------------------------------- events */

/* Gets the events that the next command must wait for. */
static void get_wait_list(const cls_commands *c, cl_uint *n, const cl_event **wait)
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

/* Records that a command was enqueued, whose event is NULL in an in-order queue. */
static void advance(cls_commands *c, cl_event event)
{
    drop_previous(c);
    c->previous = c->in_order ? NULL : event;
    c->n_wait = 0;
    c->enqueued = 1;
}

/* Makes the first command wait for the caller's events and the sampler's last step. */
static cl_int join_last_step(cls_commands *c, cl_uint n_wait, const cl_event *wait)
{
    const cls_sampler *const s = c->sampler;
    c->n_wait = n_wait;
    c->wait = wait;
    if (s->last_event == NULL || (c->in_order && s->last_queue == c->queue))
        return CL_SUCCESS;
    cls_sampler_flush(s, c->queue);
    c->joined[0] = s->last_event;
    if (n_wait == 1)
        c->joined[1] = wait[0];
    if (n_wait > 1) {
        const cl_int code = clEnqueueMarkerWithWaitList(c->queue, n_wait, wait, &c->joined[1]);
        if (code != CL_SUCCESS)
            return code;
        c->has_marker = 1;
    }
    c->n_wait = n_wait > 0 ? 2 : 1;
    c->wait = c->joined;
    return CL_SUCCESS;
}

/* ------------------------------------------------------------------- uploads */

/* Finds staging memory that no upload is using. */
static cls_status find_staging(cls_sampler *s, cls_staging **out)
{
    cl_int code = CL_SUCCESS;
    for (int i = 0; i < CLS_STAGING_COUNT; i++) {
        const cl_int state = cls_upload_poll(&s->staging[i].done);
        *out = &s->staging[i];
        if (state == CL_COMPLETE)
            return CLS_OK;
        if (state < CL_COMPLETE)
            code = state;
    }
    return code != CL_SUCCESS ? cls_fail(CLS_OPENCL_ERROR, code,
                                         "cannot query whether an earlier upload has ended")
                              : cls_fail(CLS_BUSY, CL_SUCCESS,
                                         "%d steps with slot calls or changed maps are in flight: "
                                         "flush the queue and wait for one",
                                         CLS_STAGING_COUNT);
}

static cls_status grow_data(const cls_commands *c, const cls_host_data *data)
{
    cls_host_buffer *const staging = &c->staging->payload;
    if (staging->size < data->size) {
        void *const larger = realloc(staging->data, data->size);
        if (larger == NULL)
            return cls_no_memory("%zu bytes of %s", data->size, data->what);
        *staging = (cls_host_buffer){larger, 0, data->size};
    }
    return cls_device_buffer_grow(c->sampler, &c->sampler->payload, data->size, data->what);
}

static cl_int upload_bytes(cls_commands *c, cl_mem buffer, size_t offset, size_t size,
                           const void *data)
{
    cls_staging *const staging = c->staging;
    cl_uint n;
    const cl_event *wait;
    cl_event event;
    get_wait_list(c, &n, &wait);
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

cl_int cls_commands_upload_data(cls_commands *c, const cls_host_data *data)
{
    memcpy(c->staging->payload.data, data->data, data->size);
    return upload_bytes(c, c->sampler->payload.buffer, 0, data->size, c->staging->payload.data);
}

int cls_map_changed(const cls_sampler *s, enum cls_map which, const int32_t *map, uint32_t rows)
{
    return map != NULL &&
           (s->device_map_rows[which] < rows ||
            memcmp(map, s->device_maps + (size_t)which * s->max_rows, rows * sizeof *map) != 0);
}

cl_int cls_commands_upload_map(cls_commands *c, enum cls_map which, const int32_t *map,
                               uint32_t rows)
{
    cls_sampler *const s = c->sampler;
    const size_t offset = (size_t)which * s->max_rows, size = rows * sizeof *map;
    if (!cls_map_changed(s, which, map, rows))
        return CL_SUCCESS;
    memcpy(c->staging->maps + offset, map, size);
    s->device_map_rows[which] = 0;
    const cl_int code =
        upload_bytes(c, s->maps, offset * sizeof *map, size, c->staging->maps + offset);
    if (code == CL_SUCCESS) {
        memcpy(s->device_maps + offset, map, size);
        s->device_map_rows[which] = rows;
    }
    return code;
}

cl_int cls_commands_upload_rows(cls_commands *c, cl_mem buffer, size_t size, const void *rows)
{
    memcpy(c->staging->rows.data, rows, size);
    return upload_bytes(c, buffer, 0, size, c->staging->rows.data);
}

/* ------------------------------------------------------------------- kernels */

cl_int cls_commands_write(cls_commands *c, cl_mem buffer, size_t size, const void *data)
{
    cl_uint n;
    const cl_event *wait;
    cl_event event = NULL;
    get_wait_list(c, &n, &wait);
    const cl_int code = clEnqueueWriteBuffer(c->queue, buffer, CL_FALSE, 0, size, data, n, wait,
                                             c->in_order ? NULL : &event);
    if (code == CL_SUCCESS)
        advance(c, event);
    return code;
}

cl_int cls_commands_copy(cls_commands *c, cl_mem from, cl_mem to, size_t offset, size_t size)
{
    cl_uint n;
    const cl_event *wait;
    cl_event event = NULL;
    get_wait_list(c, &n, &wait);
    const cl_int code = clEnqueueCopyBuffer(c->queue, from, to, 0, offset, size, n, wait,
                                            c->in_order ? NULL : &event);
    if (code == CL_SUCCESS)
        advance(c, event);
    return code;
}

/* Writes a block of arguments as a fill pattern. OpenCL copies a pattern when the command is
 * enqueued, so that no host memory needs to stay until the command has run. */
static cl_int write_block(cls_commands *c, cl_mem buffer, size_t offset, const void *block)
{
    cl_uint n;
    const cl_event *wait;
    cl_event event = NULL;
    get_wait_list(c, &n, &wait);
    const cl_int code = clEnqueueFillBuffer(c->queue, buffer, block, CLS_ARGS_BLOCK, offset,
                                            CLS_ARGS_BLOCK, n, wait, c->in_order ? NULL : &event);
    if (code == CL_SUCCESS)
        advance(c, event);
    return code;
}

cl_int cls_commands_write_args(cls_commands *c, enum cls_arg_set arg_set, const cls_args *args)
{
    struct cls_arg_buffer *const known = &c->sampler->arg_buffers[arg_set];
    cl_int code = CL_SUCCESS;
    if (c->sampler->context->shape.by_value) {
        known->written = *args;
        return code;
    }
    for (uint32_t i = 0; i < CLS_ARGS_BLOCKS && code == CL_SUCCESS; i++) {
        const size_t offset = i * CLS_ARGS_BLOCK;
        const char *const block = (const char *)args + offset;
        char *const written = (char *)&known->written + offset;
        if ((known->valid >> i & 1u) && memcmp(written, block, CLS_ARGS_BLOCK) == 0)
            continue;
        known->valid &= ~(1u << i);
        code = write_block(c, known->buffer, offset, block);
        if (code == CL_SUCCESS) {
            memcpy(written, block, CLS_ARGS_BLOCK);
            known->valid |= 1u << i;
        }
    }
    return code;
}

cls_buffers cls_sampler_buffers(const cls_sampler *s)
{
    cls_buffers b = {
        .slots = s->slot_buffer,
        .state = s->state,
        .effects = s->effects,
        .tile_key = s->tile_key,
        .tile_mass = s->tile_mass,
        .tile_flags = s->tile_flags,
        .rows = s->rows,
        .tile_sums = s->tile_sums,
        .row_scratch = s->row_scratch,
        .pass = s->pass,
        .maps = s->maps,
        .raw_key = s->raw_key,
        .raw_mass = s->raw_mass,
    };
    for (size_t i = CLS_PLACE(slots); i < CLS_BOUND; i++)
        b.lasts[i] = ((const cl_mem *)(const void *)&b)[i] != NULL;
    b.lists = s->lists.buffer; /* these two may be replaced */
    b.infill = s->infill;
    return b;
}

/* The most groups of a launch in its second dimension, for which GPUs have 16 bits. */
#define MAX_GROUPS 65535u

/* Launches n groups of the second dimension, from `first` on. */
static cl_int launch_part(cls_commands *c, const cls_arguments *a, size_t groups, size_t first,
                          size_t n, cl_event *done)
{
    const size_t local[2] = {a->kernel.group, 1}, global[2] = {a->kernel.group * groups, n},
                 offset[2] = {0, first};
    cl_uint n_wait;
    const cl_event *wait;
    cl_event event = NULL;
    get_wait_list(c, &n_wait, &wait);
    const cl_int code =
        clEnqueueNDRangeKernel(c->queue, a->kernel.handle, 2, first != 0 ? offset : NULL, global,
                               local, n_wait, wait, !c->in_order || done != NULL ? &event : NULL);
    if (code != CL_SUCCESS) {
        c->sampler->launched_variants = a->kernel.variant;
        return code;
    }
    c->sampler->launched_variants |= a->kernel.variant;
    c->sampler->launches++;
    c->started = 1;
    advance(c, event);
    if (done != NULL) { /* the last command */
        *done = event;
        c->previous = NULL;
    }
    return CL_SUCCESS;
}

cl_int cls_commands_launch(cls_commands *c, const cls_arguments *a, const size_t *groups,
                           cl_event *done)
{
    cl_int code = a->code;
    for (size_t first = 0, n; first < groups[1] && code == CL_SUCCESS; first += n) {
        const size_t left = groups[1] - first;
        n = left < MAX_GROUPS ? left : MAX_GROUPS;
        code = launch_part(c, a, groups[0], first, n, n == left ? done : NULL);
    }
    return code;
}

/* ---------------------------------------------------------------- slot calls */

static void swap(cls_host_buffer *a, cls_host_buffer *b)
{
    const cls_host_buffer old_a = *a;
    *a = *b;
    *b = old_a;
}

/* Copies the lists from the buffer that was too small. */
static cl_int copy_lists(cls_commands *c)
{
    cls_sampler *const s = c->sampler;
    cl_uint n;
    const cl_event *wait;
    cl_event event = NULL;
    if (s->lists_to_copy == NULL)
        return CL_SUCCESS;
    get_wait_list(c, &n, &wait);
    const cl_int code =
        clEnqueueCopyBuffer(c->queue, s->lists_to_copy, s->lists.buffer, 0, 0,
                            s->lists_to_copy_size, n, wait, c->in_order ? NULL : &event);
    if (code != CL_SUCCESS)
        return code;
    advance(c, event);
    clReleaseMemObject(s->lists_to_copy);
    s->lists_to_copy = NULL;
    return CL_SUCCESS;
}

/* Copies the words of grammars that are new to the sampler to its lists. */
static cl_int copy_grammars(cls_commands *c)
{
    cl_int code = CL_SUCCESS;
    for (cls_lists *l = c->sampler->grammars; l != NULL && code == CL_SUCCESS;
         l = l->next_grammar) {
        if (l->upload == NULL)
            continue;
        code = cls_commands_copy(c, l->upload, c->sampler->lists.buffer,
                                 l->offset * sizeof(uint32_t), l->words * sizeof(uint32_t));
        if (code != CL_SUCCESS)
            continue;
        clReleaseMemObject(l->upload);
        l->upload = NULL;
    }
    return code;
}

/* Runs n changes of one round. `first` is the offset, in words, of the first one's index. */
static cl_int launch_changes(cls_commands *c, uint32_t first, uint32_t n)
{
    const cls_sampler *const s = c->sampler;
    const size_t groups[2] = {1, n};
    cls_arguments a = {
        cls_sampler_kernel(s, CLS_SLOTS, 0, s->pending_needs_state ? CLS_FEATURE_STATE : 0), 0,
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

/* Uploads the pending changes and their words, and launches the kernel once per round. */
static cl_int run_changes(cls_commands *c)
{
    cls_sampler *const s = c->sampler;
    cls_host_buffer *const changes = &c->staging->changes, *const words = &c->staging->words;
    const uint32_t n = (uint32_t)(s->pending_changes.used / sizeof(cls_change));
    cl_int code = copy_lists(c);
    if (code == CL_SUCCESS)
        code = copy_grammars(c);
    if (code != CL_SUCCESS)
        return code;
    const uint32_t *const end = cls_changes_sort(s);
    swap(changes, &s->pending_changes);
    swap(words, &s->pending_words);
    s->pending_changes.used = s->pending_words.used = 0;
    code =
        upload_bytes(c, s->changes.buffer, 0, changes->used + n * sizeof(uint32_t), changes->data);
    if (code != CL_SUCCESS) { /* nothing was enqueued: the changes stay pending */
        swap(changes, &s->pending_changes);
        swap(words, &s->pending_words);
        return code;
    }
    c->started = 1; /* the upload is using their memory, so they cannot become pending again */
    if (words->used != 0)
        code = upload_bytes(c, s->words.buffer, 0, words->used, words->data);
    for (uint32_t round = 1; round <= s->rounds && code == CL_SUCCESS; round++)
        code = launch_changes(c, (uint32_t)(changes->used / sizeof(uint32_t)) + end[round - 1],
                              end[round] - end[round - 1]);
    s->rounds = 0;
    s->pending_needs_state = 0;
    s->batch++;
    return code;
}

/* Returns 1 and the error if the last step is known to have failed, or a command that it waited
 * for. */
static int last_step_failed(const cls_sampler *s, cl_int *code)
{
    cl_int state = CL_COMPLETE;
    if (s->last_event == NULL || clGetEventInfo(s->last_event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                                sizeof state, &state, NULL) != CL_SUCCESS)
        return 0;
    *code = state < CL_COMPLETE ? state : CL_SUCCESS;
    return state < CL_COMPLETE;
}

cls_status cls_commands_begin(cls_commands *c, cls_sampler *s, cl_command_queue queue, int in_order,
                              cl_uint n_wait, const cl_event *wait, int uploads,
                              const cls_host_data *data)
{
    const int has_data = data != NULL && data->data != NULL;
    cls_status status = CLS_OK;
    cl_int code = CL_SUCCESS;
    memset(c, 0, sizeof *c);
    c->sampler = s;
    c->queue = queue;
    c->in_order = in_order;
    if (s->lost != CL_SUCCESS)
        return cls_sampler_lost(s);
    if (last_step_failed(s, &code))
        return cls_sampler_lose(s, code, "the last step ended with an error");
    if (uploads || has_data || s->rounds != 0)
        status = find_staging(s, &c->staging);
    if (status == CLS_OK && has_data)
        status = grow_data(c, data);
    if (status != CLS_OK)
        return status;
    if (queue != s->last_queue) { /* retained, so that no other queue gets its address */
        code = clRetainCommandQueue(queue);
        c->queue_retained = code == CL_SUCCESS;
    }
    s->launches = 0;
    if (code == CL_SUCCESS)
        code = join_last_step(c, n_wait, wait);
    if (code == CL_SUCCESS && s->rounds != 0)
        code = run_changes(c);
    return code == CL_SUCCESS
               ? CLS_OK
               : cls_commands_end(c, code, "cannot enqueue the changes of slot calls", NULL, NULL);
}

/* Makes `event`, of this call's last command, the one that the next call waits for. */
static void set_last_event(cls_commands *c, cl_event event)
{
    cls_sampler *const s = c->sampler;
    if (s->last_event != NULL)
        clReleaseEvent(s->last_event);
    s->last_event = event;
    if (!c->queue_retained)
        return;
    if (s->last_queue != NULL)
        clReleaseCommandQueue(s->last_queue);
    s->last_queue = c->queue;
    c->queue_retained = 0;
}

/* Ends a call that failed. The next call must wait for its uploads. Returns 1 if it cannot, or if
 * slots may have changed: the sampler is lost then. */
static int abandon(cls_commands *c)
{
    cl_event event = NULL;
    if (c->enqueued && !c->started) {
        const cl_uint n = c->previous != NULL;
        if (clEnqueueMarkerWithWaitList(c->queue, n, n != 0 ? &c->previous : NULL, &event) ==
            CL_SUCCESS)
            set_last_event(c, event);
    }
    if (c->enqueued)
        clFlush(c->queue); /* cls_sampler_destroy() waits for the uploads */
    if (c->queue_retained)
        clReleaseCommandQueue(c->queue);
    drop_previous(c);
    return c->enqueued && event == NULL;
}

cls_status cls_commands_end(cls_commands *c, cl_int code, const char *what, cl_event end,
                            cl_event *done)
{
    if (c->has_marker)
        clReleaseEvent(c->joined[1]);
    if (code == CL_SUCCESS)
        drop_previous(c);
    if (code == CL_SUCCESS && c->staging != NULL)
        code = cls_upload_extend(&c->staging->done, end);
    if (code == CL_SUCCESS && done != NULL)
        code = clRetainEvent(end);
    if (code != CL_SUCCESS) {
        const int lost = abandon(c);
        if (end != NULL)
            clReleaseEvent(end);
        return lost ? cls_sampler_lose(c->sampler, code, what)
                    : cls_fail(CLS_OPENCL_ERROR, code, "%s", what);
    }
    if (done != NULL)
        *done = end;
    set_last_event(c, end);
    return CLS_OK;
}
