/* SPDX-License-Identifier: MIT */
/* clsample: sampling one token for each row, and accepting tokens. */
#ifndef CLSAMPLE_STEP_H
#define CLSAMPLE_STEP_H

#include "slot.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What happened to a row: bits. 0: the row got its token, and nothing unusual happened. */
typedef enum cls_row_status {
    CLS_ROW_OK = 0,  /* none of the following */
    CLS_ROW_NAN = 1, /* an allowed logit was NaN; the token was drawn from the others */
    CLS_ROW_INF = 2, /* an allowed logit was +inf; it counted as FLT_MAX */
    /* No token can be drawn (all are masked, -inf or NaN), or the mask forbids the id that the
     * request must emit: the token is invalid_token, and the request's state is unchanged. */
    CLS_ROW_EMPTY = 4,
    /* `slots` or `logits_map` is -1 for the row; or the request had stopped before, and
     * CLS_ROW_STOPPED is set, too. The token is invalid_token, and the state is unchanged. */
    CLS_ROW_SKIPPED = 8,
    /* In a device map, `slots` names no begun slot, or `logits_map` or the row_map of a mask or a
     * bias names a row that does not exist: the token is invalid_token, and the state is
     * unchanged. */
    CLS_ROW_NO_SLOT = 16,
    /* The request has stopped: this token is a stop id or the last of max_tokens; or the request
     * had stopped before, and CLS_ROW_SKIPPED is set, too. */
    CLS_ROW_STOPPED = 32,
    /* With CLS_ROW_STOPPED: this token is the last of max_tokens and no stop id. */
    CLS_ROW_LENGTH = 64,
    /* The chain was not completed: more than 128 tokens, or more than the shortlist holds, are left
     * for params->infill; or the device ended a search early, as llvmpipe does, which limits the
     * trips of a kernel's loops. The token is invalid_token, and the state is unchanged. */
    CLS_ROW_UNFIT = 128,
    /* The output, with this token, ends in a loop (params->loop_repeats): with CLS_ROW_STOPPED, or
     * without where that ends the thinking (params->loop_action). */
    CLS_ROW_LOOP = 256,
    /* The token was not drawn: the request's thinking budget or cls_slot_force() forced it. The
     * outputs of the row describe what it would have drawn from. */
    CLS_ROW_FORCED = 512,
    /* The row's kept set has more tokens than outputs->kept_set.capacity: the ids are the first
     * ones; or with outputs->kept_set.offsets it does not fit into what is left: there are none.
     * Token and state are as without this output. */
    CLS_ROW_OVERFLOW = 1024
} cls_row_status;

/* The elements of a mask. */
typedef enum cls_mask_kind {
    /* int32 words, as XGrammar and llguidance write them: token t is allowed if and only if bit
     * t % 32 of word t / 32 is set. Bits beyond the vocabulary are ignored. */
    CLS_MASK_PACKED = 0,
    /* Bytes, as QEfficient's token_bitmasks: token t is allowed if and only if byte t is not 0. */
    CLS_MASK_BOOL = 1
} cls_mask_kind;

/* The tokens that each row may draw. An element is a word or a byte, depending on the kind. Tokens
 * beyond the width are not allowed. */
typedef struct cls_mask {
    cls_buffer words;     /* the masks on the device; absent: see `host` */
    uint32_t width;       /* elements of a mask row; 0: ceil(vocab / 32) words or vocab bytes */
    uint32_t rows;        /* mask rows in the buffer; 0: as many as the step has */
    uint64_t row_stride;  /* elements from mask row to mask row; 0: width */
    cls_ints row_map;     /* the mask row of each row, -1: none; absent: row r uses mask row r */
    int32_t kind;         /* a cls_mask_kind */
    uint32_t reserved[5]; /* 0 */
    /* The masks on the host in place of `words`, with rows as above. The call copies them and
     * uploads them through a ring, so that a grammar can fill the next masks while the queue runs.
     * It allocates memory unless the sampler's options->host_mask_size is as large as the masks. */
    const void *host;
} cls_mask;

/* Values that are added to every logit of a row (guidance, watermarks, a caller's own processor):
 * [rows, vocab]. -inf bans a token. A sum that is NaN or infinite counts as if the logit itself had
 * that value.
 *
 * With a factor other than 1 a logit becomes logit + factor * value, in float32, where the product
 * and the sum are each rounded once. A value of -inf bans the token whatever the factor's sign,
 * +inf and NaN count as NaN, and the product of a finite value is limited to the finite floats.
 *
 * Classifier-free guidance of scale s > 0 draws from softmax((s c + (1 - s) u) / T), where c are
 * the conditional and u the unconditional logits. That is softmax((c + (1 / s - 1) u) / (T / s)):
 * `logits` are c, the values are u, the factor is 1 / s - 1, which is below 0 for s > 1, and
 * params->temperature is T / s. A scale of 1 needs no bias. The mask, the bans, the penalties and
 * the stages before the temperature see c + (1 / s - 1) u, which is the guided logits divided by s:
 * divide what is subtracted from logits (frequency, presence, DRY) and logit_bias by s, too. The
 * other truncations see the guided distribution. A token whose logit is -inf in c or in u is
 * banned. Log-probabilities of CLS_LOGPROB_RAW remain those of c. */
typedef struct cls_dense_bias {
    cls_buffer values;   /* absent: no bias */
    int32_t dtype;       /* a cls_dtype: of the values; the logits may have another */
    uint32_t rows;       /* rows in the buffer; 0: as many as the step has */
    uint64_t row_stride; /* elements from row to row; 0: vocab */
    cls_ints row_map;    /* the bias row of each row, -1: none; absent: row r uses bias row r */
    /* What the values are multiplied by: a finite number of either sign, at least 2^-126 in size.
     * 0 (default): 1, the values as they are. */
    float factor;
    uint32_t reserved[5]; /* 0 */
} cls_dense_bias;

/* One step: one token for each row. Only `rows`, `logits` and usually `tokens` must be set. */
typedef struct cls_step {
    size_t struct_size;
    uint32_t rows; /* 1 to max_rows */

    /* The number of rows of `logits`; 0: rows. Without a logits_map it is at least `rows`. */
    uint32_t logits_rows;
    cls_logits logits; /* [logits_rows, vocab] */

    /* For each row of the step, the row of `logits` that it reads. Several slots can thus sample
     * one row, for example several continuations of a prompt after its prefill. -1 skips the row
     * (CLS_ROW_SKIPPED). A number out of range is CLS_ROW_NO_SLOT in a device map and
     * CLS_BAD_ARGUMENT in a host map. Absent: row r reads row r. The other maps, masks and outputs
     * are indexed by the step's rows. */
    cls_ints logits_map;

    /* The slot of each row; -1 skips the row. Absent: row r is slot r, and all of these slots must
     * have a request. A host map is checked by the call, a device map by the kernels
     * (CLS_ROW_NO_SLOT). A slot may occur once, unless `defer_accept` is set; if a device map
     * breaks this rule, the state of that slot is undefined afterwards. */
    cls_ints slots;

    /* Positions in place of the slots' own, taken as uint32. The slots' own positions advance by
     * one in either case. Absent: the slots' own. */
    cls_ints positions;

    /* The number of each row's draw at its position, 0 to 2^24 - 1. Different numbers give
     * independent draws, for several rows of one slot or another attempt at a position. The kernels
     * use the lower 24 bits of a device map's numbers. Absent: 0. */
    cls_ints draws;

    /* The 64 random bits of each row in place of Philox's: uint64 [rows]. Absent: Philox. */
    cls_buffer random_bits;

    cls_mask mask;       /* without words and host: everything is allowed */
    cls_dense_bias bias; /* without values: none */

    /* 0: the drawn token is accepted: it enters its slot's state before any later command reads
     * that state. 1: the slots remain unchanged, several rows may share a slot, and cls_accept()
     * may follow. Status and outputs are then as if the token had been accepted. */
    int32_t defer_accept;

    /* The token of a row that has none; default -1. With defer_accept an id of the vocabulary is
     * refused, because a later cls_accept() would accept it. */
    int32_t invalid_token;

    cls_buffer tokens; /* int32 [rows]; absent: not wanted */
    cls_buffer status; /* int32 [rows], cls_row_status bits; absent: not wanted */

    /* What else to write: see clsample/outputs.h. NULL (default): nothing. The struct is read by
     * the call, and only what it names is computed. */
    const struct cls_outputs *outputs;
} cls_step;

CLS_INIT_FUNCTION(cls_step)

/* Enqueues one step, which samples a token for each row. `queue` belongs to the context and may be
 * in order or out of order. The call does not wait, does not compile, and allocates only for a
 * mask.host larger than options->host_mask_size. All buffers must remain as they are until the
 * step's event is complete.
 *
 * The step runs after `wait` (n_wait events; NULL with 0), after everything that was enqueued
 * before it if the queue is in order, and after this sampler's earlier steps on any queue. *done
 * (done may be NULL) becomes an event that the caller must release. It is complete when all outputs
 * are written and the state is updated. It is the event of the last of several commands, and its
 * profiling times are those of this command only. The call does not flush `queue`. If the sampler's
 * last step is on another queue, it flushes that queue.
 *
 * CLS_OK.
 * - CLS_BAD_ARGUMENT: nothing was enqueued.
 * - CLS_NOT_COMPILED: the sampler was not created for features that the step needs, or for the type
 *   of its logits. Nothing was enqueued; cls_sampler_missing() has the features.
 * - CLS_IN_USE: another call is using the sampler. Nothing was enqueued.
 * - CLS_BUSY: 16 steps with slot calls or changed host arrays are in flight, and there is no
 *   staging memory for more. Nothing was enqueued: flush the queue, wait for an earlier step, and
 *   call again.
 * - CLS_OUT_OF_MEMORY, or CLS_OPENCL_ERROR with the sampler unchanged: there is no memory for a
 *   mask.host that is larger than options->host_mask_size. Nothing was enqueued.
 * - CLS_OPENCL_ERROR: an OpenCL call failed, and *done is NULL. The sampler is as it was.
 * - CLS_LOST: an OpenCL call failed after slot calls or a kernel had been enqueued, so that slots
 *   may be partly changed, and *done is NULL; or the sampler had been lost before. From then on all
 *   calls on it that enqueue, and its slot calls, return CLS_LOST (clsample/base.h).
 *
 * The sampler is also lost if *done or one of `wait` completes with a negative status; the next
 * call on it reports that. */
CLS_API CLS_WARN_UNUSED cls_status cls_sample(cls_sampler *sampler, cl_command_queue queue,
                                              const cls_step *step, cl_uint n_wait,
                                              const cl_event *wait, cl_event *done);

#define CLS_MAX_ACCEPTED 4096 /* tokens of a row of cls_accept() */

/* Tokens that were chosen elsewhere: forced tokens, tokens drawn by a host, or tokens selected
 * among deferred rows. `rows` and `tokens` must be set. */
typedef struct cls_accept_call {
    size_t struct_size;
    uint32_t rows; /* 1 to max_rows */

    /* The tokens of each row, 1 (default) to CLS_MAX_ACCEPTED, which its slot accepts one after the
     * other. With more than one, the runtime must run the model over them before the next step. */
    uint32_t per_row;

    /* int32 [rows, per_row], on the host or on the device; fill short rows with -1. Several tokens
     * a row on the host are copied as a mask.host is: the call allocates only if they are larger
     * than options->host_mask_size. */
    cls_ints tokens;

    cls_ints slots; /* as in cls_step, each slot at most once */

    /* How many of its tokens each row accepts, 0 to per_row. Absent: per_row. */
    cls_ints counts;

    /* How many of its latest tokens each row's slot takes back before it accepts the row's tokens,
     * as cls_slot_rollback() does: 0 to the sampler's `max_rollback`. Absent: 0. Tokens at the
     * beginning of the row's tokens that equal the ones taken back stay, and keep their adaptive
     * state.
     *
     * This is how a draft model's slots follow a verification, without the host: with that call's
     * `drafted` as `rollback`, its `emitted` as `counts`, its `tokens` as `tokens`, and max_drafts
     * + 1 as per_row. Whatever was accepted and however the request goes on, the slots then have
     * the text that was emitted, each token once. max_rollback must be at least the most drafts of
     * a request.
     *
     * Both need CLS_FEATURE_STATE. The host's numbers are checked by the call. If one on the device
     * is out of range, or the slot cannot take so many tokens back, the request ends as it does
     * after an impossible cls_slot_rollback(): its rows get CLS_ROW_NO_SLOT. */
    cls_ints rollback;
} cls_accept_call;

CLS_INIT_FUNCTION(cls_accept_call)

/* Enqueues the acceptance of tokens. They enter the slots' states as if they had been drawn. No
 * mask applies: a token is accepted even if a step's mask would forbid it.
 *
 * A token has no effect if its id is outside the vocabulary, if its row's slot is -1 or, in a
 * device map, a slot without a request, or if the request has stopped, perhaps by a token before
 * it. Mirostat and adaptive p update their state if the token is the one that the slot's last
 * deferred step drew (the first row's, if several rows shared the slot). There is no row status,
 * and cls_outputs.latest is not written. The slot's next row reports whether a token ended its
 * request. Queue, events and results: as cls_sample(). */
CLS_API CLS_WARN_UNUSED cls_status cls_accept(cls_sampler *sampler, cl_command_queue queue,
                                              const cls_accept_call *call, cl_uint n_wait,
                                              const cl_event *wait, cl_event *done);

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_STEP_H */
