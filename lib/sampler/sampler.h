/* SPDX-License-Identifier: MIT */
/* A sampler: its device memory and kernels, its slots, and the slot calls that wait for the next
 * step. This folder also enqueues the commands of a call. What each file of it offers is in the
 * header of its name; enter.c, kernels.c and sampler.c are here. */
#ifndef CLS_SAMPLER_H
#define CLS_SAMPLER_H

#include "host/host.h"
#include "record/record.h"
#include "sampler/changes.h"
#include "sampler/commands.h"
#include "sampler/memory.h"
#include "sampler/needs.h"
#include "sampler/slots.h"

struct cls_sampler {
    cls_context *context;
    cls_host *host; /* in place of the device's memory, if the context has no device; else NULL */
    uint32_t vocab, max_rows, slots;
    uint32_t counts, history, rollback;
    uint32_t layout;            /* CLS_LAYOUT() of a slot's state */
    uint32_t tiles;             /* mass tiles of a row */
    uint32_t scratch_stride;    /* floats of a row's part of row_scratch */
    uint32_t dtypes;            /* for which it has kernels */
    _Atomic(uint32_t) features; /* likewise; cls_sampler_check() reads them from any thread */
    uint32_t
        missing_of_step; /* features for which the last call was refused; a part may be there now */
    int late_compile;
    /* Kernels that read no logits have type 0. */
    struct cls_compiled_kernel kernels[CLS_DTYPES][CLS_VARIANTS];
    /* The variants that were launched, a bit each; or the one that the device refused to launch. */
    cls_variant_set launched_variants;

    /* Device memory for slots. */
    cl_mem slot_buffer; /* cls_slot [slots] */
    cl_mem state;       /* u32 [slots][state_words()] */
    cls_device_buffer lists, changes, words;
    cls_device_buffer payload; /* for a cls_host_data */
    cl_mem lists_to_copy; /* the smaller buffer of lists, until the next step copies it, or NULL */
    size_t lists_to_copy_size;

    /* Device memory for rows, [max_rows] of each. */
    cl_mem maps;       /* int32 [CLS_MAPS][max_rows]: maps from the host */
    cl_mem rows;       /* cls_row */
    cl_mem effects;    /* u32 [effects_words()] */
    cl_mem tile_key;   /* int32 [max tiles] */
    cl_mem tile_mass;  /* u64 [tiles] */
    cl_mem tile_flags; /* u32 [tiles] */
    cl_mem pass;       /* u64 [tiles][CLS_PIVOTS] */
    cl_mem tile_sums;  /* u64 [tiles] a row: what is summed up by tiles */
    cl_mem
        row_scratch; /* float [scratch_stride] a row: a sample of it, weights of maxima, kept ids */
    cl_mem raw_key, raw_mass, raw_flags; /* the survey of raw logits, for raw log-probabilities */

    /* The tables of cls_sampler_infill(), int32, or NULL. has_infill is atomic since any thread may
     * call cls_sampler_check(), which reads it, at any time. */
    cl_mem infill;
    uint32_t infill_end_count;
    atomic_int has_infill;

    /* Kernel arguments that are not buffers. */
    struct cls_arg_buffer {
        cl_mem buffer;    /* cls_args */
        cls_args written; /* its contents */
        uint32_t valid;   /* a bit for each block of `written` that is known to be in the buffer */
    } arg_buffers[CLS_ARG_SETS];

    /* The lists of all slots, in the order of offsets. A search for free words begins after
     * lists_search[d - 1], where d is the number of binary digits of the length, or at the first
     * list if that is NULL. */
    cls_lists *first_lists;
    cls_lists *lists_search[32];
    uint64_t lists_collected; /* the batch in which unused lists were last freed */
    cls_lists *grammars;      /* those that are grammars */
    cls_lists *grammar_rows;  /* of grammar_row_words() for each row, once there is a grammar */

    /* Slots. The changes that slot calls made since the last step form a batch: the next step
     * uploads them and runs them in rounds. */
    cls_request *request; /* [slots] */
    cls_needs needs;
    cls_host_buffer pending_changes, pending_words;
    uint32_t rounds;         /* of the pending changes */
    int pending_needs_state; /* 1 if one of them needs CLS_FEATURE_STATE */
    uint64_t batch;          /* number of the batch */

    /* Rows. */
    uint8_t *slot_is_used;  /* [slots]: marks the slots of a step's rows; 0 between steps */
    int32_t *device_maps;   /* [CLS_MAPS][max_rows]: the contents of `maps` */
    int32_t *expanded_maps; /* [CLS_MAPS][max_rows]: a verification's maps, expanded to its rows;
                               without a device the maps of every call */
    uint32_t device_map_rows[CLS_MAPS]; /* how many elements of device_maps are valid */

    cls_staging staging[CLS_STAGING_COUNT];
    uint64_t host_mask_size; /* bytes for masks from the host that are allocated at creation */
    cl_event last_event;     /* of the last step */
    cl_command_queue last_queue;
    uint32_t launches;         /* of the last call */
    cl_int lost;               /* why a step failed in the middle, or CL_SUCCESS */
    atomic_flag in_use;        /* set during a call */
    struct cls_shard *shard;   /* that uses the sampler, or NULL */
    const char *refusal;       /* why only the shard's calls may use the sampler now, or NULL */
    uint32_t tiles_per_group;  /* in proofs: for each group of the kernels over tiles; 0: usual */
    uint32_t change_tokens;    /* in the self-test: the most tokens of a change; 0: usual */
    cls_record *record;        /* the text of the calls, or NULL, */
    cl_mem recorded;           /* and int32 [2][max_rows] for tokens and statuses that the caller */
    int32_t *recorded_on_host; /* does not ask for: on the device, or on the host */
    int force_search;          /* 1 in tests and proofs: rows with truncations are searched */
};

/* Every call that uses a sampler runs between cls_sampler_enter() and cls_sampler_leave(), which
 * returns `status`. cls_sampler_enter() fails if another call is using the sampler, on another
 * thread or from a callback, or if a shard has an open step. It accepts NULL, which the call itself
 * refuses. The calls of a shard begin with cls_sampler_lock() instead, which does not fail because
 * of the open step. */
cls_status cls_sampler_lock(cls_sampler *sampler);
cls_status cls_sampler_enter(cls_sampler *sampler);
cls_status cls_sampler_leave(cls_sampler *sampler, cls_status status);
#define CLS_GUARDED_CALL(sampler, call) \
    (cls_sampler_enter(sampler) == CLS_OK ? cls_sampler_leave(sampler, call) : cls_error_status())

/* A slot call, whose changes are made at once on the host, and before the next step on a device.
 * `line` writes it into the text of the sampler's calls. */
#define CLS_SLOT_CALL(sampler, call, line) \
    CLS_GUARDED_CALL(sampler, \
                     cls_changes_end(sampler, call) != CLS_OK \
                         ? cls_error_status() \
                         : ((cls_record_is_on((sampler)->record) ? line : (void)0), CLS_OK))

/* Returns the sampler's smallest variant of a kernel that supports a step's features; its handle is
 * NULL if there is none. dtype is 0 for kernels that read no logits. */
struct cls_compiled_kernel cls_sampler_kernel(const cls_sampler *sampler, enum cls_kernel which,
                                              int32_t dtype, uint32_t features);

/* Compiles the kernels that the sampler lacks for some of these features, before the call that
 * needs them changes anything. Fails if that fails, or if options->late_compile is not set. If
 * memory then runs out for the call, the sampler keeps the programs and the features. That changes
 * no token: they do not affect which steps are accepted, and every variant that supports a step
 * gives the same tokens (check_faults, late_programs). */
cls_status cls_sampler_require(cls_sampler *sampler, uint32_t features);

/* Compiles what steps with these features need, and gives the sampler the kernels. */
cls_status cls_sampler_add_features(cls_sampler *sampler, uint32_t features);

/* Creates a sampler without kernels, as proofs need it: while a program is proved, nothing else is
 * compiled. Fails as cls_sampler_create() does, but for compiling. */
cls_status cls_sampler_open(cls_context *context, const cls_sampler_options *options,
                            cls_sampler **out);

/* Adds kernels of those variants that the context has compiled. Fails if OpenCL does. */
cls_status cls_sampler_add_kernels(cls_sampler *sampler, int32_t dtype, cls_variant_set variants);

/* For tests. Every row that truncates takes the search. */
void cls_sampler_force_search(cls_sampler *sampler, int on);

/* For tests. Reads the row records of the last step and waits for them. */
cls_status cls_sampler_trace(cls_sampler *sampler, cl_command_queue queue, cls_row *rows,
                             uint32_t n);

#endif
