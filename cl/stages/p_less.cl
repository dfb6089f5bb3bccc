/* SPDX-License-Identifier: MIT */
/* p-less: keeps the tokens whose probability is at least the probability that two draws are
 * equal. */
#include "row/stage.cl"

static inline void p_less_list(list_stage *w)
{
    const f32 scale = w->c->scale;
    const u64 squares = list_sum(w->r, w->list, w->c->kept, SUM_SQUARES, w->top, scale);
    w->key = depth_q20_key(w->top, scale, p_less_depth(w->mass, squares, w->top, scale));
}

static inline void p_less_row(row_stage *w)
{
    const u64 squares = row_sum(w->r, SUM_SQUARES, w->top, w->scale, w->list->scratch);
    cut_at_key(w,
               depth_q20_key(w->top, w->scale, p_less_depth(w->mass, squares, w->top, w->scale)));
}
