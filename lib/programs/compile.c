/* SPDX-License-Identifier: MIT */
/* Compiles programs, in smaller groups if the device refuses the first size. All of it runs under
 * the context's lock. */
#include "programs/programs.h"

#include <stdio.h>
#include <stdlib.h>

static const cls_variant *variant_of(const cls_program *p) { return &cls_variants[p->variant]; }

static cls_build_config usual_config(const cls_shape *shape, enum cls_kernel kernel)
{
    const int over_tiles = cls_kernel_covers_tiles(kernel);
    const cls_build_config config = {over_tiles ? shape->work_group : shape->row_group, shape->tier,
                                     shape->subgroups, shape->standard, shape->shortlist};
    return config;
}

/* --------------------------------------------------------------- smaller groups */

/* Returns 1 if the caller chose the size of groups; then no other is tried. */
static int caller_chose_groups(const cls_context *context)
{
    return context->options.work_group != 0 || context->options.row_group != 0;
}

/* Makes a configuration smaller: first without sub-groups, then with half the group. Returns 0 if
 * there is no smaller one, or if the caller chose this one. */
static int make_smaller(const cls_context *context, cls_build_config *config)
{
    if (config->subgroups != CLS_SUBGROUPS_NONE && context->options.tier == CLS_TIER_AUTO) {
        config->subgroups = CLS_SUBGROUPS_NONE;
        config->tier = CLS_TIER_INT64;
        config->standard = 120;
        return 1;
    }
    /* If the caller requires sub-groups, they were tested with the chosen groups only. With vectors
     * of 2, a group of one work-item is not allowed (cls_shape_adjust_vector()). */
    if (caller_chose_groups(context) || config->subgroups != CLS_SUBGROUPS_NONE ||
        config->group == 1 || (config->group == 2 && context->shape.vector == 2))
        return 0;
    config->group /= 2;
    return 1;
}

/* Fails because the device does not run a built program in groups of this size. If the options ask
 * for it, the message names the one that does. */
static cls_status refuse_group(const cls_context *context, const cls_program *p, uint32_t group)
{
    const cls_context_options *const o = &context->options;
    const int by_rows = o->row_group != 0 && !cls_kernel_covers_tiles(variant_of(p)->kernel);
    const char *const name = variant_of(p)->name;
    const unsigned long long most = p->max_group;
    if ((by_rows ? o->row_group : o->work_group) != group)
        return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                        "the program %s runs in groups of at most %llu on this device, not %u",
                        name, most, (unsigned)group);
    return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                    "options->%s is %u, but the program %s runs in groups of at most %llu on this "
                    "device",
                    by_rows ? "row_group" : "work_group", (unsigned)group, name, most);
}

/* Compares a built kernel's limits with its configuration. If they do not allow it, makes the
 * configuration smaller and sets *again to 1, for another build. Fails if there is no smaller
 * configuration. */
static cls_status check_limits(cls_context *context, cls_program *p, int *again)
{
    cls_shape *const shape = &context->shape;
    *again = 0;
    if (p->max_group != 0 && p->max_group < p->config.group) {
        const cls_build_config refused = p->config;
        do { /* without sub-groups the limit may be another */
            *again = make_smaller(context, &p->config);
        } while (*again && p->config.subgroups == refused.subgroups &&
                 p->config.group > p->max_group);
        return *again ? CLS_OK : refuse_group(context, p, refused.group);
    }
    if (p->local_mem <= shape->local_mem_size)
        return CLS_OK;
    /* The first program of a context determines the length of lists. */
    *again =
        p->variant == CLS_SELF_TEST_0 && context->options.shortlist == 0 && shape->shortlist > 16;
    if (*again)
        p->config.shortlist = shape->shortlist /= 2;
    else
        *again = make_smaller(context, &p->config);
    if (*again)
        return CLS_OK;
    return cls_no_field(cls_fail(
        caller_chose_groups(context) || context->options.shortlist != 0 ? CLS_BAD_ARGUMENT
                                                                        : CLS_UNSUPPORTED_DEVICE,
        CL_SUCCESS,
        "the program %s takes %llu bytes of local memory in groups of %u with a "
        "shortlist of %u, but the limit is %llu bytes",
        variant_of(p)->name, (unsigned long long)p->local_mem, (unsigned)p->config.group,
        (unsigned)shape->shortlist, (unsigned long long)shape->local_mem_size));
}

int cls_program_make_smaller(const cls_context *context, cls_program *p)
{
    return make_smaller(context, &p->config);
}

cls_status cls_program_fail_smaller(cls_status status, const cls_program *p)
{
    char text[80];
    snprintf(text, sizeof text, "; smaller groups were tried, the last of %u work-items",
             (unsigned)p->config.group);
    return cls_fail_further(status, text);
}

/* ---------------------------------------------------------------------- building */

cls_status cls_program_from_source(cls_context *context, cls_program *p)
{
    unsigned tried = 0;
    if (!context->shape.compiler)
        return cls_fail_no_compiler();
    p->origin = CLS_ORIGIN_SOURCE;
    for (;; tried++) {
        int again = 0;
        cls_status status = cls_program_build(context, p, NULL);
        if (status == CLS_OK)
            status = check_limits(context, p, &again);
        else if (cls_error_opencl() != CL_COMPILER_NOT_AVAILABLE &&
                 make_smaller(context, &p->config))
            again = 1; /* drivers refuse a large kernel by any code, some in clCreateKernel() */
        else if (tried > 0)
            status = cls_program_fail_smaller(status, p);
        if (status == CLS_OK && !again)
            return CLS_OK;
        if (again)
            cls_say(&context->options,
                    "%s is compiled again, for groups of %u work-items, because %s",
                    variant_of(p)->name, (unsigned)p->config.group,
                    status != CLS_OK ? cls_error_message() : "the device limits its groups");
        cls_program_release(p);
        if (!again)
            return status;
    }
}

cls_status cls_program_compile(cls_context *context, cls_program *p)
{
    p->config = usual_config(&context->shape, variant_of(p)->kernel);
    return cls_program_from_stored(context, p) ? CLS_OK : cls_program_from_source(context, p);
}

int cls_program_distrust(const cls_context *context, cls_program *p)
{
    if (p->origin == CLS_ORIGIN_SOURCE || !context->shape.compiler)
        return 0;
    p->config = usual_config(&context->shape, variant_of(p)->kernel);
    return 1;
}
