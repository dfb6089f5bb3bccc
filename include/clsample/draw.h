/* SPDX-License-Identifier: MIT */
/* clsample: drawing from lists of candidates that the host has filtered. */
#ifndef CLSAMPLE_DRAW_H
#define CLSAMPLE_DRAW_H

#include "outputs.h"
#include "step.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One token for each row, drawn from the row's list of candidates. */
typedef struct cls_draw_call {
    size_t struct_size;
    uint32_t rows;         /* 1 to max_rows */
    int32_t invalid_token; /* as cls_step.invalid_token */

    /* The lists. All buffers are read; those of cls_outputs.kept can be passed as they are.
     * count: 1 to 16,384.
     * ids: an id outside the vocabulary is no candidate. An id that occurs twice may be drawn by
     *     either entry.
     * logits: a candidate's weight is e^logit, so the caller divides the logits by the temperature
     *     first. The weights of a row may have any sum. NaN or -inf: no candidate.
     * probs: ignored.
     * counts: the first so many entries of a row are its candidates. A number below 0 counts as 0,
     *     and one above `count` as `count`. Absent: `count`. */
    cls_candidates candidates;
    uint64_t row_stride; /* elements of ids and of logits from row to row; 0: candidates.count */

    cls_ints slots, positions, draws; /* as in cls_step */
    cls_buffer random_bits;           /* as in cls_step */
    int32_t defer_accept;             /* as in cls_step */
    int32_t reserved;                 /* 0 */
    cls_buffer tokens, status;        /* as in cls_step */
    cls_buffer latest;                /* as cls_outputs.latest */
} cls_draw_call;

CLS_INIT_FUNCTION(cls_draw_call)

/* Enqueues the draw of one token for each row. The random number is that of cls_sample() at the
 * same slot, position and draw.
 * The token enters the slot; of the slot's parameters only the seed, the stream and those that end
 * the request have an effect. Candidates are drawn in the order of the list. The token is the same,
 * bit for bit, on every device and in cls_host_draw(). Its distribution is that of cls_sample(),
 * but it is not the token that cls_sample() draws from these candidates, because cls_sample()
 * orders and rounds them differently. A row without a candidate gets CLS_ROW_EMPTY.
 * Queue, events and results: as cls_sample(). */
CLS_API CLS_WARN_UNUSED cls_status cls_draw(cls_sampler *sampler, cl_command_queue queue,
                                            const cls_draw_call *call, cl_uint n_wait,
                                            const cl_event *wait, cl_event *done);

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_DRAW_H */
