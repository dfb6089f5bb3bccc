/* SPDX-License-Identifier: MIT */
/* Drafts of several requests with all that decides which of them are accepted:
 * random ones, and what the reference makes of them. */
#ifndef TESTS_DRAFTS_H
#define TESTS_DRAFTS_H

#include "batch.h"

typedef struct drafts {
    uint32_t n;     /* requests */
    uint32_t total; /* drafts of all of them */
    uint32_t most;  /* ... of one */
    batch
        *requests; /* a row each: its parameters and tokens; its logits serve a step that follows */
    batch *rows;   /* the target rows: logits, masks, dense biases */
    batch *q;      /* a row a draft: what it was drawn from, or supposedly */
    int32_t *cu;   /* [n + 1] */
    int32_t *ids;  /* [total] */
    int32_t *parents;           /* [total] of trees, or NULL */
    int32_t *slots;             /* [n]; -1 skips one */
    int32_t *positions, *draws; /* [n], or NULL */
    int method, kind, disable_bonus;
    float epsilon, delta;
    cls_host_verified *host; /* [n] the reference's */
} drafts;

/* lengths: [n], how many drafts each has. Neutral in everything; the target rows'
 * values are to be filled, by batch_row() for one. Request i has slot i. */
drafts *drafts_new(uint32_t n, const uint32_t *lengths, uint32_t vocab, int dtype, int kind,
                   rng *r);
void drafts_free(drafts *d);

/* The same of random lengths, rows, requests, masks, biases, methods. */
drafts *drafts_random(uint32_t n, uint32_t vocab, int method, rng *r);
/* Random drafts with their distributions: many are what the target would draw. */
void drafts_choose(drafts *d, rng *r);

/* How many drafts a request has, and which is its first one. */
uint32_t drafts_count(const drafts *d, uint32_t i);
uint32_t drafts_first(const drafts *d, uint32_t i);
/* Puts values into a row of a batch. */
void drafts_values(batch *b, uint32_t row, const float *values);
/* The row of a request by cls_host_sample(), with n tokens more of output. */
void drafts_sample(const drafts *d, uint32_t i, uint32_t row, const int32_t *path, uint32_t n,
                   cls_host_result *result);
/* Whether the request takes one token a call. */
int drafts_one_a_call(const drafts *d, uint32_t i);

/* The reference's results. A request without a slot: nothing, skipped. */
void drafts_reference(drafts *d);
/* What was emitted becomes output of the requests, and their modes move on. */
void drafts_accept(drafts *d);
/* A request in words: for messages. Static memory. */
const char *drafts_words(const drafts *d, uint32_t i);

#endif
