/* SPDX-License-Identifier: MIT */
/* clsample selftest: checks every stage on a device against known answers. */
#include <inttypes.h>
#include <stdio.h>

#include "../bench/bench.h"

/* Exit statuses, beside cli_failure. 0: all answers agree. */
enum { DIFFERS = 1 };

double cli_seconds(void) { return bench_clock() * 1e-6; }

uint32_t cli_dtypes(int32_t choice)
{
    return choice == 0 ? 1u << CLS_F32 | 1u << CLS_F16 | 1u << CLS_BF16 : 1u << (choice - 1);
}

static void print_device(const cli_target *target)
{
    static const char *const origins[] = {"compiled from source", "from a binary",
                                          "from the cache"};
    const cli_device *const d = &target->device;
    cls_device_info info = {.struct_size = sizeof info};
    printf("device    %" PRIu32 ": %s, %s\n", target->index, d->name, cli_device_type(d->type));
    printf("platform  %s, driver %s, %s\n", d->platform_name, d->driver, d->c_version);
    if (cls_context_info(target->context, &info) != CLS_OK)
        return;
    printf("shape     work-group %" PRIu32 ", row-group %" PRIu32 ", vector %" PRIu32
           ", shortlist %" PRIu32 "\n",
           info.work_group, info.row_group, info.vector, info.shortlist);
    printf("tier      %s, sub-groups %s\n", cli_tier_name(info.tier),
           cli_subgroups_name(info.subgroups));
    printf("kernels   clsample %s, %s\n\n", cls_version(),
           info.origin < 3 ? origins[info.origin] : "?");
}

/* Prints a line for each stage and returns the number of all cases. */
static uint32_t print_stages(const cls_selftest_report *report)
{
    uint32_t cases = 0;
    printf("%-18s %6s %6s\n", "stage", "cases", "failed");
    for (uint32_t i = 0; i < report->stage_count && i < CLS_SELFTEST_STAGES; i++) {
        const cls_selftest_stage *const s = &report->stages[i];
        printf("%-18s %6" PRIu32 " %6" PRIu32 "%s%s\n", s->name, s->cases, s->failed,
               s->failed != 0 ? "  " : "", s->message);
        cases += s->cases;
    }
    return cases;
}

json_t *cli_stages_json(const cls_selftest_report *r, uint32_t *cases)
{
    json_t *const array = json_array();
    *cases = 0;
    for (uint32_t i = 0; i < r->stage_count && i < CLS_SELFTEST_STAGES; i++) {
        const cls_selftest_stage *const s = &r->stages[i];
        *cases += s->cases;
        json_array_append_new(
            array, json_pack("{s:s, s:I, s:I, s:o}", "name", s->name, "cases", (json_int_t)s->cases,
                             "failed", (json_int_t)s->failed, "message", cli_text(s->message)));
    }
    return array;
}

/* A self-test and its result. */
typedef struct result {
    cls_selftest_report report;
    double seconds, compile_seconds;
    int exit;
    bool unfinished; /* a call failed, or a program computes wrong results */
    char error[512]; /* the reason, if it is unfinished */
} result;

static int print_json(const cli_target *target, const result *r)
{
    uint32_t cases;
    json_t *const all = cli_stages_json(&r->report, &cases), *const shape =
                                                                 cli_shape_json(target->context);
    json_t *const object =
        json_pack("{s:s, s:o, s:o, s:I, s:I, s:f, s:f, s:o}", "clsample", cls_version(), "device",
                  cli_device_json(&target->device, target->index), "shape",
                  shape != NULL ? shape : json_null(), "cases", (json_int_t)cases, "failed",
                  (json_int_t)r->report.failed, "seconds", r->seconds, "compile_seconds",
                  r->compile_seconds, "stages", all);
    if (object != NULL && r->unfinished)
        json_object_set_new(object, "error", cli_text(r->error));
    return cli_print_json(object);
}

static int print_table(const result *r)
{
    const uint32_t cases = print_stages(&r->report);
    if (r->unfinished)
        return cli_flush_output();
    if (r->report.failed == 0)
        printf("\nall %" PRIu32 " cases agree", cases);
    else
        printf("\n%" PRIu32 " of %" PRIu32 " cases differ", r->report.failed, cases);
    printf(": %.2f s, after %.2f s for the kernels\n", r->seconds, r->compile_seconds);
    return cli_flush_output();
}

static void run(const cli_target *target, result *r)
{
    const cls_compile_options everything = {sizeof everything, 0, CLS_FEATURES_ALL};
    double start = cli_seconds();
    cls_status status = cli_compile_done(cls_context_compile(target->context, &everything));
    r->compile_seconds += cli_seconds() - start;
    if (status == CLS_OK) {
        start = cli_seconds();
        status = cls_selftest(target->context, &r->report);
        r->seconds = cli_seconds() - start;
    }
    r->exit = status == CLS_OK ? 0 : status == CLS_SELF_TEST_FAILED ? DIFFERS : cli_failure;
    r->unfinished = status != CLS_OK && (status != CLS_SELF_TEST_FAILED || r->report.failed == 0);
    if (r->unfinished)
        snprintf(r->error, sizeof r->error, "%s", cls_error_message());
}

static int test(const cli_target *target, bool json, double opened)
{
    result r = {.report.struct_size = sizeof r.report, .compile_seconds = opened};
    if (!json)
        print_device(target);
    run(target, &r);
    if ((json ? print_json(target, &r) : r.report.stage_count == 0 ? 0 : print_table(&r)) != 0)
        return cli_failure;
    if (r.unfinished)
        cli_fail("%s: %s", target->device.name, r.error);
    return r.exit;
}

int cls_cmd_selftest(int argc, char **argv)
{
    cls_context_options context;
    cli_target target;
    const char *device = NULL;
    int32_t dtype = 0;
    bool json = false;
    cli_option options[] = {CLI_DEVICE(&device),
                            {"dtype", CLI_CHOICE, &dtype, "TYPE=all|f32|f16|bf16",
                             "types of logits: all (default), f32, f16 or bf16"},
                            CLI_SHAPE_OPTIONS(&context),
                            CLI_DEVICE_OPTIONS(&context),
                            {"json", CLI_FLAG, &json, NULL, "print an object"},
                            CLI_NO_OPTION};
    cls_context_options_default(&context, sizeof context);
    const cli_parsed parsed =
        cli_parse(argc, argv, "selftest [OPTION]...",
                  "Checks every sampling stage on a device against known answers. Run it first if\n"
                  "tokens look wrong.\n"
                  "The exit status is 0 if all agree, 1 if an answer differs, and 2 if the "
                  "test could not run.",
                  options);
    if (parsed != CLI_GO)
        return parsed == CLI_FAILED ? cli_failure : 0;
    context.dtypes = cli_dtypes(dtype);
    const double start = cli_seconds();
    if (cli_open(device, &context, 0, &target) != 0)
        return cli_failure;
    const int status = test(&target, json, cli_seconds() - start);
    cli_close(&target);
    return status;
}
