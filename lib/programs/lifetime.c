/* SPDX-License-Identifier: MIT */
/* Who holds a context: its creator, its samplers, readbacks and heads. */
#include "programs/programs.h"

#include <stdlib.h>

void cls_context_retain(cls_context *context) { atomic_fetch_add(&context->references, 1); }

void cls_context_destroy(cls_context *context)
{
    if (context == NULL || atomic_fetch_sub(&context->references, 1) != 1)
        return;
    for (int i = 0; i < CLS_DTYPES * CLS_VARIANTS; i++)
        cls_program_release(&context->program[i / CLS_VARIANTS][i % CLS_VARIANTS]);
    if (context->cl != NULL)
        clReleaseContext(context->cl);
    cls_lock_destroy(context->lock);
    free((void *)(uintptr_t)context->options.cache_dir);
    free(context->binary);
    free(context->build_log);
    free(context);
}

uint32_t cls_context_dtypes(const cls_context *context)
{
    return context->options.dtypes != 0 ? context->options.dtypes : 1u << CLS_F32;
}
