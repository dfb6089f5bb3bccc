/* SPDX-License-Identifier: MIT */
/* Selects an OpenCL device and opens it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cli.h"

/* ---------------------------------------------------------------------- choice */

/* "0 (NAME, CPU), 1 (NAME, GPU, not usable)"; devices that do not fit the text are omitted. */
static const char *list_devices(const cli_devices *list, char text[768])
{
    size_t used = 0;
    for (uint32_t i = 0; i < list->count && used < 768; i++) {
        const cli_device *const d = &list->device[i];
        used += (size_t)snprintf(text + used, 768 - used, "%s%" PRIu32 " (%s, %s%s)",
                                 i == 0 ? "" : ", ", i, d->name, cli_string(d->json, "type"),
                                 d->usable ? "" : ", not usable");
    }
    return text;
}

bool cli_on_host(const char *device) { return device != NULL && strcmp(device, "host") == 0; }

/* Whether the text consists of digits only. */
static bool is_number(const char *text)
{
    return *text != '\0' && text[strspn(text, "0123456789")] == '\0' && strlen(text) < 10;
}

/* The index of the device that --device names, or of the default one. */
static uint32_t select_device(const char *which, const cli_devices *list)
{
    char text[768];
    if (list->count == 0)
        cli_no_device();
    if (which == NULL) {
        if (list->chosen != UINT32_MAX)
            return list->chosen;
        cli_die("no OpenCL device is usable with these options; %s: %s", list->device->name,
                cli_string(list->device->json, "reason"));
    }
    const uint32_t i = is_number(which) ? (uint32_t)strtoul(which, NULL, 10) : UINT32_MAX;
    if (i >= list->count)
        cli_die(is_number(which)
                    ? "--device: there is no device %s; the devices are %s"
                    : "--device: '%s' is not the number of a device; the devices are %s",
                which, list_devices(list, text));
    if (!list->device[i].usable)
        cli_die("--device: device %" PRIu32 " cannot be used: %s", i,
                cli_string(list->device[i].json, "reason"));
    return i;
}

/* -------------------------------------------------------------------- kernels */

static char build_log[1 << 16];

void (*cli_compiling)(const char *program);

/* Nothing is told while the programs are tried, in which PoCL compiles them: 10 s for all. */
static void show_progress(void *user, const char *program, uint32_t done, uint32_t count)
{
    (void)user;
    if (cli_compiling != NULL)
        cli_compiling(program);
    cli_progress("kernels: %s, %" PRIu32 " of %" PRIu32 "%s", program, done + 1, count,
                 done + 1 == count ? ", then all are tried" : "");
}

cls_status cli_compile_done(cls_status status)
{
    cli_progress("%s", "");
    /* An error message has one sentence; the compiler's log has the details. */
    if (status == CLS_BUILD_FAILED)
        fputs(build_log, stderr);
    return status;
}

/* Whether files can be written to the directory, by writing one; else errno has the reason. */
static bool is_writable(const char *dir)
{
    const size_t size = strlen(dir) + 32;
    char *const path = cli_alloc(size, 1);
    FILE *file = NULL;
    errno = ENOENT; /* for an empty name, which would otherwise be the root directory */
    for (int i = 0; i < 64 && *dir != '\0' && file == NULL; i++) {
        snprintf(path, size, "%s/clsample-test.%d", dir, i); /* others may be trying, too */
        if ((file = fopen(path, "wbx")) == NULL && errno != EEXIST)
            break;
    }
    if (file == NULL)
        return false;
    fclose(file);
    remove(path);
    return true;
}

/* Checks --cache-dir. A directory that does not exist is an error; one that can only be read is
 * used for loading. */
static void check_cache_dir(const char *dir)
{
    struct stat about;
    if (dir == NULL || is_writable(dir))
        return;
    const int why = errno;
    if (stat(dir, &about) != 0)
        cli_die("--cache-dir: '%s' cannot be used: %s", dir, strerror(errno));
    if (!S_ISDIR(about.st_mode))
        cli_die("--cache-dir: '%s' is not a directory", dir);
    if (access(dir, X_OK) != 0)
        cli_die("--cache-dir: '%s' cannot be read: %s", dir, strerror(errno));
    cli_warn(
        "--cache-dir: '%s' cannot be written: %s; kernels are loaded from it, but none are stored",
        dir, strerror(why));
}

void cli_find_device(const char *which, const cls_context_options *options, cli_target *target)
{
    cli_devices list;
    memset(target, 0, sizeof *target);
    check_cache_dir(options->cache_dir);
    cli_devices_find(options, &list);
    target->index = select_device(which, &list);
    target->device = list.device[target->index];
}

int cli_open_queue(cli_target *target, cl_command_queue_properties properties)
{
    cl_int error;
    target->cl = clCreateContext(NULL, 1, &target->device.id, NULL, NULL, &error);
    if (error == CL_SUCCESS)
        target->queue = clCreateCommandQueue(target->cl, target->device.id, properties, &error);
    return cli_try_opencl(error, target->device.name);
}

/* Says why a folder gets no kernels where the driver does not give them. */
static void check_stored(const cls_context *context, const char *dir)
{
    size_t size = 0;
    if (dir != NULL && cls_context_export(context, NULL, &size) != CLS_OK)
        cli_warn("--cache-dir: no kernels are stored: %s", cls_error_message());
}

int cli_open_context(cli_target *target, const cls_context_options *options)
{
    cls_context_options all = *options;
    build_log[0] = '\0';
    all.build_log = build_log;
    all.build_log_size = sizeof build_log;
    all.build_log_stays = 1;
    all.cache_always = 1; /* also where the driver has a cache */
    all.progress = show_progress;
    const int failed = cli_try(
        cli_compile_done(cls_context_create(target->cl, target->device.id, &all, &target->context)),
        target->device.name);
    if (!failed)
        check_stored(target->context, options->cache_dir);
    return failed;
}

int cli_open(const char *which, const cls_context_options *options,
             cl_command_queue_properties properties, cli_target *target)
{
    cli_find_device(which, options, target);
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
