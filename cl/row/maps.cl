/* SPDX-License-Identifier: MIT */
/* maps: which slot a row has, and which rows of masks and biases. */
#include "core/vectors.cl"

/* The slot that a map gives a row; -1 to skip it, -2 if there is none. */
static inline i32 mapped_slot(__global const cls_slot *slots, u32 n_slots, __global const i32 *slot_map,
                              u64 slot_map_offset, u32 has, u32 row)
{
    const i32 slot = has & CLS_HAS_SLOT_MAP ? OF(slot_map)[row] : (i32)row;
    if (has & CLS_NO_SLOTS)
        return 0; /* a slot 0 there always is; nobody asks it for anything */
    if (slot == -1)
        return -1;
    return slot < 0 || (u32)slot >= n_slots || !(slots[slot].flags & CLS_SLOT_BEGUN) ? -2 : slot;
}

/* Whether a map names a row of `rows`, or none by -1. */
static inline int map_is_valid(__global const i32 *map, u64 offset, u32 rows, u32 there, u32 row)
{
    const i32 at = there ? map[u64_to_size(offset) + row] : -1;
    return at >= -1 && (at < 0 || (u32)at < rows);
}

/* Rows of a verification: the draft that each row follows (-1: the text), the one
 * that each draft follows, and what they are. */
#define DRAFT_ARGS                                                                                  \
    __global const i32 *nodes, const u64 nodes_offset, __global const i32 *parents,                 \
    const u64 parents_offset, __global const i32 *draft_ids, const u64 draft_ids_offset
