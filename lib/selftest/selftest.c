/* SPDX-License-Identifier: MIT */
/* cls_selftest(): runs the programs of a context on cases with known answers, for every stage. */
#include "selftest/selftest.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const stage_names[ST_STAGES] = {
    [ST_ARITHMETIC] = "arithmetic",
    [ST_RANDOM] = "random numbers",
    [ST_SURVEY] = "survey",
    [ST_MASKS] = "masks",
    [ST_BIASES] = "biases",
    [ST_PENALTIES] = "penalties",
    [ST_HISTORY] = "history",
    [ST_SHORTLIST] = "shortlist",
    [ST_TOP_K] = "top-k",
    [ST_TOP_P] = "top-p",
    [ST_MIN_P] = "min-p",
    [ST_TOP_A] = "top-a",
    [ST_SIGMA] = "top-n-sigma",
    [ST_TYPICAL] = "typical",
    [ST_XTC] = "XTC",
    [ST_P_LESS] = "p-less",
    [ST_INFILL] = "infill",
    [ST_TEMPERATURE] = "temperature",
    [ST_SEARCH] = "threshold search",
    [ST_DRAW] = "draw",
    [ST_MIROSTAT] = "mirostat",
    [ST_ADAPTIVE] = "adaptive p",
    [ST_DECAY] = "top-p decay",
    [ST_SLOTS] = "slots",
    [ST_FORCED] = "forced tokens",
    [ST_REPORT] = "report",
    [ST_LOGPROBS] = "logprobs",
    [ST_MATCH] = "verify: match",
    [ST_STANDARD] = "verify: standard",
    [ST_BLOCK] = "verify: block",
    [ST_VERIFY_TYPICAL] = "verify: typical",
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

/* Runs the arithmetic test by which every context is proven, and compares its words. */
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

/* Runs all parts with one type of logits. A call that fails counts as a case of the part's stage.
 */
static cls_status run_dtype(cls_selftest_run *t)
{
    static const struct {
        cls_status (*run)(cls_selftest_run *);
        int stage;
    } parts[] = {
        {arithmetic, ST_ARITHMETIC},
        {cls_selftest_steps, ST_SURVEY},
        {cls_selftest_outputs, ST_REPORT},
        {cls_selftest_verify, ST_MATCH},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const cls_status status = parts[i].run(t);
        if (status != CLS_OK) {
            cls_selftest_count(t, parts[i].stage, cls_error_message());
            return status;
        }
    }
    return CLS_OK;
}

static cls_status open_sampler(cls_selftest_run *t)
{
    int32_t prefix_of[SELFTEST_VOCAB], ends[SELFTEST_ENDS];
    const cls_infill infill = {sizeof infill, {ends, SELFTEST_ENDS}, prefix_of};
    cls_sampler_options o;
    cls_sampler_options_init(&o);
    o.features = CLS_FEATURES_ALL;
    o.vocab = SELFTEST_VOCAB;
    o.max_rows = cls_selftest_case_count > SELFTEST_ROWS ? cls_selftest_case_count : SELFTEST_ROWS;
    o.slot_count = cls_selftest_case_count + 1 + SELFTEST_REQUESTS;
    o.max_history = SELFTEST_HISTORY;
    o.max_rollback = SELFTEST_ROLLBACK;
    cls_selftest_prefixes(prefix_of);
    cls_selftest_ends(ends);
    const cls_status status = cls_sampler_create(t->context, &o, &t->sampler);
    return status == CLS_OK ? cls_sampler_infill(t->sampler, &infill) : status;
}

static cls_status open_run(cls_selftest_run *t)
{
    const size_t n = (size_t)cls_selftest_case_count * SELFTEST_STEPS;
    cl_int code;
    t->queue = clCreateCommandQueue(t->context->cl, t->context->device, 0, &code);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot create a queue for the self-test");
    t->token = malloc(n * sizeof *t->token);
    t->status = malloc(n * sizeof *t->status);
    t->trace = malloc(n * sizeof *t->trace);
    if (t->token == NULL || t->status == NULL || t->trace == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for the self-test");
    const cls_status status = cls_selftest_answers_compute(&t->host);
    return status == CLS_OK ? open_sampler(t) : status;
}

static void close_run(cls_selftest_run *t)
{
    cls_sampler_destroy(t->sampler);
    if (t->queue != NULL) {
        clFinish(t->queue);
        clReleaseCommandQueue(t->queue);
    }
    cls_selftest_answers_free(&t->host);
    free(t->token);
    free(t->status);
    free(t->trace);
}

/* Fails with a message about the first stage that failed, if any did. */
static cls_status verdict(const cls_selftest_report *report)
{
    for (uint32_t i = 0; i < report->stage_count; i++)
        if (report->stages[i].failed != 0)
            return cls_fail(CLS_SELF_TEST_FAILED, CL_SUCCESS,
                            "the self-test failed at %s (%u of %u): %s", report->stages[i].name,
                            (unsigned)report->stages[i].failed, (unsigned)report->stages[i].cases,
                            report->stages[i].message);
    return CLS_OK;
}

cls_status cls_selftest_with(cls_context *context, const cls_selftest_known *known,
                             cls_selftest_report *report)
{
    cls_selftest_run t;
    memset(&t, 0, sizeof t);
    t.context = context;
    t.known = known;
    t.report.stage_count = ST_STAGES;
    for (int i = 0; i < ST_STAGES; i++)
        t.report.stages[i].name = stage_names[i];
    cls_status status = open_run(&t);
    for (t.dtype = 0; t.dtype < CLS_DTYPES && status == CLS_OK; t.dtype++)
        if (cls_context_dtypes(context) >> t.dtype & 1u)
            status = run_dtype(&t);
    close_run(&t);
    *report = t.report;
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
