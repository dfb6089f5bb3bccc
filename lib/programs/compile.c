/* SPDX-License-Identifier: MIT */
/* Programs that are proved, and smaller groups where a device refuses. All of it
 * under the context's lock. */
#include "programs/programs.h"

#include <stdlib.h>

/* A program to be made. */
typedef struct job {
    int variant;
    int32_t dtype;
    cls_program *program;
} job;

static const cls_variant *variant_of(const job *j) { return &cls_variants[j->variant]; }

static cls_grouping grouping_of(const cls_shape *shape, enum cls_kernel kernel)
{
    const int over_tiles = cls_kernel_part(kernel) == CLS_OVER_TILES;
    const cls_grouping as = {over_tiles ? shape->work_group : shape->row_group, shape->tier,
                             shape->subgroups, shape->standard, shape->shortlist};
    return as;
}

/* --------------------------------------------------------------- smaller groups */

/* Whether a failure of a build or a launch may be the group's. */
static int is_refusal(cls_status status, int launched)
{
    const cl_int code = cls_error_opencl();
    if (status == CLS_BUILD_FAILED)
        return code == CL_BUILD_PROGRAM_FAILURE || code == CL_OUT_OF_RESOURCES;
    if (status == CLS_SELF_TEST_FAILED)
        return launched;
    return status == CLS_OPENCL_ERROR && launched &&
           (code == CL_OUT_OF_RESOURCES || code == CL_INVALID_WORK_GROUP_SIZE ||
            code == CL_INVALID_WORK_ITEM_SIZE || code == CL_MEM_OBJECT_ALLOCATION_FAILURE);
}

static int is_forced(const cls_context *context)
{
    return context->options.work_group != 0 || context->options.row_group != 0;
}

/* The next smaller grouping: without sub-groups first, then in half the group. 0:
 * there is none, or the caller has named this one. */
static int make_smaller(const cls_context *context, cls_grouping *as)
{
    if (as->subgroups != CLS_SUBGROUPS_NONE && context->options.tier == CLS_TIER_AUTO) {
        as->subgroups = CLS_SUBGROUPS_NONE;
        as->tier = CLS_TIER_INT64;
        as->standard = 120;
        return 1;
    }
    /* Sub-groups that the caller wants were tried in its groups alone; and one item
     * alone would make too many trips with vectors of 2 (cls_shape_settle). */
    if (is_forced(context) || as->subgroups != CLS_SUBGROUPS_NONE || as->group == 1 ||
        (as->group == 2 && context->shape.vector == 2))
        return 0;
    as->group /= 2;
    return 1;
}

/* Whether the driver runs the kernel in its grouping; if not, *again tells that a
 * smaller one is to be tried. */
static cls_status check_limits(cls_context *context, const job *j, int *again)
{
    cls_shape *const shape = &context->shape;
    cls_program *const p = j->program;
    *again = 0;
    if (p->max_group != 0 && p->max_group < p->as.group) {
        if (is_forced(context))
            return cls_fail(
                CLS_BAD_ARGUMENT, CL_SUCCESS,
                "options->%s is %u; the program %s runs with at most %llu on this device",
                p->as.group == context->options.work_group ? "work_group" : "row_group",
                (unsigned)p->as.group, variant_of(j)->name, (unsigned long long)p->max_group);
        while (p->as.group > p->max_group)
            if (!make_smaller(context, &p->as))
                return cls_fail(CLS_UNSUPPORTED_DEVICE, CL_SUCCESS,
                                "the program %s runs in groups of at most %llu on this device",
                                variant_of(j)->name, (unsigned long long)p->max_group);
        *again = 1;
        return CLS_OK;
    }
    if (p->local_mem <= shape->local_mem_size)
        return CLS_OK;
    /* The first program of a context finds out how long its lists may be. */
    *again =
        j->variant == CLS_SELF_TEST_0 && context->options.shortlist == 0 && shape->shortlist > 16;
    if (*again)
        p->as.shortlist = shape->shortlist /= 2;
    else
        *again = make_smaller(context, &p->as);
    if (*again)
        return CLS_OK;
    return cls_fail(is_forced(context) || context->options.shortlist != 0 ? CLS_BAD_ARGUMENT
                                                                          : CLS_UNSUPPORTED_DEVICE,
                    CL_SUCCESS,
                    "the program %s takes %llu bytes of local memory in groups of %u with a "
                    "shortlist of %u; there are %llu",
                    variant_of(j)->name, (unsigned long long)p->local_mem, (unsigned)p->as.group,
                    (unsigned)shape->shortlist, (unsigned long long)shape->local_mem_size);
}

/* Says on top of the last failure that it was the last of several. */
static cls_status refused(cls_status status, const job *j)
{
    cls_failure last;
    cls_failure_keep(&last);
    char *const code = strstr(last.message, ": OpenCL says"); /* which is said again */
    if (code != NULL)
        *code = '\0';
    return cls_fail(status, last.opencl,
                    "%.300s; smaller groups were tried, the last of %u work-items", last.message,
                    (unsigned)j->program->as.group);
}

/* ---------------------------------------------------------------------- building */

static cls_status from_source(cls_context *context, const job *j)
{
    cls_program *const p = j->program;
    unsigned tried = 0;
    if (!context->shape.compiler)
        return cls_shape_no_compiler();
    p->origin = CLS_ORIGIN_SOURCE;
    for (;; tried++) {
        int again = 0;
        cls_status status = cls_program_build(context, j->variant, j->dtype, NULL, p);
        if (status == CLS_OK)
            status = check_limits(context, j, &again);
        else if (is_refusal(status, 0) && make_smaller(context, &p->as))
            again = 1;
        else if (tried > 0)
            status = refused(status, j);
        if (status == CLS_OK && !again)
            return CLS_OK;
        cls_program_release(p);
        if (!again)
            return status;
    }
}

/* Whether a compiled program is what the options ask for. */
static int is_wanted(const cls_context *context, const cls_grouping *as, enum cls_kernel kernel)
{
    const cls_shape *const s = &context->shape;
    const cls_context_options *const o = &context->options;
    const uint32_t wanted =
        cls_kernel_part(kernel) == CLS_OVER_TILES ? o->work_group : o->row_group;
    return (kernel == CLS_SELF_TEST ? o->shortlist == 0 || as->shortlist == o->shortlist
                                    : as->shortlist == s->shortlist) &&
           as->group <= s->max_work_group && (wanted == 0 || as->group == wanted) &&
           as->tier <= s->tier && (o->tier == CLS_TIER_AUTO || as->tier == o->tier);
}

static int from_bytes(cls_context *context, const job *j, const cls_container *c, uint32_t origin)
{
    cls_program *const p = j->program;
    const cls_grouping before = p->as;
    const cls_bytes *const bytes = &c->program[j->dtype][j->variant].bytes;
    if (bytes->bytes == NULL ||
        !is_wanted(context, &c->program[j->dtype][j->variant].as, variant_of(j)->kernel))
        return 0;
    p->as = c->program[j->dtype][j->variant].as;
    p->origin = origin;
    if (cls_program_build(context, j->variant, j->dtype, bytes, p) == CLS_OK) {
        if ((p->max_group == 0 || p->max_group >= p->as.group) &&
            p->local_mem <= context->shape.local_mem_size) {
            context->shape.shortlist = p->as.shortlist; /* the first program brings it */
            return 1;
        }
        cls_program_release(p);
    }
    p->as = before;
    return 0;
}

static int from_cache(cls_context *context, const job *j)
{
    const char *const dir = context->options.cache_dir;
    cls_container c;
    size_t size;
    if (!context->keyed || dir == NULL)
        return 0;
    void *const bytes = cls_cache_read(dir, context->key, j->dtype, variant_of(j)->name, &size);
    const int loaded = bytes != NULL && cls_container_read(bytes, size, context->key, &c) &&
                       from_bytes(context, j, &c, CLS_ORIGIN_CACHE);
    free(bytes);
    return loaded;
}

static void to_cache(const cls_context *context, const job *j)
{
    const cls_program *const p = j->program;
    const char *const dir = context->options.cache_dir;
    cls_container c;
    cls_bytes bytes;
    if (!context->keyed || dir == NULL || p->origin != CLS_ORIGIN_SOURCE ||
        (!context->options.cache_always && cls_binaries_are_slow(context->device)))
        return;
    if (cls_binaries_get(context, p, &bytes) != CLS_OK)
        return;
    memset(&c, 0, sizeof c);
    c.program[j->dtype][j->variant].as = p->as;
    c.program[j->dtype][j->variant].bytes = bytes;
    const size_t size = cls_container_size(&c);
    uint8_t *const whole = malloc(size);
    if (whole != NULL) {
        cls_container_write(&c, context->key, whole);
        cls_cache_write(dir, context->key, j->dtype, variant_of(j)->name, whole, size);
    }
    free(whole);
    free((void *)(uintptr_t)bytes.bytes);
}

/* Compiled bytes if they serve, else source. */
static cls_status build(cls_context *context, const job *j)
{
    if (context->keyed && from_bytes(context, j, &context->ready, CLS_ORIGIN_BINARY))
        return CLS_OK;
    if (from_cache(context, j))
        return CLS_OK;
    return from_source(context, j);
}

/* -------------------------------------------------------------------- all of them */

/* Variants of a type that are there, a bit each. */
static uint32_t there(const cls_context *context, int32_t dtype)
{
    uint32_t set = 0;
    for (int v = 0; v < CLS_VARIANTS; v++)
        set |= (uint32_t)(context->program[cls_variants[v].typed ? dtype : 0][v].program != NULL)
               << v;
    return set;
}

/* Whether a program is compiled bytes of which the source may be had, too. */
static int has_source(const cls_context *context, const job *j)
{
    return j->program->origin != CLS_ORIGIN_SOURCE && context->shape.compiler;
}

/* Those jobs whose program may be why a proof failed: of what ran, what is not
 * proved yet. The first ones: of compiled bytes, if there are some. */
static uint32_t list_suspects(const cls_context *context, const job *jobs, uint32_t n,
                              int32_t dtype, uint32_t ran, const job **suspects)
{
    uint32_t count = 0;
    for (int bytes = 1; bytes >= 0 && count == 0; bytes--)
        for (uint32_t i = 0; i < n; i++)
            if ((ran >> jobs[i].variant & 1u) &&
                (!variant_of(&jobs[i])->typed || jobs[i].dtype == dtype) &&
                !jobs[i].program->proved && (!bytes || has_source(context, &jobs[i])))
                suspects[count++] = &jobs[i];
    return count;
}

/* Proves a program with those that run with it. If it fails, what is not proved
 * yet is compiled once more: bytes from source, whatever is wrong with them; and
 * what fails as programs do that are too large for the device, in smaller groups. */
static cls_status prove(cls_context *context, const job *jobs, uint32_t n, const job *j,
                        int32_t dtype)
{
    const job *suspects[CLS_DTYPES * CLS_VARIANTS],
        *last = NULL; /* last: that got smaller groups */
    for (;;) {
        uint32_t ran = 0, changed = 0;
        cls_status status = context->prove(context, j->variant, dtype, there(context, dtype), &ran);
        if (status == CLS_OK) {
            j->program->proved = 1;
            return CLS_OK;
        }
        const uint32_t own = UINT32_C(1) << j->variant;
        const uint32_t count =
            list_suspects(context, jobs, n, dtype, ran != 0 ? ran : own, suspects);
        for (uint32_t i = 0; i < count; i++) {
            cls_program *const p = suspects[i]->program;
            if (has_source(context, suspects[i])) {
                p->as = grouping_of(&context->shape, variant_of(suspects[i])->kernel);
            } else if ((ran >> suspects[i]->variant & 1u) && is_refusal(status, 1) &&
                       make_smaller(context, &p->as)) {
                last = suspects[i];
            } else {
                continue;
            }
            suspects[changed++] = suspects[i];
        }
        if (changed == 0)
            return last != NULL ? refused(status, last) : status;
        for (uint32_t i = 0; i < changed; i++) {
            cls_program_release(suspects[i]->program);
            status = from_source(context, suspects[i]);
            if (status != CLS_OK)
                return status;
        }
    }
}

static uint32_t list_jobs(cls_context *context, uint32_t dtypes, uint32_t variants, job *jobs)
{
    uint32_t n = 0;
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

static void give_up(const job *jobs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!jobs[i].program->proved)
            cls_program_release(jobs[i].program);
}

/* A caller's buffer gets the log anew. */
static void hand_out_log(const cls_context *context)
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
    int32_t first = 0; /* of the types: with which programs of no type are proved */
    cls_status status = CLS_OK;
    while (first + 1 < CLS_DTYPES && !(dtypes >> first & 1u))
        first++;
    for (uint32_t i = 0; i < n && status == CLS_OK; i++) {
        const double begun = cls_now();
        if (context->options.progress != NULL)
            context->options.progress(context->options.progress_user, variant_of(&jobs[i])->name, i,
                                      n);
        jobs[i].program->as = grouping_of(&context->shape, variant_of(&jobs[i])->kernel);
        status = build(context, &jobs[i]);
        jobs[i].program->seconds = cls_now() - begun;
    }
    for (uint32_t i = 0; i < n && status == CLS_OK; i++) {
        const double begun = cls_now();
        status =
            prove(context, jobs, n, &jobs[i], variant_of(&jobs[i])->typed ? jobs[i].dtype : first);
        if (status == CLS_OK)
            to_cache(context, &jobs[i]);
        jobs[i].program->seconds += cls_now() - begun;
    }
    if (status != CLS_OK)
        give_up(jobs, n);
    if (n != 0)
        hand_out_log(context);
    return status;
}

cls_status cls_compile(cls_context *context, uint32_t dtypes, uint32_t variants)
{
    cls_failure before;
    cls_failure_keep(&before);
    cls_lock_take(context->lock);
    const cls_status status = compile(context, dtypes, variants);
    cls_lock_give(context->lock);
    if (status == CLS_OK)
        cls_failure_restore(&before); /* of what it went on after */
    return status;
}
