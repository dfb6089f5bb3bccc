/* SPDX-License-Identifier: MIT */
/* Requests whose tokens lose something by what came before, as plain lists of
 * their tokens. Who loses how much is worked out by brute force: from the
 * definitions, with nothing of the library's. */
#ifndef TESTS_HISTORY_H
#define TESTS_HISTORY_H

#include "fixture.h"
#include "inputs.h"
#include "step/step.h"

#define ROWS 5 /* of a world, and slots: row r is slot r */
#define SEQUENCES 12
#define LONGEST 4
#define IDS 40

/* A request as a list of its tokens. */
typedef struct request {
    cls_params p; /* its arrays: */
    cls_sequence breakers[SEQUENCES], bad_words[SEQUENCES];
    int32_t sequence_ids[2 * SEQUENCES][LONGEST], stop[IDS], allowed[IDS];
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

/* The i-th most recent token. */
int32_t recent(const request *q, uint32_t i);

/* Fills amount and banned for a row. */
void world_expect(const world *w, uint32_t row);
/* Whether that is all that matters for the row's token; then it, or -1. */
int world_is_simple(const request *q);
int32_t world_best(const world *w, uint32_t row);

/* The reference's token and status; 0 if it cannot tell, as prompt came after output. */
int world_reference(const world *w, uint32_t row, int32_t *token, int32_t *status);

/* A token more. */
void request_add(request *q, int32_t id, int is_output, const world *w);
/* n tokens more, that repeat by chance (kind 0), always (1), in periods (2), or
 * as copies of what came before (3). */
void request_extend(const world *w, request *q, uint32_t n, uint32_t kind, int is_output, rng *r);
/* Random parameters; the request has its tokens already. */
void request_params(const world *w, request *q, rng *r);
/* Makes a request another one. */
void request_copy(request *q, const request *from);

#endif
