/* SPDX-License-Identifier: MIT */
/* cls_sample() and cls_accept(): a step checks its arguments, uploads what changed and enqueues the
 * kernels. It never waits, and allocates only for large masks on the host. */
#include "step/step.h"

/* --------------------------------------------------------------------- launches */

cl_int cls_step_rows(cls_plan *plan, cls_commands *c, cl_event *done)
{
    cl_int code = cls_step_launch(plan, c, CLS_TOKEN, plan->arg_set, plan->search ? NULL : done);
    if (code == CL_SUCCESS && plan->search)
        code = cls_step_launch(plan, c, CLS_PASS, plan->arg_set, NULL);
    if (code == CL_SUCCESS && plan->search)
        code = cls_step_launch(plan, c, CLS_SEARCH, plan->arg_set, done);
    if (code == CL_SUCCESS && (plan->needs & CLS_FEATURE_WATERMARK))
        code = cls_step_launch_twice(plan, c, CLS_WATERMARK);
    return code;
}

/* Writes the arguments of the force kernel, which finishes a plan's rows, if they need it. The
 * kernels before it then accept nothing and do not write `latest`; it writes tokens and statuses
 * again. */
static cl_int write_force_args(cls_plan *plan, cls_commands *c)
{
    plan->forces = (plan->needs & (CLS_FEATURE_FORCED | CLS_FEATURE_WATERMARK)) != 0;
    if (!plan->forces)
        return CL_SUCCESS;
    const cl_int code = cls_args_write(plan, c, CLS_ARG_SET_FORCE);
    plan->has &= ~(uint32_t)CLS_HAS_LATEST;
    plan->has |= CLS_DEFER | CLS_ACCEPTS_LATER;
    return code;
}

cl_int cls_step_write_args(cls_plan *plan, cls_commands *c)
{
    /* Outputs of the final distribution are computed before the token is accepted, which would
     * change that distribution. */
    plan->accept_later = cls_report_of_final(plan) && !(plan->has & CLS_DEFER);
    plan->has |= plan->accept_later ? CLS_DEFER | CLS_ACCEPTS_LATER : 0;
    cl_int code = write_force_args(plan, c);
    if (code == CL_SUCCESS)
        code = cls_args_write(plan, c, plan->arg_set);
    if (code == CL_SUCCESS && cls_report_of_raw(plan))
        code = cls_args_write(plan, c, CLS_ARG_SET_RAW);
    if (code == CL_SUCCESS && plan->accept_later)
        code = cls_args_write(plan, c, CLS_ARG_SET_ACCEPT);
    return code;
}

cl_int cls_step_draw(cls_plan *plan, cls_commands *c, cl_event *done)
{
    const int reports = cls_report_of_final(plan) || cls_report_of_raw(plan);
    cl_event *const finished = reports ? NULL : done, *const drawn = plan->forces ? NULL : finished;
    cl_int code = cls_step_rows(plan, c, drawn);
    if (code == CL_SUCCESS && plan->forces)
        code = cls_step_launch(plan, c, CLS_FORCE, CLS_ARG_SET_FORCE, finished);
    if (code == CL_SUCCESS && reports)
        code = cls_report_launch(plan, c, !plan->accept_later ? done : NULL);
    if (code == CL_SUCCESS && plan->accept_later)
        code = cls_step_launch(plan, c, CLS_ACCEPT, CLS_ARG_SET_ACCEPT, done);
    return code;
}

/* Returns CLS_RAW_MASS if the raw rows need no survey of their own. */
static uint32_t raw_mass(const cls_plan *plan)
{
    const uint32_t differs = CLS_FEATURE_PENALTIES | CLS_FEATURE_HISTORY | CLS_FEATURE_MASK |
                             CLS_FEATURE_BIAS | CLS_FEATURE_FORCED | CLS_FEATURE_WATERMARK |
                             CLS_NEED_SCALED;
    return cls_report_of_raw(plan) && !(plan->needs & differs) ? CLS_RAW_MASS : 0;
}

static cl_int launch_step(cls_plan *plan, cls_commands *c, cl_event *done)
{
    plan->has |= raw_mass(plan);
    cl_int code = cls_step_write_args(plan, c);
    if (code == CL_SUCCESS && plan->prepare)
        code = cls_step_launch(plan, c, CLS_PREPARE, plan->arg_set, NULL);
    if (code == CL_SUCCESS)
        code = cls_step_launch(plan, c, CLS_SURVEY, plan->arg_set, NULL);
    return code == CL_SUCCESS ? cls_step_draw(plan, c, done) : code;
}

/* ----------------------------------------------------------------------------- steps */

static cls_status read_step(const void *callers, cls_plan *plan)
{
    cls_status status = CLS_STRUCT_READ(&plan->step, callers, "step");
    return status == CLS_OK ? cls_outputs_read(plan, plan->step.outputs) : status;
}

static cls_status finish_step(cls_sampler *sampler, cls_plan *plan)
{
    const cls_step *const s = &plan->step;
    if (!(plan->has & CLS_HAS_LOGITS_MAP) && s->logits_rows < s->rows)
        return cls_refuse("step->logits_rows is %u for %u rows, but step->logits_map is not set",
                          (unsigned)s->logits_rows, (unsigned)s->rows);
    if (s->defer_accept && s->invalid_token >= 0 && (uint32_t)s->invalid_token < sampler->vocab)
        return cls_refuse("step->invalid_token is %d, which is a token: with step->defer_accept a "
                          "later cls_accept() would accept it for rows without a token",
                          (int)s->invalid_token);
    plan->has |= s->defer_accept ? CLS_DEFER : 0;
    const int shared = s->defer_accept && !(plan->has & CLS_HAS_LATEST);
    const cls_status status = cls_row_slots_check(sampler, &s->slots, s->rows, shared, plan);
    return status == CLS_OK && (plan->has & CLS_HAS_RANDOM) && (plan->needs & CLS_FEATURE_WATERMARK)
               ? cls_refuse("step->random_bits is set, but params->watermark_context decides the "
                            "draw of a slot that step->slots names or may name")
               : status;
}

const cls_call cls_step_call = {
    &cls_step_operands,        read_step, finish_step, launch_step, cls_run_step,
    "cannot enqueue the step", NULL};

cls_status cls_sample(cls_sampler *s, cl_command_queue queue, const cls_step *step, cl_uint n_wait,
                      const cl_event *wait, cl_event *done)
{
    return cls_call_run(&cls_step_call, s, queue, step, n_wait, wait, done);
}

/* ---------------------------------------------------------------------- acceptance */

static cls_status read_accepted(const void *callers, cls_plan *plan)
{
    cls_accept_call *const call = &plan->accept;
    const cls_status status = CLS_STRUCT_READ(call, callers, "call");
    plan->step.rows = call->rows;
    plan->step.slots = call->slots;
    plan->count[CLS_N_PER_ROW] = call->per_row;
    plan->count[CLS_N_ACCEPTED] = call->per_row + UINT64_C(1);
    plan->needs = CLS_FEATURE_ACCEPT;
    return status != CLS_OK || (call->per_row >= 1 && call->per_row <= CLS_MAX_ACCEPTED)
               ? status
               : cls_refuse("call->per_row is %u; it must be 1 to %d", (unsigned)call->per_row,
                            CLS_MAX_ACCEPTED);
}

static cls_status finish_accepted(cls_sampler *s, cls_plan *plan)
{
    return cls_row_slots_check(s, &plan->accept.slots, plan->step.rows, 0, plan);
}

static void accept_args(cls_args *a, const cls_sampler *s, const cls_plan *plan)
{
    (void)s;
    a->per_row = plan->accept.per_row;
}

static cl_int launch_accepted(cls_plan *plan, cls_commands *c, cl_event *done)
{
    const cl_int code = cls_args_write(plan, c, CLS_ARG_SET_ACCEPT);
    return code == CL_SUCCESS ? cls_step_launch(plan, c, CLS_ACCEPT, CLS_ARG_SET_ACCEPT, done)
                              : code;
}

cls_status cls_accept(cls_sampler *s, cl_command_queue queue, const cls_accept_call *callers,
                      cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    static const cls_call call = {&cls_accept_operands, read_accepted,
                                  finish_accepted,      launch_accepted,
                                  cls_run_accept,       "cannot enqueue the acceptance",
                                  accept_args};
    return cls_call_run(&call, s, queue, callers, n_wait, wait, done);
}

uint32_t cls_sampler_missing(const cls_sampler *s)
{
    return s != NULL ? s->missing_of_step & ~s->features : 0;
}

uint32_t cls_sampler_launches(const cls_sampler *s) { return s != NULL ? s->launches : 0; }

/* ----------------------------------------------------------------- for tests */

cls_status cls_sampler_trace(cls_sampler *s, cl_command_queue queue, cls_row *rows, uint32_t n)
{
    if (s->host != NULL) {
        memcpy(rows, s->host->record, n * sizeof *rows);
        return CLS_OK;
    }
    cls_sampler_flush(s, queue);
    const cl_int code = clEnqueueReadBuffer(queue, s->rows, CL_TRUE, 0, n * sizeof *rows, rows,
                                            s->last_event != NULL ? 1 : 0,
                                            s->last_event != NULL ? &s->last_event : NULL, NULL);
    return cls_opencl_status(code, "cannot read the row records");
}
