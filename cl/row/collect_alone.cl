/* SPDX-License-Identifier: MIT */
/* collect_alone: collects tokens where each item looks through a range of tiles, and reads the
 * tiles that it finds there. That is for groups of one item; and for Intel's compiler for GPUs,
 * which needs minutes and gigabytes for some programs with adjusted logits if items share tiles
 * (search-row: 10 s, and over 120 s). */
#include "row/list.cl"
#include "row/share.cl"

#if WGS == 1 || (SUBGROUPS == 2 && ROW && !defined(ROLLED))
#define COLLECTS_ALONE
/* Vectors, and their hits, a bit each. One item takes four: with vectors of 16 these are all of a
 * max tile, and stay in registers. */
#define COLLECT_IS(g) ((x[g] > under) & (x[g] <= over))
#define COLLECT_ANY(g) any |= COLLECT_IS(g);
#if WGS == 1
#define COLLECTED UNROLL
#define EACH_COLLECTED CLS_EACH_4
#define COLLECT_LOAD(i) load_share(r, i, kind, least, x);
#define COLLECT_BITS u64
#define COLLECT_HITS(g) \
    hits |= (u64)lane_bits(COLLECT_IS(g)) << (g * VEC); \
    VSTORE(x[g], lane + g * VEC);
#define COLLECT_LANE(j) lane[j]
#else
#define COLLECTED 1
#define EACH_COLLECTED CLS_EACH_1
#define COLLECT_LOAD(i) x[0] = load_v(r, i, kind, least);
#define COLLECT_BITS u32
#define COLLECT_HITS(g) hits = lane_bits(COLLECT_IS(g));
#define COLLECT_LANE(j) lane_of(x[0], j)
#endif

/* Collects the tokens with lo <= key <= hi from max tiles first to last - 1, both multiples of VEC;
 * of those with key lo only ids up to `limit`. They are written from index `at` on, as far as the
 * list has room. Returns their number, and may stop counting beyond LIST. */
static inline u32 collect_alone(SHARED const row_logits *r, u32 first, u32 last, i32 lo, i32 hi,
                                i32 limit, u32 at, SHARED shortlist *list)
{
    const f32 under = above(lo - 1), over = above(hi), least = least_above(r, under);
    u32 taken = 0;
#if WGS == 1
    f32 lane[COLLECTED * VEC];
#endif
    for (u32 base = first; base < last && taken <= LIST; base += VEC) {
        u32 tiles = lane_bits(LOAD_KEYS(r->key + base) >= lo);
        SHORT_LOOP
        for (; tiles != 0; tiles &= tiles - 1) {
            const u32 m = base + lowest_bit(tiles);
            const int kind = max_tile_kind(r, m);
            /* Reducing a comparison to a scalar costs more than the comparison. So this is done
             * once for a tile first, since a narrow interval misses most tiles. */
            IV any = (IV)(0);
            FV x[COLLECTED];
            for (u32 v = 0; v < CLS_MAX_TILE; v += COLLECTED * VEC) {
                COLLECT_LOAD(m * CLS_MAX_TILE + v)
                EACH_COLLECTED(COLLECT_ANY)
            }
            if (!ANY(any))
                continue;
            for (u32 v = 0; v < CLS_MAX_TILE; v += COLLECTED * VEC) {
                const u32 i = m * CLS_MAX_TILE + v;
                COLLECT_BITS hits = 0;
                if (COLLECTED * VEC < CLS_MAX_TILE)
                    COLLECT_LOAD(i)
                EACH_COLLECTED(COLLECT_HITS)
                SHORT_LOOP
                for (; hits != 0; hits &= hits - 1) {
                    const u32 j = lowest_bit(hits);
                    const i32 key = key_of(clean(COLLECT_LANE(j)));
                    if (key == lo && (i32)(i + j) > limit)
                        continue;
                    if (at + taken < LIST) {
                        list->key[at + taken] = key;
                        list->id[at + taken] = (i32)(i + j);
                    }
                    taken++;
                }
            }
        }
    }
    return taken;
}

static inline u32 collect_tokens(SHARED const row_logits *r, i32 lo, i32 hi, i32 limit,
                                 SHARED shortlist *list)
{
#if WGS == 1
    return collect_alone(r, 0, max_tiles(r), lo, hi, limit, 0, list);
#else
    /* Each item counts in its own range of tiles, then writes behind the tokens of the items before
     * it. So ids stay in order without sorting. */
    const u32 n = max_tiles(r), per_item = (n / VEC + WGS - 1) / WGS * VEC;
    const u32 first = min(LOCAL_ID * per_item, n), last = min(first + per_item, n);
    u32 at = LIST, total = 0;
    for (u32 write = 0; write < 2 && total <= LIST; write++) {
        const u32 count = collect_alone(r, first, last, lo, hi, limit, at, list);
        if (write == 0) /* the same for the whole group */
            at = wg_scan_u32(count, list->scratch, &total);
    }
    return total;
#endif
}
#endif
