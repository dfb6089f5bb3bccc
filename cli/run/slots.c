/* SPDX-License-Identifier: MIT */
/* The statements of clsample run on slots. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "run/calls.h"

typedef struct slot_call {
    run_side *side;
    const run_statement *s;
    cls_sampler *sampler;
    uint32_t slot, from;
    cls_params params;
    const int32_t *prompt, *output;
    uint32_t prompts, outputs, number;
} slot_call;

#define SLOT_CALL(call, ...) \
    static cls_status call##_slot(const slot_call *c) \
    { \
        return cls_slot_##call(c->sampler, c->slot, __VA_ARGS__); \
    }
SLOT_CALL(begin, &c->params,
          &(cls_text){.struct_size = sizeof(cls_text),
                      .prompt = {c->prompt, c->prompts},
                      .output = {c->output, c->outputs}})
SLOT_CALL(params, &c->params)
SLOT_CALL(append_prompt, c->prompt, c->prompts)
SLOT_CALL(next_turn, c->prompt, c->prompts)
SLOT_CALL(force, c->prompt, c->prompts)
SLOT_CALL(rollback, c->number)
SLOT_CALL(copy, c->from)
static cls_status reset_slot(const slot_call *c) { return cls_slot_reset(c->sampler, c->slot); }

/* The bytes of a slot; size 0: the call failed with this status. */
static run_named saved_slot(run_side *side, uint32_t slot, cls_status *status)
{
    run_named saved = {.size = 0};
    run_drain(side);
    *status = cls_slot_save(side->sampler[0], side->target.queue, slot, NULL, &saved.size);
    if (*status != CLS_OK)
        return (run_named){.size = 0};
    saved.object = cli_alloc(saved.size, 1);
    *status = cls_slot_save(side->sampler[0], side->target.queue, slot, saved.object, &saved.size);
    return saved;
}

/* Slots save the place of their text's logits alone, so that the bytes are the same in any slot. */
void run_save(run_side *side, const run_statement *s)
{
    uint32_t n;
    const int32_t *const slots = run_slots(s, &n);
    const char *const name = run_find(s, "as");
    run_check_keys(s, "as", NULL);
    for (uint32_t i = 0; i < n; i++) {
        cls_status status;
        const uint32_t since = side->records;
        run_named saved = saved_slot(side, (uint32_t)run_slot(side, slots[i]), &status);
        if (status == CLS_OK)
            run_note(side, "saved", saved.object, saved.size);
        else /* a load of this name is refused, too */
            saved = (run_named){.object = cli_alloc(1, 1), .size = 1};
        if (name != NULL)
            run_name_set(side, name, saved.object, saved.size)->rules =
                status == CLS_OK ? side->rules[slots[i]] : NULL;
        run_returned(side, status, since);
    }
}

/* The bytes of a saved slot, or a part of them, or with another byte or other words of 32 bits at
 * some places. What has other words has the right checksum: FNV-1a of all bytes before it. */
static void *changed_bytes(const run_statement *s, const run_named *saved, size_t *size)
{
    enum { CHECKSUM = 8 };
    const uint64_t cut = run_number(s, "cut", saved->size);
    uint32_t places, words;
    const int32_t *const at = run_list(s, "at", &places), *const word = run_list(s, "word", &words);
    *size = (size_t)(cut < saved->size + 1024 ? cut : saved->size + 1024);
    unsigned char *const bytes = cli_alloc(*size + 1, 1);
    memcpy(bytes, saved->object, *size < saved->size ? *size : saved->size);
    if (run_find(s, "byte") != NULL && places == 1 && (uint32_t)at[0] < *size)
        bytes[at[0]] = (unsigned char)run_number(s, "byte", 0);
    if (words == 0 || *size < CHECKSUM)
        return bytes;
    for (uint32_t i = 0; i < words && i < places; i++)
        for (uint32_t k = 0; k < 4 && (uint64_t)(uint32_t)at[i] + 4 <= *size; k++)
            bytes[(uint32_t)at[i] + k] = (unsigned char)((uint32_t)word[i] >> 8 * k);
    const uint64_t hash = run_hash(RUN_HASH, bytes, *size - CHECKSUM);
    for (int i = 0; i < CHECKSUM; i++)
        bytes[*size - CHECKSUM + (size_t)i] = (unsigned char)(hash >> 8 * i);
    return bytes;
}

void run_load(run_side *side, const run_statement *s)
{
    uint32_t n;
    const int32_t *const slots = run_slots(s, &n);
    const char *const path = run_find(s, "file");
    run_named read = {.rules = s};
    if (path != NULL)
        read.object = cli_bytes_read(run_path(s, path), &read.size);
    const run_named *const saved = path != NULL ? &read : run_name_find(side, run_value(s, "from"));
    const cls_grammar *const grammar = run_grammar_of(side, s);
    run_check_keys(s, "from file grammar cut at byte word", NULL);
    if (saved == NULL || saved->size == 0)
        run_die(s, "from=%.40s is no saved slot of this script", run_value(s, "from"));
    size_t size;
    const void *const bytes = changed_bytes(s, saved, &size);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t since = side->records;
        cls_status status = CLS_OK;
        for (uint32_t k = 0; k < run_samplers(side) && status == CLS_OK; k++)
            status = cli_compile_done(cls_slot_load(
                side->sampler[k], (uint32_t)run_slot(side, slots[i]), bytes, size, grammar));
        if (status == CLS_OK)
            side->rules[slots[i]] = saved->rules;
        run_returned(side, status, since);
    }
}

void run_move(run_side *side)
{
    for (uint32_t slot = 0; side->sampler[0] != NULL && slot < side->sampler_options.slot_count;
         slot++) {
        const run_statement *const rules = side->rules[slot];
        cls_status status;
        const run_named saved = saved_slot(side, slot, &status);
        if (status != CLS_OK) /* it has no request */
            continue;
        status = cls_slot_load(side->sampler[0], slot, saved.object, saved.size,
                               rules != NULL ? run_grammar_of(side, rules) : NULL);
        if (status != CLS_OK && strstr(cls_error_message(), "grammar is not the one") == NULL)
            run_die(side->now, "%s: slot %" PRIu32 " is saved, but cannot be loaded: %s",
                    side->name, slot, cls_error_message());
        cli_free(saved.object);
    }
}

void run_same(run_side *side, const run_statement *s)
{
    uint32_t n;
    const int32_t *const slots = run_slots(s, &n);
    const char *const name = run_find(s, "as");
    run_named first = {.size = 0};
    int32_t equal = 1;
    run_check_keys(s, "as", NULL);
    if (name != NULL && run_name_find(side, name) == NULL)
        run_die(s, "as=%.40s is no saved slot of this script", name);
    if (name != NULL)
        first = *run_name_find(side, name);
    for (uint32_t i = 0; i < n; i++) {
        cls_status status;
        const run_named saved = saved_slot(side, (uint32_t)run_slot(side, slots[i]), &status);
        if (status != CLS_OK)
            run_die(s, "slot %" PRId32 ": %s", slots[i], cls_error_message());
        if (i == 0 && name == NULL)
            first = saved;
        else if (saved.size != first.size || memcmp(saved.object, first.object, saved.size) != 0)
            equal = 0;
    }
    run_note(side, "equal", &equal, sizeof equal);
}

/* The slot calls, and the words that each knows beside its slots; NULL: parameters. */
static const struct verb {
    const char *name;
    cls_status (*call)(const slot_call *c);
    const char *keys;
} verbs[] = {
    {"begin", begin_slot, NULL},
    {"params", params_slot, NULL},
    {"append", append_prompt_slot, "prompt"},
    {"turn", next_turn_slot, "prompt"},
    {"force", force_slot, "ids"},
    {"copy", copy_slot, "from"},
    {"rollback", rollback_slot, "count"},
    {"reset", reset_slot, ""},
};

void run_slot_call(run_side *side, const run_statement *s)
{
    const struct verb *verb = verbs;
    slot_call c = {.side = side, .s = s};
    uint32_t n;
    while (strcmp(verb->name, s->verb) != 0)
        verb++;
    const int32_t *const slots = run_slots(s, &n);
    if (verb->keys != NULL)
        run_check_keys(s, verb->keys, NULL);
    else
        run_params(side, s, &c.params);
    c.prompt = run_list(s, verb->call == force_slot ? "ids" : "prompt", &c.prompts);
    c.output = run_list(s, "output", &c.outputs);
    c.number = run_count(s, "count", 0);
    c.from = (uint32_t)run_slot(side, (int32_t)run_count(s, "from", 0));
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t since = side->records;
        cls_status status = CLS_OK;
        const uint32_t place = (uint32_t)slots[i], count = side->sampler_options.slot_count;
        c.slot = (uint32_t)run_slot(side, slots[i]);
        for (uint32_t k = 0; k < run_samplers(side) && status == CLS_OK; k++) {
            c.sampler = side->sampler[k];
            status = cli_compile_done(verb->call(&c));
        }
        if (status == CLS_OK && place < count && verb->keys == NULL)
            side->rules[place] = s;
        if (status == CLS_OK && place < count && verb->call == copy_slot)
            side->rules[place] = side->rules[run_count(s, "from", 0)];
        if (status == CLS_OK && side->way == RUN_EACH)
            run_flush(side);
        run_returned(side, status, since);
    }
}
