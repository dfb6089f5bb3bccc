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

json_t *cli_ids_json(const int32_t *ids, size_t count)
{
    json_t *const array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, json_integer(ids[i]));
    return array;
}
