/* SPDX-License-Identifier: MIT */
/* The commands of a call: in the right order, with the uploads that they need. */
#ifndef CLS_SAMPLER_COMMANDS_H
#define CLS_SAMPLER_COMMANDS_H

#include "sampler/memory.h"

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

/* Host memory that an upload reads. It must not change until the upload has ended. */
typedef struct cls_staging {
    cl_event done;                  /* NULL if the memory is free */
    int32_t *maps;                  /* [CLS_MAPS][max_rows] */
    cls_host_buffer changes, words; /* of the slot calls before a step */
    cls_host_buffer payload;        /* a cls_host_data of the call */
    cls_host_buffer rows;           /* of a shard's exchange; max_rows, once there is a shard */
} cls_staging;

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
