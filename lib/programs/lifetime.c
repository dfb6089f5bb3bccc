/* SPDX-License-Identifier: MIT */
/* Makes contexts: without a device here, with one in lib/context.c. Counts the references to a
 * context, by its creator, samplers, readbacks and heads, and frees it with the last one. */
#include "programs/programs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

cls_status cls_context_new(const cls_shape *shape, cls_context **out)
{
    cls_context *const context = calloc(1, sizeof *context);
    if (context != NULL) {
        context->lock = cls_lock_create();
        context->log_lock = cls_lock_create();
    }
    if (context == NULL || context->lock == NULL || context->log_lock == NULL) {
        if (context != NULL) {
            cls_lock_destroy(context->lock);
            cls_lock_destroy(context->log_lock);
        }
        free(context);
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for a context");
    }
    atomic_init(&context->references, 1);
    context->shape = *shape;
    *out = context;
    return CLS_OK;
}

void cls_say(const cls_context_options *o, const char *format, ...)
{
    char sentence[1024];
    va_list values;
    if (o->log == NULL)
        return;
    va_start(values, format);
    vsnprintf(sentence, sizeof sentence, format, values);
    va_end(values);
    o->log(o->log_user, sentence);
}

cls_status cls_context_create_host(const cls_context_options *callers, cls_context **out)
{
    cls_context_options o;
    cls_shape shape;
    cls_context_options_init(&o);
    if (out == NULL)
        return cls_refuse("out is NULL");
    *out = NULL;
#ifdef CLS_WITHOUT_HOST
    return cls_not_compiled("this library was built without the host's sampler (CLS_WITHOUT_HOST)");
#endif
    cls_status status = callers != NULL ? CLS_STRUCT_READ(&o, callers, "options") : CLS_OK;
    if (status == CLS_OK)
        status = cls_shape_of_host(&o, &shape);
    if (status == CLS_OK)
        status = cls_context_new(&shape, out);
    if (status == CLS_OK)
        (*out)->options = (cls_context_options){.dtypes = o.dtypes, .host_threads = o.host_threads};
    return status;
}

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
    cls_lock_destroy(context->log_lock);
    free((void *)(uintptr_t)context->options.cache_dir);
    free(context->binary);
    while (context->log != NULL) {
        cls_log *const older = context->log->older;
        free(context->log);
        context->log = older;
    }
    free(context);
}

uint32_t cls_context_dtypes(const cls_context *context)
{
    return context->options.dtypes != 0 ? context->options.dtypes : 1u << CLS_F32;
}
