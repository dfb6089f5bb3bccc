/* SPDX-License-Identifier: MIT */
/* The parameters of a request from words. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "run/inputs.h"

static bool is_of_params(const char *key)
{
    return strcmp(key, "prompt") != 0 && strcmp(key, "output") != 0 &&
           strcmp(key, "grammar") != 0 && *key != '\0';
}

/* The parameters that are lists of ids, which may have ranges and random texts. */
static const struct id_list {
    const char *name;
    size_t place;
} id_lists[] = {
#define ID_LIST_ids(list) {#list, offsetof(cls_params, list)},
#define ID_LIST_biases(list)
#define ID_LIST_sequences(list)
#define ID_LIST(p, kind, list, kept, option, meta, key, help) ID_LIST_##kind(list)
    CLS_LISTS(ID_LIST, )};

static bool set_ids(const run_statement *s, const char *key, cls_params *params)
{
    for (size_t i = 0; i < sizeof id_lists / sizeof *id_lists; i++)
        if (strcmp(key, id_lists[i].name) == 0) {
            cls_ids *const list = (cls_ids *)(void *)((char *)params + id_lists[i].place);
            list->ids = run_list(s, key, &list->count);
            return true;
        }
    return false;
}

cls_grammar *run_grammar_of(run_side *side, const run_statement *s)
{
    const char *const name = run_find(s, "grammar");
    const run_named *const found = name != NULL ? run_name_find(side, name) : NULL;
    if (name != NULL && (found == NULL || found->size != 0))
        run_die(s, "grammar=%.40s is no grammar of this script", name);
    return found != NULL ? found->object : NULL;
}

void run_params(run_side *side, const run_statement *s, cls_params *params)
{
    cls_params_init(params);
    for (uint32_t i = 0; i < s->words; i++) {
        char what[80];
        const char *const key = s->word[i].key;
        if (!is_of_params(key) || set_ids(s, key, params))
            continue;
        snprintf(what, sizeof what, "line %" PRIu32 ": %.50s", s->line, key);
        if (!cli_param_set(what, key, s->word[i].value, params))
            run_die(s, "'%.40s' is no parameter", key);
    }
    params->grammar = run_grammar_of(side, s);
}
