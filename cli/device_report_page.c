/* SPDX-License-Identifier: MIT */
/* Writes the object of a report as a page of Markdown. */
#include <string.h>

#include "device_report.h"

/* Writes the text for each object of an array. */
static void put_all(FILE *file, const char *text, const json_t *array)
{
    for (size_t i = 0; i < json_array_size(array); i++)
        cli_put_cells(file, text, json_array_get(array, i));
}

/* A line that is left out if the object lacks the member. */
typedef struct line {
    const char *key, *text;
} line;

static void put_present(FILE *file, const line *lines, size_t n, const json_t *object)
{
    for (size_t i = 0; i < n; i++)
        if (json_object_get(object, lines[i].key) != NULL)
            cli_put_cells(file, lines[i].text, object);
}

#define COUNT(lines) (sizeof lines / sizeof *lines)

/* ------------------------------------------------------------------------ device */

/* Writes a number of bytes in the largest unit that divides it. */
static void put_bytes(FILE *file, const json_t *object, const char *key, const char *name)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB"};
    const json_t *const value = json_object_get(object, key);
    long long n = (long long)json_integer_value(value);
    size_t unit = 0;
    for (; unit < 3 && n != 0 && n % 1024 == 0; unit++)
        n /= 1024;
    if (value != NULL)
        fprintf(file, "| %s | %lld %s |\n", name, n, units[unit]);
}

/* Whether an extension changes what the library does, or may do so in future. */
static bool matters(const char *extension)
{
    static const char *const words[] = {
        "subgroup",         "sub_group", "fp16",    "int64", "il_program",
        "device_attribute", "shuffle",   "unified", "spir",  "_svm"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(extension, words[i]) != NULL)
            return true;
    return false;
}

static void write_extensions(const json_t *all, FILE *file)
{
    const char *before = " ";
    fputs("| relevant extensions |", file);
    for (size_t i = 0; i < json_array_size(all); i++) {
        const char *const name = json_string_value(json_array_get(all, i));
        if (name != NULL && matters(name)) {
            fprintf(file, "%s%s", before, name);
            before = ", ";
        }
    }
    fprintf(file, "%s of %zu |\n", *before == ' ' ? " none" : ";", json_array_size(all));
}

static void write_device(const json_t *d, FILE *file)
{
    cli_put_cells(file,
                  "## Device\n\n| | |\n|---|---|\n| type | {type} |\n| vendor | {vendor} |\n"
                  "| platform | {platform} |\n| platform version | {platform_version} |\n"
                  "| OpenCL | {version} |\n| profile | {profile} |\n| OpenCL C | {opencl_c} |\n"
                  "| driver | {driver} |\n| compute units | {compute_units} |\n"
                  "| largest work-group | {max_work_group} |\n| address bits | {address_bits} |\n",
                  d);
    put_bytes(file, d, "local_mem_bytes", "local memory");
    put_bytes(file, d, "global_mem_bytes", "global memory");
    put_bytes(file, d, "max_alloc_bytes", "largest buffer");
    put_bytes(file, d, "cache_bytes", "cache");
    put_bytes(file, d, "max_parameter_bytes", "arguments of a kernel");
    cli_put_cells(file,
                  "| infinities and NaN; subnormals | {infinities}; {subnormals} |\n"
                  "| compiler; out-of-order queue | {compiler}; {out_of_order_queue} |\n",
                  d);
    write_extensions(json_object_get(d, "extensions"), file);
    fputc('\n', file);
}

static void write_shape(const json_t *s, FILE *file)
{
    cli_put_cells(
        file,
        "## Shape\n\nWork-group {work_group}, row-group {row_group}, vector {vector}, shortlist "
        "{shortlist}; tier {tier}, sub-groups {subgroups}.\n\n",
        s);
}

/* ------------------------------------------------------------------ measurements */

static void write_selftest(const json_t *t, FILE *file)
{
    static const line error[] = {{"error", "\nThe self-test did not finish: {error}\n"}};
    cli_put_cells(file, "## Self-test\n\n{failed} of {cases} cases differ; {seconds:.2} s.\n", t);
    put_present(file, error, 1, t);
    fputs("\n| stage | cases | failed | |\n|---|---:|---:|---|\n", file);
    put_all(file, "| {name} | {cases} | {failed} | {message} |\n", json_object_get(t, "stages"));
    fputc('\n', file);
}

static void write_start(const json_t *s, FILE *file)
{
    static const line lines[] = {
        {"queue_seconds", "| OpenCL context and queue | {queue_seconds:.3} s |\n"},
        {"context_seconds", "| `cls_context_create()` | {context_seconds:.3} s |\n"},
        {"sampler_seconds", "| first `cls_sampler_create()`, with buffers and a slot | "
                            "{sampler_seconds:.3} s |\n"},
        {"first_step_seconds", "| first step of one row, until the token is on the host | "
                               "{first_step_seconds:.3m} ms |\n"},
        {"later_step_seconds", "| later steps, median | {later_step_seconds:.3m} ms |\n"}};
    fputs("## Start\n\nTimes of this process. A driver may have compiled kernels in its cache.\n\n"
          "| | |\n|---|---:|\n",
          file);
    put_present(file, lines, COUNT(lines), s);
    fputc('\n', file);
}

static void write_programs(const json_t *programs, FILE *file)
{
    double seconds = 0;
    for (size_t i = 0; i < json_array_size(programs); i++)
        seconds += json_number_value(json_object_get(json_array_get(programs, i), "seconds"));
    fprintf(
        file,
        "## Programs\n\n%zu programs, %.2f s in all.\n\n"
        "| program | type | from | group | sub-groups | seconds | local bytes | private bytes | "
        "largest group | multiple |\n|---|---|---|---:|---|---:|---:|---:|---:|---:|\n",
        json_array_size(programs), seconds);
    put_all(file,
            "| {name} | {dtype} | {origin} | {work_group} | {subgroups} | {seconds:.3} | "
            "{local_mem_bytes} | {private_mem_bytes} | {max_work_group} | {preferred_multiple} |\n",
            programs);
    fputc('\n', file);
}

static void write_bench(const json_t *b, FILE *file)
{
    const json_t *const cases = json_object_get(b, "cases");
    cli_put_cells(
        file,
        "## Bench\n\n{rows} rows of {vocab} {dtype} logits. The floor is a plain read of the same "
        "logits, by {floor_shape}. Times are medians in microseconds, and the ratio is the time of "
        "the step divided by the floor. Serving has 64 rows.\n\n"
        "| case | floor | step | ratio | empty launches | runs |\n"
        "|---|---:|---:|---:|---:|---:|\n",
        b);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *const c = json_array_get(cases, i);
        const bool timed = json_object_get(c, "empty_us") != NULL;
        cli_put_cells(
            file,
            json_object_get(c, "error") != NULL ? "| {case} | {error} | | | | |\n"
            : timed ? "| {case} | {floor_us:.1} | {step_us:.1} | {ratio:.2} | {empty_us:.1} | "
                      "{runs} |\n"
                    : "| {case} | {floor_us:.1} | {step_us:.1} | {ratio:.2} | - | {runs} |\n",
            c);
    }
    fputc('\n', file);
}

/* --------------------------------------------------------------------------- all */

static void write_failures(const json_t *json, FILE *file)
{
    const json_t *const failures = json_object_get(json, "failures");
    if (!json_is_true(json_object_get(json, "complete")))
        cli_put_cells(file,
                      "**The report is not complete. The last part that started is: {doing}.**\n\n",
                      json);
    else if (json_array_size(failures) == 0)
        fputs("All parts ran, and all results agree.\n\n", file);
    if (json_array_size(failures) == 0)
        return;
    fputs("## Failures\n\n", file);
    put_all(file, "- {part}: {error}\n", failures);
    fputc('\n', file);
}

void cli_report_page(const json_t *json, FILE *file)
{
    static const struct {
        const char *key;
        void (*write)(const json_t *part, FILE *file);
    } parts[] = {{"device", write_device},     {"shape", write_shape},
                 {"selftest", write_selftest}, {"start", write_start},
                 {"programs", write_programs}, {"bench", write_bench}};
    fprintf(file, CLI_PAGE_TITLE "%s\n\n", cli_string(json_object_get(json, "device"), "name"));
    cli_put_cells(file, "clsample {clsample}, {time}, on ", json);
    cli_put_cells(file, "{system} {machine}.\n\n", json_object_get(json, "host"));
    write_failures(json, file);
    for (size_t i = 0; i < COUNT(parts); i++) {
        const json_t *const part = json_object_get(json, parts[i].key);
        if (part != NULL)
            parts[i].write(part, file);
    }
}
