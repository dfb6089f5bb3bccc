/* SPDX-License-Identifier: MIT */
/* On the host: Mirostat 1 and 2. */
#include "host/host.h"

uint32_t cls_stage_mirostat_1(cls_sampled *w)
{
    const uint32_t ranks = w->n < CLS_MIROSTAT_RANKS ? w->n : CLS_MIROSTAT_RANKS;
    uint64_t terms = 0, squares = 0;
    cls_select(w, ranks);
    for (uint32_t i = 0; i + 1 < ranks; i++) {
        const uint32_t drop = cls_token_depth(w, w->set[i + 1]) - cls_token_depth(w, w->set[i]);
        terms += (uint64_t)mirostat_step(i) * drop;
        squares += (uint64_t)mirostat_step(i) * mirostat_step(i);
    }
    return w->n > 1 ? mirostat_count(terms, squares, w->slot.adaptive.mu, w->vocab) : 1;
}

uint32_t cls_stage_mirostat_2(cls_sampled *w)
{
    if (row_is_untruncated(&w->slot))
        return w->n;
    const uint32_t size = mass_q20(cls_need(w, CLS_SUM_MASS), w->top, w->scale);
    const int64_t most = (int64_t)w->slot.adaptive.mu - size;
    return most < 0 ? 1 : cls_at_key(w, depth_q20_key(w->top, w->scale, (uint32_t)most));
}
