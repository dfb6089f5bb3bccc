/* SPDX-License-Identifier: MIT */
/* Creates a context: tests the device, compiles and proves the self-test, and later more programs
 * on request. */
#include "selftest/selftest.h"

#include <stdlib.h>

const char *cls_context_build_log(const cls_context *context)
{
    return context != NULL ? cls_context_log(context) : "";
}

static cls_status check_device(cl_context cl, cl_device_id device)
{
    cl_device_id devices[64];
    size_t size = 0;
    const cl_int code = clGetContextInfo(cl, CL_CONTEXT_DEVICES, sizeof devices, devices, &size);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot query context");
    for (size_t i = 0; i < size / sizeof devices[0]; i++)
        if (devices[i] == device)
            return CLS_OK;
    return cls_refuse("device does not belong to context");
}

/* Tells the user that the test of groups is compiled next. */
static void tell_test(const cls_context_options *o)
{
    if (o->progress != NULL)
        o->progress(o->progress_user, "groups-test", 0, 1);
}

/* Finds groups that compute correctly on the device: with sub-groups if these do, and smaller ones
 * if the first do not. Fails if the caller chose a tier or a size that does not. */
static cls_status find_groups(cls_context *context)
{
    cls_shape *const shape = &context->shape;
    const cls_context_options *const o = &context->options;
    const char *reason;
    if (!shape->compiler) /* nothing can be tested; each program will be proved here, however */
        return CLS_OK;
    if (shape->tier == CLS_TIER_SUBGROUPS) {
        tell_test(o);
        reason = cls_subgroups_find(context->cl, context->device, shape);
        if (reason != NULL && o->tier == CLS_TIER_SUBGROUPS)
            return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                            "options->tier is CLS_TIER_SUBGROUPS, but %s", reason);
        if (reason != NULL) {
            cls_say(o, "sub-groups are not used, because %s", reason);
            shape->tier = CLS_TIER_INT64;
        }
    }
    while (shape->work_group > 1 || shape->row_group > 1) {
        tell_test(o);
        reason = cls_groups_check(context->cl, context->device, shape);
        if (reason == NULL)
            break;
        if (o->work_group != 0 || o->row_group != 0)
            return cls_fail(
                CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                "options->work_group and options->row_group require groups of %u and %u, but %s",
                (unsigned)shape->work_group, (unsigned)shape->row_group, reason);
        cls_say(o, "groups of %u and %u work-items are halved, because %s",
                (unsigned)shape->work_group, (unsigned)shape->row_group, reason);
        shape->work_group = (shape->work_group + 1) / 2;
        shape->row_group = (shape->row_group + 1) / 2;
        cls_shape_adjust_vector(shape);
    }
    return CLS_OK;
}

cls_status cls_context_create(cl_context cl, cl_device_id device,
                              const cls_context_options *callers, cls_context **out)
{
    cls_context_options o;
    cls_shape shape;
    cls_saved_error before;
    cls_context_options_init(&o);
    if (out == NULL)
        return cls_refuse("out is NULL");
    *out = NULL;
    if (cl == NULL)
        return cls_refuse("context is NULL");
    cls_status status = callers != NULL ? CLS_STRUCT_READ(&o, callers, "options") : CLS_OK;
    if (status == CLS_OK)
        status = cls_shape_query(device, &o, &shape);
    if (status == CLS_OK)
        status = check_device(cl, device);
    if (status != CLS_OK)
        return status;
    cls_context *context;
    status = cls_context_new(&shape, &context);
    if (status != CLS_OK)
        return status;
    context->device = device;
    context->requested_shape = shape;
#ifndef CLS_WITHOUT_SELFTEST
    context->prove = cls_prove;
#endif
    const cl_int code = clRetainContext(cl);
    if (code != CL_SUCCESS) {
        cls_context_destroy(context);
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot retain context");
    }
    context->cl = cl;
    cls_error_save(&before);
    context->options = o;
    context->options.cache_dir = NULL;
    context->options.binary = NULL;
    status = cls_stored_open(context, &o);
    if (status == CLS_OK)
        status = find_groups(context);
    if (status == CLS_OK)
        status = cls_compile(context, 1, CLS_VARIANT_BIT(CLS_SELF_TEST_0));
    if (!context->options.build_log_stays)
        context->options.build_log = NULL;
    if (status != CLS_OK) {
        cls_context_destroy(context);
        return status;
    }
    cls_error_restore(&before); /* errors of attempts that were repeated */
    *out = context;
    return CLS_OK;
}

cls_status cls_context_info(const cls_context *context, cls_device_info *info)
{
    cls_device_info check;
    cls_status status = CLS_STRUCT_READ_OUTPUT(&check, info, "info");
    if (status == CLS_OK && context == NULL)
        status = cls_refuse("context is NULL");
    if (status == CLS_OK)
        cls_shape_report(&context->shape, context->program[0][CLS_SELF_TEST_0].origin, info);
    return status;
}

/* -------------------------------------------------------------------- programs */

cls_status cls_context_compile(cls_context *context, uint32_t dtypes, uint32_t features)
{
    if (context == NULL)
        return cls_refuse("context is NULL");
    const cls_status status = cls_features_check("", dtypes, features);
    if (status != CLS_OK || context->shape.host)
        return status;
    const cls_variant_set variants =
        features == CLS_FEATURES_ALL
            ? cls_variants_all()
            : cls_variants_of(features != 0 ? features : CLS_FEATURE_SHORTLIST);
    return cls_compile(context, dtypes != 0 ? dtypes : cls_context_dtypes(context), variants);
}

cls_status cls_context_program(const cls_context *context, uint32_t index,
                               cls_program_info *callers)
{
    cls_program_info info;
    const cls_program *found = NULL;
    uint32_t n = 0;
    cls_status status = CLS_STRUCT_READ_OUTPUT(&info, callers, "info");
    if (status == CLS_OK && context == NULL)
        status = cls_refuse("context is NULL");
    if (status != CLS_OK)
        return status;
    cls_lock_acquire(context->lock);
    for (int v = 0; v < CLS_VARIANTS && found == NULL; v++) {
        for (int d = 0; d < CLS_DTYPES && found == NULL; d++) {
            const cls_program *const p = &context->program[d][v];
            if (!p->proved || n++ != index)
                continue;
            found = p;
            cls_program_info_init(&info);
            info.name = cls_variants[v].name;
            info.dtype = cls_variants[v].typed ? d : -1;
            info.origin = p->origin;
            info.work_group = p->config.group;
            info.subgroups = p->config.subgroups;
            info.seconds = p->seconds;
            info.local_mem_size = p->local_mem;
            info.private_mem_size = p->private_mem;
            info.max_work_group = p->max_group;
            info.preferred_multiple = p->preferred;
        }
    }
    cls_lock_release(context->lock);
    if (found == NULL)
        return cls_refuse("index is %u, but the context has %u programs", (unsigned)index,
                          (unsigned)n);
    CLS_STRUCT_WRITE(&info, callers);
    return CLS_OK;
}
