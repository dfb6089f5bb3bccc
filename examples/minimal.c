/* SPDX-License-Identifier: MIT */
/* The shortest complete use of the library: four requests with different parameters and ten steps
 * from the same logits, on the first usable device. It is C and C++.
 *
 *     cc minimal.c $(pkg-config --cflags --libs clsample) && ./a.out
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <clsample.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 4
#define VOCAB 1000
#define STEPS 10

static void must(cls_status status)
{
    if (status == CLS_OK)
        return;
    fprintf(stderr, "%s: %s\n", cls_status_name(status), cls_error_message());
    exit(1);
}

static cl_device_id first_usable_device(void)
{
    cl_platform_id platforms[16];
    cl_uint n = 0;
    cls_device_info info;
    cls_device_info_init(&info);
    if (clGetPlatformIDs(16, platforms, &n) != CL_SUCCESS)
        return NULL;
    for (cl_uint i = 0; i < n && i < 16; i++) {
        cl_device_id device; /* a platform may have no device */
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS &&
            cls_device_query(device, NULL, &info) == CLS_OK)
            return device;
    }
    return NULL;
}

int main(void)
{
    const float temperatures[ROWS] = {0, 0.5f, 1, 2}; /* 0: greedy */
    static float logits[ROWS][VOCAB];
    int32_t tokens[ROWS];

    cl_device_id device = first_usable_device();
    if (device == NULL) {
        fprintf(stderr, "no usable OpenCL device\n");
        return 77;
    }
    /* A runtime has these already: a context, a queue, and logits on the device. */
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, NULL);
    for (int r = 0; r < ROWS; r++)
        for (int t = 0; t < VOCAB; t++)
            logits[r][t] = 8.0f / (1.0f + (float)abs(t - 100 * r));
    cl_mem in = clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof logits,
                               logits, NULL);
    cl_mem out = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof tokens, NULL, NULL);

    /* Once: compile the kernels, allocate, and begin a slot for each request. */
    cls_context *cls;
    cls_sampler *sampler;
    must(cls_context_create(context, device, NULL, &cls));
    cls_sampler_options options;
    cls_sampler_options_init(&options);
    options.vocab = VOCAB;
    options.max_rows = ROWS;
    must(cls_sampler_create(cls, &options, &sampler));
    for (uint32_t r = 0; r < ROWS; r++) {
        cls_params params;
        cls_params_init(&params);
        params.temperature = temperatures[r];
        params.top_k = 50;
        params.top_p = 0.95f;
        params.seed = r;
        must(cls_slot_begin(sampler, r, &params, NULL));
    }

    /* Each step is one call. Tokens may also stay on the device. */
    cls_step step;
    cls_step_init(&step);
    step.rows = ROWS;
    step.logits.values.buffer = in;
    step.logits.dtype = CLS_F32;
    step.tokens.buffer = out;
    printf("temperature");
    for (int r = 0; r < ROWS; r++)
        printf("%8.1f", (double)temperatures[r]);
    for (int s = 0; s < STEPS; s++) {
        must(cls_sample(sampler, queue, &step, 0, NULL, NULL));
        if (clEnqueueReadBuffer(queue, out, CL_TRUE, 0, sizeof tokens, tokens, 0, NULL, NULL) !=
            CL_SUCCESS)
            return 1;
        printf("\nstep %6d", s);
        for (int r = 0; r < ROWS; r++)
            printf("%8d", (int)tokens[r]);
    }
    printf("\n");

    cls_sampler_destroy(sampler);
    cls_context_destroy(cls);
    clReleaseMemObject(out);
    clReleaseMemObject(in);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return 0;
}
