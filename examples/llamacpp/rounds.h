/* SPDX-License-Identifier: MIT */
/* Requests that are decoded together, each with its own parameters, with drafts from its own text.
 */
#ifndef ROUNDS_H
#define ROUNDS_H

#include "engine.h"

typedef struct request {
    const char *name, *prompt;
    cls_params params;
    int32_t feed[MAX_TOKENS]; /* tokens that the model has not seen: the prompt, or the last one */
    uint32_t feed_count;
    int32_t drafts[DRAFTS]; /* behind them */
    uint32_t draft_count;
    uint32_t past; /* tokens that it has seen */
    bool ended;
    char text[4096];
    uint32_t tokens, drafted, accepted;
    double logprobs; /* of the tokens, added */
} request;

/* Begins the requests in the slots of both sides, and clears the model's memory. */
void begin(engine *e, request *requests, uint32_t n);

/* Decodes a token of each request that has not ended, and its drafts; verifies, and looks up the
 * next drafts, unless `drafts` is false. With `check` the host does the same with the same logits.
 * Returns the number of requests that took part; *differ counts those whose results differ. */
uint32_t step(engine *e, request *requests, uint32_t n, bool drafts, bool check, uint32_t *differ);

/* The requests of mode_requests(), of which there are `*n`. */
request *requests_of(const model *m, uint32_t tokens, uint32_t *n);

#endif /* ROUNDS_H */
