/* SPDX-License-Identifier: MIT */
/* The reference of XTC, which drops the likeliest tokens. */
#include "reference/reference.h"

void cls_keep_xtc(cls_work *w, cls_row *trace)
{
    const cls_slot *const slot = &w->slot;
    const uint64_t bits =
        philox_bits(CLS_PURPOSE_XTC, slot->seed, slot->stream, w->row->position, w->row->draw);
    const uint32_t size = mass_q20(cls_stage_mass(w), w->top, w->scale);
    if (!(u64_hi(bits) >> 1 < slot->xtc) || slot->xtc_depth < size)
        return;
    const uint32_t n = cls_count_to_depth(w, slot->xtc_depth - size);
    if (n < 2 || w->n - (n - 1) < slot->min_keep)
        return;
    for (uint32_t i = 0; i < w->n; i++)
        w->mark[w->set[i]] = i >= n - 1;
    cls_keep_marked(w);
    if (trace->upper_key != key_of(w->top))
        trace->upper_last = CLS_MAX_ID;
    trace->upper_key = key_of(w->top);
    trace->upper_first = (int32_t)w->set[0];
}
