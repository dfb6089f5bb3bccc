/* SPDX-License-Identifier: MIT */
/* Compiled programs: which variant of a kernel supports which features, and how programs are
 * compiled, exported and cached. A cls_context owns them and is defined here. */
#ifndef CLS_PROGRAMS_H
#define CLS_PROGRAMS_H

#include "device/device.h"
#include <stdatomic.h>

/* ---------------------------------------------------------- the kernels */

/* The kernels, in the order in which a step launches them. */
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
    CLS_WATERMARK,
    CLS_FORCE,
    CLS_KEPT,
    CLS_ACCEPT,
    CLS_RESIDUAL,
    CLS_VERIFY,
    CLS_LOOKUP,
    CLS_PARTIAL,
    CLS_MERGE,
    CLS_KERNELS
};
/* Returns the name of a kernel's function. */
const char *cls_kernel_name(enum cls_kernel kernel);

/* Returns 1 if a kernel's groups go over the tiles of rows, with shape.work_group work-items, and 0
 * if each takes a whole row, with shape.row_group. */
static inline int cls_kernel_covers_tiles(enum cls_kernel kernel)
{
    return kernel == CLS_SURVEY || kernel == CLS_PASS || kernel == CLS_DISTRIBUTION ||
           kernel == CLS_KEPT || kernel == CLS_RESIDUAL || kernel == CLS_WATERMARK;
}

/* -------------------------------------------------------------- table.c */

/* The variants of kernels, each a program. Those of one kernel are ordered by what they support:
 * the smallest comes first. */
enum {
    CLS_SELF_TEST_0,
    CLS_SLOTS_0,
    CLS_SLOTS_1,
    CLS_PREPARE_0,
    CLS_SURVEY_0,
    CLS_SURVEY_1,
    CLS_TOKEN_0,
    CLS_TOKEN_SMALL,
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
    CLS_WATERMARK_0,
    CLS_FORCE_0,
    CLS_KEPT_0,
    CLS_KEPT_1,
    CLS_ACCEPT_0,
    CLS_RESIDUAL_0,
    CLS_VERIFY_0,
    CLS_LOOKUP_0,
    CLS_PARTIAL_0,
    CLS_MERGE_0,
    CLS_VARIANTS /* at most 64, since a cls_variant_set has a bit for each */
};
typedef uint64_t cls_variant_set;
#define CLS_VARIANT_BIT(v) (UINT64_C(1) << (v))
typedef struct cls_variant {
    const char *name; /* in messages and names of files */
    enum cls_kernel kernel;
    const char *file; /* in cl/kernels, without .cl */
    const char *const *source;
    const unsigned *count;
    const char *options; /* for the compiler, a space before each; -DLIST replaces the context's */
    uint32_t supports;   /* cls_feature bits */
    int typed;           /* 1 if it reads logits; then there is a program for each type of them */
    int registers; /* a work-item's limit, for NVIDIA's compiler and groups of up to 256; 0: none */
} cls_variant;
extern const cls_variant cls_variants[CLS_VARIANTS];

/* What a step may need beside cls_feature bits: a list of the context's length, since a row may
 * keep more than CLS_SMALL_TOP_K tokens. A sampler with CLS_FEATURE_SHORTLIST has programs for it.
 */
#define CLS_NEED_LONG_LIST 262144u
/* Of a request: one of its two phases is greedy. */
#define CLS_NEED_MIXED 524288u
/* Of a request: the survey sums up its rows, and at another temperature than 1. */
#define CLS_NEED_SCALED 1048576u
/* Of a request: stop ids do not stop it while it thinks. */
#define CLS_NEED_STOPS 2097152u
/* These are not served by programs. */
#define CLS_NEEDS_OF_REQUESTS (CLS_NEED_MIXED | CLS_NEED_SCALED | CLS_NEED_STOPS)
#define CLS_NEEDS_ALL (CLS_FEATURES_KNOWN | CLS_NEED_LONG_LIST | CLS_NEEDS_OF_REQUESTS)

/* Returns 1 if a variant can run steps that need these features. */
int cls_variant_supports(int variant, uint32_t features);

/* Returns the smallest variant of a kernel that supports these features. */
int cls_variant_find(enum cls_kernel kernel, uint32_t features);

/* Returns 1 if some of these variants, a bit each, can run steps that need these features. */
int cls_variants_suffice(cls_variant_set variants, uint32_t features);

/* Returns the features that a library in one file was built with: all, but for those of parts that
 * CLS_WITHOUT_... left out. */
uint32_t cls_features_built(void);

/* Refuses features that were left out, by the names of the feature and of the macro. */
cls_status cls_features_refuse(const char *where, uint32_t features);

/* Returns all variants that some sampler uses, a bit each. */
cls_variant_set cls_variants_all(void);

/* Returns the variants that a sampler with these features has, a bit each. CLS_TOKEN_SMALL is
 * compiled only where cls_shape_wants_small_lists(). */
cls_variant_set cls_variants_of(uint32_t features);

/* Returns the features that a step with this slot needs, and CLS_NEED_LONG_LIST. The table of
 * doc/requests.md, "Features", is of these; tests/scripts/refused.run proves it. */
uint32_t cls_features_of_slot(const cls_slot *slot);

/* Writes the names of some features, for messages. */
#define CLS_FEATURE_NAMES 480
void cls_features_name(char text[CLS_FEATURE_NAMES], uint32_t features);

/* A kernel that is ready to be launched. */
struct cls_compiled_kernel {
    cl_kernel handle;        /* NULL if it was not compiled for this sampler */
    struct cls_known *known; /* what its arguments were set to (lib/queue/queue.h) */
    uint32_t group;          /* work-items in a group */
    cls_variant_set variant; /* the variant's bit */
};

/* ---------------------------------------------------------- container.c */

typedef struct cls_bytes {
    const uint8_t *bytes; /* NULL if there are none */
    size_t size;
} cls_bytes;

/* How a program was compiled. Programs of one context may differ in all fields but the last. */
typedef struct cls_build_config {
    uint32_t group;     /* work-items in a group */
    uint32_t tier;      /* a cls_tier */
    uint32_t subgroups; /* a cls_subgroups */
    uint32_t standard;  /* version of OpenCL C: 120, or what sub-groups require */
    uint32_t shortlist; /* entries of a list */
} cls_build_config;

/* Compiled programs, by type of logits and variant. Programs that read no logits have type 0. */
typedef struct cls_container {
    struct {
        cls_build_config config;
        cls_bytes bytes;
    } program[CLS_DTYPES][CLS_VARIANTS];
} cls_container;

#define CLS_CONTAINER_HEADER 84 /* bytes */

/* Returns the bytes that a container takes. */
size_t cls_container_size(const cls_container *container);

/* Writes a container with its cache key to `out`, which has cls_container_size() bytes. */
void cls_container_write(const cls_container *container, const uint8_t key[CLS_DIGEST_SIZE],
                         void *out);

/* Reads the size of the payload, which follows the header. Returns 0 if the header is damaged or
 * has another key. */
int cls_container_payload_size(const void *header, const uint8_t key[CLS_DIGEST_SIZE],
                               uint64_t *size);

/* Reads a container, whose programs point into `bytes`. Returns 0 if the bytes are damaged or have
 * another format or key. */
int cls_container_read(const void *bytes, size_t size, const uint8_t key[CLS_DIGEST_SIZE],
                       cls_container *out);

/* ----------------------------------------------------------- lifetime.c */

/* Allocates a context of this shape, with one reference. Fails if memory runs out. */
cls_status cls_context_new(const cls_shape *shape, cls_context **out);

/* Adds a reference to a context; cls_context_destroy() removes it. */
void cls_context_retain(cls_context *context);

/* Passes a sentence to options->log. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void
cls_say(const cls_context_options *options, const char *format, ...);

/* A program of a context. */
typedef struct cls_program {
    cl_program program; /* NULL if it is not compiled */
    int variant;
    int32_t dtype; /* 0 if it reads no logits */
    cls_build_config config;
    uint32_t origin; /* a cls_origin */
    int proved;      /* 1 if it computed on the device what the host computes */
    double seconds;  /* that compiling and proving took */
    uint64_t local_mem, private_mem, max_group,
        preferred; /* of the kernel; reported by the driver */
} cls_program;

/* The compiler's log. A text that a caller has got stays as it is, and longer ones are copies. */
typedef struct cls_log {
    struct cls_log *older;
    int is_lent;
    char text[];
} cls_log;

struct cls_context {
    atomic_int references; /* by the creator, samplers and readbacks */
    cl_context cl;
    cl_device_id device;
    cls_shape shape;
    cls_shape requested_shape;   /* before tests of the device made it smaller */
    cls_context_options options; /* cache_dir is a copy, build_log the caller's buffer */
    int has_cache_key;           /* 1 if compiled programs can be identified by `cache_key` */
    uint8_t cache_key[CLS_DIGEST_SIZE];
    uint8_t *binary;               /* a copy of options.binary */
    cls_container binary_programs; /* the programs in it */

    /* The lock protects what follows. No call that enqueues takes it. */
    cls_lock *lock;

    /* Proves a variant that is compiled: cls_prove() of lib/selftest, which uses all that samplers
     * are made of. NULL: the library was built without the self-test. */
    cls_status (*prove)(cls_context *context, int variant, int32_t dtype,
                        cls_variant_set *launched);
    cls_program program[CLS_DTYPES][CLS_VARIANTS]; /* programs that read no logits have type 0 */
    cls_log *log;                                  /* of all programs so far, or NULL */
    cls_lock *log_lock; /* of `log` alone: compiling holds the other one for seconds */
};

/* Returns the types of logits that samplers are compiled for by default, a bit each. */
uint32_t cls_context_dtypes(const cls_context *context);

/* Fails if `dtypes` or `features` have unknown bits. `where` is what messages put before their
 * names. */
cls_status cls_features_check(const char *where, uint32_t dtypes, uint32_t features);

/* -------------------------------------------------------------- build.c */

#define CLS_BUILD_OPTIONS 200 /* bytes of compiler options, at most */

/* Builds a program by its configuration, from source or, if `binary` is not NULL, from compiled
 * bytes. Appends the compiler's log to the context's and queries the kernel's limits. Fails if the
 * driver refuses the source or the bytes. */
cls_status cls_program_build(cls_context *context, cls_program *program, const cls_bytes *binary);

/* Returns the compiler's log of all programs so far, which stays as it is. Any thread may call it.
 */
const char *cls_context_log(const cls_context *context);

/* Releases the program; it is neither compiled nor proved afterwards. */
void cls_program_release(cls_program *program);

/* Writes the compiler's options for a program. `variant` may be NULL, for the options that all
 * programs share. */
void cls_program_options(const cls_shape *shape, const cls_build_config *config, int32_t dtype,
                         const cls_variant *variant, char options[CLS_BUILD_OPTIONS]);

/* ------------------------------------------------------------ compile.c */

/* Compiles a program from options->binary, the cache folder or source, in this order. If the device
 * refuses the source, it is compiled in smaller groups. Fails if no size works, or if the caller
 * chose the size. */
cls_status cls_program_compile(cls_context *context, cls_program *program);

/* Compiles a program from source by its configuration, or in smaller groups. */
cls_status cls_program_from_source(cls_context *context, cls_program *program);

/* Change the configuration of a program that was compiled: to that of one from source, if this one
 * is not, and to smaller groups. They return 0 if that cannot be. */
int cls_program_distrust(const cls_context *context, cls_program *program);
int cls_program_make_smaller(const cls_context *context, cls_program *program);

/* Adds to the last error that smaller groups were tried before. */
cls_status cls_program_fail_smaller(cls_status status, const cls_program *program);

/* ------------------------------------------------------------- proved.c */

/* Compiles and proves those of the programs (bits of types of logits, of variants) that the context
 * does not have yet. If the device refuses a program, or the program computes wrong, it is compiled
 * in smaller groups. Fails if no size works, or if the caller chose the size. */
cls_status cls_compile(cls_context *context, uint32_t dtypes, cls_variant_set variants);

/* ------------------------------------------------------------- stored.c */

#ifdef CLS_WITHOUT_BINARIES
static inline cls_status cls_stored_open(cls_context *context, const cls_context_options *options)
{
    (void)context;
    return options->binary == NULL && options->cache_dir == NULL
               ? CLS_OK
               : cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                          "options->binary and options->cache_dir must be NULL, since this library "
                          "was built without binaries (CLS_WITHOUT_BINARIES)");
}
#define cls_program_from_stored(context, program) 0
#define cls_program_store(context, program) ((void)0)
#else
/* Copies options->binary and options->cache_dir, since later compilations use them. */
cls_status cls_stored_open(cls_context *context, const cls_context_options *options);

/* Builds a program from options->binary or from a file of the cache folder. Returns 0 if neither
 * has it, or if it does not fit or the driver refuses it. */
int cls_program_from_stored(cls_context *context, cls_program *program);

/* Writes a program that was compiled from source to the cache folder. */
void cls_program_store(const cls_context *context, const cls_program *program);
#endif

/* ----------------------------------------------------------- binaries.c */

/* Computes the cache key of compiled programs: a hash of the library's version, the variants
 * (cls_variants, but for tests), the device and its driver, and the requested shape. Fails if the
 * device cannot be queried. */
cls_status cls_cache_key(cl_device_id device, const cls_shape *requested_shape,
                         const cls_variant variants[CLS_VARIANTS], uint8_t key[CLS_DIGEST_SIZE]);

/* Gets a program's compiled bytes from the driver; the caller frees them. Fails if the driver has
 * none, or is one that must not be asked (PoCL 5 and 6). */
cls_status cls_program_binary(const cls_context *context, const cls_program *program,
                              cls_bytes *out);

/* Fails if the driver must not be asked for a program's bytes. */
cls_status cls_binary_check(cl_device_id device);

/* Returns 1 if the driver compiles a program a second time when its bytes are queried. Such a
 * driver has a cache of its own (PoCL). */
int cls_binary_query_recompiles(cl_device_id device);

/* -------------------------------------------------------------- cache.c */

/* Fails if there is no folder with this name in which files can be read. */
cls_status cls_cache_check(const char *dir);

/* Reads the file of a program in a folder. Returns NULL if there is none or its header does not
 * fit. The caller checks the rest and frees the bytes. */
void *cls_cache_read(const char *dir, const uint8_t key[CLS_DIGEST_SIZE], int32_t dtype,
                     const char *name, size_t *size);

/* Writes the file of a program. Returns 0 if that fails; no file is left then. */
int cls_cache_write(const char *dir, const uint8_t key[CLS_DIGEST_SIZE], int32_t dtype,
                    const char *name, const void *bytes, size_t size);

#endif
