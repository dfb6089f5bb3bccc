/* SPDX-License-Identifier: MIT */
/* cls_selftest(): runs the programs of a context on cases with known answers, for every stage. */
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

/* ------------------------------------------------------------------ arithmetic */

/* Runs the kernel that proves every context, and compares its words. */
static cls_status arithmetic(cls_selftest_run *t)
{
    enum { WORDS = 1024 };
    uint32_t words[WORDS];
    const cl_uint n = WORDS;
    const cls_program *const program = &t->context->program[0][CLS_SELF_TEST_0];
    const size_t items = program->config.group;
    cl_mem out = NULL;
    cl_int code;
    cls_status status = cls_selftest_buffer(t, sizeof words, NULL, &out);
    const cl_kernel kernel =
        clCreateKernel(program->program, cls_kernel_name(CLS_SELF_TEST), &code);
    if (status == CLS_OK) {
        if (code == CL_SUCCESS)
            code = clSetKernelArg(kernel, 0, sizeof out, &out);
        if (code == CL_SUCCESS)
            code = clSetKernelArg(kernel, 1, sizeof n, &n);
        t->launched = code == CL_SUCCESS ? UINT32_C(1) << CLS_SELF_TEST_0 : 0;
        if (code == CL_SUCCESS)
            code = clEnqueueNDRangeKernel(t->queue, kernel, 1, NULL, &items, &items, 0, NULL, NULL);
        if (code != CL_SUCCESS)
            status = cls_fail(CLS_OPENCL_ERROR, code, "cannot run the arithmetic of the self-test");
    }
    if (status == CLS_OK)
        status = cls_selftest_read(t, out, sizeof words, words);
    if (kernel != NULL)
        clReleaseKernel(kernel);
    if (out != NULL)
        clReleaseMemObject(out);
    for (uint32_t i = 0; i < n && status == CLS_OK; i++) {
        char name[64], message[200] = "";
        cls_selftest_name(t, "word", 0, name, sizeof name);
        if (words[i] != self_test_word(i))
            snprintf(message, sizeof message, "%s %u: device: 0x%08x, host: 0x%08x", name,
                     (unsigned)i, (unsigned)words[i], (unsigned)self_test_word(i));
        cls_selftest_count(t, ST_ARITHMETIC, message);
    }
    return status;
}

/* ------------------------------------------------------------------------ runs */

cls_status cls_selftest_parts(cls_selftest_run *t)
{
    static const struct {
        cls_status (*run)(cls_selftest_run *);
        int stage;
        uint32_t part;
    } parts[] = {
        {arithmetic, ST_ARITHMETIC, PART_ARITHMETIC},
        {cls_selftest_steps, ST_SURVEY, PART_STEPS},
        {cls_selftest_outputs, ST_REPORT, PART_OUTPUTS},
        {cls_selftest_verify, ST_MATCH, PART_DRAFTS},
    };
    cls_status status = CLS_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && status == CLS_OK; i++) {
        if (t->plan.parts & parts[i].part)
            status = parts[i].run(t);
        if (status != CLS_OK)
            cls_selftest_count(t, parts[i].stage, cls_error_message());
    }
    cls_selftest_inputs_release(&t->in);
    return status;
}

cls_status cls_selftest_open(cls_selftest_run *t, uint32_t features)
{
    const uint32_t n = t->plan.count, rows = n > SELFTEST_ROWS ? n : SELFTEST_ROWS;
    cls_sampler_options o;
    cl_int code;
    t->queue = clCreateCommandQueue(t->context->cl, t->context->device, 0, &code);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot create a queue for the self-test");
    if (features == 0) /* the arithmetic alone */
        return CLS_OK;
    cls_sampler_options_init(&o);
    o.features = features;
    o.vocab = t->plan.vocab;
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

/* Fails with a message about the first stage that failed, if any did. */
static cls_status verdict(const cls_selftest_report *report)
{
    const cls_selftest_stage *const s = cls_selftest_failed(report);
    return s == NULL ? CLS_OK
                     : cls_fail(CLS_SELF_TEST_FAILED, CL_SUCCESS,
                                "the self-test failed at %s (%u of %u): %s", s->name,
                                (unsigned)s->failed, (unsigned)s->cases, s->message);
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

cls_status cls_selftest_with(cls_context *context, const cls_selftest_known *known,
                             cls_selftest_report *report)
{
    int32_t prefix_of[SELFTEST_VOCAB], ends[SELFTEST_ENDS];
    const cls_infill infill = {sizeof infill, {ends, SELFTEST_ENDS}, prefix_of};
    cls_selftest_run *const t = cls_selftest_new(context);
    memset(report, 0, sizeof *report);
    if (t == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for the self-test");
    t->known = known;
    t->plan = cls_selftest_whole();
    cls_selftest_prefixes(prefix_of);
    cls_selftest_ends(ends);
    cls_status status = cls_selftest_open(t, CLS_FEATURES_ALL);
    if (status == CLS_OK)
        status = cls_sampler_add_features(t->sampler, CLS_FEATURES_ALL);
    if (status == CLS_OK)
        status = cls_sampler_infill(t->sampler, &infill);
    if (status == CLS_OK)
        status = cls_selftest_answers_compute(&t->plan, &t->host);
    for (t->dtype = 0; t->dtype < CLS_DTYPES && status == CLS_OK; t->dtype++)
        if (cls_context_dtypes(context) >> t->dtype & 1u)
            status = cls_selftest_parts(t);
    *report = t->report;
    cls_selftest_close(t);
    return status == CLS_OK ? verdict(report) : status;
}

cls_status cls_selftest(cls_context *context, cls_selftest_report *callers)
{
    cls_selftest_report report;
    if (context == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "context is NULL");
    if (callers != NULL) {
        const cls_status status = CLS_STRUCT_READ_OUTPUT(&report, callers, "report");
        if (status != CLS_OK)
            return status;
    }
    const cls_status status = cls_selftest_with(context, cls_selftest_table, &report);
    if (callers != NULL)
        CLS_STRUCT_WRITE(&report, callers);
    return status;
}
