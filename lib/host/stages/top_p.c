/* SPDX-License-Identifier: MIT */
/* On the host: top-p, whose p may decay from token to token. */
#include "host/host.h"

uint32_t cls_stage_top_p(cls_sampled *w)
{
    const uint32_t p = w->slot.flags & CLS_SLOT_DECAYS ? w->slot.adaptive.top_p : w->slot.top_p;
    w->trace.total = cls_need(w, CLS_SUM_MASS);
    w->trace.target = top_p_target(w->trace.total, p);
    return cls_reach(w, w->trace.target);
}
