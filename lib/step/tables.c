/* SPDX-License-Identifier: MIT */
/* The tables of the calls' operands: one row for each buffer, map, count, switch and reserved field
 * of a call's struct. A row begins with its name in messages; S is the name of the struct. */
#include "step/step.h"

#include <stddef.h>

#define IN_PLAN(field) (uint16_t) offsetof(cls_plan, field)
#define TO(BUFFER, ARGUMENT) \
    .buffer = (uint16_t)offsetof(cls_buffers, BUFFER), \
    .argument = (uint16_t)offsetof(cls_args, ARGUMENT)
#define STRIDE(NAME, field) .stride = IN_PLAN(field), .word = NAME
#define BUFFER(NAME, field, R, W, E, ACCESS) \
    .name = NAME, .at = IN_PLAN(field), .rows = CLS_N_##R, .width = CLS_N_##W, \
    .element = CLS_N_##E, .access = CLS_KERNEL_##ACCESS
#define INTS(NAME, KIND, field, ROWS, WIDTH, WHICH) \
    BUFFER(NAME, field.device, ROWS, WIDTH, 4, READS), .kind = KIND, .host = IN_PLAN(field.host), \
                                                       .map = WHICH
#define MAP(NAME, KIND, field, ROWS, WHICH) INTS(NAME, KIND, field, ROWS, 1, WHICH)
#define RESULT(NAME, field, ROWS, WIDTH, WANTS, BUFFER_) \
    BUFFER(NAME, field, ROWS, WIDTH, 4, WRITES), .wants = CLS_WANTS(WANTS), \
                                                 TO(BUFFER_, output_offset[WANTS])
#define FIELD(NAME, KIND, field) .name = NAME, .kind = KIND, .at = IN_PLAN(field)
#define ZERO(NAME, field, WORDS) FIELD(NAME, CLS_WORDS, field), .words = WORDS
#define ENUM(NAME, field, TYPE, MOST) FIELD(NAME, CLS_ENUM, field), .words = MOST, .word = TYPE
#define NUMBER(NAME, field, WIDTH, MOST, LIST) \
    FIELD(NAME, CLS_NUMBER, field), .width = CLS_N_##WIDTH, .most = CLS_N_##MOST, \
                                    .shortlist = CLS_N_##LIST

/* Rows that several calls have. */
#define LOGITS(S) \
    {BUFFER(S "->logits.values", step.logits.values, LOGITS_ROWS, LOGITS_WIDTH, LOGIT_BYTES, \
            READS), \
     .kind = CLS_REQUIRED, STRIDE(S "->logits.row_stride", step.logits.row_stride), \
     TO(logits, logits_offset)}, \
    { \
        ZERO(S "->logits.reserved", step.logits.reserved, 4) \
    }

#define MASK_AND_BIAS(S) \
    {BUFFER(S "->mask.words", step.mask.words, MASK_ROWS, MASK_WIDTH, MASK_BYTES, READS), \
     .host = IN_PLAN(step.mask.host), \
     .map = CLS_MAPS, \
     STRIDE(S "->mask.row_stride", step.mask.row_stride), \
     .feature = CLS_FEATURE_MASK, \
     .has = CLS_HAS_MASK, \
     TO(mask, mask_offset)}, \
        {MAP(S "->mask.row_map", CLS_OPTIONAL, step.mask.row_map, ROWS, CLS_MAP_MASKS), \
         .limit = CLS_N_MASK_ROWS, .has = CLS_HAS_MASK_MAP, TO(mask_map, mask_map_offset)}, \
        {ENUM(S "->mask.kind", step.mask.kind, "cls_mask_kind", CLS_MASK_BOOL)}, \
        {ZERO(S "->mask.reserved", step.mask.reserved, 5)}, \
        {BUFFER(S "->bias.values", step.bias.values, BIAS_ROWS, VOCAB, BIAS_BYTES, READS), \
         STRIDE(S "->bias.row_stride", step.bias.row_stride), .feature = CLS_FEATURE_BIAS, \
         .has = CLS_HAS_BIAS, TO(bias, bias_offset)}, \
        {MAP(S "->bias.row_map", CLS_OPTIONAL, step.bias.row_map, ROWS, CLS_MAP_BIASES), \
         .limit = CLS_N_BIAS_ROWS, .has = CLS_HAS_BIAS_MAP, TO(bias_map, bias_map_offset)}, \
    { \
        ZERO(S "->bias.reserved", step.bias.reserved, 5) \
    }

#define TOP_AND_GIVEN(S) \
    {NUMBER(S "->top.count", outputs.top.count, TOP, TOP_MOST, SHORTLIST)}, \
        {NUMBER(S "->given.count", outputs.given.count, GIVEN, GIVEN_MOST, 0)}, \
        {ZERO(S "->top.reserved", outputs.top.reserved, 5)}, \
    { \
        ZERO(S "->given.reserved", outputs.given.reserved, 5) \
    }

/* Entropy and kept_mass are computed by two kernels together, and either feature has both. */
#define FEATURE_LOGPROBS CLS_FEATURE_LOGPROBS
#define FEATURE_PROBS CLS_FEATURE_PROBS
#define FEATURE_KEPT_SETS CLS_FEATURE_KEPT_SETS
#define FEATURE_SUMS (CLS_FEATURE_LOGPROBS | CLS_FEATURE_PROBS)

/* A row of a table of core/buffers.h. */
#define OUTPUT(S, WHICH, type, buffer_, field, ACCESS, WIDTH, COUNT, FEATURE) \
    {BUFFER(S "->" #field, outputs.field, PLACES, WIDTH, 4, ACCESS), .group = CLS_N_##COUNT, \
     .feature = FEATURE_##FEATURE, .wants = CLS_WANTS(CLS_OUT_##WHICH), \
     TO(buffer_, output_offset[CLS_OUT_##WHICH])},

#define COUNTS_OF_OUTPUTS \
    TOP_AND_GIVEN("outputs"), \
        {NUMBER("outputs->kept.count", outputs.kept.count, KEPT, SHORTLIST, SHORTLIST)}, \
        {NUMBER("outputs->kept_set.capacity", outputs.kept_set.capacity, SET, VOCAB, 0)}, \
        {ENUM("outputs->logprob_kind", outputs.logprob_kind, "cls_logprob_kind", \
              CLS_LOGPROB_FINAL)}, \
        {ZERO("outputs->reserved", outputs.reserved, 1)}, \
        {ZERO("outputs->kept.reserved", outputs.kept.reserved, 5)}, \
    { \
        ZERO("outputs->kept_set.reserved", outputs.kept_set.reserved, 5) \
    }

/* The buffers of kept sets that lie one behind the other. */
#define PACKED_SET(field, ROWS, WIDTH, WHICH, BUFFER_) \
    { \
        RESULT("outputs->kept_set." #field, packed.field, ROWS, WIDTH, CLS_OUT_##WHICH, BUFFER_), \
            .group = CLS_N_PACKED, .feature = CLS_FEATURE_KEPT_SETS \
    }
#define PACKED_SETS \
    {NUMBER("outputs->kept_set.capacity", packed.capacity, PACKED, PACKED_MOST, 0)}, \
        PACKED_SET(ids, 1, PACKED, SET_IDS, set_ids), \
        PACKED_SET(counts, PLACES, 1, SET_COUNTS, set_counts), \
        PACKED_SET(offsets, OFFSETS, 1, SET_OFFSETS, set_offsets), \
    { \
        ZERO("outputs->kept_set.reserved", packed.reserved, 5) \
    }

static const cls_operand step[] = {
    LOGITS("step"),
    {MAP("step->slots", CLS_OPTIONAL, step.slots, ROWS, CLS_MAP_SLOTS), .has = CLS_HAS_SLOT_MAP,
     TO(slot_map, slot_map_offset)},
    {MAP("step->positions", CLS_OPTIONAL, step.positions, ROWS, CLS_MAP_POSITIONS),
     .has = CLS_HAS_POSITIONS, TO(positions, positions_offset)},
    {MAP("step->draws", CLS_OPTIONAL, step.draws, ROWS, CLS_MAP_DRAWS), .limit = CLS_N_DRAWS,
     .has = CLS_HAS_DRAWS, TO(draws, draws_offset)},
    {MAP("step->logits_map", CLS_OPTIONAL, step.logits_map, ROWS, CLS_MAP_LOGITS),
     .limit = CLS_N_LOGITS_ROWS, .has = CLS_HAS_LOGITS_MAP, TO(logits_map, logits_map_offset)},
    MASK_AND_BIAS("step"),
    {BUFFER("step->random_bits", step.random_bits, ROWS, 1, 8, READS), .has = CLS_HAS_RANDOM,
     TO(random, random_offset)},
    {FIELD("step->defer_accept", CLS_SWITCH, step.defer_accept)},
    {BUFFER("step->tokens", step.tokens, ROWS, 1, 4, WRITES), .has = CLS_HAS_TOKENS,
     TO(tokens, tokens_offset)},
    {BUFFER("step->status", step.status, ROWS, 1, 4, WRITES), .has = CLS_HAS_STATUS,
     TO(status_out, status_out_offset)},
    {BUFFER("outputs->latest", outputs.latest, SLOTS, 1, 4, WRITES), .has = CLS_HAS_LATEST,
     TO(latest, latest_offset)},
    COUNTS_OF_OUTPUTS,
    CLS_OUTPUTS_TABLE(OUTPUT, "outputs") /* its rows end with a comma */
    PACKED_SETS};

/* The maps of requests are checked, and the call makes those of the rows from them. */
static const cls_operand verify[] = {
    LOGITS("call"),
    {MAP("call->slots", CLS_HOST_MAP, verify.slots, REQUESTS, CLS_MAPS)},
    {MAP("call->positions", CLS_HOST_MAP, verify.positions, REQUESTS, CLS_MAPS)},
    {MAP("call->draws", CLS_HOST_MAP, verify.draws, REQUESTS, CLS_MAPS), .limit = CLS_N_DRAWS},
    {MAP("", CLS_INTERNAL, step.slots, ROWS, CLS_MAP_SLOTS), .has = CLS_HAS_SLOT_MAP,
     TO(slot_map, slot_map_offset)},
    {MAP("", CLS_INTERNAL, step.positions, ROWS, CLS_MAP_POSITIONS),
     TO(positions, positions_offset)},
    {MAP("", CLS_INTERNAL, step.draws, ROWS, CLS_MAP_DRAWS), .has = CLS_HAS_DRAWS,
     TO(draws, draws_offset)},
    {MAP("call->draft_ids", CLS_OPTIONAL, verify.draft_ids, DRAFT_IDS, CLS_MAP_TOKENS),
     TO(draft_ids, draft_ids_offset)},
    {BUFFER("call->draft", verify.draft, DRAFT_EXTENT, 1, DRAFT_BYTES, READS),
     TO(draft_x, draft_offset)},
    {BUFFER("call->draft_tokens", verify.draft_tokens, DRAFT_EXTENT, 1, 4, READS),
     TO(draft_tokens, draft_tokens_offset)},
    {BUFFER("", verify.draft, DRAFT_EXTENT, 1, DRAFT_BYTES, READS), .kind = CLS_INTERNAL,
     TO(draft_probs, draft_probs_offset)},
    {BUFFER("call->draft_map", verify.draft_map, DRAFT_VOCAB, 1, 4, READS),
     TO(draft_map, draft_map_offset)},
    {MAP("call->parents", CLS_HOST_MAP, verify.parents, DRAFTS, CLS_MAPS)},
    {MAP("", CLS_INTERNAL, nodes, ROWS, CLS_MAP_NODES)},
    {MAP("", CLS_INTERNAL, parents, DRAFTS, CLS_MAP_PARENTS)},
    {MAP("", CLS_INTERNAL, firsts, REQUESTS, CLS_MAP_FIRSTS)},
    {MAP("", CLS_INTERNAL, draft_rows, DRAFTS, CLS_MAP_LOGITS), TO(logits_map, logits_map_offset)},
    MASK_AND_BIAS("call"),
    {FIELD("call->disable_bonus", CLS_SWITCH, verify.disable_bonus)},
    {ENUM("call->draft_kind", verify.draft_kind, "cls_draft_kind", CLS_DRAFT_SPARSE)},
    {ZERO("call->reserved", verify.reserved, 1)},
    {RESULT("call->tokens", verify.tokens, REQUESTS, MOST_TOKENS, CLS_VERIFIED_TOKENS, tokens)},
    {RESULT("call->accepted", verify.accepted, REQUESTS, 1, CLS_VERIFIED_ACCEPTED, accepted)},
    {RESULT("call->emitted", verify.emitted, REQUESTS, 1, CLS_VERIFIED_EMITTED, emitted)},
    {RESULT("call->drafted", verify.drafted, REQUESTS, 1, CLS_VERIFIED_DRAFTED, drafted)},
    {RESULT("call->nodes", verify.nodes, REQUESTS, MOST_DRAFTS, CLS_VERIFIED_NODES, out_nodes)},
    {RESULT("call->status", verify.status, REQUESTS, 1, CLS_VERIFIED_STATUS, status_out)},
    {RESULT("call->counters", verify.counters, SLOTS, 3, CLS_VERIFIED_COUNTERS, counters)},
    {RESULT("call->latest", verify.latest, SLOTS, 1, CLS_VERIFIED_LATEST, latest)},
    {RESULT("call->token_status", verify.token_status, REQUESTS, MOST_TOKENS,
            CLS_VERIFIED_TOKEN_STATUS, token_status),
     .feature =
         CLS_FEATURE_LOGPROBS | CLS_FEATURE_PROBS | CLS_FEATURE_KEPT_SETS | CLS_FEATURE_ACCEPT},
    COUNTS_OF_OUTPUTS,
    CLS_REPORT_TABLE(OUTPUT, "outputs") CLS_KEPT_TABLE(OUTPUT, "outputs") /* as above */
    {FIELD("outputs->probs", CLS_NEVER, outputs.probs), .word = ""},
    {FIELD("outputs->final_logits", CLS_NEVER, outputs.final_logits), .word = ""},
    {FIELD("outputs->latest", CLS_NEVER, outputs.latest), .word = ": use call->latest"},
    PACKED_SETS};

static const cls_operand accept_call[] = {
    {INTS("call->tokens", CLS_REQUIRED, accept.tokens, ROWS, PER_ROW, CLS_MAP_TOKENS),
     .has = CLS_HAS_TOKENS, TO(tokens, tokens_offset)},
    {MAP("call->slots", CLS_OPTIONAL, step.slots, ROWS, CLS_MAP_SLOTS), .has = CLS_HAS_SLOT_MAP,
     TO(slot_map, slot_map_offset)},
    {MAP("call->counts", CLS_OPTIONAL, accept.counts, ROWS, CLS_MAP_COUNTS),
     .limit = CLS_N_ACCEPTED, .feature = CLS_FEATURE_STATE, .has = CLS_HAS_COUNTS,
     TO(counts, counts_offset)},
    {MAP("call->rollback", CLS_OPTIONAL, accept.rollback, ROWS, CLS_MAP_ROLLBACK),
     .limit = CLS_N_ROLLBACKS, .feature = CLS_FEATURE_STATE, .has = CLS_HAS_ROLLBACK,
     TO(rollback, rollback_offset)},
};

static const cls_operand logprobs[] = {LOGITS("call"), TOP_AND_GIVEN("call"),
                                       CLS_REPORT_TABLE(OUTPUT, "call")};

static const cls_operand draft_call[] = {
    {MAP("call->slots", CLS_OPTIONAL, step.slots, ROWS, CLS_MAP_SLOTS), .has = CLS_HAS_SLOT_MAP,
     TO(slot_map, slot_map_offset)},
    {ZERO("call->reserved", draft.reserved, 1)},
    {BUFFER("call->draft_ids", draft.draft_ids, 1, DRAFT_IDS, 4, WRITES), .kind = CLS_REQUIRED,
     TO(tokens, tokens_offset)},
    {RESULT("call->counts", draft.counts, ROWS, 1, CLS_VERIFIED_EMITTED, emitted)},
};

static const cls_operand gather[] = {LOGITS("gather")};

/* A plan has room for so many that are present. */
typedef char cls_operands_fit[sizeof step / sizeof step[0] <= CLS_MAX_RANGES &&
                                      sizeof verify / sizeof verify[0] <= CLS_MAX_RANGES
                                  ? 1
                                  : -1];

#define TABLE(CALL, READS_LOGITS, ROWS) \
    { \
        CALL, READS_LOGITS, ROWS, sizeof ROWS / sizeof ROWS[0] \
    }
const cls_operands cls_step_operands = TABLE("step", 1, step);
const cls_operands cls_verify_operands = TABLE("call", 1, verify);
const cls_operands cls_accept_operands = TABLE("call", 0, accept_call);
const cls_operands cls_logprobs_operands = TABLE("call", 1, logprobs);
const cls_operands cls_draft_operands = TABLE("call", 0, draft_call);
const cls_operands cls_gather_operands = TABLE("gather", 1, gather);
