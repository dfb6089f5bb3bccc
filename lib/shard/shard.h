/* SPDX-License-Identifier: MIT */
/* Shards: a step whose logits are spread over several devices. Each shard computes a partial, the
 * partials of all shards are brought together by the caller, and each shard merges them. */
#ifndef CLS_SHARD_PRIVATE_H
#define CLS_SHARD_PRIVATE_H

#include "step/step.h"

/* What a step exchanges. */
enum cls_protocol {
    CLS_PROTOCOL_LOGITS, /* whole rows of logits: one exchange, for any step */
    CLS_PROTOCOL_ROWS    /* of each row what its parameters need (core/shards.h) */
};

/* How the first truncation of a row bounds its set, and so what its exchanges are. */
enum cls_row_kind {
    CLS_EXCHANGE_LIST,  /* a number of tokens from the top, which all shards send at once */
    CLS_EXCHANGE_PLAIN, /* nothing is truncated: the masses of tiles, then the drawn token */
    CLS_EXCHANGE_KEY,   /* min-p: the largest logit, then the tokens above the cut */
    CLS_EXCHANGE_MASS,  /* top-p: masses of tiles, masses above edges, the tokens above one of them
                         */
    CLS_EXCHANGE_COUNT, /* a large top-k: the same with counts */
    CLS_EXCHANGE_LOGITS /* more of the row must be known: all adjusted logits */
};

/* A row of the open step. */
typedef struct cls_row_exchange {
    enum cls_row_kind kind;
    uint32_t target; /* top_p or top_k */
    float min_p;     /* as a depth */
    uint64_t goal;   /* the mass or the number of tokens that the set must reach */
} cls_row_exchange;

struct cls_shard {
    cls_sampler *sampler;
    uint32_t shards, shard;
    uint32_t *borders;             /* [shards + 1] */
    uint32_t first, width, widest; /* its tokens, and how many the largest shard has */
    int on_device;                 /* 1 if partials are read to the host only when asked for */

    /* The open step. */
    int open;
    int gathers; /* 1 if the step is a cls_shard_gather() */
    enum cls_protocol protocol;
    uint32_t exchange; /* number of the current exchange, from 1 */
    cl_command_queue queue;
    cls_plan plan;
    uint64_t digest;
    uint64_t completed; /* steps that were complete before it */

    /* The rows of the open step, and what each sends and merges in the current exchange. */
    cls_row_exchange *exchanges;      /* [max_rows] */
    cls_shard_row *rows, *next;       /* [max_rows]; next: of the exchange that follows */
    cls_shard_row *written;           /* [max_rows]; those in rows_buffer, after all uploads */
    uint32_t written_rows;            /* how many of them are known */
    uint32_t whole_tiles, cut_tokens; /* the most of any shard */

    /* On the device: the survey of the shard's own logits, and of the merged rows. */
    cl_mem own[3], merged[3]; /* [max_rows]: keys of max tiles, masses and flags of tiles */
    cl_mem merged_logits;     /* float [max_rows][tiles * CLS_TILE] */
    cl_mem rows_buffer, borders_buffer;
    cls_device_buffer sent, received; /* the body of the partial; all partials */
    cls_host_buffer merging;          /* the partials while they are uploaded */

    /* The partial of the current exchange: a header and a body. */
    cls_host_buffer partial; /* `used` bytes */
    cl_event ready;          /* when the body is there; NULL: it is not on its way, or complete */
    int sealed;              /* 1 if the partial is complete */
    cl_event computed;       /* of the kernel that writes the body on the device, or NULL */

    /* Rows of the whole vocabulary that were gathered. */
    cls_device_buffer gathered;
    cls_logits logits; /* of the last gather; values.buffer NULL: none */
};

/* ------------------------------------------------------------ partial.c */

/* The beginning of a partial. Numbers are in the byte order of the host. */
typedef struct cls_partial_header {
    uint32_t magic;
    uint16_t version, shortlist; /* of the device */
    uint64_t step;               /* steps that were complete before this one */
    uint32_t exchange, protocol, shard, shards, rows, vocab;
    uint64_t digest;   /* of what the step must have in common on all shards */
    uint64_t size;     /* of the whole partial, in bytes */
    uint64_t checksum; /* of the body, and of the fields above */
} cls_partial_header;

typedef char cls_partial_header_size
    [sizeof(cls_partial_header) == CLS_PARTIAL_HEADER_WORDS * sizeof(uint32_t) ? 1 : -1];

/* Returns the digest of a shard's open step. */
uint64_t cls_shard_step_digest(const cls_shard *shard);

/* Returns a digest of the borders of all shards. */
uint64_t cls_shard_borders(const cls_shard *shard);

/* Writes what else may make two shards' steps differ, for messages: one of their shortlists does
 * not hold a top_k. The text is empty if the shortlists are equal. */
#define CLS_SHORTLISTS_SIZE 200
void cls_shortlists_describe(char text[CLS_SHORTLISTS_SIZE], uint32_t theirs, uint32_t ours);

/* Makes room for a partial with a body of so many bytes. Fails if memory runs out. */
cls_status cls_partial_reserve(cls_shard *shard, size_t body);

/* Completes the partial: writes its header. */
void cls_partial_seal(cls_shard *shard);

/* Returns the body of a partial. */
static inline void *cls_partial_body(const void *partial)
{
    return (char *)(uintptr_t)partial + sizeof(cls_partial_header);
}

/* Returns the body of shard i's partial. */
static inline const uint32_t *cls_partial_words(const cls_shard *shard, const void *partials,
                                                uint32_t i)
{
    return (const uint32_t *)(const void *)((const char *)partials + i * shard->partial.used +
                                            sizeof(cls_partial_header));
}

/* Checks the partials of all shards. Fails if one is damaged, or belongs to another step. */
cls_status cls_partials_check(const cls_shard *shard, const void *partials, size_t size);

/* ------------------------------------------------------------- decide.c */

/* Decides what the open step exchanges, and what each row sends first. */
enum cls_protocol cls_rows_decide(cls_shard *shard);

/* Decides from all partials what each row sends next, in shard->next. Returns 0 if no row sends
 * anything more. All shards decide alike, since it depends on nothing but the partials and the
 * parameters. */
int cls_rows_next(cls_shard *shard, const void *partials);

/* Places the rows' sections one after another; returns the size of a body in words. The offsets are
 * right if 32 bits hold that. */
uint64_t cls_rows_place(cls_shard *shard);

/* --------------------------------------------------------------- rows.c */

/* Allocates what the exchange of rows needs, and compiles the programs. */
cls_status cls_rows_create(cls_shard *shard);
void cls_rows_destroy(cls_shard *shard);

/* Waits for the queue of the last merge, since its upload reads the partials' copy. Waiting may
 * fail by itself, so it is tried twice; if a lost device may still be reading, that copy is neither
 * freed nor used again. The queue may be NULL. */
void cls_rows_finish(cls_shard *shard, cl_command_queue queue);

/* Enqueues the step up to its first partial. */
cls_status cls_rows_open(cls_shard *shard, cl_uint n_wait, const cl_event *wait);

/* Returns 1 if the open step is complete after its first exchange, whatever the logits are. */
int cls_rows_are_single(const cls_shard *shard);

/* Reads the partial's body from the device. Waits. Returns OpenCL's error code. */
cl_int cls_rows_read(cls_shard *shard);

/* Merges the partials of n shards, this one's too, from device to device, and enqueues the end of
 * the step. */
cls_status cls_rows_merge_all(cls_shard *shard, cls_shard *const *shards, cl_event *done);

/* Merges the partials. Enqueues the next partial if one follows, otherwise the end of the step. */
cls_status cls_rows_merge(cls_shard *shard, const void *partials, int *more, cl_event *done);

/* ------------------------------------------------------------- gather.c */

/* Enqueues the reading of the shard's logits to its partial. Fails if memory runs out or OpenCL
 * does. */
cls_status cls_gather_open(cls_shard *shard, cl_uint n_wait, const cl_event *wait);

/* Puts the logits of all partials into rows of the whole vocabulary, which the plan then has. Waits
 * until they are on the device. Fails if memory runs out or OpenCL does. */
cls_status cls_gather_merge(cls_shard *shard, const void *partials);

#endif
