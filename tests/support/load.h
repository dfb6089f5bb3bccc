/* SPDX-License-Identifier: MIT */
/* Load as servers have it: requests arrive, change, fork, go back, move to
 * other slots and leave at random while steps are enqueued ahead. When all
 * results of one have come, it is run once more in a sampler of one slot, where
 * it must give the same. */
#ifndef TESTS_LOAD_H
#define TESTS_LOAD_H

#include "script.h"

#define LOAD_STREAMS 4096 /* most slots */
#define GENERATIONS 4     /* of forks of forks */
#define PARKED_AT_ONCE 8

/* The part of a request that it shares with the one it is a fork of. */
typedef struct ancestor {
    uint32_t number, samples, changes;
} ancestor;

typedef enum where { NOWHERE, SERVED, PARKED, GONE } where;

typedef struct stream {
    where where;
    request now;
    ancestor ancestor[GENERATIONS];
    uint32_t n_ancestors;
    uint32_t slot, since; /* the step in which it came here */
    void *saved;          /* of a parked one */
    size_t saved_size;
    uint32_t got;      /* samples whose results have come */
    int stopped;       /* the last of them says so */
    int ended;         /* a rollback has ended it: */
    uint32_t ended_at; /* before this sample, at the latest */
    int32_t token[SCRIPT_LIFE], status[SCRIPT_LIFE];
} stream;

typedef struct load {
    device *d;
    script_world world;
    rng r;
    uint32_t slots, steps;
    cls_sampler *sampler, *alone;
    cl_command_queue queue[2]; /* of the two */
    float *logits;             /* [LOGITS, VOCAB] */
    cl_mem all_logits;         /* the same, for requests alone */
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
    uint32_t ahead, arrivals; /* the weather: steps under way, one in so many idle slots is taken */
    int rush;                 /* all leave, and others come */
    int closing;              /* all leave, and nobody comes */

    uint32_t requests, forks, moves, stops, ends, paused, replayed, busy;
    uint64_t rows, tokens, alone_steps;
} load;

void load_open(load *l, device *d, uint32_t streams);
void load_close(load *l);
/* What happens between two steps, a step, and results until no more than
 * `ahead` steps are under way. */
void load_step(load *l);
/* All requests leave, all results come: whatever was kept can go. */
void load_lull(load *l);

#endif
