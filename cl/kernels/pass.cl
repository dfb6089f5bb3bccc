/* SPDX-License-Identifier: MIT */
#include "row/fold.cl"

/* pass: for rows that are searched, measures what each tile has above the four pivots, in
 * pass[row][tile][pivot]; where all pivots are one key, for the first of them. Launch: as the
 * survey. */
KERNEL void cls_pass(STEP_PARAMETERS(CLS_PASS_BUFFERS))
{
    const step_args s = STEP_OF(CLS_PASS_BUFFERS);
    const u32 tiles = row_tiles(&s), tiles_per_group = args->tiles_per_group;
    __local u64 scratch[CLS_PIVOTS * WGS];
    const u32 row = get_group_id(1);
    const u32 search_state = rows[row].state;
    const int idle = search_state == CLS_RECORD_DONE || search_state == CLS_RECORD_SEARCH_ALL;
    const row_logits r = row_view(&s, row, idle ? -1 : row_slot(&s, row));
    const u32 first = get_group_id(0) * tiles_per_group;
    const u32 last = idle ? first : min(first + tiles_per_group, tiles);
    fold q = fold_of(float_of_key(rows[row].max_key), rows[row].scale);
    for (u32 p = 0; p < CLS_PIVOTS; p++)
        q.key[p] = rows[row].pivot[p];
    q.lo = q.key[0];
    q.out = pass + (size_t)row * tiles * CLS_PIVOTS;
    q.stride = CLS_PIVOTS;
    u64 sum[CLS_PIVOTS];
    fold_part(&r, FOLD_COUNTS | FOLD_MASS | FOLD_ABOVE,
              search_state == CLS_RECORD_SEARCH_COUNT ? FOLD_COUNTS
              : q.lo == q.key[CLS_PIVOTS - 1]         ? FOLD_MASS
                                                      : FOLD_ABOVE,
              &q, first, last, sum, scratch);
}
