/* SPDX-License-Identifier: MIT */
/* Writes the arguments of a step's kernels, and launches the kernels. */
#include "step/step.h"

#include <stddef.h>

static int is_raw(enum cls_arg_set arg_set)
{
    return arg_set == CLS_ARG_SET_RAW || arg_set == CLS_ARG_SET_DRAFTS;
}

uint32_t cls_step_tiles_per_group(const cls_sampler *s, uint64_t tiles)
{
    return s->tiles_per_group != 0 ? s->tiles_per_group
                                   : cls_shape_tiles_per_group(&s->context->shape, tiles);
}

static uint32_t step_tiles_per_group(const cls_sampler *s, uint32_t rows)
{
    return cls_step_tiles_per_group(s, (uint64_t)s->tiles * rows);
}

/* Returns the bits of `has` for an argument set. The tokens of a step are an output; those of
 * cls_accept() are an input. */
static uint32_t has_of(const cls_plan *plan, enum cls_arg_set arg_set)
{
    return arg_set != CLS_ARG_SET_ACCEPT ? plan->has | plan->wide | (is_raw(arg_set) ? CLS_RAW : 0)
           : plan->count[CLS_N_PER_ROW] != 0 ? plan->has
                                             : plan->has & (CLS_HAS_SLOT_MAP | CLS_DRAFTS);
}

void cls_step_args(cls_args *a, const cls_sampler *s, const cls_plan *plan,
                   enum cls_arg_set arg_set)
{
    const cls_step *const step = &plan->step;
    memset(a, 0, sizeof *a);
    cls_operands_args(a, s, plan);
    a->vocab = a->last = s->vocab;
    a->n_slots = s->slots;
    a->layout = s->layout;
    a->has = has_of(plan, arg_set);
    a->n_rows = step->rows;
    a->scratch_stride = s->scratch_stride;
    a->tiles_per_group = step_tiles_per_group(s, step->rows);
    a->mask_width = step->mask.width;
    a->mask_rows = step->mask.rows;
    a->bias_rows = step->bias.rows;
    a->bias_factor = step->bias.factor;
    if (step->logits.softcap != 0.0f) {
        a->softcap = step->logits.softcap;
        a->softcap_reciprocal = cls_softcap_reciprocal(step->logits.softcap);
    }
    a->logits_rows = step->logits_rows;
    a->invalid_token = step->invalid_token;
    a->n_end = s->infill_end_count;
    a->per_row = 1;
    a->grammar_rows = s->grammar_rows != NULL ? s->grammar_rows->offset : 0;
    cls_report_args(a, s, plan, is_raw(arg_set));
    if (plan->args != NULL)
        plan->args(a, s, plan);
}

cls_arguments cls_step_arguments(cls_plan *plan, const cls_sampler *s, enum cls_kernel which,
                                 enum cls_arg_set arg_set)
{
    cls_buffers *const b = &plan->buffers;
    const int raw = is_raw(arg_set), apart = raw && !(plan->has & CLS_RAW_MASS);
    b->args = s->arg_buffers[arg_set].buffer;
    b->values = s->context->shape.by_value ? &s->arg_buffers[arg_set].written : NULL;
    const cl_mem own[3] = {s->tile_key, s->tile_mass, s->tile_flags},
                 of_raw[3] = {s->raw_key, s->raw_mass, s->raw_flags},
                 *const survey = plan->survey != NULL ? plan->survey
                                 : apart              ? of_raw
                                                      : own;
    b->tile_key = survey[0];
    b->tile_mass = survey[1];
    b->tile_flags = survey[2];
    b->lasts[CLS_PLACE(tile_key)] = b->lasts[CLS_PLACE(tile_mass)] =
        b->lasts[CLS_PLACE(tile_flags)] = plan->survey == NULL;
    /* Raw rows need nothing but the soft-cap and the places that a verification reports to. */
    const uint32_t of_raw_rows = (which == CLS_REPORT ? CLS_FEATURE_VERIFY : 0) |
                                 (plan->step.logits.softcap != 0.0f ? CLS_FEATURE_SOFTCAP : 0),
                   needs = raw ? plan->needs & of_raw_rows : plan->needs;
    return cls_kernel_arguments(cls_sampler_kernel(s, which, plan->step.logits.dtype, needs), which,
                                b);
}

/* Returns how many groups a kernel has beside each other: of a verification, one for each request
 * or for each token that is reported on; else one for each row. */
static size_t groups_over_rows(const cls_plan *plan, enum cls_kernel which)
{
    const int of_tokens = which == CLS_REPORT || which == CLS_KEPT,
              of_requests = which == CLS_VERIFY || which == CLS_ACCEPT;
    return of_tokens                                         ? (size_t)plan->count[CLS_N_PLACES]
           : of_requests && plan->count[CLS_N_REQUESTS] != 0 ? (size_t)plan->count[CLS_N_REQUESTS]
                                                             : plan->step.rows;
}

cl_int cls_step_launch_arguments(const cls_plan *plan, cls_commands *c, enum cls_kernel which,
                                 const cls_arguments *a, cl_event *done)
{
    const cls_sampler *const s = c->sampler;
    const int over_tiles = cls_kernel_covers_tiles(which);
    const uint32_t per_group = step_tiles_per_group(s, plan->step.rows);
    const size_t parts = which == CLS_REPORT ? cls_report_groups(s, plan) : 1;
    const size_t groups[2] = {over_tiles ? (s->tiles + per_group - 1) / per_group : parts,
                              groups_over_rows(plan, which)};
    return cls_commands_launch(c, a, groups, done);
}

cl_int cls_step_launch(cls_plan *plan, cls_commands *c, enum cls_kernel which,
                       enum cls_arg_set arg_set, cl_event *done)
{
    const cls_arguments a = cls_step_arguments(plan, c->sampler, which, arg_set);
    return cls_step_launch_arguments(plan, c, which, &a, done);
}

cl_int cls_args_write(const cls_plan *plan, cls_commands *c, enum cls_arg_set arg_set)
{
    cls_args a;
    cls_step_args(&a, c->sampler, plan, arg_set);
    return cls_commands_write_args(c, arg_set, &a);
}

cl_int cls_step_launch_twice(cls_plan *plan, cls_commands *c, enum cls_kernel which)
{
    const size_t rows[2] = {1, plan->step.rows};
    cls_arguments a = cls_step_arguments(plan, c->sampler, which, plan->arg_set);
    cls_set_u32(&a, 0);
    const cl_int code = cls_step_launch_arguments(plan, c, which, &a, NULL);
    a = cls_step_arguments(plan, c->sampler, which, plan->arg_set);
    cls_set_u32(&a, 1);
    return code == CL_SUCCESS ? cls_commands_launch(c, &a, rows, NULL) : code;
}

/* -------------------------------------------------------------------- outputs */

/* Counts the tokens of the kept sets by groups of tiles, finds their places if they are to lie one
 * behind the other, and writes the sets. */
static cl_int launch_kept(cls_plan *plan, cls_commands *c, cl_event *done)
{
    static const uint32_t launches[] = {CLS_KEPT_COUNT, CLS_KEPT_PLACE, CLS_KEPT_WRITE};
    static const size_t one_group[2] = {1, 1};
    cl_int code = CL_SUCCESS;
    for (int i = 0; i < 3 && code == CL_SUCCESS; i++) {
        const int places = launches[i] == CLS_KEPT_PLACE;
        if (places && !(plan->wants & CLS_WANTS(CLS_OUT_SET_OFFSETS)))
            continue;
        cls_arguments a = cls_step_arguments(plan, c->sampler, CLS_KEPT, plan->arg_set);
        cls_set_u32(&a, launches[i]);
        code = places ? cls_commands_launch(c, &a, one_group, NULL)
                      : cls_step_launch_arguments(plan, c, CLS_KEPT, &a, i == 2 ? done : NULL);
    }
    return code;
}

cl_int cls_report_launch(cls_plan *plan, cls_commands *c, cl_event *done)
{
    const int k = cls_report_kinds(plan);
    cl_int code = CL_SUCCESS;
    if ((k & CLS_REPORT_OF_RAW) && !(plan->has & CLS_RAW_MASS))
        code = cls_step_launch(plan, c, CLS_SURVEY, CLS_ARG_SET_RAW, NULL);
    if (code == CL_SUCCESS && (k & CLS_REPORT_OF_RAW))
        code = cls_step_launch(plan, c, CLS_REPORT, CLS_ARG_SET_RAW,
                               k == CLS_REPORT_OF_RAW ? done : NULL);
    if (code == CL_SUCCESS && (k & CLS_REPORT_OF_TILES))
        code = cls_step_launch(plan, c, CLS_DISTRIBUTION, plan->arg_set,
                               !(k & (CLS_REPORT_OF_FINAL | CLS_REPORT_OF_KEPT)) ? done : NULL);
    if (code == CL_SUCCESS && (k & CLS_REPORT_OF_FINAL))
        code = cls_step_launch(plan, c, CLS_REPORT, plan->arg_set,
                               !(k & CLS_REPORT_OF_KEPT) ? done : NULL);
    if (code == CL_SUCCESS && (k & CLS_REPORT_OF_KEPT))
        code = launch_kept(plan, c, done);
    return code;
}
