/* SPDX-License-Identifier: MIT */
/* The floor: a read of all logits that keeps nothing but maxima, in the shape
 * that suits the device best. Whoever reads each logit once takes at least
 * this long, so it is the unit in which the steps are measured. */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each group reads `trips` * WG * CHAINS vectors that lie together; the items'
 * maxima are left to the host, for a reduction would only be in the way. CHAINS
 * independent maxima hide the latency of select(). */
static const char floor_source[] =
    "#define CAT_(a, b) a##b\n"
    "#define CAT(a, b) CAT_(a, b)\n"
    "#define FV CAT(float, VEC)\n"
    "#if DTYPE == 0\n"
    "#define ELEMENT float\n"
    "#define LOAD(i) CAT(vload, VEC)(i, x)\n"
    "#elif DTYPE == 1\n"
    "#define ELEMENT half\n"
    "#define LOAD(i) CAT(vload_half, VEC)(i, x)\n"
    "#else\n"
    "#define ELEMENT ushort\n"
    "#define LOAD(i) CAT(as_float, VEC)(CAT(convert_uint, VEC)(CAT(vload, VEC)(i, x)) << 16)\n"
    "#endif\n"
    "__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))\n"
    "void floor_max(__global const ELEMENT *x, uint vectors, uint trips, __global float *out)\n"
    "{\n"
    "    const ulong first = (ulong)get_group_id(0) * trips * (WG * CHAINS) + get_local_id(0);\n"
    "    const uint last = vectors - 1;\n"
    "    FV m[CHAINS];\n"
    "    float lanes[VEC];\n"
    "    float most = -INFINITY;\n"
    "    for (uint c = 0; c < CHAINS; c++)\n"
    "        m[c] = -INFINITY;\n"
    "    if (first + (ulong)trips * (WG * CHAINS) <= vectors) {\n"
    "        for (uint i = 0; i < trips; i++)\n"
    "            for (uint c = 0; c < CHAINS; c++) {\n"
    "                const FV v = LOAD((size_t)first + (i * CHAINS + c) * WG);\n"
    "                m[c] = select(m[c], v, v > m[c]);\n"
    "            }\n"
    "    } else {\n"
    "        for (uint i = 0; i < trips * CHAINS; i++) {\n"
    "            const ulong at = first + i * WG;\n"
    "            const FV v = LOAD((size_t)(at < last ? at : last));\n"
    "            m[0] = select(m[0], v, v > m[0]);\n"
    "        }\n"
    "    }\n"
    "    for (uint c = 1; c < CHAINS; c++)\n"
    "        m[0] = select(m[0], m[c], m[c] > m[0]);\n"
    "    CAT(vstore, VEC)(m[0], 0, lanes);\n"
    "    for (uint i = 0; i < VEC; i++)\n"
    "        most = lanes[i] > most ? lanes[i] : most;\n"
    "    out[get_global_id(0)] = most;\n"
    "}\n"
    "__kernel void nothing(void) {}\n";

typedef struct shape {
    unsigned work_group, vector, chains, groups_per_unit;
} shape;

/* None is assumed to suit a device: all are tried. Those of one item and wide
 * vectors are for CPUs. */
static const shape shapes[] = {{1, 16, 1, 4},  {1, 16, 4, 4},   {1, 16, 4, 16}, {1, 8, 4, 8},   {64, 4, 1, 16},
                               {256, 4, 1, 4}, {256, 4, 1, 16}, {256, 4, 4, 4}, {256, 4, 4, 8}, {128, 8, 2, 8}};

/* llvmpipe stops a work-item silently after 65,535 trips. */
#define MOST_TRIPS 8192u

static int open_shape(bench_floor *floor, const bench_setup *setup, const shape *s, cl_uint units)
{
    const size_t n = (size_t)setup->batch * setup->vocab;
    const cl_uint vectors = (cl_uint)((n + s->vector - 1) / s->vector);
    const cl_uint per_trip = s->work_group * s->chains;
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
    snprintf(floor->shape, sizeof floor->shape, "%u x %u items, float%u, %u chains", (unsigned)groups, s->work_group,
             s->vector, s->chains);
    snprintf(options, sizeof options, "-cl-std=CL1.2 -DDTYPE=%d -DWG=%u -DVEC=%u -DCHAINS=%u", (int)setup->dtype,
             s->work_group, s->vector, s->chains);

    floor->program = clCreateProgramWithSource(setup->on->cl, 1, (const char *[]){floor_source}, NULL, &error);
    if (error == CL_SUCCESS)
        error = clBuildProgram(floor->program, 1, &setup->on->at.device, options, NULL, NULL);
    if (error == CL_SUCCESS)
        floor->kernel = clCreateKernel(floor->program, "floor_max", &error);
    if (error == CL_SUCCESS)
        floor->nothing = clCreateKernel(floor->program, "nothing", &error);
    if (error == CL_SUCCESS)
        floor->out = clCreateBuffer(setup->on->cl, CL_MEM_WRITE_ONLY, floor->global * sizeof(float), NULL, &error);
    if (error == CL_SUCCESS)
        error = clGetKernelWorkGroupInfo(floor->kernel, setup->on->at.device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most,
                                         &most, NULL);
    if (error != CL_SUCCESS || most < s->work_group)
        return 1;
    error = clSetKernelArg(floor->kernel, 0, sizeof setup->logits, &setup->logits);
    error |= clSetKernelArg(floor->kernel, 1, sizeof vectors, &vectors);
    error |= clSetKernelArg(floor->kernel, 2, sizeof trips, &trips);
    error |= clSetKernelArg(floor->kernel, 3, sizeof floor->out, &floor->out);
    return error != CL_SUCCESS;
}

cl_int bench_floor_enqueue(const bench_floor *floor, cl_command_queue queue)
{
    return clEnqueueNDRangeKernel(queue, floor->kernel, 1, NULL, &floor->global, &floor->local, 0, NULL, NULL);
}

static float host_max(const bench_setup *setup)
{
    const size_t n = (size_t)setup->batch * setup->vocab;
    float most = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        const float x = bench_get(setup->rows, setup->dtype, i);
        most = x > most ? x : most;
    }
    return most;
}

/* The shape's median time; HUGE_VAL if it fails or misses the maximum. */
static double try_shape(const bench_floor *floor, const bench_setup *setup, float expected)
{
    const double begin = bench_clock();
    double times[31];
    size_t n = 0;
    float *maxima, found = -INFINITY;
    int bad;

    if (bench_floor_enqueue(floor, setup->on->queue) != CL_SUCCESS)
        return HUGE_VAL;
    maxima = malloc(floor->global * sizeof *maxima);
    if (maxima == NULL)
        return HUGE_VAL;
    bad = clEnqueueReadBuffer(setup->on->queue, floor->out, CL_TRUE, 0, floor->global * sizeof *maxima, maxima, 0, NULL,
                              NULL) != CL_SUCCESS;
    for (size_t i = 0; i < floor->global && !bad; i++)
        found = maxima[i] > found ? maxima[i] : found;
    free(maxima);
    if (bad || found != expected)
        return HUGE_VAL;

    for (; n < 31 && (n < 3 || bench_clock() - begin < 2e5); n++) {
        const double start = bench_clock();
        if (bench_floor_enqueue(floor, setup->on->queue) != CL_SUCCESS || clFinish(setup->on->queue) != CL_SUCCESS)
            return HUGE_VAL;
        times[n] = bench_clock() - start;
    }
    return bench_median(times, n);
}

int bench_floor_open(bench_floor *floor, const bench_setup *setup)
{
    const float expected = host_max(setup);
    double best = HUGE_VAL;
    cl_uint units = 1;

    memset(floor, 0, sizeof *floor);
    (void)clGetDeviceInfo(setup->on->at.device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        bench_floor one;
        double time = HUGE_VAL;
        if (open_shape(&one, setup, &shapes[i], units) == 0)
            time = try_shape(&one, setup, expected);
        if (time < best) {
            best = time;
            bench_floor_close(floor);
            *floor = one;
        } else {
            bench_floor_close(&one);
        }
    }
    return best < HUGE_VAL ? 0 : cli_fail("bench: the device runs no shape of the floor's kernel");
}

void bench_floor_close(bench_floor *floor)
{
    if (floor->out != NULL)
        clReleaseMemObject(floor->out);
    if (floor->nothing != NULL)
        clReleaseKernel(floor->nothing);
    if (floor->kernel != NULL)
        clReleaseKernel(floor->kernel);
    if (floor->program != NULL)
        clReleaseProgram(floor->program);
    memset(floor, 0, sizeof *floor);
}
