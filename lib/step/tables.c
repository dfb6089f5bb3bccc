/* SPDX-License-Identifier: MIT */
/* The tables of the calls' operands: one row for each buffer, map, count, switch and reserved field
 * of a call's struct. A row begins with its name in messages; S is the name of the struct. */
#include "step/step.h"

#include <stddef.h>

#define IN_PLAN(field) (uint16_t) offsetof(cls_plan, field)
#define SHAPE(R, W, E) .rows = CLS_N_##R, .width = CLS_N_##W, .element = CLS_N_##E
#define TO(BUFFER, ARGUMENT) \
    .buffer = (uint16_t)offsetof(cls_buffers, BUFFER), \
    .argument = (uint16_t)offsetof(cls_args, ARGUMENT)
#define READS .access = CLS_KERNEL_READS
#define WRITES .access = CLS_KERNEL_WRITES
#define STRIDE(NAME, field) .stride = IN_PLAN(field), .word = NAME

#define INTS(NAME, KIND, field, ROWS, WIDTH, WHICH) \
    .name = NAME, .kind = KIND, .at = IN_PLAN(field.device), .host = IN_PLAN(field.host), \
    .map = WHICH, SHAPE(ROWS, WIDTH, 4), READS
#define MAP(NAME, KIND, field, ROWS, WHICH) INTS(NAME, KIND, field, ROWS, 1, WHICH)
#define ZERO(NAME, field, WORDS) \
    { \
        NAME, CLS_WORDS, .words = WORDS, .at = IN_PLAN(field) \
    }
#define ENUM(NAME, field, TYPE, MOST) \
    { \
        NAME, CLS_ENUM, .words = MOST, .word = TYPE, .at = IN_PLAN(field) \
    }
#define SWITCH(NAME, field) \
    { \
        NAME, CLS_SWITCH, .at = IN_PLAN(field) \
    }
#define NUMBER(NAME, field, WIDTH, MOST, LIST) \
    { \
        NAME, CLS_NUMBER, .most = CLS_N_##MOST, .shortlist = CLS_N_##LIST, .at = IN_PLAN(field), \
                          .width = CLS_N_##WIDTH \
    }
#define RESULT(NAME, field, ROWS, WIDTH, WANTS, BUFFER) \
    { \
        NAME, .at = IN_PLAN(field), SHAPE(ROWS, WIDTH, 4), WRITES, .wants = CLS_WANTS(WANTS), \
              TO(BUFFER, output_offset[WANTS]) \
    }

#define LOGITS(S) \
    {S "->logits.values", \
     CLS_REQUIRED, \
     .at = IN_PLAN(step.logits.values), \
     STRIDE(S "->logits.row_stride", step.logits.row_stride), \
     SHAPE(LOGITS_ROWS, LOGITS_WIDTH, LOGIT_BYTES), \
     READS, \
     TO(logits, logits_offset)}, \
        ZERO(S "->logits.reserved", step.logits.reserved, 5)

#define MASK_AND_BIAS(S) \
    {S "->mask.words", \
     .at = IN_PLAN(step.mask.words), \
     .host = IN_PLAN(step.mask.host), \
     .map = CLS_MAPS, \
     STRIDE(S "->mask.row_stride", step.mask.row_stride), \
     SHAPE(MASK_ROWS, MASK_WIDTH, MASK_BYTES), \
     READS, \
     .feature = CLS_FEATURE_MASK, \
     .has = CLS_HAS_MASK, \
     TO(mask, mask_offset)}, \
        {MAP(S "->mask.row_map", CLS_OPTIONAL, step.mask.row_map, ROWS, CLS_MAP_MASKS), \
         .limit = CLS_N_MASK_ROWS, .has = CLS_HAS_MASK_MAP, TO(mask_map, mask_map_offset)}, \
        {S "->bias.values", \
         .at = IN_PLAN(step.bias.values), \
         STRIDE(S "->bias.row_stride", step.bias.row_stride), \
         SHAPE(BIAS_ROWS, VOCAB, BIAS_BYTES), \
         READS, \
         .feature = CLS_FEATURE_BIAS, \
         .has = CLS_HAS_BIAS, \
         TO(bias, bias_offset)}, \
        {MAP(S "->bias.row_map", CLS_OPTIONAL, step.bias.row_map, ROWS, CLS_MAP_BIASES), \
         .limit = CLS_N_BIAS_ROWS, .has = CLS_HAS_BIAS_MAP, TO(bias_map, bias_map_offset)}, \
        ENUM(S "->mask.kind", step.mask.kind, "cls_mask_kind", CLS_MASK_BOOL), \
        ZERO(S "->mask.reserved", step.mask.reserved, 5), \
        ZERO(S "->bias.reserved", step.bias.reserved, 5)

#define TOP_AND_GIVEN(S) \
    NUMBER(S "->top.count", outputs.top.count, TOP, TOP_MOST, SHORTLIST), \
        NUMBER(S "->given.count", outputs.given.count, GIVEN, GIVEN_MOST, 0), \
        ZERO(S "->top.reserved", outputs.top.reserved, 5), \
        ZERO(S "->given.reserved", outputs.given.reserved, 5)

/* Entropy and kept_mass are computed by two kernels together, and either feature has both. */
#define FEATURE_LOGPROBS CLS_FEATURE_LOGPROBS
#define FEATURE_PROBS CLS_FEATURE_PROBS
#define FEATURE_KEPT_SETS CLS_FEATURE_KEPT_SETS
#define FEATURE_SUMS (CLS_FEATURE_LOGPROBS | CLS_FEATURE_PROBS)

/* A row of a table of core/buffers.h. */
#define OUTPUT(S, NUMBER, type, buffer_, field, ACCESS, WIDTH, COUNT, FEATURE) \
    {S "->" #field, \
     .at = IN_PLAN(outputs.field), \
     SHAPE(ROWS, WIDTH, 4), \
     ACCESS, \
     .group = CLS_N_##COUNT, \
     .feature = FEATURE_##FEATURE, \
     .wants = CLS_WANTS(CLS_OUT_##NUMBER), \
     TO(buffer_, output_offset[CLS_OUT_##NUMBER])},

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
    {"step->random_bits", .at = IN_PLAN(step.random_bits), SHAPE(ROWS, 1, 8), READS,
     .has = CLS_HAS_RANDOM, TO(random, random_offset)},
    SWITCH("step->defer_accept", step.defer_accept),
    {"step->tokens", .at = IN_PLAN(step.tokens), SHAPE(ROWS, 1, 4), WRITES, .has = CLS_HAS_TOKENS,
     TO(tokens, tokens_offset)},
    {"step->status", .at = IN_PLAN(step.status), SHAPE(ROWS, 1, 4), WRITES, .has = CLS_HAS_STATUS,
     TO(status_out, status_out_offset)},
    {"outputs->latest", .at = IN_PLAN(outputs.latest), SHAPE(SLOTS, 1, 4), WRITES,
     .has = CLS_HAS_LATEST, TO(latest, latest_offset)},
    TOP_AND_GIVEN("outputs"),
    NUMBER("outputs->kept.count", outputs.kept.count, KEPT, SHORTLIST, SHORTLIST),
    NUMBER("outputs->kept_set.capacity", outputs.kept_set.capacity, SET, VOCAB, 0),
    CLS_OUTPUTS_TABLE(OUTPUT, "outputs") /* its rows end with a comma */
    ENUM("outputs->logprob_kind", outputs.logprob_kind, "cls_logprob_kind", CLS_LOGPROB_FINAL),
    ZERO("outputs->reserved", outputs.reserved, 1),
    ZERO("outputs->kept.reserved", outputs.kept.reserved, 5),
    ZERO("outputs->kept_set.reserved", outputs.kept_set.reserved, 5),
    {"outputs->kept_set.offsets", CLS_LATER, .at = IN_PLAN(outputs.kept_set.offsets)},
};

/* The maps of requests become maps of rows after they were checked. */
static const cls_operand verify[] = {
    LOGITS("call"),
    {MAP("call->slots", CLS_ON_HOST, step.slots, MAP_ROWS, CLS_MAP_SLOTS),
     TO(slot_map, slot_map_offset)},
    {MAP("call->positions", CLS_ON_HOST, step.positions, MAP_ROWS, CLS_MAP_POSITIONS),
     TO(positions, positions_offset)},
    {MAP("call->draws", CLS_ON_HOST, step.draws, MAP_ROWS, CLS_MAP_DRAWS), .limit = CLS_N_DRAWS,
     TO(draws, draws_offset)},
    {MAP("call->draft_ids", CLS_OPTIONAL, verify.draft_ids, DRAFTS, CLS_MAP_TOKENS),
     TO(draft_ids, draft_ids_offset)},
    {"call->draft", .at = IN_PLAN(verify.draft), STRIDE("call->draft_stride", verify.draft_stride),
     SHAPE(DRAFTS, VOCAB, DRAFT_BYTES), READS, TO(draft_x, draft_offset)},
    {MAP("call->parents", CLS_ON_HOST, verify.parents, DRAFTS, CLS_MAPS)},
    {MAP("", CLS_INTERNAL, nodes, ROWS, CLS_MAP_NODES)},
    {MAP("", CLS_INTERNAL, parents, DRAFTS, CLS_MAP_PARENTS)},
    {MAP("", CLS_INTERNAL, firsts, REQUESTS, CLS_MAP_FIRSTS)},
    MASK_AND_BIAS("call"),
    SWITCH("call->disable_bonus", verify.disable_bonus),
    ENUM("call->draft_kind", verify.draft_kind, "cls_draft_kind", CLS_DRAFT_LOGITS),
    ZERO("call->reserved", verify.reserved, 1),
    ZERO("call->ids_request_stride", verify.ids_request_stride, 2),
    ZERO("call->draft_request_stride", verify.draft_request_stride, 2),
    RESULT("call->tokens", verify.tokens, REQUESTS, MOST_TOKENS, CLS_VERIFIED_TOKENS, tokens),
    RESULT("call->accepted", verify.accepted, REQUESTS, 1, CLS_VERIFIED_ACCEPTED, accepted),
    RESULT("call->emitted", verify.emitted, REQUESTS, 1, CLS_VERIFIED_EMITTED, emitted),
    RESULT("call->nodes", verify.nodes, REQUESTS, MOST_DRAFTS, CLS_VERIFIED_NODES, out_nodes),
    RESULT("call->status", verify.status, REQUESTS, 1, CLS_VERIFIED_STATUS, status_out),
    RESULT("call->counters", verify.counters, SLOTS, 3, CLS_VERIFIED_COUNTERS, counters),
    RESULT("call->latest", verify.latest, SLOTS, 1, CLS_VERIFIED_LATEST, latest),
};

static const cls_operand accept_call[] = {
    {INTS("call->tokens", CLS_REQUIRED, accept.tokens, ROWS, PER_ROW, CLS_MAP_TOKENS),
     .has = CLS_HAS_TOKENS, TO(tokens, tokens_offset)},
    {MAP("call->slots", CLS_OPTIONAL, step.slots, ROWS, CLS_MAP_SLOTS), .has = CLS_HAS_SLOT_MAP,
     TO(slot_map, slot_map_offset)},
    {MAP("call->counts", CLS_LATER, accept.counts, ROWS, CLS_MAPS)},
    {MAP("call->rollback", CLS_LATER, accept.rollback, ROWS, CLS_MAPS)},
};

static const cls_operand logprobs[] = {LOGITS("call"), TOP_AND_GIVEN("call"),
                                       CLS_REPORT_TABLE(OUTPUT, "call")};

static const cls_operand gather[] = {LOGITS("gather")};

/* A plan has room for so many that are present. */
typedef char cls_operands_fit[sizeof step / sizeof step[0] <= CLS_MAX_RANGES ? 1 : -1];

#define TABLE(CALL, READS_LOGITS, ROWS) \
    { \
        CALL, READS_LOGITS, ROWS, sizeof ROWS / sizeof ROWS[0] \
    }
const cls_operands cls_step_operands = TABLE("step", 1, step);
const cls_operands cls_verify_operands = TABLE("call", 1, verify);
const cls_operands cls_accept_operands = TABLE("call", 0, accept_call);
const cls_operands cls_logprobs_operands = TABLE("call", 1, logprobs);
const cls_operands cls_gather_operands = TABLE("gather", 1, gather);
