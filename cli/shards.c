/* SPDX-License-Identifier: MIT */
/* Steps of several shards in one process: opens the step on each, then brings their partials
 * together and merges them, until the step is complete. And the options that split a vocabulary
 * over shards and devices. */
#include "params.h"
#include "shards.h"

#include <inttypes.h>
#include <stdio.h>
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
    cls_shard_options_init(&o);
    o.shard_count = split->shards;
    o.shard = i;
    o.borders = split->borders;
    if (cli_compile_done(cls_shard_create(sampler, &o, &p->shard[i])) != CLS_OK)
        return cli_fail("creating shard %" PRIu32 ": %s", i, cls_error_message());
    p->queue[i] = queue;
    p->count++;
    cls_shard_info info;
    cls_shard_info_init(&info);
    const int failed = cli_try(cls_shard_query(p->shard[i], &info), "asking for a shard's tokens");
    *first = info.first;
    *width = info.count;
    return failed;
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

/* Waits for the next partial or, after the last one, for the queue. */
static int wait_merged(cli_shards *p, uint32_t i, int more)
{
    const void *partial;
    size_t size;
    if (more != 0)
        return wait_partial(p, i, &partial, &size);
    return clFinish(p->queue[i]) == CL_SUCCESS
               ? 0
               : cli_fail("shard %" PRIu32 ": the device failed", i);
}

static int merge(cli_shards *p, uint32_t i, int *more)
{
    cls_status status;
    CLI_RETRY(status, p->queue[i], cls_shard_merge(p->shard[i], p->partials, p->size, more, NULL));
    return status == CLS_OK ? 0 : cli_fail("shard %" PRIu32 ": %s", i, cls_error_message());
}

int cli_shards_step(cli_shards *p, cli_shard_times *times)
{
    const void *partial;
    size_t size;
    int more = 1;
    if (times != NULL)
        memset(times, 0, sizeof *times);
    for (uint32_t i = 0; i < p->count; i++) {
        const double start = bench_clock();
        if (open_step(p, i) != 0 || (times != NULL && wait_partial(p, i, &partial, &size) != 0))
            return 1;
        if (times != NULL)
            times->local_us += bench_clock() - start;
    }
    for (p->exchanges = 0; more;) {
        if (exchange(p) != 0)
            return 1;
        for (uint32_t i = 0; i < p->count; i++) {
            const double start = bench_clock();
            if (merge(p, i, &more) != 0 || (times != NULL && wait_merged(p, i, more) != 0))
                return 1;
            if (times != NULL && i == 0)
                times->merge_us += bench_clock() - start;
        }
    }
    return 0;
}

/* --------------------------------------------------------------------- options */

void cli_shards_check(uint32_t shards, uint32_t vocab)
{
    if (!cli_given("shards"))
        return;
    if (shards < 1)
        cli_die("--shards: it must be at least 1");
    if (shards > CLS_MAX_SHARDS)
        cli_die("--shards: %" PRIu32 " is too large; the most is %d", shards, CLS_MAX_SHARDS);
    if (shards > vocab)
        cli_die("--shards: %" PRIu32 " shards are more than the vocabulary's %" PRIu32 " tokens",
                shards, vocab);
}

/* The number of devices that --device names. */
static uint32_t count_devices(const char *device)
{
    uint32_t n = 1;
    for (; device != NULL && *device != '\0'; device++)
        n += *device == ',';
    return n;
}

/* Converts the inner borders of --borders to those of all shards. */
static void read_borders(const cli_split_options *q, uint32_t vocab, cli_split *split)
{
    const uint32_t n = split->shards;
    uint32_t count = 0;
    const int32_t *inner = NULL;
    cli_ids_parse("--borders", &q->borders, &inner, &count);
    if (count != n - 1)
        cli_die("--borders: --shards %" PRIu32 " needs %" PRIu32 " of them, but %" PRIu32
                " %s given",
                n, n - 1, count, count == 1 ? "is" : "are");
    split->borders = cli_alloc(n + (size_t)1, sizeof *split->borders);
    for (uint32_t i = 0; i < count; i++) {
        if (inner[i] < 1 || (uint32_t)inner[i] >= vocab)
            cli_die("--borders: %" PRId32 " is not within a vocabulary of %" PRIu32 " tokens",
                    inner[i], vocab);
        if ((uint32_t)inner[i] <= split->borders[i])
            cli_die("--borders: %" PRId32 " is not above the border before it", inner[i]);
        split->borders[i + 1] = (uint32_t)inner[i];
    }
    split->borders[n] = vocab;
}

void cli_split_read(const cli_split_options *q, const char *device, uint32_t vocab,
                    cli_split *split)
{
    split->shards = q->shards;
    split->targets = count_devices(device);
    cli_shards_check(q->shards, vocab);
    if (q->shards == 0 && q->borders.count != 0)
        cli_die("--borders: this option requires --shards");
    if (q->shards == 0 && split->targets != 1)
        cli_die("--device: several devices require --shards");
    if (q->shards != 0 && cli_on_host(device))
        cli_die("--shards: the reference has no shards; choose another --device");
    if (q->shards != 0 && split->targets > q->shards)
        cli_die("--device: %" PRIu32 " devices are too many for --shards %" PRIu32, split->targets,
                q->shards);
    if (q->borders.count != 0)
        read_borders(q, vocab, split);
}

void cli_split_close(const cli_split *split, cli_target *targets)
{
    for (uint32_t i = 0; i < split->targets; i++)
        cli_close(&targets[i]);
}

int cli_split_open(const char *device, const cls_context_options *options, const cli_split *split,
                   cli_target **targets)
{
    int failed = 0;
    *targets = cli_alloc(split->targets, sizeof **targets);
    for (uint32_t i = 0; i < split->targets && !failed; i++) {
        char name[64];
        const size_t length = device != NULL ? strcspn(device, ",") : 0;
        snprintf(name, sizeof name, "%.*s", (int)length, device != NULL ? device : "");
        failed = cli_open(device != NULL ? name : NULL, options, 0, &(*targets)[i]);
        if (device != NULL)
            device += length + 1;
    }
    if (failed)
        cli_split_close(split, *targets);
    return failed;
}
