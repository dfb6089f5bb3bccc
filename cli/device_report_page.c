/* SPDX-License-Identifier: MIT */
/* Writes the object of a report as a page of Markdown. */
#include <string.h>

#include "device_report.h"

static const char *text(const json_t *object, const char *key)
{
    const char *const s = json_string_value(json_object_get(object, key));
    return s != NULL ? s : "?";
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static long long integer(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

static const char *yes_no(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key)) ? "yes" : "no";
}

/* Writes text into a cell of a table, on one line. */
static void cell(const char *s, FILE *file)
{
    for (; *s != '\0'; s++)
        if (*s == '|')
            fputs("\\|", file);
        else
            fputc(*s == '\n' || *s == '\r' ? ' ' : *s, file);
}

/* Writes a number of bytes in the largest unit that divides it. */
static void bytes_row(const json_t *object, const char *key, const char *name, FILE *file)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB"};
    long long n = integer(object, key);
    size_t unit = 0;
    if (json_object_get(object, key) == NULL)
        return;
    for (; unit < 3 && n != 0 && n % 1024 == 0; unit++)
        n /= 1024;
    fprintf(file, "| %s | %lld %s |\n", name, n, units[unit]);
}

/* ------------------------------------------------------------------------ device */

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

static void write_extensions(const json_t *device, FILE *file)
{
    const json_t *const all = json_object_get(device, "extensions");
    size_t n = 0;
    fputs("| relevant extensions |", file);
    for (size_t i = 0; i < json_array_size(all); i++) {
        const char *const name = json_string_value(json_array_get(all, i));
        if (name != NULL && matters(name)) {
            fputs(n++ == 0 ? " " : ", ", file);
            cell(name, file);
        }
    }
    fprintf(file, "%s of %zu |\n", n == 0 ? " none" : ";", json_array_size(all));
}

static void write_device(const json_t *d, FILE *file)
{
    static const struct {
        const char *key, *name;
    } texts[] = {{"type", "type"},         {"vendor", "vendor"},
                 {"platform", "platform"}, {"platform_version", "platform version"},
                 {"version", "OpenCL"},    {"profile", "profile"},
                 {"opencl_c", "OpenCL C"}, {"driver", "driver"}},
      sizes[] = {{"local_mem_bytes", "local memory"},
                 {"global_mem_bytes", "global memory"},
                 {"max_alloc_bytes", "largest buffer"},
                 {"cache_bytes", "cache"},
                 {"max_parameter_bytes", "arguments of a kernel"}};
    fputs("## Device\n\n| | |\n|---|---|\n", file);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        fprintf(file, "| %s | ", texts[i].name);
        cell(text(d, texts[i].key), file);
        fputs(" |\n", file);
    }
    fprintf(file,
            "| compute units | %lld |\n| largest work-group | %lld |\n| address bits | %lld |\n",
            integer(d, "compute_units"), integer(d, "max_work_group"), integer(d, "address_bits"));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        bytes_row(d, sizes[i].key, sizes[i].name, file);
    fprintf(
        file,
        "| infinities and NaN; subnormals | %s; %s |\n| compiler; out-of-order queue | %s; %s |\n",
        yes_no(d, "infinities"), yes_no(d, "subnormals"), yes_no(d, "compiler"),
        yes_no(d, "out_of_order_queue"));
    write_extensions(d, file);
    fputc('\n', file);
}

static void write_shape(const json_t *s, FILE *file)
{
    fprintf(file,
            "## Shape\n\nWork-group %lld, row-group %lld, vector %lld, shortlist %lld; tier %s, "
            "sub-groups %s.\n\n",
            integer(s, "work_group"), integer(s, "row_group"), integer(s, "vector"),
            integer(s, "shortlist"), text(s, "tier"), text(s, "subgroups"));
}

/* ------------------------------------------------------------------ measurements */

static void write_selftest(const json_t *t, FILE *file)
{
    const json_t *const stages = json_object_get(t, "stages");
    fprintf(file, "## Self-test\n\n%lld of %lld cases differ; %.2f s.\n", integer(t, "failed"),
            integer(t, "cases"), number(t, "seconds"));
    if (json_object_get(t, "error") != NULL)
        fprintf(file, "\nThe self-test did not finish: %s\n", text(t, "error"));
    fputs("\n| stage | cases | failed | |\n|---|---:|---:|---|\n", file);
    for (size_t i = 0; i < json_array_size(stages); i++) {
        const json_t *const s = json_array_get(stages, i);
        fprintf(file, "| %s | %lld | %lld | ", text(s, "name"), integer(s, "cases"),
                integer(s, "failed"));
        cell(text(s, "message"), file);
        fputs(" |\n", file);
    }
    fputc('\n', file);
}

static void write_start(const json_t *s, FILE *file)
{
    static const struct {
        const char *key, *name;
        double scale;
    } rows[] = {
        {"queue_seconds", "OpenCL context and queue", 1},
        {"context_seconds", "`cls_context_create()`", 1},
        {"sampler_seconds", "first `cls_sampler_create()`, with buffers and a slot", 1},
        {"first_step_seconds", "first step of one row, until the token is on the host", 1e3},
        {"later_step_seconds", "later steps, median", 1e3}};
    fputs("## Start\n\nTimes of this process. A driver may have compiled kernels in its cache.\n\n",
          file);
    fputs("| | |\n|---|---:|\n", file);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (json_object_get(s, rows[i].key) != NULL)
            fprintf(file, "| %s | %.3f %s |\n", rows[i].name,
                    rows[i].scale * number(s, rows[i].key), rows[i].scale > 1 ? "ms" : "s");
    fputc('\n', file);
}

static void write_programs(const json_t *programs, FILE *file)
{
    double seconds = 0;
    for (size_t i = 0; i < json_array_size(programs); i++)
        seconds += number(json_array_get(programs, i), "seconds");
    fprintf(file, "## Programs\n\n%zu programs, %.2f s in all.\n\n", json_array_size(programs),
            seconds);
    fputs("| program | type | from | group | sub-groups | seconds | local bytes | private bytes | "
          "largest group | "
          "multiple |\n"
          "|---|---|---|---:|---|---:|---:|---:|---:|---:|\n",
          file);
    for (size_t i = 0; i < json_array_size(programs); i++) {
        const json_t *const p = json_array_get(programs, i);
        fprintf(file, "| %s | %s | %s | %lld | %s | %.3f | %lld | %lld | %lld | %lld |\n",
                text(p, "name"), text(p, "dtype"), text(p, "origin"), integer(p, "work_group"),
                text(p, "subgroups"), number(p, "seconds"), integer(p, "local_mem_bytes"),
                integer(p, "private_mem_bytes"), integer(p, "max_work_group"),
                integer(p, "preferred_multiple"));
    }
    fputc('\n', file);
}

static void write_case(const json_t *c, FILE *file)
{
    fprintf(file, "| %s | ", text(c, "case"));
    if (json_object_get(c, "error") != NULL) {
        cell(text(c, "error"), file);
        fputs(" | | | | |\n", file);
        return;
    }
    fprintf(file, "%.1f | %.1f | %.2f | ", number(c, "floor_us"), number(c, "step_us"),
            number(c, "ratio"));
    if (json_object_get(c, "empty_us") != NULL)
        fprintf(file, "%.1f", number(c, "empty_us"));
    else
        fputc('-', file);
    fprintf(file, " | %lld |\n", integer(c, "runs"));
}

static void write_bench(const json_t *b, FILE *file)
{
    const json_t *const cases = json_object_get(b, "cases");
    fprintf(
        file,
        "## Bench\n\n%lld rows of %lld %s logits. The floor is a plain read of the same logits, "
        "by %s. Times are medians in microseconds, and the ratio is the time of the step "
        "divided by the floor. Serving has 64 rows.\n\n",
        integer(b, "rows"), integer(b, "vocab"), text(b, "dtype"), text(b, "floor_shape"));
    fputs(
        "| case | floor | step | ratio | empty launches | runs |\n|---|---:|---:|---:|---:|---:|\n",
        file);
    for (size_t i = 0; i < json_array_size(cases); i++)
        write_case(json_array_get(cases, i), file);
    fputc('\n', file);
}

/* --------------------------------------------------------------------------- all */

static void write_failures(const json_t *json, FILE *file)
{
    const json_t *const failures = json_object_get(json, "failures");
    if (!json_is_true(json_object_get(json, "complete")))
        fprintf(file, "**The report is not complete. The last part that started is: %s.**\n\n",
                text(json, "doing"));
    else if (json_array_size(failures) == 0)
        fputs("All parts ran, and all results agree.\n\n", file);
    if (json_array_size(failures) == 0)
        return;
    fputs("## Failures\n\n", file);
    for (size_t i = 0; i < json_array_size(failures); i++) {
        const json_t *const f = json_array_get(failures, i);
        fprintf(file, "- %s: ", text(f, "part"));
        cell(text(f, "error"), file);
        fputc('\n', file);
    }
    fputc('\n', file);
}

void cli_page_write(const json_t *json, FILE *file)
{
    static const struct {
        const char *key;
        void (*write)(const json_t *part, FILE *file);
    } parts[] = {{"device", write_device},     {"shape", write_shape},
                 {"selftest", write_selftest}, {"start", write_start},
                 {"programs", write_programs}, {"bench", write_bench}};
    const json_t *const h = json_object_get(json, "host");
    fprintf(file, CLI_PAGE_TITLE "%s\n\n", text(json_object_get(json, "device"), "name"));
    fprintf(file, "clsample %s, %s, on %s %s.\n\n", text(json, "clsample"), text(json, "time"),
            text(h, "system"), text(h, "machine"));
    write_failures(json, file);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const json_t *const part = json_object_get(json, parts[i].key);
        if (part != NULL)
            parts[i].write(part, file);
    }
}
