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
    free(atomic_load(&context->packed));
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

static int load(cls_context *context, const cls_context_options *o, uint32_t dtypes, const uint8_t key[CLS_DIGEST],
                const void *bytes, size_t size)
{
    cls_container c;
    return cls_container_read(bytes, size, key, &c) && cls_load(context, o, dtypes, &c) == CLS_OK;
}

static int load_cached(cls_context *context, const cls_context_options *o, uint32_t dtypes,
                       const uint8_t key[CLS_DIGEST])
{
    size_t size;
    void *const bytes = cls_cache_read(o->cache_dir, key, dtypes, &size);
    const int loaded = bytes != NULL && load(context, o, dtypes, key, bytes, size);
    free(bytes);
    return loaded;
}

/* Compiled programs if they serve, else from source. */
static cls_status make(cls_context *context, const cls_context_options *o)
{
    const uint32_t dtypes = o->dtypes != 0 ? o->dtypes : (1u << CLS_DTYPES) - 1;
    uint8_t key[CLS_DIGEST];
    cls_packed *packed;
    const int keyed = (o->binary != NULL || o->cache_dir != NULL) &&
                      cls_binaries_key(context->device, &context->asked, key) == CLS_OK;
    context->origin = CLS_ORIGIN_BINARY;
    if (keyed && o->binary != NULL && load(context, o, dtypes, key, o->binary, o->binary_size))
        return CLS_OK;
    context->origin = CLS_ORIGIN_CACHE;
    if (keyed && o->cache_dir != NULL && load_cached(context, o, dtypes, key))
        return CLS_OK;
    context->origin = CLS_ORIGIN_SOURCE;
    const cls_status status = cls_compile(context, o, dtypes);
    if (status == CLS_OK && keyed && o->cache_dir != NULL && cls_binaries_pack(context, &packed) == CLS_OK) {
        cls_cache_write(o->cache_dir, key, dtypes, packed);
        free(packed);
    }
    return status;
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
    atomic_init(&context->packed, NULL);
    const cl_int code = clRetainContext(cl);
    if (code != CL_SUCCESS) {
        free(context);
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot retain context");
    }
    context->cl = cl;
    context->device = device;
    context->shape = context->asked = shape;
    cls_failure_keep(&before);
    status = make(context, &o);
    hand_out_log(context, &o);
    if (status != CLS_OK) {
        cls_context_destroy(context);
        return status;
    }
    cls_failure_restore(&before); /* of what it went on after */
    *out = context;
    return CLS_OK;
}
