/* SPDX-License-Identifier: MIT */
/* What a process of clsample accept does: it describes a device, or tests it in one shape. Each
 * difference is said as "finding", with the program, and for calls with the shortest text. */

#include "accept/accept.h"

int accept_describe(const accept_job *job)
{
    cli_target target;
    cl_ulong whole = 0, part = 0;
    cli_find_device(job->device, &job->options, &target);
    clGetDeviceInfo(target.device.id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof whole, &whole, NULL);
    clGetDeviceInfo(target.device.id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof part, &part, NULL);
    json_object_set_new(target.device.json, "global_mem_size", json_integer((json_int_t)whole));
    json_object_set_new(target.device.json, "max_alloc_size", json_integer((json_int_t)part));
    accept_say("device", json_incref(target.device.json));
    return 0;
}

static void open_sides(accept_test *t)
{
    cls_device_info info;
    cls_device_info_init(&info);
    t->device = (run_side){.name = "device", .options = t->job->options};
    t->ahead = (run_side){.name = "ahead", .way = RUN_AHEAD, .options = t->job->options};
    t->mixed =
        (run_side){.name = "out of order", .way = RUN_OUT_OF_ORDER, .options = t->job->options};
    run_open(&t->device, t->job->device, NULL);
    run_open(&t->ahead, t->job->device, &t->device);
    run_open(&t->mixed, t->job->device, &t->device);
    if (cls_context_info(t->device.target.context, &info) != CLS_OK)
        cli_die("%s", cls_error_message());
    /* The host serves what a device with a short list serves. */
    t->host = (run_side){.name = "host", .on_host = true, .options = t->job->options};
    t->host.options.shortlist = info.shortlist;
    run_open(&t->host, NULL, NULL);
    accept_say("shape", cli_shape_json(t->device.target.context));
}

int accept_shape(const accept_job *job)
{
    accept_test *const t = cli_alloc(1, sizeof *t);
    t->job = job;
    if (cls_opencl_find(NULL) != CLS_OK)
        cli_no_device();
    accept_names_watch();
    accept_say("at", json_pack("{s:s, s:s}", "program", "the device", "does", "is opened"));
    open_sides(t);
    accept_names_begin(NULL);
    cls_context *const context = t->device.target.context;
    if (accept_programs(context) || accept_cases(context))
        return 1;
    accept_names_agree();
    return accept_texts(t, cli_seconds() + job->seconds) || accept_steps(t);
}
