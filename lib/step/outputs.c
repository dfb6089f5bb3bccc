/* SPDX-License-Identifier: MIT */
/* The outputs of rows beside their tokens: which kernels write them, and with which arguments. */
#include "step/step.h"

#include <string.h>

cls_status cls_outputs_read(cls_plan *plan, const cls_outputs *callers)
{
    cls_kept_set *const set = &plan->outputs.kept_set;
    cls_status status = CLS_OK;
    if (callers != NULL)
        status = CLS_STRUCT_READ(&plan->outputs, callers, "outputs");
    if (status == CLS_OK && !cls_buffer_is_blank(&set->offsets)) {
        plan->packed = *set;
        memset(set, 0, sizeof *set);
    }
    return status;
}

int cls_report_kinds(const cls_plan *plan)
{
    const uint32_t wants = plan->wants & CLS_WANTS_OUTPUTS, either = wants & CLS_WANTS_OF_EITHER;
    const uint32_t final = wants & ~(CLS_WANTS_OF_EITHER | CLS_WANTS(CLS_OUT_PROBS) |
                                     CLS_WANTS(CLS_OUT_FINAL_LOGITS) | CLS_WANTS_SET);
    const int raw = plan->outputs.logprob_kind == CLS_LOGPROB_RAW;
    return (raw && either ? CLS_REPORT_OF_RAW : 0) |
           (wants & CLS_WANTS_TILES ? CLS_REPORT_OF_TILES : 0) |
           (final || (!raw && either) ? CLS_REPORT_OF_FINAL : 0) |
           (wants & CLS_WANTS_SET ? CLS_REPORT_OF_KEPT : 0);
}

int cls_report_of_raw(const cls_plan *plan)
{
    return (cls_report_kinds(plan) & CLS_REPORT_OF_RAW) != 0;
}

int cls_report_of_final(const cls_plan *plan)
{
    return (cls_report_kinds(plan) & ~CLS_REPORT_OF_RAW) != 0;
}

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
    a->wants = plan->wants & (report | ~CLS_WANTS_OUTPUTS);
    a->top_n = either ? o->top.count : 0;
    a->given_n = o->given.count;
    a->given_each = ids_per_group(s, plan);
    a->candidates_n = raw ? 0 : o->kept.count;
    a->set_capacity = o->kept_set.capacity + plan->packed.capacity; /* one is 0 */
}

/* -------------------------------------------------------------------- prompts */
