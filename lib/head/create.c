/* SPDX-License-Identifier: MIT */
/* Creates and destroys a head: its product, its program, its memory, its warm-up. */
#include "head.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------- checks */

static cls_status check_numbers(cls_head_options *o)
{
    if (o->vocab < 1 || o->vocab > CLS_HEAD_MOST_TOKENS)
        return cls_refuse("options->vocab is %u; it must be 1 to %d", (unsigned)o->vocab,
                          CLS_HEAD_MOST_TOKENS);
    if (o->hidden < 1 || o->hidden > 65536)
        return cls_refuse("options->hidden is %u; it must be 1 to 65536", (unsigned)o->hidden);
    if (o->max_rows < 1 || o->max_rows > 65535)
        return cls_refuse("options->max_rows is %u; it must be 1 to 65535", (unsigned)o->max_rows);
    if (o->dtype != CLS_F32 && o->dtype != CLS_F16)
        return cls_refuse("options->dtype is %d; it must be CLS_F32 or CLS_F16", (int)o->dtype);
    if (!isfinite(o->scale))
        return cls_refuse("options->scale is %g; it must be finite", (double)o->scale);
    const cls_status capped = cls_softcap_check("options->softcap", o->softcap);
    if (capped != CLS_OK)
        return capped;
    if (!cls_buffer_is_set(&o->weight))
        return cls_refuse("options->weight.buffer is NULL");
    if (o->weight_stride == 0)
        o->weight_stride = o->hidden;
    if (o->weight_stride < o->hidden)
        return cls_refuse("options->weight_stride is %llu, less than the hidden row of %u",
                          (unsigned long long)o->weight_stride, (unsigned)o->hidden);
    return CLS_OK;
}

/* Bytes of an element of the weight. */
static size_t weight_element(int32_t dtype) { return dtype == CLS_F16 ? 2 : sizeof(float); }

static cls_status check(cl_context context, cl_device_id device, cls_head_options *o,
                        cls_ranges *ranges)
{
    const size_t size = weight_element(o->dtype);
    cls_status status = check_numbers(o);
    if (status == CLS_OK)
        status = cls_buffer_check(context, device, "options->weight", &o->weight,
                                  cls_extent(o->vocab, o->weight_stride, o->hidden, size), size,
                                  CLS_KERNEL_READS, ranges);
    if (status == CLS_OK)
        status = cls_buffer_kind_check("options->bias", &o->bias);
    if (status == CLS_OK && cls_buffer_is_set(&o->bias))
        status =
            cls_buffer_check(context, device, "options->bias", &o->bias, o->vocab * sizeof(float),
                             sizeof(float), CLS_KERNEL_READS, ranges);
    return status;
}

/* ------------------------------------------------------------------- product */

static int clblast_can_count(const cls_head *h)
{
    return cls_head_clblast_fits(h->weight_offset, h->vocab, h->weight_stride) &&
           cls_head_clblast_fits(0, h->max_rows, h->vocab) &&
           cls_head_clblast_fits(0, h->max_rows, h->hidden);
}

/* CLBlast multiplies float32 weights on GPUs, which it is made for: on PoCL it takes 94 times as
 * long as the library's kernel (one row, 32,000 x 1,024). It takes no pointers. */
static cls_status choose_product(cls_head *h)
{
    cl_device_type type = 0;
    const cl_int code = clGetDeviceInfo(h->device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot query the device's CL_DEVICE_TYPE");
    const int wanted = cls_test_head_product == CLS_HEAD_BY_DEVICE
                           ? (type & CL_DEVICE_TYPE_GPU) != 0
                           : cls_test_head_product == CLS_HEAD_CLBLAST;
    h->clblast = wanted && h->dtype == CLS_F32 && h->weight.buffer != NULL &&
                 cls_head_has_clblast() && clblast_can_count(h);
    return CLS_OK;
}

/* ------------------------------------------------------------------- program */

static const char *const kernel_names[CLS_HEAD_KERNELS] = {
    [CLS_HEAD_GATHER] = "cls_head_gather",
    [CLS_HEAD_PRODUCT] = "cls_head_product",
    [CLS_HEAD_FINISH] = "cls_head_finish",
};

static cls_status build(const cls_head *h, cl_program *program)
{
    /* OpenCL only reads the strings, although the type of its argument does not say so. */
    const char **const strings = (const char **)(uintptr_t)cls_source_head;
    cl_device_fp_config config = 0;
    char options[128];
    char *log = NULL;
    size_t size = 0;
    cl_int code;
    *program = NULL;
    /* All heads of a device must round alike, so a failure here is not ignored. */
    code = clGetDeviceInfo(h->device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof config, &config, NULL);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code,
                        "cannot query the device's CL_DEVICE_SINGLE_FP_CONFIG");
    snprintf(options, sizeof options,
             "-w -cl-std=CL1.2 -DWGS=%u -DLANES=%u -DVEC=%u -DROWS=%u -DTOKENS=%u%s%s",
             (unsigned)h->group, h->group == 1 ? 1u : CLS_HEAD_LANES, (unsigned)h->vector,
             (unsigned)h->rows, (unsigned)h->tokens, h->dtype == CLS_F32 ? " -DWEIGHT_F32" : "",
             config & CL_FP_FMA ? " -DFUSED" : "");
    *program = clCreateProgramWithSource(h->cl, cls_source_head_count, strings, NULL, &code);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot create the head's program");
    code = clBuildProgram(*program, 1, &h->device, options, NULL, NULL);
    if (code == CL_SUCCESS)
        return CLS_OK;
    if (clGetProgramBuildInfo(*program, h->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) ==
        CL_SUCCESS)
        log = calloc(size + 1, 1);
    if (log != NULL)
        clGetProgramBuildInfo(*program, h->device, CL_PROGRAM_BUILD_LOG, size, log, NULL);
    clReleaseProgram(*program);
    *program = NULL;
    cls_fail(CLS_BUILD_FAILED, code, "the head's kernels did not compile (%s): %.300s", options,
             log != NULL ? log : "");
    free(log);
    return CLS_BUILD_FAILED;
}

/* Each head has its own kernels, since two threads must not set the arguments of one kernel.
 * *limit: the largest group that all of them run with. */
static cls_status create_kernels(cls_head *h, cl_program program, size_t *limit)
{
    *limit = SIZE_MAX;
    for (int i = 0; i < CLS_HEAD_KERNELS; i++) {
        size_t size = 0;
        cl_int code;
        h->kernel[i] = clCreateKernel(program, kernel_names[i], &code);
        if (code == CL_SUCCESS)
            code = clGetKernelWorkGroupInfo(h->kernel[i], h->device, CL_KERNEL_WORK_GROUP_SIZE,
                                            sizeof size, &size, NULL);
        if (code != CL_SUCCESS)
            return cls_fail(CLS_OPENCL_ERROR, code, "cannot create kernel %s", kernel_names[i]);
        if (size > 0 && size < *limit)
            *limit = size;
    }
    return CLS_OK;
}

static void release_kernels(cls_head *h)
{
    for (int i = 0; i < CLS_HEAD_KERNELS; i++) {
        if (h->kernel[i] != NULL)
            clReleaseKernel(h->kernel[i]);
        h->kernel[i] = NULL;
    }
}

/* The tile of logits of a work-item. A head for one row has room for more tokens. */
static void choose_tile(cls_head *h)
{
    h->rows = 1;
    while (h->rows < h->max_rows && h->rows < 8)
        h->rows *= 2;
    h->tokens = h->rows == 1 ? 8 : CLS_HEAD_SUMS / h->rows;
}

/* Groups of four teams, of one team, or of one work-item; see cl/head/head.cl. */
static uint32_t group_within(const cls_device_info *info, size_t limit)
{
    const uint64_t bytes = CLS_HEAD_SUMS * sizeof(float);
    for (uint32_t group = 4 * CLS_HEAD_LANES; group >= CLS_HEAD_LANES; group /= 4)
        if (group <= limit && group <= info->work_group &&
            2 * group * bytes <= info->local_mem_size)
            return group;
    return 1;
}

static cls_status compile(cls_head *h)
{
    cls_device_info info = {.struct_size = sizeof info};
    cl_program program;
    size_t limit = SIZE_MAX;
    cls_status status = cls_device_query(h->device, NULL, &info);
    if (status != CLS_OK)
        return status;
    h->vector = info.vector;
    do {
        h->group = group_within(&info, limit);
        release_kernels(h);
        status = build(h, &program);
        if (status != CLS_OK)
            return status;
        status = create_kernels(h, program, &limit);
        clReleaseProgram(program);
    } while (status == CLS_OK && h->group > 1 && h->group > limit);
    return status;
}

/* -------------------------------------------------------------------- memory */

static cls_status allocate(cls_head *h)
{
    const uint64_t rows = ((uint64_t)h->max_rows + h->rows - 1) / h->rows * h->rows;
    const uint64_t bytes = rows * h->hidden * sizeof(float);
    int missing = 0;
    cl_int code = CL_INVALID_BUFFER_SIZE;
    h->sent = calloc(h->max_rows, sizeof *h->sent);
    missing |= h->sent == NULL;
    for (int i = 0; i < CLS_HEAD_STAGING; i++) {
        h->staging[i].map = calloc(h->max_rows, sizeof *h->staging[i].map);
        missing |= h->staging[i].map == NULL;
    }
    if (missing)
        return cls_no_memory("a head of %u rows", (unsigned)h->max_rows);
    if (bytes <= SIZE_MAX)
        h->scratch = clCreateBuffer(h->cl, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &code);
    if (code == CL_SUCCESS)
        h->map =
            clCreateBuffer(h->cl, CL_MEM_READ_ONLY, h->max_rows * sizeof(int32_t), NULL, &code);
    return cls_opencl_status(code, "cannot allocate %llu bytes on the device for hidden rows",
                             (unsigned long long)bytes);
}

static cls_status retain(cls_head *h, const cls_head_options *o)
{
    const cls_buffer *const from[] = {&o->weight, &o->bias};
    cls_buffer *const to[] = {&h->weight, &h->bias};
    cl_int code = CL_SUCCESS;
    for (int i = 0; i < 2 && code == CL_SUCCESS; i++) {
        if (from[i]->buffer != NULL)
            code = clRetainMemObject(from[i]->buffer);
        if (code == CL_SUCCESS)
            *to[i] = *from[i];
    }
    return cls_opencl_status(code, "cannot retain the weight or the bias");
}

/* Runs whole calls on a separate buffer, so that drivers that compile at the first launch do it
 * now, and CLBlast builds its programs: once for as many rows as there can be, and once for one,
 * since PoCL compiles small launches separately. */
static cls_status warm_up(cls_head *h, cl_command_queue queue)
{
    const uint64_t logits = (uint64_t)h->max_rows * h->vocab, elements = logits + h->hidden;
    cls_status status = CLS_OK;
    cls_head_call call;
    cl_int code = CL_INVALID_BUFFER_SIZE;
    cl_mem buffer = NULL;
    if (elements <= SIZE_MAX / sizeof(float))
        buffer =
            clCreateBuffer(h->cl, CL_MEM_READ_WRITE, (size_t)elements * sizeof(float), NULL, &code);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot allocate the warm-up's logits of %u rows",
                        (unsigned)h->max_rows);
    cls_head_call_init(&call);
    call.hidden = (cls_buffer){.buffer = buffer, .offset = logits * sizeof(float)};
    call.logits.buffer = buffer;
    call.hidden_rows = 1;
    call.which.host = h->sent; /* all 0 yet */
    for (int i = 0; i < 2 && status == CLS_OK; i++) {
        call.rows = i == 0 ? h->max_rows : 1;
        status = cls_head_logits(h, queue, &call, 0, NULL, NULL);
    }
    code = clFinish(queue);
    if (status == CLS_OK && code != CL_SUCCESS)
        status = cls_fail(CLS_OPENCL_ERROR, code, "the warm-up did not run");
    clReleaseMemObject(buffer);
    return status;
}

/* --------------------------------------------------------- create and destroy */

/* Sets a queue's context and device. */
static cls_status query(cl_command_queue queue, cl_context *context, cl_device_id *device)
{
    if (queue == NULL)
        return cls_refuse("queue is NULL");
    cl_int code = clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof *context, context, NULL);
    if (code == CL_SUCCESS)
        code = clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof *device, device, NULL);
    return code == CL_SUCCESS ? CLS_OK
           : code == CL_INVALID_COMMAND_QUEUE
               ? cls_fail(CLS_BAD_ARGUMENT, code, "queue is not a command queue")
               : cls_fail(CLS_OPENCL_ERROR, code, "cannot query queue");
}

cls_status cls_head_create(cl_command_queue queue, const cls_head_options *callers, cls_head **out)
{
    cl_context context = NULL;
    cl_device_id device = NULL;
    cls_head_options o;
    cls_ranges ranges;
    cls_ranges_begin(&ranges);
    cls_head_options_init(&o);
    if (out == NULL)
        return cls_refuse("out is NULL");
    *out = NULL;
    if (strcmp(cls_version(), CLS_VERSION_STRING) != 0)
        return cls_refuse_call("libclsample is version %s, and libclsample-head version %s: "
                               "install both from one release",
                               cls_version(), CLS_VERSION_STRING);
    cls_status status = cls_struct_read(&o, sizeof o, CLS_FIRST_SIZE(&o, CLS_LAST_FIELDS_OF_HEAD),
                                        callers, "options", 0);
    if (status == CLS_OK)
        status = cls_opencl_find(NULL);
    if (status == CLS_OK)
        status = query(queue, &context, &device);
    if (status == CLS_OK)
        status = check(context, device, &o, &ranges);
    if (status != CLS_OK)
        return status;
    cls_head *const h = calloc(1, sizeof *h);
    if (h == NULL)
        return cls_no_memory("a head");
    cl_int code = clRetainContext(context);
    if (code != CL_SUCCESS) {
        free(h);
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot retain the queue's context");
    }
    h->cl = context;
    h->device = device;
    h->vocab = o.vocab;
    h->hidden = o.hidden;
    h->max_rows = o.max_rows;
    h->dtype = o.dtype;
    h->weight_offset = o.weight.offset / weight_element(o.dtype);
    h->weight_stride = o.weight_stride;
    h->bias_offset = o.bias.offset / sizeof(float);
    h->scale = o.scale;
    h->softcap = o.softcap;
    memcpy(h->calls, ranges.calls, sizeof h->calls);
    choose_tile(h);
    status = retain(h, &o);
    if (status == CLS_OK)
        status = choose_product(h);
    if (status == CLS_OK)
        status = allocate(h);
    if (status == CLS_OK)
        status = compile(h);
    if (status == CLS_OK)
        status = warm_up(h, queue);
    if (status != CLS_OK) {
        cls_head_destroy(h);
        return status;
    }
    *out = h;
    return CLS_OK;
}

void cls_head_destroy(cls_head *h)
{
    if (h == NULL)
        return;
    cl_mem *const buffers[] = {&h->weight.buffer, &h->bias.buffer, &h->scratch, &h->map};
    /* Uploads read the staging memory until they are done. */
    if (h->last_queue != NULL)
        clFlush(h->last_queue);
    for (int i = 0; i < CLS_HEAD_STAGING; i++)
        if (cls_upload_wait(&h->staging[i].done))
            free(h->staging[i].map);
    if (h->last != NULL)
        clReleaseEvent(h->last);
    if (h->last_queue != NULL)
        clReleaseCommandQueue(h->last_queue);
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        if (*buffers[i] != NULL)
            clReleaseMemObject(*buffers[i]);
    release_kernels(h);
    clReleaseContext(h->cl);
    free(h->sent);
    free(h);
}
