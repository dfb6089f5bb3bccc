/* SPDX-License-Identifier: MIT */
/* Computes the answers of the host functions. The type of logits differs from case to case, which
 * must not change an answer. */
#include "selftest/selftest.h"

#include <math.h>
#include <stdlib.h>

/* Returns the FNV-1a hash of words. */
static uint32_t answer_digest(const uint32_t *words, size_t n)
{
    uint32_t h = 0x811c9dc5u;
    for (size_t i = 0; i < n; i++)
        for (int shift = 0; shift < 32; shift += 8)
            h = (h ^ (words[i] >> shift & 255u)) * 0x01000193u;
    return h;
}

static cls_selftest_known known_of(const cls_row *trace, const cls_host_result *r)
{
    const uint32_t words[] = {(uint32_t)r->token,
                              (uint32_t)r->status,
                              r->kept_count,
                              cls_as_u32(r->logprob_raw),
                              cls_as_u32(r->logprob_final),
                              (uint32_t)trace->mass,
                              (uint32_t)(trace->mass >> 32),
                              (uint32_t)trace->drawn,
                              (uint32_t)(trace->drawn >> 32),
                              (uint32_t)trace->top_key,
                              cls_as_u32(trace->scale),
                              (uint32_t)r->adaptive.mu,
                              r->adaptive.sum,
                              r->adaptive.weight,
                              r->adaptive.top_p};
    return (cls_selftest_known){r->token, answer_digest(words, sizeof words / sizeof *words)};
}

/* ----------------------------------------------------------------------- cases */

typedef struct tables {
    const cls_selftest_selection *selection;
    uint32_t mask[(SELFTEST_MOST_VOCAB + 31) / 32];
    uint8_t bools[SELFTEST_MOST_VOCAB];
    float dense[SELFTEST_MOST_VOCAB];
    uint16_t dense_f16[SELFTEST_MOST_VOCAB];
    int32_t prefix_of[SELFTEST_VOCAB], ends[SELFTEST_ENDS];
    float logits[SELFTEST_DRAFTS + 1][SELFTEST_MOST_VOCAB]; /* of any type */
    float drafts[SELFTEST_DRAFTS][SELFTEST_MOST_VOCAB];
} tables;

/* Samples the tokens of a case, each of which is appended to the output. The first step has packed
 * masks and float32 biases, the second one masks of bytes and float16 biases. */
static cls_status run_case(cls_selftest_answers *a, uint32_t position, tables *t)
{
    const uint32_t i = t->selection->cases[position], vocab = t->selection->vocab;
    const cls_selftest_case *const c = &cls_selftest_cases[i];
    const cls_infill infill = {sizeof infill, {t->ends, SELFTEST_ENDS}, t->prefix_of};
    int32_t output[64];
    cls_params params;
    cls_host_row row;
    cls_selftest_params(i, vocab, &params);
    cls_status status = cls_selftest_grammar(i, vocab, &params);
    cls_host_row_init(&row);
    cls_selftest_text(i, vocab, &row);
    row.dtype = (int32_t)(i % CLS_DTYPES);
    cls_selftest_row(cls_selftest_seed(i), c->row, row.dtype, vocab, t->logits);
    row.logits = t->logits;
    row.vocab = vocab;
    row.params = &params;
    row.draw = (uint32_t)c->draw;
    row.max_history = SELFTEST_HISTORY;
    row.infill = params.infill != 0 ? &infill : NULL;
    row.position = params.position + row.output_count;
    for (uint32_t j = 0; j < row.output_count; j++)
        output[j] = row.output[j];
    row.output = output;
    for (uint32_t step = 0; step < SELFTEST_STEPS && status == CLS_OK; step++) {
        const uint32_t answer = position * SELFTEST_STEPS + step;
        cls_host_result *const result = &a->result[answer];
        cls_row *const trace = &a->trace[answer];
        row.mask_kind = step == 0 ? CLS_MASK_PACKED : CLS_MASK_BOOL;
        row.mask = !(c->with & WITH_MASK) ? NULL : step == 0 ? (const void *)t->mask : t->bools;
        row.bias_dtype = step == 0 ? CLS_F32 : CLS_F16;
        row.bias = !(c->with & WITH_DENSE) ? NULL
                   : step == 0             ? (const void *)t->dense
                                           : t->dense_f16;
        result->struct_size = sizeof *result;
        status = cls_reference(&row, trace, result);
        a->known[answer] = known_of(trace, result);
        row.adaptive = result->adaptive;
        if (result->token >= 0) {
            output[row.output_count++] = result->token;
            row.position++;
            row.forced_count = 0; /* there is at most one */
        }
    }
    cls_grammar_release(params.grammar);
    return status;
}

/* ---------------------------------------------------------------------- drafts */

uint32_t cls_selftest_draft_seed(uint32_t request, uint32_t row)
{
    return 100000 + request * (SELFTEST_DRAFTS + 1) + row;
}

const int32_t *cls_selftest_parents(int method, uint32_t request)
{
    static const int32_t chain[SELFTEST_DRAFTS] = {-1, 0, 1}, tree[SELFTEST_DRAFTS] = {-1, -1, 0};
    if (method != CLS_VERIFY_MATCH)
        return NULL;
    return request % 2 == 0 ? chain : tree;
}

/* The draft is the likeliest of the first 32 tokens in the row that judges it, or a token that is
 * unlikely to be drawn. */
int32_t cls_selftest_draft(int method, uint32_t request, uint32_t draft)
{
    const int32_t *const parents = cls_selftest_parents(method, request);
    const uint32_t row = parents != NULL ? (uint32_t)(parents[draft] + 1) : draft;
    float logits[32] = {0};
    int32_t best = 0;
    if ((request + draft) % 4 == 3)
        return 40 + (int32_t)draft;
    cls_selftest_row(cls_selftest_draft_seed(request, row), ROW_TEXT, CLS_F32, 32, logits);
    for (int32_t i = 1; i < 32; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

int32_t cls_selftest_draft_kind(int method)
{
    return method == CLS_VERIFY_STANDARD ? CLS_DRAFT_PROBS
           : method == CLS_VERIFY_BLOCK  ? CLS_DRAFT_LOGITS
                                         : CLS_DRAFT_NONE;
}

size_t cls_selftest_distributions(int32_t kind, int32_t dtype, uint32_t vocab, uint32_t request,
                                  void *rows)
{
    const size_t size = vocab * (kind == CLS_DRAFT_LOGITS ? cls_dtype_size(dtype) : sizeof(float));
    for (uint32_t draft = 0; draft < SELFTEST_DRAFTS; draft++) {
        const uint32_t i = request * SELFTEST_DRAFTS + draft;
        void *const row = (char *)rows + draft * size;
        if (kind == CLS_DRAFT_LOGITS) {
            cls_selftest_row(200000 + i, ROW_TEXT, dtype, vocab, row);
        } else if (kind == CLS_DRAFT_PROBS) {
            memset(row, 0, size);
            ((float *)row)[cls_selftest_draft(CLS_VERIFY_STANDARD, request, draft)] = 0.5f;
            ((float *)row)[50 + i] = 0.25f;
            ((float *)row)[i % 8] += 0.25f;
        }
    }
    return size * SELFTEST_DRAFTS;
}

static cls_status run_drafts(cls_selftest_answers *a, int method, uint32_t request, tables *t)
{
    const int32_t dtype = method % CLS_DTYPES;
    const uint32_t vocab = t->selection->vocab;
    const size_t size = cls_dtype_size(dtype) * vocab;
    cls_host_verified *const v = &a->verified[method][request];
    const uint32_t i = cls_selftest_find(cls_selftest_verified_cases[request]);
    int32_t ids[SELFTEST_DRAFTS];
    cls_host_drafts d;
    cls_host_row row;
    cls_params params;
    cls_selftest_params(i, vocab, &params);
    cls_host_row_init(&row);
    cls_selftest_text(i, vocab, &row);
    for (uint32_t j = 0; j <= SELFTEST_DRAFTS; j++)
        cls_selftest_row(cls_selftest_draft_seed(request, j), ROW_TEXT, dtype, vocab,
                         (char *)t->logits + j * size);
    for (uint32_t j = 0; j < SELFTEST_DRAFTS; j++)
        ids[j] = cls_selftest_draft(method, request, j);
    row.logits = t->logits;
    row.dtype = dtype;
    row.vocab = vocab;
    row.params = &params;
    row.max_history = SELFTEST_HISTORY;
    row.position = row.output_count;
    cls_host_drafts_init(&d);
    d.row = &row;
    d.draft_count = SELFTEST_DRAFTS;
    d.method = method;
    d.ids = ids;
    d.parents = cls_selftest_parents(method, request);
    d.draft_kind = cls_selftest_draft_kind(method);
    cls_selftest_distributions(d.draft_kind, dtype, vocab, request, t->drafts);
    d.draft = d.draft_kind == CLS_DRAFT_NONE ? NULL : t->drafts;
    cls_selftest_tokens *const of = &a->tokens[method][request];
    of->logprobs[SELFTEST_WIDTH - 1] = -INFINITY; /* behind the rows */
    of->status[SELFTEST_WIDTH - 1] = CLS_ROW_SKIPPED;
    of->kept[SELFTEST_WIDTH - 1] = 0;
    d.logprobs_final = of->logprobs;
    d.token_status = of->status;
    d.kept_counts = of->kept;
    v->struct_size = sizeof *v;
    const cls_status status = cls_host_verify(&d, v);
    uint32_t words[2 * SELFTEST_DRAFTS + 4] = {(uint32_t)v->accepted, (uint32_t)v->emitted,
                                               (uint32_t)v->status,
                                               (uint32_t)v->tokens[SELFTEST_DRAFTS]};
    for (uint32_t j = 0; j < SELFTEST_DRAFTS; j++) {
        words[4 + j] = (uint32_t)v->tokens[j];
        words[4 + SELFTEST_DRAFTS + j] = (uint32_t)v->nodes[j];
    }
    a->known[cls_selftest_draft_answer(t->selection, method, request)] =
        (cls_selftest_known){v->tokens[0], answer_digest(words, sizeof words / sizeof *words)};
    return status;
}

/* ------------------------------------------------------------------------- all */

cls_status cls_selftest_answers_compute(const cls_selftest_selection *selection,
                                        cls_selftest_answers *a)
{
    tables *const t = calloc(1, sizeof *t);
    memset(a, 0, sizeof *a);
    a->count = cls_selftest_draft_answer(selection, SELFTEST_METHODS, 0);
    cls_status status = CLS_OK;
    if (t == NULL)
        status = cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for the self-test");
    if (status == CLS_OK) {
        t->selection = selection;
        cls_selftest_mask(CLS_MASK_PACKED, selection->vocab, t->mask);
        cls_selftest_mask(CLS_MASK_BOOL, selection->vocab, t->bools);
        cls_selftest_dense(CLS_F32, selection->vocab, t->dense);
        cls_selftest_dense(CLS_F16, selection->vocab, t->dense_f16);
        cls_selftest_prefixes(t->prefix_of);
        cls_selftest_ends(t->ends);
    }
    for (uint32_t i = 0;
         (selection->parts & PART_STEPS) && i < selection->count && status == CLS_OK; i++)
        status = run_case(a, i, t);
    for (int i = 0; i < SELFTEST_METHODS * SELFTEST_REQUESTS && status == CLS_OK; i++)
        if ((selection->methods >> i / SELFTEST_REQUESTS & 1u) &&
            cls_selftest_position(selection, cls_selftest_verified_cases[i % SELFTEST_REQUESTS]) >=
                0)
            status = run_drafts(a, i / SELFTEST_REQUESTS, (uint32_t)i % SELFTEST_REQUESTS, t);
    free(t);
    return status;
}
