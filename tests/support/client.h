/* SPDX-License-Identifier: MIT */
/* Runs a batch on a device: owns its buffers and its sampler, and enqueues its steps. */
#ifndef TESTS_CLIENT_H
#define TESTS_CLIENT_H

#include "batch.h"

typedef struct client {
    batch *b;
    device *d;
    cls_sampler *sampler;
    cls_step step;
    cls_outputs outputs; /* client_step() sets step.outputs to it */
} client;

/* Creates a sampler for a batch and begins every row's slot. */
cls_sampler *client_sampler(const batch *b, cls_context *context);

/* Creates the sampler and begins every row's slot and adaptive state. steps: the number of steps
 * whose tokens and status the outputs can hold. */
void client_open(client *s, batch *b, device *d, cls_context *context, uint32_t steps);
/* Enqueues the i-th step. */
void client_step(client *s, cl_command_queue queue, uint32_t i, cl_uint n_wait,
                 const cl_event *wait, cl_event *done);
/* Reads the first n steps and compares their tokens and statuses with the reference, whose tokens
 * the requests then accept. */
void client_check(client *s, uint32_t n, const char *where);
/* Blocking: reads the i-th step's tokens and status into the batch. */
void client_tokens(client *s, uint32_t i);
void client_close(client *s);

/* Returns a client with a batch of normal rows of 100 tokens. */
client small_client(device *d, uint32_t rows);
void close_small(client *s);

/* Runs the reference and then a step, and compares both and their traces. */
void batch_check(batch *b, device *d, cls_context *context);

#endif
