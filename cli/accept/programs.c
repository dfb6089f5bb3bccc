/* SPDX-License-Identifier: MIT */
/* Compiles all programs, and tests them by their cases with known answers. */

#include "accept/accept.h"

#define ALL_DTYPES (1u << CLS_F32 | 1u << CLS_F16 | 1u << CLS_BF16)

int accept_programs(cls_context *context)
{
    const double begin = cli_seconds();
    cls_status status = CLS_OK;
    for (uint32_t bit = 1; bit != 0 && status == CLS_OK; bit <<= 1)
        if (CLS_FEATURES_KNOWN & bit)
            status = cls_context_compile(context, ALL_DTYPES, bit);
    if (status == CLS_OK)
        status = cls_context_compile(context, ALL_DTYPES, CLS_FEATURES_ALL);
    if (cli_compile_done(status) != CLS_OK)
        return accept_fail("a program");
    accept_say("compile_seconds", json_real(cli_seconds() - begin));
    accept_say("programs", cli_programs_json(context));
    return 0;
}

int accept_cases(cls_context *context)
{
    cls_selftest_stage stage[CLS_SELFTEST_STAGES];
    cls_selftest_report r = {sizeof r, stage, CLS_SELFTEST_STAGES, 0, 0};
    json_int_t cases = 0;
    const cls_status status = cls_selftest(context, &r);
    for (uint32_t i = 0; i < r.stage_count && i < CLS_SELFTEST_STAGES; i++) {
        char text[600];
        const cls_selftest_stage *const s = &stage[i];
        cases += s->cases;
        snprintf(text, sizeof text, "self-test, %s: %s", s->name, s->message);
        if (s->failed != 0)
            return accept_find("the self-test", accept_named_in(text), text);
    }
    if (status != CLS_OK)
        return accept_fail("the self-test");
    accept_say("cases", json_integer(cases));
    return 0;
}
