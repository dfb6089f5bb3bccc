/* SPDX-License-Identifier: MIT */
/* share: an item's share of a tile, which is four vectors of one max tile. All four are loaded
 * before the first is used: one vector at a time, an item waits for memory four times as often. */
#include "row/tiles.cl"

#define SHARES (TILE_VECTORS / UNROLL)
#define SHARE_LOAD(g) x[g] = LOAD_NARROW(r->x, i + SHARE_OFFSET(g));

#if WGS == 1
/* The vectors of one item are consecutive. */
#define TEAMS 1
#define SHARE_OFFSET(g) ((g)*VEC)
static inline u32 share_token(u32 share) { return share * UNROLL * VEC; }

/* Loads the vectors from i on. Only one copy adjusts tokens: it would else be compiled for each
 * place that loads. It fills an array of its own, because x stays in registers only while all its
 * indices are constants. */
ONE_COPY void load_adjusted(SHARED const row_logits *r, u32 i, int kind, f32 least, FV *adjusted)
{
    for (u32 g = 0; g < UNROLL; g++)
        adjusted[g] = load_v(r, i + g * VEC, kind, least);
}
#define SHARE_COPY(g) x[g] = adjusted[g];
static inline __attribute__((always_inline)) void load_share(SHARED const row_logits *r, u32 i,
                                                             int kind, f32 least, FV *x)
{
    if (kind == TILE_RAW) {
        CLS_EACH_4(SHARE_LOAD)
    } else {
        FV adjusted[UNROLL];
        load_adjusted(r, i, kind, least, adjusted);
        CLS_EACH_4(SHARE_COPY)
    }
}

#else

/* A group of several items works on as many tiles at once as it has teams of SHARES items. The
 * vectors of neighbouring items lie side by side, 64 bytes of float32. A group smaller than a team
 * works on one tile at a time, and its items have several shares.
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
#define MAX_TILE_SHARES (MAX_TILE_VECTORS / 4)
#define TEAMS (WGS < SHARES ? 1 : WGS / SHARES)
#define TEAM_SHARES (TEAMS * SHARES)
#define TEAM_MAX_TILES (TEAMS * CLS_MAX_TILES_PER_TILE)

/* Returns a share's first token, relative to its tile. */
static inline u32 share_token(u32 share)
{
    return share / MAX_TILE_SHARES * CLS_MAX_TILE + share % MAX_TILE_SHARES * SHARE_WIDTH;
}
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

/* Loads a share as it is in memory. */
static inline void share_load_raw(SHARED const row_logits *r, u32 i, FV *x)
{
#if WIDE
    if (r->wide) {
        SHARE_LOAD_WIDE
        return;
    }
#endif
    CLS_EACH_4(SHARE_LOAD)
}

/* Loads a share of a tile of the given kind as the chain sees it; `least` as for load_v(). What is
 * not raw is loaded one vector after another, by code that is there once: search-row would have 407
 * KB of code on sm_90 and spill 2,544 bytes. */
static inline __attribute__((always_inline)) void load_share(SHARED const row_logits *r, u32 i,
                                                             int kind, f32 least, FV *x)
{
    if (kind == TILE_RAW) {
        share_load_raw(r, i, x);
        return;
    }
    CLS_EACH_4(SHARE_NONE)
    SHORT_LOOP
    for (u32 j = 0; j < UNROLL; j++) {
        const FV y = load_v(r, i + SHARE_OFFSET(j), kind, least);
        CLS_EACH_4(SHARE_SET)
    }
}

#endif
