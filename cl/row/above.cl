/* SPDX-License-Identifier: MIT */
/* above: how many tiles and tokens lie above a key, and the keys that have a wanted
 * number of them. */
#include "row/tiles.cl"

/* Tile keys above a key, by the whole group. */
static inline u32 tiles_above(__global const i32 *row_key, u32 n, i32 key, __local u64 *scratch)
{
    IV count = (IV)(0);
    for (u32 i = get_local_id(0) * VEC; i < n; i += WGS * VEC)
        count += VLOAD(row_key + i) > key;
    return wg_usum(COUNT(count), scratch);
}

/* Tokens of the row with keys above a key, by the whole group: only tiles
 * whose maximum is above it are read. */
static inline u32 tokens_above(const row_logits *r, __global const i32 *row_key, u32 n, i32 key, __local u64 *scratch)
{
    const f32 bound = above(key), least = least_above(r, bound);
    u32 count = 0;
    for (u32 first = get_local_id(0) * VEC; first < n; first += WGS * VEC) {
        if (!ANY(VLOAD(row_key + first) > key))
            continue;
        for (u32 m = first; m < first + VEC && m < n; m++) {
            if (row_key[m] <= key)
                continue;
            const int kind = max_tile_kind(r, m);
            IV c = (IV)(0);
            for (u32 v = 0; v < CLS_MAX_TILE; v += VEC)
                c += load_above(r, m * CLS_MAX_TILE + v, kind, least) > bound;
            count += COUNT(c);
        }
    }
    return wg_usum(count, scratch);
}

/* A key with at least k max tiles at or above it, few more if it can be; all
 * tiles' (CLS_KEY_NONE + 1) where there are fewer. Looks further and further
 * under the maximum, then halves in floats, where maxima lie evenly and 8 to
 * 10 counts do, and ends in keys. */
static inline i32 tile_bound(__global const i32 *row_key, u32 n, u32 k, i32 max_key, __local u64 *scratch)
{
    i32 lo = CLS_KEY_NONE + 1; /* at least k at or above it, unless there are fewer at all */
    i32 hi = max_key + 1;      /* fewer than k */
    f32 gap = 4.0f;
    if (k >= n || tiles_above(row_key, n, CLS_KEY_NONE, scratch) <= k)
        return lo;
    for (u32 round = 0; hi - 1 > lo && round < 64; round++) {
        const i32 below = key_of(clean(of_key(max_key) - gap));
        const i32 half_way = key_of(clean(0.5f * of_key(lo) + 0.5f * of_key(hi - 1)));
        i32 mid = (lo & hi) + ((lo ^ hi) >> 1);
        if (lo == CLS_KEY_NONE + 1 && round < 8)
            mid = below;
        else if (round < 24)
            mid = half_way;
        mid = mid <= lo ? lo + 1 : mid >= hi ? hi - 1 : mid;
        gap *= 8.0f;
        const u32 count = tiles_above(row_key, n, mid - 1, scratch);
        if (count < k) {
            hi = mid;
            continue;
        }
        lo = mid;
        if (count <= k + 7)
            break;
    }
    return lo;
}

/* The k-th largest key of the row, between a known bound and the maximum, and
 * how many are above it. */
static inline i32 kth_key(const row_logits *r, __global const i32 *row_key, u32 n, u32 k, i32 bound, i32 max_key,
                          u32 *over, __local u64 *scratch)
{
    i32 lo = bound, hi = max_key; /* count(>= lo) >= k > count(> hi) */
    *over = 0;
    while (lo < hi) {
        const i32 mid = (lo & hi) + ((lo ^ hi) >> 1);
        const u32 count = tokens_above(r, row_key, n, mid, scratch);
        if (count >= k) {
            lo = mid + 1;
        } else {
            hi = mid;
            *over = count;
        }
    }
    return lo;
}
