/* SPDX-License-Identifier: MIT */
/* Creates OpenCL programs from source strings. */
#include "device/device.h"

cl_program cls_program_create(cl_context cl, const char *const *strings, unsigned count,
                              cl_int *code)
{
    /* OpenCL only reads the strings, although its argument's type is not const. */
    return clCreateProgramWithSource(cl, count, (const char **)(uintptr_t)strings, NULL, code);
}
