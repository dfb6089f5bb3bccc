/* SPDX-License-Identifier: MIT */
/* The statements of clsample run that enqueue; drafts.c has verifications. */
#include <string.h>

#include "run/calls.h"
#include "run/probe.h"

/* ----------------------------------------------------------------------- steps */

/* random_bits=edges:SEED: the host finds the first or the last number that draws a token. */
static void find_edges(run_side *side, const run_statement *s, run_step_call *c)
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
static bool shares_slots(const run_step_call *c)
{
    for (uint32_t i = 0; c->slots.value != NULL && i < c->rows; i++)
        for (uint32_t k = 0; k < i; k++)
            if (c->slots.value[i] == c->slots.value[k] && c->slots.value[i] >= 0)
                return true;
    return false;
}

void run_step(run_side *side, const run_statement *s)
{
    run_step_call c = run_step_read(side, s);
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
    run_hashes(side, s, &c.in, c.rows);
    run_step_turn(side, &c);
    for (uint32_t i = 0; i < shards; i++) {
        const cls_buffer tokens = run_result(side, "tokens", c.rows, 1, false),
                         words = run_result(side, "status", c.rows, 1, false);
        out[i] = run_outputs_make(side, s, c.rows, false);
        if (side->way != RUN_ALONE || !divides)
            run_step_make(side, &c, 0, c.rows, i, &steps[i]);
        steps[i].tokens = tokens;
        steps[i].status = words;
        run_set_all_parts(side, s, RUN_STEP_KEYS, "cls_step", &steps[i], &out[i]);
        run_check_mask(side, s, &steps[i].mask, &c.in);
        steps[i].outputs = out[i].any ? &out[i].o : NULL;
    }
    if (side->shards != 0) {
        status = run_step_of_shards(side, steps);
        if (status == CLS_OK)
            run_join_shards(side, since);
    } else if (side->way == RUN_ALONE && divides) {
        for (uint32_t row = 0; row < c.rows && status == CLS_OK; row++) {
            cls_step one;
            const cls_outputs of_row =
                run_outputs_of_row(&out[0], side->sampler_options.vocab, row);
            run_step_make(side, &c, row, 1, 0, &one);
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
    static const char keys[] = "logits logits_pick kind dtype softcap rows outputs";
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
