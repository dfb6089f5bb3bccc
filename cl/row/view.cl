/* SPDX-License-Identifier: MIT */
/* view: describes one row as the kernels of a step see it. */
#include "slot/state.cl"
#include "slot/effects.cl"
#include "row/maps.cl"

/* How a slot changes logits. The bits share one word, because a register for each would cost too
 * much. */
enum {
    ADJUST_PENALTIES = 1,
    ADJUST_MARKS = 2,   /* by history effects */
    ADJUST_PATCHES = 4, /* beside ADJUST_MARKS: drafts change counts */
    ADJUST_BIAS_ROW = 8,
    ADJUST_BIAS_LIST = 16,
};
#define ADJUST_BIASES (ADJUST_BIAS_ROW | ADJUST_BIAS_LIST)
#define ADJUST_RAISES 32u /* beside one of these: a logit may rise */

/* In row_logits.dense, beside or without a dense bias: logits have a soft-cap. So what is dense
 * needs one test where logits are read. */
#define DENSE_SOFTCAP 1u

/* One row's logits as the step sees them. */
typedef struct row_logits {
    __global const logit *x;
    __global const u32 *mask; /* the row's mask, in words or in bytes */
    __global const f32 *bias; /* the row's dense bias, of the type that `dense` says */
    f32 bias_factor;          /* of the dense bias */
#if ROW
    f32 softcap, softcap_reciprocal;
#endif
    __global const u32 *flags;       /* of its mass tiles; the survey sets them */
    __global const u32 *list;        /* its logit biases: see bias_row_offset() */
    i32 allowed;                     /* the offset from `list` to the bitmap of allowed ids */
    __global const u32 *adjusted[2]; /* bitmaps of the tokens that penalties and history effects can
                                        change; equal if there is one */
    slot_state state;
    history_effects effects;
    __global const i32 *key; /* of its max tiles: their largest keys, from the survey */
    u32 tiles;               /* its number of mass tiles */
    u32 vocab;
    u32 wide; /* CLS_WIDE or 0 */
#if SHARD
    u32 first,
        last; /* the row has tokens first to last - 1 only, and x is first tokens before it */
#endif
    u32 mask_width;  /* in elements */
    u32 masked;      /* 0 or CLS_HAS_MASK, with CLS_MASK_BYTES; CLS_MASK_LIST: `allowed`, too */
    u32 dense;       /* 0, or bits of CLS_BIAS_KINDS and DENSE_SOFTCAP */
    u32 adjustments; /* ADJUST_*: how the slot changes logits */
    __global const cls_slot *slot;
    u32 truncated; /* beyond the cut the row reads as -inf */
    cls_cut cut;
} row_logits;

/* The row's tokens are ROW_FIRST to ROW_LAST - 1. */
#if SHARD
#define ROW_FIRST(r) ((r)->first)
#define ROW_LAST(r) ((r)->last)
#else
#define ROW_FIRST(r) 0u
#define ROW_LAST(r) ((r)->vocab)
#endif

/* Returns the slot of a row: -1 to skip the row, -2 if a map names nothing valid. */
static inline i32 row_slot(const step_args *s, u32 row)
{
#if ROW
    if (!map_is_valid(AT_OFFSET(s, mask_map), s->args->mask_rows, s->has & CLS_HAS_MASK_MAP, row) ||
        !map_is_valid(AT_OFFSET(s, bias_map), s->args->bias_rows, s->has & CLS_HAS_BIAS_MAP, row))
        return -2;
#endif
    return slot_with_logits(mapped_slot(s, row), mapped_logits(s, row));
}

/* Returns the slot with the parameters of a row: its own or, outside the thinking, the one that its
 * lists have. Their flags differ only in what chain and penalties decide. A row that follows drafts
 * thinks as the text with them does, which the first kernel of the step has found. */
static inline __global const cls_slot *row_rules(const step_args *s, u32 row, i32 slot_index)
{
    __global const cls_slot *const slot = slot_of(s, slot_index);
#if ROW
    if (slot_index >= 0 && slot->answer != 0 &&
        (s->has & CLS_DRAFTS
             ? effects_of(s->effects, s->args->layout, s->vocab, row).found->answers != 0
             : slot->thinking == 0))
        return answer_of(s, slot);
#endif
    return slot;
}
/* Returns its flags, 0 without a slot, which another row may be writing. */
static inline u32 row_flags(const step_args *s, u32 row, i32 slot_index)
{
    return slot_index >= 0 ? row_rules(s, row, slot_index)->flags : 0u;
}

#if ROW
/* Adds the row's mask, dense bias and soft-cap to its view, where the step has them. */
static inline void view_mask_and_bias(const step_args *s, u32 row, u32 applies, row_logits *r)
{
    ARGS const cls_args *const args = s->args;
    const u32 has = s->has;
    const i32 mask_row = has & CLS_HAS_MASK_MAP ? AT_OFFSET(s, mask_map)[row] : (i32)row;
    const i32 bias_row = has & CLS_HAS_BIAS_MAP ? AT_OFFSET(s, bias_map)[row] : (i32)row;
    r->mask_width = args->mask_width;
    r->masked = applies && mask_row >= 0 && (has & CLS_HAS_MASK)
                    ? has & (CLS_HAS_MASK | CLS_MASK_BYTES)
                    : 0u;
    r->mask = s->mask;
    if (r->masked & CLS_MASK_BYTES)
        r->mask = (__global const u32 *)((__global const uchar *)s->mask +
                                         wide_offset(args->mask_offset, args->mask_stride,
                                                     (u32)mask_row));
    else if (r->masked)
        r->mask = s->mask + wide_offset(args->mask_offset, args->mask_stride, (u32)mask_row);
    r->bias_factor = args->bias_factor;
    r->dense = applies && bias_row >= 0 && (has & CLS_HAS_BIAS) ? has & CLS_BIAS_KINDS : 0u;
    r->bias = s->bias;
    if (r->dense & (CLS_BIAS_F16 | CLS_BIAS_BF16))
        r->bias = (__global const f32 *)((__global const ushort *)s->bias +
                                         wide_offset(args->bias_offset, args->bias_stride,
                                                     (u32)bias_row));
    else if (r->dense)
        r->bias = s->bias + wide_offset(args->bias_offset, args->bias_stride, (u32)bias_row);
    r->softcap = args->softcap; /* of raw rows, too */
    r->softcap_reciprocal = args->softcap_reciprocal;
    if (r->softcap > 0.0f)
        r->dense |= DENSE_SOFTCAP;
}

#endif

/* Builds the view of a row. slot_index is less than 0 if the row has no slot. */
static inline row_logits row_view(const step_args *s, u32 row, i32 slot_index)
{
    ARGS const cls_args *const args = s->args;
    const u32 vocab = s->vocab, has = s->has;
    const i32 logits_row = mapped_logits(s, row);
    row_logits r;
    /* The row's offset needs 64 bits: 512 rows of 2^20 floats take 2 GiB. */
    r.x = s->logits +
          wide_offset(args->logits_offset, args->row_stride, logits_row < 0 ? 0u : (u32)logits_row);
#if SHARD
    r.first = args->first;
    r.last = args->last;
    r.x -= r.first;
#endif
    r.tiles = row_tiles(s);
    r.flags = s->tile_flags + (size_t)row * r.tiles;
    r.key = s->tile_key + (size_t)row * row_max_tiles(s);
    r.vocab = vocab;
    r.wide = has & CLS_WIDE;
    r.truncated = 0;
    r.slot = row_rules(s, row, slot_index);
#if ROW
    const u32 applies = slot_index >= 0 && !(has & (CLS_RAW | CLS_MERGED));
    view_mask_and_bias(s, row, applies, &r);
    const u32 index = applies ? (u32)slot_index : 0u; /* slot 0 exists */
    const u32 layout = args->layout;
    __global const cls_slot *const slot = s->slots + index;
    __global const u32 *const lists = lists_of(s, slot);
    u32 allowed = CLS_NO_BITMAP;
    r.state = state_of(s->state, layout, vocab, index);
    r.effects = effects_of(s->effects, layout, vocab, row);
    r.effects.amounts = lists + slot->dry;
    r.adjustments = 0;
    if (applies) {
        const u32 flags = r.slot->flags, rows_of_drafts = s->has & CLS_DRAFTS;
        if (slot->n_bias != 0)
            r.adjustments |= flags & CLS_SLOT_BIAS_ROW ? ADJUST_BIAS_ROW : ADJUST_BIAS_LIST;
        if (r.state.counting != CLS_COUNTS_NONE && (flags & CLS_SLOT_PENALIZED))
            r.adjustments |= ADJUST_PENALTIES;
        if (rows_of_drafts ? r.effects.found->marked : has_effects(slot))
            r.adjustments |= ADJUST_MARKS;
        if ((rows_of_drafts || slot->windows != 0) && r.effects.found->patches)
            r.adjustments |= ADJUST_PATCHES;
        if (r.adjustments && (flags & CLS_SLOT_RAISES))
            r.adjustments |= ADJUST_RAISES;
        if (flags & CLS_SLOT_GRAMMAR)
            allowed = s->lists[args->grammar_rows + row * grammar_row_words(vocab)];
        else if (flags & CLS_SLOT_ALLOWED)
            allowed = slot->lists + slot->allowed;
    }
    r.list = lists + slot->bias;
    r.adjusted[0] = r.adjustments & ADJUST_PENALTIES ? r.state.adjusted
                    : r.adjustments & ADJUST_MARKS   ? r.effects.marks
                                                     : r.list;
    r.adjusted[1] = r.adjustments & ADJUST_MARKS ? r.effects.marks : r.adjusted[0];
    r.allowed = (i32)(allowed - slot->lists - slot->bias);
    if (allowed != CLS_NO_BITMAP) {
        if (r.masked) {
            r.masked |= CLS_MASK_LIST;
        } else { /* the list serves as a packed mask */
            r.mask = s->lists + allowed;
            r.mask_width = state_bitmap(vocab);
            r.masked = CLS_HAS_MASK;
        }
    }
#else
    r.mask = s->mask;
    r.masked = r.dense = r.adjustments = 0;
#endif
    return r;
}

/* Declares `r`, the view of a row, which is in `shared` where functions are called. Elsewhere it is
 * the function's own: where a function gets the address of a private view to fill it, Intel's
 * compiler for GPUs takes over 40 s for cls_verify, not 6, and a thread of cls_partial has 64 KB of
 * scratch, not 32. */
#if SHARES_VIEW
#define ROW_VIEW(shared, s, row, slot_index) \
    SHARED row_logits *const r = (shared); \
    SHARED_BARRIER(); \
    if (WRITES_SHARED) \
        *r = row_view(s, row, slot_index); \
    SHARED_BARRIER();
#else
#define ROW_VIEW(shared, s, row, slot_index) \
    row_logits view = row_view(s, row, slot_index), *const r = &view;
#endif
