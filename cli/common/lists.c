/* SPDX-License-Identifier: MIT */
/* Parses the parameters that are lists (ids, biases, sequences of ids) and the chain, from the
 * command line and from JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/params.h"

/* Where a list comes from. The texts of the command line are split into JSON strings, so that both
 * sources are read by the same functions. */
typedef struct source {
    const char *what; /* what messages begin with */
    bool text;        /* each value is a string */
} source;

static void set(const source *from, cli_type type, void *to, json_t *value)
{
    if (from->text)
        cli_set(type, to, NULL, from->what, json_string_value(value));
    else
        cli_set_from_json(type, to, NULL, from->what, value);
}

/* The parts of a text between commas, each cut to `most` bytes: messages show no more. */
static json_t *split(const char *text, size_t most)
{
    json_t *const parts = json_array();
    for (;; text++) {
        const size_t length = strcspn(text, ",");
        json_array_append_new(parts, json_stringn_nocheck(text, length > most ? most : length));
        text += length;
        if (*text == '\0')
            return parts;
    }
}

/* ------------------------------------------------------------------------ ids */

static void add_ids(json_t *list, const char *text) { json_array_extend(list, split(text, 14)); }

static void read_ids(const source *from, json_t *value, const int32_t **list, uint32_t *n)
{
    const size_t count = json_array_size(value);
    if (!json_is_array(value) || count > UINT32_MAX)
        cli_die("%s: the value is not an array of token ids", from->what);
    int32_t *const ids = count != 0 ? cli_alloc(count, sizeof *ids) : NULL;
    *list = ids;
    *n = (uint32_t)count;
    for (size_t i = 0; i < count; i++)
        set(from, CLI_INT, &ids[i], json_array_get(value, i));
}

void cli_ids_check(const char *what, const cls_ids *list, uint32_t vocab)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->ids[i] < 0 || (uint32_t)list->ids[i] >= vocab)
            cli_die("%s: %" PRId32 " is not a token of a vocabulary of %" PRIu32, what,
                    list->ids[i], vocab);
}

void cli_ids_from_json(const char *what, json_t *value, cls_ids *list)
{
    read_ids(&(source){what, false}, value, &list->ids, &list->count);
}

/* -------------------------------------------------------------------- sequences */

static void add_sequences(json_t *list, const char *text)
{
    json_array_append_new(list, split(text, 14));
}

static void read_sequences(const source *from, json_t *value, const cls_ids **list, uint32_t *n)
{
    const size_t count = json_array_size(value);
    if (!json_is_array(value) || count > UINT32_MAX)
        cli_die("%s: the value is not an array of arrays of token ids", from->what);
    cls_ids *const sequences = count != 0 ? cli_alloc(count, sizeof *sequences) : NULL;
    *list = sequences;
    *n = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        json_t *const entry = json_array_get(value, i);
        if (json_array_size(entry) == 0)
            cli_die("%s: entry %zu is not an array of token ids", from->what, i);
        read_ids(from, entry, &sequences[i].ids, &sequences[i].count);
    }
}

/* ----------------------------------------------------------------------- biases */

/* A part that is not ID:VALUE is added as it is, and read_biases() refuses it. */
static void add_biases(json_t *list, const char *text)
{
    json_t *const parts = split(text, SIZE_MAX);
    for (size_t i = 0; i < json_array_size(parts); i++) {
        json_t *const part = json_array_get(parts, i);
        const char *const pair = json_string_value(part);
        const size_t id = strcspn(pair, ":");
        if (pair[id] == '\0' || id == 0 || id >= 16)
            json_array_append(list, part);
        else
            json_array_append_new(list, json_pack("[o, o]", json_stringn_nocheck(pair, id),
                                                  json_string_nocheck(pair + id + 1)));
    }
    json_decref(parts);
}

/* JSON has no infinity, so the value that bans a token is the string "-inf". */
static void set_bias(const source *from, float *bias, json_t *value)
{
    const char *const text = json_string_value(value);
    const bool bans = text != NULL && strcmp(text, "-inf") == 0;
    set(&(source){from->what, from->text || bans}, CLI_FLOAT, bias, value);
}

/* The value is {"ID": bias, ...} or [[id, bias], ...]. */
static void read_biases(const source *from, json_t *value, const cls_logit_bias **list, uint32_t *n)
{
    const size_t count = json_is_object(value) ? json_object_size(value) : json_array_size(value);
    cls_logit_bias *bias;
    const char *key;
    json_t *entry;
    size_t i = 0;
    if ((!json_is_object(value) && !json_is_array(value)) || count > UINT32_MAX)
        cli_die("%s: the value is neither an object nor an array of [id, value]", from->what);
    *list = bias = count != 0 ? cli_alloc(count, sizeof *bias) : NULL;
    *n = (uint32_t)count;
    json_object_foreach(value, key, entry)
    {
        cli_set(CLI_INT, &bias[i].id, NULL, from->what, key);
        set_bias(from, &bias[i++].bias, entry);
    }
    for (; i < count; i++) {
        entry = json_array_get(value, i);
        if (json_is_string(entry) && from->text)
            cli_die("%s: '%s' is not ID:VALUE", from->what, json_string_value(entry));
        if (json_array_size(entry) != 2)
            cli_die("%s: entry %zu is not [id, value]", from->what, i);
        set(from, CLI_INT, &bias[i].id, json_array_get(entry, 0));
        set_bias(from, &bias[i].bias, json_array_get(entry, 1));
    }
}

/* ------------------------------------------------------------------------ chain */

/* The names of presets and stages, including llama.cpp's names. */
#define STAGE_IN_TEXT(stage, run, keeps_min, name, field, on) name ", "
#define STAGE_NAMES CLS_STAGE_TABLE(STAGE_IN_TEXT)
#define STAGE_NAME(stage, run, keeps_min, name, field, on) {name, CLS_STAGE_##stage},
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
static const struct name *find_name(const struct name *names, const char *text)
{
    for (; names->name != NULL; names++) {
        size_t i = 0;
        while (text[i] != '\0' && names->name[i] == (text[i] == '_' ? '-' : text[i]))
            i++;
        if (text[i] == '\0' && names->name[i] == '\0')
            return names;
    }
    return NULL;
}

static void add_stage(const char *what, const char *text, uint32_t *n, cls_params *params)
{
    const struct name *stage = find_name(stages, text);
    cli_near near = {.word = text, .length = strlen(text)};
    for (const struct name *s = presets; stage == NULL && s->name != NULL; s++)
        cli_near_try(&near, s->name);
    for (const struct name *s = stages; stage == NULL && s->name != NULL; s++)
        cli_near_try(&near, s->name);
    if (stage == NULL)
        cli_die("%s: '%.64s' is neither a preset (default, vllm or llama) nor a stage (%.*s)%s",
                what, text, (int)strlen(STAGE_NAMES) - 2, STAGE_NAMES, cli_near_text(&near, ""));
    for (uint32_t i = 0; i < *n; i++)
        if (params->stages[i] == stage->value)
            cli_die("%s: stage '%s' occurs twice", what, stage->name);
    params->stages[(*n)++] =
        stage->value; /* cannot overflow: there are fewer stages than elements */
}

/* The value is an array of stages. */
static void read_stages(const char *what, json_t *value, cls_params *params)
{
    uint32_t n = 0;
    params->chain = CLS_CHAIN_CUSTOM;
    memset(params->stages, CLS_STAGE_END, sizeof params->stages);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *text = json_string_value(json_array_get(value, i));
        if (text == NULL)
            cli_die("%s: entry %zu is not a string", what, i);
        add_stage(what, text, &n, params);
    }
}

/* The text is a preset, or stages separated by commas. */
static void chain_parse(const char *what, const char *text, cls_params *params)
{
    const struct name *preset = find_name(presets, text);
    if (preset == NULL) {
        read_stages(what, strcmp(text, "none") == 0 ? json_array() : split(text, 64), params);
        return;
    }
    params->chain = preset->value;
    memset(params->stages, CLS_STAGE_END, sizeof params->stages);
}

static void chain_from_json(const char *what, json_t *value, cls_params *params)
{
    if (json_is_string(value))
        chain_parse(what, json_string_value(value), params);
    else if (json_is_array(value))
        read_stages(what, value, params);
    else
        cli_die("%s: the value is neither a string nor an array of stages", what);
}

/* -------------------------------------------------------------------------- all */

/* The texts of an option as a list. */
static json_t *list_of(const cli_list *texts, void (*add)(json_t *list, const char *text))
{
    json_t *const list = json_array();
    for (uint32_t i = 0; i < texts->count; i++)
        add(list, texts->text[i]);
    return list;
}

void cli_ids_parse(const char *what, const cli_list *texts, uint32_t vocab, cls_ids *list)
{
    read_ids(&(source){what, true}, list_of(texts, add_ids), &list->ids, &list->count);
    cli_ids_check(what, list, vocab);
}

void cli_lists_parse(const cli_lists *texts, cls_params *params)
{
    if (texts->chain != NULL)
        chain_parse("--chain", texts->chain, params);
#define PARSE_LIST(p, kind, list, kept, option, meta, key, help) \
    if (texts->list.count != 0) \
        read_##kind(&(source){"--" option, true}, list_of(&texts->list, add_##kind), \
                    &params->list.CLS_ARRAY_##kind, &params->list.count);
    CLS_LISTS(PARSE_LIST, )
#undef PARSE_LIST
}

/* The parts of a text between slashes, each as the command line would have it. */
static cli_list parts_of(const char *text)
{
    cli_list parts = {NULL, 0};
    for (;; text++) {
        const size_t length = strcspn(text, "/");
        char *const part = cli_alloc(length + 1, 1);
        memcpy(part, text, length);
        cli_set(CLI_LIST, &parts, NULL, NULL, part);
        text += length;
        if (*text == '\0')
            return parts;
    }
}

bool cli_list_from_text(const char *field, const char *what, const char *text, cls_params *params)
{
    const cli_list parts = parts_of(text);
    if (strcmp(field, "chain") == 0) {
        chain_parse(what, text, params);
        return true;
    }
#define LIST_FROM_TEXT(p, kind, list, kept, option, meta, key, help) \
    if (strcmp(field, #list) == 0) { \
        read_##kind(&(source){what, true}, list_of(&parts, add_##kind), \
                    &params->list.CLS_ARRAY_##kind, &params->list.count); \
        return true; \
    }
    CLS_LISTS(LIST_FROM_TEXT, )
#undef LIST_FROM_TEXT
    return false;
}

void cli_list_from_json(const char *key, const char *what, json_t *value, cls_params *params)
{
    const source from = {what, false};
    if (strcmp(key, "chain") == 0)
        chain_from_json(what, value, params);
#define LIST_FROM_JSON(p, kind, list, kept, option, meta, name, help) \
    if (strcmp(key, name) == 0) \
        read_##kind(&from, value, &params->list.CLS_ARRAY_##kind, &params->list.count);
    CLS_LISTS(LIST_FROM_JSON, )
#undef LIST_FROM_JSON
    params->only_allowed |= strcmp(key, "allowed_token_ids") == 0;
}
