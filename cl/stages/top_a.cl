/* SPDX-License-Identifier: MIT */
/* top-a: keeps the tokens whose probability is at least top_a times the square of the largest. */
#include "row/stage.cl"

/* The bound needs the mass of the row, which is known only before any truncation. */
static inline void top_a_bound(__global const cls_slot *slot, f32 top, u64 total, stage_bound *b)
{
    b->goes_on = b->first;
    if (b->first && slot->min_keep <= 1) {
        b->lowest = depth_q20_key(top, b->scale, top_a_depth(total, slot->top_a, top, b->scale));
        b->bounded = 1;
    }
}

static inline void top_a_list(list_stage *w)
{
    const f32 scale = w->c->scale;
    w->key = depth_q20_key(w->top, scale, top_a_depth(w->mass, w->slot->top_a, w->top, scale));
}

static inline void top_a_row(row_stage *w)
{
    cut_at_key(
        w, depth_q20_key(w->top, w->scale, top_a_depth(w->mass, w->slot->top_a, w->top, w->scale)));
}
