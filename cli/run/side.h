/* SPDX-License-Identifier: MIT */
/* A side of clsample run: its sampler, its memory, and what it wrote. */
#ifndef CLS_CLI_RUN_SIDE_H
#define CLS_CLI_RUN_SIDE_H

#include "run/data.h"

/* How a side differs from the host. */
typedef enum run_way {
    RUN_PLAIN,
    RUN_OUT_OF_ORDER, /* two queues in turn, of which one is out of order */
    RUN_EACH,         /* each slot call takes effect at once */
    RUN_MOVED,        /* slots are saved and loaded between the calls */
    RUN_AHEAD,        /* results are read many steps later, from two queues in turn */
    RUN_SVM,          /* buffers are pointers */
    RUN_ALONE,        /* each row of a step is a step */
    RUN_PERMUTED,     /* rows in another order, requests in other slots, offsets and strides */
    RUN_SHARDS,       /* the vocabulary is divided */
    RUN_WAYS
} run_way;

/* The sides beside the host: SIDE(name, way, shards). `device` is the first; those of the host have
 * names that begin so. */
#define RUN_SIDES(SIDE) \
    SIDE("device", RUN_PLAIN, 0) \
    SIDE("each", RUN_EACH, 0) \
    SIDE("moved", RUN_MOVED, 0) \
    SIDE("out-of-order", RUN_OUT_OF_ORDER, 0) \
    SIDE("ahead", RUN_AHEAD, 0) \
    SIDE("svm", RUN_SVM, 0) \
    SIDE("alone", RUN_ALONE, 0) \
    SIDE("permuted", RUN_PERMUTED, 0) \
    SIDE("shards-2", RUN_SHARDS, 2) \
    SIDE("shards-3", RUN_SHARDS, 3) \
    SIDE("shards-5", RUN_SHARDS, 5) \
    SIDE("host-each", RUN_EACH, 0) \
    SIDE("host-moved", RUN_MOVED, 0) \
    SIDE("host-alone", RUN_ALONE, 0) \
    SIDE("host-permuted", RUN_PERMUTED, 0) \
    SIDE("host-threads", RUN_PLAIN, 0)

/* What a statement wrote. */
typedef struct run_record {
    uint32_t statement;
    const char *name;
    bool near;          /* floats whose last bits may differ */
    size_t size, width; /* bytes; elements of a row */
    unsigned char *bytes;
} run_record;

/* A result that is still on the device. */
typedef struct run_pending {
    uint32_t record;
    uint32_t reverse; /* rows that are in the opposite order; 0: none */
    cls_buffer buffer;
} run_pending;

/* Memory of the host for the call that is being made. */
typedef struct run_passed {
    void *memory;
    size_t size;
} run_passed;

typedef struct run_named {
    const char *name;
    void *object;               /* a cls_grammar, or bytes */
    size_t size;                /* 0: a grammar */
    bool given;                 /* the grammar is not the side's */
    const run_statement *rules; /* of a saved slot: its parameters */
} run_named;

enum { RUN_MOST_SHARDS = 5 };

typedef struct run_side {
    const char *name;
    run_way way;
    uint32_t most_shards;
    uint32_t shards; /* of the sampler: most_shards, or as many as it has tokens */
    bool on_host;
    bool shares;       /* the context of another side */
    bool dies;         /* a call that is refused ends the command */
    bool compiles_all; /* for samplers whose text names no features; else what calls need */
    cls_context_options options;
    cli_target target;         /* of the host only the context */
    cl_command_queue queue[2]; /* they take turns unless [1] is NULL */
    const char *records_to;    /* the file for the calls, or NULL */
    uint32_t recorded;         /* samplers that have one */
    const char *lacks;         /* what the device does not have for this side; or NULL */

    /* While a script runs. */
    const run_given *given;
    const run_statement *now;
    uint32_t index;
    cls_sampler *sampler[RUN_MOST_SHARDS]; /* one, or one of each shard */
    cls_shard *shard[RUN_MOST_SHARDS];
    cls_sampler_options sampler_options;
    bool compiles_late;          /* what calls need */
    uint32_t dtypes;             /* bits of the types of logits that the script may have */
    bool was_busy;               /* the call before */
    cls_infill infill;           /* its tables; prefix_of NULL: none */
    const run_statement **rules; /* [slot_count] the statement with the parameters of each slot */
    const struct run_side *reference;      /* has run the script before; or NULL */
    bool reverses;                         /* the rows of this call are in the opposite order */
    const run_statement *logits, *outputs; /* the latest statements that set them */
    run_named *named;
    uint32_t names;
    run_record *record;
    uint32_t records;
    run_pending *pending;
    uint32_t n_pending;
    cls_buffer *memory; /* of the calls in flight */
    uint32_t n_memory;
    run_passed *passing;
    uint32_t n_passing;
    const char *left_out; /* why the script does not run on this side, or NULL */
} run_side;

/* Opens a side's device and context, or shares those of a side that is open; a failure ends the
 * command. */
void run_open(run_side *side, const char *device, const run_side *opened);
void run_close(run_side *side);

/* Releases the samplers, or also grammars and saved slots. The records stay. */
void run_end_samplers(run_side *side);
void run_end(run_side *side);

/* Waits for all that was enqueued. */
void run_finish(const run_side *side);

/* Sets the status of a call of sampler i, which is made again while run_again() says so. */
#define RUN_RETRY(status, side, i, call, operands) \
    do \
        (status) = call((side)->sampler[i], (side)->target.queue, operands, 0, NULL, NULL); \
    while (run_again(side, i, &(status)))

/* Whether a call of sampler i is made again: after all others where it was CLS_BUSY, and with the
 * features that it needs where the text does not say which the sampler has. */
bool run_again(run_side *side, uint32_t i, cls_status *status);

/* Waits for the calls in flight and reads their results, or only waits and releases the memory. */
void run_drain(run_side *side);
void run_abandon(run_side *side);

/* Memory of the side: with these contents, and for results, which are compared under their names.
 */
cls_buffer run_buffer(run_side *side, const void *data, size_t size);
cls_buffer run_result(run_side *side, const char *name, uint32_t rows, size_t width, bool near);

/* Memory of the host with these contents, which are overwritten when the call has returned. */
void *run_passing(run_side *side, const void *data, size_t size);

/* What a side wrote in a statement under a name, or NULL. */
const run_record *run_record_of(const run_side *side, uint32_t statement, const char *name);

/* What the reference's call returned; CLS_OK without a reference. */
cls_status run_reference(const run_side *side);

/* Records what a call returned, and drops the results that it did not write. */
void run_returned(run_side *side, cls_status status, uint32_t since);

/* Records bytes. */
void run_note(run_side *side, const char *name, const void *bytes, size_t size);

/* Something that a statement named. */
run_named *run_name_find(run_side *side, const char *name);
run_named *run_name_set(run_side *side, const char *name, void *object, size_t size);

/* Whether the text has the parameters of a slot: those of a slot of a file are not known. */
bool run_has_rules(const run_side *side, int32_t slot);

/* The slot of the side for one of the script. */
int32_t run_slot(const run_side *side, int32_t slot);

/* The number of samplers of a side. */
uint32_t run_samplers(const run_side *side);

/* Leaves the script out on this side. */
void run_leave_out(run_side *side, const char *why);

#endif
