/* SPDX-License-Identifier: MIT */
/* The reference of temperature, static or dynamic. */
#include "reference/reference.h"

void cls_apply_temperature(cls_work *w)
{
    const cls_slot *const slot = &w->slot;
    if (!(slot->flags & CLS_SLOT_DYNAMIC) || w->n == 1) {
        w->scale = slot->scale;
        return;
    }
    const uint64_t mass = cls_stage_mass(w);
    const uint32_t entropy = mass_q20(mass, w->top, w->scale) + cls_mean_depth(w, mass);
    const float t = dynamic_temperature(entropy, w->n, slot->low, slot->span, slot->exponent);
    if (t < 1e-5f)
        cls_keep_first(w, 1);
    w->scale = t < 1e-5f ? slot->scale : scale_of(t);
}
