/* SPDX-License-Identifier: MIT */
#include "row/measure.cl"

#define NO_SHIFT 64u /* for a tile that has nothing above the lowest pivot */

#if WGS == 1
/* Measures tiles first to last - 1 with one item. */
ONE_COPY void pass_tiles(const row_logits *row, u32 first, u32 last, int known, const f32 *bound,
                         const measure *m, __global u64 *out)
{
    const row_logits own = *row,
                     *const r =
                         &own; /* this copy's address is not passed on, so it stays in registers */
    for (u32 t = first; t < last; t++) {
        const i32 top = tile_max_key(r->key, t);
        u64 part[CLS_PIVOTS];
        for (u32 p = 0; p < CLS_PIVOTS; p++)
            part[p] = 0;
        if (float_of_key(top) > bound[0]) {
            const cls_unit unit = unit_of(float_of_key(top), m->row_max, m->exponent, m->scale);
            if (known)
                part[0] = measure_over(r, t, m, &unit, bound[0]);
            else
                measure_vectors(r, t, m, &unit, bound, part);
            for (u32 p = 0; p < CLS_PIVOTS; p++)
                part[p] = measure_finish(known ? part[0] : part[p], m, &unit);
        }
        for (u32 p = 0; p < CLS_PIVOTS; p++)
            out[t * CLS_PIVOTS + p] = part[p];
    }
}

#else

/* What a group has in local memory. It has at most 32 tiles. */
typedef struct pass_memory {
    __local u64 *share_sum, *part; /* the sums of shares, and of max tiles */
    __local f32 *unit_max, *unit_fraction;
    __local u32 *unit_shift;
} pass_memory;

/* Does the same with a group. Each round measures as many tiles as there are teams: the sums of
 * shares, of max tiles and of tiles for all pivots, with two barriers between. */
static inline void pass_teams(const row_logits *r, u32 first, u32 last, int known, const f32 *bound,
                              const measure *m, const pass_memory *at, __global u64 *out)
{
    const u32 lid = LOCAL_ID, pivots = known ? 1u : CLS_PIVOTS;
    for (u32 t = first; t < last; t += TEAMS) {
        const u32 now = min((u32)TEAMS, last - t);
        for (u32 s = lid; s < TEAM_SHARES; s += WGS) {
            const u32 n = t - first + s / SHARES;
            if (s >= now * SHARES || at->unit_shift[n] == NO_SHIFT) {
                for (u32 p = 0; p < CLS_PIVOTS; p++)
                    at->share_sum[p * TEAM_SUMS + SUM_INDEX(s)] = 0;
            } else {
                const cls_unit unit = {at->unit_max[n], at->unit_fraction[n], at->unit_shift[n]};
                const u32 i = (first + n) * CLS_TILE + share_token(s % SHARES);
                FV x[4];
                share_load(r, i, max_tile_kind(r, i / CLS_MAX_TILE), x);
                share_measure(x, m, &unit, bound, pivots, !IS_FIRST_SHARE(s),
                              at->share_sum + SUM_INDEX(s));
            }
        }
        LOCAL_BARRIER();
#if TWO_STEPS
        for (u32 i = lid; i < CLS_PIVOTS * TEAM_MAX_TILES; i += WGS)
            if (i < pivots * TEAM_MAX_TILES)
                at->part[i] = fold_sums(at->share_sum + i * MAX_TILE_SHARES, MAX_TILE_SHARES);
        LOCAL_BARRIER();
#endif
        for (u32 i = lid; i < CLS_PIVOTS * TEAMS; i += WGS) {
            const u32 p = i / TEAMS, n = i % TEAMS;
            if (n < now) {
                const u32 shift = at->unit_shift[t - first + n];
                const cls_unit unit = {0.0f, 0.0f, shift == NO_SHIFT ? 0u : shift};
                const u64 sum =
                    fold_sums(at->part + ((known ? 0u : p) * TEAMS + n) * LAST_SUMS, LAST_SUMS);
                out[(t + n) * CLS_PIVOTS + p] = measure_finish(sum, m, &unit);
            }
        }
#if !TWO_STEPS
        LOCAL_BARRIER();
#endif
    }
}
#endif

/* pass: for rows that are searched, measures what each tile has above the four pivots, in
 * pass[row][tile][pivot]. Launch: as the survey. */
KERNEL void cls_pass(STEP_PARAMETERS(CLS_PASS_BUFFERS))
{
    const step_args s = STEP_OF(CLS_PASS_BUFFERS);
    const u32 tiles = row_tiles(&s), tiles_per_group = s.args->tiles_per_group;
#if WGS > 1
    __local u64 share_sum[CLS_PIVOTS * TEAM_SUMS];
#if TWO_STEPS
    __local u64 part[CLS_PIVOTS * TEAM_MAX_TILES];
#else
    __local u64 *const part = share_sum;
#endif
    __local f32 unit_max[32], unit_fraction[32]; /* a group has at most 32 tiles */
    __local u32 unit_shift[32];
#endif
    const u32 row = get_group_id(1);
    const u32 search_state = rows[row].state;
    const int idle = search_state == CLS_RECORD_DONE || search_state == CLS_RECORD_SEARCH_ALL;
    const row_logits r = row_view(&s, row, idle ? -1 : row_slot(&s, row));
    const u32 first = get_group_id(0) * tiles_per_group;
    const u32 last = idle ? first : min(first + tiles_per_group, tiles);
    const measure m = measure_of(search_state == CLS_RECORD_SEARCH_COUNT,
                                 float_of_key(rows[row].max_key), rows[row].scale);
    /* If the cut is at a known key and not at an estimated one, all four pivots are that key. */
    const int known = search_state == CLS_RECORD_SEARCH_MASS &&
                      rows[row].pivot[0] == rows[row].pivot[CLS_PIVOTS - 1];
    __global u64 *const out = pass + (size_t)row * tiles * CLS_PIVOTS;
    f32 bound[CLS_PIVOTS];
    for (u32 p = 0; p < CLS_PIVOTS; p++)
        bound[p] = above(rows[row].pivot[p]);
#if WGS == 1
    pass_tiles(&r, first, last, known, bound, &m, out);
#else
    /* First one item computes each tile's unit. */
    const pass_memory memory = {share_sum, part, unit_max, unit_fraction, unit_shift};
    for (u32 n = LOCAL_ID; n < 32; n += WGS)
        if (first + n < last) {
            const f32 top = float_of_key(tile_max_key(r.key, first + n));
            const cls_unit unit = unit_of(top, m.row_max, m.exponent, m.scale);
            unit_max[n] = top;
            unit_fraction[n] = unit.fraction;
            unit_shift[n] = top > bound[0] ? unit.shift : NO_SHIFT;
        }
    LOCAL_BARRIER();
    pass_teams(&r, first, last, known, bound, &m, &memory, out);
#endif
}
