/* SPDX-License-Identifier: MIT */
/* On the host: XTC, which drops the likeliest tokens. */
#include "host/host.h"

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
    for (uint32_t i = 0; i < w->n; i++)
        w->mark[w->set[i]] = i >= n - 1;
    cls_keep_marked(w);
    cls_upper(w, (int32_t)w->set[0], -1);
    return w->n;
}
