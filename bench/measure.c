/* SPDX-License-Identifier: MIT */
/* Verifies a step against the reference, then times it. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LLAMA_WINDOW 64u /* the window of llama.cpp's penalties */
#define LOOPS 16u        /* copies of a loop that stop a request */
#define LONGEST_LOOP 32u
#define FORCED 512u /* forced ids of a request: more than the steps until it begins again */

double bench_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *times, size_t n)
{
    qsort(times, n, sizeof *times, compare);
    return n == 0 ? 0.0 : (times[(n - 1) / 2] + times[n / 2]) * 0.5;
}

uint32_t bench_history(const bench_setup *setup, const bench_case *c)
{
    return c->history != 0 ? c->history : c->penalized ? setup->history : 0;
}

uint32_t bench_window(const bench_case *c)
{
    switch (c->more) {
    case BENCH_NO_MORE:
    case BENCH_THINKING:
    case BENCH_FORCED:
        return 0;
    case BENCH_LOOP:
        return LOOPS * LONGEST_LOOP;
    case BENCH_DRY:
    case BENCH_WATERMARK:
        return c->history;
    default:
        return LLAMA_WINDOW;
    }
}

/* Sets llama.cpp's default chain with one more sampler. */
static void make_llama(bench_more more, uint32_t vocab, cls_params *params)
{
    static const int32_t ids[] = {1, 5, 9, 13}; /* by Zipf's law about one token in 14 */
    static const cls_ids breakers[] = {{&ids[0], 1}, {&ids[1], 1}, {&ids[2], 1}, {&ids[3], 1}};
    params->chain = CLS_CHAIN_LLAMA;
    params->penalty_scope = CLS_SCOPE_ALL;
    params->penalty_window = LLAMA_WINDOW;
    params->repetition_penalty = 1.1f;
    if (more == BENCH_DRY) {
        params->dry_multiplier = 0.8f;
        params->dry_breakers.sequences = breakers;
        params->dry_breakers.count = vocab > 13 ? sizeof breakers / sizeof *breakers : 0;
    } else if (more == BENCH_XTC) {
        params->xtc_probability = 0.5f;
    } else if (more == BENCH_TYPICAL) {
        params->typical_p = 0.9f;
    } else if (more == BENCH_MIROSTAT || more == BENCH_MIROSTAT_LATE) {
        params->mirostat = 2;
    }
}

/* Sets a thinking budget, or the loop stop. Loops of fewer tokens would occur. */
static void make_ends(bench_more more, cls_params *params)
{
    static const int32_t end = 0;
    if (more == BENCH_THINKING) {
        params->thinking_end.ids = params->thinking_forced.ids = &end;
        params->thinking_end.count = params->thinking_forced.count = 1;
        params->thinking_budget = UINT32_MAX / 2;
    } else if (more == BENCH_LOOP) {
        params->loop_repeats = LOOPS;
        params->loop_min = 8;
        params->loop_max = LONGEST_LOOP;
    } else if (more == BENCH_WATERMARK) {
        params->watermark_context = 4;
    }
}

void bench_make_params(const bench_case *c, uint32_t row, cls_params *params)
{
    cls_params_init(params);
    params->temperature = c->temperature;
    params->top_k = c->top_k;
    params->top_p = c->top_p;
    params->min_p = c->min_p;
    params->seed = row;
}

/* Begins the request of a row in a slot: the parameters, and the history, of which half is prompt
 * and half is output. */
static cls_status begin_row(const bench_setup *setup, const bench_case *c, uint32_t slot)
{
    const uint32_t row = setup->first + slot, history = bench_history(setup, c),
                   outputs = history / 2, prompts = history - outputs;
    const int32_t *const ids = setup->ids + (size_t)row * setup->longest;
    cls_params params;
    bench_make_params(c, row, &params);
    if (c->more >= BENCH_THINKING)
        make_ends(c->more, &params);
    else if (c->more != BENCH_NO_MORE)
        make_llama(c->more, setup->vocab, &params);
    if (c->penalized) {
        params.repetition_penalty = 1.1f;
        params.frequency_penalty = 0.1f;
        params.presence_penalty = 0.1f;
    }
    const cls_status status =
        cls_slot_begin(setup->sampler, slot, &params, prompts != 0 ? ids : NULL, prompts,
                       outputs != 0 ? ids + prompts : NULL, outputs);
    return status == CLS_OK && c->more == BENCH_FORCED
               ? cls_slot_force(setup->sampler, slot, ids, FORCED)
               : status;
}

int bench_begin_slots(const bench_setup *setup, const bench_case *c)
{
    for (uint32_t slot = 0; slot < setup->batch; slot++)
        if (begin_row(setup, c, slot) != CLS_OK)
            return cli_fail_library("bench: beginning a slot");
    return 0;
}

void bench_make_step(const bench_setup *setup, const bench_case *c, cls_step *step)
{
    cls_step_init(step);
    step->rows = setup->batch;
    step->logits.dtype = (int32_t)setup->dtype;
    step->logits.values = setup->logits;
    step->tokens = setup->tokens;
    if (c->mask != BENCH_ALL)
        step->mask.words = setup->mask;
}

/* The capacity of a case's kept sets. */
static uint32_t kept_capacity(const bench_setup *setup, const bench_case *c)
{
    return c->kept_set < setup->vocab ? c->kept_set : setup->vocab;
}

int bench_enqueue_step(const bench_setup *setup, const bench_case *c, cl_command_queue queue,
                       cl_event *done)
{
    cls_step step;
    cls_outputs outputs;
    bench_make_step(setup, c, &step);
    if (c->kept_set != 0) {
        cls_outputs_init(&outputs);
        outputs.kept_set.capacity = kept_capacity(setup, c);
        outputs.kept_set.ids = setup->kept;
        step.outputs = &outputs;
    }
    return cls_sample(setup->sampler, queue, &step, 0, NULL, done) == CLS_OK
               ? 0
               : cli_fail_library("bench: the step");
}

int bench_run_step(const bench_setup *setup, const bench_case *c, int32_t *tokens)
{
    cl_int error;
    if (bench_enqueue_step(setup, c, setup->on->queue, NULL))
        return 1;
    error = clEnqueueReadBuffer(setup->on->queue, setup->tokens.buffer, CL_FALSE, 0,
                                setup->batch * sizeof *tokens, tokens, 0, NULL, NULL);
    if (error == CL_SUCCESS)
        error = clFinish(setup->on->queue);
    return error == CL_SUCCESS ? 0 : cli_fail_opencl("bench: reading the tokens", error);
}

/* Runs as many empty kernels as a step launches. */
static int run_empty(const bench_setup *setup, const bench_floor *floor, uint32_t launches)
{
    const size_t one = 1;
    int32_t token;
    cl_int error = CL_SUCCESS;
    for (uint32_t i = 0; i < launches && error == CL_SUCCESS; i++)
        error = clEnqueueNDRangeKernel(setup->on->queue, floor->nothing, 1, NULL, &one, &one, 0,
                                       NULL, NULL);
    if (error == CL_SUCCESS)
        error = clEnqueueReadBuffer(setup->on->queue, setup->tokens.buffer, CL_FALSE, 0,
                                    sizeof token, &token, 0, NULL, NULL);
    if (error == CL_SUCCESS)
        error = clFinish(setup->on->queue);
    return error == CL_SUCCESS ? 0 : cli_fail_opencl("bench: an empty launch", error);
}

int bench_run_floor(const bench_setup *setup, const bench_floor *floor)
{
    cl_int error = bench_floor_enqueue(floor, setup->on->queue, NULL);
    if (error == CL_SUCCESS)
        error = clFinish(setup->on->queue);
    return error == CL_SUCCESS ? 0 : cli_fail_opencl("bench: the floor's kernel", error);
}

/* The reference's results of a case. */
typedef struct reference {
    const bench_setup *setup;
    const bench_case *c;
    int32_t *tokens; /* [batch] */
    int32_t *sets;   /* [batch, kept_capacity()], or NULL: the case has no kept sets */
} reference;

static int sample_row(void *of, uint32_t row)
{
    const reference *const r = of;
    const size_t set = kept_capacity(r->setup, r->c) * sizeof(int32_t);
    bench_setup twin = bench_twin(r->setup, row);
    twin.tokens = bench_memory(&r->tokens[row], sizeof *r->tokens);
    if (r->sets != NULL)
        twin.kept = bench_memory((char *)r->sets + row * set, set);
    const int failed =
        cli_interrupted() || bench_new_sampler(&twin, r->setup->window, &twin.sampler) ||
        bench_begin_slots(&twin, r->c) || bench_enqueue_step(&twin, r->c, NULL, NULL);
    cls_sampler_destroy(twin.sampler);
    return failed;
}

/* ids: the kept sets of the device; NULL where there are none. */
static int verify_rows(reference *r, const int32_t *tokens, const int32_t *ids)
{
    const uint32_t batch = r->setup->batch, capacity = kept_capacity(r->setup, r->c);
    if (bench_each(batch, sample_row, r))
        return 1;
    for (uint32_t row = 0; row < batch; row++) {
        const size_t first = (size_t)row * capacity;
        if (r->tokens[row] != tokens[row])
            return cli_fail(
                "bench: %s, row %u: the device drew token %d, but the reference drew %d",
                r->c->name, (unsigned)row, (int)tokens[row], (int)r->tokens[row]);
        if (ids != NULL && memcmp(ids + first, r->sets + first, capacity * sizeof *ids) != 0)
            return cli_fail("bench: %s, row %u: the kept set is not the reference's", r->c->name,
                            (unsigned)row);
    }
    return 0;
}

/* Reads the kept sets, if the case has any, and compares all results. */
static int verify_results(reference *r, const int32_t *tokens)
{
    const size_t size = (size_t)r->setup->batch * kept_capacity(r->setup, r->c) * sizeof(int32_t);
    cl_int error = CL_SUCCESS;
    if (r->c->kept_set == 0)
        return verify_rows(r, tokens, NULL);
    int32_t *const ids = malloc(size);
    r->sets = malloc(size);
    int failed = ids == NULL || r->sets == NULL ? cli_no_memory() : 0;
    if (!failed)
        error = clEnqueueReadBuffer(r->setup->on->queue, r->setup->kept.buffer, CL_TRUE, 0, size,
                                    ids, 0, NULL, NULL);
    if (error != CL_SUCCESS)
        failed = cli_fail_opencl("bench: reading the kept sets", error);
    failed = failed || verify_rows(r, tokens, ids);
    free(ids);
    free(r->sets);
    return failed;
}

int bench_verify(const bench_setup *setup, const bench_case *c)
{
    int32_t *tokens = malloc(2 * setup->batch * sizeof *tokens);
    reference r = {setup, c, tokens != NULL ? tokens + setup->batch : NULL, NULL};
    int failed;
    if (tokens == NULL)
        return cli_no_memory();
    failed = bench_begin_slots(setup, c) || bench_run_step(setup, c, tokens) ||
             verify_results(&r, tokens);
    free(tokens);
    return failed;
}

/* The median of a hundred runs and of one second is stable. Ten seconds are enough for the slowest
 * device. */
int bench_enough(uint32_t wanted, uint32_t runs, double spent)
{
    if (wanted != 0)
        return runs >= wanted;
    return (runs >= 101 && spent >= 1e6) || (runs >= 3 && spent >= 1e7);
}

enum { FLOOR, STEP, EMPTY, KINDS };

/* Steps accept their tokens, so histories grow. After so many steps the requests begin again. */
#define RESTART 256

static int time_into(const bench_setup *setup, const bench_floor *floor, const bench_steps *steps,
                     bench_result *result, double *times[KINDS])
{
    uint32_t n = 0;
    if (steps->begin(steps->of))
        return 1;
    const double begin = bench_clock();
    for (int i = 0; i < 3; i++) /* the first launches are slow */
        if (steps->run(steps->of) || bench_run_floor(setup, floor))
            return 1;
    result->launches = cls_sampler_launches(setup->sampler);
    while (n < BENCH_MOST_RUNS && !bench_enough(setup->runs, n, bench_clock() - begin)) {
        double start, end;
        if (cli_interrupted())
            return 1;
        if (n % RESTART == RESTART - 1 && (steps->begin(steps->of) || steps->run(steps->of)))
            return 1;
        start = bench_clock();
        if (bench_run_floor(setup, floor))
            return 1;
        end = bench_clock();
        times[FLOOR][n] = end - start;
        start = end;
        if (steps->run(steps->of))
            return 1;
        end = bench_clock();
        times[STEP][n] = end - start;
        start = end;
        if (run_empty(setup, floor, result->launches))
            return 1;
        times[EMPTY][n++] = bench_clock() - start;
    }
    result->runs = n;
    result->floor_us = bench_median(times[FLOOR], n);
    result->step_us = bench_median(times[STEP], n);
    result->empty_us = bench_median(times[EMPTY], n);
    return 0;
}

int bench_time_steps(const bench_setup *setup, const bench_floor *floor, const bench_steps *steps,
                     bench_result *result)
{
    double *memory = malloc(KINDS * BENCH_MOST_RUNS * sizeof *memory);
    double *times[KINDS];
    int failed;
    if (memory == NULL)
        return cli_no_memory();
    for (size_t i = 0; i < KINDS; i++)
        times[i] = memory + i * BENCH_MOST_RUNS;
    failed = time_into(setup, floor, steps, result, times);
    free(memory);
    return failed || bench_time_events(setup, floor, steps, result);
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
    for (int i = 0; i < LATE && !failed && !cli_interrupted() && p->c->more == BENCH_MIROSTAT_LATE;
         i++)
        failed = run_plain(of);
    return failed;
}

int bench_time(const bench_setup *setup, const bench_floor *floor, const bench_case *c,
               bench_result *result)
{
    plain p = {setup, c, malloc(setup->batch * sizeof *p.tokens)};
    const bench_steps steps = {begin_plain, enqueue_plain, run_plain, &p};
    int failed;
    if (p.tokens == NULL)
        return cli_no_memory();
    result->host_bytes = setup->batch * sizeof *p.tokens;
    failed = bench_time_steps(setup, floor, &steps, result);
    free(p.tokens);
    return failed;
}
