/* SPDX-License-Identifier: MIT */
/* Opens a device with a context and a queue, which a runtime has before it uses clsample. */
#define _POSIX_C_SOURCE 199309L
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "llama.h"

enum { PLATFORMS = 32, DEVICES = 64, NO_DEVICE = 77 };

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout);
    fprintf(stderr, "llama: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    exit(1);
}

void must(cls_status status, const char *what)
{
    if (status != CLS_OK)
        die("%s: %s", what, cls_error_message());
}

void must_cl(cl_int error, const char *what)
{
    if (error != CL_SUCCESS)
        die("%s: OpenCL error %d", what, (int)error);
}

void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count > 0 ? count : 1, size);
    if (memory == NULL)
        die("out of memory");
    return memory;
}

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Devices have the numbers that `clsample devices` shows: the order in which OpenCL lists them. */
void device_open(device *d, uint32_t number)
{
    cl_platform_id platforms[PLATFORMS];
    cl_device_id devices[DEVICES];
    cl_uint n_platforms = 0, n = 0;
    cls_device_info info;
    cls_device_info_init(&info);
    cl_int error;
    if (clGetPlatformIDs(PLATFORMS, platforms, &n_platforms) != CL_SUCCESS)
        n_platforms = 0;
    for (cl_uint p = 0; p < n_platforms && p < PLATFORMS; p++) {
        cl_uint here = 0; /* a platform may have no device */
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, DEVICES - n, devices + n, &here) ==
            CL_SUCCESS)
            n += here < DEVICES - n ? here : DEVICES - n;
    }
    for (cl_uint i = 0; i < n && number == UINT32_MAX; i++)
        if (cls_device_query(devices[i], NULL, &info) == CLS_OK)
            number = i;
    if (number == UINT32_MAX) {
        fprintf(stderr, "llama: no usable OpenCL device\n");
        exit(NO_DEVICE);
    }
    if (number >= n)
        die("--device %u: there are %u devices, numbered from 0", number, n);
    d->id = devices[number];
    must(cls_device_query(d->id, NULL, &info), "the device");
    if (clGetDeviceInfo(d->id, CL_DEVICE_NAME, sizeof d->name, d->name, NULL) != CL_SUCCESS)
        snprintf(d->name, sizeof d->name, "device %u", number);
    cl_device_type type = 0;
    clGetDeviceInfo(d->id, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    d->is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0;
    d->context = clCreateContext(NULL, 1, &d->id, NULL, NULL, &error);
    must_cl(error, "clCreateContext");
    d->queue = clCreateCommandQueue(d->context, d->id, CL_QUEUE_PROFILING_ENABLE, &error);
    must_cl(error, "clCreateCommandQueue");
}

void device_close(device *d)
{
    clFinish(d->queue);
    clReleaseCommandQueue(d->queue);
    clReleaseContext(d->context);
}

cl_mem device_buffer(const device *d, size_t size, const void *data)
{
    cl_int error;
    cl_mem buffer = clCreateBuffer(d->context, CL_MEM_READ_WRITE, size, NULL, &error);
    if (error != CL_SUCCESS)
        die("%s: a buffer of %zu bytes cannot be created (OpenCL error %d)", d->name, size,
            (int)error);
    if (data != NULL)
        must_cl(clEnqueueWriteBuffer(d->queue, buffer, CL_TRUE, 0, size, data, 0, NULL, NULL),
                "clEnqueueWriteBuffer");
    else
        must_cl(clEnqueueFillBuffer(d->queue, buffer, &(cl_int){0}, sizeof(cl_int), 0, size, 0,
                                    NULL, NULL),
                "clEnqueueFillBuffer");
    return buffer;
}
