/* SPDX-License-Identifier: MIT */
/* Compiling programs and proving them: each runs its cases of the self-test before a sampler uses
 * it. */
#ifndef CLS_COMPILE_H
#define CLS_COMPILE_H

#include "sampler/sampler.h"

/* ------------------------------------------------------------ compile.c */

/* Compiles and proves those of the programs (bits of types of logits, of variants) that the context
 * does not have yet. If the device refuses a program, or the program computes wrong, it is compiled
 * in smaller groups. Fails if no size works, or if the caller chose the size. */
cls_status cls_compile(cls_context *context, uint32_t dtypes, cls_variant_set variants);

/* Compiles what steps with these features need, and gives a sampler the kernels. */
cls_status cls_sampler_add_features(cls_sampler *sampler, uint32_t features);

/* -------------------------------------------------------------- prove.c */

#ifdef CLS_WITHOUT_SELFTEST
static inline cls_status cls_prove(cls_context *context, int variant, int32_t dtype,
                                   cls_variant_set *launched)
{
    (void)context, (void)variant, (void)dtype;
    *launched = 0;
    return CLS_OK;
}
#else
/* Proves a variant that is compiled: runs those of its cases for which the context has all other
 * programs. Drivers that compile at the first launch do so here. Fails if the results differ or
 * OpenCL fails; *launched then has the variants that may have caused it by the size of their
 * groups, a bit each: those that ran, or the one that the device refused to launch. It is 0 if
 * nothing was launched. */
cls_status cls_prove(cls_context *context, int variant, int32_t dtype, cls_variant_set *launched);
#endif

#endif
