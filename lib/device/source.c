/* SPDX-License-Identifier: MIT */
/* Kernel source as OpenCL takes it. */
#include "device/device.h"

cl_program cls_program_create(cl_context cl, const char *const *strings, unsigned count,
                              cl_int *code)
{
    /* OpenCL only reads them, whatever the type of its argument says. */
    return clCreateProgramWithSource(cl, count, (const char **)(uintptr_t)strings, NULL, code);
}
