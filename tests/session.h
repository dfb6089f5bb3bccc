/* SPDX-License-Identifier: MIT */
/* A batch on a device: its buffers, its sampler, its steps. */
#ifndef TESTS_SESSION_H
#define TESTS_SESSION_H

#include "batch.h"

typedef struct session {
    batch *b;
    device *d;
    cls_sampler *sampler;
    cls_step step;
} session;

/* Begins every row's slot. steps: how many steps' tokens and status the
 * outputs can hold. */
void session_open(session *s, batch *b, device *d, cls_context *context, uint32_t steps);
/* Enqueues the i-th step. */
void session_step(session *s, cl_command_queue queue, uint32_t i, cl_uint n_wait, const cl_event *wait, cl_event *done);
/* Blocking: reads the i-th step's tokens and status into the batch. */
void session_tokens(session *s, uint32_t i);
void session_close(session *s);

/* A batch of normal rows of 100 tokens, and its session. */
session small_session(device *d, uint32_t rows);
void close_small(session *s);

/* One step on the device's queue, read back with its trace. search: force the
 * threshold path. */
void batch_run(batch *b, device *d, cls_context *context, int search);

/* The same after the reference, and the comparison of both. */
void batch_check(batch *b, device *d, cls_context *context, int search);

#endif
