/* SPDX-License-Identifier: MIT */
/* On the host: p-less. */
#include "host/host.h"

uint32_t cls_stage_p_less(cls_sampled *w)
{
    const uint64_t mass = cls_need(w, CLS_SUM_MASS), squares = cls_need(w, CLS_SUM_SQUARES);
    const uint32_t most = p_less_depth(mass, squares, w->top, w->scale);
    return cls_at_key(w, depth_q20_key(w->top, w->scale, most));
}
