/* SPDX-License-Identifier: MIT */
/* Programs that need not be compiled: from options->binary and from the cache folder. */
#include "programs/programs.h"

#include <stdlib.h>

cls_status cls_stored_open(cls_context *context, const cls_context_options *o)
{
    if (o->cache_dir != NULL) {
        const cls_status status = cls_cache_check(o->cache_dir);
        if (status != CLS_OK)
            return status;
        const size_t size = strlen(o->cache_dir) + 1;
        char *const dir = malloc(size);
        if (dir == NULL)
            return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS,
                            "out of host memory for options->cache_dir");
        memcpy(dir, o->cache_dir, size);
        context->options.cache_dir = dir;
    }
    context->has_cache_key = (o->binary != NULL || o->cache_dir != NULL) &&
                             cls_cache_key(context->device, &context->requested_shape, cls_variants,
                                           context->cache_key) == CLS_OK;
    if (o->binary == NULL || !context->has_cache_key || o->binary_size < CLS_CONTAINER_HEADER)
        return CLS_OK;
    if ((context->binary = malloc(o->binary_size)) == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for options->binary");
    memcpy(context->binary, o->binary, o->binary_size);
    if (!cls_container_read(context->binary, o->binary_size, context->cache_key,
                            &context->binary_programs))
        memset(&context->binary_programs, 0, sizeof context->binary_programs);
    return CLS_OK;
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

/* Builds a program from the compiled programs in a container. Returns 0 if it has no program that
 * fits and that the driver accepts. */
static int from_bytes(cls_context *context, cls_program *p, const cls_container *c, uint32_t origin)
{
    const cls_build_config before = p->config;
    const cls_bytes *const bytes = &c->program[p->dtype][p->variant].bytes;
    if (bytes->bytes == NULL || !is_allowed(context, &c->program[p->dtype][p->variant].config,
                                            cls_variants[p->variant].kernel))
        return 0;
    p->config = c->program[p->dtype][p->variant].config;
    p->origin = origin;
    if (cls_program_build(context, p, bytes) == CLS_OK) {
        if ((p->max_group == 0 || p->max_group >= p->config.group) &&
            p->local_mem <= context->shape.local_mem_size) {
            if (cls_variants[p->variant].kernel == CLS_SELF_TEST) /* the first, when it opens */
                context->shape.shortlist = p->config.shortlist;
            return 1;
        }
        cls_program_release(p);
    }
    p->config = before;
    return 0;
}

static int from_cache(cls_context *context, cls_program *p)
{
    const char *const dir = context->options.cache_dir;
    cls_container c;
    size_t size;
    if (!context->has_cache_key || dir == NULL)
        return 0;
    void *const bytes =
        cls_cache_read(dir, context->cache_key, p->dtype, cls_variants[p->variant].name, &size);
    const int loaded = bytes != NULL && cls_container_read(bytes, size, context->cache_key, &c) &&
                       from_bytes(context, p, &c, CLS_ORIGIN_CACHE);
    free(bytes);
    return loaded;
}

int cls_program_from_stored(cls_context *context, cls_program *p)
{
    return (context->has_cache_key &&
            from_bytes(context, p, &context->binary_programs, CLS_ORIGIN_BINARY)) ||
           from_cache(context, p);
}

void cls_program_store(const cls_context *context, const cls_program *p)
{
    const char *const dir = context->options.cache_dir;
    cls_container c;
    cls_bytes bytes;
    if (!context->has_cache_key || dir == NULL || p->origin != CLS_ORIGIN_SOURCE ||
        (!context->options.cache_always && cls_binary_query_recompiles(context->device)))
        return;
    if (cls_program_binary(context, p, &bytes) != CLS_OK)
        return;
    memset(&c, 0, sizeof c);
    c.program[p->dtype][p->variant].config = p->config;
    c.program[p->dtype][p->variant].bytes = bytes;
    const size_t size = cls_container_size(&c);
    uint8_t *const whole = malloc(size);
    if (whole != NULL) {
        cls_container_write(&c, context->cache_key, whole);
        if (!cls_cache_write(dir, context->cache_key, p->dtype, cls_variants[p->variant].name,
                             whole, size))
            cls_say(&context->options, "%s cannot be stored in %.200s",
                    cls_variants[p->variant].name, dir);
    }
    free(whole);
    free((void *)(uintptr_t)bytes.bytes);
}
