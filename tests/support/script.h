/* SPDX-License-Identifier: MIT */
/* Requests whose whole course follows from their number: parameters, prompt,
 * and at which of their samples parameters change, tokens are taken back or
 * prompt is added. The same calls serve a request among others and alone. */
#ifndef TESTS_SCRIPT_H
#define TESTS_SCRIPT_H

#include "fixture.h"
#include "inputs.h"

#define SCRIPT_LIFE 120 /* most samples of a request */
#define SCRIPT_CHANGES 6
#define SCRIPT_PROMPT 40
#define SCRIPT_LIST 8

typedef enum change_kind {
    CHANGE_PARAMS,
    CHANGE_ROLLBACK,
    CHANGE_APPEND,
    CHANGE_KINDS
} change_kind;

typedef struct script_change {
    uint32_t at; /* before this sample */
    change_kind what;
    uint64_t number; /* what the change itself is made from */
} script_change;

typedef struct request {
    uint32_t number, life;
    cls_params params; /* but its lists: */
    cls_logit_bias bias[SCRIPT_LIST];
    int32_t stop[SCRIPT_LIST];
    script_change change[SCRIPT_CHANGES];
    uint32_t n_changes, next; /* the next one to be made */
    uint32_t samples;

    /* What the host believes, which does not know of stops: output tokens,
     * those since the last chunk of prompt, the most tokens there ever were. */
    uint32_t outputs, since, length, longest;
} request;

/* What scripts depend on but their number. */
typedef struct script_world {
    uint64_t seed;
    cls_sampler_options o;
    uint32_t made[CHANGE_KINDS], taken_back; /* so far */
} script_world;

/* Makes the request of a number, and begins it in a slot. */
void request_begin(request *q, script_world *w, uint32_t number, cls_sampler *sampler,
                   uint32_t slot);
/* q, a copy of another request whose slot was copied, becomes one of its own:
 * another stream, and for half of them all other parameters; then a script of
 * its own. */
void request_fork(request *q, script_world *w, uint32_t number, cls_sampler *sampler,
                  uint32_t slot);
/* Makes the next change if there is one before the next sample. 0: there is none. */
int request_change(request *q, script_world *w, cls_sampler *sampler, uint32_t slot);
/* A sample is enqueued. */
void request_sampled(request *q);
/* Which of n rows of logits the next sample takes: by the request's number and
 * how many tokens it has. */
uint32_t request_logits(const request *q, const script_world *w, uint32_t n);

#endif
