/* SPDX-License-Identifier: MIT */
/* clsample selftest: checks every stage on a device against known answers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/cli.h"

/* Exit statuses, beside cli_failure. 0: all answers agree. */
enum { DIFFERS = 1 };

/* Runs the self-test if *status is CLS_OK, and sets *status: {"cases", "failed", "seconds",
 * "stages"} and, if a call failed or a program computes wrong results, "error". */
static json_t *run_selftest(cls_context *context, cls_status *status)
{
    cls_selftest_stage stage[CLS_SELFTEST_STAGES];
    cls_selftest_report r = {sizeof r, stage, CLS_SELFTEST_STAGES, 0, 0};
    json_t *const stages = json_array();
    json_int_t cases = 0;
    const double start = cli_seconds();
    cli_progress("self-test");
    if (*status == CLS_OK)
        *status = cli_compile_done(cls_selftest(context, &r));
    const double took = cli_seconds() - start;
    for (uint32_t i = 0; i < r.stage_count && i < CLS_SELFTEST_STAGES; i++) {
        const cls_selftest_stage *const s = &stage[i];
        cases += s->cases;
        json_array_append_new(stages,
                              json_pack("{s:s, s:I, s:I, s:o}", "name", s->name, "cases",
                                        (json_int_t)s->cases, "failed", (json_int_t)s->failed,
                                        "message", cli_text(s->message)));
    }
    json_t *const object = json_pack("{s:I, s:I, s:f, s:o}", "cases", cases, "failed",
                                     (json_int_t)r.failed, "seconds", took, "stages", stages);
    if (*status != CLS_OK && (*status != CLS_SELF_TEST_FAILED || r.failed == 0))
        json_object_set_new(object, "error", cli_text(cli_reason()));
    return object;
}

static void print_device(const json_t *object)
{
    const json_t *const shape = json_object_get(object, "shape");
    cli_put("device    {device}: {name}, {type}\n"
            "platform  {platform}, driver {driver}, {opencl_c}\n",
            json_object_get(object, "device"));
    if (json_is_null(shape))
        return;
    const char *const origin = cli_string(shape, "origin");
    cli_put("shape     work-group {work_group}, row-group {row_group}, vector {vector}, "
            "shortlist {shortlist}\n"
            "tier      {tier}, sub-groups {subgroups}\n",
            shape);
    printf("kernels   clsample %s, arithmetic %" PRIu32 ", %s\n\n", cls_version(),
           cls_arithmetic_version(),
           strcmp(origin, "source") == 0   ? "compiled from source"
           : strcmp(origin, "binary") == 0 ? "from a binary"
                                           : "from the cache");
}

static void print_stages(const json_t *object)
{
    const json_t *const stages = json_object_get(object, "stages"), *stage;
    size_t i;
    if (json_array_size(stages) == 0)
        return;
    printf("%-18s %6s %6s\n", "stage", "cases", "failed");
    json_array_foreach(stages, i, stage)
    {
        cli_put("{name:-18} {cases:6} {failed:6}", stage);
        cli_put(cli_integer(stage, "failed") == 0 ? "{message}\n" : "  {message}\n", stage);
    }
    if (json_object_get(object, "error") == NULL) {
        cli_put(cli_integer(object, "failed") == 0 ? "\nall {cases} cases agree"
                                                   : "\n{failed} of {cases} cases differ",
                object);
        cli_put(": {seconds:.2} s, after {compile_seconds:.2} s for the kernels\n", object);
    }
}

/* opened: the seconds that the context took. */
static int test(const cli_target *target, bool json, double opened)
{
    const double start = cli_seconds();
    json_t *const shape = cli_shape_json(target->context);
    json_t *const object =
        json_pack("{s:s, s:o, s:o}", "clsample", cls_version(), "device",
                  json_incref(target->device.json), "shape", shape != NULL ? shape : json_null());
    if (!json)
        print_device(object);
    cls_status status = cli_compile_done(cls_context_compile(target->context, 0, CLS_FEATURES_ALL));
    json_object_set_new(object, "compile_seconds", json_real(opened + cli_seconds() - start));
    /* First, for it reads why the compilation failed: the next call replaces that sentence. */
    json_t *const result = run_selftest(target->context, &status);
    json_object_set_new(object, "programs", cli_programs_json(target->context));
    json_object_update(object, result);
    json_decref(result);
    if (json)
        cli_print_json(object);
    else
        print_stages(object);
    const char *const error = cli_string(object, "error");
    if (error != NULL)
        cli_fail("%s: %s", target->device.name, error);
    return status == CLS_OK ? 0 : status == CLS_SELF_TEST_FAILED ? DIFFERS : cli_failure;
}

int cls_cmd_selftest(int argc, char **argv)
{
    cls_context_options context;
    cli_target target;
    const char *device = NULL;
    int32_t dtype = 0;
    bool json = false;
    cli_option options[] = {CLI_TITLE("Test"),
                            {"dtype", CLI_CHOICE, &dtype, "TYPE=all|f32|f16|bf16",
                             "types of logits: all (default), f32, f16 or bf16"},
                            {"json", CLI_FLAG, &json, NULL, "print an object"},
                            CLI_DEVICE(&device),
                            CLI_SHAPE_OPTIONS(&context),
                            CLI_DEVICE_OPTIONS(&context),
                            CLI_NO_OPTION};
    cls_context_options_init(&context);
    cli_parse(argc, argv, "selftest [OPTION]...",
              "Checks every sampling stage on a device against known answers. Run it first if "
              "tokens look wrong. The exit status is 0 if all agree, 1 if an answer differs, and 2 "
              "if the test could not run.",
              options);
    context.dtypes =
        dtype == 0 ? 1u << CLS_F32 | 1u << CLS_F16 | 1u << CLS_BF16 : 1u << (dtype - 1);
    const double start = cli_seconds();
    if (cli_open(device, &context, 0, &target) != 0)
        return cli_failure;
    const int status = test(&target, json, cli_seconds() - start);
    cli_close(&target);
    return status;
}
