/* SPDX-License-Identifier: MIT */
#include "script.h"

#include <math.h>
#include <stdlib.h>

#include "batch.h"

static rng rng_of(uint64_t seed, uint64_t number)
{
    rng r = {seed};
    r.state = rng_bits(&r) ^ number;
    r.state = rng_bits(&r);
    return r;
}

/* Makes random ids: a few frequent ones, and some invalid ones. */
static uint32_t random_ids(const script_world *w, rng *r, int32_t *ids, uint32_t most)
{
    const uint32_t n = rng_below(r, most + 1);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = rng_below(r, 40) == 0 ? (int32_t)w->o.vocab
                                       : (int32_t)rng_below(r, rng_below(r, 2) ? 12 : w->o.vocab);
    return n;
}

/* Sometimes turns on a thinking budget and a loop stop. */
static void make_ends(request *q, rng *r)
{
    cls_params *const p = &q->params;
    if (rng_below(r, 4) == 0) {
        p->thinking_start.count = rng_below(r, 3);
        p->thinking_ends.count = rng_below(r, 3);
        p->thinking_forced.count = 1 + rng_below(r, 3);
        p->thinking_budget = rng_below(r, 20);
        for (uint32_t i = 0; i < 3; i++)
            q->finish[i] = (int32_t)rng_below(r, 12);
        for (uint32_t i = 0; i < 2; i++) {
            q->start[i] = (int32_t)rng_below(r, 12);
            q->end[i][0] = (int32_t)rng_below(r, 12);
            q->end[i][1] = (int32_t)rng_below(r, 12);
            q->ends[i].count = 1 + rng_below(r, 2);
        }
    }
    if (rng_below(r, 8) == 0) {
        p->loop_repeats = 2 + rng_below(r, 2);
        p->loop_max = 1 + rng_below(r, 8);
    }
}

static void make_params(request *q, const script_world *w, rng *r)
{
    static const float repetitions[] = {1.0f, 1.2f, 0.6f},
                       amounts[] = {0.0f, 0.4f, 0.4f, 2.0f, -0.3f};
    static const float biases[] = {1.0f, -3.0f, -INFINITY, 2.5f};
    cls_params *const p = &q->params;
    cls_params_init(p);
    params_kind(p, rng_below(r, PARAMS_KINDS), w->o.vocab);
    p->stream = rng_bits(r);
    p->position = (uint32_t)rng_bits(r);
    p->seed = rng_bits(r);
    p->repetition_penalty = repetitions[rng_below(r, 3)];
    p->frequency_penalty = amounts[rng_below(r, 5)];
    p->presence_penalty = amounts[rng_below(r, 5)];
    p->penalty_scope = (int32_t)rng_below(r, 2);
    p->penalty_window = rng_below(r, 2) ? 0 : rng_below(r, w->o.max_history + 1);
    p->max_tokens = rng_below(r, 4) ? 0 : 1 + rng_below(r, SCRIPT_LIFE);
    p->stop_ids.count = rng_below(r, 3) ? 0 : rng_below(r, 4);
    p->logit_bias.count = rng_below(r, 2) ? 0 : rng_below(r, SCRIPT_LIST + 1);
    for (uint32_t i = 0; i < p->stop_ids.count; i++)
        q->stop[i] = (int32_t)rng_below(r, w->o.vocab);
    for (uint32_t i = 0; i < p->logit_bias.count; i++)
        q->bias[i] = (cls_logit_bias){(int32_t)rng_below(r, w->o.vocab), biases[rng_below(r, 4)]};
    make_ends(q, r);
}

/* Points the parameters to the request's lists, as q may have been copied. */
static cls_params with_lists(request *q)
{
    cls_params p = q->params;
    p.stop_ids.ids = p.stop_ids.count ? q->stop : NULL;
    p.logit_bias.biases = p.logit_bias.count ? q->bias : NULL;
    p.thinking_start.ids = p.thinking_start.count ? q->start : NULL;
    for (uint32_t i = 0; i < p.thinking_ends.count; i++)
        q->ends[i].ids = q->end[i];
    p.thinking_ends.sequences = p.thinking_ends.count ? q->ends : NULL;
    p.thinking_forced.ids = p.thinking_forced.count ? q->finish : NULL;
    return p;
}

static int by_time(const void *a, const void *b)
{
    const script_change *const x = a, *const y = b;
    return x->at != y->at ? (x->at > y->at) - (x->at < y->at)
                          : (x->number > y->number) - (x->number < y->number);
}

/* Chooses the request's number of samples and its changes. */
static void make_script(request *q, uint32_t number, rng *r)
{
    q->number = number;
    q->life = rng_below(r, 4) ? 1 + rng_below(r, SCRIPT_LIFE / 3) : 1 + rng_below(r, SCRIPT_LIFE);
    q->samples = q->next = 0;
    q->n_changes = rng_below(r, SCRIPT_CHANGES + 1);
    for (uint32_t i = 0; i < q->n_changes; i++)
        q->change[i] = (script_change){rng_below(r, q->life),
                                       (change_kind)rng_below(r, CHANGE_KINDS), rng_bits(r)};
    qsort(q->change, q->n_changes, sizeof *q->change, by_time);
}

void request_begin(request *q, const script_world *w, uint32_t number, cls_sampler *sampler,
                   uint32_t slot)
{
    int32_t prompt[SCRIPT_PROMPT], output[8];
    rng r = rng_of(w->seed, number);
    make_params(q, w, &r);
    make_script(q, number, &r);
    const uint32_t n_prompt = random_ids(w, &r, prompt, SCRIPT_PROMPT),
                   n_output = rng_below(&r, 4) ? 0 : random_ids(w, &r, output, 8);
    const cls_params p = with_lists(q);
    must(cls_slot_begin(
        sampler, slot, &p,
        TEXT(n_prompt ? prompt : NULL, n_prompt, n_output ? output : NULL, n_output)));
    q->outputs = q->since = n_output;
    q->length = q->longest = n_prompt + n_output;
}

void request_fork(request *q, const script_world *w, uint32_t number, cls_sampler *sampler,
                  uint32_t slot)
{
    rng r = rng_of(w->seed, number);
    if (rng_below(&r, 2))
        make_params(q, w, &r);
    q->params.stream = rng_bits(&r);
    make_script(q, number, &r);
    const cls_params p = with_lists(q);
    must(cls_slot_params(sampler, slot, &p));
}

/* Returns the number of tokens that can certainly be rolled back if the request has not stopped;
 * sometimes more, which may end the request. */
static void roll_back(request *q, const script_world *w, rng *r, cls_sampler *sampler,
                      uint32_t slot)
{
    const uint32_t kept = q->length + w->o.max_rollback - q->longest,
                   can = q->since < kept ? q->since : kept;
    const uint32_t n =
        rng_below(r, 16) ? rng_below(r, can + 1) : rng_below(r, w->o.max_rollback + 1);
    const uint32_t less = n < can ? n : can;
    must(cls_slot_rollback(sampler, slot, n));
    q->outputs -= less;
    q->since -= less;
    q->length -= less;
}

int request_change(request *q, const script_world *w, cls_sampler *sampler, uint32_t slot)
{
    if (q->next == q->n_changes || q->change[q->next].at > q->samples)
        return 0;
    const script_change *const c = &q->change[q->next++];
    rng r = rng_of(w->seed, c->number);
    if (c->what == CHANGE_PARAMS) {
        make_params(q, w, &r);
        const cls_params p = with_lists(q);
        must(cls_slot_params(sampler, slot, &p));
    } else if (c->what == CHANGE_ROLLBACK) {
        roll_back(q, w, &r, sampler, slot);
    } else if (c->what == CHANGE_FORCE) {
        int32_t ids[4];
        const uint32_t n = rng_below(&r, 5);
        for (uint32_t i = 0; i < 4; i++)
            ids[i] = (int32_t)rng_below(&r, 12);
        must(cls_slot_force(sampler, slot, n ? ids : NULL, n));
    } else {
        int32_t ids[SCRIPT_PROMPT];
        const uint32_t n = random_ids(w, &r, ids, SCRIPT_PROMPT);
        must(cls_slot_append_prompt(sampler, slot, n ? ids : NULL, n));
        q->since = n ? 0 : q->since;
        q->length += n;
        q->longest = q->length > q->longest ? q->length : q->longest;
    }
    return 1;
}

void request_sampled(request *q)
{
    q->samples++;
    q->outputs++;
    q->since++;
    q->length++;
    q->longest = q->length > q->longest ? q->length : q->longest;
}

uint32_t request_logits(const request *q, const script_world *w, uint32_t n)
{
    rng r = rng_of(w->seed + 1, (uint64_t)q->number << 32 | q->outputs);
    return rng_below(&r, n);
}
