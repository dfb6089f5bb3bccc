/* SPDX-License-Identifier: MIT */
/* A run of the self-test or of a proof: its sampler, its buffers and its report. */
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
    cls_selftest_stage *const s = &t->report.stages[stage];
    s->cases++;
    if (*message == '\0')
        return;
    if (s->failed++ == 0)
        snprintf(s->message, sizeof s->message, "%s", message);
    t->report.failed++;
}

void cls_selftest_name(const cls_selftest_run *t, const char *name, uint32_t step, char *out,
                       size_t size)
{
    static const char *const dtypes[CLS_DTYPES] = {"", ", float16", ", bfloat16"};
    snprintf(out, size, "%s%s%s", name, dtypes[t->dtype], step == 0 ? "" : ", second token");
}

cls_status cls_selftest_buffer(cls_selftest_run *t, size_t size, const void *contents, cl_mem *out)
{
    cl_int code;
    *out = clCreateBuffer(t->context->cl, CL_MEM_READ_WRITE, size, NULL, &code);
    if (code == CL_SUCCESS && contents != NULL)
        code = clEnqueueWriteBuffer(t->queue, *out, CL_TRUE, 0, size, contents, 0, NULL, NULL);
    return code == CL_SUCCESS
               ? CLS_OK
               : cls_fail(CLS_OPENCL_ERROR, code, "cannot create a buffer for the self-test");
}

cls_status cls_selftest_read(cls_selftest_run *t, cl_mem buffer, size_t size, void *contents)
{
    const cl_int code =
        clEnqueueReadBuffer(t->queue, buffer, CL_TRUE, 0, size, contents, 0, NULL, NULL);
    return code == CL_SUCCESS
               ? CLS_OK
               : cls_fail(CLS_OPENCL_ERROR, code, "cannot read a result of the self-test");
}

cls_status cls_selftest_open(cls_selftest_run *t, uint32_t features)
{
    const uint32_t n = t->selection.count, rows = n > SELFTEST_ROWS ? n : SELFTEST_ROWS;
    cls_sampler_options o;
    cl_int code;
    t->queue = clCreateCommandQueue(t->context->cl, t->context->device, 0, &code);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot create a queue for the self-test");
    if (features == 0) /* the arithmetic alone */
        return CLS_OK;
    cls_sampler_options_init(&o);
    o.features = features;
    o.vocab = t->selection.vocab;
    o.max_rows = rows;
    o.slot_count = rows + 1 + SELFTEST_REQUESTS;
    o.max_history = SELFTEST_HISTORY;
    o.max_rollback = SELFTEST_ROLLBACK;
    return cls_sampler_open(t->context, &o, &t->sampler);
}

void cls_selftest_close(cls_selftest_run *t)
{
    if (t->queue != NULL)
        clFinish(t->queue);
    cls_sampler_destroy(t->sampler);
    if (t->queue != NULL)
        clReleaseCommandQueue(t->queue);
    free(t);
}

const cls_selftest_stage *cls_selftest_failed(const cls_selftest_report *report)
{
    for (uint32_t i = 0; i < ST_STAGES; i++)
        if (report->stages[i].failed != 0)
            return &report->stages[i];
    return NULL;
}

cls_selftest_run *cls_selftest_new(cls_context *context)
{
    cls_selftest_run *const t = calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    t->context = context;
    t->report.stage_count = ST_STAGES;
    for (int i = 0; i < ST_STAGES; i++)
        t->report.stages[i].name = stage_names[i];
    return t;
}
