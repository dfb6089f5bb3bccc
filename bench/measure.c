/* SPDX-License-Identifier: MIT */
/* Times a step, beside the floor and empty launches. */

#include "bench/measure.h"

/* Runs as many empty kernels as a step launches. */
static int run_empty(const bench_setup *setup, const bench_floor *floor, uint32_t launches)
{
    const size_t one = 1;
    int32_t token;
    cl_int error = CL_SUCCESS;
    for (uint32_t i = 0; i < launches && error == CL_SUCCESS; i++)
        error = clEnqueueNDRangeKernel(setup->on->queue, floor->nothing, 1, NULL, &one, &one, 0,
                                       NULL, NULL);
    return cli_try_opencl(error, "bench: an empty launch") ||
           bench_read(setup, &setup->tokens, sizeof token, &token);
}

enum { FLOOR, STEP, EMPTY };

/* The floor, a step and as many empty launches, in turn. */
typedef struct turn {
    const bench_setup *setup;
    const bench_floor *floor;
    const bench_steps *steps;
    uint32_t turns, launches; /* of a step: those of the third, which uploads no requests */
} turn;

static int begin_turns(void *of)
{
    const turn *const t = of;
    return t->steps->begin(t->steps->of);
}

static int run_turn(void *of, double *us)
{
    turn *const t = of;
    const double begin = cli_clock();
    if (bench_run_floor(t->setup, t->floor))
        return 1;
    const double read = cli_clock();
    if (t->steps->run(t->steps->of))
        return 1;
    const double step = cli_clock();
    if (++t->turns == 3)
        t->launches = cls_sampler_launches(t->setup->sampler);
    if (run_empty(t->setup, t->floor, t->launches))
        return 1;
    us[FLOOR] = read - begin;
    us[STEP] = step - read;
    us[EMPTY] = cli_clock() - step;
    return 0;
}

int bench_time_steps(const bench_setup *setup, const bench_floor *floor, const bench_steps *steps,
                     bench_result *result)
{
    turn t = {setup, floor, steps, 0, 0};
    const bench_rounds rounds = {begin_turns, run_turn, &t, BENCH_STABLE};
    double us[BENCH_PARTS];
    if (bench_medians(&rounds, setup->runs, us, &result->runs))
        return 1;
    result->launches = t.launches;
    result->floor_us = us[FLOOR];
    result->step_us = us[STEP];
    result->empty_us = us[EMPTY];
    return bench_time_events(setup, floor, steps, result);
}

typedef struct plain {
    const bench_setup *setup;
    const bench_case *c;
    int32_t *tokens;
} plain;

static int enqueue_plain(void *of, cl_command_queue queue, cl_event *done)
{
    const plain *const p = of;
    return bench_enqueue_step(p->setup, p->c, queue, done);
}

static int run_plain(void *of)
{
    const plain *const p = of;
    return bench_run_step(p->setup, p->c, p->tokens);
}

/* After so many tokens Mirostat's mu is above 64 bits, and nothing is cut. */
#define LATE 1000

static int begin_plain(void *of)
{
    const plain *const p = of;
    int failed = bench_begin_slots(p->setup, p->c);
    for (int i = 0; i < LATE && !failed && !cli_interrupted() && p->c->late; i++)
        failed = run_plain(of);
    return failed;
}

int bench_time(const bench_setup *setup, const bench_floor *floor, const bench_case *c,
               bench_result *result)
{
    plain p = {setup, c, cli_alloc(setup->batch, sizeof *p.tokens)};
    const bench_steps steps = {begin_plain, enqueue_plain, run_plain, &p};
    result->host_bytes = setup->batch * sizeof *p.tokens;
    if (bench_is_host(setup))
        return bench_time_host(setup, &steps, result);
    return bench_time_steps(setup, floor, &steps, result);
}
