/* SPDX-License-Identifier: MIT */
/* From a shape to proven programs, and to smaller shapes where a device refuses. */
#include "internal.h"

#include <stdlib.h>

void cls_context_release_programs(cls_context *context)
{
    for (int i = 0; i < CLS_DTYPES * CLS_PARTS; i++) {
        cl_program *const program = &context->program[i / CLS_PARTS][i % CLS_PARTS];
        if (*program != NULL)
            clReleaseProgram(*program);
        *program = NULL;
    }
    free(context->build_log);
    context->build_log = NULL;
}

static int fits(const cls_shape *shape, const cls_limits limits[CLS_PARTS])
{
    return shape->work_group <= limits[CLS_OVER_TILES].group && shape->row_group <= limits[CLS_OVER_ROWS].group &&
           limits[CLS_OVER_TILES].local <= shape->local_mem_size &&
           limits[CLS_OVER_ROWS].local <= shape->local_mem_size;
}

/* Builds for every type of logits that is wanted, or to the first one whose
 * kernels turn out not to fit. */
static cls_status build(cls_context *context, uint32_t dtypes, const cls_container *binary,
                        cls_limits limits[CLS_PARTS])
{
    const uint32_t group[CLS_PARTS] = {context->shape.work_group, context->shape.row_group};
    int fit = 1;
    for (int i = 0; i < CLS_DTYPES && fit; i++) {
        if (!(dtypes >> i & 1u))
            continue;
        for (int part = 0; part < CLS_PARTS; part++) {
            cl_program *const program = &context->program[i][part];
            cls_status status = CLS_OK;
            if (part > 0 && group[part] == group[0]) {
                const cl_int code = clRetainProgram(context->program[i][0]);
                if (code == CL_SUCCESS)
                    *program = context->program[i][0];
                else
                    status = cls_fail(CLS_OPENCL_ERROR, code, "cannot retain the kernels' program");
            } else {
                status = cls_program_build(context, group[part], i, binary != NULL ? &binary->program[i][part] : NULL,
                                           program);
            }
            if (status == CLS_OK)
                status = cls_program_limits(context, i, (enum cls_part)part, &limits[part]);
            if (status != CLS_OK)
                return status;
        }
        fit = fits(&context->shape, limits);
    }
    return CLS_OK;
}

/* A driver may only know after the build that a kernel takes smaller groups than
 * the device, or more local memory: the shape to build in then. */
static cls_status adapt(cls_shape *shape, const cls_context_options *o, const cls_limits limits[CLS_PARTS])
{
    const int forced = o->work_group != 0 || o->row_group != 0;
    uint32_t *const groups[CLS_PARTS] = {&shape->work_group, &shape->row_group};
    for (int part = 0; part < CLS_PARTS; part++) {
        uint32_t *const group = groups[part];
        if (limits[part].group < *group && forced)
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                            "options->%s is %u; the kernels run with at most %zu on this device",
                            *group == o->work_group ? "work_group" : "row_group", (unsigned)*group, limits[part].group);
        if (limits[part].group < *group)
            *group = (uint32_t)limits[part].group;
        else if (limits[part].local <= shape->local_mem_size)
            continue;
        else if (part == CLS_OVER_ROWS && o->shortlist == 0 && shape->shortlist > 16)
            shape->shortlist /= 2;
        else if (!forced && *group > 1)
            *group /= 2;
        else
            return cls_fail(
                forced || o->shortlist != 0 ? CLS_BAD_ARGUMENT : CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                "the kernels take %llu bytes of local memory in groups of %u with a shortlist of %u; there are %llu",
                (unsigned long long)limits[part].local, (unsigned)*group, (unsigned)shape->shortlist,
                (unsigned long long)shape->local_mem_size);
    }
    cls_shape_settle(shape);
    return CLS_OK;
}

/* Whether a failure of a build or a launch may be the shape's. */
static int is_refusal(cls_status status, int launched)
{
    const cl_int code = cls_error_opencl();
    if (status == CLS_BUILD_FAILED)
        return code == CL_BUILD_PROGRAM_FAILURE || code == CL_OUT_OF_RESOURCES;
    return status == CLS_OPENCL_ERROR && launched &&
           (code == CL_OUT_OF_RESOURCES || code == CL_INVALID_WORK_GROUP_SIZE || code == CL_INVALID_WORK_ITEM_SIZE ||
            code == CL_MEM_OBJECT_ALLOCATION_FAILURE);
}

/* Says on top of the last failure that it was the last of several. */
static cls_status refused(cls_status status, const cls_shape *shape)
{
    cls_failure last;
    cls_failure_keep(&last);
    char *const code = strstr(last.message, ": OpenCL says"); /* which is said again */
    if (code != NULL)
        *code = '\0';
    return cls_fail(status, last.opencl,
                    "%.300s; smaller shapes were tried, the last with work_group %u, row_group %u, "
                    "vector %u and shortlist %u",
                    last.message, (unsigned)shape->work_group, (unsigned)shape->row_group, (unsigned)shape->vector,
                    (unsigned)shape->shortlist);
}

/* Sub-groups that compute right, if they are wanted at all. */
static cls_status find_subgroups(cls_context *context, const cls_context_options *o)
{
    cls_shape *const shape = &context->shape;
    if (shape->tier != CLS_TIER_SUBGROUPS)
        return CLS_OK;
    const char *const why = cls_subgroups_find(context->cl, context->device, shape);
    if (why == NULL)
        return CLS_OK;
    if (o->tier == CLS_TIER_SUBGROUPS)
        return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS, "options->tier is CLS_TIER_SUBGROUPS, but %s", why);
    shape->tier = CLS_TIER_INT64;
    return CLS_OK;
}

cls_status cls_compile(cls_context *context, const cls_context_options *o, uint32_t dtypes)
{
    cls_shape *const shape = &context->shape;
    if (!shape->compiler)
        return cls_shape_no_compiler();
    unsigned turn = 0;
    for (;;) {
        cls_limits limits[CLS_PARTS];
        int launched = 1;
        cls_status status = find_subgroups(context, o); /* those of the shape's groups */
        if (status != CLS_OK)
            return status;
        status = build(context, dtypes, NULL, limits);
        if (status == CLS_OK && !fits(shape, limits)) {
            status = adapt(shape, o, limits);
        } else {
            if (status == CLS_OK)
                status = cls_prove(context, &launched);
            if (status == CLS_OK)
                return CLS_OK;
            if (shape->subgroups != CLS_SUBGROUPS_NONE && o->tier == CLS_TIER_AUTO) {
                shape->subgroups = CLS_SUBGROUPS_NONE; /* as good as none */
                shape->tier = CLS_TIER_INT64;
                shape->standard = 120;
            } else if (!is_refusal(status, launched)) {
                return status;
            } else if (!cls_shape_smaller(o, turn++, shape)) {
                return turn > 1 ? refused(status, shape) : status;
            }
            status = CLS_OK;
        }
        if (status != CLS_OK)
            return status;
        cls_context_release_programs(context);
    }
}

/* Whether programs of this shape are what the options ask for. */
static int is_wanted(const cls_container *c, const cls_shape *shape, const cls_context_options *o, uint32_t dtypes)
{
    const cls_shape *const s = &c->shape;
    for (int i = 0; i < CLS_DTYPES; i++)
        if ((dtypes >> i & 1u) &&
            (c->program[i][0].bytes == NULL || (s->row_group != s->work_group && c->program[i][1].bytes == NULL)))
            return 0;
    return s->work_group <= shape->max_work_group && s->row_group <= shape->max_work_group &&
           (o->work_group == 0 || s->work_group == o->work_group) &&
           (o->row_group == 0 || s->row_group == o->row_group) && (o->shortlist == 0 || s->shortlist == o->shortlist) &&
           s->tier <= shape->tier && (o->tier == CLS_TIER_AUTO || s->tier == o->tier);
}

cls_status cls_load(cls_context *context, const cls_context_options *o, uint32_t dtypes, const cls_container *c)
{
    const cls_shape before = context->shape;
    cls_shape *const shape = &context->shape;
    cls_limits limits[CLS_PARTS];
    int launched;
    if (!is_wanted(c, shape, o, dtypes))
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "the compiled programs are of another shape, or of other types");
    shape->work_group = c->shape.work_group;
    shape->row_group = c->shape.row_group;
    shape->vector = c->shape.vector;
    shape->shortlist = c->shape.shortlist;
    shape->tier = c->shape.tier;
    shape->subgroups = c->shape.subgroups;
    shape->standard = c->shape.standard;
    cls_status status = build(context, dtypes, c, limits);
    if (status == CLS_OK && !fits(shape, limits))
        status = cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS, "the compiled programs need more than the device has");
    if (status == CLS_OK)
        status = cls_prove(context, &launched);
    if (status == CLS_OK)
        return CLS_OK;
    cls_context_release_programs(context);
    *shape = before;
    return status;
}
