/* SPDX-License-Identifier: MIT */
/* cls_selftest(): runs the programs of a context on cases with known answers, for every stage. */
#include "selftest/selftest.h"

#include <stdio.h>
#include <stdlib.h>

/* Fails with a message about the first stage that failed, if any did. */
static cls_status verdict(const cls_selftest_report *report)
{
    const cls_selftest_stage *const s = cls_selftest_failed(report);
    return s == NULL ? CLS_OK
                     : cls_fail(CLS_SELF_TEST_FAILED, CL_SUCCESS,
                                "the self-test failed at %s (%u of %u): %s", s->name,
                                (unsigned)s->failed, (unsigned)s->cases, s->message);
}

cls_status cls_selftest_with(cls_context *context, const cls_selftest_known *known,
                             cls_selftest_report *report)
{
    int32_t prefix_of[SELFTEST_VOCAB], ends[SELFTEST_ENDS];
    const cls_infill infill = {sizeof infill, {ends, SELFTEST_ENDS}, prefix_of};
    cls_selftest_run *const t = cls_selftest_new(context);
    memset(report, 0, sizeof *report);
    if (t == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for the self-test");
    t->known = known;
    t->selection = cls_selftest_whole();
    cls_selftest_prefixes(prefix_of);
    cls_selftest_ends(ends);
    cls_status status = cls_selftest_open(t, CLS_FEATURES_ALL);
    if (status == CLS_OK)
        status = cls_sampler_add_features(t->sampler, CLS_FEATURES_ALL);
    if (status == CLS_OK)
        status = cls_sampler_infill(t->sampler, &infill);
    if (status == CLS_OK)
        status = cls_selftest_answers_compute(&t->selection, &t->host);
    for (t->dtype = 0; t->dtype < CLS_DTYPES && status == CLS_OK; t->dtype++)
        if (cls_context_dtypes(context) >> t->dtype & 1u)
            status = cls_selftest_parts(t);
    *report = t->report;
    cls_selftest_close(t);
    return status == CLS_OK ? verdict(report) : status;
}

cls_status cls_selftest(cls_context *context, cls_selftest_report *callers)
{
    cls_selftest_report report;
    if (context == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "context is NULL");
    if (callers != NULL) {
        const cls_status status = CLS_STRUCT_READ_OUTPUT(&report, callers, "report");
        if (status != CLS_OK)
            return status;
    }
    const cls_status status = cls_selftest_with(context, cls_selftest_table, &report);
    if (callers != NULL)
        CLS_STRUCT_WRITE(&report, callers);
    return status;
}
