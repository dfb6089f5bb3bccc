/* SPDX-License-Identifier: MIT */
/* On the host: typical sampling, which keeps the tokens nearest to the entropy. */
#include "host/host.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const cls_preference *const x = a, *const y = b;
    if (x->distance != y->distance)
        return x->distance < y->distance ? -1 : 1;
    if (x->tail != y->tail)
        return x->tail < y->tail ? -1 : 1;
    if (x->key != y->key)
        return (x->key > y->key) == (x->tail != 0) ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

uint32_t cls_stage_typical_p(cls_sampled *w)
{
    const cls_preference *const order = w->order;
    const uint64_t mass = cls_need(w, CLS_SUM_MASS);
    const uint32_t mean = mean_depth_q20(cls_need(w, CLS_SUM_DEPTHS), mass), first = w->set[0];
    for (uint32_t i = 0; i < w->n; i++) {
        const uint32_t id = w->set[i], d = cls_token_depth(w, id), tail = d > mean;
        w->order[i] = (cls_preference){tail ? d - mean : mean - d, tail, key_of(w->z[id]), id};
    }
    qsort(w->order, w->n, sizeof *w->order, compare);
    for (uint32_t i = 0; i < w->n; i++)
        w->scratch[i] = order[i].id;
    uint32_t n = cls_reach(w, w->scratch, typical_target(mass, w->slot.typical_p));
    n = n > w->slot.min_keep ? n : w->slot.min_keep;
    for (uint32_t i = 0; i < w->n; i++)
        w->mark[order[i].id] = i < n;
    /* The upper cut drops larger keys. If the last token that is kept lies above the mean, it may
     * also drop the higher ids of that key, since lower ids are preferred there. */
    const int partly = n < w->n && !order[n - 1].tail && order[n].key == order[n - 1].key;
    cls_keep_marked(w);
    if (w->set[0] != first || partly)
        cls_upper(w, -1, partly ? (int32_t)order[n - 1].id : -1);
    return w->n;
}
