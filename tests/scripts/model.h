/* SPDX-License-Identifier: MIT */
/* A model of a slot: a request as a plain list of its tokens. The model determines which tokens
 * count for penalties and passes only these to one_sample(), without window, stops, thinking
 * budget, forced ids or loop stop. It does not depend on how the library stores a slot. */
#ifndef TESTS_MODEL_H
#define TESTS_MODEL_H

#include <stdbool.h>

#include "one_row.h"

#define MODEL_TOKENS 1200

/* How far the thinking of a request has come: its output tokens that counted, and the ids of
 * thinking_forced that were emitted; and whether the latest token ended it by a loop. */
typedef struct thinking {
    int goes_on;
    uint32_t counted, emitted;
    int looped;
} thinking;

typedef struct model {
    int begun;
    bool unknown;                       /* it has become too long, or has had a grammar */
    bool adapts;                        /* `adaptive` is the state before the next token */
    cls_adaptive_state adaptive, after; /* `after` the token that the oracle has judged, or -1 */
    int32_t judged;
    cls_params params;
    uint32_t vocab, history, rollback; /* the sampler's options */
    int32_t id[MODEL_TOKENS];
    unsigned char is_output[MODEL_TOKENS];
    uint32_t n, outputs, position;
    uint32_t since;                     /* without a window the tokens from here on count */
    uint32_t longest;                   /* the largest number of tokens so far */
    thinking now, before[MODEL_TOKENS]; /* before each token */
    const int32_t *forced; /* by cls_slot_force(), from output token number `forced_from` on */
    uint32_t n_forced, forced_from;
} model;

/* Change the model as the slot calls with these names change a slot. Lists must remain. */
void model_begin(model *m, const cls_params *params, const int32_t *prompt, uint32_t n_prompt,
                 const int32_t *output, uint32_t n_output);
void model_append(model *m, const int32_t *ids, uint32_t n);
void model_next_turn(model *m, const int32_t *ids, uint32_t n);
void model_params(model *m, const cls_params *params);
void model_rollback(model *m, uint32_t n);
void model_accept(model *m, int32_t token);
void model_force(model *m, const int32_t *ids, uint32_t n);

int model_stopped(const model *m);
/* Returns the number of tokens that can be rolled back. */
uint32_t model_can_roll_back(const model *m);

/* Returns whether the model can tell the next token: not where a request adapts to its tokens, nor
 * where DRY, n-grams, bad words or a watermark see another text than penalties. */
bool model_can_tell(const model *m);

/* Computes the request's next token and status, and, unless it is NULL, the probabilities [vocab]
 * of the row. The row has the inputs and the position; its request is left out. */
void model_next(const model *m, const one_row *inputs, float *probs, int32_t *token,
                int32_t *status);

/* Sets all of a row that a request has, as cls_slot_begin() is given it. Returns false where such a
 * request would be another one: it has had turns, or thinks; and where it has a grammar, of which
 * the oracle knows nothing. */
bool model_row(const model *m, one_row *row);

/* Describes the request for messages, in static memory. */
const char *model_words(const model *m);

#endif
