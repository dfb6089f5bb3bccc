/* SPDX-License-Identifier: MIT */
/* A caller's queues, events and buffers. */
#ifndef CLS_QUEUE_H
#define CLS_QUEUE_H

#include "programs/programs.h"

/* ------------------------------------------------------------- events.c */

#define CLS_STAGING 16 /* uploads in flight */

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

/* Events that are there, of the context, and have not ended with an error: what
 * waits for one that has, some drivers run, and some never (doc/reliability.md). */
cls_status cls_wait_check(const cls_context *context, cl_uint n_wait, const cl_event *wait);

/* ---------------------------------------------------------- arguments.c */

/* Arguments of a kernel, set one after another; remembers the first failure. */
typedef struct cls_arguments {
    struct cls_ready to;
    cl_uint next;
    cl_int code;
} cls_arguments;
void cls_set_mem(cls_arguments *a, cl_mem x);
void cls_set_u32(cls_arguments *a, uint32_t x);
void cls_set_u64(cls_arguments *a, uint64_t x);

/* ------------------------------------------------------------ buffers.c */

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

#endif
