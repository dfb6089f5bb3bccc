/* SPDX-License-Identifier: MIT */
/* cut: the exact place of a threshold in the order, from the pass's measures
 * where the guess was good, by narrowing the bracket where it was not. */
#include "row/measure.cl"
#include "row/list.cl"

/* A cut, and how the masses per tile of what it keeps can be had from the
 * pass: those above `pivot` (none: -1), plus the list's kept tokens, or less
 * its dropped ones, or plus the kept ties. */
typedef struct cut {
    i32 key, id;
    i32 pivot;
    int from_below, tied; /* tied: what tiles keep of the ties is in work[] instead */
    u32 kept; /* ranks of the list */
} cut;

/* The least and the largest key in (lo, hi], by the group. */
static inline void key_range(const row_logits *r, __global const i32 *row_key, u32 n, i32 *lo, i32 *hi,
                             __local u64 *scratch)
{
    const f32 under = above(*lo), over = above(*hi);
    FV least = (FV)(CLS_INF), most = (FV)(CLS_MASKED);
    for (u32 m = get_local_id(0); m < n; m += WGS) {
        if (row_key[m] > *lo) {
            const int kind = max_tile_kind(r, m);
            for (u32 v = 0; v < CLS_MAX_TILE; v += VEC) {
                const FV x = clean_v(load_v(r, m * CLS_MAX_TILE + v, kind));
                const IV hit = (x > under) & (x <= over);
                least = (hit & (x < least)) ? x : least;
                most = (hit & (x > most)) ? x : most;
            }
        }
    }
    const f32 top = wg_fmax(FMAX(most), scratch), bottom = wg_fmin(FMIN(least), scratch);
    if (bottom <= top) {
        *lo = key_of(clean(bottom)) - 1;
        *hi = key_of(clean(top));
    } else {
        *lo = *hi; /* nothing there: the measure does not change inside */
    }
}

/* What one token of a key measures in a tile. */
static inline u64 tie_measure(const measure *m, i32 key, const cls_unit *unit)
{
    return m->counts ? u64_from(1)
                     : up(u64_from(weight(of_key(key), unit->max, m->scale, unit->fraction)), unit->shift);
}

/* The cut among the tokens of one key: the last id it takes for base plus
 * their measure to reach the target. Tile sums first, then one tile. Leaves in
 * work[tiles] what each tile keeps of them. */
static inline i32 tie_cut(const row_logits *r, __global const i32 *row_key, u32 tiles, const measure *m, i32 key,
                          u64 base, u64 target, __global u64 *work, __local u64 *scratch)
{
    const f32 under = above(key - 1), over = above(key);
    u64 total = u64_from(0);
    i32 id = CLS_MAX_ID;
    for (u32 t = get_local_id(0); t < tiles; t += WGS) {
        const i32 top = tile_max_key(row_key, t);
        u64 mass = u64_from(0);
        if (top >= key) {
            const int kind = tile_kind(r, t);
            const cls_unit unit = tile_unit(row_key, t, m->row_max, m->exponent, m->scale);
            const u64 one = tie_measure(m, key, &unit);
            IV c = (IV)(0);
            for (u32 v = 0; v < TILE_VECTORS; v++) {
                const FV x = load_v(r, t * CLS_TILE + v * VEC, kind);
                c += (x > under) & (x <= over);
            }
            mass = u64_add(u64_mul32(u64_lo(one), COUNT(c)), u64_shl(u64_mul32(u64_hi(one), COUNT(c)), 32));
        }
        work[t] = mass;
        total = u64_add(total, mass);
    }
    total = u64_add(base, wg_mass(total, scratch));
    BARRIER();
    if (get_local_id(0) == 0 && !u64_less(total, target)) {
        u64 sum = base;
        u32 t = 0;
        while (t + 1 < tiles && u64_less(u64_add(sum, work[t]), target))
            sum = u64_add(sum, work[t++]);
        const cls_unit unit = tile_unit(row_key, t, m->row_max, m->exponent, m->scale);
        const u64 one = tie_measure(m, key, &unit);
        for (u32 i = t * CLS_TILE; i < r->vocab && i < (t + 1) * CLS_TILE && id == CLS_MAX_ID; i++) {
            if (key_of(load_one(r, i)) == key) {
                sum = u64_add(sum, one);
                if (!u64_less(sum, target))
                    id = (i32)i;
            }
        }
    }
    id = wg_imin(id, scratch);
    for (u32 t = get_local_id(0); t < tiles; t += WGS) {
        if (t > (u32)id / CLS_TILE)
            work[t] = u64_from(0);
        if (t != (u32)id / CLS_TILE)
            continue;
        const cls_unit unit = tile_unit(row_key, t, m->row_max, m->exponent, m->scale);
        const u64 one = tie_measure(m, key, &unit);
        u64 sum = u64_from(0);
        for (u32 i = t * CLS_TILE; i <= (u32)id; i++)
            sum = u64_add(sum, key_of(load_one(r, i)) == key ? one : u64_from(0));
        work[t] = sum;
    }
    BARRIER();
    return id;
}

/* Sorts a list and gives each entry its measure. */
static inline void list_measure(shortlist *list, __global const i32 *row_key, const measure *m)
{
    list_sort(list);
    if (m->counts) {
        for (u32 i = get_local_id(0); i < list->n; i += WGS)
            list->mass[i] = u64_from(1);
        BARRIER();
    } else {
        list_weigh(list, row_key, m->row_max, m->scale);
    }
}

/* Where a cut is looked for: the measure from the top reaches the target above lo,
 * not above hi. Pivots: which of the pass's they are, -1 for none. */
typedef struct bracket {
    i32 lo, hi;
    u64 at_lo, at_hi;
    i32 lo_pivot, hi_pivot;
} bracket;

/* What is known from the pass: what lies above four ascending keys. */
static inline void bracket_begin(const i32 *pivot, const u64 *known, int is_known, i32 max_key, u64 target, bracket *b)
{
    b->lo = CLS_KEY_NONE;
    b->hi = max_key;
    b->at_lo = b->at_hi = u64_from(0);
    b->lo_pivot = b->hi_pivot = -1;
    for (u32 p = 0; p < CLS_PIVOTS; p++) {
        const int less = u64_less(known[p], target);
        if (is_known && !less && pivot[p] > b->lo) {
            b->lo = pivot[p];
            b->at_lo = known[p];
            b->lo_pivot = (i32)p;
        }
        if (is_known && less && pivot[p] < b->hi) {
            b->hi = pivot[p];
            b->at_hi = known[p];
            b->hi_pivot = (i32)p;
        }
    }
}

/* Tries to find the cut in a list of the bracket; with a guess of a part of it, by
 * interpolation between what was measured on both sides, from the nearer. */
static inline int bracket_list(const row_logits *r, __global const i32 *row_key, u32 n, const measure *m, u64 target,
                               const bracket *b, int guess, shortlist *list, cut *c)
{
    i32 from = b->lo, to = b->hi;
    c->from_below = 0;
    if (guess) {
        const f32 zl = of_key(b->lo), zh = of_key(b->hi);
        const f32 part = u64_to_f32(u64_sub(target, b->at_hi)) / u64_to_f32(u64_sub(b->at_lo, b->at_hi));
        c->from_below = part > 0.5f;
        const i32 edge = key_of(clean(zh - (part + (part > 0.5f ? -0.08f : 0.08f)) * (zh - zl)));
        if (c->from_below)
            to = edge;
        else
            from = edge;
    }
    c->pivot = c->from_below ? b->lo_pivot : b->hi_pivot;
    if (from >= b->lo && from < to && to <= b->hi && collect(r, row_key, n, from + 1, to, ALL_TIES, list)) {
        list_measure(list, row_key, m);
        const u64 base = c->from_below ? u64_sub(b->at_lo, list_mass(list, list->n)) : b->at_hi;
        c->kept = u64_less(base, target) ? list_reach(list, list->n, base, target) : list->n + 1;
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

/* Four keys that divide the bracket: just beyond the pass's pivots first (`reach`:
 * how far these are apart); then evenly in floats, which is even in depth; in keys
 * where floats overflow. */
static inline void bracket_keys(const bracket *b, u32 round, f32 reach, i32 *key)
{
    const f32 zl = of_key(b->lo), zh = of_key(b->hi), width = zh - zl;
    const i32 fifth = (i32)(((u32)b->hi - (u32)b->lo) / 5u);
    i32 before = b->lo;
    f32 far = 1.0f;
    for (u32 p = 0; p < CLS_PIVOTS; p++) {
        i32 k = b->lo + fifth * (i32)(p + 1);
        if (round == 0 && b->lo_pivot >= 0 && b->hi_pivot < 0)
            k = key_of(clean(zl + reach * far));
        else if (round == 0 && b->hi_pivot >= 0 && b->lo_pivot < 0)
            k = key_of(clean(zh - reach * (27.0f / far)));
        else if (width < CLS_FLT_MAX)
            k = key_of(clean(zl + width * (0.2f * (f32)(p + 1))));
        far *= 3.0f;
        key[p] = before = min(k > before ? k : before + 1, b->hi - 1);
    }
}

/* Narrows the bracket by what was measured above four keys. */
static inline void bracket_narrow(const i32 *key, const u64 *sum, u64 target, bracket *b)
{
    for (u32 p = 0; p < CLS_PIVOTS; p++) {
        if (!u64_less(sum[p], target)) {
            b->lo = key[p] > b->lo ? key[p] : b->lo;
        } else if (key[p] < b->hi) {
            b->hi = key[p];
            b->at_hi = sum[p];
            b->hi_pivot = -1;
        }
    }
}

/* The cut at which the measure from the top reaches the target: the place of
 * the token that does it. `pivot` and `known`: keys, ascending, and what lies
 * above each, if the pass measured that. */
static inline void find_cut(const row_logits *r, __global const i32 *row_key, u32 tiles, const measure *m, u64 target,
                            const i32 *pivot, const u64 *known, int is_known, i32 max_key, __global u64 *work,
                            shortlist *list, cut *c)
{
    const u32 n = tiles * CLS_MAX_TILES_PER_TILE;
    const f32 reach = is_known ? of_key(pivot[CLS_PIVOTS - 1]) - of_key(pivot[0]) : 0.0f;
    bracket b;
    c->key = CLS_KEY_NONE;
    c->id = CLS_MAX_ID;
    c->pivot = -1;
    c->from_below = c->tied = 0;
    c->kept = 0;
    if (u64_is_zero(target))
        target = u64_from(1); /* at least one token */
    bracket_begin(pivot, known, is_known, max_key, target, &b);
    int whole = b.lo == CLS_KEY_NONE; /* nobody knows yet whether the whole row reaches it */
    const int between = b.lo_pivot >= 0 && b.hi_pivot >= 0;
    int guess = between;
    /* Each round leaves at most a fifth of the bracket in floats: some 60 at
     * the very worst, 2 or 3 where the guess was good but missed. */
    for (u32 round = 0;;) {
        i32 key[CLS_PIVOTS];
        u64 sum[CLS_PIVOTS];
        if (!whole) {
            if (bracket_list(r, row_key, n, m, target, &b, guess, list, c))
                return;
            if (guess) {
                guess = 0;
                continue;
            }
            if (round > 0 || between) {
                key_range(r, row_key, n, &b.lo, &b.hi, list->scratch);
                if (b.lo + 1 >= b.hi) {
                    c->key = b.hi;
                    c->id = tie_cut(r, row_key, tiles, m, b.hi, b.at_hi, target, work, list->scratch);
                    c->tied = 1;
                    return;
                }
            }
            bracket_keys(&b, round, reach, key);
            round++;
        } else {
            for (u32 p = 0; p < CLS_PIVOTS; p++)
                key[p] = CLS_KEY_NONE;
        }
        measure_row(r, row_key, tiles, m, key, sum, list->scratch);
        if (whole && u64_less(sum[0], target)) /* everything does not reach it: keep everything */
            return;
        if (!whole)
            bracket_narrow(key, sum, target, &b);
        whole = 0;
    }
}

#define GANG_KEPT(g) w[g] = (AS_UV(is_kept(set, x[g], i + g * VEC)) & w[g]) >> lost;

/* The masses of what a cut keeps, tile by tile; returns their sum. Items own
 * whole tiles. */
static inline u64 cut_masses(const row_logits *r, __global const i32 *row_key, u32 tiles, const measure *m,
                             const kept_set *set, __global u64 *work, __local u64 *scratch)
{
    u64 total = u64_from(0);
    BARRIER();
    for (u32 t = get_local_id(0); t < tiles; t += WGS) {
        const i32 top = tile_max_key(row_key, t);
        u64 mass = u64_from(0);
        if (top >= set->key && top != CLS_KEY_NONE) {
            const int kind = tile_kind(r, t);
            const cls_unit unit = tile_unit(row_key, t, m->row_max, m->exponent, m->scale);
            const u32 lost = lost_bits(unit.shift);
            weight_sum sum = { (UV)(0), (UV)(0) };
            for (u32 v = 0; v < TILE_VECTORS; v += GANG) {
                const u32 i = t * CLS_TILE + v * VEC;
                FV x[GANG];
                UV w[GANG];
                load_gang(r, i, VEC, kind, x);
                weights_gang(x, w, unit.max, m->scale, unit.fraction);
                EACH_GANG(GANG_KEPT)
                sum_gang(&sum, w);
            }
            mass = set_finish(sum_total(&sum), &unit, set);
        }
        work[t] = mass;
        total = u64_add(total, mass);
    }
    return wg_mass(total, scratch);
}

/* The same from the pass and the list, without another read of the row. */
static inline u64 pass_masses(const shortlist *list, const cut *c, __global const u64 *row_pass, u32 tiles,
                              __global u64 *work, __local u64 *scratch)
{
    u64 total = u64_from(0);
    BARRIER();
    for (u32 t = get_local_id(0); t < tiles; t += WGS) {
        const u64 over = row_pass[t * CLS_PIVOTS + (u32)c->pivot];
        work[t] = c->tied ? u64_add(over, work[t]) : over;
    }
    BARRIER();
    if (get_local_id(0) == 0 && !c->tied) {
        for (u32 i = 0; i < list->n; i++) {
            const u32 t = (u32)list->id[i] / CLS_TILE;
            const int kept = (u32)list->rank[i] < c->kept;
            if (kept && !c->from_below)
                work[t] = u64_add(work[t], list->mass[i]);
            if (!kept && c->from_below)
                work[t] = u64_sub(work[t], list->mass[i]);
        }
    }
    BARRIER();
    for (u32 t = get_local_id(0); t < tiles; t += WGS)
        total = u64_add(total, work[t]);
    return wg_mass(total, scratch);
}
