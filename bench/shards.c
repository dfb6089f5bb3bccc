/* SPDX-License-Identifier: MIT */
/* Times the steps of a vocabulary that is split over shards, beside those of whole rows. All shards
 * are on one device, where they work one at a time. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

/* The requests accept their tokens; after so many steps they begin again. */
#define RESTART 256

enum { STEP, LOCAL, MERGE, KINDS };

/* A case on setup->shards shards. */
typedef struct split_case {
    const bench_setup *setup;
    const bench_case *c;
    cli_shards shards;
    cls_sampler **sampler; /* [shards] */
    cl_mem tokens;         /* [shards, batch] */
    int32_t *drawn;        /* [batch], by the whole step */
    int32_t *split;        /* [shards, batch] */
} split_case;

bool bench_can_split(const bench_case *c)
{
    return c->drafts == BENCH_STEP && c->more != BENCH_MIROSTAT_LATE && c->kept_set == 0;
}

static void close_case(split_case *p)
{
    cli_shards_free(&p->shards);
    for (uint32_t i = 0; i < p->setup->shards && p->sampler != NULL; i++)
        cls_sampler_destroy(p->sampler[i]);
    if (p->tokens != NULL)
        clReleaseMemObject(p->tokens);
    free(p->sampler);
    free(p->drawn);
    free(p->split);
}

/* Creates a shard, whose logits are columns of setup->logits. */
static int open_shard(split_case *p, uint32_t i)
{
    const bench_setup *const setup = p->setup;
    const cli_split split = {.shards = setup->shards};
    cls_step *const step = &p->shards.step[i];
    uint32_t first, width;
    if (bench_new_sampler(setup, setup->window, &p->sampler[i]) ||
        cli_shards_add(&p->shards, &split, p->sampler[i], setup->on->queue, &first, &width))
        return 1;
    bench_make_step(setup, p->c, step);
    step->logits.values.offset = first * bench_dtype_size(setup->dtype);
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
    p->sampler = calloc(n, sizeof *p->sampler);
    p->drawn = malloc(size);
    p->split = malloc(n * size);
    if (p->sampler == NULL || p->drawn == NULL || p->split == NULL)
        return cli_no_memory();
    cli_shards_alloc(&p->shards, n);
    p->tokens = clCreateBuffer(p->setup->on->cl, CL_MEM_READ_WRITE, n * size, NULL, &error);
    if (error != CL_SUCCESS)
        return cli_fail_opencl("bench: the shards' tokens", error);
    for (uint32_t i = 0; i < n; i++)
        if (open_shard(p, i))
            return 1;
    return 0;
}

/* Begins the requests on the whole sampler and on all shards. */
static int begin(const split_case *p)
{
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
    const cl_int error =
        clEnqueueReadBuffer(p->setup->on->queue, p->tokens, CL_TRUE, 0,
                            p->setup->shards * batch * sizeof(int32_t), p->split, 0, NULL, NULL);
    if (error != CL_SUCCESS)
        return cli_fail_opencl("bench: reading the shards' tokens", error);
    for (uint32_t i = 0; i < p->setup->shards; i++)
        for (uint32_t row = 0; row < batch; row++)
            if (p->split[i * batch + row] != p->drawn[row])
                return cli_fail("bench: %s, row %u: shard %u drew token %d, but the whole step "
                                "drew %d",
                                p->c->name, (unsigned)row, (unsigned)i,
                                (int)p->split[i * batch + row], (int)p->drawn[row]);
    return 0;
}

/* Runs and times the next step, whole and split. */
static int run(split_case *p, double *step_us, cli_shard_times *split)
{
    const double start = bench_clock();
    if (bench_run_step(p->setup, p->c, p->drawn))
        return 1;
    *step_us = bench_clock() - start;
    return cli_shards_step(&p->shards, split) || compare_tokens(p);
}

static int time_into(split_case *p, bench_result *result, double *times[KINDS])
{
    const bench_setup *const setup = p->setup;
    cli_shard_times split;
    double step_us;
    uint32_t n = 0;
    if (begin(p))
        return 1;
    const double start = bench_clock();
    for (int i = 0; i < 3; i++) /* the first launches are slow */
        if (run(p, &step_us, &split))
            return 1;
    result->launches = cls_sampler_launches(setup->sampler);
    while (n < BENCH_MOST_RUNS && !bench_enough(setup->runs, n, bench_clock() - start)) {
        if (cli_interrupted())
            return 1;
        if (n % RESTART == RESTART - 1 && (begin(p) || run(p, &step_us, &split)))
            return 1;
        if (run(p, &step_us, &split))
            return 1;
        times[STEP][n] = step_us;
        times[LOCAL][n] = split.local_us;
        times[MERGE][n++] = split.merge_us;
    }
    result->runs = n;
    result->step_us = bench_median(times[STEP], n);
    result->split.local_us = bench_median(times[LOCAL], n);
    result->split.merge_us = bench_median(times[MERGE], n);
    result->exchanges = p->shards.exchanges;
    for (uint32_t i = 0; i < p->shards.exchanges && i < CLI_EXCHANGES; i++)
        result->partial_row[i] = (double)p->shards.bytes[i] / setup->batch;
    return 0;
}

int bench_time_shards(const bench_setup *setup, const bench_case *c, bench_result *result)
{
    split_case p = {.setup = setup, .c = c};
    double *const memory = malloc(KINDS * BENCH_MOST_RUNS * sizeof *memory);
    double *times[KINDS];
    int failed = memory == NULL ? cli_no_memory() : 0;
    for (size_t i = 0; i < KINDS && !failed; i++)
        times[i] = memory + i * BENCH_MOST_RUNS;
    failed = failed || open_case(&p) || time_into(&p, result, times);
    close_case(&p);
    free(memory);
    return failed;
}
