/* SPDX-License-Identifier: MIT */
/* survey_groups: the survey of groups of several work-items, each of which reads shares of tiles.
 */
#include "row/measure.cl"

#if WGS > 1

/* A group of several items works on as many tiles at once as it has teams of SHARES items. An
 * item's share of a tile is four vectors of one max tile. All four are loaded before the first is
 * used, the tile's unit is computed once for them, and items exchange one number each. The vectors
 * of neighbouring items lie side by side, 64 bytes of float32. A group smaller than a team works on
 * one tile at a time, and its items have several shares.
 *
 * Where a share's vectors lie, relative to the first. Those of 16-bit logits lie in pairs, so that
 * a load of 16 bytes has two. */
#if DTYPE != 0 && VEC == 4
#define SHARE_OFFSET(g) ((g) / 2 * (CLS_MAX_TILE / 2) + (g) % 2 * VEC)
#define SHARE_WIDTH (2 * VEC)
#else
#define SHARE_OFFSET(g) ((g) * (CLS_MAX_TILE / 4))
#define SHARE_WIDTH VEC
#endif
#define SHARES (TILE_VECTORS / 4)
#define MAX_TILE_SHARES (MAX_TILE_VECTORS / 4)
#define TEAMS (WGS < SHARES ? 1 : WGS / SHARES)
#define TEAM_SHARES (TEAMS * SHARES)
#define TEAM_MAX_TILES (TEAMS * CLS_MAX_TILES_PER_TILE)

/* Returns a share's first token, relative to its tile. */
static inline u32 share_token(u32 share)
{
    return share / MAX_TILE_SHARES * CLS_MAX_TILE + share % MAX_TILE_SHARES * SHARE_WIDTH;
}
/* Returns how many vectors of a share have a token of the row; i is the share's first token. */
#define SHARE_COUNT(g) n += i + SHARE_OFFSET(g) < ROW_LAST(r);
static inline u32 share_vectors(const row_logits *r, u32 i)
{
    u32 n = 0;
    CLS_EACH_4(SHARE_COUNT)
    return n;
}
/* Returns whether the row has all of its tokens. */
static inline int share_is_whole(const row_logits *r, u32 i)
{
    return i >= ROW_FIRST(r) && i + SHARE_OFFSET(3) + VEC <= ROW_LAST(r);
}
#define SHARE_LOAD(g) x[g] = LOAD_NARROW(r->x, i + SHARE_OFFSET(g));
#if DTYPE != 0
#define SHARE_LOAD_WIDE \
    LOAD_2(r->x, i, x[0], x[1]) \
    LOAD_2(r->x, i + SHARE_OFFSET(2), x[2], x[3])
#else
#define SHARE_WIDE(g) x[g] = LOAD_WIDE(r->x, i + SHARE_OFFSET(g));
#define SHARE_LOAD_WIDE CLS_EACH_4(SHARE_WIDE)
#endif
/* Sets vector j of a share, where j is not a constant: an array with such an index would be in
 * memory. */
#define SHARE_SET(g) x[g] = j == g ? y : x[g];
#define SHARE_NONE(g) x[g] = (FV)(CLS_MASKED);

/* Loads a share of a tile that needs no checks. */
static inline void share_load_raw(const row_logits *r, u32 i, FV *x)
{
#if WIDE
    if (r->wide) {
        SHARE_LOAD_WIDE
        return;
    }
#endif
    CLS_EACH_4(SHARE_LOAD)
}

static inline u64 fold_sums(__local const u64 *s, u32 n)
{
    u64 sum = s[0];
    for (u32 i = 1; i < n; i++)
        sum += s[i];
    return sum;
}

#if !ROW
#define STATE(tile) tile_state(r, tile)
#else
#define STATE(tile) at->tile_states[(tile)-first]
#endif

/* What a group has in local memory: the maxima of shares and max tiles, their sums, and the states
 * of its tiles, of which it has at most 32. */
typedef struct survey_memory {
    __local f32 *share_max, *max_tile;
    __local u64 *share_sum, *part;
    __local u32 *tile_states;
} survey_memory;

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
    return (flags & CLS_ROW_NAN ? SUM_NAN : 0u) | (flags & CLS_ROW_INF ? SUM_INF : 0u);
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
            flags = ANY(nan) ? CLS_ROW_NAN : 0u;
        }
        if (FMAX(most) == CLS_INF) {
            flags |= CLS_ROW_INF;
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
    return (hi & (SUM_INF - SUM_NAN) ? CLS_ROW_NAN : 0u) | (hi >= SUM_INF ? CLS_ROW_INF : 0u) |
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

/* Surveys tiles first to last - 1 with a group: keys, status bits and masses. Each round takes
 * TEAMS tiles with two barriers; that is 16 KB of float32 in groups of 256 with vectors of 4. At
 * its end the masses are still those of shares. They are added up between the barriers of the next
 * round; so there is one more round, without tiles. */
static inline void survey_teams(const row_logits *r, u32 first, u32 last, u32 needs_mass, f32 scale,
                                const survey_out *out, const survey_memory *at)
{
    const u32 lid = LOCAL_ID, from_end = WGS - 1 - lid;
#if ROW
    for (u32 n = lid; n < 32; n += WGS)
        if (first + n < last)
            at->tile_states[n] = tile_state(r, first + n);
    LOCAL_BARRIER();
#endif
    for (u32 t = first, before = 0; t < last || before != 0; t += TEAMS) {
        const u32 now = t < last ? min((u32)TEAMS, last - t) : 0u;
        FV x[4];
        u32 status = 0;
        for (u32 s = lid; s < TEAM_SHARES; s += WGS)
            if (s < now * SHARES)
                at->share_max[s] = share_read(r, SHARE_AT(s), STATE(t + s / SHARES), x, &status);
        LOCAL_BARRIER();
        for (u32 m = lid; m < TEAM_MAX_TILES; m += WGS)
            if (m < now * CLS_MAX_TILES_PER_TILE) {
                at->max_tile[m] = max_tile_maximum(at->share_max + m * MAX_TILE_SHARES);
                out->key[t * CLS_MAX_TILES_PER_TILE + m] = key_of(at->max_tile[m]);
            }
        for (u32 m = from_end; m < TEAM_MAX_TILES; m += WGS)
            if (m < before * CLS_MAX_TILES_PER_TILE)
                at->part[m] = fold_sums(at->share_sum + m * MAX_TILE_SHARES, MAX_TILE_SHARES);
        LOCAL_BARRIER();
        for (u32 s = lid; s < TEAM_SHARES; s += WGS)
            if (s < now * SHARES) {
                const f32 most = tile_maximum(at->max_tile + s / SHARES * CLS_MAX_TILES_PER_TILE);
                u64 mass = 0;
#if WGS < \
    SHARES /* an item has several shares, and only the vectors of the latest are still there */
                share_read(r, SHARE_AT(s), STATE(t + s / SHARES), x, &status);
#endif
                if (needs_mass && most > CLS_MASKED)
                    mass = share_mass(x, most, scale);
                at->share_sum[s] = u64_make(u64_hi(mass) | status, u64_lo(mass));
            }
        for (u32 n = from_end; n < TEAMS; n += WGS)
            if (n < before) {
                const u64 sum =
                    fold_sums(at->part + n * CLS_MAX_TILES_PER_TILE, CLS_MAX_TILES_PER_TILE);
                const u32 tile = t - TEAMS + n;
                out->flags[tile] = team_flags(u64_hi(sum), STATE(tile));
                out->mass[tile] = u64_make(u64_hi(sum) & (SUM_NAN - 1), u64_lo(sum));
            }
        before = now;
    }
}

#endif
