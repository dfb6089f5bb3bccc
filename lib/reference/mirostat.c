/* SPDX-License-Identifier: MIT */
/* The reference of Mirostat 1 and 2. */
#include "reference/reference.h"

void cls_keep_mirostat_1(cls_work *w)
{
    const uint32_t ranks = w->n < CLS_MIROSTAT_RANKS ? w->n : CLS_MIROSTAT_RANKS;
    uint64_t terms = 0, squares = 0;
    for (uint32_t i = 0; i + 1 < ranks; i++) {
        const uint32_t drop = cls_token_depth(w, w->set[i + 1]) - cls_token_depth(w, w->set[i]);
        terms += (uint64_t)mirostat_step(i) * drop;
        squares += (uint64_t)mirostat_step(i) * mirostat_step(i);
    }
    if (w->n > 1)
        cls_keep_first(w, mirostat_count(terms, squares, w->slot.adaptive.mu, w->vocab));
}

void cls_keep_mirostat_2(cls_work *w)
{
    const int64_t most =
        (int64_t)w->slot.adaptive.mu - mass_q20(cls_stage_mass(w), w->top, w->scale);
    const uint32_t n = most < 0 ? 0 : cls_count_to_depth(w, (uint32_t)most);
    cls_keep_first(w, n > 1 ? n : 1);
}
