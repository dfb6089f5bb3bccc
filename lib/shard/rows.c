/* SPDX-License-Identifier: MIT */
/* The exchange of rows: each shard surveys its own tokens and sends what the rows need (decide.c),
 * a merge makes rows of the whole vocabulary of it, and the usual kernels draw from these. */
#include "shard/shard.h"

#include <stdlib.h>

/* -------------------------------------------------------------------------- memory */

/* A device buffer of fixed size. */
typedef struct fixed {
    cl_mem *buffer;
    uint64_t bytes;
} fixed;

enum { FIXED = 9 };

static void list_fixed(cls_shard *h, fixed all[FIXED])
{
    const cls_sampler *const s = h->sampler;
    const uint64_t rows = s->max_rows, tiles = rows * s->tiles;
    const uint64_t keys = tiles * CLS_MAX_TILES_PER_TILE * sizeof(int32_t);
    const fixed table[FIXED] = {
        {&h->own[0], keys},
        {&h->own[1], tiles * sizeof(uint64_t)},
        {&h->own[2], tiles * sizeof(uint32_t)},
        {&h->merged[0], keys},
        {&h->merged[1], tiles * sizeof(uint64_t)},
        {&h->merged[2], tiles * sizeof(uint32_t)},
        {&h->merged_logits, tiles * CLS_TILE * sizeof(float)},
        {&h->rows_buffer, rows * sizeof(cls_shard_row)},
        {&h->borders_buffer, ((uint64_t)h->shards + 1) * sizeof(uint32_t)},
    };
    memcpy(all, table, sizeof table);
}

/* Writes what never changes: the borders; and that tiles of other shards have no token. Merged
 * logits begin as -inf, since memory may hold NaN. */
static cl_int fill(cls_shard *h, const fixed *all)
{
    const int32_t none = CLS_KEY_NONE;
    const uint32_t zero = 0;
    const float masked = float_of_key(CLS_KEY_NONE);
    cl_int code;
    const cl_command_queue queue =
        clCreateCommandQueue(h->sampler->context->cl, h->sampler->context->device, 0, &code);
    if (code != CL_SUCCESS)
        return code;
    code = clEnqueueFillBuffer(queue, h->own[0], &none, sizeof none, 0, (size_t)all[0].bytes, 0,
                               NULL, NULL);
    for (int i = 1; i < 3 && code == CL_SUCCESS; i++)
        code = clEnqueueFillBuffer(queue, h->own[i], &zero, sizeof zero, 0, (size_t)all[i].bytes, 0,
                                   NULL, NULL);
    if (code == CL_SUCCESS)
        code = clEnqueueFillBuffer(queue, h->merged_logits, &masked, sizeof masked, 0,
                                   (size_t)all[6].bytes, 0, NULL, NULL);
    if (code == CL_SUCCESS)
        code = clEnqueueWriteBuffer(queue, h->borders_buffer, CL_TRUE, 0, (size_t)all[8].bytes,
                                    h->borders, 0, NULL, NULL);
    if (code == CL_SUCCESS)
        code = clFinish(queue);
    clReleaseCommandQueue(queue);
    return code;
}

cls_status cls_rows_create(cls_shard *h)
{
    cls_sampler *const s = h->sampler;
    const uint32_t vocab = s->vocab;
    fixed all[FIXED];
    cl_int code = CL_SUCCESS;
    cls_status status = cls_sampler_require(s, CLS_FEATURE_SHARD);
    if (status != CLS_OK)
        return status;
    for (uint32_t i = 0; i < h->shards; i++) {
        const uint32_t first = h->borders[i], last = h->borders[i + 1];
        const uint32_t whole = shard_end_tile(first, last, vocab) - shard_first_tile(first),
                       cut = shard_head_end(first, last) - first + last -
                             shard_tail(first, last, vocab);
        h->whole_tiles = whole > h->whole_tiles ? whole : h->whole_tiles;
        h->cut_tokens = cut > h->cut_tokens ? cut : h->cut_tokens;
    }
    h->exchanges = calloc(s->max_rows, sizeof *h->exchanges);
    h->rows = calloc(s->max_rows, sizeof *h->rows);
    h->next = calloc(s->max_rows, sizeof *h->next);
    h->written = calloc(s->max_rows, sizeof *h->written);
    int missing = h->exchanges == NULL || h->rows == NULL || h->next == NULL || h->written == NULL;
    for (int i = 0; i < CLS_STAGING_COUNT; i++) { /* they are the sampler's, which may have them */
        cls_host_buffer *const staging = &s->staging[i].rows;
        if (staging->data == NULL)
            staging->data = malloc(s->max_rows * sizeof *h->rows);
        staging->size = staging->data != NULL ? s->max_rows * sizeof *h->rows : 0;
        missing |= staging->data == NULL;
    }
    if (missing)
        return cls_no_memory("a shard of %u rows", (unsigned)s->max_rows);
    list_fixed(h, all);
    for (int i = 0; i < FIXED; i++) {
        code = CL_INVALID_BUFFER_SIZE;
        if (all[i].bytes <= SIZE_MAX)
            *all[i].buffer = clCreateBuffer(s->context->cl, CL_MEM_READ_WRITE, (size_t)all[i].bytes,
                                            NULL, &code);
        if (code != CL_SUCCESS)
            return cls_fail(CLS_OPENCL_ERROR, code,
                            "cannot allocate %llu bytes on the device for a shard",
                            (unsigned long long)all[i].bytes);
    }
    code = fill(h, all);
    return cls_opencl_status(code, "cannot write a shard's memory on the device");
}

void cls_rows_finish(cls_shard *h, cl_command_queue queue)
{
    if (queue != NULL && clFinish(queue) != CL_SUCCESS && clFinish(queue) != CL_SUCCESS)
        h->merging = (cls_host_buffer){NULL, 0, 0};
}

void cls_rows_destroy(cls_shard *h)
{
    fixed all[FIXED];
    list_fixed(h, all);
    for (int i = 0; i < FIXED; i++)
        if (*all[i].buffer != NULL)
            clReleaseMemObject(*all[i].buffer);
    if (h->sent.buffer != NULL)
        clReleaseMemObject(h->sent.buffer);
    if (h->received.buffer != NULL)
        clReleaseMemObject(h->received.buffer);
    free(h->merging.data);
    free(h->exchanges);
    free(h->rows);
    free(h->next);
    free(h->written);
}

/* ----------------------------------------------------------- the shard's own partial */

/* The tiles in which the shard has tokens. */
static uint32_t own_tiles(const cls_shard *h)
{
    return (h->first + h->width + CLS_TILE - 1) / CLS_TILE - h->first / CLS_TILE;
}

static uint32_t shard_tiles_per_group(const cls_shard *h)
{
    return cls_step_tiles_per_group(h->sampler, (uint64_t)own_tiles(h) * h->plan.step.rows);
}

static cl_int write_args(const cls_shard *h, cls_commands *c)
{
    cls_args a;
    cls_step_args(&a, h->sampler, &h->plan, CLS_ARG_SET_STEP);
    a.tiles_per_group = shard_tiles_per_group(h);
    a.first = h->first;
    if (h->first * (uint64_t)h->plan.count[CLS_N_LOGIT_BYTES] % 16 != 0)
        a.has &= ~(u32)CLS_WIDE; /* kernels read from where the row's first token would be */
    a.last = h->first + h->width;
    a.shards = h->shards;
    a.whole_tiles = h->whole_tiles;
    a.partial_words = (uint32_t)(h->partial.used / sizeof(uint32_t));
    return cls_commands_write_args(c, CLS_ARG_SET_STEP, &a);
}

/* Sets the buffers of the kernels that make and merge partials. */
static cls_arguments arguments_of(cls_shard *h, enum cls_kernel which)
{
    cls_buffers *const b = &h->plan.buffers;
    b->plan = h->rows_buffer;
    b->partial = h->sent.buffer;
    b->partials = h->received.buffer;
    b->borders = h->borders_buffer;
    b->merged_key = h->merged[0];
    b->merged_mass = h->merged[1];
    b->merged_flags = h->merged[2];
    b->merged_logits = h->merged_logits;
    return cls_step_arguments(&h->plan, h->sampler, which, CLS_ARG_SET_STEP);
}

static cl_int launch_survey(cls_shard *h, cls_commands *c)
{
    const uint32_t per_group = shard_tiles_per_group(h);
    const size_t groups[2] = {(own_tiles(h) + per_group - 1) / per_group, h->plan.step.rows};
    const cls_arguments a = arguments_of(h, CLS_SURVEY);
    return cls_commands_launch(c, &a, groups, NULL);
}

/* Launches the kernel that writes the partial's body, and reads that to the host. */
static cl_int launch_partial(cls_shard *h, cls_commands *c, cl_event *end)
{
    const size_t groups[2] = {1, h->plan.step.rows}, header = sizeof(cls_partial_header);
    const cls_arguments a = arguments_of(h, CLS_PARTIAL);
    cl_int code = cls_commands_launch(c, &a, groups, end);
    h->sealed = 0;
    if (h->computed != NULL)
        clReleaseEvent(h->computed);
    h->computed = NULL;
    if (code == CL_SUCCESS)
        code = clRetainEvent(*end);
    if (code == CL_SUCCESS)
        h->computed = *end;
    if (code == CL_SUCCESS && !h->on_device)
        code = clEnqueueReadBuffer(c->queue, h->sent.buffer, CL_FALSE, 0, h->partial.used - header,
                                   (char *)h->partial.data + header, 1, end, &h->ready);
    return code;
}

cl_int cls_rows_read(cls_shard *h)
{
    const size_t header = sizeof(cls_partial_header);
    return clEnqueueReadBuffer(h->queue, h->sent.buffer, CL_TRUE, 0, h->partial.used - header,
                               (char *)h->partial.data + header, 1, &h->computed, NULL);
}

/* Makes room for the partial of the next exchange, on the host and on the device. Kernels count its
 * words by 32 bits. */
static cls_status reserve(cls_shard *h)
{
    const uint64_t words = cls_rows_place(h),
                   size = (words + CLS_PARTIAL_HEADER_WORDS) * sizeof(uint32_t);
    if (size / sizeof(uint32_t) > UINT32_MAX || size > SIZE_MAX)
        return cls_refuse("step->rows is %u: a shard's partial of so many rows has %llu bytes, "
                          "which is too many; sample fewer rows in a step",
                          (unsigned)h->plan.step.rows, (unsigned long long)size);
    const size_t body = (size_t)words * sizeof(uint32_t);
    cls_status status = cls_partial_reserve(h, body);
    if (status == CLS_OK)
        status = cls_device_buffer_grow(h->sampler, &h->sent, body, "a partial");
    return status;
}

/* Returns 1 if the rows of the current exchange differ from those on the device. */
static int rows_changed(const cls_shard *h)
{
    const uint32_t n = h->plan.step.rows;
    return h->written_rows < n || memcmp(h->written, h->rows, n * sizeof *h->rows) != 0;
}

/* Uploads the rows of the current exchange if they differ from those on the device. */
static cl_int upload_rows(cls_shard *h, cls_commands *c)
{
    const uint32_t n = h->plan.step.rows;
    if (!rows_changed(h))
        return CL_SUCCESS;
    h->written_rows = 0;
    const cl_int code = cls_commands_upload_rows(c, h->rows_buffer, n * sizeof *h->rows, h->rows);
    if (code == CL_SUCCESS) {
        memcpy(h->written, h->rows, n * sizeof *h->rows);
        h->written_rows = n;
    }
    return code;
}

cls_status cls_rows_open(cls_shard *h, cl_uint n_wait, const cl_event *wait)
{
    cls_commands c;
    cl_event end = NULL;
    cl_int code;
    h->plan.survey = h->own;
    cls_status status = reserve(h);
    h->plan.uploads = rows_changed(h);
    if (status == CLS_OK)
        status = cls_plan_upload(&h->plan, h->sampler, h->queue, n_wait, wait, &c, &code);
    if (status != CLS_OK)
        return status;
    if (code == CL_SUCCESS)
        code = write_args(h, &c);
    if (code == CL_SUCCESS)
        code = upload_rows(h, &c);
    if (code == CL_SUCCESS && h->plan.prepare)
        code = cls_step_launch(&h->plan, &c, CLS_PREPARE, h->plan.arg_set, NULL);
    if (code == CL_SUCCESS)
        code = launch_survey(h, &c);
    if (code == CL_SUCCESS)
        code = launch_partial(h, &c, &end);
    status = cls_commands_end(&c, code, "cannot enqueue a shard's partial", end, NULL);
    if (status == CLS_OK)
        clFlush(h->queue);
    return status;
}

/* ------------------------------------------------------------------------- the merge */

/* Keeps a copy of the partials, which are uploaded from it, and makes room on the device. */
static cls_status store_partials(cls_shard *h, const void *partials)
{
    const size_t size = h->shards * h->partial.used;
    if (h->merging.size < size) {
        void *const larger = realloc(h->merging.data, size);
        if (larger == NULL)
            return cls_no_memory("%zu bytes of partials", size);
        h->merging.data = larger;
        h->merging.size = size;
    }
    h->merging.used = size;
    memcpy(h->merging.data, partials, size);
    return cls_device_buffer_grow(h->sampler, &h->received, size, "the partials of all shards");
}

/* Fails if the requests' states differ between shards: slot calls were not made alike. */
static cls_status check_states(const cls_shard *h, uint32_t row, uint32_t i)
{
    const uint32_t at = h->rows[row].offset + CLS_SECTION_DIGEST;
    return cls_partial_words(h, h->merging.data, i)[at] ==
                   cls_partial_words(h, h->merging.data, 0)[at]
               ? CLS_OK
               : cls_refuse("partial %u: the request of row %u is in another state than on shard 0 "
                            "(position, output or adaptive state): slot calls must be the same on "
                            "all shards",
                            (unsigned)i, (unsigned)row);
}

/* Fails if a section names tokens that its shard does not have, or more than it can have. The
 * kernels and decide.c rely on these numbers. */
static cls_status check_section(const cls_shard *h, uint32_t row, uint32_t i)
{
    const cls_shard_row *const r = &h->rows[row];
    const uint32_t *const words = cls_partial_words(h, h->merging.data, i) + r->offset,
                          *const list = words + CLS_SECTION_WORDS;
    const uint32_t first = h->borders[i], width = h->borders[i + 1] - first;
    const int lists = (r->sends & (CLS_SENDS_LIST | CLS_SENDS_TOKENS)) != 0;
    const uint32_t most = lists ? r->k : r->sends & CLS_SENDS_TOKEN ? 1 : 0;
    int right = words[CLS_SECTION_LISTED] <= most && words[CLS_SECTION_REACH] <= width;
    for (uint32_t k = 0; right && k < words[CLS_SECTION_LISTED]; k++)
        right = list[2 * k + 1] - first < width;
    for (uint32_t e = 0; right && (r->sends & CLS_SENDS_COUNTS) && e < CLS_EDGES; e++)
        right = list[e * CLS_EDGE_WORDS] <= width;
    return right ? CLS_OK
                 : cls_refuse(
                       "partial %u: its section of row %u names tokens that shard %u does not have",
                       (unsigned)i, (unsigned)row, (unsigned)i);
}

static cls_status check_sections(const cls_shard *h)
{
    cls_status status = CLS_OK;
    for (uint32_t row = 0; row < h->plan.step.rows; row++)
        for (uint32_t i = 0; i < h->shards && h->rows[row].sends != 0 && status == CLS_OK; i++) {
            status = check_section(h, row, i);
            if (status == CLS_OK)
                status = check_states(h, row, i);
        }
    return status == CLS_OK ? status : cls_no_field(status);
}

static cl_int launch_merge(cls_shard *h, cls_commands *c)
{
    const size_t groups[2] = {1, h->plan.step.rows};
    const cls_arguments a = arguments_of(h, CLS_MERGE);
    return cls_commands_launch(c, &a, groups, NULL);
}

/* Launches the kernels that draw from the merged rows and report on them. Those rows are float32
 * and adjusted. */
static cl_int launch_draw(const cls_shard *h, cls_commands *c, cl_event *end)
{
    cls_plan plan = h->plan;
    plan.arg_set = CLS_ARG_SET_MERGED;
    plan.survey = h->merged;
    plan.count[CLS_N_LOGIT_BYTES] = sizeof(float);
    cls_plan_set_logits(&plan, h->sampler,
                        &(cls_logits){.values.buffer = h->merged_logits,
                                      .row_stride = (uint64_t)h->sampler->tiles * CLS_TILE,
                                      .dtype = CLS_F32});
    plan.has |= CLS_MERGED;
    plan.needs |= CLS_FEATURE_SHARD;
    for (uint32_t row = 0; row < plan.step.rows; row++)
        plan.has |= h->exchanges[row].kind == CLS_EXCHANGE_PLAIN ? CLS_DRAWN : 0;
    const cl_int code = cls_step_write_args(&plan, c);
    return code == CL_SUCCESS ? cls_step_draw(&plan, c, end) : code;
}

/* Enqueues the merge, and then the next partial or the end of the step. */
static cls_status enqueue_merge(cls_shard *h, int more, cl_event *done)
{
    cls_commands c;
    cl_event end = NULL;
    const cls_status status = cls_commands_begin(&c, h->sampler, h->queue, h->plan.ordered, 0, NULL,
                                                 more && rows_changed(h), NULL);
    if (status != CLS_OK)
        return status;
    cl_int code = cls_commands_write(&c, h->received.buffer, h->merging.used, h->merging.data);
    if (code == CL_SUCCESS)
        code = launch_merge(h, &c);
    if (code == CL_SUCCESS && more)
        code = write_args(h, &c);
    if (code == CL_SUCCESS && more)
        code = upload_rows(h, &c);
    if (code == CL_SUCCESS)
        code = more ? launch_partial(h, &c, &end) : launch_draw(h, &c, &end);
    return cls_commands_end(&c, code, "cannot enqueue the merge of partials", end, done);
}

/* Exchanges what the rows send now and what they send next. */
static void swap_rows(cls_shard *h)
{
    cls_shard_row *const now = h->rows;
    h->rows = h->next;
    h->next = now;
}

cls_status cls_rows_merge(cls_shard *h, const void *partials, int *more, cl_event *done)
{
    const size_t used = h->partial.used;
    cls_status status = store_partials(h, partials);
    if (status == CLS_OK)
        status = check_sections(h);
    if (status != CLS_OK)
        return status;
    *more = cls_rows_next(h, h->merging.data);
    if (*more) {
        swap_rows(h);
        status = reserve(h);
    }
    if (status == CLS_OK)
        status = enqueue_merge(h, *more, *more ? NULL : done);
    if (status == CLS_OK) {
        clFlush(h->queue);
    } else if (*more) { /* the same partials can be merged again, if nothing was enqueued */
        swap_rows(h);
        h->partial.used = used;
        *more = 0;
    }
    return status;
}

/* --------------------------------------------------------- all shards of one process */

int cls_rows_are_single(const cls_shard *h)
{
    for (uint32_t row = 0; row < h->plan.step.rows; row++)
        if (h->exchanges[row].kind != CLS_EXCHANGE_LIST &&
            h->exchanges[row].kind != CLS_EXCHANGE_LOGITS)
            return 0;
    return h->protocol == CLS_PROTOCOL_ROWS;
}

cls_status cls_rows_merge_all(cls_shard *h, cls_shard *const *shards, cl_event *done)
{
    const size_t header = sizeof(cls_partial_header), one = h->partial.used;
    cl_event ready[CLS_MAX_SHARDS];
    cls_commands c;
    cl_event end = NULL;
    cl_int code = CL_SUCCESS;
    cls_status status = cls_device_buffer_grow(h->sampler, &h->received, h->shards * one,
                                               "the partials of all shards");
    for (uint32_t i = 0; i < h->shards; i++)
        ready[i] = shards[i]->computed;
    if (status == CLS_OK)
        status = cls_commands_begin(&c, h->sampler, h->queue, h->plan.ordered, h->shards, ready, 0,
                                    NULL);
    if (status != CLS_OK)
        return status;
    for (uint32_t i = 0; i < h->shards && code == CL_SUCCESS; i++)
        code = cls_commands_copy(&c, shards[i]->sent.buffer, h->received.buffer, i * one + header,
                                 one - header);
    if (code == CL_SUCCESS)
        code = launch_merge(h, &c);
    if (code == CL_SUCCESS)
        code = launch_draw(h, &c, &end);
    status = cls_commands_end(&c, code, "cannot enqueue the merge of partials", end, done);
    if (status == CLS_OK)
        clFlush(h->queue);
    return status;
}
