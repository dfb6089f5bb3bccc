/* SPDX-License-Identifier: MIT */
/* clsample: speculative decoding: verifying drafts. */
#ifndef CLSAMPLE_VERIFY_H
#define CLSAMPLE_VERIFY_H

#include "step.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How drafts are verified. p is the distribution that the request's parameters make of the target's
 * logits, and q is the drafts' own distribution. With all methods a greedy request accepts a draft
 * if and only if it is the row's largest logit. With all methods a request takes one token a call
 * if its sampler needs each token before the next one (Mirostat, adaptive p, top-p decay). */
typedef enum cls_verify_method {
    /* A draft is accepted if and only if it is the token that cls_sample() would draw there;
     * otherwise that token is emitted. A seeded text is then bit for bit the text without drafts.
     * For drafts without a distribution, and for trees. */
    CLS_VERIFY_MATCH = 0,
    /* A draft d is accepted if and only if u q(d) < p(d), with u random. The first one that is not
     * accepted is replaced by a draw from max(p - q, 0). Lossless (Leviathan et al. 2023, Chen et
     * al. 2023). */
    CLS_VERIFY_STANDARD = 1,
    /* All drafts are judged together. The distribution of texts is the same as with
     * CLS_VERIFY_STANDARD, and accepted prefixes are longer on average (block verification, Sun et
     * al. 2024). */
    CLS_VERIFY_BLOCK = 2,
    /* A draft is accepted if and only if p(d) > min(epsilon, delta e^-H), where H is the row's
     * entropy; otherwise the row's own draw is emitted. Not lossless (Medusa, Cai et al. 2024). */
    CLS_VERIFY_TYPICAL = 3
    /* 4 is reserved. Where all requests shall be greedy, give them the temperature 0. */
} cls_verify_method;

/* What is known of the distribution that drafts were drawn from. */
typedef enum cls_draft_kind {
    /* No distribution (look-up, n-grams): the standard and block methods take q(d) as 1. */
    CLS_DRAFT_NONE = 0,
    /* float32 probabilities, such as the `probs` of the step that drew the drafts. Values that are
     * negative or NaN count as 0, values above 1 as 1. */
    CLS_DRAFT_PROBS = 1,
    /* Logits of the target's dtype; q is their softmax at temperature 1. */
    CLS_DRAFT_LOGITS = 2,
    /* The ids of a few tokens and their float32 probabilities, read as those of CLS_DRAFT_PROBS; q
     * is 0 for all other tokens. Such are `kept.ids` and `kept.probs` of the step that drew the
     * drafts, if they have the whole final set, as with top_k <= kept.count. */
    CLS_DRAFT_SPARSE = 3
} cls_draft_kind;

#define CLS_MAX_DRAFTS 128 /* of a request */
#define CLS_MAX_DRAFT_WIDTH 256

/* Drafts of several requests, and the target model's logits for them. Request i has the target rows
 * row_offsets[i] to row_offsets[i + 1] - 1. The first of these has the logits after the request's
 * text so far, and each other one those after one of its drafts, in order. A request thus has one
 * row more than it has drafts, and its first draft is at index row_offsets[i] - i of draft_ids. All
 * parameters of a request apply at each of its rows, as if the drafts before the row had been
 * accepted: penalties and their windows, DRY, n-grams, bad words, min_tokens, and the chain.
 *
 * Below, `requests` is the number of requests, `rows` is row_offsets[requests], and `drafts` is
 * rows - requests. */
typedef struct cls_verify_call {
    size_t struct_size;
    uint32_t requests; /* 1 to max_rows */
    int32_t method;    /* a cls_verify_method */

    /* On the host: int32 [requests + 1]. The first entry is 0. Each other entry is larger by 1 to
     * 129 than the one before it. The last entry is the number of target rows, 1 to max_rows. */
    const int32_t *row_offsets;
    cls_logits logits; /* [rows, vocab] */

    /* One entry for each request; otherwise as in cls_step. slots: each slot at most once; -1 skips
     * the request; absent: request i is slot i. positions: that of the request's first row; the
     * position of another row is larger by the number of drafts before it; absent: the slots' own.
     * draws: absent: 0. These maps must be on the host, because the call computes the maps of the
     * rows from them: a device map is CLS_BAD_ARGUMENT. */
    cls_ints slots, positions, draws;

    /* [drafts], on the host or on the device. An id outside the vocabulary (-1) ends its request's
     * drafts: the row before it draws its own token. */
    cls_ints draft_ids;

    /* Where the drafts lie in draft_ids, in elements. If ids_request_stride is not 0, draft j of
     * request i is at i ids_request_stride + j ids_stride. A loop that drafts one token for each
     * request at a time makes [most drafts, requests]: ids_stride is `requests`, and
     * ids_request_stride is 1. If it is 0, the drafts follow each other in the order of their
     * requests, ids_stride apart. ids_stride 0: 1. */
    uint64_t ids_stride, ids_request_stride;

    /* Trees: [drafts], on the host only. Each entry is the index, among the request's drafts, of
     * the earlier draft that this one follows, or -1 if it follows the text. Absent: each draft
     * follows the one before it. Only with CLS_VERIFY_MATCH: the other methods would need the
     * distribution by which sibling drafts were drawn without replacement. */
    cls_ints parents;

    /* A cls_draft_kind, for CLS_VERIFY_STANDARD and CLS_VERIFY_BLOCK. A draft whose probability in
     * its own distribution is 0 or NaN cannot have been drawn from it; it ends its request's
     * drafts. */
    int32_t draft_kind;

    /* 1: where all drafts are accepted, no token of the target follows. A request without drafts
     * gets its token nevertheless. 0 (default): a token of the target follows. */
    int32_t disable_bonus;
    /* [drafts, vocab]: the drafts' own distributions. With CLS_DRAFT_SPARSE [drafts, draft_width].
     * A result is lossless only if each draft was drawn from exactly its q: probabilities that are
     * cut or rounded after the draw are another distribution. */
    cls_buffer draft;
    /* Where they lie in `draft`, in elements. The strides work as those of the ids. A loop makes
     * [most drafts, requests, vocab]: draft_stride is requests * vocab, and draft_request_stride is
     * vocab. Each is 0 or at least vocab; draft_stride 0: vocab. With CLS_DRAFT_SPARSE all this
     * holds with draft_width in place of vocab, and for draft_tokens, too. With CLS_DRAFT_LOGITS
     * the last distribution must begin less than 2^31 times the strides' greatest common divisor
     * after the first one. */
    uint64_t draft_stride, draft_request_stride;

    cls_mask mask;       /* as in cls_step, indexed by target rows */
    cls_dense_bias bias; /* likewise */

    /* Of CLS_VERIFY_TYPICAL: epsilon above 0 and at most 1, default 0.09; delta above 0 and at most
     * 16, default 0.3. */
    float epsilon, delta;

    /* The outputs' width: at least the number of drafts of each request, and at most
     * CLS_MAX_DRAFTS. 0: the largest of these numbers. */
    uint32_t max_drafts;

    uint32_t draft_width; /* of CLS_DRAFT_SPARSE: 1 to CLS_MAX_DRAFT_WIDTH; else 0 */

    /* The outputs. Each buffer may be absent. The accepted drafts are emitted, and after them a
     * token of the target, unless a stop id, max_tokens or a loop ended the request, the row was
     * empty, or disable_bonus prevents it. Only emitted tokens enter the slots.
     *
     * Where a request must emit a forced id (params->thinking_forced.ids, cls_slot_force()), that
     * id is emitted in place of the method's token. From there on a draft is accepted if it is the
     * forced id of its row or, where none is due, the row's own draw, as with CLS_VERIFY_MATCH. So
     * forced ids that are passed as drafts are emitted in one call. With disable_bonus, a forced id
     * after the last draft stays due. */
    cls_buffer tokens;   /* int32 [requests, max_drafts + 1]: the emitted tokens, then -1 */
    cls_buffer accepted; /* int32 [requests]: the number of drafts that were emitted */
    cls_buffer emitted;  /* int32 [requests]: the number of tokens in all */

    /* int32 [requests, max_drafts]: the indices of the emitted drafts, then -1. In a tree they are
     * the path, whose keys and values the runtime keeps. */
    cls_buffer nodes;

    /* int32 [requests]: the cls_row_status bits of the rows of the emitted tokens and of a row
     * without a token that ended the verification. */
    cls_buffer status;

    /* int32 [slot_count, 3]: drafts received (including those behind an id of -1), drafts accepted,
     * and tokens emitted. They are added to what the buffer holds, which the caller clears at
     * first, so that rates need no transfer to the host. Requests that are skipped or had stopped
     * add nothing. */
    cls_buffer counters;

    /* int32 [slot_count]: the last token that was emitted, at the index of its request's slot; the
     * entries of requests without a token are unchanged. When requests begin, fork or roll back,
     * what cls_outputs.latest says applies. */
    cls_buffer latest;

    /* What else to write about the emitted tokens, or NULL. In place of the rows of a step, the
     * outputs have [requests, max_drafts + 1] places, as `tokens` has. Behind a request's last
     * token they have the marks of a row without a token. `given.ids` has the same places, and
     * kept_set.offsets one number more than there are places. Token k of a request was emitted at
     * the row after tokens 0 to k - 1, in a tree along the path that was emitted. The outputs
     * describe that row's own distribution, raw or final, even if a draft was refused and a token
     * of the residual took its place. They are what cls_sample() reports at this row, bit for bit,
     * if it draws the token there or cls_slot_force() makes it emit the token. `probs`,
     * `final_logits` and `latest` must be absent. */
    const struct cls_outputs *outputs;

    /* int32 [requests]: how many of the request's draft ids are in the vocabulary. The sampler that
     * drew the drafts has accepted this many tokens: pass it as the `rollback` of that sampler's
     * cls_accept_call. */
    cls_buffer drafted;

    /* int32 [requests, max_drafts + 1]: the cls_row_status bits of each emitted token, as
     * cls_sample() would give them at its row. If a row without a token ended the verification
     * (such as CLS_ROW_EMPTY), or the request took no part in it, the first place behind the last
     * token has the bits of that row. All other places behind the last token have CLS_ROW_SKIPPED.
     * Requires CLS_FEATURE_LOGPROBS, CLS_FEATURE_PROBS, CLS_FEATURE_KEPT_SETS or
     * CLS_FEATURE_ACCEPT. */
    cls_buffer token_status;

    /* Of CLS_DRAFT_SPARSE: int32 [drafts, draft_width], the ids of the probabilities in `draft`, in
     * any order. Ids outside the vocabulary (-1) are ignored, and so is an id that an earlier place
     * has. */
    cls_buffer draft_tokens;

    /* Of CLS_DRAFT_SPARSE: for a draft model with a vocabulary of its own, of draft_vocab tokens:
     * int32 [draft_vocab], by how much the target's id of a token exceeds the draft model's.
     * EAGLE-3's d2t is such a map: the target's id is j + d2t[j]. (From a map of the ids themselves
     * subtract 0, 1, 2, ....) It applies to draft_tokens alone, where an id outside the draft
     * model's vocabulary is ignored. draft_ids are ids of the target, whose rows were computed from
     * them. */
    cls_buffer draft_map;
    uint32_t draft_vocab; /* 0: there is no map */
    uint32_t reserved;    /* 0 */
} cls_verify_call;

CLS_INIT_FUNCTION(cls_verify_call)

/* Enqueues a verification. It takes 4 to 6 kernel launches, whatever the number of drafts, and 2
 * more where parameters need the threshold search. `outputs`, `token_status` or both take 1 launch
 * more. Outputs of the raw rows add 2, those of the final distributions 1, entropy or kept_mass 1,
 * and kept_set 2, or 3 if it has offsets. The random numbers are those of Philox at the row's
 * position; the draws that decide acceptance, and those that replace a refused draft, have their
 * own purposes in Philox's counter. Queue, events and results: as cls_sample().
 * CLS_OK; CLS_BAD_ARGUMENT: nothing was enqueued (among others, for a tree with a method that does
 * not support trees); CLS_BUSY; CLS_OUT_OF_MEMORY: for mask.host; CLS_OPENCL_ERROR;
 * CLS_NOT_COMPILED; CLS_IN_USE; CLS_LOST. */
CLS_API CLS_WARN_UNUSED cls_status cls_verify(cls_sampler *sampler, cl_command_queue queue,
                                              const cls_verify_call *call, cl_uint n_wait,
                                              const cl_event *wait, cl_event *done);

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_VERIFY_H */
