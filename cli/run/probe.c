/* SPDX-License-Identifier: MIT */
/* Samples one row of a side's step again, as often as one likes. */
#include <string.h>

#include "run/probe.h"

cli_probe run_probe(run_side *side, const run_statement *s, uint32_t row)
{
    cli_probe p = {.vocab = side->sampler_options.vocab};
    cls_sampler_options o = side->sampler_options;
    size_t size = 0;
    run_step_row(side, s, row, &p.step);
    const int32_t slot = p.step.slots.host != NULL ? *p.step.slots.host : (int32_t)row;
    if (slot < 0 || (uint32_t)slot >= o.slot_count || !run_has_rules(side, slot))
        return p;
    run_params(side, side->rules[slot], &p.params);
    o.slot_count = 2;
    o.max_rows = 1;
    if (cls_slot_save(side->sampler[0], NULL, (uint32_t)slot, NULL, &size) != CLS_OK)
        return p; /* a rollback has ended it */
    void *const bytes = cli_alloc(size, 1);
    if (cls_slot_save(side->sampler[0], NULL, (uint32_t)slot, bytes, &size) != CLS_OK ||
        cls_sampler_create(side->target.context, &o, &p.sampler) != CLS_OK ||
        (side->infill.prefix_of != NULL &&
         cls_sampler_infill(p.sampler, &side->infill) != CLS_OK) ||
        cls_slot_load(p.sampler, 0, bytes, size, p.params.grammar) != CLS_OK)
        run_die(s, "%s", cls_error_message());
    return p;
}

static int32_t drawn_with(const cli_probe *p, cls_step *step, uint64_t bits)
{
    step->random_bits =
        (cls_buffer){.pointer = &bits, .size = sizeof bits, .kind = CLS_BUFFER_HOST};
    return cli_probe_row(p, NULL, step, NULL).token;
}

uint64_t run_edge(run_side *side, const run_statement *s, uint32_t row, uint64_t seed)
{
    rng r = {seed * 1000003 + row};
    const uint32_t what = rng_below(&r, 10);
    uint64_t same = rng_bits(&r), other = what % 2 ? UINT64_MAX : 0;
    if (what < 2)
        return other;
    const cli_probe p = run_probe(side, s, row);
    cls_step step = p.step;
    if (p.sampler == NULL || p.params.watermark_context != 0) { /* such a step is refused */
        cls_sampler_destroy(p.sampler);
        return other;
    }
    step.invalid_token = -1; /* cli_probe_row() defers, and another one may be a token */
    const int32_t token = drawn_with(&p, &step, same);
    if (drawn_with(&p, &step, other) == token)
        same = other;
    while ((same > other ? same - other : other - same) > 1) {
        const uint64_t middle = same / 2 + other / 2 + (same & other & 1);
        *(drawn_with(&p, &step, middle) == token ? &same : &other) = middle;
    }
    cls_sampler_destroy(p.sampler);
    return same;
}
