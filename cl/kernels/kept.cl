/* SPDX-License-Identifier: MIT */
/* kept: writes the kept set of each row, its ids in ascending order. The kernel is launched twice.
 * First each group counts what its tiles keep. Then it adds up the counts of the groups before it,
 * and writes its ids behind theirs. One group for each row would take one launch, but would leave a
 * GPU idle where rows are few, and its loops would have no bound (doc/kernels.md, rule 5). With
 * offsets a launch of one group in between finds a place for each row's set. */
#include "draw/distribution.cl"
#include "row/gather.cl"

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

/* Returns whether a row has a set, whose slot is slot_index. */
static inline int has_kept_set(const step_args *s, u32 row, i32 slot_index)
{
    return slot_index >= 0 && !s->rows[row].no_token;
}

/* Returns the number of tokens in a row's set, from the counts of its groups. */
static inline u32 kept_count(const step_args *s, u32 row)
{
    __global const cls_row *const out = s->rows + row;
    __global const u64 *const group_count = tile_sums_of(s, row);
    u32 count = 0;
    if (!has_kept_set(s, row, row_slot(s, row)))
        return 0;
    if (out->listed)
        return min(out->kept, (u32)LIST);
    SHORT_LOOP
    for (u32 g = 0; g * s->args->tiles_per_group < row_tiles(s); g++)
        count += u64_lo(group_count[g]);
    return count;
}

/* Returns where the next row's set begins: behind a set that begins at `at`, if all of it fits. */
static inline u32 kept_after(u32 at, u32 count, u32 capacity)
{
    return count <= capacity - at ? at + count : at;
}

/* Writes the offsets of all sets: one by one, in the order of the outputs, a set gets what follows
 * if all of it fits. Launch: one group. */
ONE_COPY void kept_places(const step_args *s, __local u64 *scratch)
{
    const u32 capacity = s->args->set_capacity, places = output_count(s);
    __global i32 *const offsets = OUTPUT(s, set_offsets, CLS_OUT_SET_OFFSETS);
    u32 at = 0;
#if PLACES /* the counts, until the offsets replace them: some places have no row */
    for (u32 place = LOCAL_ID; place < places; place += WGS)
        offsets[place] = 0;
    BARRIER();
    for (u32 row = LOCAL_ID; row < s->args->n_rows; row += WGS)
        offsets[output_index(s, row)] = (i32)kept_count(s, row);
    BARRIER();
#endif
    for (u32 first = 0; first < places; first += WGS) {
        const u32 place = first + LOCAL_ID;
        u32 count = 0, total;
        if (place < places)
            count = PLACES ? (u32)offsets[place] : kept_count(s, place);
        u32 mine = at + wg_scan_u32(count, scratch, &total);
        if (total <= capacity - at) { /* the same for the whole group */
            at += total;
        } else {
#if WGS == 1
            mine = at;
#else
            LOCAL_BARRIER();
            scratch[LOCAL_ID] = (u64)count;
            LOCAL_BARRIER();
            /* Two at once, so that the trips for 65,535 rows are few enough (rule 5). */
            for (u32 j = 0; j < WGS; j += 2) {
                mine = j == LOCAL_ID ? at : mine;
                at = kept_after(at, u64_lo(scratch[j]), capacity);
                mine = j + 1 == LOCAL_ID ? at : mine;
                at = kept_after(at, j + 1 < WGS ? u64_lo(scratch[j + 1]) : 0u, capacity);
            }
#endif
        }
        if (place < places)
            offsets[place] = (i32)mine;
    }
    if (LOCAL_ID == 0)
        offsets[places] = (i32)at;
}

/* The first launch leaves the counts of the groups in `tile_sums`. The last one writes ids, counts,
 * and the status of a row whose set exceeds the capacity. Launch: as the survey. */
ONE_COPY void kept_tiles(const step_args *s, u32 of_all, u32 group, int counting,
                         __local u64 *scratch)
{
    ARGS const cls_args *const args = s->args;
    const u32 tiles = row_tiles(s), per_group = args->tiles_per_group, first = group * per_group,
              last = min(first + per_group, tiles);
    const int behind = is_behind(s, of_all);
    const u32 wants = args->wants, row = behind ? 0u : of_all, place = output_index(s, of_all);
    const i32 slot_index = behind ? -1 : row_slot(s, row);
    __global u64 *const group_count = tile_sums_of(s, row);
    __global i32 *ids = OUTPUT(s, set_ids, CLS_OUT_SET_IDS);
    u32 capacity = args->set_capacity;
    if (!(wants & CLS_WANTS(CLS_OUT_SET_OFFSETS))) {
        ids += (size_t)place * capacity;
    } else if (!counting) { /* all of the set has a place, or nothing */
        __global const i32 *const offset = OUTPUT(s, set_offsets, CLS_OUT_SET_OFFSETS) + place;
        ids += offset[0];
        capacity = (u32)(offset[1] - offset[0]);
    }
    /* Read field by field, since the first group changes the status. */
    __global const cls_row *const out = s->rows + row;
    const int has_set = has_kept_set(s, row, slot_index), listed = has_set && out->listed;
    row_logits r = row_view(s, row, slot_index);
    const cls_cut cut = out->cut;
    if (cuts_row(&cut))
        row_truncate(&r, &cut);
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
        at = gather(&r, first, last, max(cut.key, CLS_KEY_NONE + 1), at, counting ? 0u : capacity,
                    ids, scratch);
    if (LOCAL_ID == 0 && counting && has_set)
        group_count[group] = at;
    for (u32 i = LOCAL_ID; writes && listed && group == 0 && i < min(total, capacity); i += WGS)
        ids[i] = (i32)kept_ids_of(s, row)[i];
    if (writes)
        kept_end(ids, min(first * CLS_TILE, capacity), min(last * CLS_TILE, capacity), total);
    if (LOCAL_ID == 0 && !counting && group == 0) {
        if (wants & CLS_WANTS(CLS_OUT_SET_COUNTS))
            OUTPUT(s, set_counts, CLS_OUT_SET_COUNTS)[place] = (i32)total;
        if (total > capacity) { /* never at a place behind the rows, which would read row 0 */
            const u32 status = out->status | CLS_ROW_OVERFLOW;
            s->rows[row].status = status;
            if (s->has & CLS_HAS_STATUS)
                AT_OFFSET(s, status_out)[row] = (i32)status;
        }
    }
}

/* launch: CLS_KEPT_COUNT, CLS_KEPT_PLACE or CLS_KEPT_WRITE. */
KERNEL void cls_kept(STEP_PARAMETERS(CLS_KEPT_BUFFERS), u32 launch)
{
    __local u64 scratch[WGS];
    const step_args s = STEP_OF(CLS_KEPT_BUFFERS);
    if (launch == CLS_KEPT_PLACE)
        kept_places(&s, scratch);
    else
        kept_tiles(&s, GROUP_OF_ALL, get_group_id(0), launch == CLS_KEPT_COUNT, scratch);
}
