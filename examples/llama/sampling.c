/* SPDX-License-Identifier: MIT */
/* Samples tokens from hidden states by clsample. */
#include <stdlib.h>

#include "llama.h"

/* Opens the last layer for as many rows as a batch has, however few are sampled: with another
 * number logits may round differently, and a text would depend on `streams`. */
static void open_head(sampling *s, bool half)
{
    cls_head_options head;
    s->weight = model_classifier(s->m, s->first, s->count, half);
    cls_head_options_init(&head);
    head.vocab = s->count;
    head.hidden = s->m->c.dim;
    head.max_rows = s->m->batch;
    head.dtype = half ? CLS_F16 : CLS_F32;
    head.weight.buffer = s->weight;
    must(cls_head_create(s->m->d->queue, &head, &s->head), "the last layer");
}

static size_t tokens_size(const sampling *s)
{
    return (size_t)s->most * (s->drafts + 1) * sizeof(int32_t);
}
static size_t out_size(const sampling *s) { return tokens_size(s) + 2 * s->most * sizeof(int32_t); }

void sampling_open(sampling *s, model *m, const options *o)
{
    const uint32_t vocab = m->c.vocab;
    cls_context_options context;
    cls_sampler_options sampler;
    s->m = m;
    s->most = o->streams;
    s->drafts = o->drafts;
    s->out = device_buffer(m->d, out_size(s), NULL);
    /* All 0: a valid id, in case the first row of a request has no token. */
    s->latest = device_buffer(m->d, m->slots * sizeof(int32_t), NULL);
    cls_context_options_init(&context);
    context.dtypes = 1u << CLS_F32;
    context.cache_dir = o->cache_dir;
    must(cls_context_create(m->d->context, m->d->id, &context, &s->context),
         "the kernels of clsample");
    cls_sampler_options_init(&sampler);
    sampler.late_compile = 1; /* requests have any parameters */
    sampler.vocab = vocab;
    sampler.max_rows = s->most * (s->drafts + 1);
    sampler.slot_count = m->slots;
    sampler.features =
        CLS_FEATURE_SHORTLIST | (s->drafts != 0 ? CLS_FEATURE_VERIFY | CLS_FEATURE_PROBS : 0u);
    if (o->drafts != 0 && o->drafts_from == BY_TEXT) /* long histories are multiples of 64 */
        sampler.max_history = m->c.context < 16384 ? m->c.context : m->c.context / 64 * 64;
    for (uint32_t i = 0; i < o->n_requests; i++)
        if (sampler.max_history < o->requests[i].params.penalty_window)
            sampler.max_history = o->requests[i].params.penalty_window;
    must(cls_sampler_create(s->context, &sampler, &s->sampler), "the sampler");
    vocabulary_open(s, o);
    s->logits = device_buffer(m->d, (size_t)m->batch * s->count * sizeof(float), NULL);
    open_head(s, o->half);
    /* One entry more than there are steps in flight. */
    must(cls_readback_create(s->context, out_size(s), o->ahead + 2, &s->readback), "the readback");
}

void sampling_close(sampling *s)
{
    cls_readback_destroy(s->readback);
    vocabulary_close(s);
    cls_sampler_destroy(s->sampler);
    cls_head_destroy(s->head);
    cls_context_destroy(s->context);
    clReleaseMemObject(s->weight);
    clReleaseMemObject(s->out);
    clReleaseMemObject(s->latest);
    clReleaseMemObject(s->logits);
}

void sampling_begin(sampling *s, const request *r)
{
    must(cls_slot_begin(
             s->sampler, r->slot, &r->params,
             &(cls_text){.struct_size = sizeof(cls_text), .prompt = {r->tokens, r->n_prompt}}),
         "a request");
}

bool sampling_logits(sampling *s, const int32_t *rows, uint32_t n)
{
    cls_head_call call;
    cls_head_call_init(&call);
    call.rows = n;
    call.hidden.buffer = s->m->normed;
    call.hidden_rows = s->m->batch;
    call.which.host = rows + (size_t)ROW_PICK * s->m->batch;
    call.logits.buffer = s->logits;
    const cls_status status = cls_head_logits(s->head, s->m->d->queue, &call, 0, NULL, NULL);
    if (status != CLS_BUSY)
        must(status, "the last layer");
    return status == CLS_OK;
}

static void read_out(sampling *s, uint64_t *ticket)
{
    must(cls_readback_start(s->readback, s->m->d->queue, &(cls_buffer){.buffer = s->out},
                            out_size(s), 0, NULL, ticket),
         "reading tokens");
}

bool sampling_start(sampling *s, const int32_t *slots, uint32_t n, cl_event *done, uint64_t *ticket)
{
    cls_step step;
    cls_outputs outputs;
    cls_step_init(&step);
    cls_outputs_init(&outputs);
    step.outputs = &outputs;
    step.rows = n;
    step.logits.values.buffer = s->logits;
    step.logits.dtype = CLS_F32;
    step.slots.host = slots;
    step.tokens = (cls_buffer){.buffer = s->out};
    step.status = (cls_buffer){.buffer = s->out, .offset = tokens_size(s)};
    /* The host learns of the end of a request some steps late. In these steps its row has no token;
     * the embedding then reads its last token again, and the result is not used. */
    outputs.latest.buffer = s->latest;
    const cls_status status = vocabulary_sample(s, &step, done);
    if (status == CLS_BUSY)
        return false;
    must(status, "a step");
    read_out(s, ticket);
    return true;
}

bool sampling_verify(sampling *s, cls_verify_call *call, cl_event *done, uint64_t *ticket)
{
    cls_status status = vocabulary_gather(s, call->requests * (s->drafts + 1), &call->logits);
    if (status == CLS_BUSY)
        return false;
    must(status, "the logits of a verification");
    call->max_drafts = s->drafts;
    call->tokens = (cls_buffer){.buffer = s->out};
    call->status = (cls_buffer){.buffer = s->out, .offset = tokens_size(s)};
    call->accepted =
        (cls_buffer){.buffer = s->out, .offset = tokens_size(s) + s->most * sizeof(int32_t)};
    status = cls_verify(s->sampler, s->m->d->queue, call, 0, NULL, done);
    if (status == CLS_BUSY)
        return false;
    must(status, "a verification");
    read_out(s, ticket);
    return true;
}

sampled sampling_wait(sampling *s, uint64_t ticket)
{
    const void *data;
    must(cls_readback_get(s->readback, ticket, 1, &data), "reading tokens");
    const int32_t *status = (const int32_t *)data + (size_t)s->most * (s->drafts + 1);
    return (sampled){data, status, status + s->most};
}
