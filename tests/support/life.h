/* SPDX-License-Identifier: MIT */
/* A sampler's whole life, call by call: every function that takes one, a head and
 * a readback beside it. Each call can be made again after it failed, and what it
 * wrote is seen from outside: two lives are the same if all of that is. */
#ifndef TESTS_LIFE_H
#define TESTS_LIFE_H

#include "fixture.h"

enum { LIFE_ROWS = 6, LIFE_SAVED = 1 << 16 };

typedef struct life {
    device *d;
    cls_context *context;
    uint32_t vocab;
    cl_command_queue queues[2], queue,
        other; /* in order, and out of order if the device can; this call's, and not this call's */
    cl_mem logits, bias, given, drafts, weight, head_bias, hidden; /* inputs */
    cl_mem out, head_out;                                          /* and what calls write */
    size_t out_size, head_out_size, at;
    float *draft; /* [LIFE_ROWS, vocab] probabilities */
    uint32_t *mask;

    cls_sampler *sampler;
    cls_readback *ring;
    cls_head *head;
    cl_event waits[2], done;
    uint64_t ticket;

    /* What calls gave to the host. */
    struct {
        unsigned char saved[LIFE_SAVED];
        size_t saved_size, asked_size;
        int32_t got[LIFE_ROWS];
    } host;
} life;

/* A call of it. */
typedef struct life_call {
    const char *name;
    cls_status (*make)(life *l);
    enum {
        LIFE_FREE,
        LIFE_SLOT,
        LIFE_STEP
    } what; /* the last two, slot calls and what carries them out, a lost sampler refuses */
} life_call;

extern const life_call life_calls[];
extern const uint32_t life_count;

/* Inputs and outputs, for any number of lives. */
void life_open(life *l, device *d, cls_context *context, uint32_t vocab);
void life_close(life *l);

/* Before a life: outputs all zero. After it, finished or not: nothing is left. */
void life_begin(life *l);
void life_end(life *l);

/* Makes the i-th call with faults on, on one of the queues: which, 0 or 1. A call that fails has no
 * event. */
cls_status life_make(life *l, uint32_t i, uint32_t which);

/* All that is seen from outside; life_seen_size() bytes. Waits. */
size_t life_seen_size(const life *l);
void life_see(life *l, unsigned char *seen);

#endif
