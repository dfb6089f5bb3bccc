/* SPDX-License-Identifier: MIT */
/* Proves the memory that slots take: what cls_sampler_memory() reports, that lists of ended
 * requests are freed, and that a buffer which is too small for a saved slot stays as it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

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
    bench b = bench_open(fixture_device(_i), &o, NULL);
    for (uint32_t i = 0; i < 60; i++) {
        must(cls_slot_reset(b.sampler, i % 2));
        must(cls_slot_begin(b.sampler, i % 2, &p, NULL, 0, NULL, 0));
        bench_row(&b, (int32_t)(i % 2));
        m = memory_of(b.sampler);
        if (i == 39) {
            lists = m.lists;
            host = m.host;
        }
    }
    ck_assert_uint_eq(m.lists, lists);
    ck_assert_uint_eq(m.host, host);
    bench_close(&b);
}
END_TEST

/* A buffer that is too small: the size is told, and nothing is written. */
START_TEST(small_buffer)
{
    cls_sampler_options o = sampler_options(70, 1);
    unsigned char small[16] = {0};
    size_t least = sizeof small;
    bench b = bench_open(fixture_device(_i), &o, NULL);
    const cls_params p = default_params();
    must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, NULL, 0));
    must_refuse(cls_slot_save(b.sampler, b.d->queue, 0, small, &least), "size");
    ck_assert(least > sizeof small && small[0] == 0);
    bench_close(&b);
}
END_TEST

int main(void)
{
    fixture_begin(ON_DEVICES);
    add_device_test(memory);
    add_device_test(lists_settle);
    add_device_test(small_buffer);
    return fixture_end();
}
