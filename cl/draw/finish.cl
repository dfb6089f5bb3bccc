/* SPDX-License-Identifier: MIT */
/* finish: completes a row. Its token and status are written, its slot accepts the token, and its
 * record stays for the kernels that report on it. */
#include "row/maps.cl"
#include "slot/state.cl"

/* By the whole group; `done` is the same for all of it. */
static inline void finish_row(const step_args *s, u32 row, i32 slot_index, cls_row *out, int done,
                              int first, const cls_slot_adaptive *next, __local u64 *scratch)
{
    const u32 has = s->has;
    const int drawn = done && !out->no_token;
    __global cls_slot *const slot = slot_of(s, slot_index);
    if (drawn)
        out->status |= ends_request(slot, is_stop(slot, lists_of(s, slot), (u32)out->token),
                                    slot->outputs + 1, 0u);
#if CHAIN == 2
    if (drawn && next != 0 && (has & CLS_ACCEPTS_LATER))
        out->next = *next;
#endif
    if (LOCAL_ID == 0) {
        s->rows[row] = *out;
        if (done && (has & CLS_HAS_TOKENS))
            AT_OFFSET(s, tokens)[row] = out->token;
        if (done && (has & CLS_HAS_STATUS))
            AT_OFFSET(s, status_out)[row] = (i32)out->status;
        if (drawn && (has & CLS_HAS_LATEST))
            AT_OFFSET(s, latest)[valid_slot(slot_index)] = out->token;
#if CHAIN == 2
        if (drawn && first)
            store_pending(slot, has, out->token, next);
#endif
    }
    /* The addresses of the slot's state are computed here, so that they do not occupy registers
     * before. */
    const slot_state state = state_of(s->state, s->args->layout, s->vocab, valid_slot(slot_index));
    state_accept(slot, &state, lists_of(s, slot), (u32)out->token, drawn && !(has & CLS_DEFER),
                 next, scratch);
}
