/* SPDX-License-Identifier: MIT */
/* A run of the self-test or of a proof: its sides with their samplers and buffers, and its report.
 */
#include "selftest/selftest.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const stage_names[ST_STAGES] = {
#define NAME(stage, name) name,
    SELFTEST_STAGES(NAME)
#undef NAME
};

void cls_selftest_count(cls_selftest_run *t, int stage, const char *message)
{
    cls_selftest_stage *const s = &t->tested.stage[stage];
    s->cases++;
    if (*message == '\0')
        return;
    if (s->failed++ == 0)
        snprintf(s->message, sizeof s->message, "%s", message);
    t->tested.failed++;
}

void cls_selftest_name(const cls_selftest_run *t, const char *name, uint32_t step, char *out,
                       size_t size)
{
    static const char *const dtypes[CLS_DTYPES] = {"", ", float16", ", bfloat16"};
    snprintf(out, size, "%s%s%s", name, dtypes[t->dtype], step == 0 ? "" : ", second token");
}

uint32_t cls_selftest_digest(const uint32_t *words, size_t n)
{
    uint32_t h = 0x811c9dc5u;
    for (size_t i = 0; i < n; i++)
        for (int shift = 0; shift < 32; shift += 8)
            h = (h ^ (words[i] >> shift & 255u)) * 0x01000193u;
    return h;
}

/* --------------------------------------------------------------------- buffers */

static int is_on_host(const cls_selftest_side *s) { return s->context->shape.host; }

static cls_status host_buffer(size_t size, const void *contents, cls_buffer *out)
{
    void *const memory = calloc(1, size);
    if (memory == NULL)
        return cls_no_memory("the self-test");
    if (contents != NULL)
        memcpy(memory, contents, size);
    *out = (cls_buffer){.size = size, .pointer = memory, .kind = CLS_BUFFER_HOST};
    return CLS_OK;
}

cls_status cls_selftest_buffer(const cls_selftest_side *s, size_t size, const void *contents,
                               cls_buffer *out)
{
    cl_int code;
    if (is_on_host(s))
        return host_buffer(size, contents, out);
    *out = (cls_buffer){.size = size};
    out->buffer = clCreateBuffer(s->context->cl, CL_MEM_READ_WRITE, size, NULL, &code);
    if (code == CL_SUCCESS && contents != NULL)
        code =
            clEnqueueWriteBuffer(s->queue, out->buffer, CL_TRUE, 0, size, contents, 0, NULL, NULL);
    return cls_opencl_status(code, "cannot create a buffer for the self-test");
}

void cls_selftest_release(cls_buffer *b)
{
    free(b->pointer);
    if (b->buffer != NULL)
        clReleaseMemObject(b->buffer);
    *b = (cls_buffer){.buffer = NULL};
}

cls_status cls_selftest_read(const cls_selftest_side *s, const cls_buffer *from, size_t size,
                             void *contents)
{
    cl_int code = CL_SUCCESS;
    if (is_on_host(s))
        memcpy(contents, from->pointer, size);
    else
        code =
            clEnqueueReadBuffer(s->queue, from->buffer, CL_TRUE, 0, size, contents, 0, NULL, NULL);
    return cls_opencl_status(code, "cannot read a result of the self-test");
}

/* ------------------------------------------------------------------------ runs */

cls_status cls_selftest_open(cls_selftest_run *t, uint32_t features)
{
    const uint32_t n = t->selection.count, rows = n > SELFTEST_ROWS ? n : SELFTEST_ROWS;
    cls_selftest_side *const device = &t->side[SIDE_DEVICE];
    cls_sampler_options o;
    cl_int code = CL_SUCCESS;
    if (!is_on_host(device))
        device->queue =
            clCreateCommandQueue(device->context->cl, device->context->device, 0, &code);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot create a queue for the self-test");
    if (features == 0) /* the arithmetic alone */
        return CLS_OK;
    cls_sampler_options_init(&o);
    o.vocab = t->selection.vocab;
    o.max_rows = rows;
    o.slot_count = rows + 1 + SELFTEST_REQUESTS;
    o.max_history = SELFTEST_HISTORY;
    o.max_rollback = SELFTEST_ROLLBACK;
    o.features = features;
    cls_status status = cls_sampler_open(device->context, &o, &device->sampler);
    if (status == CLS_OK)
        device->sampler->change_tokens = SELFTEST_CHANGE;
    o.features = CLS_FEATURES_ALL;
    o.dtypes = (1u << CLS_DTYPES) - 1;
    if (status == CLS_OK)
        status = cls_context_create_host(NULL, &t->side[SIDE_HOST].context);
    if (status == CLS_OK)
        status = cls_sampler_open(t->side[SIDE_HOST].context, &o, &t->side[SIDE_HOST].sampler);
    return status;
}

cls_status cls_selftest_status(cls_status status)
{
    return status == CLS_LOST ? cls_fail(CLS_OPENCL_ERROR, cls_error_opencl(),
                                         "cannot enqueue a step of the self-test")
                              : status;
}

void cls_selftest_close(cls_selftest_run *t)
{
    const cl_command_queue queue = t->side[SIDE_DEVICE].queue;
    if (queue != NULL)
        clFinish(queue);
    for (int i = 0; i < SIDES; i++)
        cls_sampler_destroy(t->side[i].sampler);
    cls_context_destroy(t->side[SIDE_HOST].context);
    if (queue != NULL)
        clReleaseCommandQueue(queue);
    free(t);
}

const cls_selftest_stage *cls_selftest_failed(const cls_tested *tested)
{
    for (uint32_t i = 0; i < ST_STAGES; i++)
        if (tested->stage[i].failed != 0)
            return &tested->stage[i];
    return NULL;
}

cls_selftest_run *cls_selftest_new(cls_context *context)
{
    cls_selftest_run *const t = calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    t->side[SIDE_DEVICE].context = context;
    for (int i = 0; i < ST_STAGES; i++)
        t->tested.stage[i].name = stage_names[i];
    return t;
}
