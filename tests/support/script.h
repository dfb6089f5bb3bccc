/* SPDX-License-Identifier: MIT */
/* Requests that follow a script, which depends only on their number: parameters, prompt, and the
 * samples before which parameters change, tokens are rolled back, prompt is appended or ids are
 * forced. The same calls run a request among others and alone. */
#ifndef TESTS_SCRIPT_H
#define TESTS_SCRIPT_H

#include "fixture.h"
#include "rows/kinds.h"

#define SCRIPT_LIFE 120 /* most samples of a request */
#define SCRIPT_CHANGES 6
#define SCRIPT_PROMPT 40
#define SCRIPT_LIST 8

typedef enum change_kind {
    CHANGE_PARAMS,
    CHANGE_ROLLBACK,
    CHANGE_APPEND,
    CHANGE_FORCE,
    CHANGE_KINDS
} change_kind;

typedef struct script_change {
    uint32_t at; /* the change comes before this sample */
    change_kind what;
    uint64_t number; /* the seed of the change */
} script_change;

typedef struct request {
    uint32_t number, life;
    cls_params params; /* its lists point to the arrays below */
    cls_logit_bias bias[SCRIPT_LIST];
    int32_t stop[SCRIPT_LIST];
    int32_t start[2], end[2][2], finish[3]; /* of a thinking budget */
    cls_ids ends[2];
    script_change change[SCRIPT_CHANGES];
    uint32_t n_changes, next; /* next: index of the next change */
    uint32_t samples;

    /* Counted by the host, which does not know of stops: output tokens, output tokens since the
     * last prompt, all tokens, and the largest number of tokens so far. */
    uint32_t outputs, since, length, longest;
} request;

/* What scripts depend on besides their number. */
typedef struct script_world {
    uint64_t seed;
    cls_sampler_options o;
} script_world;

/* Creates the request with a number and begins it in a slot. */
void request_begin(request *q, const script_world *w, uint32_t number, cls_sampler *sampler,
                   uint32_t slot);
/* Turns q, a copy of a request whose slot was copied, into a separate request with another stream
 * and script. Half of them also get other parameters. */
void request_fork(request *q, const script_world *w, uint32_t number, cls_sampler *sampler,
                  uint32_t slot);
/* Makes the next change if one comes before the next sample; otherwise returns 0. */
int request_change(request *q, const script_world *w, cls_sampler *sampler, uint32_t slot);
/* Counts a sample that was enqueued. */
void request_sampled(request *q);
/* Returns which of n rows of logits the next sample uses. It depends on the request's number and
 * its number of tokens. */
uint32_t request_logits(const request *q, const script_world *w, uint32_t n);

#endif
