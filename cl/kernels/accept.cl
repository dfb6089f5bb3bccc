/* SPDX-License-Identifier: MIT */
#include "row/maps.cl"
#include "row/slot_state.cl"

/* accept: slots accept tokens. `tokens` has tokens that were chosen elsewhere, args->per_row for
 * each row; without it, the tokens are those of the rows' records, of a step that had to write
 * reports before slots could accept. Launch: [WGS, rows]. */
KERNEL void cls_accept(STEP_PARAMETERS(CLS_ACCEPT_BUFFERS))
{
    __local u64 scratch[WGS];
    const step_args s = STEP_OF(CLS_ACCEPT_BUFFERS);
    const u32 row = get_group_id(1), n = args->per_row;
    const i32 slot_index = mapped_slot(&s, row);
    __global cls_slot *const slot = slot_of(&s, slot_index);
    const slot_state own = state_of(state, args->layout, s.vocab, valid_slot(slot_index));
    for (u32 i = 0; i < n; i++) {
        const int is_given = (s.has & CLS_HAS_TOKENS) != 0;
        cls_slot_adaptive next = {0, 0u, 0u, 0u};
        i32 token = -1;
        if (!is_given && slot_index >= 0)
            next = adaptive_once(slot, &rows[row].next);
        if (is_given)
            token = AT_OFFSET(&s, tokens)[(size_t)row * n + i];
        else if (!rows[row].no_token || rows[row].forced)
            token = rows[row].token;
        const int active = slot_index >= 0 && token >= 0 && (u32)token < s.vocab && !slot->stopped;
        state_accept(slot, &own, lists_of(&s, slot), (u32)token, active, is_given ? 0 : &next,
                     scratch);
        BARRIER();
    }
}
