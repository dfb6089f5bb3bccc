/* SPDX-License-Identifier: MIT */
/* Proves that a slot's state can be saved and loaded: saved bytes, damaged bytes, rollbacks to
 * an exact token, and the memory that a state takes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serving.h"

enum { VOCAB = 90, STEPS = 12 };

static cls_sampler_options options(int keep, uint32_t history, uint32_t rollback)
{
    cls_sampler_options o = sampler_options(VOCAB, 3);
    o.counts = keep;
    o.max_history = history;
    o.max_rollback = rollback;
    return o;
}

/* Three requests: all tokens count, a window, and one with lists, which may stop. The first one and
 * the last one have thinking budgets, whose ids are due soon; the last one is also forced. */
static void begin_three(server *s)
{
    static const int32_t prompt[] = {3, 4, 5, 5, 89, 90, -1, 0}, output[] = {5, 6, 6, 7},
                         stop[] = {80, 2};
    static const int32_t start[] = {89, 0}, finish[] = {11, 12, 13};
    static const cls_logit_bias bias[] = {{0, 1.0f}, {9, -INFINITY}, {40, -2.0f}};
    cls_params p = default_params();
    p.repetition_penalty = 1.3f;
    p.presence_penalty = 0.4f;
    p.frequency_penalty = s->o.counts == CLS_COUNTS_ALL ? 0.3f : 0.0f;
    p.seed = 5;
    for (uint32_t slot = 0; slot < 3; slot++) {
        p.temperature = slot == 1 ? 0.0f : 0.9f;
        p.penalty_window = slot == 1 ? s->o.max_history : 0;
        p.penalty_scope = slot == 1 ? CLS_SCOPE_ALL : CLS_SCOPE_OUTPUT;
        p.position = slot;
        p.thinking_forced.ids = slot != 1 ? finish : NULL;
        p.thinking_forced.count = slot != 1 ? 3 : 0;
        p.thinking_budget = slot != 1 ? 4 : 0;
        if (slot == 2) {
            p.thinking_start = (cls_ids){start, 2};
            p.top_p = 0.9f;
            p.stop_ids = (cls_ids){stop, 2};
            p.logit_bias = (cls_biases){bias, 3};
        }
        server_begin(s, slot, &p, prompt, 8, output, slot ? 4 : 0);
    }
    server_force(s, 2, finish + 1, 2);
}

static void steps(server *s, uint32_t n, uint32_t first)
{
    for (uint32_t i = 0; i < n; i++) {
        const step_request w = {.rows = 3,
                                .first_logits = (first + 3 * i) % 9,
                                .slots = {0, 1, 2},
                                .invalid_token = -1};
        server_step(s, &w);
    }
}

/* Saved, used, loaded: the same tokens again, and the same bytes. */
START_TEST(save_and_load)
{
    device *const d = fixture_device(_i);
    static server s, other;
    for (int keep = CLS_COUNTS_PRESENCE; keep <= CLS_COUNTS_ALL; keep++) {
        const cls_sampler_options o = options(keep, 6, 4);
        int32_t first[STEPS][3];
        void *bytes[3], *again;
        size_t size[3], again_size;
        model then[3];
        server_open(&s, d, &o, 7, NULL, NULL);
        server_open(&other, d, &o, 7, NULL, NULL);
        begin_three(&s);
        steps(&s, 5, 0);
        server_settle(&s);
        server_rollback(&s, 0, 2); /* shorter than it was */
        for (uint32_t slot = 0; slot < 3; slot++) {
            bytes[slot] = server_save(&s, slot, &size[slot]);
            then[slot] = s.slot[slot];
        }
        steps(&s, STEPS, 1);
        for (uint32_t i = 0; i < STEPS; i++)
            memcpy(first[i], s.token[s.n - STEPS + i], sizeof first[i]);
        server_settle(&s);
        for (int where = 0; where < 3; where++) { /* back, crosswise, and to another sampler */
            server *const to = where == 2 ? &other : &s;
            for (uint32_t slot = 0; slot < 3; slot++) {
                const uint32_t target = where == 1 ? (slot + 1) % 3 : slot;
                server_load(to, target, bytes[slot], size[slot], &then[slot]);
                again = server_save(to, target, &again_size);
                ck_assert_msg(again_size == size[slot] &&
                                  memcmp(again, bytes[slot], again_size) == 0,
                              "%s: slot %u: other bytes after a round trip", d->name, slot);
                free(again);
            }
            steps(to, STEPS, 1);
            for (uint32_t i = 0; i < STEPS && where != 1; i++)
                ck_assert_msg(memcmp(first[i], to->token[to->n - STEPS + i], sizeof first[i]) == 0,
                              "step %u differs", i);
            server_settle(to);
        }
        for (int slot = 0; slot < 3; slot++)
            free(bytes[slot]);
        server_close(&s);
        server_close(&other);
    }
}
END_TEST

/* n tokens taken back, the same logits: the same n tokens, and the same bytes
 * as if there had been neither. */
START_TEST(rollback)
{
    device *const d = fixture_device(_i);
    static server s;
    for (int keep = CLS_COUNTS_PRESENCE; keep <= CLS_COUNTS_ALL; keep++)
        for (uint32_t n = 0; n <= 5; n++) {
            const cls_sampler_options o = options(keep, 6, 5);
            int32_t once[5][3];
            server_open(&s, d, &o, 7, NULL, NULL);
            begin_three(&s);
            steps(&s, 3, 0);
            steps(&s, n, 1);
            server_settle(&s);
            for (uint32_t i = 0; i < n; i++)
                memcpy(once[i], s.token[3 + i], sizeof once[i]);
            for (uint32_t slot = 0; slot < 3; slot++)
                if (n <= model_can_roll_back(&s.slot[slot]))
                    server_rollback(&s, slot, n);
            steps(&s, n, 1);
            server_settle(&s);
            for (uint32_t i = 0; i < n; i++)
                for (uint32_t slot = 0; slot < 2; slot++)
                    ck_assert_msg(once[i][slot] == s.token[i][slot],
                                  "%s: rollback by %u, slot %u: token %d, and again %d", d->name, n,
                                  slot, once[i][slot], s.token[i][slot]);
            server_close(&s);
        }
}
END_TEST

static void expect_refused(cls_status status, const char *name, const char *what, size_t i)
{
    ck_assert_msg(status == CLS_BAD_ARGUMENT, "%s %zu: %s", what, i, cls_status_name(status));
    must_say(name);
}

START_TEST(damaged_bytes)
{
    device *const d = fixture_device(_i);
    static server s;
    const cls_sampler_options o = options(CLS_COUNTS_ALL, 6, 4);
    size_t size, after_size;
    server_open(&s, d, &o, 7, NULL, NULL);
    begin_three(&s);
    steps(&s, 3, 0);
    unsigned char *const bytes = server_save(&s, 2, &size);
    for (size_t i = 0; i < size; i++) {
        const unsigned char was = bytes[i];
        for (unsigned flip = 1; flip < 256; flip += flip < 8 ? flip : 31) {
            bytes[i] ^= (unsigned char)flip;
            expect_refused(cls_slot_load(s.sampler, 1, bytes, size, NULL), "bytes", "damaged byte",
                           i);
            bytes[i] = was;
        }
        unsigned char *const cut = must_malloc(i ? i : 1); /* so that a read beyond it is found */
        memcpy(cut, bytes, i);
        expect_refused(cls_slot_load(s.sampler, 1, cut, i, NULL), "bytes", "cut to", i);
        free(cut);
    }
    unsigned char *const longer = must_calloc(1, size + 8);
    memcpy(longer, bytes, size);
    expect_refused(cls_slot_load(s.sampler, 1, longer, size + 1, NULL), "bytes", "longer", 1);
    expect_refused(cls_slot_load(s.sampler, 1, longer, size + 8, NULL), "bytes", "longer", 8);
    free(longer);
    /* Nothing of this has changed anything. */
    void *const after = server_save(&s, 2, &after_size);
    ck_assert(after_size == size && memcmp(bytes, after, size) == 0);
    free(after);
    steps(&s, 3, 2);
    /* A buffer that is too small: refused, the size told, nothing written. */
    unsigned char small[16] = {0};
    size_t least = sizeof small;
    expect_refused(cls_slot_save(s.sampler, d->queue, 2, small, &least), "size", "buffer", 16);
    ck_assert(least > 16 && small[0] == 0);
    server_close(&s);
    free(bytes);
}
END_TEST

START_TEST(other_samplers)
{
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    static server s;
    const cls_sampler_options o = options(CLS_COUNTS_ALL, 6, 4);
    static const char *const name[] = {"vocab", "counts", "max_history", "max_rollback"};
    cls_sampler *sampler;
    size_t size;
    server_open(&s, d, &o, 7, NULL, NULL);
    begin_three(&s);
    void *const bytes = server_save(&s, 2, &size);
    for (int i = 0; i < 4; i++) {
        cls_sampler_options other = o;
        other.vocab += i == 0;
        other.counts = i == 1 ? CLS_COUNTS_PRESENCE : CLS_COUNTS_ALL;
        other.max_history += i == 2;
        other.max_rollback -= i == 3;
        must(cls_sampler_create(context, &other, &sampler));
        expect_refused(cls_slot_load(sampler, 0, bytes, size, NULL), name[i], "another sampler's",
                       (size_t)i);
        cls_sampler_destroy(sampler);
    }
    free(bytes);
    server_close(&s);
}
END_TEST

static cls_memory memory_of(const cls_sampler *sampler)
{
    cls_memory m = {.struct_size = sizeof m};
    must(cls_sampler_memory(sampler, &m));
    ck_assert_uint_eq(m.device,
                      m.parameters + m.penalties + m.history + m.lists + m.changes + m.rows);
    return m;
}

START_TEST(memory)
{
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    const uint32_t vocab = fixture_by_size(1000, 32000, 151936),
                   slots = fixture_by_size(4, 16, 512);
    static const double most[] = {0.25, 0.5, 2.375}; /* bytes a slot and token, by cls_counts */
    cls_sampler_options o = options(CLS_COUNTS_ALL, 0, 0);
    cls_sampler *sampler;
    o.vocab = vocab;
    o.max_rows = 1;
    o.slot_count = slots;
    for (o.counts = CLS_COUNTS_NONE; o.counts <= CLS_COUNTS_ALL; o.counts++) {
        o.max_history = o.max_rollback = 100;
        must(cls_sampler_create(context, &o, &sampler));
        const cls_memory m = memory_of(sampler);
        const double tokens = (double)slots * (vocab + 1024);
        ck_assert_msg((double)m.penalties <= most[o.counts] * tokens,
                      "keep %d: %g bytes a slot and token", o.counts, (double)m.penalties / tokens);
        cls_sampler_options without = o;
        cls_sampler *lean;
        without.slot_count = 2;
        must(cls_sampler_create(context, &without, &lean));
        const double share = (double)memory_of(lean).penalties / 2 / (vocab + 1024);
        ck_assert_msg(share <= most[o.counts] - (o.counts ? 0.125 : 0.25),
                      "keep %d: %g without biases", o.counts, share);
        cls_sampler_destroy(lean);
        ck_assert_uint_ge(m.history, (uint64_t)slots * 200 * 4);
        ck_assert_uint_le(m.history, (uint64_t)slots * (224 * 4 + 100 * 24 + 3 * 64));
        ck_assert_uint_le(m.parameters, (uint64_t)slots * 512);
        ck_assert_uint_gt(m.host, 0);
        if (o.counts == CLS_COUNTS_ALL) /* it is there, to its end */
            printf("%s: %u slots of %u tokens: %llu bytes, %.3f a slot and token; rows %llu, host "
                   "%llu\n",
                   d->name, slots, vocab, (unsigned long long)m.device,
                   (double)m.penalties / ((double)slots * vocab), (unsigned long long)m.rows,
                   (unsigned long long)m.host);
        cls_params p = default_params();
        p.presence_penalty = o.counts ? 1.0f : 0.0f;
        int32_t *const prompt = must_calloc(50000, sizeof *prompt);
        cls_logit_bias *const bias = must_calloc(5000, sizeof *bias);
        p.logit_bias = (cls_biases){bias, 5000};
        for (int32_t i = 0; i < 5000; i++)
            bias[i].id = i % (int32_t)vocab;
        must(cls_slot_begin(sampler, slots - 1, &p, prompt, 50000, NULL, 0));
        size_t size;
        must(cls_slot_save(sampler, d->queue, slots - 1, NULL, &size));
        const cls_memory after = memory_of(sampler); /* what grows with them */
        ck_assert_uint_ge(after.lists,
                          vocab / 8 + (uint64_t)vocab * 4); /* so many are a row of all tokens */
        ck_assert_uint_ge(after.changes, 50000 * 4);
        ck_assert(after.penalties == m.penalties && after.history == m.history &&
                  after.rows == m.rows && after.host > m.host);
        free(prompt);
        free(bias);
        cls_sampler_destroy(sampler);
    }
}
END_TEST

static void refused_load(cls_sampler *sampler, unsigned char *bytes, size_t size, const char *why)
{
    fixture_put_checksum(bytes, size - 8);
    must_refuse(cls_slot_load(sampler, 0, bytes, size, NULL), why);
}

/* A saved slot with a state of Mirostat or of adaptive p that no token leaves is not loaded. */
START_TEST(impossible_adaptive)
{
    static const struct {
        uint32_t begun, changed; /* a word of the state before the first token, and after it */
        const char *why;
    } cases[] = {{10u << 20, (1u << 29) + 1, "Mirostat's mu is impossible"},
                 {10u << 20, 0u - (1u << 29) - 1, "Mirostat's mu is impossible"},
                 {1u << 25, (1u << 24) - 1, "the averages of adaptive p are impossible"},
                 {1u << 25, 0, "the averages of adaptive p are impossible"}};
    device *const d = fixture_device(_i);
    cls_sampler *sampler;
    cls_sampler_options o = sampler_options(100, 1);
    o.features = CLS_FEATURE_SEARCH | CLS_FEATURE_SAMPLERS;
    must(cls_sampler_create(fixture_context(d, 1u << CLS_F32, 0, 0, 0), &o, &sampler));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char bytes[4096];
        size_t size = sizeof bytes;
        uint32_t changed = 0;
        cls_params p = default_params();
        p.mirostat = i < 2 ? 2 : 0;
        p.adaptive_target = i < 2 ? -1.0f : 0.25f;
        p.adaptive_decay = 0.5f;
        must(cls_slot_begin(sampler, 0, &p, NULL, 0, NULL, 0));
        must(cls_slot_save(sampler, d->queue, 0, bytes, &size));
        must(cls_slot_load(sampler, 0, bytes, size, NULL));
        for (size_t at = 0; at + 12 <= size && changed == 0; at += 4)
            if (memcmp(&bytes[at], &cases[i].begun, 4) == 0) {
                memcpy(&bytes[at], &cases[i].changed, 4);
                changed = 1;
            }
        ck_assert_uint_eq(changed, 1);
        refused_load(sampler, bytes, size, cases[i].why);
    }
    cls_sampler_destroy(sampler);
}
END_TEST

int main(void)
{
    fixture_random(CLS_FEATURE_ACCEPT | CLS_FEATURE_LOGPROBS);
    fixture_begin(ON_DEVICES);
    add_device_test(impossible_adaptive);
    add_device_test(save_and_load);
    add_device_test(rollback);
    add_device_test(damaged_bytes);
    add_device_test(other_samplers);
    add_device_test(memory);
    return fixture_end();
}
