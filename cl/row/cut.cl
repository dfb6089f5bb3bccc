/* SPDX-License-Identifier: MIT */
/* cut: finds the exact place of a cut in the order, down to the id among tokens of equal
 * keys, and the masses of what it keeps. */
#include "row/fold.cl"
#include "row/shortlist.cl"

/* A lower cut, and how the masses by tile of what it keeps follow from the pass: take the masses
 * above `pivot` (none: -1); then add the list's kept tokens, or subtract its dropped ones, or add
 * the kept ties. */
typedef struct cut {
    i32 key, id;
    i32 pivot;
    int from_below, tied; /* tied: not the list but sums[] has what each tile keeps of the ties */
    u32 kept;             /* ranks of the list */
} cut;

/* What one token of a key adds to a tile's measure. */
static inline u64 tie_measure(const measure *m, i32 key, const cls_unit *unit)
{
    return m->counts ? 1
                     : to_row_units(weight(float_of_key(key), unit->max, m->scale, unit->fraction),
                                    unit->shift);
}

/* The lanes above one bound and not above another, a bit each. */
static inline u32 tied_lanes(FV x, f32 under, f32 over)
{
    return lane_bits((x > under) & (x <= over));
}

/* Returns the cut among the tokens of one key: the last id that is needed for `base` plus their
 * measure to reach the target. It sums up by tiles first, then inside one tile. sums[] gets what
 * each tile keeps of these tokens. */
CALLED i32 tie_cut(SHARED const row_logits *r, const measure *m, i32 key, u64 base, u64 target,
                   __global u64 *sums, __local u64 *scratch)
{
    const f32 under = above(key - 1), over = above(key);
    fold q = fold_of(0.0f, 1.0f);
    u64 sum[CLS_PIVOTS], total = 0;
    i32 id = CLS_MAX_ID;
    q.lo = key - 1;
    q.hi = key;
    q.out = sums;
    fold_row(r, FOLD_COUNT, FOLD_COUNT, &q, sum, scratch);
    BARRIER();
    SHORT_LOOP
    for (u32 t = LOCAL_ID; t < r->tiles; t += WGS) {
        if (sums[t] != 0) {
            const cls_unit unit = tile_unit(r->key, t, m->row_max, m->exponent, m->scale);
            sums[t] *= tie_measure(m, key, &unit);
        }
        total += sums[t];
    }
    total = base + wg_mass(total, scratch);
    BARRIER();
    if (total < target) /* the same for the whole group */
        return CLS_MAX_ID;
    /* Among the tokens of the tile, the one before which less than all of `rest` lies. */
    u64 rest = target - (base + 1);
    const u32 tile = find_tile(sums, r->tiles, &rest, scratch);
    const cls_unit unit = tile_unit(r->key, tile, m->row_max, m->exponent, m->scale);
    const u64 one = tie_measure(m, key, &unit);
    const int kind = tile_kind(r, tile);
    const u32 n = tile_vectors(r, tile), per_item = (n + WGS - 1) / WGS;
    const u32 first = min(LOCAL_ID * per_item, n), last = min(first + per_item, n);
    u32 count = 0, all;
    for (u32 v = first; v < last; v++)
        count += popcount(
            tied_lanes(load_v(r, tile * CLS_TILE + v * VEC, kind, CLS_MASKED), under, over));
    count = wg_scan_u32(count, scratch, &all);
    BARRIER(); /* every item has read sums[] */
    for (u32 v = first; v < last && id == CLS_MAX_ID; v++) {
        const u32 i = tile * CLS_TILE + v * VEC;
        u32 tied = tied_lanes(load_v(r, i, kind, CLS_MASKED), under, over);
        for (; tied != 0 && id == CLS_MAX_ID; tied &= tied - 1) {
            count++;
            if (rest < one * count)
                id = (i32)(i + lowest_bit(tied));
        }
    }
    const i32 mine = id;
    id = wg_imin(id, scratch);
    if (mine == id && id != CLS_MAX_ID)
        sums[tile] = one * count;
    SHORT_LOOP
    for (u32 t = LOCAL_ID; t < r->tiles; t += WGS)
        if (t > tile)
            sums[t] = 0;
    BARRIER();
    return id;
}

/* Sorts a list and computes each entry's measure. */
static inline void list_measure(SHARED const row_logits *r, SHARED shortlist *list,
                                const measure *m)
{
    list_sort(list);
    if (m->counts) {
        SHORT_LOOP
        for (u32 i = LOCAL_ID; i < list->n; i += WGS)
            list->mass[i] = 1;
        BARRIER();
    } else {
        list_weigh(r, list, m->row_max, m->scale);
    }
}

/* Stores the masses of what a cut keeps, by tiles in sums[], from the pass and the list, without
 * reading the row again; returns their sum. */
static inline u64 pass_masses(SHARED shortlist *list, const cut *c, __global const u64 *row_pass,
                              u32 tiles, __global u64 *sums, __local u64 *scratch)
{
    u64 total = 0;
    BARRIER();
    SHORT_LOOP
    for (u32 t = LOCAL_ID; t < tiles; t += WGS) {
        const u64 over = row_pass[t * CLS_PIVOTS + (u32)c->pivot];
        sums[t] = c->tied ? over + sums[t] : over;
    }
    BARRIER();
    /* The list is in order of ids, so each tile has a run of it, which one item adds up. */
    for (u32 i = c->tied ? list->n : LOCAL_ID; i < list->n; i += WGS) {
        const u32 t = (u32)list->id[i] / CLS_TILE;
        if (i > 0 && (u32)list->id[i - 1] / CLS_TILE == t)
            continue;
        u64 sum = sums[t];
        SHORT_LOOP
        for (u32 j = i; j < list->n && (u32)list->id[j] / CLS_TILE == t; j++) {
            const int kept = (u32)list->rank[j] < c->kept;
            if (kept && !c->from_below)
                sum += list->mass[j];
            if (!kept && c->from_below)
                sum -= list->mass[j];
        }
        sums[t] = sum;
    }
    BARRIER();
    SHORT_LOOP
    for (u32 t = LOCAL_ID; t < tiles; t += WGS)
        total += sums[t];
    return wg_mass(total, scratch);
}
