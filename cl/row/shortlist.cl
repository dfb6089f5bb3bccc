/* SPDX-License-Identifier: MIT */
/* shortlist: collects the few tokens that the chain can keep, which it finds through the max tiles.
 *
 * Each of the first k max tiles (by maximum descending, id ascending) holds a token that precedes
 * every token of the other tiles. So the first k tokens lie in these tiles, ties included, and any
 * key that k tile maxima reach is a bound: tokens below it are not read again. */
#include "row/collect_alone.cl"
#include "row/count.cl"

#ifndef COLLECTS_ALONE
/* The max tiles that are looked through at once: their indexes, with their kinds above, take the
 * place of the list's masses, and an item has a bit for each of its tiles. */
#define WINDOW (4 * LIST < 32 * WGS ? 4 * LIST : 32 * WGS)
#define INDEX_BITS 14 /* of a max tile: a row has at most 2^14 */
#define INDEX(tile) ((tile) & ((1u << INDEX_BITS) - 1))
/* The tiles whose hits are found at once. They take the place of the list's orders and ranks, a bit
 * a token: those of a tile's first 32 tokens, and those of its others. */
#define HIT_TILES LIST
typedef struct hit_words {
    __local u32 *lower, *upper;
} hit_words;

/* Stores in order which of the max tiles first to last - 1 have a maximum of at least lo; returns
 * their number. */
static inline u32 tiles_reaching(SHARED const row_logits *r, u32 first, u32 last, i32 lo,
                                 __local ushort *tile, __local u64 *scratch)
{
    const u32 per_item = ((last - first) / VEC + WGS - 1) / WGS * VEC;
    const u32 begin = first + LOCAL_ID * per_item;
    u32 bits = 0, total;
    for (u32 i = 0; i < per_item && begin + i < last; i += VEC)
        bits |= lane_bits(LOAD_KEYS(r->key + begin + i) >= lo) << i;
    u32 at = wg_scan_u32(popcount(bits), scratch, &total);
    SHORT_LOOP
    for (; bits != 0; bits &= bits - 1)
        tile[at++] = (ushort)(begin + lowest_bit(bits));
    return total;
}

/* Which tokens are collected: those above `under` and not above `over`; behind the id `limit` those
 * above `tied`. */
typedef struct wanted {
    f32 under, tied, over, least;
    i32 limit;
} wanted;

/* Returns which tokens of the vector at i are wanted, a bit each. */
static inline u32 vector_hits(const wanted *q, u32 i, FV x)
{
    u32 bits = lane_bits((x > q->under) & (x <= q->over));
    if ((i32)(i + VEC) > q->limit)
        bits &= ~lane_bits((x <= q->tied) & (LANES + (IV)((i32)i) > (IV)(q->limit)));
    return bits << i % 32;
}

/* Finds the hits in `tiles` max tiles, whose indexes get their kinds. An item takes shares of
 * tiles, and no barrier lies between: all its loads may be in flight. A tile that is not raw is
 * loaded vector by vector, for fewer registers. */
#define FIND_HITS(g) word[g / 2] |= vector_hits(q, i + SHARE_OFFSET(g), x[g]);
static inline void find_hits(SHARED const row_logits *r, const wanted *q, __local ushort *tile,
                             u32 tiles, hit_words hits)
{
    LOCAL_BARRIER(); /* the tiles are stored, and the hits before are listed */
    for (u32 j = LOCAL_ID; j < tiles; j += WGS) {
        tile[j] |= (ushort)(max_tile_kind(r, tile[j]) << INDEX_BITS);
        hits.lower[j] = hits.upper[j] = 0;
    }
    LOCAL_BARRIER();
    for (u32 s = LOCAL_ID; s < tiles * MAX_TILE_SHARES; s += WGS) {
        const u32 j = s / MAX_TILE_SHARES;
        const u32 i = INDEX(tile[j]) * CLS_MAX_TILE + share_token(s % MAX_TILE_SHARES);
        const int kind = tile[j] >> INDEX_BITS;
        u32 word[2] = {0, 0};
        if (kind == TILE_RAW) {
            FV x[UNROLL];
            share_load_raw(r, i, x);
            CLS_EACH_4(FIND_HITS)
        } else {
            SHORT_LOOP
            for (u32 g = 0; g < UNROLL; g++) {
                const u32 at = i + SHARE_OFFSET(g),
                          bits = vector_hits(q, at, load_v(r, at, kind, q->least));
                word[0] |= g < UNROLL / 2 ? bits : 0u;
                word[1] |= g < UNROLL / 2 ? 0u : bits;
            }
        }
        if (word[0] != 0)
            atomic_or(hits.lower + j, word[0]);
        if (word[1] != 0)
            atomic_or(hits.upper + j, word[1]);
    }
    LOCAL_BARRIER();
}

/* Lists the ids of the hits, the first one at index `at`; returns the number of hits. */
static inline u32 list_hits(SHARED const row_logits *r, __local const ushort *tile, u32 tiles,
                            hit_words hits, u32 at, SHARED shortlist *list)
{
    const u32 per_item = (tiles + WGS - 1) / WGS, begin = min(LOCAL_ID * per_item, tiles),
              end = min(begin + per_item, tiles);
    u32 mine = 0, all;
    for (u32 j = begin; j < end; j++)
        mine += popcount(hits.lower[j]) + popcount(hits.upper[j]);
    at += wg_scan_u32(mine, list->scratch, &all);
    SHORT_LOOP
    for (u32 j = begin; j < end && at < LIST; j++) {
        const u32 tile_id = INDEX(tile[j]) * CLS_MAX_TILE;
        u64 bits = u64_make(hits.upper[j], hits.lower[j]);
        SHORT_LOOP
        for (; bits != 0 && at < LIST; bits &= bits - 1) {
            const u32 id = tile_id + popcount(~bits & (bits - 1));
            list->key[at] = key_of(load_one(r, id));
            list->id[at++] = (i32)id;
        }
    }
    return all;
}

/* Collects the tokens with lo <= key <= hi, of those with key lo the ones up to the id `limit`;
 * returns their number, which is above LIST if they do not fit. The tiles that can have such a
 * token are found first, then the hits in them; a prefix sum says where their ids go. */
static inline u32 collect_tokens(SHARED const row_logits *r, i32 lo, i32 hi, i32 limit,
                                 SHARED shortlist *list)
{
    const wanted q = {above(lo - 1), above(lo), above(hi), least_above(r, above(lo - 1)), limit};
    const hit_words hits = {(__local u32 *)list->order, (__local u32 *)list->rank};
    const u32 n = max_tiles(r);
    __local ushort *const tile = (__local ushort *)list->mass;
    u32 found = 0;
#ifdef cl_intel_vec_len_hint /* it adds to `first` for each item: doc/porting.md */
    for (u32 window = 0, first = 0; first < n; first = ++window * WINDOW) {
#else
    for (u32 first = 0; first < n; first += WINDOW) {
#endif
        const u32 last = min(first + WINDOW, n);
        const u32 tiles = tiles_reaching(r, first, last, lo, tile, list->scratch);
        for (u32 from = 0; from < tiles; from += HIT_TILES) {
            const u32 some = min(tiles - from, (u32)HIT_TILES);
            find_hits(r, &q, tile + from, some, hits);
            found += list_hits(r, tile + from, some, hits, found, list);
            if (found > LIST) /* the same for the whole group */
                return found;
        }
    }
    return found;
}
#endif

/* Fills the list with the row's tokens of lo <= key <= hi in order of ids, of those with key lo up
 * to the id `limit`. Returns 0 if they do not fit. */
CALLED int collect(SHARED const row_logits *r, i32 lo, i32 hi, i32 limit, SHARED shortlist *list)
{
    const u32 total = collect_tokens(r, lo, hi, limit, list);
    if (total > LIST)
        return 0;
    list_end(list, total);
    return 1;
}

#if WGS == 1
/* Raises a key that the first k tokens reach, in a row of so few max tiles that these bound little:
 * to read them some times more takes less than to collect and sort what is not needed. */
static inline i32 raise_bound(SHARED const row_logits *r, u32 k, i32 lo, i32 max_key,
                              __local u64 *scratch)
{
    i32 hi = max_key + 1; /* fewer than k tokens reach it */
    f32 gap = 16.0f;
    SHORT_LOOP
    for (u32 round = 0, reach = r->vocab; round < 24 && reach > k + k / 4 && hi - 1 > lo; round++) {
        const f32 zh = float_of_key(hi - 1), zl = max(float_of_key(lo), zh - gap);
        const i32 mid = max(key_of(clean(0.5f * zl + 0.5f * zh)), lo + 1);
        const u32 count = tokens_above(r, mid - 1, scratch);
        reach = count < k ? reach : count;
        lo = count < k ? lo : mid;
        hi = count < k ? mid : hi;
        gap *= count < k ? 4.0f : 1.0f;
    }
    return lo;
}
#endif

/* Fills the list with the row's first k tokens, at most LIST, and perhaps others behind them: with
 * those that reach lo, if they fit, else with those that reach a higher key, which halvings find.
 * Where so many tokens have one key that no key does, halvings of the ids find up to which one the
 * list gets these. Returns the least key all of whose tokens the list has; CLS_KEY_NONE if k is 0
 * and they do not fit.
 *
 * collect() serves to count, too: it is there anyway, and it ends where there are too many. Halves
 * are in turn those of the floats and of the keys, as lo may be far away. A bound by tiles is near:
 * first it is an eighth. */
CALLED i32 collect_first(SHARED const row_logits *r, u32 k, i32 lo, i32 max_key,
                         SHARED shortlist *list)
{
#if WGS == 1
    if (k != 0 && max_tiles(r) < min(4 * k, 256u))
        lo = raise_bound(r, k, lo, max_key, list->scratch);
#endif
    i32 at = lo, hi = max_key + 1; /* fewer than k tokens reach hi */
    i32 limit = CLS_MAX_ID;
    SHORT_LOOP
    for (u32 round = 0; round < 90; round++) {
        const int fits = collect(r, at, CLS_KEY_INF, limit, list);
        if (fits && (round == 0 || list->n >= k))
            return limit == CLS_MAX_ID ? at : at + 1;
        if (k == 0)
            break;
        const int by_id = limit != CLS_MAX_ID; /* higher ids are more tokens, higher keys fewer */
        const i32 tried = by_id ? limit : at;
        lo = fits == by_id ? tried : lo;
        hi = fits == by_id ? hi : tried;
        if (by_id) {
            limit = lo + (hi - lo) / 2;
            continue;
        }
        at = lo + (i32)(((u32)hi - (u32)lo) / 2);
        if (round % 2 == 0) {
            const f32 part = round == 0 ? 0.125f : 0.5f;
            at = key_of(clean((1.0f - part) * float_of_key(lo) + part * float_of_key(hi)));
        }
        at = at >= hi ? hi - 1 : at;
        if (at <= lo && lo + 1 < hi) {
            at = lo + 1;
        } else if (at <= lo) { /* now lo and hi are ids */
            at = lo;
            lo = -1;
            hi = (i32)r->vocab;
            limit = hi / 2;
        }
    }
    return CLS_KEY_NONE;
}
