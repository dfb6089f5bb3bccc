/* SPDX-License-Identifier: MIT */
/* The reference of the sort of a row. */
#include "reference/reference.h"

#include <stdlib.h>

int cls_preference_compare(const void *a, const void *b)
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

void cls_sort_row(cls_work *w)
{
    w->n = 0;
    for (uint32_t i = 0; i < w->vocab; i++)
        if (key_of(w->z[i]) > CLS_KEY_NONE)
            w->order[w->n++] = (cls_preference){0, 1, key_of(w->z[i]), i};
    qsort(w->order, w->n, sizeof *w->order, cls_preference_compare);
    for (uint32_t i = 0; i < w->n; i++)
        w->set[i] = w->order[i].id;
}
