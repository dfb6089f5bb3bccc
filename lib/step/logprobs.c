/* SPDX-License-Identifier: MIT */
/* cls_logprobs(): outputs of rows without slots and tokens. */
#include "step/step.h"

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
    static const cls_call call = {&cls_logprobs_operands,
                                  read_logprobs,
                                  finish_logprobs,
                                  launch_logprobs,
                                  cls_run_logprobs,
                                  "cannot enqueue the log-probabilities",
                                  NULL};
    return cls_call_run(&call, s, queue, callers, n_wait, wait, done);
}
