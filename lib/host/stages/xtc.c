/* SPDX-License-Identifier: MIT */
/* On the host: XTC, which drops the likeliest tokens. */
#include "host/host.h"

/* Returns whether the request exempts one of the first n tokens in order. */
static int has_exempt(const cls_sampled *w, uint32_t n)
{
    const cls_ids *const exempt = &w->params.xtc_exempt_ids;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < exempt->count; k++)
            if ((uint32_t)exempt->ids[k] == w->set[i])
                return 1;
    return 0;
}

uint32_t cls_stage_xtc(cls_sampled *w)
{
    const cls_slot *const slot = &w->slot;
    const uint64_t bits =
        philox_bits(CLS_PURPOSE_XTC, slot->seed, slot->stream, w->row.position, w->row.draw);
    const uint32_t size = mass_q20(cls_need(w, CLS_SUM_MASS), w->top, w->scale);
    if (!(u64_hi(bits) >> 1 < slot->xtc) || slot->xtc_depth < size)
        return w->n;
    const uint32_t n = cls_at_key(w, depth_q20_key(w->top, w->scale, slot->xtc_depth - size));
    if (n < 2 || w->n - (n - 1) < slot->min_keep)
        return w->n;
    cls_select(w, w->n);
    if (has_exempt(w, n - 1))
        return w->n;
    for (uint32_t i = 0; i < w->n; i++)
        w->mark[w->set[i]] = i >= n - 1;
    cls_keep_marked(w);
    cls_upper(w, (int32_t)w->set[0], -1);
    return w->n;
}
