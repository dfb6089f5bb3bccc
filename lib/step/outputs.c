/* SPDX-License-Identifier: MIT */
/* The outputs of rows beside their tokens: checks them and launches the kernels that write them,
 * for cls_sample() and for cls_logprobs(), which has no other outputs. */
#include "step/step.h"

/* The launches that write outputs: the report of the raw row, the distribution over all tokens, the
 * report of the final set, and the kept set. */
enum { RAW = 1, TILES = 2, FINAL = 4, KEPT = 8 };

static int kinds(const cls_plan *plan)
{
    const uint32_t wants = plan->wants, either = wants & CLS_WANTS_OF_EITHER;
    const uint32_t final = wants & ~(CLS_WANTS_OF_EITHER | CLS_WANTS(CLS_OUT_PROBS) |
                                     CLS_WANTS(CLS_OUT_FINAL_LOGITS) | CLS_WANTS_SET);
    const int raw = plan->outputs.logprob_kind == CLS_LOGPROB_RAW;
    return (raw && either ? RAW : 0) | (wants & CLS_WANTS_TILES ? TILES : 0) |
           (final || (!raw && either) ? FINAL : 0) | (wants & CLS_WANTS_SET ? KEPT : 0);
}

int cls_report_of_raw(const cls_plan *plan) { return (kinds(plan) & RAW) != 0; }

int cls_report_of_final(const cls_plan *plan) { return (kinds(plan) & ~RAW) != 0; }

/* Returns how many of the caller's ids a work-group serves. A group of one item counts the ranks of
 * its ids in one read of the row. A larger group needs a read for every four ids, so that more
 * groups share the reads. A group can take at most half of the kernel's list. */
static uint32_t ids_per_group(const cls_sampler *s, const cls_plan *plan)
{
    enum { SHARED = 16 };
    const uint32_t most = s->context->shape.shortlist / 2;
    const int shared =
        s->context->shape.row_group > 1 && (plan->wants & CLS_WANTS(CLS_OUT_GIVEN_RANKS));
    return shared && most > SHARED ? SHARED : most;
}

uint32_t cls_report_groups(const cls_sampler *s, const cls_plan *plan)
{
    const uint32_t each = ids_per_group(s, plan);
    return 3 + (plan->outputs.given.count + each - 1) / each;
}

void cls_report_args(cls_args *a, const cls_sampler *s, const cls_plan *plan, int raw)
{
    const cls_outputs *const o = &plan->outputs;
    const int either = raw || o->logprob_kind != CLS_LOGPROB_RAW;
    const uint32_t report = (either ? CLS_WANTS_OF_EITHER : 0) | (raw ? 0 : ~CLS_WANTS_OF_EITHER);
    a->wants = plan->wants & (plan->arg_set == CLS_ARG_SET_VERIFY ? UINT32_MAX : report);
    a->top_n = either ? o->top.count : 0;
    a->given_n = o->given.count;
    a->given_each = ids_per_group(s, plan);
    a->candidates_n = raw ? 0 : o->kept.count;
    a->set_capacity = o->kept_set.capacity;
}

/* Counts the tokens of the kept sets by groups of tiles, then writes the sets. */
static cl_int launch_kept(cls_plan *plan, cls_commands *c, cl_event *done)
{
    cl_int code = CL_SUCCESS;
    for (uint32_t counting = 2; counting-- > 0 && code == CL_SUCCESS;) {
        cls_arguments a = cls_step_arguments(plan, c->sampler, CLS_KEPT, plan->arg_set);
        cls_set_u32(&a, counting);
        code = cls_step_launch_arguments(plan, c, CLS_KEPT, &a, counting ? NULL : done);
    }
    return code;
}

cl_int cls_report_launch(cls_plan *plan, cls_commands *c, cl_event *done)
{
    const int k = kinds(plan);
    cl_int code = CL_SUCCESS;
    if (k & RAW)
        code = cls_step_launch(plan, c, CLS_SURVEY, CLS_ARG_SET_RAW, NULL);
    if (code == CL_SUCCESS && (k & RAW))
        code = cls_step_launch(plan, c, CLS_REPORT, CLS_ARG_SET_RAW, k == RAW ? done : NULL);
    if (code == CL_SUCCESS && (k & TILES))
        code = cls_step_launch(plan, c, CLS_DISTRIBUTION, plan->arg_set,
                               !(k & (FINAL | KEPT)) ? done : NULL);
    if (code == CL_SUCCESS && (k & FINAL))
        code = cls_step_launch(plan, c, CLS_REPORT, plan->arg_set, !(k & KEPT) ? done : NULL);
    if (code == CL_SUCCESS && (k & KEPT))
        code = launch_kept(plan, c, done);
    return code;
}

/* -------------------------------------------------------------------- prompts */

static cls_status read_logprobs(const void *callers, cls_plan *plan)
{
    cls_logprobs_call call;
    const cls_status status = CLS_STRUCT_READ(&call, callers, "call");
    plan->step.rows = call.rows;
    plan->step.logits = call.logits;
    plan->outputs.logprob_kind = CLS_LOGPROB_RAW;
    plan->outputs.top = call.top;
    plan->outputs.given = call.given;
    plan->has = CLS_NO_SLOTS;
    return status == CLS_OK ? cls_reserved_check("call->reserved", call.reserved) : status;
}

static cls_status finish_logprobs(cls_sampler *s, cls_plan *plan)
{
    (void)s;
    return plan->wants != 0
               ? CLS_OK
               : cls_refuse("call->top.count and call->given.count are 0: no output is requested");
}

static cl_int launch_logprobs(cls_plan *plan, cls_commands *c, cl_event *done)
{
    const cl_int code = cls_args_write(plan, c, CLS_ARG_SET_RAW);
    return code == CL_SUCCESS ? cls_report_launch(plan, c, done) : code;
}

cls_status cls_logprobs(cls_sampler *s, cl_command_queue queue, const cls_logprobs_call *callers,
                        cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    static const cls_call call = {&cls_logprobs_operands, read_logprobs, finish_logprobs,
                                  launch_logprobs, "cannot enqueue the log-probabilities"};
    return cls_call_run(&call, s, queue, callers, n_wait, wait, done);
}
