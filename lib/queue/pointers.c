/* SPDX-License-Identifier: MIT */
/* Finds OpenCL's functions for memory that is named by pointers, when a call has such a pointer. */
#include "queue/queue.h"

static const struct {
    const char *name, *question;
    cl_device_info capabilities; /* a device without such memory does not know them, or has none */
    const char *set, *copy;
} kinds[CLS_BUFFER_KINDS] = {
    [CLS_BUFFER_SVM] = {"SVM", "CL_DEVICE_SVM_CAPABILITIES", 0x1053, "clSetKernelArgSVMPointer",
                        "clEnqueueSVMMemcpy"},
    [CLS_BUFFER_USM] = {"USM", "CL_DEVICE_DEVICE_MEM_CAPABILITIES_INTEL", 0x4191,
                        "clSetKernelArgMemPointerINTEL", "clEnqueueMemcpyINTEL"},
};

/* Looks up a platform's functions for USM, which are no functions of the loader. */
static cl_int find_usm(cl_device_id device, cls_pointer_calls *out)
{
    cl_platform_id platform;
    const cl_int code =
        clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
    if (code != CL_SUCCESS)
        return code;
    /* ISO C has no cast to a pointer to a function. */
    void *const found[] = {
        clGetExtensionFunctionAddressForPlatform(platform, kinds[CLS_BUFFER_USM].set),
        clGetExtensionFunctionAddressForPlatform(platform, kinds[CLS_BUFFER_USM].copy)};
    memcpy(out, found, sizeof found);
    return CL_SUCCESS;
}

cls_status cls_pointer_calls_find(cl_device_id device, const char *name, int32_t kind,
                                  cls_pointer_calls *out)
{
    cl_bitfield capabilities = 0;
    if (out->set != NULL)
        return CLS_OK;
    cl_int code =
        clGetDeviceInfo(device, kinds[kind].capabilities, sizeof capabilities, &capabilities, NULL);
    if ((code == CL_SUCCESS && capabilities == 0) || code == CL_INVALID_VALUE)
        return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                        "%s is a pointer of %s, which the device does not have: it has no %s", name,
                        kinds[kind].name, kinds[kind].question);
    if (code == CL_SUCCESS && kind == CLS_BUFFER_USM)
        code = find_usm(device, out);
    else if (code == CL_SUCCESS)
        *out = (cls_pointer_calls){cls_opencl()->clSetKernelArgSVMPointer,
                                   cls_opencl()->clEnqueueSVMMemcpy};
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot query whether the device has the %s of %s",
                        kinds[kind].name, name);
    if (out->set != NULL && out->copy != NULL)
        return CLS_OK;
    const char *const missing = out->set == NULL ? kinds[kind].set : kinds[kind].copy;
    *out = (cls_pointer_calls){NULL, NULL};
    return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                    "%s is a pointer of %s, but this OpenCL has no function %s", name,
                    kinds[kind].name, missing);
}
