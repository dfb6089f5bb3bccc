/* SPDX-License-Identifier: MIT */
/* Runs the same calls on an unsharded sampler and on the shards of a split, and compares everything
 * that they write, byte for byte. */
#ifndef TESTS_TWIN_H
#define TESTS_TWIN_H

#include "split.h"

enum { TWIN_OWNED = 24 };

/* One of the samplers. */
typedef struct twin_side {
    device *d;
    cl_command_queue queue; /* d->queue, until the test chooses another one */
    cls_sampler *sampler;
    cls_shard *shard; /* NULL: the whole vocabulary */
    uint32_t first, width;
    cls_step step;
    cls_outputs outputs;
    cl_mem owned[TWIN_OWNED]; /* buffers, released by twin_close() */
    uint32_t n_owned;
    cls_buffer results;   /* everything that steps write */
    unsigned char *bytes; /* the results of the last step */
} twin_side;

/* The parts of the results: elements of 4 bytes. */
enum { TWIN_TOKENS, TWIN_STATUS, TWIN_LATEST, TWIN_RESULTS };

/* The choices of a test; zeroes are the usual ones. */
typedef struct twin_setup {
    uint32_t n;                   /* shards; 0: no shards */
    const uint32_t *borders;      /* [n + 1], or NULL for the default */
    int on_device;                /* 1: partials stay there */
    cls_context *const *contexts; /* [1 + n], or NULL for the device's own */
    device *const *devices;       /* [1 + n], or NULL for the same one */
} twin_setup;

typedef struct twin {
    batch *b;
    uint32_t n, slots;
    const char *where;
    twin_side side[1 + SPLIT_MOST];        /* side 0 has the whole vocabulary, side 1 is shard 0 */
    uint32_t sides;                        /* 1 + n */
    size_t offset[TWIN_RESULTS + 1], size; /* of the results, in bytes */
    unsigned char *partials;               /* of the last exchange */
    size_t partials_size;
    uint32_t faults; /* differences so far, each of which is printed */
} twin;

/* Creates the samplers, which have twice as many slots as the batch has rows and can roll back 8
 * tokens, and begins the batch's requests in the first slots. */
void twin_open(twin *t, device *d, batch *b, const twin_setup *setup, const char *where);
/* Releases everything, and fails if a comparison found a difference. */
void twin_close(twin *t);

/* Does something on the sampler of each side, which is `s`. */
#define twin_each(t, s, call) \
    for (uint32_t twin_i = 0; twin_i < (t)->sides; twin_i++) { \
        twin_side *const s = &(t)->side[twin_i]; \
        must(call); \
    }

/* Returns a buffer of a side with these contents. */
cl_mem twin_buffer(twin_side *s, size_t size, const void *contents);

/* Opens a step on all shards. */
void twin_begin(twin *t);
/* Brings the partials of all shards together. */
void twin_exchange(twin *t);
/* Exchanges and merges until the shards' step is complete. */
void twin_finish(twin *t);
/* Samples the step on the unsharded sampler, reads the results of all sides and compares them. */
void twin_compare(twin *t);
/* Does all of this. */
void twin_step(twin *t);

/* Returns a row's token or status in the last step of the unsharded sampler. */
int32_t twin_token(const twin *t, uint32_t row);
int32_t twin_status(const twin *t, uint32_t row);

#endif
