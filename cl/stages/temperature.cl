/* SPDX-License-Identifier: MIT */
/* temperature: a static temperature is a scale that the chain takes from the slot. A dynamic one
 * follows the entropy of the set. */
#include "row/job.cl"

/* Keeps the first token only where the temperature is nearly 0. */
static inline void dynamic_temperature_of(const step_args *s, row_job *w)
{
    f32 t = 1.0f;
    if (w->tokens > 1)
        t = dynamic_temperature(mass_q20(w->mass, w->top, w->scale) +
                                    mean_depth_q20(need(w, CLS_SUM_DEPTHS), w->mass),
                                w->tokens, w->slot->low, w->slot->span, w->slot->exponent);
    w->c.scale = w->tokens > 1 && !(t < 1e-5f) ? scale_of(t) : w->slot->scale;
    if (t < 1e-5f)
        reach(w, 1, 1);
}
