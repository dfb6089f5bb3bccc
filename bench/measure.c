/* SPDX-License-Identifier: MIT */
/* A step: first that it is right, then how long it takes. */
#include "bench.h"

#include <stdlib.h>
#include <time.h>

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

/* What a decode loop does: enqueue the step, read its tokens, wait. */
static int run_step(const bench_setup *setup, int masked, int32_t *tokens)
{
    cls_step step;
    cl_int error;

    cls_step_default(&step, sizeof step);
    step.rows = setup->batch;
    step.logits.kind = CLS_LOGITS_BUFFER;
    step.logits.dtype = (int32_t)setup->dtype;
    step.logits.buffer = setup->logits;
    step.tokens.buffer = setup->tokens;
    if (masked)
        step.mask.words.buffer = setup->mask;
    if (cls_sample(setup->sampler, setup->on->queue, &step, 0, NULL, NULL) != CLS_OK)
        return cli_fail_library("bench: the step");
    error = clEnqueueReadBuffer(setup->on->queue, setup->tokens, CL_FALSE, 0, setup->batch * sizeof *tokens, tokens, 0,
                                NULL, NULL);
    if (error == CL_SUCCESS)
        error = clFinish(setup->on->queue);
    return error == CL_SUCCESS ? 0 : cli_fail_opencl("bench: reading the tokens", error);
}

/* What the launches of a step cost with nothing in them. */
static int run_empty(const bench_setup *setup, const bench_floor *floor, uint32_t launches)
{
    const size_t one = 1;
    int32_t token;
    cl_int error = CL_SUCCESS;
    for (uint32_t i = 0; i < launches && error == CL_SUCCESS; i++)
        error = clEnqueueNDRangeKernel(setup->on->queue, floor->nothing, 1, NULL, &one, &one, 0, NULL, NULL);
    if (error == CL_SUCCESS)
        error = clEnqueueReadBuffer(setup->on->queue, setup->tokens, CL_FALSE, 0, sizeof token, &token, 0, NULL, NULL);
    if (error == CL_SUCCESS)
        error = clFinish(setup->on->queue);
    return error == CL_SUCCESS ? 0 : cli_fail_opencl("bench: an empty launch", error);
}

static int run_floor(const bench_setup *setup, const bench_floor *floor)
{
    cl_int error = bench_floor_enqueue(floor, setup->on->queue);
    if (error == CL_SUCCESS)
        error = clFinish(setup->on->queue);
    return error == CL_SUCCESS ? 0 : cli_fail_opencl("bench: the floor's kernel", error);
}

static int verify_rows(const bench_setup *setup, const char *name, const cls_params *params, int masked,
                       const int32_t *tokens)
{
    const uint32_t width = (setup->vocab + 31) / 32;
    for (uint32_t row = 0; row < setup->batch; row++) {
        cls_params own = *params;
        cls_host_row host;
        cls_host_result result = {.struct_size = sizeof result};

        own.seed += row;
        cls_host_row_default(&host, sizeof host);
        host.logits = (const char *)setup->rows + (size_t)row * setup->vocab * bench_dtype_size(setup->dtype);
        host.dtype = (int32_t)setup->dtype;
        host.vocab = setup->vocab;
        host.params = &own;
        if (masked) {
            host.mask = setup->mask_words + (size_t)row * width;
            host.mask_width = width;
        }
        if (cls_host_sample(&host, &result) != CLS_OK)
            return cli_fail_library("bench: the reference");
        if (result.token != tokens[row])
            return cli_fail("bench: %s, row %u: the device drew token %d, the reference %d", name, (unsigned)row,
                            (int)tokens[row], (int)result.token);
    }
    return 0;
}

int bench_verify(const bench_setup *setup, const char *name, const cls_params *params, int masked)
{
    int32_t *tokens = malloc(setup->batch * sizeof *tokens);
    int failed;
    if (tokens == NULL)
        return cli_no_memory();
    failed = run_step(setup, masked, tokens) || verify_rows(setup, name, params, masked, tokens);
    free(tokens);
    return failed;
}

/* Medians of a hundred runs and of a second are steady; ten seconds are enough
 * for the slowest device. */
static int enough(uint32_t wanted, uint32_t runs, double spent)
{
    if (wanted != 0)
        return runs >= wanted;
    return (runs >= 101 && spent >= 1e6) || (runs >= 3 && spent >= 1e7);
}

enum { FLOOR, STEP, EMPTY, KINDS };

static int time_into(const bench_setup *setup, const bench_floor *floor, int masked, bench_result *result,
                     double *times[KINDS], int32_t *tokens)
{
    const double begin = bench_clock();
    uint32_t n = 0;
    for (int i = 0; i < 3; i++) /* first launches are slow */
        if (run_step(setup, masked, tokens) || run_floor(setup, floor))
            return 1;
    result->launches = cls_sampler_launches(setup->sampler);
    while (n < BENCH_MOST_RUNS && !enough(setup->runs, n, bench_clock() - begin)) {
        double start = bench_clock(), end;
        if (run_floor(setup, floor))
            return 1;
        end = bench_clock();
        times[FLOOR][n] = end - start;
        start = end;
        if (run_step(setup, masked, tokens))
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
    result->host_bytes = setup->batch * sizeof *tokens;
    return 0;
}

int bench_time(const bench_setup *setup, const bench_floor *floor, int masked, bench_result *result)
{
    int32_t *tokens = malloc(setup->batch * sizeof *tokens);
    double *memory = malloc(KINDS * BENCH_MOST_RUNS * sizeof *memory);
    double *times[KINDS];
    int failed = 1;
    if (tokens == NULL || memory == NULL) {
        cli_no_memory();
    } else {
        for (size_t i = 0; i < KINDS; i++)
            times[i] = memory + i * BENCH_MOST_RUNS;
        failed = time_into(setup, floor, masked, result, times, tokens);
    }
    free(memory);
    free(tokens);
    return failed;
}
