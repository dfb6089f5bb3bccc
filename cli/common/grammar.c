/* SPDX-License-Identifier: MIT */
/* Reads a grammar that was saved, or from JSON: {"transitions": [{"ID": STATE, ...}, ...], "final":
 * [STATE, ...], "end_ids": [ID, ...], "draft_ids": [ID, ...]}, with an object and a draft token for
 * each state, from state 0 on. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/params.h"

typedef struct transition {
    int32_t id;
    uint32_t next;
} transition;

static int by_id(const void *a, const void *b)
{
    const int32_t x = ((const transition *)a)->id, y = ((const transition *)b)->id;
    return (x > y) - (x < y);
}

/* Returns whether a state allows an id. */
static bool allows(const cls_grammar_options *o, uint32_t s, int32_t id, const bool *ends)
{
    uint64_t i = o->offsets[s];
    while (i < o->offsets[s + 1] && o->ids[i] != id)
        i++;
    return i < o->offsets[s + 1] ||
           (o->final_states[s] && id >= 0 && (uint32_t)id < o->vocab && ends[id]);
}

const char *cli_grammar_fault(const cls_grammar_options *o, const char *final, const char *end,
                              const char *drafts)
{
    static char text[256];
    bool *const ends = cli_alloc(o->vocab, sizeof *ends);
    if (o->states == 0)
        return "there is no state";
    for (uint32_t i = 0; i < o->end_ids.count; i++) {
        const int32_t id = o->end_ids.ids[i];
        if (id < 0 || (uint32_t)id >= o->vocab) {
            snprintf(text, sizeof text,
                     "%s: %" PRId32 " is not a token of a vocabulary of %" PRIu32, end, id,
                     o->vocab);
            return text;
        }
        ends[id] = true;
    }
    for (uint32_t s = 0; s < o->states; s++) {
        const bool is_final = o->final_states[s] != 0;
        int n = snprintf(text, sizeof text, "state %" PRIu32, s);
        char *const to = text + n;
        const size_t room = sizeof text - (size_t)n;
        if (is_final && o->end_ids.count == 0) {
            snprintf(to, room, " is final, but %s has no token", end);
            return text;
        }
        if (o->offsets[s] == o->offsets[s + 1] && !is_final) {
            snprintf(to, room, " has no transition, and is not in %s", final);
            return text;
        }
        for (uint64_t i = o->offsets[s]; i < o->offsets[s + 1]; i++) {
            const int32_t id = o->ids[i];
            if (id < 0 || (uint32_t)id >= o->vocab)
                snprintf(to, room, ": %" PRId32 " is not a token of a vocabulary of %" PRIu32, id,
                         o->vocab);
            else if (i > o->offsets[s] && id == o->ids[i - 1])
                snprintf(to, room, " has token %" PRId32 " twice", id);
            else if (o->next[i] >= o->states)
                snprintf(to, room,
                         ": token %" PRId32 " leads to state %" PRIu32
                         ", and the last one is %" PRIu32,
                         id, o->next[i], o->states - 1);
            else if (ends[id])
                snprintf(to, room, ": token %" PRId32 " is in %s, too", id, end);
            else
                continue;
            return text;
        }
        if (o->draft_ids != NULL && o->draft_ids[s] != -1 && !allows(o, s, o->draft_ids[s], ends)) {
            snprintf(to, room, " does not allow %" PRId32 ", which %s gives it", o->draft_ids[s],
                     drafts);
            return text;
        }
    }
    return NULL;
}

/* The number that a text is, or -1. */
static int64_t number(const char *text)
{
    char *end;
    const long n = strtol(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && n <= INT32_MAX ? n : -1;
}

static json_t *member(const char *path, json_t *object, const char *key)
{
    json_t *const found = json_object_get(object, key);
    if (found != NULL && !json_is_array(found))
        cli_die("%s: \"%s\" is not an array", path, key);
    return found;
}

/* Sets the transitions of a state from its object, in the order of their ids. */
static void read_state(const char *path, size_t state, json_t *object, transition *to)
{
    const char *key;
    json_t *value;
    size_t n = 0;
    if (!json_is_object(object))
        cli_die("%s: \"transitions\": state %zu is not an object", path, state);
    json_object_foreach(object, key, value)
    {
        const int64_t id = number(key);
        const json_int_t next = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0)
            cli_die("%s: \"transitions\": state %zu: \"%.32s\" is no token id", path, state, key);
        if (next < 0 || next > UINT32_MAX)
            cli_die("%s: \"transitions\": state %zu: the state after token %s is not a number of a "
                    "state",
                    path, state, key);
        to[n++] = (transition){(int32_t)id, (uint32_t)next};
    }
    qsort(to, n, sizeof *to, by_id);
}

static void read_transitions(const char *path, json_t *states, cls_grammar_options *o)
{
    const size_t n = json_array_size(states);
    uint64_t *const offsets = cli_alloc(n + 1, sizeof *offsets);
    size_t most = 0;
    for (size_t s = 0; s < n; s++) {
        const size_t size = json_object_size(json_array_get(states, s));
        offsets[s + 1] = offsets[s] + size;
        most = size > most ? size : most;
    }
    transition *const list = cli_alloc(most, sizeof *list);
    int32_t *const ids = cli_alloc(offsets[n], sizeof *ids);
    uint32_t *const next = cli_alloc(offsets[n], sizeof *next);
    for (size_t s = 0; s < n; s++) {
        read_state(path, s, json_array_get(states, s), list);
        for (uint64_t i = offsets[s]; i < offsets[s + 1]; i++) {
            ids[i] = list[i - offsets[s]].id;
            next[i] = list[i - offsets[s]].next;
        }
    }
    cli_free(list);
    o->states = n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
    o->offsets = offsets;
    o->ids = ids;
    o->next = next;
}

static void read_final(const char *path, json_t *final, cls_grammar_options *o)
{
    uint8_t *const flags = cli_alloc(o->states, 1);
    size_t i;
    json_t *value;
    json_array_foreach(final, i, value)
    {
        const json_int_t state = json_is_integer(value) ? json_integer_value(value) : -1;
        if (state < 0 || state >= (json_int_t)o->states)
            cli_die("%s: \"final\"[%zu] is not a state: there %s %" PRIu32, path, i,
                    o->states == 1 ? "is" : "are", o->states);
        flags[state] = 1;
    }
    o->final_states = flags;
}

static void read_drafts(const char *path, json_t *drafts, cls_grammar_options *o)
{
    int32_t *const ids = cli_alloc(o->states, sizeof *ids);
    size_t i;
    json_t *value;
    if (drafts != NULL && json_array_size(drafts) != o->states)
        cli_die("%s: \"draft_ids\" has %zu elements, and \"transitions\" %" PRIu32, path,
                json_array_size(drafts), o->states);
    json_array_foreach(drafts, i, value)
    {
        const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -2;
        if (id < -1 || id > INT32_MAX)
            cli_die("%s: \"draft_ids\"[%zu] is neither an id nor -1", path, i);
        ids[i] = (int32_t)id;
    }
    o->draft_ids = drafts != NULL ? ids : NULL;
}

void cli_grammar_digest(const cls_grammar *grammar, char digest[CLI_DIGEST])
{
    cls_grammar_info info;
    cls_grammar_info_init(&info);
    if (cls_grammar_query(grammar, &info) != CLS_OK)
        cli_die("grammar: %s", cls_error_message());
    for (size_t i = 0; i < sizeof info.digest; i++)
        snprintf(&digest[2 * i], 3, "%02x", info.digest[i]);
}

/* A grammar that cls_grammar_save() wrote, or NULL: the file has something else. */
static cls_grammar *read_saved(const char *path, uint32_t vocab)
{
    size_t size;
    cls_saved_grammar saved;
    cls_grammar_info info;
    cls_grammar *grammar;
    void *const bytes = cli_bytes_read(path, &size);
    cls_saved_grammar_init(&saved);
    cls_grammar_info_init(&info);
    if (size < 4 || memcmp(bytes, "CLSG", 4) != 0) {
        cli_free(bytes);
        return NULL;
    }
    saved.bytes = bytes;
    saved.size = size;
    if (cls_grammar_load(&saved, &grammar) != CLS_OK || cls_grammar_query(grammar, &info) != CLS_OK)
        cli_die("%s: %s", path, cls_error_message());
    if (info.vocab != vocab)
        cli_die("%s: the grammar is of a vocabulary of %" PRIu32 " tokens, not of %" PRIu32, path,
                info.vocab, vocab);
    cli_free(bytes);
    return grammar;
}

cls_grammar *cli_grammar_read(const char *path, uint32_t vocab)
{
    static const char *const keys[] = {"transitions", "final", "end_ids", "draft_ids"};
    cls_grammar_options o;
    cls_grammar *grammar;
    const char *key;
    json_t *value;
    if (cli_kind_of(path) == CLI_REGULAR && (grammar = read_saved(path, vocab)) != NULL)
        return grammar;
    json_t *const object = cli_json_read(path);
    if (!json_is_object(object))
        cli_die("%s: the grammar is not an object", path);
    json_object_foreach(object, key, value)
    {
        size_t i = 0;
        while (i < sizeof keys / sizeof *keys && strcmp(key, keys[i]) != 0)
            i++;
        if (i == sizeof keys / sizeof *keys)
            cli_die("%s: \"%.64s\" is not a known key; a grammar has \"transitions\", \"final\", "
                    "\"end_ids\" and \"draft_ids\"",
                    path, key);
    }
    cls_grammar_options_init(&o);
    o.vocab = vocab;
    read_transitions(path, member(path, object, keys[0]), &o);
    read_final(path, member(path, object, keys[1]), &o);
    value = member(path, object, keys[2]);
    if (value != NULL) {
        char what[PATH_MAX + 16];
        snprintf(what, sizeof what, "%s: \"end_ids\"", path);
        cli_ids_from_json(what, value, &o.end_ids);
    }
    read_drafts(path, member(path, object, keys[3]), &o);
    const char *const fault = cli_grammar_fault(&o, "\"final\"", "\"end_ids\"", "\"draft_ids\"");
    if (fault != NULL)
        cli_die("%s: %s", path, fault);
    if (cls_grammar_create(&o, &grammar) != CLS_OK)
        cli_die("%s: %s", path, cls_error_message());
    json_decref(object);
    return grammar;
}
