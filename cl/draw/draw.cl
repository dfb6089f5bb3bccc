/* SPDX-License-Identifier: MIT */
/* draw: a 64-bit random number chooses an integer below the set's mass, and the token whose
 * interval contains it is found by adding up masses in ascending order of ids. The result does not
 * depend on how the set was found. Sums of integers are exact, so the integer always lies in an
 * interval. */
#include "row/random.cl"
#include "row/shortlist.cl"
#include "stages/adaptive_p.cl"

/* Returns the weights of one vector of a tile, in the unit that set_finish() converts to the
 * row's. */
static inline UV vector_weights(SHARED const row_logits *r, u32 i, int kind, const cls_unit *unit,
                                f32 scale, const kept_set *set)
{
    const FV x = load_v(r, i, kind, CLS_MASKED);
    const UV w = weight_v(x, unit->max, scale, unit->fraction);
#if CHAIN == 2
    if (set->adapted)
        return AS_UV(is_kept(set, x, i) & (x > CLS_MASKED)) &
               adapted_weights(set->by, w, unit->shift);
#endif
    return CHAIN == 0 || set->untruncated
               ? w
               : (AS_UV(is_kept(set, x, i)) & w) >> lost_bits(unit->shift);
}
/* Returns the token of the vector at id i whose interval contains `drawn`; `sum` is the sum of the
 * tile's weights before the vector. Compilers do not unroll this loop. */
static inline i32 draw_lane(UV w, u32 i, const cls_unit *unit, const kept_set *set, u64 sum,
                            u64 drawn)
{
    SHORT_LOOP
    for (u32 j = 0; j < VEC; j++) {
        sum = sum + (u64)USUM(LANES == (IV)((i32)j) ? w : (UV)(0u));
        if (drawn < set_finish(sum, unit, set))
            return (i32)(i + j);
    }
    return -1;
}
/* Returns the token of a tile whose interval contains `drawn`, from which the masses of the tiles
 * before are subtracted. By the whole group: each item takes a range of vectors. */
static inline i32 draw_in_tile(SHARED const row_logits *r, u32 tile, const cls_unit *unit,
                               f32 scale, const kept_set *set, u64 drawn, __local u64 *scratch)
{
    const u32 n = tile_vectors(r, tile), per_item = (n + WGS - 1) / WGS;
    const u32 first = min(LOCAL_ID * per_item, n), last = min(first + per_item, n);
    const int kind = tile_kind(r, tile);
    u64 sum = 0, total;
    i32 token = -1;
    int here = 1;
    /* Round 0 sums up each item's range; round 1 finds the token in the range that has it. It is a
     * loop so that compilers that inline everything compile the body once. */
    for (u32 round = 0; round < 2; round++) {
        for (u32 v = first; v < last && here; v++) {
            const u32 i = tile * CLS_TILE + v * VEC;
            const UV w = vector_weights(r, i, kind, unit, scale, set);
            const u64 next = sum + SUM_64(w);
            if (round == 1 && drawn < set_finish(next, unit, set)) {
                token = draw_lane(w, i, unit, set, sum, drawn);
                break;
            }
            sum = next;
        }
        if (round == 0) {
            const u64 mine = sum;
            sum = wg_scan_mass(mine, scratch, &total);
            here = drawn >= set_finish(sum, unit, set) && drawn < set_finish(sum + mine, unit, set);
        }
    }
    return wg_imax(token, scratch);
}

/* Draws by the masses of tiles, in row units. */
static inline i32 draw_row(SHARED const row_logits *r, __global const u64 *tile_mass, f32 row_max,
                           f32 scale, const kept_set *set, u64 drawn, __local u64 *scratch)
{
    const u32 t = find_tile(tile_mass, r->tiles, &drawn, scratch);
    const cls_unit unit = tile_unit(r->key, t, row_max, split(row_max, scale).exponent, scale);
    return draw_in_tile(r, t, &unit, scale, set, drawn, scratch);
}

/* Draws from the first `kept` ranks of a list; returns -1 if their mass is not above `drawn`. */
static inline i32 draw_list(SHARED shortlist *list, u32 kept, u64 drawn)
{
    const u32 count = list_reach(list, 1, kept, 0, drawn + 1);
    return count <= list->n ? list->id[count - 1] : -1;
}
