/* SPDX-License-Identifier: MIT */
/* list: the shortlist, in local memory: its order, its masses and sums, and what leaves it. */
#include "row/set.cl"
#include "row/tiles.cl"

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

/* Declares a kernel's list. */
#define LIST_SET(NAME, ...) \
    SHARED shortlist NAME; \
    if (WRITES_SHARED) { \
        const shortlist NAME##_begins = {__VA_ARGS__}; \
        NAME = NAME##_begins; \
    } \
    SHARED_BARRIER();
#if CHAIN > 0
#define SHORTLIST(NAME) \
    __local i32 NAME##_keys[LIST], NAME##_ids[LIST]; \
    __local i32 NAME##_orders[LIST], NAME##_ranks[LIST]; \
    __local u64 NAME##_masses[LIST], NAME##_scratches[WGS]; \
    LIST_SET(NAME, NAME##_keys, NAME##_ids, NAME##_masses, NAME##_orders, NAME##_ranks, \
             NAME##_scratches, 0)
#else /* no kernel uses the list */
#define SHORTLIST(NAME) \
    __local u64 NAME##_scratches[WGS]; \
    LIST_SET(NAME, 0, 0, 0, 0, 0, NAME##_scratches, 0)
#endif

/* Ends the list behind its first n entries. */
static inline void list_end(SHARED shortlist *list, u32 n)
{
    BARRIER();
    if (WRITES_SHARED)
        list->n = n;
    SHORT_LOOP
    for (u32 i = n + LOCAL_ID; i < LIST && i < n + VEC; i += WGS)
        list->key[i] = CLS_KEY_NONE;
    BARRIER();
}

#if WGS == 1
/* Sorts indexes by a digit of their keys, descending; those of one digit stay in order. `from` 0:
 * all indexes. Returns 0, and sorts nothing, if all keys have the same digit. */
#define SORT_DIGIT(i) (255u - ((u32)list->key[i] >> shift & 255u))
static inline int sort_by_digit(SHARED shortlist *list, u32 shift, __local const i32 *from,
                                __local i32 *to)
{
    const u32 n = list->n;
    u32 at[256], sum = 0;
    for (u32 i = 0; i < 256; i++)
        at[i] = 0;
    SHORT_LOOP
    for (u32 i = 0; i < n; i++)
        at[SORT_DIGIT(i)]++;
    if (at[SORT_DIGIT(0)] == n)
        return 0;
    SHORT_LOOP
    for (u32 i = 0; i < 256; i++) {
        const u32 count = at[i];
        at[i] = sum;
        sum += count;
    }
    SHORT_LOOP
    for (u32 i = 0; i < n; i++) {
        const u32 index = from != 0 ? (u32)from[i] : i;
        to[at[SORT_DIGIT(index)]++] = (i32)index;
    }
    return 1;
}

/* A radix sort, whose digits are bytes. The list is in order of ids, so equal keys stay so. */
#define SORTS_BY_RADIX 128 /* entries and more */
static inline void radix_sort(SHARED shortlist *list)
{
    __local i32 *from = 0, *to = list->order;
    SHORT_LOOP
    for (u32 i = 0; i < list->n; i++)
        list->key[i] ^= (i32)0x80000000; /* digits are not negative */
    SHORT_LOOP
    for (u32 shift = 0; shift < 32; shift += 8) {
        if (sort_by_digit(list, shift, from, to)) {
            from = to;
            to = from == list->order ? list->rank : list->order;
        }
    }
    SHORT_LOOP
    for (u32 i = 0; i < list->n; i++) {
        list->key[i] ^= (i32)0x80000000;
        list->order[i] = from != 0 ? from[i] : (i32)i;
    }
    SHORT_LOOP
    for (u32 i = 0; i < list->n; i++)
        list->rank[list->order[i]] = (i32)i;
}
#endif

/* Ranks the list: the rank of entry i is the number of larger keys plus the number of equal keys
 * before it. This takes n^2 / VEC comparisons, but no barrier between them; for lists of 50 to 500
 * entries, as they usually are, that is faster for a group than sorting. One item sorts lists of
 * SORTS_BY_RADIX entries and more. */
CALLED void list_sort(SHARED shortlist *list)
{
    const u32 n = list->n;
#if WGS == 1
    if (n >= SORTS_BY_RADIX) {
        radix_sort(list);
        return;
    }
#endif
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
CALLED void list_weigh(SHARED const row_logits *r, SHARED shortlist *list, f32 row_max, f32 scale)
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
static inline u64 list_mass(SHARED shortlist *list, u32 kept)
{
    u64 mass = 0;
    SHORT_LOOP
    for (u32 i = LOCAL_ID; i < list->n; i += WGS)
        if ((u32)list->rank[i] < kept)
            mass += list->mass[i];
    return wg_mass(mass, list->scratch);
}

static inline u64 kept_mass(SHARED shortlist *list, int by_id, u32 kept, u32 i)
{
    const u32 at = by_id ? i : (u32)list->order[i];
    return (u32)list->rank[at] < kept ? list->mass[at] : 0;
}
/* Adds up the masses of the list's first `kept` ranks, by rank or (`by_id`) in order of ids.
 * Returns how many entries, at least one, are needed until base plus their mass reaches the target;
 * one more than there are if they do not reach it. Each item adds up a run of entries first. */
CALLED u32 list_reach(SHARED shortlist *list, int by_id, u32 kept, u64 base, u64 target)
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
static inline u32 list_count(SHARED shortlist *list, u32 kept, i32 key)
{
    IV count = (IV)(0);
    for (u32 i = LOCAL_ID * VEC; i < list->n; i += WGS * VEC)
        count += (VLOAD(list->key + i) >= key) & (AS_IV(AS_UV(VLOAD(list->rank + i)) < (UV)(kept)));
    return wg_usum(COUNT(count), list->scratch);
}

CALLED u64 list_sum(SHARED const row_logits *r, SHARED shortlist *list, u32 kept, cls_sum what,
                    f32 top, f32 scale)
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
static inline void list_above(SHARED shortlist *list, u32 kept, int counts, i32 hi, i32 hole_lo,
                              i32 hole_hi, const i32 *key, u64 *sum)
{
    for (u32 p = 0; p < CLS_PIVOTS; p++)
        sum[p] = 0;
    SHORT_LOOP
    for (u32 i = LOCAL_ID; i < list->n; i += WGS) {
        const i32 own = list->key[i];
        const int out = (u32)list->rank[i] >= kept || own > hi || (own > hole_lo && own <= hole_hi);
        const u64 amount = out ? 0 : counts ? 1 : list->mass[i];
        for (u32 p = 0; p < CLS_PIVOTS; p++)
            sum[p] += own > key[p] ? amount : 0;
    }
    for (u32 p = 0; p < CLS_PIVOTS; p++)
        sum[p] = wg_mass(sum[p], list->scratch);
}

static inline f32 rank_logit(SHARED shortlist *list, u32 rank)
{
    return float_of_key(list->key[list->order[rank]]);
}

/* Returns the index of an id among the list's first `kept` ranks; -1 if it is not there. */
static inline i32 kept_index(SHARED shortlist *list, u32 kept, i32 id)
{
    u32 lo = 0, hi = list->n;
    SHORT_LOOP
    while (lo < hi) {
        const u32 mid = (lo + hi) / 2;
        if (list->id[mid] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < list->n && list->id[lo] == id && (u32)list->rank[lo] < kept ? (i32)lo : -1;
}

/* ------------------------------------------------------------------- removing tokens */

#define RANK_REMOVED 0x7fffffff /* the rank of a token that list_drop() drops */

/* Drops the tokens that have no rank below `kept`, and sorts the others, which have no masses
 * then. */
CALLED void list_drop(SHARED shortlist *list, u32 kept)
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
