/* SPDX-License-Identifier: MIT */
/* Proves that any number of slot calls between two steps has the effect of the same calls with
 * a step after each, and counts their launches.
 *
 *     check_rounds [n]    n times as much random traffic */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "inputs.h"

enum { VOCAB = 70, CHUNK = 8192, MOST_GROUPS = 65535, ROWS = 64 };

static uint32_t times = 1;

/* Two samplers that get the same calls: `once` runs them together, `each` after every call. */
typedef struct twins {
    device *d;
    cls_sampler *once, *each;
    uint32_t slots, rows, vocab;
    float *logits;
    cl_mem logits_buffer, tokens, status;
} twins;

static cls_sampler_options options(uint32_t slots)
{
    cls_sampler_options o = sampler_options(VOCAB, slots);
    o.max_rows = slots < ROWS ? slots : ROWS;
    o.max_history = 24;
    return o;
}

static void twins_open(twins *t, device *d, const cls_sampler_options *o)
{
    cls_context *const context = fixture_context(d, 1u << CLS_F32, is_oclgrind(d) ? 12 : 0, 0, 0);
    memset(t, 0, sizeof *t);
    t->d = d;
    t->slots = o->slot_count;
    t->rows = o->max_rows;
    t->vocab = o->vocab;
    must(cls_sampler_create(context, o, &t->once));
    must(cls_sampler_create(context, o, &t->each));
    const size_t n = (size_t)t->rows * o->vocab;
    t->logits = must_malloc(n * sizeof *t->logits);
    row_fill(ROW_NORMAL1, t->logits, (uint32_t)n, fixture_seed());
    t->logits_buffer = buffer_of(d, n * sizeof *t->logits, t->logits);
    t->tokens = buffer_of(d, t->rows * sizeof(int32_t), NULL);
    t->status = buffer_of(d, t->rows * sizeof(int32_t), NULL);
}

static void twins_close(twins *t)
{
    must_cl(clFinish(t->d->queue));
    cls_sampler_destroy(t->once);
    cls_sampler_destroy(t->each);
    release_buffers(t->logits_buffer, t->tokens, t->status);
    free(t->logits);
}

/* Runs the noted calls by a step with a skipped row. Returns the number of launches. */
static uint32_t flush(const twins *t, cls_sampler *s)
{
    const int32_t none = -1;
    cls_step step = default_step(1, t->logits_buffer);
    step.slots.host = &none;
    step.tokens.buffer = t->tokens;
    must(cls_sample(s, t->d->queue, &step, 0, NULL, NULL));
    must_cl(clFinish(t->d->queue));
    return cls_sampler_launches(s);
}

/* The number of launches for the noted calls. */
static uint32_t launches(const twins *t)
{
    const uint32_t all = flush(t, t->once);
    return all - flush(t, t->once);
}

/* The same call on both. */
#define both(t, call) \
    do { \
        cls_sampler *s = (t)->once; \
        must(call); \
        s = (t)->each; \
        must(call); \
        flush((t), s); \
    } while (0)

/* A step of n rows for the slots from `first` on. */
static void sample(const twins *t, cls_sampler *s, uint32_t first, uint32_t n, int32_t *tokens,
                   int32_t *status)
{
    int32_t slots[ROWS];
    for (uint32_t i = 0; i < n; i++)
        slots[i] = (int32_t)(first + i);
    const cl_mem map = buffer_of(t->d, n * sizeof *slots, slots);
    cls_step step = default_step(n, t->logits_buffer);
    step.slots.device.buffer = map; /* by the device's: some may have ended */
    step.tokens.buffer = t->tokens;
    step.status.buffer = t->status;
    must(cls_sample(s, t->d->queue, &step, 0, NULL, NULL));
    must_cl(clFinish(t->d->queue));
    clReleaseMemObject(map);
    buffer_read(t->d, t->tokens, n * sizeof *tokens, tokens);
    buffer_read(t->d, t->status, n * sizeof *status, status);
}

/* Compares n tokens of each slot of both samplers. */
static void compare_tokens(const twins *t, uint32_t n, const char *after)
{
    int32_t tokens[2][ROWS], status[2][ROWS];
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t first = 0; first < t->slots; first += t->rows) {
            const uint32_t rows = t->slots - first < t->rows ? t->slots - first : t->rows;
            sample(t, t->once, first, rows, tokens[0], status[0]);
            sample(t, t->each, first, rows, tokens[1], status[1]);
            for (uint32_t row = 0; row < rows; row++)
                ck_assert_msg(tokens[0][row] == tokens[1][row] && status[0][row] == status[1][row],
                              "%s: %s: slot %u, token %u: %d, status %d; call by call: %d, %d",
                              t->d->name, after, first + row, i, tokens[0][row], status[0][row],
                              tokens[1][row], status[1][row]);
        }
}

/* Compares the slots' saved bytes of both samplers. */
static void compare_bytes(const twins *t, const char *after)
{
    for (uint32_t slot = 0; slot < t->slots; slot++)
        ck_assert_msg(slots_are_same(t->d->queue, t->once, slot, t->each, slot),
                      "%s: %s: slot %u has other bytes than call by call", t->d->name, after, slot);
}

static cls_params params_of(uint32_t slot)
{
    cls_params p = default_params();
    p.temperature = slot % 3 ? 0.9f : 0.0f;
    p.seed = slot;
    p.presence_penalty = 0.5f;
    p.frequency_penalty = 0.01f;
    p.penalty_scope = CLS_SCOPE_ALL;
    p.penalty_window = slot % 2 ? 24 : 0;
    return p;
}

/* -------------------------------------------------------------------- appending */

/* Prompts that are appended token by token, alternating between several slots. */
START_TEST(token_by_token)
{
    enum { SLOTS = 5 };
    const uint32_t calls = fixture_by_size(150, 8000, 8000);
    const cls_sampler_options o = options(SLOTS);
    rng r = {fixture_seed()};
    twins t;
    twins_open(&t, fixture_device(_i), &o);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        const cls_params p = params_of(slot);
        const int32_t prompt[] = {3, 4, 4, 69};
        const uint32_t n = slot ? 4 : 0, outputs = slot > 2 ? slot - 2 : 0;
        both(&t,
             cls_slot_begin(s, slot, &p, n ? prompt : NULL, n, outputs ? prompt : NULL, outputs));
    }
    for (uint32_t i = 0; i < calls; i++) {
        const uint32_t slot = rng_below(&r, i % 5 ? SLOTS : 1),
                       n = rng_below(&r, 50) ? 1 : rng_below(&r, 9);
        int32_t ids[9];
        for (uint32_t j = 0; j < 9; j++)
            ids[j] = (int32_t)rng_below(&r, VOCAB + 2) - 1; /* not all of them are tokens */
        both(&t, cls_slot_append_prompt(s, slot, ids, n));
    }
    ck_assert_uint_eq(launches(&t), 1); /* all of it in five beginnings */
    compare_bytes(&t, "prompts token by token");
    compare_tokens(&t, 3, "prompts token by token");
    for (uint32_t i = 0; i < calls; i++) {
        const int32_t id = (int32_t)rng_below(&r, VOCAB);
        both(&t, cls_slot_append_prompt(s, i % SLOTS, &id, 1));
    }
    ck_assert_uint_eq(launches(&t), 1);
    compare_bytes(&t, "more of them");
    compare_tokens(&t, 3, "more of them");
    twins_close(&t);
}
END_TEST

/* 8,192 tokens are a launch, however they come. */
START_TEST(chunks)
{
    static const uint32_t most[] = {CHUNK + 1,     CHUNK,     CHUNK - 1,
                                    3 * CHUNK - 1, 3 * CHUNK, 3 * CHUNK + 1};
    static int32_t ids[3 * CHUNK + 1];
    const cls_sampler_options o = options(2);
    rng r = {fixture_seed()};
    for (uint32_t i = 0; i < 3 * CHUNK + 1; i++)
        ids[i] = (int32_t)rng_below(&r, VOCAB);
    for (uint32_t i = 0; i < fixture_by_size(1, 6, 6); i++) {
        const cls_params p = params_of(i);
        twins t;
        twins_open(&t, fixture_device(_i), &o);
        must(cls_slot_begin(t.each, 0, &p, ids, most[i], NULL, 0));
        must(cls_slot_begin(t.each, 1, &p, ids, 1, NULL, 0));
        must(cls_slot_begin(t.once, 1, &p, ids, 1, NULL, 0));
        const uint32_t begun = rng_below(&r, most[i]);
        must(cls_slot_begin(t.once, 0, &p, ids, begun, NULL, 0));
        for (uint32_t at = begun, n; at < most[i]; at += n) {
            n = 1 + rng_below(&r, rng_below(&r, 30) ? 70 : most[i] - at);
            n = n < most[i] - at ? n : most[i] - at;
            must(cls_slot_append_prompt(t.once, 0, ids + at, n));
            if (rng_below(&r, 2)) /* something else in between */
                must(cls_slot_append_prompt(t.once, 1, NULL, 0));
            if (rng_below(&r, 30) == 0)
                must(cls_slot_params(t.once, 1, &p));
        }
        must(cls_slot_begin(t.once, 1, &p, ids, 1, NULL, 0));
        const uint32_t chain = (most[i] + CHUNK - 1) / CHUNK, n = flush(&t, t.once);
        flush(&t, t.each);
        ck_assert_msg(n >= chain, "%u launches for %u tokens", n, most[i]);
        compare_bytes(&t, "a prompt in pieces");
        twins_close(&t);
        twins_open(&t, fixture_device(_i), &o); /* and nothing else in between */
        must(cls_slot_begin(t.once, 0, &p, NULL, 0, NULL, 0));
        for (uint32_t at = 0; at < most[i]; at++)
            must(cls_slot_append_prompt(t.once, 0, ids + at, 1));
        ck_assert_uint_eq(launches(&t), chain);
        twins_close(&t);
    }
}
END_TEST

/* ------------------------------------------------------------------------ copies */

START_TEST(forks)
{
    const uint32_t slots = fixture_by_size(20, 512, 512);
    const cls_sampler_options o = options(slots);
    const int32_t prompt[] = {1, 2, 3, 3}, more = 7;
    const cls_params p = params_of(1);
    twins t;
    twins_open(&t, fixture_device(_i), &o);
    both(&t, cls_slot_begin(s, 0, &p, prompt, 4, NULL, 0));
    for (uint32_t slot = 1; slot < slots; slot++)
        both(&t, cls_slot_copy(s, slot, 0));
    ck_assert_uint_eq(launches(&t), 2);
    compare_bytes(&t, "forks");
    for (uint32_t slot = 1; slot < slots;
         slot++) { /* with parameters, and the source goes on before the last ones */
        cls_params own = p;
        own.stream = slot;
        if (slot == slots - 5)
            both(&t, cls_slot_append_prompt(s, 0, &more, 1));
        both(&t, cls_slot_copy(s, slot, 0));
        both(&t, cls_slot_params(s, slot, &own));
    }
    both(&t, cls_slot_append_prompt(s, 0, &more, 1));
    ck_assert_uint_eq(launches(&t),
                      4); /* copies, the source, copies, parameters or the source again */
    compare_bytes(&t, "forks with parameters");
    compare_tokens(&t, 2, "forks with parameters");
    for (uint32_t slot = 1; slot < slots; slot++) /* each of the one before */
        both(&t, cls_slot_copy(s, slots - 1 - slot, slots - slot));
    ck_assert_uint_eq(launches(&t), slots - 1);
    compare_bytes(&t, "forks of forks");
    compare_tokens(&t, 2, "forks of forks");
    twins_close(&t);
}
END_TEST

/* --------------------------------------------------------- calls that replace others */

START_TEST(replaced)
{
    const cls_sampler_options o = options(3);
    const int32_t prompt[] = {1, 2, 3, 3}, stop = 5;
    const cls_logit_bias bias = {9, 2.0f};
    cls_params p = params_of(2);
    twins t;
    twins_open(&t, fixture_device(_i), &o);
    for (uint32_t i = 0; i < 50; i++) { /* a slot that is given from one request to the next */
        p.seed = i;
        both(&t, cls_slot_reset(s, 0));
        both(&t, cls_slot_begin(s, 0, &p, prompt, i % 5, NULL, 0));
        both(&t, cls_slot_append_prompt(s, 0, prompt, 1));
    }
    ck_assert_uint_eq(launches(&t), 1);
    both(&t, cls_slot_begin(s, 1, &p, prompt, 4, prompt, 4));
    both(&t, cls_slot_begin(s, 2, &p, prompt, 2, NULL, 0));
    compare_bytes(&t, "replaced beginnings");
    launches(&t);
    p.stop_ids = (cls_ids){&stop, 1};
    p.logit_bias.biases = &bias;
    for (uint32_t i = 0; i < 50; i++) {
        p.logit_bias.count = i % 2;
        p.stream = i;
        p.top_k = (int32_t)i;
        both(&t, cls_slot_params(s, 0, &p));
    }
    ck_assert_uint_eq(launches(&t), 1);
    compare_bytes(&t, "replaced parameters");
    compare_tokens(&t, 2, "replaced parameters");
    twins_close(&t);
}
END_TEST

/* Parameters that come and go before a step, and leave something behind: an adaptive state, counts
 * of the sampler's history alone, a thinking that has counted fewer tokens or has ended. */
START_TEST(there_and_back)
{
    enum { KINDS = 6, TOKENS = 60 };
    static const int32_t start = TOKENS - 1, forced[] = {3, 4, 5};
    const cls_sampler_options o = options(KINDS);
    cls_params p[KINDS], other[KINDS];
    int32_t ids[TOKENS];
    twins t;
    for (int32_t i = 0; i < TOKENS; i++)
        ids[i] = i;
    for (uint32_t slot = 0; slot < KINDS; slot++) {
        p[slot] = params_of(1);
        p[slot].penalty_window = 0;
    }
    p[0].mirostat = 2;
    p[0].mirostat_tau = 3.0f;
    p[1].top_p = 0.9f;
    p[1].top_p_decay = 0.8f;
    p[1].top_p_min = 0.01f;
    for (uint32_t slot = 4; slot < KINDS; slot++) {
        p[slot].thinking_forced = (cls_ids){forced, 3};
        p[slot].thinking_budget = 9;
        p[slot].thinking_start.ids = slot == 4 ? NULL : &start;
        p[slot].thinking_start.count = slot != 4;
    }
    memcpy(other, p, sizeof p);
    other[0].mirostat = 0;
    other[1].top_p = 0.8f;
    other[2].penalty_window = 2;
    other[3].penalty_scope = CLS_SCOPE_OUTPUT;
    other[4].thinking_budget = 3;
    other[5] = params_of(1);
    twins_open(&t, fixture_device(_i), &o);
    for (uint32_t slot = 0; slot < KINDS; slot++)
        both(&t, cls_slot_begin(s, slot, &p[slot], ids, TOKENS, NULL, 0));
    compare_tokens(&t, 6, "before");
    for (uint32_t slot = 0; slot < KINDS; slot++) {
        both(&t, cls_slot_params(s, slot, &other[slot]));
        both(&t, cls_slot_params(s, slot, &p[slot]));
    }
    ck_assert_uint_eq(launches(&t), 2);
    compare_bytes(&t, "parameters there and back");
    compare_tokens(&t, 6, "parameters there and back");
    twins_close(&t);
}
END_TEST

/* ---------------------------------------------------------------- many slots */

/* More changes than a launch may have groups in its second dimension. */
START_TEST(many_slots)
{
    device *const d = fixture_device(_i);
    const uint32_t slots = MOST_GROUPS + 3;
    cls_sampler_options o = options(slots);
    twins t;
    if (is_oclgrind(d)) /* an interpreter */
        return;
    o.vocab = 8;
    o.max_history = 0;
    twins_open(&t, d, &o);
    cls_params p = default_params();
    p.temperature = 0.0f;
    p.presence_penalty = -100.0f; /* the token that it has comes again */
    for (uint32_t part = 0; part < 2; part++) {
        for (uint32_t slot = 0; slot < (part ? slots : MOST_GROUPS); slot++) {
            const int32_t id = (int32_t)(slot % 8);
            must(cls_slot_begin(t.once, slot, &p, NULL, 0, &id, 1));
        }
        ck_assert_uint_eq(launches(&t), 1 + part);
    }
    for (uint32_t first = 0; first < slots; first += ROWS) {
        int32_t tokens[ROWS], status[ROWS];
        const uint32_t n = slots - first < ROWS ? slots - first : ROWS;
        sample(&t, t.once, first, n, tokens, status);
        for (uint32_t row = 0; row < n; row++)
            ck_assert_msg(tokens[row] == (int32_t)((first + row) % 8) && status[row] == 0,
                          "%s: slot %u: token %d, status %d", d->name, first + row, tokens[row],
                          status[row]);
    }
    for (uint32_t slot = 1; slot < slots; slot++)
        must(cls_slot_copy(t.once, slot, 0));
    for (uint32_t slot = 1; slot < slots; slot++)
        must(cls_slot_reset(t.once, slot)); /* in place of the copies */
    ck_assert_uint_eq(launches(&t), 2);
    twins_close(&t);
}
END_TEST

/* -------------------------------------------------------------------- the lists */

/* Lists of ended requests are freed, whichever call is the first after a step. */
START_TEST(lists_settle)
{
    const cls_sampler_options o = options(2);
    cls_logit_bias bias[16];
    cls_memory memory;
    uint64_t lists = 0, host = 0;
    cls_params p = params_of(0);
    twins t;
    for (int32_t i = 0; i < 16; i++)
        bias[i] = (cls_logit_bias){i, 1.0f};
    p.logit_bias = (cls_biases){bias, 16};
    twins_open(&t, fixture_device(_i), &o);
    for (uint32_t i = 0; i < 60; i++) {
        must(cls_slot_reset(t.once, i % 2));
        must(cls_slot_begin(t.once, i % 2, &p, NULL, 0, NULL, 0));
        flush(&t, t.once);
        memory.struct_size = sizeof memory;
        must(cls_sampler_memory(t.once, &memory));
        if (i == 39) {
            lists = memory.lists;
            host = memory.host;
        }
    }
    ck_assert_uint_eq(memory.lists, lists);
    ck_assert_uint_eq(memory.host, host);
    twins_close(&t);
}
END_TEST

/* -------------------------------------------------------------- random traffic */

static void random_params(cls_params *p, rng *r, cls_logit_bias *bias)
{
    static const int32_t ids[] = {3, 1, 3, 2, 1, 0};
    cls_params_init(p);
    p->temperature = 0.9f;
    p->seed = rng_bits(r);
    p->presence_penalty = rng_below(r, 2) ? 0.7f : 0.0f;
    p->frequency_penalty = 0.3f;
    p->penalty_scope = (int32_t)rng_below(r, 8) == 0;
    p->penalty_window = rng_below(r, 8) ? 0 : rng_below(r, 25);
    p->max_tokens = rng_below(r, 9) ? 0 : 1 + rng_below(r, 9);
    if (rng_below(r, 4) == 0) {
        p->mirostat = 2;
        p->mirostat_tau = 2.0f;
    } else if (rng_below(r, 4) == 0) {
        p->adaptive_target = 0.3f;
    } else if (rng_below(r, 4) == 0) {
        p->top_p = rng_below(r, 2) ? 0.9f : 0.8f;
        p->top_p_decay = 0.8f;
        p->top_p_min = 0.2f;
    }
    if (rng_below(r, 2)) {
        p->thinking_start.count = rng_below(r, 3);
        p->thinking_end.count = rng_below(r, 3);
        p->thinking_forced.count = 1 + rng_below(r, 3);
        p->thinking_start.ids = p->thinking_start.count ? ids + rng_below(r, 4) : NULL;
        p->thinking_end.ids = p->thinking_end.count ? ids + rng_below(r, 4) : NULL;
        p->thinking_forced.ids = ids + rng_below(r, 4);
        p->thinking_budget = rng_below(r, 6);
    }
    if (rng_below(r, 4) == 0) {
        p->loop_repeats = 2 + rng_below(r, 2);
        p->loop_max = 1 + rng_below(r, 4);
    }
    p->logit_bias.count = rng_below(r, 3) ? 0 : 1 + rng_below(r, 12);
    for (uint32_t i = 0; i < p->logit_bias.count; i++)
        bias[i] = (cls_logit_bias){(int32_t)(i * 5 + rng_below(r, 5)), 1.0f};
    p->logit_bias.biases = p->logit_bias.count ? bias : NULL;
}

typedef struct saved {
    void *bytes;
    size_t size;
} saved;

static void random_call(const twins *t, rng *r, int *begun, const saved *kept)
{
    const uint32_t slot = rng_below(r, t->slots), other = rng_below(r, t->slots),
                   what = rng_below(r, 26);
    const uint32_t n = rng_below(r, 9), back = rng_below(r, 3);
    cls_logit_bias bias[12];
    int32_t ids[12];
    cls_params p;
    for (uint32_t i = 0; i < 12; i++)
        ids[i] = (int32_t)rng_below(r, 12);
    random_params(&p, r, bias);
    if (what == 0) {
        both(t, cls_slot_reset(s, slot));
        begun[slot] = 0;
    } else if (what == 1 && kept->bytes != NULL) {
        both(t, cls_slot_load(s, slot, kept->bytes, kept->size, NULL));
        begun[slot] = 1;
    } else if (what < 4 || !begun[slot]) {
        both(t, cls_slot_begin(s, slot, &p, ids, n / 2, ids + 4, 8 - n));
        begun[slot] = 1;
    } else if (what < 9) {
        if (begun[other])
            both(t, cls_slot_copy(s, slot, other));
    } else if (what < 15) {
        both(t, cls_slot_params(s, slot, &p));
    } else if (what == 15) {
        both(t, cls_slot_rollback(s, slot, back));
    } else if (what == 16) {
        both(t, cls_slot_next_turn(s, slot, ids, n));
    } else if (what == 17 || what == 18) {
        both(t, cls_slot_force(s, slot, n != 0 ? ids : NULL, n));
    } else {
        both(t, cls_slot_append_prompt(s, slot, ids, n));
    }
}

START_TEST(traffic)
{
    cls_sampler_options o = options(6);
    rng r = {fixture_seed() + 1};
    int begun[6] = {0};
    saved kept = {NULL, 0};
    uint32_t calls = 0, all = 0;
    twins t;
    o.max_rollback = 6;
    twins_open(&t, fixture_device(_i), &o);
    for (uint32_t round = 0; round < times * fixture_by_size(6, 100, 300); round++) {
        const uint32_t n = rng_below(&r, rng_below(&r, 3) ? 20 : 100);
        for (uint32_t i = 0; i < n; i++)
            random_call(&t, &r, begun, &kept);
        calls += n;
        all += launches(&t);
        compare_tokens(&t, 1 + rng_below(&r, 4), "random calls");
        kept.size = 0;
        if (begun[0] && cls_slot_save(t.once, t.d->queue, 0, NULL, &kept.size) == CLS_OK) {
            free(kept.bytes);
            kept.bytes = must_malloc(kept.size);
            must(cls_slot_save(t.once, t.d->queue, 0, kept.bytes, &kept.size));
        } else {
            free(kept.bytes);
            kept.bytes = NULL;
        }
    }
    printf("%s: %u random calls: %u launches\n", t.d->name, calls, all);
    free(kept.bytes);
    twins_close(&t);
}
END_TEST

int main(int argc, char **argv)
{
    fixture_random(0);
    times = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
    fixture_begin(ON_DEVICES);
    add_device_test(token_by_token);
    add_device_test(chunks);
    add_device_test(forks);
    add_device_test(replaced);
    add_device_test(there_and_back);
    add_device_test(many_slots);
    add_device_test(lists_settle);
    add_device_test(traffic);
    return fixture_end();
}
