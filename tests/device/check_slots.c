/* SPDX-License-Identifier: MIT */
/* Proves random serving traffic against a model of each request: requests begin, grow, fork,
 * change, go back, stop, move and end between steps that are enqueued ahead.
 *
 *     check_slots [n]    n times as many steps */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "bench.h"
#include "sampler/sampler.h"
#include "serving.h"

enum { SAVED = 3 };

typedef struct traffic {
    server s;
    rng r;
    int32_t idle; /* a slot that is not used for now, or -1 */
    void *bytes[SAVED];
    size_t size[SAVED];
    model saved[SAVED];
} traffic;

static uint32_t times = 1;

/* What all requests need together must be what the slots say, counted from scratch. */
static void check_needs(const cls_sampler *sampler)
{
    cls_sampler now = *sampler;
    const cls_needs *const kept = &sampler->needs;
    const size_t size = now.slots * sizeof *now.request;
    uint32_t features = 0, longest = 0, lists = 1;
    memset(&now.needs, 0, sizeof now.needs);
    must(cls_needs_create(&now.needs, kept->shortlist));
    now.request = must_malloc(size);
    memcpy(now.request, sampler->request, size);
    for (uint32_t slot = 0; slot < now.slots; slot++) {
        const cls_slot *const s = &now.request[slot].slot;
        const uint32_t k = cls_needs_listed(s);
        cls_needs_add(&now, slot);
        features |= cls_features_of_slot(s);
        lists &= !(s->flags & CLS_SLOT_BEGUN) || k != 0;
        longest = (s->flags & CLS_SLOT_BEGUN) && k > longest ? k : longest;
    }
    ck_assert_uint_eq(kept->requests, now.needs.requests);
    ck_assert_mem_eq(kept->feature, now.needs.feature, sizeof kept->feature);
    ck_assert_mem_eq(kept->listed, now.needs.listed, (kept->shortlist + 1) * sizeof *kept->listed);
    ck_assert_uint_eq(kept->digest, now.needs.digest);
    ck_assert_uint_eq(kept->arrays, now.needs.arrays);
    ck_assert_uint_eq(cls_needs_features(kept), features);
    ck_assert_uint_eq(cls_needs_longest(kept), lists ? longest : 0);
    free(now.request);
    free(now.needs.listed);
}

static int32_t random_id(traffic *t)
{
    static const int32_t none[] = {-1, INT32_MIN, INT32_MAX};
    const uint32_t vocab = t->s.o.vocab, what = rng_below(&t->r, 16);
    if (what == 0)
        return rng_below(&t->r, 2) ? none[rng_below(&t->r, 3)] : (int32_t)vocab;
    return (int32_t)rng_below(&t->r, what < 8 && vocab > 20 ? 20 : vocab); /* few of them, often */
}

static uint32_t random_ids(traffic *t, int32_t *ids, uint32_t most)
{
    const uint32_t n =
        rng_below(&t->r, 4) ? rng_below(&t->r, most / 8 + 1) : rng_below(&t->r, most + 1);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = random_id(t);
    return n;
}

/* What the lists of random parameters lie in. */
typedef struct lists {
    cls_logit_bias bias[MODEL_LIST];
    int32_t stop[MODEL_LIST], allowed[MODEL_LIST], start[2], end[2], finish[3];
} lists;

/* Few ids, so that sequences of them occur. */
static uint32_t random_sequence(traffic *t, int32_t *ids, uint32_t least, uint32_t most)
{
    const uint32_t n = least + rng_below(&t->r, most + 1 - least), vocab = t->s.o.vocab;
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (int32_t)rng_below(&t->r, vocab < 6 ? vocab : 6);
    return n;
}

/* Sometimes turns on a thinking budget and a loop stop. */
static void random_ends(traffic *t, cls_params *p, lists *l)
{
    rng *const r = &t->r;
    const uint32_t history = t->s.o.max_history, most = history == 0 ? 1 : 2;
    if (rng_below(r, 3) == 0) {
        p->thinking_start.count = random_sequence(t, l->start, 0, most);
        p->thinking_end.count = random_sequence(t, l->end, 0, most);
        p->thinking_forced.count = random_sequence(t, l->finish, 1, 3);
        p->thinking_start.ids = p->thinking_start.count ? l->start : NULL;
        p->thinking_end.ids = p->thinking_end.count ? l->end : NULL;
        p->thinking_forced.ids = l->finish;
        p->thinking_budget = rng_below(r, 10);
    }
    if (history >= 2 && rng_below(r, 4) == 0) {
        p->loop_repeats = 2 + rng_below(r, history / 2 < 3 ? history / 2 : 3);
        p->loop_max = 1 + rng_below(r, history / p->loop_repeats);
        p->loop_min = 1 + rng_below(r, p->loop_max);
    }
}

static cls_params random_params(traffic *t, lists *l)
{
    static const float repetitions[] = {1.0f, 1.2f, 0.6f},
                       amounts[] = {0.0f, 0.4f, 0.4f, 2.0f, -0.3f};
    static const float biases[] = {1.0f, -3.0f, -INFINITY, 2.5f};
    const cls_sampler_options *const o = &t->s.o;
    rng *const r = &t->r;
    cls_params p = default_params();
    params_random(&p, o->vocab, r);
    p.seed = rng_bits(r);
    if (rng_below(r, 2))
        p.temperature = 0.0f;
    if (o->counts != CLS_COUNTS_NONE) {
        p.repetition_penalty = repetitions[rng_below(r, 3)];
        p.presence_penalty = amounts[rng_below(r, 5)];
        p.frequency_penalty = o->counts == CLS_COUNTS_ALL ? amounts[rng_below(r, 5)] : 0.0f;
        p.penalty_scope = (int32_t)rng_below(r, 2);
        p.penalty_window = rng_below(r, 2) ? 0 : rng_below(r, o->max_history + 1);
    }
    p.max_tokens = rng_below(r, 5) ? 0 : 1 + rng_below(r, 60);
    p.stop_ids.count = rng_below(r, 3) ? 0 : rng_below(r, MODEL_LIST + 1);
    p.logit_bias.count = rng_below(r, 2) ? rng_below(r, MODEL_LIST + 1) : 0;
    for (uint32_t i = 0; i < p.stop_ids.count; i++)
        l->stop[i] = (int32_t)rng_below(r, o->vocab);
    for (uint32_t i = 0; i < p.logit_bias.count; i++)
        l->bias[i] = (cls_logit_bias){
            (int32_t)rng_below(r, rng_below(r, 2) ? o->vocab : (o->vocab + 9) / 10),
            biases[rng_below(r, 4)]};
    p.stop_ids.ids = p.stop_ids.count ? l->stop : NULL;
    p.min_tokens = rng_below(r, 3) ? 0 : rng_below(r, 20);
    if (p.stop_ids.count != 0 && rng_below(r, 3) == 0) { /* half of them allow stop ids only */
        p.allowed_ids = (cls_ids){l->allowed, 1 + rng_below(r, 3)};
        for (uint32_t i = 0; i < p.allowed_ids.count; i++)
            l->allowed[i] = l->stop[rng_below(r, p.stop_ids.count)];
        if (rng_below(r, 2))
            l->allowed[0] = (int32_t)rng_below(r, o->vocab);
    }
    p.logit_bias.biases = p.logit_bias.count ? l->bias : NULL;
    random_ends(t, &p, l);
    return p;
}

static void begin(traffic *t, uint32_t slot)
{
    int32_t prompt[200], output[80];
    lists l;
    const cls_params p = random_params(t, &l);
    const uint32_t n_prompt = random_ids(t, prompt, 200),
                   n_output = rng_below(&t->r, 3) ? 0 : random_ids(t, output, 80);
    server_begin(&t->s, slot, &p, prompt, n_prompt, output, n_output);
}

/* Saves a slot, or loads a slot that was saved. */
static void save_or_load(traffic *t, uint32_t slot)
{
    const uint32_t i = rng_below(&t->r, SAVED);
    if (t->bytes[i] != NULL && rng_below(&t->r, 2)) {
        server_load(&t->s, slot, t->bytes[i], t->size[i], &t->saved[i]);
    } else if (t->s.slot[slot].begun) {
        free(t->bytes[i]);
        t->bytes[i] = server_save(&t->s, slot, &t->size[i]);
        t->saved[i] = t->s.slot[slot];
    }
}

static void rollback(traffic *t, uint32_t slot)
{
    const uint32_t most = t->s.o.max_rollback, can = model_can_roll_back(&t->s.slot[slot]);
    const uint32_t n =
        rng_below(&t->r, 12) ? rng_below(&t->r, can + 1) : rng_below(&t->r, most + 1);
    server_rollback(&t->s, slot, n);
}

/* Forces ids of the caller. */
static void force(traffic *t, uint32_t slot)
{
    int32_t ids[MODEL_LIST];
    server_force(&t->s, slot, ids,
                 random_sequence(t, ids, 0, rng_below(&t->r, 4) ? 3 : MODEL_LIST));
}

/* Accepts the caller's tokens for some slots. Often they are those that are due. */
static void accept(traffic *t)
{
    int32_t slots[MAX_ROWS], ids[MAX_ROWS * MOST_ACCEPTED];
    const uint32_t rows = 1 + rng_below(&t->r, 3), first = rng_below(&t->r, t->s.o.slot_count),
                   per_row = rng_below(&t->r, 2) ? 1 : 1 + rng_below(&t->r, MOST_ACCEPTED);
    for (uint32_t row = 0; row < rows; row++) {
        const uint32_t slot = (first + row) % t->s.o.slot_count;
        const int32_t due = model_due(&t->s.slot[slot]);
        slots[row] = (int32_t)slot;
        for (uint32_t i = 0; i < per_row; i++)
            if (i > 0 && per_row > 2 && row != 1) /* loops */
                ids[row * per_row + i] = ids[row * per_row + (i - 1) % (1 + row / 2)];
            else if (rng_below(&t->r, 3) == 0)
                random_sequence(t, ids + row * per_row + i, 1, 1);
            else
                ids[row * per_row + i] = due >= 0 && i == 0 ? due : random_id(t);
        if (!t->s.known[slots[row]] || slots[row] == t->idle)
            slots[row] = -1;
    }
    server_accept(&t->s, rows, per_row, slots, (int)rng_below(&t->r, 2), ids);
}

static void call(traffic *t)
{
    const uint32_t slots = t->s.o.slot_count, slot = rng_below(&t->r, slots),
                   what = rng_below(&t->r, 22);
    int32_t ids[60];
    lists l;
    if ((int32_t)slot == t->idle)
        return;
    if (what < 3) {
        const uint32_t from = rng_below(&t->r, slots);
        if (t->s.known[from])
            server_copy(&t->s, slot, from);
    } else if (what < 5) {
        save_or_load(t, slot);
    } else if (what < 6 || !t->s.known[slot] || t->s.slot[slot].n > MODEL_TOKENS - 200 ||
               ((!t->s.slot[slot].begun || model_stopped(&t->s.slot[slot])) &&
                rng_below(&t->r, 2))) {
        begin(t, slot);
    } else if (what < 9) {
        const uint32_t n = random_ids(t, ids, 60);
        if (what == 8)
            server_next_turn(&t->s, slot, n ? ids : NULL, n);
        else
            server_append(&t->s, slot, n ? ids : NULL, n);
    } else if (what < 13) {
        cls_params p = random_params(t, &l);
        if (t->s.o.max_history ==
            0) /* without history another scope is refused, as tokens cannot be counted again */
            p.penalty_scope = t->s.slot[slot].params.penalty_scope;
        server_params(&t->s, slot, &p);
    } else if (what < 17) {
        rollback(t, slot);
    } else if (what < 18) {
        server_reset(&t->s, slot);
    } else if (what < 20) {
        force(t, slot);
    } else {
        accept(t);
    }
}

static void step(traffic *t)
{
    const uint32_t slots = t->s.o.slot_count;
    step_request w = {.rows = 1 + rng_below(&t->r, t->s.o.max_rows),
                      .invalid_token = rng_below(&t->r, 4) ? -1 : 7};
    int32_t order[MAX_SLOTS], positions[MAX_ROWS];
    w.first_logits = rng_below(&t->r, LOGITS - w.rows + 1);
    w.device_map = (int)rng_below(&t->r, 2);
    w.defer = rng_below(&t->r, 6) == 0;
    w.invalid_token =
        w.defer && w.invalid_token > 0 ? -7 : w.invalid_token; /* a token would be accepted later */
    for (uint32_t i = 0; i < slots; i++) {
        const uint32_t j = rng_below(&t->r, i + 1);
        order[i] = order[j];
        order[j] = (int32_t)i;
    }
    for (uint32_t row = 0; row < w.rows; row++) {
        const int32_t slot = row < slots ? order[row] : -1;
        w.slots[row] = rng_below(&t->r, 10) ? slot : -1;
        if (w.slots[row] >= 0 && (slot == t->idle || (!w.device_map && !t->s.known[slot])))
            w.slots[row] = -1;
        if (w.device_map && rng_below(&t->r, 40) == 0)
            w.slots[row] = rng_below(&t->r, 2) ? -7 : (int32_t)slots;
        if (w.defer && row > 0 && rng_below(&t->r, 2))
            w.slots[row] = w.slots[row - 1];
        positions[row] = (int32_t)rng_bits(&t->r);
    }
    w.positions = rng_below(&t->r, 12) ? NULL : positions;
    server_step(&t->s, &w);
    if (!w.defer || rng_below(&t->r, 3) == 0)
        return;
    for (uint32_t row = 0; row < w.rows; row++) { /* of those that share a slot, the last */
        int last = 1;
        for (uint32_t other = row + 1; other < w.rows; other++)
            last &= w.slots[other] != w.slots[row];
        w.slots[row] = last ? w.slots[row] : -1;
    }
    server_accept(&t->s, w.rows, 1, w.slots, w.device_map, NULL);
}

/* One slot's bytes stay the same while all others have calls and steps. */
static void round_around_an_idle_slot(traffic *t)
{
    const uint32_t slot = rng_below(&t->r, t->s.o.slot_count), steps = 1 + rng_below(&t->r, AHEAD);
    size_t before_size = 0, after_size = 0;
    void *before = NULL;
    t->idle = t->s.slot[slot].begun ? (int32_t)slot : -1;
    if (t->idle >= 0)
        before = server_save(&t->s, slot, &before_size);
    for (uint32_t i = 0; i < steps; i++) {
        for (uint32_t n = rng_below(&t->r, rng_below(&t->r, 4) ? 4 : 24); n > 0; n--)
            call(t);
        check_needs(t->s.sampler);
        step(t);
    }
    if (rng_below(&t->r, 4))
        server_settle(&t->s);
    if (t->idle >= 0) {
        void *const after = server_save(&t->s, slot, &after_size);
        ck_assert_msg(before_size == after_size && memcmp(before, after, after_size) == 0,
                      "%s: before step %u: slot %u has changed, and nobody touched it",
                      t->s.d->name, t->s.steps, slot);
        free(after);
        free(before);
    }
    t->idle = -1;
}

static void serve(device *d, const cls_sampler_options *o, uint32_t steps, uint64_t seed,
                  cl_command_queue first, cl_command_queue second)
{
    static traffic t;
    memset(&t, 0, sizeof t);
    t.r.state = seed;
    t.idle = -1;
    server_open(&t.s, d, o, seed, first, second);
    for (uint32_t slot = 0; slot < o->slot_count; slot++)
        begin(&t, slot);
    while (t.s.steps < steps)
        round_around_an_idle_slot(&t);
    server_close(&t.s);
    for (int i = 0; i < SAVED; i++)
        free(t.bytes[i]);
    printf("%s: vocab %u, %u slots, keep %d, history %u, rollback %u: %u steps, %u requests, %u "
           "tokens, %u rows stopped, "
           "%u forced, %u loops, %u forks, %u rollbacks (%u ended their request), %u saves, %u "
           "accepts, %u times busy\n",
           d->name, o->vocab, o->slot_count, o->counts, o->max_history, o->max_rollback, t.s.steps,
           t.s.requests, t.s.sampled, t.s.stopped, t.s.forced, t.s.loops, t.s.forks, t.s.rollbacks,
           t.s.ended, t.s.saves, t.s.accepts, t.s.busy);
}

START_TEST(serving)
{
    static const struct {
        uint32_t vocab, slots;
        int keep;
        uint32_t history, rollback;
    } kinds[] = {{300, 9, CLS_COUNTS_ALL, 40, 12},     {1100, 16, CLS_COUNTS_PRESENCE, 25, 7},
                 {33, 5, CLS_COUNTS_ALL, 0, 9},        {2049, 7, CLS_COUNTS_ALL, 64, 0},
                 {70, 6, CLS_COUNTS_PRESENCE, 12, 30}, {64, 4, CLS_COUNTS_NONE, 0, 0},
                 {8, 7, CLS_COUNTS_ALL, 5, 16},        {1, 3, CLS_COUNTS_ALL, 3, 3},
                 {500, 12, CLS_COUNTS_NONE, 5, 5}};
    device *const d = fixture_device(_i);
    for (uint32_t i = 0; i < fixture_by_size(2, 7, sizeof kinds / sizeof *kinds); i++) {
        cls_sampler_options o = sampler_options(kinds[i].vocab, kinds[i].slots);
        o.max_rows = o.slot_count < MAX_ROWS ? o.slot_count : MAX_ROWS;
        o.counts = kinds[i].keep;
        o.max_history = kinds[i].history;
        o.max_rollback = kinds[i].rollback;
        serve(d, &o, times * fixture_by_size(8, 120, 400), fixture_seed() + i, NULL, NULL);
    }
}
END_TEST

/* Steps alternate between two queues, or use one out-of-order queue. */
START_TEST(other_queues)
{
    device *const d = fixture_device(_i);
    const uint32_t steps = times * fixture_by_size(8, 100, 300);
    cls_sampler_options o = sampler_options(200, 8);
    if (is_oclgrind(d))
        return;
    o.max_history = 20;
    o.max_rollback = 10;
    cl_command_queue queue = queue_in_order(d);
    serve(d, &o, steps, fixture_seed() + 30, d->queue, queue);
    clReleaseCommandQueue(queue);
    queue = queue_out_of_order(d);
    if (queue == NULL)
        return;
    serve(d, &o, steps, fixture_seed() + 31, queue, queue);
    serve(d, &o, steps, fixture_seed() + 32, queue, d->queue);
    clReleaseCommandQueue(queue);
}
END_TEST

/* Three turns of a conversation. Each equals a separate request whose prompt is the text so far,
 * except that the position continues. */
START_TEST(turns)
{
    enum { VOCAB = 60, MOST = 200 };
    device *const d = fixture_device(_i);
    static const int32_t stop[] = {5, 17},
                         prompts[3][4] = {{1, 2, 3, 1}, {7, 7, 1, 70}, {9, 1, 2, -1}};
    int32_t text[MOST];
    float logits[VOCAB];
    uint32_t n = 0, position = 11;
    rng r = {fixture_seed() + 3};
    cls_sampler_options o = sampler_options(VOCAB, 1);
    o.max_history = 40;
    o.max_rollback = 8;
    bench b = bench_open(d, &o, NULL);
    cls_params p = default_params();
    p.position = position;
    params_set(&p, "repetition_penalty=1.3 frequency_penalty=2.5 presence_penalty=2.0 top_p=0.9 "
                   "top_p_decay=0.7 top_k=20 no_repeat_ngram=2 min_tokens=3 max_tokens=6");
    p.stop_ids = (cls_ids){stop, 2};
    for (int turn = 0; turn < 3; turn++) {
        if (turn == 0)
            must(cls_slot_begin(b.sampler, 0, &p, prompts[0], 4, NULL, 0));
        else
            must(cls_slot_next_turn(b.sampler, 0, prompts[turn], 4));
        for (int i = 0; i < 4; i++)
            if (prompts[turn][i] >= 0 && prompts[turn][i] < VOCAB)
                text[n++] = prompts[turn][i];
        const uint32_t begun = n;
        for (b.status[0] = 0; !(b.status[0] & CLS_ROW_STOPPED);) {
            for (uint32_t i = 0; i < VOCAB; i++)
                logits[i] = (float)rng_below(&r, 1000) / 200.0f;
            bench_logits(&b, logits, 1);
            bench_step(&b);
            cls_host_row h = host_row(logits, VOCAB, &p);
            h.prompt = text;
            h.prompt_count = begun;
            h.output = text + begun;
            h.output_count = n - begun;
            h.position = position++;
            h.max_history = o.max_history;
            const cls_host_result result = host_result(&h);
            ck_assert_msg(b.token[0] == result.token && b.status[0] == result.status,
                          "%s: turn %d, token %u: %d, status %d; the reference: %d, %d", d->name,
                          turn, n - begun, b.token[0], b.status[0], result.token, result.status);
            ck_assert(n < MOST - 8);
            text[n++] = b.token[0];
        }
        ck_assert_uint_ge(n - begun, 3);
    }
    must(cls_slot_next_turn(b.sampler, 0, NULL, 0)); /* what is prompt now is not taken back */
    must(cls_slot_rollback(b.sampler, 0, 1));
    bench_step(&b);
    ck_assert_int_eq(b.status[0], CLS_ROW_NO_SLOT);
    bench_close(&b);
}
END_TEST

int main(int argc, char **argv)
{
    fixture_random(CLS_FEATURE_ACCEPT | CLS_FEATURE_FORCED);
    times = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
    fixture_begin(ON_DEVICES);
    add_device_test(turns);
    add_device_test(serving);
    add_device_test(other_queues);
    return fixture_end();
}
