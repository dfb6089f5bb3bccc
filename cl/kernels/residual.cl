/* SPDX-License-Identifier: MIT */
#include "draw/residual.cl"

/* residual: sums up by tiles, in work[], the residuals of the rows from which verify may have to
 * draw; for typical acceptance the terms of the entropies instead. Launch: as the survey. */
#undef LOGITS_ROW
#define LOGITS_ROW(row) ((i32)(row)) /* rows of drafts are in order */

#define RESIDUAL_ARGS \
    STEP_ARGS, RANDOM_ARGS, __global u64 *work, __global f32 *sample, DRAFT_ARGS, DRAFT_ROW_ARGS
ONE_COPY void residual_tiles(u32 row, u32 group, __local u64 *scratch, RESIDUAL_ARGS)
{
    STEP_LOCALS
    const u32 tiles_per_group = args->tiles_per_group, method = args->method, n_rows = args->n_rows;
    __global const i32 *const nodes = NODES, *const parents = PARENTS;
    const u32 first_tile = group * tiles_per_group;
    const u32 last_tile = min(first_tile + tiles_per_group, TILES);
    const i32 slot_index = ROW_SLOT(row);
    u64 prefix_prob = CLS_ONE_Q63;
    int wanted = slot_index >= 0 &&
                 uses_probabilities(slots[slot_index].flags, slots[slot_index].stopped, has);
    u32 at = row;
    i32 draft = -1;
    /* Finds the request's first row. The bound does not depend on the data: lanes of llvmpipe
     * without a work-item run as long as data decides, and all loops of a kernel share 65,535
     * iterations there. The next loop then ends after one iteration. */
    for (u32 left = row; left > 0 && nodes[at] >= 0; left--)
        at--;
    for (; wanted && at <= row; at++) {
        const u64 target_prob = rows[at].target_prob, draft_prob = rows[at].draft_prob;
        draft = draft_after(nodes, parents, at, n_rows);
        wanted = draft >= 0 && draft_prob != 0 && !rows[at].no_token;
        if (method == CLS_VERIFY_STANDARD && wanted) {
            wanted = accepts(ROW_BITS(CLS_PURPOSE_ACCEPT, slots + slot_index, at), target_prob,
                             draft_prob) == (at < row);
        } else if (method == CLS_VERIFY_BLOCK && at < row) {
            prefix_prob = ratio_q63(prefix_prob, target_prob, draft_prob);
        }
    }
    if (!wanted) /* the same for the whole group */
        return;
    const row_logits r = ROW_VIEW(row, slot_index);
    const cls_row out = rows[row];
    const draft_rows d = ROW_DRAFTS;
    residual w;
    residual_of(&r, &out, slots[slot_index].flags,
                (__global const u32 *)sample + (size_t)row * args->sample_stride, &d, (u32)draft,
                (u32)AT_OFFSET(draft_ids)[draft], prefix_prob, &w);
    for (u32 tile = first_tile; tile < last_tile; tile++) {
        cls_unit unit, draft_tile;
        u64 sum = 0, lane[VEC];
        const int there = residual_units(&w, tile, &unit, &draft_tile),
                  kind = tile_kind(&w.t.r, tile);
        const u32 n = there ? tile_vectors(&w.t.r, tile) : 0u;
        for (u32 v = LOCAL_ID; v < n; v += WGS) {
            const u32 i = tile * CLS_TILE + v * VEC;
            if (method == CLS_VERIFY_TYPICAL) {
                f32 x[VEC];
                VSTORE(load_v(&w.t.r, i, kind), x);
                for (u32 j = 0; j < VEC; j++) {
                    const f32 z = clean(x[j]);
                    if (z > CLS_MASKED && report_kept(&w.t, i + j, z) > CLS_MASKED)
                        sum += report_term(&w.t, z, report_mass(&w.t, z, &unit));
                }
            } else {
                residual_lanes(&w, i, kind, &unit, &draft_tile, lane);
                for (u32 j = 0; j < VEC; j++)
                    sum += lane[j];
            }
        }
        sum = wg_mass(sum, scratch);
        if (LOCAL_ID == 0)
            work[(size_t)row * TILES + tile] = sum;
    }
}

KERNEL void cls_residual(RESIDUAL_ARGS)
{
    __local u64 scratch[WGS];
    residual_tiles(get_group_id(1), get_group_id(0), scratch, STEP_NAMES, RANDOM_NAMES, work,
                   sample, DRAFT_NAMES, DRAFT_ROW_NAMES);
}
