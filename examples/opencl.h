/* SPDX-License-Identifier: MIT */
/* What the examples share: they open the first device that the library can use, and end at the
 * first error. minimal.c does without this file. */
#ifndef EXAMPLES_OPENCL_H
#define EXAMPLES_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120
#include <clsample.h>
#include <stdio.h>
#include <stdlib.h>

static inline void must(int code) /* of clsample or of OpenCL */
{
    if (code == 0)
        return;
    fprintf(stderr, "error %d: %s\n", code,
            code <= CLS_BAD_ARGUMENT ? cls_error_message() : "an OpenCL call");
    exit(1);
}

typedef struct opencl {
    cl_device_id device;
    cl_context context;
    cl_command_queue queue; /* in order, so no command needs an event */
    cls_context *cls;
} opencl;

/* Ends the program with status 77 if no device is usable. */
static inline opencl opencl_open(void)
{
    opencl o;
    cl_platform_id platforms[16];
    cl_uint n = 0;
    cl_int code;
    cls_device_info info;
    cls_device_info_init(&info);
    clGetPlatformIDs(16, platforms, &n);
    for (cl_uint i = 0; i < n && i < 16; i++) {
        /* A platform may have no device. */
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &o.device, NULL) != CL_SUCCESS ||
            cls_device_query(o.device, NULL, &info) != CLS_OK)
            continue;
        o.context = clCreateContext(NULL, 1, &o.device, NULL, NULL, &code);
        must(code);
        o.queue = clCreateCommandQueue(o.context, o.device, 0, &code);
        must(code);
        must(cls_context_create(o.context, o.device, NULL, &o.cls));
        return o;
    }
    fprintf(stderr, "no usable OpenCL device\n");
    exit(77);
}

static inline void opencl_close(opencl *o)
{
    cls_context_destroy(o->cls);
    clReleaseCommandQueue(o->queue);
    clReleaseContext(o->context);
}

static inline cl_mem opencl_buffer(const opencl *o, size_t size)
{
    cl_int code;
    const cl_mem buffer = clCreateBuffer(o->context, CL_MEM_READ_WRITE, size, NULL, &code);
    must(code);
    return buffer;
}

/* The kernels of a source. */
static inline cl_program opencl_program(const opencl *o, const char *source)
{
    cl_int code;
    const cl_program program = clCreateProgramWithSource(o->context, 1, &source, NULL, &code);
    must(code);
    must(clBuildProgram(program, 0, NULL, NULL, NULL, NULL));
    return program;
}

static inline cls_buffer host_memory(void *data, size_t size)
{
    cls_buffer buffer = {0};
    buffer.pointer = data;
    buffer.size = size;
    buffer.kind = CLS_BUFFER_HOST;
    return buffer;
}

#endif
