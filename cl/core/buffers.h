/* SPDX-License-Identifier: MIT */
/* The buffers of each kernel of a step, in the order of its arguments, of which cls_args is the
 * first. A list calls B(TYPE, NAME) for each buffer. Kernels get their parameters and their step
 * from it (cl/row/step.cl), and the host the order in which it sets arguments
 * (lib/queue/arguments.c). */
#ifndef CLS_BUFFERS_H
#define CLS_BUFFERS_H

/* Parts of the lists: a request and its state; masks; a row's logits, its inputs and its survey;
 * what random bits depend on; what all that draw a token need; drafts, and their own
 * distributions; the results of a row. */
#define CLS_STATE_BUFFERS(B) B(cls_slot, slots) B(const i32, slot_map) B(u32, state)
#define CLS_REQUEST_BUFFERS(B) CLS_STATE_BUFFERS(B) B(const u32, lists)
#define CLS_MASK_BUFFERS(B) B(const u32, mask) B(const i32, mask_map)
#define CLS_BUFFERS_OF_ROWS(B) \
    CLS_REQUEST_BUFFERS(B) \
    CLS_MASK_BUFFERS(B) \
    B(const logit, logits) \
    B(const f32, bias) \
    B(const i32, bias_map) \
    B(u32, effects) B(i32, tile_key) B(u64, tile_mass) B(u32, tile_flags) B(cls_row, rows)
/* In a verification each row has its own logits. */
#define CLS_MAPPED_BUFFERS(B) CLS_BUFFERS_OF_ROWS(B) B(const i32, logits_map)
#define CLS_POSITION_BUFFERS(B) B(const i32, positions) B(const i32, draws)
#define CLS_RANDOM_BUFFERS(B) CLS_POSITION_BUFFERS(B) B(const u64, random)
#define CLS_SUM_BUFFERS(B) B(u64, tile_sums) B(f32, row_scratch)
#define CLS_DRAW_BUFFERS(B) CLS_RANDOM_BUFFERS(B) CLS_SUM_BUFFERS(B)
#define CLS_DRAFT_BUFFERS(B) B(const i32, maps) B(const i32, draft_ids)
#define CLS_DRAFT_ROW_BUFFERS(B) \
    CLS_DRAFT_BUFFERS(B) B(const logit, draft_x) B(const i32, raw_key) B(const u64, raw_mass)
#define CLS_SPARSE_BUFFERS(B) \
    B(const i32, draft_tokens) B(const u32, draft_probs) B(const i32, draft_map)
#define CLS_RESULT_BUFFERS(B) B(i32, tokens) B(i32, status_out) B(i32, latest)
#define CLS_ACCEPTED_BUFFERS(B) B(const i32, counts) B(const i32, rollback)
/* The outputs of rows. A table calls O(X, NUMBER, TYPE, NAME, FIELD, ACCESS, WIDTH, COUNT, FEATURE)
 * for each: CLS_OUT_NUMBER is its cls_output; FIELD is where it is in a cls_outputs; WIDTH, the
 * elements of a row, and COUNT, which must not be 0 for it, are numbers of a plan, and FEATURE is
 * what it needs (lib/step/operands.c). The first table is of the report. */
#define CLS_REPORT_TABLE(O, X) \
    O(X, LOGPROBS, f32, logprobs, logprobs, WRITES, 1, 1, LOGPROBS) \
    O(X, RANKS, i32, ranks, ranks, WRITES, 1, 1, LOGPROBS) \
    O(X, TOP_IDS, i32, top_ids, top.ids, WRITES, TOP, TOP, LOGPROBS) \
    O(X, TOP_LOGPROBS, f32, top_logprobs, top.logprobs, WRITES, TOP, TOP, LOGPROBS) \
    O(X, GIVEN_IDS, const i32, given_ids, given.ids, READS, GIVEN, GIVEN, LOGPROBS) \
    O(X, GIVEN_LOGPROBS, f32, given_logprobs, given.logprobs, WRITES, GIVEN, GIVEN, LOGPROBS) \
    O(X, GIVEN_RANKS, i32, given_ranks, given.ranks, WRITES, GIVEN, GIVEN, LOGPROBS) \
    O(X, ENTROPY, f32, entropy, entropy, WRITES, 1, 1, SUMS) \
    O(X, KEPT, i32, kept, kept.counts, WRITES, 1, 1, LOGPROBS) \
    O(X, KEPT_MASS, f32, kept_mass, kept_mass, WRITES, 1, 1, SUMS) \
    O(X, CANDIDATE_IDS, i32, candidate_ids, kept.ids, WRITES, KEPT, KEPT, LOGPROBS) \
    O(X, CANDIDATE_LOGITS, f32, candidate_logits, kept.logits, WRITES, KEPT, KEPT, LOGPROBS) \
    O(X, CANDIDATE_PROBS, f32, candidate_probs, kept.probs, WRITES, KEPT, KEPT, LOGPROBS)
#define CLS_TILES_TABLE(O, X) \
    O(X, PROBS, f32, probs, probs, WRITES, VOCAB, 1, PROBS) \
    O(X, FINAL_LOGITS, f32, final_logits, final_logits, WRITES, VOCAB, 1, PROBS)
#define CLS_KEPT_TABLE(O, X) \
    O(X, SET_IDS, i32, set_ids, kept_set.ids, WRITES, SET, SET, KEPT_SETS) \
    O(X, SET_COUNTS, i32, set_counts, kept_set.counts, WRITES, 1, SET, KEPT_SETS)
#define CLS_OUTPUTS_TABLE(O, X) CLS_REPORT_TABLE(O, X) CLS_TILES_TABLE(O, X) CLS_KEPT_TABLE(O, X)

#define CLS_OUTPUT_BUFFER(B, NUMBER, type, name, field, access, width, count, feature) B(type, name)
#define CLS_REPORT_OUTPUTS(B) CLS_REPORT_TABLE(CLS_OUTPUT_BUFFER, B)
#define CLS_TILES_OUTPUTS(B) CLS_TILES_TABLE(CLS_OUTPUT_BUFFER, B)
#define CLS_KEPT_OUTPUTS(B) CLS_KEPT_TABLE(CLS_OUTPUT_BUFFER, B) B(i32, set_offsets)
#define CLS_VERIFY_OUTPUTS(B) \
    B(i32, accepted) B(i32, emitted) B(i32, drafted) B(i32, out_nodes) B(i32, counters)
#define CLS_PARTIAL_OUTPUTS(B) B(u32, partial)
#define CLS_MERGED_BUFFERS(B) \
    B(const struct cls_shard_row, plan) B(i32, merged_key) B(u64, merged_mass)
#define CLS_MERGE_BUFFERS(B) \
    B(u32, merged_flags) B(f32, merged_logits) B(const u32, partials) B(const u32, borders)

/* The lists. */
#define CLS_PREPARE_BUFFERS(B) \
    CLS_STATE_BUFFERS(B) \
    B(u32, lists) B(u32, effects) CLS_DRAFT_BUFFERS(B) B(i32, raw_key) CLS_SPARSE_BUFFERS(B)
#define CLS_SURVEY_BUFFERS(B) CLS_MAPPED_BUFFERS(B)
#define CLS_TOKEN_BUFFERS(B) \
    CLS_MAPPED_BUFFERS(B) \
    CLS_DRAW_BUFFERS(B) \
    B(u64, pass) B(const i32, infill) CLS_DRAFT_ROW_BUFFERS(B) CLS_RESULT_BUFFERS(B)
#define CLS_PASS_BUFFERS(B) CLS_MAPPED_BUFFERS(B) B(u64, pass)
#define CLS_DISTRIBUTION_BUFFERS(B) \
    CLS_MAPPED_BUFFERS(B) B(f32, row_scratch) B(u64, pass) CLS_TILES_OUTPUTS(B)
#define CLS_REPORT_BUFFERS(B) \
    CLS_MAPPED_BUFFERS(B) \
    B(const i32, maps) B(f32, row_scratch) B(u64, pass) CLS_REPORT_OUTPUTS(B)
#define CLS_WATERMARK_BUFFERS(B) CLS_MAPPED_BUFFERS(B) B(f32, row_scratch) B(u64, pass)
#define CLS_FORCE_BUFFERS(B) \
    CLS_REQUEST_BUFFERS(B) CLS_MASK_BUFFERS(B) B(cls_row, rows) CLS_RESULT_BUFFERS(B)
#define CLS_KEPT_BUFFERS(B) \
    CLS_MAPPED_BUFFERS(B) \
    B(const i32, maps) \
    B(f32, row_scratch) B(u64, tile_sums) B(i32, status_out) CLS_KEPT_OUTPUTS(B)
#define CLS_ACCEPT_BUFFERS(B) \
    CLS_REQUEST_BUFFERS(B) \
    B(cls_row, rows) \
    B(const i32, maps) \
    B(i32, tokens) B(i32, status_out) B(i32, token_status) CLS_ACCEPTED_BUFFERS(B)
/* A verification draws by position only. */
#define CLS_RESIDUAL_BUFFERS(B) \
    CLS_BUFFERS_OF_ROWS(B) CLS_POSITION_BUFFERS(B) CLS_SUM_BUFFERS(B) CLS_DRAFT_ROW_BUFFERS(B)
#define CLS_VERIFY_BUFFERS(B) CLS_RESIDUAL_BUFFERS(B) CLS_RESULT_BUFFERS(B) CLS_VERIFY_OUTPUTS(B)
#define CLS_LOOKUP_BUFFERS(B) CLS_REQUEST_BUFFERS(B) B(i32, tokens) B(i32, emitted)
#define CLS_PARTIAL_BUFFERS(B) \
    CLS_MAPPED_BUFFERS(B) \
    CLS_RANDOM_BUFFERS(B) B(u64, tile_sums) CLS_MERGED_BUFFERS(B) CLS_PARTIAL_OUTPUTS(B)
#define CLS_MERGE_ROW_BUFFERS(B) \
    B(i32, tile_key) B(f32, row_scratch) CLS_MERGED_BUFFERS(B) CLS_MERGE_BUFFERS(B)

/* Each buffer once. */
#define CLS_ALL_BUFFERS(B) \
    CLS_TOKEN_BUFFERS(B) \
    CLS_ACCEPTED_BUFFERS(B) \
    CLS_REPORT_OUTPUTS(B) \
    CLS_TILES_OUTPUTS(B) \
    CLS_KEPT_OUTPUTS(B) \
    CLS_VERIFY_OUTPUTS(B) \
    CLS_SPARSE_BUFFERS(B) \
    B(i32, token_status) \
    CLS_PARTIAL_OUTPUTS(B) \
    CLS_MERGED_BUFFERS(B) \
    CLS_MERGE_BUFFERS(B)

#endif
