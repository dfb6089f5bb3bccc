/* SPDX-License-Identifier: MIT */
/* Kernels' arguments.
 *
 * All arguments that are not buffers are one struct, which kernels get by value. A device may
 * refuse more than 256 bytes of arguments (OpenCL 1.2's embedded profile), which is 32 buffers;
 * there the struct lies in a buffer, and the host writes the blocks of it that have changed. */
#ifndef CLS_ARGS_H
#define CLS_ARGS_H

#include "core/outputs.h"
#include "core/types.h"

#define CLS_BY_VALUE_SIZE 1024 /* bytes: what all kernels' arguments fit that have the struct */

#define CLS_ARGS_BLOCK 128 /* bytes: the largest pattern of clEnqueueFillBuffer() */
#define CLS_ARGS_BLOCKS 5
typedef struct cls_args {
    /* The shape of the sampler and of the rows, and their inputs. Offsets and strides are in
     * elements. */
    u32 vocab, n_slots, layout, scratch_stride;
    u32 tiles_per_group;
    u32 has;
    i32 invalid_token;
    u32 n_end; /* of infill */
    u32 mask_width, mask_rows, bias_rows;
    f32 bias_factor;
    cls_wide logits_offset, row_stride;
    cls_wide mask_offset, mask_stride, bias_offset, bias_stride;
    cls_wide slot_map_offset, mask_map_offset, bias_map_offset;
    cls_wide random_offset;
    /* Further inputs of the draw, and where its results go. */
    cls_wide positions_offset, draws_offset;
    cls_wide tokens_offset, status_out_offset, latest_offset;
    cls_wide draft_ids_offset, draft_offset, draft_stride;
    u32 draft_kind;
    u32 nodes, parents,
        firsts; /* offsets in the rows' maps: see cls_map in lib/sampler/sampler.h */
    u32 method, n_rows, bonus, max_drafts;
    i32 epsilon, delta;
    u32 logits_rows; /* rows of logits in the buffer, where a map names them */
    u32 per_row;     /* tokens of a row of cls_accept() */
    /* The outputs: bits of CLS_WANTS(), for a cls_output or a cls_verified, and the offset of
     * each. */
    cls_wide output_offset[CLS_VERIFIED];
    u32 wants, top_n, given_n, candidates_n;
    u32 given_each;   /* ids that a group of the report handles */
    u32 set_capacity; /* ids of a row's kept set; with offsets those of all rows */
    cls_wide logits_map_offset;
    u32 first, last; /* a row's tokens, or those of a shard: first to last - 1 */
    u32 shards, partial_words, whole_tiles; /* of a shard; the bytes of a partial as words */
    u32 requests;                           /* of cls_verify() and cls_draft() */
    u32 min_n, max_n, drafts;               /* of cls_draft(); its draft_ids are at tokens_offset */
    cls_wide ids_stride;
    cls_wide ids_apart, draft_apart; /* from request to request; 0: drafts follow each other */
    cls_wide counts_offset, rollback_offset; /* of cls_accept() */
    u32 grammar_rows;                        /* see grammar_row_words() */
    u32 reserved_3[18];
} cls_args;
/* C and OpenCL C must agree on the size. */
typedef char cls_args_size[sizeof(cls_args) == CLS_ARGS_BLOCK * CLS_ARGS_BLOCKS ? 1 : -1];

/* What a step has: the bits of cls_args.has. */
enum {
    CLS_HAS_MASK = 1,
    CLS_HAS_SLOT_MAP = 2,
    CLS_HAS_MASK_MAP = 4,
    CLS_HAS_POSITIONS = 8,
    CLS_HAS_RANDOM = 16,
    CLS_HAS_TOKENS = 32,
    CLS_HAS_STATUS = 64,
};
/* The kernel changes nothing in the slots but the pending token. With CLS_ACCEPTS_LATER not even
 * that: a later kernel of the step accepts the token, or keeps it as the pending one. */
enum {
    CLS_DEFER = 128,
    CLS_ACCEPTS_LATER = 1024,
    CLS_RAW = 256,          /* survey the raw logits at scale log2(e), with their mass */
    CLS_FORCE_SEARCH = 512, /* for tests: no truncated row may use the shortlist */
    CLS_MASK_BYTES = 2048,  /* the mask has a byte for each token, not a bit */
    CLS_HAS_BIAS = 4096,    /* there is a dense bias, in float32, */
    CLS_BIAS_F16 = 8192,    /* or, with this bit, in float16 */
    CLS_HAS_BIAS_MAP = 16384,
    CLS_HAS_DRAWS = 32768,
    CLS_HAS_LATEST = 65536,
};
/* In row_logits.masked beside CLS_HAS_MASK: only the tokens of the slot's bitmap may be drawn. */
enum {
    CLS_MASK_LIST = 131072,
    CLS_DRAFTS = 0x40000,          /* rows follow drafts */
    CLS_RAW_MASS = 0x100000,       /* the raw rows are the rows: one survey serves both */
    CLS_POSITIONS_ADD = 0x80000,   /* a row's position is its slot's plus the one given */
    CLS_HAS_LOGITS_MAP = 0x200000, /* rows may share rows of logits */
    CLS_HAS_COUNTS = 0x2000000,    /* of cls_accept() */
    CLS_HAS_ROLLBACK = 0x4000000,
    CLS_MERGED = 0x800000, /* the logits are adjusted: shards merged them */
};
/* Beside CLS_HAS_BIAS: it is in bfloat16; it is multiplied by bias_factor. Bits of `has`, since
 * kernels keep that anyway. */
enum {
    CLS_BIAS_BF16 = 0x1000000,
    CLS_BIAS_SCALED = 0x8000000,
};
#define CLS_BIAS_KINDS (CLS_HAS_BIAS | CLS_BIAS_F16 | CLS_BIAS_BF16 | CLS_BIAS_SCALED)
#define CLS_DRAWN \
    0x400000u                      /* the first word of an untruncated row's sample is its token, \
                                      or -1: a shard drew it */
#define CLS_HAS_SEARCH 0x10000000u /* the pass and the search follow */
#define CLS_WIDE 0x80000000u       /* rows of logits start at multiples of 16 bytes */
#define CLS_NO_SLOTS 0x40000000u   /* the rows belong to no request: log-probabilities of prompts */

#endif
