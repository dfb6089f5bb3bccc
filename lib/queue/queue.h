/* SPDX-License-Identifier: MIT */
/* The caller's queues, events and buffers, kernel arguments, and readbacks. The checks of queues,
 * events and buffers, and the functions for the events of uploads, are declared in lib/private.h,
 * since libclsample-head uses them, too. */
#ifndef CLS_QUEUE_H
#define CLS_QUEUE_H

#include "programs/programs.h"

/* ------------------------------------------------------------- events.c */

/* Uploads of one sampler that may be in flight at once. */
#define CLS_STAGING_COUNT 16

/* ------------------------------------------------------------ buffers.c */

/* Returns 1 if the data certainly start at a multiple of 16 bytes in the device's memory. OpenCL
 * aligns what it allocates to 128 bytes; where the caller has provided memory, its pointer decides,
 * and for a sub-buffer its parent's. `ranges` is of a call that has checked the buffer, or NULL. */
int cls_buffer_is_wide(const cls_buffer *buffer, cls_ranges *ranges);

/* Enqueues a read of a buffer's first `size` bytes, which has an event. `calls` are of ranges that
 * the buffer was checked with. */
cl_int cls_buffer_read(cl_command_queue queue, const cls_buffer *from, uint64_t at, size_t size,
                       void *to, const cls_pointer_calls calls[CLS_BUFFER_KINDS], cl_uint n_wait,
                       const cl_event *wait, cl_event *event);

/* ---------------------------------------------------------- arguments.c */

/* The buffers of a launch, under the names of cl/core/buffers.h. `args` is its cls_args. */
#define CLS_COUNT(type, name) +1
enum { CLS_BOUND = 2 CLS_ALL_BUFFERS(CLS_COUNT) };
#undef CLS_COUNT
typedef struct cls_buffers {
    cl_mem args;
    const cls_args *values; /* in place of the buffer, where kernels get them by value, or NULL */
#define CLS_FIELD(type, name) cl_mem name;
    CLS_ALL_BUFFERS(CLS_FIELD)
#undef CLS_FIELD
    /* By CLS_PLACE() of the field: NULL, or the field is a pointer, and this sets it; 1 if the
     * field is a buffer that lives as long as the kernels. */
    cls_set_pointer set[CLS_BOUND];
    uint8_t lasts[CLS_BOUND];
} cls_buffers;
#define CLS_PLACE(name) (offsetof(cls_buffers, name) / sizeof(cl_mem))

/* What the arguments of a kernel were set to last, by their index, so that they are not set to the
 * same again: the numbers, and buffers that live as long as the kernel. NULL: another one, whose
 * address may become that of a later buffer. */
typedef struct cls_known {
    cl_mem buffer[CLS_BOUND];
    cls_args values;
    int has_values;
} cls_known;

/* Makes a buffer of the caller's the one at an offset in `to`. `calls` are of the ranges that the
 * buffer was checked with. */
void cls_buffers_bind(cls_buffers *to, size_t at, const cls_buffer *buffer,
                      const cls_pointer_calls calls[CLS_BUFFER_KINDS]);

/* A kernel whose arguments are set one after another. The first error is kept in `code`. */
typedef struct cls_arguments {
    struct cls_compiled_kernel kernel;
    cl_uint next; /* index of the next argument */
    cl_int code;
} cls_arguments;
void cls_set_mem(cls_arguments *a, cl_mem x);
void cls_set_u32(cls_arguments *a, uint32_t x);

/* Sets those buffers of a kernel of a step that are not known to be set. A buffer that is absent
 * (NULL) is replaced by the row records; kernels do not read it, by `has` or `wants` of their
 * arguments. */
cls_arguments cls_kernel_arguments(struct cls_compiled_kernel kernel, enum cls_kernel which,
                                   const cls_buffers *buffers);

#endif
