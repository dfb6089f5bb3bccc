/* SPDX-License-Identifier: MIT */
/* Simulates the load of a server. Requests arrive, change, fork, roll back, move to other slots and
 * leave at random while steps are enqueued ahead. When all results of a request have arrived, the
 * request is run again alone in a sampler with one slot, which must give the same results. */
#ifndef TESTS_LOAD_H
#define TESTS_LOAD_H

#include "script.h"

#define LOAD_STREAMS 4096 /* most slots */
#define GENERATIONS 4     /* the deepest fork of a fork */
#define PARKED_AT_ONCE 8

/* The part of a request that it shares with the request it is a fork of. */
typedef struct ancestor {
    uint32_t number, samples, changes;
} ancestor;

typedef enum where { NOWHERE, SERVED, PARKED, GONE } where;

typedef struct stream {
    where where;
    request now;
    ancestor ancestor[GENERATIONS];
    uint32_t n_ancestors;
    uint32_t slot, since; /* since: the step in which it got the slot */
    void *saved;          /* the saved slot of a parked request */
    size_t saved_size;
    uint32_t got;      /* samples whose results have arrived */
    int stopped;       /* the last result reports a stop */
    int ended;         /* a rollback has ended the request, */
    uint32_t ended_at; /* ... at the latest before this sample */
    int32_t token[SCRIPT_LIFE], status[SCRIPT_LIFE];
} stream;

typedef struct load {
    device *d;
    script_world world;
    rng r;
    uint32_t slots, steps;
    cls_sampler *sampler, *alone;
    cl_command_queue queue[2]; /* of `sampler` and `alone` */
    float *logits;             /* [LOGITS, VOCAB] */
    cl_mem all_logits;         /* the same logits, for `alone` */
    float *staged;             /* [DEPTH, slots, VOCAB] */
    cl_mem input;              /* [slots, VOCAB] */
    cl_mem output;             /* int32 [2, slots]: tokens, status */
    cl_mem output_alone;       /* int32 [2, SCRIPT_LIFE + 1] */
    cls_readback *readback;
    uint64_t started, taken; /* results */
    stream **row;            /* [DEPTH, slots] */
    stream **of_slot;        /* [slots] */
    stream *parked[PARKED_AT_ONCE];
    stream *streams;
    uint32_t n_streams, look;
    uint32_t ahead, arrivals; /* steps in flight; one of `arrivals` idle slots gets a request */
    int rush;                 /* all requests leave, and others arrive */
    int closing;              /* all requests leave, and none arrives */

    uint32_t requests, forks, moves, stops, ends, paused, replayed, busy;
    uint64_t rows, tokens, alone_steps;
} load;

/* Creates and destroys the samplers and buffers. */
void load_open(load *l, device *d, uint32_t streams);
void load_close(load *l);
/* Changes requests, enqueues a step, and fetches results until at most `ahead` steps are in
 * flight. */
void load_step(load *l);
/* Ends all requests and fetches all results, so that nothing is kept. */
void load_lull(load *l);

#endif
