/* SPDX-License-Identifier: MIT */
/* A sampler: its device memory and kernels, its slots, and the slot calls that wait for the next
 * step. This folder also enqueues the commands of a call, in the right order and with the uploads
 * that they need. */
#ifndef CLS_SAMPLER_H
#define CLS_SAMPLER_H

#include "queue/queue.h"
#include "host/host.h"

/* ------------------------------------ enter.c, kernels.c and sampler.c */

/* The maps of a call: arrays of int32 that belong to its rows and may come from the host. */
enum cls_map {
    CLS_MAP_SLOTS,
    CLS_MAP_POSITIONS,
    CLS_MAP_DRAWS,
    CLS_MAP_MASKS,
    CLS_MAP_BIASES,
    CLS_MAP_LOGITS,
    CLS_STEP_MAPS,                  /* the number of a step's maps */
    CLS_MAP_TOKENS = CLS_STEP_MAPS, /* tokens of cls_accept(), or draft ids */
    CLS_MAP_NODES,                  /* the draft that a row follows */
    CLS_MAP_PARENTS,                /* the draft that a draft follows */
    CLS_MAP_FIRSTS,                 /* the first row of a request */
    CLS_MAP_COUNTS,                 /* tokens that a row accepts */
    CLS_MAP_ROLLBACK,               /* tokens that it takes back before */
    CLS_MAPS
};

/* The sets of kernel arguments. The launches of one step may need different arguments, so each set
 * has a buffer. A set keeps its contents from step to step. */
enum cls_arg_set {
    CLS_ARG_SET_STEP,   /* a step and its outputs */
    CLS_ARG_SET_RAW,    /* the raw rows of a step */
    CLS_ARG_SET_VERIFY, /* a verification */
    CLS_ARG_SET_DRAFTS, /* the drafts of a verification */
    CLS_ARG_SET_ACCEPT, /* cls_accept() */
    CLS_ARG_SET_LOOKUP, /* cls_draft() */
    CLS_ARG_SET_FORCE,  /* cls_force, which finishes the rows of a step */
    CLS_ARG_SET_MERGED, /* the merged rows of a shard's step */
    CLS_ARG_SETS
};

/* Host memory that grows; sizes in bytes. */
typedef struct cls_host_buffer {
    void *data;
    size_t used, size;
} cls_host_buffer;

/* Device memory that grows; size in bytes. */
typedef struct cls_device_buffer {
    cl_mem buffer;
    size_t size;
} cls_device_buffer;

/* Host memory that an upload reads. It must not change until the upload has ended. */
typedef struct cls_staging {
    cl_event done;                  /* NULL if the memory is free */
    int32_t *maps;                  /* [CLS_MAPS][max_rows] */
    cls_host_buffer changes, words; /* of the slot calls before a step */
    cls_host_buffer payload;        /* a cls_host_data of the call */
    cls_host_buffer rows;           /* of a shard's exchange; max_rows, once there is a shard */
} cls_staging;

/* A request's biases and stop ids in the device's buffer of lists. Copies of a slot share them. A
 * grammar's words are lists, too, which all requests that follow it share. */
typedef struct cls_lists {
    struct cls_lists *next; /* in the order of offsets */
    uint32_t references;    /* 0: the memory is free after the next step */
    uint64_t batch;         /* the batch in which the last reference was released */
    uint32_t offset, words; /* offset and length, in words */

    const cls_grammar *grammar;     /* retained; NULL if the lists are a request's */
    struct cls_lists *next_grammar; /* of the sampler's grammars */
    cl_mem upload;                  /* its words, until the next step copies them, or NULL */
} cls_lists;

/* The host's part of a slot. */
typedef struct cls_request {
    cls_slot slot, answer; /* answer: of rows outside the thinking, if it has such parameters */
    cls_params params;     /* with copies of the caller's arrays */
    cls_lists *lists;      /* NULL if there are none */
    cls_lists *forced;     /* the ids of cls_slot_force(), on the device; NULL if there are none */
    cls_lists *grammar;    /* the grammar of `params`; NULL if there is none */

    /* The slot's pending changes. They are valid if `batch` is the sampler's; otherwise the slot
     * has no pending change. */
    uint64_t batch;
    uint32_t change_round;  /* the last round that changes the slot; 0: none */
    uint32_t copy_round;    /* the last round that copies from it; 0: none */
    uint32_t latest_change; /* index of its latest change */
    uint32_t spare_words;   /* reserved after the tokens of that change, for more tokens */
    int replaceable;        /* 1 if new parameters may replace that change */

    uint64_t forced_digest; /* of the ids in `forced` */
    uint64_t digest;        /* of parameters and lists, if it has begun; with CLS_FEATURE_SHARD */
    uint32_t features;      /* what they need, if it has begun */
} cls_request;

/* What the requests of all slots need together. */
enum { CLS_NEED_BITS = 22 };
typedef char cls_need_bits_fit[CLS_NEEDS_ALL >> (CLS_NEED_BITS - 1) == 1 ? 1 : -1];
typedef struct cls_needs {
    uint32_t requests;               /* their number */
    uint32_t feature[CLS_NEED_BITS]; /* how many of them have each need */
    uint32_t shortlist;
    uint32_t *listed; /* [shortlist + 1]: how many have each value of cls_needs_listed() */
    uint64_t digest;  /* the sum of the requests' digests, each with the number of its slot */
    uint64_t arrays;  /* bytes of the arrays of parameters */
} cls_needs;

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
    uint32_t launches;        /* of the last call */
    cl_int lost;              /* why a step failed in the middle, or CL_SUCCESS */
    atomic_flag in_use;       /* set during a call */
    struct cls_shard *shard;  /* that uses the sampler, or NULL */
    const char *refusal;      /* why only the shard's calls may use the sampler now, or NULL */
    uint32_t tiles_per_group; /* in proofs: for each group of the kernels over tiles; 0: usual */
    uint32_t change_tokens;   /* in the self-test: the most tokens of a change; 0: usual */
    int force_search;         /* 1 in tests and proofs: rows with truncations are searched */
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

/* A slot call, whose changes are made at once on the host, and before the next step on a device. */
#define CLS_SLOT_CALL(sampler, call) CLS_GUARDED_CALL(sampler, cls_changes_end(sampler, call))

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

/* ------------------------------------------------------------- memory.c */

/* Allocates room for n words in the buffer of lists, which grows if necessary. *out is NULL if n is
 * 0, and on the host, which needs no lists. Fails if memory runs out. */
cls_status cls_lists_allocate(cls_sampler *sampler, uint32_t n, cls_lists **out);

/* Returns the words of a grammar in the buffer of lists, with a reference: those of an equal one,
 * or new ones, which the next step copies. *out is NULL if `grammar` is, and on the host. Fails if
 * memory runs out.
 */
cls_status cls_lists_of_grammar(cls_sampler *sampler, const cls_grammar *grammar, cls_lists **out);

/* Removes a reference; `lists` may be NULL. */
void cls_lists_release(const cls_sampler *sampler, cls_lists *lists);

/* Frees the lists without references that were released in an earlier batch. Those of the current
 * batch stay, since its changes may still refer to them. */
void cls_lists_collect(cls_sampler *sampler);

/* Replaces a buffer by a larger one if it has less than `need` bytes. The contents are lost. OpenCL
 * keeps the old buffer for steps in flight. `what` is its purpose, for messages. */
cls_status cls_device_buffer_grow(const cls_sampler *sampler, cls_device_buffer *buffer,
                                  size_t need, const char *what);

/* ------------------------------------------------------------ changes.c */

/* Reserves memory for the changes of one slot call, with so many tokens and other words. The
 * functions that add them cannot fail then. */
cls_status cls_changes_reserve(cls_sampler *sampler, size_t tokens, size_t words);

/* Ends a slot call: makes its changes on the host, if the sampler has no device. Returns `status`.
 */
cls_status cls_changes_end(cls_sampler *sampler, cls_status status);

/* Adds a change of a slot, which runs after all pending changes of the slot. */
cls_change *cls_change_add(cls_sampler *sampler, uint32_t kind, uint32_t slot);

/* Adds a change that overwrites the whole slot. It replaces the slot's latest change, unless a copy
 * has read that one. */
cls_change *cls_change_replace(cls_sampler *sampler, uint32_t kind, uint32_t slot);

/* Adds new parameters. They replace pending parameters that left nothing else behind. */
cls_change *cls_change_add_params(cls_sampler *sampler, uint32_t slot, const cls_slot *now);

/* Adds a copy of a slot. Copies from one slot may run in the same round; later changes of that slot
 * run after them. */
void cls_change_add_copy(cls_sampler *sampler, uint32_t to, uint32_t from);

/* Adds words to the pending ones, and returns the number of pending words, which is the index of
 * the next one. */
void cls_pending_words_add(cls_sampler *sampler, const uint32_t *words, size_t n);
uint32_t cls_pending_words_count(const cls_sampler *sampler);

/* Adds tokens to a slot's latest change and, when it is full, to further changes. Ids that are not
 * in the vocabulary are left out. `mark` is CLS_ENTRY_OUTPUT, or 0 for a prompt. */
void cls_change_add_tokens(cls_sampler *sampler, uint32_t slot, const int32_t *ids, uint32_t n,
                           uint32_t mark);

/* Appends tokens of a prompt to a slot. They join the slot's latest change if it appends tokens,
 * too. Fails if memory runs out. */
cls_status cls_change_append_tokens(cls_sampler *sampler, uint32_t slot, const int32_t *ids,
                                    uint32_t n);

/* Writes the indices of the pending changes after them, sorted by round. Returns an array with the
 * end of each round in that order; round 0 is empty. */
const uint32_t *cls_changes_sort(cls_sampler *sampler);

/* -------------------------------------------------------------- needs.c */

/* Allocates memory for a shortlist of this length. Fails if memory runs out. */
cls_status cls_needs_create(cls_needs *needs, uint32_t shortlist);

/* Add a slot's request to what all need, after its host's part has changed, and remove it before.
 * They do nothing if the slot has no request. */
void cls_needs_add(cls_sampler *sampler, uint32_t slot);
void cls_needs_remove(cls_sampler *sampler, uint32_t slot);

/* Computes the digests of all requests, when the sampler gets CLS_FEATURE_SHARD. */
void cls_needs_hash(cls_sampler *sampler);

/* Returns what the requests need: cls_feature bits and CLS_NEED_LONG_LIST. */
uint32_t cls_needs_features(const cls_needs *needs);

/* Return how many tokens from the top a request needs, and the most that one of all needs. They
 * return 0 if a request needs more of the row than such a list, or if there is no request. */
uint32_t cls_needs_listed(const cls_slot *slot);
uint32_t cls_needs_longest(const cls_needs *needs);

/* -------------------------------------------------------------- slots.c */

/* Parameters that were checked, with copies of their arrays and the lists for the device. */
typedef struct cls_checked_params {
    cls_params params;
    cls_slot slot, answer; /* as in cls_request */
    uint32_t *words;       /* the lists */
    uint32_t n_words;
    cls_lists *lists, *grammar; /* on the device, once a slot call has allocated them */
} cls_checked_params;

/* Fails if the slot does not exist, if the sampler is lost, or if `begun` is 1 and the slot has no
 * request. */
cls_status cls_slot_check(const cls_sampler *sampler, uint32_t slot, int begun);

/* Checks parameters for a sampler and copies what they point to. Fails if a parameter is invalid,
 * if the sampler was created without what it needs, or if memory runs out. */
cls_status cls_checked_params_create(const cls_sampler *sampler, const cls_params *params,
                                     cls_checked_params *out);
void cls_checked_params_free(cls_checked_params *checked);

/* Returns the features that cls_slot_begin() needs. */
uint32_t cls_features_to_begin(const cls_checked_params *p);

/* Loads a slot: its parameters, which the slot takes over, and its state in the device's form. If
 * the slot has forced ids, they lie in the lists. If it fails, the caller keeps the parameters. */
cls_status cls_slot_put(cls_sampler *sampler, uint32_t slot, cls_checked_params *checked,
                        const uint32_t *state);

/* Frees the host's part of all slots. */
void cls_requests_free(cls_sampler *sampler);

/* ----------------------------------------------------------- commands.c */

/* The commands of one call. An in-order queue keeps their order. In an out-of-order queue each
 * command waits for the one before it. */
typedef struct cls_commands {
    cls_sampler *sampler;
    cl_command_queue queue;
    int in_order;

    /* The events that the first command waits for. `wait` is the caller's array, or `joined`, which
     * has the sampler's last event and the caller's, or a marker that waits for the caller's. */
    cl_uint n_wait;
    const cl_event *wait;
    cl_event joined[2];
    int has_marker; /* 1 if joined[1] is such a marker, to be released */

    cl_event previous; /* of the last command, in an out-of-order queue */
    cls_staging *staging;
    int queue_retained; /* 1 if the queue is new to the sampler and was retained */
    int enqueued;       /* 1 if a command was enqueued, which later calls must wait for */
    int started;        /* 1 once slots may have changed: an error then makes the sampler lost */
} cls_commands;

/* Fail with CLS_LOST. cls_sampler_lose() makes the sampler lost: `what` says what failed, with
 * OpenCL's code. */
cls_status cls_sampler_lost(const cls_sampler *sampler);
cls_status cls_sampler_lose(cls_sampler *sampler, cl_int code, const char *what);

/* Flushes the queue of the sampler's last step unless it is `queue`, where a command is to wait for
 * that step: on some drivers an event of a queue that nobody flushes never completes (rusticl). */
void cls_sampler_flush(const cls_sampler *sampler, cl_command_queue queue);

/* Returns 1 if a map from the host differs from the one on the device. */
int cls_map_changed(const cls_sampler *sampler, enum cls_map which, const int32_t *map,
                    uint32_t rows);

/* Data of a call on the host that are larger than a map: masks, or several tokens a row. */
typedef struct cls_host_data {
    const void *data; /* NULL: there are none */
    size_t size;
    const char *what; /* for messages */
} cls_host_data;

/* Begins a call: waits for the caller's events and the sampler's last step, which may be on another
 * queue, finds staging memory if there are uploads or data (`data` may be NULL), and enqueues the
 * pending changes of slots. Fails with CLS_BUSY if all staging memory is in flight, and if the
 * sampler is lost, memory runs out or OpenCL fails. */
cls_status cls_commands_begin(cls_commands *c, cls_sampler *sampler, cl_command_queue queue,
                              int in_order, cl_uint n_wait, const cl_event *wait, int uploads,
                              const cls_host_data *data);

/* The functions from here to cls_commands_launch() return OpenCL's error code. */

/* Uploads the data with which the call began, to the sampler's buffer `payload`. */
cl_int cls_commands_upload_data(cls_commands *c, const cls_host_data *data);

/* Uploads a map from the host if it differs from the one on the device. */
cl_int cls_commands_upload_map(cls_commands *c, enum cls_map which, const int32_t *map,
                               uint32_t rows);

/* Uploads the rows of a shard's exchange. */
cl_int cls_commands_upload_rows(cls_commands *c, cl_mem buffer, size_t size, const void *rows);

/* Writes to a buffer from host memory that stays as it is until the call's last command has run. */
cl_int cls_commands_write(cls_commands *c, cl_mem buffer, size_t size, const void *data);

/* Copies `size` bytes of a buffer's beginning to an offset in another one. */
cl_int cls_commands_copy(cls_commands *c, cl_mem from, cl_mem to, size_t offset, size_t size);

/* Writes the blocks of an argument set that have changed. It needs no staging memory. */
cl_int cls_commands_write_args(cls_commands *c, enum cls_arg_set arg_set, const cls_args *args);

/* Returns the sampler's own buffers, without an argument set. */
cls_buffers cls_sampler_buffers(const cls_sampler *sampler);

/* Launches a kernel in groups[0] times groups[1] work-groups, in several parts where GPUs could not
 * launch so many. If `done` is not NULL, this is the last command of the call, and the caller gets
 * its event. */
cl_int cls_commands_launch(cls_commands *c, const cls_arguments *a, const size_t *groups,
                           cl_event *done);

/* Ends a call. `end` is the event of the last command, which this function takes over, and `code`
 * the first error. If there was one, fails with the message `what`. Otherwise *done gets a
 * reference to the event, unless `done` is NULL. */
cls_status cls_commands_end(cls_commands *c, cl_int code, const char *what, cl_event end,
                            cl_event *done);

#endif
