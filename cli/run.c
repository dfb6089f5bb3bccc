/* SPDX-License-Identifier: MIT */
/* clsample run: runs texts of calls on the host and on devices, and compares all that is written.
 */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/run.h"

enum { EQUAL, DIFFERENT }; /* exit statuses, beside cli_failure */
enum { MOST_SIDES = 64 };

/* --------------------------------------------------------------------- expected */

static int32_t int_at(const run_record *r, size_t i)
{
    int32_t n = -1;
    if (r != NULL && (i + 1) * sizeof n <= r->size)
        memcpy(&n, r->bytes + i * sizeof n, sizeof n);
    return n;
}

void run_add_status(run_text *t, int32_t status)
{
    char words[CLI_STATUS_WORDS];
    if (status == 0)
        return;
    run_add(t, " ");
    for (const char *at = cli_status_words(status, "|", words); *at != '\0'; at++)
        run_add(t, "%c", *at == ' ' ? '_' : toupper((unsigned char)*at));
}

/* What a statement wrote, in the form in which texts expect it: "4 FORCED, -1 EMPTY". */
static char *written(const run_side *host, const run_statement *s, uint32_t statement)
{
    const run_record *const refusal = run_record_of(host, statement, "refusal"),
                            *const tokens = run_record_of(host, statement, "tokens"),
                            *const drafts = run_record_of(host, statement, "drafts"),
                            *const status = run_record_of(host, statement, "status");
    run_text t = {NULL, 0};
    run_add(&t, "%s", "");
    if (refusal != NULL) {
        run_add(&t, "refused %.*s", (int)refusal->size, (const char *)refusal->bytes);
        return t.text;
    }
    const bool verifies = strcmp(s->verb, "verify") == 0;
    const size_t rows = status != NULL ? status->size / 4 : 0,
                 width = verifies && rows != 0 ? tokens->size / 4 / rows : 1;
    for (size_t row = 0; row < rows; row++) {
        if (row > 0)
            run_add(&t, ", ");
        for (size_t i = 0; i < width; i++)
            if (!verifies || int_at(tokens, row * width + i) >= 0)
                run_add(&t, "%s%" PRId32, i > 0 ? " " : "", int_at(tokens, row * width + i));
        if (verifies && int_at(tokens, row * width) < 0)
            run_add(&t, "none");
        run_add_status(&t, int_at(status, row));
    }
    for (size_t i = 0; drafts != NULL && i < drafts->size / 4; i++)
        if (int_at(drafts, i) != 0x5a5a5a5a)
            run_add(&t, "%s%" PRId32, i > 0 ? " " : "", int_at(drafts, i));
    return t.text;
}

/* Whether two words are equal; names of a status may have any order. */
static bool same_word(const char *a, const char *b, size_t length)
{
    if (memchr(a, '|', length) == NULL)
        return strncmp(a, b, length) == 0;
    for (size_t i = 0, n; i < length; i += n + 1) {
        bool found = false;
        n = strcspn(a + i, "|, \t");
        for (size_t k = 0, m; k < length; k += m + 1) {
            m = strcspn(b + k, "|, \t");
            found |= m == n && strncmp(a + i, b + k, n) == 0;
        }
        if (!found)
            return false;
    }
    return true;
}

static bool same_words(const char *a, const char *b)
{
    for (;;) {
        a += strspn(a, " \t");
        b += strspn(b, " \t");
        const size_t n = strcspn(a, " \t"), m = strcspn(b, " \t");
        if (n != m || !same_word(a, b, n))
            return false;
        if (n == 0)
            return true;
        a += n;
        b += m;
    }
}

/* The part of an expectation that is of a row, and its token. */
static const char *part_of_row(const char *expect, uint32_t row, size_t *length)
{
    for (; row > 0 && *expect != '\0'; row--) {
        expect += strcspn(expect, ",");
        expect += *expect == ',';
    }
    expect += strspn(expect, " \t");
    *length = strcspn(expect, ",");
    return expect;
}

/* Says how a step's first row that differs does so, and why. */
static void explain_step(run_side *host, const run_script *script, uint32_t i, const char *is,
                         run_text *t)
{
    const run_statement *const s = &script->statement[i];
    for (uint32_t row = 0;; row++) {
        size_t n, m;
        const char *const want = part_of_row(s->expect, row, &n), *const have =
                                                                      part_of_row(is, row, &m);
        if (*want == '\0' && *have == '\0')
            return;
        if (n == m && same_word(want, have, n))
            continue;
        run_add(t, ", row %" PRIu32 " is %.*s, but %.*s is expected", row, (int)m, have, (int)n,
                want);
        const size_t before = t->length;
        run_add(t, "%s", "; ");
        run_first(host, script, i);
        run_why(host, s, row, (int32_t)strtol(want, NULL, 10), strstr(want, "FORCED") != NULL, t);
        run_end(host);
        if (t->length == before + 2)
            t->text[t->length = before] = '\0';
        return;
    }
}

/* Whether a number in a text is not the i-th element: one with a point is a float, near enough. */
static bool element_differs(const run_record *r, size_t i, const char *want)
{
    float x;
    memcpy(&x, r->bytes + 4 * i, sizeof x);
    if (want[strcspn(want, ".in \t,")] == '.') {
        const double y = strtod(want, NULL), apart = (double)x - y;
        return !(apart <= 1e-5 && apart >= -1e-5);
    }
    if (strncmp(want, "inf", 3) == 0 || strncmp(want, "-inf", 4) == 0)
        return x != (*want == '-' ? -INFINITY : INFINITY);
    return int_at(r, i) != (int32_t)strtol(want, NULL, 0);
}

/* Compares what a statement before wrote under a name with what is expected: the first elements of
 * the first rows. Describes the first that differs. */
static bool wrote_other(const run_side *host, const run_statement *s, uint32_t statement,
                        run_text *t)
{
    const char *const name = run_value(s, ""), *at = s->expect;
    const run_record *r = NULL;
    for (uint32_t i = statement; i-- > 0 && r == NULL;)
        r = run_record_of(host, i, name);
    run_add(t, "line %" PRIu32, s->line);
    if (r == NULL || at == NULL) {
        run_add(t, ": %s %s", at == NULL ? "nothing is expected of" : "no statement has written",
                name);
        return true;
    }
    for (size_t row = 0, i = 0; *(at += strspn(at, " \t")) != '\0'; at += strcspn(at, " \t,")) {
        char is[64];
        while (*at == ',') {
            row++;
            i = 0;
            at += 1 + strspn(at + 1, " \t");
        }
        const size_t place = row * r->width + i++;
        if (i > r->width || 4 * place + 4 > r->size) {
            run_add(t, ": %s has %zu elements in each of %zu rows", name, r->width,
                    r->size / 4 / r->width);
            return true;
        }
        if (!element_differs(r, place, at))
            continue;
        run_describe_element(r, place, is);
        run_add(t, ", row %zu, element %zu of %s is %s, but %.*s is expected", row, i - 1, name, is,
                (int)strcspn(at, " \t,"), at);
        return true;
    }
    return false;
}

/* Checks what the script expects. */
static bool expectations_fail(run_side *host, const run_script *script, run_difference *d)
{
    for (uint32_t i = 0; i < script->count; i++) {
        const run_statement *const s = &script->statement[i];
        run_text t = {NULL, 0};
        if (strcmp(s->verb, "wrote") == 0) {
            d->statement = i;
            if (!wrote_other(host, s, i, &t))
                continue;
            snprintf(d->text, sizeof d->text, "%s", t.text);
            return true;
        }
        const run_record *const changed = run_record_of(host, i, "changed");
        const char *const is = written(host, s, i);
        const bool is_refused = strncmp(is, "refused", 7) == 0;
        const run_record *const equal = run_record_of(host, i, "equal");
        d->statement = i;
        if (s->expect == NULL && (s->is_random || !is_refused) &&
            (equal == NULL || int_at(equal, 0) != 0))
            continue;
        if (s->expect == NULL) {
            snprintf(d->text, sizeof d->text, "line %" PRIu32 "%s%.300s", s->line,
                     equal != NULL ? ": the slots differ" : " is ", equal != NULL ? "" : is);
            return true;
        }
        const bool refused = strncmp(s->expect, "refused", 7) == 0;
        const char *const part = s->expect + 7 + strspn(s->expect + (refused ? 7 : 0), " ");
        if (changed == NULL &&
            (refused ? is_refused && strstr(is, part) != NULL : same_words(is, s->expect)))
            continue;
        run_add(&t, "line %" PRIu32, s->line);
        if (changed != NULL)
            run_add(&t,
                    ", row %" PRId32
                    ": the logits, the mask or the bias have changed since the text was written",
                    int_at(changed, 0));
        else if (strcmp(s->verb, "step") == 0 && !refused && !is_refused)
            explain_step(host, script, i, is, &t);
        else
            run_add(&t, ": it is %.150s, but %.150s is expected", *is != '\0' ? is : "nothing",
                    s->expect);
        snprintf(d->text, sizeof d->text, "%s", t.text);
        return true;
    }
    return false;
}

/* --------------------------------------------------------------------- command */

typedef struct command {
    const char *device;
    uint64_t sides; /* bits of known_sides */
    uint32_t seeds, first_seed, calls;
    bool shrinks, compiles_all;
    cls_context_options options;
    run_side side[MOST_SIDES]; /* the first is the host */
    uint32_t count;
    uint64_t statements;
    char left_out[400]; /* the first text that a side left out, and why */
} command;

/* The sides beside the host: SIDE(name, way, shards). `device` is the first. */
#define SIDES(SIDE) \
    SIDE("device", RUN_PLAIN, 0) \
    SIDE("each", RUN_EACH, 0) \
    SIDE("moved", RUN_MOVED, 0) \
    SIDE("out-of-order", RUN_OUT_OF_ORDER, 0) \
    SIDE("ahead", RUN_AHEAD, 0) \
    SIDE("svm", RUN_SVM, 0) \
    SIDE("alone", RUN_ALONE, 0) \
    SIDE("permuted", RUN_PERMUTED, 0) \
    SIDE("shards-2", RUN_SHARDS, 2) \
    SIDE("shards-3", RUN_SHARDS, 3) \
    SIDE("shards-5", RUN_SHARDS, 5) \
    SIDE("host-each", RUN_EACH, 0) \
    SIDE("host-moved", RUN_MOVED, 0) \
    SIDE("host-alone", RUN_ALONE, 0) \
    SIDE("host-permuted", RUN_PERMUTED, 0) \
    SIDE("host-threads", RUN_PLAIN, 0)
#define SIDE_ROW(name, way, shards) {name, way, shards},
#define SIDE_WORD(name, way, shards) name "|"
#define SIDE_IN_TEXT(name, way, shards) name ", "
static const struct known_side {
    const char *name;
    run_way way;
    uint32_t shards;
} known_sides[] = {SIDES(SIDE_ROW)};
enum { KNOWN_SIDES = sizeof known_sides / sizeof *known_sides };

static bool is_of_host(const struct known_side *k) { return strncmp(k->name, "host", 4) == 0; }

bool run_begins_side(const char *begin, size_t length)
{
    for (int i = 0; i < KNOWN_SIDES; i++)
        if (length != 0 && strncmp(known_sides[i].name, begin, length) == 0)
            return true;
    return false;
}

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
    if (expectations_fail(host, script, &d)) {
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
    const char *path[256];
    int paths = 0, left = 1, result = EQUAL;
    bool keeps = false;
    c->seeds = 1;
    c->calls = UINT32_MAX;
    cls_context_options_init(&c->options);
    const cli_option options[] = {
        CLI_TITLE("Sides"),
        {"device", CLI_STRING, &c->device, "N",
         "also run on this device, whose number clsample devices prints"},
        {"sides", CLI_CHOICES, &c->sides, "LIST=" SIDES(SIDE_WORD) "all",
         "the sides to compare with the host: " SIDES(SIDE_IN_TEXT) "or all"},
        {"seeds", CLI_UINT, &c->seeds, "N",
         "run texts with random statements N times, with other seeds (default 1)"},
        {"first-seed", CLI_UINT, &c->first_seed, "N",
         "the number that is added to the seeds first (default 0)"},
        {"calls", CLI_UINT, &c->calls, "N",
         "the most calls of a random statement (default: its own)"},
        {"whole", CLI_FLAG, &keeps, NULL, "do not make a text shorter that differs"},
        {"all-features", CLI_FLAG, &c->compiles_all, NULL,
         "compile all features of samplers whose features the text does not name (default: those "
         "that its calls need)"},
        CLI_DEVICE_OPTIONS(&c->options),
        CLI_SHAPE_OPTIONS(&c->options),
        CLI_NO_OPTION};
    (void)files;
    for (int i = 1; i < argc; i++) { /* files have no dashes, and are not the value of an option */
        if (argv[i][0] != '-' &&
            (i == 1 || argv[i - 1][0] != '-' || strchr(argv[i - 1], '=') ||
             strcmp(argv[i - 1], "--whole") == 0 || strcmp(argv[i - 1], "--all-features") == 0) &&
            paths < 256)
            path[paths++] = argv[i];
        else
            argv[left++] = argv[i];
    }
    cli_parse(left, argv, "run FILE... [--device N] [--sides LIST]",
              "Runs texts of calls on the host and on other sides, and compares all that the calls "
              "write. man clsample-run describes the text.",
              options);
    if (paths == 0)
        cli_die("run needs the name of a file; clsample run --help says more");
    c->shrinks = !keeps;
    open_sides(c);
    for (int i = 0; i < paths && result == EQUAL; i++)
        result = run_file(c, path[i]);
    if (result == EQUAL)
        printf("%" PRIu64 " statements on %" PRIu32 " side%s: all equal%s\n", c->statements,
               c->count, c->count == 1 ? "" : "s", c->left_out);
    while (c->count > 0)
        run_close(&c->side[--c->count]);
    return result;
}
