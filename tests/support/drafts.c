/* SPDX-License-Identifier: MIT */
#include "drafts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t drafts_count(const drafts *d, uint32_t i)
{
    return (uint32_t)(d->cu[i + 1] - d->cu[i] - 1);
}
uint32_t drafts_first(const drafts *d, uint32_t i) { return (uint32_t)d->cu[i] - i; }

drafts *drafts_new(uint32_t n, const uint32_t *lengths, uint32_t vocab, int dtype, int kind, rng *r)
{
    drafts *const d = must_calloc(1, sizeof *d);
    d->n = n;
    d->kind = kind;
    d->cu = must_calloc(n + 1, sizeof *d->cu);
    for (uint32_t i = 0; i < n; i++) {
        d->cu[i + 1] = d->cu[i] + 1 + (int32_t)lengths[i];
        d->most = lengths[i] > d->most ? lengths[i] : d->most;
    }
    d->total = (uint32_t)d->cu[n] - n;
    d->ids = must_calloc(d->total, sizeof *d->ids);
    d->slots = must_calloc(n, sizeof *d->slots);
    d->host = must_calloc(n, sizeof *d->host);
    d->requests = batch_new(n, vocab, dtype, 0, 0);
    d->rows = batch_new((uint32_t)d->cu[n], vocab, dtype, vocab + rng_below(r, 9),
                        dtype_size(dtype) * rng_below(r, 9));
    const int q_type = kind == CLS_DRAFT_LOGITS ? dtype : CLS_F32;
    d->q = batch_new(d->total ? d->total : 1, vocab, q_type, vocab + rng_below(r, 9),
                     dtype_size(q_type) * rng_below(r, 9));
    d->epsilon = 0.09f;
    d->delta = 0.3f;
    for (uint32_t i = 0; i < n; i++)
        d->slots[i] = (int32_t)i;
    return d;
}

void drafts_free(drafts *d)
{
    batch_free(d->requests);
    batch_free(d->rows);
    batch_free(d->q);
    free(d->cu);
    free(d->ids);
    free(d->parents);
    free(d->slots);
    free(d->positions);
    free(d->draws);
    free(d->host);
    free(d->logprobs[0]);
    free(d->logprobs[1]);
    free(d->token_status);
    free(d->kept_counts);
    free(d->kept_ids);
    free(d);
}

void drafts_values(batch *b, uint32_t row, const float *values)
{
    const size_t size = dtype_size(b->dtype);
    for (uint32_t i = 0; i < b->vocab; i++) {
        unsigned char *const at = b->data + b->offset + ((size_t)row * b->stride + i) * size;
        dtype_encode(b->dtype, values[i], at);
        b->values[(size_t)row * b->vocab + i] = dtype_decode(b->dtype, at);
    }
}

/* -------------------------------------------------------------- the reference */

/* Returns the reference's input for the request's first row, without mask and bias. */
static one_row row_of(const drafts *d, uint32_t i)
{
    one_row h = batch_host_row(d->requests, i);
    h.logits = batch_host_row(d->rows, (uint32_t)d->cu[i]).logits;
    h.mask = h.bias = NULL;
    h.draw = d->draws ? (uint32_t)d->draws[i] : 0;
    if (d->positions)
        h.position = (uint32_t)d->positions[i];
    return h;
}

void drafts_sample(const drafts *d, uint32_t i, uint32_t row, const int32_t *path, uint32_t n,
                   one_result *result)
{
    const one_row at = batch_host_row(d->rows, (uint32_t)d->cu[i] + row);
    one_row h = row_of(d, i);
    cls_params p = *h.params;
    int32_t *const output = must_calloc(h.output_count + n, sizeof *output);
    if (h.output_count)
        memcpy(output, h.output, h.output_count * sizeof *output);
    if (n)
        memcpy(output + h.output_count, path, n * sizeof *output);
    h.logits = at.logits;
    h.mask = at.mask;
    h.mask_kind = at.mask_kind;
    h.mask_width = at.mask_width;
    h.bias = at.bias;
    h.bias_dtype = at.bias_dtype;
    h.bias_factor = at.bias_factor;
    h.output = output;
    h.output_count += n;
    h.position += n;
    n = n < h.forced_count ? n : h.forced_count;
    h.forced_ids += h.forced_count ? n : 0;
    h.forced_count -= n;
    h.params = &p;
    memset(result, 0, sizeof *result);
    must(one_sample(&h, result));
    free(output);
}

static int allows(const one_row *row, uint32_t id)
{
    const unsigned char *const bytes = row->mask;
    if (row->mask_kind == CLS_MASK_BOOL)
        return id < row->mask_width && bytes[id];
    return id < row->mask_width * 32 && (bytes[id / 8] >> id % 8 & 1);
}

/* Expands the masks of a request's rows to one byte per token. */
static unsigned char *masks_of(const drafts *d, uint32_t i)
{
    const uint32_t vocab = d->rows->vocab, n = drafts_count(d, i) + 1;
    unsigned char *const masks = must_calloc((size_t)n * vocab, 1);
    for (uint32_t row = 0; row < n; row++) {
        const one_row at = batch_host_row(d->rows, (uint32_t)d->cu[i] + row);
        for (uint32_t id = 0; id < vocab; id++)
            masks[(size_t)row * vocab + id] = at.mask == NULL || allows(&at, id);
    }
    return masks;
}

/* Copies the dense biases of a request's rows, in their type. Zero bytes are zero in each type. */
static unsigned char *biases_of(const drafts *d, uint32_t i)
{
    const uint32_t n = drafts_count(d, i) + 1;
    const size_t size = d->rows->vocab * dtype_size(d->rows->bias_dtype);
    unsigned char *const biases = must_calloc(n, size);
    for (uint32_t row = 0; row < n; row++) {
        const one_row at = batch_host_row(d->rows, (uint32_t)d->cu[i] + row);
        if (at.bias)
            memcpy(biases + row * size, at.bias, size);
    }
    return biases;
}

static void reference(drafts *d, uint32_t i)
{
    const batch *const q = d->q;
    const uint32_t n = drafts_count(d, i), first = drafts_first(d, i);
    unsigned char *masks = NULL, *biases = NULL;
    one_row h = row_of(d, i);
    one_drafts v;
    one_drafts_init(&v);
    if (d->rows->mask) {
        h.mask = masks = masks_of(d, i);
        h.mask_kind = CLS_MASK_BOOL;
        h.mask_width = d->rows->vocab;
    }
    if (d->rows->bias) {
        h.bias = biases = biases_of(d, i);
        h.bias_dtype = d->rows->bias_dtype;
        h.bias_factor = d->rows->bias_factor;
    }
    v.row = &h;
    v.draft_count = n;
    v.method = d->method;
    v.logits_stride = d->rows->stride;
    v.ids = d->ids + first;
    v.parents = d->parents ? d->parents + first : NULL;
    v.draft = d->kind != CLS_DRAFT_NONE
                  ? q->data + q->offset + (size_t)first * q->stride * dtype_size(q->dtype)
                  : NULL;
    v.draft_stride = q->stride;
    v.draft_kind = d->kind;
    v.disable_bonus = d->disable_bonus;
    v.epsilon = d->epsilon;
    v.delta = d->delta;
    if (d->width != 0) {
        const size_t at = (size_t)i * d->width;
        v.logprobs_raw = d->logprobs[CLS_LOGPROB_RAW] + at;
        v.logprobs_final = d->logprobs[CLS_LOGPROB_FINAL] + at;
        v.token_status = d->token_status + at;
        v.kept_counts = d->kept_counts + at;
        v.kept_ids = d->kept_ids + at * d->capacity;
        v.kept_capacity = d->capacity;
    }
    must(one_verify(&v, &d->host[i]));
    free(masks);
    free(biases);
}

void drafts_report(drafts *d, uint32_t width, uint32_t capacity)
{
    const size_t places = (size_t)d->n * width;
    d->width = width;
    d->capacity = capacity;
    for (int kind = 0; kind < 2; kind++)
        d->logprobs[kind] = must_calloc(places, sizeof(float));
    d->token_status = must_calloc(places, sizeof *d->token_status);
    d->kept_counts = must_calloc(places, sizeof *d->kept_counts);
    d->kept_ids = must_calloc(places * capacity, sizeof *d->kept_ids);
}

void drafts_reference(drafts *d)
{
    for (uint32_t i = 0; i < d->n; i++) {
        one_verified *const host = &d->host[i];
        memset(host, -1, sizeof *host);
        host->accepted = host->emitted = 0;
        host->status = CLS_ROW_SKIPPED;
        if (d->slots[i] >= 0)
            reference(d, i);
    }
}

int drafts_one_a_call(const drafts *d, uint32_t i)
{
    cls_slot slot;
    must(cls_slot_from_params(&d->requests->params[i], d->rows->vocab, &slot));
    return (slot.flags & (CLS_SLOT_STATEFUL | CLS_SLOT_DECAYS)) != 0;
}

void drafts_accept(drafts *d)
{
    for (uint32_t i = 0; i < d->n; i++) {
        tokens *const t = &d->requests->tokens[i];
        const one_verified *const host = &d->host[i];
        one_result result = {0};
        if (host->emitted == 0)
            continue;
        if (drafts_one_a_call(d, i)) {
            drafts_sample(d, i, 0, NULL, 0, &result);
            d->requests->adaptive[i] = result.adaptive;
        }
        t->output =
            realloc(t->output, (t->output_count + (uint32_t)host->emitted) * sizeof *t->output);
        ck_assert_msg(t->output != NULL, "out of memory");
        for (int32_t k = 0; k < host->emitted; k++)
            t->output[t->output_count++] = host->tokens[k];
        request_forced(t, (uint32_t)host->emitted);
    }
}

const char *drafts_words(const drafts *d, uint32_t i)
{
    static const char *const methods[] = {"match", "standard", "block", "typical"};
    static const char *const kinds[] = {"no", "probabilities as", "logits as"};
    static char words[3000];
    int n = snprintf(words, sizeof words,
                     "request %u of %u, slot %d, %s%s%s, %s draft distribution, drafts", i, d->n,
                     d->slots[i], methods[d->method], d->parents ? ", a tree" : "",
                     d->disable_bonus ? ", no bonus" : "", kinds[d->kind]);
    for (uint32_t k = 0; k < drafts_count(d, i) && n < 1000; k++)
        n += snprintf(words + n, sizeof words - (size_t)n, " %d", d->ids[drafts_first(d, i) + k]);
    snprintf(words + n, sizeof words - (size_t)n, "; rows of %s%s%s; %s",
             dtype_names[d->rows->dtype],
             d->rows->mask ? d->rows->mask_kind == CLS_MASK_BOOL ? ", bool masks" : ", packed masks"
                           : "",
             d->rows->bias ? ", biases" : "", batch_words(d->requests, i));
    return words;
}
