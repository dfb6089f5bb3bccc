/* SPDX-License-Identifier: MIT */
/* clsample: bringing results to the host without stalling a queue. */
#ifndef CLSAMPLE_READBACK_H
#define CLSAMPLE_READBACK_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A ring of page-locked host memory for small results. It is used by one thread at a time. */
typedef struct cls_readback cls_readback;

/* Creates a ring of `depth` entries (1 to 1024) of `size` bytes (1 to 2^30) each. Blocks. A depth
 * equal to the number of steps in flight suffices if the oldest result is fetched before the next
 * step is enqueued. Retains `context`. Any thread may call this.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_OPENCL_ERROR. On failure *out is NULL. */
CLS_API CLS_WARN_UNUSED cls_status cls_readback_create(cls_context *context, size_t size,
                                                       uint32_t depth, cls_readback **out);

/* Waits for the reads in flight, then releases the ring. NULL is allowed. */
CLS_API void cls_readback_destroy(cls_readback *readback);

/* Enqueues a read of `size` bytes from `from`, after `wait` (n_wait events; NULL with 0), into the
 * next entry of the ring, and sets *ticket to its number: 0 for the first read, then 1, 2, ... The
 * queue is not flushed. `queue` and `from` belong to the context; `from` may be CL_MEM_WRITE_ONLY.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OPENCL_ERROR; CLS_BUSY: the last read into this entry is still in
 * flight. Wait for it with cls_readback_get() and call cls_readback_start() again; the step itself
 * must not be repeated. */
CLS_API CLS_WARN_UNUSED cls_status cls_readback_start(cls_readback *readback,
                                                      cl_command_queue queue,
                                                      const cls_buffer *from, size_t size,
                                                      cl_uint n_wait, const cl_event *wait,
                                                      uint64_t *ticket);

/* Sets *data to the bytes of the read with this ticket. They belong to the ring and stay valid
 * until `depth` more reads have been started. block 0: never waits. block 1: flushes the queue and
 * waits.
 * CLS_OK; CLS_BAD_ARGUMENT: among others, there is no such ticket, or its entry was overwritten;
 * CLS_BUSY: the read is not complete, only with block 0; CLS_OPENCL_ERROR. On failure *data is
 * NULL. */
CLS_API CLS_WARN_UNUSED cls_status cls_readback_get(cls_readback *readback, uint64_t ticket,
                                                    int block, const void **data);

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_READBACK_H */
