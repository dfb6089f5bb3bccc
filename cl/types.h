/* SPDX-License-Identifier: MIT */
/* The types that the host and the kernels share: fixed widths, and the structs
 * that lie in device buffers. Compiled by C and by OpenCL C. */
#ifndef CLS_TYPES_H
#define CLS_TYPES_H

#ifdef __OPENCL_VERSION__
#pragma OPENCL FP_CONTRACT OFF
typedef uint u32;
typedef int i32;
typedef ulong u64;
typedef float f32;
#define CLS_INLINE static inline
#define CLS_AS_I32(x) as_int(x)
#define CLS_AS_F32(x) as_float(x)
#else
#include <stdint.h>
#include <string.h>
typedef uint32_t u32;
typedef int32_t i32;
typedef uint64_t u64;
typedef float f32;
#define CLS_INLINE static inline
CLS_INLINE i32 CLS_AS_I32(f32 x)
{
    i32 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
CLS_INLINE f32 CLS_AS_F32(i32 bits)
{
    f32 x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
#endif

/* Tokens of a mass tile. Part of the arithmetic: another number, other tokens. */
#define CLS_TILE 1024
/* Tokens of a max tile, the shortlist's grain. A matter of speed only: 64 costs
 * the survey 1.1 reads where 256 costs 1.03, but a list of k needs k of them. */
#define CLS_MAX_TILE 64
#define CLS_MAX_TILES_PER_TILE (CLS_TILE / CLS_MAX_TILE)
#define CLS_MAX_VOCAB 1048576
#define CLS_PIVOTS 4

/* The stages of a chain, in the bytes of cls_slot.chain. */
#define CLS_STAGE_END 0
#define CLS_STAGE_TEMPERATURE 1
#define CLS_STAGE_TOP_K 2
#define CLS_STAGE_TOP_P 3
#define CLS_STAGE_MIN_P 4
#define CLS_MAX_STAGES 16

/* What a slot's parameters ask of the kernels: cls_slot.flags. */
#define CLS_SLOT_BEGUN 1u
#define CLS_SLOT_GREEDY 2u
#define CLS_SLOT_PLAIN 4u  /* no truncation is on */
#define CLS_SLOT_TOTAL 8u  /* the mass of the untouched row is needed, at `total_scale` */
#define CLS_SLOT_SEARCH 16u /* the set may not fit the shortlist: enqueue the threshold search */

/* A request, resident on the device. `position` comes last: the device moves
 * it on, so a change of parameters writes only what is before it. */
typedef struct cls_slot {
    u32 flags;
    u32 chain[CLS_MAX_STAGES / 4]; /* stages that are on, a byte each, in order, then CLS_STAGE_END */
    f32 scale;                     /* log2(e) / temperature: final weights */
    f32 total_scale;               /* the scale at which the untouched row's mass is taken */
    i32 top_k;
    u32 top_p;                     /* p * 2^32 */
    f32 min_p;                     /* -log2(min_p): the greatest depth that is kept */
    u32 seed[2];
    u32 stream[2];
    u32 position;
} cls_slot;

/* What the kernels know of a row at the end, and what they hand each other on
 * the way. `cut` is the last kept place in the order (key descending, id
 * ascending): a token is kept iff its key is above cut_key, or equal to it and
 * its id at most cut_id. */
typedef struct cls_row {
    u64 mass;   /* of the final set, row units */
    u64 total;  /* of the untouched row, where the chain needs it */
    u64 target; /* of top-p */
    u64 drawn;  /* the integer in [0, mass) that chose the token */
    i32 token;
    u32 status; /* cls_row_status bits */
    u32 state;  /* CLS_ROW_DONE, CLS_ROW_SEARCH_* */
    i32 max_key;
    i32 cut_key;
    i32 cut_id;
    f32 scale;  /* of the final weights */
    u32 pad;
    i32 pivot[CLS_PIVOTS]; /* keys, ascending; the pass measures what lies above each */
} cls_row;

#define CLS_ROW_DONE 0u         /* the token is drawn (or the row has none) */
#define CLS_ROW_SEARCH_MASS 1u   /* the pass measures masses above the pivots */
#define CLS_ROW_SEARCH_COUNT 2u  /* ... counts */

/* What a step has: the kernels' `has` argument. */
#define CLS_HAS_MASK 1u
#define CLS_HAS_SLOT_MAP 2u
#define CLS_HAS_MASK_MAP 4u
#define CLS_HAS_POSITIONS 8u
#define CLS_HAS_RANDOM 16u
#define CLS_HAS_TOKENS 32u
#define CLS_HAS_STATUS 64u
#define CLS_KEEP 128u         /* the slots stay as they are */
#define CLS_RAW 256u          /* survey the raw row: no mask, scale log2(e), mass wanted */
#define CLS_FORCE_SEARCH 512u /* tests: the shortlist serves no row that truncates */
#define CLS_OF_FINAL 1024u       /* logprobs of the final distribution */

/* A row is sampled for a threshold's first guess: all of a small one, of a
 * large one 16 tokens in 512. */
#define CLS_SAMPLE_ALL 4096
#define CLS_SAMPLE_RUN 16
#define CLS_SAMPLE_BLOCK 512
CLS_INLINE u32 sample_size(u32 vocab)
{
    return vocab <= CLS_SAMPLE_ALL ? (vocab + CLS_SAMPLE_RUN - 1) / CLS_SAMPLE_RUN * CLS_SAMPLE_RUN
                                   : vocab / CLS_SAMPLE_BLOCK * CLS_SAMPLE_RUN;
}

/* Bits of cls_row_status that kernels set; the same numbers as in clsample.h. */
#define CLS_STATUS_NAN 1u
#define CLS_STATUS_INF 2u
#define CLS_STATUS_EMPTY 4u
#define CLS_STATUS_SKIPPED 8u
#define CLS_STATUS_NO_SLOT 16u

#endif
