/* SPDX-License-Identifier: MIT */
/*
 * What the project's libraries have in common beside the public calls: errors, structs that grow,
 * checks of the caller's queues, events and buffers, and uploads. Only the two functions of errors,
 * the table of OpenCL's functions and the words of parameters are exported, in the version node
 * CLSAMPLE_PRIVATE (lib/clsample.map), since the thread's error and the tables are in libclsample;
 * the rest is compiled into each library. No program but the command may call it, and all must be
 * from the same release.
 *
 * This header includes no private ones but those of two tables: what is not here, the other
 * libraries cannot use.
 */
#ifndef CLS_PRIVATE_H
#define CLS_PRIVATE_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include "clsample.h"
#include "sizes.h"
#if defined(CLS_BUILD) || defined(CLS_HEAD_BUILD)
#include "base/opencl.h"
#endif

/* ------------------------------------------------------------------ errors */

/* Records an error message (printf style) and OpenCL's error code for the calling thread, and
 * returns `status`. If `opencl` is not CL_SUCCESS, its name is appended to the message. On Windows,
 * gcc's "printf" format is not that of C11, hence gnu_printf. */
#if defined(__MINGW32__) && !defined(__clang__)
__attribute__((format(gnu_printf, 3, 4)))
#elif defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
CLS_API cls_status
cls_fail(cls_status status, cl_int opencl, const char *format, ...);

/* Refuses an argument: records the message and returns CLS_BAD_ARGUMENT. A message of this status
 * begins with the argument, which is cls_error_field(). */
#define cls_refuse(...) cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, __VA_ARGS__)

/* The same for a message that does not, since no argument is at fault alone. */
#define cls_refuse_call(...) cls_no_field(cls_refuse(__VA_ARGS__))
CLS_API cls_status cls_no_field(cls_status status);

/* Reports that the sampler or the library was not compiled for what a call needs. */
#define cls_not_compiled(...) cls_no_field(cls_fail(CLS_NOT_COMPILED, CL_SUCCESS, __VA_ARGS__))

/* Returns CLS_OK for CL_SUCCESS, and else reports what has failed, with OpenCL's code. */
#define cls_opencl_status(code, ...) \
    ((code) == CL_SUCCESS ? CLS_OK : cls_fail(CLS_OPENCL_ERROR, code, __VA_ARGS__))

/* Reports that there is no host memory for what the message names. */
#define cls_no_memory(...) \
    cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for " __VA_ARGS__)

/* -------------------------------------------------------------- parameters */

/* Writes parameters as words of a text of calls, those that do not have their defaults:
 * " temperature=0.5 top_k=3". A grammar is left out. The numbers give the same parameters again. */
CLS_API void cls_params_words(const cls_params *params,
                              void (*add)(void *to, const char *bytes, size_t n), void *to);

/* ---------------------------------------------------------- the soft-cap */

/* Fails if a soft-cap of logits is neither 0 nor in its range. */
cls_status cls_softcap_check(const char *name, float cap);

/* Returns what kernels multiply by in place of a division by a soft-cap. */
float cls_softcap_reciprocal(float cap);

/* ------------------------------------------------------- structs that grow */

/* Copies a public struct of the caller's size to `object`, which has our_size bytes. Fields that
 * the caller's struct lacks become 0. Fails if the caller's size is below min_size or above 65,536.
 * If the struct is an input (is_output is 0), it also fails if a field that this version does not
 * know is not 0.
 */
cls_status cls_struct_read(void *object, size_t our_size, size_t min_size, const void *callers,
                           const char *name, int is_output);

/* ------------------------------------------------------- queues and events */

/* Sets *in_order to 1 if the queue is in order, otherwise to 0. Fails if the queue does not belong
 * to the context and its device. Here and below a context of NULL is the host's: it has no queues
 * and no events, which are refused. */
cls_status cls_queue_check(cl_context context, cl_device_id device, cl_command_queue queue,
                           int *in_order);

/* Fails unless each event belongs to the context and has not ended with an error. Some drivers run
 * commands that wait for a failed event, others never do. */
cls_status cls_wait_check(cl_context context, cl_uint n_wait, const cl_event *wait);

/* ----------------------------------------------------------------- uploads */

/* Returns the state of an upload. CL_COMPLETE: it has ended, with or without an error, or *done is
 * NULL; *done is released and becomes NULL. A larger value: it is in flight. A smaller value: an
 * OpenCL error prevented the query. */
cl_int cls_upload_poll(cl_event *done);

/* Replaces the event of an upload by `end`, the event of a later command. A caller that waits for
 * `end` can then rely on the upload's memory being free: rusticl may report an upload as complete
 * after the step that follows it. */
cl_int cls_upload_extend(cl_event *done, cl_event end);

/* Waits for an upload and releases its event. Returns 0 if OpenCL cannot confirm that the upload
 * has ended; its memory must then never be freed. */
int cls_upload_wait(cl_event *done);

/* ----------------------------------------------------------------- buffers */

/* Returns the bytes of `rows` rows of `width` elements that begin `stride` elements apart, or
 * UINT64_MAX if the number overflows. */
static inline uint64_t cls_extent(uint64_t rows, uint64_t stride, uint64_t width, uint64_t element)
{
    if (stride > (UINT64_MAX / element - width) / rows)
        return UINT64_MAX;
    return ((rows - 1) * stride + width) * element;
}

/* How a call uses a buffer. CLS_HOST_READS: a command copies it to the host. */
enum cls_access { CLS_KERNEL_READS, CLS_KERNEL_WRITES, CLS_HOST_READS };

/* What OpenCL says of a buffer. */
typedef struct cls_mem_info {
    cl_mem object, root; /* root: the parent of a sub-buffer, else the object itself */
    size_t size, origin; /* origin: the offset of a sub-buffer in its parent */
    cl_context context;
    cl_mem_object_type type;
    cl_mem_flags flags;
} cls_mem_info;

/* Returns 1 if a buffer is not absent. */
static inline int cls_buffer_is_set(const cls_buffer *b)
{
    return b->buffer != NULL || b->pointer != NULL;
}

/* What sets a pointer as a kernel's argument, and what copies between pointers: the functions of
 * OpenCL 2.0 for SVM and of Intel's extension for USM have the same types. */
typedef cl_int(CL_API_CALL *cls_set_pointer)(cl_kernel, cl_uint, const void *);
typedef cl_int(CL_API_CALL *cls_copy_pointer)(cl_command_queue, cl_bool, void *, const void *,
                                              size_t, cl_uint, const cl_event *, cl_event *);
typedef struct cls_pointer_calls {
    cls_set_pointer set; /* NULL: not looked up, or not there */
    cls_copy_pointer copy;
} cls_pointer_calls;

/* Finds the functions for pointers of a kind, unless they were found. Fails if the device or its
 * OpenCL has no such memory; `name` is the argument's, for the message. */
#define CLS_BUFFER_KINDS (CLS_BUFFER_HOST + 1)
cls_status cls_pointer_calls_find(cl_device_id device, const char *name, int32_t kind,
                                  cls_pointer_calls *calls);

/* The bytes of the caller's buffers that a call reads and writes. For a sub-buffer they are those
 * of its parent, and for a pointer addresses. OpenCL is asked once about each buffer of a call, and
 * once about each kind of pointer. */
#define CLS_MAX_RANGES 80
typedef struct cls_ranges {
    uint32_t n, infos;
    cls_pointer_calls calls[CLS_BUFFER_KINDS]; /* NULL for CLS_BUFFER_MEM */
    struct cls_range {
        cl_mem root;         /* NULL: of a pointer */
        uint64_t begin, end; /* bytes */
        int written;
        const char *name; /* of the argument, for messages */
    } range[CLS_MAX_RANGES];
    cls_mem_info info[CLS_MAX_RANGES];
} cls_ranges;

/* Makes ranges empty. */
void cls_ranges_begin(cls_ranges *ranges);

/* Fails if the fields of a buffer, which may be absent, do not fit its kind. */
cls_status cls_buffer_kind_check(const char *name, const cls_buffer *buffer);

/* Records the bytes [offset, offset + size) of a buffer in `ranges`. `context` is NULL for a host's
 * memory. Fails if they do not lie in a buffer of the context, or if the device has no such memory,
 * if the offset is not a multiple of the element's size, or if the buffer's flags forbid the
 * access. `name` is the argument's, for messages, and remains as long as `ranges`. */
cls_status cls_buffer_check(cl_context context, cl_device_id device, const char *name,
                            const cls_buffer *buffer, uint64_t size, uint64_t element,
                            enum cls_access access, cls_ranges *ranges);

/* Fails if a range that the call writes overlaps another range. */
cls_status cls_ranges_check(const cls_ranges *ranges);

#endif
