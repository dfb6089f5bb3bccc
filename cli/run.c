/* SPDX-License-Identifier: MIT */
/* clsample run: runs texts of calls on the host and on devices, and compares all that is written.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/script.h"

enum { EQUAL, DIFFERENT }; /* exit statuses, beside cli_failure */
enum { MOST_SIDES = 64 };

typedef struct command {
    const char *device, *record;
    uint64_t sides; /* bits of known_sides */
    uint32_t seeds, first_seed, calls;
    bool shrinks, compiles_all;
    cls_context_options options;
    run_side side[MOST_SIDES]; /* the first is the host */
    uint32_t count;
    uint64_t statements;
    char left_out[400]; /* the first text that a side left out, and why */
} command;

#define SIDE_ROW(name, way, shards) {name, way, shards},
#define SIDE_WORD(name, way, shards) name "|"
#define SIDE_IN_TEXT(name, way, shards) name ", "
static const struct known_side {
    const char *name;
    run_way way;
    uint32_t shards;
} known_sides[] = {RUN_SIDES(SIDE_ROW)};
enum { KNOWN_SIDES = sizeof known_sides / sizeof *known_sides };

static bool is_of_host(const struct known_side *k) { return strncmp(k->name, "host", 4) == 0; }

/* --device without a side of the device is the side `device`. */
static void choose_sides(command *c)
{
    bool has_device = false;
    if (c->sides >> KNOWN_SIDES != 0) /* all */
        c->sides = ~UINT64_C(0);
    for (int i = 0; i < KNOWN_SIDES; i++)
        has_device |= (c->sides >> i & 1) != 0 && !is_of_host(&known_sides[i]);
    if (c->device != NULL && !has_device)
        c->sides |= 1;
}

static void open_sides(command *c)
{
    c->count = 1;
    choose_sides(c);
    c->side[0] = (run_side){.name = "host", .on_host = true, .options = c->options};
    for (int i = 0; i < KNOWN_SIDES; i++) {
        const struct known_side *const k = &known_sides[i];
        if ((c->sides >> i & 1) == 0)
            continue;
        run_side *const side = &c->side[c->count++];
        *side = (run_side){.name = k->name,
                           .way = k->way,
                           .most_shards = k->shards,
                           .on_host = is_of_host(k),
                           .compiles_all = c->compiles_all,
                           .options = c->options};
        if (strcmp(k->name, "host-threads") == 0)
            side->options.host_threads = 3;
    }
    const run_side *opened = NULL; /* a device's side: its programs are compiled once */
    cls_device_info info;
    cls_device_info_init(&info);
    info.shortlist = c->options.shortlist;
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->side[i].on_host)
            continue;
        run_open(&c->side[i], c->device, opened);
        if (opened == NULL && cls_context_info(c->side[i].target.context, &info) != CLS_OK)
            cli_die("%s", cls_error_message());
        opened = opened != NULL ? opened : &c->side[i];
    }
    /* A device with little memory has a short list, and the host serves what that one serves. */
    for (uint32_t i = 0; i < c->count; i++) {
        c->side[i].options.shortlist = info.shortlist;
        if (c->side[i].on_host)
            run_open(&c->side[i], c->device, opened);
    }
}

/* Prints a difference, and the script when it is as short as possible. */
static void print_difference(command *c, run_side *side, run_script *script, const char *name,
                             run_difference *d)
{
    run_side *const host = &c->side[0];
    run_text t = {NULL, 0};
    printf("%s: %s\n", name, d->text);
    if (c->shrinks)
        run_shrink(host, side, script, 3600, d);
    printf("%s\nThis differs in the statement behind >:\n\n", d->text);
    host->reference = NULL;
    run_script_on(host, script);
    run_add_script(host, script, d, &t);
    fputs(t.text, stdout);
}

/* Runs a script on all sides. Returns true, and prints why, if something differs. */
static bool run_everywhere(command *c, run_script *script, const char *name)
{
    run_side *const host = &c->side[0];
    run_difference d;
    host->reference = NULL;
    run_script_on(host, script);
    if (host->left_out != NULL)
        cli_die("%s: %s", name, host->left_out);
    if (run_is_faulty(host, &d)) {
        print_difference(c, NULL, script, name, &d);
        return true;
    }
    if (run_expects_other(host, script, &d)) {
        const run_statement *const first = script->statement;
        if (strcmp(first->verb, "version") == 0 && strcmp(run_value(first, ""), cls_version()) != 0)
            printf("the text was written by clsample %s; this is %s\n", run_value(first, ""),
                   cls_version());
        printf("%s: %s\n", name, d.text);
        return true;
    }
    c->statements += script->count;
    for (uint32_t i = 1; i < c->count; i++) {
        run_side *const side = &c->side[i];
        side->reference = host;
        run_script_on(side, script);
        if (side->left_out != NULL && *c->left_out == '\0')
            snprintf(c->left_out, sizeof c->left_out, "; %s left out %s: %s", side->name, name,
                     side->left_out);
        if (run_sides_differ(host, side, &d)) {
            print_difference(c, side, script, name, &d);
            return true;
        }
    }
    return false;
}

static bool has_random(const run_script *script)
{
    for (uint32_t i = 0; i < script->count; i++)
        if (strcmp(script->statement[i].verb, "random") == 0)
            return true;
    return false;
}

static int run_file(command *c, const char *path)
{
    const run_script script = run_read(path);
    if (script.count == 0)
        cli_die("%s: the text has no statements", path);
    if (strcmp(script.statement[0].verb, "version") == 0 &&
        strcmp(script.statement[script.count - 1].verb, "end") != 0)
        cli_die("%s: the text is cut short: its last line is not \"end\"", path);
    const uint32_t seeds = has_random(&script) ? c->seeds : 1;
    for (uint32_t i = 0; i < seeds; i++) {
        const void *const memory = cli_memory();
        char name[64] = "";
        if (seeds > 1 || c->first_seed != 0)
            snprintf(name, sizeof name, ", seed +%" PRIu32, c->first_seed + i);
        cli_progress("%s%s", path, name);
        run_script one = run_expand(&script, c->first_seed + i, c->calls);
        const size_t size = strlen(path) + strlen(name) + 1;
        char *const title = cli_alloc(size, 1);
        snprintf(title, size, "%s%s", path, name);
        if (run_everywhere(c, &one, title)) {
            cli_progress("%s", "");
            return DIFFERENT;
        }
        cli_memory_end(memory);
    }
    cli_progress("%s", "");
    return EQUAL;
}

int cls_cmd_run(int argc, char **argv)
{
    command *const c = cli_alloc(1, sizeof *c);
    cli_list files = {NULL, 0};
    int result = EQUAL;
    bool keeps = false;
    c->seeds = 1;
    c->calls = UINT32_MAX;
    cls_context_options_init(&c->options);
    const cli_option options[] = {
        {"FILE", CLI_FILES, &files, NULL, NULL},
        CLI_TITLE("Sides"),
        {"device", CLI_STRING, &c->device, "N",
         "also run on this device, whose number clsample devices prints"},
        {"sides", CLI_CHOICES, &c->sides, "LIST=" RUN_SIDES(SIDE_WORD) "all",
         "the sides to compare with the host: " RUN_SIDES(SIDE_IN_TEXT) "or all"},
        {"seeds", CLI_UINT, &c->seeds, "N",
         "run texts with random statements N times, with other seeds (default 1)"},
        {"first-seed", CLI_UINT, &c->first_seed, "N",
         "the number that is added to the seeds first (default 0)"},
        {"calls", CLI_UINT, &c->calls, "N",
         "the most calls of a random statement (default: its own)"},
        {"record", CLI_OUTPUT, &c->record, "FILE",
         "write the calls that are made as a text without random statements, whose arrays are "
         "files "
         "in its folder: those of the last side"},
        {"whole", CLI_FLAG, &keeps, NULL, "do not make a text shorter that differs"},
        {"all-features", CLI_FLAG, &c->compiles_all, NULL,
         "compile all features of samplers whose features the text does not name (default: those "
         "that its calls need)"},
        CLI_DEVICE_OPTIONS(&c->options),
        CLI_SHAPE_OPTIONS(&c->options),
        CLI_NO_OPTION};
    cli_parse(argc, argv, "run FILE... [--device N] [--sides LIST]",
              "Runs texts of calls on the host and on other sides, and compares all that the calls "
              "write. man clsample-run describes the text.",
              options);
    if (files.count == 0)
        cli_die("run needs the name of a file; clsample run --help says more");
    c->shrinks = !keeps && c->record == NULL;
    open_sides(c);
    if (c->record != NULL && c->side[c->count - 1].most_shards != 0)
        cli_die("--record: the calls of shards are not written");
    c->side[c->count - 1].records_to = c->record;
    for (uint32_t i = 0; i < files.count && result == EQUAL; i++)
        result = run_file(c, files.text[i]);
    if (result == EQUAL)
        printf("%" PRIu64 " statements on %" PRIu32 " side%s: all equal%s\n", c->statements,
               c->count, c->count == 1 ? "" : "s", c->left_out);
    while (c->count > 0)
        run_close(&c->side[--c->count]);
    return result;
}
