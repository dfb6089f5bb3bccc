/* SPDX-License-Identifier: MIT */
/* On the host: temperature, static or dynamic. */
#include "host/host.h"

uint32_t cls_stage_temperature(cls_sampled *w)
{
    const cls_slot *const slot = &w->slot;
    if (!(slot->flags & CLS_SLOT_DYNAMIC) || w->n == 1) {
        w->scale = slot->scale;
        return w->n;
    }
    const uint64_t mass = cls_need(w, CLS_SUM_MASS);
    const uint32_t entropy =
        mass_q20(mass, w->top, w->scale) + mean_depth_q20(cls_need(w, CLS_SUM_DEPTHS), mass);
    const float t = dynamic_temperature(entropy, w->n, slot->low, slot->span, slot->exponent);
    w->scale = t < 1e-5f ? slot->scale : scale_of(t);
    return t < 1e-5f ? 1 : w->n;
}
