/* SPDX-License-Identifier: MIT */
/* The caller's queues, events and buffers: whether a call may use them, and the events of uploads.
 * This folder also sets kernel arguments and reads small results back to the host. */
#ifndef CLS_QUEUE_H
#define CLS_QUEUE_H

#include "programs/programs.h"

/* ------------------------------------------------------------- events.c */

/* Uploads of one sampler or head that may be in flight at once. */
#define CLS_STAGING_COUNT 16

/* Sets *in_order to 1 if the queue is in order, otherwise to 0. Fails if the queue does not belong
 * to the context and its device. */
cls_status cls_queue_check(const cls_context *context, cl_command_queue queue, int *in_order);

/* Fails unless each event belongs to the context and has not ended with an error. Some drivers run
 * commands that wait for a failed event, others never do (doc/reliability.md). */
cls_status cls_wait_check(const cls_context *context, cl_uint n_wait, const cl_event *wait);

/* Returns the state of an upload. CL_COMPLETE: it has ended, with or without an error, or *done is
 * NULL; *done is released and becomes NULL. A positive value: it is in flight. A negative value: an
 * OpenCL error prevented the query. */
cl_int cls_upload_poll(cl_event *done);

/* Replaces the event of an upload by `end`, a later event that implies it. A caller that waits for
 * `end` can then rely on the upload's memory being free: rusticl may report an upload as complete
 * after the step that follows it. */
cl_int cls_upload_extend(cl_event *done, cl_event end);

/* Waits for an upload and releases its event. Returns 0 if OpenCL cannot confirm that the upload
 * has ended; its memory must then never be freed. */
int cls_upload_wait(cl_event *done);

/* ---------------------------------------------------------- arguments.c */

/* A kernel whose arguments are set one after another. The first error is kept in `code`. */
typedef struct cls_arguments {
    struct cls_compiled_kernel kernel;
    cl_uint next; /* index of the next argument */
    cl_int code;
} cls_arguments;
void cls_set_mem(cls_arguments *a, cl_mem x);
void cls_set_u32(cls_arguments *a, uint32_t x);
void cls_set_u64(cls_arguments *a, uint64_t x);

/* ------------------------------------------------------------ buffers.c */

/* Returns the bytes of `rows` rows of `width` elements that begin `stride` elements apart, or
 * UINT64_MAX if the number overflows. */
uint64_t cls_extent(uint64_t rows, uint64_t stride, uint64_t width, uint64_t element);

/* How a call uses a buffer. CLS_HOST_READS: a command copies it to the host. */
enum cls_access { CLS_KERNEL_READS, CLS_KERNEL_WRITES, CLS_HOST_READS };

/* The bytes of the caller's buffers that a call reads and writes. For a sub-buffer they are those
 * of its parent. */
#define CLS_MAX_RANGES 48
typedef struct cls_ranges {
    uint32_t n;
    struct cls_range {
        cl_mem root;         /* the buffer, or the parent of a sub-buffer */
        uint64_t begin, end; /* bytes */
        int written;
        char name[40]; /* of the argument, for messages */
    } range[CLS_MAX_RANGES];
} cls_ranges;

/* Records the bytes [offset, offset + size) of a buffer in `ranges`, unless that is NULL. Fails if
 * they do not lie in a buffer of the context, if the offset is not a multiple of the element's
 * size, or if the buffer's flags forbid the access. `name` is the argument's, for messages. */
cls_status cls_buffer_check(const cls_context *context, const char *name, const cls_buffer *buffer,
                            uint64_t size, uint64_t element, enum cls_access access,
                            cls_ranges *ranges);

/* Fails if a range that the call writes overlaps another range. */
cls_status cls_ranges_check(const cls_ranges *ranges);

#endif
