/* SPDX-License-Identifier: MIT */
/* A life: a fixed sequence of calls from a sampler's creation to its destruction. It uses every
 * function that takes a sampler, an LM head and a readback. A call can be repeated after it has
 * failed. Two lives are equal if all their output is. */
#ifndef TESTS_LIFE_H
#define TESTS_LIFE_H

#include "clsample/head.h"
#include "fixture.h"
#include "pointers.h"

enum { LIFE_ROWS = 6, LIFE_SAVED = 1 << 16 };

typedef struct life {
    device *d;
    cls_context *context;
    uint32_t vocab;
    cl_command_queue queues[2];    /* in order; out of order if the device supports it */
    cl_command_queue queue, other; /* the queue of the current call, and the other one */
    cl_mem logits, bias, given, drafts, weight, head_bias, hidden; /* inputs of the calls */
    cl_mem out, head_out;                                          /* outputs of the calls */
    size_t out_size, head_out_size, at;
    pointers svm; /* copies of buffers, if the device has such memory */
    int has_svm;
    float *draft; /* [LIFE_ROWS, vocab] probabilities */
    uint32_t *mask;

    cls_sampler *sampler;
    cls_shard *shard; /* the only one of the vocabulary */
    cls_readback *ring;
    cls_head *head;
    cls_grammar *grammar;
    cl_event waits[2], done;
    uint64_t ticket;

    /* Results on the host. */
    struct {
        unsigned char saved[LIFE_SAVED];
        size_t saved_size, queried_size;
        int32_t readback[LIFE_ROWS];
    } host;
} life;

/* One call of a life. A sampler that is lost refuses slot calls (LIFE_SLOT) and the calls that
 * carry them out (LIFE_STEP), but not the others. */
typedef struct life_call {
    const char *name;
    cls_status (*make)(life *l);
    enum { LIFE_OTHER, LIFE_SLOT, LIFE_STEP } kind;
} life_call;

extern const life_call life_calls[];
extern const uint32_t life_count;

/* Creates and frees the inputs and outputs, which any number of lives can use. */
void life_open(life *l, device *d, cls_context *context, uint32_t vocab);
void life_close(life *l);

/* life_begin() sets all outputs to zero. life_end() destroys all objects of a life, even if it was
 * not finished. */
void life_begin(life *l);
void life_end(life *l);

/* Makes the i-th call with fault injection on queue `which`, 0 or 1. Fails if a call that fails
 * returns an event. */
cls_status life_call_make(life *l, uint32_t i, uint32_t which);

/* Waits, and copies all output of the calls so far to `output`: life_output_size() bytes. */
size_t life_output_size(const life *l);
void life_read_output(life *l, unsigned char *output);

#endif
