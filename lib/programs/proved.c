/* SPDX-License-Identifier: MIT */
/* Compiles programs and proves them. What a device refuses, or computes wrong, is compiled in
 * smaller groups, and what came from bytes from source. */
#include "programs/programs.h"

#include <stdio.h>

static cls_program *program_of(cls_context *context, int variant, int32_t dtype)
{
    return &context->program[cls_variants[variant].typed ? dtype : 0][variant];
}

/* ---------------------------------------------------------------------- proving */

/* Returns 1 if a launched program may have failed because the group is too large. */
static int is_refusal(cls_status status)
{
    const cl_int code = cls_error_opencl();
    if (status == CLS_SELF_TEST_FAILED)
        return 1;
    return status == CLS_OPENCL_ERROR &&
           (code == CL_OUT_OF_RESOURCES || code == CL_INVALID_WORK_GROUP_SIZE ||
            code == CL_INVALID_WORK_ITEM_SIZE || code == CL_MEM_OBJECT_ALLOCATION_FAILURE);
}

/* Changes the configurations of the programs that may have made a proof fail: of those that were
 * launched, those that are not proved yet. If some of them are from bytes, these will be from
 * source. Otherwise all get smaller groups, if a program that is too large causes such an error.
 * Returns their number. */
static uint32_t change_suspects(cls_context *context, int32_t dtype, cls_variant_set launched,
                                int refused, cls_program **changed)
{
    uint32_t n = 0;
    for (int smaller = 0; smaller <= refused && n == 0; smaller++)
        for (int v = 0; v < CLS_VARIANTS; v++) {
            cls_program *const p = program_of(context, v, dtype);
            if ((launched >> v & 1u) && p->program != NULL && !p->proved &&
                (smaller ? cls_program_make_smaller(context, p) : cls_program_distrust(context, p)))
                changed[n++] = p;
        }
    return n;
}

/* Tells the user that a program, the i-th of n, is compiled next. */
static void tell_next(const cls_context *context, const cls_program *p, uint32_t i, uint32_t n)
{
    const cls_context_options *const o = &context->options;
    if (o->progress != NULL)
        o->progress(o->progress_user, cls_variants[p->variant].name, i, n);
}

/* Proves the i-th of n programs. As long as that fails, the programs that may have caused it are
 * compiled again. */
static cls_status prove(cls_context *context, cls_program *p, int32_t dtype, uint32_t i, uint32_t n)
{
    cls_program *changed[CLS_VARIANTS];
    const cls_program *smaller = NULL; /* the last one that got smaller groups */
    char why[512];
    for (;;) {
        cls_variant_set launched = 0;
        cls_status status =
            context->prove != NULL ? context->prove(context, p->variant, dtype, &launched) : CLS_OK;
        if (status == CLS_OK) {
            p->proved = 1;
            return CLS_OK;
        }
        snprintf(why, sizeof why, "%s", cls_error_message());
        const uint32_t count =
            change_suspects(context, dtype, launched != 0 ? launched : CLS_VARIANT_BIT(p->variant),
                            launched != 0 && is_refusal(status), changed);
        if (count == 0)
            return smaller != NULL ? cls_program_fail_smaller(status, smaller) : status;
        for (uint32_t j = 0; j < count; j++) {
            if (changed[j]->origin == CLS_ORIGIN_SOURCE)
                smaller = changed[j];
            cls_program_release(changed[j]);
            cls_say(&context->options, "%s is compiled again, %s, because %s",
                    cls_variants[changed[j]->variant].name,
                    changed[j]->origin == CLS_ORIGIN_SOURCE ? "for smaller groups" : "from source",
                    why);
            tell_next(context, changed[j], i, n);
            status = cls_program_from_source(context, changed[j]);
            if (status != CLS_OK)
                return status;
        }
    }
}

/* ------------------------------------------------------------------ all programs */

/* Lists the programs that are not proved yet; returns their number. */
static uint32_t list_programs(cls_context *context, uint32_t dtypes, cls_variant_set variants,
                              cls_program **list)
{
    uint32_t n = 0;
    if (!cls_shape_wants_small_lists(&context->shape))
        variants &= ~CLS_VARIANT_BIT(CLS_TOKEN_SMALL);
    for (int v = 0; v < CLS_VARIANTS; v++)
        for (int32_t d = 0; d < (cls_variants[v].typed ? CLS_DTYPES : 1); d++) {
            cls_program *const p = &context->program[d][v];
            if (!(variants >> v & 1u) || (cls_variants[v].typed && !(dtypes >> d & 1u)) ||
                p->proved)
                continue;
            p->variant = v;
            p->dtype = d;
            list[n++] = p;
        }
    return n;
}

static void say_ready(const cls_context_options *o, const cls_program *p)
{
    static const char *const types[CLS_DTYPES] = {"float32", "float16", "bfloat16"};
    static const char *const origins[] = {[CLS_ORIGIN_SOURCE] = "compiled",
                                          [CLS_ORIGIN_BINARY] = "loaded from options->binary",
                                          [CLS_ORIGIN_CACHE] = "loaded from options->cache_dir"};
    const int typed = cls_variants[p->variant].typed;
    cls_say(o, "%s%s%s is %s and proved in %.2f s, for groups of %u work-item%s",
            cls_variants[p->variant].name, typed ? " of " : "", typed ? types[p->dtype] : "",
            origins[p->origin], p->seconds, (unsigned)p->config.group,
            p->config.group == 1 ? "" : "s");
}

/* Copies the whole build log to the caller's buffer. */
static void copy_log_to_caller(const cls_context *context)
{
    const cls_context_options *const o = &context->options;
    const char *const log = context->log != NULL ? context->log->text : ""; /* compiling owns it */
    if (o->build_log == NULL || o->build_log_size == 0)
        return;
    const size_t n = strlen(log) < o->build_log_size ? strlen(log) : o->build_log_size - 1;
    memcpy(o->build_log, log, n);
    o->build_log[n] = '\0';
}

static cls_status compile(cls_context *context, uint32_t dtypes, cls_variant_set variants)
{
    cls_program *list[CLS_DTYPES * CLS_VARIANTS];
    const uint32_t n = list_programs(context, dtypes, variants, list);
    int32_t first = 0; /* the first type; programs that read no logits are proved with it */
    cls_status status = CLS_OK;
    while (first + 1 < CLS_DTYPES && !(dtypes >> first & 1u))
        first++;
    for (uint32_t i = 0; i < n && status == CLS_OK; i++) {
        const double start = cls_now();
        tell_next(context, list[i], i, n);
        status = cls_program_compile(context, list[i]);
        list[i]->seconds = cls_now() - start;
    }
    for (uint32_t i = 0; i < n && status == CLS_OK; i++) {
        const double start = cls_now();
        status = prove(context, list[i],
                       cls_variants[list[i]->variant].typed ? list[i]->dtype : first, i, n);
        if (status == CLS_OK)
            cls_program_store(context, list[i]);
        list[i]->seconds += cls_now() - start;
        if (status == CLS_OK)
            say_ready(&context->options, list[i]);
    }
    for (uint32_t i = 0; i < n && status != CLS_OK; i++)
        if (!list[i]->proved)
            cls_program_release(list[i]);
    if (n != 0)
        copy_log_to_caller(context);
    return status;
}

cls_status cls_compile(cls_context *context, uint32_t dtypes, cls_variant_set variants)
{
    cls_saved_error before;
    cls_error_save(&before);
    /* Merged rows are float32, whatever the logits are. */
    if (variants >> CLS_MERGE_0 & 1u)
        dtypes |= 1u << CLS_F32;
    cls_lock_acquire(context->lock);
    const cls_status status = compile(context, dtypes, variants);
    cls_lock_release(context->lock);
    if (status == CLS_OK)
        cls_error_restore(&before); /* errors of attempts that were repeated */
    return status;
}
