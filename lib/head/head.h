/* SPDX-License-Identifier: MIT */
/* What the files of libclsample-head share. Of libclsample they use its public calls and
 * lib/private.h, and nothing else. */
#ifndef CLS_HEAD_H
#define CLS_HEAD_H

#include "base/hooks.h"
#include "private.h"

#include "clsample/head.h"

#define CLS_HEAD_MOST_TOKENS 1048576 /* of a vocabulary, as for samplers */
#define CLS_HEAD_LANES 16 /* work-items that share a dot product, where a group has several */
#define CLS_HEAD_SUMS 16  /* at most rows x tokens, the logits that a work-item keeps sums for */
#define CLS_HEAD_FINISH_TOKENS 1024 /* FINISH_TOKENS in cl/head/head.cl */
#define CLS_HEAD_STAGING 16         /* uploads in flight */

/* What multiplies float32 weights on all devices, if it is not CLS_HEAD_BY_DEVICE. */
CLS_TEST_HOOK(int, head_product);

extern const char *const cls_source_head[];
extern const unsigned cls_source_head_count;

enum cls_head_kernel { CLS_HEAD_GATHER, CLS_HEAD_PRODUCT, CLS_HEAD_FINISH, CLS_HEAD_KERNELS };

/* An upload in flight: a map that must not change until `done`. */
typedef struct cls_head_staging {
    cl_event done; /* NULL: free */
    int32_t *map;  /* [max_rows] */
} cls_head_staging;

struct cls_head {
    cl_context cl;       /* the context's, which retains both */
    cl_device_id device; /* ... */
    uint32_t vocab, hidden, max_rows;
    int32_t dtype;
    cls_buffer weight, bias;                            /* bias absent: none */
    cls_pointer_calls calls[CLS_BUFFER_KINDS];          /* of the pointers that there were so far */
    uint64_t weight_offset, weight_stride, bias_offset; /* elements */
    float scale, softcap;

    int clblast;                  /* CLBlast multiplies, and not the library's kernel */
    uint32_t vector;              /* VEC of cl/head/head.cl */
    uint32_t group, rows, tokens; /* ... WGS, ROWS and TOKENS */
    cl_kernel kernel[CLS_HEAD_KERNELS];
    cl_mem scratch; /* float32 [max_rows rounded up to a multiple of `rows`][hidden] */
    cl_mem map;     /* int32 [max_rows]: the call's map, if it came from the host */

    int32_t *sent; /* the map that the device has */
    uint32_t sent_rows;
    cls_head_staging staging[CLS_HEAD_STAGING];
    cl_event last; /* the last call's end */
    cl_command_queue last_queue;
};

/* What multiplies. */
enum { CLS_HEAD_BY_DEVICE, CLS_HEAD_OWN_KERNEL, CLS_HEAD_CLBLAST };

/* --------------------------------------------------------------- clblast.c */

/* Whether CLBlast can address a matrix of rows a stride apart that begins at element `offset`: its
 * kernels count elements in 32 bits. */
int cls_head_clblast_fits(uint64_t offset, uint64_t rows, uint64_t stride);

/* Enqueues logits [max_rows, vocab] = scale x scratch x weight^T. */
cls_status cls_head_clblast(const cls_head *head, cl_command_queue queue, cl_mem logits,
                            uint64_t logits_offset);

#endif
