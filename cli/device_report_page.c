/* SPDX-License-Identifier: MIT */
/* Writes the object of a report as a page of Markdown. */
#include <string.h>

#include "device_report.h"

/* What the page has of a part of the report: a text that is left out if the part lacks the member
 * `key`, or a line for each object of the part's array. `array` is "" if the part is the array. */
static const struct block {
    const char *part, *array, *key, *text;
} blocks[] = {
    {"device", NULL, NULL,
     "## Device\n\n| | |\n|---|---|\n| type | {type} |\n| vendor | {vendor} |\n"
     "| platform | {platform} |\n| platform version | {platform_version} |\n"
     "| OpenCL | {version} |\n| profile | {profile} |\n| OpenCL C | {opencl_c} |\n"
     "| driver | {driver} |\n| compute units | {compute_units} |\n"
     "| largest work-group | {max_work_group} |\n| address bits | {address_bits} |\n"},
    {"device", NULL, "local_mem_bytes", "| local memory | {local_mem_bytes:b} |\n"},
    {"device", NULL, "global_mem_bytes", "| global memory | {global_mem_bytes:b} |\n"},
    {"device", NULL, "max_alloc_bytes", "| largest buffer | {max_alloc_bytes:b} |\n"},
    {"device", NULL, "cache_bytes", "| cache | {cache_bytes:b} |\n"},
    {"device", NULL, "max_parameter_bytes",
     "| arguments of a kernel | {max_parameter_bytes:b} |\n"},
    {"device", NULL, NULL,
     "| infinities and NaN; subnormals | {infinities}; {subnormals} |\n"
     "| compiler; out-of-order queue | {compiler}; {out_of_order_queue} |\n"},
    {"sums", NULL, "relevant", "| relevant extensions | {relevant} of {extensions} |\n\n"},
    {"shape", NULL, NULL,
     "## Shape\n\nWork-group {work_group}, row-group {row_group}, vector {vector}, shortlist "
     "{shortlist}; tier {tier}, sub-groups {subgroups}.\n\n"},
    {"selftest", NULL, NULL, "## Self-test\n\n{failed} of {cases} cases differ; {seconds:.2} s.\n"},
    {"selftest", NULL, "error", "\nThe self-test did not finish: {error}\n"},
    {"selftest", NULL, NULL, "\n| stage | cases | failed | |\n|---|---:|---:|---|\n"},
    {"selftest", "stages", NULL, "| {name} | {cases} | {failed} | {message} |\n"},
    {"selftest", NULL, NULL, "\n"},
    {"start", NULL, NULL,
     "## Start\n\nTimes of this process. A driver may have compiled kernels in its cache.\n\n"
     "| | |\n|---|---:|\n"},
    {"start", NULL, "queue_seconds", "| OpenCL context and queue | {queue_seconds:.3} s |\n"},
    {"start", NULL, "context_seconds", "| `cls_context_create()` | {context_seconds:.3} s |\n"},
    {"start", NULL, "sampler_seconds",
     "| first `cls_sampler_create()`, with buffers and a slot | {sampler_seconds:.3} s |\n"},
    {"start", NULL, "first_step_seconds",
     "| first step of one row, until the token is on the host | {first_step_seconds:.3m} ms |\n"},
    {"start", NULL, "later_step_seconds",
     "| later steps, median | {later_step_seconds:.3m} ms |\n"},
    {"start", NULL, NULL, "\n"},
    {"sums", NULL, "programs",
     "## Programs\n\n{programs} programs, {seconds:.2} s in all.\n\n"
     "| program | type | from | group | sub-groups | seconds | local bytes | private bytes | "
     "largest group | multiple |\n|---|---|---|---:|---|---:|---:|---:|---:|---:|\n"},
    {"programs", "", NULL,
     "| {name} | {dtype} | {origin} | {work_group} | {subgroups} | {seconds:.3} | "
     "{local_mem_bytes} | {private_mem_bytes} | {max_work_group} | {preferred_multiple} |\n"},
    {"programs", NULL, NULL, "\n"},
    {"bench", NULL, NULL,
     "## Bench\n\n{rows} rows of {vocab} {dtype} logits. The floor is a plain read of the same "
     "logits, by {floor_shape}. Times are medians in microseconds, and the ratio is the time of "
     "the step divided by the floor. Serving has 64 rows.\n\n"
     "| case | floor | step | ratio | empty launches | runs |\n"
     "|---|---:|---:|---:|---:|---:|\n"},
    {"bench", "cases", NULL,
     "| {case} | {floor_us:.1} | {step_us:.1} | {ratio:.2} | {empty_us:.1} | {runs} |\n"},
    {"bench", NULL, NULL, "\n"}};

static void put_block(const struct block *b, const json_t *part, FILE *file)
{
    static const char failed[] = "| {case} | {error} | | | | |\n"; /* a case of the bench */
    const bool is_whole = b->array != NULL && *b->array == '\0';
    const json_t *const array = is_whole ? part : json_object_get(part, b->array), *object;
    size_t i;
    json_array_foreach(array, i, object)
        cli_put_cells(file, json_object_get(object, "error") != NULL ? failed : b->text, object);
    if (b->array == NULL && (b->key == NULL || json_object_get(part, b->key) != NULL))
        cli_put_cells(file, b->text, part);
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

/* What the page has of the extensions and of the programs, if the report has them: {"relevant",
 * "extensions", "programs", "seconds"}. */
static json_t *sums_of(const json_t *json)
{
    const json_t *const extensions = json_object_get(json_object_get(json, "device"), "extensions"),
                        *const programs = json_object_get(json, "programs"), *one;
    json_t *const sums = json_object();
    char relevant[2048] = "";
    double seconds = 0;
    size_t i;
    json_array_foreach(extensions, i, one)
    {
        const size_t used = strlen(relevant);
        if (matters(json_string_value(one)))
            snprintf(relevant + used, sizeof relevant - used, "%s%s", used == 0 ? "" : ", ",
                     json_string_value(one));
    }
    json_array_foreach(programs, i, one) seconds +=
        json_number_value(json_object_get(one, "seconds"));
    if (extensions != NULL)
        json_object_update(sums, json_pack("{s:s+, s:I}", "relevant",
                                           *relevant == '\0' ? "none" : relevant,
                                           *relevant == '\0' ? "" : ";", "extensions",
                                           (json_int_t)json_array_size(extensions)));
    if (programs != NULL)
        json_object_update(sums,
                           json_pack("{s:I, s:f}", "programs",
                                     (json_int_t)json_array_size(programs), "seconds", seconds));
    return sums;
}

static void write_failures(const json_t *json, FILE *file)
{
    const json_t *const failures = json_object_get(json, "failures"), *one;
    size_t i;
    if (!json_is_true(json_object_get(json, "complete")))
        cli_put_cells(file,
                      "**The report is not complete. The last part that started is: {doing}.**\n\n",
                      json);
    else if (json_array_size(failures) == 0)
        fputs("All parts ran, and all results agree.\n\n", file);
    if (json_array_size(failures) == 0)
        return;
    fputs("## Failures\n\n", file);
    json_array_foreach(failures, i, one) cli_put_cells(file, "- {part}: {error}\n", one);
    fputc('\n', file);
}

void cli_report_page(const json_t *json, FILE *file)
{
    const json_t *const sums = sums_of(json);
    fprintf(file, CLI_PAGE_TITLE "%s\n\n", cli_string(json_object_get(json, "device"), "name"));
    cli_put_cells(file, "clsample {clsample}, {time}, on ", json);
    cli_put_cells(file, "{system} {machine}.\n\n", json_object_get(json, "host"));
    write_failures(json, file);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        const char *const name = blocks[i].part;
        const json_t *const part = strcmp(name, "sums") == 0 ? sums : json_object_get(json, name);
        if (part != NULL)
            put_block(&blocks[i], part, file);
    }
}
