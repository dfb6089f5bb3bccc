/* SPDX-License-Identifier: MIT */
/* Sampling parameters: checked by the name under which they were given, and
 * read from files with one row each. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* Copies one parameter, a field of `from`, into `to`. */
static void copy_field(const cli_option *option, const cls_params *from, cls_params *to)
{
    const size_t at = (size_t)((const char *)option->value - (const char *)from);
    const size_t size = option->type == CLI_UINT64 ? sizeof(uint64_t) : sizeof(uint32_t);
    memcpy((char *)to + at, (const char *)from + at, size);
}

/* The parameter alone, among neutral ones: what is refused then is at fault. */
static bool alone_allowed(const cli_option *option, const cls_params *params, uint32_t vocab)
{
    cls_params alone;
    cls_params_default(&alone, sizeof alone);
    copy_field(option, params, &alone);
    return cls_params_check(&alone, vocab) == CLS_OK;
}

int cli_params_check(const cli_option *options, const cls_params *params, uint32_t vocab)
{
    for (; options->name != NULL; options++) {
        const char *value = options->value;
        if (options->given && value >= (const char *)params && value < (const char *)(params + 1) &&
            !alone_allowed(options, params, vocab))
            return cli_fail("--%s: %s", options->name, cls_error_message());
    }
    return cls_params_check(params, vocab) == CLS_OK ? 0 : cli_fail_library("parameters");
}

/* ---------------------------------------------------------------------- lists
 *
 * A list belongs to the params that it was parsed into, parsed or half parsed. */

static int32_t *new_stop_ids(uint32_t count, cls_params *params)
{
    int32_t *ids = count == 0 ? NULL : calloc(count, sizeof *ids);
    params->stop_ids = ids;
    params->stop_count = ids == NULL ? 0 : count;
    return ids;
}

static cls_logit_bias *new_logit_bias(uint32_t count, cls_params *params)
{
    cls_logit_bias *bias = count == 0 ? NULL : calloc(count, sizeof *bias);
    params->logit_bias = bias;
    params->logit_bias_count = bias == NULL ? 0 : count;
    return bias;
}

static int check_lists(const char *what, const cls_params *params, uint32_t vocab)
{
    cls_params alone;
    cls_params_default(&alone, sizeof alone);
    alone.stop_ids = params->stop_ids;
    alone.stop_count = params->stop_count;
    alone.logit_bias = params->logit_bias;
    alone.logit_bias_count = params->logit_bias_count;
    return cls_params_check(&alone, vocab) == CLS_OK ? 0 : cli_fail("%s: %s", what, cls_error_message());
}

static int set_id(int32_t *id, const char *what, const char *text)
{
    const cli_option option = {NULL, CLI_INT, id, NULL, NULL, NULL, 0};
    return cli_set(&option, what, text);
}

static int set_bias(float *bias, const char *what, const char *text)
{
    const cli_option option = {NULL, CLI_FLOAT, bias, NULL, NULL, NULL, 0};
    return cli_set(&option, what, text);
}

int cli_params_stop_ids(const cli_list *list, uint32_t vocab, cls_params *params)
{
    int32_t *ids = new_stop_ids(list->count, params);
    if (ids == NULL)
        return list->count == 0 ? 0 : cli_no_memory();
    for (uint32_t i = 0; i < list->count; i++)
        if (set_id(&ids[i], "--stop-id", list->text[i]) != 0)
            return 1;
    return check_lists("--stop-id", params, vocab);
}

int cli_params_logit_bias(const cli_list *list, uint32_t vocab, cls_params *params)
{
    cls_logit_bias *bias = new_logit_bias(list->count, params);
    if (bias == NULL)
        return list->count == 0 ? 0 : cli_no_memory();
    for (uint32_t i = 0; i < list->count; i++) {
        const char *text = list->text[i], *colon = strchr(text, ':');
        char id[16];
        if (colon == NULL || colon == text || (size_t)(colon - text) >= sizeof id)
            return cli_fail("--logit-bias: '%s' is not ID:VALUE", text);
        snprintf(id, sizeof id, "%.*s", (int)(colon - text), text);
        if (set_id(&bias[i].id, "--logit-bias", id) != 0 || set_bias(&bias[i].bias, "--logit-bias", colon + 1) != 0)
            return 1;
    }
    return check_lists("--logit-bias", params, vocab);
}

void cli_params_free(cls_params *base, cls_params *params, uint32_t rows)
{
    for (uint32_t r = 0; r < rows && params != NULL; r++) {
        if (params[r].stop_ids != base->stop_ids)
            free((void *)(uintptr_t)params[r].stop_ids);
        if (params[r].logit_bias != base->logit_bias)
            free((void *)(uintptr_t)params[r].logit_bias);
    }
    free(params);
    free((void *)(uintptr_t)base->stop_ids);
    free((void *)(uintptr_t)base->logit_bias);
}

/* ---------------------------------------------------------------------- JSON */

/* "top_k" in a file is --top-k on the command line. */
static bool same_name(const char *key, const char *option)
{
    for (; *key != '\0' && *option != '\0'; key++, option++)
        if (*key != (*option == '-' ? '_' : *option))
            return false;
    return *key == *option;
}

/* Sets a parameter from a JSON value of its type. An integer beyond JSON's 63
 * bits comes as a string. */
static int set_from_json(const cli_option *option, const char *what, json_t *value)
{
    char number[32];
    const bool text = option->type == CLI_CHOICE || option->type == CLI_UINT64;
    if (option->type == CLI_FLOAT && json_is_number(value)) {
        snprintf(number, sizeof number, "%.17g", json_number_value(value));
        return cli_set(option, what, number);
    }
    if (text && json_is_string(value))
        return cli_set(option, what, json_string_value(value));
    if (option->type == CLI_FLOAT)
        return cli_fail("%s: not a number", what);
    if (option->type == CLI_CHOICE)
        return cli_fail("%s: not a string", what);
    if (!json_is_integer(value))
        return cli_fail("%s: not an integer", what);
    snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    return cli_set(option, what, number);
}

static int stop_ids_from_json(const char *what, json_t *value, cls_params *params)
{
    const size_t count = json_array_size(value);
    int32_t *ids;
    if (!json_is_array(value) || count > UINT32_MAX)
        return cli_fail("%s: not an array of token ids", what);
    if ((ids = new_stop_ids((uint32_t)count, params)) == NULL)
        return count == 0 ? 0 : cli_no_memory();
    for (size_t i = 0; i < count; i++) {
        const cli_option id = {NULL, CLI_INT, &ids[i], NULL, NULL, NULL, 0};
        if (set_from_json(&id, what, json_array_get(value, i)) != 0)
            return 1;
    }
    return 0;
}

/* JSON has no infinity: the value that bans is a string. */
static int bias_from_json(const char *what, json_t *value, float *bias)
{
    const cli_option option = {NULL, CLI_FLOAT, bias, NULL, NULL, NULL, 0};
    if (json_is_string(value) && strcmp(json_string_value(value), "-inf") == 0)
        return set_bias(bias, what, "-inf");
    return set_from_json(&option, what, value);
}

/* {"ID": value, ...} or [[id, value], ...] */
static int logit_bias_from_json(const char *what, json_t *value, cls_params *params)
{
    const size_t count = json_is_object(value) ? json_object_size(value) : json_array_size(value);
    cls_logit_bias *bias;
    const char *key;
    json_t *entry;
    size_t i = 0;
    if ((!json_is_object(value) && !json_is_array(value)) || count > UINT32_MAX)
        return cli_fail("%s: neither an object nor an array of [id, value]", what);
    if ((bias = new_logit_bias((uint32_t)count, params)) == NULL)
        return count == 0 ? 0 : cli_no_memory();
    if (json_is_object(value)) {
        json_object_foreach(value, key, entry)
        {
            if (set_id(&bias[i].id, what, key) != 0 || bias_from_json(what, entry, &bias[i].bias) != 0)
                return 1;
            i++;
        }
        return 0;
    }
    for (; i < count; i++) {
        const cli_option id = {NULL, CLI_INT, &bias[i].id, NULL, NULL, NULL, 0};
        entry = json_array_get(value, i);
        if (json_array_size(entry) != 2)
            return cli_fail("%s: entry %zu is not [id, value]", what, i);
        if (set_from_json(&id, what, json_array_get(entry, 0)) != 0 ||
            bias_from_json(what, json_array_get(entry, 1), &bias[i].bias) != 0)
            return 1;
    }
    return 0;
}

/* A list of a row; no such key: -1. */
static int list_from_json(const char *key, const char *what, json_t *value, uint32_t vocab, cls_params *params)
{
    int failed = -1;
    if (strcmp(key, "stop_ids") == 0)
        failed = stop_ids_from_json(what, value, params);
    else if (strcmp(key, "logit_bias") == 0)
        failed = logit_bias_from_json(what, value, params);
    return failed == 0 ? check_lists(what, params, vocab) : failed;
}

static int row_from_json(const char *path, uint32_t row, json_t *object, uint32_t vocab, cls_params *params)
{
    const cli_option fields[] = {CLI_PARAM_OPTIONS(params), {NULL, CLI_FLAG, NULL, NULL, NULL, NULL, 0}};
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return cli_fail("%s: row %" PRIu32 ": not an object", path, row);
    json_object_foreach(object, key, value)
    {
        const cli_option *field = fields;
        int failed;
        char what[PATH_MAX + 128];
        while (field->name != NULL && !same_name(key, field->name))
            field++;
        snprintf(what, sizeof what, "%s: row %" PRIu32 ": \"%.64s\"", path, row, key);
        if (field->name == NULL) {
            if ((failed = list_from_json(key, what, value, vocab, params)) < 0)
                return cli_fail("%s: unknown key", what);
            if (failed != 0)
                return 1;
            continue;
        }
        if (set_from_json(field, what, value) != 0)
            return 1;
        if (!alone_allowed(field, params, vocab))
            return cli_fail("%s: %s", what, cls_error_message());
    }
    return 0;
}

static int rows_from_json(const char *path, uint32_t rows, uint32_t vocab, cls_params *params)
{
    json_error_t error;
    json_t *array = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    int failed = 0;
    if (array == NULL && error.line < 1)
        return cli_fail("%s: cannot be opened", path);
    if (array == NULL)
        return cli_fail("%s: line %d: %s", path, error.line, error.text);
    if (!json_is_array(array))
        failed = cli_fail("%s: not an array of objects, one a row", path);
    else if (json_array_size(array) != rows)
        failed =
            cli_fail("%s: %zu rows of parameters for %" PRIu32 " rows of logits", path, json_array_size(array), rows);
    for (uint32_t r = 0; r < rows && !failed; r++)
        failed = row_from_json(path, r, json_array_get(array, r), vocab, &params[r]);
    json_decref(array);
    return failed;
}

/* --------------------------------------------------------------------- seeds */

static int seeds_from_npy(const char *path, uint32_t rows, cls_params *params)
{
    cli_npy seeds;
    if (cli_npy_read(path, &seeds) != 0)
        return 1;
    if (seeds.kind == 'f' || seeds.size != 8 || seeds.dims != 1) {
        free(seeds.data);
        return cli_fail("%s: not an array uint64 [rows]", path);
    }
    if (seeds.shape[0] != rows) {
        free(seeds.data);
        return cli_fail("%s: %" PRIu64 " seeds for %" PRIu32 " rows of logits", path, seeds.shape[0], rows);
    }
    for (uint32_t r = 0; r < rows; r++)
        params[r].seed = ((const uint64_t *)seeds.data)[r];
    free(seeds.data);
    return 0;
}

int cli_params_rows(const cls_params *base, const char *params_path, const char *seeds_path, uint32_t rows,
                    uint32_t vocab, cls_params *params)
{
    for (uint32_t r = 0; r < rows; r++) {
        params[r] = *base;
        params[r].seed = base->seed + r;
    }
    if (seeds_path != NULL && seeds_from_npy(seeds_path, rows, params) != 0)
        return 1;
    return params_path != NULL ? rows_from_json(params_path, rows, vocab, params) : 0;
}
