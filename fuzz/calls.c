/* SPDX-License-Identifier: MIT */
/* Target: calls on the host. The input says which slot calls, steps, acceptances, verifications and
 * look-ups are made. Two samplers get the same ones, but the slots of the second are saved and
 * loaded between them: everything that they return and write, and their slots, must be equal.
 *
 * The first byte selects what the samplers keep of a request. */
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "request/request.h"

enum { VOCAB = 40, SLOTS = 3, ROWS = 6, IDS = 12, LISTED = 3, MOST_CALLS = 40, MOST = 1 << 16 };
enum { SIDES = 2 };
static input rest;
static cls_sampler *sampler[SIDES];
static cls_grammar *grammar;

/* What a call writes: of rows, or of two requests with the places of their tokens. */
enum { PLACES = 2 * ROWS };
static struct {
    int32_t tokens[PLACES], nodes[PLACES], status[PLACES], token_status[PLACES], ranks[PLACES];
    int32_t kept[PLACES], top[PLACES * LISTED], sets[PLACES], set[PLACES * IDS];
    int32_t latest[SLOTS], counters[3 * SLOTS];
    float logprobs[PLACES], entropy[PLACES], mass[PLACES], probs[PLACES * VOCAB];
} result;

static uint32_t below(uint32_t n) { return take_byte(&rest) % n; }

/* An id, which is outside the vocabulary now and then. */
static int32_t any_id(void) { return (int32_t)below(VOCAB + 2) - 1; }

static uint32_t take_ids(int32_t *ids, uint32_t most)
{
    const uint32_t n = below(most + 1);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = any_id();
    return n;
}

#define MEMORY(array) \
    ((cls_buffer){.pointer = (array), .size = sizeof(array), .kind = CLS_BUFFER_HOST})

/* --------------------------------------------------------------------- requests */

/* Sets some parameters, of which those stay that the library accepts together. */
static void take_params(cls_params *p)
{
    static const int32_t ids[] = {1, 2, 3, 5, 8};
    static const cls_ids sequences[] = {{ids, 1}, {ids + 1, 2}};
    static const cls_logit_bias biases[] = {{3, 2.0f}, {1, -INFINITY}, {8, 4.0f}};
    uint32_t ids_of_fields = 0;
    while (cls_param_by_id(ids_of_fields + 1) != NULL)
        ids_of_fields++;
    cls_params_init(p);
    const uint32_t lists = take_byte(&rest);
    p->stop_ids = (cls_ids){ids, lists & 1 ? 2 : 0};
    p->logit_bias = (cls_biases){biases, lists & 2 ? 3 : 0};
    p->bad_words = (cls_sequences){sequences, lists & 4 ? 2 : 0};
    p->dry_breakers = (cls_sequences){sequences, lists & 8 ? 1 : 0};
    p->allowed_ids = (cls_ids){ids, lists & 16 ? 5 : 0};
    p->grammar = lists & 32 ? grammar : NULL;
    if (lists & 64) {
        p->thinking_start = (cls_ids){ids, lists & 128 ? 1 : 0};
        p->thinking_end = (cls_ids){ids + 3, 1};
        p->thinking_forced = (cls_ids){ids + 1, 3};
    }
    for (uint32_t n = below(8); n > 0; n--) {
        const cls_param *const param = cls_param_by_id(1 + below(ids_of_fields));
        const uint8_t byte = take_byte(&rest);
        const cls_params before = *p;
        if (strstr(param->field, ".count") != NULL)
            continue;
        const float real = (float)byte / 64.0f;
        memset(cls_param_in(param, p), 0, param->size);
        if (param->type == CLS_PARAM_FLOAT)
            memcpy(cls_param_in(param, p), &real, sizeof real);
        else /* of little-endian numbers the lowest byte */
            memcpy(cls_param_in(param, p), &byte, 1);
        if (cls_params_check(p, VOCAB) != CLS_OK)
            *p = before;
    }
}

static cls_status slot_call(cls_sampler *s)
{
    int32_t ids[IDS], output[IDS];
    cls_params params;
    const uint32_t which = below(8), slot = below(SLOTS), number = below(6), n = take_ids(ids, IDS);
    if (which < 2)
        take_params(&params);
    switch (which) {
    case 0:
        return cls_slot_begin(s, slot, &params, ids, n, output, take_ids(output, IDS));
    case 1:
        return cls_slot_params(s, slot, &params);
    case 2:
        return cls_slot_append_prompt(s, slot, ids, n);
    case 3:
        return cls_slot_next_turn(s, slot, ids, n);
    case 4:
        return cls_slot_force(s, slot, ids, n);
    case 5:
        return cls_slot_copy(s, slot, number % SLOTS);
    case 6:
        return cls_slot_rollback(s, slot, number);
    default:
        return cls_slot_reset(s, slot);
    }
}

/* ------------------------------------------------------------------------ steps */

/* Logits between -8 and 8, the same ones many times, and now and then no numbers. */
static cls_buffer take_logits(void)
{
    static float logits[ROWS * VOCAB];
    const uint32_t seed = take_u32(&rest), odd = take_byte(&rest);
    for (uint32_t i = 0, x = seed; i < ROWS * VOCAB; i++) {
        x = x * 1664525u + 1013904223u;
        logits[i] = (float)(x >> 24) / 16.0f - 8.0f;
        if ((x >> 8 & 255) < (odd & 15) << 2)
            logits[i] = odd & 16 ? NAN : odd & 32 ? INFINITY : -INFINITY;
    }
    return MEMORY(logits);
}

static void take_outputs(cls_outputs *o)
{
    const uint32_t wanted = take_byte(&rest);
    cls_outputs_init(o);
    o->logprob_kind = (int32_t)(wanted & 1);
    o->logprobs = MEMORY(result.logprobs);
    o->ranks = MEMORY(result.ranks);
    o->entropy = MEMORY(result.entropy);
    o->kept_mass = MEMORY(result.mass);
    o->kept.counts = MEMORY(result.kept);
    o->top.count = LISTED;
    o->top.ids = MEMORY(result.top);
    if (wanted & 2) {
        o->kept_set.capacity = IDS;
        o->kept_set.ids = MEMORY(result.set);
        o->kept_set.counts = MEMORY(result.sets);
    }
}

/* Sets a mask of bytes and a bias, of one row each, for all rows. */
static void take_guides(cls_mask *mask, cls_dense_bias *bias)
{
    static const int32_t none[ROWS];
    static uint8_t allowed[VOCAB];
    static float values[VOCAB];
    const uint32_t what = take_byte(&rest), step = 1 + below(7);
    for (uint32_t i = 0; i < VOCAB; i++) {
        allowed[i] = i % step == 0;
        values[i] = i % step == 1 ? -INFINITY : (float)(i % step);
    }
    if (what & 1) {
        mask->host = allowed;
        mask->kind = CLS_MASK_BOOL;
        mask->row_map.host = none;
        mask->rows = 1;
    }
    if (what & 2) {
        bias->values = MEMORY(values);
        bias->row_map.host = none;
        bias->rows = 1;
        bias->factor = what & 4 ? -0.5f : 0.0f;
    }
}

static cls_status step(cls_sampler *s)
{
    int32_t slots[ROWS], draws[ROWS];
    cls_outputs outputs;
    cls_step call;
    cls_step_init(&call);
    call.rows = 1 + below(ROWS);
    for (uint32_t i = 0; i < call.rows; i++) {
        slots[i] = (int32_t)below(SLOTS + 1) - 1;
        draws[i] = (int32_t)below(3);
    }
    call.slots.host = slots;
    call.draws.host = draws;
    call.defer_accept = (int32_t)below(2);
    call.logits.values = take_logits();
    take_guides(&call.mask, &call.bias);
    take_outputs(&outputs);
    outputs.probs = MEMORY(result.probs);
    call.outputs = &outputs;
    call.tokens = MEMORY(result.tokens);
    call.status = MEMORY(result.status);
    return cls_sample(s, NULL, &call, 0, NULL, NULL);
}

static cls_status accept_tokens(cls_sampler *s)
{
    int32_t slots[SLOTS], counts[SLOTS], back[SLOTS], tokens[SLOTS * LISTED];
    const uint32_t how = take_byte(&rest);
    cls_accept_call call;
    cls_accept_call_init(&call);
    call.rows = 1 + below(SLOTS);
    call.per_row = 1 + below(LISTED);
    for (uint32_t i = 0; i < call.rows; i++) {
        slots[i] = (int32_t)((i + how) % SLOTS);
        counts[i] = (int32_t)below(call.per_row + 1);
        back[i] = (int32_t)below(5);
    }
    for (uint32_t i = 0; i < call.rows * call.per_row; i++)
        tokens[i] = any_id();
    call.slots.host = slots;
    call.tokens.host = tokens;
    call.counts.host = how & 4 ? counts : NULL;
    call.rollback.host = how & 8 ? back : NULL;
    return cls_accept(s, NULL, &call, 0, NULL, NULL);
}

static cls_status verify(cls_sampler *s)
{
    const int32_t row_offsets[] = {0, 1 + (int32_t)below(3), ROWS};
    const int32_t slots[] = {(int32_t)below(SLOTS), (int32_t)below(SLOTS + 1) - 1};
    int32_t ids[ROWS], parents[ROWS];
    float probs[ROWS * VOCAB];
    cls_outputs outputs;
    cls_verify_call call;
    cls_verify_call_init(&call);
    call.requests = 2;
    call.method = (int32_t)below(5);
    call.row_offsets = row_offsets;
    call.slots.host = slots;
    call.logits.values = take_logits();
    for (uint32_t i = 0; i < ROWS; i++) {
        ids[i] = any_id();
        parents[i] = (int32_t)below(3) - 1;
    }
    for (uint32_t i = 0; i < ROWS * VOCAB; i++)
        probs[i] = (float)((i * 7 + (uint32_t)ids[i % ROWS]) % 11) / (VOCAB * 5.0f);
    call.draft_ids.host = ids;
    call.draft_kind = (int32_t)below(3);
    if (call.draft_kind != CLS_DRAFT_NONE)
        call.draft = MEMORY(probs);
    call.parents.host = below(4) == 0 ? parents : NULL;
    call.disable_bonus = (int32_t)below(2);
    take_guides(&call.mask, &call.bias);
    take_outputs(&outputs);
    call.outputs = below(2) ? &outputs : NULL;
    call.token_status = MEMORY(result.token_status);
    call.tokens = MEMORY(result.tokens);
    call.status = MEMORY(result.status);
    call.nodes = MEMORY(result.nodes);
    call.latest = MEMORY(result.latest);
    call.counters = MEMORY(result.counters);
    return cls_verify(s, NULL, &call, 0, NULL, NULL);
}

static cls_status look_up(cls_sampler *s)
{
    const int32_t slots[] = {(int32_t)below(SLOTS + 1) - 1, (int32_t)below(SLOTS)};
    cls_draft_call call;
    cls_draft_call_init(&call);
    call.requests = 2;
    call.k = 1 + below(3);
    call.max_n = 2 + below(3);
    call.min_n = 1 + below(3);
    call.slots.host = slots;
    call.draft_ids = MEMORY(result.tokens);
    call.counts = MEMORY(result.kept);
    return cls_draft(s, NULL, &call, 0, NULL, NULL);
}

/* ------------------------------------------------------------------ saved slots */

/* Saves a slot. Returns 0 if it has no request, or none any more. */
static size_t save(cls_sampler *s, uint32_t slot, uint8_t bytes[MOST])
{
    size_t size = MOST;
    return cls_slot_save(s, NULL, slot, bytes, &size) == CLS_OK ? size : 0;
}

static cls_status load(cls_sampler *s, uint32_t slot, const uint8_t *bytes, size_t size)
{
    uint8_t *const own = malloc(size); /* so that a sanitizer finds reads beyond it */
    demand(own != NULL, "out of memory");
    memcpy(own, bytes, size);
    cls_status status = cls_slot_load(s, slot, own, size, NULL);
    if (status != CLS_OK)
        status = cls_slot_load(s, slot, own, size, grammar);
    free(own);
    return status;
}

/* Saves all slots, which must be equal, and loads those of the second sampler. */
static void move_slots(void)
{
    static uint8_t bytes[SIDES][MOST];
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        const size_t size = save(sampler[0], slot, bytes[0]);
        demand(save(sampler[1], slot, bytes[1]) == size && memcmp(bytes[0], bytes[1], size) == 0,
               "slot %u is saved as other bytes", slot);
        demand(size == 0 || load(sampler[1], slot, bytes[1], size) == CLS_OK,
               "slot %u is saved, but cannot be loaded: %s", slot, cls_error_message());
    }
}

/* Loads a slot whose bytes have changed, with the right checksum. */
static cls_status load_changed(cls_sampler *s)
{
    static uint8_t bytes[MOST];
    const uint32_t from = below(SLOTS), to = below(SLOTS);
    const size_t size = save(s, from, bytes), checksum = sizeof(uint64_t);
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    if (size == 0)
        return CLS_OK;
    for (uint32_t n = below(4); n > 0; n--) {
        const size_t at = take_u32(&rest) % (size - checksum);
        bytes[at] = take_byte(&rest);
    }
    for (size_t i = 0; i < size - checksum; i++)
        h = (h ^ bytes[i]) * 0x100000001b3u;
    for (size_t i = 0; i < checksum; i++)
        bytes[size - checksum + i] = (uint8_t)(h >> 8 * i);
    return load(s, to, bytes, size);
}

/* ------------------------------------------------------------------------- all */

/* Makes the next call on both samplers. */
static void call_both(void)
{
    static cls_status (*const calls[])(cls_sampler *) = {
        slot_call, slot_call, slot_call, step, step, accept_tokens, verify, look_up, load_changed};
    enum { CALLS = sizeof calls / sizeof *calls };
    const uint32_t which = below(CALLS);
    const input from = rest;
    static uint8_t first[sizeof result];
    cls_status status[SIDES];
    for (int i = 0; i < SIDES; i++) {
        rest = from;
        memset(&result, 0, sizeof result);
        status[i] = calls[which](sampler[i]);
        demand(status[i] == CLS_OK || (status[i] == CLS_BAD_ARGUMENT && *cls_error_message()),
               "call %u returns %s: %s", which, cls_status_name(status[i]), cls_error_message());
        if (i == 0)
            memcpy(first, &result, sizeof result);
    }
    demand(status[0] == status[1], "call %u: one sampler refuses it: %s", which,
           cls_error_message());
    demand(memcmp(first, &result, sizeof result) == 0, "call %u: the results differ", which);
    for (uint32_t i = 0; i < PLACES; i++)
        demand(result.tokens[i] >= -1 && result.tokens[i] < VOCAB && result.status[i] >= 0,
               "call %u: token %d, status %d", which, (int)result.tokens[i], (int)result.status[i]);
}

/* Two states: any even id leads to the second, which allows the ids below 16 and may end. */
static void make_grammar(void)
{
    static const uint64_t offsets[] = {0, VOCAB / 2, VOCAB / 2 + 15};
    static const uint8_t final_states[] = {0, 1};
    static const int32_t end[] = {15};
    int32_t ids[VOCAB / 2 + 15];
    uint32_t next[VOCAB / 2 + 15];
    for (uint32_t i = 0; i < VOCAB / 2 + 15; i++) {
        ids[i] = (int32_t)(i < VOCAB / 2 ? 2 * i : i - VOCAB / 2);
        next[i] = i < VOCAB / 2 || i % 3 == 0;
    }
    cls_grammar_options o;
    cls_grammar_options_init(&o);
    o.vocab = VOCAB;
    o.states = 2;
    o.offsets = offsets;
    o.ids = ids;
    o.next = next;
    o.final_states = final_states;
    o.end_ids = (cls_ids){end, 1};
    demand(cls_grammar_create(&o, &grammar) == CLS_OK, "%s", cls_error_message());
}

static void open_samplers(void)
{
    const uint32_t how = take_byte(&rest);
    static const int32_t ends[] = {4};
    int32_t prefix_of[VOCAB];
    cls_infill infill = {sizeof infill, {ends, 1}, prefix_of};
    cls_sampler_options o;
    cls_params params;
    cls_context *host;
    cls_sampler_options_init(&o);
    o.vocab = VOCAB;
    o.max_rows = ROWS;
    o.slot_count = SLOTS;
    o.counts = (int32_t)(how % 3);
    o.max_history = how & 4 ? 0 : how & 8 ? 7 : 40;
    o.max_rollback = how & 16 ? 0 : how & 32 ? 2 : 8;
    o.features = CLS_FEATURES_ALL & ~(how & 64 ? CLS_FEATURE_VERIFY : 0u);
    for (int32_t i = 0; i < VOCAB; i++)
        prefix_of[i] = i > 10 ? i / 10 : -1;
    demand(cls_context_create_host(NULL, &host) == CLS_OK, "%s", cls_error_message());
    for (int i = 0; i < SIDES; i++)
        demand(cls_sampler_create(host, &o, &sampler[i]) == CLS_OK &&
                   cls_sampler_infill(sampler[i], &infill) == CLS_OK,
               "%s", cls_error_message());
    cls_context_destroy(host);
    cls_params_init(&params);
    for (uint32_t i = 0; i < SIDES * SLOTS; i++) /* so that most calls find a request */
        demand(cls_slot_begin(sampler[i % SIDES], i / SIDES, &params, NULL, 0, NULL, 0) == CLS_OK,
               "%s", cls_error_message());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rest = (input){data, size};
    make_grammar();
    open_samplers();
    for (int n = 0; n < MOST_CALLS && rest.size != 0; n++) {
        call_both();
        move_slots();
    }
    for (int i = 0; i < SIDES; i++)
        cls_sampler_destroy(sampler[i]);
    cls_grammar_destroy(grammar);
    return 0;
}
