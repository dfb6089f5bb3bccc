/* SPDX-License-Identifier: MIT */
/* On the host: top-a. */
#include "host/host.h"

uint32_t cls_stage_top_a(cls_sampled *w)
{
    const uint32_t most = top_a_depth(cls_need(w, CLS_SUM_MASS), w->slot.top_a, w->top, w->scale);
    return cls_at_key(w, depth_q20_key(w->top, w->scale, most));
}
