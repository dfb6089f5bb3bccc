/* SPDX-License-Identifier: MIT */
/* measure: divides tiles among the items of a group, and says what is summed up of them. */
#include "row/tiles.cl"
#include "row/set.cl"

/* ------------------------------------------------------------ tiles in teams
 *
 * A group of several items works on as many tiles at once as it has teams of SHARES items. An
 * item's share of a tile is four vectors of one max tile. All four are loaded before the first is
 * used, the tile's unit is computed once for them, and items exchange one number each. The vectors
 * of neighbouring items lie side by side, 64 bytes of float32. A group smaller than a team works on
 * one tile at a time, and its items have several shares. */
#if WGS > 1

/* Where a share's vectors lie, relative to the first. Those of 16-bit logits lie in pairs, so that
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

static inline void share_load(const row_logits *r, u32 i, int kind, FV *x)
{
    if (kind == TILE_RAW) {
        share_load_raw(r, i, x);
    } else {
        const u32 n = share_vectors(r, i);
        CLS_EACH_4(SHARE_NONE)
        for (u32 j = 0; j < n; j++) { /* a loop, so that its body is compiled once */
            const FV y = load_adjusted(r, i + SHARE_OFFSET(j), kind == TILE_UNCHECKED, CLS_MASKED);
            CLS_EACH_4(SHARE_SET)
        }
    }
}

/* The sum of a vector's lanes, each below 2^32. For sums of two vectors of weights this takes 1.5
 * operations a token; a weight_sum would take 4.3 for a share. */
#define DEFINE_SUM_64(N, HALF) \
    static inline u64 sum_64_##N(uint##N v) { return sum_64_##HALF(v.lo) + sum_64_##HALF(v.hi); }
static inline u64 sum_64_2(uint2 v) { return (u64)v.x + v.y; }
DEFINE_SUM_64(4, 2)
DEFINE_SUM_64(8, 4)
DEFINE_SUM_64(16, 8)
#define SUM_64 CAT(sum_64_, VEC)

/* A tile's sums are added up from what items stored in local memory, in two steps with a barrier
 * between: one item adds up each max tile, then one item each tile. It is one step where a max tile
 * has a single share, or where items have several shares: the smallest devices have 1 KB of local
 * memory, which is too little for two steps. */
#define TWO_STEPS (WGS >= SHARES && MAX_TILE_SHARES > 1)
#if WGS < SHARES
#define TEAM_SUMS WGS
#define LAST_SUMS WGS
#else
#define TEAM_SUMS TEAM_SHARES
#define LAST_SUMS CLS_MAX_TILES_PER_TILE
#endif
#define IS_FIRST_SHARE(s) (WGS >= SHARES || (s) < WGS)
/* The index at which the sum of share s is stored. */
#define SUM_INDEX(s) (WGS >= SHARES ? (s) : LOCAL_ID)
static inline u64 fold_sums(__local const u64 *s, u32 n)
{
    u64 sum = s[0];
    for (u32 i = 1; i < n; i++)
        sum += s[i];
    return sum;
}

#endif

/* ------------------------------------------------------------ sums above keys */

/* What is summed up above a key: masses at a scale, or the number of tokens. */
typedef struct measure {
    int counts;
    f32 row_max, scale;
    i32 exponent; /* of the row's unit at this scale */
} measure;

static inline measure measure_of(int counts, f32 row_max, f32 scale)
{
    measure m;
    m.counts = counts;
    m.row_max = row_max;
    m.scale = scale;
    m.exponent = split(row_max, scale).exponent;
    return m;
}

/* A tile's tokens that the row still has are those above `under` and not above `over`; or, with
 * `by_id`, where a cut lies at a token of the tile, those that truncate_v() leaves. */
typedef struct window {
    f32 under, over;
    int by_id;
} window;
static inline window window_of(const row_logits *r, u32 tile)
{
    window w = {CLS_MASKED, CLS_INF, 0};
    if (r->truncated) {
        const i32 first = (i32)(tile * CLS_TILE), last = first + CLS_TILE - 1;
        const int keeps = last <= r->cut_id, drops = first > r->cut_id,
                  upper_keeps = first >= r->upper_first && last <= r->upper_last,
                  upper_drops = last < r->upper_first || first > r->upper_last;
        w.by_id = !(keeps || drops) || !(upper_keeps || upper_drops);
        if (!w.by_id) {
            if (r->cut_key != CLS_KEY_NONE)
                w.under = above(drops ? r->cut_key : r->cut_key - 1);
            w.over = above(upper_keeps ? r->upper_key : r->upper_key - 1);
        }
    }
    return w;
}
