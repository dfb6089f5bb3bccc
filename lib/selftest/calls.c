/* SPDX-License-Identifier: MIT */
/* The self-test of cls_verify(). */
#include "selftest/selftest.h"

#include <stdio.h>
#include <stdlib.h>

/* Returns the index of the first answer of the verifications in the table. */
static uint32_t first_request(void) { return cls_selftest_case_count * SELFTEST_STEPS; }

static void release(const cl_mem *buffers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (buffers[i] != NULL)
            clReleaseMemObject(buffers[i]);
}

/* ---------------------------------------------------------------- verification */

/* The outputs of a verification. */
typedef struct verified {
    int32_t tokens[SELFTEST_REQUESTS][SELFTEST_DRAFTS + 1];
    int32_t nodes[SELFTEST_REQUESTS][SELFTEST_DRAFTS];
    int32_t accepted[SELFTEST_REQUESTS], emitted[SELFTEST_REQUESTS], status[SELFTEST_REQUESTS];
} verified;

static void list_tokens(char *out, size_t size, const int32_t *tokens)
{
    size_t n = 0;
    *out = '\0';
    for (int i = 0; i <= SELFTEST_DRAFTS && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, " %d", (int)tokens[i]);
}

static void check_request(cls_selftest_run *t, int method, uint32_t i, const verified *d)
{
    const cls_host_verified *const h = &t->host.verified[method][i];
    const uint32_t answer = first_request() + (uint32_t)method * SELFTEST_REQUESTS + i;
    const int host_differs = t->host.known[answer].token != t->known[answer].token ||
                             t->host.known[answer].digest != t->known[answer].digest;
    const int same = memcmp(d->tokens[i], h->tokens, sizeof d->tokens[i]) == 0 &&
                     memcmp(d->nodes[i], h->nodes, sizeof d->nodes[i]) == 0 &&
                     d->accepted[i] == h->accepted && d->emitted[i] == h->emitted &&
                     d->status[i] == h->status;
    char name[64], ours[32], hosts[32], message[200] = "";
    cls_selftest_name(t, cls_selftest_verified_cases[i], 0, name, sizeof name);
    list_tokens(ours, sizeof ours, d->tokens[i]);
    list_tokens(hosts, sizeof hosts, h->tokens);
    if (host_differs)
        snprintf(message, sizeof message,
                 "%s: host: tokens%s, digest 0x%08x, not %d..., 0x%08x; device: tokens%s", name,
                 hosts, (unsigned)t->host.known[answer].digest, (int)t->known[answer].token,
                 (unsigned)t->known[answer].digest, ours);
    else if (!same)
        snprintf(message, sizeof message,
                 "%s: device: tokens%s, %d accepted, status %d; host:%s, %d, %d", name, ours,
                 (int)d->accepted[i], (int)d->status[i], hosts, (int)h->accepted, (int)h->status);
    cls_selftest_count(t, ST_MATCH + method, message);
}

/* Begins the requests of a method in the last slots. */
static cls_status begin_requests(cls_selftest_run *t, int32_t *slots)
{
    cls_status status = CLS_OK;
    for (uint32_t i = 0; i < SELFTEST_REQUESTS && status == CLS_OK; i++) {
        const uint32_t which = cls_selftest_find(cls_selftest_verified_cases[i]);
        cls_params params;
        cls_host_row text;
        cls_selftest_params(which, &params);
        cls_host_row_init(&text);
        cls_selftest_text(which, &text);
        slots[i] = (int32_t)(cls_selftest_case_count + 1 + i);
        status = cls_slot_begin(t->sampler, (uint32_t)slots[i], &params, text.prompt,
                                text.prompt_count, text.output, text.output_count);
    }
    return status;
}

static cls_status run_method(cls_selftest_run *t, int method, cl_mem logits, cl_mem draft,
                             cl_mem out, verified *v)
{
    enum { N = SELFTEST_REQUESTS * SELFTEST_DRAFTS };
    int32_t row_offsets[SELFTEST_REQUESTS + 1] = {0}, slots[SELFTEST_REQUESTS], ids[N], parents[N];
    cls_verify_call call;
    cls_status status = begin_requests(t, slots);
    cls_verify_call_init(&call);
    call.requests = SELFTEST_REQUESTS;
    call.method = method;
    call.row_offsets = row_offsets;
    for (uint32_t i = 0; i < SELFTEST_REQUESTS; i++) {
        const int32_t *const tree = cls_selftest_parents(method, i);
        row_offsets[i + 1] = row_offsets[i] + SELFTEST_DRAFTS + 1;
        call.parents.host = tree != NULL ? parents : NULL;
        for (uint32_t j = 0; j < SELFTEST_DRAFTS; j++) {
            ids[i * SELFTEST_DRAFTS + j] = cls_selftest_draft(method, i, j);
            parents[i * SELFTEST_DRAFTS + j] = tree != NULL ? tree[j] : 0;
        }
    }
    call.logits.dtype = t->dtype;
    call.logits.values.buffer = logits;
    call.slots.host = slots;
    call.draft_ids.host = ids;
    call.draft_kind = cls_selftest_draft_kind(method);
    call.draft.buffer = call.draft_kind == CLS_DRAFT_NONE ? NULL : draft;
    call.tokens = (cls_buffer){.buffer = out, .offset = offsetof(verified, tokens)};
    call.nodes = (cls_buffer){.buffer = out, .offset = offsetof(verified, nodes)};
    call.accepted = (cls_buffer){.buffer = out, .offset = offsetof(verified, accepted)};
    call.emitted = (cls_buffer){.buffer = out, .offset = offsetof(verified, emitted)};
    call.status = (cls_buffer){.buffer = out, .offset = offsetof(verified, status)};
    if (status == CLS_OK)
        status = cls_verify(t->sampler, t->queue, &call, 0, NULL, NULL);
    return status == CLS_OK ? cls_selftest_read(t, out, sizeof *v, v) : status;
}

static cls_status verify(cls_selftest_run *t, int method, cl_mem logits, cl_mem out, char *rows)
{
    const int32_t kind = cls_selftest_draft_kind(method);
    cl_mem draft = NULL;
    verified v;
    cls_status status = CLS_OK;
    if (kind != CLS_DRAFT_NONE) {
        const size_t size = cls_selftest_distributions(kind, t->dtype, rows);
        status = cls_selftest_buffer(t, size, rows, &draft);
    }
    if (status == CLS_OK)
        status = run_method(t, method, logits, draft, out, &v);
    release(&draft, 1);
    for (uint32_t i = 0; i < SELFTEST_REQUESTS && status == CLS_OK; i++)
        check_request(t, method, i, &v);
    return status;
}

cls_status cls_selftest_verify(cls_selftest_run *t)
{
    const size_t size = SELFTEST_VOCAB * cls_dtype_size(t->dtype);
    cl_mem buffer[2] = {NULL, NULL};
    char *const rows = malloc(SELFTEST_VOCAB * sizeof(float) * SELFTEST_ROWS);
    if (rows == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for the self-test");
    for (uint32_t i = 0; i < SELFTEST_ROWS; i++)
        cls_selftest_row(
            cls_selftest_draft_seed(i / (SELFTEST_DRAFTS + 1), i % (SELFTEST_DRAFTS + 1)), ROW_TEXT,
            t->dtype, rows + i * size);
    cls_status status = cls_selftest_buffer(t, size * SELFTEST_ROWS, rows, &buffer[0]);
    if (status == CLS_OK)
        status = cls_selftest_buffer(t, sizeof(verified), NULL, &buffer[1]);
    for (int method = 0; method < SELFTEST_METHODS && status == CLS_OK; method++)
        status = verify(t, method, buffer[0], buffer[1], rows);
    release(buffer, 2);
    free(rows);
    return status;
}
