/* SPDX-License-Identifier: MIT */
/* top-n-sigma: keeps the tokens at most n standard deviations of the logits below their maximum. */
#include "row/job.cl"

static inline void top_n_sigma(const step_args *s, row_job *w)
{
    const f32 range = w->top - need_least(w);
    u64 sum[2];
    if (!(range > 0.0f)) /* all logits are equal: nothing is cut */
        return;
    const f32 grid = sigma_grid(range);
    need_units(w, grid, sum);
    at_key(w, depth_key(w->top, grid, sigma_limit(w->tokens, sum[0], sum[1], w->slot->sigma)));
}
