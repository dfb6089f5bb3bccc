/* SPDX-License-Identifier: MIT */
/* Compiles and proves programs, in smaller groups if the device refuses the first size. All of it
 * runs under the context's lock. */
#include "programs/programs.h"

#include <stdlib.h>

/* A program to compile and prove. */
typedef struct job {
    int variant;
    int32_t dtype;
    cls_program *program;
} job;

static const cls_variant *variant_of(const job *j) { return &cls_variants[j->variant]; }

static cls_build_config build_config_of(const cls_shape *shape, enum cls_kernel kernel)
{
    const int over_tiles = cls_kernel_covers_tiles(kernel);
    const cls_build_config config = {over_tiles ? shape->work_group : shape->row_group, shape->tier,
                                     shape->subgroups, shape->standard, shape->shortlist};
    return config;
}

/* --------------------------------------------------------------- smaller groups */

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

/* Returns 1 if the caller chose the size of groups; then no other is tried. */
static int caller_chose_groups(const cls_context *context)
{
    return context->options.work_group != 0 || context->options.row_group != 0;
}

/* Makes a configuration smaller: first without sub-groups, then with half the group. Returns 0 if
 * there is no smaller one, or if the caller chose this one. */
static int make_smaller(const cls_context *context, cls_build_config *config)
{
    if (config->subgroups != CLS_SUBGROUPS_NONE && context->options.tier == CLS_TIER_AUTO) {
        config->subgroups = CLS_SUBGROUPS_NONE;
        config->tier = CLS_TIER_INT64;
        config->standard = 120;
        return 1;
    }
    /* If the caller requires sub-groups, they were tested with the chosen groups only. With vectors
     * of 2, a group of one work-item is not allowed (cls_shape_adjust_vector()). */
    if (caller_chose_groups(context) || config->subgroups != CLS_SUBGROUPS_NONE ||
        config->group == 1 || (config->group == 2 && context->shape.vector == 2))
        return 0;
    config->group /= 2;
    return 1;
}

/* Fails because the device does not run a built program in groups of this size. If the options ask
 * for it, the message names the one that does. */
static cls_status refuse_group(const cls_context *context, const job *j, uint32_t group)
{
    const cls_context_options *const o = &context->options;
    const int by_rows = o->row_group != 0 && !cls_kernel_covers_tiles(variant_of(j)->kernel);
    const char *const name = variant_of(j)->name;
    const unsigned long long most = j->program->max_group;
    if ((by_rows ? o->row_group : o->work_group) != group)
        return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                        "the program %s runs in groups of at most %llu on this device, not %u",
                        name, most, (unsigned)group);
    return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                    "options->%s is %u, but the program %s runs in groups of at most %llu on this "
                    "device",
                    by_rows ? "row_group" : "work_group", (unsigned)group, name, most);
}

/* Compares a built kernel's limits with its configuration. If they do not allow it, makes the
 * configuration smaller and sets *again to 1, for another build. Fails if there is no smaller
 * configuration. */
static cls_status check_limits(cls_context *context, const job *j, int *again)
{
    cls_shape *const shape = &context->shape;
    cls_program *const p = j->program;
    *again = 0;
    if (p->max_group != 0 && p->max_group < p->config.group) {
        const cls_build_config refused = p->config;
        do { /* without sub-groups the limit may be another */
            *again = make_smaller(context, &p->config);
        } while (*again && p->config.subgroups == refused.subgroups &&
                 p->config.group > p->max_group);
        return *again ? CLS_OK : refuse_group(context, j, refused.group);
    }
    if (p->local_mem <= shape->local_mem_size)
        return CLS_OK;
    /* The first program of a context determines the length of lists. */
    *again =
        j->variant == CLS_SELF_TEST_0 && context->options.shortlist == 0 && shape->shortlist > 16;
    if (*again)
        p->config.shortlist = shape->shortlist /= 2;
    else
        *again = make_smaller(context, &p->config);
    if (*again)
        return CLS_OK;
    return cls_fail(
        caller_chose_groups(context) || context->options.shortlist != 0 ? CLS_BAD_ARGUMENT
                                                                        : CLS_UNSUPPORTED_DEVICE,
        CL_SUCCESS,
        "the program %s takes %llu bytes of local memory in groups of %u with a "
        "shortlist of %u, but the limit is %llu bytes",
        variant_of(j)->name, (unsigned long long)p->local_mem, (unsigned)p->config.group,
        (unsigned)shape->shortlist, (unsigned long long)shape->local_mem_size);
}

/* Adds to the last error that smaller groups were tried before. */
static cls_status fail_after_retries(cls_status status, const job *j)
{
    cls_saved_error last;
    cls_error_save(&last);
    char *const code = strstr(last.message, ": OpenCL error"); /* cls_fail() appends it */
    if (code != NULL)
        *code = '\0';
    return cls_fail(status, last.opencl,
                    "%.300s; smaller groups were tried, the last of %u work-items", last.message,
                    (unsigned)j->program->config.group);
}

/* ---------------------------------------------------------------------- building */

static cls_status from_source(cls_context *context, const job *j)
{
    cls_program *const p = j->program;
    unsigned tried = 0;
    if (!context->shape.compiler)
        return cls_fail_no_compiler();
    p->origin = CLS_ORIGIN_SOURCE;
    for (;; tried++) {
        int again = 0;
        cls_status status = cls_program_build(context, j->variant, j->dtype, NULL, p);
        if (status == CLS_OK)
            status = check_limits(context, j, &again);
        else if (cls_error_opencl() != CL_COMPILER_NOT_AVAILABLE &&
                 make_smaller(context, &p->config))
            again = 1; /* drivers refuse a large kernel by any code, some in clCreateKernel() */
        else if (tried > 0)
            status = fail_after_retries(status, j);
        if (status == CLS_OK && !again)
            return CLS_OK;
        cls_program_release(p);
        if (!again)
            return status;
    }
}

/* Returns 1 if a compiled program has a configuration that the context's options allow. */
static int is_allowed(const cls_context *context, const cls_build_config *config,
                      enum cls_kernel kernel)
{
    const cls_shape *const s = &context->shape;
    const cls_context_options *const o = &context->options;
    const uint32_t chosen_group = cls_kernel_covers_tiles(kernel) ? o->work_group : o->row_group;
    return (kernel == CLS_SELF_TEST ? o->shortlist == 0 || config->shortlist == o->shortlist
                                    : config->shortlist == s->shortlist) &&
           config->group <= s->max_work_group &&
           (chosen_group == 0 || config->group == chosen_group) && config->tier <= s->tier &&
           (o->tier == CLS_TIER_AUTO || config->tier == o->tier);
}

/* Builds a job from the compiled programs in a container. Returns 0 if it has no program that fits
 * and that the driver accepts. */
static int from_bytes(cls_context *context, const job *j, const cls_container *c, uint32_t origin)
{
    cls_program *const p = j->program;
    const cls_build_config before = p->config;
    const cls_bytes *const bytes = &c->program[j->dtype][j->variant].bytes;
    if (bytes->bytes == NULL ||
        !is_allowed(context, &c->program[j->dtype][j->variant].config, variant_of(j)->kernel))
        return 0;
    p->config = c->program[j->dtype][j->variant].config;
    p->origin = origin;
    if (cls_program_build(context, j->variant, j->dtype, bytes, p) == CLS_OK) {
        if ((p->max_group == 0 || p->max_group >= p->config.group) &&
            p->local_mem <= context->shape.local_mem_size) {
            context->shape.shortlist = p->config.shortlist; /* the first program determines it */
            return 1;
        }
        cls_program_release(p);
    }
    p->config = before;
    return 0;
}

static int from_cache(cls_context *context, const job *j)
{
    const char *const dir = context->options.cache_dir;
    cls_container c;
    size_t size;
    if (!context->has_cache_key || dir == NULL)
        return 0;
    void *const bytes =
        cls_cache_read(dir, context->cache_key, j->dtype, variant_of(j)->name, &size);
    const int loaded = bytes != NULL && cls_container_read(bytes, size, context->cache_key, &c) &&
                       from_bytes(context, j, &c, CLS_ORIGIN_CACHE);
    free(bytes);
    return loaded;
}

/* Writes a program that was compiled from source to the cache folder. */
static void to_cache(const cls_context *context, const job *j)
{
    const cls_program *const p = j->program;
    const char *const dir = context->options.cache_dir;
    cls_container c;
    cls_bytes bytes;
    if (!context->has_cache_key || dir == NULL || p->origin != CLS_ORIGIN_SOURCE ||
        (!context->options.cache_always && cls_binary_query_recompiles(context->device)))
        return;
    if (cls_program_binary(context, p, &bytes) != CLS_OK)
        return;
    memset(&c, 0, sizeof c);
    c.program[j->dtype][j->variant].config = p->config;
    c.program[j->dtype][j->variant].bytes = bytes;
    const size_t size = cls_container_size(&c);
    uint8_t *const whole = malloc(size);
    if (whole != NULL) {
        cls_container_write(&c, context->cache_key, whole);
        cls_cache_write(dir, context->cache_key, j->dtype, variant_of(j)->name, whole, size);
    }
    free(whole);
    free((void *)(uintptr_t)bytes.bytes);
}

/* Builds a program from options->binary, from the cache folder or from source, in this order. */
static cls_status build(cls_context *context, const job *j)
{
    if (context->has_cache_key &&
        from_bytes(context, j, &context->binary_programs, CLS_ORIGIN_BINARY))
        return CLS_OK;
    if (from_cache(context, j))
        return CLS_OK;
    return from_source(context, j);
}

/* ---------------------------------------------------------------------- proving */

/* Returns the variants that are compiled for a type of logits, a bit each. */
static uint32_t compiled_variants(const cls_context *context, int32_t dtype)
{
    uint32_t set = 0;
    for (int v = 0; v < CLS_VARIANTS; v++)
        set |= (uint32_t)(context->program[cls_variants[v].typed ? dtype : 0][v].program != NULL)
               << v;
    return set;
}

/* Returns 1 if a program was built from bytes and can be compiled from source instead. */
static int can_use_source(const cls_context *context, const job *j)
{
    return j->program->origin != CLS_ORIGIN_SOURCE && context->shape.compiler;
}

/* Lists the jobs whose programs may have made a proof fail: of those that were launched, those that
 * are not proved yet. If some of these were built from bytes, lists only them. */
static uint32_t list_suspects(const cls_context *context, const job *jobs, uint32_t n,
                              int32_t dtype, uint32_t launched, const job **suspects)
{
    uint32_t count = 0;
    for (int bytes = 1; bytes >= 0 && count == 0; bytes--)
        for (uint32_t i = 0; i < n; i++)
            if ((launched >> jobs[i].variant & 1u) &&
                (!variant_of(&jobs[i])->typed || jobs[i].dtype == dtype) &&
                !jobs[i].program->proved && (!bytes || can_use_source(context, &jobs[i])))
                suspects[count++] = &jobs[i];
    return count;
}

/* Proves a program together with those that run with it. If the proof fails, the suspects are
 * compiled again: those built from bytes, from source; the others in smaller groups, if the error
 * is one that programs cause which are too large for the device. */
static cls_status prove(cls_context *context, const job *jobs, uint32_t n, const job *j,
                        int32_t dtype)
{
    const job *suspects[CLS_DTYPES * CLS_VARIANTS];
    const job *last_smaller = NULL; /* the last job that got smaller groups */
    for (;;) {
        uint32_t launched = 0, changed = 0;
        cls_status status = context->prove(context, j->variant, dtype,
                                           compiled_variants(context, dtype), &launched);
        if (status == CLS_OK) {
            j->program->proved = 1;
            return CLS_OK;
        }
        const uint32_t own = UINT32_C(1) << j->variant;
        const uint32_t count =
            list_suspects(context, jobs, n, dtype, launched != 0 ? launched : own, suspects);
        for (uint32_t i = 0; i < count; i++) {
            cls_program *const p = suspects[i]->program;
            if (can_use_source(context, suspects[i])) {
                p->config = build_config_of(&context->shape, variant_of(suspects[i])->kernel);
            } else if ((launched >> suspects[i]->variant & 1u) && is_refusal(status) &&
                       make_smaller(context, &p->config)) {
                last_smaller = suspects[i];
            } else {
                continue;
            }
            suspects[changed++] = suspects[i];
        }
        if (changed == 0)
            return last_smaller != NULL ? fail_after_retries(status, last_smaller) : status;
        for (uint32_t i = 0; i < changed; i++) {
            cls_program_release(suspects[i]->program);
            status = from_source(context, suspects[i]);
            if (status != CLS_OK)
                return status;
        }
    }
}

/* ------------------------------------------------------------------ all programs */

/* Lists the programs that are not proved yet; returns their number. */
static uint32_t list_jobs(cls_context *context, uint32_t dtypes, uint32_t variants, job *jobs)
{
    uint32_t n = 0;
    if (!cls_shape_wants_small_lists(&context->shape))
        variants &= ~(UINT32_C(1) << CLS_TOKEN_SMALL);
    for (int v = 0; v < CLS_VARIANTS; v++) {
        for (int32_t d = 0; d < (cls_variants[v].typed ? CLS_DTYPES : 1); d++) {
            if (!(variants >> v & 1u) || (cls_variants[v].typed && !(dtypes >> d & 1u)))
                continue;
            if (context->program[d][v].proved)
                continue;
            jobs[n].variant = v;
            jobs[n].dtype = d;
            jobs[n].program = &context->program[d][v];
            n++;
        }
    }
    return n;
}

/* Releases the programs that were compiled but not proved. */
static void release_unproved(const job *jobs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!jobs[i].program->proved)
            cls_program_release(jobs[i].program);
}

/* Copies the whole build log to the caller's buffer. */
static void copy_log_to_caller(const cls_context *context)
{
    const cls_context_options *const o = &context->options;
    const char *const log = context->build_log != NULL ? context->build_log : "";
    if (o->build_log == NULL || o->build_log_size == 0)
        return;
    const size_t n = strlen(log) < o->build_log_size ? strlen(log) : o->build_log_size - 1;
    memcpy(o->build_log, log, n);
    o->build_log[n] = '\0';
}

static cls_status compile(cls_context *context, uint32_t dtypes, uint32_t variants)
{
    job jobs[CLS_DTYPES * CLS_VARIANTS];
    const uint32_t n = list_jobs(context, dtypes, variants, jobs);
    int32_t first = 0; /* the first type; programs that read no logits are proved with it */
    cls_status status = CLS_OK;
    while (first + 1 < CLS_DTYPES && !(dtypes >> first & 1u))
        first++;
    for (uint32_t i = 0; i < n && status == CLS_OK; i++) {
        const double start = cls_now();
        if (context->options.progress != NULL)
            context->options.progress(context->options.progress_user, variant_of(&jobs[i])->name, i,
                                      n);
        jobs[i].program->config = build_config_of(&context->shape, variant_of(&jobs[i])->kernel);
        status = build(context, &jobs[i]);
        jobs[i].program->seconds = cls_now() - start;
    }
    for (uint32_t i = 0; i < n && status == CLS_OK; i++) {
        const double start = cls_now();
        status =
            prove(context, jobs, n, &jobs[i], variant_of(&jobs[i])->typed ? jobs[i].dtype : first);
        if (status == CLS_OK)
            to_cache(context, &jobs[i]);
        jobs[i].program->seconds += cls_now() - start;
    }
    if (status != CLS_OK)
        release_unproved(jobs, n);
    if (n != 0)
        copy_log_to_caller(context);
    return status;
}

cls_status cls_compile(cls_context *context, uint32_t dtypes, uint32_t variants)
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
