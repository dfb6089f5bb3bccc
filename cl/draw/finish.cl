/* SPDX-License-Identifier: MIT */
/* finish: completes a row. Its token and status are written, its slot accepts the token, and its
 * record stays for the kernels that report on it. */
#include "row/maps.cl"
#include "row/slot_state.cl"

/* By the whole group; `done` is the same for all of it. */
static inline void finish_row(__global const cls_args *args, cls_row *out, __global cls_row *record,
                              __global cls_slot *slot, const slot_state *s,
                              __global const u32 *lists, u32 has, u32 row, int done, int first,
                              const cls_slot_adaptive *next, __global i32 *tokens,
                              __global i32 *status_out, __global i32 *latest, __local u64 *scratch)
{
    const int drawn = done && !out->no_token;
    if (drawn)
        out->status |= ends_request(slot, lists, (u32)out->token, slot->outputs + 1);
#if CHAIN == 2
    if (drawn && next != 0 && (has & CLS_ACCEPTS_LATER))
        out->next = *next;
#endif
    if (LOCAL_ID == 0) {
        *record = *out;
        if (done && (has & CLS_HAS_TOKENS))
            AT_OFFSET(tokens)[row] = out->token;
        if (done && (has & CLS_HAS_STATUS))
            AT_OFFSET(status_out)[row] = (i32)out->status;
        if (drawn && (has & CLS_HAS_LATEST))
            *latest = out->token;
#if CHAIN == 2
        if (drawn && first)
            keep_pending(slot, has, out->token, next);
#endif
    }
    state_accept(slot, s, lists, (u32)out->token, drawn && !(has & CLS_DEFER), next, scratch);
}
/* slot_index is less than 0 if the row has no slot. The addresses of the slot's state are computed
 * here, so that they do not occupy registers before. */
#define FINISH_ROW(out, row, slot_index, done, first, next, scratch) \
    { \
        const u32 valid_slot = (slot_index) < 0 ? 0u : (u32)(slot_index); \
        const slot_state accepting_state = state_of(state, args->layout, vocab, valid_slot); \
        finish_row(args, out, rows + row, slots + valid_slot, &accepting_state, lists, has, row, \
                   done, first, next, tokens, status_out, AT_OFFSET(latest) + valid_slot, \
                   scratch); \
    }
