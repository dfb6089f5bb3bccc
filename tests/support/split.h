/* SPDX-License-Identifier: MIT */
/* Runs the steps of a client's batch on several shards in one process. */
#ifndef TESTS_SPLIT_H
#define TESTS_SPLIT_H

#include "client.h"

enum { SPLIT_MOST = 64, SPLIT_EXCHANGES = 8 };

typedef struct splits {
    client *client; /* whose batch and step the shards share */
    uint32_t n;
    cls_sampler *sampler[SPLIT_MOST];
    cls_shard *shard[SPLIT_MOST];
    cls_step step[SPLIT_MOST]; /* with the shard's own logits, tokens and status */
    uint32_t first[SPLIT_MOST], width[SPLIT_MOST];

    /* What the last step exchanged: the number of exchanges, and the bytes of each partial. */
    uint32_t exchanges;
    size_t bytes[SPLIT_EXCHANGES];
    unsigned char *partials; /* of the last exchange, of all shards */
    size_t size;
} splits;

/* Writes a shard's columns of the batch's logits to its buffer, which is created if there is none.
 * Rows have an odd stride, and begin at an offset. */
void split_logits(const batch *b, device *d, uint32_t first, uint32_t width, cls_logits *out);

/* Brings the current partials of n shards together. Returns the size of one. */
size_t split_gather(cls_shard *const *shards, uint32_t n, unsigned char **partials, size_t *size);

/* Creates a shard for each border, all at the requests' beginning. borders: [n + 1], or NULL for
 * the default. contexts: [n], so that shards may differ in shape. */
void split_open(splits *p, client *s, cls_context *const *contexts, uint32_t n,
                const uint32_t *borders);
void split_close(splits *p);

/* Opens the client's next step on all shards. */
void split_begin(splits *p);
/* Brings the current partials of all shards together in p->partials. */
void split_exchange(splits *p);
/* Exchanges and merges until the step is complete. */
void split_finish(splits *p);
/* Does all of this. */
void split_step(splits *p);

/* Reads one shard's tokens, status and row records into the batch. */
void split_tokens(splits *p, uint32_t shard);

/* Writes random borders of n shards: ascending, from 0 to vocab. even: as equal as possible. */
void split_borders(uint32_t vocab, uint32_t n, int even, rng *r, uint32_t *borders);

#endif
