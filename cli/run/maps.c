/* SPDX-License-Identifier: MIT */
/* Numbers of a call, one for each row, and the slots of its rows. */
#include <inttypes.h>
#include <string.h>

#include "run/inputs.h"

run_map run_map_read(const run_statement *s, const char *key, uint32_t rows)
{
    const char *const text = run_find(s, key);
    run_map m = {.value = NULL};
    uint32_t n;
    if (text == NULL)
        return m;
    m.on_device = *text == '@';
    m.value = run_numbers(s, key, text + m.on_device, &n);
    if (n < rows)
        run_die(s, "%s has %" PRIu32 " numbers for %" PRIu32 " rows", key, n, rows);
    return m;
}

cls_ints run_map_put(run_side *side, const run_map *m, uint32_t first, uint32_t n)
{
    cls_ints ints = {.host = NULL};
    if (m->value == NULL)
        return ints;
    if (m->on_device)
        ints.device = run_buffer(side, m->value + first, n * sizeof *m->value);
    else
        ints.host = run_passing(side, m->value + first, n * sizeof *m->value);
    return ints;
}

void run_map_turn(run_map *m, uint32_t rows)
{
    if (m->value != NULL)
        m->value = run_turned(m->value, rows, sizeof *m->value);
}

uint32_t run_rows_of(const run_statement *s, const char *key, uint32_t absent)
{
    const char *const slots = run_find(s, "slots");
    if (slots != NULL)
        run_numbers(s, "slots", slots + (*slots == '@'), &absent);
    return run_count(s, key, absent);
}

void run_place_slots(const run_side *side, run_map *slots, uint32_t rows)
{
    if (side->way != RUN_PERMUTED)
        return;
    const bool absent = slots->value == NULL;
    int32_t *const placed = cli_alloc(rows, sizeof *placed);
    for (uint32_t i = 0; i < rows; i++)
        placed[i] = run_slot(side, absent ? (int32_t)i : slots->value[i]);
    slots->value = placed;
}

run_map run_latest(const run_side *side, const char *name, uint32_t n)
{
    const run_side *const of = side->reference != NULL ? side->reference : side;
    for (uint32_t i = of->records; i-- > 0;) {
        const run_record *const r = &of->record[i];
        if (r->statement < side->index && strcmp(r->name, name) == 0 &&
            r->size >= n * sizeof(int32_t))
            return (run_map){.value = (int32_t *)(void *)r->bytes, .on_device = true};
    }
    int32_t *const none = cli_alloc(n, sizeof *none);
    memset(none, 0xff, n * sizeof *none);
    return (run_map){.value = none, .on_device = true};
}
