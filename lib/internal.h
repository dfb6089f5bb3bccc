/* SPDX-License-Identifier: MIT */
/* The one private header: what the library's files know of each other. */
#ifndef CLS_INTERNAL_H
#define CLS_INTERNAL_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include "clsample.h"
#include "param_table.h"

#include <float.h>
#include <stdatomic.h>

/* The host's half decides tokens, too. */
#if FLT_EVAL_METHOD != 0 || defined(__FAST_MATH__)
#error "float arithmetic must round each operation: not -ffast-math; x86-32: -msse2 -mfpmath=sse"
#endif

#include "core/types.h"
#include "core/integers.h"
#include "core/arithmetic.h"
#include "core/philox.h"
#include "core/samplers.h"
#include "core/verify.h"

/* ---------------------------------------------------------------- status.c */

/* Records the sentence (printf style) and OpenCL's code for the thread and
 * returns `status`. On Windows gcc's "printf" is another than C11's. */
#if defined(__MINGW32__) && !defined(__clang__)
__attribute__((format(gnu_printf, 3, 4)))
#elif defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
cls_status
cls_fail(cls_status status, cl_int opencl, const char *format, ...);

const char *cls_opencl_name(cl_int code);

/* A thread's last failure, for calls that succeed after one inside them. */
typedef struct cls_failure {
    char message[512];
    cl_int opencl;
} cls_failure;
void cls_failure_keep(cls_failure *failure);
void cls_failure_restore(const cls_failure *failure);

/* A public struct's size in the first header of this interface (soname 5): no program has a
 * smaller one, but one that passes the size of a pointer. */
#define CLS_FIRST_SIZE(p) \
    _Generic((p), cls_params * \
             : offsetof(cls_params, only_allowed), cls_selftest_report * \
             : offsetof(cls_selftest_report, stage), cls_verify_call * \
             : offsetof(cls_verify_call, latest), cls_sampler_options * \
             : offsetof(cls_sampler_options, host_mask_size), cls_step * \
             : offsetof(cls_step, logits_map), default \
             : sizeof *(p))

/* Zeroes a public struct of the caller's size and sets its struct_size; to 0, which every use
 * refuses, where that is below the first size, and then returns 0. */
int cls_struct_init(void *object, size_t caller_size, size_t first);
#define CLS_STRUCT_INIT(p, caller_size) cls_struct_init(p, caller_size, CLS_FIRST_SIZE(p))

/* Copies a public struct of the caller's size into ours, which already holds the defaults. Refuses
 * a size below the first or beyond reason and, where the struct is not there to be written, a field
 * that is not known here and is not 0. */
cls_status cls_struct_read(void *object, size_t ours, size_t first, const void *callers,
                           const char *name, int written);
#define CLS_STRUCT_READ(p, callers, name) \
    cls_struct_read(p, sizeof *(p), CLS_FIRST_SIZE(p), callers, name, 0)
#define CLS_STRUCT_OUT(p, callers, name) \
    cls_struct_read(p, sizeof *(p), CLS_FIRST_SIZE(p), callers, name, 1)

/* Refuses a reserved field that is not 0. */
cls_status cls_reserved_check(const char *what, uint64_t value);

/* ----------------------------------------------------------- param_table.c */

/* A row of CLS_PARAMS or CLS_PARAMS_OF_LISTS. */
typedef struct cls_param {
    const char *field;
    enum { CLS_PARAM_FLOAT, CLS_PARAM_INT, CLS_PARAM_UINT, CLS_PARAM_UINT64, CLS_PARAM_BYTES } type;
    uint32_t id;
    size_t offset, size;
    double initial, least, most;
    const char *range;
} cls_param;

/* The parameter of a saved field; NULL if there is none. Ids are 1, 2, and so on. */
const cls_param *cls_param_by_id(uint32_t id);
void *cls_param_in(const cls_param *param, cls_params *params);

/* A caller's parameters in our size of the struct, unchecked. */
cls_status cls_params_read(const cls_params *callers, cls_params *params);

/* Whether each parameter is in its range. The other function says that one is not. */
cls_status cls_params_check_ranges(const cls_params *params);
cls_status cls_param_refuse(const char *field, double value, const char *range);

/* ---------------------------------------------------------------- params.c */

/* Parameters as the kernels want them, checked. The slot's position is
 * params->position; where its lists lie is not known yet. */
cls_status cls_slot_from_params(const cls_params *params, uint32_t vocab, cls_slot *slot);

/* Whether only the tokens of a list may be drawn. */
static inline int cls_params_allow_some(const cls_params *p)
{
    return p->only_allowed != 0 || p->allowed_count != 0;
}

/* Subnormals as zero: a device may flush them. */
float cls_normal(float x);

/* The i-th stage of a slot's chain. */
static inline uint32_t cls_slot_stage(const cls_slot *slot, uint32_t i)
{
    return slot->chain[i / 4] >> (8 * (i % 4)) & 255u;
}

/* ------------------------------------------------------------- reference.c */

/* cls_host_sample() with its masses, target and cut. */
cls_status cls_reference(const cls_host_row *row, cls_row *trace, cls_host_result *result);

/* -------------------------------------------------------------- generated */

extern const char *const cls_source_groups_test[];
extern const unsigned cls_source_groups_test_count;

/* ---------------------------------------------------------------- device.c */

#define CLS_MAX_ARGUMENTS \
    32 /* of a kernel; in OpenCL 1.2 no device takes fewer, where a pointer has 8 bytes */

typedef struct cls_shape {
    uint32_t work_group; /* of the kernels that go over tiles */
    uint32_t row_group;  /* of those that take a row to its token */
    uint32_t vector, shortlist;
    uint32_t compute_units;
    uint64_t local_mem_size, max_work_group;
    uint32_t tier;      /* a cls_tier, resolved */
    uint32_t subgroups; /* a cls_subgroups */
    uint32_t standard;  /* of OpenCL C: 120, or what the sub-groups' functions want */
    int compiler;       /* whether the device has one */
    int nvidia;         /* whether that takes NVIDIA's options (cl_nv_compiler_options) */
    int limited;        /* whether it has no infinities nor NaN */
    const char *extra;  /* options for its compiler: cls_limits_pretended, or an empty text */
} cls_shape;

/* Checks that a device can run the kernels and shapes them for it. Sub-groups
 * are those that are worth a try, and the tier is the one with them. */
cls_status cls_shape_query(cl_device_id device, const cls_context_options *options,
                           cls_shape *shape);

/* The failure of a device without one, for which there are no programs. */
cls_status cls_shape_no_compiler(void);

/* For tests, NULL else: every device is one without infinities, and this, which
 * begins with a space, is added to its compiler's options. */
extern const char *cls_limits_pretended;

/* Makes vectors fit the groups. */
void cls_shape_settle(cls_shape *shape);

/* ------------------------------------------------------------- subgroups.c */

/* The sub-groups that a device seems to have, by what it says of itself. */
uint32_t cls_subgroups_candidate(cl_device_id device);

/* Compiles and runs a small program for them, in groups of the shape's sizes.
 * NULL if every answer is right: shape->subgroups is what they are and
 * shape->standard what they want; else why not: NONE, and 120. */
const char *cls_subgroups_find(cl_context cl, cl_device_id device, cls_shape *shape);

/* Runs the same program without sub-groups: NULL if groups of the shape's sizes
 * compute right, else what they get wrong. */
const char *cls_groups_check(cl_context cl, cl_device_id device, const cls_shape *shape);

/* For tests: what cls_subgroups_candidate() says of every device, if not
 * CLS_SUBGROUPS_NONE; 6 and 7 are made of local memory, the latter wrong. */
extern uint32_t cls_subgroups_pretended;
#define CLS_SUBGROUPS_MADE 6
#define CLS_SUBGROUPS_WRONG 7

/* ---------------------------------------------------------------- sha256.c */

#define CLS_DIGEST 32
typedef struct cls_sha256 {
    uint32_t h[8];
    uint64_t bytes; /* so far */
    uint8_t block[64];
} cls_sha256;

void cls_sha256_begin(cls_sha256 *hash);
void cls_sha256_add(cls_sha256 *hash, const void *bytes, size_t size);
void cls_sha256_end(cls_sha256 *hash, uint8_t digest[CLS_DIGEST]);

/* --------------------------------------------------------------- program.c */

/* A program of strings; NULL and *code if it cannot be had. */
cl_program cls_program_create(cl_context cl, const char *const *strings, unsigned count,
                              cl_int *code);

#define CLS_DTYPES 3
size_t cls_dtype_size(int32_t dtype);

#define CLS_BUILD_OPTIONS 200

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

/* -------------------------------------------------------------- programs.c */

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

/* ------------------------------------------------------------- container.c */

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

/* ------------------------------------------------------------------ lock.c */

typedef struct cls_lock cls_lock;
cls_lock *cls_lock_create(void);
void cls_lock_destroy(cls_lock *lock);
void cls_lock_take(cls_lock *lock);
void cls_lock_give(cls_lock *lock);

/* Seconds, since some time or other. */
double cls_now(void);

/* --------------------------------------------------------------- context.c */

/* A program that is there, or is being made. */
typedef struct cls_program {
    cl_program program; /* NULL: it is not there */
    cls_grouping as;
    uint32_t origin; /* a cls_origin */
    int proved;
    double seconds;
    uint64_t local_mem, private_mem, max_group, preferred; /* of the kernel, as the driver tells */
} cls_program;

struct cls_context {
    atomic_int references; /* the creator, its samplers, readbacks and heads */
    cl_context cl;
    cl_device_id device;
    cls_shape shape;
    cls_shape asked; /* before the device was found to compute some of it wrong */
    cls_context_options
        options; /* the caller's; its texts and bytes are copies, or its own where it said so */
    int keyed;   /* `key` is what compiled programs must have */
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

/* ---------------------------------------------------- program.c, contexts' */

/* Kernel source, or compiled bytes, to a built program in a grouping; appends the
 * compiler's log to the context's, and asks the driver what the kernel takes. */
cls_status cls_program_build(cls_context *context, int variant, int32_t dtype,
                             const cls_bytes *binary, cls_program *out);
void cls_program_release(cls_program *program);
void cls_program_options(const cls_shape *shape, const cls_grouping *as, int32_t dtype,
                         const cls_variant *variant, char options[CLS_BUILD_OPTIONS]);

/* --------------------------------------------------------------- compile.c */

/* Makes sure that programs (bits of variants, of types of logits) are there,
 * proved; in smaller groups than the context's if the device refuses these. */
cls_status cls_compile(cls_context *context, uint32_t dtypes, uint32_t variants);

/* -------------------------------------------------------------- binaries.c */

/* What programs fit: the library and its kernels, a device and its driver, the
 * shape that is asked for. */
cls_status cls_binaries_key(cl_device_id device, const cls_shape *asked, uint8_t key[CLS_DIGEST]);

/* A program's bytes, the caller's to free. */
cls_status cls_binaries_get(const cls_context *context, const cls_program *program, cls_bytes *out);

/* Whether a driver keeps what it compiles, and compiles once more when it is asked
 * for the bytes. */
int cls_binaries_are_slow(cl_device_id device);

/* ----------------------------------------------------------------- cache.c */

/* What a folder has for a program, not yet checked beyond its header; the caller's
 * to free. NULL: nothing. */
void *cls_cache_read(const char *dir, const uint8_t key[CLS_DIGEST], int32_t dtype,
                     const char *name, size_t *size);
void cls_cache_write(const char *dir, const uint8_t key[CLS_DIGEST], int32_t dtype,
                     const char *name, const void *bytes, size_t size);

/* ----------------------------------------------------------------- prove.c */

/* What a program must do before anybody gets it: compute what the host computes;
 * which also makes drivers that compile at the first launch do it now. `with`: the
 * variants that are there to be run with it. ran: if it failed, those of which a
 * failure may be the group's: what was launched, or what the device refused to
 * launch; 0 where it did not come so far. */
cls_status cls_prove(cls_context *context, int variant, int32_t dtype, uint32_t with,
                     uint32_t *ran);

/* For tests, whose OpenCL computes nothing: programs are run, and what they give is
 * not looked at. */
extern int cls_proofs_only_run;

/* --------------------------------------------------------------- sampler.c */

#define CLS_STAGING 16 /* uploads in flight */

/* The int32s of a step's rows that may come from the host. */
enum cls_map {
    CLS_MAP_SLOTS,
    CLS_MAP_POSITIONS,
    CLS_MAP_DRAWS,
    CLS_MAP_MASKS,
    CLS_MAP_BIASES,
    CLS_MAP_LOGITS,
    CLS_STEP_MAPS,
    CLS_MAP_TOKENS = CLS_STEP_MAPS, /* of cls_accept(), and drafts */
    /* Of drafts: the one that a row follows, the one that a draft follows, the
     * requests' first rows. */
    CLS_MAP_NODES,
    CLS_MAP_PARENTS,
    CLS_MAP_FIRSTS,
    CLS_MAPS
};

/* What launches of one step are told may differ, so that each has arguments of its
 * own: the step's and what it reports; the raw rows'; a verification's and its drafts';
 * what accepts; draws from lists. One that several steps have stays as it is. */
enum cls_role {
    CLS_ROLE_STEP,
    CLS_ROLE_RAW,
    CLS_ROLE_VERIFY,
    CLS_ROLE_DRAFTS,
    CLS_ROLE_ACCEPT,
    CLS_ROLE_DRAW,
    CLS_ROLES
};

/* Memory that grows. */
typedef struct cls_block {
    void *data;
    size_t used, size; /* bytes */
} cls_block;

/* Device memory that grows, with its size in bytes. */
typedef struct cls_device_block {
    cl_mem buffer;
    size_t size;
} cls_device_block;

/* One upload under way: memory that must not change until `done`. */
typedef struct cls_staging {
    cl_event done;            /* NULL: free */
    int32_t *maps;            /* [CLS_MAPS][max_rows] */
    cls_block changes, words; /* those of the slot calls before a step */
    cls_block masks;          /* the step's, from the host */
} cls_staging;

/* A request's biases and stop ids, in the lists on the device; forks share them. */
typedef struct cls_lists {
    struct cls_lists *next; /* by place */
    uint32_t references;    /* 0: its place is free after the next step */
    uint64_t flush;         /* the sampler's, when a request last let it go */
    uint32_t at, n;         /* words */
} cls_lists;

/* What the host knows of a slot: not the device's part. */
typedef struct cls_request {
    cls_slot slot;
    cls_params params; /* its arrays are ours */
    cls_lists *lists;  /* NULL: none */
    /* Of the pending changes, if `flush` is the sampler's; else there are none of this slot. */
    uint64_t flush;
    uint32_t round, read; /* the last in which it is changed, and copied; 0: none */
    uint32_t latest;      /* its last change ... */
    uint32_t room;        /* ... and the words behind its tokens that are kept for more of them */
    int traceless;        /* ... which nobody can tell from none if new parameters follow */
} cls_request;

struct cls_sampler {
    cls_context *context;
    uint32_t vocab, max_rows, slots;
    uint32_t keep, biases, history, rollback;
    uint32_t layout;           /* CLS_LAYOUT() of a slot's state */
    uint32_t tiles;            /* mass tiles of a row */
    uint32_t sample_stride;    /* floats of a row's sample */
    uint32_t dtypes, features; /* what there are kernels for */
    int no_late_compile;
    struct cls_ready {
        cl_kernel kernel; /* NULL: it is not compiled for this sampler */
        uint32_t group;
        uint32_t variant;              /* a bit */
    } ready[CLS_DTYPES][CLS_VARIANTS]; /* kernels of no type are of type 0 */
    uint32_t forced; /* variants that are launched whatever a step needs, a bit each; for proofs and
                        tests */
    int unproved;    /* it is a proof's own: slot calls compile nothing */
    uint32_t ran, refused; /* variants that were launched, and that the device refused to launch;
                              for proofs */

    /* On the device; the slots' ... */
    cl_mem slot_buffer; /* cls_slot [slots] */
    cl_mem state;       /* u32 [slots][state_words()] */
    cls_device_block lists, changes, words;
    cls_device_block masks; /* those that came from the host */
    cl_mem old_lists;       /* what `lists` must be filled from first, or NULL */
    size_t old_lists_size;
    /* ... and the rows'; [max_rows] of each. */
    cl_mem maps;       /* int32 [CLS_MAPS][max_rows]: the step's host maps */
    cl_mem rows;       /* cls_row */
    cl_mem prepared;   /* u32 [prepared_words()] */
    cl_mem tile_key;   /* int32 [max tiles] */
    cl_mem tile_mass;  /* u64 [tiles] */
    cl_mem tile_flags; /* u32 [tiles] */
    cl_mem pass;       /* u64 [tiles][CLS_PIVOTS] */
    cl_mem work;       /* u64 [tiles]: the masses of the set that is drawn from */
    cl_mem sample;     /* float [sample_stride] */
    cl_mem infill;     /* int32: the tables of cls_sampler_infill(), or NULL */
    uint32_t n_end;
    atomic_int
        has_infill; /* what cls_sampler_check() asks, which any thread may call at any time */
    cl_mem raw_key, raw_mass, raw_flags; /* the survey of the raw logits, for raw logprobs */
    /* What the kernels are told beside buffers. */
    struct cls_told {
        cl_mem buffer;  /* cls_args */
        cls_args sent;  /* what is in it ... */
        uint32_t known; /* ... in these blocks, a bit each */
    } told[CLS_ROLES];

    /* On the host. */
    cls_request *request;        /* [slots] */
    cls_lists *first_lists;      /* all of them, by place */
    cls_lists *lists_before[32]; /* ... behind which to look for a place, by the digits of its
                                    words; NULL: all */
    uint64_t lists_dropped;      /* the flush in which unused ones were forgotten */
    cls_block pending_changes, pending_words; /* slot calls that the device has not seen */
    uint32_t rounds;                          /* ... and their rounds */
    int pending_state;                        /* one of them is no beginning, appending or reset */
    uint64_t flush;
    uint8_t *seen; /* [slots]: finds slots that occur twice; all 0 between steps */
    int32_t *sent; /* [CLS_MAPS][max_rows]: the maps that the device has */
    int32_t *
        spread; /* [CLS_MAPS][max_rows]: the maps of a verification's rows, made of its requests' */
    uint32_t sent_rows[CLS_MAPS];
    cls_staging staging[CLS_STAGING];
    cl_event last; /* the last step's end */
    cl_command_queue last_queue;
    uint32_t launches;
    int lost;           /* a step failed half way */
    atomic_flag in_use; /* by a call */
    uint64_t
        host_mask_size; /* bytes of the host's masks that there is room for from the beginning */
    int force_search;
};

cls_status cls_infill_check(const cls_infill *infill, uint32_t vocab);

/* Around every call that uses a sampler: refuses one that another call is using, on
 * another thread or from a callback. What is NULL passes, for the call to say so. */
cls_status cls_sampler_enter(cls_sampler *sampler);
/* Returns `status`. */
cls_status cls_sampler_leave(cls_sampler *sampler, cls_status status);
#define CLS_IN_USE(sampler, call) \
    (cls_sampler_enter(sampler) == CLS_OK ? cls_sampler_leave(sampler, call) : CLS_BAD_ARGUMENT)

/* A sampler's leanest kernel for a step's features; dtype: 0 where it reads no
 * logits. */
struct cls_ready cls_sampler_kernel(const cls_sampler *sampler, enum cls_kernel which,
                                    int32_t dtype, uint32_t features);

/* Compiles what features need that the sampler does not have, or refuses them. */
cls_status cls_sampler_need(cls_sampler *sampler, uint32_t features);

/* Creates a sampler without kernels, for proofs. */
cls_status cls_sampler_open(cls_context *context, const cls_sampler_options *options,
                            cls_sampler **out);
/* Gives it the kernels of programs that are there. */
cls_status cls_sampler_attach(cls_sampler *sampler, int32_t dtype, uint32_t variants);

/* For tests: features that every sampler is created with beside its options'. */
extern uint32_t cls_features_pretended;

/* For tests: every row that truncates takes the threshold path. */
void cls_sampler_force_search(cls_sampler *sampler, int on);

/* For tests: a blocking read of the last step's row records, with the keys of
 * infinities whether the device has these or not. */
cls_status cls_sampler_trace(cls_sampler *sampler, cl_command_queue queue, cls_row *rows,
                             uint32_t n);

/* ---------------------------------------------------------------- arrays.c */

/* Makes the arrays that parameters point to copies, one block each; all or none. */
cls_status cls_arrays_copy(cls_params *params);
/* Frees such copies; the parameters have none any more. */
void cls_arrays_free(cls_params *params);
/* Their bytes. */
uint64_t cls_arrays_size(const cls_params *params);

/* Words of sequences as lists have them: a count and the ids of each. */
uint64_t cls_sequences_words(const cls_sequence *sequences, uint32_t count);

/* ----------------------------------------------------------------- lists.c */

/* A request's lists, of checked parameters, for a sampler of a history: biases (ids ascending, then
 * their values; of many tokens a row of all), the bitmap of allowed ids, stop ids ascending, what
 * looks at the history. The slot gets their numbers and their places, from the lists' beginning;
 * *words is malloc'ed, NULL if they are empty. */
cls_status cls_lists_make(const cls_params *params, uint32_t vocab, uint32_t history,
                          cls_slot *slot, uint32_t **words, uint32_t *n_words);

/* Moves a slot's places to where the lists begin. */
void cls_lists_place(cls_slot *slot, uint32_t at);

/* DRY: whether it is on, the largest exponent, and what an exponent takes off. */
int cls_dry_is_on(const cls_params *params);
uint32_t cls_dry_most(const cls_params *params);
float cls_dry_amount(const cls_params *params, uint32_t exponent);

/* A place for n words among the lists, or a larger buffer. */
cls_status cls_lists_new(cls_sampler *sampler, uint32_t n, cls_lists **out);
void cls_lists_release(const cls_sampler *sampler, cls_lists *lists);

/* Forgets the lists that nobody uses, once a step has passed that knew them. */
void cls_lists_drop(cls_sampler *sampler);

/* Makes a buffer larger, without its contents. What steps in flight use of the
 * old one, OpenCL keeps for them. */
cls_status cls_device_grow(const cls_sampler *sampler, cls_device_block *block, size_t need,
                           const char *what);

/* --------------------------------------------------------------- changes.c */

/* Makes room for one call's change, with so many tokens and so many other words: what
 * follows cannot fail. */
cls_status cls_changes_reserve(cls_sampler *sampler, size_t tokens, size_t words);

/* Notes a change of a slot, after all that was noted for it. */
cls_change *cls_change_note(cls_sampler *sampler, uint32_t kind, uint32_t slot);
/* The same where nothing is left of what the slot was: in place of its latest change. */
cls_change *cls_change_note_over(cls_sampler *sampler, uint32_t kind, uint32_t slot);
/* New parameters: in place of those before them, where these left nothing behind. */
cls_change *cls_change_note_params(cls_sampler *sampler, uint32_t slot, const cls_slot *now);
void cls_change_note_copy(cls_sampler *sampler, uint32_t to, uint32_t from);

/* Adds words, behind those of all calls so far; where the next one will be. */
void cls_words_add(cls_sampler *sampler, const uint32_t *words, size_t n);
uint32_t cls_words_end(const cls_sampler *sampler);

/* Adds the ids that are tokens to a slot's latest change and, where that is full, to
 * others behind it. */
void cls_change_add_tokens(cls_sampler *sampler, uint32_t slot, const int32_t *ids, uint32_t n,
                           uint32_t mark);
/* Makes room for tokens of a prompt and adds them, to a change that appends already if one does. */
cls_status cls_change_append(cls_sampler *sampler, uint32_t slot, const int32_t *ids, uint32_t n);

/* Puts the numbers of the pending changes behind them, in the order of their rounds, and
 * returns where in it each round ends, that of round 0, which is empty, first. */
const uint32_t *cls_changes_order(cls_sampler *sampler);

/* ----------------------------------------------------------------- slots.c */

/* Parameters with the lists that they bring, ready for a slot. */
typedef struct cls_prepared {
    cls_params params; /* its arrays are malloc'ed copies */
    cls_slot slot;
    uint32_t *words; /* of the lists, malloc'ed */
    uint32_t n_words;
} cls_prepared;

cls_status cls_slot_check(const cls_sampler *sampler, uint32_t slot, int begun);

/* Checks parameters for a sampler and copies what they point to. */
cls_status cls_prepare(const cls_sampler *sampler, const cls_params *params,
                       cls_prepared *prepared);
void cls_prepared_free(cls_prepared *prepared);

/* Makes a slot what was prepared, which it takes over, with a state in the
 * device's form. */
cls_status cls_slot_put(cls_sampler *sampler, uint32_t slot, cls_prepared *prepared,
                        const uint32_t *state);

void cls_requests_free(cls_sampler *sampler);

/* -------------------------------------------------------------- commands.c */

/* The commands of a call on their way into a queue. In order, the queue orders
 * them; out of order, each waits for the one before it. */
typedef struct cls_commands {
    cls_sampler *sampler;
    cl_command_queue queue;
    int ordered;
    cl_uint n_wait; /* of the first command */
    const cl_event *wait;
    cl_event own[2];   /* what `wait` points to, where that is not the caller's */
    int marked;        /* own[1] is ours */
    int retained;      /* the queue is, for the sampler that was not on it before */
    cl_event previous; /* out of order: the last command's; ours, if it is not the staging's */
    cls_staging *staging;
    int enqueued; /* something is under way: what follows on another queue must wait for it */
    int started;  /* kernels are under way: a failure now leaves slots half changed */
} cls_commands;

/* Checks a queue; tells whether it is in order. */
cls_status cls_queue_check(const cls_context *context, cl_command_queue queue, int *ordered);
/* CL_COMPLETE if the upload of an event (NULL: none) is over, well or badly; then
 * forgets it. Above: it is under way. Below: OpenCL's reason for not saying it. */
cl_int cls_upload_state(cl_event *done);
/* From now on an upload counts as over when `end` is, which comes after it. What
 * the caller waits for is then what frees its memory: rusticl may tell an upload
 * complete after the step behind it. */
cl_int cls_upload_until(cl_event *done, cl_event end);
/* Waits for an upload and forgets it. 0: nobody can say that it is over, and its
 * memory must stay for ever. */
int cls_upload_end(cl_event *done);

/* What a sampler says whose step failed half way. */
cls_status cls_sampler_lost(void);

/* Events that are there, of the context, and have not ended with an error: what
 * waits for one that has, some drivers run, and some never (doc/reliability.md). */
cls_status cls_wait_check(const cls_context *context, cl_uint n_wait, const cl_event *wait);

/* Whether a host map is another than the device has. */
int cls_map_changed(const cls_sampler *sampler, enum cls_map which, const int32_t *map,
                    uint32_t rows);

/* Joins the caller's events with the sampler's last step, which may be on
 * another queue; finds memory for uploads, if there will be some (CLS_BUSY),
 * masks of the host's (NULL: none) among them; then enqueues what slot calls
 * want. */
cls_status cls_commands_begin(cls_commands *c, cls_sampler *sampler, cl_command_queue queue,
                              int ordered, cl_uint n_wait, const cl_event *wait, int uploads,
                              const cls_mask *mask);

/* Uploads masks of the host's, if these are where a step has its own. */
cl_int cls_commands_mask(cls_commands *c, cls_mask *mask);

/* Uploads a map if the device has another. */
cl_int cls_commands_map(cls_commands *c, enum cls_map which, const int32_t *map, uint32_t rows);

/* Writes what has changed of a role's arguments, before its kernels: none of it needs
 * the host's memory. */
cl_int cls_commands_args(cls_commands *c, enum cls_role role, const cls_args *args);

/* Arguments of a kernel, set one after another; remembers the first failure. */
typedef struct cls_arguments {
    struct cls_ready to;
    cl_uint next;
    cl_int code;
} cls_arguments;
void cls_set_mem(cls_arguments *a, cl_mem x);
void cls_set_u32(cls_arguments *a, uint32_t x);
void cls_set_u64(cls_arguments *a, uint64_t x);
/* A buffer that may be absent; kernels look at `has` or `wants` first. */
void cls_set_buffer(cls_arguments *a, const cls_sampler *sampler, const cls_buffer *b);
void cls_set_map(cls_arguments *a, const cls_sampler *sampler, const cls_ints *map);

/* groups[2] of the kernel's size. *done (NULL: not the last command) becomes ours. */
cl_int cls_commands_launch(cls_commands *c, const cls_arguments *a, const size_t *groups,
                           cl_event *done);

/* Ends the call: `end` is its last command's event. Any failure is the call's. */
cls_status cls_commands_end(cls_commands *c, cl_int code, const char *what, cl_event end,
                            cl_event *done);

/* --------------------------------------------------------------- buffers.c */

/* Bytes of `rows` rows of `width` elements, a stride apart; UINT64_MAX if that overflows. */
uint64_t cls_extent(uint64_t rows, uint64_t stride, uint64_t width, uint64_t element);

/* By kernels, or (CLS_COPIES) by a command that reads it to the host. */
enum cls_access { CLS_READS, CLS_WRITES, CLS_COPIES };

/* What a call reads and writes of the caller's buffers; a sub-buffer's bytes are its parent's. */
#define CLS_MOST_RANGES 48
typedef struct cls_ranges {
    uint32_t n;
    struct cls_range {
        cl_mem root;
        uint64_t begin, end; /* bytes */
        int written;
        char what[40];
    } range[CLS_MOST_RANGES];
} cls_ranges;

/* Checks that [offset, offset + size) lies in a buffer of the context, aligned, and that kernels
 * may access it; notes the bytes (ranges NULL: nowhere). */
cls_status cls_buffer_check(const cls_context *context, const char *what, const cls_buffer *buffer,
                            uint64_t size, uint64_t element, enum cls_access access,
                            cls_ranges *ranges);

/* Refuses bytes that are written and are in another range, too. */
cls_status cls_ranges_check(const cls_ranges *ranges);

/* ------------------------------------------------------------------ step.c */

/* What is to be told of a step's rows beside their tokens. */
typedef struct cls_report {
    uint32_t wants; /* CLS_WANTS() of each output that has a buffer */
    uint32_t top_n, given_n, candidates_n;
    cls_buffer output[CLS_OUTPUTS];
} cls_report;

/* A step after its checks: every default filled in. */
typedef struct cls_plan {
    cls_step step;
    cls_report report;
    cls_ranges ranges;
    const cls_ints *map[CLS_STEP_MAPS];
    uint32_t has;       /* CLS_HAS_* and CLS_DEFER */
    enum cls_role role; /* of its kernels: CLS_ROLE_STEP or CLS_ROLE_VERIFY */
    int ordered;        /* the queue is in order */
    uint32_t needs;     /* cls_feature bits of its rows and inputs */
    int search;         /* a row may need the threshold search */
    int prepare;        /* a row's parameters look at its history */
    uint32_t logit_size, bias_size;

    /* Of a verification: what rows follow, and the drafts' own distributions. */
    cls_ints nodes, parents, draft_ids;
    uint32_t draft_kind;
    cls_buffer draft;
    uint64_t draft_stride;
} cls_plan;

/* Refuses what a sampler was not compiled for, by the feature's name. */
cls_status cls_features_missing(const cls_sampler *sampler, uint32_t features);

/* Checks the logits of a call, whose name is for messages. */
cls_status cls_logits_check(const cls_sampler *sampler, const char *call, cls_plan *plan);

/* Checks the masks and biases of a call, whose name is for messages, and their maps. */
cls_status cls_masks_check(const cls_sampler *sampler, const char *call, cls_plan *plan);

/* Checks an input or an output, if it is there. */
cls_status cls_optional_check(const cls_sampler *sampler, const char *what,
                              const cls_buffer *buffer, uint64_t size, uint64_t element,
                              enum cls_access access, cls_ranges *ranges);

/* Refuses an invalid_token that is a token's id, where rows without a token may be accepted later.
 */
cls_status cls_invalid_token_check(const cls_sampler *sampler, const char *call, int32_t token);

/* Checks one of the rows' maps; fails if it has two sources. */
cls_status cls_map_check(const cls_sampler *sampler, const char *what, const cls_ints *map,
                         uint32_t rows, cls_ranges *ranges);

/* Checks the slots that rows name, as far as the host can see them, and notes
 * what they may need: plan->search, plan->prepare. */
cls_status cls_row_slots_check(cls_sampler *sampler, const char *what, const cls_ints *slots,
                               uint32_t rows, int shared, cls_plan *plan);

/* Checks everything that can be known before enqueueing. */
cls_status cls_step_check(cls_sampler *sampler, cl_command_queue queue, const cls_step *callers,
                          cl_uint n_wait, const cl_event *wait, cls_plan *plan);

/* Checks numbers of draws that the host has. */
cls_status cls_draws_check(const char *what, const int32_t *draws, uint32_t rows);

/* ---------------------------------------------------------------- sample.c */

/* Offsets and strides as kernels are told them; a buffer's in elements, a map's where
 * it lies on the device. */
cls_wide cls_wide_of(uint64_t x);
cls_wide cls_place(const cls_buffer *b, size_t element);
cls_wide cls_map_place(const cls_sampler *sampler, enum cls_map which, const cls_ints *map);

/* What kernels are told of requests, slots and their map; of draws; of all of a step.
 * Raw roles have CLS_RAW. */
void cls_request_args(cls_args *args, const cls_sampler *sampler, const cls_ints *slots,
                      uint32_t has);
void cls_draw_args(cls_args *args, const cls_sampler *sampler, const cls_plan *plan);
void cls_step_args(cls_args *args, const cls_sampler *sampler, const cls_plan *plan,
                   enum cls_role role);

/* The buffers of a kernel's STEP_ARGS; of a raw role those of the raw rows' survey. */
cls_arguments cls_step_buffers(const cls_sampler *sampler, const cls_plan *plan,
                               enum cls_kernel which, enum cls_role role);
/* Those of the RANDOM_ARGS, of the DRAW_ARGS, and of the DRAFT_ARGS and DRAFT_ROW_ARGS. */
void cls_random_buffers(cls_arguments *a, const cls_sampler *sampler, const cls_plan *plan);
void cls_draw_buffers(cls_arguments *a, const cls_sampler *sampler, const cls_plan *plan);
void cls_draft_buffers(cls_arguments *a, const cls_sampler *sampler, const cls_plan *plan);

/* What kernels that read no logits begin with: arguments, slots, their map and state,
 * lists. */
cls_arguments cls_request_buffers(const cls_sampler *sampler, enum cls_kernel which,
                                  enum cls_role role, uint32_t features, const cls_ints *slots);

/* Mass tiles of a group that goes over tiles. */
uint32_t cls_tiles_per_group(const cls_sampler *sampler, uint32_t rows);

/* Launches a kernel of the step. */
cl_int cls_step_launch(const cls_plan *plan, cls_commands *c, enum cls_kernel which,
                       const cls_arguments *a, cl_event *done);

/* The step's parts: what histories ask for; the token or, after the pass, the
 * search; the pass. */
cl_int cls_step_prepare(const cls_plan *plan, cls_commands *c);
cl_int cls_step_rows(const cls_plan *plan, cls_commands *c, enum cls_kernel which, cl_event *done);
cl_int cls_step_pass(const cls_plan *plan, cls_commands *c);

/* The survey of the rows as they are (the plan's role) or of raw ones. */
cl_int cls_step_survey(const cls_plan *plan, cls_commands *c, enum cls_role role);

/* ---------------------------------------------------------------- report.c */

/* Checks the outputs of a call, whose name is for messages; fills in `wants`. */
cls_status cls_report_check(const cls_sampler *sampler, const char *call, uint32_t rows,
                            cls_report *report, cls_ranges *ranges);

/* Whether something of the final distribution is told, or of the raw row. */
int cls_report_of_final(const cls_plan *plan);
int cls_report_of_raw(const cls_plan *plan);

/* What the reports' kernels are told, and the groups that a row has of them. */
void cls_report_args(cls_args *args, const cls_sampler *s, const cls_plan *plan, int raw);
uint32_t cls_report_groups(const cls_sampler *s, const cls_plan *plan);

/* Launches what tells it; the last one has the event. */
cl_int cls_report_launch(const cls_plan *plan, cls_commands *c, cl_event *done);

#endif
