/* SPDX-License-Identifier: MIT */
/* Creates OpenCL programs from source strings. */
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

static cl_program create_after_text(cl_context cl, const char *const *strings, unsigned count,
                                    cl_int *code)
{
    cl_program program = NULL;
    const char **const all = malloc((count + 1) * sizeof *all);
    *code = CL_OUT_OF_HOST_MEMORY;
    if (all != NULL) {
        all[0] = cls_test_text;
        memcpy(all + 1, strings, count * sizeof *all);
        program = clCreateProgramWithSource(cl, count + 1, all, NULL, code);
    }
    free(all);
    return program;
}

cl_program cls_program_create(cl_context cl, const char *const *strings, unsigned count,
                              cl_int *code)
{
    if (cls_test_text != NULL)
        return create_after_text(cl, strings, count, code);
    /* OpenCL only reads the strings, although its argument's type is not const. */
    return clCreateProgramWithSource(cl, count, (const char **)(uintptr_t)strings, NULL, code);
}
