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

#ifdef CLS_PACKED
/* Writes the text of a symbol, unless `to` is NULL, and returns its length: a character below 128,
 * a pair of symbols from there on. */
static size_t unpack(unsigned symbol, char *to)
{
    if (symbol < 128) {
        if (to != NULL)
            *to = (char)symbol;
        return 1;
    }
    const size_t n = unpack(cls_pairs[symbol - 128][0], to);
    return n + unpack(cls_pairs[symbol - 128][1], to != NULL ? to + n : NULL);
}

/* Symbols from 248 on are two bytes. */
static size_t unpack_all(const char *const *strings, unsigned count, char *to)
{
    size_t n = 0;
    for (unsigned i = 0; i < count; i++)
        for (const unsigned char *c = (const unsigned char *)strings[i]; *c != 0; c++) {
            unsigned symbol = *c;
            if (symbol >= 248)
                symbol = 248 + (symbol - 248) * 255 + *++c - 1;
            n += unpack(symbol, to != NULL ? to + n : NULL);
        }
    return n;
}

cl_program cls_program_create(cl_context cl, const char *const *strings, unsigned count,
                              cl_int *code)
{
    const size_t size = unpack_all(strings, count, NULL);
    char *const text = malloc(size);
    cl_program program = NULL;
    *code = CL_OUT_OF_HOST_MEMORY;
    if (text != NULL) {
        unpack_all(strings, count, text);
        program = clCreateProgramWithSource(cl, 1, (const char **)(uintptr_t)&text, &size, code);
    }
    free(text);
    return program;
}
#else
cl_program cls_program_create(cl_context cl, const char *const *strings, unsigned count,
                              cl_int *code)
{
    if (cls_test_text != NULL)
        return create_after_text(cl, strings, count, code);
    /* OpenCL only reads the strings, although its argument's type is not const. */
    return clCreateProgramWithSource(cl, count, (const char **)(uintptr_t)strings, NULL, code);
}
#endif
