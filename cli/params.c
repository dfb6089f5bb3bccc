/* SPDX-License-Identifier: MIT */
/* Sampling parameters: checks that name the option at fault, parameters per row, which are read
 * from files, and their JSON. cli/lists.c has the parameters that are lists. */
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
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

void cli_params_check(const cls_params *params, uint32_t vocab)
{
    cls_params all = *params;
    const cli_option fields[] = {CLI_PARAM_OPTIONS(&all) CLI_NO_OPTION};
    for (const cli_option *field = fields; field->name != NULL; field++)
        if (cli_given(field->name) && !valid_alone(field, &all, vocab))
            cli_die("--%s: %s", field->name, cls_error_message());
    if (cls_params_check(params, vocab) != CLS_OK)
        cli_die("parameters: %s", cls_error_message());
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

void cli_params_from_json(const char *where, json_t *object, uint32_t vocab, cls_params *params,
                          cli_ids *force)
{
    const cli_option fields[] = {CLI_PARAM_OPTIONS(params) CLI_NO_OPTION};
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        cli_die("%s is not an object", where);
    json_object_foreach(object, key, value)
    {
        const char *const name = option_for_key(key);
        const cli_option *field = fields;
        char what[PATH_MAX + 160];
        while (field->name != NULL && !same_name(name, field->name) &&
               strcmp(name, field_names[field - fields]) != 0)
            field++;
        snprintf(what, sizeof what, "%s: \"%.64s\"", where, key);
        if (strcmp(key, "force") == 0) {
            cli_ids_from_json(what, value, &force->ids, &force->count);
            cli_ids_check(what, force->ids, force->count, vocab);
        } else if (field->name == NULL) {
            if (!cli_list_from_json(name, what, value, vocab, params))
                cli_die("%s is not a known key", what);
        } else {
            cli_set_from_json(field->type, field->value, field->meta, what, value);
            if (!valid_alone(field, params, vocab))
                cli_die("%s: %s", what, cls_error_message());
        }
    }
    /* Parameters that are valid alone can contradict each other: for example, a stage is turned on
     * that the chain does not contain. */
    if (cls_params_check(params, vocab) != CLS_OK)
        cli_die("%s: %s", where, cls_error_message());
}

static void rows_from_json(const char *path, const cli_rows *rows, uint32_t vocab,
                           cls_params *params, cli_ids *force)
{
    json_error_t error;
    errno = 0;
    const json_t *const array = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (array == NULL && error.line < 1)
        cli_die("%s: cannot be opened: %s", path, errno != 0 ? strerror(errno) : error.text);
    if (array == NULL)
        cli_die("%s: line %d: %s", path, error.line, error.text);
    if (!json_is_array(array))
        cli_die("%s: the file is not an array with one object for each row", path);
    if (json_array_size(array) != rows->all)
        cli_die("%s: the file has %zu rows of parameters for %" PRIu32 " %s", path,
                json_array_size(array), rows->all, rows->of);
    for (uint32_t i = 0; i < rows->count; i++) {
        const uint32_t r = cli_row_number(rows->picked, i);
        char where[PATH_MAX + 32];
        snprintf(where, sizeof where, "%s: row %" PRIu32, path, r);
        cli_params_from_json(where, json_array_get(array, r), vocab, &params[i], &force[i]);
    }
}

/* --------------------------------------------------------------------- seeds */

static void seeds_from_npy(const char *path, const cli_rows *rows, cls_params *params)
{
    cli_npy seeds;
    cli_npy_open(path, &seeds);
    if (seeds.kind == 'f' || seeds.size != 8 || seeds.dims != 1)
        cli_npy_refuse(&seeds, "uint64 [rows]");
    if (seeds.shape[0] != rows->all)
        cli_die("%s: the file has %" PRIu64 " seeds for %" PRIu32 " %s", path, seeds.shape[0],
                rows->all, rows->of);
    cli_npy_rows(&seeds, rows->picked);
    for (uint32_t i = 0; i < rows->count; i++)
        params[i].seed = ((const uint64_t *)seeds.data)[i];
}

void cli_params_rows(const cls_params *base, const char *params_path, const char *seeds_path,
                     const cli_rows *rows, uint32_t vocab, cls_params *params, cli_ids *force)
{
    for (uint32_t i = 0; i < rows->count; i++) {
        params[i] = *base;
        params[i].seed = base->seed + cli_row_number(rows->picked, i);
    }
    if (seeds_path != NULL)
        seeds_from_npy(seeds_path, rows, params);
    if (params_path != NULL)
        rows_from_json(params_path, rows, vocab, params, force);
}

/* --------------------------------------------------------------- parameters as JSON */

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

json_t *cli_uint64_json(uint64_t x)
{
    char text[24];
    if (x <= INT64_MAX)
        return json_integer((json_int_t)x);
    snprintf(text, sizeof text, "%" PRIu64, x);
    return json_string(text);
}

json_t *cli_word_json(const char *words, int32_t index)
{
    for (; index > 0; index--)
        words += strcspn(words, "|") + 1;
    return json_stringn(words, strcspn(words, "|"));
}

json_t *cli_ids_json(const int32_t *ids, size_t count)
{
    json_t *const array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, json_integer(ids[i]));
    return array;
}

static json_t *biases_json(const cls_logit_bias *list, size_t count)
{
    json_t *const array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(
            array, json_pack("[i, o]", (int)list[i].id,
                             isinf(list[i].bias) ? json_string("-inf") : real(list[i].bias)));
    return array;
}

static json_t *sequences_json(const cls_ids *list, size_t count)
{
    json_t *const array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, cli_ids_json(list[i].ids, list[i].count));
    return array;
}

static bool is_of_request(const char *key)
{
    return strcmp(key, "seed") != 0 && strcmp(key, "stream") != 0 && strcmp(key, "position") != 0;
}

#define JSON_FLOAT(x, meta) real((float)(x))
#define JSON_INT(x, meta) json_integer((json_int_t)(x))
#define JSON_UINT(x, meta) json_integer((json_int_t)(x))
#define JSON_UINT64(x, meta) cli_uint64_json((uint64_t)(x))
#define JSON_SWITCH(x, meta) json_boolean((x) != 0)
#define JSON_CHOICE(x, meta) cli_word_json(meta, (int32_t)(x))

json_t *cli_params_to_json(const cls_params *p)
{
    json_t *const object = json_object();
    cls_params off;
    cls_params_init(&off);
    if (p->chain != off.chain)
        json_object_set_new(object, "chain", cli_chain_json(p));
#define SET_NUMBER(p, id, type, field, stage, initial, least, most, range, option, meta, help) \
    if (is_of_request(#field) && memcmp(&p->field, &off.field, sizeof off.field) != 0) \
        json_object_set_new(object, #field, JSON_##type(p->field, meta));
    CLS_PARAMS(SET_NUMBER, p)
#define id_json cli_ids_json
#define ids_json cli_ids_json
#define SET_LIST(p, kind, list, kept, option, meta, key, help) \
    if (p->list.count != 0 || (p->only_allowed != 0 && strcmp(key, "allowed_token_ids") == 0)) \
        json_object_set_new(object, key, kind##_json(p->list.CLS_ARRAY_##kind, p->list.count));
    CLS_LISTS(SET_LIST, p)
    return object;
}
