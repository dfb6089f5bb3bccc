/* SPDX-License-Identifier: MIT */
/* Lists the OpenCL devices and describes them, and the shape of a context, as JSON. */
#include <stdio.h>
#include <string.h>

#include "common/cli.h"

#ifndef CL_PLATFORM_NOT_FOUND_KHR
#define CL_PLATFORM_NOT_FOUND_KHR -1001 /* the loader's error if no platform is installed */
#endif

/* ------------------------------------------------------------------------ names */

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

#define WORD(i, ...) word_of((const char *const[]){__VA_ARGS__, NULL}, (uint32_t)(i))
static const char *word_of(const char *const *words, uint32_t i)
{
    for (; i > 0 && *words != NULL; i--)
        words++;
    return *words != NULL ? *words : "?";
}

const char *cli_tier_name(uint32_t tier) { return WORD(tier, "auto", "int64", "subgroups"); }

const char *cli_subgroups_name(uint32_t subgroups)
{
    return WORD(subgroups, "none", "Khronos", "Intel", "Qualcomm", "AMD", "NVIDIA");
}

const char *cli_dtype_name(int32_t dtype)
{
    return dtype < 0 ? "-" : WORD(dtype, "float32", "float16", "bfloat16", "-");
}

const char *cli_origin_name(uint32_t origin) { return WORD(origin, "source", "binary", "cache"); }

/* ------------------------------------------------------------------- the devices */

static json_t *text_of(cl_device_id device, cl_device_info what)
{
    size_t size;
    if (clGetDeviceInfo(device, what, 0, NULL, &size) != CL_SUCCESS)
        return json_string("?");
    char *const text = cli_alloc(size + 1, 1);
    return cli_text(clGetDeviceInfo(device, what, size, text, NULL) == CL_SUCCESS ? text : "?");
}

static json_t *name_of(cl_platform_id platform)
{
    size_t size = 0;
    if (clGetPlatformInfo(platform, CL_PLATFORM_NAME, 0, NULL, &size) != CL_SUCCESS)
        return json_string("?");
    char *const name = cli_alloc(size + 1, 1);
    return cli_text(
        clGetPlatformInfo(platform, CL_PLATFORM_NAME, size, name, NULL) == CL_SUCCESS ? name : "?");
}

static void describe(cl_device_id id, json_t *platform, const cls_context_options *options,
                     uint32_t index, cli_device *device)
{
    cls_device_info info = {.struct_size = sizeof info};
    device->id = id;
    clGetDeviceInfo(id, CL_DEVICE_TYPE, sizeof device->type, &device->type, NULL);
    device->usable = cls_device_query(id, options, &info) == CLS_OK;
    device->json = json_pack(
        "{s:i, s:O, s:o, s:s, s:o, s:o, s:b, s:b}", "device", (int)index, "platform", platform,
        "name", text_of(id, CL_DEVICE_NAME), "type", types[preference(device->type)].name,
        "opencl_c", text_of(id, CL_DEVICE_OPENCL_C_VERSION), "driver",
        text_of(id, CL_DRIVER_VERSION), "usable", device->usable, "default", 0);
    device->name = cli_string(device->json, "name");
    json_object_update(
        device->json,
        device->usable
            ? json_pack(
                  "{s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:I}", "compute_units",
                  (json_int_t)info.compute_units, "max_work_group", (json_int_t)info.max_work_group,
                  "local_mem_size", (json_int_t)info.local_mem_size, "work_group",
                  (json_int_t)info.work_group, "vector", (json_int_t)info.vector, "shortlist",
                  (json_int_t)info.shortlist, "tier", cli_tier_name(info.tier), "subgroups",
                  cli_subgroups_name(info.subgroups), "arithmetic", (json_int_t)info.arithmetic)
            : json_pack("{s:o}", "reason", cli_text(cli_reason())));
}

static void add_platform(cl_platform_id platform, const cls_context_options *options,
                         cli_devices *list)
{
    /* CL_DEVICE_TYPE_ALL does not include custom devices. */
    const cl_device_type any = CL_DEVICE_TYPE_ALL | CL_DEVICE_TYPE_CUSTOM;
    json_t *const name = name_of(platform);
    cl_uint n = 0;
    if (clGetDeviceIDs(platform, any, 0, NULL, &n) != CL_SUCCESS || n == 0) {
        json_array_append(list->empty_platforms, name);
        return;
    }
    cl_device_id *const ids = cli_alloc(n, sizeof *ids);
    if (clGetDeviceIDs(platform, any, n, ids, NULL) != CL_SUCCESS)
        return;
    list->device = cli_grow(list->device, list->count + (size_t)n, sizeof *list->device);
    for (cl_uint i = 0; i < n; i++) {
        describe(ids[i], name, options, list->count, &list->device[list->count]);
        list->count++;
    }
}

void cli_devices_find(const cls_context_options *options, cli_devices *list)
{
    cl_uint n = 0;
    if (strcmp(cls_version(), CLS_VERSION_STRING) != 0) /* its table is private */
        cli_die("libclsample is version %s, and the command is version %s: install both from one "
                "release",
                cls_version(), CLS_VERSION_STRING);
    *list = (cli_devices){.chosen = UINT32_MAX, .empty_platforms = json_array()};
    if (cls_opencl_find(NULL) != CLS_OK)
        return;
    cl_int error = clGetPlatformIDs(0, NULL, &n);
    if (error == CL_PLATFORM_NOT_FOUND_KHR || (error == CL_SUCCESS && n == 0))
        return;
    cl_platform_id *const platforms = cli_alloc(n, sizeof *platforms);
    if (error == CL_SUCCESS)
        error = clGetPlatformIDs(n, platforms, NULL);
    if (error != CL_SUCCESS)
        cli_die("listing the platforms: OpenCL error %d", (int)error);
    for (cl_uint i = 0; i < n; i++)
        add_platform(platforms[i], options, list);
    for (uint32_t i = 0; i < list->count; i++)
        if (list->device[i].usable &&
            (list->chosen == UINT32_MAX ||
             preference(list->device[i].type) < preference(list->device[list->chosen].type)))
            list->chosen = i;
    if (list->chosen != UINT32_MAX)
        json_object_set(list->device[list->chosen].json, "default", json_true());
}

void cli_no_device(void)
{
    if (cls_opencl_find(NULL) != CLS_OK)
        cli_die("%s", cls_error_message());
    cli_die("no OpenCL device found; install a device's driver, or PoCL (pocl-opencl-icd) "
            "to use the CPU");
}

json_t *cli_shape_json(const cls_context *context)
{
    cls_device_info info = {.struct_size = sizeof info};
    if (cls_context_info(context, &info) != CLS_OK)
        return NULL;
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:s, s:I}", "work_group", (json_int_t)info.work_group,
        "row_group", (json_int_t)info.row_group, "vector", (json_int_t)info.vector, "shortlist",
        (json_int_t)info.shortlist, "groups_per_unit", (json_int_t)info.groups_per_unit, "tier",
        cli_tier_name(info.tier), "subgroups", cli_subgroups_name(info.subgroups), "origin",
        cli_origin_name(info.origin), "arithmetic", (json_int_t)info.arithmetic);
}

json_t *cli_programs_json(const cls_context *context)
{
    json_t *const array = json_array();
    cls_program_info p = {.struct_size = sizeof p};
    for (uint32_t i = 0; cls_context_program(context, i, &p) == CLS_OK; i++)
        json_array_append_new(
            array,
            json_pack("{s:s, s:s, s:s, s:I, s:s, s:f, s:I, s:I, s:I, s:I}", "name", p.name, "dtype",
                      cli_dtype_name(p.dtype), "origin", cli_origin_name(p.origin), "work_group",
                      (json_int_t)p.work_group, "subgroups", cli_subgroups_name(p.subgroups),
                      "seconds", p.seconds, "local_mem_bytes", (json_int_t)p.local_mem_size,
                      "private_mem_bytes", (json_int_t)p.private_mem_size, "max_work_group",
                      (json_int_t)p.max_work_group, "preferred_multiple",
                      (json_int_t)p.preferred_multiple));
    return array;
}
