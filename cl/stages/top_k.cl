/* SPDX-License-Identifier: MIT */
/* top-k: keeps the first k tokens in order. */
#include "row/job.cl"

static inline void top_k_bound(__global const cls_slot *slot, chain_bound *b)
{
    b->k = (u32)slot->top_k <= LIST ? (u32)slot->top_k : 0u;
}

static inline void top_k(const step_args *s, row_job *w) { reach(w, 1, (u32)w->slot->top_k); }
