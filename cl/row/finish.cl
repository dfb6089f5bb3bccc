/* SPDX-License-Identifier: MIT */
/* finish: a row is done. Its token and status go out, its slot's state moves on, its
 * record stays for the kernels that report on it. */
#include "row/maps.cl"
#include "row/state.cl"

/* By the whole group; `done` is the same for all of it. */
static inline void finish_row(__global const cls_args *args, cls_row *out, __global cls_row *record,
                              __global cls_slot *slot, const slot_state *s,
                              __global const u32 *lists, u32 has, u32 row, int done, int first,
                              const cls_mode *made, __global i32 *tokens, __global i32 *status_out,
                              __global i32 *latest, __local u64 *scratch)
{
    const int drawn = done && !out->none;
    if (drawn)
        out->status |= ends_request(slot, lists, (u32)out->token, slot->outputs + 1);
    if (LOCAL_ID == 0) {
        *record = *out;
        if (done && (has & CLS_HAS_TOKENS))
            OF(tokens)[row] = out->token;
        if (done && (has & CLS_HAS_STATUS))
            OF(status_out)[row] = (i32)out->status;
        if (drawn && (has & CLS_HAS_LATEST))
            *latest = out->token;
#if CHAIN == 2
        if (drawn && (has & CLS_DEFER) && first && (slot->flags & CLS_SLOT_MODES)) {
            slot->pending = out->token;
            slot->next = *made;
        }
#endif
    }
    state_accept(slot, s, lists, (u32)out->token, drawn && !(has & CLS_DEFER), made, scratch);
}
/* place: the row's slot, less than 0 if it has none. The places of the slot's state are
 * computed here, not kept in registers from the row's view on. */
#define FINISH_ROW(out, row, place, done, first, made, scratch) \
    { \
        const u32 its = (place) < 0 ? 0u : (u32)(place); \
        const slot_state its_state = state_of(state, args->layout, vocab, its); \
        finish_row(args, out, rows + row, slots + its, &its_state, lists, has, row, done, first, \
                   made, tokens, status_out, OF(latest) + its, scratch); \
    }

/* Whether no row before this one names its slot: of rows that share one, the
 * first one's draw is what accepting its token goes by. Asked where that matters. */
static inline int first_of_slot(__global const cls_args *args, u32 flags,
                                __global const i32 *slot_map, u32 has, u32 row, i32 place)
{
    int first = 1;
    if ((flags & CLS_SLOT_MODES) && (has & CLS_DEFER) && (has & CLS_HAS_SLOT_MAP))
        for (u32 other = 0; other < row; other++)
            first &= OF(slot_map)[other] != place;
    return first;
}
