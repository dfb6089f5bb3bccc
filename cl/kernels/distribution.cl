/* SPDX-License-Identifier: MIT */
/* distribution: [rows, vocab] float32: probabilities, 0 outside the kept set, and
 * adjusted logits, -inf outside it. Leaves in pass[], a tile each, for the report:
 * the mass of the adjusted row at the final scale, that of what is kept, the terms
 * of its entropy. Launch: as the survey. */
#include "row/final.cl"

KERNEL void cls_distribution(STEP_ARGS, const u32 tiles_per_group, __global const f32 *sample, const u32 sample_stride,
                             __global u64 *pass, const u32 wants, __global f32 *probs, const u64 probs_offset,
                             __global f32 *final_logits, const u64 final_logits_offset)
{
    __local u64 scratch[WGS];
    const u32 row = get_group_id(1);
    const cls_row out = rows[row];
    const i32 place = ROW_SLOT(row);
    const row_logits r = ROW_VIEW(row, place);
    const u32 first = get_group_id(0) * tiles_per_group, last = min(first + tiles_per_group, TILES);
    const int none = out.none || place < 0;
    report t;
    report_final(&r, &out, none ? 0u : slots[place].flags,
                 (__global const u32 *)sample + (size_t)row * sample_stride, &t);
    const f32 max = of_key(out.max_key);
    const i32 exponent = split(max, out.scale).exponent;
    __global const i32 *const row_key = tile_key + (size_t)row * MAX_TILES;
    __global u64 *const sums = pass + (size_t)row * TILES * CLS_PIVOTS;
    const size_t place_0 = (size_t)row * vocab;
    for (u32 tile = first; tile < last; tile++) {
        const int dead = none || tile_max_key(row_key, tile) == CLS_KEY_NONE;
        cls_unit unit = { 0.0f, 0.0f, 0 }, whole = unit;
        u64 all = u64_from(0), kept = all, terms = all;
        if (!dead) {
            unit = report_unit(&t, row_key, tile * CLS_TILE);
            whole = tile_unit(row_key, tile, max, exponent, out.scale);
        }
        for (u32 i = tile * CLS_TILE + get_local_id(0); i < min((tile + 1) * CLS_TILE, vocab); i += WGS) {
            const f32 x = dead ? CLS_MASKED : load_one(&r, i), z = dead ? x : report_kept(&t, i, x);
            const u64 mass = z > CLS_MASKED ? report_mass(&t, z, &unit) : u64_from(0);
            if (wants & CLS_WANTS(CLS_OUT_PROBS))
                OF(probs)[place_0 + i] = z > CLS_MASKED ? report_probability(&t, mass) : 0.0f;
            if (wants & CLS_WANTS(CLS_OUT_FINAL_LOGITS))
                TELL(final_logits, place_0 + i, z);
            if ((wants & CLS_WANTS_SUMS) && x > CLS_MASKED) {
                const u64 its = up(u64_from(weight(x, whole.max, out.scale, whole.fraction)), whole.shift);
                all = u64_add(all, its);
                if (z > CLS_MASKED) {
                    kept = u64_add(kept, its);
                    terms = u64_add(terms, report_term(&t, z, mass));
                }
            }
        }
        all = wg_mass(all, scratch);
        kept = wg_mass(kept, scratch);
        terms = wg_mass(terms, scratch);
        if ((wants & CLS_WANTS_SUMS) && get_local_id(0) == 0) {
            sums[tile * CLS_PIVOTS] = all;
            sums[tile * CLS_PIVOTS + 1] = kept;
            sums[tile * CLS_PIVOTS + 2] = terms;
        }
    }
}
