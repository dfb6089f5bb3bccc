/* SPDX-License-Identifier: MIT */
/* Proves grammars on the host: what cls_grammar_create() refuses, and in which words; that the
 * table of classes says the same as the arrays that it was made from, for random automata, whose
 * digests differ if and only if the automata do, and for every automaton of two states over at most
 * four ids, in some of which no id shares its class and none ends the text. What rows draw is in
 * grammar.run. */
#include <stdlib.h>
#include <string.h>

#include "automaton.h"
#include "request/request.h"

static void check_state(const automaton *a, const cls_grammar *g, uint32_t state)
{
    int32_t words[(MOST_VOCAB + 31) / 32];
    must(cls_grammar_mask(g, state, words));
    for (uint32_t id = 0; id < a->vocab; id++) {
        const int32_t token = (int32_t)id;
        uint32_t next = state;
        must(cls_grammar_advance(g, &token, 1, &next));
        ck_assert_uint_eq(next, automaton_after(a, state, token));
        ck_assert_int_eq((int)((uint32_t)words[id / 32] >> (id % 32) & 1u),
                         next != CLS_GRAMMAR_DEAD);
    }
    ck_assert_int_eq((int32_t)grammar_draft(g->words, state), automaton_draft(a, state));
    for (uint32_t id = a->vocab; id % 32 != 0; id++)
        ck_assert_uint_eq((uint32_t)words[id / 32] >> (id % 32) & 1u, 0);
    if (state < a->states) { /* a set that is large is a bitmap, which no row makes again */
        uint32_t set = 0;
        for (uint32_t id = 0; id < a->vocab; id++)
            set += (uint32_t)words[id / 32] >> (id % 32) & 1u;
        ck_assert_int_eq(grammar_state_at(g->words, state)[1] != 0, set > CLS_GRAMMAR_LISTED);
    }
}

START_TEST(same_as_arrays)
{
    automaton *const a = malloc(sizeof *a);
    rng r = {fixture_seed()};
    uint32_t bitmaps = 0, drafted = 0;
    for (int i = 0; i < 60; i++) {
        cls_grammar *g, *again;
        cls_grammar_info info = {.struct_size = sizeof info}, other = info;
        automaton_draw(a, 3 + rng_below(&r, MOST_VOCAB - 2), &r);
        g = automaton_grammar(a);
        must(cls_grammar_query(g, &info));
        ck_assert_uint_eq(info.vocab, a->vocab);
        ck_assert_uint_eq(info.states, a->states);
        ck_assert_uint_le(info.classes, a->vocab);
        uint32_t drafts = 0, others = 0;
        for (uint32_t s = 0; s < a->states; s++)
            drafts += automaton_draft(a, s) != -1;
        ck_assert_uint_eq(info.drafts, drafts);
        bitmaps += info.bitmaps;
        for (uint32_t s = 0; s < a->states; s++)
            check_state(a, g, s);
        check_state(a, g, CLS_GRAMMAR_ENDED);
        check_state(a, g, CLS_GRAMMAR_DEAD);
        again = automaton_grammar(a);
        must(cls_grammar_query(again, &other));
        ck_assert_mem_eq(info.digest, other.digest, sizeof info.digest);
        cls_grammar_destroy(again);
        if (a->o.offsets[a->states] != 0 && a->states > 1) {
            a->next[0] = (a->next[0] + 1) % a->states;
            again = automaton_grammar(a);
            must(cls_grammar_query(again, &other));
            ck_assert_mem_ne(info.digest, other.digest, sizeof info.digest);
            cls_grammar_destroy(again);
            a->next[0] = (a->next[0] + a->states - 1) % a->states;
        }
        for (uint32_t s = 0; s < a->states; s++) { /* draft tokens belong to the digest */
            const int32_t before = automaton_draft(a, s), was = a->draft_ids[s];
            a->draft_ids[s] = -1;
            again = automaton_grammar(a);
            must(cls_grammar_query(again, &other));
            ck_assert_int_eq(memcmp(info.digest, other.digest, sizeof info.digest) == 0,
                             before == automaton_draft(a, s));
            others += before != automaton_draft(a, s);
            cls_grammar_destroy(again);
            a->draft_ids[s] = was;
        }
        drafted += others;
        cls_grammar_destroy(g);
    }
    ck_assert_uint_gt(drafted, 60);
    ck_assert_uint_gt(bitmaps, 20); /* sets of both kinds occur */
    free(a);
}
END_TEST

/* Sets the transitions to the digits of a number: its states plus no transition are the base. */
static uint32_t small_automaton(automaton *a, uint32_t number)
{
    for (uint32_t s = 0; s < a->states; s++)
        for (uint32_t id = 0; id < a->vocab; id++, number /= a->states + 1) {
            const int ends = (int32_t)id == a->end_ids[0];
            const uint32_t digit = number % (a->states + 1);
            a->to[s][id] = digit < a->states && !ends ? digit : CLS_GRAMMAR_DEAD;
        }
    automaton_finish(a);
    return number;
}

START_TEST(every_small_one)
{
    automaton *const a = must_malloc(sizeof *a);
    uint32_t made = 0;
    memset(a, 0, sizeof *a);
    a->states = 2;
    for (a->vocab = 1; a->vocab <= 4; a->vocab++)
        for (int ends = 0; ends < 2; ends++) {
            a->end_ids[0] = a->end_ids[1] = ends ? (int32_t)a->vocab - 1 : -1;
            a->final_states[0] = (uint8_t)ends;
            for (uint32_t i = 0; small_automaton(a, i) == 0; i++) {
                cls_grammar *g;
                if (a->offsets[2] == a->offsets[1] || (a->offsets[1] == 0 && !ends)) {
                    must_refuse(cls_grammar_create(&a->o, &g), "has no way out");
                    continue;
                }
                g = automaton_grammar(a);
                for (uint32_t s = 0; s < 2; s++)
                    check_state(a, g, s);
                cls_grammar_destroy(g);
                made++;
            }
        }
    ck_assert_uint_gt(made, 7000);
    free(a);
}
END_TEST

/* Three states: 0 -1-> 1 -2,3-> 2, which is final; the end id is 7. */
static const uint64_t offsets[] = {0, 1, 3, 3};
static const int32_t ids[] = {1, 2, 3}, end_ids[] = {7};
static const uint32_t next[] = {1, 2, 2};
static const uint8_t final_states[] = {0, 0, 1};
static cls_grammar_options small_options(void)
{
    cls_grammar_options o;
    cls_grammar_options_init(&o);
    o.vocab = 8;
    o.states = 3;
    o.offsets = offsets;
    o.ids = ids;
    o.next = next;
    o.final_states = final_states;
    o.end_ids = (cls_ids){end_ids, 1};
    return o;
}

START_TEST(refusals)
{
    const cls_grammar_options good = small_options();
    const uint64_t late[] = {1, 1, 3, 3}, falling[] = {0, 3, 1, 3}, none[] = {0, 0, 2, 2};
    const int32_t unordered[] = {1, 3, 2}, twice[] = {1, 2, 2}, outside[] = {1, 2, 8},
                  negative[] = {-1, 2, 3}, ends[] = {1, 2, 7}, no_end[] = {8};
    const uint32_t no_state[] = {1, 3, 2};
    const int32_t no_token[] = {-1, 8, -1}, below[] = {-1, -2, -1}, elsewhere[] = {-1, 1, -1},
                  no_way_out[] = {-1, -1, 3}, too_early[] = {7, -1, -1};
    const uint8_t never[] = {0, 0, 0}, wrong[] = {0, 0, 2};
    const struct {
        size_t at, size;
        const void *value;
        const char *message;
    } cases[] = {
#define FIELD(field, value, message) \
    {offsetof(cls_grammar_options, field), sizeof good.field, &(value), message}
        FIELD(vocab, (uint32_t){0}, "options->vocab is 0"),
        FIELD(vocab, (uint32_t){1048577}, "options->vocab is 1048577"),
        FIELD(states, (uint32_t){0}, "options->states is 0"),
        FIELD(states, (uint32_t){1u << 30}, "options->states is 1073741824"),
        FIELD(offsets, (const uint64_t *){NULL}, "options->offsets is NULL"),
        FIELD(offsets, (const uint64_t *){late}, "options->offsets[0] is 1"),
        FIELD(offsets, (const uint64_t *){falling}, "options->offsets[2] is 1 after 3"),
        FIELD(offsets, (const uint64_t *){none}, "state 0 has no way out"),
        FIELD(ids, (const int32_t *){NULL}, "options->ids is NULL"),
        FIELD(ids, (const int32_t *){unordered}, "options->ids[2] is 2 after 3"),
        FIELD(ids, (const int32_t *){twice}, "options->ids[2] is 2 after 2"),
        FIELD(ids, (const int32_t *){outside}, "options->ids[2] is 8, which is not a token"),
        FIELD(ids, (const int32_t *){negative}, "options->ids[0] is -1, which is not a token"),
        FIELD(ids, (const int32_t *){ends}, "options->ids[2] is 7, which options->end_ids has"),
        FIELD(next, (const uint32_t *){NULL}, "options->next is NULL"),
        FIELD(next, (const uint32_t *){no_state},
              "options->next[1] is 3, but options->states is 3"),
        FIELD(final_states, (const uint8_t *){never}, "state 2 has no way out"),
        FIELD(final_states, (const uint8_t *){NULL}, "state 2 has no way out"),
        FIELD(final_states, (const uint8_t *){wrong}, "options->final_states[2] is 2"),
        FIELD(end_ids, ((cls_ids){NULL, 1}), "options->end_ids.ids is NULL"),
        FIELD(end_ids, ((cls_ids){no_end, 1}), "options->end_ids.ids[0] is 8"),
        FIELD(end_ids, ((cls_ids){NULL, 0}), "options->end_ids is empty"),
        FIELD(draft_ids, (const int32_t *){no_token},
              "options->draft_ids[1] is 8, which state 1 does not allow"),
        FIELD(draft_ids, (const int32_t *){below}, "options->draft_ids[1] is -2, which state 1"),
        FIELD(draft_ids, (const int32_t *){elsewhere}, "options->draft_ids[1] is 1, which state 1"),
        FIELD(draft_ids, (const int32_t *){no_way_out},
              "options->draft_ids[2] is 3, which state 2"),
        FIELD(draft_ids, (const int32_t *){too_early}, "options->draft_ids[0] is 7, which state 0"),
        FIELD(max_bytes, (uint64_t){100}, "the grammar takes 144 bytes, but max_bytes"),
    };
    cls_grammar *g;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cls_grammar_options o = good;
        memcpy((char *)&o + cases[i].at, cases[i].value, cases[i].size);
        must_refuse(cls_grammar_create(&o, &g), cases[i].message);
        ck_assert_ptr_null(g);
    }
    must_refuse(cls_grammar_create(NULL, &g), "options is NULL");
    must_refuse(cls_grammar_create(&good, NULL), "grammar is NULL");
}
END_TEST

/* End ids belong to the digest, also where no state is final; their order does not. */
static void compare_digests(void)
{
    static const uint32_t around[] = {1, 2, 0};
    static const uint64_t ones[] = {0, 1, 2, 3};
    const cls_ids ends[] = {
        {(const int32_t[]){7, 6}, 2}, {(const int32_t[]){6, 7, 6}, 3}, {(const int32_t[]){6}, 1}};
    for (int final = 0; final < 2; final++) {
        cls_grammar_info info[3];
        for (int i = 0; i < 3; i++) {
            cls_grammar_options o = small_options();
            cls_grammar *g;
            o.offsets = ones;
            o.next = around;
            o.final_states = final ? final_states : NULL;
            o.end_ids = ends[i];
            cls_grammar_info_init(&info[i]);
            must(cls_grammar_create(&o, &g));
            must(cls_grammar_query(g, &info[i]));
            cls_grammar_destroy(g);
        }
        ck_assert_mem_eq(info[0].digest, info[1].digest, sizeof info[0].digest);
        ck_assert_mem_ne(info[0].digest, info[2].digest, sizeof info[0].digest);
    }
}

START_TEST(calls)
{
    const cls_grammar_options o = small_options();
    const int32_t text[] = {1, -1, 3, 8, 7};
    cls_grammar *g, *ends;
    cls_grammar_options ends_otherwise = o;
    cls_grammar_info info = {.struct_size = sizeof info}, other = info;
    uint32_t state = 0;
    int32_t words[1];
    must(cls_grammar_create(&o, &g));
    must(cls_grammar_query(g, &info));
    ck_assert_uint_eq(info.classes, 4);
    ck_assert_uint_eq(info.bitmaps, 0);
    ck_assert_uint_eq(info.bytes, 144);
    ck_assert_uint_eq(info.drafts, 2);
    ends_otherwise.end_ids.ids = (const int32_t[]){6};
    must(cls_grammar_create(&ends_otherwise, &ends));
    must(cls_grammar_query(ends, &other));
    ck_assert_mem_ne(info.digest, other.digest, sizeof info.digest);
    cls_grammar_destroy(ends);
    compare_digests();
    must(cls_grammar_advance(g, text, 4, &state));
    ck_assert_uint_eq(state, 2);
    must(cls_grammar_advance(g, text + 4, 1, &state));
    ck_assert_uint_eq(state, CLS_GRAMMAR_ENDED);
    must(cls_grammar_mask(g, 1, words));
    ck_assert_int_eq(words[0], 12);
    state = 3;
    must_refuse(cls_grammar_advance(g, text, 1, &state), "state is 3, but the grammar has 3");
    must_refuse(cls_grammar_mask(g, 3, words), "state is 3, but the grammar has 3");
    must_refuse(cls_grammar_mask(g, 1, NULL), "words is NULL");
    must_refuse(cls_grammar_mask(NULL, 1, words), "grammar is NULL");
    must_refuse(cls_grammar_advance(g, text, 1, NULL), "state is NULL");
    state = 0;
    must_refuse(cls_grammar_advance(g, NULL, 1, &state), "count is 1, but ids is NULL");
    must_refuse(cls_grammar_query(NULL, &info), "grammar is NULL");
    must_refuse(cls_grammar_query(g, NULL), "info is NULL");
    cls_grammar_destroy(g);
    cls_grammar_destroy(NULL);
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_test(same_as_arrays);
    add_test(every_small_one);
    add_test(refusals);
    add_test(calls);
    return fixture_end();
}
