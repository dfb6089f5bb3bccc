/* SPDX-License-Identifier: MIT */
/* Sampling parameters: checks that name the option at fault, and parameters per row, which are
 * read from files. cli/lists.c has the parameters that are lists. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "params.h"

/* Copies the field of `from` that the option sets into `to`. */
static void copy_field(const cli_option *option, const cls_params *from, cls_params *to)
{
    const size_t at = (size_t)((const char *)option->value - (const char *)from);
    const size_t size = option->type == CLI_UINT64 ? sizeof(uint64_t) : sizeof(uint32_t);
    memcpy((char *)to + at, (const char *)from + at, size);
}

void cli_params_alone(cls_params *params)
{
    static const int32_t any_id = 0;
    cls_params_init(params);
    params->thinking_forced.ids = &any_id;
    params->thinking_forced.count = 1;
    params->loop_max = CLS_MAX_LOOP;
}

/* Whether the library accepts the parameter alone. If it does not, this parameter is at fault. */
static bool valid_alone(const cli_option *option, const cls_params *params, uint32_t vocab)
{
    cls_params alone;
    cli_params_alone(&alone);
    copy_field(option, params, &alone);
    return cls_params_check(&alone, vocab) == CLS_OK;
}

int cli_params_check(const cli_option *options, const cls_params *params, uint32_t vocab)
{
    for (; options->name != NULL; options++) {
        const char *value = options->value;
        if (options->given && value >= (const char *)params && value < (const char *)(params + 1) &&
            !valid_alone(options, params, vocab))
            return cli_fail("--%s: %s", options->name, cls_error_message());
    }
    return cls_params_check(params, vocab) == CLS_OK ? 0 : cli_fail_library("parameters");
}

/* ---------------------------------------------------------------------- lists */

void cli_params_free(cls_params *base, cls_params *params, uint32_t rows)
{
#define FREE_LIST(p, kind, list, kept, option, meta, key, help) \
    for (uint32_t r = 0; r < rows && params != NULL; r++) \
        if (params[r].list.CLS_ARRAY_##kind != base->list.CLS_ARRAY_##kind) \
            free((void *)(uintptr_t)params[r].list.CLS_ARRAY_##kind); \
    free((void *)(uintptr_t)base->list.CLS_ARRAY_##kind);
    CLS_LISTS(FREE_LIST, )
#undef FREE_LIST
    free(params);
}

/* ---------------------------------------------------------------------- JSON */

/* The option for a key; two keys of other servers have a different name here. */
static const char *option_for_key(const char *key)
{
    static const char *const others[][2] = {
        {"samplers", "chain"},
        {"repeat_penalty", "repetition_penalty"},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(key, others[i][0]) == 0)
            return others[i][1];
    return key;
}

/* Whether a key is an option's name with underscores for hyphens: "top_k" is --top-k. */
static bool same_name(const char *key, const char *option)
{
    for (; *key != '\0' && *option != '\0'; key++, option++)
        if (*key != (*option == '-' ? '_' : *option))
            return false;
    return *key == *option;
}

/* The names of the fields in the order of the options. A field's name is a valid key, too. */
#define FIELD_NAME(p, id, type, field, stage, initial, least, most, range, option, meta, help) \
#field,
static const char *const field_names[] = {CLS_PARAMS(FIELD_NAME, )};

int cli_set_from_json(const cli_option *option, const char *what, json_t *value)
{
    char number[32];
    const bool text = option->type == CLI_CHOICE || option->type == CLI_UINT64;
    if (option->type == CLI_SWITCH && !json_is_boolean(value))
        return cli_fail("%s: the value is neither true nor false", what);
    if (option->type == CLI_SWITCH) {
        *(int32_t *)option->value = json_is_true(value);
        return 0;
    }
    if (option->type == CLI_FLOAT && json_is_number(value)) {
        snprintf(number, sizeof number, "%.17g", json_number_value(value));
        return cli_set(option, what, number);
    }
    if (text && json_is_string(value))
        return cli_set(option, what, json_string_value(value));
    if (option->type == CLI_FLOAT)
        return cli_fail("%s: the value is not a number", what);
    if (option->type == CLI_CHOICE)
        return cli_fail("%s: the value is not a string", what);
    if (!json_is_integer(value))
        return cli_fail("%s: the value is not an integer", what);
    snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    return cli_set(option, what, number);
}

int cli_params_from_json(const char *where, json_t *object, uint32_t vocab, cls_params *params,
                         cli_ids *force)
{
    const cli_option fields[] = {CLI_PARAM_OPTIONS(params) CLI_NO_OPTION};
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return cli_fail("%s is not an object", where);
    json_object_foreach(object, key, value)
    {
        const char *const name = option_for_key(key);
        const cli_option *field = fields;
        int failed;
        char what[PATH_MAX + 160];
        while (field->name != NULL && !same_name(name, field->name) &&
               strcmp(name, field_names[field - fields]) != 0)
            field++;
        snprintf(what, sizeof what, "%s: \"%.64s\"", where, key);
        if (strcmp(key, "force") == 0) {
            if (cli_ids_from_json(what, value, &force->ids, &force->count) != 0 ||
                cli_ids_check(what, force->ids, force->count, vocab) != 0)
                return 1;
            continue;
        }
        if (field->name == NULL) {
            if ((failed = cli_list_from_json(name, what, value, vocab, params)) < 0)
                return cli_fail("%s is not a known key", what);
            if (failed != 0)
                return 1;
            continue;
        }
        if (cli_set_from_json(field, what, value) != 0)
            return 1;
        if (!valid_alone(field, params, vocab))
            return cli_fail("%s: %s", what, cls_error_message());
    }
    /* Parameters that are valid alone can contradict each other: for example, a stage is turned on
     * that the chain does not contain. */
    if (cls_params_check(params, vocab) != CLS_OK)
        return cli_fail("%s: %s", where, cls_error_message());
    return 0;
}

static int rows_from_json(const char *path, const cli_rows *rows, uint32_t vocab,
                          cls_params *params, cli_ids *force)
{
    json_error_t error;
    errno = 0;
    json_t *const array = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    int failed = 0;
    if (array == NULL && error.line < 1)
        return cli_fail("%s: cannot be opened: %s", path,
                        errno != 0 ? strerror(errno) : error.text);
    if (array == NULL)
        return cli_fail("%s: line %d: %s", path, error.line, error.text);
    if (!json_is_array(array))
        failed = cli_fail("%s: the file is not an array with one object for each row", path);
    else if (json_array_size(array) != rows->all)
        failed = cli_fail("%s: the file has %zu rows of parameters for %" PRIu32 " %s", path,
                          json_array_size(array), rows->all, rows->of);
    for (uint32_t i = 0; i < rows->count && !failed; i++) {
        const uint32_t r = cli_row_number(rows->picked, i);
        char where[PATH_MAX + 32];
        snprintf(where, sizeof where, "%s: row %" PRIu32, path, r);
        failed =
            cli_params_from_json(where, json_array_get(array, r), vocab, &params[i], &force[i]);
    }
    json_decref(array);
    return failed;
}

/* --------------------------------------------------------------------- seeds */

static int seeds_from_npy(const char *path, const cli_rows *rows, cls_params *params)
{
    cli_npy seeds;
    int failed = 0;
    if (cli_npy_open(path, &seeds) != 0)
        return 1;
    if (seeds.kind == 'f' || seeds.size != 8 || seeds.dims != 1)
        failed = cli_npy_refuse(&seeds, path, "uint64 [rows]");
    else if (seeds.shape[0] != rows->all)
        failed = cli_fail("%s: the file has %" PRIu64 " seeds for %" PRIu32 " %s", path,
                          seeds.shape[0], rows->all, rows->of);
    if (failed)
        cli_npy_close(&seeds);
    if (failed || cli_npy_rows(&seeds, rows->picked) != 0)
        return 1;
    for (uint32_t i = 0; i < rows->count; i++)
        params[i].seed = ((const uint64_t *)seeds.data)[i];
    free(seeds.data);
    return 0;
}

int cli_params_rows(const cls_params *base, const char *params_path, const char *seeds_path,
                    const cli_rows *rows, uint32_t vocab, cls_params *params, cli_ids *force)
{
    for (uint32_t i = 0; i < rows->count; i++) {
        params[i] = *base;
        params[i].seed = base->seed + cli_row_number(rows->picked, i);
    }
    if (seeds_path != NULL && seeds_from_npy(seeds_path, rows, params) != 0)
        return 1;
    return params_path != NULL ? rows_from_json(params_path, rows, vocab, params, force) : 0;
}
