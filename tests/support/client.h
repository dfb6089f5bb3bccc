/* SPDX-License-Identifier: MIT */
/* A batch on a device: its buffers, its sampler, its steps. */
#ifndef TESTS_CLIENT_H
#define TESTS_CLIENT_H

#include "batch.h"

typedef struct client {
    batch *b;
    device *d;
    cls_sampler *sampler;
    cls_step step;
    uint32_t begun; /* launches that the slots' beginning adds to the next step */
} client;

/* Begins every row's slot, and its mode. steps: how many steps' tokens and status the
 * outputs can hold. */
void client_open(client *s, batch *b, device *d, cls_context *context, uint32_t steps);
/* Enqueues the i-th step. */
void client_step(client *s, cl_command_queue queue, uint32_t i, cl_uint n_wait,
                 const cl_event *wait, cl_event *done);
/* Blocking: reads the i-th step's tokens and status into the batch. */
void client_tokens(client *s, uint32_t i);
void client_close(client *s);

/* A batch of normal rows of 100 tokens, and its client. */
client small_client(device *d, uint32_t rows);
void close_small(client *s);

/* One step on the device's queue, read back with its trace. search: force the
 * threshold path. */
void batch_run(batch *b, device *d, cls_context *context, int search);

/* llvmpipe ends a work-item's loops after 65,535 trips, all of them together and
 * in silence. A search that reads the row very often comes to that (mirostat 1
 * up to 200 times): such a row must have no token and say so, and the reference's
 * answer becomes that. Returns how many there are. */
uint32_t batch_excuse(batch *b, const device *d);

/* The same after the reference, and the comparison of both. */
void batch_check(batch *b, device *d, cls_context *context, int search);

#endif
