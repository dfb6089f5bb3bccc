/* SPDX-License-Identifier: MIT */
/* top-a: keeps the tokens whose probability is at least top_a times the square of the largest. */
#include "row/job.cl"

static inline i32 top_a_key(__global const cls_slot *slot, u64 mass, f32 top, f32 scale)
{
    return depth_q20_key(top, scale, top_a_depth(mass, slot->top_a, top, scale));
}

/* The bound needs the mass of the row, which is known only before any truncation. */
static inline void top_a_bound(__global const cls_slot *slot, chain_bound *b)
{
    b->goes_on = b->first;
    if (b->first)
        bound_at(b, slot, top_a_key(slot, b->total, b->top, b->scale));
}

static inline void top_a(const step_args *s, row_job *w)
{
    at_key(w, top_a_key(w->slot, w->mass, w->top, w->scale));
}
