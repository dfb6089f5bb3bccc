/* SPDX-License-Identifier: MIT */
/* Times the steps of a vocabulary that is split over shards, beside those of whole rows. All shards
 * are on one device, where they work one at a time. */
#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>

enum { STEP, LOCAL, MERGE };

/* A case on setup->shards shards. */
typedef struct split_case {
    const bench_setup *setup;
    const bench_case *c;
    cls_sampler **sampler; /* [shards] */
    cls_shard **shard;     /* [shards] */
    cls_step *step;        /* [shards] */
    uint32_t exchanges;    /* of the last step, and the bytes of one partial in each of them */
    size_t bytes[BENCH_EXCHANGES];
    unsigned char *partials; /* of all shards, in the latest exchange */
    cl_mem tokens;           /* [shards, batch] */
    int32_t *drawn;          /* [batch], by the whole step */
    int32_t *split;          /* [shards, batch] */
} split_case;

bool bench_can_split(const bench_case *c)
{
    return c->kind == BENCH_STEPS && c->drafts == BENCH_STEP && !c->late && c->kept_set == 0;
}

static void close_case(split_case *p)
{
    for (uint32_t i = 0; i < p->setup->shards && p->shard != NULL; i++)
        cls_shard_destroy(p->shard[i]);
    for (uint32_t i = 0; i < p->setup->shards && p->sampler != NULL; i++)
        cls_sampler_destroy(p->sampler[i]);
    if (p->tokens != NULL)
        clReleaseMemObject(p->tokens);
}

/* Creates a shard, whose logits are columns of setup->logits. */
static int open_shard(split_case *p, uint32_t i)
{
    const bench_setup *const setup = p->setup;
    cls_step *const step = &p->step[i];
    cls_shard_options o;
    cls_shard_info info;
    cls_shard_options_init(&o);
    cls_shard_info_init(&info);
    o.shard_count = setup->shards;
    o.shard = i;
    if (bench_new_sampler(setup, setup->window, &p->sampler[i]) ||
        cli_try(cli_compile_done(cls_shard_create(p->sampler[i], &o, &p->shard[i])),
                "creating a shard") ||
        cli_try(cls_shard_query(p->shard[i], &info), "asking for a shard's tokens"))
        return 1;
    bench_make_step(setup, p->c, step);
    step->logits.values.offset = info.first * bench_dtype_size(setup->dtype);
    step->logits.row_stride = setup->vocab;
    step->tokens.buffer = p->tokens;
    step->tokens.offset = (uint64_t)i * setup->batch * sizeof(int32_t);
    return 0;
}

static int open_case(split_case *p)
{
    const uint32_t n = p->setup->shards;
    const size_t size = p->setup->batch * sizeof(int32_t);
    cl_int error;
    p->sampler = cli_alloc(n, sizeof *p->sampler);
    p->shard = cli_alloc(n, sizeof *p->shard);
    p->step = cli_alloc(n, sizeof *p->step);
    p->drawn = cli_alloc(size, 1);
    p->split = cli_alloc(n, size);
    p->tokens = clCreateBuffer(p->setup->on->cl, CL_MEM_READ_WRITE, n * size, NULL, &error);
    if (cli_try_opencl(error, "bench: the shards' tokens"))
        return 1;
    for (uint32_t i = 0; i < n; i++)
        if (open_shard(p, i))
            return 1;
    return 0;
}

/* Begins the requests on the whole sampler and on all shards. */
static int begin(void *of)
{
    const split_case *const p = of;
    int failed = bench_begin_slots(p->setup, p->c);
    for (uint32_t i = 0; i < p->setup->shards && !failed; i++) {
        bench_setup shard = *p->setup;
        shard.sampler = p->sampler[i];
        failed = bench_begin_slots(&shard, p->c);
    }
    return failed;
}

/* Fails if a shard's tokens are not those of the whole step. */
static int compare_tokens(split_case *p)
{
    const uint32_t batch = p->setup->batch;
    if (bench_read(p->setup, &(cls_buffer){.buffer = p->tokens},
                   p->setup->shards * batch * sizeof(int32_t), p->split))
        return 1;
    for (uint32_t i = 0; i < p->setup->shards; i++)
        for (uint32_t row = 0; row < batch; row++)
            if (p->split[i * batch + row] != p->drawn[row])
                return cli_fail("bench: %s, row %u: shard %u drew token %d, but the whole step "
                                "drew %d",
                                p->c->name, (unsigned)row, (unsigned)i,
                                (int)p->split[i * batch + row], (int)p->drawn[row]);
    return 0;
}

/* --------------------------------------------------------------------- a step */

/* Copies the partials of all shards to p->partials. */
static int exchange(split_case *p, size_t *size)
{
    for (uint32_t i = 0; i < p->setup->shards; i++) {
        const void *partial;
        if (cli_try(cls_shard_partial(p->shard[i], &partial, size), "a shard's partial"))
            return 1;
        p->partials = cli_grow(p->partials, p->setup->shards, *size);
        memcpy(p->partials + i * *size, partial, *size);
    }
    if (p->exchanges < BENCH_EXCHANGES)
        p->bytes[p->exchanges] = *size;
    p->exchanges++;
    return 0;
}

/* Merges the partials on a shard, and waits for the next one or, after the last, for the queue. */
static int merge(split_case *p, uint32_t i, size_t size, int *more)
{
    const cl_command_queue queue = p->setup->on->queue;
    cls_status status;
    const void *partial;
    CLI_RETRY(status, queue,
              cls_shard_merge(p->shard[i], p->partials, p->setup->shards * size, more, NULL));
    if (cli_try(status, "merging a shard's partials"))
        return 1;
    if (*more)
        return cli_try(cls_shard_partial(p->shard[i], &partial, &size), "a shard's partial");
    return clFinish(queue) == CL_SUCCESS ? 0 : cli_fail("bench: the device failed");
}

/* Runs a step on all shards, of which one works at a time: all have the device to themselves. */
static int run_split(split_case *p, double *us)
{
    const cl_command_queue queue = p->setup->on->queue;
    const void *partial;
    size_t size = 0;
    int more = 1;
    us[LOCAL] = us[MERGE] = 0;
    for (uint32_t i = 0; i < p->setup->shards; i++) {
        const double start = cli_clock();
        cls_status status;
        CLI_RETRY(status, queue, cls_shard_sample(p->shard[i], queue, &p->step[i], 0, NULL));
        if (cli_try(status, "sampling") ||
            cli_try(cls_shard_partial(p->shard[i], &partial, &size), "a shard's partial"))
            return 1;
        us[LOCAL] += cli_clock() - start;
    }
    for (p->exchanges = 0; more;) {
        if (exchange(p, &size))
            return 1;
        for (uint32_t i = 0; i < p->setup->shards; i++) {
            const double start = cli_clock();
            if (merge(p, i, size, &more))
                return 1;
            if (i == 0)
                us[MERGE] += cli_clock() - start;
        }
    }
    return 0;
}

/* Runs and times the next step, whole and split. */
static int run(void *of, double *us)
{
    split_case *const p = of;
    const double start = cli_clock();
    if (bench_run_step(p->setup, p->c, p->drawn))
        return 1;
    us[STEP] = cli_clock() - start;
    return run_split(p, us) || compare_tokens(p);
}

int bench_time_shards(const bench_setup *setup, const bench_case *c, bench_result *result)
{
    split_case p = {.setup = setup, .c = c};
    const bench_rounds rounds = {begin, run, &p, BENCH_STABLE};
    double us[BENCH_PARTS] = {0};
    const int failed = open_case(&p) || bench_medians(&rounds, setup->runs, us, &result->runs);
    result->launches = cls_sampler_launches(setup->sampler);
    result->step_us = us[STEP];
    result->local_us = us[LOCAL];
    result->merge_us = us[MERGE];
    result->exchanges = p.exchanges;
    for (uint32_t i = 0; i < p.exchanges && i < BENCH_EXCHANGES; i++)
        result->partial_row[i] = (double)p.bytes[i] / setup->batch;
    close_case(&p);
    return failed;
}
