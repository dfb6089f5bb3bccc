/* SPDX-License-Identifier: MIT */
/* Random drafts of several requests, with everything that decides which of them are accepted, and
 * the reference's results. */
#ifndef TESTS_DRAFTS_H
#define TESTS_DRAFTS_H

#include "batch.h"

typedef struct drafts {
    uint32_t n;       /* requests */
    uint32_t total;   /* drafts of all requests */
    uint32_t most;    /* the most drafts of one request */
    batch *requests;  /* one row per request: parameters, tokens, and the logits of a later step */
    batch *rows;      /* the target rows: logits, masks, dense biases */
    batch *q;         /* one row per draft: the distribution that it claims to be drawn from */
    int32_t *cu;      /* [n + 1] */
    int32_t *ids;     /* [total] */
    int32_t *parents; /* [total] if drafts are trees, otherwise NULL */
    int32_t *slots;   /* [n]; -1 skips one */
    int32_t *positions, *draws; /* [n], or NULL */
    int method, kind, disable_bonus;
    float epsilon, delta;
    uint32_t features;  /* of the sampler, beside those that all verifications need */
    one_verified *host; /* [n] the reference's results */
    /* [n, width] what it reports on tokens, or NULL with width 0; kept_ids: [n, width, capacity] */
    uint32_t width, capacity, *kept_counts;
    float *logprobs[2]; /* raw and final */
    int32_t *token_status, *kept_ids;
} drafts;

/* Allocates n requests with neutral parameters; request i has lengths[i] drafts and slot i. The
 * caller fills the target rows, for example by batch_row(). */
drafts *drafts_new(uint32_t n, const uint32_t *lengths, uint32_t vocab, int dtype, int kind,
                   rng *r);
void drafts_free(drafts *d);

/* Allocates drafts with random lengths, rows, requests, masks and biases. */
drafts *drafts_random(uint32_t n, uint32_t vocab, int method, rng *r);
/* Chooses random drafts and their distributions; many drafts are tokens that the target would draw.
 */
void drafts_choose(drafts *d, rng *r);

/* Return the number of a request's drafts, and the index of the first. */
uint32_t drafts_count(const drafts *d, uint32_t i);
uint32_t drafts_first(const drafts *d, uint32_t i);
/* Stores values in a row of a batch. */
void drafts_values(batch *b, uint32_t row, const float *values);
/* Samples a target row of a request by one_sample(), with n further output tokens. */
void drafts_sample(const drafts *d, uint32_t i, uint32_t row, const int32_t *path, uint32_t n,
                   one_result *result);
/* Returns whether the request accepts at most one token per call. */
int drafts_one_a_call(const drafts *d, uint32_t i);

/* Makes the reference report on tokens, with kept sets of a capacity, in `width` places of each
 * request. */
void drafts_report(drafts *d, uint32_t width, uint32_t capacity);

/* Computes the reference's results. A request without a slot is skipped. */
void drafts_reference(drafts *d);
/* Appends the emitted tokens to the requests' outputs and updates their adaptive states. */
void drafts_accept(drafts *d);
/* Describes a request for messages, in static memory. */
const char *drafts_words(const drafts *d, uint32_t i);

#endif
