/* SPDX-License-Identifier: MIT */
/* Parses the command line by a table of options, and selections of rows. */
#if !defined(_FILE_OFFSET_BITS)
/* stat() fails for large files on 32-bit systems without it. */
#define _FILE_OFFSET_BITS 64
#endif
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cli.h"

/* ---------------------------------------------------------------- did you mean */

/* How many letters are wrong, missing, in excess or exchanged; at most MOST_LETTERS of each name
 * are compared. */
#define MOST_LETTERS 32
static unsigned distance(const char *a, size_t n, const char *b, size_t m)
{
    unsigned d[MOST_LETTERS + 1][MOST_LETTERS + 1];
    for (size_t i = 0; i <= n; i++)
        for (size_t k = 0; k <= m; k++) {
            if (i == 0 || k == 0) {
                d[i][k] = (unsigned)(i + k);
                continue;
            }
            const unsigned changed = d[i - 1][k - 1] + (a[i - 1] != b[k - 1]);
            const unsigned moved = d[i - 1][k] < d[i][k - 1] ? d[i - 1][k] + 1 : d[i][k - 1] + 1;
            d[i][k] = changed < moved ? changed : moved;
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] &&
                d[i - 2][k - 2] + 1 < d[i][k])
                d[i][k] = d[i - 2][k - 2] + 1;
        }
    return d[n][m];
}

void cli_near_try(cli_near *near, const char *name)
{
    const size_t n = near->length, m = strcspn(name, "|"), shorter = n < m ? n : m;
    if (n > MOST_LETTERS || m > MOST_LETTERS)
        return;
    const bool begins = n > 2 && strncmp(near->word, name, n) == 0;
    const unsigned d = begins ? 1 : distance(near->word, n, name, m);
    if (5 * d <= 2 * shorter && (near->name == NULL || d < near->distance)) {
        near->name = name;
        near->distance = d;
    }
}

const char *cli_near_text(cli_near *near, const char *before)
{
    if (near->name == NULL)
        return "";
    snprintf(near->text, sizeof near->text, "; did you mean %s%.*s?", before,
             (int)strcspn(near->name, "|"), near->name);
    return near->text;
}

/* ----------------------------------------------------------------------- values */

/* Whether a number, which ends at `end`, fills the whole text. */
static bool whole(const char *text, const char *end)
{
    return end != text && *end == '\0' && strchr(" \t\n\v\f\r", *text) == NULL && errno != ERANGE;
}

static void set_int(int32_t *value, const char *what, const char *text)
{
    char *end;
    errno = 0;
    const long long x = strtoll(text, &end, 10);
    if (!whole(text, end) || x < INT32_MIN || x > INT32_MAX)
        cli_die("%s: '%s' is not an integer that fits 32 bits", what, text);
    *value = (int32_t)x;
}

static void set_uint(uint64_t *value, uint64_t most, const char *what, const char *text)
{
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    /* strtoull() converts -1 to the largest number. */
    if (!whole(text, end) || *text == '-' || *value > most)
        cli_die("%s: '%s' is not an integer from 0 to %" PRIu64, what, text, most);
}

static void set_float(float *value, const char *what, const char *text)
{
    char *end;
    errno = 0;
    const double x = strtod(text, &end);
    if (errno == ERANGE && fabs(x) <= 1.0)
        errno = 0; /* too small for a double: the result is 0 or nearly 0 */
    if (!whole(text, end))
        cli_die("%s: '%s' is not a number", what, text);
    /* The conversion would make it infinite, and -inf is a special value. */
    if (isfinite(x) && isinf((float)x))
        cli_die("%s: '%s' is too large for float32", what, text);
    *value = (float)x;
}

static void set_choice(int32_t *value, const char *meta, const char *what, const char *text)
{
    const char *const words = strchr(meta, '=') != NULL ? strchr(meta, '=') + 1 : meta;
    cli_near near = {.word = text, .length = strlen(text)};
    const char *word = words;
    for (int32_t i = 0;; i++) {
        const size_t n = strcspn(word, "|");
        if (n == near.length && strncmp(word, text, n) == 0) {
            *value = i;
            return;
        }
        cli_near_try(&near, word);
        if (word[n] == '\0')
            cli_die("%s: '%s' is not one of %s%s", what, text, words, cli_near_text(&near, ""));
        word += n + 1;
    }
}

static void set_choices(uint64_t *bits, const char *meta, const char *what, const char *text)
{
    *bits = 0;
    for (;; text++) {
        const size_t length = strcspn(text, ",");
        char word[64];
        int32_t i;
        snprintf(word, sizeof word, "%.*s", length < sizeof word ? (int)length : 63, text);
        set_choice(&i, meta, what, word);
        *bits |= UINT64_C(1) << i % 64;
        text += length;
        if (*text == '\0')
            return;
    }
}

void cli_set(cli_type type, void *value, const char *meta, const char *what, const char *text)
{
    uint64_t x;
    cli_list *list;
    switch (type) {
    case CLI_SECTION:
        break;
    case CLI_FLAG:
        *(bool *)value = true;
        break;
    case CLI_SWITCH:
        *(int32_t *)value = 1;
        break;
    case CLI_STRING:
    case CLI_INPUT:
    case CLI_OUTPUT:
        *(const char **)value = text;
        break;
    case CLI_INT:
        set_int(value, what, text);
        break;
    case CLI_UINT:
        set_uint(&x, UINT32_MAX, what, text);
        *(uint32_t *)value = (uint32_t)x;
        break;
    case CLI_UINT64:
        set_uint(value, UINT64_MAX, what, text);
        break;
    case CLI_FLOAT:
        set_float(value, what, text);
        break;
    case CLI_CHOICE:
        set_choice(value, meta, what, text);
        break;
    case CLI_CHOICES:
        set_choices(value, meta, what, text);
        break;
    case CLI_LIST:
    case CLI_FILES:
        list = value;
        list->text = cli_grow(list->text, list->count + (size_t)1, sizeof *list->text);
        list->text[list->count++] = text;
    }
}

/* ------------------------------------------------------------------------ files */

cli_file_kind cli_kind_of(const char *path)
{
    struct stat file;
    return stat(path, &file) != 0 ? CLI_NO_FILE : S_ISREG(file.st_mode) ? CLI_REGULAR : CLI_OTHER;
}

static bool is_same_inode(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The part of a path after the folder, whose inode it sets. */
static const char *name_in(const char *path, struct stat *folder)
{
    const char *const slash = strrchr(path, '/'), *const name = slash == NULL ? path : slash + 1;
    char text[4096];
    snprintf(text, sizeof text, "%.*s.", (int)(name - path), path);
    return stat(text, folder) == 0 ? name : NULL;
}

/* Whether two paths are those of one file, which need not exist yet. Devices and pipes, which
 * nothing overwrites, may be named twice. */
static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    const bool has_a = stat(a, &x) == 0, has_b = stat(b, &y) == 0;
    if (has_a || has_b)
        return has_a && has_b && S_ISREG(x.st_mode) && is_same_inode(&x, &y);
    const char *const name_a = name_in(a, &x), *const name_b = name_in(b, &y);
    return name_a != NULL && name_b != NULL && is_same_inode(&x, &y) && strcmp(name_a, name_b) == 0;
}

static const char *file_of(const cli_option *option)
{
    const bool names = option->type == CLI_INPUT || option->type == CLI_OUTPUT;
    return names ? *(const char **)option->value : NULL;
}

/* Fails if an output is the file of another option. */
static void check_outputs(const cli_option *options)
{
    for (const cli_option *out = options; out->name != NULL; out++)
        for (const cli_option *other = options; other->name != NULL; other++) {
            const char *const path = file_of(out), *const also = file_of(other);
            if (out->type == CLI_OUTPUT && other != out && path != NULL && also != NULL &&
                is_same_file(path, also))
                cli_die("--%s: %s is also the file of --%s; name another one", out->name, path,
                        other->name);
        }
}

/* ------------------------------------------------------------------------- help */

#define COLUMNS 80
#define HELP_AT 28 /* the column of an option's help */

void cli_print_words(const char *text, size_t at, size_t left)
{
    for (bool first = true; *text != '\0'; first = false) {
        const size_t length = strcspn(text, " ");
        if (!first && at + 1 + length > COLUMNS) {
            printf("\n%*s", (int)left, "");
            at = left;
        } else if (!first) {
            putchar(' ');
            at++;
        }
        printf("%.*s", (int)length, text);
        at += length;
        text += length + (text[length] == ' ');
    }
    putchar('\n');
}

static void print_option(const cli_option *option)
{
    const char *const meta = option->meta == NULL ? "" : option->meta;
    char text[512];
    size_t at = (size_t)printf("  --%s %.*s", option->name, (int)strcspn(meta, "="), meta);
    if (at >= HELP_AT) {
        putchar('\n');
        at = 0;
    }
    at += (size_t)printf("%*s", (int)(HELP_AT - at), "");
    snprintf(text, sizeof text, "%s%s", option->help,
             option->type == CLI_LIST ? "; may be repeated" : "");
    cli_print_words(text, at, HELP_AT);
}

void cli_help(const char *usage, const char *about, const cli_option *options, bool params)
{
    bool elsewhere = false, shown = false;
    char line[256];
    snprintf(line, sizeof line, "usage: clsample %s", usage);
    cli_print_words(line, 0, 4);
    putchar('\n');
    cli_print_words(about, 0, 0);
    for (; options->name != NULL; options++)
        if (options->type == CLI_SECTION) {
            elsewhere |= options->meta != NULL;
            shown = params == (options->meta != NULL);
            if (shown)
                printf("\n%s:\n", options->name);
        } else if (shown && options->help != NULL) {
            print_option(options);
        }
    if (elsewhere && !params)
        puts("\nclsample help params lists the sampling parameters, such as --temperature T.");
}

/* ----------------------------------------------------------------- the command line */

static bool takes_value(const cli_option *option)
{
    return option->type != CLI_FLAG && option->type != CLI_SWITCH;
}

static bool is_option(const cli_option *row)
{
    return row->type != CLI_SECTION && row->type != CLI_FILES;
}

static const cli_option *find(const cli_option *options, const char *name, size_t length)
{
    for (; options->name != NULL; options++)
        if (is_option(options) && strlen(options->name) == length &&
            strncmp(options->name, name, length) == 0)
            return options;
    return NULL;
}

_Noreturn static void refuse(const char *command, const cli_option *options, const char *name,
                             size_t length)
{
    cli_near near = {.word = name, .length = length};
    for (; options->name != NULL; options++)
        if (is_option(options))
            cli_near_try(&near, options->name);
    cli_die("%s: unknown option '--%.*s'%s", command, (int)length, name,
            near.name != NULL ? cli_near_text(&near, "--") : "; --help lists the options");
}

/* The names of the options that are present. A command parses its options once. */
static const char *given[128];
static size_t given_count;

bool cli_given(const char *name)
{
    for (size_t i = 0; i < given_count; i++)
        if (strcmp(given[i], name) == 0)
            return true;
    return false;
}

/* Takes an argument without a dash where the command has files. */
static bool take_file(const char *text, const cli_option *options)
{
    while (options->name != NULL && options->type != CLI_FILES)
        options++;
    if (options->name == NULL || *text == '-')
        return false;
    cli_set(CLI_FILES, options->value, NULL, options->name, text);
    return true;
}

/* Parses the option at argv[*i], and its value, which may be the next argument. */
static void parse_one(int argc, char **argv, int *i, const cli_option *options)
{
    if (take_file(argv[*i], options))
        return;
    if (strncmp(argv[*i], "--", 2) != 0)
        cli_die("%s: unexpected argument '%s'; options begin with --", argv[0], argv[*i]);
    const char *const name = argv[*i] + 2;
    const size_t length = strcspn(name, "=");
    const char *text = NULL;
    char what[64];
    const cli_option *const option = find(options, name, length);
    if (option == NULL)
        refuse(argv[0], options, name, length);
    snprintf(what, sizeof what, "--%s", option->name);
    if (name[length] == '=')
        text = name + length + 1;
    else if (takes_value(option) && *i + 1 < argc)
        text = argv[++*i];
    if ((text == NULL) == takes_value(option))
        cli_die(text == NULL ? "%s: a value is missing" : "%s: this option takes no value", what);
    if (!cli_given(option->name) && given_count < sizeof given / sizeof *given)
        given[given_count++] = option->name;
    cli_set(option->type, option->value, option->meta, what, text);
}

void cli_parse(int argc, char **argv, const char *usage, const char *about,
               const cli_option *options)
{
    given_count = 0;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            cli_help(usage, about, options, false);
            cli_flush_output();
            exit(0);
        }
    for (int i = 1; i < argc; i++)
        parse_one(argc, argv, &i, options);
    check_outputs(options);
}

/* ------------------------------------------------------------------------ rows */

/* Adds the rows of FIRST or FIRST-LAST. */
static void add_range(const char *text, size_t length, uint32_t most, cli_picked *picked)
{
    uint32_t first = 0, last = 0;
    char range[32], *dash;
    snprintf(range, sizeof range, "%.*s", length > 30 ? 30 : (int)length, text);
    if ((dash = *range == '-' ? NULL : strchr(range, '-')) != NULL)
        *dash = '\0';
    cli_set(CLI_UINT, &first, NULL, picked->option, range);
    cli_set(CLI_UINT, &last, NULL, picked->option, dash != NULL ? dash + 1 : range);
    if (last < first)
        cli_die("%s: %" PRIu32 "-%" PRIu32 " is not a range: it ends before it begins",
                picked->option, first, last);
    const uint64_t count = (uint64_t)picked->count + last - first + 1;
    if (count > most)
        cli_die("%s: more than %" PRIu32 " rows are selected", picked->option, most);
    picked->row = cli_grow(picked->row, (size_t)count, sizeof *picked->row);
    for (uint32_t r = first; picked->count < count; r++)
        picked->row[picked->count++] = r;
}

void cli_picked_parse(const cli_list *lists, uint32_t most, cli_picked *picked)
{
    *picked = (cli_picked){.option = cli_given("row") ? "--row" : "--rows"};
    for (uint32_t i = 0; i < lists->count; i++)
        for (const char *text = lists->text[i];; text++) {
            const size_t length = strcspn(text, ",");
            add_range(text, length, most, picked);
            text += length;
            if (*text == '\0')
                break;
        }
}

uint32_t cli_row_number(const cli_picked *picked, uint32_t i)
{
    return picked == NULL || picked->row == NULL ? i : picked->row[i];
}
