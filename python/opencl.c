/* SPDX-License-Identifier: MIT */
/* OpenCL's functions for the library in the Python wheel. They call a loader that is opened when
 * the package first needs a device, so that the wheel works without any loader on the host, beside
 * the system's loader, and beside the one that pyopencl's wheels contain. The linker reports a
 * function that is missing here. */
#include <dlfcn.h>
#include <stddef.h>

#include "clsample.h"

/* Opens the loader `path`, or the one that the library `path` is linked with. Returns 1 if it has
 * OpenCL's functions, otherwise 0. Only the first loader is used. One thread at a time. */
CLS_API int cls_opencl_open(const char *path);

/* What functions return before a loader is open, and where it lacks them; the name of it is
 * CL_PLATFORM_NOT_FOUND_KHR. */
#define NO_LOADER (-1001)

/* X(name, parameters, arguments): functions that return an error code. The headers of version 1.2
 * declare all but those of SVM. */
#define CODES(X) \
    X(clBuildProgram, \
      (cl_program a, cl_uint b, const cl_device_id *c, const char *d, \
       void(CL_CALLBACK * e)(cl_program, void *), void *f), \
      (a, b, c, d, e, f)) \
    X(clEnqueueBarrierWithWaitList, \
      (cl_command_queue a, cl_uint b, const cl_event *c, cl_event *d), (a, b, c, d)) \
    X(clEnqueueCopyBuffer, \
      (cl_command_queue a, cl_mem b, cl_mem c, size_t d, size_t e, size_t f, cl_uint g, \
       const cl_event *h, cl_event *i), \
      (a, b, c, d, e, f, g, h, i)) \
    X(clEnqueueFillBuffer, \
      (cl_command_queue a, cl_mem b, const void *c, size_t d, size_t e, size_t f, cl_uint g, \
       const cl_event *h, cl_event *i), \
      (a, b, c, d, e, f, g, h, i)) \
    X(clEnqueueMarkerWithWaitList, \
      (cl_command_queue a, cl_uint b, const cl_event *c, cl_event *d), (a, b, c, d)) \
    X(clEnqueueNDRangeKernel, \
      (cl_command_queue a, cl_kernel b, cl_uint c, const size_t *d, const size_t *e, \
       const size_t *f, cl_uint g, const cl_event *h, cl_event *i), \
      (a, b, c, d, e, f, g, h, i)) \
    X(clEnqueueReadBuffer, \
      (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, void *f, cl_uint g, \
       const cl_event *h, cl_event *i), \
      (a, b, c, d, e, f, g, h, i)) \
    X(clEnqueueReadBufferRect, \
      (cl_command_queue a, cl_mem b, cl_bool c, const size_t *d, const size_t *e, const size_t *f, \
       size_t g, size_t h, size_t i, size_t j, void *k, cl_uint l, const cl_event *m, \
       cl_event *n), \
      (a, b, c, d, e, f, g, h, i, j, k, l, m, n)) \
    X(clEnqueueSVMMemcpy, \
      (cl_command_queue a, cl_bool b, void *c, const void *d, size_t e, cl_uint f, \
       const cl_event *g, cl_event *h), \
      (a, b, c, d, e, f, g, h)) \
    X(clEnqueueUnmapMemObject, \
      (cl_command_queue a, cl_mem b, void *c, cl_uint d, const cl_event *e, cl_event *f), \
      (a, b, c, d, e, f)) \
    X(clEnqueueWriteBuffer, \
      (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, const void *f, cl_uint g, \
       const cl_event *h, cl_event *i), \
      (a, b, c, d, e, f, g, h, i)) \
    X(clEnqueueWriteBufferRect, \
      (cl_command_queue a, cl_mem b, cl_bool c, const size_t *d, const size_t *e, const size_t *f, \
       size_t g, size_t h, size_t i, size_t j, const void *k, cl_uint l, const cl_event *m, \
       cl_event *n), \
      (a, b, c, d, e, f, g, h, i, j, k, l, m, n)) \
    X(clFinish, (cl_command_queue a), (a)) \
    X(clFlush, (cl_command_queue a), (a)) \
    X(clGetCommandQueueInfo, \
      (cl_command_queue a, cl_command_queue_info b, size_t c, void *d, size_t *e), \
      (a, b, c, d, e)) \
    X(clGetContextInfo, (cl_context a, cl_context_info b, size_t c, void *d, size_t *e), \
      (a, b, c, d, e)) \
    X(clGetDeviceInfo, (cl_device_id a, cl_device_info b, size_t c, void *d, size_t *e), \
      (a, b, c, d, e)) \
    X(clGetEventInfo, (cl_event a, cl_event_info b, size_t c, void *d, size_t *e), \
      (a, b, c, d, e)) \
    X(clGetKernelWorkGroupInfo, \
      (cl_kernel a, cl_device_id b, cl_kernel_work_group_info c, size_t d, void *e, size_t *f), \
      (a, b, c, d, e, f)) \
    X(clGetMemObjectInfo, (cl_mem a, cl_mem_info b, size_t c, void *d, size_t *e), \
      (a, b, c, d, e)) \
    X(clGetPlatformIDs, (cl_uint a, cl_platform_id * b, cl_uint * c), (a, b, c)) \
    X(clGetPlatformInfo, (cl_platform_id a, cl_platform_info b, size_t c, void *d, size_t *e), \
      (a, b, c, d, e)) \
    X(clGetProgramBuildInfo, \
      (cl_program a, cl_device_id b, cl_program_build_info c, size_t d, void *e, size_t *f), \
      (a, b, c, d, e, f)) \
    X(clGetProgramInfo, (cl_program a, cl_program_info b, size_t c, void *d, size_t *e), \
      (a, b, c, d, e)) \
    X(clReleaseCommandQueue, (cl_command_queue a), (a)) \
    X(clReleaseContext, (cl_context a), (a)) \
    X(clReleaseEvent, (cl_event a), (a)) \
    X(clReleaseKernel, (cl_kernel a), (a)) \
    X(clReleaseMemObject, (cl_mem a), (a)) \
    X(clReleaseProgram, (cl_program a), (a)) \
    X(clRetainCommandQueue, (cl_command_queue a), (a)) \
    X(clRetainContext, (cl_context a), (a)) \
    X(clRetainEvent, (cl_event a), (a)) \
    X(clRetainMemObject, (cl_mem a), (a)) \
    X(clSetKernelArg, (cl_kernel a, cl_uint b, size_t c, const void *d), (a, b, c, d)) \
    X(clSetKernelArgSVMPointer, (cl_kernel a, cl_uint b, const void *c), (a, b, c)) \
    X(clWaitForEvents, (cl_uint a, const cl_event *b), (a, b))

/* X(type, name, parameters, arguments): functions that return an object, and an error code in the
 * last parameter, which is called `code`. */
#define OBJECTS(X) \
    X(cl_mem, clCreateBuffer, (cl_context a, cl_mem_flags b, size_t c, void *d, cl_int *code), \
      (a, b, c, d, code)) \
    X(cl_command_queue, clCreateCommandQueue, \
      (cl_context a, cl_device_id b, cl_command_queue_properties c, cl_int * code), \
      (a, b, c, code)) \
    X(cl_kernel, clCreateKernel, (cl_program a, const char *b, cl_int *code), (a, b, code)) \
    X(cl_program, clCreateProgramWithBinary, \
      (cl_context a, cl_uint b, const cl_device_id *c, const size_t *d, const unsigned char **e, \
       cl_int *f, cl_int *code), \
      (a, b, c, d, e, f, code)) \
    X(cl_program, clCreateProgramWithSource, \
      (cl_context a, cl_uint b, const char **c, const size_t *d, cl_int *code), \
      (a, b, c, d, code)) \
    X(void *, clEnqueueMapBuffer, \
      (cl_command_queue a, cl_mem b, cl_bool c, cl_map_flags d, size_t e, size_t f, cl_uint g, \
       const cl_event *h, cl_event *i, cl_int *code), \
      (a, b, c, d, e, f, g, h, i, code))

#define DEFINE_CODE(name, parameters, arguments) \
    static cl_int(CL_API_CALL *loader_##name) parameters; \
    CL_API_ENTRY cl_int CL_API_CALL name parameters; \
    CL_API_ENTRY cl_int CL_API_CALL name parameters \
    { \
        return loader_##name != NULL ? loader_##name arguments : NO_LOADER; \
    }
CODES(DEFINE_CODE)

#define DEFINE_OBJECT(type, name, parameters, arguments) \
    static type(CL_API_CALL *loader_##name) parameters; \
    CL_API_ENTRY type CL_API_CALL name parameters \
    { \
        if (loader_##name != NULL) \
            return loader_##name arguments; \
        if (code != NULL) \
            *code = NO_LOADER; \
        return NULL; \
    }
OBJECTS(DEFINE_OBJECT)

/* Pointers of USM, which the package does not take, would need this. */
void *CL_API_CALL clGetExtensionFunctionAddressForPlatform(cl_platform_id platform,
                                                           const char *name)
{
    (void)platform, (void)name;
    return NULL;
}

/* dlsym() returns a pointer to data, which ISO C does not convert to one to a function. */
static void find(void *loader, const char *name, void **function)
{
    *function = dlsym(loader, name);
}
#define FIND_CODE(name, parameters, arguments) find(loader, #name, (void **)&loader_##name);
#define FIND_OBJECT(type, name, parameters, arguments) FIND_CODE(name, , )

int cls_opencl_open(const char *path)
{
    void *const loader = loader_clGetPlatformIDs == NULL ? dlopen(path, RTLD_NOW) : NULL;
    if (loader != NULL) {
        CODES(FIND_CODE)
        OBJECTS(FIND_OBJECT)
    }
    return loader_clGetPlatformIDs != NULL;
}
