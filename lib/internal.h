/* SPDX-License-Identifier: MIT */
/* The one private header: what the library's files know of each other. */
#ifndef CLS_INTERNAL_H
#define CLS_INTERNAL_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include "clsample.h"

#include <stdatomic.h>

#include "../cl/types.h"
#include "../cl/arithmetic.h"
#include "../cl/philox.h"

/* ---------------------------------------------------------------- status.c */

/* Records the sentence (printf style) and OpenCL's code for the thread and
 * returns `status`. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
cls_status cls_fail(cls_status status, cl_int opencl, const char *format, ...);

const char *cls_opencl_name(cl_int code);

/* Zeroes a public struct of the caller's size and sets its struct_size. */
void cls_struct_init(void *object, size_t caller_size);

/* Copies a public struct of the caller's size into ours, whose `ours` bytes
 * already hold the defaults. Refuses a size of 0 or beyond reason. */
cls_status cls_struct_read(void *object, size_t ours, const void *callers, const char *name);

/* ---------------------------------------------------------------- params.c */

/* A caller's parameters in our size of the struct, unchecked. */
cls_status cls_params_read(const cls_params *callers, cls_params *params);

/* Parameters as the kernels want them, checked. The slot's position is
 * params->position; where its lists lie is not known yet. */
cls_status cls_slot_from_params(const cls_params *params, uint32_t vocab, cls_slot *slot);

/* The lists as the device has them, of checked parameters: bias ids ascending,
 * their values, stop ids ascending; *words is malloc'ed, NULL if they are empty. */
cls_status cls_lists_make(const cls_params *params, uint32_t **words, uint32_t *n_bias, uint32_t *n_stop);

/* The i-th stage of a slot's chain. */
static inline uint32_t cls_slot_stage(const cls_slot *slot, uint32_t i)
{
    return slot->chain[i / 4] >> (8 * (i % 4)) & 255u;
}

/* ------------------------------------------------------------- reference.c */

/* cls_host_sample() with its masses, target and cut. */
cls_status cls_reference(const cls_host_row *row, cls_row *trace, cls_host_result *result);

/* -------------------------------------------------------------- generated */

extern const char *const cls_kernel_source[];
extern const unsigned cls_kernel_source_count;

/* ---------------------------------------------------------------- device.c */

typedef struct cls_shape {
    uint32_t work_group; /* of the kernels that go over tiles */
    uint32_t row_group;  /* of those that take a row to its token */
    uint32_t vector, shortlist;
    uint32_t compute_units;
    uint64_t local_mem_size, max_work_group;
} cls_shape;

/* Checks that a device can run the kernels and shapes them for it. */
cls_status cls_shape_query(cl_device_id device, const cls_context_options *options, cls_shape *shape);

/* --------------------------------------------------------------- program.c */

#define CLS_DTYPES 3
size_t cls_dtype_size(int32_t dtype);

/* Builds the kernels for one type of logits and one work-group size; appends
 * the compiler's log. */
cls_status cls_program_build(cl_context context, cl_device_id device, const cls_shape *shape, uint32_t group,
                             int32_t dtype, char **log, cl_program *program);

/* The kernels, by name and in the order of the flow. */
enum cls_kernel { CLS_SURVEY, CLS_SHORTLIST, CLS_PASS, CLS_FINAL, CLS_LOGPROB, CLS_PROBS, CLS_SELF_TEST, CLS_KERNELS };
extern const char *const cls_kernel_names[CLS_KERNELS];

/* Kernels over tiles and kernels over rows may have groups of different sizes,
 * each a program of its own. */
enum cls_part { CLS_OVER_TILES, CLS_OVER_ROWS, CLS_PARTS };
static inline enum cls_part cls_kernel_part(enum cls_kernel kernel)
{
    return kernel == CLS_SURVEY || kernel == CLS_PASS || kernel == CLS_PROBS ? CLS_OVER_TILES : CLS_OVER_ROWS;
}

/* --------------------------------------------------------------- context.c */

struct cls_context {
    atomic_int references; /* the creator and its samplers */
    cl_context cl;
    cl_device_id device;
    cls_shape shape;
    cl_program program[CLS_DTYPES][CLS_PARTS]; /* NULL: not compiled for */
    char *build_log;
};

void cls_context_retain(cls_context *context);

/* --------------------------------------------------------------- sampler.c */

#define CLS_STAGING 16 /* uploads in flight */

/* The int32s of a step's rows that may come from the host. */
enum cls_map { CLS_MAP_SLOTS, CLS_MAP_POSITIONS, CLS_MAP_MASKS, CLS_MAPS };

/* One upload under way: memory that must not change until `done`. */
typedef struct cls_staging {
    cl_event done; /* NULL: free */
    cls_slot *slots; /* [slots] */
    int32_t *maps;   /* [CLS_MAPS][max_rows] */
} cls_staging;

#define CLS_DIRTY_PARAMS 1 /* all but the position */
#define CLS_DIRTY_BEGUN 2  /* the position, too */

struct cls_sampler {
    cls_context *context;
    uint32_t vocab, max_rows, slots;
    uint32_t tiles;         /* mass tiles of a row */
    uint32_t sample_stride; /* floats of a row's sample */
    cl_kernel kernel[CLS_DTYPES][CLS_KERNELS];

    /* On the device; [max_rows] of each. */
    cl_mem slot_buffer; /* cls_slot [slots] */
    cl_mem maps;        /* int32 [CLS_MAPS][max_rows]: the step's host maps */
    cl_mem rows;        /* cls_row */
    cl_mem tile_key;    /* int32 [max tiles] */
    cl_mem tile_mass;   /* u64 [tiles] */
    cl_mem tile_flags;  /* u32 [tiles] */
    cl_mem pass;        /* u64 [tiles][CLS_PIVOTS] */
    cl_mem work;        /* u64 [tiles]: the masses of the set that is drawn from */
    cl_mem sample;      /* float [sample_stride] */
    cl_mem raw_key, raw_mass, raw_flags; /* the survey of the raw logits, for raw logprobs */

    /* On the host. */
    cls_slot *slot;  /* [slots]: what the device has, or will have with the next step */
    uint8_t *dirty;  /* [slots]: CLS_DIRTY_* */
    int any_dirty;
    uint8_t *seen;   /* [slots]: finds slots that occur twice; all 0 between steps */
    int32_t *sent;   /* [CLS_MAPS][max_rows]: the maps that the device has */
    uint32_t sent_rows[CLS_MAPS];
    cls_staging staging[CLS_STAGING];
    cl_event last; /* the last step's end */
    cl_command_queue last_queue;
    uint32_t launches;
    int force_search;
};

/* For tests: every row that truncates takes the threshold path. */
void cls_sampler_force_search(cls_sampler *sampler, int on);

/* For tests: a blocking read of the last step's row records. */
cls_status cls_sampler_trace(cls_sampler *sampler, cl_command_queue queue, cls_row *rows, uint32_t n);

/* ------------------------------------------------------------------ step.c */

/* A step after its checks: every default filled in. */
typedef struct cls_plan {
    cls_step step;
    const cls_ints *map[CLS_MAPS];
    uint32_t has;    /* CLS_HAS_* and CLS_KEEP */
    int ordered;     /* the queue is in order */
    int search;      /* a row may need the threshold search */
    uint32_t logit_size;
} cls_plan;

/* Checks everything that can be known before enqueueing. */
cls_status cls_step_check(cls_sampler *sampler, cl_command_queue queue, const cls_step *callers, cl_uint n_wait,
                          const cl_event *wait, cls_plan *plan);

#endif
