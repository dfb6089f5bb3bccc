/* SPDX-License-Identifier: MIT */
#include "draw/residual.cl"

/* residual: sums up by tiles, in tile_sums[], the residuals of the rows from which verify may have
 * to draw; for typical acceptance the terms of the entropies instead. Launch: as the survey. */
ONE_COPY void residual_tiles(const step_args *s, u32 row, u32 group, __local u64 *scratch)
{
    ARGS const cls_args *const args = s->args;
    const u32 tiles_per_group = args->tiles_per_group, method = args->method;
    __global const i32 *const nodes = draft_nodes(s);
    const u32 first_tile = group * tiles_per_group;
    const u32 last_tile = min(first_tile + tiles_per_group, row_tiles(s));
    const i32 slot_index = row_slot(s, row);
    __global const cls_slot *const slot = slot_of(s, slot_index);
    const u32 flags = row_flags(s, row, slot_index);
    u64 prefix_prob = CLS_ONE_Q63;
    int wanted = slot_index >= 0 && uses_probabilities(flags, slot->stopped);
    u32 at = row;
    i32 draft = -1;
    /* Finds the request's first row. The bound does not depend on the data: lanes of llvmpipe
     * without a work-item run as long as data decides, and all loops of a kernel share 65,535
     * iterations there. The next loop then ends after one iteration. */
    for (u32 left = row; left > 0 && nodes[at] >= 0; left--)
        at--;
    for (; wanted && at <= row; at++) {
        const u64 target_prob = s->rows[at].target_prob, draft_prob = s->rows[at].draft_prob;
        draft = draft_after(s, at);
        wanted = draft >= 0 && draft_prob != 0 && !s->rows[at].no_token;
        if (method == CLS_VERIFY_STANDARD && wanted) {
            wanted = accepts(row_bits(s, CLS_PURPOSE_ACCEPT, slot, at), target_prob, draft_prob) ==
                     (at < row);
        } else if (method == CLS_VERIFY_BLOCK && at < row) {
            prefix_prob = ratio_q63(prefix_prob, target_prob, draft_prob);
        }
    }
    if (!wanted) /* the same for the whole group */
        return;
    row_logits r = row_view(s, row, slot_index);
    const cls_row out = s->rows[row];
    residual w;
    residual_of(s, &r, &out, row, flags, draft, prefix_prob, &w);
    for (u32 tile = first_tile; tile < last_tile; tile++) {
        cls_unit unit, draft_tile;
        u64 sum = 0, lane[VEC];
        const int there = residual_units(&w, tile, &unit, &draft_tile), kind = tile_kind(&r, tile);
        const u32 n = there ? tile_vectors(&r, tile) : 0u;
        for (u32 v = LOCAL_ID; v < n; v += WGS) {
            const u32 i = tile * CLS_TILE + v * VEC;
            if (method == CLS_VERIFY_TYPICAL) {
                const FV z = report_kept_v(&w.t, i, clean_v(load_v(&r, i, kind, CLS_MASKED)));
                sum += report_terms(&w.t, z, report_weights(&w.t, z, &unit), &unit);
            } else {
                residual_lanes(&r, &w, i, kind, &unit, &draft_tile, lane);
                for (u32 j = 0; j < VEC; j++)
                    sum += lane[j];
            }
        }
        sum = wg_mass(sum, scratch);
        if (LOCAL_ID == 0)
            tile_sums_of(s, row)[tile] = sum;
    }
}

KERNEL void cls_residual(STEP_PARAMETERS(CLS_RESIDUAL_BUFFERS))
{
    __local u64 scratch[WGS];
    const step_args s = STEP_OF(CLS_RESIDUAL_BUFFERS);
    residual_tiles(&s, get_group_id(1), get_group_id(0), scratch);
}
