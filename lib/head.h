/* SPDX-License-Identifier: MIT */
/* What the files of the LM head know of each other. */
#ifndef CLS_HEAD_H
#define CLS_HEAD_H

#include "queue/queue.h"

#define CLS_HEAD_LANES 16 /* work-items that share a dot product, where a group has several */
#define CLS_HEAD_SUMS 16  /* at most rows x tokens, the logits that a work-item keeps sums for */
#define CLS_HEAD_FINISH_TOKENS 1024 /* as FINISH_TOKENS in cl/kernels/head.cl */

extern const char *const cls_source_head[];
extern const unsigned cls_source_head_count;

enum cls_head_kernel { CLS_HEAD_GATHER, CLS_HEAD_PRODUCT, CLS_HEAD_FINISH, CLS_HEAD_KERNELS };

/* One upload under way: a map that must not change until `done`. */
typedef struct cls_head_staging {
    cl_event done; /* NULL: free */
    int32_t *map;  /* [max_rows] */
} cls_head_staging;

struct cls_head {
    cls_context *context;
    uint32_t vocab, hidden, max_rows;
    int32_t dtype;
    cl_mem weight, bias;                                /* bias NULL: none */
    uint64_t weight_offset, weight_stride, bias_offset; /* elements */
    float scale, softcap;

    uint32_t group, rows, tokens; /* WGS, ROWS and TOKENS of cl/kernels/head.cl */
    cl_kernel kernel[CLS_HEAD_KERNELS];
    cl_mem scratch; /* float32 [max_rows and up to a multiple of `rows`][hidden] */
    cl_mem map;     /* int32 [max_rows]: the call's host map */

    int32_t *sent; /* the map that the device has */
    uint32_t sent_rows;
    cls_head_staging staging[CLS_STAGING];
    cl_event last; /* the last call's end */
    cl_command_queue last_queue;
};

/* ---------------------------------------------------------- head_clblast.c */

/* CLBlast's kernels count elements in 32 bits: tells whether a matrix that
 * begins at an element and has rows a stride apart is within that. */
int cls_head_clblast_fits(uint64_t offset, uint64_t rows, uint64_t stride);

/* Enqueues logits [max_rows, vocab] = scale x scratch x weight^T. */
cls_status cls_head_clblast(const cls_head *head, cl_command_queue queue, cl_mem logits,
                            uint64_t logits_offset);

#endif
