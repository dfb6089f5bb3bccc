/* SPDX-License-Identifier: MIT */
/* Lists the OpenCL devices and describes them, and the shape of a context, as JSON. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

#ifndef CL_PLATFORM_NOT_FOUND_KHR
#define CL_PLATFORM_NOT_FOUND_KHR -1001 /* the loader's error if no platform is installed */
#endif

/* The types in the order in which the default device is chosen; any other device is a CPU. */
static const struct {
    cl_device_type type;
    const char *name;
} types[] = {{CL_DEVICE_TYPE_GPU, "GPU"},
             {CL_DEVICE_TYPE_ACCELERATOR, "accelerator"},
             {CL_DEVICE_TYPE_CUSTOM, "custom"},
             {0, "CPU"}};

static int preference(cl_device_type type)
{
    int i = 0;
    while (types[i].type != 0 && (type & types[i].type) == 0)
        i++;
    return i;
}

const char *cli_device_type(cl_device_type type) { return types[preference(type)].name; }

const char *cli_tier_name(uint32_t tier)
{
    static const char *const names[] = {"auto", "base", "int64", "subgroups"};
    return tier < sizeof names / sizeof names[0] ? names[tier] : "?";
}

const char *cli_subgroups_name(uint32_t subgroups)
{
    static const char *const names[] = {"none", "Khronos", "Intel", "Qualcomm", "AMD", "NVIDIA"};
    return subgroups < sizeof names / sizeof names[0] ? names[subgroups] : "?";
}

const char *cli_dtype_name(int32_t dtype)
{
    static const char *const names[] = {"float32", "float16", "bfloat16"};
    return dtype >= 0 && dtype < 3 ? names[dtype] : "-";
}

char *cli_device_bytes(cl_device_id device, cl_device_info what, size_t *size)
{
    if (clGetDeviceInfo(device, what, 0, NULL, size) != CL_SUCCESS)
        return NULL;
    char *const bytes = cli_alloc(*size + 1, 1);
    return clGetDeviceInfo(device, what, *size, bytes, NULL) == CL_SUCCESS ? bytes : NULL;
}

static void text_of(cl_device_id device, cl_device_info what, char *text, size_t size)
{
    size_t length;
    char *const all = cli_device_bytes(device, what, &length);
    snprintf(text, size, "%.*s", (int)size - 1, all != NULL ? all : "?");
}

static void describe(cl_device_id id, const char *platform_name, const cls_context_options *options,
                     cli_device *device)
{
    device->id = id;
    snprintf(device->platform_name, sizeof device->platform_name, "%s", platform_name);
    clGetDeviceInfo(id, CL_DEVICE_PLATFORM, sizeof device->platform, &device->platform, NULL);
    clGetDeviceInfo(id, CL_DEVICE_TYPE, sizeof device->type, &device->type, NULL);
    text_of(id, CL_DEVICE_NAME, device->name, sizeof device->name);
    text_of(id, CL_DEVICE_OPENCL_C_VERSION, device->c_version, sizeof device->c_version);
    text_of(id, CL_DRIVER_VERSION, device->driver, sizeof device->driver);
    device->info.struct_size = sizeof device->info;
    device->usable = cls_device_query(id, options, &device->info) == CLS_OK;
    if (!device->usable)
        snprintf(device->reason, sizeof device->reason, "%s", cls_error_message());
}

static void add_platform(cl_platform_id platform, const cls_context_options *options,
                         cli_devices *list)
{
    /* CL_DEVICE_TYPE_ALL does not include custom devices. */
    const cl_device_type any = CL_DEVICE_TYPE_ALL | CL_DEVICE_TYPE_CUSTOM;
    char name[sizeof list->device->platform_name] = "?";
    size_t length = 0;
    cl_uint n = 0;
    if (clGetPlatformInfo(platform, CL_PLATFORM_NAME, 0, NULL, &length) == CL_SUCCESS) {
        char *const full = cli_alloc(length + 1, 1);
        if (clGetPlatformInfo(platform, CL_PLATFORM_NAME, length, full, NULL) == CL_SUCCESS)
            snprintf(name, sizeof name, "%.*s", (int)sizeof name - 1, full);
    }
    if (clGetDeviceIDs(platform, any, 0, NULL, &n) != CL_SUCCESS || n == 0) {
        list->empty_platforms = cli_grow(list->empty_platforms, list->empty_count + (size_t)1,
                                         sizeof *list->empty_platforms);
        memcpy(list->empty_platforms[list->empty_count++], name, sizeof name);
        return;
    }
    cl_device_id *const ids = cli_alloc(n, sizeof *ids);
    if (clGetDeviceIDs(platform, any, n, ids, NULL) != CL_SUCCESS)
        return;
    list->device = cli_grow(list->device, list->count + (size_t)n, sizeof *list->device);
    for (cl_uint i = 0; i < n; i++) {
        cli_device *const device = &list->device[list->count++];
        memset(device, 0, sizeof *device);
        describe(ids[i], name, options, device);
    }
}

int cli_devices_find(const cls_context_options *options, cli_devices *list)
{
    cli_device *chosen = NULL;
    cl_uint n = 0;
    cl_int error = clGetPlatformIDs(0, NULL, &n);
    memset(list, 0, sizeof *list);
    if (error == CL_PLATFORM_NOT_FOUND_KHR || (error == CL_SUCCESS && n == 0))
        return 0;
    cl_platform_id *const platforms = cli_alloc(n, sizeof *platforms);
    if (error == CL_SUCCESS)
        error = clGetPlatformIDs(n, platforms, NULL);
    if (error != CL_SUCCESS)
        return cli_fail_opencl("listing the platforms", error);
    for (cl_uint i = 0; i < n; i++)
        add_platform(platforms[i], options, list);
    for (uint32_t i = 0; i < list->count; i++) {
        cli_device *const device = &list->device[i];
        if (device->usable &&
            (chosen == NULL || preference(device->type) < preference(chosen->type)))
            chosen = device;
    }
    if (chosen != NULL)
        chosen->is_default = true;
    return 0;
}

int cli_no_device(void)
{
    return cli_fail("no OpenCL device found; install a device's driver, or PoCL (pocl-opencl-icd) "
                    "to use the CPU");
}

json_t *cli_device_json(const cli_device *device, uint32_t index)
{
    json_t *object = json_pack(
        "{s:i, s:o, s:o, s:s, s:o, s:o, s:b, s:b}", "device", (int)index, "platform",
        cli_text(device->platform_name), "name", cli_text(device->name), "type",
        cli_device_type(device->type), "opencl_c", cli_text(device->c_version), "driver",
        cli_text(device->driver), "usable", device->usable, "default", device->is_default);
    const cls_device_info *const info = &device->info;
    json_t *const more =
        device->usable
            ? json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s}", "compute_units",
                        (json_int_t)info->compute_units, "max_work_group",
                        (json_int_t)info->max_work_group, "local_mem_size",
                        (json_int_t)info->local_mem_size, "work_group",
                        (json_int_t)info->work_group, "vector", (json_int_t)info->vector,
                        "shortlist", (json_int_t)info->shortlist, "tier", cli_tier_name(info->tier),
                        "subgroups", cli_subgroups_name(info->subgroups))
            : json_pack("{s:o}", "reason", cli_text(device->reason));
    json_object_update(object, more);
    return object;
}

const char *cli_origin_name(uint32_t origin)
{
    static const char *const origins[] = {"source", "binary", "cache"};
    return origin < 3 ? origins[origin] : "?";
}

json_t *cli_shape_json(const cls_context *context)
{
    cls_device_info info = {.struct_size = sizeof info};
    if (cls_context_info(context, &info) != CLS_OK)
        return NULL;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:s}", "work_group",
                     (json_int_t)info.work_group, "row_group", (json_int_t)info.row_group, "vector",
                     (json_int_t)info.vector, "shortlist", (json_int_t)info.shortlist,
                     "groups_per_unit", (json_int_t)info.groups_per_unit, "tier",
                     cli_tier_name(info.tier), "subgroups", cli_subgroups_name(info.subgroups),
                     "origin", cli_origin_name(info.origin));
}
