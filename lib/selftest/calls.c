/* SPDX-License-Identifier: MIT */
/* The self-test of cls_verify() and cls_draft(). */
#include "selftest/selftest.h"

#include <stdio.h>
#include <stdlib.h>

static void release(const cl_mem *buffers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (buffers[i] != NULL)
            clReleaseMemObject(buffers[i]);
}

/* ---------------------------------------------------------------- verification */

/* The outputs of a verification. */
typedef struct verified {
    int32_t tokens[SELFTEST_REQUESTS][SELFTEST_WIDTH];
    int32_t nodes[SELFTEST_REQUESTS][SELFTEST_WIDTH - 1];
    int32_t accepted[SELFTEST_REQUESTS], emitted[SELFTEST_REQUESTS], status[SELFTEST_REQUESTS];
    float logprobs[SELFTEST_REQUESTS][SELFTEST_WIDTH];
    int32_t token_status[SELFTEST_REQUESTS][SELFTEST_WIDTH];
    uint32_t kept[SELFTEST_REQUESTS][SELFTEST_WIDTH];
} verified;

/* Every second method also reports on its tokens, where there are the programs for it. */
static int reports(const cls_selftest_run *t, int method, uint32_t feature)
{
    return method % 2 != 0 && (t->sampler->features & feature);
}

static void list_tokens(char *out, size_t size, const int32_t *tokens)
{
    size_t n = 0;
    *out = '\0';
    for (int i = 0; i < SELFTEST_WIDTH && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, " %d", (int)tokens[i]);
}

/* Compares the j-th request of a call. */
static void check_request(cls_selftest_run *t, int method, uint32_t i, uint32_t j,
                          const verified *d)
{
    const cls_host_verified *const h = &t->host.verified[method][i];
    const cls_selftest_tokens *const of = &t->host.tokens[method][i];
    const uint32_t answer = cls_selftest_draft_answer(&t->selection, method, i);
    const int host_differs = t->host.known[answer].token != t->known[answer].token ||
                             t->host.known[answer].digest != t->known[answer].digest;
    const int same = memcmp(d->tokens[j], h->tokens, sizeof d->tokens[j]) == 0 &&
                     memcmp(d->nodes[j], h->nodes, sizeof d->nodes[j]) == 0 &&
                     d->accepted[j] == h->accepted && d->emitted[j] == h->emitted &&
                     d->status[j] == h->status &&
                     (!reports(t, method, CLS_FEATURE_LOGPROBS) ||
                      (memcmp(d->logprobs[j], of->logprobs, sizeof of->logprobs) == 0 &&
                       memcmp(d->token_status[j], of->status, sizeof of->status) == 0)) &&
                     (!reports(t, method, CLS_FEATURE_KEPT_SETS) ||
                      memcmp(d->kept[j], of->kept, sizeof of->kept) == 0);
    char name[64], ours[40], hosts[40], message[240] = "";
    cls_selftest_name(t, cls_selftest_verified_cases[i], 0, name, sizeof name);
    list_tokens(ours, sizeof ours, d->tokens[j]);
    list_tokens(hosts, sizeof hosts, h->tokens);
    if (host_differs)
        snprintf(message, sizeof message,
                 "%s: host: tokens%s, digest 0x%08x, not %d..., 0x%08x; device: tokens%s", name,
                 hosts, (unsigned)t->host.known[answer].digest, (int)t->known[answer].token,
                 (unsigned)t->known[answer].digest, ours);
    else if (!same)
        snprintf(message, sizeof message,
                 "%s: device: tokens%s, %d accepted, status %d; host:%s, %d, %d", name, ours,
                 (int)d->accepted[j], (int)d->status[j], hosts, (int)h->accepted, (int)h->status);
    cls_selftest_count(t, ST_MATCH + method, message);
}

/* What the calls of all methods read: the requests of the selection, in the last slots. */
typedef struct drafts {
    uint32_t n, request[SELFTEST_REQUESTS];
    int32_t slots[SELFTEST_REQUESTS];
    cl_mem logits, out;
    char *rows; /* for one row of logits of each draft and each request */
} drafts;

static cls_status begin_requests(cls_selftest_run *t, const drafts *f)
{
    cls_status status = CLS_OK;
    for (uint32_t j = 0; j < f->n && status == CLS_OK; j++) {
        const uint32_t which = cls_selftest_find(cls_selftest_verified_cases[f->request[j]]);
        cls_params params;
        cls_host_row text;
        cls_selftest_params(which, t->selection.vocab, &params);
        cls_host_row_init(&text);
        cls_selftest_text(which, t->selection.vocab, &text);
        status = cls_try_begin(t->sampler, (uint32_t)f->slots[j], &params, text.prompt,
                               text.prompt_count, text.output, text.output_count);
    }
    return status;
}

static cls_status run_method(cls_selftest_run *t, int method, const drafts *f, cl_mem draft,
                             verified *v)
{
    enum { N = SELFTEST_REQUESTS * SELFTEST_DRAFTS };
    int32_t row_offsets[SELFTEST_REQUESTS + 1] = {0}, ids[N], parents[N];
    cls_verify_call call;
    cls_outputs outputs;
    cls_status status = begin_requests(t, f);
    cls_verify_call_init(&call);
    call.requests = f->n;
    call.method = method;
    call.row_offsets = row_offsets;
    call.max_drafts = SELFTEST_WIDTH - 1;
    for (uint32_t i = 0; i < f->n; i++) {
        const int32_t *const tree = cls_selftest_parents(method, f->request[i]);
        row_offsets[i + 1] = row_offsets[i] + SELFTEST_DRAFTS + 1;
        call.parents.host = tree != NULL ? parents : NULL;
        for (uint32_t j = 0; j < SELFTEST_DRAFTS; j++) {
            ids[i * SELFTEST_DRAFTS + j] = cls_selftest_draft(method, f->request[i], j);
            parents[i * SELFTEST_DRAFTS + j] = tree != NULL ? tree[j] : 0;
        }
    }
    call.logits.dtype = t->dtype;
    call.logits.values.buffer = f->logits;
    call.slots.host = f->slots;
    call.draft_ids.host = ids;
    call.draft_kind = cls_selftest_draft_kind(method);
    call.draft.buffer = draft;
    call.tokens = (cls_buffer){.buffer = f->out, .offset = offsetof(verified, tokens)};
    call.nodes = (cls_buffer){.buffer = f->out, .offset = offsetof(verified, nodes)};
    call.accepted = (cls_buffer){.buffer = f->out, .offset = offsetof(verified, accepted)};
    call.emitted = (cls_buffer){.buffer = f->out, .offset = offsetof(verified, emitted)};
    call.status = (cls_buffer){.buffer = f->out, .offset = offsetof(verified, status)};
    cls_outputs_init(&outputs);
    outputs.logprob_kind = CLS_LOGPROB_FINAL;
    if (reports(t, method, CLS_FEATURE_LOGPROBS)) {
        outputs.logprobs = (cls_buffer){.buffer = f->out, .offset = offsetof(verified, logprobs)};
        call.token_status =
            (cls_buffer){.buffer = f->out, .offset = offsetof(verified, token_status)};
    }
    if (reports(t, method, CLS_FEATURE_KEPT_SETS)) {
        outputs.kept_set.capacity = t->selection.vocab;
        outputs.kept_set.counts =
            (cls_buffer){.buffer = f->out, .offset = offsetof(verified, kept)};
    }
    if (reports(t, method, CLS_FEATURE_LOGPROBS | CLS_FEATURE_KEPT_SETS))
        call.outputs = &outputs;
    if (status == CLS_OK)
        status = cls_verify(t->sampler, t->queue, &call, 0, NULL, NULL);
    return status == CLS_OK ? cls_selftest_read(t, f->out, sizeof *v, v) : status;
}

static cls_status verify_requests(cls_selftest_run *t, int method, const drafts *f)
{
    const int32_t kind = cls_selftest_draft_kind(method);
    cl_mem draft = NULL;
    verified v;
    size_t size = 0;
    cls_status status = CLS_OK;
    for (uint32_t j = 0; j < f->n && kind != CLS_DRAFT_NONE; j++)
        size += cls_selftest_distributions(kind, t->dtype, t->selection.vocab, f->request[j],
                                           f->rows + size);
    if (size != 0)
        status = cls_selftest_buffer(t, size, f->rows, &draft);
    if (status == CLS_OK)
        status = run_method(t, method, f, draft, &v);
    release(&draft, 1);
    for (uint32_t j = 0; j < f->n && status == CLS_OK; j++)
        check_request(t, method, f->request[j], j, &v);
    return status;
}

cls_status cls_selftest_verify(cls_selftest_run *t)
{
    const uint32_t vocab = t->selection.vocab;
    const size_t size = vocab * cls_dtype_size(t->dtype);
    drafts f = {.rows = malloc(vocab * sizeof(float) * SELFTEST_ROWS)};
    size_t at = 0;
    if (f.rows == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for the self-test");
    for (uint32_t i = 0; i < SELFTEST_REQUESTS; i++) {
        if (cls_selftest_position(&t->selection, cls_selftest_verified_cases[i]) < 0)
            continue;
        for (uint32_t j = 0; j <= SELFTEST_DRAFTS; j++, at += size)
            cls_selftest_row(cls_selftest_draft_seed(i, j), ROW_TEXT, t->dtype, vocab, f.rows + at);
        f.slots[f.n] = (int32_t)(t->sampler->slots - SELFTEST_REQUESTS + i);
        f.request[f.n++] = i;
    }
    cls_status status = cls_selftest_buffer(t, at, f.rows, &f.logits);
    if (status == CLS_OK)
        status = cls_selftest_buffer(t, sizeof(verified), NULL, &f.out);
    for (int method = 0; method < SELFTEST_METHODS && status == CLS_OK; method++)
        if (t->selection.methods >> method & 1u)
            status = verify_requests(t, method, &f);
    release((const cl_mem[]){f.logits, f.out}, 2);
    free(f.rows);
    return status;
}

/* --------------------------------------------------------------------- look-up */

enum { LOOKUP_K = 9, LOOKUP_TOKENS = 2 * SELFTEST_HISTORY };

/* Writes a text that is longer than the ring and has 2, 3, 4, 5 or 1,000 different tokens. The last
 * one repeats nothing. */
static void lookup_text(uint32_t i, int32_t text[LOOKUP_TOKENS])
{
    const uint32_t different = i + 1 < SELFTEST_REQUESTS ? i + 2 : 1000;
    for (uint32_t j = 0; j < LOOKUP_TOKENS; j++)
        text[j] = (int32_t)(cls_hash_word(i, j) % different);
}

static cls_status check_lookup(cls_selftest_run *t, uint32_t i, const int32_t ids[LOOKUP_K])
{
    int32_t text[LOOKUP_TOKENS], expected[LOOKUP_K];
    char message[200] = "";
    cls_host_text host;
    cls_host_text_init(&host);
    lookup_text(i, text);
    host.tokens = text;
    host.token_count = LOOKUP_TOKENS;
    host.max_history = SELFTEST_HISTORY;
    host.k = LOOKUP_K;
    const cls_status status = cls_host_draft(&host, expected, NULL);
    if (status == CLS_OK && memcmp(ids, expected, sizeof expected) != 0)
        snprintf(message, sizeof message, "text %u: device: %d %d..., host: %d %d...", (unsigned)i,
                 (int)ids[0], (int)ids[1], (int)expected[0], (int)expected[1]);
    cls_selftest_count(t, ST_LOOKUP, message);
    return status;
}

cls_status cls_selftest_lookup(cls_selftest_run *t)
{
    int32_t text[LOOKUP_TOKENS], slots[SELFTEST_REQUESTS], ids[SELFTEST_REQUESTS][LOOKUP_K] = {{0}};
    cls_params params;
    cls_draft_call call;
    cls_params_init(&params);
    params.temperature = 0.0f;
    cls_draft_call_init(&call);
    call.requests = SELFTEST_REQUESTS;
    call.k = LOOKUP_K;
    call.slots.host = slots;
    cls_status status = cls_selftest_buffer(t, sizeof ids, ids, &call.draft_ids.buffer);
    for (uint32_t i = 0; i < SELFTEST_REQUESTS && status == CLS_OK; i++) {
        lookup_text(i, text);
        slots[i] = (int32_t)(t->sampler->slots - SELFTEST_REQUESTS + i);
        status =
            cls_try_begin(t->sampler, (uint32_t)slots[i], &params, text, LOOKUP_TOKENS, NULL, 0);
    }
    if (status == CLS_OK)
        status = cls_draft(t->sampler, t->queue, &call, 0, NULL, NULL);
    if (status == CLS_OK)
        status = cls_selftest_read(t, call.draft_ids.buffer, sizeof ids, ids);
    release(&call.draft_ids.buffer, 1);
    for (uint32_t i = 0; i < SELFTEST_REQUESTS && status == CLS_OK; i++)
        status = check_lookup(t, i, ids[i]);
    return status;
}
