/* SPDX-License-Identifier: MIT */
/* The floor: a read of all logits that keeps only maxima, in the fastest of several shapes. A
 * sampler that reads each logit once takes at least this long, so the floor is the unit in which
 * steps are measured. */
#include "bench/measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Each group of several items loads whole vectors, which are aligned, and so may take one load
 * each; of vload NVIDIA's compiler makes a load for each number, which would make the floor a slow
 * one. float16 is the exception: it has no vectors without an extension.
 *
 * Each group reads `trips` * WG * 4 consecutive vectors. The host reduces the maxima of the
 * work-items, since a reduction in the kernel would only add time. Four maxima hide the latency of
 * select(). They are four variables because PoCL keeps an array in memory, which takes twice as
 * long. */
static const char floor_source[] =
    "#define CAT_(a, b) a##b\n"
    "#define CAT(a, b) CAT_(a, b)\n"
    "#define FV CAT(float, VEC)\n"
    "#if WG > 1\n"
    "#define VECTOR(T, i) (((__global const CAT(T, VEC) *)x)[i])\n"
    "#else\n"
    "#define VECTOR(T, i) CAT(vload, VEC)(i, x)\n"
    "#endif\n"
    "#if DTYPE == 0\n"
    "#define ELEMENT float\n"
    "#define LOAD(i) VECTOR(float, i)\n"
    "#elif DTYPE == 1\n"
    "#define ELEMENT half\n"
    "#define LOAD(i) CAT(vload_half, VEC)(i, x)\n"
    "#else\n"
    "#define ELEMENT ushort\n"
    "#define LOAD(i) CAT(as_float, VEC)(CAT(convert_uint, VEC)(VECTOR(ushort, i)) << 16)\n"
    "#endif\n"
    "__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))\n"
    "void floor_max(__global const ELEMENT *x, uint vectors, uint trips, __global float *out)\n"
    "{\n"
    "    const ulong first = (ulong)get_group_id(0) * trips * (WG * 4) + get_local_id(0);\n"
    "    FV a = -INFINITY, b = a, c = a, d = a, v;\n"
    "    if (first + (ulong)trips * (WG * 4) <= vectors) {\n"
    "        size_t at = (size_t)first;\n"
    "        for (uint i = 0; i < trips; i++, at += WG * 4) {\n"
    "            v = LOAD(at);\n"
    "            a = select(a, v, v > a);\n"
    "            v = LOAD(at + WG);\n"
    "            b = select(b, v, v > b);\n"
    "            v = LOAD(at + WG * 2);\n"
    "            c = select(c, v, v > c);\n"
    "            v = LOAD(at + WG * 3);\n"
    "            d = select(d, v, v > d);\n"
    "        }\n"
    "    } else {\n"
    "        for (ulong at = first; at < vectors && at < first + (ulong)trips * (WG * 4); at += "
    "WG) {\n"
    "            v = LOAD((size_t)at);\n"
    "            a = select(a, v, v > a);\n"
    "        }\n"
    "    }\n"
    "    a = select(a, b, b > a);\n"
    "    c = select(c, d, d > c);\n"
    "    a = select(a, c, c > a);\n"
    "    CAT(vstore, VEC)(a, get_global_id(0), out);\n"
    "}\n"
    "__kernel void nothing(void) {}\n"
    "__kernel void busy(uint trips, __global uint *out)\n"
    "{\n"
    "    uint x = 1;\n"
    "    for (uint i = 0; i < trips; i++) {\n"
    "        x ^= x << 13;\n"
    "        x ^= x >> 17;\n"
    "        x ^= x << 5;\n"
    "    }\n"
    "    *out = x;\n"
    "}\n";

typedef struct shape {
    unsigned work_group, vector, groups_per_unit;
} shape;

/* All shapes are tried on every device. Those of one work-item and wide vectors are for CPUs. */
static const shape shapes[] = {{1, 16, 4},  {1, 16, 16}, {1, 8, 8},    {64, 4, 8},
                               {256, 4, 4}, {256, 4, 8}, {256, 4, 16}, {128, 8, 8}};

/* llvmpipe silently stops a work-item after 65,535 trips. BUSY_TRIPS take some tenths of a
 * millisecond on a CPU, and about one on a GPU. */
#define MOST_TRIPS 8192u
#define BUSY_TRIPS 60000u

static int open_shape(bench_floor *floor, const bench_setup *setup, const shape *s, cl_uint units)
{
    const size_t n = (size_t)setup->batch * setup->vocab;
    const cl_uint vectors = (cl_uint)((n + s->vector - 1) / s->vector);
    const cl_uint per_trip = s->work_group * 4;
    cl_uint groups = units * s->groups_per_unit, trips;
    size_t most = 0;
    char options[128];
    cl_int error;

    trips = (vectors / groups + per_trip) / per_trip;
    trips = trips > MOST_TRIPS ? MOST_TRIPS : trips;
    groups = (vectors + trips * per_trip - 1) / (trips * per_trip);
    memset(floor, 0, sizeof *floor);
    floor->local = s->work_group;
    floor->global = (size_t)groups * s->work_group;
    floor->maxima = floor->global * s->vector;
    snprintf(floor->shape, sizeof floor->shape, "%u groups of %u, float%u", (unsigned)groups,
             s->work_group, s->vector);
    snprintf(options, sizeof options, "-w -cl-std=CL1.2 -DDTYPE=%d -DWG=%u -DVEC=%u",
             (int)setup->dtype, s->work_group, s->vector);

    floor->program =
        clCreateProgramWithSource(setup->on->cl, 1, (const char *[]){floor_source}, NULL, &error);
    if (error == CL_SUCCESS)
        error = clBuildProgram(floor->program, 1, &setup->on->device.id, options, NULL, NULL);
    if (error == CL_SUCCESS)
        floor->kernel = clCreateKernel(floor->program, "floor_max", &error);
    if (error == CL_SUCCESS)
        floor->nothing = clCreateKernel(floor->program, "nothing", &error);
    if (error == CL_SUCCESS)
        floor->busy = clCreateKernel(floor->program, "busy", &error);
    if (error == CL_SUCCESS)
        floor->out = clCreateBuffer(setup->on->cl, CL_MEM_WRITE_ONLY, floor->maxima * sizeof(float),
                                    NULL, &error);
    if (error == CL_SUCCESS)
        error = clGetKernelWorkGroupInfo(floor->kernel, setup->on->device.id,
                                         CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, NULL);
    if (error != CL_SUCCESS || most < s->work_group)
        return 1;
    error = clSetKernelArg(floor->kernel, 0, sizeof setup->logits.buffer, &setup->logits.buffer);
    error |= clSetKernelArg(floor->kernel, 1, sizeof vectors, &vectors);
    error |= clSetKernelArg(floor->kernel, 2, sizeof trips, &trips);
    error |= clSetKernelArg(floor->kernel, 3, sizeof floor->out, &floor->out);
    error |= clSetKernelArg(floor->busy, 0, sizeof(cl_uint), &(cl_uint){BUSY_TRIPS});
    error |= clSetKernelArg(floor->busy, 1, sizeof floor->out, &floor->out);
    return error != CL_SUCCESS;
}

cl_int bench_floor_enqueue(const bench_floor *floor, cl_command_queue queue, cl_event *done)
{
    return clEnqueueNDRangeKernel(queue, floor->kernel, 1, NULL, &floor->global, &floor->local, 0,
                                  NULL, done);
}

cl_int bench_floor_busy(const bench_floor *floor, cl_command_queue queue, cl_event *done)
{
    return clEnqueueNDRangeKernel(queue, floor->busy, 1, NULL, &(size_t){1}, &(size_t){1}, 0, NULL,
                                  done);
}

/* The maximum of elements `first` to `end` - 1. */
static float host_max(const bench_setup *setup, size_t first, size_t end)
{
    float most = -INFINITY;
    for (size_t i = first; i < end; i++) {
        const float x = bench_get(setup->rows, setup->dtype, i);
        most = x > most ? x : most;
    }
    return most;
}

typedef struct row_maxima {
    const bench_setup *setup;
    float *of_row; /* [batch] */
} row_maxima;

static int find_maximum(void *of, uint32_t row)
{
    const row_maxima *const m = of;
    const size_t first = (size_t)row * m->setup->vocab;
    m->of_row[row] = host_max(m->setup, first, first + m->setup->vocab);
    return 0;
}

/* The maximum of the whole batch. */
static float batch_max(const bench_setup *setup)
{
    float most = -INFINITY;
    row_maxima m = {setup, cli_alloc(setup->batch, sizeof(float))};
    bench_each(setup->batch, find_maximum, &m);
    for (uint32_t row = 0; row < setup->batch; row++)
        most = m.of_row[row] > most ? m.of_row[row] : most;
    return most;
}

/* The shortest time of the runs that fit into `spend` microseconds, but of at least three. */
static double fastest(const bench_floor *floor, const bench_setup *setup, double spend)
{
    const double begin = cli_clock();
    double least = HUGE_VAL;
    for (int n = 0; n < 3 || cli_clock() - begin < spend; n++) {
        const double start = cli_clock();
        double time;
        if (bench_floor_enqueue(floor, setup->on->queue, NULL) != CL_SUCCESS ||
            clFinish(setup->on->queue) != CL_SUCCESS)
            return HUGE_VAL;
        time = cli_clock() - start;
        least = time < least ? time : least;
    }
    return least;
}

/* The shortest time of a shape, or HUGE_VAL if it fails or computes a wrong maximum. */
static double try_shape(const bench_floor *floor, const bench_setup *setup, float expected)
{
    float *maxima, found = -INFINITY;
    int bad;

    if (bench_floor_enqueue(floor, setup->on->queue, NULL) != CL_SUCCESS)
        return HUGE_VAL;
    maxima = cli_alloc(floor->maxima, sizeof *maxima);
    bad = clEnqueueReadBuffer(setup->on->queue, floor->out, CL_TRUE, 0,
                              floor->maxima * sizeof *maxima, maxima, 0, NULL, NULL) != CL_SUCCESS;
    for (size_t i = 0; i < floor->maxima && !bad; i++)
        found = maxima[i] > found ? maxima[i] : found;
    cli_free(maxima);
    if (bad || found != expected)
        return HUGE_VAL;

    return fastest(floor, setup, 1e5);
}

int bench_floor_open(bench_floor *floor, const bench_setup *setup)
{
    const size_t n = (size_t)setup->batch * setup->vocab;
    double best = HUGE_VAL;
    cl_uint units = 1;
    const float all = batch_max(setup);

    memset(floor, 0, sizeof *floor);
    (void)clGetDeviceInfo(setup->on->device.id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units,
                          NULL);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        bench_floor one;
        double time = HUGE_VAL;
        float expected;
        if (open_shape(&one, setup, &shapes[i], units) == 0) {
            /* A system may need this long to distribute a CPU driver's new threads to cores. */
            if (best == HUGE_VAL && (setup->on->device.type & CL_DEVICE_TYPE_CPU))
                (void)fastest(&one, setup, 5e5);
            /* The last vector may include elements after the batch. */
            expected = host_max(setup, n,
                                (n + shapes[i].vector - 1) / shapes[i].vector * shapes[i].vector);
            time = try_shape(&one, setup, expected > all ? expected : all);
        }
        if (time < best) {
            best = time;
            bench_floor_close(floor);
            *floor = one;
        } else {
            bench_floor_close(&one);
        }
    }
    return best < HUGE_VAL
               ? 0
               : cli_fail("bench: the floor's kernel does not run on this device in any shape");
}

void bench_floor_close(bench_floor *floor)
{
    if (floor->out != NULL)
        clReleaseMemObject(floor->out);
    if (floor->busy != NULL)
        clReleaseKernel(floor->busy);
    if (floor->nothing != NULL)
        clReleaseKernel(floor->nothing);
    if (floor->kernel != NULL)
        clReleaseKernel(floor->kernel);
    if (floor->program != NULL)
        clReleaseProgram(floor->program);
    memset(floor, 0, sizeof *floor);
}

int bench_run_floor(const bench_setup *setup, const bench_floor *floor)
{
    cl_int error = bench_floor_enqueue(floor, setup->on->queue, NULL);
    if (error == CL_SUCCESS)
        error = clFinish(setup->on->queue);
    return cli_try_opencl(error, "bench: the floor's kernel");
}
