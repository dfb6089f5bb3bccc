/* SPDX-License-Identifier: MIT */
/* OpenCL's functions where the library does not link OpenCL's: on Android, and in plug-ins of
 * programs that have loaded it. With CLS_DLOPEN_OPENCL each call goes through a table, which
 * base/opencl.c fills before the first one. */
#ifndef CLS_OPENCL_H
#define CLS_OPENCL_H

#include "clsample.h"

/* What the library calls: functions of OpenCL 1.2. */
/* clang-format off */
#define CLS_OPENCL_FUNCTIONS(X) \
    X(clBuildProgram) X(clCreateBuffer) X(clCreateCommandQueue) X(clCreateKernel) \
    X(clCreateProgramWithBinary) X(clCreateProgramWithSource) X(clEnqueueCopyBuffer) \
    X(clEnqueueFillBuffer) X(clEnqueueMapBuffer) X(clEnqueueMarkerWithWaitList) \
    X(clEnqueueNDRangeKernel) X(clEnqueueReadBuffer) X(clEnqueueReadBufferRect) \
    X(clEnqueueUnmapMemObject) X(clEnqueueWriteBuffer) X(clEnqueueWriteBufferRect) X(clFinish) \
    X(clFlush) X(clGetCommandQueueInfo) X(clGetContextInfo) X(clGetDeviceInfo) X(clGetEventInfo) \
    X(clGetExtensionFunctionAddressForPlatform) X(clGetKernelWorkGroupInfo) X(clGetMemObjectInfo) \
    X(clGetPlatformInfo) X(clGetProgramBuildInfo) X(clGetProgramInfo) X(clReleaseCommandQueue) \
    X(clReleaseContext) X(clReleaseEvent) X(clReleaseKernel) X(clReleaseMemObject) \
    X(clReleaseProgram) X(clRetainCommandQueue) X(clRetainContext) X(clRetainEvent) \
    X(clSetKernelArg) X(clWaitForEvents)
/* clang-format on */

/* What sets a pointer as a kernel's argument, and what copies between pointers: the functions of
 * OpenCL 2.0 for SVM and of Intel's extension for USM have the same types. */
typedef cl_int(CL_API_CALL *cls_set_pointer)(cl_kernel, cl_uint, const void *);
typedef cl_int(CL_API_CALL *cls_copy_pointer)(cl_command_queue, cl_bool, void *, const void *,
                                              size_t, cl_uint, const cl_event *, cl_event *);
typedef struct cls_pointer_calls {
    cls_set_pointer set; /* NULL: not looked up, or not there */
    cls_copy_pointer copy;
} cls_pointer_calls;

/* Returns OpenCL 2.0's functions for SVM, which are NULL if this OpenCL has none. */
cls_pointer_calls cls_opencl_svm(void);

#ifdef CLS_DLOPEN_OPENCL
typedef struct cls_opencl_functions {
#define FIELD(name) __typeof__(&(name)) name;
    CLS_OPENCL_FUNCTIONS(FIELD)
#undef FIELD
} cls_opencl_functions;

/* The process's table. It does not change once it is filled. */
extern cls_opencl_functions cls_opencl;

#define clBuildProgram cls_opencl.clBuildProgram
#define clCreateBuffer cls_opencl.clCreateBuffer
#define clCreateCommandQueue cls_opencl.clCreateCommandQueue
#define clCreateKernel cls_opencl.clCreateKernel
#define clCreateProgramWithBinary cls_opencl.clCreateProgramWithBinary
#define clCreateProgramWithSource cls_opencl.clCreateProgramWithSource
#define clEnqueueCopyBuffer cls_opencl.clEnqueueCopyBuffer
#define clEnqueueFillBuffer cls_opencl.clEnqueueFillBuffer
#define clEnqueueMapBuffer cls_opencl.clEnqueueMapBuffer
#define clEnqueueMarkerWithWaitList cls_opencl.clEnqueueMarkerWithWaitList
#define clEnqueueNDRangeKernel cls_opencl.clEnqueueNDRangeKernel
#define clEnqueueReadBuffer cls_opencl.clEnqueueReadBuffer
#define clEnqueueReadBufferRect cls_opencl.clEnqueueReadBufferRect
#define clEnqueueUnmapMemObject cls_opencl.clEnqueueUnmapMemObject
#define clEnqueueWriteBuffer cls_opencl.clEnqueueWriteBuffer
#define clEnqueueWriteBufferRect cls_opencl.clEnqueueWriteBufferRect
#define clFinish cls_opencl.clFinish
#define clFlush cls_opencl.clFlush
#define clGetCommandQueueInfo cls_opencl.clGetCommandQueueInfo
#define clGetContextInfo cls_opencl.clGetContextInfo
#define clGetDeviceInfo cls_opencl.clGetDeviceInfo
#define clGetEventInfo cls_opencl.clGetEventInfo
#define clGetExtensionFunctionAddressForPlatform cls_opencl.clGetExtensionFunctionAddressForPlatform
#define clGetKernelWorkGroupInfo cls_opencl.clGetKernelWorkGroupInfo
#define clGetMemObjectInfo cls_opencl.clGetMemObjectInfo
#define clGetPlatformInfo cls_opencl.clGetPlatformInfo
#define clGetProgramBuildInfo cls_opencl.clGetProgramBuildInfo
#define clGetProgramInfo cls_opencl.clGetProgramInfo
#define clReleaseCommandQueue cls_opencl.clReleaseCommandQueue
#define clReleaseContext cls_opencl.clReleaseContext
#define clReleaseEvent cls_opencl.clReleaseEvent
#define clReleaseKernel cls_opencl.clReleaseKernel
#define clReleaseMemObject cls_opencl.clReleaseMemObject
#define clReleaseProgram cls_opencl.clReleaseProgram
#define clRetainCommandQueue cls_opencl.clRetainCommandQueue
#define clRetainContext cls_opencl.clRetainContext
#define clRetainEvent cls_opencl.clRetainEvent
#define clSetKernelArg cls_opencl.clSetKernelArg
#define clWaitForEvents cls_opencl.clWaitForEvents
#endif

#endif
