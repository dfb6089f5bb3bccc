/* SPDX-License-Identifier: MIT */
/* Keys are the names of the fields of cls_params, and those of the lists the ones of `clsample
 * sample --params`. */
#include "plugin.h"
#include "base/param_table.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* LiteRT-LM's own fields, what the plug-in sets, and what ends a text, of which LiteRT-LM would not
 * learn. */
static const char *const refused[] = {
    "temperature", "top_k",  "top_p",        "seed",     "stream",   "position",
    "max_tokens",  "infill", "loop_repeats", "loop_min", "loop_max", "loop_action",
};

static bool read_float(json_t *value, void *to)
{
    const char *const text = json_string_value(value); /* JSON has no infinity */
    if (!json_is_number(value) && (text == NULL || strcmp(text, "-inf") != 0))
        return false;
    *(float *)to = text != NULL ? -INFINITY : (float)json_number_value(value);
    return true;
}

static bool read_integer(json_t *value, int64_t least, int64_t most, int64_t *number)
{
    *number = json_integer_value(value);
    return json_is_integer(value) && *number >= least && *number <= most;
}

static bool read_int(json_t *value, void *to)
{
    int64_t number;
    const bool fits = read_integer(value, INT32_MIN, INT32_MAX, &number);
    *(int32_t *)to = (int32_t)number;
    return fits;
}

static bool read_uint(json_t *value, void *to)
{
    int64_t number;
    const bool fits = read_integer(value, 0, UINT32_MAX, &number);
    *(uint32_t *)to = (uint32_t)number;
    return fits;
}

static bool read_uint64(json_t *value, void *to) /* beyond JSON's 63 bits a string */
{
    const char *const text = json_string_value(value);
    char *end = NULL;
    errno = 0;
    *(uint64_t *)to = text != NULL ? strtoull(text, &end, 10) : (uint64_t)json_integer_value(value);
    return text != NULL ? *text >= '0' && *text <= '9' && *end == '\0' && errno == 0
                        : json_is_integer(value) && json_integer_value(value) >= 0;
}

static bool read_switch(json_t *value, void *to)
{
    *(int32_t *)to = json_is_true(value);
    return json_is_boolean(value);
}

static bool read_choice(json_t *value, void *to) /* "output" or "all" */
{
    const char *const text = json_is_string(value) ? json_string_value(value) : "";
    *(int32_t *)to = strcmp(text, "all") == 0 ? CLS_SCOPE_ALL : CLS_SCOPE_OUTPUT;
    return strcmp(text, "all") == 0 || strcmp(text, "output") == 0;
}

/* Allocates the elements of a list. At least one byte, so that NULL is a failure. */
static void *elements(json_t *array, size_t size, uint32_t *count)
{
    *count = 0;
    return json_is_array(array) ? calloc(json_array_size(array) + 1, size) : NULL;
}

static bool read_ids(json_t *array, void *to)
{
    cls_ids *const list = to;
    int32_t *const ids = elements(array, sizeof *ids, &list->count);
    list->ids = ids;
    for (size_t i = 0; ids != NULL && i < json_array_size(array); i++, list->count++)
        if (!read_int(json_array_get(array, i), &ids[i]))
            return false;
    return ids != NULL;
}
#define read_id read_ids

static bool read_biases(json_t *array, void *to) /* [[id, value], ...] */
{
    cls_biases *const list = to;
    cls_logit_bias *const biases = elements(array, sizeof *biases, &list->count);
    list->biases = biases;
    for (size_t i = 0; biases != NULL && i < json_array_size(array); i++, list->count++) {
        json_t *const pair = json_array_get(array, i);
        if (json_array_size(pair) != 2 || !read_int(json_array_get(pair, 0), &biases[i].id) ||
            !read_float(json_array_get(pair, 1), &biases[i].bias))
            return false;
    }
    return biases != NULL;
}

static bool read_sequences(json_t *array, void *to)
{
    cls_sequences *const list = to;
    cls_ids *const sequences = elements(array, sizeof *sequences, &list->count);
    list->sequences = sequences;
    for (size_t i = 0; sequences != NULL && i < json_array_size(array); i++) {
        list->count++;
        if (!read_ids(json_array_get(array, i), &sequences[i]))
            return false;
    }
    return sequences != NULL;
}

#define read_FLOAT read_float
#define read_INT read_int
#define read_UINT read_uint
#define read_SWITCH read_switch
#define read_CHOICE read_choice
#define read_UINT64 read_uint64
#define NUMBER(p, id, type, field, stage, phase, initial, least, most, range, option, meta, help) \
    {#field, offsetof(cls_params, field), read_##type},
#define LIST(p, kind, list, kept, option, meta, key, help) \
    {key, offsetof(cls_params, list), read_##kind},
static const struct key {
    const char *name;
    size_t offset;
    bool (*read)(json_t *value, void *to);
} keys[] = {CLS_PARAMS(NUMBER, ) CLS_LISTS(LIST, )};

static const struct key *find(const char *name)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (strcmp(name, refused[i]) == 0)
            return NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(name, keys[i].name) == 0)
            return &keys[i];
    return NULL;
}

bool params_read(const char *path, cls_params *params, char *why, size_t why_size)
{
    json_error_t error;
    const char *name;
    json_t *value, *const object = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    why[0] = '\0';
    if (object == NULL)
        snprintf(why, why_size, "%s: %s", path, error.text);
    else if (!json_is_object(object))
        snprintf(why, why_size, "%s is not a JSON object", path);
    json_object_foreach(object, name, value)
    {
        const struct key *const key = find(name);
        if (key != NULL && key->read(value, (char *)params + key->offset)) {
            params->only_allowed |= strcmp(name, "allowed_token_ids") == 0;
            continue;
        }
        snprintf(why, why_size, "%s: \"%.64s\": %s", path, name,
                 key == NULL ? "not a key of this file" : "not a value of this parameter");
        break;
    }
    json_decref(object);
    return why[0] == '\0';
}

static void forget_ids(const cls_ids *list) { free((void *)list->ids); }
static void forget_biases(const cls_biases *list) { free((void *)list->biases); }
static void forget_sequences(const cls_sequences *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        forget_ids(&list->sequences[i]);
    free((void *)list->sequences);
}
#define forget_id forget_ids

void params_forget(cls_params *params)
{
#define FORGET(p, kind, list, kept, option, meta, key, help) forget_##kind(&params->list);
    CLS_LISTS(FORGET, )
#undef FORGET
}
