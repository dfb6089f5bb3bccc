/* SPDX-License-Identifier: MIT */
/* Shards: a step whose logits are spread over several devices. Each shard computes a partial, the
 * partials of all shards are brought together by the caller, and each shard merges them. */
#ifndef CLS_SHARD_PRIVATE_H
#define CLS_SHARD_PRIVATE_H

#include "step/step.h"

/* What a step exchanges. */
enum cls_protocol {
    CLS_PROTOCOL_LOGITS, /* whole rows of logits: one exchange, for any step */
    CLS_PROTOCOLS
};

struct cls_shard {
    cls_sampler *sampler;
    uint32_t shards, shard;
    uint32_t *borders;             /* [shards + 1] */
    uint32_t first, width, widest; /* its tokens, and how many the largest shard has */

    /* The open step. */
    int open;
    int gathers; /* 1 if the step is a cls_shard_gather() */
    enum cls_protocol protocol;
    uint32_t exchange; /* number of the current exchange, from 1 */
    cl_command_queue queue;
    cls_plan plan;
    uint64_t digest;
    uint64_t completed; /* steps that were complete before it */

    /* The partial of the current exchange: a header and a body. */
    cls_host_buffer partial; /* `used` bytes */
    cl_event ready;          /* when the body is there */

    /* Rows of the whole vocabulary that were gathered. */
    cls_device_buffer gathered;
    cls_logits logits; /* of the last gather; buffer NULL: none */
};

/* ------------------------------------------------------------- create.c */

/* ------------------------------------------------------------ partial.c */

/* The beginning of a partial. Numbers are in the byte order of the host. */
typedef struct cls_partial_header {
    uint32_t magic, version;
    uint64_t step; /* steps that were complete before this one */
    uint32_t exchange, protocol, shard, shards, rows, vocab;
    uint64_t digest;   /* of what the step must have in common on all shards */
    uint64_t size;     /* of the whole partial, in bytes */
    uint64_t checksum; /* of the body, and of the fields above */
} cls_partial_header;

/* Returns the digest of a shard's open step. */
uint64_t cls_shard_step_digest(const cls_shard *shard);

/* Makes room for a partial with a body of so many bytes. Fails if memory runs out. */
cls_status cls_partial_reserve(cls_shard *shard, size_t body);

/* Completes the partial: writes its header. */
void cls_partial_seal(cls_shard *shard);

/* Returns the body of a partial. */
static inline void *cls_partial_body(const void *partial)
{
    return (char *)(uintptr_t)partial + sizeof(cls_partial_header);
}

/* Checks the partials of all shards. Fails if one is damaged, or belongs to another step. */
cls_status cls_partials_check(const cls_shard *shard, const void *partials, size_t size);

/* ------------------------------------------------------------- gather.c */

/* Enqueues the reading of the shard's logits to its partial. Fails if memory runs out or OpenCL
 * does. */
cls_status cls_gather_open(cls_shard *shard, cl_uint n_wait, const cl_event *wait);

/* Puts the logits of all partials into rows of the whole vocabulary, which the plan then has. Waits
 * until they are on the device. Fails if memory runs out or OpenCL does. */
cls_status cls_gather_merge(cls_shard *shard, const void *partials);

#endif
