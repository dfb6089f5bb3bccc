/* SPDX-License-Identifier: MIT */
/* clsample report: the command. It runs the parts of a report in turn and writes the files. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/utsname.h>

#include "../bench/bench.h"
#include "device_report.h"

/* Exit statuses, beside cli_failure. 0: all parts ran and agreed with the reference. */
enum { DIFFERS = 1 };

void cli_report_fail(cli_report *report, const char *part, const char *message)
{
    json_t *const failures = json_object_get(report->json, "failures");
    report->failures++;
    json_array_append_new(
        failures, json_pack("{s:o, s:o}", "part", cli_text(part), "error", cli_text(message)));
}

/* ------------------------------------------------------------------------- files */

/* Whether a file is there, not empty, that is no page of an earlier report. */
static bool is_foreign(const char *page)
{
    char line[sizeof CLI_PAGE_TITLE] = "";
    FILE *const file = cli_kind_of(page) == CLI_REGULAR ? fopen(page, "r") : NULL;
    const bool has_line = file != NULL && fgets(line, sizeof line, file) != NULL;
    if (file != NULL)
        fclose(file);
    return has_line && strcmp(line, CLI_PAGE_TITLE) != 0;
}

/* Makes the path of the page: a suffix .json becomes .md, any other name gets .md appended. The
 * command line does not name this file, so it may only replace the page of an earlier report. */
static void name_page(cli_report *report)
{
    const char *const path = report->path;
    const size_t length = strlen(path) - (cli_ends_with(path, ".json") ? 5 : 0);
    if (length == 0 || length + 4 > sizeof report->page)
        cli_die("--output: '%s' is not a usable file name", path);
    if (cli_ends_with(path, ".md"))
        cli_die("--output: '%s' is the name of a page; name the JSON file, and the page "
                "gets .md in place of .json",
                path);
    snprintf(report->page, sizeof report->page, "%.*s.md", (int)length, path);
    if (is_foreign(report->page))
        cli_die("--output: the page would overwrite %s, which is no page of a report; choose "
                "another name",
                report->page);
}

void cli_report_save(cli_report *report, const char *doing)
{
    json_object_set_new(report->json, "complete", json_boolean(doing == NULL));
    json_object_set_new(report->json, "doing", doing != NULL ? cli_text(doing) : json_null());
    if (json_dump_file(report->json, report->path, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) != 0)
        cli_die("--output: %s: cannot be written: %s", report->path, strerror(errno));
    FILE *const file = fopen(report->page, "w");
    if (file != NULL)
        cli_report_page(report->json, file);
    const bool failed = file == NULL || ferror(file);
    if ((file != NULL && fclose(file) != 0) || failed)
        cli_die("--output: %s: cannot be written: %s", report->page, strerror(errno));
}

/* ------------------------------------------------------------------------- parts */

static json_t *host(void)
{
    struct utsname names;
    return uname(&names) >= 0 /* all but the name of the host */
               ? json_pack("{s:o, s:o, s:o, s:i}", "system", cli_text(names.sysname), "release",
                           cli_text(names.release), "machine", cli_text(names.machine),
                           "pointer_bits", (int)sizeof(void *) * 8)
               : json_pack("{s:i}", "pointer_bits", (int)sizeof(void *) * 8);
}

static json_t *options_json(const cli_report *report)
{
    const cls_context_options *const o = &report->options;
    json_t *const dtypes = json_array();
    for (int32_t dtype = CLS_F32; dtype <= CLS_BF16; dtype++)
        if (o->dtypes >> dtype & 1u)
            json_array_append_new(dtypes, json_string(cli_dtype_name(dtype)));
    return json_pack("{s:o, s:b, s:s, s:I, s:I, s:I, s:b}", "dtypes", dtypes, "quick",
                     report->quick, "tier", cli_tier_name(o->tier), "max_work_group",
                     (json_int_t)o->max_work_group, "max_local_mem_bytes",
                     (json_int_t)o->max_local_mem_size, "shortlist", (json_int_t)o->shortlist,
                     "cache_dir", o->cache_dir != NULL);
}

static void begin(cli_report *report)
{
    char now[32] = "";
    const time_t t = time(NULL);
    const struct tm *const utc = gmtime(&t);
    if (utc != NULL)
        strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", utc);
    report->json = json_pack("{s:i, s:s, s:s, s:b, s:s, s:o, s:o, s:[]}", "report_version", 1,
                             "clsample", cls_version(), "time", now, "complete", 0, "doing",
                             "device", "host", host(), "options", options_json(report), "failures");
}

/* Runs the self-test, prints its result, and records the messages of the stages that failed. */
static void run_selftest(cli_report *report)
{
    cls_status status = CLS_OK;
    json_t *const object = cli_selftest(report->target.context, &status), *stage;
    const char *const error = cli_string(object, "error");
    size_t i;
    json_object_set_new(report->json, "selftest", object);
    json_array_foreach(json_object_get(object, "stages"), i, stage)
    {
        char part[64];
        snprintf(part, sizeof part, "self-test, %s", cli_string(stage, "name"));
        if (cli_integer(stage, "failed") != 0)
            cli_report_fail(report, part, cli_string(stage, "message"));
    }
    if (error != NULL) {
        cli_fail("self-test: %s", error);
        cli_report_fail(report, "self-test", error);
    }
    cli_put("self-test  {failed} of {cases} cases differ", object);
    cli_put(error != NULL ? "; the self-test did not finish, {seconds:.2} s\n"
                          : ", {seconds:.2} s\n",
            object);
}

static void run_bench(cli_report *report)
{
    bench_setup setup = {
        .on = &report->target, .batch = BENCH_ROWS, .vocab = BENCH_VOCAB, .history = BENCH_HISTORY};
    json_t *object, *one;
    size_t i;
    while (!(report->options.dtypes >> setup.dtype & 1u))
        setup.dtype++;
    if (report->quick) {
        setup.batch = 4;
        setup.vocab = 32000;
        setup.runs = 11;
    }
    object = json_pack("{s:i, s:i, s:s}", "rows", (int)setup.batch, "vocab", (int)setup.vocab,
                       "dtype", cli_dtype_name((int32_t)setup.dtype));
    json_object_set_new(report->json, "bench", object);
    const int failed = bench_collect(&setup, report->quick, object);
    json_array_foreach(json_object_get(object, "cases"), i, one)
    {
        const char *const error = cli_string(one, "error");
        char part[64];
        snprintf(part, sizeof part, "bench, %s", cli_string(one, "case"));
        if (error != NULL)
            cli_report_fail(report, part, error);
    }
    printf("bench      %zu cases, %d failed\n", json_array_size(json_object_get(object, "cases")),
           failed);
    cli_report_programs(report); /* the bench compiles further programs */
}

/* --------------------------------------------------------------------------- all */

static void print_start(const cli_report *report)
{
    const json_t *const start = json_object_get(report->json, "start");
    cli_put("start      context {context_seconds:.2} s", start);
    if (json_object_get(start, "first_step_seconds") != NULL)
        cli_put(", first sampler {sampler_seconds:.2} s, first token {first_step_seconds:.2m} ms, "
                "later ones {later_step_seconds:.2m} ms",
                start);
    putchar('\n');
    fflush(stdout);
}

static void print_programs(const cli_report *report)
{
    double seconds = 0;
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(report->json, "compile"), i, one) seconds +=
        json_number_value(json_object_get(one, "seconds"));
    printf("kernels    %zu programs, %.2f s to compile or load\n",
           json_array_size(json_object_get(report->json, "programs")), seconds);
}

static void run_start(cli_report *report)
{
    cli_report_first(report);
    print_start(report);
    cli_report_compile(report);
    print_programs(report);
}

/* Runs the parts that need a context, until an interrupt. */
static void run_on_context(cli_report *report)
{
    static const struct {
        const char *name;
        void (*run)(cli_report *report);
    } parts[] = {{"first token", run_start}, {"self-test", run_selftest}, {"bench", run_bench}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !cli_interrupted(); i++) {
        cli_report_save(report, parts[i].name);
        parts[i].run(report);
        fflush(stdout);
    }
}

static const char *doing_of(const cli_report *report)
{
    return json_string_value(json_object_get(report->json, "doing"));
}

static int print_summary(const cli_report *report, bool ran)
{
    if (cli_interrupted())
        printf("\nInterrupted during: %s. The report has the results up to this part.\n",
               doing_of(report));
    else if (report->failures == 0)
        puts("\nAll parts ran, and all results agree.");
    else
        printf("\n%" PRIu32 " part%s failed; the report lists %s.\n", report->failures,
               report->failures == 1 ? "" : "s", report->failures == 1 ? "it" : "them");
    printf("Please send these two files:\n    %s\n    %s\n", report->path, report->page);
    return !ran ? cli_failure : report->failures != 0 ? DIFFERS : 0;
}

static int run(cli_report *report, const char *device)
{
    name_page(report);
    cli_find_device(device, &report->options, true, &report->target);
    begin(report);
    cli_report_device(report);
    cli_report_save(report, "context");
    cli_put("device     {device}: {name}, {type}\n"
            "platform   {platform}, driver {driver}, {opencl_c}\n",
            report->target.device.json);
    fflush(stdout);
    cli_catch_interrupt();
    const bool ran = cli_report_context(report) == 0;
    if (ran)
        run_on_context(report);
    cli_report_save(report, cli_interrupted() ? doing_of(report) : NULL);
    return print_summary(report, ran);
}

int cls_cmd_report(int argc, char **argv)
{
    cli_report report = {.path = "clsample-report.json"};
    const char *device = NULL;
    int32_t dtype = 0;
    cli_option options[] = {
        CLI_TITLE("Report"),
        {"output", CLI_OUTPUT, &report.path, "FILE",
         "the JSON file (default clsample-report.json); the page beside it ends in .md"},
        {"dtype", CLI_CHOICE, &dtype, "TYPE=all|f32|f16|bf16",
         "types of logits: all (default; with --quick f32), f32, f16 or bf16"},
        {"quick", CLI_FLAG, &report.quick, NULL,
         "float32 only and a small bench: seconds, if kernels are compiled already"},
        CLI_DEVICE(&device),
        {"shortlist", CLI_UINT, &report.options.shortlist, "N",
         "candidates in the list of a row (default: chosen for the device)"},
        CLI_DEVICE_OPTIONS(&report.options),
        CLI_NO_OPTION};
    cls_context_options_init(&report.options);
    cli_parse(
        argc, argv, "report [OPTION]...",
        "Writes two files that describe a device, to be sent to the maintainers: its properties, "
        "whether it computes correctly, how long it takes to start, and how fast it is. This takes "
        "minutes if the kernels are not compiled yet. The exit status is 0 if all parts ran and "
        "agreed, 1 if a part failed or differs, and 2 if nothing could run.",
        options);
    if (dtype == 0 && report.quick && !cli_given("dtype"))
        dtype = 1;
    report.options.dtypes = cli_dtypes(dtype);
    const int status = run(&report, device);
    cli_close(&report.target);
    return status;
}
