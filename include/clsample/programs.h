/* SPDX-License-Identifier: MIT */
/* clsample: which kernels are compiled, and their compiled form. */
#ifndef CLSAMPLE_PROGRAMS_H
#define CLSAMPLE_PROGRAMS_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a step may need beyond greedy rows and temperatures. A sampler has the features that its
 * options and cls_sampler_compile() name, and those that its slots' parameters have needed so far;
 * a call that enqueues compiles nothing and is refused if it needs another one. The message names
 * all that are missing, and cls_sampler_missing() returns them. */
typedef enum cls_feature {
    /* Separate kernels for steps of greedy rows and rows without truncation. The other kernels
     * serve these rows as well. */
    CLS_FEATURE_PLAIN = 1,
    CLS_FEATURE_SHORTLIST = 2,  /* all truncations; alone those whose set fits the shortlist: top-k,
                                   and top-p and min-p after it */
    CLS_FEATURE_SEARCH = 4,     /* chains that may keep any number of tokens: top-p or min-p alone,
                                   top-k larger than the shortlist */
    CLS_FEATURE_SAMPLERS = 8,   /* all other truncations, dynamic temperature, Mirostat, adaptive p,
                                   top-p decay, infill */
    CLS_FEATURE_PENALTIES = 16, /* penalties, logit_bias, allowed_ids, post_thinking */
    CLS_FEATURE_HISTORY = 32,   /* DRY, n-grams, bad words, min_tokens, grammars */
    CLS_FEATURE_STATE = 64,     /* cls_slot_copy(), _rollback(), _load(), _next_turn(), _params()
                                   and _force(); cls_accept() with counts or rollback;
                                   penalty_window, grammars, thinking, loop stops */
    CLS_FEATURE_MASK = 128,     /* step->mask, call->mask */
    CLS_FEATURE_BIAS = 256,     /* step->bias, call->bias */
    CLS_FEATURE_LOGPROBS = 512, /* of cls_outputs: logprobs, ranks, top, given, kept, entropy,
                                   kept_mass; cls_logprobs() */
    CLS_FEATURE_PROBS = 1024,   /* of cls_outputs: probs, final_logits; entropy and kept_mass need
                                   this or the feature above */
    CLS_FEATURE_ACCEPT = 2048,  /* cls_accept(); token_status of cls_verify() needs this, one of the
                                   two above, or KEPT_SETS */
    CLS_FEATURE_VERIFY = 4096,  /* cls_verify(), cls_draft() */
    CLS_FEATURE_SHARD = 8192,   /* cls_shard_create() */
    CLS_FEATURE_FORCED = 16384, /* thinking, loop stops, grammars, cls_slot_force() */
    CLS_FEATURE_KEPT_SETS = 32768, /* kept_set of cls_outputs */
    CLS_FEATURE_WATERMARK = 65536, /* watermark_context */
    CLS_FEATURE_SOFTCAP = 131072   /* a softcap of the logits */
} cls_feature;
/* All features that the library has, also those of later versions; it alone may have bits that the
 * library does not know. Who wants all but some takes these from CLS_FEATURES_KNOWN, which has the
 * features of this header. */
#define CLS_FEATURES_ALL 4294967295u
#define CLS_FEATURES_KNOWN 262143u

/* Compiles, warms up and checks the programs of these features that the context does not have yet,
 * for samplers to come. dtypes: types of logits as bits 1u << cls_dtype; 0: those of the context.
 * features: cls_feature bits; 0: CLS_FEATURE_SHORTLIST; CLS_FEATURES_ALL: everything.
 * Samplers may run meanwhile. Blocks, for seconds where no cache helps. A program whose work-group
 * the device refuses is compiled for a smaller one; if the device refuses all sizes, only this call
 * fails. Any thread may call this.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE; CLS_BUILD_FAILED;
 * CLS_SELF_TEST_FAILED; CLS_OPENCL_ERROR; CLS_NOT_COMPILED: the library was built without a
 * feature. */
CLS_API CLS_WARN_UNUSED cls_status cls_context_compile(cls_context *context, uint32_t dtypes,
                                                       uint32_t features);

/* A compiled program. */
typedef struct cls_program_info {
    size_t struct_size;
    const char *name;    /* static, such as "token-list" */
    int32_t dtype;       /* a cls_dtype; -1: the program reads no logits */
    uint32_t origin;     /* a cls_origin */
    uint32_t work_group; /* work-items of each of its work-groups */
    uint32_t subgroups;  /* a cls_subgroups */
    /* Seconds that compiling and checking the program took. Where a driver compiles at the first
     * launch (PoCL), this can include the time of other programs that the check launches. */
    double seconds;
    /* What the driver reports: bytes of local memory of a work-group (PoCL 6: 0, whatever the
     * kernel declares); bytes of private memory of a work-item, which many drivers report as 0
     * although they spill; the largest work-group that the kernel can have; and
     * CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE. */
    uint64_t local_mem_size;
    uint64_t private_mem_size;
    uint64_t max_work_group;
    uint64_t preferred_multiple;
} cls_program_info;
CLS_INIT_FUNCTION(cls_program_info)

/* Reports one of a context's programs. Indices begin at 0, in the order of the flow. When another
 * thread compiles a program, the indices of the programs after it change. *info was initialized.
 * Any thread may call this.
 * CLS_OK; CLS_BAD_ARGUMENT: among others, if no program has this index. */
CLS_API CLS_WARN_UNUSED cls_status cls_context_program(const cls_context *context, uint32_t index,
                                                       cls_program_info *info);

/* Writes a context's compiled programs to bytes for cls_context_options.binary, for devices without
 * a compiler and to save compiling. These are the programs that the context has compiled or loaded
 * and checked so far: those that its samplers, slot calls and cls_context_compile() needed. After
 * cls_context_compile() with CLS_FEATURES_ALL and all types of logits these are all programs. They
 * fit only this version of the library, this device, this driver and this shape. One SHA-256 in the
 * bytes identifies these, and another one detects damage.
 * out: NULL to get only the size in *size. The size grows with each program that is compiled, also
 * by another thread between two calls. If `out` is not NULL, *size is the size of `out` in bytes,
 * and the number of bytes used on return. Any thread may call this.
 * CLS_OK; CLS_BAD_ARGUMENT: among others, `out` is too small, and *size is then the size that is
 * needed; CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE: the driver does not return compiled programs,
 * or is PoCL 5 or 6, which may end the process when it is asked for them; CLS_OPENCL_ERROR. */
CLS_API CLS_WARN_UNUSED cls_status cls_context_export(const cls_context *context, void *out,
                                                      size_t *size);

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_PROGRAMS_H */
