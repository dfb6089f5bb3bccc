/* SPDX-License-Identifier: MIT */
#include "row/maps.cl"
#include "slot/rollback.cl"

/* Takes the latest `back` tokens of a slot back that is about to accept n tokens, by the whole
 * group. Those that equal the first tokens of these stay, with their adaptive state. Returns how
 * many stay. If the slot cannot take so many back, or if a number is out of range, the request
 * ends. */
static inline u32 take_back(const step_args *s, const slot_state *own, __global cls_slot *slot,
                            __global const i32 *tokens, u32 back, u32 n, __local u64 *scratch)
{
    const u32 most = own->n_adaptive, per_row = s->args->per_row,
              limit = min(min(back, n), per_row);
    cls_slot changed = *slot;
    u32 stay = 0;
    const int possible = n <= per_row && back <= most && back <= changed.length &&
                         changed.length - back + most >= changed.longest;
    while (possible && stay < limit && (u32)tokens[stay] < s->vocab &&
           (own->ring[(changed.length - back + stay) % own->n_ring] & ~CLS_ENTRY_FIRST) ==
               ((u32)tokens[stay] | CLS_ENTRY_OUTPUT))
        stay++;
    if (possible && stay == back)
        return stay;
    if (!possible || !state_rollback(&changed, own, back - stay, most, scratch))
        changed.flags = 0;
    store_changed(slot, &changed, own, s->lists, scratch);
    BARRIER();
    return stay;
}

/* Ends a verification whose outputs had to be written before slots could accept: a request accepts
 * its tokens, and the statuses are written, which the outputs may have changed. */
static inline void accept_emitted(const step_args *s, u32 request, __local u64 *scratch)
{
    ARGS const cls_args *const args = s->args;
    const u32 wants = args->wants, width = args->max_drafts + 1, first = first_row(s, request),
              last = first_row(s, request + 1);
    const i32 slot_index = mapped_slot(s, first);
    __global cls_slot *const slot = slot_of(s, slot_index);
    const slot_state state = state_of(s->state, args->layout, s->vocab, valid_slot(slot_index));
    u32 all = 0, n = 0;
    for (i32 row; n < last - first && (row = s->rows[first + n].emitted) >= 0; n++) {
        const int emits = !s->rows[row].no_token || s->rows[row].forced;
        const u32 status = s->rows[row].status;
        const cls_slot_adaptive next = s->rows[row].next;
        all |= emits ? status & CLS_ROW_OVERFLOW : 0u;
        if (LOCAL_ID == 0 && (wants & CLS_WANTS(CLS_VERIFIED_TOKEN_STATUS)))
            OUTPUT(s, token_status, CLS_VERIFIED_TOKEN_STATUS)
        [(size_t)request * width + n] = (i32)status;
        state_accept(slot, &state, lists_of(s, slot), (u32)s->rows[row].token, emits, &next,
                     scratch);
        BARRIER();
    }
    for (u32 i = n + LOCAL_ID; i < width; i += WGS)
        if (wants & CLS_WANTS(CLS_VERIFIED_TOKEN_STATUS))
            OUTPUT(s, token_status, CLS_VERIFIED_TOKEN_STATUS)
    [(size_t)request * width + i] = CLS_ROW_SKIPPED;
    if (LOCAL_ID == 0 && all != 0 && (wants & CLS_WANTS(CLS_VERIFIED_STATUS)))
        OUTPUT(s, status_out, CLS_VERIFIED_STATUS)[request] |= (i32)all;
}

/* accept: slots accept tokens. `tokens` has tokens that were chosen elsewhere, args->per_row for
 * each row; without it, the tokens are those of the rows' records, of a step that had to write
 * reports before slots could accept. Launch: [WGS, rows], or [WGS, requests] after a verification.
 */
KERNEL void cls_accept(STEP_PARAMETERS(CLS_ACCEPT_BUFFERS))
{
    __local u64 scratch[WGS];
    const step_args s = STEP_OF(CLS_ACCEPT_BUFFERS);
    if (s.has & CLS_DRAFTS) { /* the same for all groups */
        accept_emitted(&s, get_group_id(1), scratch);
        return;
    }
    const u32 row = get_group_id(1), per_row = s.args->per_row;
    i32 slot_index = mapped_slot(&s, row);
    __global cls_slot *const slot = slot_of(&s, slot_index);
    const slot_state own = state_of(state, s.args->layout, s.vocab, valid_slot(slot_index));
    const u32 back = s.has & CLS_HAS_ROLLBACK ? (u32)AT_OFFSET(&s, rollback)[row] : 0u;
    u32 first = 0, n = s.has & CLS_HAS_COUNTS ? (u32)AT_OFFSET(&s, counts)[row] : per_row;
    BARRIER(); /* every item has read the slot */
    if (slot_index >= 0) {
        first = take_back(&s, &own, slot, AT_OFFSET(&s, tokens) + (size_t)row * per_row, back, n,
                          scratch);
        if (!(slot->flags & CLS_SLOT_BEGUN))
            slot_index = -1;
    }
    n = slot_index >= 0 ? min(n, per_row) : 0u;
    for (u32 i = first; i < n; i++) {
        const int is_given = (s.has & CLS_HAS_TOKENS) != 0;
        cls_slot_adaptive next = {0, 0u, 0u, 0u};
        i32 token = -1;
        if (!is_given && slot_index >= 0)
            next = adaptive_once(slot, &rows[row].next);
        if (is_given)
            token = AT_OFFSET(&s, tokens)[(size_t)row * per_row + i];
        else if (!rows[row].no_token || rows[row].forced)
            token = rows[row].token;
        const int active = slot_index >= 0 && token >= 0 && (u32)token < s.vocab && !slot->stopped;
        state_accept(slot, &own, lists_of(&s, slot), (u32)token, active, is_given ? 0 : &next,
                     scratch);
        BARRIER();
    }
}
