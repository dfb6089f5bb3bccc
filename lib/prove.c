/* SPDX-License-Identifier: MIT */
/* What a context's kernels must do before anybody gets them: compute what the
 * host computes, and run once. */
#include "internal.h"

#include <stdlib.h>

/* Proves that the device computes what the host computes. */
static cls_status self_test(cls_context *context, cl_program program, cl_command_queue queue, int *launched)
{
    enum { WORDS = 1024 };
    uint32_t words[WORDS];
    const cl_uint n = WORDS;
    const uint32_t ends = !context->shape.limited;
    const size_t size = context->shape.row_group;
    cl_int code;
    cl_kernel kernel = clCreateKernel(program, cls_kernel_names[CLS_SELF_TEST], &code);
    cl_mem out = NULL;
    if (code == CL_SUCCESS)
        out = clCreateBuffer(context->cl, CL_MEM_WRITE_ONLY, sizeof words, NULL, &code);
    if (code == CL_SUCCESS)
        code = clSetKernelArg(kernel, 0, sizeof out, &out);
    if (code == CL_SUCCESS)
        code = clSetKernelArg(kernel, 1, sizeof n, &n);
    *launched = code == CL_SUCCESS;
    if (code == CL_SUCCESS)
        code = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &size, &size, 0, NULL, NULL);
    if (code == CL_SUCCESS)
        code = clEnqueueReadBuffer(queue, out, CL_TRUE, 0, sizeof words, words, 0, NULL, NULL);
    if (kernel != NULL)
        clReleaseKernel(kernel);
    if (out != NULL)
        clReleaseMemObject(out);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "the self-test did not run");
    for (uint32_t i = 0; i < n; i++)
        if (words[i] != self_test_word(i, ends))
            return cls_fail(
                CLS_SELF_TEST_FAILED, CL_SUCCESS,
                "the device's arithmetic differs from float32 rounded to nearest%s (word %u: 0x%08x, not 0x%08x)",
                ends ? ", with infinities and NaN" : "", (unsigned)i, (unsigned)words[i], (unsigned)self_test_word(i, ends));
    return CLS_OK;
}

/* Runs every kernel once, so that drivers which compile at the first launch
 * (PoCL: 40 to 200 ms a kernel) do it now. */
static cls_status warm_up(cls_context *context, int32_t dtype, cl_command_queue queue, int *launched)
{
    enum { VOCAB = 5000 };
    cls_sampler_options options;
    cls_sampler *sampler = NULL;
    cls_params params;
    cls_step step;
    cls_draw_call draw;
    cls_verify_call verify;
    const int32_t cu[2] = {0, 2}, id = 0;
    cl_int code;
    const size_t size = VOCAB * 2 * sizeof(float) + 64; /* two rows, or one and its outputs */
    void *const zeros = calloc(1, size);
    if (zeros == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for the warm-up");
    cl_mem buffer = clCreateBuffer(context->cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, size, zeros, &code);
    free(zeros);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "no buffer for the warm-up");
    cls_sampler_options_default(&options, sizeof options);
    options.vocab = VOCAB;
    options.max_rows = 2;
    cls_params_default(&params, sizeof params);
    params.top_p = 0.5f;
    cls_step_default(&step, sizeof step);
    step.rows = 1;
    step.logits.dtype = dtype;
    step.logits.buffer = step.probs.buffer = step.logprobs.buffer = buffer;
    step.logits.offset = VOCAB * sizeof(float) + 64;
    step.logprobs.offset = VOCAB * sizeof(float);
    cls_status status = cls_sampler_create(context, &options, &sampler);
    *launched = status == CLS_OK;
    if (status == CLS_OK)
        status = cls_slot_begin(sampler, 0, &params, NULL, 0, NULL, 0);
    if (status == CLS_OK)
        status = cls_sample(sampler, queue, &step, 0, NULL, NULL);
    cls_draw_call_default(&draw, sizeof draw);
    draw.rows = draw.n = 1;
    draw.ids.buffer = draw.logits.buffer = buffer;
    if (status == CLS_OK)
        status = cls_draw(sampler, queue, &draw, 0, NULL, NULL);
    cls_verify_call_default(&verify, sizeof verify);
    verify.requests = 1;
    verify.method = CLS_VERIFY_STANDARD;
    verify.cu = cu;
    verify.draft_ids.host = &id;
    verify.logits = step.logits;
    verify.logits.row_stride = VOCAB;
    verify.logits.offset = 0;
    if (status == CLS_OK)
        status = cls_verify(sampler, queue, &verify, 0, NULL, NULL);
    if (status == CLS_OK && (code = clFinish(queue)) != CL_SUCCESS)
        status = cls_fail(CLS_OPENCL_ERROR, code, "the warm-up did not run");
    cls_sampler_destroy(sampler);
    clReleaseMemObject(buffer);
    return status;
}

cls_status cls_prove(cls_context *context, int *launched)
{
    cl_int code;
    *launched = 0;
    const cl_command_queue queue = clCreateCommandQueue(context->cl, context->device, 0, &code);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot create a queue to warm up on");
    cls_status status = CLS_OK;
    for (int i = 0; i < CLS_DTYPES && status == CLS_OK; i++) {
        if (context->program[i][CLS_OVER_ROWS] == NULL)
            continue;
        status = self_test(context, context->program[i][CLS_OVER_ROWS], queue, launched);
        if (status == CLS_OK)
            status = warm_up(context, i, queue, launched);
    }
    clReleaseCommandQueue(queue);
    return status;
}
