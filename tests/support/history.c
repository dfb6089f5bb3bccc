/* SPDX-License-Identifier: MIT */
#include "history.h"
#include "oracle.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- brute force */

/* Returns the i-th most recent token. */
int32_t recent(const request *q, uint32_t i) { return q->text[q->n - 1 - i]; }

static int is_masked(const world *w, uint32_t row, uint32_t id)
{
    return w->mask != NULL && !(w->words[row][id / 32] >> (id % 32) & 1u);
}

/* Computes w->amount and w->banned for a row. */
void world_expect(const world *w, uint32_t row)
{
    const request *const q = &w->row[row];
    const oracle_story s = {.id = q->text,
                            .is_output = q->is_output,
                            .n = q->n,
                            .outputs = q->outputs,
                            .first = q->n > w->history ? q->n - w->history : 0};
    oracle_effect *const of = malloc(w->vocab * sizeof *of);
    ck_assert(of != NULL);
    oracle_effects_of(&q->p, w->vocab, &s, of);
    for (uint32_t id = 0; id < w->vocab; id++) {
        w->amount[id] = (float)oracle_dry_amount(&q->p, of[id].dry);
        w->banned[id] = of[id].banned ? 1 : of[id].unlisted ? 2 : 0;
    }
    free(of);
}

/* Returns the greedy token, or -1. */
int32_t world_best(const world *w, uint32_t row)
{
    const request *const q = &w->row[row];
    int32_t token = -1;
    float most = -INFINITY;
    for (uint32_t id = 0; id < w->vocab; id++) {
        float x = w->x[row][id];
        double bias = 0.0;
        for (uint32_t i = 0; i < q->p.logit_bias.count; i++)
            bias += q->bias[i].id == (int32_t)id ? (double)q->bias[i].bias : 0.0;
        if (w->banned[id] || is_masked(w, row, id))
            continue;
        x = x + (float)bias;
        x = fmaxf(-FLT_MAX, fminf(x - w->amount[id], FLT_MAX));
        if (x > most) {
            most = x;
            token = (int32_t)id;
        }
    }
    return token;
}

/* Computes the reference's token and status if no prompt follows output. */
int world_reference(const world *w, uint32_t row, int32_t *token, int32_t *status)
{
    const request *const q = &w->row[row];
    cls_host_row h = host_row(w->x[row], w->vocab, &q->p);
    h.mask = w->mask != NULL ? w->words[row] : NULL;
    while (h.prompt_count < q->n && !q->is_output[h.prompt_count])
        h.prompt_count++;
    h.output_count = q->n - h.prompt_count;
    h.prompt = q->text;
    h.output = q->text + h.prompt_count;
    h.max_history = w->history;
    h.position = q->position + q->outputs;
    if (h.output_count != q->outputs)
        return 0;
    const cls_host_result result = host_result(&h);
    *token = result.token;
    *status = result.status;
    return 1;
}

/* Returns whether world_best() considers everything that decides the token. */
int world_is_simple(const request *q)
{
    return q->p.temperature == 0.0f && q->p.repetition_penalty == 1.0f;
}

/* ------------------------------------------------------------------- requests */

static int32_t some_id(const world *w, rng *r)
{
    /* The alphabet is spread over the vocabulary. */
    return (int32_t)(rng_below(r, w->alphabet) * (w->vocab / w->alphabet));
}

static uint32_t sequences_random(const world *w, cls_ids *s, int32_t ids[][LONGEST],
                                 uint32_t longest, rng *r)
{
    const uint32_t n = rng_below(r, SEQUENCES + 1);
    for (uint32_t i = 0; i < n; i++) {
        s[i].ids = ids[i];
        s[i].count = 1 + rng_below(r, longest);
        for (uint32_t k = 0; k < s[i].count; k++)
            ids[i][k] = some_id(w, r);
    }
    return n;
}

void request_params(const world *w, request *q, rng *r)
{
    static const float bases[] = {1.75f, 1.75f, 1.0f, 1.05f, 2.0f, 1e9f, 0.5f},
                       multipliers[] = {0.8f, 1.0f, 0.0f, -0.5f, 1e-3f, 1e30f};
    cls_params *const p = &q->p;
    cls_params_init(p);
    p->temperature = rng_below(r, 3) ? 0.0f : 0.8f;
    p->top_k = rng_below(r, 2) ? 0 : 8;
    p->top_p = rng_below(r, 2) ? 1.0f : 0.9f;
    p->position = q->position;
    p->seed = rng_bits(r);
    if (w->keep != CLS_COUNTS_NONE && rng_below(r, 4) == 0) {
        p->repetition_penalty = 1.25f;
        p->presence_penalty = 0.5f;
    }
    if (w->history != 0 && rng_below(r, 4)) {
        p->dry_multiplier = multipliers[rng_below(r, 6)];
        p->dry_base = bases[rng_below(r, 7)];
        p->dry_allowed_length = rng_below(r, 5);
        p->dry_window = rng_below(r, 3) ? 0 : 1 + rng_below(r, w->history);
        if (rng_below(r, 2))
            p->dry_breakers.count =
                sequences_random(w, q->breakers, q->sequence_ids, rng_below(r, 3) ? LONGEST : 1, r);
        p->dry_breakers.sequences = p->dry_breakers.count ? q->breakers : NULL;
    }
    if (w->history != 0 && rng_below(r, 3) == 0)
        p->no_repeat_ngram = rng_below(r, 2) ? 1 + rng_below(r, 4) : 5 + rng_below(r, 40);
    if (p->no_repeat_ngram != 0) {
        p->ngram_window = rng_below(r, 2) ? 0 : 1 + rng_below(r, w->history);
        p->ngram_output_only = rng_below(r, 3) == 0;
        p->ngram_exempt_ids.count = rng_below(r, 2) ? 0 : rng_below(r, IDS + 1);
        for (uint32_t i = 0; i < p->ngram_exempt_ids.count; i++)
            q->exempt[i] = some_id(w, r);
        p->ngram_exempt_ids.ids = q->exempt;
    }
    if (rng_below(r, 3) == 0) {
        const uint32_t longest = w->history + 1 < LONGEST ? w->history + 1 : LONGEST;
        p->bad_words.count =
            sequences_random(w, q->bad_words, q->sequence_ids + SEQUENCES, longest, r);
        p->bad_words.sequences = p->bad_words.count ? q->bad_words : NULL;
    }
    if (rng_below(r, 3) == 0) {
        p->stop_ids.count = rng_below(r, 4);
        for (uint32_t i = 0; i < p->stop_ids.count; i++)
            q->stop[i] = (int32_t)rng_below(r, w->vocab);
        p->stop_ids.ids = p->stop_ids.count ? q->stop : NULL;
        p->min_tokens = q->outputs + rng_below(r, 20);
    }
    if (rng_below(r, 5) == 0) {
        p->only_allowed = (int32_t)rng_below(r, 2);
        p->allowed_ids.count = p->only_allowed && rng_below(r, 8) == 0 ? 0 : 1 + rng_below(r, IDS);
        for (uint32_t i = 0; i < p->allowed_ids.count; i++)
            q->allowed[i] = rng_below(r, 2) ? some_id(w, r) : (int32_t)rng_below(r, w->vocab);
        if (p->stop_ids.count != 0 && rng_below(r, 3) == 0) /* stop ids only */
            for (uint32_t i = 0; i < p->allowed_ids.count; i++)
                q->allowed[i] = q->stop[rng_below(r, p->stop_ids.count)];
        p->allowed_ids.ids = q->allowed;
    }
    if (rng_below(r, 3) == 0) {
        p->logit_bias.count = 1 + rng_below(r, IDS);
        for (uint32_t i = 0; i < p->logit_bias.count; i++)
            q->bias[i] =
                (cls_logit_bias){rng_below(r, 2) ? some_id(w, r) : (int32_t)rng_below(r, w->vocab),
                                 (float)rng_below(r, 64) / 16.0f};
        p->logit_bias.biases = q->bias;
    }
}

void request_add(request *q, int32_t id, int is_output, const world *w)
{
    ck_assert(q->n < w->room);
    q->text[q->n] = id;
    q->is_output[q->n++] = (unsigned char)is_output;
    q->outputs += (uint32_t)is_output;
}

/* Appends tokens that repeat by chance, always, in periods, or as copies of earlier tokens. */
void request_extend(const world *w, request *q, uint32_t n, uint32_t kind, int is_output, rng *r)
{
    const uint32_t period = 1 + rng_below(r, 12);
    for (uint32_t i = 0; i < n; i++) {
        int32_t id = some_id(w, r);
        if (kind == 1 && q->n >= 1)
            id = recent(q, 0);
        if (kind == 2 && q->n >= period && rng_below(r, 50))
            id = recent(q, period - 1);
        if (kind == 3 && q->n > 40 && rng_below(r, 20))
            id = recent(q, 20 + q->n / 7 % 20);
        request_add(q, id, is_output, w);
    }
}

void request_copy(request *q, const request *from)
{
    int32_t *const text = q->text;
    unsigned char *const is_output = q->is_output;
    *q = *from;
    q->text = text;
    q->is_output = is_output;
    memcpy(text, from->text, q->n * sizeof *text);
    memcpy(is_output, from->is_output, q->n);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        q->breakers[i].ids = q->sequence_ids[i];
        q->bad_words[i].ids = q->sequence_ids[SEQUENCES + i];
    }
    q->p.dry_breakers.sequences = q->p.dry_breakers.count ? q->breakers : NULL;
    q->p.bad_words.sequences = q->bad_words;
    q->p.stop_ids.ids = q->stop;
    q->p.allowed_ids.ids = q->allowed;
    q->p.ngram_exempt_ids.ids = q->exempt;
    q->p.logit_bias.biases = q->bias;
}
