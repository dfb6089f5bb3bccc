/* SPDX-License-Identifier: MIT */
/* A sampler and a model of each of its slots. Every call goes to both. server_settle() compares the
 * results of the steps since its last call. The calls of the first slots also go to samplers with
 * one slot, which run the request alone. */
#ifndef TESTS_SERVING_H
#define TESTS_SERVING_H

#include "fixture.h"
#include "model.h"

#define AHEAD 16 /* the most steps between two calls of server_settle() */
#define ALONE 2  /* slots that are also run alone */
#define MAX_ROWS 12
#define MAX_SLOTS 16
#define MOST_ACCEPTED 5 /* tokens of a row that a test accepts at once */
#define LOGITS 48       /* rows of logits that steps choose from */

typedef struct server {
    device *d;
    cl_command_queue queue[2]; /* steps alternate */
    cls_sampler_options o;
    cls_sampler *sampler, *alone[ALONE];
    model slot[MAX_SLOTS];
    int known[MAX_SLOTS];    /* whether the slot has a request for the host */
    int is_alone[MAX_SLOTS]; /* whether the sampler with one slot has it, too */
    float *logits;           /* [LOGITS, vocab] */
    cl_mem logits_buffer;
    cl_mem tokens, status, maps; /* int32 [2 * AHEAD, MAX_ROWS] */
    cl_mem alone_tokens;         /* int32 [ALONE * AHEAD * MAX_ROWS] */

    /* The expected results of the steps since the last server_settle(). */
    uint32_t n, n_alone;
    uint32_t rows[AHEAD];
    int32_t slot_of[AHEAD][MAX_ROWS], token[AHEAD][MAX_ROWS], row_status[AHEAD][MAX_ROWS];
    int32_t token_alone[ALONE * AHEAD * MAX_ROWS];
    uint32_t writes; /* rows of `maps` in use */

    uint32_t steps, requests, sampled, stopped, forks, rollbacks, ended, saves, accepts, busy,
        forced, loops; /* so far */
} server;

/* The arguments of server_step(). */
typedef struct step_request {
    uint32_t rows, first_logits;
    int32_t slots[MAX_ROWS];
    int device_map, defer;
    int32_t invalid_token;
    const int32_t *positions; /* or NULL */
} step_request;

/* A queue that is NULL stands for the device's queue, which is in order. */
void server_open(server *s, device *d, const cls_sampler_options *o, uint64_t seed,
                 cl_command_queue first, cl_command_queue second);
void server_close(server *s);

/* Each function makes the slot call of its name. */
void server_begin(server *s, uint32_t slot, const cls_params *p, const int32_t *prompt,
                  uint32_t n_prompt, const int32_t *output, uint32_t n_output);
void server_append(server *s, uint32_t slot, const int32_t *ids, uint32_t n);
void server_next_turn(server *s, uint32_t slot, const int32_t *ids, uint32_t n);
void server_params(server *s, uint32_t slot, const cls_params *p);
void server_copy(server *s, uint32_t to, uint32_t from);
void server_rollback(server *s, uint32_t slot, uint32_t n);
void server_reset(server *s, uint32_t slot);
void server_force(server *s, uint32_t slot, const int32_t *ids, uint32_t n);

/* Saves a slot that has a request. The caller frees the result, whose size is stored in *size. */
void *server_save(server *s, uint32_t slot, size_t *size);
/* Loads a slot that was saved when its model was `saved`. */
void server_load(server *s, uint32_t slot, const void *bytes, size_t size, const model *saved);

/* Enqueues a step; calls server_settle() first if AHEAD steps are in flight. */
void server_step(server *s, const step_request *w);
/* Accepts ids [rows, per_row], or the last step's tokens, one for each row, if ids is NULL. */
void server_accept(server *s, uint32_t rows, uint32_t per_row, const int32_t *slots, int device_map,
                   const int32_t *ids);
/* Waits for all steps and compares their results. */
void server_settle(server *s);

#endif
