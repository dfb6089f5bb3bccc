/* SPDX-License-Identifier: MIT */
/* The calls of a soak test that wait for their results. */
#include "soak.h"

#include <stdio.h>
#include <string.h>

#include "brute.h"
#include "drafts.h"

enum { MOST = 3, DRAFTS = 4 }; /* the most requests of a verification, and drafts of a request */

static cls_buffer put(soak *s, cl_mem buffer, const void *data, size_t size)
{
    soak_require_cl(s,
                    clEnqueueWriteBuffer(s->queue, buffer, CL_TRUE, 0, size, data, 0, NULL, NULL));
    return (cls_buffer){.buffer = buffer};
}

static void get(soak *s, void *data, size_t size)
{
    soak_require_cl(s,
                    clEnqueueReadBuffer(s->queue, s->other, CL_TRUE, 0, size, data, 0, NULL, NULL));
}

/* Chooses some of the requests and returns their number. plain: only without an adaptive state. */
static uint32_t choose(soak *s, uint32_t most, int plain, int32_t *slots)
{
    const uint32_t shift = rng_below(&s->r, SOAK_SLOTS), want = 1 + rng_below(&s->r, most);
    uint32_t n = 0;
    for (uint32_t i = 0; i < SOAK_SLOTS && n < want; i++) {
        const uint32_t slot = (i + shift) % SOAK_SLOTS;
        const guest *const g = &s->guest[slot];
        if (g->b != NULL && g->made + DRAFTS + 1 < SOAK_LIFE &&
            !(plain && guest_has_adaptive_state(g)))
            slots[n++] = (int32_t)slot;
    }
    return n;
}

/* ---------------------------------------------------------------- verifications */

static drafts *make_drafts(soak *s, uint32_t n, const int32_t *slots)
{
    uint32_t lengths[MOST];
    const int method = (int)rng_below(&s->r, CLS_VERIFY_TYPICAL + 1);
    const int judged = method == CLS_VERIFY_STANDARD || method == CLS_VERIFY_BLOCK;
    for (uint32_t i = 0; i < n; i++)
        lengths[i] = rng_below(&s->r, DRAFTS + 1);
    drafts *const d = drafts_new(n, lengths, s->o.vocab, CLS_F32,
                                 judged ? (int)rng_below(&s->r, 3) : CLS_DRAFT_NONE, &s->r);
    d->method = method;
    d->disable_bonus = rng_below(&s->r, 4) == 0;
    d->requests->history = SOAK_HISTORY;
    for (uint32_t i = 0; i < n; i++) {
        const guest *const g = &s->guest[slots[i]];
        d->slots[i] = slots[i];
        batch_row(d->requests, i, ROW_NORMAL1, 0);
        request_take(d->requests, i, g->b, 0);
    }
    for (uint32_t row = 0; row < d->rows->rows; row++)
        batch_row(d->rows, row,
                  (row_kind)rng_below(&s->r, rng_below(&s->r, 20) ? ROW_GOOD : ROW_KINDS),
                  rng_bits(&s->r));
    drafts_choose(d, &s->r);
    drafts_reference(d);
    return d;
}

static void compare_drafts(soak *s, const drafts *d, const int32_t *result)
{
    const uint32_t width = d->most + 1;
    const int32_t *const accepted = result + d->n * width, *const emitted = accepted + d->n,
                         *const status = emitted + d->n;
    for (uint32_t i = 0; i < d->n; i++) {
        const cls_host_verified *const h = &d->host[i];
        int same = accepted[i] == h->accepted && emitted[i] == h->emitted && status[i] == h->status;
        for (uint32_t k = 0; k < width; k++)
            same &= result[i * width + k] == h->tokens[k];
        soak_require(
            s, same || !s->computes,
            "a verification accepted %d, emitted %d (first %d), status %d; it must be %d, %d "
            "(%d), %d: %s",
            accepted[i], emitted[i], result[i * width], status[i], h->accepted, h->emitted,
            h->tokens[0], h->status, drafts_words(d, i));
        for (uint32_t k = 0; k < width; k++)
            soak_note(s, s->computes ? result[i * width + k] : h->tokens[k], h->status);
    }
}

void soak_verify(soak *s)
{
    int32_t slots[MOST], result[MOST * (DRAFTS + 4)];
    cls_verify_call call;
    soak_settle(s);
    const uint32_t n = choose(s, MOST, 0, slots);
    if (n == 0)
        return;
    drafts *const d = make_drafts(s, n, slots);
    const uint32_t width = d->most + 1;
    cls_verify_call_init(&call);
    call.requests = n;
    call.method = d->method;
    call.row_offsets = d->cu;
    call.logits.values.buffer = put(s, s->input, d->rows->data, d->rows->data_size).buffer;
    call.logits.values.offset = d->rows->offset;
    call.logits.row_stride = d->rows->stride;
    call.slots.host = d->slots;
    call.draft_ids.host = d->ids;
    call.draft_kind = d->total > 0 ? d->kind : CLS_DRAFT_NONE;
    if (call.draft_kind != CLS_DRAFT_NONE)
        call.draft = (cls_buffer){.buffer = put(s, s->biases, d->q->data, d->q->data_size).buffer,
                                  .offset = d->q->offset};
    call.draft_stride = d->q->stride;
    call.disable_bonus = d->disable_bonus;
    call.tokens = (cls_buffer){.buffer = s->other};
    call.accepted = (cls_buffer){.buffer = s->other, .offset = n * width * sizeof(int32_t)};
    call.emitted = (cls_buffer){.buffer = s->other, .offset = n * (width + 1) * sizeof(int32_t)};
    call.status = (cls_buffer){.buffer = s->other, .offset = n * (width + 2) * sizeof(int32_t)};
    soak_retry(s, cls_verify(s->sampler, s->queue, &call, 0, NULL, NULL));
    get(s, result, n * (width + 3) * sizeof *result);
    compare_drafts(s, d, result);
    drafts_accept(d);
    for (uint32_t i = 0; i < n; i++) {
        for (int32_t k = 0; k < d->host[i].emitted; k++)
            guest_push(s, &s->guest[slots[i]], d->host[i].tokens[k], &d->requests->adaptive[i]);
        s->n.accepted += (uint64_t)d->host[i].accepted;
    }
    s->n.verified++;
    s->n.drafts += d->total;
    drafts_free(d);
}

/* ----------------------------------------------------------------------- scores */

void soak_score(soak *s)
{
    enum { TOP = 3, GIVEN = 2 };
    flight *const f = &s->flight[0];
    struct {
        int32_t given[SOAK_ROWS][GIVEN], ranks[SOAK_ROWS][GIVEN], top[SOAK_ROWS][TOP];
        float given_logprobs[SOAK_ROWS][GIVEN], top_logprobs[SOAK_ROWS][TOP];
    } x;
    cls_logprobs_call call;
    soak_settle(s);
    const uint32_t n = 1 + rng_below(&s->r, SOAK_ROWS);
    flight_fill(s, f, n);
    memset(&x, 0, sizeof x);
    for (uint32_t row = 0; row < n; row++)
        for (uint32_t i = 0; i < GIVEN; i++)
            x.given[row][i] = (int32_t)rng_below(&s->r, s->o.vocab);
#define AT(field) \
    ((cls_buffer){.buffer = s->other, \
                  .offset = (uint64_t)((const char *)x.field - (const char *)&x)})
    cls_logprobs_call_init(&call);
    call.rows = n;
    call.top.count = TOP;
    call.given.count = GIVEN;
    call.logits.values.buffer =
        put(s, s->input, f->rows->data, n * s->o.vocab * sizeof(float)).buffer;
    put(s, s->other, &x, sizeof x);
    call.given.ids = AT(given);
    call.given.ranks = AT(ranks);
    call.given.logprobs = AT(given_logprobs);
    call.top.ids = AT(top);
    call.top.logprobs = AT(top_logprobs);
#undef AT
    soak_retry(s, cls_logprobs(s->sampler, s->queue, &call, 0, NULL, NULL));
    get(s, &x, sizeof x);
    for (uint32_t row = 0; row < n && s->computes; row++) {
        brute all;
        brute_make(&all, f->rows->values + (size_t)row * s->o.vocab, s->o.vocab, NULL);
        soak_require(s, brute_top(&all, x.top[row], x.top_logprobs[row], TOP) == TOP,
                     "row %u: another list of likeliest tokens", row);
        soak_require(
            s, brute_given(&all, x.given[row], x.given_logprobs[row], x.ranks[row], GIVEN) == GIVEN,
            "row %u: other ranks or log-probabilities of given tokens", row);
        brute_free(&all);
    }
    s->n.scored++;
}
