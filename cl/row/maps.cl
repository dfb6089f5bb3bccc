/* SPDX-License-Identifier: MIT */
/* maps: finds the slot, the row of logits, and the rows of masks and biases that a row uses. */
#include "row/step.cl"

/* Returns the slot of a row: -1 to skip the row, -2 if the map names no valid slot. */
static inline i32 mapped_slot(const step_args *s, u32 row)
{
    const i32 slot = s->has & CLS_HAS_SLOT_MAP ? AT_OFFSET(s, slot_map)[row] : (i32)row;
    if (s->has & CLS_NO_SLOTS)
        return 0; /* slot 0 always exists, and nothing is read from it */
    if (slot == -1)
        return -1;
    return slot < 0 || (u32)slot >= s->args->n_slots || !(s->slots[slot].flags & CLS_SLOT_BEGUN)
               ? -2
               : slot;
}

/* Returns whether a map names one of `rows` rows, or none by -1. */
static inline int map_is_valid(__global const i32 *map, u32 rows, u32 has_map, u32 row)
{
    const i32 at = has_map ? map[row] : -1;
    return at >= -1 && (at < 0 || (u32)at < rows);
}

/* Returns whether no earlier row names this row's slot. If rows share a slot, accepting a token
 * uses the adaptive state after the first row's draw. The slot map is searched only where that
 * matters. */
static inline int first_of_slot(const step_args *s, u32 flags, u32 row, i32 slot_index)
{
    int first = 1;
    if ((flags & CLS_SLOT_STATEFUL) && (s->has & CLS_DEFER) && (s->has & CLS_HAS_SLOT_MAP))
        for (u32 other = 0; other < row; other++)
            first &= AT_OFFSET(s, slot_map)[other] != slot_index;
    return first;
}

/* Returns whether a row's mask allows a token. The row's entry in the map of masks is valid. */
static inline int mask_allows(const step_args *s, u32 row, u32 id)
{
    ARGS const cls_args *const args = s->args;
    const i32 at = s->has & CLS_HAS_MASK_MAP ? AT_OFFSET(s, mask_map)[row] : (i32)row;
    if (!(s->has & CLS_HAS_MASK) || at < 0)
        return 1;
    const size_t first = wide_offset(args->mask_offset, args->mask_stride, (u32)at);
    if (s->has & CLS_MASK_BYTES)
        return id < args->mask_width && ((__global const uchar *)s->mask)[first + id] != 0;
    return id / 32 < args->mask_width && (s->mask[first + id / 32] >> (id % 32) & 1u) != 0;
}

/* Returns the row of logits of a row: -1 to skip the row, -2 if the map names no valid one. */
static inline i32 mapped_logits(const step_args *s, u32 row)
{
    const u32 is_mapped = s->has & CLS_HAS_LOGITS_MAP;
    const i32 at = is_mapped ? AT_OFFSET(s, logits_map)[row] : (i32)row;
    return !is_mapped || at == -1 || (at >= 0 && (u32)at < s->args->logits_rows) ? at : -2;
}
/* Returns a row's slot, or -1 or -2 if its slot map or its logits map names none. */
static inline i32 slot_with_logits(i32 slot, i32 logits_row)
{
    return slot == -1 || logits_row == -1 ? -1 : logits_row < 0 ? -2 : slot;
}

/* The maps of a verification: the draft that each row follows (-1: the text), the parent of each
 * draft, and the first row of each request. */
static inline __global const i32 *draft_nodes(const step_args *s)
{
    return s->maps + s->args->nodes;
}
static inline __global const i32 *draft_parents(const step_args *s)
{
    return s->maps + s->args->parents;
}
static inline __global const i32 *request_firsts(const step_args *s)
{
    return s->maps + s->args->firsts;
}

/* Returns where a draft of a request lies in draft_ids or in the drafts' distributions, whose
 * strides from draft to draft and from request to request are given. `request` is the number of the
 * draft's row less that of the draft, less 1. */
static inline size_t draft_place(const step_args *s, u32 request, u32 draft, cls_wide stride,
                                 cls_wide apart)
{
    const cls_wide none = {0u, 0u};
    u32 of_request = draft;
    if ((apart.lo | apart.hi) != 0)
        of_request += request - (u32)request_firsts(s)[request];
    return wide_offset(none, apart, request) + wide_offset(none, stride, of_request);
}
/* Returns a draft's id. */
static inline i32 draft_id(const step_args *s, u32 request, i32 draft)
{
    ARGS const cls_args *const args = s->args;
    return AT_OFFSET(
        s, draft_ids)[draft_place(s, request, (u32)draft, args->ids_stride, args->ids_apart)];
}

/* Returns the first row of a request, or the end of the rows behind the last one. */
static inline u32 first_row(const step_args *s, u32 request)
{
    return request < s->args->requests ? (u32)request_firsts(s)[request] : s->args->n_rows;
}

/* Returns how many places the outputs of all rows have. Those of a verification have places for all
 * tokens that a request could emit, as many as max_drafts + 1. */
static inline u32 output_count(const step_args *s)
{
    return ROW && (s->has & CLS_DRAFTS) ? s->args->requests * (s->args->max_drafts + 1)
                                        : s->args->n_rows;
}
/* Returns the row whose outputs go to a place; -1 where a verification emits no token. */
static inline i32 row_at(const step_args *s, u32 place)
{
    if (!ROW || !(s->has & CLS_DRAFTS))
        return (i32)place;
    const u32 width = s->args->max_drafts + 1, request = place / width, depth = place % width,
              record = first_row(s, request) + depth;
    return record < first_row(s, request + 1) ? s->rows[record].emitted : -1;
}
