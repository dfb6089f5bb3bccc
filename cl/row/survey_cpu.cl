/* SPDX-License-Identifier: MIT */
/* survey_cpu: the survey of one work-item, which reads whole tiles. */
#include "row/measure.cl"
#include "row/share.cl"

#if WGS == 1

/* What the mask does to a whole tile, from all its words at once. Most grammars allow next to
 * nothing or nearly everything. */
enum {
    MASK_ALL = 0,
    MASK_SOME = 1,
    MASK_NONE = 2,
};
static inline u32 tile_mask(SHARED const row_logits *r, u32 tile)
{
#if ROW
    const u32 first = tile * (CLS_TILE / 32), last = first + CLS_TILE / 32;
    if (!r->masked)
        return MASK_ALL;
    if ((r->masked & CLS_MASK_BYTES) || last > r->mask_width)
        return MASK_SOME;
    IV all = (IV)(-1), any = (IV)(0);
    for (u32 w = first; w < last; w += VEC) {
        IV words = VLOAD((__global const i32 *)r->mask + w);
        if (r->masked & CLS_MASK_LIST)
            words &= VLOAD((__global const i32 *)r->list + r->allowed + (i32)w);
        all &= words;
        any |= words;
    }
    if (CAT(fold_or, VEC)(any) == 0)
        return MASK_NONE;
    return CAT(fold_or, VEC)(~all) == 0 ? MASK_ALL : MASK_SOME;
#else
    return MASK_ALL;
#endif
}
/* Returns whether a tile needs none of these checks at all. */
static inline int tile_is_unchecked(SHARED const row_logits *r, u32 tile, u32 masked)
{
    return tile_is_open(r, masked) && tile_is_whole(r, tile);
}
/* Returns the bitwise or of the words that a tile has in the bitmaps of adjusted tokens. */
static inline u32 tile_adjusted(SHARED const row_logits *r, u32 tile)
{
    IV adjusted = (IV)(0);
#if ROW
    for (u32 w = tile * (CLS_TILE / 32); w < (tile + 1) * (CLS_TILE / 32); w += VEC)
        adjusted |= VLOAD((__global const i32 *)r->adjusted[0] + w) |
                    VLOAD((__global const i32 *)r->adjusted[1] + w);
    for (u32 w = tile * (CLS_TILE / 32);
         (r->adjustments & ADJUST_BIASES) && w < (tile + 1) * (CLS_TILE / 32); w += VEC)
        adjusted |= VLOAD((__global const i32 *)r->list + w);
#endif
    return (u32)CAT(fold_or, VEC)(adjusted);
}

/* Reduces the vector of maxima of each max tile: stores their keys and returns the largest raw
 * value. Sixteen vectors are reduced together, in pairs, with a third of the operations that one by
 * one would take. */
#define PAIR(a, b) larger_v((FV)((a).even, (b).even), (FV)((a).odd, (b).odd))
static inline FV larger_v(FV a, FV b) { return a > b ? a : b; }
static inline f32 fold_maxima(const FV *m, __global i32 *key)
{
#if VEC == 16
    const FV a = PAIR(PAIR(m[0], m[1]), PAIR(m[2], m[3])),
             b = PAIR(PAIR(m[4], m[5]), PAIR(m[6], m[7]));
    const FV c = PAIR(PAIR(m[8], m[9]), PAIR(m[10], m[11])),
             d = PAIR(PAIR(m[12], m[13]), PAIR(m[14], m[15]));
    const FV raw = PAIR(PAIR(a, b), PAIR(c, d));
    const IV bits = AS_IV(clean_v(raw));
    VSTORE(bits ^ ((bits >> 31) & 0x7fffffff), key);
    return FMAX(raw);
#else
    f32 top = CLS_MASKED;
    for (u32 n = 0; n < CLS_MAX_TILES_PER_TILE; n++) {
        const f32 raw = FMAX(m[n]);
        key[n] = key_of(clean(raw));
        top = LARGER(top, raw);
    }
    return top;
#endif
}

/* Returns a tile's status bits. `sum` is the sum of its logits. It is NaN if one of them is NaN, if
 * +inf met -inf, or if the sum overflowed; only then the tile is read again to find out. */
static inline u32 tile_status(SHARED const row_logits *r, u32 tile, FV sum, f32 top)
{
    u32 flags = top == CLS_INF ? CLS_ROW_INF : 0u;
    if (ANY(sum != sum)) {
        IV nan = (IV)(0);
        for (u32 v = 0; v < tile_vectors(r, tile); v++) {
            const FV x = load_checked(r, tile * CLS_TILE + v * VEC);
            nan |= x != x;
        }
        flags |= ANY(nan) ? CLS_ROW_NAN : 0u;
    }
    return flags;
}

/* Stores the keys of the max tiles and the status bits of a tile that needs no checks; returns the
 * tile's maximum. With `masked` a packed mask is applied, which must cover the tile; a branch on a
 * vector's bits would be mispredicted. The tile's vectors are stored in `kept`, unless that is
 * NULL. */
static inline f32 unchecked_maxima(SHARED const row_logits *r, u32 tile, int masked,
                                   __global i32 *key, u32 *flags, FV *kept)
{
    FV m[CLS_MAX_TILES_PER_TILE], sum = (FV)(0.0f);
    for (u32 n = 0; n < CLS_MAX_TILES_PER_TILE; n++) {
        FV most = (FV)(CLS_MASKED), part = (FV)(0.0f);
        for (u32 v = 0; v < MAX_TILE_VECTORS; v++) {
            const u32 i = tile * CLS_TILE + n * CLS_MAX_TILE + v * VEC;
            FV x = LOAD_V(r->x, i);
            if (masked)
                x = lane_signs(r->mask[i >> 5] >> (i & 31)) < 0 ? x : (FV)(CLS_MASKED);
            if (kept)
                kept[n * MAX_TILE_VECTORS + v] = x;
            most = x > most ? x : most;
            part += x;
        }
        m[n] = most;
        sum += part;
    }
    const f32 top = fold_maxima(m, key);
    *flags = tile_status(r, tile, sum, top);
    return clean(top);
}

#if !ROW

/* Does the same for the row's last tile, where it is not whole. It loads one vector after another:
 * four at a time would compile load_checked() four times. */
static inline f32 partial_maxima(SHARED const row_logits *r, u32 tile, __global i32 *key,
                                 u32 *flags)
{
    const u32 n = tile_vectors(r, tile);
    FV most = (FV)(CLS_MASKED), sum = (FV)(0.0f), top = most;
    for (u32 v = 0; v < TILE_VECTORS; v++) {
        const FV x = v < n ? load_checked(r, tile * CLS_TILE + v * VEC) : (FV)(CLS_MASKED);
        most = x > most ? x : most;
        sum += x;
        if (v % MAX_TILE_VECTORS == MAX_TILE_VECTORS - 1) {
            key[v / MAX_TILE_VECTORS] = key_of(clean(FMAX(most)));
            top = most > top ? most : top;
            most = (FV)(CLS_MASKED);
        }
    }
    const f32 raw = FMAX(top);
    *flags = tile_status(r, tile, sum, raw);
    return clean(raw);
}

static inline f32 tile_maxima(SHARED const row_logits *r, u32 tile, int unchecked, u32 adjusted,
                              __global i32 *key, u32 *flags, FV *kept, int *is_kept)
{
    return unchecked ? unchecked_maxima(r, tile, 0, key, flags, 0)
                     : partial_maxima(r, tile, key, flags);
}

#else

/* Does the same where masks, biases or adjustments may change any vector. The changed vectors are
 * stored in `kept`, unless that is NULL. */
static inline f32 general_maxima(SHARED const row_logits *r, u32 tile, int unchecked,
                                 __global i32 *key, u32 *flags, FV *kept)
{
    const u32 vectors = tile_vectors(r, tile);
    FV m[CLS_MAX_TILES_PER_TILE], sum = (FV)(0.0f), top = (FV)(CLS_MASKED);
    for (u32 n = 0; n < CLS_MAX_TILES_PER_TILE; n++) {
        FV most = (FV)(CLS_MASKED), part = (FV)(0.0f);
        for (u32 v = 0; v < MAX_TILE_VECTORS; v++) {
            const u32 i = tile * CLS_TILE + n * CLS_MAX_TILE + v * VEC;
            FV x = (FV)(CLS_MASKED);
            if (n * MAX_TILE_VECTORS + v < vectors) {
                x = unchecked ? LOAD_V(r->x, i) : load_checked(r, i);
                top = x > top ? x : top;
                part += x;
                x = clean_v(x);
                if (r->adjustments)
                    x = adjust_vector(r, i, x, CLS_MASKED);
            }
            if (kept)
                kept[n * MAX_TILE_VECTORS + v] = x;
            most = x > most ? x : most;
        }
        m[n] = most;
        sum += part;
    }
    const f32 max = fold_maxima(m, key);
    *flags = tile_status(r, tile, sum, FMAX(top));
    return max;
}

/* Does the same for an unchecked tile whose adjustments can only lower logits. If a max tile's
 * maximum is at a token that is not adjusted, it stays the maximum. So the maxima are taken with
 * and without the adjusted tokens, and only max tiles where these differ are examined token by
 * token. Max tiles with a tiny negative maximum are examined, too, because settle() may raise an
 * adjusted token to 0. */
static inline f32 lowered_maxima(SHARED const row_logits *r, u32 tile, __global i32 *key,
                                 u32 *flags)
{
    FV all[CLS_MAX_TILES_PER_TILE], unadjusted[CLS_MAX_TILES_PER_TILE], sum = (FV)(0.0f);
    IV with[CLS_MAX_TILES_PER_TILE / VEC], differ = (IV)(0);
    for (u32 n = 0; n < CLS_MAX_TILES_PER_TILE; n++) {
        FV most = (FV)(CLS_MASKED), without = (FV)(CLS_MASKED), part = (FV)(0.0f);
        for (u32 v = 0; v < MAX_TILE_VECTORS; v++) {
            const u32 i = tile * CLS_TILE + n * CLS_MAX_TILE + v * VEC;
            const FV x = LOAD_V(r->x, i);
            const IV free =
                ((IV)((i32)(adjusted_word(r, i >> 5) >> (i & 31))) & ((IV)(1) << LANES)) == 0;
            const FV larger = x > without ? x : without;
            most = x > most ? x : most;
            without = free ? larger : without;
            part += x;
        }
        all[n] = most;
        unadjusted[n] = without;
        sum += part;
    }
    const f32 top = fold_maxima(all, key);
    *flags = tile_status(r, tile, sum, top);
    for (u32 n = 0; n < CLS_MAX_TILES_PER_TILE / VEC; n++)
        with[n] = VLOAD(key + n * VEC);
    f32 max = clean(fold_maxima(unadjusted, key));
    for (u32 n = 0; n < CLS_MAX_TILES_PER_TILE / VEC; n++) {
        const IV k = VLOAD(key + n * VEC);
        with[n] = (with[n] != k) | ((k < 0) & (k > (IV)(key_of(-0x1p-119f))));
        differ |= with[n];
    }
    if (!ANY(differ))
        return max;
    u32 look = 0;
    for (u32 n = 0; n < CLS_MAX_TILES_PER_TILE / VEC; n++)
        look |= lane_bits(with[n]) << (n * VEC & 31);
    for (; look != 0; look &= look - 1) {
        const u32 n = lowest_bit(look);
        f32 exact = float_of_key(key[n]); /* the maximum without the adjusted tokens */
        for (u32 i = tile * CLS_TILE + n * CLS_MAX_TILE, end = i + CLS_MAX_TILE; i < end;
             i += VEC) {
            u32 higher = adjusted_lanes(r, i) & lane_bits(LOAD_V(r->x, i) > least_above(r, exact));
            for (; higher != 0; higher &= higher - 1) {
                const u32 id = i + lowest_bit(higher);
                const f32 z = adjust_listed(r, id, clean(LOAD(r->x, id)));
                exact = LARGER(exact, z);
            }
        }
        key[n] = key_of(exact);
        max = LARGER(max, exact);
    }
    return max;
}

/* Does the same for a whole tile where nothing but the soft-cap and perhaps a packed mask, which
 * must cover the tile, changes logits. The soft-cap keeps their order, so that the maxima alone get
 * it; +inf stays, and has lost its sign of it here: such a tile is read again. */
static inline f32 capped_maxima(SHARED const row_logits *r, u32 tile, int masked, __global i32 *key,
                                u32 *flags)
{
    const f32 max = unchecked_maxima(r, tile, masked, key, flags, 0);
    if (*flags & CLS_ROW_INF)
        return general_maxima(r, tile, 0, key, flags, 0);
    for (u32 n = 0; n < CLS_MAX_TILES_PER_TILE; n += VEC) {
        const IV k = VLOAD(key + n);
        const FV x = AS_FV(k ^ ((k >> 31) & 0x7fffffff)); /* float_of_key() */
        const IV bits = AS_IV(softcap_v(x, r->softcap, r->softcap_reciprocal));
        VSTORE(bits ^ ((bits >> 31) & 0x7fffffff), key + n);
    }
    return softcap(max, r->softcap, r->softcap_reciprocal);
}

/* *is_kept: the tile's vectors are in `kept` and are weighed from there. Loading them through masks
 * and biases again would cost as much as the first time. */
static inline f32 tile_maxima(SHARED const row_logits *r, u32 tile, int unchecked, u32 adjusted,
                              __global i32 *key, u32 *flags, FV *kept, int *is_kept)
{
    if (unchecked && adjusted == 0)
        return unchecked_maxima(r, tile, 0, key, flags, 0);
    const int covered =
        tile_is_whole(r, tile) && (!r->masked || (r->masked == CLS_HAS_MASK &&
                                                  (tile + 1) * (CLS_TILE / 32) <= r->mask_width));
    if (covered && adjusted == 0 && r->dense == DENSE_SOFTCAP && !kept)
        return capped_maxima(r, tile, r->masked != 0, key, flags);
    if (covered && r->masked && !r->dense && adjusted == 0) {
        const f32 max = unchecked_maxima(r, tile, 1, key, flags, kept);
        *is_kept = !(*flags & CLS_ROW_INF); /* the stored vectors are not cleaned */
        return max;
    }
    *is_kept = !unchecked || (r->adjustments & (ADJUST_RAISES | ADJUST_BIAS_ROW));
    const f32 max = *is_kept ? general_maxima(r, tile, unchecked, key, flags, kept)
                             : lowered_maxima(r, tile, key, flags);
    *flags |= adjusted != 0 ? CLS_TILE_ADJUSTED : 0u;
    return max;
}

#endif

#define STEP_MAXIMA(g) \
    most = next[g] > most ? next[g] : most; \
    part += next[g];

/* Weighs a tile while it reads the next one for its maxima, so that memory and arithmetic overlap.
 * Both tiles must be unchecked. Returns the next tile's maximum. */
static inline f32 weigh_and_read(SHARED const row_logits *r, u32 tile, f32 tile_max, f32 scale,
                                 u64 *mass, __global i32 *next_key, u32 *next_flags)
{
    const f32 fraction = tile_split(tile_max, scale).fraction;
    weight_sum weights = {(UV)(0), (UV)(0)};
    FV m[CLS_MAX_TILES_PER_TILE], sum = (FV)(0.0f);
    for (u32 n = 0; n < CLS_MAX_TILES_PER_TILE; n++) {
        FV most = (FV)(CLS_MASKED), part = (FV)(0.0f);
        for (u32 v = 0; v < MAX_TILE_VECTORS; v += UNROLL) {
            const u32 i = tile * CLS_TILE + n * CLS_MAX_TILE + v * VEC;
            FV x[UNROLL], next[UNROLL];
            UV w[UNROLL];
            load_share(r, i, TILE_RAW, CLS_MASKED, x);
            load_share(r, i + CLS_TILE, TILE_RAW, CLS_MASKED, next);
            weigh_vectors(x, w, tile_max, scale, fraction);
            sum_vectors(&weights, w);
            CLS_EACH_4(STEP_MAXIMA)
        }
        m[n] = most;
        sum += part;
    }
    *mass = sum_total(&weights);
    const f32 top = fold_maxima(m, next_key);
    *next_flags = tile_status(r, tile + 1, sum, top);
    return clean(top);
}

/* A tile's mass in its own unit. kept: the tile's vectors, or NULL. */
#define STEP_KEPT(g) x[g] = kept[v + g];
static inline u64 survey_mass(SHARED const row_logits *r, u32 tile, int kind, const FV *kept,
                              f32 tile_max, f32 scale)
{
    const f32 fraction = tile_split(tile_max, scale).fraction;
    const u32 n = tile_vectors(r, tile);
    weight_sum sum = {(UV)(0), (UV)(0)};
    for (u32 v = 0; v < n; v += UNROLL) {
        FV x[UNROLL];
        UV w[UNROLL];
        if (kept) {
            CLS_EACH_4(STEP_KEPT)
        } else {
            load_share(r, tile * CLS_TILE + v * VEC, kind, CLS_MASKED, x);
        }
        weigh_vectors(x, w, tile_max, scale, fraction);
        sum_vectors(&sum, w);
    }
    return sum_total(&sum);
}

/* Surveys tiles first to last - 1 with one item: keys, status bits and masses. */
ONE_COPY void survey_tiles(SHARED const row_logits *row, u32 first, u32 last, u32 needs_mass,
                           f32 scale, const survey_out *out)
{
    __global i32 *const row_key = out->key;
    __global u32 *const flags_of = out->flags;
    __global u64 *const mass_of = out->mass;
    const row_logits own = *row,
                     *const r =
                         &own; /* this copy's address is not passed on, so it stays in registers */
    FV kept[ROW ? TILE_VECTORS : 1];
    f32 next_max = 0.0f;
    u32 next_flags = 0, next_is_read = 0, adjusted_tiles = 0;
    /* Finds which of the tiles have adjusted tokens, a bit each (a group has at most 32 tiles). All
     * are looked up together, because the bitmaps must come from memory. */
    for (u32 t = first; t < last && r->adjustments; t++)
        adjusted_tiles |= tile_adjusted(r, t) != 0 ? 1u << (t - first) : 0u;
    for (u32 t = first; t < last; t++) {
        const u32 masked = tile_mask(r, t);
        const int unchecked = tile_is_unchecked(r, t, masked);
        const u32 adjusted = adjusted_tiles >> (t - first) & 1u;
        __global i32 *const key = row_key + t * CLS_MAX_TILES_PER_TILE;
        f32 tile_max = next_max;
        u32 flags = next_flags;
        u64 mass = 0;
        int is_kept = 0;
        if (masked == MASK_NONE) { /* no logit is read */
            for (u32 n = 0; n < CLS_MAX_TILES_PER_TILE; n++)
                key[n] = CLS_KEY_NONE;
            flags_of[t] = CLS_TILE_MASKED;
            mass_of[t] = mass;
            continue;
        }
        if (!next_is_read)
            tile_max = tile_maxima(r, t, unchecked, adjusted, key, &flags, needs_mass ? kept : 0,
                                   &is_kept);
        const int overlaps = needs_mass && tile_max > CLS_MASKED && unchecked && adjusted == 0 &&
                             !(flags & CLS_ROW_INF) && t + 1 < last &&
                             tile_is_unchecked(r, t + 1, tile_mask(r, t + 1)) &&
                             !(adjusted_tiles >> (t + 1 - first) & 1u);
        if (overlaps)
            next_max = weigh_and_read(r, t, tile_max, scale, &mass, key + CLS_MAX_TILES_PER_TILE,
                                      &next_flags);
        next_is_read = overlaps;
        if (!next_is_read && needs_mass && tile_max > CLS_MASKED)
            mass = survey_mass(r, t,
                               !unchecked                                     ? TILE_CHECKED
                               : adjusted != 0 || (flags & CLS_ROW_INF) != 0u ? TILE_UNCHECKED
                                                                              : TILE_RAW,
                               is_kept ? kept : 0, tile_max, scale);
        flags_of[t] = flags | (masked != MASK_ALL ? CLS_TILE_MASKED : 0u);
        mass_of[t] = mass;
    }
}

#endif
