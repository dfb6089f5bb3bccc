/* SPDX-License-Identifier: MIT */
/* A sampler of float32 logits and the buffers of its steps, for tests that make slot calls and
 * steps by themselves. Tests of random rows have a client (client.h). */
#ifndef TESTS_RIG_H
#define TESTS_RIG_H

#include "fixture.h"

enum { RIG_ROWS = 64 };

typedef struct rig {
    device *d;         /* NULL: on the host */
    cls_context *host; /* its context there */
    cls_sampler *sampler;
    uint32_t vocab, rows;
    cls_step step;                             /* of all rows; row r has slot r */
    int32_t token[RIG_ROWS], status[RIG_ROWS]; /* that were read */
} rig;

/* Creates a sampler in the usual context for float32, without a device on the host. logits:
 * [max_rows, vocab]; NULL: zeroes. */
rig rig_open(device *d, const cls_sampler_options *o, const float *logits);
void rig_close(rig *b);

/* Makes the step, and reads the tokens and statuses. */
void rig_step(rig *b);
/* Makes a step of the first row alone, for this slot. */
void rig_row(rig *b, int32_t slot);

#endif
