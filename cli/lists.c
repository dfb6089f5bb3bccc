/* SPDX-License-Identifier: MIT */
/* Parses the parameters that are lists (ids, biases, sequences of ids) and the chain, from the
 * command line and from JSON. Each list is stored in the parameters before its elements are parsed,
 * so that cli_params_free() frees it even if the parser fails halfway. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "params.h"

/* Checks the lists alone. */
static int check_lists(const char *what, const cls_params *params, uint32_t vocab)
{
    cls_params alone;
    cli_params_alone(&alone);
#define COPY_LIST(p, kind, array, counter, kept, option, meta, key, help) \
    if (params->counter != 0) { \
        alone.array = params->array; \
        alone.counter = params->counter; \
    }
    CLS_LISTS(COPY_LIST, )
#undef COPY_LIST
    return cls_params_check(&alone, vocab) == CLS_OK
               ? 0
               : cli_fail("%s: %s", what, cls_error_message());
}

static int set_id(int32_t *id, const char *what, const char *text)
{
    const cli_option option = {NULL, CLI_INT, id, NULL, NULL, NULL, 0};
    return cli_set(&option, what, text);
}

static int id_from_json(int32_t *id, const char *what, json_t *value)
{
    const cli_option option = {NULL, CLI_INT, id, NULL, NULL, NULL, 0};
    return cli_set_from_json(&option, what, value);
}

/* ------------------------------------------------------------------------ ids */

static size_t ids_in(const char *text)
{
    size_t n = 1;
    for (; *text != '\0'; text++)
        n += *text == ',';
    return n;
}

/* Stores the ids of a text at *ids and advances the pointer. */
static int take_ids(const char *what, const char *text, int32_t **ids)
{
    for (;; text++) {
        const size_t length = strcspn(text, ",");
        char id[16];
        snprintf(id, sizeof id, "%.*s", length > 14 ? 14 : (int)length, text);
        if (set_id((*ids)++, what, id) != 0)
            return 1;
        text += length;
        if (*text == '\0')
            return 0;
    }
}

int32_t *cli_ids_parse(const char *what, const cli_list *texts, uint32_t *count)
{
    size_t n = 0;
    int32_t *ids, *at;
    for (uint32_t i = 0; i < texts->count; i++)
        n += ids_in(texts->text[i]);
    if (n > INT32_MAX) {
        cli_fail("%s: %zu ids are too many", what, n);
        return NULL;
    }
    if ((ids = at = calloc(n + 1, sizeof *ids)) == NULL) {
        cli_no_memory();
        return NULL;
    }
    *count = (uint32_t)n;
    for (uint32_t i = 0; i < texts->count; i++)
        if (take_ids(what, texts->text[i], &at) != 0) {
            free(ids);
            return NULL;
        }
    return ids;
}

int cli_ids_check(const char *what, const int32_t *ids, uint32_t count, uint32_t vocab)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= vocab)
            return cli_fail("%s: %" PRId32 " is not a token of a vocabulary of %" PRIu32, what,
                            ids[i], vocab);
    return 0;
}

static int json_ids(const char *what, json_t *value, const int32_t **list, uint32_t *n)
{
    const size_t count = json_array_size(value);
    int32_t *ids;
    *list = NULL;
    *n = 0;
    if (!json_is_array(value) || count > UINT32_MAX)
        return cli_fail("%s: the value is not an array of token ids", what);
    if (count == 0)
        return 0;
    if ((ids = calloc(count, sizeof *ids)) == NULL)
        return cli_no_memory();
    *list = ids;
    *n = (uint32_t)count;
    for (size_t i = 0; i < count; i++)
        if (id_from_json(&ids[i], what, json_array_get(value, i)) != 0)
            return 1;
    return 0;
}

int cli_ids_from_json(const char *what, json_t *value, const int32_t **ids, uint32_t *count)
{
    return json_ids(what, value, ids, count);
}

/* Parses a list of which each option has one id. */
static int parse_id(const char *what, const cli_list *texts, const int32_t **list, uint32_t *n)
{
    int32_t *ids = calloc((size_t)texts->count + 1, sizeof *ids);
    if (ids == NULL)
        return cli_no_memory();
    *list = ids;
    *n = texts->count;
    for (uint32_t i = 0; i < texts->count; i++)
        if (set_id(&ids[i], what, texts->text[i]) != 0)
            return 1;
    return 0;
}

static int parse_ids(const char *what, const cli_list *texts, const int32_t **list, uint32_t *n)
{
    return (*list = cli_ids_parse(what, texts, n)) == NULL;
}

/* -------------------------------------------------------------------- sequences */

/* Allocates one block for the sequences and, after them, all their ids. */
static cls_sequence *new_sequences(size_t count, size_t ids, int32_t **first)
{
    cls_sequence *sequences = calloc(1, count * sizeof *sequences + ids * sizeof **first);
    *first = (int32_t *)(void *)(sequences + count);
    return sequences;
}

static int parse_sequences(const char *what, const cli_list *texts, const cls_sequence **list,
                           uint32_t *n)
{
    cls_sequence *sequences;
    int32_t *at;
    size_t ids = 0;
    for (uint32_t i = 0; i < texts->count; i++)
        ids += ids_in(texts->text[i]);
    if ((sequences = new_sequences(texts->count, ids, &at)) == NULL)
        return cli_no_memory();
    *list = sequences;
    *n = texts->count;
    for (uint32_t i = 0; i < texts->count; i++) {
        sequences[i] = (cls_sequence){at, (uint32_t)ids_in(texts->text[i])};
        if (take_ids(what, texts->text[i], &at) != 0)
            return 1;
    }
    return 0;
}

static int json_sequences(const char *what, json_t *value, const cls_sequence **list, uint32_t *n)
{
    const size_t count = json_array_size(value);
    cls_sequence *sequences;
    int32_t *at;
    size_t ids = 0;
    *list = NULL;
    *n = 0;
    if (!json_is_array(value) || count > UINT32_MAX)
        return cli_fail("%s: the value is not an array of arrays of token ids", what);
    for (size_t i = 0; i < count; i++) {
        if (json_array_size(json_array_get(value, i)) == 0)
            return cli_fail("%s: entry %zu is not an array of token ids", what, i);
        ids += json_array_size(json_array_get(value, i));
    }
    if (count == 0)
        return 0;
    if ((sequences = new_sequences(count, ids, &at)) == NULL)
        return cli_no_memory();
    *list = sequences;
    *n = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        json_t *const entry = json_array_get(value, i);
        sequences[i] = (cls_sequence){at, (uint32_t)json_array_size(entry)};
        for (size_t j = 0; j < json_array_size(entry); j++)
            if (id_from_json(at++, what, json_array_get(entry, j)) != 0)
                return 1;
    }
    return 0;
}

/* ----------------------------------------------------------------------- biases */

static int set_bias(float *bias, const char *what, const char *text)
{
    const cli_option option = {NULL, CLI_FLOAT, bias, NULL, NULL, NULL, 0};
    return cli_set(&option, what, text);
}

static int parse_biases(const char *what, const cli_list *texts, const cls_logit_bias **list,
                        uint32_t *n)
{
    cls_logit_bias *const bias = calloc((size_t)texts->count + 1, sizeof *bias);
    if (bias == NULL)
        return cli_no_memory();
    *list = bias;
    *n = texts->count;
    for (uint32_t i = 0; i < texts->count; i++) {
        const char *text = texts->text[i], *colon = strchr(text, ':');
        char id[16];
        if (colon == NULL || colon == text || (size_t)(colon - text) >= sizeof id)
            return cli_fail("%s: '%s' is not ID:VALUE", what, text);
        snprintf(id, sizeof id, "%.*s", (int)(colon - text), text);
        if (set_id(&bias[i].id, what, id) != 0 || set_bias(&bias[i].bias, what, colon + 1) != 0)
            return 1;
    }
    return 0;
}

/* JSON has no infinity, so the value that bans a token is the string "-inf". */
static int bias_from_json(const char *what, json_t *value, float *bias)
{
    const cli_option option = {NULL, CLI_FLOAT, bias, NULL, NULL, NULL, 0};
    if (json_is_string(value) && strcmp(json_string_value(value), "-inf") == 0)
        return set_bias(bias, what, "-inf");
    return cli_set_from_json(&option, what, value);
}

/* The value is {"ID": bias, ...} or [[id, bias], ...]. */
static int json_biases(const char *what, json_t *value, const cls_logit_bias **list, uint32_t *n)
{
    const size_t count = json_is_object(value) ? json_object_size(value) : json_array_size(value);
    cls_logit_bias *bias;
    const char *key;
    json_t *entry;
    size_t i = 0;
    *list = NULL;
    *n = 0;
    if ((!json_is_object(value) && !json_is_array(value)) || count > UINT32_MAX)
        return cli_fail("%s: the value is neither an object nor an array of [id, value]", what);
    if ((bias = calloc(count + 1, sizeof *bias)) == NULL)
        return cli_no_memory();
    *list = bias;
    *n = (uint32_t)count;
    if (json_is_object(value)) {
        json_object_foreach(value, key, entry)
        {
            if (set_id(&bias[i].id, what, key) != 0 ||
                bias_from_json(what, entry, &bias[i].bias) != 0)
                return 1;
            i++;
        }
        return 0;
    }
    for (; i < count; i++) {
        entry = json_array_get(value, i);
        if (json_array_size(entry) != 2)
            return cli_fail("%s: entry %zu is not [id, value]", what, i);
        if (id_from_json(&bias[i].id, what, json_array_get(entry, 0)) != 0 ||
            bias_from_json(what, json_array_get(entry, 1), &bias[i].bias) != 0)
            return 1;
    }
    return 0;
}

/* ------------------------------------------------------------------------ chain */

/* The names of presets and stages, including llama.cpp's names. */
#define STAGE_IN_TEXT(stage, name, field, on) name ", "
#define STAGE_NAMES CLS_STAGE_TABLE(STAGE_IN_TEXT)
#define STAGE_NAME(stage, name, field, on) {name, CLS_STAGE_##stage},
static const struct name {
    const char *name;
    uint8_t value;
} presets[] = {{"default", CLS_CHAIN_DEFAULT},
               {"vllm", CLS_CHAIN_VLLM},
               {"llama", CLS_CHAIN_LLAMA},
               {NULL, 0}},
  stages[] = {CLS_STAGE_TABLE(STAGE_NAME){"temp", CLS_STAGE_TEMPERATURE},
              {"typ-p", CLS_STAGE_TYPICAL_P},
              {"typical-p", CLS_STAGE_TYPICAL_P},
              {NULL, 0}};

/* Finds a name, whose hyphens may be underscores in the text. */
static const struct name *find_name(const struct name *names, const char *text, size_t length)
{
    for (; names->name != NULL; names++) {
        size_t i = 0;
        while (i < length && names->name[i] == (text[i] == '_' ? '-' : text[i]))
            i++;
        if (i == length && names->name[i] == '\0')
            return names;
    }
    return NULL;
}

static int add_stage(const char *what, const char *text, size_t length, uint32_t *n,
                     cls_params *params)
{
    const struct name *stage = find_name(stages, text, length);
    if (stage == NULL)
        return cli_fail(
            "%s: '%.*s' is neither a preset (default, vllm or llama) nor a stage (" STAGE_NAMES
            "or typical_p)",
            what, length > 64 ? 64 : (int)length, text);
    for (uint32_t i = 0; i < *n; i++)
        if (params->stages[i] == stage->value)
            return cli_fail("%s: stage '%s' occurs twice", what, stage->name);
    params->stages[(*n)++] =
        stage->value; /* cannot overflow: there are fewer stages than elements */
    return 0;
}

static void custom_chain(cls_params *params)
{
    params->chain = CLS_CHAIN_CUSTOM;
    memset(params->stages, CLS_STAGE_END, sizeof params->stages);
}

static int chain_parse(const char *what, const char *text, cls_params *params)
{
    const struct name *preset = find_name(presets, text, strlen(text));
    uint32_t n = 0;
    if (preset != NULL) {
        params->chain = preset->value;
        return 0;
    }
    custom_chain(params);
    for (;; text++) {
        const size_t length = strcspn(text, ",");
        if (add_stage(what, text, length, &n, params) != 0)
            return 1;
        text += length;
        if (*text == '\0')
            return 0;
    }
}

static int chain_from_json(const char *what, json_t *value, cls_params *params)
{
    uint32_t n = 0;
    if (json_is_string(value))
        return chain_parse(what, json_string_value(value), params);
    if (!json_is_array(value))
        return cli_fail("%s: the value is neither a string nor an array of stages", what);
    custom_chain(params);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *text = json_string_value(json_array_get(value, i));
        if (text == NULL)
            return cli_fail("%s: entry %zu is not a string", what, i);
        if (add_stage(what, text, strlen(text), &n, params) != 0)
            return 1;
    }
    return 0;
}

/* -------------------------------------------------------------------------- all */

int cli_lists_parse(const cli_lists *texts, uint32_t vocab, cls_params *params)
{
    if (texts->chain != NULL && chain_parse("--chain", texts->chain, params))
        return 1;
#define PARSE_LIST(p, kind, array, counter, kept, option, meta, key, help) \
    if (texts->array.count != 0 && \
        (parse_##kind("--" option, &texts->array, &params->array, &params->counter) || \
         check_lists("--" option, params, vocab))) \
        return 1;
    CLS_LISTS(PARSE_LIST, )
#undef PARSE_LIST
    return 0;
}

void cli_lists_free(cli_lists *texts)
{
#define FREE_TEXTS(p, kind, array, counter, kept, option, meta, key, help) free(texts->array.text);
    CLS_LISTS(FREE_TEXTS, )
#undef FREE_TEXTS
}

int cli_list_from_json(const char *key, const char *what, json_t *value, uint32_t vocab,
                       cls_params *params)
{
    int failed = -1;
    if (strcmp(key, "chain") == 0)
        failed = chain_from_json(what, value, params);
#define json_id json_ids
#define LIST_FROM_JSON(p, kind, array, counter, kept, option, meta, name, help) \
    if (strcmp(key, name) == 0) \
        failed = json_##kind(what, value, &params->array, &params->counter);
    CLS_LISTS(LIST_FROM_JSON, )
#undef LIST_FROM_JSON
#undef json_id
    if (failed < 0)
        return -1;
    params->only_allowed |= strcmp(key, "allowed_token_ids") == 0;
    return failed != 0 ? 1 : check_lists(what, params, vocab);
}
