/* SPDX-License-Identifier: MIT */
/* Where the time of a step goes: runs `clsample bench` and prints, after its output, an array with
 * each kernel's times by the device's clock.
 *
 *     profile --case NAME [--batch N] [any option of clsample bench]
 *
 * Each launch passes through this file's clEnqueueNDRangeKernel(), since the library finds the
 * functions of OpenCL that the process has. It asks for an event where the queue is one that
 * bench/events.c has made, and so times kernels that the library launches inside cls_sample(). The
 * medians are of all launches of a kernel; name one case, or they mix several. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "bench/bench.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define MOST_KERNELS 32
#define MOST_LAUNCHES 16384u

/* A kernel with the size of its groups. */
typedef struct profiled {
    char name[48];
    size_t local, global[2];
    uint32_t launches;   /* all; the first MOST_LAUNCHES are timed */
    double *us, *gap_us; /* its time, and that since the end of the launch before */
    cl_ulong private_bytes, local_bytes;
} profiled;

static profiled kernels[MOST_KERNELS];
static uint32_t count;

/* The launches of a queue that was not finished yet. */
static struct launch {
    uint32_t kernel;
    cl_event event;
} pending[4096];
static uint32_t waiting;
static cl_ulong last_end;

static __typeof__(&(clEnqueueNDRangeKernel)) real_launch;
static __typeof__(&(clFinish)) real_finish;

/* Finds the function behind this file's. ISO C has no cast to a pointer to a function. */
static void find_next(const char *name, void *function)
{
    void *const found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, sizeof found);
}

/* The entry of a kernel; MOST_KERNELS if there are too many. */
static uint32_t entry_of(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                         const size_t *global, const size_t *local)
{
    char name[48] = "?";
    cl_device_id device = NULL;
    const size_t rows = dimensions > 1 ? global[1] : 1, items = local != NULL ? local[0] : 0;
    clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(kernels[i].name, name) == 0 && kernels[i].local == items &&
            kernels[i].global[0] == global[0] && kernels[i].global[1] == rows)
            return i;
    if (count == MOST_KERNELS)
        return MOST_KERNELS;
    profiled *const k = &kernels[count];
    k->us = malloc(2 * MOST_LAUNCHES * sizeof *k->us);
    if (k->us == NULL)
        return MOST_KERNELS;
    k->gap_us = k->us + MOST_LAUNCHES;
    memcpy(k->name, name, sizeof name);
    k->local = items;
    k->global[0] = global[0];
    k->global[1] = rows;
    clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_PRIVATE_MEM_SIZE, sizeof k->private_bytes,
                             &k->private_bytes, NULL);
    clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof k->local_bytes,
                             &k->local_bytes, NULL);
    return count++;
}

CLS_API cl_int(clEnqueueNDRangeKernel)(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                       const size_t *offset, const size_t *global,
                                       const size_t *local, cl_uint n, const cl_event *wait,
                                       cl_event *event)
{
    cl_command_queue_properties properties = 0;
    cl_event own = NULL;
    cl_int error;
    clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    if (!(properties & CL_QUEUE_PROFILING_ENABLE) || waiting == sizeof pending / sizeof *pending)
        return real_launch(queue, kernel, dimensions, offset, global, local, n, wait, event);
    error = real_launch(queue, kernel, dimensions, offset, global, local, n, wait, &own);
    if (error != CL_SUCCESS)
        return error;
    pending[waiting++] = (struct launch){entry_of(queue, kernel, dimensions, global, local), own};
    if (event != NULL) {
        clRetainEvent(own);
        *event = own;
    }
    return error;
}

/* Reads the times of the launches, which have ended. */
CLS_API cl_int(clFinish)(cl_command_queue queue)
{
    const cl_int error = real_finish(queue);
    for (uint32_t i = 0; i < waiting; i++) {
        cl_ulong begin = 0, end = 0;
        clGetEventProfilingInfo(pending[i].event, CL_PROFILING_COMMAND_START, sizeof begin, &begin,
                                NULL);
        clGetEventProfilingInfo(pending[i].event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
        clReleaseEvent(pending[i].event);
        if (pending[i].kernel != MOST_KERNELS) {
            profiled *const k = &kernels[pending[i].kernel];
            if (k->launches < MOST_LAUNCHES) {
                k->us[k->launches] = end > begin ? (double)(end - begin) * 1e-3 : 0.0;
                k->gap_us[k->launches] =
                    i != 0 && begin > last_end ? (double)(begin - last_end) * 1e-3 : 0.0;
            }
            k->launches++;
        }
        last_end = end;
    }
    waiting = 0;
    return error;
}

static json_t *kernel_json(profiled *k)
{
    const uint32_t n = k->launches < MOST_LAUNCHES ? k->launches : MOST_LAUNCHES;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:I, s:I}", "kernel", k->name, "group",
                     (json_int_t)k->local, "groups",
                     (json_int_t)(k->local != 0 ? k->global[0] / k->local : k->global[0]), "rows",
                     (json_int_t)k->global[1], "launches", (json_int_t)k->launches, "us",
                     bench_median(k->us, n), "gap_us", bench_median(k->gap_us, n), "private_bytes",
                     (json_int_t)k->private_bytes, "local_bytes", (json_int_t)k->local_bytes);
}

int main(int argc, char **argv)
{
    char name[] = "bench";
    json_t *const array = json_array();
    argv[0] = name;
    find_next("clEnqueueNDRangeKernel", &real_launch);
    find_next("clFinish", &real_finish);
    if (cls_cmd_bench(argc, argv))
        return 1;
    for (uint32_t i = 0; i < count; i++) {
        json_array_append_new(array, kernel_json(&kernels[i]));
        free(kernels[i].us);
    }
    cli_print_json(array);
    return 0;
}
