/* SPDX-License-Identifier: MIT */
/* Sampling parameters: checks that name the option at fault, parameters per row, which are read
 * from files, and their JSON. cli/common/lists.c has the parameters that are lists. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/params.h"

/* The names of the parameters: of the command's option, and of the field, which messages of the
 * library begin with. The option's name with underscores for hyphens and the field's name are JSON
 * keys of a number; a list has a key of its own. The numbers are in the order of the options. */
static const struct name {
    const char *option, *field, *key;
} names[] = {
#define NUMBER_NAMES(p, id, type, field, stage, phase, initial, least, most, range, option, meta, \
                     help) \
    {option, #field, #field},
#define LIST_NAMES(p, kind, list, kept, option, meta, key, help) {option, #list, key},
    CLS_PARAMS(NUMBER_NAMES, ) CLS_LISTS(LIST_NAMES, ){"chain", "stages", "chain"}};
#define COUNTED(p, id, type, field, stage, phase, initial, least, most, range, option, meta, help) \
    +1
enum { NAMES = sizeof names / sizeof *names, NUMBERS = 0 CLS_PARAMS(COUNTED, ) };

/* The name of the parameter whose field a text begins with, or NULL. */
static const struct name *name_of_field(const char *text)
{
    for (int i = 0; i < NAMES; i++) {
        const size_t length = strlen(names[i].field);
        if (strncmp(text, names[i].field, length) == 0 && strchr(" [.,;", text[length]) != NULL)
            return &names[i];
    }
    return NULL;
}

/* Whether the library refuses the parameters. *at_fault is the name of the one that its message is
 * about. NULL: they contradict each other, and the message names several: for example, a stage is
 * turned on that the chain does not contain. */
static const char before[] = "params->";
static bool is_refused(const cls_params *params, uint32_t vocab, const struct name **at_fault)
{
    *at_fault = NULL;
    if (cls_params_check(params, vocab) == CLS_OK)
        return false;
    const char *const found = strstr(cls_error_message(), before);
    const char *const field = found != NULL ? found + strlen(before) : "";
    if (strstr(field, before) == NULL)
        *at_fault = name_of_field(field);
    return true;
}

/* The library's message, which names the fields of a struct that the command's users do not see. A
 * message that names several has what the users wrote: the options, or keys of JSON. */
static const char *reason_of_refusal(const struct name *at_fault, bool options)
{
    static char text[1024];
    const char *rest = cls_error_message();
    size_t n = 0;
    for (const char *at; (at = strstr(rest, before)) != NULL && n < sizeof text;) {
        const char *const field = at + strlen(before);
        const struct name *const name = at_fault == NULL ? name_of_field(field) : NULL;
        n += (size_t)snprintf(text + n, sizeof text - n, "%.*s", (int)(at - rest), rest);
        rest = field + (name != NULL ? strlen(name->field) : 0);
        if (name != NULL && n < sizeof text)
            n += (size_t)snprintf(text + n, sizeof text - n, options ? "--%s" : "\"%s\"",
                                  options ? name->option : name->key);
    }
    if (n < sizeof text)
        snprintf(text + n, sizeof text - n, "%s", rest);
    return text;
}

/* Returns the parameters outside the thinking, which begin neutral. */
static cls_params *cli_phase_of(cls_params *params)
{
    if (params->post_thinking == NULL) {
        cls_params *const second = cli_alloc(1, sizeof *second);
        cls_params_init(second);
        params->post_thinking = second;
    }
    return (cls_params *)(uintptr_t)params->post_thinking;
}

bool cli_param_set(const char *what, const char *field, const char *text, cls_params *params)
{
    static const char second[] = "post_thinking.";
    if (strncmp(field, second, strlen(second)) == 0)
        return cli_param_set(what, field + strlen(second), text, cli_phase_of(params));
    const cli_option fields[] = {CLS_PARAMS(CLI_PARAM_OPTION, params) CLI_NO_OPTION};
    const struct {
        const char *name;
        void *value;
    } others[] = {{"only_allowed", &params->only_allowed},
                  {"grammar_state", &params->grammar_state}};
    for (int i = 0; i < NUMBERS; i++) {
        if (strcmp(names[i].field, field) != 0)
            continue;
        /* In a text a switch has a value. */
        cli_set(fields[i].type == CLI_SWITCH ? CLI_INT : fields[i].type, fields[i].value,
                fields[i].meta, what, text);
        return true;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i].name, field) == 0) {
            cli_set(CLI_UINT, others[i].value, NULL, what, text);
            return true;
        }
    return cli_list_from_text(field, what, text, params);
}

void cli_params_check(const cls_params *params, uint32_t vocab)
{
    const struct name *at_fault;
    if (!is_refused(params, vocab, &at_fault))
        return;
    const char *const reason = reason_of_refusal(at_fault, true);
    if (at_fault != NULL && cli_given(at_fault->option))
        cli_die("--%s: %s", at_fault->option, reason);
    cli_die("parameters: %s", reason);
}

/* ---------------------------------------------------------------------- JSON */

/* Whether a key is an option's name with underscores for hyphens: "top_k" is --top-k. */
static bool same_name(const char *key, const char *option)
{
    for (; *key != '\0' && *option != '\0'; key++, option++)
        if (*key != (*option == '-' ? '_' : *option))
            return false;
    return *key == *option;
}

/* The name for a key, or NULL; two keys of other servers have a different name here. */
static const struct name *name_of(const char *key)
{
    static const char *const others[][2] = {
        {"samplers", "chain"},
        {"repeat_penalty", "repetition_penalty"},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(key, others[i][0]) == 0)
            key = others[i][1];
    for (int i = 0; i < NAMES; i++)
        if (strcmp(key, names[i].key) == 0 || (i < NUMBERS && same_name(key, names[i].option)))
            return &names[i];
    return NULL;
}

_Noreturn static void refuse_key(const char *what, const char *key, const cls_ids *force)
{
    cli_near near = {.word = key, .length = strlen(key)};
    for (int i = 0; i < NAMES; i++)
        cli_near_try(&near, names[i].key);
    if (force != NULL)
        cli_near_try(&near, "force");
    cli_die("%s is not a known key%s", what, cli_near_text(&near, ""));
}

void cli_params_from_json(const char *where, json_t *object, uint32_t vocab, cls_params *params,
                          cls_ids *force)
{
    const cli_option fields[] = {CLS_PARAMS(CLI_PARAM_OPTION, params) CLI_NO_OPTION};
    const struct name *at_fault;
    const char *key, *keys[NAMES] = {NULL};
    json_t *value;
    if (!json_is_object(object))
        cli_die("%s is not an object", where);
    json_object_foreach(object, key, value)
    {
        const struct name *const name = name_of(key);
        char what[PATH_MAX + 160];
        snprintf(what, sizeof what, "%s: \"%.64s\"", where, key);
        if (name != NULL && keys[name - names] != NULL)
            cli_die("%s: \"%s\" is the same parameter", what, keys[name - names]);
        if (name != NULL)
            keys[name - names] = key;
        if (strcmp(key, "force") == 0 && force != NULL) {
            cli_ids_from_json(what, value, force);
            cli_ids_check(what, force, vocab);
        } else if (strcmp(key, "post_thinking") == 0) {
            params->post_thinking = NULL;
            cli_params_from_json(what, value, vocab, cli_phase_of(params), NULL);
        } else if (name == NULL) {
            refuse_key(what, key, force);
        } else if (name - names < NUMBERS) {
            const cli_option *const field = &fields[name - names];
            cli_set_from_json(field->type, field->value, field->meta, what, value);
        } else {
            cli_list_from_json(name->key, what, value, params);
        }
    }
    if (!is_refused(params, vocab, &at_fault))
        return;
    const char *const reason = reason_of_refusal(at_fault, false);
    json_object_foreach(object, key, value) if (at_fault != NULL && name_of(key) == at_fault)
        cli_die("%s: \"%.64s\": %s", where, key, reason);
    cli_die("%s: %s", where, reason);
}

const cli_picked *cli_rows_in(const char *path, uint64_t have, const char *what,
                              const cli_rows *rows)
{
    if (have == rows->all)
        return rows->picked;
    if (have == rows->count)
        return NULL;
    char of_file[CLI_COUNTED], of_all[CLI_COUNTED], selected[32] = "";
    if (rows->count != rows->all)
        snprintf(selected, sizeof selected, ", %" PRIu32 " of them selected", rows->count);
    cli_die("%s: the file has %s for %s%s", path, cli_counted(of_file, have, what),
            cli_counted(of_all, rows->all, rows->of), selected);
}

static void rows_from_json(const char *path, const cli_rows *rows, uint32_t vocab,
                           cls_params *params, cls_ids *force)
{
    json_t *const array = cli_json_read(path); /* or an object */
    if (json_is_object(array)) {
        for (uint32_t i = 0; i < rows->count; i++)
            cli_params_from_json(path, array, vocab, &params[i], &force[i]);
        return;
    }
    const cli_picked *const picked =
        cli_rows_in(path, json_array_size(array), "rows of parameters", rows);
    for (uint32_t i = 0; i < rows->count; i++) {
        const uint32_t r = cli_row_number(picked, i);
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
    cli_npy_rows(&seeds, cli_rows_in(path, seeds.shape[0], "seeds", rows));
    for (uint32_t i = 0; i < rows->count; i++)
        params[i].seed = ((const uint64_t *)seeds.data)[i];
}

void cli_params_rows(const cls_params *base, const char *params_path, const char *seeds_path,
                     const cli_rows *rows, uint32_t vocab, cls_params *params, cls_ids *force)
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
