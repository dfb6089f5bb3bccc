/* SPDX-License-Identifier: MIT */
/* The reference of cls_verify(), part 1: checks the drafts of a request and allocates its memory.
 */
#include "reference/reference.h"

#include <stdlib.h>

static cls_status check_range(const char *name, int64_t value, int64_t least, int64_t most)
{
    return value >= least && value <= most
               ? CLS_OK
               : cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                          "drafts->%s is %lld; it must be %lld to %lld", name, (long long)value,
                          (long long)least, (long long)most);
}

static cls_status check_share(const char *name, float value, float most)
{
    return value > 0.0f && value <= most
               ? CLS_OK
               : cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                          "drafts->%s is %g; it must be above 0 and at most %g", name,
                          (double)value, (double)most);
}

static cls_status check_host_parents(const cls_host_drafts *d)
{
    for (uint32_t i = 0; i < d->draft_count && d->parents != NULL; i++)
        if (d->parents[i] < -1 || d->parents[i] >= (int32_t)i)
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                            "drafts->parents[%u] is %d; it must be -1 or an earlier draft",
                            (unsigned)i, (int)d->parents[i]);
    return CLS_OK;
}

static cls_status check_host_drafts(const cls_host_drafts *d)
{
    const int distributions = d->method == CLS_VERIFY_STANDARD || d->method == CLS_VERIFY_BLOCK;
    cls_status status = check_range("draft_count", d->draft_count, 0, CLS_MAX_DRAFTS);
    if (status == CLS_OK)
        status = cls_method_check("drafts", d->method, d->parents != NULL);
    if (status == CLS_OK)
        status = check_range("draft_kind", d->draft_kind, CLS_DRAFT_NONE, CLS_DRAFT_LOGITS);
    if (status == CLS_OK && d->draft_count != 0 && d->ids == NULL)
        status = cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                          "drafts->ids is NULL, but drafts->draft_count is %u",
                          (unsigned)d->draft_count);
    if (status == CLS_OK && d->draft_count != 0 && distributions &&
        d->draft_kind != CLS_DRAFT_NONE && d->draft == NULL)
        status =
            cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                     "drafts->draft is NULL, but drafts->draft_kind is %d", (int)d->draft_kind);
    if (status == CLS_OK && d->method == CLS_VERIFY_TYPICAL)
        status = check_share("epsilon", d->epsilon, 1.0f);
    if (status == CLS_OK && d->method == CLS_VERIFY_TYPICAL)
        status = check_share("delta", d->delta, 16.0f);
    return status == CLS_OK ? check_host_parents(d) : status;
}

/* Sets the default strides. Fails if a row does not fit in its stride; the strides of an absent
 * mask or bias do not matter. */
static cls_status check_strides(cls_verification *v)
{
    const struct {
        const char *name;
        uint64_t *stride;
        uint64_t width;
    } strides[] = {
        {"logits_stride", &v->drafts.logits_stride, v->w.row.vocab},
        {"mask_stride", &v->drafts.mask_stride, v->w.row.mask != NULL ? v->w.row.mask_width : 0},
        {"bias_stride", &v->drafts.bias_stride, v->w.row.bias != NULL ? v->w.row.vocab : 0},
        {"ids_stride", &v->drafts.ids_stride, 1},
        {"draft_stride", &v->drafts.draft_stride, v->drafts.draft != NULL ? v->w.row.vocab : 0},
    };
    for (size_t i = 0; i < sizeof strides / sizeof strides[0]; i++) {
        if (*strides[i].stride == 0)
            *strides[i].stride = strides[i].width;
        if (*strides[i].stride < strides[i].width)
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                            "drafts->%s is %llu, which is less than the %llu elements of a row",
                            strides[i].name, (unsigned long long)*strides[i].stride,
                            (unsigned long long)strides[i].width);
    }
    if (v->w.row.random_bits != NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "drafts->row->random_bits is set, but a verification draws by position");
    return CLS_OK;
}

static cls_status check_host_relaxed(const cls_verification *v)
{
    return v->drafts.parents == NULL || !(v->w.slot.flags & CLS_SLOT_RELAXED)
               ? CLS_OK
               : cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                          "drafts->parents is set, and so is params->relaxed_top_k; relaxed "
                          "acceptance supports no trees");
}

static cls_status verify_host(cls_verification *v)
{
    const size_t n = v->w.vocab, count = v->w.row.output_count, drafts = v->drafts.draft_count;
    v->p = malloc(n * sizeof *v->p);
    v->q = malloc(n * sizeof *v->q);
    v->output = malloc((count + drafts + 1) * sizeof *v->output);
    v->ids = malloc((drafts + 1) * sizeof *v->ids);
    if (v->p == NULL || v->q == NULL || v->output == NULL || v->ids == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS,
                        "out of host memory for a verification of %u tokens", (unsigned)n);
    if (count != 0)
        memcpy(v->output, v->w.row.output, count * sizeof *v->output);
    v->w.row.output = v->output;
    for (size_t k = 0; k < drafts; k++)
        v->ids[k] = v->drafts.ids[k * v->drafts.ids_stride];
    v->drafts.ids = v->ids;
    v->first = v->w.row;
    v->one_token = (v->w.slot.flags & (CLS_SLOT_STATEFUL | CLS_SLOT_DECAYS)) !=
                   0; /* a greedy slot has none of these flags */
    v->by_token = (v->w.slot.flags & CLS_SLOT_GREEDY) != 0 || v->drafts.method == CLS_VERIFY_MATCH;
    cls_verification_walk(v);
    v->result.status = (int32_t)v->status;
    return CLS_OK;
}

cls_status cls_host_verify(const cls_host_drafts *drafts, cls_host_verified *callers)
{
    cls_verification v;
    memset(&v, 0, sizeof v);
    cls_status status = CLS_STRUCT_READ(&v.drafts, drafts, "drafts");
    if (status == CLS_OK)
        status = CLS_STRUCT_READ_OUTPUT(&v.result, callers, "result");
    if (status == CLS_OK)
        status = check_host_drafts(&v.drafts);
    if (status == CLS_OK)
        status = cls_switch_check("drafts->disable_bonus", v.drafts.disable_bonus);
    if (status == CLS_OK)
        status = cls_reserved_check("drafts->reserved", v.drafts.reserved);
    if (status != CLS_OK)
        return status;
    v.result.accepted = v.result.emitted = 0;
    status = cls_scratch_open(&v.w, v.drafts.row, v.drafts.draft_count);
    if (status == CLS_OK)
        status = check_host_relaxed(&v);
    if (status == CLS_OK)
        status = check_strides(&v);
    if (status == CLS_OK)
        status = cls_kept_check("drafts", v.drafts.kept_ids, v.drafts.kept_capacity, v.w.row.vocab);
    if (status == CLS_OK)
        status = verify_host(&v);
    if (status == CLS_OK)
        CLS_STRUCT_WRITE(&v.result, callers);
    cls_scratch_close(&v.w);
    free(v.p);
    free(v.q);
    free(v.output);
    free(v.ids);
    return status;
}
