/* SPDX-License-Identifier: MIT */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT */
#endif
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

driver fake = {.build_refusal = CL_BUILD_PROGRAM_FAILURE,
               .max_built_group = UINT32_MAX,
               .max_launched_group = UINT32_MAX,
               .max_local_group = UINT32_MAX};

static uint32_t group; /* the work-group size of the program that was built last */

/* dlsym() returns a pointer to data, which ISO C cannot cast to a function. */
static void find(const char *name, void *function)
{
    void *const found = dlsym(RTLD_NEXT, name);
    if (found == NULL) {
        fprintf(stderr, "the driver lacks %s\n", name);
        abort();
    }
    memcpy(function, &found, sizeof found);
}
#define REAL(name, type) \
    static type real; \
    if (real == NULL) \
    find(#name, &real)

typedef cl_int (*device_info)(cl_device_id, cl_device_info, size_t, void *, size_t *);
typedef cl_int (*platform_info)(cl_platform_id, cl_platform_info, size_t, void *, size_t *);
typedef cl_program (*with_source)(cl_context, cl_uint, const char **, const size_t *, cl_int *);
typedef cl_program (*with_binary)(cl_context, cl_uint, const cl_device_id *, const size_t *,
                                  const unsigned char **, cl_int *, cl_int *);
typedef cl_int (*build_program)(cl_program, cl_uint, const cl_device_id *, const char *,
                                void(CL_CALLBACK *)(cl_program, void *), void *);
typedef cl_int (*group_info)(cl_kernel, cl_device_id, cl_kernel_work_group_info, size_t, void *,
                             size_t *);
typedef cl_int (*launch)(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *,
                         const size_t *, cl_uint, const cl_event *, cl_event *);
typedef cl_mem (*create_buffer)(cl_context, cl_mem_flags, size_t, void *, cl_int *);
typedef cl_int (*read_buffer)(cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint,
                              const cl_event *, cl_event *);

static int is_named(cl_kernel kernel, const char *wanted)
{
    char name[64] = "";
    clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name - 1, name, NULL);
    return wanted != NULL && strcmp(name, wanted) == 0;
}

/* Returns whether the launch limit applies to a kernel. */
static int refuses_launch(cl_kernel kernel)
{
    return !is_named(kernel, "cls_groups_test") && !is_named(kernel, fake.exempt_kernel);
}

/* Returns whether the build limit applies to a program, whose source names its kernel. */
static int refuses_build(cl_program program)
{
    size_t size = 0;
    char name[80];
    if (fake.failing_kernel == NULL)
        return 1;
    if (clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &size) != CL_SUCCESS || size == 0)
        return 0;
    char *const source = calloc(size + 1, 1);
    snprintf(name, sizeof name, " %s(", fake.failing_kernel);
    const int is = source != NULL &&
                   clGetProgramInfo(program, CL_PROGRAM_SOURCE, size, source, NULL) == CL_SUCCESS &&
                   strstr(source, name) != NULL;
    free(source);
    return is;
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void *value,
                       size_t *needed)
{
    REAL(clGetDeviceInfo, device_info);
    const cl_int code = real(device, what, size, value, needed);
    if (code != CL_SUCCESS || value == NULL)
        return code;
    if (what == CL_DEVICE_COMPILER_AVAILABLE && fake.no_compiler)
        *(cl_bool *)value = CL_FALSE;
    if (what == CL_DEVICE_TYPE && fake.gpu)
        *(cl_device_type *)value = CL_DEVICE_TYPE_GPU;
    /* A CPU may have some that must not be tried. */
    for (char *at = value; what == CL_DEVICE_EXTENSIONS && fake.gpu;)
        if ((at = strstr(at, "subgroup")) != NULL)
            *at = '-';
        else
            break;
    if (what == CL_DEVICE_EXTENSIONS && fake.nvidia)
        snprintf(value, size, "cl_nv_compiler_options");
    if (what == fake.other_device) /* the last letter of a text, or the first byte of a number */
        ((char *)value)[strlen(value) > 4 ? strlen(value) - 1 : 0] ^= 1;
    return code;
}

cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t size, void *value,
                         size_t *needed)
{
    REAL(clGetPlatformInfo, platform_info);
    const cl_int code = real(platform, what, size, value, needed);
    if (code == CL_SUCCESS && value != NULL && what == fake.other_platform)
        *(char *)value ^= 1;
    return code;
}

cl_program clCreateProgramWithSource(cl_context context, cl_uint n, const char **strings,
                                     const size_t *lengths, cl_int *code)
{
    REAL(clCreateProgramWithSource, with_source);
    fake.from_source++;
    if (!fake.no_compiler)
        return real(context, n, strings, lengths, code);
    *code = CL_INVALID_OPERATION;
    return NULL;
}

cl_program clCreateProgramWithBinary(cl_context context, cl_uint n, const cl_device_id *devices,
                                     const size_t *lengths, const unsigned char **bytes,
                                     cl_int *taken, cl_int *code)
{
    REAL(clCreateProgramWithBinary, with_binary);
    fake.from_binary++;
    if (!fake.no_binaries)
        return real(context, n, devices, lengths, bytes, taken, code);
    *code = *taken = CL_INVALID_BINARY;
    return NULL;
}

cl_int clBuildProgram(cl_program program, cl_uint n, const cl_device_id *devices,
                      const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                      void *data)
{
    REAL(clBuildProgram, build_program);
    const char *const at = strstr(options, "-DWGS=");
    /* The test of work-groups is the program without a shortlist. */
    group = at != NULL && strstr(options, "-DLIST=") != NULL ? (uint32_t)atoi(at + 6) : 0;
    if (fake.builds < DRIVER_BUILDS)
        snprintf(fake.options[fake.builds], sizeof fake.options[0], "%s", options);
    fake.builds++;
    if (fake.nvidia && strstr(options, "-cl-nv-") != NULL)
        return CL_INVALID_BUILD_OPTIONS;
    return group > fake.max_built_group && refuses_build(program)
               ? fake.build_refusal
               : real(program, n, devices, options, notify, data);
}

cl_int clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device,
                                cl_kernel_work_group_info what, size_t size, void *value,
                                size_t *needed)
{
    REAL(clGetKernelWorkGroupInfo, group_info);
    const cl_int code = real(kernel, device, what, size, value, needed);
    if (what == CL_KERNEL_WORK_GROUP_SIZE && fake.kernel_group != 0)
        *(size_t *)value = fake.kernel_group;
    if (what == CL_KERNEL_LOCAL_MEM_SIZE && group > fake.max_local_group)
        *(cl_ulong *)value = 100000;
    return code;
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t *offset, const size_t *global, const size_t *local,
                              cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    REAL(clEnqueueNDRangeKernel, launch);
    if (fake.idle_kernel != NULL && is_named(kernel, fake.idle_kernel))
        return clEnqueueMarkerWithWaitList(queue, n_wait, wait, done);
    return local[0] > fake.max_launched_group && refuses_launch(kernel)
               ? fake.refusal
               : real(queue, kernel, dimensions, offset, global, local, n_wait, wait, done);
}

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *code)
{
    REAL(clCreateBuffer, create_buffer);
    void *const zeroes = fake.idle_kernel != NULL && host == NULL ? calloc(size, 1) : NULL;
    const cl_mem made = zeroes == NULL
                            ? real(context, flags, size, host, code)
                            : real(context, flags | CL_MEM_COPY_HOST_PTR, size, zeroes, code);
    free(zeroes);
    return made;
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool block, size_t offset,
                           size_t size, void *to, cl_uint n_wait, const cl_event *wait,
                           cl_event *done)
{
    REAL(clEnqueueReadBuffer, read_buffer);
    const cl_int code = real(queue, buffer, block, offset, size, to, n_wait, wait, done);
    if (fake.wrong_reads > 0 && fake.right_reads-- <= 0) {
        fake.wrong_reads--;
        ((char *)to)[size / 2] ^= 1;
    }
    return code;
}
