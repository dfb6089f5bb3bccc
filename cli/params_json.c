/* SPDX-License-Identifier: MIT */
/* Writes sampling parameters as JSON. cli/params.c and cli/lists.c read it. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "params.h"

/* ---------------------------------------------------------------------- numbers */

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

/* The word of `words`, which | separates. */
static json_t *choice(const char *words, int32_t index)
{
    for (; index > 0; index--)
        words += strcspn(words, "|") + 1;
    return json_stringn(words, strcspn(words, "|"));
}

/* ------------------------------------------------------------------------ lists */

json_t *cli_ids_json(const int32_t *ids, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        cli_append(&array, json_integer(ids[i]));
    return array;
}

static json_t *biases_json(const cls_logit_bias *list, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        cli_append(&array,
                   json_pack("[i, o]", (int)list[i].id,
                             isinf(list[i].bias) ? json_string("-inf") : real(list[i].bias)));
    return array;
}

static json_t *sequences_json(const cls_ids *list, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        cli_append(&array, cli_ids_json(list[i].ids, list[i].count));
    return array;
}

/* -------------------------------------------------------------------------- all */

static bool is_of_request(const char *key)
{
    return strcmp(key, "seed") != 0 && strcmp(key, "stream") != 0 && strcmp(key, "position") != 0;
}

#define JSON_FLOAT(x, meta) real((float)(x))
#define JSON_INT(x, meta) json_integer((json_int_t)(x))
#define JSON_UINT(x, meta) json_integer((json_int_t)(x))
#define JSON_UINT64(x, meta) cli_uint64_json((uint64_t)(x))
#define JSON_SWITCH(x, meta) json_boolean((x) != 0)
#define JSON_CHOICE(x, meta) choice(meta, (int32_t)(x))

json_t *cli_params_to_json(const cls_params *p)
{
    json_t *const object = json_object();
    cls_params off;
    int failed = 0;
    cls_params_init(&off);
    if (p->chain != off.chain)
        failed |= json_object_set_new(object, "chain", cli_chain_json(p));
#define SET_NUMBER(p, id, type, field, stage, initial, least, most, range, option, meta, help) \
    if (is_of_request(#field) && memcmp(&p->field, &off.field, sizeof off.field) != 0) \
        failed |= json_object_set_new(object, #field, JSON_##type(p->field, meta));
    CLS_PARAMS(SET_NUMBER, p)
#define id_json cli_ids_json
#define ids_json cli_ids_json
#define SET_LIST(p, kind, list, kept, option, meta, key, help) \
    if (p->list.count != 0 || (p->only_allowed != 0 && strcmp(key, "allowed_token_ids") == 0)) \
        failed |= json_object_set_new(object, key, \
                                      kind##_json(p->list.CLS_ARRAY_##kind, p->list.count));
    CLS_LISTS(SET_LIST, p)
    if (failed == 0)
        return object;
    json_decref(object);
    return NULL;
}
