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

/* Numbers have 4 or 8 bytes. BIT is a bit of a number, false if the device does not report that;
 * SIZES are several numbers, and WORDS a text that blanks separate. */
typedef enum kind { NUMBER, YES_NO, BIT, TEXT, SIZES, WORDS } kind;

typedef struct property {
    cl_device_info what;
    const char *key;
    kind kind;
    uint64_t bit;
} property;

static const property properties[] = {
    {CL_DEVICE_VENDOR, "vendor", TEXT, 0},
    {CL_DEVICE_VENDOR_ID, "vendor_id", NUMBER, 0},
    {CL_DEVICE_VERSION, "version", TEXT, 0},
    {CL_DEVICE_PROFILE, "profile", TEXT, 0},
    {CL_DEVICE_AVAILABLE, "available", YES_NO, 0},
    {CL_DEVICE_COMPILER_AVAILABLE, "compiler", YES_NO, 0},
    {CL_DEVICE_ENDIAN_LITTLE, "little_endian", YES_NO, 0},
    {CL_DEVICE_ADDRESS_BITS, "address_bits", NUMBER, 0},
    {CL_DEVICE_MAX_COMPUTE_UNITS, "compute_units", NUMBER, 0},
    {CL_DEVICE_MAX_CLOCK_FREQUENCY, "clock_mhz", NUMBER, 0},
    {CL_DEVICE_MAX_WORK_GROUP_SIZE, "max_work_group", NUMBER, 0},
    {CL_DEVICE_LOCAL_MEM_SIZE, "local_mem_bytes", NUMBER, 0},
    {CL_DEVICE_GLOBAL_MEM_SIZE, "global_mem_bytes", NUMBER, 0},
    {CL_DEVICE_MAX_MEM_ALLOC_SIZE, "max_alloc_bytes", NUMBER, 0},
    {CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, "cache_bytes", NUMBER, 0},
    {CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE, "cache_line_bytes", NUMBER, 0},
    {CL_DEVICE_MAX_PARAMETER_SIZE, "max_parameter_bytes", NUMBER, 0},
    {CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE, "max_constant_bytes", NUMBER, 0},
    {CL_DEVICE_MEM_BASE_ADDR_ALIGN, "align_bits", NUMBER, 0},
    {CL_DEVICE_HOST_UNIFIED_MEMORY, "unified_memory", YES_NO, 0},
    {CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT, "preferred_vector_float", NUMBER, 0},
    {CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, "native_vector_float", NUMBER, 0},
    {CL_DEVICE_PROFILING_TIMER_RESOLUTION, "timer_nanoseconds", NUMBER, 0},
    {MAX_SUB_GROUPS, "max_sub_groups", NUMBER, 0},
    {WARP_SIZE_NV, "warp_size", NUMBER, 0},
    {COMPUTE_MAJOR_NV, "compute_capability_major", NUMBER, 0},
    {COMPUTE_MINOR_NV, "compute_capability_minor", NUMBER, 0},
    {WAVEFRONT_WIDTH_AMD, "wavefront_width", NUMBER, 0},
    {CL_DEVICE_MAX_WORK_ITEM_SIZES, "max_work_item_sizes", SIZES, 0},
    {SUB_GROUP_SIZES_INTEL, "sub_group_sizes", SIZES, 0},
    {CL_DEVICE_SINGLE_FP_CONFIG, "infinities", BIT, CL_FP_INF_NAN},
    {CL_DEVICE_SINGLE_FP_CONFIG, "subnormals", BIT, CL_FP_DENORM},
    {CL_DEVICE_SINGLE_FP_CONFIG, "round_to_nearest", BIT, CL_FP_ROUND_TO_NEAREST},
    {CL_DEVICE_SINGLE_FP_CONFIG, "fma", BIT, CL_FP_FMA},
    {CL_DEVICE_SINGLE_FP_CONFIG, "exact_division", BIT, CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT},
    {CL_DEVICE_QUEUE_PROPERTIES, "out_of_order_queue", BIT, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE},
    {CL_DEVICE_QUEUE_PROPERTIES, "profiling_queue", BIT, CL_QUEUE_PROFILING_ENABLE},
    {CL_DEVICE_LOCAL_MEM_TYPE, "local_mem_is_local", BIT, CL_LOCAL},
    {CL_DEVICE_EXTENSIONS, "extensions", WORDS, 0}, /* all; the page lists the relevant ones */
};

/* The number at `bytes`. */
static uint64_t number_at(const char *bytes, size_t size)
{
    uint32_t narrow;
    uint64_t wide;
    memcpy(&narrow, bytes, sizeof narrow);
    if (size == 4)
        return narrow;
    memcpy(&wide, bytes, sizeof wide);
    return wide;
}

/* The value of a property. NULL: the device does not report it. */
static json_t *value_of(cl_device_id device, const property *p)
{
    size_t size;
    char *const bytes = cli_device_bytes(device, p->what, &size);
    const bool is_number = bytes != NULL && (size == 4 || size == 8);
    json_t *array;
    if (p->kind == BIT)
        return json_boolean(is_number && (number_at(bytes, size) & p->bit) != 0);
    if (p->kind <= YES_NO && is_number)
        return p->kind == YES_NO ? json_boolean(number_at(bytes, size) != 0)
                                 : json_integer((json_int_t)number_at(bytes, size));
    if (p->kind <= YES_NO || (bytes == NULL && p->kind != WORDS))
        return NULL;
    if (p->kind == TEXT)
        return cli_text(bytes);
    array = json_array();
    for (size_t at = 0; p->kind == SIZES && at + sizeof at <= size; at += sizeof at)
        json_array_append_new(array, json_integer((json_int_t)number_at(bytes + at, sizeof at)));
    for (char *word = p->kind == WORDS && bytes != NULL ? strtok(bytes, " ") : NULL; word != NULL;
         word = strtok(NULL, " "))
        json_array_append_new(array, cli_text(word));
    return array;
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
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++) {
        json_t *const value = value_of(device, &properties[i]);
        if (value != NULL)
            json_object_set_new(object, properties[i].key, value);
    }
    json_object_set_new(report->json, "device", object);
}
