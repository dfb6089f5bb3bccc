/* SPDX-License-Identifier: MIT */
/* Builds a program from kernel source or compiled bytes, with the compiler's options. */
#include "programs/programs.h"

#include <stdio.h>
#include <stdlib.h>

/* Appends the compiler's log for a program to the context's, which stays as it is if memory runs
 * out. */
static void append_log(cl_program program, cls_context *context)
{
    size_t size = 0;
    if (clGetProgramBuildInfo(program, context->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) !=
            CL_SUCCESS ||
        size < 2)
        return;
    cls_lock_acquire(context->log_lock);
    cls_log *const log = context->log;
    const size_t old = log != NULL ? strlen(log->text) : 0;
    const int stays = log == NULL || log->is_lent;
    cls_log *const grown = realloc(stays ? NULL : log, sizeof *grown + old + size + 1);
    if (grown != NULL) {
        context->log = grown;
        if (stays) {
            *grown = (cls_log){.older = log};
            memcpy(grown->text, log != NULL ? log->text : "", old + 1);
        }
        char *const end = grown->text + old;
        if (clGetProgramBuildInfo(program, context->device, CL_PROGRAM_BUILD_LOG, size, end,
                                  NULL) != CL_SUCCESS)
            *end = '\0';
        end[size] = '\0';
    }
    cls_lock_release(context->log_lock);
}

const char *cls_context_log(const cls_context *context)
{
    const char *text = "";
    cls_lock_acquire(context->log_lock);
    if (context->log != NULL) {
        context->log->is_lent = 1;
        text = context->log->text;
    }
    cls_lock_release(context->log_lock);
    return text;
}

#define REGISTERS " -cl-nv-maxrregcount="
void cls_program_options(const cls_shape *shape, const cls_build_config *config, int32_t dtype,
                         const cls_variant *variant, char options[CLS_BUILD_OPTIONS])
{
    char registers[40] = "", list[24] = "";
    if (variant == NULL || strstr(variant->options, "-DLIST=") == NULL)
        snprintf(list, sizeof list, " -DLIST=%u", (unsigned)config->shortlist);
    if (shape->nvidia && variant != NULL && variant->registers != 0 && config->group <= 256)
        snprintf(registers, sizeof registers, REGISTERS "%d", variant->registers);
    /* No option relaxes float arithmetic, since that would change tokens. With warnings, clang
     * would tell the user's stderr of each vector that is passed to a function (PoCL). */
    snprintf(options, CLS_BUILD_OPTIONS,
             "-w -cl-std=CL%u.%u -DVEC=%u -DWGS=%u%s -DDTYPE=%d -DSUBGROUPS=%u%s%s%s%s",
             (unsigned)config->standard / 100, (unsigned)config->standard / 10 % 10,
             (unsigned)shape->vector, (unsigned)config->group, list, (int)dtype,
             (unsigned)config->subgroups, shape->by_value ? " -DBY_VALUE" : "",
             variant != NULL ? variant->options : "", shape->extra_options, registers);
}

static cls_status from_source(const cls_context *context, const cls_variant *v, cl_program *program)
{
    cl_int code;
    *program = cls_program_create(context->cl, v->source, *v->count, &code);
    return code == CL_SUCCESS
               ? CLS_OK
               : cls_fail(CLS_OPENCL_ERROR, code, "cannot create the program %s", v->name);
}

static cls_status from_binary(const cls_context *context, const cls_variant *v,
                              const cls_bytes *binary, cl_program *program)
{
    cl_int code, accepted = CL_SUCCESS;
    const unsigned char *bytes = binary->bytes;
    *program = clCreateProgramWithBinary(context->cl, 1, &context->device, &binary->size, &bytes,
                                         &accepted, &code);
    if (code == CL_SUCCESS && accepted == CL_SUCCESS)
        return CLS_OK;
    if (code == CL_SUCCESS)
        clReleaseProgram(*program);
    return cls_fail(CLS_OPENCL_ERROR, code != CL_SUCCESS ? code : accepted,
                    "the driver refuses the compiled program %s", v->name);
}

/* Queries the limits of the program's kernel, which drivers know once it is built. */
static cls_status query_limits(const cls_context *context, const cls_variant *v, cls_program *p)
{
    size_t group = 0, preferred = 0;
    cl_ulong local = 0, private_mem = 0;
    cl_int code;
    const cl_kernel kernel = clCreateKernel(p->program, cls_kernel_name(v->kernel), &code);
    if (code == CL_SUCCESS) {
        code = clGetKernelWorkGroupInfo(kernel, context->device, CL_KERNEL_WORK_GROUP_SIZE,
                                        sizeof group, &group, NULL);
        if (code == CL_SUCCESS)
            code = clGetKernelWorkGroupInfo(kernel, context->device, CL_KERNEL_LOCAL_MEM_SIZE,
                                            sizeof local, &local, NULL);
        /* The library reports these two but does not depend on them. */
        clGetKernelWorkGroupInfo(kernel, context->device, CL_KERNEL_PRIVATE_MEM_SIZE,
                                 sizeof private_mem, &private_mem, NULL);
        clGetKernelWorkGroupInfo(kernel, context->device,
                                 CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, sizeof preferred,
                                 &preferred, NULL);
        clReleaseKernel(kernel);
    }
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot create kernel %s",
                        cls_kernel_name(v->kernel));
    p->max_group = group;
    p->local_mem = local;
    p->private_mem = private_mem;
    p->preferred = preferred;
    return CLS_OK;
}

void cls_program_release(cls_program *p)
{
    if (p->program != NULL)
        clReleaseProgram(p->program);
    p->program = NULL;
    p->proved = 0;
}

cls_status cls_program_build(cls_context *context, cls_program *p, const cls_bytes *binary)
{
    const cls_variant *const v = &cls_variants[p->variant];
    char options[CLS_BUILD_OPTIONS];
    cl_program program = NULL;
    cls_status status = binary != NULL ? from_binary(context, v, binary, &program)
                                       : from_source(context, v, &program);
    if (status != CLS_OK)
        return status;
    cls_program_options(&context->shape, &p->config, p->dtype, v, options);
    cl_int code = clBuildProgram(program, 1, &context->device, options, NULL, NULL);
    char *const register_limit = strstr(options, REGISTERS);
    if (code == CL_INVALID_BUILD_OPTIONS && register_limit != NULL) {
        *register_limit = '\0'; /* it only makes kernels faster */
        code = clBuildProgram(program, 1, &context->device, options, NULL, NULL);
    }
    append_log(program, context);
    if (code != CL_SUCCESS) {
        clReleaseProgram(program);
        return cls_fail(CLS_BUILD_FAILED, code, "the program %s did not compile (%s)", v->name,
                        options);
    }
    p->program = program;
    status = query_limits(context, v, p);
    if (status != CLS_OK)
        cls_program_release(p);
    return status;
}
