/* SPDX-License-Identifier: MIT */
/* kept: writes the kept set of each row, its ids in ascending order. The kernel is launched twice.
 * First each group counts what its tiles keep. Then it adds up the counts of the groups before it,
 * and writes its ids behind theirs. One group for each row would take one launch, but would leave a
 * GPU idle where rows are few, and its loops would have no bound (doc/kernels.md, rule 5). */
#include "draw/distribution.cl"

/* Returns the tokens of the set in the vector at i, a bit each. */
static inline u32 kept_lanes(const row_logits *r, u32 i, int kind)
{
    return lane_bits(load_v(r, i, kind) > CLS_MASKED);
}

/* Writes the ids of the true lanes of the vector at i from index `to` on, as far as indices are
 * below `capacity`. */
static inline void kept_ids(__global i32 *ids, u32 i, u32 hits, u32 to, u32 capacity)
{
    SHORT_LOOP
    for (; hits != 0 && to < capacity; hits &= hits - 1)
        ids[to++] = (i32)(i + lowest_bit(hits));
}

/* Does this with the set's tokens in tiles first to last - 1, from index `at` on. Returns the index
 * behind the last of these tokens. By the whole group. `least`: a key that all tokens of the set
 * reach. */
static inline u32 kept_tokens(const row_logits *r, u32 first, u32 last, i32 least, u32 at,
                              u32 capacity, __global i32 *ids, __local u64 *scratch)
{
#if WGS == 1
    for (u32 m = first * CLS_MAX_TILES_PER_TILE; m < last * CLS_MAX_TILES_PER_TILE; m++) {
        if (r->key[m] < least)
            continue;
        const int kind = max_tile_kind(r, m);
        for (u32 i = m * CLS_MAX_TILE; i < (m + 1) * CLS_MAX_TILE; i += VEC) {
            const u32 hits = kept_lanes(r, i, kind);
            kept_ids(ids, i, hits, at, capacity);
            at += popcount(hits);
        }
    }
#else /* neighbouring items read neighbouring vectors */
    for (u32 tile = first; tile < last; tile++) {
        if (tile_max_key(r->key, tile) < least) /* the same for the whole group */
            continue;
        for (u32 base = 0; base < TILE_VECTORS; base += WGS) {
            const u32 i = tile * CLS_TILE + (base + LOCAL_ID) * VEC, m = i / CLS_MAX_TILE;
            u32 hits = 0, n;
            if (base + LOCAL_ID < TILE_VECTORS && r->key[m] >= least)
                hits = kept_lanes(r, i, max_tile_kind(r, m));
            kept_ids(ids, i, hits, at + wg_scan_u32(popcount(hits), scratch, &n), capacity);
            at += n;
        }
    }
#endif
    return at;
}

/* Writes -1 to ids first to last - 1, except to those before index `count`. */
static inline void kept_end(__global i32 *ids, u32 first, u32 last, u32 count)
{
    for (u32 i = first + LOCAL_ID * VEC; i < last; i += WGS * VEC) {
        if (i >= count && i + VEC <= last) {
            VSTORE((IV)(-1), ids + i);
            continue;
        }
        SHORT_LOOP
        for (u32 j = max(i, count); j < min(i + VEC, last); j++)
            ids[j] = -1;
    }
}

/* counting: it is the first launch, which leaves the counts of the groups in `tile_sums`. The
 * second one writes ids, counts, and the status of a row whose set exceeds the capacity. Launch: as
 * the survey. */
ONE_COPY void kept_tiles(const step_args *s, u32 row_group, u32 group, u32 counting,
                         __local u64 *scratch)
{
    __global const cls_args *const args = s->args;
    const u32 tiles = row_tiles(s), per_group = args->tiles_per_group, first = group * per_group,
              last = min(first + per_group, tiles);
    const u32 wants = args->wants, capacity = args->set_capacity;
    const u32 row = group_row(s, row_group), place = output_index(s, row_group);
    const i32 slot_index = group_slot(s, row_group);
    __global u64 *const group_count = tile_sums_of(s, row);
    __global i32 *const ids = OUTPUT(s, set_ids, CLS_OUT_SET_IDS) + (size_t)place * capacity;
    /* Read field by field, since the first group changes the status. */
    __global const cls_row *const out = s->rows + row;
    const int has_set = slot_index >= 0 && !out->no_token, listed = has_set && out->listed;
    row_logits r = row_view(s, row, slot_index);
    kept_set set;
    whole_row(out->top_key, &set);
    set.key = out->cut_key;
    set.id = out->cut_id;
    set.upper_key = out->upper_key;
    set.upper_first = out->upper_first;
    set.upper_last = out->upper_last;
    if (set.key != CLS_KEY_NONE || set.upper_key != CLS_KEY_INF)
        row_truncate(&r, &set);
    u32 at = 0, total = 0;
    if (!counting) { /* an argument */
        u32 before = 0;
        /* Over all groups. Mesa 22.3 computes their number wrongly by a division. */
        for (u32 g = LOCAL_ID; g * per_group < tiles; g += WGS) {
            total += u64_lo(group_count[g]);
            before += g < group ? u64_lo(group_count[g]) : 0u;
        }
        const u64 sums = wg_mass(u64_make(before, total), scratch);
        at = u64_hi(sums);
        total = !has_set ? 0u : listed ? min(out->kept, (u32)LIST) : u64_lo(sums);
    }
    const int writes = !counting && (wants & CLS_WANTS(CLS_OUT_SET_IDS));
    /* The same for the whole group. */
    if (has_set && !listed && (counting || (writes && at < capacity)))
        at = kept_tokens(&r, first, last, set.key > CLS_KEY_NONE ? set.key : CLS_KEY_NONE + 1, at,
                         counting ? 0u : capacity, ids, scratch);
    if (LOCAL_ID == 0 && counting && has_set)
        group_count[group] = at;
    for (u32 i = LOCAL_ID; writes && listed && group == 0 && i < min(total, capacity); i += WGS)
        ids[i] = (i32)kept_ids_of(s, row)[i];
    if (writes)
        kept_end(ids, min(first * CLS_TILE, capacity), min(last * CLS_TILE, capacity), total);
    if (LOCAL_ID == 0 && !counting && group == 0) {
        const u32 status = out->status | CLS_ROW_OVERFLOW;
        if (wants & CLS_WANTS(CLS_OUT_SET_COUNTS))
            OUTPUT(s, set_counts, CLS_OUT_SET_COUNTS)[place] = (i32)total;
        if (total > capacity)
            s->rows[row].status = status;
        if (total > capacity && (s->has & CLS_HAS_STATUS))
            AT_OFFSET(s, status_out)[row] = (i32)status;
    }
}

KERNEL void cls_kept(STEP_PARAMETERS(CLS_KEPT_BUFFERS), u32 counting)
{
    __local u64 scratch[WGS];
    const step_args s = STEP_OF(CLS_KEPT_BUFFERS);
    kept_tiles(&s, get_group_id(1), get_group_id(0), counting, scratch);
}
