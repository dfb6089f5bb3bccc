/* SPDX-License-Identifier: MIT */
/* draw: draws from lists of candidates that the host has filtered. */
#include "draw/draw.cl"
#include "draw/finish.cl"

/* A row's candidates are weighed relative to the largest of their logits, at the scale log2(e) and
 * in one unit. Then their weights are added up in the order of the list. ids and logits have n
 * entries a row, `row_stride` apart, of which the first `counts` are used. Entries without a valid
 * id or with a masked logit weigh nothing. Launch: [WGS, rows]. */
KERNEL void cls_draw(STEP_PARAMETERS(CLS_CANDIDATES_BUFFERS))
{
    __local u64 scratch[WGS];
    const step_args s = STEP_OF(CLS_CANDIDATES_BUFFERS);
    const u32 row = get_group_id(1), lid = LOCAL_ID, vocab = s.vocab, n = args->candidates;
    const i32 slot_index = mapped_slot(&s, row);
    __global const cls_slot *const slot = slot_of(&s, slot_index);
    const int runs = slot_index >= 0 && !slot->stopped;
    const u32 count = !runs ? 0u
                      : s.has & CLS_HAS_COUNTS
                          ? min((u32)not_negative(AT_OFFSET(&s, counts)[row]), n)
                          : n;
    __global const i32 *const id = ids + wide_offset(args->ids_offset, args->row_stride, row);
    __global const f32 *const x =
        id_logits + wide_offset(args->logits_offset, args->row_stride, row);
    /* Each item takes a range of the list. */
    const u32 per_item = (count + WGS - 1) / WGS, first = min(lid * per_item, count),
              last = min(first + per_item, count);
    cls_row out = rows[row];
    BARRIER(); /* every item has read the record, which the first item writes */
    i32 max_key = CLS_KEY_NONE, token = -1;
    u32 special = 0;
    u64 mine = 0, mass;
    for (u32 i = first; i < last; i++) {
        if (id[i] < 0 || (u32)id[i] >= vocab)
            continue;
        const i32 key = key_of(clean(x[i]));
        special |= bits_status(as_int(x[i]));
        max_key = max_key > key ? max_key : key;
    }
    max_key = wg_imax(max_key, scratch);
    special = wg_uor(special, scratch);
    const f32 top = float_of_key(max_key),
              fraction = max_key == CLS_KEY_NONE ? 0.0f : split(top, CLS_LOG2E).fraction;
    for (u32 i = first; i < last && max_key != CLS_KEY_NONE; i++)
        if (id[i] >= 0 && (u32)id[i] < vocab)
            mine += to_row_units(weight(clean(x[i]), top, CLS_LOG2E, fraction), 0);
    u64 sum = wg_scan_mass(mine, scratch, &mass);
    u64 drawn = 0;
    if (runs)
        drawn = u64_mul_hi(row_bits(&s, CLS_PURPOSE_TOKEN, slot, row), mass);
    if (drawn >= sum && drawn < sum + mine) {
        for (u32 i = first; i < last && token < 0; i++) {
            if (id[i] >= 0 && (u32)id[i] < vocab) {
                sum += to_row_units(weight(clean(x[i]), top, CLS_LOG2E, fraction), 0);
                token = drawn < sum ? id[i] : -1;
            }
        }
    }
    token = wg_imax(token, scratch);
    out.no_token = token < 0;
    out.token = token < 0 ? args->invalid_token : token;
    out.mass = mass;
    out.drawn = drawn;
    out.state = CLS_ROW_DONE;
    out.status = !runs ? (slot_index == -1 ? CLS_STATUS_SKIPPED
                          : slot_index < 0 ? CLS_STATUS_NO_SLOT
                                           : CLS_STATUS_STOPPED | CLS_STATUS_SKIPPED)
                       : special | (token < 0 ? CLS_STATUS_EMPTY : 0u);
    finish_row(&s, row, slot_index, &out, 1, 0, 0, scratch);
}
