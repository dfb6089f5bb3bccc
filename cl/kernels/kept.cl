/* SPDX-License-Identifier: MIT */
/* kept: writes the kept set of each row, its ids in ascending order. The kernel is launched twice.
 * First each group counts what its tiles keep. Then it adds up the counts of the groups before it,
 * and writes its ids behind theirs. One group for each row would take one launch, but would leave a
 * GPU idle where rows are few, and its loops would have no bound (doc/kernels.md, rule 5). With
 * offsets a launch of one group in between finds a place for each row's set. */
#include "draw/distribution.cl"
#include "row/gather.cl"

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

/* Writes the offsets of all sets: one by one, in the order of the outputs, a set gets what follows
 * if all of it fits; four a trip, so that those for 65,535 rows are few enough (rule 5). Launch:
 * one group. */
#define PLACE(k) \
    if (place + k < places) { \
        const u32 count = (u32)offsets[place + k]; \
        offsets[place + k] = (i32)at; \
        at += count <= capacity - at ? count : 0u; \
    }
ONE_COPY void kept_places(const step_args *s)
{
    const u32 capacity = s->args->set_capacity, places = output_count(s);
    __global i32 *const offsets = OUTPUT(s, set_offsets, CLS_OUT_SET_OFFSETS);
    u32 at = 0;
    for (u32 place = LOCAL_ID; place < places; place += WGS) {
        const i32 row = row_at(s, place);
        offsets[place] = row < 0 ? 0 : (i32)kept_count(s, (u32)row);
    }
    BARRIER();
    for (u32 place = 0; LOCAL_ID == 0 && place < places; place += 4) {
        CLS_EACH_4(PLACE)
    }
    if (LOCAL_ID == 0)
        offsets[places] = (i32)at;
}

/* The first launch leaves the counts of the groups in `tile_sums`. The last one writes ids, counts,
 * and the status of a row whose set exceeds the capacity. Launch: as the survey. */
ONE_COPY void kept_tiles(const step_args *s, u32 place, u32 group, int counting,
                         __local u64 *scratch)
{
    ARGS const cls_args *const args = s->args;
    const u32 tiles = row_tiles(s), per_group = args->tiles_per_group, first = group * per_group,
              last = min(first + per_group, tiles);
    const i32 own = row_at(s, place);
    const u32 wants = args->wants, row = (u32)max(own, 0);
    const i32 slot_index = own < 0 ? -1 : row_slot(s, row);
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
    for (u32 i = max(first * CLS_TILE, total) + LOCAL_ID;
         writes && i < min(last * CLS_TILE, capacity); i += WGS)
        ids[i] = -1;
    if (LOCAL_ID == 0 && !counting && group == 0) {
        if (wants & CLS_WANTS(CLS_OUT_SET_COUNTS))
            OUTPUT(s, set_counts, CLS_OUT_SET_COUNTS)[place] = (i32)total;
        if (total > capacity) { /* never at a place without a row, which reads row 0 */
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
        kept_places(&s);
    else
        kept_tiles(&s, GROUP_OF_ALL, get_group_id(0), launch == CLS_KEPT_COUNT, scratch);
}
