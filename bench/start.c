/* SPDX-License-Identifier: MIT */
/* Times the start of a process up to its first token, and prints a line of milliseconds for
 * bench/start.sh, which prepares the caches.
 *
 *     start [DIRECTORY [FEATURES]]
 *
 * DIRECTORY: options->cache_dir, or - for none. FEATURES: cls_feature bits; the default is
 * CLS_FEATURE_LISTS. */
#define CL_TARGET_OPENCL_VERSION 120
#include <clsample.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { VOCAB = 128256, STEPS = 101 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void must(cls_status status)
{
    if (status == CLS_OK)
        return;
    fprintf(stderr, "start: %s: %s\n", cls_status_name(status), cls_error_message());
    exit(1);
}

static cl_device_id first_device(void)
{
    cl_platform_id platforms[16];
    cl_uint n = 0;
    cls_device_info info = {.struct_size = sizeof info};
    if (clGetPlatformIDs(16, platforms, &n) != CL_SUCCESS)
        return NULL;
    for (cl_uint i = 0; i < n && i < 16; i++) {
        cl_device_id device;
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS &&
            cls_device_query(device, NULL, &info) == CLS_OK)
            return device;
    }
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static const char *const origins[] = {"source", "binary", "cache"};
    static float logits[VOCAB];
    static double step_ms[STEPS];
    cls_context_options o;
    cls_sampler_options so;
    cls_device_info info = {.struct_size = sizeof info};
    cls_params params;
    cls_step step;
    cls_context *context;
    cls_sampler *sampler;
    cl_int code;
    const uint32_t features = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : CLS_FEATURE_LISTS;
    double work = 0.0;
    const double begin = now();
    const cl_device_id device = first_device();
    if (device == NULL) {
        fputs("start: no usable OpenCL device\n", stderr);
        return 77;
    }
    cl_context const cl = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    cl_command_queue const queue =
        code == CL_SUCCESS ? clCreateCommandQueue(cl, device, 0, &code) : NULL;
    if (code != CL_SUCCESS) {
        fprintf(stderr, "start: cannot create a context and a queue (OpenCL error %d)\n",
                (int)code);
        return 1;
    }
    const double opened = now();
    const clock_t worked = clock();
    cls_context_options_default(&o, sizeof o);
    o.dtypes = 1u << CLS_F32;
    o.cache_dir = argc > 1 && strcmp(argv[1], "-") != 0 ? argv[1] : NULL;
    must(cls_context_create(cl, device, &o, &context));
    const double created = now();
    cls_sampler_options_default(&so, sizeof so);
    so.vocab = VOCAB;
    so.features = features;
    must(cls_sampler_create(context, &so, &sampler));
    const double ready = now();
    for (int i = 0; i < VOCAB; i++)
        logits[i] = 8.0f / (1.0f + (float)(i % 997));
    cl_mem const in =
        clCreateBuffer(cl, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof logits, logits, NULL);
    cl_mem const out = clCreateBuffer(cl, CL_MEM_READ_WRITE, sizeof(int32_t), NULL, NULL);
    cls_params_default(&params, sizeof params);
    params.temperature = 0.8f;
    params.top_k = features & (CLS_FEATURE_SEARCH | CLS_FEATURE_PLAIN) ? 0 : 50;
    params.top_p = (features & CLS_FEATURES_ALL) == CLS_FEATURE_PLAIN ? 1.0f : 0.95f;
    must(cls_slot_begin(sampler, 0, &params, NULL, 0, NULL, 0));
    cls_step_default(&step, sizeof step);
    step.rows = 1;
    step.logits.values.buffer = in;
    step.tokens.buffer = out;
    for (int i = 0; i < STEPS; i++) {
        int32_t token;
        const double before = now();
        must(cls_sample(sampler, queue, &step, 0, NULL, NULL));
        if (clEnqueueReadBuffer(queue, out, CL_TRUE, 0, sizeof token, &token, 0, NULL, NULL) !=
            CL_SUCCESS)
            return 1;
        step_ms[i] = now() - before;
        if (i == 0)
            work = 1e3 * (double)(clock() - worked) / CLOCKS_PER_SEC;
    }
    const double first = step_ms[0];
    qsort(step_ms + 1, STEPS - 1, sizeof *step_ms, ascending);
    must(cls_context_info(context, &info));
    printf("%10.1f %10.1f %10.1f %10.2f %10.1f %10.2f   %s\n", opened - begin, created - opened,
           ready - created, first, work, step_ms[1 + (STEPS - 1) / 2], origins[info.origin % 3]);
    cls_sampler_destroy(sampler);
    cls_context_destroy(context);
    clReleaseMemObject(in);
    clReleaseMemObject(out);
    clReleaseCommandQueue(queue);
    clReleaseContext(cl);
    return 0;
}
