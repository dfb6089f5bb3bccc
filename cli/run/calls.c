/* SPDX-License-Identifier: MIT */
/* The statements of clsample run that enqueue; drafts.c has verifications. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/run.h"

/* ----------------------------------------------------------------------- steps */

static const char step_keys[] =
    RUN_INPUT_KEYS "rows slots positions draws logits_map random_bits outputs defer";

typedef struct step_call {
    uint32_t rows, logits_rows;
    run_map slots, positions, draws;
    const uint64_t *random;
    run_inputs in;
    cls_step fields; /* what statements set by its name */
    int32_t own_slot;
} step_call;

static step_call read_step(run_side *side, const run_statement *s)
{
    const uint32_t most = side->sampler_options.max_rows;
    step_call c = {.rows = 0};
    uint64_t number[3];
    run_begin_call(s, step_keys, "cls_step", &c.fields, sizeof c.fields);
    const char *const random = run_find(s, "random_bits");
    c.fields.rows = run_rows_of(s, "rows", run_least(most, side->sampler_options.slot_count));
    c.fields.defer_accept = (int32_t)run_count(s, "defer", (uint32_t)c.fields.defer_accept);
    c.rows = run_least(c.fields.rows, most);
    c.logits_rows = run_least(c.fields.logits_rows != 0 ? c.fields.logits_rows : c.rows, most);
    c.slots = run_map_read(s, "slots", c.rows);
    c.positions = run_map_read(s, "positions", c.rows);
    c.draws = run_map_read(s, "draws", c.rows);
    c.in = run_inputs_read(side, s, c.logits_rows, c.rows);
    c.in.map[CLI_LOGITS] = run_map_read(s, "logits_map", c.rows);
    if (random != NULL && !run_is(s, random, "edges", number)) {
        if (!run_is(s, random, "random", number))
            run_die(s, "random_bits=%.40s is neither random:SEED nor edges:SEED", random);
        uint64_t *const bits = cli_alloc(c.rows + (size_t)1, sizeof *bits);
        rng r = {number[0]};
        for (uint32_t i = 0; i < c.rows; i++)
            bits[i] = rng_bits(&r);
        c.random = bits;
    }
    return c;
}

/* random_bits=edges:SEED: the host finds the first or the last number that draws a token. */
static void find_edges(run_side *side, const run_statement *s, step_call *c)
{
    const char *const random = run_find(s, "random_bits");
    const run_side *const of = side->reference;
    const size_t size = c->rows * sizeof *c->random;
    uint64_t number[3], *const bits = cli_alloc(c->rows + (size_t)1, sizeof *bits);
    if (random == NULL || !run_is(s, random, "edges", number))
        return;
    const run_record *const found = of != NULL ? run_record_of(of, side->index, "edges") : NULL;
    if (found != NULL)
        memcpy(bits, found->bytes, size);
    for (uint32_t row = 0; of == NULL && row < c->rows; row++)
        bits[row] = run_edge(side, s, row, number[0]);
    run_note(side, "edges", bits, size);
    c->random = bits;
}

/* Whether rows of one step share a slot, which makes their order matter. */
static bool shares_slots(const step_call *c)
{
    for (uint32_t i = 0; c->slots.value != NULL && i < c->rows; i++)
        for (uint32_t k = 0; k < i; k++)
            if (c->slots.value[i] == c->slots.value[k] && c->slots.value[i] >= 0)
                return true;
    return false;
}

static void turn_step(run_side *side, step_call *c)
{
    run_place_slots(side, &c->slots, c->rows);
    if (!side->reverses)
        return;
    run_inputs_turn(&c->in, c->rows);
    run_map_turn(&c->slots, c->rows);
    run_map_turn(&c->positions, c->rows);
    run_map_turn(&c->draws, c->rows);
    if (c->random != NULL)
        c->random = run_turned(c->random, c->rows, sizeof *c->random);
}

/* Sets a step of rows from `first` on: all of them, or one. */
static void make_step(run_side *side, step_call *c, uint32_t first, uint32_t rows, uint32_t shard,
                      cls_step *step)
{
    const bool whole = rows == c->rows;
    *step = c->fields;
    if (!whole) {
        step->rows = rows;
        step->logits_rows = c->in.map[CLI_LOGITS].value != NULL ? c->logits_rows : rows;
    }
    step->logits = c->in.map[CLI_LOGITS].value != NULL || whole
                       ? run_logits(side, &c->in, 0, c->logits_rows, shard)
                       : run_logits(side, &c->in, first, rows, shard);
    step->slots = run_map_put(side, &c->slots, first, rows);
    if (!whole && c->slots.value == NULL) {
        c->own_slot = (int32_t)first;
        step->slots.host = &c->own_slot;
    }
    step->positions = run_map_put(side, &c->positions, first, rows);
    step->draws = run_map_put(side, &c->draws, first, rows);
    step->logits_map = run_map_put(side, &c->in.map[CLI_LOGITS], first, rows);
    run_guides(side, &c->in, first, rows, &step->mask, &step->bias);
    if (c->random != NULL)
        step->random_bits = run_buffer(side, c->random + first, rows * sizeof *c->random);
}

/* Exchanges the partials of the shards' open step until it is complete. Three shards do so on the
 * device, five every other time. */
static cls_status exchange(run_side *side)
{
    const bool at_once = side->shards == 3 || (side->shards == 5 && side->index % 2);
    cls_status status = CLS_OK;
    unsigned char *partials = NULL;
    if (at_once)
        return cls_shard_merge_all(side->shard, side->shards, NULL);
    for (int more = 1; more && status == CLS_OK;) {
        size_t one = 0;
        for (uint32_t i = 0; i < side->shards && status == CLS_OK; i++) {
            const void *partial;
            status = cls_shard_partial(side->shard[i], &partial, &one);
            if (status == CLS_OK) {
                partials = cli_grow(partials, side->shards, one);
                memcpy(partials + i * one, partial, one);
            }
        }
        for (uint32_t i = 0; i < side->shards && status == CLS_OK; i++)
            status = cls_shard_merge(side->shard[i], partials, side->shards * one, &more, NULL);
    }
    cli_free(partials);
    return status;
}

static cls_status step_of_shards(run_side *side, const cls_step *steps)
{
    cls_status status = CLS_OK;
    for (uint32_t i = 0; i < side->shards && status == CLS_OK; i++)
        do
            status = cls_shard_sample(side->shard[i], side->target.queue, &steps[i], 0, NULL);
        while (run_again(side, i, &status));
    if (status == CLS_OK)
        status = exchange(side);
    for (uint32_t i = 0; i < side->shards && status != CLS_OK; i++)
        cls_shard_abandon(side->shard[i]);
    return status;
}

void run_gather(run_side *side, const run_inputs *in, uint32_t rows, cls_logits *whole)
{
    cls_status status = CLS_OK;
    for (uint32_t i = 0; i < side->shards && status == CLS_OK; i++) {
        const cls_logits own = run_logits(side, in, 0, rows, i);
        status = cls_shard_gather(side->shard[i], side->target.queue, rows, &own, 0, NULL);
    }
    if (status == CLS_OK)
        status = exchange(side);
    for (uint32_t i = 0; i < side->shards && status == CLS_OK; i++)
        status = cls_shard_logits(side->shard[i], &whole[i]);
    if (status != CLS_OK)
        run_die(side->now, "%s: %s", side->name, cls_error_message());
}

void run_join_shards(run_side *side, uint32_t since)
{
    const uint32_t each = (side->records - since) / side->shards;
    run_drain(side);
    for (uint32_t i = since + each; i < side->records; i++) {
        run_record *const a = &side->record[since + (i - since) % each];
        if (!a->near && memcmp(a->bytes, side->record[i].bytes, a->size) != 0)
            *a = side->record[i];
    }
    side->records = since + each;
}

/* Records the rows whose inputs are not those that the text's hashes are of. */
static void check_hashes(run_side *side, const run_statement *s, const step_call *c)
{
    const char *text = run_find(s, "hash");
    for (uint32_t row = 0; row < c->rows && row < c->in.of[CLI_LOGITS].rows; row++) {
        char *end;
        const unsigned long long hash = strtoull(text, &end, 16);
        if (end == text)
            run_die(s, "hash has fewer numbers than the step has rows");
        if (hash != run_hash_of_row(c->in.of, row)) {
            const int32_t changed = (int32_t)row;
            run_note(side, "changed", &changed, sizeof changed);
        }
        text = end + (*end == ',');
    }
}

void run_step_row(run_side *side, const run_statement *s, uint32_t row, cls_step *step)
{
    step_call *const c = cli_alloc(1, sizeof *c);
    *c = read_step(side, s);
    make_step(side, c, row, 1, 0, step);
}

void run_step(run_side *side, const run_statement *s)
{
    step_call c = read_step(side, s);
    find_edges(side, s, &c);
    const uint32_t shards = run_samplers(side), since = side->records;
    const bool refused = run_reference(side) != CLS_OK;
    cls_step steps[RUN_MOST_SHARDS] = {{.rows = 0}};
    run_outputs out[RUN_MOST_SHARDS];
    cls_status status = CLS_OK;
    const char *const list = run_find(s, "outputs");
    uint64_t n;
    const bool packed = run_is_listed(s, list, "packed", &n) ||
                        (list == NULL && side->outputs != NULL &&
                         run_is_listed(s, run_find(side->outputs, ""), "packed", &n));
    const bool divides = !refused && !packed && !shares_slots(&c) && c.rows == c.fields.rows;
    side->reverses = side->way == RUN_PERMUTED && divides &&
                     (c.fields.logits_rows == 0 || c.in.map[CLI_LOGITS].value != NULL);
    if (run_find(s, "hash") != NULL && side->reference == NULL)
        check_hashes(side, s, &c);
    turn_step(side, &c);
    for (uint32_t i = 0; i < shards; i++) {
        const cls_buffer tokens = run_result(side, "tokens", c.rows, 1, false),
                         words = run_result(side, "status", c.rows, 1, false);
        out[i] = run_outputs_make(side, s, c.rows, false);
        if (side->way != RUN_ALONE || !divides)
            make_step(side, &c, 0, c.rows, i, &steps[i]);
        steps[i].tokens = tokens;
        steps[i].status = words;
        run_set_all_parts(side, s, step_keys, "cls_step", &steps[i], &out[i]);
        run_check_mask(side, s, &steps[i].mask, &c.in);
        steps[i].outputs = out[i].any ? &out[i].o : NULL;
    }
    if (side->shards != 0) {
        status = step_of_shards(side, steps);
        if (status == CLS_OK)
            run_join_shards(side, since);
    } else if (side->way == RUN_ALONE && divides) {
        for (uint32_t row = 0; row < c.rows && status == CLS_OK; row++) {
            cls_step one;
            const cls_outputs of_row =
                run_outputs_of_row(&out[0], side->sampler_options.vocab, row);
            make_step(side, &c, row, 1, 0, &one);
            one.tokens = run_part_of(steps[0].tokens, row, sizeof(int32_t));
            one.status = run_part_of(steps[0].status, row, sizeof(int32_t));
            one.outputs = out[0].any ? &of_row : NULL;
            RUN_RETRY(status, side, 0, cls_sample, &one);
        }
    } else {
        RUN_RETRY(status, side, 0, cls_sample, &steps[0]);
    }
    side->reverses = false;
    run_returned(side, status, since);
}

/* ---------------------------------------------------------------- other calls */

void run_accept(run_side *side, const run_statement *s)
{
    static const char keys[] = "rows slots tokens counts rollback";
    const uint32_t since = side->records;
    cls_accept_call a;
    run_begin_call(s, keys, "cls_accept_call", &a, sizeof a);
    a.rows = run_rows_of(s, "rows", side->sampler_options.max_rows);
    const uint32_t rows = run_least(a.rows, side->sampler_options.max_rows),
                   per_row = run_least(a.per_row, CLS_MAX_ACCEPTED);
    const bool drawn = run_find(s, "tokens") != NULL && strcmp(run_find(s, "tokens"), "drawn") == 0;
    run_map slots = run_map_read(s, "slots", rows),
            tokens = drawn ? run_latest(side, "tokens", rows * per_row)
                           : run_map_read(s, "tokens", rows * per_row),
            counts = run_map_read(s, "counts", rows), back = run_map_read(s, "rollback", rows);
    run_place_slots(side, &slots, rows);
    cls_status status = CLS_OK;
    for (uint32_t i = 0; i < run_samplers(side) && status == CLS_OK; i++) {
        a.slots = run_map_put(side, &slots, 0, rows);
        a.tokens = run_map_put(side, &tokens, 0, rows * per_row);
        a.counts = run_map_put(side, &counts, 0, rows);
        a.rollback = run_map_put(side, &back, 0, rows);
        run_set_parts(side, s, keys, "", "cls_accept_call", &a);
        RUN_RETRY(status, side, i, cls_accept, &a);
    }
    run_returned(side, status, since);
}

void run_draft(run_side *side, const run_statement *s)
{
    static const char keys[] = "slots requests";
    const uint32_t since = side->records;
    cls_draft_call d;
    run_begin_call(s, keys, "cls_draft_call", &d, sizeof d);
    d.requests = run_rows_of(s, "requests", side->sampler_options.max_rows);
    const uint32_t requests = run_least(d.requests, side->sampler_options.max_rows);
    run_map slots = run_map_read(s, "slots", requests);
    run_place_slots(side, &slots, requests);
    const uint64_t k = run_least(d.k, CLS_MAX_DRAFTS), one = k * (d.ids_stride + 1),
                   apart = d.ids_request_stride != 0 ? d.ids_request_stride : one;
    const bool small = d.ids_stride <= 1024 && d.ids_request_stride <= 1 << 20;
    d.slots = run_map_put(side, &slots, 0, requests);
    /* Drafts that are too far apart are refused. */
    const uint64_t places = small ? requests * apart + one : 1;
    d.draft_ids = run_result(side, "drafts", 1, (size_t)places, false);
    d.counts = run_result(side, "counts", requests, 1, false);
    run_set_parts(side, s, keys, "", "cls_draft_call", &d);
    cls_status status;
    RUN_RETRY(status, side, 0, cls_draft, &d);
    run_returned(side, status, since);
}

void run_logprobs(run_side *side, const run_statement *s)
{
    static const char keys[] = "logits logits_pick kind dtype rows outputs";
    const uint32_t since = side->records;
    cls_logprobs_call l;
    run_begin_call(s, keys, "cls_logprobs_call", &l, sizeof l);
    const bool gathers = side->shards != 0 && run_reference(side) == CLS_OK;
    cls_logits whole[RUN_MOST_SHARDS];
    l.rows = run_count(s, "rows", side->sampler_options.max_rows);
    const uint32_t rows = run_least(l.rows, side->sampler_options.max_rows);
    const run_inputs in = run_inputs_read(side, s, rows, rows);
    if (gathers)
        run_gather(side, &in, rows, whole);
    else
        l.logits = run_logits(side, &in, 0, rows, RUN_WHOLE);
    cls_status status = CLS_OK;
    for (uint32_t i = 0; i < (gathers ? side->shards : 1) && status == CLS_OK; i++) {
        const run_outputs out = run_outputs_make(side, s, rows, true);
        if (gathers)
            l.logits = whole[i];
        l.top = out.o.top;
        l.given = out.o.given;
        run_set_parts(side, s, keys, "", "cls_logprobs_call", &l);
        RUN_RETRY(status, side, i, cls_logprobs, &l);
    }
    if (gathers && status == CLS_OK)
        run_join_shards(side, since);
    run_returned(side, status, since);
}

/* ------------------------------------------------------------------- launches */

void run_flush(run_side *side)
{
    static const int32_t none = -1;
    cls_step step;
    cls_step_init(&step);
    step.rows = 1;
    step.slots.host = &none;
    while (!(side->sampler_options.dtypes >> step.logits.dtype & 1))
        step.logits.dtype++;
    step.logits.values = run_buffer(side, cli_alloc(side->sampler_options.vocab, sizeof(float)),
                                    side->sampler_options.vocab * sizeof(float));
    step.tokens = run_buffer(side, &none, sizeof none);
    for (uint32_t i = 0; i < run_samplers(side); i++) {
        cls_status status;
        RUN_RETRY(status, side, i, cls_sample, &step);
        if (status != CLS_OK)
            run_die(side->now, "%s", cls_error_message());
    }
}

bool run_counts_launches = true;

/* launches N: a device takes so many for the slot calls since the last step. launches most=N: it
 * has taken no more for the call before. */
void run_launches(run_side *side, const run_statement *s)
{
    const bool of_call = run_find(s, "most") != NULL;
    uint32_t n = run_count(s, of_call ? "most" : "", 0),
             launches = cls_sampler_launches(side->sampler[0]);
    run_check_keys(s, "most", NULL);
    if (!of_call) {
        run_flush(side);
        launches = cls_sampler_launches(side->sampler[0]);
        run_flush(side);
        launches -= cls_sampler_launches(side->sampler[0]);
    }
    if (run_counts_launches && !side->on_host && side->shards == 0 && side->way != RUN_EACH &&
        side->way != RUN_MOVED && side->way != RUN_ALONE && (!of_call || launches > n))
        n = launches;
    run_note(side, "launches", &n, sizeof n);
}
