/* SPDX-License-Identifier: MIT */
/* survey_groups: the survey of groups of several work-items, each of which reads shares of tiles.
 */
#include "row/measure.cl"

#if WGS > 1

#if !ROW
#define STATE(tile) tile_state(&r, tile)
#else
#define STATE(tile) state_of_tile[(tile)-first] /* a group has at most 32 tiles */
#endif

/* What a group finds out about a tile first. */
enum {
    STATE_MASK = 3, /* tile_mask() */
    STATE_OPEN = 4, /* tile_is_open() */
    STATE_ADJUSTED = 8,
};
static inline u32 tile_state(const row_logits *r, u32 tile)
{
    const u32 masked = tile_mask(r, tile);
    return masked | (tile_is_open(r, masked) ? STATE_OPEN : 0u) |
           (r->adjustments && tile_adjusted(r, tile) != 0 ? STATE_ADJUSTED : 0u);
}

/* The status bits of a share, in bits of its sum that its mass does not use: a tile's mass has 41
 * bits, and a tile has at most 128 shares. */
#define SUM_NAN (1u << 16)
#define SUM_INF (1u << 24)
static inline u32 status_in_sum(u32 flags)
{
    return (flags & CLS_STATUS_NAN ? SUM_NAN : 0u) | (flags & CLS_STATUS_INF ? SUM_INF : 0u);
}

#define SHARE_CLEAN(g) x[g] = clean_v(x[g]);
#define SHARE_NAN(g) nan |= x[g] != x[g];
#define SHARE_MOST(g) most = x[g] > most ? x[g] : most;

/* Loads the vectors of a share from token i on. Returns their maximum, which is not cleaned, and
 * their status bits. Vectors of an open tile stay as in memory, unless there is +inf: they
 * weigh the same. */
static inline f32 share_read(const row_logits *r, u32 i, u32 state, FV *x, u32 *status)
{
    FV most = (FV)(CLS_MASKED);
    u32 flags = 0;
    if ((state & (STATE_OPEN | STATE_ADJUSTED)) == STATE_OPEN && share_is_whole(r, i)) {
        share_load_raw(r, i, x);
        CLS_EACH_4(SHARE_MOST)
        /* The sum is NaN if one of them is NaN, if +inf met -inf, or if the sum overflowed; only
         * then the vectors are examined. */
        const FV sum = (x[0] + x[1]) + (x[2] + x[3]);
        if (ANY(sum != sum)) {
            IV nan = (IV)(0);
            CLS_EACH_4(SHARE_NAN)
            flags = ANY(nan) ? CLS_STATUS_NAN : 0u;
        }
        if (FMAX(most) == CLS_INF) {
            flags |= CLS_STATUS_INF;
            CLS_EACH_4(SHARE_CLEAN)
        }
    } else {
        const u32 n = (state & STATE_MASK) == MASK_NONE ? 0u : share_vectors(r, i);
        CLS_EACH_4(SHARE_NONE)
        for (u32 j = 0; j < n; j++) { /* a loop, so that its body is compiled once */
            const u32 at = i + SHARE_OFFSET(j);
            FV y = load_checked(r, at);
            flags |= vector_status(y);
            y = clean_v(y);
            if (state & STATE_ADJUSTED)
                y = adjust_vector(r, at, y, CLS_MASKED);
            most = y > most ? y : most;
            CLS_EACH_4(SHARE_SET)
        }
    }
    *status = status_in_sum(flags);
    return FMAX(most);
}

/* Returns a share's mass in its tile's unit. */
static inline u64 share_mass(const FV *x, f32 tile_max, f32 scale)
{
    const f32 fraction = split(tile_max, scale).fraction;
    const UV one =
        weight_v(x[0], tile_max, scale, fraction) + weight_v(x[1], tile_max, scale, fraction);
    const UV two =
        weight_v(x[2], tile_max, scale, fraction) + weight_v(x[3], tile_max, scale, fraction);
    return SUM_64(one) + SUM_64(two);
}

/* The first token of share s of the current round. */
#define SHARE_AT(s) ((t + (s) / SHARES) * CLS_TILE + share_token((s) % SHARES))

/* Returns the maximum of a max tile, from the maxima of its shares. */
static inline f32 max_tile_maximum(__local const f32 *share_max)
{
    f32 raw = CLS_MASKED;
    for (u32 n = 0; n < MAX_TILE_SHARES; n++)
        raw = LARGER(raw, share_max[n]);
    return clean(raw);
}

/* Returns a tile's flags, from the upper word of the sum of its shares (`hi`) and its state. */
static inline u32 team_flags(u32 hi, u32 state)
{
    const u32 masked = state & STATE_MASK;
    return (hi & (SUM_INF - SUM_NAN) ? CLS_STATUS_NAN : 0u) |
           (hi >= SUM_INF ? CLS_STATUS_INF : 0u) |
           (masked != MASK_NONE && (state & STATE_ADJUSTED) ? CLS_TILE_ADJUSTED : 0u) |
           (masked != MASK_ALL ? CLS_TILE_MASKED : 0u);
}

/* Returns the maximum of a tile, from the maxima of its max tiles. */
static inline f32 tile_maximum(__local const f32 *max_tile)
{
    FV most = VLOAD(max_tile);
    for (u32 n = VEC; n < CLS_MAX_TILES_PER_TILE; n += VEC) {
        const FV x = VLOAD(max_tile + n);
        most = x > most ? x : most;
    }
    return FMAX(most);
}

#endif
