/* SPDX-License-Identifier: MIT */
/* min-p: keeps the tokens whose probability is at least min_p times the largest one. */
#include "row/stage.cl"

static inline void min_p_bound(__global const cls_slot *slot, f32 top, stage_bound *b)
{
    if (slot->min_keep <= 1) {
        b->lowest = depth_key(top, b->scale, slot->min_p);
        b->bounded = 1;
    }
}

static inline void min_p_list(list_stage *w)
{
    w->key = depth_key(w->top, w->c->scale, w->slot->min_p);
}

static inline void min_p_row(row_stage *w)
{
    cut_at_key(w, depth_key(w->top, w->scale, w->slot->min_p));
}
