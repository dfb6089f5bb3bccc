/* SPDX-License-Identifier: MIT */
/* A sampler and the model of each of its slots. Every call goes to both;
 * server_settle() compares what the steps since the last one have given. The
 * first slots' calls go to samplers of one slot, too: the request run alone. */
#ifndef TESTS_SERVING_H
#define TESTS_SERVING_H

#include "fixture.h"
#include "model.h"

#define AHEAD 16 /* most steps between two server_settle() */
#define ALONE 2  /* slots that are also run alone */
#define MAX_ROWS 12
#define MAX_SLOTS 16
#define LOGITS 48 /* rows of logits that steps choose from */

typedef struct server {
    device *d;
    cl_command_queue queue[2]; /* steps alternate */
    cls_sampler_options o;
    cls_sampler *sampler, *alone[ALONE];
    model slot[MAX_SLOTS];
    int known[MAX_SLOTS];    /* for the host the slot has a request */
    int is_alone[MAX_SLOTS]; /* its sampler of one slot has it, too */
    float *logits;           /* [LOGITS, vocab] */
    cl_mem logits_buffer;
    cl_mem tokens, status, maps; /* int32 [2 * AHEAD, MAX_ROWS] */
    cl_mem alone_tokens;         /* int32 [ALONE * AHEAD * MAX_ROWS] */

    /* What the steps since the last settlement must have given. */
    uint32_t n, n_alone;
    uint32_t rows[AHEAD];
    int32_t slot_of[AHEAD][MAX_ROWS], token[AHEAD][MAX_ROWS], row_status[AHEAD][MAX_ROWS];
    int32_t token_alone[ALONE * AHEAD * MAX_ROWS];
    uint32_t writes; /* rows of `maps` in use */

    uint32_t steps, requests, sampled, stopped, forks, rollbacks, ended, saves, accepts,
        busy; /* so far */
} server;

/* A step: what server_step() is asked for. */
typedef struct wanted_step {
    uint32_t rows, first_logits;
    int32_t slots[MAX_ROWS];
    int device_map, defer;
    int32_t invalid_token;
    const int32_t *positions; /* or NULL */
} wanted_step;

/* queue: NULL for the device's own, in order. */
void server_open(server *s, device *d, const cls_sampler_options *o, uint64_t seed,
                 cl_command_queue first, cl_command_queue second);
void server_close(server *s);

void server_begin(server *s, uint32_t slot, const cls_params *p, const int32_t *prompt,
                  uint32_t n_prompt, const int32_t *output, uint32_t n_output);
void server_append(server *s, uint32_t slot, const int32_t *ids, uint32_t n);
void server_next_turn(server *s, uint32_t slot, const int32_t *ids, uint32_t n);
void server_params(server *s, uint32_t slot, const cls_params *p);
void server_copy(server *s, uint32_t to, uint32_t from);
void server_rollback(server *s, uint32_t slot, uint32_t n);
void server_reset(server *s, uint32_t slot);

/* A slot's bytes, malloc'ed; the size is put into *size. The slot has a request. */
void *server_save(server *s, uint32_t slot, size_t *size);
/* As `saved` was. */
void server_load(server *s, uint32_t slot, const void *bytes, size_t size, const model *saved);

/* Enqueues; settles before, if AHEAD are under way. */
void server_step(server *s, const wanted_step *w);
/* Accepts ids, a row each, or (NULL) the last step's tokens. */
void server_accept(server *s, uint32_t rows, const int32_t *slots, int device_map,
                   const int32_t *ids);
/* Waits, and compares. */
void server_settle(server *s);

#endif
