/* SPDX-License-Identifier: MIT */
/* Compiled programs out of a context, and what they fit. */
#include "programs/programs.h"

#include <stdio.h>
#include <stdlib.h>

/* cl_khr_device_uuid's, which OpenCL 1.2 does not know. The device's own is left
 * out of the key: programs of one card fit another of its kind. */
#define DRIVER_UUID 0x106B

static cls_status no_memory(void)
{
    return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for compiled programs");
}

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

static cl_int ask(cl_platform_id platform, cl_device_id device, cl_uint what, size_t size, void *to,
                  size_t *needed)
{
    return platform != NULL ? clGetPlatformInfo(platform, what, size, to, needed)
                            : clGetDeviceInfo(device, what, size, to, needed);
}

/* What a platform, or with NULL a device, says of itself. */
static cls_status add_info(cls_sha256 *hash, cl_platform_id platform, cl_device_id device,
                           cl_uint what)
{
    size_t size = 0;
    void *value = NULL;
    cl_int code = ask(platform, device, what, 0, NULL, &size);
    if (code == CL_INVALID_VALUE && what == DRIVER_UUID) { /* most have none */
        code = CL_SUCCESS;
        size = 0;
    }
    if (code == CL_SUCCESS && size > 0) {
        if ((value = malloc(size)) == NULL)
            return no_memory();
        code = ask(platform, device, what, size, value, NULL);
    }
    if (code == CL_SUCCESS)
        add(hash, value, size);
    free(value);
    return code == CL_SUCCESS ? CLS_OK
                              : cls_fail(CLS_OPENCL_ERROR, code,
                                         "cannot ask the device what compiled programs fit it");
}

/* Any change of any program: a name does not tell which sources it includes. And the device's
 * limits: where it refuses a shape, they decide what it gets. */
static void add_programs(cls_sha256 *hash, const cls_shape *shape)
{
    char text[CLS_BUILD_OPTIONS];
    for (int v = 0; v < CLS_VARIANTS; v++) {
        const uint32_t group = cls_kernel_part(cls_variants[v].kernel) == CLS_OVER_TILES
                                   ? shape->work_group
                                   : shape->row_group;
        const cls_grouping as = {group, shape->tier, shape->subgroups, shape->standard,
                                 shape->shortlist};
        cls_program_options(shape, &as, 0, &cls_variants[v], text);
        add_text(hash, cls_variants[v].name);
        add_text(hash, text);
        for (unsigned i = 0; i < *cls_variants[v].count &&
                             (v == 0 || cls_variants[v].source != cls_variants[v - 1].source);
             i++)
            add_text(hash, cls_variants[v].source[i]);
    }
    snprintf(text, sizeof text, "%llu %llu", (unsigned long long)shape->local_mem_size,
             (unsigned long long)shape->max_work_group);
    add_text(hash, text);
}

cls_status cls_binaries_key(cl_device_id device, const cls_shape *asked, uint8_t key[CLS_DIGEST])
{
    static const cl_uint of_platform[] = {CL_PLATFORM_NAME, CL_PLATFORM_VERSION};
    static const cl_uint of_device[] = {
        CL_DEVICE_NAME,    CL_DEVICE_VENDOR_ID,    CL_DEVICE_VERSION, CL_DRIVER_VERSION,
        CL_DEVICE_PROFILE, CL_DEVICE_ADDRESS_BITS, DRIVER_UUID};
    cl_platform_id platform = NULL;
    cls_sha256 hash;
    cls_sha256_begin(&hash);
    add_text(&hash, CLS_VERSION_STRING);
    add_programs(&hash, asked);
    const cl_int code =
        clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
    cls_status status = CLS_OK;
    if (code != CL_SUCCESS || platform == NULL)
        status =
            cls_fail(CLS_OPENCL_ERROR, code,
                     "cannot ask the device for its platform, which compiled programs must fit");
    for (size_t i = 0; i < sizeof of_platform / sizeof of_platform[0] && status == CLS_OK; i++)
        status = add_info(&hash, platform, NULL, of_platform[i]);
    for (size_t i = 0; i < sizeof of_device / sizeof of_device[0] && status == CLS_OK; i++)
        status = add_info(&hash, NULL, device, of_device[i]);
    cls_sha256_end(&hash, key);
    return status;
}

/* --------------------------------------------------------------------- export */

static cls_status get(cl_program program, cl_program_info what, size_t size, void *value)
{
    const cl_int code = clGetProgramInfo(program, what, size, value, NULL);
    return code == CL_SUCCESS ? CLS_OK
                              : cls_fail(CLS_OPENCL_ERROR, code,
                                         "cannot get the compiled programs from the driver");
}

/* One program's bytes for the `which`-th of its devices, the caller's to free. */
static cls_status get_binary(cl_program program, cl_uint n, cl_uint which, cls_bytes *out)
{
    size_t *const sizes = calloc(n, sizeof *sizes);
    unsigned char **const places = calloc(n, sizeof *places); /* NULL: not wanted */
    cls_status status = sizes != NULL && places != NULL ? CLS_OK : no_memory();
    if (status == CLS_OK)
        status = get(program, CL_PROGRAM_BINARY_SIZES, n * sizeof *sizes, sizes);
    if (status == CLS_OK && sizes[which] == 0)
        status = cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                          "the driver hands out no compiled programs");
    if (status == CLS_OK && (places[which] = calloc(sizes[which], 1)) == NULL)
        status = no_memory();
    if (status == CLS_OK)
        status = get(program, CL_PROGRAM_BINARIES, n * sizeof *places, places);
    if (status == CLS_OK) {
        out->bytes = places[which];
        out->size = sizes[which];
    } else if (places != NULL) {
        free(places[which]);
    }
    free(sizes);
    free(places);
    return status;
}

/* The same for the context's device: programs from source are for all devices of
 * the OpenCL context. */
static cls_status get_program(const cls_context *context, cl_program program, cls_bytes *out)
{
    cl_uint n = 0, which = 0;
    cls_status status = get(program, CL_PROGRAM_NUM_DEVICES, sizeof n, &n);
    if (status != CLS_OK)
        return status;
    cl_device_id *const devices = calloc(n != 0 ? n : 1, sizeof *devices);
    if (devices == NULL)
        return no_memory();
    status = get(program, CL_PROGRAM_DEVICES, n * sizeof *devices, devices);
    while (which < n && devices[which] != context->device)
        which++;
    free(devices);
    if (status == CLS_OK && which == n)
        status = cls_fail(CLS_OPENCL_ERROR, CL_INVALID_DEVICE,
                          "the compiled programs are not the device's");
    return status == CLS_OK ? get_binary(program, n, which, out) : status;
}

cls_status cls_binaries_get(const cls_context *context, const cls_program *program, cls_bytes *out)
{
    return get_program(context, program->program, out);
}

int cls_binaries_are_slow(cl_device_id device)
{
    cl_platform_id platform = NULL;
    char name[64] = "";
    if (clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) !=
            CL_SUCCESS ||
        platform == NULL)
        return 0;
    clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
    return strcmp(name, "Portable Computing Language") == 0;
}

/* All proved programs, the bytes the caller's to free. */
static cls_status pack(const cls_context *context, cls_container *c)
{
    cls_status status = CLS_OK;
    memset(c, 0, sizeof *c);
    for (int i = 0; i < CLS_DTYPES * CLS_VARIANTS && status == CLS_OK; i++) {
        const cls_program *const p = &context->program[i / CLS_VARIANTS][i % CLS_VARIANTS];
        if (!p->proved)
            continue;
        c->program[i / CLS_VARIANTS][i % CLS_VARIANTS].as = p->as;
        status =
            cls_binaries_get(context, p, &c->program[i / CLS_VARIANTS][i % CLS_VARIANTS].bytes);
    }
    return status;
}

static cls_status write_out(const cls_container *c, const uint8_t key[CLS_DIGEST], void *out,
                            size_t *size)
{
    const size_t room = *size;
    *size = cls_container_size(c);
    if (out == NULL)
        return CLS_OK;
    if (room < *size)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "*size is %zu; the compiled programs take %zu", room, *size);
    cls_container_write(c, key, out);
    return CLS_OK;
}

cls_status cls_context_export(const cls_context *context, void *out, size_t *size)
{
    uint8_t key[CLS_DIGEST];
    cls_container *c;
    if (context == NULL || size == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "%s is NULL",
                        context == NULL ? "context" : "size");
    cls_status status = cls_binaries_key(context->device, &context->asked, key);
    if (status != CLS_OK)
        return status;
    if ((c = malloc(sizeof *c)) == NULL)
        return no_memory();
    cls_lock_take(context->lock);
    status = pack(context, c);
    cls_lock_give(context->lock);
    if (status == CLS_OK)
        status = write_out(c, key, out, size);
    for (int i = 0; i < CLS_DTYPES * CLS_VARIANTS; i++)
        free((void *)(uintptr_t)c->program[i / CLS_VARIANTS][i % CLS_VARIANTS].bytes.bytes);
    free(c);
    return status;
}
