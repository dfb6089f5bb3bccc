/* SPDX-License-Identifier: MIT */
/* Proves what the text tests/scripts/grammar.run cannot say of grammars: what they take of a
 * sampler's memory, and that bytes of a saved slot with a grammar are refused or can be sampled,
 * whatever of them is changed. */
#include <stdlib.h>
#include <string.h>

#include "automaton.h"
#include "bench.h"

/* 0 -1-> 1 -2,3-> 2 -4-> 0; 2 is final; the end id is 7. */
static cls_grammar *small_grammar(uint32_t vocab, int32_t first)
{
    static const uint64_t offsets[] = {0, 1, 3, 4};
    static const uint32_t next[] = {1, 2, 2, 0};
    static const uint8_t final_states[] = {0, 0, 1};
    static const int32_t end_ids[] = {7};
    const int32_t ids[] = {first, 2, 3, 4};
    cls_grammar_options o;
    cls_grammar *g;
    cls_grammar_options_init(&o);
    o.vocab = vocab;
    o.states = 3;
    o.offsets = offsets;
    o.ids = ids;
    o.next = next;
    o.final_states = final_states;
    o.end_ids = (cls_ids){end_ids, 1};
    must(cls_grammar_create(&o, &g));
    return g;
}

/* A sampler of rows in which higher ids are likelier. */
static bench open_small(device *d)
{
    cls_sampler_options o = sampler_options(8, 3);
    float x[24];
    o.max_history = 16;
    o.max_rollback = 8;
    for (int i = 0; i < 24; i++)
        x[i] = (float)(i % 8);
    bench b = bench_open(d, &o, x);
    return b;
}

/* Whatever of a saved slot is changed, it is refused or can be sampled. */
static void load_changed(bench *b, const uint8_t *bytes, size_t size, const cls_grammar *g)
{
    static const uint32_t words[] = {0, 1, 3, 4, CLS_GRAMMAR_ENDED, CLS_GRAMMAR_DEAD, UINT32_MAX};
    uint8_t changed[2000];
    uint32_t refused = 0;
    for (size_t at = 12; at + 12 <= size; at += 4)
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
            memcpy(changed, bytes, size);
            for (int k = 0; k < 4; k++)
                changed[at + (size_t)k] = (uint8_t)(words[i] >> 8 * k);
            fixture_put_checksum(changed, size - 8);
            const cls_status status = cls_slot_load(b->sampler, 1, changed, size, g);
            ck_assert(status == CLS_OK || status == CLS_BAD_ARGUMENT);
            refused += status != CLS_OK;
            if (status == CLS_OK)
                bench_row(b, 1);
            else if (at + 20 == size && words[i] == 3) /* a state: there are three */
                must_say("a state of the grammar is impossible");
        }
    ck_assert_uint_gt(refused, size / 4);
}

/* What is refused, and what requests share. */
START_TEST(grammars)
{
    device *const d = fixture_device(_i);
    bench b = open_small(d);
    cls_grammar *const g = small_grammar(8, 1), *const equal = small_grammar(8, 1),
                       *const wide = small_grammar(9, 1);
    cls_memory one = {.struct_size = sizeof one}, two = one;
    uint8_t bytes[2000];
    size_t size = sizeof bytes;
    cls_params p;
    cls_params_init(&p);
    p.temperature = 0.0f;
    p.grammar = wide;
    must_refuse(cls_slot_begin(b.sampler, 0, &p, NULL, 0, NULL, 0),
                "params->grammar is of a vocabulary of 9; it must be of 8");
    p.grammar = g;
    p.grammar_state = 1;
    must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, NULL, 0));
    must(cls_sampler_memory(b.sampler, &one));
    p.grammar = equal;
    must(cls_slot_begin(b.sampler, 1, &p, NULL, 0, NULL, 0));
    must(cls_sampler_memory(b.sampler, &two));
    ck_assert_uint_eq(one.lists, two.lists);
    bench_row(&b, 0);
    ck_assert_int_eq(b.token[0], 3);
    must(cls_slot_save(b.sampler, d->queue, 0, bytes, &size));
    must_refuse(cls_slot_load(b.sampler, 1, bytes, size - 1, g), "damaged or cut short");
    load_changed(&b, bytes, size, g);
    bench_close(&b);
    cls_grammar_destroy(g);
    cls_grammar_destroy(equal);
    cls_grammar_destroy(wide);
}
END_TEST

/* Returns the likeliest id that the first state of an automaton allows. */
static int32_t first_of(const automaton *a)
{
    int32_t id = (int32_t)a->vocab - 1;
    while (automaton_after(a, 0, id) == CLS_GRAMMAR_DEAD)
        id--;
    return id;
}

/* What a grammar takes is given free when the last of the requests that follow it leaves, whether
 * that is the first one or its fork. */
START_TEST(leaving)
{
    device *const d = fixture_device(_i);
    bench b = open_small(d);
    automaton *const a = must_malloc(sizeof *a);
    rng r = {fixture_seed() + 2};
    cls_memory m[2] = {{.struct_size = sizeof m[0]}, {.struct_size = sizeof m[0]}};
    cls_params p, none;
    cls_params_init(&none);
    none.temperature = 0.0f;
    p = none;
    for (uint32_t i = 0; i < 60; i++) {
        const uint32_t left = i % 2, stays = 1 - left;
        automaton_draw(a, 8, &r);
        cls_grammar *const g = automaton_grammar(a);
        p.grammar = g;
        must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, NULL, 0));
        must(cls_slot_copy(b.sampler, 1, 0));
        cls_grammar_destroy(g);
        bench_row(&b, 0);
        must(cls_slot_begin(b.sampler, left, &none, NULL, 0, NULL, 0));
        must(cls_slot_begin(b.sampler, 2, &none, NULL, 0, NULL, 0));
        bench_row(&b, 2);
        must(cls_slot_next_turn(b.sampler, stays, NULL, 0));
        bench_row(&b, (int32_t)stays);
        ck_assert_int_eq(b.token[0], first_of(a));
        must(cls_slot_begin(b.sampler, stays, &none, NULL, 0, NULL, 0));
        bench_row(&b, 2);
        must(cls_sampler_memory(b.sampler, &m[i > 20]));
    }
    ck_assert_uint_eq(m[0].host, m[1].host);
    ck_assert_uint_eq(m[0].lists, m[1].lists);
    bench_close(&b);
    free(a);
}
END_TEST

int main(void)
{
    fixture_random(CLS_FEATURE_FORCED);
    fixture_begin(ON_DEVICES);
    add_device_test(grammars);
    add_device_test(leaving);
    return fixture_end();
}
