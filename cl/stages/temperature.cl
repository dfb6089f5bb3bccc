/* SPDX-License-Identifier: MIT */
/* temperature: a static temperature is a scale that the callers of the stages read from the slot. A
 * dynamic one follows the entropy of the set. */
#include "row/stage.cl"

/* Sets the scale for a set of n tokens; `sum` is its sum of SUM_DEPTHS. Returns 0 if the
 * temperature is nearly 0, so that only the first token is kept. */
static inline int dynamic_scale(__global const cls_slot *slot, u32 n, u64 mass, u64 sum, f32 top,
                                f32 scale, f32 *next)
{
    f32 t = 1.0f;
    if (n > 1)
        t = dynamic_temperature(mass_q20(mass, top, scale) + mean_depth_q20(sum, mass), n,
                                slot->low, slot->span, slot->exponent);
    *next = n > 1 && !(t < 1e-5f) ? scale_of(t) : slot->scale;
    return !(t < 1e-5f);
}

static inline void dynamic_list(list_stage *w)
{
    chain_state *const c = w->c;
    const u64 sum = list_sum(w->r, w->list, c->kept, SUM_DEPTHS, w->top, c->scale);
    if (!dynamic_scale(w->slot, c->kept, w->mass, sum, w->top, c->scale, &c->scale))
        c->kept = 1;
}

static inline void dynamic_row(row_stage *w)
{
    const u64 sum = row_sum(w->r, SUM_DEPTHS, w->top, w->scale, w->list->scratch);
    if (!dynamic_scale(w->slot, w->tokens, w->mass, sum, w->top, w->scale, &w->c->scale))
        cut_at_count(w, 1);
}
