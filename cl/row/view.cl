/* SPDX-License-Identifier: MIT */
/* view: describes one row as the kernels of a step see it, and lists the arguments that this
 * needs. */
#include "core/load.cl"
#include "row/slot_state.cl"
#include "row/effects.cl"
#include "row/maps.cl"

/* How a slot changes logits. The bits share one word, because a register for each would cost too
 * much. */
#define ADJUST_PENALTIES 1u
#define ADJUST_MARKS 2u   /* by history effects */
#define ADJUST_PATCHES 4u /* beside ADJUST_MARKS: drafts change counts */
#define ADJUST_BIAS_ROW 8u
#define ADJUST_BIAS_LIST 16u
#define ADJUST_BIASES (ADJUST_BIAS_ROW | ADJUST_BIAS_LIST)
#define ADJUST_RAISES 32u /* beside one of these: a logit may rise */

/* One row's logits as the step sees them. */
typedef struct row_logits {
    __global const logit *x;
    __global const u32 *mask;        /* the row's mask, in words or in bytes */
    __global const f32 *bias;        /* the row's dense bias, in float32 or in float16 */
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
    u32 dense;       /* 0, CLS_HAS_BIAS, or that and CLS_BIAS_F16 */
    u32 adjustments; /* ADJUST_*: how the slot changes logits */
    __global const cls_slot *slot;
    /* If `truncated` is set: the cuts beyond which the row reads as -inf, as in cls_row. */
    u32 truncated;
    i32 cut_key, cut_id, upper_key, upper_first, upper_last;
} row_logits;

/* The row's tokens are ROW_FIRST to ROW_LAST - 1. */
#if SHARD
#define ROW_FIRST(r) ((r)->first)
#define ROW_LAST(r) ((r)->last)
#else
#define ROW_FIRST(r) 0u
#define ROW_LAST(r) ((r)->vocab)
#endif

/* The first arguments of all kernels of a step. */
#define STEP_ARGS \
    __global const cls_args *args, __global const logit *logits, __global const u32 *mask, \
        __global const f32 *bias, __global cls_slot *slots, __global u32 *state, \
        __global const u32 *lists, __global u32 *effects, __global const i32 *slot_map, \
        __global const i32 *mask_map, __global const i32 *bias_map, __global i32 *tile_key, \
        __global u64 *tile_mass, __global u32 *tile_flags, __global cls_row *rows

#define STEP_NAMES \
    args, logits, mask, bias, slots, state, lists, effects, slot_map, mask_map, bias_map, \
        tile_key, tile_mass, tile_flags, rows

/* What kernels read often. Compilers would read args again after every store. */
#define STEP_LOCALS const u32 vocab = args->vocab, has = args->has;

/* Kernels whose rows may share rows of logits have one more map. Kernels of drafts redefine
 * LOGITS_ROW. */
#define ROWS_ARGS STEP_ARGS, LOGITS_MAP_ARGS
#define ROWS_NAMES STEP_NAMES, logits_map
#define LOGITS_ROW(row) mapped_logits(args, logits_map, has, row)

/* The slot of a row: -1 to skip the row, -2 if a map names nothing valid. */
#if ROW
#define ROW_SLOT(row) \
    (map_is_valid(AT_OFFSET(mask_map), args->mask_rows, has & CLS_HAS_MASK_MAP, row) && \
             map_is_valid(AT_OFFSET(bias_map), args->bias_rows, has & CLS_HAS_BIAS_MAP, row) \
         ? slot_with_logits(mapped_slot(args, slots, slot_map, has, row), LOGITS_ROW(row)) \
         : -2)
#else
#define ROW_SLOT(row) \
    slot_with_logits(mapped_slot(args, slots, slot_map, has, row), LOGITS_ROW(row))
#endif

#define TILES ((vocab + CLS_TILE - 1) / CLS_TILE)
#define MAX_TILES (TILES * CLS_MAX_TILES_PER_TILE)

/* Builds the view of a row. slot_index is less than 0 if the row has no slot. */
static inline row_logits row_view(__global const cls_args *args, __global const logit *logits,
                                  __global const u32 *mask, __global const i32 *mask_map,
                                  __global const f32 *bias, __global const i32 *bias_map, u32 has,
                                  __global const u32 *tile_flags, __global const i32 *tile_key,
                                  __global const cls_slot *slots, i32 slot_index,
                                  __global u32 *state, __global const u32 *lists,
                                  __global u32 *effects, u32 vocab, u32 row, i32 logits_row)
{
    row_logits r;
    /* The row's offset needs 64 bits: 512 rows of 2^20 floats take 2 GiB. */
    r.x = logits +
          wide_offset(args->logits_offset, args->row_stride, logits_row < 0 ? 0u : (u32)logits_row);
#if SHARD
    r.first = args->first;
    r.last = args->last;
    r.x -= r.first;
#endif
    r.tiles = TILES;
    r.flags = tile_flags + (size_t)row * r.tiles;
    r.key = tile_key + (size_t)row * MAX_TILES;
    r.vocab = vocab;
    r.wide = has & CLS_WIDE;
    r.truncated = 0;
#if ROW
    const i32 mask_row = has & CLS_HAS_MASK_MAP ? AT_OFFSET(mask_map)[row] : (i32)row;
    const i32 bias_row = has & CLS_HAS_BIAS_MAP ? AT_OFFSET(bias_map)[row] : (i32)row;
    const u32 applies = slot_index >= 0 && !(has & (CLS_RAW | CLS_MERGED));
    const u32 slot = applies ? (u32)slot_index : 0u; /* slot 0 always exists */
    const u32 layout = args->layout;
    r.mask_width = args->mask_width;
    r.masked = applies && mask_row >= 0 && (has & CLS_HAS_MASK)
                   ? has & (CLS_HAS_MASK | CLS_MASK_BYTES)
                   : 0u;
    r.mask = mask;
    if (r.masked & CLS_MASK_BYTES)
        r.mask = (__global const u32 *)((__global const uchar *)mask +
                                        wide_offset(args->mask_offset, args->mask_stride,
                                                    (u32)mask_row));
    else if (r.masked)
        r.mask = mask + wide_offset(args->mask_offset, args->mask_stride, (u32)mask_row);
    r.dense =
        applies && bias_row >= 0 && (has & CLS_HAS_BIAS) ? has & (CLS_HAS_BIAS | CLS_BIAS_F16) : 0u;
    r.bias = bias;
    if (r.dense & CLS_BIAS_F16)
        r.bias = (__global const f32 *)((__global const ushort *)bias +
                                        wide_offset(args->bias_offset, args->bias_stride,
                                                    (u32)bias_row));
    else if (r.dense)
        r.bias = bias + wide_offset(args->bias_offset, args->bias_stride, (u32)bias_row);
    r.state = state_of(state, layout, vocab, slot);
    r.effects = effects_of(effects, layout, vocab, row, lists + slots[slot].dry);
    r.adjustments = 0;
    if (applies) {
        const u32 flags = slots[slot].flags, rows_of_drafts = has & CLS_DRAFTS;
        if (slots[slot].n_bias != 0)
            r.adjustments |= flags & CLS_SLOT_BIAS_ROW ? ADJUST_BIAS_ROW : ADJUST_BIAS_LIST;
        if (r.state.keep != CLS_KEEPS_NONE && (flags & CLS_SLOT_PENALIZED))
            r.adjustments |= ADJUST_PENALTIES;
        if (rows_of_drafts ? r.effects.draft_info[0] : has_effects(slots + slot))
            r.adjustments |= ADJUST_MARKS;
        if (rows_of_drafts && r.effects.draft_info[2])
            r.adjustments |= ADJUST_PATCHES;
        if (r.adjustments && (flags & CLS_SLOT_RAISES))
            r.adjustments |= ADJUST_RAISES;
    }
    r.list = lists + slots[slot].bias;
    r.adjusted[0] = r.adjustments & ADJUST_PENALTIES ? r.state.adjusted
                    : r.adjustments & ADJUST_MARKS   ? r.effects.marks
                                                     : r.list;
    r.adjusted[1] = r.adjustments & ADJUST_MARKS ? r.effects.marks : r.adjusted[0];
    r.allowed = (i32)(slots[slot].allowed - slots[slot].bias);
    if (applies && (slots[slot].flags & CLS_SLOT_ALLOWED)) {
        if (r.masked) {
            r.masked |= CLS_MASK_LIST;
        } else { /* the list serves as a packed mask */
            r.mask = lists + slots[slot].allowed;
            r.mask_width = state_bitmap(vocab);
            r.masked = CLS_HAS_MASK;
        }
    }
    r.slot = slots + slot;
#else
    r.mask = mask;
    r.masked = r.dense = r.adjustments = 0;
#endif
    return r;
}
#define ROW_VIEW(row, slot_index) \
    row_view(args, logits, mask, mask_map, bias, bias_map, has, tile_flags, tile_key, slots, \
             slot_index, state, lists, effects, vocab, row, LOGITS_ROW(row))
