/* SPDX-License-Identifier: MIT */
/* Grammars that are saved and loaded: the same automaton, digest and bytes; bytes that are damaged,
 * cut short, of another vocabulary or impossible in any other way are refused. */
#include <stdlib.h>
#include <string.h>

#include "automaton.h"
#include "request/request.h"

enum { HEADER = 88, VOCAB_AT = 8, NAMED_AT = 20, DIGEST_AT = 56 }; /* bytes */

/* Saves a grammar; the caller frees the bytes. */
static uint8_t *saved_bytes(const cls_grammar *g, const uint8_t *vocabulary, size_t *size)
{
    *size = 0;
    must(cls_grammar_save(g, vocabulary, NULL, size));
    uint8_t *const bytes = must_malloc(*size);
    size_t less = *size - 1;
    must_refuse(cls_grammar_save(g, vocabulary, bytes, &less), "the grammar takes");
    ck_assert_uint_eq(less, *size);
    must(cls_grammar_save(g, vocabulary, bytes, size));
    return bytes;
}

static cls_status load(const uint8_t *bytes, size_t size, const uint8_t *vocabulary,
                       cls_grammar **g)
{
    cls_saved_grammar saved;
    cls_saved_grammar_init(&saved);
    saved.bytes = bytes;
    saved.size = size;
    saved.vocabulary = vocabulary;
    return cls_grammar_load(&saved, g);
}

static void must_not_load(const uint8_t *bytes, size_t size, const uint8_t *vocabulary,
                          const char *words)
{
    cls_grammar *g = (cls_grammar *)(uintptr_t)1;
    must_refuse(load(bytes, size, vocabulary, &g), words);
    ck_assert_ptr_null(g);
}

/* Sets the digest to that of the bytes as they are. */
static void correct(uint8_t *bytes, size_t size)
{
    cls_sha256 hash;
    cls_sha256_init(&hash);
    cls_sha256_update(&hash, bytes + VOCAB_AT, 8); /* the vocabulary and the states */
    cls_sha256_update(&hash, bytes + HEADER, size - HEADER);
    cls_sha256_final(&hash, bytes + DIGEST_AT);
}

START_TEST(round_trips)
{
    static automaton a;
    rng r = {fixture_seed()};
    const uint32_t count = fixture_by_size(60, 200, 1000);
    for (uint32_t n = 0; n < count; n++) {
        automaton_draw(&a, 1 + rng_below(&r, n % 4 ? 60 : MOST_VOCAB), &r);
        cls_grammar *const g = automaton_grammar(&a), *again;
        cls_grammar_info info[2] = {{.struct_size = sizeof info[0]},
                                    {.struct_size = sizeof info[0]}};
        size_t size, size_again;
        uint8_t *const bytes = saved_bytes(g, NULL, &size);
        must(load(bytes, size, NULL, &again));
        uint8_t *const bytes_again = saved_bytes(again, NULL, &size_again);
        must(cls_grammar_query(g, &info[0]));
        must(cls_grammar_query(again, &info[1]));
        ck_assert_mem_eq(&info[0], &info[1], sizeof info[0]);
        ck_assert_uint_eq(size, size_again);
        ck_assert_mem_eq(bytes, bytes_again, size);
        for (uint32_t s = 0; s < a.states; s++)
            for (uint32_t id = 0; id < a.vocab; id++) {
                const int32_t token = (int32_t)id;
                uint32_t state = s;
                must(cls_grammar_advance(again, &token, 1, &state));
                ck_assert_uint_eq(state, automaton_after(&a, s, token));
            }
        for (uint32_t s = 0; s < a.states; s++)
            ck_assert_int_eq((int32_t)grammar_draft(again->words, s), automaton_draft(&a, s));
        cls_grammar_destroy(g);
        cls_grammar_destroy(again);
        free(bytes);
        free(bytes_again);
    }
}
END_TEST

/* Any changed bit and any other length is seen. With a digest that is corrected, bytes that are
 * accepted are those of another automaton, and saved in the same way. */
START_TEST(damaged)
{
    static automaton a;
    rng r = {fixture_seed()};
    uint32_t accepted = 0, refused = 0;
    for (uint32_t n = 0; n < 12; n++) {
        size_t size;
        automaton_draw(&a, 3 + rng_below(&r, 12), &r);
        cls_grammar *const g = automaton_grammar(&a), *other;
        uint8_t *const bytes = saved_bytes(g, NULL, &size), *const copy = must_malloc(size + 4);
        for (size_t i = 0; i < size; i++) {
            const uint8_t bit = (uint8_t)(1u << rng_below(&r, 8));
            memcpy(copy, bytes, size);
            copy[i] ^= bit;
            if (i < NAMED_AT || i >= DIGEST_AT) /* not the vocabulary's name, which is not set */
                ck_assert_msg(load(copy, size, NULL, &other) == CLS_BAD_ARGUMENT, "byte %zu", i);
            correct(copy, size);
            if (load(copy, size, NULL, &other) != CLS_OK) {
                ck_assert_ptr_null(other);
                refused++;
                continue;
            }
            size_t size_again;
            uint8_t *const again = saved_bytes(other, NULL, &size_again);
            ck_assert_uint_eq(size_again, size);
            ck_assert_mem_eq(again + HEADER, copy + HEADER, size - HEADER);
            ck_assert_mem_eq(again + DIGEST_AT, copy + DIGEST_AT, 32);
            cls_grammar_destroy(other);
            free(again);
            accepted += i >= HEADER;
        }
        for (size_t less = 0; less < size; less++)
            ck_assert_int_eq(load(bytes, less, NULL, &other), CLS_BAD_ARGUMENT);
        memcpy(copy, bytes, size);
        memset(copy + size, 0, 4);
        must_not_load(copy, size + 4, NULL, "it was cut short or is damaged");
        cls_grammar_destroy(g);
        free(bytes);
        free(copy);
    }
    ck_assert_msg(accepted > 20 && refused > 200, "%u accepted, %u refused", accepted, refused);
}
END_TEST

static void put(uint8_t *bytes, size_t word, uint32_t value)
{
    for (int b = 0; b < 4; b++)
        bytes[4 * word + (size_t)b] = (uint8_t)(value >> 8 * b);
}

/* Words of a grammar of 4 ids and 1 state, which is final and loops: header, classes, transitions.
 */
static size_t small_bytes(uint8_t *bytes, const uint32_t *classes, const uint32_t *pairs,
                          uint32_t n)
{
    static const uint32_t head[] = {0x47534c43u, 1, 4, 1};
    memset(bytes, 0, 256);
    for (uint32_t i = 0; i < 4; i++) {
        put(bytes, i, head[i]);
        put(bytes, HEADER / 4 + i, classes[i]);
    }
    put(bytes, 4, n);
    put(bytes, HEADER / 4 + 4, n);
    for (uint32_t i = 0; i < 2 * n; i++)
        put(bytes, HEADER / 4 + 5 + i, pairs[i]);
    const size_t size = HEADER + 4 * (5 + 2 * (size_t)n);
    correct(bytes, size);
    return size;
}

START_TEST(impossible)
{
    const uint32_t ended = CLS_GRAMMAR_ENDED;
    const struct {
        uint32_t classes[4], n, pairs[6];
        const char *words;
    } cases[] = {
        {{2, 2, 0, 1}, 2, {1, ended, 2, 0}, NULL},
        {{3, 2, 0, 1}, 2, {1, ended, 2, 0}, "an id of an impossible class"},
        {{2, 2, 3, 1}, 2, {1, ended, 2, 0}, "a class without a transition"},
        {{2, 3, 0, 1}, 3, {1, ended, 2, 0, 3, 0}, "two classes with the same transitions"},
        {{2, 2, 0, 1}, 2, {2, 0, 1, ended}, "an impossible transition"},
        {{2, 2, 0, 1}, 2, {1, ended, 2, 1}, "an impossible transition"},
        {{2, 2, 0, 1}, 2, {1, 0, 2, 0}, "an impossible transition"},
        {{2, 2, 0, 0}, 2, {1, ended, 2, 0}, "an impossible transition"},
        {{2, 2, 0, 1}, 2, {0, 0, 2, 0}, "an impossible transition"},
        {{2, 2, 0, 1}, 2, {1, ended, 3, 0}, "an impossible transition"},
        {{0, 0, 0, 1}, 0, {0}, "a state with an impossible number of transitions"},
    };
    uint8_t bytes[256];
    cls_grammar *g;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const size_t size = small_bytes(bytes, cases[i].classes, cases[i].pairs, cases[i].n);
        if (cases[i].words != NULL) {
            must_not_load(bytes, size, NULL, cases[i].words);
            continue;
        }
        must(load(bytes, size, NULL, &g));
        cls_grammar_destroy(g);
    }
}
END_TEST

/* The small grammar with a draft token of its state, and of one that allows a single id. */
START_TEST(draft_tokens)
{
    static const uint32_t classes[2][4] = {{2, 2, 0, 1}, {2, 0, 0, 0}},
                          pairs[2][4] = {{1, CLS_GRAMMAR_ENDED, 2, 0}, {2, 0}};
    const struct {
        int only;
        uint32_t draft;
        const char *words;
    } cases[] = {
        {0, 0, NULL},
        {0, 1, NULL},
        {0, 3, NULL},
        {0, 2, "an impossible draft token"},
        {0, 4, "an impossible draft token"},
        {0, UINT32_MAX - 1, "an impossible draft token"},
        {0, UINT32_MAX, "they have no draft token"},
        {1, 0, "an impossible draft token"},
        {1, UINT32_MAX, "they have no draft token"},
    };
    uint8_t bytes[256];
    cls_grammar *g;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int only = cases[i].only;
        size_t size = small_bytes(bytes, classes[only], pairs[only], only ? 1 : 2), again;
        must(load(bytes, size, NULL, &g));
        cls_grammar_destroy(g);
        put(bytes, 1, 2);
        must_not_load(bytes, size, NULL, "it was cut short or is damaged");
        put(bytes, size / 4, cases[i].draft);
        size += 4;
        correct(bytes, size);
        if (cases[i].words != NULL) {
            must_not_load(bytes, size, NULL, cases[i].words);
            continue;
        }
        must(load(bytes, size, NULL, &g));
        ck_assert_uint_eq(grammar_draft(g->words, 0), cases[i].draft);
        uint8_t *const saved = saved_bytes(g, NULL, &again);
        ck_assert_uint_eq(again, size);
        ck_assert_mem_eq(saved, bytes, size);
        cls_grammar_destroy(g);
        free(saved);
    }
}
END_TEST

START_TEST(vocabularies)
{
    const void *const texts[] = {"a", "bc", NULL, "d"};
    const uint32_t lengths[] = {1, 2, 0, 1};
    static const uint8_t known[32] = {0x41, 0xb9, 0x39, 0xd2};
    uint8_t name[32], other[32], bytes[256];
    size_t size = small_bytes(bytes, (const uint32_t[]){2, 2, 0, 1},
                              (const uint32_t[]){1, CLS_GRAMMAR_ENDED, 2, 0}, 2);
    cls_saved_grammar saved;
    cls_grammar *g, *named;
    must(cls_vocabulary_digest(texts, lengths, 4, name));
    ck_assert_mem_eq(name, known, 4); /* by sha256sum */
    must(cls_vocabulary_digest(texts, lengths, 3, other));
    ck_assert_mem_ne(name, other, sizeof name);
    must_refuse(cls_vocabulary_digest(NULL, lengths, 4, name), "texts is NULL");
    must_refuse(cls_vocabulary_digest(texts, NULL, 4, name), "lengths is NULL");
    must_refuse(cls_vocabulary_digest(texts, lengths, 4, NULL), "digest is NULL");
    must_refuse(cls_vocabulary_digest(texts, lengths, 0, name), "vocab is 0");
    must_refuse(cls_vocabulary_digest(texts, (const uint32_t[]){1, 2, 3, 1}, 4, name),
                "texts[2] is NULL, but lengths[2] is 3");
    must(load(bytes, size, NULL, &g));
    must_not_load(bytes, size, name, "the grammar was saved without one");
    uint8_t *const with = saved_bytes(g, name, &size);
    must(load(with, size, name, &named));
    cls_grammar_destroy(named);
    must(load(with, size, NULL, &named)); /* whoever loads it knows */
    cls_grammar_destroy(named);
    must_not_load(with, size, other, "its ids stand for other tokens");
    with[4] = 3;
    must_not_load(with, size, name, "saved in format 3; this library reads formats 1 and 2");
    with[4] = 1;
    cls_saved_grammar_init(&saved);
    saved.bytes = with;
    saved.size = size;
    must_refuse_with(saved, max_bytes, 8, cls_grammar_load(&saved, &named), "max_bytes is 8");
    must_refuse_with(saved, bytes, NULL, cls_grammar_load(&saved, &named), "saved->bytes is NULL");
    must_refuse_with(saved, struct_size, 0, cls_grammar_load(&saved, &named), "struct_size");
    must_refuse(cls_grammar_load(NULL, &named), "saved is NULL");
    must_refuse(cls_grammar_load(&saved, NULL), "grammar is NULL");
    must_refuse(cls_grammar_save(NULL, NULL, NULL, &size), "grammar is NULL");
    must_refuse(cls_grammar_save(g, NULL, NULL, NULL), "size is NULL");
    cls_grammar_destroy(g);
    free(with);
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_test(round_trips);
    add_test(damaged);
    add_test(impossible);
    add_test(draft_tokens);
    add_test(vocabularies);
    return fixture_end();
}
