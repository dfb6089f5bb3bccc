/* SPDX-License-Identifier: MIT */
/* What calls on a sampler begin with: one thread at a time, and the kernels that they need. */
#include "sampler/sampler.h"

cls_status cls_sampler_lock(cls_sampler *s)
{
    return s == NULL || !atomic_flag_test_and_set_explicit(&s->in_use, memory_order_acquire)
               ? CLS_OK
               : cls_fail(CLS_IN_USE, CL_SUCCESS,
                          "sampler is in use by another call: only one thread at a time may use "
                          "it, and no callback during a call");
}

cls_status cls_sampler_enter(cls_sampler *s)
{
    const cls_status status = cls_sampler_lock(s);
    if (s == NULL || status != CLS_OK || s->refusal == NULL)
        return status;
    return cls_sampler_leave(s, cls_refuse_call("%s", s->refusal));
}

cls_status cls_sampler_leave(cls_sampler *s, cls_status status)
{
    if (s != NULL)
        atomic_flag_clear_explicit(&s->in_use, memory_order_release);
    return status;
}

struct cls_compiled_kernel cls_sampler_kernel(const cls_sampler *s, enum cls_kernel which,
                                              int32_t dtype, uint32_t features)
{
    static const struct cls_compiled_kernel none;
    const struct cls_compiled_kernel *found = NULL;
    int v = (int)which; /* each kernel has a variant at least, and they come in its order */
    while (cls_variants[v].kernel != which)
        v++;
    for (; v < CLS_VARIANTS && cls_variants[v].kernel == which; v++) {
        const struct cls_compiled_kernel *const entry =
            &s->kernels[cls_variants[v].typed ? dtype : 0][v];
        if (entry->handle == NULL)
            continue;
        if (found == NULL && cls_variant_supports(v, features))
            found = entry;
    }
    return found != NULL ? *found : none;
}

cls_status cls_sampler_require(cls_sampler *s, uint32_t features)
{
    const uint32_t missing = features & CLS_FEATURES_KNOWN & ~s->features;
    if (missing == 0)
        return CLS_OK;
    const cls_status status = cls_features_refuse("this needs ", missing);
    if (status != CLS_OK)
        return status;
    if (!s->late_compile) {
        s->missing_of_step = missing;
        char names[CLS_FEATURE_NAMES];
        cls_features_name(names, missing);
        return cls_not_compiled(
            "this needs %s, which the sampler's options->features lack: name it there, "
            "call cls_sampler_compile(), or set options->late_compile",
            names);
    }
    if (s->host != NULL) { /* nothing is compiled for the host */
        s->features |= missing;
        return CLS_OK;
    }
    return s->compile != NULL ? s->compile(s, s->features | missing)
                              : cls_refuse_call("a proof needs kernels that it lacks");
}

void cls_sampler_force_search(cls_sampler *s, int on)
{
    s->force_search = on && cls_sampler_require(s, CLS_FEATURE_SEARCH) == CLS_OK;
}
