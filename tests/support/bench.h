/* SPDX-License-Identifier: MIT */
/* A sampler of float32 logits and the buffers of its steps, for tests that make slot calls and
 * steps by themselves. Tests of random rows have a client (client.h). */
#ifndef TESTS_BENCH_H
#define TESTS_BENCH_H

#include "fixture.h"

enum { BENCH_ROWS = 64 };

typedef struct bench {
    device *d;         /* NULL: on the host */
    cls_context *host; /* its context there */
    cls_sampler *sampler;
    uint32_t vocab, rows;
    cls_step step;                                 /* of all rows; row r has slot r */
    int32_t token[BENCH_ROWS], status[BENCH_ROWS]; /* that were read */
} bench;

/* Creates a sampler in the usual context for float32, without a device on the host. logits:
 * [max_rows, vocab]; NULL: zeroes. */
bench bench_open(device *d, const cls_sampler_options *o, const float *logits);
void bench_close(bench *b);

/* Makes the step, and reads the tokens and statuses. */
void bench_step(bench *b);
/* Makes a step of the first row alone, for this slot. */
void bench_row(bench *b, int32_t slot);

#endif
