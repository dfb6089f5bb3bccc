/* SPDX-License-Identifier: MIT */
/* locate: finds the token at which a measure from the top of a row reaches a target. The edges of
 * its interval are keys, and what lies above them is measured exactly; so a bad guess of where the
 * token is costs time, and nothing else. */
#include "row/cut.cl"

/* What the pass measured above the record's pivots, by tiles, and the last cut whose masses follow
 * from it, if that is the cut of the chain's first truncation. */
typedef struct pass_sums {
    __global const u64 *by_tile;
    int valid, counts;
    cut last;
} pass_sums;

/* Tries to find the token in a list of the interval's tokens. With `guess` it lists only a part,
 * from the nearer end to where interpolation between the two measures puts the token, with a
 * margin. */
static inline int locate_in_list(SHARED const row_logits *r, const measure *m, u64 target,
                                 const interval *b, int guess, SHARED shortlist *list, cut *c)
{
    i32 lo = b->lo, hi = b->hi;
    c->from_below = 0;
    if (guess) {
        const f32 zl = float_of_key(lo), zh = float_of_key(hi);
        const f32 part = u64_to_f32(target - b->at_hi) / u64_to_f32(b->at_lo - b->at_hi);
        c->from_below = part > 0.5f;
        const i32 edge = key_of(clean(zh - (part + (part > 0.5f ? -0.08f : 0.08f)) * (zh - zl)));
        if (c->from_below)
            hi = edge;
        else
            lo = edge;
    }
    c->pivot = c->from_below ? b->lo_pivot : b->hi_pivot;
    if (lo >= b->lo && lo < hi && hi <= b->hi && collect(r, lo + 1, hi, CLS_MAX_ID, list)) {
        list_measure(r, list, m);
        const u64 base = c->from_below ? b->at_lo - list_mass(list, list->n) : b->at_hi;
        c->kept = base < target ? list_reach(list, 0, list->n, base, target) : list->n + 1;
        if (c->kept <= list->n) {
            c->key = list->key[list->order[c->kept - 1]];
            c->id = list->id[list->order[c->kept - 1]];
            return 1;
        }
    }
    c->kept = 0;
    c->from_below = 0;
    c->pivot = b->hi_pivot;
    return 0;
}

/* Chooses four keys that divide the interval evenly as floats, which is evenly in depth, or evenly
 * as keys where floats overflow. Where only one end is a pivot, they lie at growing distances
 * beyond it; `span` is then the distance between the outer pivots, else 0. */
static inline void locate_keys(const interval *b, f32 span, i32 *key)
{
    const f32 zl = float_of_key(b->lo), zh = float_of_key(b->hi), width = zh - zl;
    i32 before = b->lo;
    f32 factor = 1.0f;
    interval_keys(b, key);
    for (u32 p = 0; p < CLS_PIVOTS; p++) {
        i32 k = key[p];
        if (span > 0.0f && b->lo_pivot >= 0)
            k = key_of(clean(zl + span * factor));
        else if (span > 0.0f)
            k = key_of(clean(zh - span * (27.0f / factor)));
        else if (width < CLS_FLT_MAX)
            k = key_of(clean(zl + width * (0.2f * (f32)(p + 1))));
        factor *= 3.0f;
        key[p] = before = min(k > before ? k : before + 1, b->hi - 1);
    }
}

/* Finds the token at which the measure from the top reaches the target; if even the whole row does
 * not reach it, everything is kept. `pivots`: how far apart the outer keys of the
 * pass are. */
CALLED void locate_in_row(SHARED const row_logits *r, const measure *m, u64 target,
                          const interval *from, f32 pivots, __global u64 *sums,
                          SHARED shortlist *list, cut *c)
{
    interval b = *from;
    const int beyond = (b.lo_pivot >= 0) != (b.hi_pivot >= 0);
    f32 span = beyond ? pivots : 0.0f;
    int measured = b.lo != CLS_KEY_NONE, shrinks = measured && !beyond, guess = shrinks;
    c->key = CLS_KEY_NONE;
    c->id = CLS_MAX_ID;
    c->pivot = -1;
    c->from_below = c->tied = 0;
    c->kept = 0;
    /* Each round leaves at most a fifth of the interval, as floats: 2 or 3 rounds if the pivots
     * were close, some 60 at the very worst. */
    for (;;) {
        i32 key[CLS_PIVOTS];
        u64 sum[CLS_PIVOTS];
        if (measured) {
            if (locate_in_list(r, m, target, &b, guess, list, c))
                return;
            if (guess) {
                guess = 0;
                continue;
            }
            if (shrinks)
                key_range(r, &b.lo, &b.hi, list->scratch);
            if (b.lo + 1 >= b.hi) {
                c->key = b.hi;
                c->id = tie_cut(r, m, b.hi, b.at_hi, target, sums, list->scratch);
                c->tied = 1;
                return;
            }
            locate_keys(&b, span, key);
            span = 0.0f;
            shrinks = 1;
        } else {
            for (u32 p = 0; p < CLS_PIVOTS; p++)
                key[p] = CLS_KEY_NONE;
        }
        measure_row(r, m, CLS_KEY_INF, 0, 0, key, sum, list->scratch);
        if (measured)
            interval_narrow(key, sum, target, 0, &b);
        else if (sum[0] < target) /* nothing is cut */
            return;
        else
            b.at_lo = sum[0];
        measured = 1;
    }
}
