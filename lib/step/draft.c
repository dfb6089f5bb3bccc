/* SPDX-License-Identifier: MIT */
/* cls_draft(): drafts from the requests' own text. */
#include "step/step.h"

static cls_status check_lookup(const cls_draft_call *c, uint32_t vocab)
{
    if (c->k < 1 || c->k > CLS_MAX_DRAFTS)
        return cls_refuse("call->k is %u; it must be 1 to %d", (unsigned)c->k, CLS_MAX_DRAFTS);
    if (c->min_n < 1 || c->max_n < c->min_n || c->max_n > CLS_MAX_DRAFTS)
        return cls_refuse(
            "call->min_n is %u and call->max_n %u; they must be 1 to %d, and max_n at least min_n",
            (unsigned)c->min_n, (unsigned)c->max_n, CLS_MAX_DRAFTS);
    return c->fill == -1 || (c->fill >= 0 && (uint32_t)c->fill < vocab)
               ? CLS_OK
               : cls_refuse("call->fill is %d; it must be -1 or a token of the vocabulary of %u",
                            (int)c->fill, (unsigned)vocab);
}

/* Sets the default strides and the extent of the drafts. Fails if two of them lie at one place:
 * what lies along the inner stride must fit within the outer one. */
static cls_status check_draft_places(cls_plan *plan)
{
    cls_draft_call *const c = &plan->draft;
    if (c->ids_stride == 0)
        c->ids_stride = 1;
    if (c->ids_request_stride == 0)
        c->ids_request_stride = cls_extent(c->k, c->ids_stride, c->ids_stride, 1);
    const int by_requests =
        c->requests > 1 && (c->k == 1 || c->ids_request_stride >= c->ids_stride);
    const uint64_t inner = by_requests ? c->ids_stride : c->ids_request_stride,
                   outer = by_requests ? c->ids_request_stride : c->ids_stride,
                   width = cls_extent(by_requests ? c->k : c->requests, inner, 1, 1);
    if (outer < width || width > UINT64_MAX / sizeof(int32_t))
        return cls_refuse("call->ids_stride is %llu and call->ids_request_stride %llu: two of the "
                          "%u drafts of %u requests would lie at one place, or beyond all memory",
                          (unsigned long long)c->ids_stride,
                          (unsigned long long)c->ids_request_stride, (unsigned)c->k,
                          (unsigned)c->requests);
    plan->count[CLS_N_DRAFT_IDS] =
        cls_extent(by_requests ? c->requests : c->k, outer, width, sizeof(int32_t)) /
        sizeof(int32_t);
    return CLS_OK;
}

static cls_status read_lookup(const void *callers, cls_plan *plan)
{
    cls_draft_call *const c = &plan->draft;
    const uint32_t most_rows = (uint32_t)plan->count[CLS_N_MOST_ROWS];
    cls_status status = CLS_STRUCT_READ(c, callers, "call");
    plan->arg_set = CLS_ARG_SET_LOOKUP;
    plan->needs = CLS_FEATURE_VERIFY;
    plan->step.rows = c->requests;
    plan->step.slots = c->slots;
    plan->step.invalid_token = c->fill;
    if (status == CLS_OK && (c->requests < 1 || c->requests > most_rows))
        status = cls_refuse("call->requests is %u; the sampler was created for 1 to %u rows",
                            (unsigned)c->requests, (unsigned)most_rows);
    if (status == CLS_OK)
        status = check_lookup(c, (uint32_t)plan->count[CLS_N_VOCAB]);
    return status == CLS_OK ? check_draft_places(plan) : status;
}

static cls_status finish_lookup(cls_sampler *s, cls_plan *plan)
{
    if (s->history == 0)
        return cls_refuse_call("the sampler was created with options->max_history of 0: there is "
                               "no text to look drafts up in");
    return cls_row_slots_check(s, &plan->draft.slots, plan->step.rows, 1, plan);
}

static void lookup_args(cls_args *a, const cls_sampler *s, const cls_plan *plan)
{
    const cls_draft_call *const c = &plan->draft;
    (void)s;
    a->min_n = c->min_n;
    a->max_n = c->max_n;
    a->drafts = c->k;
    a->ids_stride = cls_wide_of(c->ids_stride);
    a->ids_apart = cls_wide_of(c->ids_request_stride);
}

static cl_int launch_lookup(cls_plan *plan, cls_commands *c, cl_event *done)
{
    const cl_int code = cls_args_write(plan, c, plan->arg_set);
    return code == CL_SUCCESS ? cls_step_launch(plan, c, CLS_LOOKUP, plan->arg_set, done) : code;
}

cls_status cls_draft(cls_sampler *s, cl_command_queue queue, const cls_draft_call *callers,
                     cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    static const cls_call call = {&cls_draft_operands, read_lookup,
                                  finish_lookup,       launch_lookup,
                                  cls_run_lookup,      "cannot enqueue the look-up of drafts",
                                  lookup_args};
    return cls_call_run(&call, s, queue, callers, n_wait, wait, done);
}
