/* SPDX-License-Identifier: MIT */
/* A sampler: its memory and kernels, its slots and what calls change in them, and how the commands
 * of a call come into a queue. */
#ifndef CLS_SAMPLER_H
#define CLS_SAMPLER_H

#include "queue/queue.h"
#include "request/request.h"

/* ------------------------------------------------------------ sampler.c */

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
    struct cls_ready ready[CLS_DTYPES][CLS_VARIANTS]; /* kernels of no type are of type 0 */
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

/* ------------------------------------------------------------- memory.c */

/* A place for n words among the lists, or a larger buffer. */
cls_status cls_lists_new(cls_sampler *sampler, uint32_t n, cls_lists **out);
void cls_lists_release(const cls_sampler *sampler, cls_lists *lists);

/* Forgets the lists that nobody uses, once a step has passed that knew them. */
void cls_lists_drop(cls_sampler *sampler);

/* Makes a buffer larger, without its contents. What steps in flight use of the
 * old one, OpenCL keeps for them. */
cls_status cls_device_grow(const cls_sampler *sampler, cls_device_block *block, size_t need,
                           const char *what);

/* ------------------------------------------------------------ changes.c */

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

/* -------------------------------------------------------------- slots.c */

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

/* ----------------------------------------------------------- commands.c */

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

/* What a sampler says whose step failed half way. */
cls_status cls_sampler_lost(void);

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

/* A buffer that may be absent; kernels look at `has` or `wants` first. */
void cls_set_buffer(cls_arguments *a, const cls_sampler *sampler, const cls_buffer *b);
void cls_set_map(cls_arguments *a, const cls_sampler *sampler, const cls_ints *map);

/* groups[2] of the kernel's size. *done (NULL: not the last command) becomes ours. */
cl_int cls_commands_launch(cls_commands *c, const cls_arguments *a, const size_t *groups,
                           cl_event *done);

/* Ends the call: `end` is its last command's event. Any failure is the call's. */
cls_status cls_commands_end(cls_commands *c, cl_int code, const char *what, cl_event end,
                            cl_event *done);

#endif
