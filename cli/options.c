/* SPDX-License-Identifier: MIT */
/* Parses the command line by a table of options, and selections of rows. */
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* Whether a number, which ends at `end`, fills the whole text. */
static bool whole(const char *text, const char *end)
{
    return end != text && *end == '\0' && strchr(" \t\n\v\f\r", *text) == NULL && errno != ERANGE;
}

static int set_integer(const cli_option *option, const char *what, const char *text)
{
    char *end;
    if (option->type == CLI_INT) {
        long long x;
        errno = 0;
        x = strtoll(text, &end, 10);
        if (!whole(text, end) || x < INT32_MIN || x > INT32_MAX)
            return cli_fail("%s: '%s' is not an integer that fits 32 bits", what, text);
        *(int32_t *)option->value = (int32_t)x;
    } else {
        const uint64_t most = option->type == CLI_UINT ? UINT32_MAX : UINT64_MAX;
        unsigned long long x;
        errno = 0;
        x = strtoull(text, &end, 10);
        /* strtoull() converts -1 to the largest number. */
        if (!whole(text, end) || *text == '-' || x > most)
            return cli_fail("%s: '%s' is not an integer from 0 to %" PRIu64, what, text, most);
        if (option->type == CLI_UINT)
            *(uint32_t *)option->value = (uint32_t)x;
        else
            *(uint64_t *)option->value = x;
    }
    return 0;
}

static int set_float(const cli_option *option, const char *what, const char *text)
{
    char *end;
    double x;
    errno = 0;
    x = strtod(text, &end);
    if (errno == ERANGE && fabs(x) <= 1.0)
        errno = 0; /* too small for a double: the result is 0 or nearly 0 */
    if (!whole(text, end))
        return cli_fail("%s: '%s' is not a number", what, text);
    /* The conversion would make it infinite, and -inf is a special value. */
    if (isfinite(x) && fabs(x) > (double)FLT_MAX)
        return cli_fail("%s: '%s' is too large for float32", what, text);
    *(float *)option->value = (float)x;
    return 0;
}

static int set_choice(const cli_option *option, const char *what, const char *text)
{
    const size_t length = strlen(text);
    const char *word = option->choices;
    for (int32_t i = 0;; i++) {
        const size_t n = strcspn(word, "|");
        if (n == length && strncmp(word, text, n) == 0) {
            *(int32_t *)option->value = i;
            return 0;
        }
        if (word[n] == '\0')
            return cli_fail("%s: '%s' is not one of %s", what, text, option->choices);
        word += n + 1;
    }
}

static int add_text(cli_list *list, const char *text)
{
    const char **grown = realloc(list->text, (list->count + (size_t)1) * sizeof *grown);
    if (grown == NULL)
        return cli_no_memory();
    list->text = grown;
    list->text[list->count++] = text;
    return 0;
}

int cli_set(const cli_option *option, const char *what, const char *text)
{
    switch (option->type) {
    case CLI_FLAG:
        *(bool *)option->value = true;
        return 0;
    case CLI_SWITCH:
        *(int32_t *)option->value = 1;
        return 0;
    case CLI_STRING:
    case CLI_INPUT:
    case CLI_OUTPUT:
        *(const char **)option->value = text;
        return 0;
    case CLI_FLOAT:
        return set_float(option, what, text);
    case CLI_CHOICE:
        return set_choice(option, what, text);
    case CLI_LIST:
        return add_text(option->value, text);
    case CLI_INT:
    case CLI_UINT:
    case CLI_UINT64:
        break;
    }
    return set_integer(option, what, text);
}

static cli_parsed help(const char *usage, const char *about, const cli_option *options)
{
    printf("usage: clsample %s\n\n%s\n\n", usage, about);
    for (; options->name != NULL; options++) {
        char left[64];
        snprintf(left, sizeof left, "--%s %s", options->name,
                 options->meta == NULL ? "" : options->meta);
        printf("  %-28s %s%s\n", left, options->help,
               options->type == CLI_LIST ? "; may be repeated" : "");
    }
    printf("  %-28s %s\n", "--help", "print this text");
    return cli_flush_output() == 0 ? CLI_HELPED : CLI_FAILED;
}

static bool takes_value(const cli_option *option)
{
    return option->type != CLI_FLAG && option->type != CLI_SWITCH;
}

static cli_option *find(cli_option *options, const char *name, size_t length)
{
    for (; options->name != NULL; options++)
        if (strlen(options->name) == length && strncmp(options->name, name, length) == 0)
            return options;
    return NULL;
}

cli_parsed cli_parse(int argc, char **argv, const char *usage, const char *about,
                     cli_option *options)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return help(usage, about, options);
    for (int i = 1; i < argc; i++) {
        const char *text = NULL;
        char what[64];
        cli_option *option;
        size_t length;
        if (strncmp(argv[i], "--", 2) != 0) {
            cli_fail("%s: unexpected argument '%s'; options begin with --", argv[0], argv[i]);
            return CLI_FAILED;
        }
        length = strcspn(argv[i] + 2, "=");
        option = find(options, argv[i] + 2, length);
        if (option == NULL) {
            cli_fail("%s: unknown option '%.*s'; --help lists the options", argv[0],
                     (int)length + 2, argv[i]);
            return CLI_FAILED;
        }
        snprintf(what, sizeof what, "--%s", option->name);
        if (argv[i][length + 2] == '=')
            text = argv[i] + length + 3;
        else if (takes_value(option) && i + 1 < argc)
            text = argv[++i];
        if ((text == NULL) == takes_value(option)) {
            cli_fail(text == NULL ? "%s: a value is missing" : "%s: this option takes no value",
                     what);
            return CLI_FAILED;
        }
        if (cli_set(option, what, text) != 0)
            return CLI_FAILED;
        option->given = true;
    }
    return cli_outputs_check(options) != 0 ? CLI_FAILED : CLI_GO;
}

bool cli_given(const cli_option *options, const char *name)
{
    while (options->name != NULL && strcmp(options->name, name) != 0)
        options++;
    return options->given;
}

/* ------------------------------------------------------------------------ rows */

/* Appends a row, or a range of rows: "3" or "8-15". */
static int add_rows(cli_picked *picked, uint32_t first, uint32_t last, uint32_t most)
{
    const uint64_t count = (uint64_t)picked->count + last - first + 1;
    uint32_t *grown;
    if (count > most)
        return cli_fail("%s: more than %" PRIu32 " rows are selected", picked->option, most);
    if ((grown = realloc(picked->row, (size_t)count * sizeof *grown)) == NULL)
        return cli_no_memory();
    picked->row = grown;
    for (uint32_t r = first; picked->count < count; r++)
        picked->row[picked->count++] = r;
    return 0;
}

int cli_picked_parse(const char *text, uint32_t most, cli_picked *picked)
{
    uint32_t first = 0, last = 0;
    const cli_option ends[2] = {{NULL, CLI_UINT, &first, NULL, NULL, NULL, 0},
                                {NULL, CLI_UINT, &last, NULL, NULL, NULL, 0}};
    for (;; text++) {
        const size_t length = strcspn(text, ",");
        char range[32], *dash;
        snprintf(range, sizeof range, "%.*s", length > 30 ? 30 : (int)length, text);
        if ((dash = *range == '-' ? NULL : strchr(range, '-')) != NULL)
            *dash = '\0';
        if (cli_set(&ends[0], picked->option, range) != 0 ||
            cli_set(&ends[1], picked->option, dash != NULL ? dash + 1 : range) != 0)
            return 1;
        if (last < first)
            return cli_fail("%s: %" PRIu32 "-%" PRIu32 " is not a range: it ends before it begins",
                            picked->option, first, last);
        if (add_rows(picked, first, last, most) != 0)
            return 1;
        text += length;
        if (*text == '\0')
            return 0;
    }
}

uint32_t cli_row_number(const cli_picked *picked, uint32_t i)
{
    return picked == NULL || picked->row == NULL ? i : picked->row[i];
}
