/* SPDX-License-Identifier: MIT */
/* survey_groups: the survey of groups of several work-items, each of which reads shares of tiles.
 */
#include "row/share.cl"

#if WGS > 1

static inline u64 fold_sums(__local const u64 *s, u32 n)
{
    u64 sum = s[0];
    for (u32 i = 1; i < n; i++)
        sum += s[i];
    return sum;
}

/* What a group has in local memory: the maxima of shares and max tiles, their sums, and the states
 * of its tiles, of which it has at most 32. */
typedef struct survey_memory {
    __local f32 *share_max, *max_tile;
    __local u64 *share_sum, *part;
    __local u32 *tile_states;
} survey_memory;

/* What a group finds out about its tiles first, from their words of bitmaps. */
enum {
    STATE_ALLOWED = 1,   /* the mask allows a token of the tile */
    STATE_FORBIDDEN = 2, /* it forbids one */
    STATE_ADJUSTED = 4,  /* the slot may adjust one */
};
#if !ROW
#define STATE(tile) STATE_ALLOWED
#else
#define STATE(tile) at->tile_states[(tile)-first]

/* Returns what word w of the bitmaps says of its tile. A mask of bytes, and one that ends before
 * the tile, is looked at token by token. */
static inline u32 word_state(SHARED const row_logits *r, u32 w)
{
    u32 state = r->adjustments && adjusted_word(r, w) != 0 ? STATE_ADJUSTED : 0u;
    if (!r->masked)
        return state | STATE_ALLOWED;
    if ((r->masked & CLS_MASK_BYTES) || w >= r->mask_width)
        return state | STATE_ALLOWED | STATE_FORBIDDEN;
    const u32 word = mask_word(r, w);
    return state | (word != 0 ? STATE_ALLOWED : 0u) | (~word != 0 ? STATE_FORBIDDEN : 0u);
}

/* Finds the states of tiles first to last - 1, a word an item: one item that reads a whole tile's
 * words would let all others wait. */
static inline void find_tile_states(SHARED const row_logits *r, u32 first, u32 last,
                                    __local u32 *states)
{
    const u32 tiles = last > first ? last - first : 0u;
    for (u32 n = LOCAL_ID; n < tiles; n += WGS)
        states[n] = 0;
    LOCAL_BARRIER();
    for (u32 n = LOCAL_ID; n < tiles * (CLS_TILE / 32); n += WGS)
        atomic_or(states + n / (CLS_TILE / 32), word_state(r, first * (CLS_TILE / 32) + n));
    LOCAL_BARRIER();
}
#endif

/* The status bits of a share, in bits of its sum that its mass does not use: a tile's mass has 41
 * bits, and a tile has at most 128 shares. */
#define SUM_NAN (1u << 16)
#define SUM_INF (1u << 24)
static inline u32 status_in_sum(u32 flags)
{
    return (flags & CLS_ROW_NAN ? SUM_NAN : 0u) | (flags & CLS_ROW_INF ? SUM_INF : 0u);
}

/* Returns how many vectors of a share have a token of the row; i is the share's first token. */
#define SHARE_COUNT(g) n += i + SHARE_OFFSET(g) < ROW_LAST(r);
static inline u32 share_vectors(SHARED const row_logits *r, u32 i)
{
    u32 n = 0;
    CLS_EACH_4(SHARE_COUNT)
    return n;
}
/* Returns whether the row has all of its tokens. */
static inline int share_is_whole(SHARED const row_logits *r, u32 i)
{
    return i >= ROW_FIRST(r) && i + SHARE_OFFSET(3) + VEC <= ROW_LAST(r);
}
#if ROW
#define SHARE_MASK(g) \
    { \
        const u32 at = i + SHARE_OFFSET(g), word = at & 32 ? upper : lower; \
        x[g] = lane_signs(word >> (at & 31)) < 0 ? x[g] : (FV)(CLS_MASKED); \
    }
/* Masks the vectors of a share, by the two words of its max tile. */
static inline void share_mask(SHARED const row_logits *r, u32 i, FV *x)
{
    const u32 w = i / CLS_MAX_TILE * 2, lower = mask_word(r, w), upper = mask_word(r, w + 1);
    CLS_EACH_4(SHARE_MASK)
}

/* Applies the soft-cap to a share, in a loop as share_adjust() does. */
static inline void share_cap(SHARED const row_logits *r, FV *x)
{
    SHORT_LOOP
    for (u32 j = 0; j < 4; j++) {
        const FV y = softcap_v(x[0], r->softcap, r->softcap_reciprocal);
        x[0] = x[1];
        x[1] = x[2];
        x[2] = x[3];
        x[3] = y;
    }
}

static inline int share_is_adjusted(SHARED const row_logits *r, u32 i)
{
    const u32 w = i / CLS_MAX_TILE * 2;
    return (adjusted_word(r, w) | adjusted_word(r, w + 1)) != 0;
}
/* Applies biases, penalties and effects to a clean share, in a loop, so that its body is compiled
 * once. It adjusts the first vector, and the four turn: one at an index that is not a constant
 * would be in memory, however it is chosen. */
static inline void share_adjust(SHARED const row_logits *r, u32 i, f32 least, FV *x)
{
    SHORT_LOOP
    for (u32 j = 0; j < 4; j++) {
        const u32 at = i + SHARE_OFFSET(j);
        const FV y = adjusted_lanes(r, at) != 0 ? adjust_vector(r, at, x[0], least) : x[0];
        x[0] = x[1];
        x[1] = x[2];
        x[2] = x[3];
        x[3] = y;
    }
}
#else
static inline void share_mask(SHARED const row_logits *r, u32 i, FV *x) {}
static inline void share_cap(SHARED const row_logits *r, FV *x) {}
static inline int share_is_adjusted(SHARED const row_logits *r, u32 i) { return 0; }
static inline void share_adjust(SHARED const row_logits *r, u32 i, f32 least, FV *x) {}
#endif

/* Loads a share with mask, bounds and dense bias; it is not cleaned. `masked`: the mask in bits
 * forbids tokens of its tile. */
static inline void share_load(SHARED const row_logits *r, u32 i, u32 masked, FV *x)
{
    if (share_is_whole(r, i) && !(r->dense & CLS_BIAS_KINDS) && !(r->masked & CLS_MASK_BYTES)) {
        share_load_raw(r, i, x);
        if (r->dense)
            share_cap(r, x);
        if (masked)
            share_mask(r, i, x);
        return;
    }
    const u32 n = share_vectors(r, i);
    CLS_EACH_4(SHARE_NONE)
    for (u32 j = 0; j < n; j++) { /* a loop, so that its body is compiled once */
        const FV y = load_checked(r, i + SHARE_OFFSET(j));
        CLS_EACH_4(SHARE_SET)
    }
}

#define SHARE_CLEAN(g) x[g] = clean_v(x[g]);
#define SHARE_NAN(g) nan |= x[g] != x[g];
#define SHARE_MOST(g) most = x[g] > most ? x[g] : most;

/* Loads the share at token i of a tile. Returns its maximum, which is not cleaned, and its status
 * bits. Unless there is +inf or an adjusted token, its vectors stay as in memory: uncleaned they
 * weigh the same. */
static inline f32 share_read(SHARED const row_logits *r, u32 i, u32 state, FV *x, u32 *status)
{
    FV most = (FV)(CLS_MASKED);
    u32 flags = 0;
    if (state & STATE_ALLOWED) {
        share_load(r, i, state & STATE_FORBIDDEN, x);
    } else {
        CLS_EACH_4(SHARE_NONE)
    }
    CLS_EACH_4(SHARE_MOST)
    /* The sum is NaN if one of them is NaN, if +inf met -inf, or if the sum overflowed; only then
     * the vectors are examined. */
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
    if ((state & STATE_ADJUSTED) && share_is_adjusted(r, i)) {
        CLS_EACH_4(SHARE_CLEAN)
        share_adjust(r, i, CLS_MASKED, x);
        most = (FV)(CLS_MASKED);
        CLS_EACH_4(SHARE_MOST)
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
    return (hi & (SUM_INF - SUM_NAN) ? CLS_ROW_NAN : 0u) | (hi >= SUM_INF ? CLS_ROW_INF : 0u) |
           ((state & STATE_ALLOWED) && (state & STATE_ADJUSTED) ? CLS_TILE_ADJUSTED : 0u) |
           (state & STATE_FORBIDDEN ? CLS_TILE_MASKED : 0u);
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
static inline void survey_teams(SHARED const row_logits *r, u32 first, u32 last, u32 needs_mass,
                                f32 scale, const survey_out *out, const survey_memory *at)
{
    const u32 lid = LOCAL_ID, from_end = WGS - 1 - lid;
#if ROW
    find_tile_states(r, first, last, at->tile_states);
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
