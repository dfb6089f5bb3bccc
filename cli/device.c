/* SPDX-License-Identifier: MIT */
/* Finding OpenCL devices, choosing one and opening it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(_WIN32)
#include <io.h>
#define isatty _isatty
#define fileno _fileno
#else
#include <unistd.h>
#endif

#include "cli.h"

#ifndef CL_PLATFORM_NOT_FOUND_KHR
#define CL_PLATFORM_NOT_FOUND_KHR -1001 /* what a loader says that has no platform to load */
#endif

int cli_fail_library(const char *what) { return cli_fail("%s: %s", what, cls_error_message()); }

int cli_fail_opencl(const char *what, cl_int error) { return cli_fail("%s: OpenCL error %d", what, (int)error); }

const char *cli_device_type(cl_device_type type)
{
    if (type & CL_DEVICE_TYPE_GPU)
        return "GPU";
    if (type & CL_DEVICE_TYPE_ACCELERATOR)
        return "accelerator";
    if (type & CL_DEVICE_TYPE_CUSTOM)
        return "custom";
    return "CPU";
}

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

/* Lower comes first when nobody chooses. */
static int preference(cl_device_type type)
{
    if (type & CL_DEVICE_TYPE_GPU)
        return 0;
    if (type & CL_DEVICE_TYPE_ACCELERATOR)
        return 1;
    return type & CL_DEVICE_TYPE_CUSTOM ? 2 : 3;
}

static void text_of(cl_device_id device, cl_device_info what, char *text, size_t size)
{
    char *all;
    size_t length = 0;
    snprintf(text, size, "?");
    if (clGetDeviceInfo(device, what, 0, NULL, &length) != CL_SUCCESS || (all = calloc(length + 1, 1)) == NULL)
        return;
    if (clGetDeviceInfo(device, what, length, all, NULL) == CL_SUCCESS)
        snprintf(text, size, "%.*s", (int)size - 1, all);
    free(all);
}

static void describe(cl_device_id id, const char *platform_name, const cls_context_options *options, cli_device *device)
{
    device->device = id;
    snprintf(device->platform_name, sizeof device->platform_name, "%s", platform_name);
    clGetDeviceInfo(id, CL_DEVICE_PLATFORM, sizeof device->platform, &device->platform, NULL);
    clGetDeviceInfo(id, CL_DEVICE_TYPE, sizeof device->type, &device->type, NULL);
    text_of(id, CL_DEVICE_NAME, device->name, sizeof device->name);
    text_of(id, CL_DEVICE_OPENCL_C_VERSION, device->c_version, sizeof device->c_version);
    text_of(id, CL_DRIVER_VERSION, device->driver, sizeof device->driver);
    cl_device_fp_config floats = 0;
    clGetDeviceInfo(id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof floats, &floats, NULL);
    device->infinities = (floats & CL_FP_INF_NAN) != 0;
    device->info.struct_size = sizeof device->info;
    device->usable = cls_device_query(id, options, &device->info) == CLS_OK;
    if (!device->usable)
        snprintf(device->reason, sizeof device->reason, "%s", cls_error_message());
}

static int add_platform(cl_platform_id platform, const cls_context_options *options, cli_devices *list)
{
    char name[128] = "?";
    cl_device_id *ids;
    cl_uint n = 0;
    void *grown;
    size_t length = 0;
    char *full;
    if (clGetPlatformInfo(platform, CL_PLATFORM_NAME, 0, NULL, &length) == CL_SUCCESS &&
        (full = calloc(length + 1, 1)) != NULL) {
        if (clGetPlatformInfo(platform, CL_PLATFORM_NAME, length, full, NULL) == CL_SUCCESS)
            snprintf(name, sizeof name, "%.*s", (int)sizeof name - 1, full);
        free(full);
    }
    /* A custom device is not among "all" devices. */
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL | CL_DEVICE_TYPE_CUSTOM, 0, NULL, &n) != CL_SUCCESS)
        n = 0;
    if (n == 0) {
        if ((grown = realloc(list->bare, (list->bare_count + 1) * sizeof *list->bare)) == NULL)
            return cli_no_memory();
        list->bare = grown;
        memcpy(list->bare[list->bare_count++], name, sizeof name);
        return 0;
    }
    if ((grown = realloc(list->device, (list->count + n) * sizeof *list->device)) == NULL)
        return cli_no_memory();
    list->device = grown;
    if ((ids = calloc(n, sizeof *ids)) == NULL)
        return cli_no_memory();
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL | CL_DEVICE_TYPE_CUSTOM, n, ids, NULL) == CL_SUCCESS)
        for (cl_uint i = 0; i < n; i++) {
            cli_device *device = &list->device[list->count++];
            memset(device, 0, sizeof *device);
            describe(ids[i], name, options, device);
        }
    free(ids);
    return 0;
}

int cli_devices_find(const cls_context_options *options, cli_devices *list)
{
    cl_platform_id *platforms;
    cli_device *chosen = NULL;
    cl_uint n = 0;
    cl_int error = clGetPlatformIDs(0, NULL, &n);
    int failed = 0;
    memset(list, 0, sizeof *list);
    if (error == CL_PLATFORM_NOT_FOUND_KHR || (error == CL_SUCCESS && n == 0))
        return 0;
    if (error != CL_SUCCESS)
        return cli_fail_opencl("listing the platforms", error);
    if ((platforms = calloc(n, sizeof *platforms)) == NULL)
        return cli_no_memory();
    error = clGetPlatformIDs(n, platforms, NULL);
    if (error != CL_SUCCESS)
        failed = cli_fail_opencl("listing the platforms", error);
    for (cl_uint i = 0; i < n && !failed; i++)
        failed = add_platform(platforms[i], options, list);
    free(platforms);
    if (failed) {
        cli_devices_free(list);
        return 1;
    }
    for (uint32_t i = 0; i < list->count; i++) {
        cli_device *device = &list->device[i];
        if (device->usable && (chosen == NULL || preference(device->type) < preference(chosen->type)))
            chosen = device;
    }
    if (chosen != NULL)
        chosen->is_default = true;
    return 0;
}

void cli_devices_free(cli_devices *list)
{
    free(list->device);
    free(list->bare);
    memset(list, 0, sizeof *list);
}

json_t *cli_device_json(const cli_device *device, uint32_t index)
{
    json_t *object = json_pack("{s:i, s:s%, s:s%, s:s, s:s%, s:s%, s:b, s:b}", "device", (int)index, "platform",
                               device->platform_name, strlen(device->platform_name), "name", device->name,
                               strlen(device->name), "type", cli_device_type(device->type), "opencl_c",
                               device->c_version, strlen(device->c_version), "driver", device->driver,
                               strlen(device->driver), "usable", device->usable, "default", device->is_default);
    if (object == NULL)
        return NULL;
    if (!device->usable) {
        json_object_set_new(object, "reason", json_string_nocheck(device->reason));
        return object;
    }
    json_object_set_new(object, "compute_units", json_integer(device->info.compute_units));
    json_object_set_new(object, "max_work_group", json_integer((json_int_t)device->info.max_work_group));
    json_object_set_new(object, "local_mem_size", json_integer((json_int_t)device->info.local_mem_size));
    json_object_set_new(object, "work_group", json_integer(device->info.work_group));
    json_object_set_new(object, "vector", json_integer(device->info.vector));
    json_object_set_new(object, "shortlist", json_integer(device->info.shortlist));
    json_object_set_new(object, "tier", json_string(cli_tier_name(device->info.tier)));
    json_object_set_new(object, "subgroups", json_string(cli_subgroups_name(device->info.subgroups)));
    json_object_set_new(object, "infinities", json_boolean(device->infinities));
    return object;
}

/* The device that --device asks for, or the default. any: as cli_find() has it. */
static const cli_device *choose(const char *which, bool any, const cli_devices *list, uint32_t *index)
{
    const cli_option number = {"device", CLI_UINT, index, NULL, NULL, NULL, false};
    if (which != NULL && cli_set(&number, "--device", which) != 0)
        return NULL;
    if (list->count == 0) {
        cli_fail("no OpenCL device found; install a device's driver, or PoCL (pocl-opencl-icd) to use the CPU");
        return NULL;
    }
    if (which != NULL) {
        if (*index >= list->count) {
            cli_fail("--device: there is no device %" PRIu32 ", only 0 to %" PRIu32 "; clsample devices lists them",
                     *index, list->count - 1);
            return NULL;
        }
        if (!list->device[*index].usable && !any) {
            cli_fail("--device: device %" PRIu32 " cannot be used: %s", *index, list->device[*index].reason);
            return NULL;
        }
        return &list->device[*index];
    }
    for (*index = 0; *index < list->count; ++*index)
        if (list->device[*index].is_default)
            return &list->device[*index];
    *index = 0;
    if (any)
        return &list->device[0];
    cli_fail("no OpenCL device can be used as asked: %s: %s", list->device[0].name, list->device[0].reason);
    return NULL;
}

/* -------------------------------------------------------------------- kernels */

static char build_log[1 << 16];
static bool is_shown; /* a line of progress is on the screen */

/* A line that is written over, where somebody may be looking. */
static void show_progress(void *user, const char *program, uint32_t done, uint32_t count)
{
    (void)user;
    if (!isatty(fileno(stderr)))
        return;
    fprintf(stderr, "\rkernels: %-20s %" PRIu32 " of %" PRIu32, program, done + 1, count);
    fflush(stderr);
    is_shown = true;
}

cls_status cli_compiled(cls_status status)
{
    if (is_shown)
        fprintf(stderr, "\r%48s\r", "");
    is_shown = false;
    /* Kernels that do not compile have more to tell than a sentence. */
    if (status == CLS_BUILD_FAILED)
        fputs(build_log, stderr);
    return status;
}

static cls_status create(cli_target *target, const cls_context_options *options)
{
    cls_context_options told = *options;
    told.build_log = build_log;
    told.build_log_size = sizeof build_log;
    told.build_log_stays = 1;
    told.cache_always = 1; /* whoever names a folder wants it filled */
    told.progress = show_progress;
    return cli_compiled(cls_context_create(target->cl, target->at.device, &told, &target->context));
}

const char *cli_build_log(void) { return build_log; }

int cli_find(const char *which, const cls_context_options *options, bool any, cli_target *target)
{
    cli_devices list;
    const cli_device *device;
    memset(target, 0, sizeof *target);
    if (cli_devices_find(options, &list) != 0)
        return 1;
    device = choose(which, any, &list, &target->index);
    if (device != NULL)
        target->at = *device;
    cli_devices_free(&list);
    return device == NULL;
}

int cli_open_queue(cli_target *target, cl_command_queue_properties properties)
{
    cl_int error;
    target->cl = clCreateContext(NULL, 1, &target->at.device, NULL, NULL, &error);
    if (error == CL_SUCCESS)
        target->queue = clCreateCommandQueue(target->cl, target->at.device, properties, &error);
    return error == CL_SUCCESS ? 0 : cli_fail_opencl(target->at.name, error);
}

int cli_open_context(cli_target *target, const cls_context_options *options)
{
    build_log[0] = '\0';
    return create(target, options) == CLS_OK ? 0 : cli_fail_library(target->at.name);
}

int cli_open(const char *which, const cls_context_options *options, cl_command_queue_properties properties,
             cli_target *target)
{
    if (cli_find(which, options, false, target) != 0)
        return 1;
    if (cli_open_queue(target, properties) == 0 && cli_open_context(target, options) == 0)
        return 0;
    cli_close(target);
    return 1;
}

void cli_close(cli_target *target)
{
    cls_context_destroy(target->context);
    if (target->queue != NULL)
        clReleaseCommandQueue(target->queue);
    if (target->cl != NULL)
        clReleaseContext(target->cl);
    memset(target, 0, sizeof *target);
}
