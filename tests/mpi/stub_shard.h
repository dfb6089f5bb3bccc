/* SPDX-License-Identifier: MIT */
/* A shard without a device, for tests of what travels between ranks: steps have as many exchanges
 * as a test wants, and each call of the shard fails where a test wants it to. A step's token is a
 * number that depends on all partials of all ranks. */
#ifndef TESTS_STUB_SHARD_H
#define TESTS_STUB_SHARD_H

#include <clsample.h>

/* The calls that can fail. STUB_DAMAGE: the partial is sent with a flipped bit. STUB_BUSY: the
 * merge has to be repeated some times. */
typedef enum stub_call {
    STUB_NOTHING,
    STUB_OPEN,
    STUB_PARTIAL,
    STUB_DAMAGE,
    STUB_BUSY,
    STUB_MERGE,
    STUB_CREATE,
    STUB_CALLS
} stub_call;

typedef struct stub_plan {
    uint32_t shortlist;   /* of the device */
    uint32_t exchanges;   /* of each step, from 1 */
    size_t size[4];       /* of the partials of each exchange */
    uint32_t polls;       /* how often a partial is not ready yet */
    stub_call fails;      /* once */
    uint32_t at;          /* in this exchange, from 0 */
    cls_status status;    /* what a call that fails returns */
    const char *sentence; /* its message */
} stub_plan;

/* Of this rank's shard. Its steps' token is `step` times 1,000 plus what the partials say. */
extern stub_plan stub;

/* Tokens of steps that are complete, and how many steps that were. */
uint64_t stub_token(void);
uint32_t stub_completed(void);
/* Steps that are open, and shards that exist: both are 0 or 1. */
int stub_is_open(void);
int stub_exists(void);

#endif
