/* SPDX-License-Identifier: MIT */
/* On the host: min-p. */
#include "host/host.h"

uint32_t cls_stage_min_p(cls_sampled *w)
{
    return cls_at_key(w, depth_key(w->top, w->scale, w->slot.min_p));
}
