/* SPDX-License-Identifier: MIT */
/* Times a step and the floor by the device's own clock, without what the host and the driver add:
 * the events of a queue with CL_QUEUE_PROFILING_ENABLE have the times at which commands began and
 * ended. Before the floor and the step comes a kernel that takes longer than the host needs to
 * enqueue them; else the time between kernels would be the host's. */
#include "bench.h"

#include <stdlib.h>

/* The most runs, and the time that they may take; the clock of a device needs few. */
#define MOST_RUNS 101u
#define MOST_US 1e6

enum { FLOOR, STEP, KINDS };

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
static int run_once(const bench_floor *floor, const bench_steps *steps, cl_command_queue queue,
                    double us[KINDS])
{
    cl_event busy = NULL, read = NULL, step = NULL;
    cl_int error = bench_floor_busy(floor, queue, &busy);
    int failed = 0;
    if (error == CL_SUCCESS)
        error = bench_floor_enqueue(floor, queue, &read);
    if (error == CL_SUCCESS)
        failed = steps->enqueue(steps->of, queue, &step);
    if (error == CL_SUCCESS)
        error = clFinish(queue);
    if (error == CL_SUCCESS && !failed) {
        between(busy, read, &us[FLOOR]);
        between(read, step, &us[STEP]);
    }
    const cl_event events[] = {busy, read, step};
    for (int i = 0; i < 3; i++)
        if (events[i] != NULL)
            clReleaseEvent(events[i]);
    return failed || error == CL_SUCCESS ? failed : cli_fail_opencl("bench: the events", error);
}

static int time_on(const bench_setup *setup, const bench_floor *floor, const bench_steps *steps,
                   cl_command_queue queue, bench_result *result)
{
    const uint32_t most = setup->runs != 0 && setup->runs < MOST_RUNS ? setup->runs : MOST_RUNS;
    double times[KINDS][MOST_RUNS], us[KINDS];
    uint32_t n = 0;
    if (steps->begin(steps->of))
        return 1;
    if (run_once(floor, steps, queue, us)) /* the first launches are slow */
        return 1;
    const double begin = bench_clock();
    while (n < most && (n < 3 || bench_clock() - begin < MOST_US)) {
        if (cli_interrupted() || run_once(floor, steps, queue, us))
            return 1;
        if (us[FLOOR] == 0.0 || us[STEP] == 0.0)
            return 0; /* the driver reports no times */
        times[FLOOR][n] = us[FLOOR];
        times[STEP][n++] = us[STEP];
    }
    result->floor_device_us = bench_median(times[FLOOR], n);
    result->step_device_us = bench_median(times[STEP], n);
    return 0;
}

int bench_time_events(const bench_setup *setup, const bench_floor *floor, const bench_steps *steps,
                      bench_result *result)
{
    cl_int error;
    const cl_command_queue queue = clCreateCommandQueue(setup->on->cl, setup->on->device.id,
                                                        CL_QUEUE_PROFILING_ENABLE, &error);
    int failed;
    result->floor_device_us = result->step_device_us = 0.0;
    if (error != CL_SUCCESS)
        return 0; /* all devices should have such queues, but the step is already timed */
    failed = time_on(setup, floor, steps, queue, result);
    clReleaseCommandQueue(queue);
    return failed;
}
