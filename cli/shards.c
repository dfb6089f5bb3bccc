/* SPDX-License-Identifier: MIT */
/* Steps of several shards in one process: opens the step on each, then brings their partials
 * together and merges them, until the step is complete. */
#include "shards.h"

#include <inttypes.h>
#include <string.h>

#include "../bench/bench.h"

void cli_shards_alloc(cli_shards *p, uint32_t most)
{
    memset(p, 0, sizeof *p);
    p->shard = cli_alloc(most, sizeof *p->shard);
    p->queue = cli_alloc(most, sizeof *p->queue);
    p->step = cli_alloc(most, sizeof *p->step);
}

void cli_shards_free(cli_shards *p)
{
    for (uint32_t i = 0; i < p->count; i++)
        cls_shard_destroy(p->shard[i]);
    cli_free(p->shard);
    cli_free(p->queue);
    cli_free(p->step);
    cli_free(p->partials);
    memset(p, 0, sizeof *p);
}

int cli_shards_add(cli_shards *p, const cli_split *split, cls_sampler *sampler,
                   cl_command_queue queue, uint32_t *first, uint32_t *width)
{
    const uint32_t i = p->count;
    cls_shard_options o;
    cls_shard_options_default(&o, sizeof o);
    o.shard_count = split->shards;
    o.shard = i;
    o.borders = split->borders;
    if (cli_compile_done(cls_shard_create(sampler, &o, &p->shard[i])) != CLS_OK)
        return cli_fail("creating shard %" PRIu32 ": %s", i, cls_error_message());
    p->queue[i] = queue;
    p->count++;
    return cli_try(cls_shard_window(p->shard[i], first, width), "asking for a shard's tokens");
}

/* --------------------------------------------------------------------- a step */

static int open_step(cli_shards *p, uint32_t i)
{
    cls_status status;
    CLI_RETRY(status, p->queue[i],
              cls_shard_sample(p->shard[i], p->queue[i], &p->step[i], 0, NULL));
    return cli_try(status, "sampling");
}

static int wait_partial(cli_shards *p, uint32_t i, const void **partial, size_t *size)
{
    return cls_shard_partial(p->shard[i], partial, size) == CLS_OK
               ? 0
               : cli_fail("the partial of shard %" PRIu32 ": %s", i, cls_error_message());
}

/* Copies the partials of all shards to p->partials. */
static int exchange(cli_shards *p)
{
    size_t one = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const void *partial;
        size_t size;
        if (wait_partial(p, i, &partial, &size) != 0)
            return 1;
        if (i == 0) {
            p->partials = cli_grow(p->partials, p->count, size);
            p->size = p->count * size;
            one = size;
        }
        if (size != one)
            return cli_fail("the partial of shard %" PRIu32 " has %zu bytes, that of shard 0 %zu",
                            i, size, one);
        memcpy(p->partials + i * one, partial, one);
    }
    if (p->exchanges < CLI_EXCHANGES)
        p->bytes[p->exchanges] = one;
    p->exchanges++;
    return 0;
}

static int merge(cli_shards *p, uint32_t i, int *more)
{
    cls_status status;
    CLI_RETRY(status, p->queue[i], cls_shard_merge(p->shard[i], p->partials, p->size, more, NULL));
    return status == CLS_OK ? 0 : cli_fail("shard %" PRIu32 ": %s", i, cls_error_message());
}

/* Opens the step and waits for the shard's partial. Adds the time. */
static int time_open(cli_shards *p, uint32_t i, cli_shard_times *times)
{
    const double start = bench_clock();
    const void *partial;
    size_t size;
    if (open_step(p, i) != 0 || wait_partial(p, i, &partial, &size) != 0)
        return 1;
    times->local_us += bench_clock() - start;
    return 0;
}

/* Merges and waits for the next partial or, after the last one, for the queue. Adds shard 0's time.
 */
static int time_merge(cli_shards *p, uint32_t i, int *more, cli_shard_times *times)
{
    const double start = bench_clock();
    const void *partial;
    size_t size;
    if (merge(p, i, more) != 0)
        return 1;
    if (*more != 0 && wait_partial(p, i, &partial, &size) != 0)
        return 1;
    if (*more == 0 && clFinish(p->queue[i]) != CL_SUCCESS)
        return cli_fail("shard %" PRIu32 ": the device failed", i);
    if (i == 0)
        times->merge_us += bench_clock() - start;
    return 0;
}

int cli_shards_step(cli_shards *p, cli_shard_times *times)
{
    int more = 1;
    if (times != NULL)
        memset(times, 0, sizeof *times);
    for (uint32_t i = 0; i < p->count; i++)
        if (times != NULL ? time_open(p, i, times) : open_step(p, i))
            return 1;
    p->exchanges = 0;
    while (more) {
        if (exchange(p) != 0)
            return 1;
        for (uint32_t i = 0; i < p->count; i++)
            if (times != NULL ? time_merge(p, i, &more, times) : merge(p, i, &more))
                return 1;
    }
    return 0;
}
