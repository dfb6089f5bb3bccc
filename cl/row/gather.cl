/* SPDX-License-Identifier: MIT */
/* gather: writes the tokens of a row that reach a key, in order of their ids. */
#include "row/tiles.cl"

/* Writes the ids of those in tiles first to last - 1 from index `at` on, as far as indices are
 * below `capacity`. Returns the index behind the last of these tokens. By the whole group, whose
 * neighbouring items read neighbouring vectors. */
static inline u32 gather(SHARED const row_logits *r, u32 first, u32 last, i32 least, u32 at,
                         u32 capacity, __global i32 *out, __local u64 *scratch)
{
    const f32 under = above(least - 1);
    for (u32 tile = first; tile < last; tile++) {
        if (tile_max_key(r->key, tile) < least) /* the same for the whole group */
            continue;
        for (u32 base = 0; base < TILE_VECTORS; base += WGS) {
            const u32 i = tile * CLS_TILE + (base + LOCAL_ID) * VEC, m = i / CLS_MAX_TILE;
            FV x = (FV)(CLS_MASKED);
            u32 n;
            if (base + LOCAL_ID < TILE_VECTORS && r->key[m] >= least)
                x = load_v(r, i, max_tile_kind(r, m), CLS_MASKED);
            u32 hits = lane_bits(x > under);
            u32 to = at + wg_scan_u32(popcount(hits), scratch, &n);
            SHORT_LOOP
            for (; hits != 0 && to < capacity; hits &= hits - 1, to++)
                out[to] = (i32)(i + lowest_bit(hits));
            at += n;
        }
    }
    return at;
}
