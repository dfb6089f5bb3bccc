/* SPDX-License-Identifier: MIT */
/* shortlist: collects the few tokens that the chain can keep, which it finds through the max tiles.
 *
 * Each of the first k max tiles (by maximum descending, id ascending) holds a token that precedes
 * every token of the other tiles. So the first k tokens lie in these tiles, ties included, and any
 * key that k tile maxima reach is a bound: tokens below it are not read again. */
#include "row/collect_alone.cl"
#include "row/count.cl"

#ifndef COLLECTS_ALONE
/* What an item reads of a max tile at once: consecutive vectors, whose tokens, at most 32, have a
 * bit each in a word. */
#if VEC == 16
#define PIECE_VECTORS 2
#define EACH_OF_PIECE CLS_EACH_2
#elif VEC == 8
#define PIECE_VECTORS 4
#define EACH_OF_PIECE CLS_EACH_4
#else
#define PIECE_VECTORS 8
#define EACH_OF_PIECE CLS_EACH_8
#endif
#define PIECE (PIECE_VECTORS * VEC)
#define PIECES (CLS_MAX_TILE / PIECE)
#define PIECE_LOAD(g) x[g] = LOAD_NARROW(r->x, i + g * VEC);
#define PIECE_WIDE(g) LOAD_2(r->x, i + 2 * g * VEC, x[2 * g], x[2 * g + 1])
#define PIECE_BITS(g) bits |= piece_lanes(x[g], from, to) << (g * VEC);
static inline u32 piece_lanes(FV x, f32 from, f32 to) { return lane_bits((x > from) & (x <= to)); }
static inline u32 piece_bits(const FV *x, f32 from, f32 to)
{
    u32 bits = 0;
    EACH_OF_PIECE(PIECE_BITS)
    return bits;
}

/* Returns which tokens of the piece that begins at token i are above `under` and not above `over`.
 */
static inline u32 piece_hits(SHARED const row_logits *r, u32 i, int kind, f32 least, f32 under,
                             f32 over)
{
    u32 hits = 0;
    if (kind == TILE_RAW) {
        FV x[PIECE_VECTORS];
#if WIDE
        if (r->wide) {
            CLS_EACH_4(PIECE_WIDE)
        } else
#endif
        {
            EACH_OF_PIECE(PIECE_LOAD)
        }
        return piece_bits(x, under, over);
    }
    SHORT_LOOP
    for (u32 v = 0; v < PIECE_VECTORS; v++)
        hits |= piece_lanes(load_v(r, i + v * VEC, kind, least), under, over) << v * VEC;
    return hits;
}

/* The max tiles that are looked through at once: their indexes take the place of the list's masses,
 * and an item has a bit for each of its tiles. */
#define WINDOW (4 * LIST < 32 * WGS ? 4 * LIST : 32 * WGS)

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
    BARRIER();
    return total;
}

/* Collects the tokens with lo <= key <= hi, of those with key lo the ones up to the id `limit`;
 * returns their number, which is above LIST if they do not fit. The tiles that can have such a
 * token are found first; then each item reads pieces of them, and a prefix sum says where their
 * tokens go. */
static inline u32 collect_tokens(SHARED const row_logits *r, i32 lo, i32 hi, i32 limit,
                                 SHARED shortlist *list)
{
    const f32 under = above(lo - 1), over = above(hi), least = least_above(r, under);
    const u32 n = max_tiles(r);
    __local ushort *const tile = (__local ushort *)list->mass;
    u32 found = 0;
#ifdef cl_intel_vec_len_hint /* it adds to `first` for each item: doc/porting.md */
    for (u32 window = 0, first = 0; first < n; first = ++window * WINDOW) {
#else
    for (u32 first = 0; first < n; first += WINDOW) {
#endif
        const u32 last = min(first + WINDOW, n);
        const u32 pieces = PIECES * tiles_reaching(r, first, last, lo, tile, list->scratch);
        for (u32 base = 0; base < pieces; base += WGS) {
            const u32 piece = base + LOCAL_ID;
            u32 i = 0, bits = 0;
            if (piece < pieces) {
                const u32 m = tile[piece / PIECES];
                i = m * CLS_MAX_TILE + piece % PIECES * PIECE;
                bits = piece_hits(r, i, max_tile_kind(r, m), least, under, over);
                SHORT_LOOP
                for (u32 ties = (i32)(i + PIECE) > limit ? bits : 0u; ties != 0; ties &= ties - 1) {
                    const u32 j = lowest_bit(ties);
                    if ((i32)(i + j) > limit && key_of(load_one(r, i + j)) == lo)
                        bits ^= 1u << j;
                }
            }
            u32 all;
            u32 at = found + wg_scan_u32(popcount(bits), list->scratch, &all);
            SHORT_LOOP
            for (; bits != 0 && at < LIST; bits &= bits - 1) {
                const u32 id = i + lowest_bit(bits);
                list->key[at] = key_of(load_one(r, id));
                list->id[at++] = (i32)id;
            }
            found += all;
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
