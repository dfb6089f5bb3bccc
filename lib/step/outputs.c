/* SPDX-License-Identifier: MIT */
/* The outputs of rows beside their tokens: checks them and launches the kernels that write them,
 * for cls_sample() and for cls_logprobs(), which has no other outputs. */
#include "step/step.h"

#include <stddef.h>
#include <stdio.h>

enum { MAX_TOP = 128, MAX_GIVEN = 1024 };

/* The elements that an output has for each row: one, a count of the caller's, or the vocabulary. */
enum width { ONE, TOP, GIVEN, CANDIDATES, SET, VOCAB };

static const struct {
    const char *name;
    enum width width;
    size_t buffer; /* where it is in a cls_buffers */
} outputs[CLS_OUTPUTS] = {
    [CLS_OUT_LOGPROBS] = {"logprobs", ONE, offsetof(cls_buffers, logprobs)},
    [CLS_OUT_RANKS] = {"ranks", ONE, offsetof(cls_buffers, ranks)},
    [CLS_OUT_TOP_IDS] = {"top.ids", TOP, offsetof(cls_buffers, top_ids)},
    [CLS_OUT_TOP_LOGPROBS] = {"top.logprobs", TOP, offsetof(cls_buffers, top_logprobs)},
    [CLS_OUT_GIVEN_IDS] = {"given.ids", GIVEN, offsetof(cls_buffers, given_ids)},
    [CLS_OUT_GIVEN_LOGPROBS] = {"given.logprobs", GIVEN, offsetof(cls_buffers, given_logprobs)},
    [CLS_OUT_GIVEN_RANKS] = {"given.ranks", GIVEN, offsetof(cls_buffers, given_ranks)},
    [CLS_OUT_ENTROPY] = {"entropy", ONE, offsetof(cls_buffers, entropy)},
    [CLS_OUT_KEPT] = {"kept.counts", ONE, offsetof(cls_buffers, kept)},
    [CLS_OUT_KEPT_MASS] = {"kept_mass", ONE, offsetof(cls_buffers, kept_mass)},
    [CLS_OUT_CANDIDATE_IDS] = {"kept.ids", CANDIDATES, offsetof(cls_buffers, candidate_ids)},
    [CLS_OUT_CANDIDATE_LOGITS] = {"kept.logits", CANDIDATES,
                                  offsetof(cls_buffers, candidate_logits)},
    [CLS_OUT_CANDIDATE_PROBS] = {"kept.probs", CANDIDATES, offsetof(cls_buffers, candidate_probs)},
    [CLS_OUT_PROBS] = {"probs", VOCAB, offsetof(cls_buffers, probs)},
    [CLS_OUT_FINAL_LOGITS] = {"final_logits", VOCAB, offsetof(cls_buffers, final_logits)},
    [CLS_OUT_SET_IDS] = {"kept_set.ids", SET, offsetof(cls_buffers, set_ids)},
    [CLS_OUT_SET_COUNTS] = {"kept_set.counts", ONE, offsetof(cls_buffers, set_counts)},
};

/* Returns 1 if an output requires the caller's count of this width. */
static int has_count(int output, enum width width)
{
    return outputs[output].width == width || (output == CLS_OUT_SET_COUNTS && width == SET);
}

/* Checks one of the caller's counts. Fails if it exceeds its limit, if it is 0 but a buffer for it
 * is set, or if it is not 0 but no buffer is. */
static cls_status check_number(const char *call, const char *name, enum width width, uint32_t n,
                               uint32_t most, uint32_t shortlist, const cls_report *report)
{
    const char *missing = NULL, *present = NULL;
    int has_output = 0;
    for (int i = 0; i < CLS_OUTPUTS; i++) {
        if (!has_count(i, width))
            continue;
        if (report->output[i].buffer != NULL)
            present = outputs[i].name;
        else if (missing == NULL)
            missing = outputs[i].name;
        has_output |= i != CLS_OUT_GIVEN_IDS && report->output[i].buffer != NULL;
    }
    if (n > most)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "%s->%s is %u; it must be at most %u", call,
                        name, (unsigned)n, (unsigned)most);
    if (n > shortlist)
        return cls_fail(
            CLS_BAD_ARGUMENT, CL_SUCCESS,
            "%s->%s is %u, but the kernels' lists hold %u: see the context's options->shortlist",
            call, name, (unsigned)n, (unsigned)shortlist);
    if (n == 0 && present != NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "%s->%s is set, but %s->%s is 0", call,
                        present, call, name);
    if (n != 0 && width == GIVEN && report->output[CLS_OUT_GIVEN_IDS].buffer == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%s->%s is %u, but %s->given.ids.buffer is NULL", call, name, (unsigned)n,
                        call);
    if (n != 0 && !has_output)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%s->%s is %u, but no buffer for it is set (such as %s->%s)", call, name,
                        (unsigned)n, call, missing);
    return CLS_OK;
}

cls_status cls_report_check(const cls_sampler *s, const char *call, uint32_t rows, cls_report *r,
                            cls_ranges *ranges)
{
    const uint32_t shortlist = s->context->shape.shortlist;
    cls_status status = check_number(call, "top.count", TOP, r->top_n, MAX_TOP, shortlist, r);
    if (status == CLS_OK)
        status = check_number(call, "given.count", GIVEN, r->given_n, MAX_GIVEN, UINT32_MAX, r);
    if (status == CLS_OK)
        status =
            check_number(call, "kept.count", CANDIDATES, r->candidates_n, UINT32_MAX, shortlist, r);
    if (status == CLS_OK)
        status =
            check_number(call, "kept_set.capacity", SET, r->set_capacity, s->vocab, UINT32_MAX, r);
    r->wants = 0;
    for (int i = 0; i < CLS_OUTPUTS && status == CLS_OK; i++) {
        const uint64_t widths[] = {1,       r->top_n, r->given_n, r->candidates_n, r->set_capacity,
                                   s->vocab};
        char what[64];
        if (r->output[i].buffer == NULL)
            continue;
        snprintf(what, sizeof what, "%s->%s", call, outputs[i].name);
        status = cls_buffer_check(
            s->context, what, &r->output[i], rows * widths[outputs[i].width] * 4, 4,
            i == CLS_OUT_GIVEN_IDS ? CLS_KERNEL_READS : CLS_KERNEL_WRITES, ranges);
        r->wants |= CLS_WANTS(i);
    }
    if (status == CLS_OK &&
        (r->wants & ~(CLS_WANTS(CLS_OUT_PROBS) | CLS_WANTS(CLS_OUT_FINAL_LOGITS) | CLS_WANTS_SUMS |
                      CLS_WANTS_SET)))
        status = cls_compiled_features_check(s, CLS_FEATURE_LOGPROBS);
    if (status == CLS_OK &&
        (r->wants & (CLS_WANTS(CLS_OUT_PROBS) | CLS_WANTS(CLS_OUT_FINAL_LOGITS))))
        status = cls_compiled_features_check(s, CLS_FEATURE_PROBS);
    if (status == CLS_OK && (r->wants & CLS_WANTS_SET))
        status = cls_compiled_features_check(s, CLS_FEATURE_KEPT_SETS);
    /* Both kernels together compute the sums, and either feature has both. */
    if (status == CLS_OK && (r->wants & CLS_WANTS_SUMS) && !(s->features & CLS_FEATURE_PROBS))
        status = cls_compiled_features_check(s, CLS_FEATURE_LOGPROBS);
    return status;
}

/* ------------------------------------------------------------------- launches */

/* The launches that write outputs: the report of the raw row, the distribution over all tokens, the
 * report of the final set, and the kept set. */
enum { RAW = 1, TILES = 2, FINAL = 4, KEPT = 8 };

static int kinds(const cls_plan *plan)
{
    const uint32_t wants = plan->report.wants, either = wants & CLS_WANTS_OF_EITHER;
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
        s->context->shape.row_group > 1 && (plan->report.wants & CLS_WANTS(CLS_OUT_GIVEN_RANKS));
    return shared && most > SHARED ? SHARED : most;
}

uint32_t cls_report_groups(const cls_sampler *s, const cls_plan *plan)
{
    const uint32_t each = ids_per_group(s, plan);
    return 3 + (plan->report.given_n + each - 1) / each;
}

void cls_report_args(cls_args *a, const cls_sampler *s, const cls_plan *plan, int raw)
{
    const cls_report *const r = &plan->report;
    const int either = raw || plan->outputs.logprob_kind != CLS_LOGPROB_RAW;
    a->wants = r->wants & ((either ? CLS_WANTS_OF_EITHER : 0) | (raw ? 0 : ~CLS_WANTS_OF_EITHER));
    a->top_n = either ? r->top_n : 0;
    a->given_n = r->given_n;
    a->given_each = ids_per_group(s, plan);
    a->candidates_n = raw ? 0 : r->candidates_n;
    a->set_capacity = r->set_capacity;
    for (int i = 0; i < CLS_OUTPUTS; i++)
        a->output_offset[i] = cls_element_offset(&r->output[i], 4);
}

void cls_report_buffers(const cls_report *r, cls_buffers *b)
{
    for (int i = 0; i < CLS_OUTPUTS; i++)
        *(cl_mem *)(void *)((char *)b + outputs[i].buffer) = r->output[i].buffer;
}

/* Counts the tokens of the kept sets by groups of tiles, then writes the sets. */
static cl_int launch_kept(const cls_plan *plan, cls_commands *c, cl_event *done)
{
    const cls_buffers b = cls_step_buffers(c->sampler, plan, plan->arg_set);
    cl_int code = CL_SUCCESS;
    for (uint32_t counting = 2; counting-- > 0 && code == CL_SUCCESS;) {
        cls_arguments a = cls_kernel_arguments(
            cls_step_kernel(c->sampler, plan, CLS_KEPT, plan->arg_set), CLS_KEPT, &b);
        cls_set_u32(&a, counting);
        code = cls_step_launch_arguments(plan, c, CLS_KEPT, &a, counting ? NULL : done);
    }
    return code;
}

cl_int cls_report_launch(const cls_plan *plan, cls_commands *c, cl_event *done)
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

static cls_status check(cls_sampler *s, cl_command_queue queue, const cls_logprobs_call *callers,
                        cl_uint n_wait, const cl_event *wait, cls_plan *plan)
{
    static const cls_ints none;
    cls_logprobs_call call;
    memset(plan, 0, sizeof *plan);
    if (s == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "sampler is NULL");
    cls_status status = CLS_STRUCT_READ(&call, callers, "call");
    if (status == CLS_OK)
        status = cls_wait_check(s->context, n_wait, wait);
    if (status == CLS_OK && (call.rows < 1 || call.rows > s->max_rows))
        status = cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                          "call->rows is %u; the sampler was created for 1 to %u",
                          (unsigned)call.rows, (unsigned)s->max_rows);
    if (status == CLS_OK)
        status = cls_queue_check(s->context, queue, &plan->ordered);
    if (status != CLS_OK)
        return status;
    plan->step.rows = call.rows;
    plan->step.logits = call.logits;
    plan->outputs.logprob_kind = CLS_LOGPROB_RAW;
    plan->has = CLS_NO_SLOTS;
    for (int i = 0; i < CLS_STEP_MAPS; i++)
        plan->map[i] = &none;
    plan->report.top_n = call.top.count;
    plan->report.given_n = call.given.count;
    plan->report.output[CLS_OUT_TOP_IDS] = call.top.ids;
    plan->report.output[CLS_OUT_TOP_LOGPROBS] = call.top.logprobs;
    plan->report.output[CLS_OUT_GIVEN_IDS] = call.given.ids;
    plan->report.output[CLS_OUT_GIVEN_LOGPROBS] = call.given.logprobs;
    plan->report.output[CLS_OUT_GIVEN_RANKS] = call.given.ranks;
    status = cls_logits_check(s, "call", plan);
    if (status == CLS_OK)
        status = cls_report_check(s, "call", call.rows, &plan->report, &plan->ranges);
    if (status == CLS_OK)
        status = cls_ranges_check(&plan->ranges);
    if (status == CLS_OK)
        status = cls_reserved_check("call->reserved", call.reserved);
    if (status == CLS_OK)
        status = cls_reserved_check("call->top.reserved", call.top.reserved);
    if (status == CLS_OK)
        status = cls_reserved_check("call->given.reserved", call.given.reserved);
    if (status == CLS_OK && plan->report.wants == 0)
        status = cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                          "call->top.count and call->given.count are 0: no output is requested");
    return status;
}

static cls_status logprobs_of_rows(cls_sampler *s, cl_command_queue queue,
                                   const cls_logprobs_call *call, cl_uint n_wait,
                                   const cl_event *wait, cl_event *done)
{
    cls_plan plan;
    cls_commands c;
    cls_args a;
    cl_event end = NULL;
    cls_status status = check(s, queue, call, n_wait, wait, &plan);
    if (status == CLS_OK)
        status = cls_commands_begin(&c, s, queue, plan.ordered, n_wait, wait, 0, NULL);
    if (status != CLS_OK)
        return status;
    cls_step_args(&a, s, &plan, CLS_ARG_SET_RAW);
    cl_int code = cls_commands_write_args(&c, CLS_ARG_SET_RAW, &a);
    if (code == CL_SUCCESS)
        code = cls_report_launch(&plan, &c, &end);
    return cls_commands_end(&c, code, "cannot enqueue the log-probabilities", end, done);
}

cls_status cls_logprobs(cls_sampler *s, cl_command_queue queue, const cls_logprobs_call *call,
                        cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    if (done != NULL)
        *done = NULL;
    return CLS_GUARDED_CALL(s, logprobs_of_rows(s, queue, call, n_wait, wait, done));
}
