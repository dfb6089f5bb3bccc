/* SPDX-License-Identifier: MIT */
/* clsample: one vocabulary over several devices.
 *
 * An inference runtime that splits the LM head over devices has logits [rows, vocab / N] on each.
 * These functions draw the tokens of a step without bringing the logits together: each shard
 * computes a partial result, all shards exchange these, and each shard merges them. The tokens,
 * the row statuses and the requests' state are those of cls_sample() on the whole logits, bit for
 * bit, for any number of shards.
 *
 * Each shard has a cls_sampler of the whole vocabulary, and makes the same slot calls in the same
 * order: a slot has the state of the whole request on every shard. A saved slot therefore does not
 * depend on the split. Token ids, masks, biases and lists always refer to the whole vocabulary;
 * only the logits are a shard's own.
 *
 * How partials travel is the caller's business: by MPI (libclsample-mpi does it), through memory
 * that threads share, or over a socket. One step:
 *
 *     cls_shard_sample(shard, queue, &step, 0, NULL);
 *     int more = 1;
 *     while (more) {
 *         cls_shard_partial(shard, &partial, &size);
 *         ... bring the partials of all shards together, in the order of shards, on each of them
 *         cls_shard_merge(shard, partials, shard_count * size, &more, &done);
 *     }
 *
 * `size` and `more` are the same on all shards in each exchange: both follow from what all shards
 * know. doc/scaling.md says how many exchanges a step takes and how large they are.
 *
 * Devices may differ. A top_k that exceeds the shortlist of one device (cls_device_info.shortlist)
 * and not that of another is refused when the shards meet, because they would exchange different
 * parts. Contexts that are created with the same options->shortlist have no such top_k. */
#ifndef CLSAMPLE_SHARD_H
#define CLSAMPLE_SHARD_H

#include "step.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CLS_MAX_SHARDS 4096 /* of a vocabulary */

/* Which part of a vocabulary a shard is. */
typedef struct cls_shard_options {
    size_t struct_size;
    uint32_t shard_count; /* 1 to CLS_MAX_SHARDS, and at most the vocabulary; default 1 */
    uint32_t shard;       /* this one: 0 to shard_count - 1 */

    /* [shard_count + 1], strictly ascending from 0 to the vocabulary: shard i has the tokens
     * borders[i] to borders[i + 1] - 1. Copied; all shards must have the same. NULL (default): the
     * shards are as equal as multiples of 1,024 allow, which makes the smallest partials, or
     * floor(i * vocab / shard_count) if the vocabulary has less than 1,024 tokens a shard. */
    const uint32_t *borders;

    /* 1: partials stay on the device until cls_shard_partial() asks for them, for
     * cls_shard_merge_all(). 0 (default): they are on their way to the host at once. */
    int32_t on_device;
    int32_t reserved; /* 0 */
} cls_shard_options;

CLS_INIT_FUNCTION(cls_shard_options)

/* One shard of a vocabulary, and its open step. It is used by one thread at a time, as its sampler
 * is. */
typedef struct cls_shard cls_shard;

/* Makes a sampler of the whole vocabulary a shard. Compiles CLS_FEATURE_SHARD, also for float32,
 * and allocates [max_rows, vocab] floats on the device and some more. Blocks. The sampler must
 * outlive the shard; a sampler has at most one. While a step is open, the sampler's other calls
 * return CLS_BAD_ARGUMENT; without an open step, cls_sample() and the other calls work as usual on
 * logits of the whole vocabulary. options: NULL for defaults.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE; CLS_BUILD_FAILED;
 * CLS_SELF_TEST_FAILED; CLS_OPENCL_ERROR. On failure *out is NULL. */
CLS_API CLS_WARN_UNUSED cls_status cls_shard_create(cls_sampler *sampler,
                                                    const cls_shard_options *options,
                                                    cls_shard **out);

/* Destroys a shard before its sampler; an open step is abandoned. Blocks until the exchange that is
 * under way has ended. NULL is allowed. */
CLS_API void cls_shard_destroy(cls_shard *shard);

/* What a shard is. */
typedef struct cls_shard_info {
    size_t struct_size;
    uint32_t vocab;       /* tokens of the whole vocabulary */
    uint32_t first;       /* the shard's first token */
    uint32_t count;       /* the shard has the tokens first to first + count - 1 */
    uint32_t shard;       /* the shard's number */
    uint32_t shard_count; /* the number of shards */
    uint32_t shortlist;   /* candidates that a row's list holds on the shard's device */
    uint64_t borders;     /* a digest of the borders of all shards: equal on all of them */
} cls_shard_info;

CLS_INIT_FUNCTION(cls_shard_info)

/* Reports what a shard is.
 * CLS_OK; CLS_BAD_ARGUMENT. */
CLS_API CLS_WARN_UNUSED cls_status cls_shard_query(const cls_shard *shard, cls_shard_info *info);

/* Opens a step: checks its arguments, enqueues the changes of slot calls and the computation of the
 * first partial, and flushes the queue. If the sampler's last step is on another queue, this call
 * or a merge flushes that queue, too. It does not wait, but may allocate memory for partials that
 * are larger than any before. The step is that of cls_sample(). It is equal on all shards, except
 * for the buffers and for step->logits, which are the shard's own: [rows, count of the shard's
 * tokens]; a row_stride of 0 means that count. What `step` points to, also arrays on the host, must
 * remain until the step is complete or abandoned. All exchanges of the step use `queue`.
 *
 * CLS_OK.
 * - CLS_BAD_ARGUMENT; CLS_BUSY; CLS_OUT_OF_MEMORY; CLS_OPENCL_ERROR; CLS_NOT_COMPILED; CLS_IN_USE;
 *   CLS_LOST: no step is open, and as for cls_sample(); CLS_BAD_ARGUMENT also if the partial of so
 *   many rows would exceed 16 GiB. A step of other requests than the last one counts as a step with
 *   changed host arrays (CLS_BUSY). The runtime must tell the other shards, which abandon theirs:
 *   see cls_shard_digest(). */
CLS_API CLS_WARN_UNUSED cls_status cls_shard_sample(cls_shard *shard, cl_command_queue queue,
                                                    const cls_step *step, cl_uint n_wait,
                                                    const cl_event *wait);

/* Opens a step that only brings logits together: rows [rows, count of the shard's tokens] become
 * rows of the whole vocabulary in a buffer of each shard, which cls_shard_logits() describes. Then
 * the sampler's other calls can use them: cls_verify() by any method, cls_logprobs(), cls_sample()
 * of several steps. It takes one exchange. Arguments and results as for cls_shard_sample(). */
CLS_API CLS_WARN_UNUSED cls_status cls_shard_gather(cls_shard *shard, cl_command_queue queue,
                                                    uint32_t rows, const cls_logits *logits,
                                                    cl_uint n_wait, const cl_event *wait);

/* Sets *logits to the rows of the last complete cls_shard_gather(). The buffer belongs to the shard
 * and holds them until the next step is opened.
 * CLS_OK; CLS_BAD_ARGUMENT: there are none. */
CLS_API CLS_WARN_UNUSED cls_status cls_shard_logits(const cls_shard *shard, cls_logits *logits);

/* Returns a number that shards with the same step have in common: of shard_count, the borders,
 * rows, the parameters of the rows' slots and what the step asks for. A runtime may compare it
 * before it exchanges the first partial; merging compares it in any case. 0: no step is open. */
CLS_API uint64_t cls_shard_digest(const cls_shard *shard);

/* Returns the bytes of the current exchange's partial, which are the same on all shards; 0: no step
 * is open. */
CLS_API size_t cls_shard_partial_size(const cls_shard *shard);

/* Returns 1 if cls_shard_partial() would not wait, 0 if it would. */
CLS_API int cls_shard_is_ready(const cls_shard *shard);

/* Waits until the shard's partial is computed, and sets *partial to its bytes, of which there are
 * *size. They belong to the shard and remain until the next call that merges, abandons or destroys.
 * CLS_OK; CLS_BAD_ARGUMENT: no step is open; CLS_IN_USE; CLS_LOST: the device failed. */
CLS_API CLS_WARN_UNUSED cls_status cls_shard_partial(cls_shard *shard, const void **partial,
                                                     size_t *size);

/* Merges the partials of all shards, this one's too, one after another in the order of shards:
 * `size` is shard_count times that of one. The bytes are copied. If *more becomes 1, the next
 * partial is on its way and another exchange follows. If it becomes 0, the step is enqueued to its
 * end and closed, and *done (done may be NULL) becomes its event, as that of cls_sample().
 *
 * CLS_OK.
 * - CLS_BAD_ARGUMENT: a partial is damaged, truncated, of another step, of another split or of
 *   other parameters, or the next partial would exceed 16 GiB; the message says which. Nothing was
 *   accepted, and the step remains open: it can be merged again with the right partials, or
 *   abandoned.
 * - CLS_BUSY; CLS_OUT_OF_MEMORY: nothing was enqueued, and the step remains open.
 * - CLS_IN_USE: nothing has happened. CLS_OPENCL_ERROR; CLS_LOST: as cls_sample(); the step is
 *   closed. */
CLS_API CLS_WARN_UNUSED cls_status cls_shard_merge(cls_shard *shard, const void *partials,
                                                   size_t size, int *more, cl_event *done);

/* Completes the open step of all shards of a vocabulary in one process: shards[i] is shard i, on
 * queues of one OpenCL context, and each has the same step open. done: [shard_count] or NULL; each
 * event is as for cls_shard_merge(). If one exchange completes the step (greedy rows, rows whose
 * set top-k bounds to the shortlist, and rows that send all their keys), partials are copied from
 * device to device; with options->on_device the call then does not wait. A difference between the
 * shards' requests that is found only there costs a row its token (CLS_ROW_UNFIT). Other steps wait
 * for their partials, which are merged as cls_shard_merge() does. Results as for cls_shard_merge().
 * After an error, abandon the steps that are still open; shards whose step is complete have drawn
 * their token already. */
CLS_API CLS_WARN_UNUSED cls_status cls_shard_merge_all(cls_shard *const *shards, uint32_t n,
                                                       cl_event *done);

/* Closes an open step without a token: nothing is accepted, and positions, counts and states stay.
 * Slot calls that came before the step remain in effect. Without an open step it does nothing.
 * CLS_OK; CLS_BAD_ARGUMENT: shard is NULL. */
CLS_API cls_status cls_shard_abandon(cls_shard *shard);

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_SHARD_H */
