/* SPDX-License-Identifier: MIT */
/* count: counts the tiles that reach a key, and finds keys that a wanted number of them reach. */
#include "row/tiles.cl"

/* Returns how many keys of max tiles reach each of four keys, by the whole group. The counts have
 * 16 bits each, since a row has at most 2^14 max tiles. */
static inline u64 tiles_reach(SHARED const row_logits *r, const i32 *key, __local u64 *scratch)
{
    IV c0 = (IV)(0), c1 = c0, c2 = c0, c3 = c0;
    for (u32 i = LOCAL_ID * VEC; i < max_tiles(r); i += WGS * VEC) {
        const IV k = LOAD_KEYS(r->key + i);
        c0 += k >= key[0];
        c1 += k >= key[1];
        c2 += k >= key[2];
        c3 += k >= key[3];
    }
    return wg_mass(u64_make(COUNT(c3) << 16 | COUNT(c2), COUNT(c1) << 16 | COUNT(c0)), scratch);
}

/* Returns the number of the row's tokens above a key, by the whole group. Only tiles with a maximum
 * above the key are read. */
CALLED u32 tokens_above(SHARED const row_logits *r, i32 key, __local u64 *scratch)
{
    const f32 bound = above(key), least = least_above(r, bound);
    const u32 n = max_tiles(r);
    u32 count = 0;
    for (u32 first = LOCAL_ID * VEC; first < n; first += WGS * VEC) {
        if (!ANY(LOAD_KEYS(r->key + first) > key))
            continue;
        SHORT_LOOP
        for (u32 m = first; m < first + VEC && m < n; m++) {
            if (r->key[m] <= key)
                continue;
            const int kind = max_tile_kind(r, m);
            IV c = (IV)(0);
            TILE_LOOP
            for (u32 v = 0; v < CLS_MAX_TILE; v += VEC)
                c += load_v(r, m * CLS_MAX_TILE + v, kind, least) > bound;
            count += COUNT(c);
        }
    }
    return wg_usum(count, scratch);
}

#if WGS > 1
/* An item ranks one maximum of the row's tiles. In small groups it may have two, for which there is
 * room in the scratch: that is four times the comparisons. */
#define RANKED (WGS < 128 ? WGS : WGS < 256 ? 128 : WGS / 2) /* items */
#define RANKED_EACH (WGS < 128 ? 2 : 1)

/* Returns whether the ranked maxima bound a row's first k tokens: these are at most half of them,
 * and no more than have tiles. In rows of few tiles two maxima take longer than rounds. */
static inline int is_ranked(u32 k, u32 n)
{
    const u32 most = n > 2 * WGS * VEC ? RANKED_EACH * RANKED : RANKED;
    return k <= most / 2 && k <= n / VEC;
}

/* Returns how many of RANKED maxima reach a key. */
static inline u32 maxima_reach(__local const i32 *maximum, i32 key)
{
    IV count = (IV)(0);
    for (u32 i = 0; i < RANKED / VEC * VEC; i += VEC)
        count += VLOAD(maximum + i) >= key;
    u32 reaching = COUNT(count);
    for (u32 i = RANKED / VEC * VEC; i < RANKED; i++)
        reaching += maximum[i] >= key;
    return reaching;
}

/* Returns a key that at least k max tiles reach, and in *reach how many do: the k-th largest of the
 * ranked maxima. Of 2,004 tiles some 63 reach it for k = 50, unless the largest tiles are
 * neighbours. The items compare their maxima with all others, without a barrier between. */
static inline i32 ranked_bound(SHARED const row_logits *r, u32 k, u32 *reach, __local u64 *scratch)
{
    const u32 n = max_tiles(r), each = k <= RANKED / 2 ? 1 : RANKED_EACH;
    const u32 own = LOCAL_ID < RANKED ? each : 0;
    __local i32 *const maximum = (__local i32 *)scratch;
    i32 mine[RANKED_EACH], bound = CLS_KEY_NONE + 1;
    for (u32 e = 0; e < RANKED_EACH; e++) {
        IV most = (IV)(CLS_KEY_NONE);
        for (u32 i = (e * RANKED + LOCAL_ID) * VEC; e < own && i < n; i += each * RANKED * VEC) {
            const IV key = LOAD_KEYS(r->key + i);
            most = most > key ? most : key;
        }
        mine[e] = IMAX(most);
    }
    BARRIER();
    for (u32 e = 0; e < RANKED_EACH; e++)
        if (e < own)
            maximum[e * RANKED + LOCAL_ID] = mine[e];
    BARRIER();
    for (u32 e = 0; e < RANKED_EACH; e++) {
        if (e >= own)
            continue;
        u32 reaching = maxima_reach(maximum, mine[e]);
        if (each > 1)
            reaching += maxima_reach(maximum + RANKED, mine[e]);
        bound = reaching >= k && mine[e] > bound ? mine[e] : bound;
    }
    bound = wg_imax(bound, scratch);
    IV count = (IV)(0);
    for (u32 i = LOCAL_ID * VEC; i < n; i += WGS * VEC)
        count += LOAD_KEYS(r->key + i) >= bound;
    *reach = wg_usum(COUNT(count), scratch);
    return bound;
}
#endif

/* Returns a key that at least k max tiles reach, and few more if possible; CLS_KEY_NONE + 1, which
 * all reach, if there are fewer than k. Each round counts for four keys: first keys at growing
 * distances below the maximum, then keys that divide the interval evenly as floats, since maxima
 * mostly lie so, and at last evenly as keys. */
CALLED i32 tile_bound(SHARED const row_logits *r, u32 k, i32 max_key, __local u64 *scratch)
{
    const u32 n = max_tiles(r);
    i32 lo = CLS_KEY_NONE + 1;  /* at least k tiles reach it, unless there are fewer than k */
    i32 hi = max_key + 1;       /* fewer than k tiles reach it */
    u32 reach = k < n ? n : 0u; /* how many tiles reach lo */
    f32 gap = 4.0f;
#if WGS > 1
    if (is_ranked(k, n))
        lo = ranked_bound(r, k, &reach, scratch);
#endif
    SHORT_LOOP
    for (u32 round = 0; hi - 1 > lo && reach > k + k / 4 + 7 && round < 40; round++) {
        const f32 zl = float_of_key(lo), zh = float_of_key(hi - 1);
        i32 key[4];
        for (u32 p = 0; p < 4; p++) {
            const f32 part = 0.2f * (f32)(4 - p);
            const i32 fifth = (i32)(((u32)hi - (u32)lo) / 5u);
            i32 mid = lo + fifth * (i32)(4 - p); /* descending */
            if (lo == CLS_KEY_NONE + 1 && round < 2)
                mid = round == 0 && p == 3 ? lo : key_of(clean(float_of_key(max_key) - gap));
            else if (round < 14)
                mid = key_of(clean(part * zh + (1.0f - part) * zl));
            mid = mid >= hi ? hi - 1 : mid;
            key[p] = mid > lo || (round == 0 && p == 3) ? mid : lo + 1;
            gap *= 8.0f;
        }
        const u64 counts = tiles_reach(r, key, scratch);
        for (u32 p = 4; p > 0; p--) { /* from the least key upwards */
            const u32 count =
                (p > 2 ? u64_hi(counts) : u64_lo(counts)) >> (p - 1) % 2 * 16 & 0xffffu;
            if (count < k) {
                hi = key[p - 1] < hi ? key[p - 1] : hi;
            } else {
                lo = key[p - 1];
                reach = count;
            }
        }
        /* Fewer than k tiles have any token. */
        if (hi <= lo)
            return CLS_KEY_NONE + 1;
    }
    return lo;
}

/* Counts the tokens above each of four ascending keys, by the whole group. A max tile's counts are
 * at most 64 each and share a lane, a byte each; four vectors of counts would take too many
 * registers of a GPU. */
CALLED void tokens_above_each(SHARED const row_logits *r, const i32 *key, u64 *count,
                              __local u64 *scratch)
{
    const f32 bound[4] = {above(key[0]), above(key[1]), above(key[2]), above(key[3])};
    const f32 least = least_above(r, bound[0]);
    const u32 n = max_tiles(r);
    u64 low = 0, high = 0;
    for (u32 first = LOCAL_ID * VEC; first < n; first += WGS * VEC) {
        if (!ANY(LOAD_KEYS(r->key + first) > key[0]))
            continue;
        SHORT_LOOP
        for (u32 m = first; m < first + VEC && m < n; m++) {
            if (r->key[m] <= key[0])
                continue;
            const int kind = max_tile_kind(r, m);
            IV c = (IV)(0);
            TILE_LOOP
            for (u32 v = 0; v < CLS_MAX_TILE; v += VEC) {
                const FV x = load_v(r, m * CLS_MAX_TILE + v, kind, least);
                c += (x > bound[0]) & 1;
                c += (x > bound[1]) & 0x100;
                c += (x > bound[2]) & 0x10000;
                c += (x > bound[3]) & 0x1000000;
            }
            const u32 packed = (u32)ISUM(c);
            low += u64_make(packed >> 8 & 255u, packed & 255u);
            high += u64_make(packed >> 24, packed >> 16 & 255u);
        }
    }
    low = wg_mass(low, scratch);
    high = wg_mass(high, scratch);
    count[0] = u64_lo(low);
    count[1] = u64_hi(low);
    count[2] = u64_lo(high);
    count[3] = u64_hi(high);
}

/* An interval of keys that contains a cut: what the row has above lo reaches the target, what it
 * has above hi does not. lo_pivot and hi_pivot: which pivots of the pass these are, -1 for none. */
typedef struct interval {
    i32 lo, hi;
    u64 at_lo, at_hi; /* what lies above each */
    i32 lo_pivot, hi_pivot;
} interval;

/* Chooses four ascending keys that divide the interval evenly as keys. */
static inline void interval_keys(const interval *b, i32 *key)
{
    const u32 width = (u32)b->hi - (u32)b->lo, fifth = max(width / 5u, 1u);
    for (u32 p = 0; p < CLS_PIVOTS; p++)
        key[p] = (i32)((u32)b->lo + min((p + 1) * fifth, width - 1));
}

/* Narrows the interval by what was measured above four keys in it. `pivots`: these are the pass's.
 */
static inline void interval_narrow(const i32 *key, const u64 *sum, u64 target, int pivots,
                                   interval *b)
{
    for (u32 p = 0; p < CLS_PIVOTS; p++) {
        if (sum[p] >= target && key[p] > b->lo) {
            b->lo = key[p];
            b->at_lo = sum[p];
            b->lo_pivot = pivots ? (i32)p : -1;
        } else if (sum[p] < target && key[p] < b->hi) {
            b->hi = key[p];
            b->at_hi = sum[p];
            b->hi_pivot = pivots ? (i32)p : -1;
        }
    }
}
