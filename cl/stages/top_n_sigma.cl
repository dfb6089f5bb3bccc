/* SPDX-License-Identifier: MIT */
/* top-n-sigma: keeps the tokens at most n standard deviations of the logits below their maximum. */
#include "row/stage.cl"

/* Both functions return at once if all logits are equal: nothing is cut then. */
static inline void top_n_sigma_list(list_stage *w)
{
    const u32 kept = w->c->kept;
    const f32 range = w->top - rank_logit(w->list, kept - 1);
    u64 sum[2];
    if (!(range > 0.0f))
        return;
    const f32 grid = sigma_grid(range);
    for (u32 i = 0; i < 2; i++)
        sum[i] = list_sum(w->r, w->list, kept, SUM_UNITS + i, w->top, grid);
    w->key = depth_key(w->top, grid, sigma_limit(kept, sum[0], sum[1], w->slot->sigma));
}

static inline void top_n_sigma_row(row_stage *w)
{
    i32 lo = CLS_KEY_NONE, hi = w->out->max_key;
    key_range(w->r, &lo, &hi, w->list->scratch);
    const f32 range = w->top - float_of_key(lo + 1);
    u64 sum[2];
    if (!(range > 0.0f))
        return;
    const f32 grid = sigma_grid(range);
    for (u32 i = 0; i < 2; i++)
        sum[i] = row_sum(w->r, SUM_UNITS + i, w->top, grid, w->list->scratch);
    cut_at_key(w, depth_key(w->top, grid, sigma_limit(w->tokens, sum[0], sum[1], w->slot->sigma)));
}
