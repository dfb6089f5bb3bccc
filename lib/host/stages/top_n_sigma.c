/* SPDX-License-Identifier: MIT */
/* On the host: top-n-sigma. */
#include "host/host.h"

uint32_t cls_stage_top_n_sigma(cls_sampled *w)
{
    if (w->n < w->available)
        cls_select(w, w->n);
    const float least = w->listed == w->n ? w->z[w->set[w->n - 1]] : cls_least(w),
                range = w->top - least, scale = w->scale;
    if (!(range > 0.0f))
        return w->n;
    w->scale = sigma_grid(range);
    const uint64_t sum = cls_need(w, CLS_SUM_UNITS), squares = cls_need(w, CLS_SUM_UNIT_SQUARES);
    const float limit = sigma_limit(w->n, sum, squares, w->slot.sigma);
    const uint32_t n = cls_at_key(w, depth_key(w->top, w->scale, limit));
    w->scale = scale;
    return n;
}
