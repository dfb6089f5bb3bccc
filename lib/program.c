/* SPDX-License-Identifier: MIT */
/* Kernel source and options to a built program. */
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

cls_status cls_program_build(cl_context context, cl_device_id device, const cls_shape *shape, uint32_t group,
                             int32_t dtype, char **log, cl_program *program)
{
    char options[128];
    cl_int code;
    const char **const strings = malloc(cls_kernel_source_count * sizeof *strings);
    *program = NULL;
    if (strings == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for the kernels' source");
    for (unsigned i = 0; i < cls_kernel_source_count; i++)
        strings[i] = cls_kernel_source[i];
    *program = clCreateProgramWithSource(context, cls_kernel_source_count, strings, NULL, &code);
    free(strings);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot create the kernels' program");
    /* Options that relax float arithmetic are never passed: they change tokens. */
    snprintf(options, sizeof options, "-cl-std=CL1.2 -DVEC=%u -DWGS=%u -DLIST=%u -DDTYPE=%d", (unsigned)shape->vector,
             (unsigned)group, (unsigned)shape->shortlist, (int)dtype);
    code = clBuildProgram(*program, 1, &device, options, NULL, NULL);
    append_log(*program, device, log);
    if (code != CL_SUCCESS) {
        clReleaseProgram(*program);
        *program = NULL;
        return cls_fail(CLS_BUILD_FAILED, code, "the kernels did not compile (%s)", options);
    }
    return CLS_OK;
}
