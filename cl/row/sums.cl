/* SPDX-License-Identifier: MIT */
/* sums: sums up over all tokens that a row still has, by the whole group. */
#include "row/measure.cl"

/* Sums up a term over the row. The items share each tile: a row of 128,256 tokens has 126 of them,
 * fewer than a group of 256 has items. */
ONE_COPY u64 row_sum(const row_logits *r, cls_sum what, f32 top, f32 scale, __local u64 *scratch)
{
    const i32 exponent = split(top, scale).exponent;
    u64 sum = 0;
    for (u32 t = 0; t < r->tiles; t++) {
        if (tile_max_key(r->key, t) == CLS_KEY_NONE)
            continue;
        const int kind = tile_kind(r, t);
        const u32 n = tile_vectors(r, t);
        const cls_unit unit = tile_unit(r->key, t, top, exponent, scale);
        for (u32 v = LOCAL_ID; v < n; v += WGS) {
            f32 lane[VEC];
            VSTORE(load_v(r, t * CLS_TILE + v * VEC, kind), lane);
            for (u32 j = 0; j < VEC; j++) {
                const f32 z = clean(lane[j]);
                if (z > CLS_MASKED)
                    sum += sum_term(what, z, top, scale, &unit);
            }
        }
    }
    return wg_mass(sum, scratch);
}
