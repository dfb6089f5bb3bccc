/* SPDX-License-Identifier: MIT */
/* Programs: which kernel in which variant serves what; how they are compiled, kept and found. */
#ifndef CLS_PROGRAMS_H
#define CLS_PROGRAMS_H

#include "device/device.h"
#include <stdatomic.h>

/* ---------------------------------------------------------- the kernels */

/* The kernels, in the order of the flow. */
enum cls_kernel {
    CLS_SELF_TEST,
    CLS_SLOTS,
    CLS_PREPARE,
    CLS_SURVEY,
    CLS_TOKEN,
    CLS_PASS,
    CLS_SEARCH,
    CLS_DISTRIBUTION,
    CLS_REPORT,
    CLS_ACCEPT,
    CLS_DRAW,
    CLS_RESIDUAL,
    CLS_VERIFY,
    CLS_KERNELS
};
const char *cls_kernel_name(enum cls_kernel kernel);

/* Kernels over tiles and kernels over rows may have groups of different sizes. */
enum cls_part { CLS_OVER_TILES, CLS_OVER_ROWS, CLS_PARTS };
static inline enum cls_part cls_kernel_part(enum cls_kernel kernel)
{
    return kernel == CLS_SURVEY || kernel == CLS_PASS || kernel == CLS_DISTRIBUTION ||
                   kernel == CLS_RESIDUAL
               ? CLS_OVER_TILES
               : CLS_OVER_ROWS;
}

/* -------------------------------------------------------------- table.c */

/* The variants of kernels, each a program; of one kernel the leanest first. */
enum {
    CLS_SELF_TEST_0,
    CLS_SLOTS_0,
    CLS_SLOTS_1,
    CLS_PREPARE_0,
    CLS_SURVEY_0,
    CLS_SURVEY_1,
    CLS_TOKEN_0,
    CLS_TOKEN_1,
    CLS_TOKEN_2,
    CLS_TOKEN_3,
    CLS_PASS_0,
    CLS_PASS_1,
    CLS_SEARCH_0,
    CLS_SEARCH_1,
    CLS_SEARCH_2,
    CLS_DISTRIBUTION_0,
    CLS_DISTRIBUTION_1,
    CLS_REPORT_0,
    CLS_REPORT_1,
    CLS_ACCEPT_0,
    CLS_DRAW_0,
    CLS_RESIDUAL_0,
    CLS_VERIFY_0,
    CLS_VARIANTS /* at most 32: sets of them are bits */
};
typedef struct cls_variant {
    const char *name; /* for people and in files' names */
    enum cls_kernel kernel;
    const char *file; /* of cl/kernels, without .cl */
    const char *const *source;
    const unsigned *count;
    const char *options; /* for the compiler, each after a space */
    uint32_t serves;     /* features */
    int typed;           /* it reads logits: a program for each type of these */
    int registers; /* an item's at most, for NVIDIA's compiler and groups up to 256; 0: its own
                      choice */
} cls_variant;
extern const cls_variant cls_variants[CLS_VARIANTS];

/* Whether a variant does for steps of some features; the leanest one that does. */
int cls_variant_serves(int variant, uint32_t features);
int cls_variant_leanest(enum cls_kernel kernel, uint32_t features);

/* The variants that a sampler of some features has, a bit each. */
uint32_t cls_variants_of(uint32_t features);

/* For tests: samplers have no leaner variants than those that serve all of their
 * features, and compile the fewest programs. */
extern int cls_widest_pretended;

/* What a step with a slot needs; what the lowest bit of features stands for. */
uint32_t cls_features_of_slot(const cls_slot *slot);
const char *cls_feature_what(uint32_t features);

/* A kernel that may be launched. */
struct cls_ready {
    cl_kernel kernel; /* NULL: it is not compiled for this sampler */
    uint32_t group;
    uint32_t variant; /* a bit */
};

/* ---------------------------------------------------------- container.c */

typedef struct cls_bytes {
    const uint8_t *bytes; /* NULL: none */
    size_t size;
} cls_bytes;

/* What a program was compiled in, where programs of one context may differ. */
typedef struct cls_grouping {
    uint32_t group;     /* work-items of a group */
    uint32_t tier;      /* a cls_tier */
    uint32_t subgroups; /* a cls_subgroups */
    uint32_t standard;  /* of OpenCL C: 120, or what the sub-groups' functions want */
    uint32_t shortlist; /* entries of a list; the same in all programs of a context */
} cls_grouping;

/* Compiled programs with these, by type of logits (0: of none, too) and variant. */
typedef struct cls_container {
    struct {
        cls_grouping as;
        cls_bytes bytes;
    } program[CLS_DTYPES][CLS_VARIANTS];
} cls_container;

#define CLS_CONTAINER_HEADER 84 /* bytes */

size_t cls_container_size(const cls_container *container);
void cls_container_write(const cls_container *container, const uint8_t key[CLS_DIGEST], void *out);

/* How long what follows a header says that it is; 0 if it is none of this key. */
int cls_container_length(const void *header, const uint8_t key[CLS_DIGEST], uint64_t *length);

/* Programs, which point into `bytes`; 0 unless all of it is whole, of this
 * format and of this key. */
int cls_container_read(const void *bytes, size_t size, const uint8_t key[CLS_DIGEST],
                       cls_container *out);

/* ----------------------------------------------------------- lifetime.c */

/* A program that is there, or is being made. */
typedef struct cls_program {
    cl_program program; /* NULL: it is not there */
    cls_grouping as;
    uint32_t origin; /* a cls_origin */
    int proved;
    double seconds;
    uint64_t local_mem, private_mem, max_group, preferred; /* of the kernel, as the driver tells */
} cls_program;

/* Whether a program does what it must before anybody gets it: compute what the host computes;
 * which also makes drivers that compile at the first launch do it now. `with`: the
 * variants that are there to be run with it. ran: if it failed, those of which a
 * failure may be the group's: what was launched, or what the device refused to
 * launch; 0 where it did not come so far. */
typedef cls_status cls_prover(cls_context *context, int variant, int32_t dtype, uint32_t with,
                              uint32_t *ran);

struct cls_context {
    atomic_int references; /* the creator, its samplers, readbacks and heads */
    cl_context cl;
    cl_device_id device;
    cls_shape shape;
    cls_shape asked;             /* before the device was found to compute some of it wrong */
    cls_prover *prove;           /* the self-test's, which lies above this layer */
    cls_context_options options; /* the caller's; texts and bytes are copies, but for build_log */
    int keyed;                   /* `key` is what compiled programs must have */
    uint8_t key[CLS_DIGEST];
    uint8_t *binary; /* options.binary's, which `ready` points into */
    cls_container ready;

    cls_lock *lock; /* what is below; nothing that enqueues takes it */
    cls_program program[CLS_DTYPES][CLS_VARIANTS]; /* programs of no type are of type 0 */
    char *build_log;
};

void cls_context_retain(cls_context *context);

/* The types of logits that samplers are compiled for by default, bits. */
uint32_t cls_context_dtypes(const cls_context *context);

/* Checks bits of types and of features, whose owner is for messages. */
cls_status cls_features_check(const char *what, uint32_t dtypes, uint32_t features);

/* -------------------------------------------------------------- build.c */

#define CLS_BUILD_OPTIONS 200

/* Kernel source, or compiled bytes, to a built program in a grouping; appends the
 * compiler's log to the context's, and asks the driver what the kernel takes. */
cls_status cls_program_build(cls_context *context, int variant, int32_t dtype,
                             const cls_bytes *binary, cls_program *out);
void cls_program_release(cls_program *program);
void cls_program_options(const cls_shape *shape, const cls_grouping *as, int32_t dtype,
                         const cls_variant *variant, char options[CLS_BUILD_OPTIONS]);

/* ------------------------------------------------------------ compile.c */

/* Makes sure that programs (bits of variants, of types of logits) are there,
 * proved; in smaller groups than the context's if the device refuses these. */
cls_status cls_compile(cls_context *context, uint32_t dtypes, uint32_t variants);

/* ----------------------------------------------------------- binaries.c */

/* What programs fit: the library and its kernels, a device and its driver, the
 * shape that is asked for. */
cls_status cls_binaries_key(cl_device_id device, const cls_shape *asked, uint8_t key[CLS_DIGEST]);

/* A program's bytes, the caller's to free. */
cls_status cls_binaries_get(const cls_context *context, const cls_program *program, cls_bytes *out);

/* Whether a driver keeps what it compiles, and compiles once more when it is asked
 * for the bytes. */
int cls_binaries_are_slow(cl_device_id device);

/* -------------------------------------------------------------- cache.c */

/* What a folder has for a program, not yet checked beyond its header; the caller's
 * to free. NULL: nothing. */
void *cls_cache_read(const char *dir, const uint8_t key[CLS_DIGEST], int32_t dtype,
                     const char *name, size_t *size);
void cls_cache_write(const char *dir, const uint8_t key[CLS_DIGEST], int32_t dtype,
                     const char *name, const void *bytes, size_t size);

#endif
