/* SPDX-License-Identifier: MIT */
/* bracket: finds the exact place of a threshold in the order: from the measures of the pass if the
 * pivots were good, otherwise by narrowing the interval around it. */
#include "row/cut.cl"

/* The interval of keys that contains a cut: the measure above lo reaches the target, the measure
 * above hi does not. lo_pivot and hi_pivot: which pivots of the pass these are, -1 for none. */
typedef struct bracket {
    i32 lo, hi;
    u64 at_lo, at_hi;
    i32 lo_pivot, hi_pivot;
} bracket;

/* Starts with what the pass measured above its pivots, four ascending keys. */
static inline void bracket_begin(const i32 *pivot, const u64 *known, int is_known, i32 max_key,
                                 u64 target, bracket *b)
{
    b->lo = CLS_KEY_NONE;
    b->hi = max_key;
    b->at_lo = b->at_hi = 0;
    b->lo_pivot = b->hi_pivot = -1;
    for (u32 p = 0; p < CLS_PIVOTS && is_known; p++) {
        const int less = known[p] < target;
        if (!less && pivot[p] > b->lo) {
            b->lo = pivot[p];
            b->at_lo = known[p];
            b->lo_pivot = (i32)p;
        }
        if (less && pivot[p] < b->hi) {
            b->hi = pivot[p];
            b->at_hi = known[p];
            b->hi_pivot = (i32)p;
        }
    }
}

/* Tries to find the cut in a list of the interval's tokens. With `guess` it lists only a part, from
 * the nearer end to where interpolation between the two measures puts the cut, with a margin. */
static inline int bracket_list(const row_logits *r, const measure *m, u64 target, const bracket *b,
                               int guess, shortlist *list, cut *c)
{
    i32 from = b->lo, to = b->hi;
    c->from_below = 0;
    if (guess) {
        const f32 zl = float_of_key(b->lo), zh = float_of_key(b->hi);
        const f32 part = u64_to_f32(target - b->at_hi) / u64_to_f32(b->at_lo - b->at_hi);
        c->from_below = part > 0.5f;
        const i32 edge = key_of(clean(zh - (part + (part > 0.5f ? -0.08f : 0.08f)) * (zh - zl)));
        if (c->from_below)
            to = edge;
        else
            from = edge;
    }
    c->pivot = c->from_below ? b->lo_pivot : b->hi_pivot;
    if (from >= b->lo && from < to && to <= b->hi && collect(r, from + 1, to, ALL_TIES, list)) {
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

/* Chooses four keys that divide the interval. In the first round, if the cut is outside the pivots,
 * they lie at growing distances beyond the nearest one; `span` is the distance between the outer
 * pivots. Then they divide it evenly as floats, which is evenly in depth, or evenly as keys where
 * floats overflow. */
static inline void bracket_keys(const bracket *b, u32 round, f32 span, i32 *key)
{
    const f32 zl = float_of_key(b->lo), zh = float_of_key(b->hi), width = zh - zl;
    const i32 fifth = (i32)(((u32)b->hi - (u32)b->lo) / 5u);
    i32 before = b->lo;
    f32 factor = 1.0f;
    for (u32 p = 0; p < CLS_PIVOTS; p++) {
        i32 k = b->lo + fifth * (i32)(p + 1);
        if (round == 0 && b->lo_pivot >= 0 && b->hi_pivot < 0)
            k = key_of(clean(zl + span * factor));
        else if (round == 0 && b->hi_pivot >= 0 && b->lo_pivot < 0)
            k = key_of(clean(zh - span * (27.0f / factor)));
        else if (width < CLS_FLT_MAX)
            k = key_of(clean(zl + width * (0.2f * (f32)(p + 1))));
        factor *= 3.0f;
        key[p] = before = min(k > before ? k : before + 1, b->hi - 1);
    }
}

/* Narrows the interval by what was measured above four keys. */
static inline void bracket_narrow(const i32 *key, const u64 *sum, u64 target, bracket *b)
{
    for (u32 p = 0; p < CLS_PIVOTS; p++) {
        if (sum[p] >= target) {
            b->lo = key[p] > b->lo ? key[p] : b->lo;
        } else if (key[p] < b->hi) {
            b->hi = key[p];
            b->at_hi = sum[p];
            b->hi_pivot = -1;
        }
    }
}

/* Finds the cut at which the measure from the top reaches the target, that is, the token that
 * reaches it. `pivot` and `known`: ascending keys and what lies above each, if the pass measured
 * that. */
ONE_COPY void find_cut(const row_logits *r, const measure *m, u64 target, const i32 *pivot,
                       const u64 *known, int is_known, i32 max_key, __global u64 *work,
                       shortlist *list, cut *c)
{
    const f32 span = is_known ? float_of_key(pivot[CLS_PIVOTS - 1]) - float_of_key(pivot[0]) : 0.0f;
    bracket b;
    c->key = CLS_KEY_NONE;
    c->id = CLS_MAX_ID;
    c->pivot = -1;
    c->from_below = c->tied = 0;
    c->kept = 0;
    if (target == 0)
        target = 1; /* keep at least one token */
    bracket_begin(pivot, known, is_known, max_key, target, &b);
    int whole =
        b.lo == CLS_KEY_NONE; /* whether the whole row reaches the target is not known yet */
    const int between = b.lo_pivot >= 0 && b.hi_pivot >= 0;
    int guess = between;
    /* Each round leaves at most a fifth of the interval, as floats: 2 or 3 rounds if the pivots
     * were close, some 60 at the very worst. */
    for (u32 round = 0;;) {
        i32 key[CLS_PIVOTS];
        u64 sum[CLS_PIVOTS];
        if (!whole) {
            if (bracket_list(r, m, target, &b, guess, list, c))
                return;
            if (guess) {
                guess = 0;
                continue;
            }
            if (round > 0 || between) {
                key_range(r, &b.lo, &b.hi, list->scratch);
                if (b.lo + 1 >= b.hi) {
                    c->key = b.hi;
                    c->id = tie_cut(r, m, b.hi, b.at_hi, target, work, list->scratch);
                    c->tied = 1;
                    return;
                }
            }
            bracket_keys(&b, round, span, key);
            round++;
        } else {
            for (u32 p = 0; p < CLS_PIVOTS; p++)
                key[p] = CLS_KEY_NONE;
        }
        measure_row(r, m, key, sum, list->scratch);
        if (whole && sum[0] < target) /* the whole row does not span the target: keep all of it */
            return;
        if (!whole)
            bracket_narrow(key, sum, target, &b);
        whole = 0;
    }
}
