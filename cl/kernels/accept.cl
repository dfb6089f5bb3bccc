/* SPDX-License-Identifier: MIT */
#include "row/maps.cl"
#include "row/state.cl"

/* accept: tokens made elsewhere; without `tokens` those of the rows' records,
 * of a step that had to report before it could accept.
 * Launch: [WGS, rows]. */
KERNEL void cls_accept(__global const cls_args *args, __global cls_slot *slots,
                       __global const i32 *slot_map, __global u32 *state, __global const u32 *lists,
                       __global const i32 *tokens, __global const cls_row *rows)
{
    __local u64 scratch[WGS];
    const u32 row = get_group_id(1), vocab = args->vocab, has = args->has;
    const i32 place = mapped_slot(args, slots, slot_map, has, row);
    const u32 slot = place < 0 ? 0u : (u32)place;
    const slot_state s = state_of(state, args->layout, vocab, slot);
    i32 token = -1;
    if (has & CLS_HAS_TOKENS)
        token = OF(tokens)[row];
    else if (!rows[row].none)
        token = rows[row].token;
    const int active = place >= 0 && token >= 0 && (u32)token < vocab && !slots[slot].stopped;
    state_accept(slots + slot, &s, lists, (u32)token, active, 0, scratch);
}
