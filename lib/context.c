/* SPDX-License-Identifier: MIT */
/* A context: the kernels compiled for one device, proven and warmed up. */
#include "internal.h"

#include <stdatomic.h>
#include <stdlib.h>

void cls_context_retain(cls_context *context)
{
    atomic_fetch_add(&context->references, 1);
}

static void release_programs(cls_context *context, int32_t dtype)
{
    for (int part = 0; part < CLS_PARTS; part++) {
        if (context->program[dtype][part] != NULL)
            clReleaseProgram(context->program[dtype][part]);
        context->program[dtype][part] = NULL;
    }
}

void cls_context_destroy(cls_context *context)
{
    if (context == NULL || atomic_fetch_sub(&context->references, 1) != 1)
        return;
    for (int i = 0; i < CLS_DTYPES; i++)
        release_programs(context, i);
    if (context->cl != NULL)
        clReleaseContext(context->cl);
    free(context->build_log);
    free(context);
}

const char *cls_context_build_log(const cls_context *context)
{
    return context != NULL && context->build_log != NULL ? context->build_log : "";
}

/* The largest work-group, up to *group, that all kernels of a part run with. */
static cls_status kernel_limit(const cls_context *context, int32_t dtype, int part, uint32_t *group)
{
    for (int i = 0; i < CLS_KERNELS; i++) {
        size_t size = 0;
        cl_int code;
        if ((int)cls_kernel_part((enum cls_kernel)i) != part)
            continue;
        const cl_kernel kernel = clCreateKernel(context->program[dtype][part], cls_kernel_names[i], &code);
        if (code == CL_SUCCESS) {
            code = clGetKernelWorkGroupInfo(kernel, context->device, CL_KERNEL_WORK_GROUP_SIZE, sizeof size, &size, NULL);
            clReleaseKernel(kernel);
        }
        if (code != CL_SUCCESS)
            return cls_fail(CLS_OPENCL_ERROR, code, "cannot create kernel %s", cls_kernel_names[i]);
        if (size > 0 && size < *group)
            *group = (uint32_t)size;
    }
    return CLS_OK;
}

/* Builds for every wanted type. A driver may only know after the build that a
 * kernel takes smaller groups than the device: then everything is built anew
 * for those. */
static cls_status build(cls_context *context, uint32_t dtypes, int forced)
{
    cls_shape *const shape = &context->shape;
    for (int i = 0; i < CLS_DTYPES; i++) {
        uint32_t group[CLS_PARTS] = { shape->work_group, shape->row_group };
        cls_status status = CLS_OK;
        if (!(dtypes >> i & 1u))
            continue;
        for (int part = 0; part < CLS_PARTS && status == CLS_OK; part++) {
            cl_program *const program = &context->program[i][part];
            if (part > 0 && shape->row_group == shape->work_group) {
                *program = context->program[i][0];
                clRetainProgram(*program);
            } else {
                status = cls_program_build(context->cl, context->device, shape, group[part], i, &context->build_log, program);
            }
            if (status == CLS_OK)
                status = kernel_limit(context, i, part, &group[part]);
        }
        if (status != CLS_OK)
            return status;
        if (group[0] == shape->work_group && group[1] == shape->row_group)
            continue;
        if (forced)
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "options->work_group is %u; the kernels run with at most %u on this device",
                            (unsigned)shape->work_group, (unsigned)(group[0] < group[1] ? group[0] : group[1]));
        shape->work_group = group[0];
        shape->row_group = group[1];
        for (int j = 0; j <= i; j++)
            release_programs(context, j);
        i = -1;
    }
    return CLS_OK;
}

/* Proves that the device computes what the host computes. */
static cls_status self_test(cls_context *context, cl_program program, cl_command_queue queue)
{
    enum { WORDS = 1024 };
    uint32_t words[WORDS];
    const cl_uint n = WORDS;
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
        if (words[i] != self_test_word(i))
            return cls_fail(CLS_SELF_TEST_FAILED, CL_SUCCESS,
                            "the device's arithmetic differs from float32 rounded to nearest (word %u: 0x%08x, not 0x%08x)",
                            (unsigned)i, (unsigned)words[i], (unsigned)self_test_word(i));
    return CLS_OK;
}

/* Runs every kernel once, so that drivers which compile at the first launch
 * (PoCL: 40 to 200 ms a kernel) do it now. */
static cls_status warm_up(cls_context *context, int32_t dtype, cl_command_queue queue)
{
    enum { VOCAB = 5000 };
    cls_sampler_options options;
    cls_sampler *sampler = NULL;
    cls_params params;
    cls_step step;
    cls_draw_call draw;
    cls_verify_call verify;
    const int32_t cu[2] = { 0, 2 }, id = 0;
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

static cls_status prove(cls_context *context)
{
    cl_int code;
    const cl_command_queue queue = clCreateCommandQueue(context->cl, context->device, 0, &code);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot create a queue to warm up on");
    cls_status status = CLS_OK;
    for (int i = 0; i < CLS_DTYPES && status == CLS_OK; i++) {
        if (context->program[i][CLS_OVER_ROWS] == NULL)
            continue;
        status = self_test(context, context->program[i][CLS_OVER_ROWS], queue);
        if (status == CLS_OK)
            status = warm_up(context, i, queue);
    }
    clReleaseCommandQueue(queue);
    return status;
}

static cls_status check_device(cl_context cl, cl_device_id device)
{
    cl_device_id devices[64];
    size_t size = 0;
    const cl_int code = clGetContextInfo(cl, CL_CONTEXT_DEVICES, sizeof devices, devices, &size);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot query context");
    for (size_t i = 0; i < size / sizeof devices[0]; i++)
        if (devices[i] == device)
            return CLS_OK;
    return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "device does not belong to context");
}

static void hand_out_log(const cls_context *context, const cls_context_options *o)
{
    const char *const log = cls_context_build_log(context);
    if (o->build_log == NULL || o->build_log_size == 0)
        return;
    const size_t n = strlen(log) < o->build_log_size ? strlen(log) : o->build_log_size - 1;
    memcpy(o->build_log, log, n);
    o->build_log[n] = '\0';
}

cls_status cls_context_create(cl_context cl, cl_device_id device, const cls_context_options *callers, cls_context **out)
{
    cls_context_options o;
    cls_shape shape;
    cls_context_options_default(&o, sizeof o);
    if (out == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "out is NULL");
    *out = NULL;
    if (cl == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "context is NULL");
    cls_status status = callers != NULL ? cls_struct_read(&o, sizeof o, callers, "options") : CLS_OK;
    if (status == CLS_OK)
        status = cls_shape_query(device, &o, &shape);
    if (status == CLS_OK)
        status = check_device(cl, device);
    if (status != CLS_OK)
        return status;
    cls_context *const context = calloc(1, sizeof *context);
    if (context == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for a context");
    atomic_init(&context->references, 1);
    const cl_int code = clRetainContext(cl);
    if (code != CL_SUCCESS) {
        free(context);
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot retain context");
    }
    context->cl = cl;
    context->device = device;
    context->shape = shape;
    status = build(context, o.dtypes != 0 ? o.dtypes : (1u << CLS_DTYPES) - 1, o.work_group != 0 || o.row_group != 0);
    if (status == CLS_OK)
        status = prove(context);
    hand_out_log(context, &o);
    if (status != CLS_OK) {
        cls_context_destroy(context);
        return status;
    }
    *out = context;
    return CLS_OK;
}
