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
    f32 softcap, softcap_reciprocal;         /* 0: none; 1 / softcap, as the host rounds it */
    cls_wide draft_tokens_offset, draft_probs_offset, draft_map_offset;
    u32 draft_width, draft_vocab; /* of sparse distributions */
    u32 reserved_3[8];
} cls_args;
/* C and OpenCL C must agree on the size. */
typedef char cls_args_size[sizeof(cls_args) == CLS_ARGS_BLOCK * CLS_ARGS_BLOCKS ? 1 : -1];

/* What a step has: the bits of cls_args.has. Where a kernel looks at the mask and the dense bias of
 * a row, row_logits.masked and .dense have the bits of these. */
enum {
    /* maps from rows */
    CLS_HAS_SLOT_MAP = 1 << 0,
    CLS_HAS_LOGITS_MAP = 1 << 1, /* rows may share rows of logits */
    CLS_HAS_MASK_MAP = 1 << 2,
    CLS_HAS_BIAS_MAP = 1 << 3,
    CLS_HAS_POSITIONS = 1 << 4,
    CLS_POSITIONS_ADD = 1 << 5, /* a row's position is its slot's plus the one given */
    CLS_HAS_DRAWS = 1 << 6,
    CLS_HAS_RANDOM = 1 << 7,
    CLS_HAS_COUNTS = 1 << 8, /* of cls_accept() */
    CLS_HAS_ROLLBACK = 1 << 9,

    /* logits, masks and biases */
    CLS_WIDE = 1 << 10, /* rows of logits start at multiples of 16 bytes */
    CLS_HAS_MASK = 1 << 11,
    CLS_MASK_BYTES = 1 << 12,  /* the mask has a byte for each token, not a bit */
    CLS_MASK_LIST = 1 << 13,   /* of row_logits.masked alone: only the slot's bitmap is allowed */
    CLS_HAS_BIAS = 1 << 14,    /* there is a dense bias, in float32, */
    CLS_BIAS_F16 = 1 << 15,    /* in float16 */
    CLS_BIAS_BF16 = 1 << 16,   /* or in bfloat16, */
    CLS_BIAS_SCALED = 1 << 17, /* and it is multiplied by bias_factor */
    CLS_BIAS_KINDS = CLS_HAS_BIAS | CLS_BIAS_F16 | CLS_BIAS_BF16 | CLS_BIAS_SCALED,

    /* outputs */
    CLS_HAS_TOKENS = 1 << 18,
    CLS_HAS_STATUS = 1 << 19,
    CLS_HAS_LATEST = 1 << 20,

    /* what the rows are */
    CLS_DRAFTS = 1 << 21,   /* they follow drafts */
    CLS_NO_SLOTS = 1 << 22, /* they belong to no request: log-probabilities of prompts */
    CLS_MERGED = 1 << 23,   /* their logits are adjusted: shards merged them */
    CLS_RAW = 1 << 24,      /* survey the raw logits at scale log2(e), with their mass */
    CLS_RAW_MASS = 1 << 25, /* the raw rows are the rows: one survey serves both */
    CLS_DRAWN = 1 << 26,    /* the first word of an untruncated row's sample is its token, or -1: a
                               shard drew it */

    /* what follows */
    CLS_HAS_SEARCH = 1 << 27,    /* the pass and the search */
    CLS_FORCE_SEARCH = 1 << 28,  /* for tests: no truncated row may use the shortlist */
    CLS_DEFER = 1 << 29,         /* nothing changes in the slots but the pending token, */
    CLS_ACCEPTS_LATER = 1 << 30, /* and not even that: a later kernel of the step accepts the token,
                                    or keeps it as the pending one */
};

#endif
