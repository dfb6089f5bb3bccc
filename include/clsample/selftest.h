/* SPDX-License-Identifier: MIT */
/* clsample: comparing a device with known answers. */
#ifndef CLSAMPLE_SELFTEST_H
#define CLSAMPLE_SELFTEST_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The result of one stage of the self-test. */
typedef struct cls_selftest_stage {
    const char *name;       /* static */
    uint32_t cases, failed; /* cases that ran, and those of them that failed */
    char message[200];      /* on the first case that failed; else empty */
} cls_selftest_stage;

#define CLS_SELFTEST_STAGES 40 /* at least as many as this version has */

/* The results of all stages. The call sets stage_count and failed. */
typedef struct cls_selftest_report {
    size_t struct_size;
    /* [stage_capacity], the caller's memory for the stages, in the order in which they run; NULL
     * (default): only the numbers are given */
    cls_selftest_stage *stages;
    uint32_t stage_capacity; /* default 0 */
    uint32_t stage_count;    /* the stages that there are; `stages` has the first ones of them */
    uint32_t failed;         /* cases that failed, in all stages */
} cls_selftest_report;
CLS_INIT_FUNCTION(cls_selftest_report)

/* Runs cases with known answers of every stage on the context's device. If tokens look wrong, run
 * this first. Each answer is compared with the host's, for the same calls, and with numbers that
 * were recorded when the stage was written. Compiles all programs, allocates and blocks; takes less
 * than a second once kernels are compiled. Continues after a failed case. Any thread may call this.
 * In a context without a device, the host's answers are compared with the recorded ones, and the
 * stage of the arithmetic has no cases.
 * report: NULL, or a struct to fill.
 * CLS_OK: all answers agree. CLS_SELF_TEST_FAILED: an answer is wrong, the message names the first
 * stage with such an answer, and the report lists all stages; or the check of a program failed when
 * it was compiled, which ends the self-test. CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY;
 * CLS_UNSUPPORTED_DEVICE; CLS_BUILD_FAILED; CLS_OPENCL_ERROR; CLS_NOT_COMPILED: the library was
 * built without a part of it. */
CLS_API CLS_WARN_UNUSED cls_status cls_selftest(cls_context *context, cls_selftest_report *report);

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_SELFTEST_H */
