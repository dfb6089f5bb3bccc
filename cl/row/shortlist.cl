/* SPDX-License-Identifier: MIT */
/* shortlist: collects the few tokens that the chain can keep, which it finds through the max tiles.
 *
 * Each of the first k max tiles (by maximum descending, id ascending) holds a token that precedes
 * every token of the other tiles. So the first k tokens lie in these tiles, ties included, and any
 * key that k tile maxima reach is a bound: tokens below it are not read again. */
#include "row/count.cl"
#include "row/chain.cl"

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

/* Collects the tokens with lo <= key <= hi from max tiles first to last - 1, both multiples of VEC;
 * of those with key lo only the next *ties. Where `write` is set, they are written from index
 * `at_list` on, as far as the list has room. Returns their number, and may stop counting beyond
 * LIST. Where `write` is not set, ties do not count towards that limit, because the caller limits
 * them. */
static inline u32 collect_tokens(const row_logits *r, __global const i32 *row_key, u32 first,
                                 u32 last, i32 lo, i32 hi, u32 *ties, int write, u32 at_list,
                                 shortlist *list)
{
    const f32 under = above(lo - 1), over = above(hi), least = least_above(r, under);
    u32 taken = 0, left = *ties;
    for (u32 base = first; base < last && taken - (write ? 0 : *ties - left) <= LIST; base += VEC) {
        u32 tiles = lane_bits(VLOAD(row_key + base) >= lo);
        SHORT_LOOP
        for (; tiles != 0; tiles &= tiles - 1) {
            const u32 m = base + 31 - clz(tiles & (~tiles + 1));
            const int kind = max_tile_kind(r, m);
            /* Reducing a comparison to a scalar costs more than the comparison. So this is done
             * once for a tile first, since a narrow interval misses most tiles. A tile that has a
             * token of it is read again: an array of its vectors would not fit a GPU's
             * registers. */
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
                    const u32 j = 31 - clz(hits & (~hits + 1));
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

/* Fills the list with the row's tokens of lo <= key <= hi in order of ids, with at most `ties` of
 * those equal to lo. Returns 0 if they do not fit. */
ONE_COPY int collect(const row_logits *r, __global const i32 *row_key, u32 n, i32 lo, i32 hi,
                     u32 ties, shortlist *list)
{
    u32 total = 0;
#if WGS == 1
    total = collect_tokens(r, row_key, 0, n, lo, hi, &ties, 1, 0, list);
#else
    /* Each item counts in its own range of tiles, then writes behind the tokens of the items before
     * it. So ids stay in order without sorting. */
    const u32 per_item = (n / VEC + WGS - 1) / WGS * VEC;
    const u32 first = min(LOCAL_ID * per_item, n), last = min(first + per_item, n);
    u32 quota = ALL_TIES, at = 0;
    for (u32 write = 0; write < 2 && total <= LIST; write++) {
        const u32 count =
            collect_tokens(r, row_key, first, last, lo, hi, &quota, (int)write, at, list);
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
#endif
    if (total > LIST)
        return 0;
    list->n = total;
    SHORT_LOOP
    for (u32 i = total + LOCAL_ID; i < LIST && i < total + VEC; i += WGS)
        list->key[i] = CLS_KEY_NONE;
    BARRIER();
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
ONE_COPY void list_weigh(shortlist *list, __global const i32 *row_key, f32 row_max, f32 scale)
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
            unit = tile_unit(row_key, t, row_max, exponent, scale);
        }
        list->mass[i] = to_row_units(
            u64_from(weight(float_of_key(list->key[i]), unit.max, scale, unit.fraction)),
            unit.shift);
    }
    BARRIER();
}

/* Returns the mass of the list's first `kept` ranks. */
static inline u64 list_mass(const shortlist *list, u32 kept)
{
    u64 mass = u64_from(0);
    SHORT_LOOP
    for (u32 i = LOCAL_ID; i < list->n; i += WGS)
        if ((u32)list->rank[i] < kept)
            mass = u64_add(mass, list->mass[i]);
    return wg_mass(mass, list->scratch);
}

/* Returns how many ranks, at least one, are needed until base plus their mass reaches the target;
 * kept + 1 if the first `kept` do not reach it. One item adds up: lists are short. */
ONE_COPY u32 list_reach(const shortlist *list, u32 kept, u64 base, u64 target)
{
    u32 count = 0;
    if (LOCAL_ID == 0) {
        u64 sum = base;
        int reached = 0;
        SHORT_LOOP
        while (!reached && count < kept) {
            sum = u64_add(sum, list->mass[list->order[count]]);
            count++;
            reached = !u64_less(sum, target);
        }
        if (!reached)
            count = kept + 1;
    }
    return u64_lo(wg_broadcast(u64_from(count), LOCAL_ID == 0, list->scratch));
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

ONE_COPY u64 list_sum(const shortlist *list, __global const i32 *row_key, u32 kept, u32 what,
                      f32 top, f32 scale)
{
    const i32 exponent = split(top, scale).exponent;
    u64 sum = u64_from(0);
    u32 tile = 0xffffffffu;
    cls_unit unit;
    SHORT_LOOP
    for (u32 i = LOCAL_ID; i < list->n; i += WGS) {
        const u32 t = (u32)list->id[i] / CLS_TILE;
        if (t != tile) {
            tile = t;
            unit = tile_unit(row_key, t, top, exponent, scale);
        }
        if ((u32)list->rank[i] < kept)
            sum = u64_add(sum, sum_term(what, float_of_key(list->key[i]), top, scale, &unit));
    }
    return wg_mass(sum, list->scratch);
}

/* ------------------------------------------------------------------- removing ranks */

#define RANK_REMOVED 0x7fffffff /* the rank of a removed token */

/* Removes ranks first to last - 1 from the list. */
ONE_COPY void list_remove(shortlist *list, u32 first, u32 last)
{
    BARRIER();
    SHORT_LOOP
    for (u32 i = LOCAL_ID; i < list->n; i += WGS) {
        const i32 rank = list->rank[i];
        if (rank >= (i32)first && rank < (i32)last)
            list->rank[i] = RANK_REMOVED;
        else if (rank >= (i32)last && rank != RANK_REMOVED)
            list->rank[i] = rank - (i32)(last - first);
    }
    BARRIER();
    SHORT_LOOP
    for (u32 i = LOCAL_ID; i < list->n; i += WGS)
        if (list->rank[i] != RANK_REMOVED)
            list->order[list->rank[i]] = (i32)i;
    BARRIER();
}

/* Removes the first `dropped` ranks; the next one becomes the top. */
static inline void remove_top_ranks(shortlist *list, chain_state *c, u32 dropped)
{
    list_remove(list, 0, dropped);
    c->kept -= dropped;
    c->set.top_key = list->key[list->order[0]];
    c->weighed = 0.0f;
}

static inline f32 rank_logit(const shortlist *list, u32 rank)
{
    return float_of_key(list->key[list->order[rank]]);
}
