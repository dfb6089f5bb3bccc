/* SPDX-License-Identifier: MIT */
/* Proves that the state of mirostat, adaptive p and top-p decay stays what a list with one
 * state per token says: through steps, deferred steps, accepted tokens, rollbacks, forks,
 * saved slots and new parameters. */
#include "batch.h"
#include "bench.h"

#include <stdlib.h>

#define VOCAB 150
#define SLOTS 3
#define ROLLBACK 8
#define MOST 400

/* A request of the reference, with the adaptive state before each of its tokens. */
typedef struct request {
    cls_params params;
    cls_adaptive_state adaptive[MOST + 1];
    uint32_t n, longest;
} request;

typedef struct traffic {
    bench b;
    request q;
    uint32_t slot;
    float row[VOCAB];
    rng r;
} traffic;

static void random_adaptive(traffic *t)
{
    cls_params *const p = &t->q.params;
    cls_params_init(p);
    p->temperature = rng_below(&t->r, 2) ? 1.0f : 0.7f;
    p->seed = rng_bits(&t->r);
    const uint32_t kind = rng_below(&t->r, 4);
    p->mirostat = kind == 3 ? 0 : (int32_t)kind;
    p->mirostat_tau = 1.0f + (float)rng_below(&t->r, 4);
    p->mirostat_eta = 0.3f;
    if (kind == 0 || kind == 3) {
        p->adaptive_target = kind == 3 ? 0.4f : -1.0f;
        p->top_p = 0.97f;
        p->top_p_decay = kind == 3 && rng_below(&t->r, 2) ? 1.0f : 0.9f;
        p->top_p_min = 0.05f;
        p->top_p_reset_id = 7;
    }
}

/* Returns the reference's next token and the adaptive state after it. */
static cls_host_result next(const traffic *t)
{
    cls_host_row h = host_row(t->row, VOCAB, &t->q.params);
    h.position = t->q.n;
    h.adaptive = t->q.adaptive[t->q.n];
    const cls_host_result result = host_result(&h);
    return result;
}

static int32_t step(traffic *t, int defer)
{
    for (uint32_t i = 0; i < VOCAB; i++)
        t->row[i] = (float)(1.5 * rng_normal(&t->r));
    bench_logits(&t->b, t->row, 1);
    t->b.step.defer_accept = defer;
    bench_row(&t->b, (int32_t)t->slot);
    return t->b.token[0];
}

/* Appends a token to the request. drawn: the token was drawn, and `after` is the state after it. */
static void enter(traffic *t, int32_t token, int drawn, const cls_adaptive_state *after)
{
    request *const q = &t->q;
    const cls_params *const p = &q->params;
    q->adaptive[q->n + 1] = drawn ? *after : q->adaptive[q->n];
    if (!drawn && p->mirostat == 0 && p->top_p_decay < 1.0f) {
        cls_slot slot;
        must(cls_slot_from_params(p, VOCAB, &slot));
        q->adaptive[q->n + 1].top_p = top_p_next(&slot, q->adaptive[q->n].top_p, token);
    }
    q->n++;
    q->longest = q->n > q->longest ? q->n : q->longest;
}

static void begin(traffic *t)
{
    cls_slot slot;
    random_adaptive(t);
    must(cls_slot_begin(t->b.sampler, t->slot, &t->q.params, NULL, 0, NULL, 0));
    must(cls_slot_from_params(&t->q.params, VOCAB, &slot));
    t->q.n = t->q.longest = 0;
    t->q.adaptive[0] = (cls_adaptive_state){1, slot.adaptive.mu, slot.adaptive.sum,
                                            slot.adaptive.weight, slot.adaptive.top_p};
}

static void move(traffic *t, int by_copy)
{
    const uint32_t to = (t->slot + 1 + rng_below(&t->r, SLOTS - 1)) % SLOTS;
    size_t size;
    if (by_copy) {
        must(cls_slot_copy(t->b.sampler, to, t->slot));
    } else {
        unsigned char *const bytes = slot_saved(t->b.sampler, t->b.d->queue, t->slot, &size);
        must(cls_slot_load(t->b.sampler, to, bytes, size, NULL));
        free(bytes);
    }
    must(cls_slot_reset(t->b.sampler, t->slot));
    t->slot = to;
}

static void elsewhere(traffic *t)
{
    const int32_t drawn = step(t, 1), slot = (int32_t)t->slot;
    const cls_host_result expected = next(t);
    int32_t given = rng_below(&t->r, 2) ? drawn : (int32_t)rng_below(&t->r, VOCAB);
    const cls_ints ids = {.host = &given}, slots = {.host = &slot};
    ck_assert_int_eq(drawn, expected.token);
    must(accept_ints(t->b.sampler, t->b.d->queue, 1, 1, &ids, &slots, 0, NULL, NULL));
    enter(t, given, given == drawn, &expected.adaptive);
}

/* Turns on other samplers. Of the states kept for rollbacks, only those of samplers that were on
 * before stay unchanged. */
static void switch_adaptive(traffic *t)
{
    request *const q = &t->q;
    cls_slot was, now;
    must(cls_slot_from_params(&q->params, VOCAB, &was));
    random_adaptive(t);
    must(cls_slot_from_params(&q->params, VOCAB, &now));
    must(cls_slot_params(t->b.sampler, t->slot, &q->params));
    const uint32_t both = was.flags & now.flags;
    for (uint32_t i = 0; i <= q->longest; i++) {
        cls_adaptive_state *const m = &q->adaptive[i];
        m->mu = both & CLS_SLOT_MIROSTAT ? m->mu : now.adaptive.mu;
        m->sum = both & CLS_SLOT_ADAPTIVE ? m->sum : now.adaptive.sum;
        m->weight = both & CLS_SLOT_ADAPTIVE ? m->weight : now.adaptive.weight;
        m->top_p =
            (both & CLS_SLOT_DECAYS) && was.top_p == now.top_p ? m->top_p : now.adaptive.top_p;
    }
}

START_TEST(modes)
{
    traffic t = {.r = {fixture_seed()}};
    cls_sampler_options o = sampler_options(VOCAB, SLOTS);
    uint32_t rolled = 0, moved = 0, changed = 0;
    o.max_rows = 1;
    o.max_rollback = ROLLBACK;
    t.b = bench_open(fixture_device(_i), &o, NULL);
    for (uint32_t requests = 0; requests < fixture_by_size(6, 30, 120); requests++) {
        begin(&t);
        for (uint32_t i = 0; i < fixture_by_size(25, 60, 150); i++) {
            const uint32_t what = rng_below(&t.r, 12), back = 1 + rng_below(&t.r, 3);
            if (what == 0 && back <= t.q.n && t.q.longest + back <= t.q.n + ROLLBACK) {
                must(cls_slot_rollback(t.b.sampler, t.slot, back));
                t.q.n -= back;
                rolled++;
            } else if (what == 1 || what == 2) {
                move(&t, what == 1);
                moved++;
            } else if (what == 3 && rng_below(&t.r, 2)) {
                switch_adaptive(&t);
                changed++;
            } else if (what == 3) {
                t.q.params.temperature = 0.5f + (float)rng_unit(&t.r);
                must(cls_slot_params(t.b.sampler, t.slot, &t.q.params));
                changed++;
            } else if (what == 4) {
                elsewhere(&t);
            } else {
                const int32_t token = step(&t, 0);
                const cls_host_result expected = next(&t);
                ck_assert_msg(token == expected.token, "request %u, token %u: %d, not %d", requests,
                              t.q.n, token, expected.token);
                enter(&t, token, 1, &expected.adaptive);
            }
        }
    }
    ck_assert(rolled > 0 && moved > 0 && changed > 0);
    bench_close(&t.b);
}
END_TEST

int main(void)
{
    fixture_random(CLS_FEATURE_ACCEPT);
    fixture_begin(ON_DEVICES);
    add_device_test(modes);
    return fixture_end();
}
