/* SPDX-License-Identifier: MIT */
/* The functions of OpenCL that the libraries and the command call. None of them links OpenCL: each
 * call goes through a table of libclsample, which is filled when a device is first asked for, so
 * that everything else works where no OpenCL is installed. Programs that link OpenCL, such as the
 * tests, do not include this and call it directly. */
#ifndef CLS_OPENCL_H
#define CLS_OPENCL_H

#include "clsample.h"

/* clang-format off */
/* Functions of OpenCL 1.2, which every OpenCL must have. */
#define CLS_OPENCL_FUNCTIONS(X) \
    X(clBuildProgram) X(clCreateBuffer) X(clCreateCommandQueue) X(clCreateContext) \
    X(clCreateKernel) X(clCreateProgramWithBinary) X(clCreateProgramWithSource) \
    X(clEnqueueBarrierWithWaitList) X(clEnqueueCopyBuffer) X(clEnqueueFillBuffer) \
    X(clEnqueueMapBuffer) X(clEnqueueMarkerWithWaitList) X(clEnqueueNDRangeKernel) \
    X(clEnqueueReadBuffer) X(clEnqueueReadBufferRect) X(clEnqueueUnmapMemObject) \
    X(clEnqueueWriteBuffer) X(clEnqueueWriteBufferRect) X(clFinish) X(clFlush) \
    X(clGetCommandQueueInfo) X(clGetContextInfo) X(clGetDeviceIDs) X(clGetDeviceInfo) \
    X(clGetEventInfo) X(clGetEventProfilingInfo) X(clGetExtensionFunctionAddressForPlatform) \
    X(clGetKernelWorkGroupInfo) X(clGetMemObjectInfo) X(clGetPlatformIDs) X(clGetPlatformInfo) \
    X(clGetProgramBuildInfo) X(clGetProgramInfo) X(clReleaseCommandQueue) X(clReleaseContext) \
    X(clReleaseEvent) X(clReleaseKernel) X(clReleaseMemObject) X(clReleaseProgram) \
    X(clRetainCommandQueue) X(clRetainContext) X(clRetainEvent) X(clRetainMemObject) \
    X(clSetKernelArg) X(clWaitForEvents)
/* Functions of OpenCL 2.0 for SVM, which are NULL where an OpenCL has none. */
#define CLS_OPENCL_SVM_FUNCTIONS(X) \
    X(clEnqueueSVMMemcpy) X(clSVMAlloc) X(clSVMFree) X(clSetKernelArgSVMPointer)
/* clang-format on */

/* OpenCL's headers declare these for programs of version 2.0. */
cl_int CL_API_CALL clEnqueueSVMMemcpy(cl_command_queue, cl_bool, void *, const void *, size_t,
                                      cl_uint, const cl_event *, cl_event *);
void *CL_API_CALL clSVMAlloc(cl_context, cl_bitfield, size_t, cl_uint);
void CL_API_CALL clSVMFree(cl_context, void *);
cl_int CL_API_CALL clSetKernelArgSVMPointer(cl_kernel, cl_uint, const void *);

typedef struct cls_opencl_functions {
#define FIELD(name) __typeof__(&(name)) name;
    CLS_OPENCL_FUNCTIONS(FIELD)
    CLS_OPENCL_SVM_FUNCTIONS(FIELD)
#undef FIELD
} cls_opencl_functions;

/* Fills the table, unless it is filled, or fails with a sentence that says what is missing. Every
 * other use of OpenCL comes after it. options: of find_opencl; NULL for defaults. Any thread may
 * call this. */
CLS_API cls_status cls_opencl_find(const cls_context_options *options);

/* The process's table. It does not change once it is filled. */
CLS_API const cls_opencl_functions *cls_opencl(void);

#define clBuildProgram(...) cls_opencl()->clBuildProgram(__VA_ARGS__)
#define clCreateBuffer(...) cls_opencl()->clCreateBuffer(__VA_ARGS__)
#define clCreateCommandQueue(...) cls_opencl()->clCreateCommandQueue(__VA_ARGS__)
#define clCreateContext(...) cls_opencl()->clCreateContext(__VA_ARGS__)
#define clCreateKernel(...) cls_opencl()->clCreateKernel(__VA_ARGS__)
#define clCreateProgramWithBinary(...) cls_opencl()->clCreateProgramWithBinary(__VA_ARGS__)
#define clCreateProgramWithSource(...) cls_opencl()->clCreateProgramWithSource(__VA_ARGS__)
#define clEnqueueBarrierWithWaitList(...) cls_opencl()->clEnqueueBarrierWithWaitList(__VA_ARGS__)
#define clEnqueueCopyBuffer(...) cls_opencl()->clEnqueueCopyBuffer(__VA_ARGS__)
#define clEnqueueFillBuffer(...) cls_opencl()->clEnqueueFillBuffer(__VA_ARGS__)
#define clEnqueueMapBuffer(...) cls_opencl()->clEnqueueMapBuffer(__VA_ARGS__)
#define clEnqueueMarkerWithWaitList(...) cls_opencl()->clEnqueueMarkerWithWaitList(__VA_ARGS__)
#define clEnqueueNDRangeKernel(...) cls_opencl()->clEnqueueNDRangeKernel(__VA_ARGS__)
#define clEnqueueReadBuffer(...) cls_opencl()->clEnqueueReadBuffer(__VA_ARGS__)
#define clEnqueueReadBufferRect(...) cls_opencl()->clEnqueueReadBufferRect(__VA_ARGS__)
#define clEnqueueUnmapMemObject(...) cls_opencl()->clEnqueueUnmapMemObject(__VA_ARGS__)
#define clEnqueueWriteBuffer(...) cls_opencl()->clEnqueueWriteBuffer(__VA_ARGS__)
#define clEnqueueWriteBufferRect(...) cls_opencl()->clEnqueueWriteBufferRect(__VA_ARGS__)
#define clFinish(...) cls_opencl()->clFinish(__VA_ARGS__)
#define clFlush(...) cls_opencl()->clFlush(__VA_ARGS__)
#define clGetCommandQueueInfo(...) cls_opencl()->clGetCommandQueueInfo(__VA_ARGS__)
#define clGetContextInfo(...) cls_opencl()->clGetContextInfo(__VA_ARGS__)
#define clGetDeviceIDs(...) cls_opencl()->clGetDeviceIDs(__VA_ARGS__)
#define clGetDeviceInfo(...) cls_opencl()->clGetDeviceInfo(__VA_ARGS__)
#define clGetEventInfo(...) cls_opencl()->clGetEventInfo(__VA_ARGS__)
#define clGetEventProfilingInfo(...) cls_opencl()->clGetEventProfilingInfo(__VA_ARGS__)
#define clGetExtensionFunctionAddressForPlatform(...) \
    cls_opencl()->clGetExtensionFunctionAddressForPlatform(__VA_ARGS__)
#define clGetKernelWorkGroupInfo(...) cls_opencl()->clGetKernelWorkGroupInfo(__VA_ARGS__)
#define clGetMemObjectInfo(...) cls_opencl()->clGetMemObjectInfo(__VA_ARGS__)
#define clGetPlatformIDs(...) cls_opencl()->clGetPlatformIDs(__VA_ARGS__)
#define clGetPlatformInfo(...) cls_opencl()->clGetPlatformInfo(__VA_ARGS__)
#define clGetProgramBuildInfo(...) cls_opencl()->clGetProgramBuildInfo(__VA_ARGS__)
#define clGetProgramInfo(...) cls_opencl()->clGetProgramInfo(__VA_ARGS__)
#define clReleaseCommandQueue(...) cls_opencl()->clReleaseCommandQueue(__VA_ARGS__)
#define clReleaseContext(...) cls_opencl()->clReleaseContext(__VA_ARGS__)
#define clReleaseEvent(...) cls_opencl()->clReleaseEvent(__VA_ARGS__)
#define clReleaseKernel(...) cls_opencl()->clReleaseKernel(__VA_ARGS__)
#define clReleaseMemObject(...) cls_opencl()->clReleaseMemObject(__VA_ARGS__)
#define clReleaseProgram(...) cls_opencl()->clReleaseProgram(__VA_ARGS__)
#define clRetainCommandQueue(...) cls_opencl()->clRetainCommandQueue(__VA_ARGS__)
#define clRetainContext(...) cls_opencl()->clRetainContext(__VA_ARGS__)
#define clRetainEvent(...) cls_opencl()->clRetainEvent(__VA_ARGS__)
#define clRetainMemObject(...) cls_opencl()->clRetainMemObject(__VA_ARGS__)
#define clSetKernelArg(...) cls_opencl()->clSetKernelArg(__VA_ARGS__)
#define clWaitForEvents(...) cls_opencl()->clWaitForEvents(__VA_ARGS__)
#define clEnqueueSVMMemcpy(...) cls_opencl()->clEnqueueSVMMemcpy(__VA_ARGS__)
#define clSVMAlloc(...) cls_opencl()->clSVMAlloc(__VA_ARGS__)
#define clSVMFree(...) cls_opencl()->clSVMFree(__VA_ARGS__)
#define clSetKernelArgSVMPointer(...) cls_opencl()->clSetKernelArgSVMPointer(__VA_ARGS__)

#endif
