/* SPDX-License-Identifier: MIT */
/* Files and values of JSON, and values of options as JSON has them. */
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/params.h"

json_t *cli_json_read(const char *path)
{
    json_error_t error;
    errno = 0;
    json_t *const value = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (value == NULL && error.line < 1)
        cli_die("%s: cannot be opened: %s", path, errno != 0 ? strerror(errno) : error.text);
    if (value == NULL)
        cli_die("%s: line %d: %s", path, error.line, error.text);
    return value;
}

void cli_set_from_json(cli_type type, void *to, const char *meta, const char *what, json_t *value)
{
    const bool text = type == CLI_CHOICE || type == CLI_UINT64;
    char number[32];
    if (type == CLI_SWITCH && !json_is_boolean(value))
        cli_die("%s: the value is neither true nor false", what);
    if (type == CLI_SWITCH) {
        *(int32_t *)to = json_is_true(value);
        return;
    }
    if (text && json_is_string(value)) {
        cli_set(type, to, meta, what, json_string_value(value));
        return;
    }
    if (type == CLI_CHOICE)
        cli_die("%s: the value is not a string", what);
    if (type == CLI_FLOAT ? !json_is_number(value) : !json_is_integer(value))
        cli_die("%s: the value is not %s", what, type == CLI_FLOAT ? "a number" : "an integer");
    if (type == CLI_FLOAT)
        snprintf(number, sizeof number, "%.17g", json_number_value(value));
    else
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    cli_set(type, to, meta, what, number);
}

/* The number with the fewest digits that is read as x. JSON has no infinity; the parameters that
 * may be minus infinity treat the least finite number in the same way. The text of the largest
 * float must not exceed it. */
static json_t *real(float x)
{
    char text[32];
    if (fabsf(x) >= FLT_MAX)
        return json_real(x < 0 ? -3.4028234e38 : 3.4028234e38);
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)x);
        if ((float)strtod(text, NULL) == x)
            break;
    }
    return json_real(strtod(text, NULL));
}

/* A string if JSON's integers do not hold it. */
static json_t *uint64_json(uint64_t x)
{
    char text[24];
    if (x <= INT64_MAX)
        return json_integer((json_int_t)x);
    snprintf(text, sizeof text, "%" PRIu64, x);
    return json_string(text);
}

json_t *cli_to_json(cli_type type, const void *at, const char *words)
{
    switch (type) {
    case CLI_FLOAT:
        return real(*(const float *)at);
    case CLI_UINT:
        return json_integer(*(const uint32_t *)at);
    case CLI_UINT64:
        return uint64_json(*(const uint64_t *)at);
    case CLI_SWITCH:
        return json_boolean(*(const int32_t *)at != 0);
    case CLI_CHOICE:
        for (int32_t i = *(const int32_t *)at; i > 0; i--)
            words += strcspn(words, "|") + 1;
        return json_stringn(words, strcspn(words, "|"));
    default:
        return json_integer(*(const int32_t *)at);
    }
}

json_t *cli_ids_json(const int32_t *ids, size_t count)
{
    json_t *const array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, json_integer(ids[i]));
    return array;
}
