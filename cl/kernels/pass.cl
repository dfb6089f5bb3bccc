/* SPDX-License-Identifier: MIT */
#include "row/measure.cl"

/* pass: for the rows that are searched, what each tile has above the four
 * pivots; pass[row][tile][pivot]. Launch: as the survey. */
KERNEL void cls_pass(STEP_ARGS, const u32 tiles_per_group, __global u64 *pass)
{
    __local u64 scratch[WGS];
    const u32 row = get_group_id(1);
    const u32 todo = rows[row].state;
    const int idle = todo == CLS_ROW_DONE || todo == CLS_ROW_SEARCH_ALL;
    const row_logits r = ROW_VIEW(row, idle ? -1 : ROW_SLOT(row));
    const u32 first = get_group_id(0) * tiles_per_group;
    const u32 last = idle ? first : min(first + tiles_per_group, TILES);
    const measure m = measure_of(todo == CLS_ROW_SEARCH_COUNT, of_key(rows[row].max_key), rows[row].scale);
    /* A cut by a key that is known, not guessed, is all four pivots. */
    const int known = todo == CLS_ROW_SEARCH_MASS && rows[row].pivot[0] == rows[row].pivot[CLS_PIVOTS - 1];
    f32 bound[CLS_PIVOTS];
    u64 part[CLS_PIVOTS];
    for (u32 p = 0; p < CLS_PIVOTS; p++)
        bound[p] = above(rows[row].pivot[p]);
    for (u32 t = first; t < last; t++) {
        __global u64 *const out = pass + ((size_t)row * TILES + t) * CLS_PIVOTS;
        const i32 top = tile_max_key(tile_key + (size_t)row * MAX_TILES, t);
        cls_unit unit;
        for (u32 p = 0; p < CLS_PIVOTS; p++)
            part[p] = u64_from(0);
        if (of_key(top) > bound[0]) {
            unit = unit_of(of_key(top), m.row_max, m.exponent, m.scale);
            if (known)
                part[0] = measure_over(&r, t, get_local_id(0), WGS, &m, &unit, bound[0]);
            else
                measure_vectors(&r, t, get_local_id(0), WGS, &m, &unit, bound, part);
            for (u32 p = 0; p < CLS_PIVOTS; p++)
                part[p] = measure_finish(known ? part[0] : part[p], &m, &unit);
        }
        for (u32 p = 0; p < CLS_PIVOTS; p++)
            part[p] = wg_mass(part[p], scratch);
        if (get_local_id(0) == 0)
            for (u32 p = 0; p < CLS_PIVOTS; p++)
                out[p] = part[p];
    }
}
