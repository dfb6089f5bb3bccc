/* SPDX-License-Identifier: MIT */
#include "verifier.h"

#include <stdlib.h>
#include <string.h>

enum { MARGIN = 16, CANARY = 0x5a5a5a5a };

static cl_mem ints_of(device *d, const int32_t *ints, uint32_t n)
{
    return buffer_of(d, (n ? n : 1) * sizeof *ints, n ? ints : NULL);
}

static void begin(verifier *v, cls_context *context)
{
    const batch *const b = v->of->requests;
    int infill = 0;
    cls_sampler_options o = sampler_options(b->vocab, v->slots);
    o.max_rows = v->of->rows->rows;
    o.counts = b->keep;
    o.max_history = b->history;
    o.dtypes = 1u << b->dtype;
    o.features = CLS_FEATURE_SHORTLIST | CLS_FEATURE_VERIFY | CLS_FEATURE_MASK | CLS_FEATURE_BIAS |
                 v->of->features;
    must(cls_sampler_create(context, &o, &v->sampler));
    v->begun = 1;
    for (uint32_t i = 0; i < v->of->n; i++) {
        if (b->params[i].infill && !infill++)
            must(cls_sampler_infill(v->sampler, &b->infill));
        b->adaptive[i] = (cls_adaptive_state){0};
        request_start(b, i, v->sampler, (uint32_t)v->of->slots[i]);
        v->begun = b->tokens[i].forced_count ? 2 : v->begun; /* forced in a second launch */
    }
}

/* All outputs are in one buffer, with margins between them. */
static cls_buffer output(verifier *v, size_t *at, size_t n)
{
    const cls_buffer b = {.buffer = v->output, .offset = (*at + MARGIN) * sizeof(int32_t)};
    *at += MARGIN + n;
    return b;
}

static size_t place_outputs(verifier *v)
{
    const uint32_t n = v->of->n;
    size_t at = 0;
    v->call.tokens = output(v, &at, n * (v->width + 1));
    v->call.accepted = output(v, &at, n);
    v->call.emitted = output(v, &at, n);
    v->call.nodes = output(v, &at, n * v->width);
    v->call.status = output(v, &at, n);
    v->call.counters = output(v, &at, v->slots * 3);
    v->call.latest = output(v, &at, v->slots);
    return at + MARGIN;
}

static void rows_of_call(verifier *v, int device_masks)
{
    const drafts *const of = v->of;
    const batch *const rows = of->rows, *const q = of->q;
    cls_verify_call *const call = &v->call;
    call->logits.dtype = rows->dtype;
    call->logits.values.buffer = buffer_of(v->d, rows->data_size, rows->data);
    call->logits.values.offset = rows->offset;
    call->logits.row_stride = rows->stride;
    if (of->kind != CLS_DRAFT_NONE && of->total > 0)
        call->draft =
            (cls_buffer){.buffer = buffer_of(v->d, q->data_size, q->data), .offset = q->offset};
    call->draft_stride = q->stride;
    if (rows->mask) {
        const size_t size =
            (size_t)rows->rows * rows->mask_width * (rows->mask_kind == CLS_MASK_PACKED ? 4 : 1);
        call->mask.words.buffer = device_masks ? buffer_of(v->d, size, rows->mask) : NULL;
        call->mask.host = device_masks ? NULL : rows->mask;
        call->mask.kind = rows->mask_kind;
        call->mask.width = rows->mask_width;
        call->mask.row_map.host = rows->mask_map;
    }
    if (rows->bias) {
        const size_t size = (size_t)rows->rows * rows->vocab * dtype_size(rows->bias_dtype);
        call->bias.values.buffer = buffer_of(v->d, size, rows->bias);
        call->bias.dtype = rows->bias_dtype;
        call->bias.factor = rows->bias_factor;
        call->bias.row_map.host = rows->bias_map;
    }
}

void verifier_open(verifier *v, device *d, cls_context *context, drafts *of, int on_device,
                   uint32_t wide)
{
    const batch *const b = of->requests;
    memset(v, 0, sizeof *v);
    v->d = d;
    v->of = of;
    v->width = of->most + wide;
    v->slots = of->n + 2;
    begin(v, context);
    cls_verify_call_init(&v->call);
    rows_of_call(v, on_device);
    const size_t ints = place_outputs(v);
    int32_t *const canaries = must_calloc(ints, sizeof *canaries);
    for (size_t i = 0; i < ints; i++)
        canaries[i] = CANARY;
    memset(canaries + v->call.counters.offset / sizeof *canaries, 0,
           v->slots * 3 * sizeof *canaries);
    v->output = buffer_of(d, ints * sizeof *canaries, canaries);
    free(canaries);
    place_outputs(v);
    v->call.requests = of->n;
    v->call.max_drafts = wide ? v->width : 0;
    v->call.row_offsets = of->cu;
    v->call.draft_ids.device.buffer = on_device ? ints_of(d, of->ids, of->total) : NULL;
    v->tokens = must_calloc(ints, sizeof(int32_t));
    v->counted = must_calloc(v->slots * 3, sizeof(int32_t));
    v->last = must_calloc(v->slots, sizeof(int32_t));
    for (uint32_t i = 0; i < v->slots; i++)
        v->last[i] = CANARY;

    v->step = default_step(b->rows, buffer_of(d, b->data_size, b->data));
    v->step.logits.dtype = b->dtype;
    v->step.tokens.buffer = buffer_of(d, b->rows * sizeof(int32_t), NULL);
    v->step.status.buffer = buffer_of(d, b->rows * sizeof(int32_t), NULL);
}

void verifier_close(verifier *v)
{
    cls_sampler_destroy(v->sampler);
    release_buffers(v->call.logits.values.buffer, v->call.draft.buffer, v->call.mask.words.buffer,
                    v->call.bias.values.buffer, v->output, v->call.draft_ids.device.buffer,
                    v->step.logits.values.buffer, v->step.tokens.buffer, v->step.status.buffer);
    free(v->tokens);
    free(v->counted);
    free(v->last);
}

/* ------------------------------------------------------------------------- run */

static void upload_drafts(verifier *v)
{
    const drafts *const of = v->of;
    cls_verify_call *const call = &v->call;
    call->draft_ids.host = NULL;
    if (call->draft_ids.device.buffer == NULL)
        call->draft_ids.host = of->ids;
    else if (of->total > 0)
        buffer_write(v->d, call->draft_ids.device.buffer, (size_t)call->draft_ids.device.offset,
                     of->total * sizeof *of->ids, of->ids);
    if (call->draft.buffer)
        buffer_write(v->d, call->draft.buffer, 0, of->q->data_size, of->q->data);
    call->method = of->method;
    call->draft_kind = of->total > 0 ? of->kind : CLS_DRAFT_NONE;
    call->disable_bonus = of->disable_bonus;
    call->epsilon = of->epsilon;
    call->delta = of->delta;
    call->slots.host = of->slots;
    call->positions.host = of->positions;
    call->draws.host = of->draws;
    call->parents.host = of->parents;
}

static void read_outputs(verifier *v)
{
    const size_t ints = place_outputs(v);
    const cls_verify_call *const call = &v->call;
    int32_t *const all = v->tokens;
    buffer_read(v->d, v->output, ints * sizeof *all, all);
    v->accepted = all + call->accepted.offset / sizeof *all;
    v->emitted = all + call->emitted.offset / sizeof *all;
    v->nodes = all + call->nodes.offset / sizeof *all;
    v->status = all + call->status.offset / sizeof *all;
    v->counters = all + call->counters.offset / sizeof *all;
    v->latest = all + call->latest.offset / sizeof *all;
}

void verifier_run(verifier *v)
{
    upload_drafts(v);
    must(cls_verify(v->sampler, v->d->queue, &v->call, 0, NULL, NULL));
    v->launches = cls_sampler_launches(v->sampler) - v->begun;
    v->begun = 0;
    read_outputs(v);
}

/* ---------------------------------------------------------------------- compare */

static void same(verifier *v, uint32_t i, const char *where, const char *what, uint32_t at,
                 int32_t ours, int32_t host)
{
    if (ours == host)
        return;
    const one_verified *const h = &v->of->host[i];
    ck_abort_msg("%s: %s: %s %u is %d on the device, which accepted %d, emitted %d, status %d; it "
                 "must be %d (the "
                 "reference accepted %d, emitted %d, status %d)",
                 where, drafts_words(v->of, i), what, at, ours, v->accepted[i], v->emitted[i],
                 v->status[i], host, h->accepted, h->emitted, h->status);
}

static void equal_one(verifier *v, uint32_t i, const one_verified *host, const char *where)
{
    const int32_t *const ours =
        v->tokens + v->call.tokens.offset / sizeof *ours + i * (v->width + 1);
    same(v, i, where, "the status", 0, v->status[i], host->status);
    for (uint32_t k = 0; k <= v->width; k++)
        same(v, i, where, "token", k, ours[k], k <= CLS_MAX_DRAFTS ? host->tokens[k] : -1);
    for (uint32_t k = 0; k < v->width; k++)
        same(v, i, where, "node", k, v->nodes[i * v->width + k],
             k < CLS_MAX_DRAFTS ? host->nodes[k] : -1);
    same(v, i, where, "what was accepted,", 0, v->accepted[i], host->accepted);
    same(v, i, where, "what was emitted,", 0, v->emitted[i], host->emitted);
}

void verifier_equal(verifier *v, const char *where)
{
    const drafts *const of = v->of;
    const size_t ints = place_outputs(v);
    for (uint32_t i = 0; i < of->n; i++) {
        equal_one(v, i, &of->host[i], where);
        if (of->slots[i] < 0)
            continue;
        int32_t *const counted = v->counted + 3 * of->slots[i];
        if (of->host[i].status &
            CLS_ROW_SKIPPED) /* the request had stopped before, so no drafts are counted */
            continue;
        if (of->host[i].emitted > 0)
            v->last[of->slots[i]] = of->host[i].tokens[of->host[i].emitted - 1];
        counted[0] += (int32_t)drafts_count(of, i);
        counted[1] += of->host[i].accepted;
        counted[2] += of->host[i].emitted;
    }
    for (uint32_t i = 0; i < v->slots * 3; i++)
        ck_assert_msg(v->counters[i] == v->counted[i], "%s: counter %u of slot %u is %d, not %d",
                      where, i % 3, i / 3, v->counters[i], v->counted[i]);
    for (uint32_t i = 0; i < v->slots; i++)
        ck_assert_msg(v->latest[i] == v->last[i], "%s: the latest token of slot %u is %d, not %d",
                      where, i, v->latest[i], v->last[i]);
    const cls_buffer *const outputs[] = {&v->call.tokens, &v->call.accepted, &v->call.emitted,
                                         &v->call.nodes,  &v->call.status,   &v->call.counters,
                                         &v->call.latest};
    for (unsigned o = 0; o <= 7; o++) {
        const size_t end = o < 7 ? (size_t)outputs[o]->offset / sizeof(int32_t) : ints;
        for (size_t i = end - MARGIN; i < end; i++)
            ck_assert_msg(v->tokens[i] == CANARY, "%s: something was written beside output %u",
                          where, o);
    }
}

void verifier_step(verifier *v, const char *where)
{
    batch *const b = v->of->requests;
    batch_reference(b);
    v->step.slots.host = v->of->slots;
    must(cls_sample(v->sampler, v->d->queue, &v->step, 0, NULL, NULL));
    buffer_read(v->d, v->step.tokens.buffer, b->rows * sizeof(int32_t), b->token);
    buffer_read(v->d, v->step.status.buffer, b->rows * sizeof(int32_t), b->status);
    must(cls_sampler_trace(v->sampler, v->d->queue, b->device_trace, b->rows));
    batch_equal(b, where);
    for (uint32_t i = 0; i < b->rows; i++)
        batch_accept(b, i);
}
