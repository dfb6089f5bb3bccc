/* SPDX-License-Identifier: MIT */
/*
 * What the project's other libraries use of libclsample beside its public calls: errors, structs
 * that grow, checks of the caller's queues, events and buffers, and uploads. The functions are
 * exported in the version node CLSAMPLE_PRIVATE (lib/clsample.map). They may change with every
 * release, so the libraries must be from the same one; no program may call them.
 *
 * This header includes no other private one: what is not here, the other libraries cannot use.
 */
#ifndef CLS_PRIVATE_H
#define CLS_PRIVATE_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include "clsample.h"

/* ------------------------------------------------------------------ errors */

/* Stores a message (printf style) and OpenCL's code for the calling thread and returns `status`.
 * On Windows, gcc's "printf" format is not the one of C11. */
#if defined(__MINGW32__) && !defined(__clang__)
__attribute__((format(gnu_printf, 3, 4)))
#elif defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
CLS_API cls_status
cls_fail(cls_status status, cl_int opencl, const char *format, ...);

/* ------------------------------------------------------- structs that grow */

/* Clears a public struct of the caller's size and sets its struct_size. A size below `first`, the
 * struct's size in the first header of the interface, sets struct_size to 0, which every use of
 * the struct refuses; the result is then 0. */
CLS_API int cls_struct_init(void *object, size_t caller_size, size_t first);

/* Copies a public struct of the caller's size into `object`, which has size `ours` and holds the
 * defaults. Refuses a size below `first` or above 65,536 and, unless the library writes the struct
 * (`written`), a field that this library does not know and that is not 0. */
CLS_API cls_status cls_struct_read(void *object, size_t ours, size_t first, const void *callers,
                                   const char *name, int written);

/* ----------------------------------------------------------------- context */

/* Adds a reference to a context; cls_context_destroy() removes it. */
CLS_API void cls_context_retain(cls_context *context);

/* ------------------------------------------------------- queues and events */

/* Checks that a queue belongs to the context and its device. *ordered: whether it is in order. */
CLS_API cls_status cls_queue_check(const cls_context *context, cl_command_queue queue,
                                   int *ordered);

/* Checks that the events of a wait list belong to the context and have not ended with an error.
 * Some drivers run a command that waits for a failed event, and some never do
 * (doc/reliability.md). */
CLS_API cls_status cls_wait_check(const cls_context *context, cl_uint n_wait, const cl_event *wait);

/* ----------------------------------------------------------------- uploads */

/* The state of an upload whose event is *done (NULL: there is none). CL_COMPLETE: the upload is
 * over, successfully or not, and *done has been released. A larger value: it is in flight. A
 * smaller one: OpenCL's reason for not giving the state. */
CLS_API cl_int cls_upload_state(cl_event *done);

/* Makes an upload count as over when `end` completes, an event of a later command. The event that
 * the caller waits for is then the one that frees the upload's memory: rusticl may report an
 * upload complete after the step behind it. */
CLS_API cl_int cls_upload_until(cl_event *done, cl_event end);

/* Waits for an upload and releases its event. Returns 0 if its end cannot be found out; its memory
 * must then never be freed. */
CLS_API int cls_upload_end(cl_event *done);

/* ----------------------------------------------------------------- buffers */

/* Bytes of `rows` rows of `width` elements, a stride apart; UINT64_MAX if that overflows. */
static inline uint64_t cls_extent(uint64_t rows, uint64_t stride, uint64_t width, uint64_t element)
{
    if (stride > (UINT64_MAX / element - width) / rows)
        return UINT64_MAX;
    return ((rows - 1) * stride + width) * element;
}

/* Kernels read or write a buffer, or (CLS_COPIES) a command reads it to the host. */
enum cls_access { CLS_READS, CLS_WRITES, CLS_COPIES };

/* The bytes of the caller's buffers that a call reads and writes. Those of a sub-buffer count as
 * its parent's. */
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

/* Checks that [offset, offset + size) lies in a buffer of the context, aligned to its element, and
 * that `access` is allowed. Adds the bytes to `ranges`, unless it is NULL. */
CLS_API cls_status cls_buffer_check(const cls_context *context, const char *what,
                                    const cls_buffer *buffer, uint64_t size, uint64_t element,
                                    enum cls_access access, cls_ranges *ranges);

/* Refuses ranges that overlap, unless both are only read. */
CLS_API cls_status cls_ranges_check(const cls_ranges *ranges);

#endif
