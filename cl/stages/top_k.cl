/* SPDX-License-Identifier: MIT */
/* top-k: keeps the first k tokens in order. */
#include "row/stage.cl"

static inline void top_k_bound(__global const cls_slot *slot, stage_bound *b)
{
    b->k = (u32)slot->top_k <= LIST ? (u32)slot->top_k : 0u;
}

static inline void top_k_list(list_stage *w)
{
    chain_state *const c = w->c;
    c->complete |= c->kept >= (u32)w->slot->top_k;
    c->kept = min(c->kept, (u32)w->slot->top_k);
}

static inline void top_k_row(row_stage *w) { cut_at_count(w, (u32)w->slot->top_k); }
