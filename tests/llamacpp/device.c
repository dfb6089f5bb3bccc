/* SPDX-License-Identifier: MIT */
/* Lets ggml-opencl take Intel's OpenCL runtime for CPUs: preloaded, it stands between the two in
 * three calls. Nothing that it changes is arithmetic of clsample's.
 *
 *     cc -shared -fPIC device.c -o device.so && LD_PRELOAD=./device.so PROGRAM
 */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* OpenCL's own function, of the type of the one that stands before it. */
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* ggml-opencl takes devices whose names have Adreno, Qualcomm or Intel in them, and this runtime
 * passes on the processor's name, which may be AMD's. */
cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void *value,
                       size_t *size_of)
{
    static const char before[] = "Intel(R) runtime on ";
    char name[256] = "";
    if (what != CL_DEVICE_NAME)
        return NEXT(clGetDeviceInfo)(device, what, size, value, size_of);
    memcpy(name, before, sizeof before);
    const cl_int code = NEXT(clGetDeviceInfo)(device, what, sizeof name - sizeof before,
                                              name + sizeof before - 1, NULL);
    if (code != CL_SUCCESS)
        return code;
    if (size_of != NULL)
        *size_of = strlen(name) + 1;
    if (value != NULL && size < strlen(name) + 1)
        return CL_INVALID_VALUE;
    if (value != NULL)
        memcpy(value, name, strlen(name) + 1);
    return CL_SUCCESS;
}

/* Kernels of rope.cl move their `dst`, a pointer to half, by an assignment of a pointer to float,
 * which this runtime's compiler rejects. A pointer to void is assigned to both. Both texts have the
 * same length, so that the copy needs no more room. */
cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char **texts,
                                     const size_t *lengths, cl_int *code)
{
    static const char wrong[] = "dst = (global float*)((global char*)dst + offsetd)",
                      right[] = "dst = (global void *)((global char*)dst + offsetd)";
    if (count != 1) /* ggml-opencl passes one text */
        return NEXT(clCreateProgramWithSource)(context, count, texts, lengths, code);
    const size_t length = lengths != NULL && lengths[0] != 0 ? lengths[0] : strlen(texts[0]);
    char *const mended = malloc(length + 1);
    if (mended == NULL) {
        if (code != NULL)
            *code = CL_OUT_OF_HOST_MEMORY;
        return NULL;
    }
    memcpy(mended, texts[0], length);
    mended[length] = '\0';
    for (char *at = mended; (at = strstr(at, wrong)) != NULL;)
        memcpy(at, right, sizeof right - 1);
    const char *text = mended;
    const cl_program program = NEXT(clCreateProgramWithSource)(context, 1, &text, &length, code);
    free(mended);
    return program;
}

/* ggml-opencl relaxes all arithmetic. The runtime's relaxed library has no exp() of half, so that
 * programs with it do not link; and with -cl-finite-math-only it is undefined what becomes of the
 * -inf of masks. The options, of which the first implies the others, are blanked in a copy. */
cl_int clBuildProgram(cl_program program, cl_uint devices, const cl_device_id *list,
                      const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                      void *user)
{
    static const char *const dropped[] = {"-cl-fast-relaxed-math", "-cl-unsafe-math-optimizations",
                                          "-cl-finite-math-only"};
    char *const kept = strdup(options != NULL ? options : "");
    if (kept == NULL)
        return CL_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
        for (char *at; (at = strstr(kept, dropped[i])) != NULL;)
            memset(at, ' ', strlen(dropped[i]));
    const cl_int code = NEXT(clBuildProgram)(program, devices, list, kept, notify, user);
    free(kept);
    return code;
}
