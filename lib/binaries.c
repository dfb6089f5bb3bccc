/* SPDX-License-Identifier: MIT */
/* Compiled programs out of a context, and what they fit. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>

/* cl_khr_device_uuid's, which OpenCL 1.2 does not know. The device's own is left
 * out of the key: programs of one card fit another of its kind. */
#define DRIVER_UUID 0x106B

/* ------------------------------------------------------------------------ key */

/* A part of a key: its length first, so that none runs into the next. */
static void add(cls_sha256 *hash, const void *bytes, size_t size)
{
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)((uint64_t)size >> (8 * i));
    cls_sha256_add(hash, length, sizeof length);
    cls_sha256_add(hash, bytes, size);
}

static void add_text(cls_sha256 *hash, const char *text) { add(hash, text, strlen(text)); }

/* What a platform, or with NULL a device, says of itself; what it does not say is empty. */
static void add_info(cls_sha256 *hash, cl_platform_id platform, cl_device_id device, cl_uint what)
{
    size_t size = 0;
    void *value = NULL;
    cl_int code = platform != NULL ? clGetPlatformInfo(platform, what, 0, NULL, &size)
                                   : clGetDeviceInfo(device, what, 0, NULL, &size);
    if (code == CL_SUCCESS && size > 0 && (value = calloc(size, 1)) != NULL)
        code = platform != NULL ? clGetPlatformInfo(platform, what, size, value, NULL)
                                : clGetDeviceInfo(device, what, size, value, NULL);
    add(hash, value, code == CL_SUCCESS && value != NULL ? size : 0);
    free(value);
}

/* By the limits, too: where a device refuses a shape, they decide what it gets. */
static void add_shape(cls_sha256 *hash, const cls_shape *shape)
{
    char text[CLS_BUILD_OPTIONS];
    cls_program_options(shape, shape->work_group, 0, text);
    add_text(hash, text);
    cls_program_options(shape, shape->row_group, 0, text);
    add_text(hash, text);
    snprintf(text, sizeof text, "%llu %llu", (unsigned long long)shape->local_mem_size,
             (unsigned long long)shape->max_work_group);
    add_text(hash, text);
}

void cls_binaries_key(cl_device_id device, const cls_shape *shape, uint8_t key[CLS_DIGEST])
{
    static const cl_uint of_device[] = {CL_DEVICE_NAME,    CL_DEVICE_VENDOR_ID,    CL_DEVICE_VERSION, CL_DRIVER_VERSION,
                                        CL_DEVICE_PROFILE, CL_DEVICE_ADDRESS_BITS, DRIVER_UUID};
    cl_platform_id platform = NULL;
    cls_sha256 hash;
    cls_sha256_begin(&hash);
    add_text(&hash, CLS_VERSION_STRING);
    for (unsigned i = 0; i < cls_kernel_source_count; i++)
        add_text(&hash, cls_kernel_source[i]);
    add_shape(&hash, shape);
    if (clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) == CL_SUCCESS &&
        platform != NULL) {
        add_info(&hash, platform, NULL, CL_PLATFORM_NAME);
        add_info(&hash, platform, NULL, CL_PLATFORM_VERSION);
    }
    for (size_t i = 0; i < sizeof of_device / sizeof of_device[0]; i++)
        add_info(&hash, NULL, device, of_device[i]);
    cls_sha256_end(&hash, key);
}

/* --------------------------------------------------------------------- export */

/* Which of a program's devices is the context's: a program from source is for all
 * devices of the OpenCL context. */
static cl_int find_device(const cls_context *context, cl_program program, cl_uint *n, cl_uint *which)
{
    cl_device_id *devices;
    cl_int code = clGetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof *n, n, NULL);
    if (code != CL_SUCCESS)
        return code;
    if ((devices = calloc(*n, sizeof *devices)) == NULL)
        return CL_OUT_OF_HOST_MEMORY;
    code = clGetProgramInfo(program, CL_PROGRAM_DEVICES, *n * sizeof *devices, devices, NULL);
    for (*which = 0; *which < *n && devices[*which] != context->device; ++*which)
        ;
    free(devices);
    return code == CL_SUCCESS && *which == *n ? CL_INVALID_DEVICE : code;
}

/* One program's bytes, the caller's to free. */
static cl_int get_binary(const cls_context *context, cl_program program, cls_bytes *out)
{
    cl_uint n = 0, which = 0;
    size_t *sizes = NULL;
    unsigned char **places = NULL;
    cl_int code = find_device(context, program, &n, &which);
    if (code == CL_SUCCESS &&
        ((sizes = calloc(n, sizeof *sizes)) == NULL || (places = calloc(n, sizeof *places)) == NULL))
        code = CL_OUT_OF_HOST_MEMORY;
    if (code == CL_SUCCESS)
        code = clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, n * sizeof *sizes, sizes, NULL);
    if (code == CL_SUCCESS && sizes[which] > 0) {
        if ((places[which] = calloc(sizes[which], 1)) == NULL)
            code = CL_OUT_OF_HOST_MEMORY;
        else
            code = clGetProgramInfo(program, CL_PROGRAM_BINARIES, n * sizeof *places, places, NULL);
        if (code == CL_SUCCESS) {
            out->bytes = places[which];
            out->size = sizes[which];
        } else {
            free(places[which]);
        }
    }
    free(sizes);
    free(places);
    return code;
}

static void free_programs(cls_container *c)
{
    for (int i = 0; i < CLS_DTYPES * CLS_PARTS; i++)
        free((void *)(uintptr_t)c->program[i / CLS_PARTS][i % CLS_PARTS].bytes);
}

cls_status cls_binaries_pack(const cls_context *context, cls_packed **out)
{
    cls_container c = {.shape = context->shape};
    cl_int code = CL_SUCCESS;
    int missing = 0;
    *out = NULL;
    for (int i = 0; i < CLS_DTYPES * CLS_PARTS && code == CL_SUCCESS && !missing; i++) {
        const cl_program *const programs = context->program[i / CLS_PARTS];
        cls_bytes *const bytes = &c.program[i / CLS_PARTS][i % CLS_PARTS];
        if (programs[i % CLS_PARTS] == NULL || (i % CLS_PARTS > 0 && programs[i % CLS_PARTS] == programs[0]))
            continue;
        code = get_binary(context, programs[i % CLS_PARTS], bytes);
        missing = bytes->bytes == NULL;
    }
    cls_status status = CLS_OK;
    const size_t size = cls_container_size(&c);
    if (code == CL_OUT_OF_HOST_MEMORY)
        status = cls_fail(CLS_OUT_OF_MEMORY, code, "out of host memory for the compiled programs");
    else if (code != CL_SUCCESS)
        status = cls_fail(CLS_OPENCL_ERROR, code, "cannot get the compiled programs from the driver");
    else if (missing)
        status = cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS, "the driver hands out no compiled programs");
    else if ((*out = malloc(sizeof **out + size)) == NULL)
        status = cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for %zu bytes of compiled programs", size);
    if (status == CLS_OK) {
        (*out)->size = size;
        cls_container_write(&c, context->key, (*out)->bytes);
    }
    free_programs(&c);
    return status;
}

cls_status cls_context_export(const cls_context *callers, void *out, size_t *size)
{
    cls_context *const context = (cls_context *)(uintptr_t)callers; /* what it keeps here is no caller's business */
    cls_packed *packed, *none = NULL;
    if (context == NULL || size == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "%s is NULL", context == NULL ? "context" : "size");
    /* Packed once: a driver may compile for it (PoCL does), and would say another
     * size after more launches. */
    packed = atomic_load(&context->packed);
    if (packed == NULL) {
        const cls_status status = cls_binaries_pack(context, &packed);
        if (status != CLS_OK)
            return status;
        if (!atomic_compare_exchange_strong(&context->packed, &none, packed)) {
            free(packed);
            packed = none; /* another thread's */
        }
    }
    const size_t room = *size;
    *size = packed->size;
    if (out == NULL)
        return CLS_OK;
    if (room < packed->size)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "*size is %zu; the compiled programs take %zu", room,
                        packed->size);
    memcpy(out, packed->bytes, packed->size);
    return CLS_OK;
}
