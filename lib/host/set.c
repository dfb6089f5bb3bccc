/* SPDX-License-Identifier: MIT */
/* The set of kept tokens: its masses and sums, and how far a cut reaches. Stages use this file and
 * select.c, which finds its first tokens in order. */
#include "base/hooks.h"
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

/* Sorts the whole row, in 4 ms for 128,256 tokens. Only tests do: they compare what select.c lists
 * with it. */
static void sort_row(cls_sampled *w)
{
    w->n = 0;
    for (uint32_t i = 0; i < w->vocab; i++)
        if (key_of(w->z[i]) > CLS_KEY_NONE)
            w->set[w->n++] = i;
    for (int shift = 0; shift < 32; shift += 16) {
        sort_by_digit(w, shift, w->set, w->scratch);
        sort_by_digit(w, shift + 8, w->scratch, w->set);
    }
    w->listed = w->n;
}

void cls_set_begin(cls_sampled *w)
{
    w->n = w->available;
    w->listed = 0;
    if (cls_test_whole_sort)
        sort_row(w);
}

void cls_set_cut(cls_sampled *w, uint32_t n)
{
    w->n = n;
    w->listed = n < w->listed ? n : w->listed;
}

/* ---------------------------------------------------------------------- sums */

uint32_t cls_token_depth(const cls_sampled *w, uint32_t id)
{
    return depth_q20(w->z[id], w->top, w->scale);
}

static uint64_t term_of(const cls_sampled *w, cls_sum what, uint32_t id)
{
    return what == CLS_SUM_MASS
               ? cls_token_mass(w, id)
               : sum_term(what, w->z[id], w->top, w->scale, &w->unit[id / CLS_TILE]);
}

uint64_t cls_need(cls_sampled *w, cls_sum what)
{
    uint64_t sum = 0;
    if (what == CLS_SUM_MASS && !w->truncated)
        return cls_row_mass(w);
    if (w->listed < w->n && w->n < w->available)
        cls_select(w, w->n);
    if (w->listed == w->n)
        for (uint32_t i = 0; i < w->n; i++)
            sum += term_of(w, what, w->set[i]);
    else
        for (uint32_t i = 0; i < w->vocab; i++)
            sum += w->z[i] > CLS_MASKED ? term_of(w, what, i) : 0;
    return sum;
}

/* ---------------------------------------------------------------------- cuts */

uint32_t cls_at_key(const cls_sampled *w, int32_t key)
{
    uint32_t n = 0;
    if (w->listed < w->n && (w->listed == 0 || key_of(w->z[w->set[w->listed - 1]]) >= key)) {
        n = cls_count_above(w, key);
        return n < w->n ? n : w->n;
    }
    while (n < w->listed && key_of(w->z[w->set[n]]) >= key)
        n++;
    return n;
}

uint32_t cls_reach(cls_sampled *w, uint64_t target)
{
    uint64_t sum = 0;
    uint32_t n = 0, more = CLS_LISTED_FIRST;
    do {
        if (n == w->listed && n < 4 * CLS_LISTED_FIRST)
            cls_select(w, w->n < more ? w->n : more);
        else if (n == w->listed)
            cls_select_mass(w, target - sum);
        more = 4 * CLS_LISTED_FIRST;
        sum += cls_token_mass(w, w->set[n++]);
    } while (n < w->n && sum < target);
    return n;
}

uint32_t cls_keep_marked(cls_sampled *w)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n; i++)
        if (w->mark[w->set[i]])
            w->set[n++] = w->set[i];
    w->n = w->listed = n;
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
