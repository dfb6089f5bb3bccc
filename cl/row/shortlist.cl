/* SPDX-License-Identifier: MIT */
/* shortlist: collects the few tokens that the chain can keep, which it finds through the max tiles.
 *
 * Each of the first k max tiles (by maximum descending, id ascending) holds a token that precedes
 * every token of the other tiles. So the first k tokens lie in these tiles, ties included, and any
 * key that k tile maxima reach is a bound: tokens below it are not read again. */
#include "row/count.cl"
#include "row/set.cl"

/* At most LIST tokens in order of ids, in local memory. Entries from n up to the next multiple of
 * VEC have CLS_KEY_NONE. */
typedef struct shortlist {
    __local i32 *key;
    __local i32 *id;
    __local u64 *mass;  /* in row units, at the scale of the last list_weigh() */
    __local i32 *order; /* order[rank] is an index into the list */
    __local i32 *rank;  /* rank[index] is a rank in the order (key descending, id ascending) */
    __local u64 *scratch;
    u32 n;
} shortlist;

#if CHAIN > 0
#define SHORTLIST(NAME) \
    __local i32 NAME##_keys[LIST], NAME##_ids[LIST]; \
    __local i32 NAME##_orders[LIST], NAME##_ranks[LIST]; \
    __local u64 NAME##_masses[LIST], NAME##_scratches[WGS]; \
    shortlist NAME = {NAME##_keys,      NAME##_ids, NAME##_masses, NAME##_orders, NAME##_ranks, \
                      NAME##_scratches, 0}
#else /* no kernel uses the list */
#define SHORTLIST(NAME) \
    __local u64 NAME##_scratches[WGS]; \
    shortlist NAME = {0, 0, 0, 0, 0, NAME##_scratches, 0}
#endif

#define ALL_TIES 0x7fffffffu

/* Here each item looks through a range of tiles, and reads the tiles that it finds there. That is
 * for groups of one item; and for Intel's compiler for GPUs, which needs minutes and gigabytes for
 * some programs with adjusted logits if items share tiles (search-row: 7 s, and over 120 s). */
#if WGS == 1 || (SUBGROUPS == 2 && ROW && !defined(ROLLED))
/* Collects the tokens with lo <= key <= hi from max tiles first to last - 1, both multiples of VEC;
 * of those with key lo only the next *ties. Where `write` is set, they are written from index
 * `at_list` on, as far as the list has room. Returns their number, and may stop counting beyond
 * LIST. Where `write` is not set, ties do not count towards that limit, because the caller limits
 * them. */
static inline u32 collect_alone(const row_logits *r, u32 first, u32 last, i32 lo, i32 hi, u32 *ties,
                                int write, u32 at_list, shortlist *list)
{
    const f32 under = above(lo - 1), over = above(hi), least = least_above(r, under);
    u32 taken = 0, left = *ties;
    for (u32 base = first; base < last && taken - (write ? 0 : *ties - left) <= LIST; base += VEC) {
        u32 tiles = lane_bits(LOAD_KEYS(r->key + base) >= lo);
        SHORT_LOOP
        for (; tiles != 0; tiles &= tiles - 1) {
            const u32 m = base + lowest_bit(tiles);
            const int kind = max_tile_kind(r, m);
            /* Reducing a comparison to a scalar costs more than the comparison. So this is done
             * once for a tile first, since a narrow interval misses most tiles. */
            IV any = (IV)(0);
            for (u32 v = 0; v < CLS_MAX_TILE; v += VEC) {
                const FV x = load_above(r, m * CLS_MAX_TILE + v, kind, least);
                any |= (x > under) & (x <= over);
            }
            if (!ANY(any))
                continue;
            for (u32 v = 0; v < CLS_MAX_TILE; v += VEC) {
                const u32 i = m * CLS_MAX_TILE + v;
                const FV x = load_above(r, i, kind, least);
                SHORT_LOOP
                for (u32 hits = lane_bits((x > under) & (x <= over)); hits != 0; hits &= hits - 1) {
                    const u32 j = lowest_bit(hits);
                    const i32 key = key_of(clean(lane_of(x, j)));
                    if (key == lo) {
                        if (left == 0)
                            continue;
                        left--;
                    }
                    if (write && at_list + taken < LIST) {
                        list->key[at_list + taken] = key;
                        list->id[at_list + taken] = (i32)(i + j);
                    }
                    taken++;
                }
            }
        }
    }
    *ties = left;
    return taken;
}

static inline u32 collect_tokens(const row_logits *r, i32 lo, i32 hi, u32 ties, shortlist *list)
{
#if WGS == 1
    return collect_alone(r, 0, max_tiles(r), lo, hi, &ties, 1, 0, list);
#else
    /* Each item counts in its own range of tiles, then writes behind the tokens of the items before
     * it. So ids stay in order without sorting. */
    const u32 n = max_tiles(r), per_item = (n / VEC + WGS - 1) / WGS * VEC;
    const u32 first = min(LOCAL_ID * per_item, n), last = min(first + per_item, n);
    u32 quota = ALL_TIES, at = 0, total = 0;
    for (u32 write = 0; write < 2 && total <= LIST; write++) {
        const u32 count = collect_alone(r, first, last, lo, hi, &quota, (int)write, at, list);
        if (write == 0) { /* the same for the whole group */
            u64 all;
            const u32 my_ties = ALL_TIES - quota;
            const u64 before =
                wg_scan_mass(u64_make(count - my_ties, my_ties), list->scratch, &all);
            quota = min((u32)not_negative((i32)(ties - u64_lo(before))), my_ties);
            at = u64_hi(before) + min(u64_lo(before), ties);
            /* If an item stopped counting, the total is still larger than LIST. */
            total = u64_hi(all) + min(u64_lo(all), ties);
        }
    }
    return total;
#endif
}

#else
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

/* Returns which tokens of the piece that begins at token i are above `under` and not above `over`,
 * and in *ties which of these are not above `tied`. */
static inline u32 piece_hits(const row_logits *r, u32 i, int kind, f32 least, f32 under, f32 tied,
                             f32 over, u32 *ties)
{
    u32 hits = 0;
    *ties = 0;
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
        hits = piece_bits(x, under, over);
        if (hits != 0)
            *ties = piece_bits(x, under, tied);
        return hits;
    }
    SHORT_LOOP
    for (u32 v = 0; v < PIECE_VECTORS; v++) {
        const FV x = load_adjusted(r, i + v * VEC, kind == TILE_UNCHECKED, least);
        hits |= piece_lanes(x, under, over) << v * VEC;
        *ties |= piece_lanes(x, under, tied) << v * VEC;
    }
    return hits;
}

/* The max tiles that are looked through at once: their indexes take the place of the list's masses,
 * and an item has a bit for each of its tiles. */
#define WINDOW (4 * LIST < 32 * WGS ? 4 * LIST : 32 * WGS)

/* Stores in order which of the max tiles first to last - 1 have a maximum of at least lo; returns
 * their number. */
static inline u32 tiles_reaching(const row_logits *r, u32 first, u32 last, i32 lo,
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

/* Collects the tokens with lo <= key <= hi, of those with key lo the first `ties`; returns their
 * number, which is above LIST if they do not fit. The tiles that can have such a token are found
 * first; then each item reads pieces of them, and a prefix sum says where their tokens go. */
static inline u32 collect_tokens(const row_logits *r, i32 lo, i32 hi, u32 ties, shortlist *list)
{
    const f32 under = above(lo - 1), tied = above(lo), over = above(hi),
              least = least_above(r, under);
    const u32 n = max_tiles(r);
    __local ushort *const tile = (__local ushort *)list->mass;
    u32 larger = 0, equal = 0; /* the number of tokens above lo, and of those with key lo */
    for (u32 first = 0; first < n; first += WINDOW) {
        const u32 last = min(first + WINDOW, n);
        const u32 pieces = PIECES * tiles_reaching(r, first, last, lo, tile, list->scratch);
        for (u32 base = 0; base < pieces; base += WGS) {
            const u32 piece = base + LOCAL_ID;
            u32 i = 0, bits = 0, tie_bits = 0;
            if (piece < pieces) {
                const u32 m = tile[piece / PIECES];
                i = m * CLS_MAX_TILE + piece % PIECES * PIECE;
                bits = piece_hits(r, i, max_tile_kind(r, m), least, under, tied, over, &tie_bits);
                tie_bits = ties != ALL_TIES ? tie_bits : 0u;
            }
            /* Both counts share a word: a round of 1,024 items, the most, has 2^15 tokens. */
            u32 all;
            const u32 before = wg_scan_u32(popcount(bits & ~tie_bits) << 16 | popcount(tie_bits),
                                           list->scratch, &all);
            u32 at = larger + (before >> 16), tie = equal + (before & 0xffffu);
            SHORT_LOOP
            for (; bits != 0; bits &= bits - 1) {
                const u32 j = lowest_bit(bits), to = at + min(tie, ties);
                const u32 is_tie = tie_bits >> j & 1u;
                if (to < LIST && (is_tie == 0 || tie < ties)) {
                    list->key[to] = key_of(load_one(r, i + j));
                    list->id[to] = (i32)(i + j);
                }
                at += 1 - is_tie;
                tie += is_tie;
            }
            larger += all >> 16;
            equal += all & 0xffffu;
            if (larger + min(equal, ties) > LIST) /* the same for the whole group */
                return LIST + 1;
        }
    }
    return larger + min(equal, ties);
}
#endif

/* Ends the list behind its first n entries. */
static inline void list_end(shortlist *list, u32 n)
{
    list->n = n;
    BARRIER();
    SHORT_LOOP
    for (u32 i = n + LOCAL_ID; i < LIST && i < n + VEC; i += WGS)
        list->key[i] = CLS_KEY_NONE;
    BARRIER();
}

/* Fills the list with the row's tokens of lo <= key <= hi in order of ids, with at most `ties` of
 * those equal to lo. Returns 0 if they do not fit. */
ONE_COPY int collect(const row_logits *r, i32 lo, i32 hi, u32 ties, shortlist *list)
{
    const u32 total = collect_tokens(r, lo, hi, ties, list);
    if (total > LIST)
        return 0;
    list_end(list, total);
    return 1;
}

/* Ranks the list: the rank of entry i is the number of larger keys plus the number of equal keys
 * before it. This takes n^2 / VEC comparisons, but no barrier between them; for lists of 50 to 500
 * entries, as they usually are, that is faster than sorting. */
ONE_COPY void list_sort(shortlist *list)
{
    const u32 n = list->n;
    for (u32 i = LOCAL_ID; i < n; i += WGS) {
        const i32 key = list->key[i];
        IV count = (IV)(0);
        u32 v = 0;
        for (; v + 4 * VEC <= i; v += 4 * VEC) {
            count += VLOAD(list->key + v) >= key;
            count += VLOAD(list->key + v + VEC) >= key;
            count += VLOAD(list->key + v + 2 * VEC) >= key;
            count += VLOAD(list->key + v + 3 * VEC) >= key;
        }
        for (; v + VEC <= i; v += VEC)
            count += VLOAD(list->key + v) >= key;
        const IV k = VLOAD(list->key + v);
        count += (k > key) | ((k == key) & (LANES + (IV)((i32)v) < (IV)((i32)i)));
        for (v += VEC; v + 4 * VEC <= n; v += 4 * VEC) {
            count += VLOAD(list->key + v) > key;
            count += VLOAD(list->key + v + VEC) > key;
            count += VLOAD(list->key + v + 2 * VEC) > key;
            count += VLOAD(list->key + v + 3 * VEC) > key;
        }
        for (; v < n; v += VEC)
            count += VLOAD(list->key + v) > key;
        const i32 rank = (i32)COUNT(count);
        list->rank[i] = rank;
        list->order[rank] = (i32)i;
    }
    BARRIER();
}

/* Computes the masses of the list's tokens at a scale. */
ONE_COPY void list_weigh(const row_logits *r, shortlist *list, f32 row_max, f32 scale)
{
    const i32 exponent = split(row_max, scale).exponent;
    u32 tile = 0xffffffffu;
    cls_unit unit;
    BARRIER();
    SHORT_LOOP
    for (u32 i = LOCAL_ID; i < list->n; i += WGS) {
        const u32 t = (u32)list->id[i] / CLS_TILE;
        if (t != tile) {
            tile = t;
            unit = tile_unit(r->key, t, row_max, exponent, scale);
        }
        list->mass[i] = to_row_units(
            weight(float_of_key(list->key[i]), unit.max, scale, unit.fraction), unit.shift);
    }
    BARRIER();
}

/* Returns the mass of the list's first `kept` ranks. */
static inline u64 list_mass(const shortlist *list, u32 kept)
{
    u64 mass = 0;
    SHORT_LOOP
    for (u32 i = LOCAL_ID; i < list->n; i += WGS)
        if ((u32)list->rank[i] < kept)
            mass += list->mass[i];
    return wg_mass(mass, list->scratch);
}

static inline u64 kept_mass(const shortlist *list, int by_id, u32 kept, u32 i)
{
    const u32 at = by_id ? i : (u32)list->order[i];
    return (u32)list->rank[at] < kept ? list->mass[at] : 0;
}
/* Adds up the masses of the list's first `kept` ranks, by rank or (`by_id`) in order of ids.
 * Returns how many entries, at least one, are needed until base plus their mass reaches the target;
 * one more than there are if they do not reach it. Each item adds up a run of entries first. */
ONE_COPY u32 list_reach(const shortlist *list, int by_id, u32 kept, u64 base, u64 target)
{
    const u32 n = by_id ? list->n : kept, per_item = (n + WGS - 1) / WGS;
    const u32 first = min(LOCAL_ID * per_item, n), last = min(first + per_item, n);
    u64 sum = base;
    u32 count = n + 1;
#if WGS > 1
    u64 mine = 0, all;
    SHORT_LOOP
    for (u32 i = first; i < last; i++)
        mine += kept_mass(list, by_id, kept, i);
    sum = base + wg_scan_mass(mine, list->scratch, &all);
#endif
    SHORT_LOOP
    for (u32 i = first; i < last && count > n; i++) {
        sum += kept_mass(list, by_id, kept, i);
        count = sum < target ? count : i + 1;
    }
    return wg_umin(count, list->scratch);
}

/* ------------------------------------------------------------------- counts, sums */

/* Returns how many of the list's first `kept` ranks have at least a given key. */
static inline u32 list_count(const shortlist *list, u32 kept, i32 key)
{
    IV count = (IV)(0);
    for (u32 i = LOCAL_ID * VEC; i < list->n; i += WGS * VEC)
        count += (VLOAD(list->key + i) >= key) & (AS_IV(AS_UV(VLOAD(list->rank + i)) < (UV)(kept)));
    return wg_usum(COUNT(count), list->scratch);
}

ONE_COPY u64 list_sum(const row_logits *r, const shortlist *list, u32 kept, u32 what, f32 top,
                      f32 scale)
{
    const i32 exponent = split(top, scale).exponent;
    u64 sum = 0;
    u32 tile = 0xffffffffu;
    cls_unit unit;
    SHORT_LOOP
    for (u32 i = LOCAL_ID; i < list->n; i += WGS) {
        const u32 t = (u32)list->id[i] / CLS_TILE;
        if (t != tile) {
            tile = t;
            unit = tile_unit(r->key, t, top, exponent, scale);
        }
        if ((u32)list->rank[i] < kept)
            sum += sum_term(what, float_of_key(list->key[i]), top, scale, &unit);
    }
    return wg_mass(sum, list->scratch);
}

/* Sums up what the list's first `kept` ranks have above each of four keys: masses, or (`counts`)
 * tokens. */
static inline void list_above(const shortlist *list, u32 kept, int counts, const i32 *key, u64 *sum)
{
    for (u32 p = 0; p < CLS_PIVOTS; p++) {
        u64 mine = 0;
        SHORT_LOOP
        for (u32 i = LOCAL_ID; i < list->n; i += WGS)
            if (list->key[i] > key[p] && (u32)list->rank[i] < kept)
                mine += counts ? 1 : list->mass[i];
        sum[p] = wg_mass(mine, list->scratch);
    }
}

static inline f32 rank_logit(const shortlist *list, u32 rank)
{
    return float_of_key(list->key[list->order[rank]]);
}

/* ------------------------------------------------------------------- removing tokens */

#define RANK_REMOVED 0x7fffffff /* the rank of a token that list_drop() drops */

/* Drops the tokens that have no rank below `kept`, and sorts the others, which have no masses
 * then. */
ONE_COPY void list_drop(shortlist *list, u32 kept)
{
    const u32 n = list->n;
    u32 at = 0;
    BARRIER();
    SHORT_LOOP
    for (u32 base = 0; base < n; base += WGS) {
        const u32 i = base + LOCAL_ID;
        const u32 stays = i < n && (u32)list->rank[i] < kept;
        const i32 key = stays ? list->key[i] : 0, id = stays ? list->id[i] : 0;
        u32 all;
        const u32 to = at + wg_scan_u32(stays, list->scratch, &all); /* all have read */
        if (stays) {
            list->key[to] = key;
            list->id[to] = id;
        }
        at += all;
    }
    list_end(list, at);
    list_sort(list);
}
