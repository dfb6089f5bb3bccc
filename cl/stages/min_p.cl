/* SPDX-License-Identifier: MIT */
/* min-p: keeps the tokens whose probability is at least min_p times the largest one. */
#include "row/job.cl"

static inline void min_p_bound(__global const cls_slot *slot, chain_bound *b)
{
    bound_at(b, slot, depth_key(b->top, b->scale, slot->min_p));
}

static inline void min_p(const step_args *s, row_job *w)
{
    at_key(w, depth_key(w->top, w->scale, w->slot->min_p));
}
