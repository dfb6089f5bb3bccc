/* SPDX-License-Identifier: MIT */
/* Requests with penalties that depend on earlier tokens. Each request is a plain list of its
 * tokens, and the penalties are computed from their definitions by brute force, without library
 * code. */
#ifndef TESTS_HISTORY_H
#define TESTS_HISTORY_H

#include "fixture.h"
#include "inputs.h"
#include "step/step.h"

#define ROWS 5 /* rows and slots of a world; row r has slot r */
#define SEQUENCES 12
#define LONGEST 4
#define IDS 40

/* A request as a list of its tokens. */
typedef struct request {
    cls_params p; /* its lists point to the arrays below */
    cls_ids breakers[SEQUENCES], bad_words[SEQUENCES];
    int32_t sequence_ids[2 * SEQUENCES][LONGEST], stop[IDS], allowed[IDS], exempt[IDS];
    cls_logit_bias bias[IDS];
    int32_t *text;
    unsigned char *is_output;
    uint32_t n, outputs, position;
    int stopped;
} request;

typedef struct world {
    device *d;
    cls_sampler *sampler;
    uint32_t vocab, history, rollback, alphabet, room;
    int dtype;
    float x[ROWS][5000];
    request row[ROWS];
    cl_mem logits, tokens, status, mask;
    int keep;
    uint32_t words[ROWS][160]; /* the masks */
    float *amount;             /* [vocab] */
    unsigned char *banned;     /* [vocab]; 2: not allowed */
} world;

/* Returns the i-th most recent token. */
int32_t recent(const request *q, uint32_t i);

/* Computes w->amount and w->banned for a row: what is subtracted from each logit, and the tokens
 * that are banned. */
void world_expect(const world *w, uint32_t row);
/* Return whether amount and banned alone decide the row's token; and this token, or -1. */
int world_is_simple(const request *q);
int32_t world_best(const world *w, uint32_t row);

/* Computes the reference's token and status. Returns 0 if prompt follows output, which the
 * reference cannot represent. */
int world_reference(const world *w, uint32_t row, int32_t *token, int32_t *status);

/* Appends one token. */
void request_add(request *q, int32_t id, int is_output, const world *w);
/* Appends n tokens. kind 0: random tokens; 1: one repeated token; 2: periods; 3: copies of earlier
 * tokens. */
void request_extend(const world *w, request *q, uint32_t n, uint32_t kind, int is_output, rng *r);
/* Sets random parameters; the request must already have its tokens. */
void request_params(const world *w, request *q, rng *r);
/* Copies a request, including its lists. */
void request_copy(request *q, const request *from);

#endif
