/* SPDX-License-Identifier: MIT */
/* A model of a slot: a request as a plain list of its tokens. The model determines which tokens
 * count for penalties and passes only these to the reference, without window, stops, history,
 * thinking budget, forced ids or loop stop. It does not depend on how the library stores a slot. */
#ifndef TESTS_MODEL_H
#define TESTS_MODEL_H

#include "inputs.h"
#include "step/step.h"

#define MODEL_TOKENS 1200
#define MODEL_LIST 16

/* How far the thinking of a request has come: its output tokens that counted, and the ids of
 * thinking_forced that were emitted. */
typedef struct thinking {
    int goes_on;
    uint32_t counted, emitted;
} thinking;

typedef struct model {
    int begun;
    cls_params params; /* its lists point to the arrays below */
    cls_logit_bias bias[MODEL_LIST];
    int32_t stop[MODEL_LIST], allowed[MODEL_LIST];
    int32_t start[MODEL_LIST], end[MODEL_LIST], finish[MODEL_LIST]; /* of the thinking budget */
    uint32_t vocab, history, rollback;                              /* the sampler's options */
    int32_t id[MODEL_TOKENS];
    unsigned char is_output[MODEL_TOKENS];
    uint32_t n, outputs, position;
    uint32_t since;                     /* without a window the tokens from here on count */
    uint32_t longest;                   /* the largest number of tokens so far */
    thinking now, before[MODEL_TOKENS]; /* before each token */
    int32_t forced[MODEL_LIST]; /* by cls_slot_force(), from output token number `forced_from` on */
    uint32_t n_forced, forced_from;
} model;

/* Change the model as the slot calls with these names change a slot. */
void model_begin(model *m, const cls_params *params, const int32_t *prompt, uint32_t n_prompt,
                 const int32_t *output, uint32_t n_output);
void model_append(model *m, const int32_t *ids, uint32_t n);
void model_next_turn(model *m, const int32_t *ids, uint32_t n);
void model_params(model *m, const cls_params *params);
void model_rollback(model *m, uint32_t n);
void model_accept(model *m, int32_t token);
void model_force(model *m, const int32_t *ids, uint32_t n);

int model_stopped(const model *m);
/* Returns the id that the next row must emit, or -1. */
int32_t model_due(const model *m);
/* Returns the number of tokens that can be rolled back. */
uint32_t model_can_roll_back(const model *m);

/* Computes the request's next token and status from float32 logits [vocab]. position: replaces the
 * request's own position unless it is NULL. */
void model_next(const model *m, const float *logits, const uint32_t *position,
                int32_t invalid_token, int32_t *token, int32_t *status);

/* Describes the request for messages, in static memory. */
const char *model_words(const model *m);

#endif
