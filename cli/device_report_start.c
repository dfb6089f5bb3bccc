/* SPDX-License-Identifier: MIT */
/* The parts of a report that time what a process waits for: context, first token and programs. */
#include <stdio.h>

#include "../bench/bench.h"
#include "device_report.h"

enum { LATER = 100 }; /* steps that are timed after the first */

static json_t *start_of(const cli_report *report) { return json_object_get(report->json, "start"); }

/* ---------------------------------------------------------------------- the context */

static void add_shape(cli_report *report)
{
    json_t *const shape = cli_shape_json(report->target.context);
    if (shape == NULL)
        cli_report_fail(report, "shape", cls_error_message());
    else
        json_object_set_new(report->json, "shape", shape);
}

/* Opens a context in the tier of the options. If the tier is auto and fails, it tries the lower
 * one. */
static int open_some_tier(cli_report *report)
{
    cls_context_options options = report->options;
    char part[64];
    for (;;) {
        const double start = cli_seconds();
        if (cli_open_context(&report->target, &options) == 0) {
            json_object_set_new(start_of(report), "context_seconds",
                                json_real(cli_seconds() - start));
            return 0;
        }
        snprintf(part, sizeof part, "context, tier %s", cli_tier_name(options.tier));
        cli_report_fail(report, part, cli_last_error());
        json_object_set_new(report->json, "build_log", cli_text(cli_build_log()));
        if (options.tier != CLS_TIER_AUTO)
            return 1;
        options.tier = CLS_TIER_INT64;
    }
}

int cli_report_context(cli_report *report)
{
    const double start = cli_seconds();
    json_object_set_new(report->json, "start", json_object());
    if (!report->target.device.usable) {
        cli_report_fail(report, "device", cli_string(report->target.device.json, "reason"));
        return 1;
    }
    if (cli_open_queue(&report->target, 0) != 0) {
        cli_report_fail(report, "queue", cli_last_error());
        return 1;
    }
    json_object_set_new(start_of(report), "queue_seconds", json_real(cli_seconds() - start));
    if (open_some_tier(report) != 0)
        return 1;
    add_shape(report);
    return 0;
}

/* ------------------------------------------------------------------ the first token */

/* A sampler with one request of one row. */
typedef struct request {
    cli_target *target;
    cls_dtype dtype;
    cls_params params;
    void *rows;
    cl_mem logits, token;
    cls_sampler *sampler;
} request;

static int open_request(request *r)
{
    const size_t size = (BENCH_VOCAB + BENCH_PAD) * bench_dtype_size(r->dtype);
    cls_sampler_options options;
    cls_params_init(&r->params);
    r->params.temperature = 0.8f;
    r->params.top_k = 50;
    r->params.top_p = 0.95f;
    r->rows = cli_alloc(1, size);
    bench_fill_rows(r->rows, r->dtype, 1, BENCH_VOCAB, BENCH_LANGUAGE);
    cls_sampler_options_init(&options);
    options.vocab = BENCH_VOCAB;
    options.dtypes = 1u << r->dtype;
    return cli_buffer(r->target, &r->logits, "first token", size, r->rows) ||
           cli_buffer(r->target, &r->token, "first token", sizeof(int32_t), NULL) ||
           cli_try(cli_compile_done(cls_sampler_create(r->target->context, &options, &r->sampler)),
                   "the first sampler") ||
           cli_try(cls_slot_begin(r->sampler, 0, &r->params, NULL, 0, NULL, 0),
                   "the first sampler");
}

static int sample(const request *r, int32_t *token, double *seconds)
{
    const double start = cli_seconds();
    cls_step step;
    cls_step_init(&step);
    step.rows = 1;
    step.logits.dtype = (int32_t)r->dtype;
    step.logits.values.buffer = r->logits;
    step.tokens.buffer = r->token;
    const int failed = cli_try(cls_sample(r->sampler, r->target->queue, &step, 0, NULL, NULL),
                               "the first steps") ||
                       cli_fetch(r->target, r->token, token, sizeof *token);
    *seconds = cli_seconds() - start;
    return failed;
}

/* Compares the first token with that of the host, for a sampler of it. */
static int check_on(const request *r, cls_sampler *host, int32_t token)
{
    const size_t size = BENCH_VOCAB * bench_dtype_size(r->dtype);
    int32_t expected;
    cls_step step;
    cls_step_init(&step);
    step.rows = 1;
    step.logits.dtype = (int32_t)r->dtype;
    step.logits.values = (cls_buffer){.pointer = r->rows, .size = size, .kind = CLS_BUFFER_HOST};
    step.tokens =
        (cls_buffer){.pointer = &expected, .size = sizeof expected, .kind = CLS_BUFFER_HOST};
    if (cli_try(cls_slot_begin(host, 0, &r->params, NULL, 0, NULL, 0), "the host") ||
        cli_try(cls_sample(host, NULL, &step, 0, NULL, NULL), "the host"))
        return 1;
    return expected == token ? 0
                             : cli_fail("the first token is %d, but that of the host is %d",
                                        (int)token, (int)expected);
}

static int check(const request *r, int32_t token)
{
    cls_context *context = NULL;
    cls_sampler *host = NULL;
    cls_sampler_options options;
    cls_sampler_options_init(&options);
    options.vocab = BENCH_VOCAB;
    const int failed = cli_try(cls_context_create_host(NULL, &context), "the host") ||
                       cli_try(cls_sampler_create(context, &options, &host), "the host") ||
                       check_on(r, host, token);
    cls_sampler_destroy(host);
    cls_context_destroy(context);
    return failed;
}

static int first(cli_report *report, request *r)
{
    double seconds[1 + LATER], start = cli_seconds();
    int32_t token, later;
    if (open_request(r))
        return 1;
    json_object_set_new(start_of(report), "sampler_seconds", json_real(cli_seconds() - start));
    if (sample(r, &token, &seconds[0]))
        return 1;
    for (int i = 1; i <= LATER; i++)
        if (sample(r, &later, &seconds[i]))
            return 1;
    json_object_set_new(start_of(report), "first_step_seconds", json_real(seconds[0]));
    json_object_set_new(start_of(report), "later_step_seconds",
                        json_real(bench_median(seconds + 1, LATER)));
    return check(r, token);
}

void cli_report_first(cli_report *report)
{
    request r = {.target = &report->target};
    while (!(report->options.dtypes >> r.dtype & 1u))
        r.dtype++;
    if (first(report, &r))
        cli_report_fail(report, "first token", cli_last_error());
    cls_sampler_destroy(r.sampler);
}

/* --------------------------------------------------------------------- the programs */

void cli_report_programs(cli_report *report)
{
    json_t *const array = json_array();
    cls_program_info p = {.struct_size = sizeof p};
    for (uint32_t i = 0; cls_context_program(report->target.context, i, &p) == CLS_OK; i++) {
        json_array_append_new(
            array,
            json_pack("{s:s, s:s, s:s, s:I, s:s, s:f, s:I, s:I, s:I, s:I}", "name", p.name, "dtype",
                      cli_dtype_name(p.dtype), "origin", cli_origin_name(p.origin), "work_group",
                      (json_int_t)p.work_group, "subgroups", cli_subgroups_name(p.subgroups),
                      "seconds", p.seconds, "local_mem_bytes", (json_int_t)p.local_mem_size,
                      "private_mem_bytes", (json_int_t)p.private_mem_size, "max_work_group",
                      (json_int_t)p.max_work_group, "preferred_multiple",
                      (json_int_t)p.preferred_multiple));
    }
    json_object_set_new(report->json, "programs", array);
}

/* Compiles the programs of some features for a type of logits. */
static int compile_some(cli_report *report, const char *name, int32_t dtype, uint32_t features)
{
    const double start = cli_seconds();
    char part[128];
    json_t *object;
    snprintf(part, sizeof part, "programs of %s for %s", name, cli_dtype_name(dtype));
    cli_report_save(report, part);
    const cls_status status =
        cli_compile_done(cls_context_compile(report->target.context, 1u << dtype, features));
    object = json_pack("{s:s, s:s, s:f}", "feature", name, "dtype", cli_dtype_name(dtype),
                       "seconds", cli_seconds() - start);
    json_array_append_new(json_object_get(report->json, "compile"), object);
    if (status == CLS_OK)
        return 0;
    cli_fail_library(part);
    cli_report_fail(report, part, cls_error_message());
    json_object_set_new(object, "error", cli_text(cls_error_message()));
    json_object_set_new(report->json, "build_log", cli_text(cli_build_log()));
    return 1;
}

/* Compiles all features in one call: a program that serves several features replaces those that
 * serve one, so this is less work than a call for each. If it fails, each feature is compiled
 * alone. */
void cli_report_compile(cli_report *report)
{
    json_object_set_new(report->json, "compile", json_array());
    for (int32_t dtype = CLS_F32; dtype <= CLS_BF16 && !cli_interrupted(); dtype++) {
        if (!(report->options.dtypes >> dtype & 1u) ||
            compile_some(report, "all features", dtype, CLS_FEATURES_ALL) == 0)
            continue;
        for (uint32_t bit = 1; bit <= CLS_FEATURES_ALL && !cli_interrupted(); bit <<= 1)
            if ((bit & CLS_FEATURES_ALL) != 0)
                compile_some(report, cls_feature_name((cls_feature)bit), dtype, bit);
    }
    cli_report_programs(report);
}
