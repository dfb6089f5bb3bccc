/* SPDX-License-Identifier: MIT */
/* cls_selftest(): runs the programs of a context on cases with known answers, for every stage. */
#include "selftest/selftest.h"

#include <stdio.h>
#include <stdlib.h>

/* Fails with a message about the first stage that failed, if any did. */
static cls_status verdict(const cls_tested *tested)
{
    const cls_selftest_stage *const s = cls_selftest_failed(tested);
    return s == NULL ? CLS_OK
                     : cls_fail(CLS_SELF_TEST_FAILED, CL_SUCCESS,
                                "the self-test failed at %s (%u of %u): %s", s->name,
                                (unsigned)s->failed, (unsigned)s->cases, s->message);
}

/* Gives both samplers the tables of the infill stage. */
static cls_status set_tables(const cls_selftest_run *t)
{
    int32_t prefix_of[SELFTEST_VOCAB], ends[SELFTEST_ENDS];
    const cls_infill infill = {sizeof infill, {ends, SELFTEST_ENDS}, prefix_of};
    cls_status status = CLS_OK;
    cls_selftest_prefixes(prefix_of);
    cls_selftest_ends(ends);
    for (int i = 0; i < SIDES && status == CLS_OK; i++)
        status = cls_sampler_infill(t->side[i].sampler, &infill);
    return status;
}

cls_status cls_selftest_with(cls_context *context, const cls_selftest_known *known,
                             cls_selftest_known *answers, cls_tested *tested)
{
    cls_selftest_run *const t = cls_selftest_new(context);
    memset(tested, 0, sizeof *tested);
    if (t == NULL)
        return cls_no_memory("the self-test");
    t->known = known != NULL ? known : t->answer;
    t->selection = cls_selftest_whole();
    cls_status status = cls_selftest_open(t, CLS_FEATURES_ALL);
    if (status == CLS_OK)
        status = cls_sampler_add_features(t->side[SIDE_DEVICE].sampler, CLS_FEATURES_ALL);
    if (status == CLS_OK)
        status = set_tables(t);
    for (t->dtype = 0; t->dtype < CLS_DTYPES && status == CLS_OK; t->dtype++)
        if (cls_context_dtypes(context) >> t->dtype & 1u)
            status = cls_selftest_parts(t);
    *tested = t->tested;
    if (answers != NULL)
        memcpy(answers, t->answer, sizeof t->answer);
    cls_selftest_close(t);
    return status == CLS_OK ? verdict(tested) : cls_selftest_status(status);
}

cls_status cls_selftest(cls_context *context, cls_selftest_report *callers)
{
    cls_selftest_report report = {.stages = NULL};
    cls_tested tested;
    if (context == NULL)
        return cls_refuse("context is NULL");
#ifdef CLS_SOME_FEATURES
    return cls_not_compiled(
        "cls_selftest() runs all stages, but this library was built without some "
        "(CLS_WITHOUT_...); it proves each program that it compiles");
#endif
    if (callers != NULL) {
        const cls_status status = CLS_STRUCT_READ_OUTPUT(&report, callers, "report");
        if (status != CLS_OK)
            return status;
        if (report.stages == NULL && report.stage_capacity != 0)
            return cls_refuse("report->stage_capacity is %u, but report->stages is NULL",
                              (unsigned)report.stage_capacity);
    }
    const cls_status status = cls_selftest_with(context, cls_selftest_table, NULL, &tested);
    report.stage_count = tested.stage[0].name != NULL ? ST_STAGES : 0;
    report.failed = tested.failed;
    for (uint32_t i = 0; i < report.stage_count && i < report.stage_capacity; i++)
        report.stages[i] = tested.stage[i];
    if (callers != NULL)
        CLS_STRUCT_WRITE(&report, callers);
    return status;
}
