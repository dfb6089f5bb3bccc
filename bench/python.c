/* SPDX-License-Identifier: MIT */
/* The part of bench/python.sh in C: the library with an OpenCL that computes nothing, and the time
 * that cls_sample() itself takes there. bench/python.py calls it. */
#include "selftest/compile.h"
#include "stub_cl.h"

#include <stdlib.h>

__attribute__((constructor)) static void compare_nothing(void)
{
    cls_test_proofs_compare_nothing = 1;
}

static void must(int status)
{
    if (status != CLS_OK)
        abort();
}

/* Writes the seconds of `count` steps of `rows` rows, each with a map of slots, tokens and status.
 * The time until a step is complete is not included. */
CLS_API void bench_calls(uint32_t rows, uint32_t vocab, uint32_t count, double *seconds);

void bench_calls(uint32_t rows, uint32_t vocab, uint32_t count, double *seconds)
{
    cl_device_id device = stub_device();
    must(cls_opencl_find(NULL));
    const cl_context cl = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    const cl_command_queue queue = clCreateCommandQueue(cl, device, 0, NULL);
    const cl_mem logits =
        clCreateBuffer(cl, CL_MEM_READ_WRITE, (size_t)rows * vocab * 4, NULL, NULL);
    const cl_mem out = clCreateBuffer(cl, CL_MEM_READ_WRITE, (size_t)rows * 8, NULL, NULL);
    int32_t *const slots = calloc(rows, sizeof *slots);
    cls_context *context;
    cls_sampler *sampler;
    cls_sampler_options options;
    cls_params params;
    cls_step step;
    if (slots == NULL)
        abort();
    must(cls_context_create(cl, device, NULL, &context));
    cls_sampler_options_init(&options);
    options.vocab = vocab;
    options.max_rows = rows;
    must(cls_sampler_create(context, &options, &sampler));
    cls_params_init(&params);
    params.temperature = 0.8f;
    params.top_k = 50;
    for (uint32_t r = 0; r < rows; r++) {
        slots[r] = (int32_t)r;
        must(cls_slot_begin(sampler, r, &params, NULL, 0, NULL, 0));
    }
    cls_step_init(&step);
    step.rows = step.logits_rows = rows;
    step.logits.values.buffer = logits;
    step.slots.host = slots;
    step.tokens.buffer = step.status.buffer = out;
    step.status.offset = rows * sizeof(int32_t);
    for (uint32_t i = 0; i < count; i++) {
        cl_event done;
        const double begun = cls_now();
        must(cls_sample(sampler, queue, &step, 0, NULL, &done));
        seconds[i] = cls_now() - begun;
        clWaitForEvents(1, &done);
        clReleaseEvent(done);
    }
    cls_sampler_destroy(sampler);
    cls_context_destroy(context);
    clReleaseMemObject(out);
    clReleaseMemObject(logits);
    clReleaseCommandQueue(queue);
    clReleaseContext(cl);
    free(slots);
}
