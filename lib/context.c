/* SPDX-License-Identifier: MIT */
/* A context: the kernels compiled for one device, proven and warmed up. */
#include "internal.h"

#include <stdatomic.h>
#include <stdlib.h>

void cls_context_retain(cls_context *context)
{
    atomic_fetch_add(&context->references, 1);
}

void cls_context_destroy(cls_context *context)
{
    if (context == NULL || atomic_fetch_sub(&context->references, 1) != 1)
        return;
    cls_context_release_programs(context);
    if (context->cl != NULL)
        clReleaseContext(context->cl);
    free(context);
}

const char *cls_context_build_log(const cls_context *context)
{
    return context != NULL && context->build_log != NULL ? context->build_log : "";
}

static cls_status check_device(cl_context cl, cl_device_id device)
{
    cl_device_id devices[64];
    size_t size = 0;
    const cl_int code = clGetContextInfo(cl, CL_CONTEXT_DEVICES, sizeof devices, devices, &size);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot query context");
    for (size_t i = 0; i < size / sizeof devices[0]; i++)
        if (devices[i] == device)
            return CLS_OK;
    return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "device does not belong to context");
}

static void hand_out_log(const cls_context *context, const cls_context_options *o)
{
    const char *const log = cls_context_build_log(context);
    if (o->build_log == NULL || o->build_log_size == 0)
        return;
    const size_t n = strlen(log) < o->build_log_size ? strlen(log) : o->build_log_size - 1;
    memcpy(o->build_log, log, n);
    o->build_log[n] = '\0';
}

cls_status cls_context_create(cl_context cl, cl_device_id device, const cls_context_options *callers, cls_context **out)
{
    cls_context_options o;
    cls_shape shape;
    cls_failure before;
    cls_context_options_default(&o, sizeof o);
    if (out == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "out is NULL");
    *out = NULL;
    if (cl == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "context is NULL");
    cls_status status = callers != NULL ? cls_struct_read(&o, sizeof o, callers, "options") : CLS_OK;
    if (status == CLS_OK)
        status = cls_shape_query(device, &o, &shape);
    if (status == CLS_OK)
        status = check_device(cl, device);
    if (status != CLS_OK)
        return status;
    cls_context *const context = calloc(1, sizeof *context);
    if (context == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for a context");
    atomic_init(&context->references, 1);
    const cl_int code = clRetainContext(cl);
    if (code != CL_SUCCESS) {
        free(context);
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot retain context");
    }
    context->cl = cl;
    context->device = device;
    context->shape = shape;
    cls_failure_keep(&before);
    status = cls_compile(context, &o, o.dtypes != 0 ? o.dtypes : (1u << CLS_DTYPES) - 1);
    hand_out_log(context, &o);
    if (status != CLS_OK) {
        cls_context_destroy(context);
        return status;
    }
    cls_failure_restore(&before); /* of what it went on after */
    *out = context;
    return CLS_OK;
}
