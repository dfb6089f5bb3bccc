/* SPDX-License-Identifier: MIT */
/* Makes draft tokens: the tokens that followed the same n-gram earlier in the text, or those that
 * the first layers of the model draw. The model evaluates all drafts in one step, and cls_verify()
 * decides how many are accepted. */
#include <stdlib.h>
#include <string.h>

#include "llama.h"

enum { LONGEST = 3 }; /* tokens of the longest n-gram */

void drafts_open(drafts *d, model *m, sampling *s, const options *o)
{
    const size_t streams = o->streams, all = streams * o->drafts;
    *d = (drafts){
        .m = m, .s = s, .from = o->drafts_from, .most = o->drafts, .layers = o->draft_layers};
    d->verify = o->verify;
    if (d->most == 0)
        return;
    d->n = allocate(streams, sizeof *d->n);
    d->cu = allocate(streams + 1, sizeof *d->cu);
    for (uint32_t i = 0; i <= streams; i++)
        d->cu[i] = (int32_t)(i * (d->most + 1));
    d->slots = allocate(streams, sizeof *d->slots);
    d->positions = allocate(streams, sizeof *d->positions);
    d->device_ids = device_buffer(m->d, all * sizeof(int32_t), NULL);
    d->drawn = device_buffer(m->d, streams * sizeof(int32_t), NULL);
    for (uint32_t k = 0; k < d->most; k++)
        d->rows[k] = allocate(ROW_FIELDS * (size_t)m->batch, sizeof *d->rows[k]);
    if (d->from == BY_LAYERS &&
        (d->verify == CLS_VERIFY_STANDARD || d->verify == CLS_VERIFY_BLOCK)) {
        d->probs = device_buffer(m->d, all * m->c.vocab * sizeof(float), NULL);
        d->drawn_probs = device_buffer(m->d, streams * m->c.vocab * sizeof(float), NULL);
    }
}

void drafts_close(drafts *d)
{
    if (d->most == 0)
        return;
    if (d->probs != NULL) {
        clReleaseMemObject(d->probs);
        clReleaseMemObject(d->drawn_probs);
    }
    clReleaseMemObject(d->drawn);
    clReleaseMemObject(d->device_ids);
    for (uint32_t k = 0; k < d->most; k++)
        free(d->rows[k]);
    free(d->positions);
    free(d->slots);
    free(d->cu);
    free(d->n);
}

/* ------------------------------------------------------------------ look-up */

/* Looks up where the last tokens of each request occurred before. The model embeds all drafts, so
 * that a request without a match gets some token. */
static void look_up(drafts *d, request *const *requests, uint32_t n)
{
    cls_draft_call call;
    cls_draft_call_init(&call);
    for (uint32_t i = 0; i < n; i++)
        d->slots[i] = (int32_t)requests[i]->slot;
    call.requests = n;
    call.k = d->most;
    call.min_n = 1;
    call.max_n = LONGEST;
    call.fill = 0;
    call.slots.host = d->slots;
    call.draft_ids.buffer = d->device_ids;
    must(cls_draft(d->s->sampler, d->m->d->queue, &call, 0, NULL, NULL), "drafts");
}

/* ------------------------------------------------------------- fewer layers */

/* Copies what was drawn for all requests to entry k of their drafts. */
static void put(const drafts *d, cl_mem from, cl_mem to, size_t size, uint32_t k, uint32_t n)
{
    must_cl(clEnqueueCopyBufferRect(d->m->d->queue, from, to, (size_t[]){0, 0, 0},
                                    (size_t[]){k * size, 0, 0}, (size_t[]){size, n, 1}, size, 0,
                                    d->most * size, 0, 0, NULL, NULL),
            "clEnqueueCopyBufferRect");
}

/* Draws draft k of each request that needs more than k. It uses the parameters of the request and
 * the random number of the same position in the verification, which makes equal tokens likely. */
static void draw(drafts *d, request *const *requests, uint32_t n, uint32_t k, cl_event *uploaded)
{
    const uint32_t batch = d->m->batch;
    int32_t *rows = d->rows[k];
    uint32_t n_rows = 0;
    cls_step step;
    cls_outputs outputs;
    for (uint32_t i = 0; i < n; i++) {
        const request *r = requests[i];
        const uint32_t last = r->n_prompt + r->n_output - 1;
        const bool wanted = k < d->n[i];
        d->slots[i] = wanted ? (int32_t)r->slot : -1;
        d->positions[i] = (int32_t)(r->params.position + r->n_output + k);
        rows[ROW_PICK * batch + i] = wanted ? (int32_t)n_rows : 0;
        if (!wanted)
            continue;
        rows[ROW_TOKEN * batch + n_rows] = k == 0 ? r->tokens[last] : drafts_token(d, i, k - 1);
        rows[ROW_SLOT * batch + n_rows] = (int32_t)r->slot;
        rows[ROW_POSITION * batch + n_rows++] = (int32_t)(last + k);
    }
    model_forward(d->m, rows, n_rows, d->layers, d->device_ids, uploaded);
    if (!sampling_logits(d->s, rows, n))
        die("drafts: %s", cls_error_message());
    cls_step_init(&step);
    cls_outputs_init(&outputs);
    step.outputs = &outputs;
    step.rows = n;
    step.logits.values.buffer = d->s->logits;
    step.logits.dtype = CLS_F32;
    step.slots.host = d->slots;
    step.positions.host = d->positions;
    step.defer_accept = 1;
    step.tokens.buffer = d->drawn;
    outputs.probs.buffer = d->drawn_probs;
    must(vocabulary_sample(d->s, &step, NULL), "drafts");
    put(d, d->drawn, d->device_ids, sizeof(int32_t), k, n);
    if (d->probs != NULL)
        put(d, d->drawn_probs, d->probs, d->m->c.vocab * sizeof(float), k, n);
}

static void draw_all(drafts *d, request *const *requests, uint32_t n)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < n; i++)
        most = d->n[i] > most ? d->n[i] : most;
    for (uint32_t k = 0; k < most; k++) {
        cl_event uploaded;
        draw(d, requests, n, k, &uploaded);
        clReleaseEvent(uploaded);
    }
}

/* --------------------------------------------------------------------- both */

void drafts_propose(drafts *d, request *const *requests, uint32_t n, cl_event *begun)
{
    must_cl(clEnqueueFillBuffer(d->m->d->queue, d->device_ids, &(cl_int){-1}, sizeof(cl_int), 0,
                                (size_t)d->s->most * d->most * sizeof(int32_t), 0, NULL, begun),
            "clEnqueueFillBuffer");
    memset(d->n, 0, d->s->most * sizeof *d->n);
    for (uint32_t i = 0; i < n; i++) { /* the last token of a text cannot be a draft */
        const uint32_t left = requests[i]->most - requests[i]->n_output - 1;
        d->n[i] = left < d->most ? left : d->most;
    }
    if (d->from == BY_LAYERS)
        draw_all(d, requests, n);
    else if (n > 0)
        look_up(d, requests, n);
}

int32_t drafts_token(const drafts *d, uint32_t i, uint32_t k)
{
    return -1 - (int32_t)(i * d->most + k);
}

bool drafts_verify(drafts *d, const int32_t *slots, uint32_t n, cl_event *done, uint64_t *ticket)
{
    cls_verify_call call;
    cls_verify_call_init(&call);
    call.requests = n;
    call.method = d->verify;
    call.row_offsets = d->cu;
    call.slots.host = slots;
    call.draft_ids.device.buffer = d->device_ids;
    if (d->probs != NULL) {
        call.draft_kind = CLS_DRAFT_PROBS;
        call.draft.buffer = d->probs;
    }
    return sampling_verify(d->s, &call, done, ticket);
}
