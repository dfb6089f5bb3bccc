/* SPDX-License-Identifier: MIT */
/* accept: a row is done. Its token and status go out, its slot's state moves
 * on, its record stays for the kernels that report on it. One item a row. */

static inline void finish_row(cls_row *out, __global cls_row *record, __global cls_slot *slot, u32 has, u32 row,
                              __global i32 *tokens, u64 tokens_offset, __global i32 *status_out, u64 status_offset)
{
    out->state = CLS_ROW_DONE;
    *record = *out;
    if (has & CLS_HAS_TOKENS)
        tokens[tokens_offset + row] = out->token;
    if (has & CLS_HAS_STATUS)
        status_out[status_offset + row] = (i32)out->status;
    if (!(has & CLS_KEEP) && !(out->status & (CLS_STATUS_EMPTY | CLS_STATUS_SKIPPED | CLS_STATUS_NO_SLOT)))
        slot->position += 1;
}
#define FINISH_ROW(out, row, slot) \
    finish_row(out, rows + row, slots + slot, has, row, tokens, tokens_offset, status_out, status_offset)
