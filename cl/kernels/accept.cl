/* SPDX-License-Identifier: MIT */
#include "row/maps.cl"
#include "row/slot_state.cl"

/* accept: slots accept tokens. `tokens` has tokens that were chosen elsewhere, args->per_row for
 * each row; without it, the tokens are those of the rows' records, of a step that had to write
 * reports before slots could accept. Launch: [WGS, rows]. */
KERNEL void cls_accept(__global const cls_args *args, __global cls_slot *slots,
                       __global const i32 *slot_map, __global u32 *state, __global const u32 *lists,
                       __global const i32 *tokens, __global const cls_row *rows)
{
    __local u64 scratch[WGS];
    const u32 row = get_group_id(1), vocab = args->vocab, has = args->has, n = args->per_row;
    const i32 slot_index = mapped_slot(args, slots, slot_map, has, row);
    const u32 slot = slot_index < 0 ? 0u : (u32)slot_index;
    const slot_state s = state_of(state, args->layout, vocab, slot);
    for (u32 i = 0; i < n; i++) {
        const int is_given = (has & CLS_HAS_TOKENS) != 0;
        cls_slot_adaptive next = {0, 0u, 0u, 0u};
        i32 token = -1;
        if (!is_given && slot_index >= 0)
            next = adaptive_once(slots + slot, &rows[row].next);
        if (is_given)
            token = AT_OFFSET(tokens)[(size_t)row * n + i];
        else if (!rows[row].no_token || rows[row].forced)
            token = rows[row].token;
        const int active =
            slot_index >= 0 && token >= 0 && (u32)token < vocab && !slots[slot].stopped;
        state_accept(slots + slot, &s, lists, (u32)token, active, is_given ? 0 : &next, scratch);
        BARRIER();
    }
}
