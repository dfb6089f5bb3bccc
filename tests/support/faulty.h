/* SPDX-License-Identifier: MIT */
/* An OpenCL layer between the library and the real driver. It counts calls, makes one of them fail,
 * and counts live objects. A program links faulty.c and the library statically, but not OpenCL: a
 * call that is missing from the table below is an undefined symbol, since fixture.c lists all that
 * the library calls. */
#ifndef TESTS_FAULTY_H
#define TESTS_FAULTY_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>
#include <stdint.h>
#include <string.h>

/* The kinds of counted objects. */
typedef enum faulty_kind {
    FAULTY_CONTEXTS,
    FAULTY_QUEUES,
    FAULTY_PROGRAMS,
    FAULTY_KERNELS,
    FAULTY_MEMORY,
    FAULTY_EVENTS,
    FAULTY_KINDS
} faulty_kind;

/* Errors that the specification allows for each call. FAULTY_ALL are allowed for all calls.
 * NVIDIA's drivers return -9999 for a lost device. */
#define FAULTY_ALL CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY
#define FAULTY_QUEUE FAULTY_ALL, CL_INVALID_COMMAND_QUEUE
#define FAULTY_MOVE FAULTY_QUEUE, CL_MEM_OBJECT_ALLOCATION_FAILURE

/* clang-format off */
/* call(name, parameters, arguments, errors, done): a function that returns a code. `done` is the
 * statement to run after a success. */
#define FAULTY_CALLS(call) \
    call(clGetPlatformIDs, (cl_uint n, cl_platform_id *ids, cl_uint *got), (n, ids, got), \
         (FAULTY_ALL), ) \
    call(clGetPlatformInfo, (cl_platform_id o, cl_platform_info what, size_t size, void *to, \
         size_t *got), \
         (o, what, size, to, got), (FAULTY_ALL), ) \
    call(clGetDeviceIDs, (cl_platform_id o, cl_device_type type, cl_uint n, cl_device_id *ids, \
         cl_uint *got), \
         (o, type, n, ids, got), (FAULTY_ALL), ) \
    call(clGetDeviceInfo, (cl_device_id o, cl_device_info what, size_t size, void *to, \
         size_t *got), \
         (o, what, size, to, got), (FAULTY_ALL, CL_INVALID_VALUE), ) \
    call(clGetContextInfo, (cl_context o, cl_context_info what, size_t size, void *to, \
         size_t *got), \
         (o, what, size, to, got), (FAULTY_ALL, CL_INVALID_CONTEXT), ) \
    call(clGetCommandQueueInfo, (cl_command_queue o, cl_command_queue_info what, size_t size, \
         void *to, size_t *got), \
         (o, what, size, to, got), (FAULTY_ALL, CL_INVALID_COMMAND_QUEUE), ) \
    call(clGetMemObjectInfo, (cl_mem o, cl_mem_info what, size_t size, void *to, size_t *got), \
         (o, what, size, to, got), (FAULTY_ALL, CL_INVALID_MEM_OBJECT), ) \
    call(clGetProgramInfo, (cl_program o, cl_program_info what, size_t size, void *to, \
         size_t *got), \
         (o, what, size, to, got), (FAULTY_ALL), ) \
    call(clGetProgramBuildInfo, \
         (cl_program o, cl_device_id device, cl_program_build_info what, size_t size, void *to, \
         size_t *got), \
         (o, device, what, size, to, got), (FAULTY_ALL), ) \
    call(clGetKernelWorkGroupInfo, \
         (cl_kernel o, cl_device_id device, cl_kernel_work_group_info what, size_t size, \
         void *to, size_t *got), \
         (o, device, what, size, to, got), (FAULTY_ALL, CL_INVALID_DEVICE), ) \
    call(clGetEventInfo, (cl_event o, cl_event_info what, size_t size, void *to, size_t *got), \
         (o, what, size, to, got), (FAULTY_ALL), \
         if (faulty_state < 0 && what == CL_EVENT_COMMAND_EXECUTION_STATUS) memcpy(to, \
         &faulty_state, sizeof faulty_state);) \
    call(clGetEventProfilingInfo, (cl_event o, cl_profiling_info what, size_t size, void *to, \
         size_t *got), \
         (o, what, size, to, got), (FAULTY_ALL), ) \
    call(clBuildProgram, \
         (cl_program o, cl_uint n, const cl_device_id *ids, const char *options, \
          void(CL_CALLBACK *notify)(cl_program, void *), void *data), \
         (o, n, ids, faulty_options != NULL ? faulty_options : options, notify, data), \
         (FAULTY_ALL, CL_BUILD_PROGRAM_FAILURE, CL_COMPILER_NOT_AVAILABLE), ) \
    call(clSetKernelArg, (cl_kernel o, cl_uint at, size_t size, const void *value), (o, at, size, \
         value), \
         (FAULTY_ALL), ) \
    call(clEnqueueNDRangeKernel, \
         (cl_command_queue o, cl_kernel kernel, cl_uint n, const size_t *from, \
         const size_t *global, \
          const size_t *local, cl_uint n_wait, const cl_event *wait, cl_event *event), \
         (o, kernel, n, from, global, local, n_wait, wait, event), (FAULTY_MOVE, \
         CL_INVALID_WORK_GROUP_SIZE), \
         FAULTY_EVENT) \
    call(clEnqueueReadBuffer, \
         (cl_command_queue o, cl_mem mem, cl_bool block, size_t at, size_t size, void *to, \
         cl_uint n_wait, \
          const cl_event *wait, cl_event *event), \
         (o, mem, block, at, size, to, n_wait, wait, event), \
         (FAULTY_MOVE, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST), FAULTY_EVENT) \
    call(clEnqueueWriteBuffer, \
         (cl_command_queue o, cl_mem mem, cl_bool block, size_t at, size_t size, \
         const void *from, cl_uint n_wait, \
          const cl_event *wait, cl_event *event), \
         (o, mem, block, at, size, from, n_wait, wait, event), (FAULTY_MOVE), FAULTY_EVENT) \
    call(clEnqueueReadBufferRect, \
         (cl_command_queue o, cl_mem mem, cl_bool block, const size_t *at, const size_t *to_at, \
         const size_t *region, size_t row, size_t slice, size_t to_row, size_t to_slice, \
         void *to, cl_uint n_wait, \
          const cl_event *wait, cl_event *event), \
         (o, mem, block, at, to_at, region, row, slice, to_row, to_slice, to, n_wait, wait, \
         event), \
         (FAULTY_MOVE), FAULTY_EVENT) \
    call(clEnqueueWriteBufferRect, \
         (cl_command_queue o, cl_mem mem, cl_bool block, const size_t *at, const size_t *from_at, \
         const size_t *region, size_t row, size_t slice, size_t from_row, size_t from_slice, \
         const void *from, cl_uint n_wait, \
          const cl_event *wait, cl_event *event), \
         (o, mem, block, at, from_at, region, row, slice, from_row, from_slice, from, n_wait, \
         wait, event), \
         (FAULTY_MOVE), FAULTY_EVENT) \
    call(clEnqueueCopyBuffer, \
         (cl_command_queue o, cl_mem from, cl_mem to, size_t from_at, size_t to_at, size_t size, \
         cl_uint n_wait, \
          const cl_event *wait, cl_event *event), \
         (o, from, to, from_at, to_at, size, n_wait, wait, event), (FAULTY_MOVE), FAULTY_EVENT) \
    call(clEnqueueFillBuffer, \
         (cl_command_queue o, cl_mem mem, const void *pattern, size_t n, size_t at, size_t size, \
         cl_uint n_wait, \
          const cl_event *wait, cl_event *event), \
         (o, mem, pattern, n, at, size, n_wait, wait, event), (FAULTY_MOVE), FAULTY_EVENT) \
    call(clEnqueueUnmapMemObject, \
         (cl_command_queue o, cl_mem mem, void *at, cl_uint n_wait, const cl_event *wait, \
         cl_event *event), \
         (o, mem, at, n_wait, wait, event), (FAULTY_QUEUE), FAULTY_EVENT) \
    call(clEnqueueMarkerWithWaitList, \
         (cl_command_queue o, cl_uint n_wait, const cl_event *wait, cl_event *event), (o, n_wait, \
         wait, event), \
         (FAULTY_MOVE), FAULTY_EVENT) \
    call(clEnqueueBarrierWithWaitList, \
         (cl_command_queue o, cl_uint n_wait, const cl_event *wait, cl_event *event), (o, n_wait, \
         wait, event), \
         (FAULTY_MOVE), FAULTY_EVENT) \
    call(clWaitForEvents, (cl_uint n, const cl_event *events), (n, events), \
         (FAULTY_ALL, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST), ) \
    call(clSetUserEventStatus, (cl_event o, cl_int status), (o, status), (FAULTY_ALL), ) \
    call(clSetEventCallback, \
         (cl_event o, cl_int status, void(CL_CALLBACK *notify)(cl_event, cl_int, void *), \
         void *data), \
         (o, status, notify, data), (FAULTY_ALL), ) \
    call(clSetKernelArgSVMPointer, (cl_kernel o, cl_uint at, const void *value), (o, at, value), \
         (FAULTY_ALL), ) \
    call(clEnqueueSVMMemcpy, \
         (cl_command_queue o, cl_bool block, void *to, const void *from, size_t size, \
         cl_uint n_wait, \
          const cl_event *wait, cl_event *event), \
         (o, block, to, from, size, n_wait, wait, event), (FAULTY_MOVE), FAULTY_EVENT) \
    call(clFlush, (cl_command_queue o), (o), (FAULTY_QUEUE), ) \
    call(clFinish, (cl_command_queue o), (o), (FAULTY_QUEUE, -9999), ) \
    call(clRetainContext, (cl_context o), (o), (FAULTY_ALL), FAULTY_LIVE(CONTEXTS, 1)) \
    call(clRetainCommandQueue, (cl_command_queue o), (o), (FAULTY_ALL), FAULTY_LIVE(QUEUES, 1)) \
    call(clRetainProgram, (cl_program o), (o), (FAULTY_ALL), FAULTY_LIVE(PROGRAMS, 1)) \
    call(clRetainMemObject, (cl_mem o), (o), (FAULTY_ALL), FAULTY_LIVE(MEMORY, 1)) \
    call(clRetainEvent, (cl_event o), (o), (FAULTY_ALL), FAULTY_LIVE(EVENTS, 1))

/* make(name, type, parameters, arguments, errors, kind): a function that returns an object. */
#define FAULTY_MAKERS(make) \
    make(clCreateContext, cl_context, \
         (const cl_context_properties *properties, cl_uint n, const cl_device_id *ids, \
          void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *data, \
         cl_int *code), \
         (properties, n, ids, notify, data, code), (FAULTY_ALL), CONTEXTS) \
    make(clCreateCommandQueue, cl_command_queue, \
         (cl_context o, cl_device_id device, cl_command_queue_properties properties, \
         cl_int *code), \
         (o, device, properties, code), (FAULTY_ALL, CL_INVALID_DEVICE), QUEUES) \
    make(clCreateProgramWithSource, cl_program, \
         (cl_context o, cl_uint n, const char **strings, const size_t *sizes, cl_int *code), \
         (o, n, strings, sizes, code), (FAULTY_ALL), PROGRAMS) \
    make(clCreateProgramWithBinary, cl_program, \
         (cl_context o, cl_uint n, const cl_device_id *ids, const size_t *sizes, \
         const unsigned char **bytes, \
          cl_int *each, cl_int *code), \
         (o, n, ids, sizes, bytes, each, code), (FAULTY_ALL, CL_INVALID_BINARY), PROGRAMS) \
    make(clCreateKernel, cl_kernel, (cl_program o, const char *name, cl_int *code), (o, name, \
         code), \
         (FAULTY_ALL, CL_INVALID_PROGRAM_EXECUTABLE, CL_INVALID_KERNEL_NAME), KERNELS) \
    make(clCreateBuffer, cl_mem, (cl_context o, cl_mem_flags flags, size_t size, void *host, \
         cl_int *code), \
         (o, flags, size, host, code), (FAULTY_ALL, CL_MEM_OBJECT_ALLOCATION_FAILURE, \
         CL_INVALID_BUFFER_SIZE), MEMORY) \
    make(clEnqueueMapBuffer, void *, \
         (cl_command_queue o, cl_mem mem, cl_bool block, cl_map_flags flags, size_t at, \
         size_t size, cl_uint n_wait, \
          const cl_event *wait, cl_event *event, cl_int *code), \
         (o, mem, block, flags, at, size, n_wait, wait, event, code), (FAULTY_MOVE, \
         CL_MAP_FAILURE), NOTHING) \
    make(clCreateUserEvent, cl_event, (cl_context o, cl_int *code), (o, code), (FAULTY_ALL), EVENTS)

/* release(name, type, kind): a function that releases an object. */
#define FAULTY_RELEASES(release) \
    release(clReleaseContext, cl_context, CONTEXTS) \
    release(clReleaseCommandQueue, cl_command_queue, QUEUES) \
    release(clReleaseProgram, cl_program, PROGRAMS) \
    release(clReleaseKernel, cl_kernel, KERNELS) \
    release(clReleaseMemObject, cl_mem, MEMORY) \
    release(clReleaseEvent, cl_event, EVENTS)
/* clang-format on */

#define FAULTY_NAME(name, ...) FAULTY_##name,
typedef enum faulty_call {
    FAULTY_CALLS(FAULTY_NAME) FAULTY_MAKERS(FAULTY_NAME) FAULTY_RELEASES(FAULTY_NAME) FAULTY_COUNT
} faulty_call;

/* OpenCL's headers declare these for programs of version 2.0. Memory is for the tests: no fault
 * meets its functions. */
cl_int CL_API_CALL clSetKernelArgSVMPointer(cl_kernel o, cl_uint at, const void *value);
cl_int CL_API_CALL clEnqueueSVMMemcpy(cl_command_queue o, cl_bool block, void *to, const void *from,
                                      size_t size, cl_uint n_wait, const cl_event *wait,
                                      cl_event *event);
void *CL_API_CALL clSVMAlloc(cl_context context, cl_bitfield flags, size_t size, cl_uint alignment);
void CL_API_CALL clSVMFree(cl_context context, void *memory);

/* Starts counting at 0; only calls made while faulty_on is set are counted. The n-th call of
 * `which` (FAULTY_COUNT: of any) fails without reaching the driver. A release that fails is still
 * carried out, because the library cannot repeat it and the tests would run out of memory. code: a
 * negative OpenCL error, or the index of one of the call's own errors. lasting: all later calls of
 * any kind fail, too. */
void faulty_arm(faulty_call which, uint32_t n, cl_int code, int lasting);
/* Starts counting at 0, and no call fails. */
void faulty_disarm(void);
extern int faulty_on;
/* faulty_options replaces the options of clBuildProgram() unless it is NULL. A negative
 * faulty_state is reported as the state of every command. */
extern const char *faulty_options;
extern cl_int faulty_state;

/* Return the number of calls so far; the call that failed, or FAULTY_COUNT; its number among all
 * calls; and its error. */
uint32_t faulty_calls(void);
faulty_call faulty_failed(void);
uint32_t faulty_failed_at(void);
cl_int faulty_code(void);
/* Returns the kind of the n-th call. */
faulty_call faulty_nth_call(uint32_t n);

const char *faulty_name(faulty_call which);
/* Returns the number of errors that a call may return. */
uint32_t faulty_errors(faulty_call which);

/* The references that the program holds. faulty_leaked() describes how they differ from `before`;
 * it returns "" if they do not. */
typedef struct faulty_live {
    int32_t n[FAULTY_KINDS];
} faulty_live;
faulty_live faulty_alive(void);
const char *faulty_leaked(const faulty_live *before);

#endif
