/* SPDX-License-Identifier: MIT */
/* step: what a kernel passes to its functions of a step: its arguments, under the names of
 * core/buffers.h. Compilers for GPUs inline the functions and keep no struct. */
#include "core/args.h"
#include "core/buffers.h"
#include "core/load.cl"
#include "core/record.h"
#include "core/tiles.h"

/* BY_VALUE: a kernel gets its cls_args by value, not in a buffer (core/args.h). ARGS is where they
 * are. */
#ifdef BY_VALUE
#define ARGS
#define ARGS_PARAMETER const cls_args args
#define ARGS_POINTER &args
#else
#define ARGS __global
#define ARGS_PARAMETER __global const cls_args *args
#define ARGS_POINTER args
#endif

/* Buffers that a kernel does not have are NULL. */
#define STEP_FIELD(type, name) __global type *name;
typedef struct step_args {
    ARGS const cls_args *args;
    u32 vocab, has; /* of args, which compilers would read again after every store */
    CLS_ALL_BUFFERS(STEP_FIELD)
} step_args;

/* The parameters of a kernel, and the initializer of its step, by the kernel's list of buffers. */
#define STEP_PARAMETER(type, name) , __global type *name
#define STEP_PARAMETERS(BUFFERS) ARGS_PARAMETER BUFFERS(STEP_PARAMETER)
#define STEP_ENTRY(type, name) , .name = name
#define STEP_OF(BUFFERS) \
    { \
        .args = ARGS_POINTER, .vocab = (ARGS_POINTER)->vocab, \
        .has = (ARGS_POINTER)->has BUFFERS(STEP_ENTRY) \
    }

/* The data of a buffer or an output of a step, whose offset is in the arguments. */
#define AT_OFFSET(s, name) ((s)->name + (size_t)u64_of((s)->args->name##_offset))
#define OUTPUT(s, name, which) ((s)->name + (size_t)u64_of((s)->args->output_offset[which]))

/* Returns the numbers of mass tiles and max tiles of a row. */
static inline u32 row_tiles(const step_args *s) { return (s->vocab + CLS_TILE - 1) / CLS_TILE; }
static inline u32 row_max_tiles(const step_args *s)
{
    return row_tiles(s) * CLS_MAX_TILES_PER_TILE;
}

/* Return a row's parts of `tile_sums` and `row_scratch`, and the latter as the ids of a kept set.
 */
static inline __global u64 *tile_sums_of(const step_args *s, u32 row)
{
    return s->tile_sums + (size_t)row * row_tiles(s);
}
static inline __global f32 *scratch_of(const step_args *s, u32 row)
{
    return s->row_scratch + (size_t)row * s->args->scratch_stride;
}
static inline __global const u32 *kept_ids_of(const step_args *s, u32 row)
{
    return (__global const u32 *)scratch_of(s, row);
}

/* Returns the slot of a row, or slot 0, which always exists, if the index is less than 0. */
static inline u32 valid_slot(i32 slot_index) { return slot_index < 0 ? 0u : (u32)slot_index; }
static inline __global cls_slot *slot_of(const step_args *s, i32 slot_index)
{
    return s->slots + valid_slot(slot_index);
}
/* Returns a slot's parameters outside the thinking, of which there are some. */
static inline __global const cls_slot *answer_of(const step_args *s, __global const cls_slot *slot)
{
    return (__global const cls_slot *)(__global const uchar *)(s->lists + slot->lists +
                                                               slot->answer);
}
/* Returns where a slot's lists begin, to which its offsets are relative. */
static inline __global const u32 *lists_of(const step_args *s, __global const cls_slot *slot)
{
    return s->lists + slot->lists;
}
