/* SPDX-License-Identifier: MIT */
/* What a slot ought to be: a request as a plain list of its tokens. It works
 * out by itself which of them count and asks the reference for a token with
 * those alone, without window, stops or history: it knows nothing of how the
 * library keeps its books. */
#ifndef TESTS_MODEL_H
#define TESTS_MODEL_H

#include "inputs.h"
#include "step/step.h"

#define MODEL_TOKENS 1200
#define MODEL_LIST 16

typedef struct model {
    int begun;
    cls_params params; /* but its lists: */
    cls_logit_bias bias[MODEL_LIST];
    int32_t stop[MODEL_LIST];
    uint32_t vocab, history, rollback; /* the sampler's */
    int32_t id[MODEL_TOKENS];
    unsigned char is_output[MODEL_TOKENS];
    uint32_t n, outputs, position;
    uint32_t since;   /* without a window the tokens from here on count */
    uint32_t longest; /* the most tokens there ever were */
} model;

/* As the slot calls of the same names. */
void model_begin(model *m, const cls_params *params, const int32_t *prompt, uint32_t n_prompt,
                 const int32_t *output, uint32_t n_output);
void model_append(model *m, const int32_t *ids, uint32_t n);
void model_next_turn(model *m, const int32_t *ids, uint32_t n);
void model_params(model *m, const cls_params *params);
void model_rollback(model *m, uint32_t n);
void model_accept(model *m, int32_t token);

int model_stopped(const model *m);
/* How many tokens can be taken back. */
uint32_t model_can_roll_back(const model *m);

/* The request's next token and status, by float32 logits [vocab]. position: in
 * place of the request's own, or NULL. */
void model_next(const model *m, const float *logits, const uint32_t *position,
                int32_t invalid_token, int32_t *token, int32_t *status);

/* The request in words: for messages. Static memory. */
const char *model_words(const model *m);

#endif
