/* SPDX-License-Identifier: MIT */
/* The reference of typical sampling, which keeps the tokens nearest to the entropy. */
#include "reference/reference.h"

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

static uint32_t count_of(const cls_work *w, float z)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n; i++)
        n += w->z[w->set[i]] == z;
    return n;
}

void cls_keep_typical(cls_work *w, cls_row *trace)
{
    const uint64_t mass = cls_stage_mass(w), target = typical_target(mass, w->slot.typical_p);
    const uint32_t mean = cls_mean_depth(w, mass), first = w->set[0];
    uint64_t sum = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        const uint32_t id = w->set[i], d = cls_token_depth(w, id), tail = d > mean;
        w->order[i] = (cls_preference){tail ? d - mean : mean - d, tail, key_of(w->z[id]), id};
        w->mark[id] = 0;
    }
    qsort(w->order, w->n, sizeof *w->order, compare);
    for (uint32_t i = 0; i < w->n && (i < w->slot.min_keep || sum < target); i++) {
        sum += cls_token_mass(w, w->order[i].id);
        w->mark[w->order[i].id] = 1;
    }
    /* The upper cut drops larger keys. If the largest key that is left lies above the mean, it may
     * also drop the higher ids of that key, since lower ids are preferred there. */
    uint32_t i = 0;
    while (!w->mark[w->set[i]])
        i++;
    const float top = w->z[w->set[i]];
    const uint32_t before = count_of(w, top);
    const int at_head = cls_token_depth(w, w->set[i]) <= mean;
    cls_keep_marked(w);
    const uint32_t after = count_of(w, top);
    const int partly = at_head && after < before;
    if (w->set[0] == first && !partly)
        return;
    if (key_of(top) != trace->upper_key) {
        trace->upper_first = 0;
        trace->upper_last = CLS_MAX_ID;
    }
    trace->upper_key = key_of(top);
    if (partly)
        trace->upper_last = (int32_t)w->set[after - 1];
}
