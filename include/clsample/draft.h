/* SPDX-License-Identifier: MIT */
/* clsample: drafts from a request's own text and its grammar, for speculative decoding without a
 * draft model. */
#ifndef CLSAMPLE_DRAFT_H
#define CLSAMPLE_DRAFT_H

#include "verify.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Looks the end of each request's text up in the text itself, on the device, and drafts what
 * followed there. The text is what the slot has in order: the prompt, earlier turns and the output,
 * without what was rolled back. The sampler's `max_history` latest tokens of it are searched (up to
 * 1,048,576). The look-up takes the earlier place that ends with the text's last n tokens for the
 * largest n, from max_n down to min_n, and of several such places the nearest to the end. (vLLM's
 * n-gram proposer also begins with max_n, but takes the farthest place; llama.cpp's takes the
 * nearest one, of one n.)
 *
 * The drafts are the tokens that followed there. Where these reach the end of the text, the drafts
 * go on with the first of them: they repeat what lies between the place and the end, as copies of
 * LZ77 do. (vLLM and llama.cpp end their drafts there. In a text that repeats itself, where the
 * nearest place is one period from the end, those are few.) A request thus gets either k drafts or
 * none.
 *
 * A request with a grammar, unless it thinks, gets first what the states of the grammar draft
 * (cls_grammar_options.draft_ids), one after the other. In a state that drafts nothing it gets what
 * the text has, as long as all drafts before are the text's, too. The drafts end before what the
 * grammar, allowed_ids, a bad word of one token or min_tokens forbids, and with what ends the
 * request. They are drafts as all others are: with CLS_VERIFY_MATCH the text stays the same. */
typedef struct cls_draft_call {
    size_t struct_size;
    uint32_t requests; /* 1 to max_rows */
    uint32_t k;        /* the drafts of each request, 1 to CLS_MAX_DRAFTS; there is no default */

    /* The least and the largest number of last tokens that are looked up: 1 <= min_n <= max_n <=
     * CLS_MAX_DRAFTS; default 2 and 8. */
    uint32_t min_n, max_n;

    /* What stands in place of drafts that a request lacks: -1 (default), which ends the request's
     * drafts in cls_verify(), or a token, for runtimes that embed the ids. cls_verify()
     * treats that token as any other draft: with CLS_VERIFY_MATCH the text stays the same. */
    int32_t fill;
    uint32_t reserved; /* 0 */

    /* The slot of each request; -1 skips it; absent: request i is slot i. Several requests may
     * share a slot, since nothing is changed. */
    cls_ints slots;

    /* int32 [requests, k]: the `draft_ids` of a verification in which each request has k + 1 rows.
     * Requests that have stopped or are skipped, and those for which a device map names a slot
     * without a request, get `fill`. */
    cls_buffer draft_ids;

    /* Where the drafts of a request lie in draft_ids, in elements: ids_stride from draft to draft,
     * 0: 1; ids_request_stride from request to request, 0: k * ids_stride. No two drafts may lie at
     * the same place: [requests, k] and [k, requests] are possible, with any gaps, which are not
     * written. */
    uint64_t ids_stride, ids_request_stride;

    /* int32 [requests]: the number of drafts: k or 0, with a grammar 0 to k. Absent: not wanted. */
    cls_buffer counts;
} cls_draft_call;

CLS_INIT_FUNCTION(cls_draft_call)

/* Enqueues the look-up, in one launch, which reads the slots as earlier calls on the sampler leave
 * them and changes nothing. It compares each place once, with at most max_n tokens. The sampler
 * needs CLS_FEATURE_VERIFY and a `max_history` above 0. A sampler on the host finds the same
 * drafts.
 * Queue, events and results: as cls_sample(). */
CLS_API CLS_WARN_UNUSED cls_status cls_draft(cls_sampler *sampler, cl_command_queue queue,
                                             const cls_draft_call *call, cl_uint n_wait,
                                             const cl_event *wait, cl_event *done);

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_DRAFT_H */
