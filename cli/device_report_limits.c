/* SPDX-License-Identifier: MIT */
/* The part "device" of a report: what OpenCL reports about the device. */
#include <string.h>

#include "device_report.h"

/* Properties of extensions and later versions, which OpenCL 1.2's headers lack. */
enum {
    MAX_SUB_GROUPS = 0x105C,
    SUB_GROUP_SIZES_INTEL = 0x4108,
    WARP_SIZE_NV = 0x4003,
    COMPUTE_MAJOR_NV = 0x4000,
    COMPUTE_MINOR_NV = 0x4001,
    WAVEFRONT_WIDTH_AMD = 0x4043
};

typedef enum kind { NUMBER, YES_NO, TEXT } kind;

typedef struct property {
    cl_device_info what;
    const char *key;
    kind kind;
} property;

static const property properties[] = {
    {CL_DEVICE_VENDOR, "vendor", TEXT},
    {CL_DEVICE_VENDOR_ID, "vendor_id", NUMBER},
    {CL_DEVICE_VERSION, "version", TEXT},
    {CL_DEVICE_PROFILE, "profile", TEXT},
    {CL_DEVICE_AVAILABLE, "available", YES_NO},
    {CL_DEVICE_COMPILER_AVAILABLE, "compiler", YES_NO},
    {CL_DEVICE_ENDIAN_LITTLE, "little_endian", YES_NO},
    {CL_DEVICE_ADDRESS_BITS, "address_bits", NUMBER},
    {CL_DEVICE_MAX_COMPUTE_UNITS, "compute_units", NUMBER},
    {CL_DEVICE_MAX_CLOCK_FREQUENCY, "clock_mhz", NUMBER},
    {CL_DEVICE_MAX_WORK_GROUP_SIZE, "max_work_group", NUMBER},
    {CL_DEVICE_LOCAL_MEM_SIZE, "local_mem_bytes", NUMBER},
    {CL_DEVICE_GLOBAL_MEM_SIZE, "global_mem_bytes", NUMBER},
    {CL_DEVICE_MAX_MEM_ALLOC_SIZE, "max_alloc_bytes", NUMBER},
    {CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, "cache_bytes", NUMBER},
    {CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE, "cache_line_bytes", NUMBER},
    {CL_DEVICE_MAX_PARAMETER_SIZE, "max_parameter_bytes", NUMBER},
    {CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE, "max_constant_bytes", NUMBER},
    {CL_DEVICE_MEM_BASE_ADDR_ALIGN, "align_bits", NUMBER},
    {CL_DEVICE_HOST_UNIFIED_MEMORY, "unified_memory", YES_NO},
    {CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT, "preferred_vector_float", NUMBER},
    {CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, "native_vector_float", NUMBER},
    {CL_DEVICE_PROFILING_TIMER_RESOLUTION, "timer_nanoseconds", NUMBER},
    {MAX_SUB_GROUPS, "max_sub_groups", NUMBER},
    {WARP_SIZE_NV, "warp_size", NUMBER},
    {COMPUTE_MAJOR_NV, "compute_capability_major", NUMBER},
    {COMPUTE_MINOR_NV, "compute_capability_minor", NUMBER},
    {WAVEFRONT_WIDTH_AMD, "wavefront_width", NUMBER},
};

/* Reads a property of 4 or 8 bytes. */
static int number_of(cl_device_id device, cl_device_info what, uint64_t *number)
{
    unsigned char bytes[8];
    uint32_t narrow;
    size_t size = 0;
    if (clGetDeviceInfo(device, what, sizeof bytes, bytes, &size) != CL_SUCCESS ||
        (size != 4 && size != 8))
        return 1;
    memcpy(&narrow, bytes, sizeof narrow);
    *number = narrow;
    if (size == 8)
        memcpy(number, bytes, sizeof *number);
    return 0;
}

/* Adds a property, unless the device does not report it. */
static void add(json_t *object, cl_device_id device, const property *p)
{
    uint64_t number;
    size_t size;
    if (p->kind == TEXT) {
        char *const text = cli_device_bytes(device, p->what, &size);
        if (text != NULL)
            json_object_set_new(object, p->key, cli_text(text));
    } else if (number_of(device, p->what, &number) == 0) {
        json_object_set_new(object, p->key,
                            p->kind == YES_NO ? json_boolean(number != 0)
                                              : json_integer((json_int_t)number));
    }
}

static void add_sizes(json_t *object, const char *key, cl_device_id device, cl_device_info what)
{
    size_t size;
    char *const bytes = cli_device_bytes(device, what, &size);
    json_t *const array = json_array();
    if (bytes == NULL)
        return;
    for (size_t at = 0; at + sizeof(size_t) <= size; at += sizeof(size_t)) {
        size_t n;
        memcpy(&n, bytes + at, sizeof n);
        json_array_append_new(array, json_integer((json_int_t)n));
    }
    json_object_set_new(object, key, array);
}

/* Adds bits of properties; those that the device does not report are false. */
static void add_flags(json_t *object, cl_device_id device)
{
    static const struct {
        const char *key;
        cl_device_info what;
        uint64_t bit;
    } flags[] = {
        {"infinities", CL_DEVICE_SINGLE_FP_CONFIG, CL_FP_INF_NAN},
        {"subnormals", CL_DEVICE_SINGLE_FP_CONFIG, CL_FP_DENORM},
        {"round_to_nearest", CL_DEVICE_SINGLE_FP_CONFIG, CL_FP_ROUND_TO_NEAREST},
        {"fma", CL_DEVICE_SINGLE_FP_CONFIG, CL_FP_FMA},
        {"exact_division", CL_DEVICE_SINGLE_FP_CONFIG, CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT},
        {"out_of_order_queue", CL_DEVICE_QUEUE_PROPERTIES, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE},
        {"profiling_queue", CL_DEVICE_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE},
        {"local_mem_is_local", CL_DEVICE_LOCAL_MEM_TYPE, CL_LOCAL}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        uint64_t bits = 0;
        number_of(device, flags[i].what, &bits);
        json_object_set_new(object, flags[i].key, json_boolean(bits & flags[i].bit));
    }
}

/* Adds all extensions; the page lists the relevant ones. */
static void add_extensions(json_t *object, cl_device_id device)
{
    size_t size;
    char *const text = cli_device_bytes(device, CL_DEVICE_EXTENSIONS, &size);
    json_t *const array = json_array();
    for (char *word = text != NULL ? strtok(text, " ") : NULL; word != NULL;
         word = strtok(NULL, " "))
        json_array_append_new(array, cli_text(word));
    json_object_set_new(object, "extensions", array);
}

static void add_platform(json_t *object, cl_device_id device)
{
    cl_platform_id platform;
    char version[256] = "";
    if (clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) ==
            CL_SUCCESS &&
        clGetPlatformInfo(platform, CL_PLATFORM_VERSION, sizeof version - 1, version, NULL) ==
            CL_SUCCESS)
        json_object_set_new(object, "platform_version", cli_text(version));
}

void cli_report_device(cli_report *report)
{
    const cl_device_id device = report->target.device.id;
    json_t *const object = json_copy(report->target.device.json);
    add_platform(object, device);
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++)
        add(object, device, &properties[i]);
    add_sizes(object, "max_work_item_sizes", device, CL_DEVICE_MAX_WORK_ITEM_SIZES);
    add_sizes(object, "sub_group_sizes", device, SUB_GROUP_SIZES_INTEL);
    add_flags(object, device);
    add_extensions(object, device);
    json_object_set_new(report->json, "device", object);
}
