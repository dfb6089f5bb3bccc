/* SPDX-License-Identifier: MIT */
/* The self-test of cls_verify() and cls_draft(). */
#include "selftest/selftest.h"

#include <stdio.h>
#include <stdlib.h>

/* ---------------------------------------------------------------- what is verified */

static uint32_t draft_seed(uint32_t request, uint32_t row)
{
    return 100000 + request * (SELFTEST_DRAFTS + 1) + row;
}

/* Returns the parents of a request's drafts, or NULL if the method does not support trees. */
static const int32_t *parents_of(int method, uint32_t request)
{
    static const int32_t chain[SELFTEST_DRAFTS] = {-1, 0, 1}, tree[SELFTEST_DRAFTS] = {-1, -1, 0};
    if (method != CLS_VERIFY_MATCH)
        return NULL;
    return request % 2 == 0 ? chain : tree;
}

/* The draft is the likeliest of the first 32 tokens in the row that judges it, or a token that is
 * unlikely to be drawn. */
static int32_t draft_of(int method, uint32_t request, uint32_t draft)
{
    const int32_t *const parents = parents_of(method, request);
    const uint32_t row = parents != NULL ? (uint32_t)(parents[draft] + 1) : draft;
    float logits[32] = {0};
    int32_t best = 0;
    if ((request + draft) % 4 == 3)
        return 40 + (int32_t)draft;
    cls_selftest_row(draft_seed(request, row), ROW_TEXT, CLS_F32, 32, logits);
    for (int32_t i = 1; i < 32; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

/* Returns the kind of draft distributions that a method uses. */
static int32_t draft_kind(int method)
{
    return method == CLS_VERIFY_STANDARD ? CLS_DRAFT_PROBS
           : method == CLS_VERIFY_BLOCK  ? CLS_DRAFT_LOGITS
                                         : CLS_DRAFT_NONE;
}

/* Writes the distributions of a request, [SELFTEST_DRAFTS] rows, and returns their size in bytes.
 */
static size_t write_distributions(int32_t kind, int32_t dtype, uint32_t vocab, uint32_t request,
                                  void *rows)
{
    const size_t size = vocab * (kind == CLS_DRAFT_LOGITS ? cls_dtype_size(dtype) : sizeof(float));
    for (uint32_t draft = 0; draft < SELFTEST_DRAFTS; draft++) {
        const uint32_t i = request * SELFTEST_DRAFTS + draft;
        void *const row = (char *)rows + draft * size;
        if (kind == CLS_DRAFT_LOGITS) {
            cls_selftest_row(200000 + i, ROW_TEXT, dtype, vocab, row);
        } else {
            memset(row, 0, size);
            ((float *)row)[draft_of(CLS_VERIFY_STANDARD, request, draft)] = 0.5f;
            ((float *)row)[50 + i] = 0.25f;
            ((float *)row)[i % 8] += 0.25f;
        }
    }
    return size * SELFTEST_DRAFTS;
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

/* Returns 1 if the j-th requests of two calls differ. */
static int verified_differ(const verified *a, const verified *b, uint32_t j)
{
#define FIELD(name) \
    { \
        offsetof(verified, name), sizeof a->name[0] \
    }
    static const struct {
        size_t offset, size;
    } fields[] = {FIELD(tokens), FIELD(nodes),    FIELD(accepted),     FIELD(emitted),
                  FIELD(status), FIELD(logprobs), FIELD(token_status), FIELD(kept)};
#undef FIELD
    int differ = 0;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const size_t at = fields[i].offset + j * fields[i].size;
        differ |= memcmp((const char *)a + at, (const char *)b + at, fields[i].size) != 0;
    }
    return differ;
}

/* Every second method also reports on its tokens, where there are the programs for it. */
static int reports(const cls_selftest_run *t, int method, uint32_t features)
{
    return method % 2 != 0 && cls_selftest_has(t, features);
}

static void list_tokens(char *out, size_t size, const int32_t *tokens)
{
    size_t n = 0;
    *out = '\0';
    for (int i = 0; i < SELFTEST_WIDTH && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, " %d", (int)tokens[i]);
}

/* Returns the answer of the host for the j-th request of a call. */
static cls_selftest_known answer_of(const verified *h, uint32_t j)
{
    uint32_t words[2 * SELFTEST_DRAFTS + 4] = {(uint32_t)h->accepted[j], (uint32_t)h->emitted[j],
                                               (uint32_t)h->status[j],
                                               (uint32_t)h->tokens[j][SELFTEST_DRAFTS]};
    for (uint32_t i = 0; i < SELFTEST_DRAFTS; i++) {
        words[4 + i] = (uint32_t)h->tokens[j][i];
        words[4 + SELFTEST_DRAFTS + i] = (uint32_t)h->nodes[j][i];
    }
    return (cls_selftest_known){h->tokens[j][0],
                                cls_selftest_digest(words, sizeof words / sizeof *words)};
}

/* Compares the j-th request of a call. */
static void check_request(cls_selftest_run *t, int method, uint32_t i, uint32_t j,
                          const verified of[SIDES])
{
    const verified *const h = &of[SIDE_HOST], *const d = &of[SIDE_DEVICE];
    const uint32_t at = cls_selftest_draft_answer(&t->selection, method, i);
    const cls_selftest_known host = t->answer[at] = answer_of(h, j), known = t->known[at];
    char name[64], ours[40], hosts[40], message[240] = "";
    cls_selftest_name(t, cls_selftest_verified_cases[i], 0, name, sizeof name);
    list_tokens(ours, sizeof ours, d->tokens[j]);
    list_tokens(hosts, sizeof hosts, h->tokens[j]);
    if (host.token != known.token || host.digest != known.digest)
        snprintf(message, sizeof message,
                 "%s: host: tokens%s, digest 0x%08x, not %d..., 0x%08x; device: tokens%s", name,
                 hosts, (unsigned)host.digest, (int)known.token, (unsigned)known.digest, ours);
    else if (verified_differ(h, d, j))
        snprintf(message, sizeof message,
                 "%s: device: tokens%s, %d accepted, status %d; host:%s, %d, %d", name, ours,
                 (int)d->accepted[j], (int)d->status[j], hosts, (int)h->accepted[j],
                 (int)h->status[j]);
    cls_selftest_count(t, ST_MATCH + method, message);
}

/* What the calls of all methods read: the requests of the selection, in the last slots. */
typedef struct drafts {
    uint32_t n, request[SELFTEST_REQUESTS];
    int32_t slots[SELFTEST_REQUESTS];
    cls_buffer logits[SIDES];
    size_t size; /* of the distributions of a method, in `rows` */
    char *rows;  /* for one row of logits of each draft and each request */
} drafts;

static cls_status begin_requests(const cls_selftest_run *t, const cls_selftest_side *s,
                                 const drafts *f)
{
    cls_status status = CLS_OK;
    for (uint32_t j = 0; j < f->n && status == CLS_OK; j++) {
        const uint32_t which = cls_selftest_find(cls_selftest_verified_cases[f->request[j]]);
        const cls_selftest_ids text = cls_selftest_text(which, t->selection.vocab);
        cls_params params[2];
        cls_selftest_params(which, t->selection.vocab, params);
        status = cls_selftest_begin(s, (uint32_t)f->slots[j], params, text.prompt, text.output);
    }
    return status;
}

static cls_status call_method(const cls_selftest_run *t, int side, int method, const drafts *f,
                              cls_buffer draft, cls_buffer out)
{
#define PART(name) cls_selftest_at(out, offsetof(verified, name))
    enum { N = SELFTEST_REQUESTS * SELFTEST_DRAFTS };
    const cls_selftest_side *const s = &t->side[side];
    int32_t row_offsets[SELFTEST_REQUESTS + 1] = {0}, ids[N], parents[N];
    cls_verify_call call;
    cls_outputs outputs;
    cls_verify_call_init(&call);
    call.requests = f->n;
    call.method = method;
    call.row_offsets = row_offsets;
    call.max_drafts = SELFTEST_WIDTH - 1;
    for (uint32_t i = 0; i < f->n; i++) {
        const int32_t *const tree = parents_of(method, f->request[i]);
        row_offsets[i + 1] = row_offsets[i] + SELFTEST_DRAFTS + 1;
        call.parents.host = tree != NULL ? parents : NULL;
        for (uint32_t j = 0; j < SELFTEST_DRAFTS; j++) {
            ids[i * SELFTEST_DRAFTS + j] = draft_of(method, f->request[i], j);
            parents[i * SELFTEST_DRAFTS + j] = tree != NULL ? tree[j] : 0;
        }
    }
    call.logits.dtype = t->dtype;
    call.logits.values = f->logits[side];
    call.slots.host = f->slots;
    call.draft_ids.host = ids;
    call.draft_kind = draft_kind(method);
    call.draft = draft;
    call.tokens = PART(tokens);
    call.nodes = PART(nodes);
    call.accepted = PART(accepted);
    call.emitted = PART(emitted);
    call.status = PART(status);
    cls_outputs_init(&outputs);
    outputs.logprob_kind = CLS_LOGPROB_FINAL;
    if (reports(t, method, CLS_FEATURE_LOGPROBS)) {
        outputs.logprobs = PART(logprobs);
        call.token_status = PART(token_status);
    }
    if (reports(t, method, CLS_FEATURE_KEPT_SETS)) {
        outputs.kept_set.capacity = t->selection.vocab;
        outputs.kept_set.counts = PART(kept);
    }
    if (reports(t, method, CLS_FEATURE_LOGPROBS | CLS_FEATURE_KEPT_SETS))
        call.outputs = &outputs;
#undef PART
    return cls_verify(s->sampler, s->queue, &call, 0, NULL, NULL);
}

/* Verifies the requests on a side. *v is 0 at first, and what is not reported remains so. */
static cls_status run_method(const cls_selftest_run *t, int side, int method, const drafts *f,
                             verified *v)
{
    const cls_selftest_side *const s = &t->side[side];
    cls_buffer draft = {.buffer = NULL}, out = {.buffer = NULL};
    cls_status status = begin_requests(t, s, f);
    if (status == CLS_OK && f->size != 0)
        status = cls_selftest_buffer(s, f->size, f->rows, &draft);
    if (status == CLS_OK)
        status = cls_selftest_buffer(s, sizeof *v, v, &out);
    if (status == CLS_OK)
        status = call_method(t, side, method, f, draft, out);
    if (status == CLS_OK)
        status = cls_selftest_read(s, &out, sizeof *v, v);
    cls_selftest_release(&draft);
    cls_selftest_release(&out);
    return status;
}

static cls_status verify_requests(cls_selftest_run *t, int method, drafts *f)
{
    const int32_t kind = draft_kind(method);
    verified v[SIDES];
    cls_status status = CLS_OK;
    memset(v, 0, sizeof v);
    f->size = 0;
    for (uint32_t j = 0; j < f->n && kind != CLS_DRAFT_NONE; j++)
        f->size += write_distributions(kind, t->dtype, t->selection.vocab, f->request[j],
                                       f->rows + f->size);
    for (int i = 0; i < SIDES && status == CLS_OK; i++)
        status = run_method(t, i, method, f, &v[i]);
    for (uint32_t j = 0; j < f->n && status == CLS_OK; j++)
        check_request(t, method, f->request[j], j, v);
    return status;
}

cls_status cls_selftest_verify(cls_selftest_run *t)
{
    const uint32_t vocab = t->selection.vocab, slots = t->side[SIDE_HOST].sampler->slots;
    const size_t size = vocab * cls_dtype_size(t->dtype);
    drafts f = {.rows = malloc(vocab * sizeof(float) * SELFTEST_ROWS)};
    size_t at = 0;
    cls_status status = CLS_OK;
    if (f.rows == NULL)
        return cls_no_memory("the self-test");
    for (uint32_t i = 0; i < SELFTEST_REQUESTS; i++) {
        if (cls_selftest_position(&t->selection, cls_selftest_verified_cases[i]) < 0)
            continue;
        for (uint32_t j = 0; j <= SELFTEST_DRAFTS; j++, at += size)
            cls_selftest_row(draft_seed(i, j), ROW_TEXT, t->dtype, vocab, f.rows + at);
        f.slots[f.n] = (int32_t)(slots - SELFTEST_REQUESTS + i);
        f.request[f.n++] = i;
    }
    for (int i = 0; i < SIDES && status == CLS_OK; i++)
        status = cls_selftest_buffer(&t->side[i], at, f.rows, &f.logits[i]);
    for (int method = 0; method < SELFTEST_METHODS && status == CLS_OK; method++)
        if (t->selection.methods >> method & 1u)
            status = verify_requests(t, method, &f);
    for (int i = 0; i < SIDES; i++)
        cls_selftest_release(&f.logits[i]);
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

/* Looks the ends of the texts up on a side. */
static cls_status lookup_on(const cls_selftest_side *s, int32_t ids[SELFTEST_REQUESTS][LOOKUP_K])
{
    const size_t size = SELFTEST_REQUESTS * sizeof *ids;
    int32_t text[LOOKUP_TOKENS], slots[SELFTEST_REQUESTS];
    cls_params params;
    cls_draft_call call;
    cls_params_init(&params);
    params.temperature = 0.0f;
    cls_draft_call_init(&call);
    call.requests = SELFTEST_REQUESTS;
    call.k = LOOKUP_K;
    call.slots.host = slots;
    cls_status status = cls_selftest_buffer(s, size, ids, &call.draft_ids);
    for (uint32_t i = 0; i < SELFTEST_REQUESTS && status == CLS_OK; i++) {
        lookup_text(i, text);
        slots[i] = (int32_t)(s->sampler->slots - SELFTEST_REQUESTS + i);
        status = cls_selftest_begin(s, (uint32_t)slots[i], &params, (cls_ids){text, LOOKUP_TOKENS},
                                    (cls_ids){NULL, 0});
    }
    if (status == CLS_OK)
        status = cls_draft(s->sampler, s->queue, &call, 0, NULL, NULL);
    if (status == CLS_OK)
        status = cls_selftest_read(s, &call.draft_ids, size, ids);
    cls_selftest_release(&call.draft_ids);
    return status;
}

cls_status cls_selftest_lookup(cls_selftest_run *t)
{
    int32_t ids[SIDES][SELFTEST_REQUESTS][LOOKUP_K] = {{{0}}};
    cls_status status = CLS_OK;
    for (int i = 0; i < SIDES && status == CLS_OK; i++)
        status = lookup_on(&t->side[i], ids[i]);
    for (uint32_t i = 0; i < SELFTEST_REQUESTS && status == CLS_OK; i++) {
        const int32_t *const h = ids[SIDE_HOST][i], *const d = ids[SIDE_DEVICE][i];
        char message[200] = "";
        if (memcmp(h, d, sizeof ids[0][0]) != 0)
            snprintf(message, sizeof message, "text %u: device: %d %d..., host: %d %d...",
                     (unsigned)i, (int)d[0], (int)d[1], (int)h[0], (int)h[1]);
        cls_selftest_count(t, ST_LOOKUP, message);
    }
    return status;
}
