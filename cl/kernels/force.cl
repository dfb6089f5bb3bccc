/* SPDX-License-Identifier: MIT */
/* force: finishes the rows of a step that has requests with thinking budgets, forced ids, loop
 * stops or grammars. The rows are drawn as all rows are, but not accepted. This kernel replaces the
 * tokens of those rows whose requests must emit another one, and then does what the token kernel
 * does at the end of other steps: writes tokens and statuses, and updates the slots. Launch: [WGS,
 * rows]. */
#include "row/maps.cl"
#include "slot/state.cl"

KERNEL void cls_force(STEP_PARAMETERS(CLS_FORCE_BUFFERS))
{
    __local u64 scratch[WGS];
    const step_args s = STEP_OF(CLS_FORCE_BUFFERS);
    const u32 row = get_group_id(1), has = s.has;
    u32 status = rows[row].status;
    const int skipped = (status & (CLS_ROW_SKIPPED | CLS_ROW_NO_SLOT)) != 0,
              drew = !rows[row].no_token;
    if (drew) /* the text says whether it ends */
        status &= ~(u32)(CLS_ROW_STOPPED | CLS_ROW_LENGTH);
    const i32 own = rows[row].token, slot_index = skipped ? -1 : mapped_slot(&s, row);
    __global cls_slot *const slot = slot_of(&s, slot_index);
    const slot_state kept = state_of(state, s.args->layout, s.vocab, valid_slot(slot_index));
    cls_slot_adaptive next = {0, 0u, 0u, 0u}; /* the adaptive state after the token */
    i32 token = own, due = -1;
    int emits = drew, forced = 0;
    /* Another row may be writing what is not this row's. */
    text t = text_of(slot, kept.ring, kept.n_ring, slot_index >= 0);
    if (slot_index >= 0) {
        due = text_due(slot, lists, &t);
        next = slot->adaptive;
    }
    if (due >= 0) {
        forced = emits = mask_allows(&s, row, (u32)due) && text_allows(slot, lists, &t, (u32)due);
        status = (status & (CLS_ROW_NAN | CLS_ROW_INF)) | (forced ? CLS_ROW_FORCED : CLS_ROW_EMPTY);
        token = forced ? due : s.args->invalid_token;
    }
    if (drew && token == own)
        next = adaptive_once(slot, &rows[row].next);
    status |= text_follow(slot, lists, &t, (u32)token, emits, scratch);
    const int keeps = drew && emits && first_of_slot(&s, slot->flags, row, slot_index);
    BARRIER(); /* every item has read the record */
    if (LOCAL_ID == 0) {
        if (keeps) {
            const cls_slot_adaptive drawn = rows[row].next;
            store_pending(slot, has, own, &drawn);
        }
        rows[row].token = token;
        rows[row].status = status;
        rows[row].forced = (u32)forced;
        rows[row].next = next;
        if (!emits)
            rows[row].no_token = 1;
        if (has & CLS_HAS_TOKENS)
            AT_OFFSET(&s, tokens)[row] = token;
        if (has & CLS_HAS_STATUS)
            AT_OFFSET(&s, status_out)[row] = (i32)status;
        if (emits && (has & CLS_HAS_LATEST))
            AT_OFFSET(&s, latest)[valid_slot(slot_index)] = token;
    }
    state_accept(slot, &kept, lists_of(&s, slot), (u32)token, emits && !(has & CLS_DEFER), &next,
                 scratch);
}
