/* SPDX-License-Identifier: MIT */
/* Makes a step, or the step of one row, of a statement. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "run/step.h"

/* The next number of random_bits=list:NUMBERS. */
static uint64_t next_bits(const run_statement *s, const char **at)
{
    char *end;
    errno = 0;
    const unsigned long long bits = strtoull(*at, &end, 10);
    if (end == *at || **at == '-' || errno != 0 || strchr(",", *end) == NULL)
        run_die(s, "random_bits: '%.20s' is no number of 64 bits for the next row", *at);
    *at = end + (*end == ',');
    return bits;
}

run_step_call run_step_read(run_side *side, const run_statement *s)
{
    const uint32_t most = side->sampler_options.max_rows;
    run_step_call c = {.rows = 0};
    uint64_t number[3];
    run_begin_call(s, RUN_STEP_KEYS, "cls_step", &c.fields, sizeof c.fields);
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
        uint64_t *const bits = cli_alloc(c.rows + (size_t)1, sizeof *bits);
        const bool listed = strncmp(random, "list:", 5) == 0;
        if (!listed && !run_is(s, random, "random", number))
            run_die(s, "random_bits=%.40s is none of random:SEED, edges:SEED and list:NUMBERS",
                    random);
        rng r = {number[0]};
        const char *at = random + 5;
        for (uint32_t i = 0; i < c.rows; i++)
            bits[i] = listed ? next_bits(s, &at) : rng_bits(&r);
        c.random = bits;
    }
    return c;
}

void run_step_turn(run_side *side, run_step_call *c)
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

void run_step_make(run_side *side, run_step_call *c, uint32_t first, uint32_t rows, uint32_t shard,
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

void run_step_row(run_side *side, const run_statement *s, uint32_t row, cls_step *step)
{
    run_step_call *const c = cli_alloc(1, sizeof *c);
    *c = run_step_read(side, s);
    run_step_make(side, c, row, 1, 0, step);
}
