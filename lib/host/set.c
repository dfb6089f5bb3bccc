/* SPDX-License-Identifier: MIT */
/* The set of kept tokens: its order, its masses and sums, and how far a cut
 * reaches. Stages use this file and no other. */
#include "host/host.h"

/* --------------------------------------------------------------------- order */

#define DIGITS 256

/* Returns 8 bits of a number that is smaller for larger logits. */
static uint32_t digit_of(const cls_sampled *w, uint32_t id, int shift)
{
    return (0x7fffffffu - (uint32_t)key_of(w->z[id])) >> shift & (DIGITS - 1);
}

/* Sorts by one digit, and keeps the order of those that have the same. */
static void sort_by_digit(const cls_sampled *w, int shift, const uint32_t *from, uint32_t *to)
{
    uint32_t place[DIGITS + 1] = {0}; /* of the first id with each digit, then of the next */
    for (uint32_t i = 0; i < w->n; i++)
        place[digit_of(w, from[i], shift) + 1]++;
    for (uint32_t d = 0; d < DIGITS; d++)
        place[d + 1] += place[d];
    for (uint32_t i = 0; i < w->n; i++)
        to[place[digit_of(w, from[i], shift)]++] = from[i];
}

/* A radix sort: a row of 128,256 tokens takes 4 ms; with qsort() and a comparison it took 24. */
void cls_sort_row(cls_sampled *w)
{
    w->n = 0;
    for (uint32_t i = 0; i < w->vocab; i++)
        if (key_of(w->z[i]) > CLS_KEY_NONE)
            w->set[w->n++] = i;
    for (int shift = 0; shift < 32; shift += 16) {
        sort_by_digit(w, shift, w->set, w->scratch);
        sort_by_digit(w, shift + 8, w->scratch, w->set);
    }
}

int cls_set_has(const cls_sampled *w, uint32_t id)
{
    uint32_t i = 0;
    while (i < w->n && w->set[i] != id)
        i++;
    return i < w->n;
}

/* ---------------------------------------------------------------------- sums */

void cls_weigh(cls_sampled *w)
{
    const int32_t exponent = split(w->top, w->scale).exponent;
    for (uint32_t t = 0; t < w->tiles; t++)
        w->unit[t] =
            unit_of(w->tile_max[t] < w->top ? w->tile_max[t] : w->top, w->top, exponent, w->scale);
}

uint32_t cls_token_weight(const cls_sampled *w, uint32_t id)
{
    const cls_unit *const unit = &w->unit[id / CLS_TILE];
    return w->z[id] > CLS_MASKED ? weight(w->z[id], unit->max, w->scale, unit->fraction) : 0;
}

uint64_t cls_token_mass(const cls_sampled *w, uint32_t id)
{
    return to_row_units(cls_token_weight(w, id), w->unit[id / CLS_TILE].shift);
}

uint64_t cls_tile_mass(const cls_sampled *w, uint32_t tile)
{
    uint64_t sum = 0;
    for (uint32_t i = tile * CLS_TILE; i < w->vocab && i / CLS_TILE == tile; i++)
        sum += cls_token_weight(w, i);
    return to_row_units(sum, w->unit[tile].shift);
}

uint64_t cls_row_mass(const cls_sampled *w)
{
    uint64_t mass = 0;
    for (uint32_t t = 0; t < w->tiles; t++)
        mass += cls_tile_mass(w, t);
    return mass;
}

uint32_t cls_token_depth(const cls_sampled *w, uint32_t id)
{
    return depth_q20(w->z[id], w->top, w->scale);
}

uint64_t cls_need(const cls_sampled *w, cls_sum what)
{
    uint64_t sum = 0;
    if (what == CLS_SUM_MASS && !w->truncated)
        return cls_row_mass(w);
    for (uint32_t i = 0; i < w->n; i++)
        sum += sum_term(what, w->z[w->set[i]], w->top, w->scale, &w->unit[w->set[i] / CLS_TILE]);
    return sum;
}

/* ---------------------------------------------------------------------- cuts */

uint32_t cls_at_key(const cls_sampled *w, int32_t key)
{
    uint32_t n = 0;
    while (n < w->n && key_of(w->z[w->set[n]]) >= key)
        n++;
    return n;
}

uint32_t cls_reach(const cls_sampled *w, const uint32_t *ids, uint64_t target)
{
    uint64_t sum = 0;
    uint32_t n = 0;
    do
        sum += cls_token_mass(w, ids[n++]);
    while (n < w->n && sum < target);
    return n;
}

uint32_t cls_keep_marked(cls_sampled *w)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n; i++)
        if (w->mark[w->set[i]])
            w->set[n++] = w->set[i];
    w->n = n;
    w->top = w->z[w->set[0]];
    return n;
}

void cls_upper(cls_sampled *w, int32_t first, int32_t last)
{
    cls_row *const trace = &w->trace;
    const int same = trace->cut.upper_key == key_of(w->top);
    trace->cut.upper_key = key_of(w->top);
    trace->cut.upper_first = first >= 0 ? first : same ? trace->cut.upper_first : 0;
    trace->cut.upper_last = last >= 0 ? last : same ? trace->cut.upper_last : CLS_MAX_ID;
}
