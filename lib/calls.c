/* SPDX-License-Identifier: MIT */
/* The calls on samplers that may compile programs. What such a call does lies in lib/sampler and
 * lib/shard, which cannot compile, since a program is proved by the self-test, which uses both: if
 * they find programs missing, they change nothing, and the call is made again. */
#include "selftest/compile.h"
#include "shard/shard.h"

cls_status cls_sampler_create(cls_context *context, const cls_sampler_options *options,
                              cls_sampler **out)
{
    cls_status status = cls_sampler_open(context, options, out);
    if (status != CLS_OK)
        return status;
    status = cls_sampler_add_features(*out, (*out)->features);
    if (status != CLS_OK) {
        cls_sampler_destroy(*out);
        *out = NULL;
    }
    return status;
}

/* Compiles what a call has found missing. Returns 1 if the call is to be made again; otherwise
 * *status is its result.
 *
 * If the second call fails because memory runs out, the sampler keeps the programs and the
 * features. That changes no token: they do not affect which steps are accepted, and every variant
 * that supports a step gives the same tokens (check_faults, late_programs). */
static int compile_missing(cls_sampler *s, cls_status *status)
{
    if (s == NULL || s->missing == 0)
        return 0;
    *status = cls_sampler_add_features(s, s->features | s->missing);
    s->missing = 0;
    return *status == CLS_OK;
}

#define RETURN_CALL(sampler, call) \
    do { \
        if (cls_sampler_enter(sampler) != CLS_OK) \
            return CLS_BAD_ARGUMENT; \
        cls_status status = call; \
        if (compile_missing(sampler, &status)) \
            status = call; \
        return cls_sampler_leave(sampler, status); \
    } while (0)

cls_status cls_sampler_compile(cls_sampler *s, uint32_t features)
{
    const cls_status status = s != NULL ? cls_features_check("", 0, features)
                                        : cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "sampler is NULL");
    return status == CLS_OK
               ? CLS_GUARDED_CALL(s, cls_sampler_add_features(s, s->features | features))
               : status;
}

cls_status cls_slot_begin(cls_sampler *s, uint32_t slot, const cls_params *params,
                          const int32_t *prompt, uint32_t prompt_count, const int32_t *output,
                          uint32_t output_count)
{
    RETURN_CALL(s, cls_try_begin(s, slot, params, prompt, prompt_count, output, output_count));
}

cls_status cls_slot_next_turn(cls_sampler *s, uint32_t slot, const int32_t *prompt,
                              uint32_t prompt_count)
{
    RETURN_CALL(s, cls_try_next_turn(s, slot, prompt, prompt_count));
}

cls_status cls_slot_params(cls_sampler *s, uint32_t slot, const cls_params *params)
{
    RETURN_CALL(s, cls_try_params(s, slot, params));
}

cls_status cls_slot_force(cls_sampler *s, uint32_t slot, const int32_t *ids, uint32_t n)
{
    RETURN_CALL(s, cls_try_force(s, slot, ids, n));
}

cls_status cls_slot_copy(cls_sampler *s, uint32_t to, uint32_t from)
{
    RETURN_CALL(s, cls_try_copy(s, to, from));
}

cls_status cls_slot_rollback(cls_sampler *s, uint32_t slot, uint32_t n)
{
    RETURN_CALL(s, cls_try_rollback(s, slot, n));
}

cls_status cls_slot_load(cls_sampler *s, uint32_t slot, const void *saved, size_t size,
                         const cls_grammar *grammar)
{
    RETURN_CALL(s, cls_try_load(s, slot, saved, size, grammar));
}

#ifndef CLS_WITHOUT_SHARDS
cls_status cls_shard_create(cls_sampler *s, const cls_shard_options *options, cls_shard **out)
{
    if (out == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "out is NULL");
    *out = NULL;
    RETURN_CALL(s, cls_try_shard(s, options, out));
}
#endif

void cls_sampler_force_search(cls_sampler *s, int on)
{
    cls_status status = on ? cls_sampler_require(s, CLS_FEATURE_SEARCH) : CLS_BAD_ARGUMENT;
    s->force_search = status == CLS_OK || compile_missing(s, &status);
}
