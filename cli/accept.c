/* SPDX-License-Identifier: MIT */
/* clsample accept: what to run on a new device before it serves. */
#include "accept/accept.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ACCEPTED, REFUSED }; /* exit statuses, beside cli_failure */

/* A shape that the device can choose. */
typedef struct shape {
    uint32_t max_work_group; /* 0: the device's own */
    uint32_t tier;
} shape;
enum { MOST_SHAPES = 24 };

typedef struct command {
    const char *device, *path; /* of the report; or NULL */
    uint32_t minutes, limit, seed;
    cls_context_options options;
    shape shapes[MOST_SHAPES];
    uint32_t count, finished;
    double begin;
    json_t *report;
    json_t *now;  /* the object of the shape that runs, or the report */
    char at[200]; /* the latest "at" of a process */
    char program[64];
    char what[100]; /* for progress: the shape */
    accept_job job;
} command;

/* -------------------------------------------------------------------- the report */

/* Writes the report beside its place and moves it there, so that a reader always sees a whole one.
 */
static void write_report(command *c)
{
    if (c->path == NULL)
        return;
    const size_t size = strlen(c->path) + 8;
    char *const beside = cli_alloc(size, 1);
    snprintf(beside, size, "%s.new", c->path);
    json_object_set_new(c->report, "seconds", json_real(cli_seconds() - c->begin));
    FILE *const file = fopen(beside, "w");
    const int written = file != NULL && json_dumpf(c->report, file, JSON_INDENT(2)) == 0 &&
                        fputc('\n', file) != EOF;
    if (file == NULL || fclose(file) != 0 || !written) {
        const int why = errno;
        if (file != NULL)
            remove(beside);
        cli_die("--json: '%s' cannot be written: %s", c->path, strerror(why));
    }
#if defined(_WIN32)
    remove(c->path);
#endif
    if (rename(beside, c->path) != 0) {
        const int why = errno;
        remove(beside);
        cli_die("--json: '%s' cannot be written: %s", c->path, strerror(why));
    }
    cli_free(beside);
}

static void say_state(command *c, const char *state)
{
    json_object_set_new(c->report, "state", json_string(state));
    write_report(c);
}

/* ----------------------------------------------------------------------- hearing */

/* Takes what a process says. */
static void hear(void *of, const char *key, json_t *value)
{
    command *const c = of;
    if (strcmp(key, "at") == 0) {
        snprintf(c->program, sizeof c->program, "%s", cli_string(value, "program"));
        snprintf(c->at, sizeof c->at, "%s %s", c->program, cli_string(value, "does"));
        cli_progress("%s: %s", c->what, c->at);
        json_decref(value);
        return;
    }
    if (strcmp(key, "text") == 0) {
        cli_progress("%s: %s %" JSON_INTEGER_FORMAT ", %s", c->what, cli_string(value, "kind"),
                     cli_integer(value, "number"), cli_string(value, "way"));
        json_object_set_new(c->now, "latest_text", value);
        return;
    }
    json_object_set_new(strcmp(key, "finding") == 0 ? c->report : c->now, key, value);
    write_report(c);
}

/* Prints what the device did wrong, with the text in which it did. */
static void print_finding(const command *c)
{
    const json_t *const f = json_object_get(c->report, "finding");
    const char *const program = cli_string(f, "program"), *const text = cli_string(f, "text"),
                      *const printed = cli_string(f, "printed");
    const json_t *p;
    size_t i;
    printf("\n%s\n", cli_string(f, "message"));
    if (program != NULL)
        printf("program: %s\n", program);
    json_array_foreach(json_object_get(f, "programs"), i, p)
        printf("  %-22s launched %" JSON_INTEGER_FORMAT " times here, and %" JSON_INTEGER_FORMAT
               " times with equal results before\n",
               cli_string(p, "program"), cli_integer(p, "launched"), cli_integer(p, "agreed"));
    if (text != NULL)
        printf("\nThis differs in the statement behind >:\n\n%s", text);
    if (printed != NULL && *printed != '\0')
        printf("\nIt had printed:\n%s", printed);
}

/* Records that a process ended as none should. */
static void record_end(command *c, accept_end end, int number, const char *printed)
{
    char text[400];
    const char *last = printed + strlen(printed);
    if (end == ACCEPT_HANGS)
        snprintf(text, sizeof text, "the driver hangs: nothing came for %" PRIu32 " s after: %s",
                 c->limit, c->at);
    else if (end == ACCEPT_ABORTED)
        snprintf(text, sizeof text, "the driver ended the process by signal %d after: %s", number,
                 c->at);
    else { /* its sentence is the last line */
        while (last > printed &&
               (last == printed + strlen(printed) || last[-1] != '\n' || last[0] == '\n'))
            last--;
        snprintf(text, sizeof text, "the device fails after: %s: %.*s", c->at,
                 (int)strcspn(last, "\n"), last);
    }
    json_object_set_new(c->report, "finding",
                        json_pack("{s:s, s:o, s:o, s:o}", "what",
                                  end == ACCEPT_HANGS     ? "a hang"
                                  : end == ACCEPT_ABORTED ? "an abort"
                                                          : "a failure",
                                  "program", cli_text(c->program), "message", cli_text(text),
                                  "printed", cli_text(printed)));
}

/* ------------------------------------------------------------------------ the plan */

/* The device's own groups and each smaller size, down to one item, with sub-groups and without. */
static void plan_shapes(command *c, const json_t *device)
{
    const bool subgroups = strcmp(cli_string(device, "subgroups"), "none") != 0;
    uint32_t group = (uint32_t)cli_integer(device, "work_group");
    for (bool first = true; group >= 1 && c->count + 2 <= MOST_SHAPES; group /= 2, first = false) {
        const uint32_t most = first ? c->options.max_work_group : group;
        if (subgroups && group > 1 && c->options.tier != CLS_TIER_INT64)
            c->shapes[c->count++] = (shape){most, c->options.tier};
        if (!subgroups || group == 1 || c->options.tier != CLS_TIER_SUBGROUPS)
            c->shapes[c->count++] =
                (shape){most, subgroups && group > 1 ? CLS_TIER_INT64 : c->options.tier};
    }
}

/* Sets how large steps are: all memory of a step, its copies and what it writes is at most a tenth
 * of what one row's four bytes times this would be. */
static void plan_sizes(command *c, const json_t *device)
{
    const uint64_t whole = (uint64_t)cli_integer(device, "global_mem_size"),
                   part = (uint64_t)cli_integer(device, "max_alloc_size");
    uint64_t most = whole / 40 < part / 4 ? whole / 40 : part / 4;
    c->job.largest_rows = 64;
    c->job.largest_vocab = 262144;
    while ((uint64_t)c->job.largest_rows * c->job.largest_vocab > most && c->job.largest_rows > 1)
        c->job.largest_rows /= 2;
    while ((uint64_t)c->job.largest_rows * c->job.largest_vocab > most &&
           c->job.largest_vocab > 32000)
        c->job.largest_vocab /= 2;
    if (c->job.largest_rows != 64)
        printf("the device has little memory, %" PRIu64 " MiB: steps have at most %" PRIu32
               " rows of %" PRIu32 " tokens, not 64 of 262144\n",
               whole >> 20, c->job.largest_rows, c->job.largest_vocab);
    json_object_set_new(c->report, "largest",
                        json_pack("{s:I, s:I}", "rows", (json_int_t)c->job.largest_rows, "vocab",
                                  (json_int_t)c->job.largest_vocab));
}

/* -------------------------------------------------------------------------- the run */

static int describe(command *c)
{
    char text[4001];
    int number;
    c->now = c->report;
    snprintf(c->what, sizeof c->what, "the device");
    snprintf(c->at, sizeof c->at, "the devices are listed");
    const accept_end end =
        accept_in_child(accept_describe, &c->job, c->limit, hear, c, text, &number);
    cli_progress("%s", "");
    if (end == ACCEPT_DONE)
        return ACCEPTED;
    if (end == ACCEPT_INTERRUPTED)
        return cli_failure;
    if (end == ACCEPT_FAILED || end == ACCEPT_DIFFERS) { /* no such device: its sentence */
        fputs(text, stderr);
        return cli_failure;
    }
    if (end == ACCEPT_NO_PROCESS)
        return cli_fail("a process cannot be made: %s", strerror(errno)), cli_failure;
    record_end(c, end, number, text);
    return REFUSED;
}

static void print_shape(const command *c)
{
    const json_t *const row = c->now, *const chosen = json_object_get(row, "shape"), *p;
    size_t i;
    char texts[CLI_COUNTED], programs[CLI_COUNTED];
    printf("%s: ", c->what);
    cli_put("work-group {work_group}, vector {vector}, {tier}, sub-groups {subgroups}", chosen);
    printf(": %s, %" JSON_INTEGER_FORMAT " cases, %" JSON_INTEGER_FORMAT " steps ahead, %s",
           cli_counted(programs, json_array_size(json_object_get(row, "programs")), "programs"),
           cli_integer(row, "cases"), cli_integer(row, "steps"),
           cli_counted(texts, (uint64_t)cli_integer(row, "texts"), "texts"));
    printf(" of %" JSON_INTEGER_FORMAT " statements: equal\n", cli_integer(row, "statements"));
    json_array_foreach(json_object_get(row, "seconds_a_step"), i, p)
        cli_put("  a step of {rows} rows of {vocab} tokens takes {seconds:.6} s\n", p);
    fflush(stdout);
}

static int run_shape(command *c, uint32_t i)
{
    char text[4001];
    int number;
    const double left = c->begin + 60.0 * c->minutes - cli_seconds();
    c->job.options.max_work_group = c->shapes[i].max_work_group;
    c->job.options.tier = c->shapes[i].tier;
    c->job.seconds = left > 0 ? left / (c->count - i) : 0;
    c->job.seed = c->seed + i * 1000;
    c->now = json_object();
    json_array_append_new(json_object_get(c->report, "shapes"), c->now);
    snprintf(c->what, sizeof c->what, "shape %" PRIu32 " of %" PRIu32, i + 1, c->count);
    snprintf(c->at, sizeof c->at, "the device is opened");
    snprintf(c->program, sizeof c->program, "the device");
    const accept_end end = accept_in_child(accept_shape, &c->job, c->limit, hear, c, text, &number);
    cli_progress("%s", "");
    if (end == ACCEPT_INTERRUPTED)
        return cli_failure;
    if (end == ACCEPT_NO_PROCESS)
        return cli_fail("a process cannot be made: %s", strerror(errno)), cli_failure;
    if (end == ACCEPT_DIFFERS && json_object_get(c->report, "finding") != NULL)
        return REFUSED;
    if (end != ACCEPT_DONE) {
        record_end(c, end, number, text);
        return REFUSED;
    }
    c->finished++;
    print_shape(c);
    return ACCEPTED;
}

static int run_all(command *c)
{
    int result = describe(c);
    if (result != ACCEPTED)
        return result;
    const json_t *const device = json_object_get(c->report, "device");
    cli_put("{name}, {type}, {platform}, driver {driver}\n", device);
    printf("clsample %s, arithmetic %" PRIu32 "\n", cls_version(), cls_arithmetic_version());
    plan_shapes(c, device);
    plan_sizes(c, device);
    json_object_set_new(c->report, "shapes_planned", json_integer(c->count));
    write_report(c);
    for (uint32_t i = 0; i < c->count && result == ACCEPTED; i++) {
        if (i > 0 && cli_seconds() - c->begin > 60.0 * c->minutes)
            break;
        result = run_shape(c, i);
    }
    return result;
}

static void end_run(command *c, int result)
{
    if (cli_interrupted()) {
        say_state(c, "interrupted");
    } else if (result == ACCEPTED) {
        const bool all = c->finished == c->count;
        say_state(c, all ? "accepted" : "accepted in part");
        if (all)
            printf("accepted: all results are the host's\n");
        else
            printf("accepted in part: all results are the host's, but %" PRIu32 " of %" PRIu32
                   " shapes were left out, because the time was up; give more --minutes\n",
                   c->count - c->finished, c->count);
    } else if (result == REFUSED) {
        say_state(c, "refused");
        print_finding(c);
        printf("refused\n");
    } else {
        say_state(c, "could not run");
    }
}

int cls_cmd_accept(int argc, char **argv)
{
    command *const c = cli_alloc(1, sizeof *c);
    c->minutes = 60;
    c->limit = 600;
    c->begin = cli_seconds();
    cls_context_options_init(&c->options);
    const cli_option options[] = {
        CLI_DEVICE(&c->device),
        CLI_TITLE("Test"),
        {"minutes", CLI_UINT, &c->minutes, "N",
         "how long the calls run, for all shapes together (default 60); compiling may take longer"},
        {"limit", CLI_UINT, &c->limit, "SECONDS",
         "a program that says nothing for so long hangs (default 600)"},
        {"seed", CLI_UINT, &c->seed, "N", "of the random calls (default 0)"},
        {"json", CLI_OUTPUT, &c->path, "FILE", "write a report, which is whole at any time"},
        CLI_DEVICE_OPTIONS(&c->options),
        CLI_NO_OPTION};
    cli_parse(argc, argv, "accept [--device N] [--minutes N] [--json FILE]",
              "Compares a new device with the host at production sizes: each program, the "
              "self-test, random calls, and steps ahead, in every shape that the library can "
              "choose there. The exit status is 0 if all is equal, 1 if something differs, hangs "
              "or aborts, and 2 if the command cannot run.",
              options);
    if (c->minutes == 0)
        cli_die("--minutes: 0 is not a time; it must be at least 1");
    if (c->limit == 0)
        cli_die("--limit: 0 is not a time; it must be at least 1");
    if (cli_on_host(c->device))
        cli_die("--device: the host is what devices are compared with; name a device");
    if (!accept_can())
        cli_die("accept needs a process of its own for each shape, which it cannot make on this "
                "system: run clsample selftest, and clsample run --device N on texts of calls");
    c->job.device = c->device;
    c->job.options = c->options;
    c->report =
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:n}", "state", "running", "clsample",
                  cls_version(), "arithmetic", (json_int_t)cls_arithmetic_version(), "minutes",
                  (json_int_t)c->minutes, "limit", (json_int_t)c->limit, "seed",
                  (json_int_t)c->seed, "shapes", json_array(), "finding");
    json_object_set_new(c->report, "begun", json_integer((json_int_t)time(NULL)));
    write_report(c);
    cli_catch_interrupt();
    const int result = run_all(c);
    end_run(c, result);
    return result;
}
