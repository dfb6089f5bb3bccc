/* SPDX-License-Identifier: MIT */
/* clsample: opening a device. */
#ifndef CLSAMPLE_CONTEXT_H
#define CLSAMPLE_CONTEXT_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The OpenCL features that the kernels use. Tokens are the same bit for bit in all tiers. */
typedef enum cls_tier {
    CLS_TIER_AUTO = 0, /* in options: the highest tier that the device has and computes correctly */
    CLS_TIER_INT64 = 1, /* OpenCL C 1.2 and 64-bit integers, which every device needs */
    /* Also sub-groups, where work-groups have several work-items. On CPUs only those of Intel's
     * runtime are used: PoCL 6.0 compiles others for ever, which no test can find out. */
    CLS_TIER_SUBGROUPS = 2
} cls_tier;

/* Which sub-group functions the kernels use. */
typedef enum cls_subgroups {
    CLS_SUBGROUPS_NONE = 0,  /* none */
    CLS_SUBGROUPS_KHR = 1,   /* cl_khr_subgroups, or the feature of OpenCL 3.0 */
    CLS_SUBGROUPS_INTEL = 2, /* cl_intel_subgroups */
    CLS_SUBGROUPS_QCOM = 3,  /* cl_qcom_subgroup_shuffle */
    CLS_SUBGROUPS_AMD = 4,   /* the compiler's built-in functions for wavefronts */
    CLS_SUBGROUPS_NV = 5     /* warps, by PTX */
} cls_subgroups;

/* Where a program comes from. */
typedef enum cls_origin {
    CLS_ORIGIN_SOURCE = 0, /* compiled from source */
    CLS_ORIGIN_BINARY = 1, /* options->binary */
    CLS_ORIGIN_CACHE = 2   /* options->cache_dir */
} cls_origin;

/* How kernels are shaped for a device, and what decided it. */
typedef struct cls_device_info {
    size_t struct_size;
    /* Work-items of a work-group that processes tiles of the vocabulary: 1 on CPUs, else up to
     * 256. */
    uint32_t work_group;
    /* Logits that a work-item loads at once: 16 on CPUs (8 on those without vector units) and where
     * local memory is small, else 4. */
    uint32_t vector;
    uint32_t shortlist;      /* candidates that a row's list holds */
    uint32_t compute_units;  /* CL_DEVICE_MAX_COMPUTE_UNITS */
    uint64_t local_mem_size; /* bytes: the device's or options->max_local_mem_size, if less */
    uint64_t max_work_group; /* work-items: the device's or options->max_work_group, if less */
    /* Work-items of a work-group that takes a row to its token: 1 on CPUs, else work_group. */
    uint32_t row_group;
    uint32_t tier;      /* a cls_tier */
    uint32_t subgroups; /* a cls_subgroups; cls_device_query() reports the one to be tried */
    /* A cls_origin: where the program that checked the device comes from. For other programs see
     * cls_context_program(). */
    uint32_t origin;
    uint32_t groups_per_unit; /* as in the options */
    uint32_t host;            /* 1: the context is the host's, without a device; else 0 */
    uint32_t reserved;        /* 0 */
    uint32_t arithmetic;      /* the number of the rules that decide a token */
} cls_device_info;
CLS_INIT_FUNCTION(cls_device_info)

/* How a device is opened. Tokens are the same in every shape; `clsample bench --tune` finds the
 * fastest one of a device. */
typedef struct cls_context_options {
    size_t struct_size;
    /* The types of logits for samplers whose own options name none: bits 1u << cls_dtype.
     * 0: float32. */
    uint32_t dtypes;
    /* 1 to 1024, any number, but on Intel's runtime for CPUs a power of two; 0: a power of two by
     * device type. */
    uint32_t work_group;
    /* 2, 4, 8 or 16; 0: by device type. 2 becomes 4 where work-groups have one work-item. */
    uint32_t vector;
    uint32_t shortlist; /* a power of two from 16 to 2048; 0: by local memory */

    /* The caller's memory for the compiler's log, of build_log_size bytes. NULL: no log is wanted.
     * It has the compiler's errors; warnings are off. The log is written whether compiling fails or
     * not; it is truncated to fit, and ends with a NUL character. It is written during
     * cls_context_create(), and later only with build_log_stays. */
    char *build_log;
    size_t build_log_size;

    /* As work_group; 0: 1 on CPUs, else work_group or the power of two below it. A larger group
     * does not help on CPUs, and PoCL takes minutes to compile it. */
    uint32_t row_group;
    uint32_t tier; /* a cls_tier; 0: CLS_TIER_AUTO */

    /* Limits that replace the device's own where they are smaller: kernels use no larger
     * work-groups (max_work_group) and no more local memory (max_local_mem_size, in bytes, at least
     * 1,024). 0: the device's limit. */
    uint32_t max_work_group;
    /* 1 to 1024: how many work-groups per compute unit share the reading of the vocabulary, if
     * there are enough tokens; 0: 32. With fewer, each group reads more. There are as few as two
     * where the work-items of more groups would have nothing to do. Compiled programs do not depend
     * on it. */
    uint32_t groups_per_unit;
    uint64_t max_local_mem_size; /* bytes; see max_work_group */

    /* Compiled programs from cls_context_export(), or NULL. They are copied and need not outlive
     * cls_context_create(). A program that is missing, damaged, or of another version, device,
     * driver or shape is compiled from source instead. A device without a compiler can use only
     * compiled programs. */
    const void *binary;
    size_t binary_size;

    /* An existing folder in which compiled programs are looked up and stored, one file each; the
     * name is copied. NULL: nothing is read or written. Several processes may share a folder. One
     * that is not there, or whose files cannot be read, is refused. If it cannot be written, or a
     * file in it cannot be used, the kernels are compiled from source. On PoCL see cache_always.
     * Anyone who can write to the folder decides what the device runs: do not use a folder that
     * others can write to. */
    const char *cache_dir;
    /* 1: also store programs that PoCL compiled. 0 (default): on PoCL the folder is only read,
     * because PoCL compiles a program a second time when its bytes are requested, and has a cache
     * itself (POCL_CACHE_DIR). Later starts from the folder take less than half of the time that
     * they take from PoCL's cache. PoCL 5 and 6 may end the process when they are asked for bytes:
     * there nothing is stored all the same, and PoCL's own cache remains. */
    int32_t cache_always;

    /* 1: build_log outlives the context and all its samplers. Programs that are compiled after
     * cls_context_create() then append their logs to it. */
    int32_t build_log_stays;

    /* Called before each program is compiled or loaded, by the thread that needs it: in
     * cls_context_create(), and in every later call that compiles, such as a slot call whose
     * parameters need more. Without it such a call seems to hang, for seconds where nothing is
     * cached. `count` is the number of programs that this call compiles or loads, and `done` is the
     * number of those that came before this one. A program whose proof fails is compiled again, and
     * told again. Where work-groups have several work-items, cls_context_create() also tells of
     * `groups-test`, as the only program of its own, before each test of such groups. The function
     * must not call the library. NULL: no calls. */
    void (*progress)(void *user, const char *program, uint32_t done, uint32_t count);
    void *progress_user;

    /* Returns the function of OpenCL that has this name, or NULL, for example by dlsym() from the
     * library that the caller's handles come from, which stays open. It must not call the library,
     * and may return NULL for the functions of OpenCL 2.0 for SVM (see cls_buffer). NULL: the
     * library uses the functions that this process already has, as if it linked OpenCL. If there
     * are none, it opens OpenCL's own library (libOpenCL.so.1, OpenCL.dll, ...). The functions are
     * looked up once, when a process first asks for a device. All its contexts use them, and a
     * later find_opencl that returns others is refused. */
    void *(*find_opencl)(void *user, const char *name);
    void *find_opencl_user;

    /* Bytes of a kernel's arguments, where that is less than the device's own limit. With 1,024,
     * which OpenCL's full profile promises, kernels get a call's numbers by value, else in a buffer
     * that the call writes. 0: the device's limit. */
    uint64_t max_parameter_size;

    /* Of a context of the host: how many threads sample the rows of a step, up to 256, the caller's
     * among them. 1 (default): the caller's alone. 0: one for each processor. The others begin and
     * end within the call, and no more begin than the step has rows. If one cannot be made, the
     * rest do its share, and after fork() there is one. Tokens and outputs do not depend on it. A
     * step that writes kept_set.offsets, or in which rows share a slot, and every call but
     * cls_sample() and cls_logprobs() has one thread. For each thread a sampler has 41 bytes of
     * memory for each token of the vocabulary. */
    uint32_t host_threads;
    uint32_t reserved; /* 0 */

    /* Called with a sentence, without a newline, for the log of a program that brings up a device:
     * why groups or sub-groups are not used, what was compiled or loaded in how many seconds and
     * for groups of which size, why a program is compiled again, that it cannot be stored. By the
     * same threads as `progress`; it must not call the library. NULL: no calls. */
    void (*log)(void *user, const char *sentence);
    void *log_user;
} cls_context_options;

CLS_INIT_FUNCTION(cls_context_options)

/* Reports how cls_context_create() would shape kernels for a device, without compiling. The shape
 * in use can have smaller work-groups, because some drivers report their limit only for a compiled
 * program. options: NULL for defaults. *info was initialized. Any thread may call this.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_UNSUPPORTED_DEVICE: the message says why, or that no OpenCL was
 * found; CLS_OPENCL_ERROR. */
CLS_API CLS_WARN_UNUSED cls_status cls_device_query(cl_device_id device,
                                                    const cls_context_options *options,
                                                    cls_device_info *info);

/* A device that was checked, and the kernels that were compiled for it. Threads may share it. */
typedef struct cls_context cls_context;

/* Opens `device`, which must belong to `context`. Compares its arithmetic with the host's and, if
 * work-groups have several work-items, checks how they work together. Compiles only the programs
 * for these checks. Blocks.
 * Retains `context`. options: NULL for defaults.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE: also where no OpenCL was
 * found; CLS_BUILD_FAILED: the log is in options->build_log; CLS_SELF_TEST_FAILED;
 * CLS_OPENCL_ERROR. On failure *out is NULL. */
CLS_API CLS_WARN_UNUSED cls_status cls_context_create(cl_context context, cl_device_id device,
                                                      const cls_context_options *options,
                                                      cls_context **out);

/* Opens the host: a context without a device. Its samplers do what those of a device do, in plain
 * C, with the same results: rows one after the other, or side by side (host_threads). No OpenCL is
 * needed or called, and nothing is compiled: cls_context_compile() and cls_sampler_compile() only
 * check their bits, and no call that enqueues is refused for a cls_feature.
 *
 * Calls that enqueue take no queue and no events: `queue` is NULL, n_wait is 0, the work is done
 * when the call returns, and *done becomes NULL. Buffers are of the kind CLS_BUFFER_HOST. Slot
 * calls take effect at once. Tokens, statuses, positions, log-probabilities, ranks, kept sets and
 * saved slots are those of a device, byte for byte; `probs`, `kept_mass`, the probabilities of
 * candidates and the entropy may differ in the last bit. Shards, the LM head and compiled programs
 * need a device.
 *
 * options: NULL for defaults. `dtypes` and `shortlist` (0: 1,024) mean what they mean for a
 * device, and `host_threads` is for the host alone; the other fields are checked, and have no
 * effect. The context and its samplers may be used after fork(), but for a sampler that another
 * thread was using (clsample.h, "fork()"). Any thread may call this.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_NOT_COMPILED: the library was built without the
 * host's sampler. On failure *out is NULL. */
CLS_API CLS_WARN_UNUSED cls_status cls_context_create_host(const cls_context_options *options,
                                                           cls_context **out);

/* Releases a context. Its samplers and readbacks keep what they need of it, so handles may
 * be destroyed in any order. NULL is allowed. */
CLS_API void cls_context_destroy(cls_context *context);

/* Reports the shape in use. *info was initialized. Any thread may call this.
 * CLS_OK; CLS_BAD_ARGUMENT. */
CLS_API CLS_WARN_UNUSED cls_status cls_context_info(const cls_context *context,
                                                    cls_device_info *info);

/* Returns the compiler's log of all programs so far, and "" if there is none. The string belongs to
 * the context, which leaves it as it is until it is freed, and gives a longer one when it has
 * compiled more. Any thread may call this. */
CLS_API CLS_RETURNS_NONNULL const char *cls_context_build_log(const cls_context *context);

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_CONTEXT_H */
