/* SPDX-License-Identifier: MIT */
/* The kernels of a sampler: those of its features, and of what its calls need besides. */
#include "sampler/sampler.h"

#include <stdlib.h>

/* Each sampler has separate kernels, since two threads must not set the arguments of one kernel.
 * A compiled program does not change any more, so that no lock is needed. */
cls_status cls_sampler_add_kernels(cls_sampler *s, int32_t dtype, cls_variant_set variants)
{
    for (int v = 0; v < CLS_VARIANTS; v++) {
        const int32_t d = cls_variants[v].typed ? dtype : 0;
        const cls_program *const p = &s->context->program[d][v];
        struct cls_compiled_kernel *const entry = &s->kernels[d][v];
        const char *const name = cls_kernel_name(cls_variants[v].kernel);
        cl_int code;
        if (!(variants >> v & 1u) || entry->handle != NULL || p->program == NULL ||
            cls_variants[v].kernel == CLS_SELF_TEST)
            continue;
        const cl_kernel kernel = clCreateKernel(p->program, name, &code);
        if (code != CL_SUCCESS)
            return cls_fail(CLS_OPENCL_ERROR, code, "cannot create kernel %s", name);
        entry->known = calloc(1, sizeof *entry->known);
        if (entry->known == NULL) {
            clReleaseKernel(kernel);
            return cls_no_memory("the arguments of kernel %s", name);
        }
        entry->handle = kernel;
        entry->group = p->config.group;
        entry->variant = CLS_VARIANT_BIT(v);
    }
    return CLS_OK;
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

cls_status cls_sampler_add_features(cls_sampler *s, uint32_t features)
{
    const cls_variant_set variants = cls_variants_of(features);
    features &= cls_features_built();
    if (s->host != NULL) { /* nothing is compiled for the host */
        s->features = features;
        return CLS_OK;
    }
    cls_status status = cls_compile(s->context, s->dtypes, variants);
    for (int32_t d = 0; d < CLS_DTYPES && status == CLS_OK; d++)
        if ((s->dtypes >> d & 1u) || (d == CLS_F32 && (features & CLS_FEATURE_SHARD)))
            status = cls_sampler_add_kernels(s, d, variants);
    if (status != CLS_OK)
        return status;
    if (features & ~s->features & CLS_FEATURE_SHARD)
        cls_needs_hash(s);
    s->features = features;
    return CLS_OK;
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
    return cls_sampler_add_features(s, s->features | missing);
}

cls_status cls_sampler_compile(cls_sampler *s, uint32_t features)
{
    const cls_status status =
        s != NULL ? cls_features_check("", 0, features) : cls_refuse("sampler is NULL");
    return status == CLS_OK
               ? CLS_GUARDED_CALL(s, cls_sampler_add_features(s, s->features | features))
               : status;
}

void cls_sampler_force_search(cls_sampler *s, int on)
{
    s->force_search = on && cls_sampler_require(s, CLS_FEATURE_SEARCH) == CLS_OK;
}
