/* SPDX-License-Identifier: MIT */
/* Times a step and the floor by the device's own clock, without what the host and the driver add:
 * the events of a queue with CL_QUEUE_PROFILING_ENABLE have the times at which commands began and
 * ended. Before the floor and the step comes a kernel that takes longer than the host needs to
 * enqueue them; else the time between kernels would be the host's. */
#include "bench/measure.h"

#include <stdlib.h>

/* The clock of a device needs few runs: at most so many, in so many microseconds. */
#define MOST_RUNS 101u
#define MOST_US 1e6

enum { FLOOR, STEP };

typedef struct profiled {
    const bench_floor *floor;
    const bench_steps *steps;
    cl_command_queue queue;
} profiled;

static int begin(void *of)
{
    const profiled *const p = of;
    return p->steps->begin(p->steps->of);
}

/* Sets *us to the microseconds from the end of one command to the end of the next; 0 if the driver
 * reports no times. */
static void between(cl_event first, cl_event next, double *us)
{
    cl_ulong begin = 0, end = 0;
    const int known = clGetEventProfilingInfo(first, CL_PROFILING_COMMAND_END, sizeof begin, &begin,
                                              NULL) == CL_SUCCESS &&
                      clGetEventProfilingInfo(next, CL_PROFILING_COMMAND_END, sizeof end, &end,
                                              NULL) == CL_SUCCESS;
    *us = known && begin != 0 && end > begin ? (double)(end - begin) * 1e-3 : 0.0;
}

/* Enqueues the floor and the step, waits for them and reads their times. */
static int run(void *of, double *us)
{
    const profiled *const p = of;
    cl_event busy = NULL, read = NULL, step = NULL;
    cl_int error = bench_floor_busy(p->floor, p->queue, &busy);
    int failed = 0;
    if (error == CL_SUCCESS)
        error = bench_floor_enqueue(p->floor, p->queue, &read);
    if (error == CL_SUCCESS)
        failed = p->steps->enqueue(p->steps->of, p->queue, &step);
    if (error == CL_SUCCESS)
        error = clFinish(p->queue);
    if (error == CL_SUCCESS && !failed) {
        between(busy, read, &us[FLOOR]);
        between(read, step, &us[STEP]);
    }
    const cl_event events[] = {busy, read, step};
    for (int i = 0; i < 3; i++)
        if (events[i] != NULL)
            clReleaseEvent(events[i]);
    return failed || cli_try_opencl(error, "bench: the events");
}

int bench_time_events(const bench_setup *setup, const bench_floor *floor, const bench_steps *steps,
                      bench_result *result)
{
    const uint32_t most = setup->runs != 0 && setup->runs < MOST_RUNS ? setup->runs : MOST_RUNS;
    double us[BENCH_PARTS] = {0};
    uint32_t runs;
    cl_int error;
    profiled p = {floor, steps, NULL};
    const bench_rounds rounds = {begin, run, &p, most, 0, MOST_US};
    p.queue = clCreateCommandQueue(setup->on->cl, setup->on->device.id, CL_QUEUE_PROFILING_ENABLE,
                                   &error);
    if (error != CL_SUCCESS)
        return 0; /* all devices should have such queues, but the step is already timed */
    const int failed = bench_medians(&rounds, 0, us, &runs);
    clReleaseCommandQueue(p.queue);
    if (us[FLOOR] > 0 && us[STEP] > 0) { /* else the driver reports no times */
        result->floor_device_us = us[FLOOR];
        result->step_device_us = us[STEP];
    }
    return failed;
}
