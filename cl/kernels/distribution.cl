/* SPDX-License-Identifier: MIT */
/* distribution: writes [rows, vocab] float32: probabilities, which are 0 outside the kept set, and
 * adjusted logits, which are -inf outside it. For the report each group leaves three sums of its
 * tiles in pass[]: the mass of the adjusted row at the final scale, the mass of what is kept, and
 * the terms of the entropy. Launch: as the survey. */
#include "draw/distribution.cl"

/* Writes a vector of tokens, of which the row has n or more. */
static inline void write_vector(__global f32 *to, u32 n, FV x)
{
    if (n >= VEC) {
        VSTORE(x, to);
        return;
    }
    SHORT_LOOP
    for (u32 j = 0; j < n; j++)
        to[j] = lane_of(x, j);
}

ONE_COPY void write_tiles(const step_args *s, u32 row, u32 group, __local u64 *scratch)
{
    const u32 wants = s->args->wants, vocab = s->vocab, per_group = s->args->tiles_per_group;
    const u32 writes = wants & (CLS_WANTS(CLS_OUT_PROBS) | CLS_WANTS(CLS_OUT_FINAL_LOGITS));
    __global f32 *const probs = OUTPUT(s, probs, CLS_OUT_PROBS) + (size_t)row * vocab;
    __global f32 *const final = OUTPUT(s, final_logits, CLS_OUT_FINAL_LOGITS) + (size_t)row * vocab;
    const cls_row out = s->rows[row];
    const i32 slot_index = row_slot(s, row);
    const row_logits r = row_view(s, row, slot_index);
    const int no_token = out.no_token || slot_index < 0;
    const f32 max = float_of_key(out.max_key);
    const i32 exponent = split(max, out.scale).exponent;
    report t;
    report_final(&r, &out, no_token ? 0u : r.slot->flags, kept_ids_of(s, row), &t);
    /* The least key that matters: all of a row has mass. Of a row without a token none does, and
     * without a request its keys are not even set. */
    const i32 least = wants & CLS_WANTS(CLS_OUT_KEPT_MASS) ? CLS_KEY_NONE + 1 : report_lowest(&t);
    u64 all = 0, kept = 0, terms = 0;
    for (u32 tile = group * per_group; tile < min((group + 1) * per_group, r.tiles); tile++) {
        const i32 key = tile_max_key(r.key, tile);
        cls_unit unit = {0.0f, 0.0f, 0}, whole = unit;
        if (!no_token && key >= least) { /* the same for the whole group */
            unit = report_unit(&t, tile * CLS_TILE);
            whole = tile_unit(r.key, tile, max, exponent, t.scale);
        } else if (!writes) {
            continue;
        }
        for (u32 i = tile * CLS_TILE + LOCAL_ID * VEC, end = min((tile + 1) * CLS_TILE, vocab);
             i < end; i += WGS * VEC) {
            FV z = (FV)(CLS_MASKED), p = (FV)(0.0f);
            if (!no_token && r.key[i / CLS_MAX_TILE] >= least) {
                const FV x =
                    clean_v(load_v(&r, i, max_tile_kind(&r, i / CLS_MAX_TILE), CLS_MASKED));
                z = report_kept_v(&t, i, x);
                if (wants & CLS_WANTS(CLS_OUT_KEPT_MASS)) {
                    const UV own = weight_v(x, whole.max, t.scale, whole.fraction);
                    all += LSUM(row_units_v(own, whole.shift));
                    kept += LSUM(row_units_v(z > CLS_MASKED ? own : (UV)(0u), whole.shift));
                }
                const UV w = report_weights(&t, z, &unit);
                if (wants & CLS_WANTS(CLS_OUT_ENTROPY))
                    terms += report_terms(&t, z, w, &unit);
                p = report_probabilities(&t, z, w, &unit);
            }
            if (wants & CLS_WANTS(CLS_OUT_PROBS))
                write_vector(probs + i, end - i, p);
            if (wants & CLS_WANTS(CLS_OUT_FINAL_LOGITS))
                write_vector(final + i, end - i, z);
        }
    }
    if (!(wants & CLS_WANTS_SUMS)) /* an argument */
        return;
    all = wg_mass(all, scratch);
    kept = wg_mass(kept, scratch);
    terms = wg_mass(terms, scratch);
    if (LOCAL_ID == 0) {
        __global u64 *const to = s->pass + ((size_t)row * r.tiles + group) * CLS_PIVOTS;
        to[0] = all;
        to[1] = kept;
        to[2] = terms;
    }
}

KERNEL void cls_distribution(STEP_PARAMETERS(CLS_DISTRIBUTION_BUFFERS))
{
    __local u64 scratch[WGS];
    const step_args s = STEP_OF(CLS_DISTRIBUTION_BUFFERS);
    write_tiles(&s, get_group_id(1), get_group_id(0), scratch);
}
