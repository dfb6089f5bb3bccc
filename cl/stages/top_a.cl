/* SPDX-License-Identifier: MIT */
/* top-a: what is at least so likely as a share of the largest probability squared. */
#include "row/stage.cl"

/* Over an untouched row, whose mass is known. */
static inline void top_a_bound(__global const cls_slot *slot, f32 top, u64 total, stage_bound *b)
{
    b->open = b->first;
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
    ask_key(
        w, depth_q20_key(w->top, w->scale, top_a_depth(w->mass, w->slot->top_a, w->top, w->scale)));
}
