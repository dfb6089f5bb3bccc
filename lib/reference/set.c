/* SPDX-License-Identifier: MIT */
/* The reference of the sort of a row, and of the stages that keep more than a prefix of that order:
 * typical and infill. */
#include "reference/reference.h"

#include <stdlib.h>

static int by_preference(const void *a, const void *b)
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
    qsort(w->order, w->n, sizeof *w->order, by_preference);
    for (uint32_t i = 0; i < w->n; i++)
        w->set[i] = w->order[i].id;
}

/* --------------------------------------------------------------------- typical */

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
    qsort(w->order, w->n, sizeof *w->order, by_preference);
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

/* ---------------------------------------------------------------------- infill */

static int is_end(const cls_work *w, uint32_t id)
{
    for (uint32_t i = 0; i < w->infill.end_count; i++)
        if ((uint32_t)w->infill.end_ids[i] == id)
            return 1;
    return 0;
}

static int begins_with(const cls_work *w, uint32_t id, uint32_t prefix)
{
    int32_t at = w->infill.prefix_of[id];
    while (at >= 0 && (uint32_t)at != prefix)
        at = w->infill.prefix_of[at];
    return at >= 0;
}

/* If the text of one token begins with that of another, the likelier takes both masses and the
 * other is dropped. mass[] is by rank. */
static void merge_prefixes(cls_work *w, uint64_t *mass)
{
    for (uint32_t a = 0; a < w->n; a++)
        for (uint32_t b = 0; b < w->n && w->mark[w->set[a]]; b++) {
            if (!w->mark[w->set[b]] || !begins_with(w, w->set[b], w->set[a]))
                continue;
            const uint32_t to = mass[b] > mass[a] ? b : a, from = to == a ? b : a;
            mass[to] += mass[from];
            w->mark[w->set[from]] = 0;
        }
}

/* Drops tokens that are not ends and have less than the mass `of` divided by `shares`. Returns how
 * many of them are left. *left is the mass of these and of the ends. */
static uint32_t drop_unlikely(cls_work *w, const uint64_t *mass, uint64_t shares, uint64_t of,
                              uint64_t *left)
{
    uint32_t texts = 0;
    *left = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        const uint32_t id = w->set[i];
        const int end = is_end(w, id);
        if (!end && mass[i] * shares < of)
            w->mark[id] = 0;
        if (w->mark[id])
            *left += mass[i];
        texts += w->mark[id] && !end;
    }
    return texts;
}

#define INFILL_MAX_TOKENS 128

void cls_keep_infill(cls_work *w, cls_row *trace)
{
    uint64_t *const mass = w->mass;
    uint64_t ends = 0, texts = 0, left;
    trace->listed = 1;
    if (w->n > INFILL_MAX_TOKENS) {
        trace->status |= CLS_ROW_UNFIT;
        w->n = 0;
        return;
    }
    for (uint32_t i = 0; i < w->n; i++) {
        mass[i] = cls_token_mass(w, w->set[i]);
        w->mark[w->set[i]] = 1;
        if (is_end(w, w->set[i]))
            ends += mass[i];
        else
            texts += mass[i];
    }
    if (3 * (ends >> 12) * w->n > texts >> 12) {
        for (uint32_t i = 0; i < w->n; i++)
            w->mark[w->set[i]] = (uint8_t)is_end(w, w->set[i]);
        cls_keep_marked(w);
        return;
    }
    merge_prefixes(w, mass);
    const uint32_t m = drop_unlikely(w, mass, 5, ends + texts, &left);
    if (m == 0) {
        w->set[0] = (uint32_t)w->infill.end_ids[0];
        w->top = w->z[w->set[0]];
        w->n = key_of(w->top) > CLS_KEY_NONE;
        trace->status |= w->n == 0 ? CLS_ROW_EMPTY : 0;
        return;
    }
    drop_unlikely(w, mass, m + 1, left, &left);
    cls_keep_marked(w);
}
