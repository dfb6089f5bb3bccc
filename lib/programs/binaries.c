/* SPDX-License-Identifier: MIT */
/* Exports compiled programs, and computes the cache key, which identifies what they fit. */
#include "programs/programs.h"

#include <stdio.h>
#include <stdlib.h>

/* CL_DRIVER_UUID_KHR of cl_khr_device_uuid, which the headers of OpenCL 1.2 lack. The device's UUID
 * is not part of the key, since programs of one card fit another of the same model. */
#define DRIVER_UUID 0x106B

static cls_status no_memory(void)
{
    return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for compiled programs");
}

/* ------------------------------------------------------------------ cache key */

/* Adds a part of the key after its length, so that parts cannot run into each other. */
static void hash_part(cls_sha256 *hash, const void *bytes, size_t size)
{
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)((uint64_t)size >> (8 * i));
    cls_sha256_update(hash, length, sizeof length);
    cls_sha256_update(hash, bytes, size);
}

static void hash_text(cls_sha256 *hash, const char *text) { hash_part(hash, text, strlen(text)); }

static cl_int query_info(cl_platform_id platform, cl_device_id device, cl_uint info, size_t size,
                         void *to, size_t *needed)
{
    return platform != NULL ? clGetPlatformInfo(platform, info, size, to, needed)
                            : clGetDeviceInfo(device, info, size, to, needed);
}

/* Adds a property of a platform or, if that is NULL, of a device. */
static cls_status hash_info(cls_sha256 *hash, cl_platform_id platform, cl_device_id device,
                            cl_uint info)
{
    size_t size = 0;
    void *value = NULL;
    cl_int code = query_info(platform, device, info, 0, NULL, &size);
    if (code == CL_INVALID_VALUE && info == DRIVER_UUID) { /* most drivers have none */
        code = CL_SUCCESS;
        size = 0;
    }
    if (code == CL_SUCCESS && size > 0) {
        if ((value = malloc(size)) == NULL)
            return no_memory();
        code = query_info(platform, device, info, size, value, NULL);
    }
    if (code == CL_SUCCESS)
        hash_part(hash, value, size);
    free(value);
    return code == CL_SUCCESS
               ? CLS_OK
               : cls_fail(CLS_OPENCL_ERROR, code,
                          "cannot query the device for the key of compiled programs");
}

/* Adds a program's source by the fast hash: SHA-256 of all sources took a tenth of a start from a
 * filled cache_dir. */
static void hash_source(cls_sha256 *hash, const cls_variant *variant)
{
    uint64_t words[2] = {1, 0}; /* the hash, and the number of bytes */
    for (unsigned i = 0; i < *variant->count; i++) {
        const size_t size = strlen(variant->source[i]);
        words[0] = cls_hash_bytes(words[0], variant->source[i], size);
        words[1] += size;
    }
    hash_part(hash, words, sizeof words);
}

/* Adds every program's name, options and source, and the device's limits. The source is needed
 * since a name does not show which files a program includes. The limits are needed since they
 * decide which shape programs get if the device refuses the requested one. */
static void hash_programs(cls_sha256 *hash, const cls_shape *shape,
                          const cls_variant variants[CLS_VARIANTS])
{
    char text[CLS_BUILD_OPTIONS];
    for (int v = 0; v < CLS_VARIANTS; v++) {
        const uint32_t group =
            cls_kernel_covers_tiles(variants[v].kernel) ? shape->work_group : shape->row_group;
        const cls_build_config config = {group, shape->tier, shape->subgroups, shape->standard,
                                         shape->shortlist};
        cls_program_options(shape, &config, 0, &variants[v], text);
        hash_text(hash, variants[v].name);
        hash_text(hash, text);
        if (v == 0 || variants[v].source != variants[v - 1].source)
            hash_source(hash, &variants[v]);
    }
    snprintf(text, sizeof text, "%llu %llu", (unsigned long long)shape->local_mem_size,
             (unsigned long long)shape->max_work_group);
    hash_text(hash, text);
}

cls_status cls_cache_key(cl_device_id device, const cls_shape *requested_shape,
                         const cls_variant variants[CLS_VARIANTS], uint8_t key[CLS_DIGEST_SIZE])
{
    static const cl_uint platform_info[] = {CL_PLATFORM_NAME, CL_PLATFORM_VERSION};
    static const cl_uint device_info[] = {
        CL_DEVICE_NAME,    CL_DEVICE_VENDOR_ID,    CL_DEVICE_VERSION, CL_DRIVER_VERSION,
        CL_DEVICE_PROFILE, CL_DEVICE_ADDRESS_BITS, DRIVER_UUID};
    cl_platform_id platform = NULL;
    cls_sha256 hash;
    cls_sha256_init(&hash);
    hash_text(&hash, CLS_VERSION_STRING);
    hash_programs(&hash, requested_shape, variants);
    const cl_int code =
        clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
    cls_status status = CLS_OK;
    if (code != CL_SUCCESS || platform == NULL)
        status = cls_fail(CLS_OPENCL_ERROR, code,
                          "cannot query the device's platform for the key of compiled programs");
    for (size_t i = 0; i < sizeof platform_info / sizeof platform_info[0] && status == CLS_OK; i++)
        status = hash_info(&hash, platform, NULL, platform_info[i]);
    for (size_t i = 0; i < sizeof device_info / sizeof device_info[0] && status == CLS_OK; i++)
        status = hash_info(&hash, NULL, device, device_info[i]);
    cls_sha256_final(&hash, key);
    return status;
}

/* --------------------------------------------------------------------- export */

static cls_status query_program(cl_program program, cl_program_info info, size_t size, void *value)
{
    const cl_int code = clGetProgramInfo(program, info, size, value, NULL);
    return code == CL_SUCCESS ? CLS_OK
                              : cls_fail(CLS_OPENCL_ERROR, code,
                                         "cannot get the compiled programs from the driver");
}

/* Gets a program's bytes for one of its devices. */
static cls_status get_device_binary(cl_program program, cl_uint n_devices, cl_uint index,
                                    cls_bytes *out)
{
    /* OpenCL returns nothing for a device whose pointer is NULL. */
    size_t *const sizes = calloc(n_devices, sizeof *sizes);
    unsigned char **const binaries = calloc(n_devices, sizeof *binaries);
    cls_status status = sizes != NULL && binaries != NULL ? CLS_OK : no_memory();
    if (status == CLS_OK)
        status = query_program(program, CL_PROGRAM_BINARY_SIZES, n_devices * sizeof *sizes, sizes);
    if (status == CLS_OK && sizes[index] == 0)
        status = cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                          "the driver does not provide compiled programs");
    if (status == CLS_OK && (binaries[index] = calloc(sizes[index], 1)) == NULL)
        status = no_memory();
    if (status == CLS_OK)
        status =
            query_program(program, CL_PROGRAM_BINARIES, n_devices * sizeof *binaries, binaries);
    if (status == CLS_OK) {
        out->bytes = binaries[index];
        out->size = sizes[index];
    } else if (binaries != NULL) {
        free(binaries[index]);
    }
    free(sizes);
    free(binaries);
    return status;
}

/* Returns whether a device is PoCL's, and sets the first number of PoCL's version, or 0. */
static int is_pocl(cl_device_id device, int *version)
{
    cl_platform_id platform = NULL;
    char name[64] = "", text[256] = "";
    *version = 0;
    if (clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) !=
            CL_SUCCESS ||
        platform == NULL)
        return 0;
    clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
    clGetPlatformInfo(platform, CL_PLATFORM_VERSION, sizeof text - 1, text, NULL);
    const char *const at = strstr(text, " PoCL ");
    if (at != NULL && sscanf(at, " PoCL %d", version) != 1)
        *version = 0;
    return strcmp(name, "Portable Computing Language") == 0;
}

int cls_binary_query_recompiles(cl_device_id device)
{
    int version;
    return is_pocl(device, &version);
}

/* For a program's bytes PoCL compiles the program for groups of any size. In PoCL 6.0, with LLVM
 * 18, that ends the process for some programs: LLVM checks that its pass which combines
 * instructions leaves nothing to combine, and calls abort() if it does. Which code this concerns
 * depends on the processor (doc/porting.md). So these versions are not asked at all. */
cls_status cls_binary_check(cl_device_id device)
{
    int version;
    if (!is_pocl(device, &version) || (version != 5 && version != 6))
        return CLS_OK;
    return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                    "PoCL %d is not asked for compiled programs, since it may end the process "
                    "then; its own cache (POCL_CACHE_DIR) keeps them",
                    version);
}

/* A program from source belongs to all devices of the OpenCL context; this finds the context's. */
cls_status cls_program_binary(const cls_context *context, const cls_program *p, cls_bytes *out)
{
    const cl_program program = p->program;
    cl_uint n = 0, index = 0;
    cls_status status = cls_binary_check(context->device);
    if (status == CLS_OK)
        status = query_program(program, CL_PROGRAM_NUM_DEVICES, sizeof n, &n);
    if (status != CLS_OK)
        return status;
    cl_device_id *const devices = calloc(n != 0 ? n : 1, sizeof *devices);
    if (devices == NULL)
        return no_memory();
    status = query_program(program, CL_PROGRAM_DEVICES, n * sizeof *devices, devices);
    while (index < n && devices[index] != context->device)
        index++;
    free(devices);
    if (status == CLS_OK && index == n)
        status = cls_fail(CLS_OPENCL_ERROR, CL_INVALID_DEVICE,
                          "the compiled programs do not belong to the device");
    return status == CLS_OK ? get_device_binary(program, n, index, out) : status;
}

/* Collects the bytes of all proved programs; the caller frees them. */
static cls_status collect_binaries(const cls_context *context, cls_container *c)
{
    cls_status status = CLS_OK;
    memset(c, 0, sizeof *c);
    for (int i = 0; i < CLS_DTYPES * CLS_VARIANTS && status == CLS_OK; i++) {
        const cls_program *const p = &context->program[i / CLS_VARIANTS][i % CLS_VARIANTS];
        if (!p->proved)
            continue;
        c->program[i / CLS_VARIANTS][i % CLS_VARIANTS].config = p->config;
        status =
            cls_program_binary(context, p, &c->program[i / CLS_VARIANTS][i % CLS_VARIANTS].bytes);
    }
    return status;
}

static cls_status write_out(const cls_container *c, const uint8_t key[CLS_DIGEST_SIZE], void *out,
                            size_t *size)
{
    const size_t room = *size;
    *size = cls_container_size(c);
    if (out == NULL)
        return CLS_OK;
    if (room < *size)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "*size is %zu; the compiled programs need %zu bytes", room, *size);
    cls_container_write(c, key, out);
    return CLS_OK;
}

cls_status cls_context_export(const cls_context *context, void *out, size_t *size)
{
    uint8_t key[CLS_DIGEST_SIZE];
    cls_container *c;
    if (context == NULL || size == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "%s is NULL",
                        context == NULL ? "context" : "size");
    if (context->shape.host)
        return cls_refuse_call("the context has no device, so that it has no compiled programs");
    cls_status status =
        cls_cache_key(context->device, &context->requested_shape, cls_variants, key);
    if (status != CLS_OK)
        return status;
    if ((c = malloc(sizeof *c)) == NULL)
        return no_memory();
    cls_lock_acquire(context->lock);
    status = collect_binaries(context, c);
    cls_lock_release(context->lock);
    if (status == CLS_OK)
        status = write_out(c, key, out, size);
    for (int i = 0; i < CLS_DTYPES * CLS_VARIANTS; i++)
        free((void *)(uintptr_t)c->program[i / CLS_VARIANTS][i % CLS_VARIANTS].bytes.bytes);
    free(c);
    return status;
}
