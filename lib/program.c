/* SPDX-License-Identifier: MIT */
/* Kernel source, or compiled bytes, and options to a built program. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>

const char *const cls_kernel_names[CLS_KERNELS] = {
    [CLS_SLOTS] = "cls_slots",   [CLS_PREPARE] = "cls_prepare_rows", [CLS_SURVEY] = "cls_survey",
    [CLS_TOKEN] = "cls_token",   [CLS_PASS] = "cls_pass",            [CLS_SEARCH] = "cls_search",
    [CLS_REPORT] = "cls_report", [CLS_DISTRIBUTION] = "cls_distribution", [CLS_ACCEPT] = "cls_accept",
    [CLS_DRAW] = "cls_draw",     [CLS_RESIDUAL] = "cls_residual",         [CLS_VERIFY] = "cls_verify",
    [CLS_SELF_TEST] = "cls_self_test",
};

/* Appends the compiler's log for a program to *log. */
static void append_log(cl_program program, cl_device_id device, char **log)
{
    size_t size = 0;
    const size_t old = *log != NULL ? strlen(*log) : 0;
    if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) != CL_SUCCESS || size < 2)
        return;
    char *const grown = realloc(*log, old + size + 1);
    if (grown == NULL)
        return;
    *log = grown;
    if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, grown + old, NULL) != CL_SUCCESS)
        grown[old] = '\0';
    grown[old + size] = '\0';
}

void cls_program_options(const cls_shape *shape, uint32_t group, int32_t dtype, char options[CLS_BUILD_OPTIONS])
{
    /* Options that relax float arithmetic are never passed: they change tokens. */
    snprintf(options, CLS_BUILD_OPTIONS, "-cl-std=CL%u.%u -DVEC=%u -DWGS=%u -DLIST=%u -DDTYPE=%d -DTIER=%u -DSUBGROUPS=%u%s%s",
             (unsigned)shape->standard / 100, (unsigned)shape->standard / 10 % 10,
             (unsigned)shape->vector, (unsigned)group, (unsigned)shape->shortlist, (int)dtype,
             (unsigned)(shape->tier - CLS_TIER_BASE), (unsigned)shape->subgroups,
             shape->limited ? " -DCLS_LIMITED" : "", shape->extra);
}

cl_program cls_program_create(cl_context cl, const char *const *strings, unsigned count, cl_int *code)
{
    /* OpenCL only reads them, whatever the type of its argument says. */
    return clCreateProgramWithSource(cl, count, (const char **)(uintptr_t)strings, NULL, code);
}

static cls_status from_source(const cls_context *context, cl_program *program)
{
    cl_int code;
    *program = cls_program_create(context->cl, cls_source_all, cls_source_all_count, &code);
    return code == CL_SUCCESS ? CLS_OK : cls_fail(CLS_OPENCL_ERROR, code, "cannot create the kernels' program");
}

static cls_status from_binary(const cls_context *context, const cls_bytes *binary, cl_program *program)
{
    cl_int code, taken = CL_SUCCESS;
    const unsigned char *bytes = binary->bytes;
    *program = clCreateProgramWithBinary(context->cl, 1, &context->device, &binary->size, &bytes, &taken, &code);
    if (code == CL_SUCCESS && taken == CL_SUCCESS)
        return CLS_OK;
    if (code == CL_SUCCESS)
        clReleaseProgram(*program);
    return cls_fail(CLS_OPENCL_ERROR, code != CL_SUCCESS ? code : taken, "the driver does not take the compiled programs");
}

cls_status cls_program_build(cls_context *context, uint32_t group, int32_t dtype, const cls_bytes *binary, cl_program *out)
{
    char options[CLS_BUILD_OPTIONS];
    cl_program program = NULL;
    *out = NULL;
    const cls_status status = binary != NULL ? from_binary(context, binary, &program) : from_source(context, &program);
    if (status != CLS_OK)
        return status;
    cls_program_options(&context->shape, group, dtype, options);
    const cl_int code = clBuildProgram(program, 1, &context->device, options, NULL, NULL);
    append_log(program, context->device, &context->build_log);
    if (code != CL_SUCCESS) {
        clReleaseProgram(program);
        return cls_fail(CLS_BUILD_FAILED, code, "the kernels did not compile (%s)", options);
    }
    *out = program;
    return CLS_OK;
}

cls_status cls_program_limits(const cls_context *context, int32_t dtype, enum cls_part part, cls_limits *limits)
{
    limits->group = SIZE_MAX;
    limits->local = 0;
    for (int i = 0; i < CLS_KERNELS; i++) {
        size_t group = 0;
        cl_ulong local = 0;
        cl_int code;
        if (cls_kernel_part((enum cls_kernel)i) != part)
            continue;
        const cl_kernel kernel = clCreateKernel(context->program[dtype][part], cls_kernel_names[i], &code);
        if (code == CL_SUCCESS) {
            code = clGetKernelWorkGroupInfo(kernel, context->device, CL_KERNEL_WORK_GROUP_SIZE, sizeof group, &group, NULL);
            if (code == CL_SUCCESS)
                code = clGetKernelWorkGroupInfo(kernel, context->device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof local, &local, NULL);
            clReleaseKernel(kernel);
        }
        if (code != CL_SUCCESS)
            return cls_fail(CLS_OPENCL_ERROR, code, "cannot create kernel %s", cls_kernel_names[i]);
        if (group > 0 && group < limits->group)
            limits->group = group;
        if (local > limits->local)
            limits->local = local;
    }
    return CLS_OK;
}
