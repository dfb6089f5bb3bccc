/* SPDX-License-Identifier: MIT */
/* Target: a step on the device against the reference. The input determines a batch of rows with
 * their requests and parameters. Every token, status, set and mass must be equal. */
#include "device.h"
#include "fuzz.h"

#include <math.h>
#include <string.h>

enum { STEPS = 3, MOST_ROWS = 4, MOST_VOCAB = 2600, HISTORY = 100 };

/* Fills a row with a few logits of arbitrary bits, repeated over the row or at some places. */
static void raw_logits(batch *b, uint32_t row, rng *r)
{
    float *const values = b->values + (size_t)row * b->vocab;
    float some[8];
    const uint32_t n = 1 + rng_below(r, 8), period = rng_below(r, 2) ? 1 : b->vocab / n + 1;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)rng_bits(r);
        memcpy(&some[i], &bits, sizeof bits);
    }
    for (uint32_t i = 0, at = rng_below(r, b->vocab); i < (period == 1 ? b->vocab : n);
         i++, at += period)
        values[at % b->vocab] = some[i % n];
    memcpy(b->data + b->offset + (size_t)row * b->stride * sizeof(float), values,
           b->vocab * sizeof(float));
}

/* Sets a parameter to any value that the library accepts. The last fields need a history or counts,
 * which not every sampler keeps. */
static void raw_parameter(const batch *b, uint32_t row, rng *r)
{
    cls_params *const p = &b->params[row];
    void *const fields[] = {&p->temperature,
                            &p->top_p,
                            &p->min_p,
                            &p->top_n_sigma,
                            &p->typical_p,
                            &p->xtc_probability,
                            &p->xtc_threshold,
                            &p->dynatemp_range,
                            &p->dynatemp_exponent,
                            &p->top_p_decay,
                            &p->top_p_min,
                            &p->mirostat_tau,
                            &p->mirostat_eta,
                            &p->adaptive_target,
                            &p->adaptive_decay,
                            &p->top_k,
                            &p->min_keep,
                            &p->position,
                            &p->min_tokens,
                            &p->max_tokens,
                            &p->top_p_reset_id,
                            &p->dry_base,
                            &p->dry_allowed_length,
                            &p->repetition_penalty,
                            &p->presence_penalty,
                            &p->frequency_penalty,
                            &p->dry_multiplier,
                            &p->no_repeat_ngram};
    enum { ALL = sizeof fields / sizeof *fields, HISTORY_NEEDS = 2, COUNTS_NEED = 3 };
    const int keeps_all = b->keep == CLS_COUNTS_ALL && b->history != 0;
    void *const field = fields[rng_below(r, keeps_all ? ALL : ALL - HISTORY_NEEDS - COUNTS_NEED)];
    const uint32_t bits = (uint32_t)rng_bits(r);
    uint32_t before;
    memcpy(&before, field, sizeof before);
    memcpy(field, &bits, sizeof bits);
    if (cls_params_check(p, b->vocab) != CLS_OK)
        memcpy(field, &before, sizeof before);
}

static batch *make_batch(rng *r)
{
    static const uint32_t edges[] = {1,  2,   31,   32,   33,   63,   64,
                                     65, 100, 1023, 1024, 1025, 2048, 2049};
    const uint32_t vocab = rng_below(r, 2) ? edges[rng_below(r, sizeof edges / sizeof *edges)]
                                           : 1 + rng_below(r, MOST_VOCAB);
    batch *const b = batch_new(1 + rng_below(r, MOST_ROWS), vocab, CLS_F32, vocab + rng_below(r, 9),
                               4 * rng_below(r, 3));
    b->history = rng_below(r, 3) ? HISTORY : 0;
    b->keep = (int)rng_below(r, 4) ? CLS_COUNTS_ALL : (int)rng_below(r, 2);
    b->biased = rng_below(r, 4) != 0;
    b->mask_kind = (int)rng_below(r, 2);
    for (uint32_t row = 0; row < b->rows; row++) {
        batch_row(b, row, (row_kind)rng_below(r, ROW_KINDS), rng_bits(r));
        if (rng_below(r, 3) == 0)
            raw_logits(b, row, r);
        params_random(&b->params[row], vocab, r);
        params_adaptive(&b->params[row], vocab, r);
    }
    return b;
}

/* Adds requests, masks and biases. They need many random numbers, so these come from a seed. */
static void add_requests(batch *b, rng *r)
{
    rng many = {rng_bits(r)};
    const uint32_t what = rng_below(r, 8);
    if (what & 1)
        batch_requests(b, &many);
    if (what & 2)
        batch_mask(b, &many, rng_below(r, 101), 0);
    if ((what & 4) && rng_below(r, 2))
        batch_bias(b, &many, (int)rng_below(r, 3));
    for (uint32_t row = 0; row < b->rows; row++)
        for (uint32_t n = rng_below(r, 4); n > 0; n--)
            raw_parameter(b, row, r);
}

/* Samples some tokens of each request. */
static void run(batch *b, int search)
{
    char where[32];
    client s;
    cls_device_info info = {.struct_size = sizeof info};
    must(cls_context_info(the_context(), &info));
    b->shortlist = info.shortlist;
    client_open(&s, b, the_device(), the_context(), 1);
    cls_sampler_force_search(s.sampler, search);
    for (uint32_t step = 0; step < STEPS; step++) {
        snprintf(where, sizeof where, "%stoken %u", search ? "by search, " : "", step);
        batch_reference(b);
        client_step(&s, s.d->queue, 0, 0, NULL, NULL);
        must_cl(clFinish(s.d->queue));
        client_tokens(&s, 0);
        must(cls_sampler_trace(s.sampler, s.d->queue, b->device_trace, b->rows));
        batch_equal(b, where);
        for (uint32_t row = 0; row < b->rows; row++) {
            if (b->token[row] < 0) /* the device's list may be shorter for infill */
                b->host[row].token = -1;
            batch_accept(b, row);
        }
    }
    client_close(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rng r = {1};
    rng_feed(&r, data, size);
    batch *const b = make_batch(&r);
    add_requests(b, &r);
    run(b, rng_below(&r, 3) == 0);
    batch_free(b);
    rng_feed(NULL, NULL, 0);
    return 0;
}
