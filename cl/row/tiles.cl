/* SPDX-License-Identifier: MIT */
/* tiles: reads what the survey stored for each max tile and each mass tile of a row, and loads a
 * tile's logits in the cheapest way that is right for them. */
#include "row/adjust.cl"

#define TILE_VECTORS (CLS_TILE / VEC)
#define MAX_TILE_VECTORS (CLS_MAX_TILE / VEC)

/* Where a row's survey goes: the keys of max tiles, and the status bits and masses of mass tiles.
 */
typedef struct survey_out {
    __global i32 *key;
    __global u32 *flags;
    __global u64 *mass;
} survey_out;

static inline u32 max_tiles(SHARED const row_logits *r)
{
    return r->tiles * CLS_MAX_TILES_PER_TILE;
}

/* Returns the largest key of a mass tile, from its max tiles. */
static inline i32 tile_max_key(__global const i32 *row_key, u32 tile)
{
    __global const i32 *const key = row_key + tile * CLS_MAX_TILES_PER_TILE;
    IV m = LOAD_KEYS(key);
    for (u32 i = VEC; i < CLS_MAX_TILES_PER_TILE; i += VEC) {
        const IV k = LOAD_KEYS(key + i);
        m = m > k ? m : k;
    }
    return IMAX(m);
}

/* Returns whether the row has all tokens of a tile. */
static inline int tile_is_whole(SHARED const row_logits *r, u32 tile)
{
    return tile * CLS_TILE >= ROW_FIRST(r) && (tile + 1) * CLS_TILE <= ROW_LAST(r);
}
/* Returns how many vectors of a tile have a token of the row: fewer than all in the last tile. In
 * larger groups an item has few vectors anyway. */
#if WGS < 32
static inline u32 tile_vectors(SHARED const row_logits *r, u32 tile)
{
    return min((u32)TILE_VECTORS, (ROW_LAST(r) - tile * CLS_TILE + VEC - 1) / VEC);
}
#else
#define tile_vectors(r, tile) ((u32)TILE_VECTORS)
#endif
/* Returns whether a tile needs none of the checks of load_checked() where the row has its tokens:
 * nothing of it is masked, and there is no dense bias or soft-cap. Biases and adjustments may still
 * change its tokens. */
static inline int tile_is_open(SHARED const row_logits *r, u32 masked)
{
    return !masked && !r->dense;
}
/* How a tile's vectors are loaded after the survey. A raw tile needs no cleaning: NaN compares
 * false and weighs nothing, above() treats subnormals right, and a tile with +inf is not raw. */
enum {
    TILE_CHECKED = 0,   /* mask, bounds, dense bias, adjustments */
    TILE_RAW = 1,       /* as they are in memory */
    TILE_UNCHECKED = 2, /* after clean_v(), with biases and adjustments */
};
static inline int kind_in_tile(SHARED const row_logits *r, u32 tile, int whole)
{
    if (!whole || !tile_is_open(r, r->masked ? r->flags[tile] & CLS_TILE_MASKED : 0u))
        return TILE_CHECKED;
    if (r->truncated)
        return TILE_UNCHECKED;
    return r->flags[tile] & (CLS_ROW_INF | CLS_TILE_ADJUSTED) ? TILE_UNCHECKED : TILE_RAW;
}
static inline int tile_kind(SHARED const row_logits *r, u32 tile)
{
    return kind_in_tile(r, tile, tile_is_whole(r, tile));
}
/* The same for max tile m. The row may have it wholly but only a part of its mass tile, and it may
 * have no adjusted token although its mass tile has some. */
static inline int max_tile_kind(SHARED const row_logits *r, u32 m)
{
    const u32 tile = m / CLS_MAX_TILES_PER_TILE;
    const int kind = kind_in_tile(
        r, tile, m * CLS_MAX_TILE >= ROW_FIRST(r) && (m + 1) * CLS_MAX_TILE <= ROW_LAST(r));
#if ROW
    const u32 w = m * (CLS_MAX_TILE / 32);
    if (kind != TILE_UNCHECKED || r->truncated || (r->flags[tile] & CLS_ROW_INF))
        return kind;
    return (adjusted_word(r, w) | adjusted_word(r, w + 1)) == 0 ? TILE_RAW : TILE_UNCHECKED;
#else
    return kind;
#endif
}
/* Returns the vector at i, of a tile of the given kind, as the chain sees it. A token that is not
 * above `least` may lack its adjustment, but stays below `least`. */
CALLED_IN_LOOPS FV load_not_raw(SHARED const row_logits *r, u32 i, int kind, f32 least)
{
    FV x = clean_v(ROW && kind == TILE_UNCHECKED ? LOAD_V(r->x, i) : load_checked(r, i));
    if (r->adjustments)
        x = adjust_vector(r, i, x, least);
    return r->truncated ? truncate_v(r->cut, i, x) : x;
}
static inline FV load_v(SHARED const row_logits *r, u32 i, int kind, f32 least)
{
    if (kind == TILE_RAW)
        return LOAD_V(r->x, i);
    return load_not_raw(r, i, kind, least);
}

/* Stands before a loop over the vectors of a max tile. Intel's compiler for GPUs unrolls it, 16
 * times in vectors of four; for the token kernel with adjusted logits it then needs minutes and
 * gigabytes. The search, on the contrary, compiles faster so; hence ROLLED is a build option. */
#if defined(ROLLED) && WGS > 1
#define TILE_LOOP SHORT_LOOP
#else
#define TILE_LOOP
#endif

/* ------------------------------------------------ what the survey tells later stages */

/* Returns the row's largest key, by the whole group. */
static inline i32 row_max_key(__global const i32 *row_key, u32 n, __local u64 *scratch)
{
    IV m = (IV)(CLS_KEY_NONE);
    for (u32 i = LOCAL_ID * VEC; i < n; i += WGS * VEC) {
        const IV k = LOAD_KEYS(row_key + i);
        m = m > k ? m : k;
    }
    return wg_imax(IMAX(m), scratch);
}

/* Returns the row's largest key, and in *flags the flags of all its tiles, by the whole group. */
static inline u64 summary_of(u64 a, u64 b)
{
    return u64_make(u64_hi(a) | u64_hi(b), (u32)max((i32)u64_lo(a), (i32)u64_lo(b)));
}
DEFINE_WG_REDUCE(wg_summary, u64, sg_u64, summary_of)
static inline i32 row_summary(SHARED const row_logits *r, u32 *flags, __local u64 *scratch)
{
    IV most = (IV)(CLS_KEY_NONE);
    u32 mine = 0;
    for (u32 i = LOCAL_ID * VEC; i < max_tiles(r); i += WGS * VEC) {
        const IV k = LOAD_KEYS(r->key + i);
        most = most > k ? most : k;
    }
    SHORT_LOOP
    for (u32 t = LOCAL_ID; t < r->tiles; t += WGS)
        mine |= r->flags[t];
    const u64 all = wg_summary(u64_make(mine, (u32)IMAX(most)), scratch);
    *flags = u64_hi(all);
    return (i32)u64_lo(all);
}

/* Returns a tile's unit for weights relative to `top`, the set's largest logit. `top` may be below
 * the tile's maximum, where an upper cut was made. */
ONE_COPY cls_unit tile_unit(__global const i32 *row_key, u32 tile, f32 top, i32 exponent, f32 scale)
{
    const f32 max = float_of_key(tile_max_key(row_key, tile));
    return unit_of(max < top ? max : top, top, exponent, scale);
}

/* Returns the sum of the masses of tiles in row units, and if `stores`, a constant, these masses in
 * out[tiles]. */
ONE_COPY u64 row_total(__global const i32 *row_key, __global const u64 *row_mass, u32 tiles,
                       f32 row_max, f32 scale, int stores, __global u64 *out, __local u64 *scratch)
{
    const i32 exponent = split(row_max, scale).exponent;
    u64 total = 0;
    SHORT_LOOP
    for (u32 t = LOCAL_ID; t < tiles; t += WGS) {
        const i32 key = tile_max_key(row_key, t);
        u64 mass = 0;
        if (key != CLS_KEY_NONE)
            mass = to_row_units(row_mass[t],
                                unit_of(float_of_key(key), row_max, exponent, scale).shift);
        if (stores)
            out[t] = mass;
        total += mass;
    }
    return wg_mass(total, scratch);
}

/* Returns the tile whose interval contains *drawn, from which the masses of the tiles before are
 * then subtracted. By the whole group. Where masses do not add up, as a forged partial's or a wrong
 * device's may not, it is a tile of the row all the same, and *drawn may stay as it is. */
static inline u32 find_tile(__global const u64 *tile_mass, u32 tiles, u64 *drawn,
                            __local u64 *scratch)
{
    const u32 per_item = (tiles + WGS - 1) / WGS;
    const u32 first = min(LOCAL_ID * per_item, tiles), last = min(first + per_item, tiles);
    u64 mine = 0, total;
    u32 found = tiles;
    SHORT_LOOP
    for (u32 t = first; t < last; t++)
        mine += tile_mass[t];
    u64 sum = wg_scan_mass(mine, scratch, &total);
    u64 rest = *drawn;
    if (rest >= total) /* the same for the whole group */
        return tiles - 1;
    if (*drawn >= sum && *drawn < sum + mine) {
        SHORT_LOOP
        for (u32 t = first; t < last && found == tiles; t++) {
            const u64 next = sum + tile_mass[t];
            if (*drawn < next) {
                found = t;
                rest = *drawn - sum;
            }
            sum = next;
        }
    }
#if WGS > 1
    BARRIER();
    if (found < tiles) {
        scratch[0] = rest;
        scratch[1] = (u64)found;
    }
    BARRIER();
    rest = scratch[0];
    found = u64_lo(scratch[1]);
#endif
    *drawn = rest;
    return min(found, tiles - 1);
}
