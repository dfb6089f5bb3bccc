/* SPDX-License-Identifier: MIT */
/* Proves the memory that slots take: what cls_sampler_memory() reports, that lists and grammars of
 * ended requests are freed, when there is room for masks on the host, and that a buffer which is
 * too small for a saved slot stays as it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

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
    cls_sampler_options o = sampler_options(vocab, slots);
    cls_sampler *sampler;
    o.max_rows = 1;
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
        must(cls_slot_begin(sampler, slots - 1, &p, TEXT(prompt, 50000, NULL, 0)));
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

/* Lists of ended requests are freed, whichever call is the first after a step. */
START_TEST(lists_settle)
{
    cls_logit_bias biases[16];
    cls_sampler_options o = sampler_options(70, 2);
    uint64_t lists = 0, host = 0;
    cls_memory m = {.struct_size = sizeof m};
    cls_params p = default_params();
    for (int32_t i = 0; i < 16; i++)
        biases[i] = (cls_logit_bias){i, 1.0f};
    p.logit_bias = (cls_biases){biases, 16};
    rig b = rig_open(fixture_device(_i), &o, NULL);
    for (uint32_t i = 0; i < 60; i++) {
        must(cls_slot_reset(b.sampler, i % 2));
        must(cls_slot_begin(b.sampler, i % 2, &p, NULL));
        rig_row(&b, (int32_t)(i % 2));
        m = memory_of(b.sampler);
        if (i == 39) {
            lists = m.lists;
            host = m.host;
        }
    }
    ck_assert_uint_eq(m.lists, lists);
    ck_assert_uint_eq(m.host, host);
    rig_close(&b);
}
END_TEST

/* A grammar whose first state allows one id, and then ends. */
static cls_grammar *grammar_of(int32_t id)
{
    static const uint64_t offsets[] = {0, 1, 1};
    static const uint32_t next[] = {1};
    static const uint8_t final_states[] = {0, 1};
    static const int32_t end_ids[] = {7};
    cls_grammar_options o;
    cls_grammar *g;
    cls_grammar_options_init(&o);
    o.vocab = 8;
    o.states = 2;
    o.offsets = offsets;
    o.ids = &id;
    o.next = next;
    o.final_states = final_states;
    o.end_ids = (cls_ids){end_ids, 1};
    must(cls_grammar_create(&o, &g));
    return g;
}

/* Requests share a grammar, also an equal one. What it takes is given free when the last of them
 * leaves, whether that is the first one or its fork. */
START_TEST(grammars_leave)
{
    cls_sampler_options o = sampler_options(8, 3);
    cls_memory m[2] = {{0}, {0}};
    cls_params p = default_params(), none = p;
    rig b = rig_open(fixture_device(_i), &o, NULL);
    for (uint32_t i = 0; i < 60; i++) {
        const uint32_t left = i % 2, stays = 1 - left;
        const int32_t id = (int32_t)(i % 7);
        cls_grammar *const g = grammar_of(id), *const equal = grammar_of(id);
        p.grammar = g;
        must(cls_slot_begin(b.sampler, 0, &p, NULL));
        const cls_memory one = memory_of(b.sampler);
        p.grammar = equal;
        must(cls_slot_begin(b.sampler, 1, &p, NULL));
        ck_assert_uint_eq(memory_of(b.sampler).lists, one.lists);
        must(cls_slot_copy(b.sampler, 1, 0));
        cls_grammar_destroy(g);
        cls_grammar_destroy(equal);
        rig_row(&b, 0);
        must(cls_slot_begin(b.sampler, left, &none, NULL));
        must(cls_slot_begin(b.sampler, 2, &none, NULL));
        rig_row(&b, 2);
        must(cls_slot_next_turn(b.sampler, stays, NULL, 0));
        rig_row(&b, (int32_t)stays);
        ck_assert_int_eq(b.token[0], id);
        must(cls_slot_begin(b.sampler, stays, &none, NULL));
        rig_row(&b, 2);
        m[i > 20] = memory_of(b.sampler);
    }
    ck_assert_uint_eq(m[0].host, m[1].host);
    ck_assert_uint_eq(m[0].lists, m[1].lists);
    rig_close(&b);
}
END_TEST

/* Masks on the host take memory when they are first used, or when the sampler is created. */
START_TEST(room_for_host_masks)
{
    static uint32_t mask[2 * 100];
    for (int large = 0; large < 2; large++) {
        cls_sampler_options o = sampler_options(3200, 2);
        o.features = CLS_FEATURE_MASK;
        o.host_mask_size = large ? sizeof mask : 0;
        rig b = rig_open(fixture_device(_i), &o, NULL);
        const cls_params p = default_params();
        for (uint32_t row = 0; row < 2; row++)
            must(cls_slot_begin(b.sampler, row, &p, NULL));
        b.step.mask.host = mask;
        const cls_memory before = memory_of(b.sampler);
        for (uint32_t i = 0; i < 40; i++) { /* more than there are in flight */
            memset(mask, 0, sizeof mask);
            mask[i] = mask[100 + i] = 1u << (i % 32);
            rig_step(&b);
            ck_assert(b.token[0] == (int32_t)(i * 32 + i % 32) && b.token[1] == b.token[0]);
        }
        const cls_memory after = memory_of(b.sampler);
        ck_assert((after.host == before.host) == large &&
                  (after.changes == before.changes) == large);
        rig_close(&b);
    }
}
END_TEST

/* A buffer that is too small: the size is told, and nothing is written. */
START_TEST(small_buffer)
{
    cls_sampler_options o = sampler_options(70, 1);
    unsigned char small[16] = {0};
    size_t least = sizeof small;
    rig b = rig_open(fixture_device(_i), &o, NULL);
    const cls_params p = default_params();
    must(cls_slot_begin(b.sampler, 0, &p, NULL));
    must_refuse(cls_slot_save(b.sampler, b.d->queue, 0, small, &least), "size");
    ck_assert(least > sizeof small && small[0] == 0);
    rig_close(&b);
}
END_TEST

int main(void)
{
    fixture_features(CLS_FEATURE_PLAIN | CLS_FEATURE_PENALTIES | CLS_FEATURE_STATE |
                     CLS_FEATURE_FORCED | CLS_FEATURE_MASK);
    fixture_begin(ON_DEVICES);
    add_device_test(memory);
    add_device_test(lists_settle);
    add_device_test(grammars_leave);
    add_device_test(room_for_host_masks);
    add_device_test(small_buffer);
    return fixture_end();
}
