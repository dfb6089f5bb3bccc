/* SPDX-License-Identifier: MIT */
/* Saves grammars, and makes them of bytes that anyone may have made. */
#include "request/maker.h"

#include <stdlib.h>

/* A saved grammar is a header and what its digest is of: the classes of all ids and, for each
 * state, the number of its transitions and these; in format 2 then the draft tokens of all states.
 * All words are little-endian. */
#define SAVED_MAGIC 0x47534c43u /* "CLSG" */
enum { SAVED_FORMAT = 1, SAVED_DRAFTS = 2, DIGEST_WORDS = CLS_DIGEST_SIZE / 4 };
enum {
    MAGIC_AT,
    FORMAT_AT,
    VOCAB_AT,
    STATES_AT,
    PAIRS_AT,
    NAMED_AT,
    VOCABULARY_AT,
    DIGEST_AT = VOCABULARY_AT + DIGEST_WORDS,
    SAVED_HEADER = DIGEST_AT + DIGEST_WORDS
};

static void put_word(uint8_t *bytes, uint64_t at, uint32_t word)
{
    for (int b = 0; b < 4; b++)
        bytes[4 * at + (uint64_t)b] = (uint8_t)(word >> 8 * b);
}

static uint32_t word_at(const uint8_t *bytes, uint64_t at)
{
    uint32_t word = 0;
    for (int b = 0; b < 4; b++)
        word |= (uint32_t)bytes[4 * at + (uint64_t)b] << 8 * b;
    return word;
}

/* Returns the bytes of a grammar of the maker's numbers. */
static uint64_t saved_size(uint32_t vocab, uint32_t states, uint64_t pairs, int has_drafts)
{
    return 4 * (SAVED_HEADER + (uint64_t)vocab + states + 2 * pairs + (has_drafts ? states : 0));
}

cls_status cls_grammar_save(const cls_grammar *g, const uint8_t *vocabulary, void *out,
                            size_t *size)
{
    if (g == NULL || size == NULL)
        return cls_refuse("%s is NULL", g == NULL ? "grammar" : "size");
    const uint32_t *const w = g->words;
    const uint32_t pairs = (grammar_state_at(w, g->states)[0] - grammar_state_at(w, 0)[0]) / 2;
    const int has_drafts = w[CLS_GRAMMAR_DRAFTS] != 0;
    const uint64_t need = saved_size(g->vocab, g->states, pairs, has_drafts);
    const size_t room = *size;
    *size = (size_t)need;
    if (out == NULL)
        return CLS_OK;
    if (room < need)
        return cls_refuse("size is %zu; the grammar takes %llu bytes", room,
                          (unsigned long long)need);
    uint8_t *const to = out;
    uint64_t at = SAVED_HEADER;
    put_word(to, MAGIC_AT, SAVED_MAGIC);
    put_word(to, FORMAT_AT, has_drafts ? SAVED_DRAFTS : SAVED_FORMAT);
    put_word(to, VOCAB_AT, g->vocab);
    put_word(to, STATES_AT, g->states);
    put_word(to, PAIRS_AT, pairs);
    put_word(to, NAMED_AT, vocabulary != NULL);
    memset(to + 4 * VOCABULARY_AT, 0, CLS_DIGEST_SIZE);
    if (vocabulary != NULL)
        memcpy(to + 4 * VOCABULARY_AT, vocabulary, CLS_DIGEST_SIZE);
    memcpy(to + 4 * DIGEST_AT, g->digest, CLS_DIGEST_SIZE);
    for (uint32_t id = 0; id < g->vocab; id++)
        put_word(to, at++, w[w[CLS_GRAMMAR_CLASS_OF] + id]);
    for (uint32_t s = 0; s < g->states; s++) {
        const uint32_t *const record = grammar_state_at(w, s);
        put_word(to, at++, (record[2] - record[0]) / 2);
        for (uint32_t i = record[0]; i < record[2]; i++)
            put_word(to, at++, w[i]);
    }
    for (uint32_t s = 0; s < g->states && has_drafts; s++)
        put_word(to, at++, w[w[CLS_GRAMMAR_DRAFTS] + s]);
    return CLS_OK;
}

static cls_status damaged_grammar(const char *what)
{
    return cls_refuse("saved->bytes are damaged: %s", what);
}

/* Checks the header, and sets the numbers of the maker's options. */
static cls_status read_saved_header(const cls_saved_grammar *saved, cls_grammar_maker *m)
{
    const uint8_t *const bytes = saved->bytes;
    if (bytes == NULL)
        return cls_refuse("saved->bytes is NULL");
    if (saved->size < 4 * SAVED_HEADER || word_at(bytes, MAGIC_AT) != SAVED_MAGIC)
        return cls_refuse("saved->bytes are no saved grammar");
    const uint32_t format = word_at(bytes, FORMAT_AT);
    if (format < SAVED_FORMAT || format > SAVED_DRAFTS)
        return cls_refuse("saved->bytes are a grammar saved in format %u; this library reads "
                          "formats %d and %d",
                          (unsigned)format, SAVED_FORMAT, SAVED_DRAFTS);
    m->o.vocab = word_at(bytes, VOCAB_AT);
    m->o.states = word_at(bytes, STATES_AT);
    m->o.max_bytes = saved->max_bytes;
    m->n_pairs = word_at(bytes, PAIRS_AT);
    if (m->o.vocab < 1 || m->o.vocab > CLS_MAX_VOCAB || m->o.states < 1 ||
        m->o.states >= 1u << 30 || word_at(bytes, NAMED_AT) > 1)
        return damaged_grammar("an impossible number");
    if (saved->size != saved_size(m->o.vocab, m->o.states, m->n_pairs, format == SAVED_DRAFTS))
        return cls_refuse("saved->size is %zu, which is not that of this grammar: it was cut short "
                          "or is damaged",
                          saved->size);
    if (saved->vocabulary == NULL)
        return CLS_OK;
    if (word_at(bytes, NAMED_AT) == 0)
        return cls_refuse("saved->vocabulary is set, but the grammar was saved without one");
    return memcmp(bytes + 4 * VOCABULARY_AT, saved->vocabulary, CLS_DIGEST_SIZE) == 0
               ? CLS_OK
               : cls_refuse("saved->vocabulary is not the one that the grammar was saved for: its "
                            "ids stand for other tokens");
}

/* Reads the class of each id. They are numbered by their lowest ids, as number_classes() does. */
static cls_status read_classes(cls_grammar_maker *m, const uint8_t *bytes)
{
    m->classes = CLS_CLASS_FIRST;
    for (uint32_t id = 0; id < m->o.vocab; id++) {
        const uint32_t c = word_at(bytes, SAVED_HEADER + (uint64_t)id);
        if (c > m->classes)
            return damaged_grammar("an id of an impossible class");
        m->classes += c == m->classes;
        m->class_of[id] = c;
        m->size[c]++;
    }
    return CLS_OK;
}

/* An odd number, so that the first transition hashes no zero. */
#define SALT 0x51ed27f1a3c59b87u

static int compare_columns(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Fails unless every class has a transition and no two have the same ones: they would be one, and
 * equal automata would have two digests. column: [classes] a hash of the transitions. */
static cls_status check_columns(const cls_grammar_maker *m, uint64_t *column)
{
    const uint32_t n = m->classes - CLS_CLASS_FIRST;
    for (uint32_t i = 0; i < n; i++)
        if (column[CLS_CLASS_FIRST + i] == 0)
            return damaged_grammar("a class without a transition");
    if (n > 1)
        qsort(column + CLS_CLASS_FIRST, n, sizeof *column, compare_columns);
    for (uint32_t i = 1; i < n; i++)
        if (column[CLS_CLASS_FIRST + i] == column[CLS_CLASS_FIRST + i - 1])
            return damaged_grammar("two classes with the same transitions");
    return CLS_OK;
}

/* Reads the transitions of all states. */
static cls_status read_transitions(cls_grammar_maker *m, const uint8_t *bytes, uint64_t *column)
{
    uint64_t at = SAVED_HEADER + (uint64_t)m->o.vocab, first = 0;
    for (uint32_t s = 0; s < m->o.states; s++) {
        const uint32_t n = word_at(bytes, at++);
        uint32_t latest = CLS_CLASS_NEVER;
        if (n == 0 || n > m->n_pairs - first)
            return damaged_grammar("a state with an impossible number of transitions");
        m->offsets[s] = first;
        for (uint64_t i = first; i < first + n; i++) {
            const uint32_t c = word_at(bytes, at++), next = word_at(bytes, at++);
            if (c <= latest || c >= m->classes || m->size[c] == 0 ||
                (c == CLS_CLASS_ENDS ? next != CLS_GRAMMAR_ENDED : next >= m->o.states))
                return damaged_grammar("an impossible transition");
            latest = m->pairs[2 * i] = c;
            m->pairs[2 * i + 1] = next;
            column[c] = cls_hash_word(column[c] + SALT, (uint64_t)(s + 1) << 32 | (next + 1));
        }
        first += n;
    }
    m->offsets[m->o.states] = first;
    return first == m->n_pairs ? check_columns(m, column) : damaged_grammar("too few transitions");
}

/* Reads the draft tokens, which are not the only ids of their states, and of which there is one. */
static cls_status read_draft_tokens(cls_grammar_maker *m, const uint8_t *bytes)
{
    const uint64_t at = SAVED_HEADER + (uint64_t)m->o.vocab + m->o.states + 2 * m->n_pairs;
    int some = 0;
    if (word_at(bytes, FORMAT_AT) != SAVED_DRAFTS)
        return CLS_OK;
    m->drafts = malloc(m->o.states * sizeof *m->drafts);
    if (m->drafts == NULL)
        return cls_no_grammar_memory();
    for (uint32_t s = 0; s < m->o.states; s++) {
        const uint32_t id = m->drafts[s] = word_at(bytes, at + s);
        if (id != CLS_NO_DRAFT &&
            (id >= m->o.vocab || !cls_maker_allows(m, s, id) || cls_maker_allows_one(m, s)))
            return damaged_grammar("an impossible draft token");
        some |= id != CLS_NO_DRAFT;
    }
    return some ? CLS_OK : damaged_grammar("they have no draft token");
}

static cls_status load_grammar(cls_grammar_maker *m, const uint8_t *bytes, cls_grammar **out)
{
    uint8_t digest[CLS_DIGEST_SIZE];
    if (!cls_maker_allocate(m))
        return cls_no_grammar_memory();
    m->pairs = malloc((size_t)m->n_pairs * 2 * sizeof *m->pairs + 1);
    uint64_t *const column = calloc(m->most, sizeof *column);
    cls_status status =
        m->pairs == NULL || column == NULL ? cls_no_grammar_memory() : read_classes(m, bytes);
    if (status == CLS_OK)
        status = read_transitions(m, bytes, column);
    free(column);
    if (status == CLS_OK)
        status = read_draft_tokens(m, bytes);
    if (status != CLS_OK)
        return status;
    cls_maker_digest(m, digest);
    return memcmp(digest, bytes + 4 * DIGEST_AT, sizeof digest) == 0
               ? cls_maker_finish(m, out)
               : damaged_grammar("their digest is another one");
}

cls_status cls_grammar_load(const cls_saved_grammar *callers, cls_grammar **out)
{
    cls_saved_grammar saved;
    cls_grammar_maker m;
    memset(&m, 0, sizeof m);
    if (out == NULL)
        return cls_refuse("grammar is NULL");
    *out = NULL;
    cls_status status = CLS_STRUCT_READ(&saved, callers, "saved");
    if (status == CLS_OK)
        status = read_saved_header(&saved, &m);
    if (status == CLS_OK)
        status = load_grammar(&m, saved.bytes, out);
    cls_maker_free(&m);
    return status;
}

cls_status cls_vocabulary_digest(const void *const *texts, const uint32_t *lengths, uint32_t vocab,
                                 uint8_t *digest)
{
    cls_sha256 hash;
    if (texts == NULL || lengths == NULL || digest == NULL)
        return cls_refuse("%s is NULL", texts == NULL     ? "texts"
                                        : lengths == NULL ? "lengths"
                                                          : "digest");
    if (vocab < 1 || vocab > CLS_MAX_VOCAB)
        return cls_refuse("vocab is %u; it must be 1 to %d", (unsigned)vocab, CLS_MAX_VOCAB);
    cls_sha256_init(&hash);
    for (uint32_t id = 0; id < vocab; id++) {
        if (texts[id] == NULL && lengths[id] != 0)
            return cls_refuse("texts[%u] is NULL, but lengths[%u] is %u", (unsigned)id,
                              (unsigned)id, (unsigned)lengths[id]);
        cls_hash_words(&hash, &lengths[id], 1);
        if (lengths[id] != 0)
            cls_sha256_update(&hash, texts[id], lengths[id]);
    }
    cls_sha256_final(&hash, digest);
    return CLS_OK;
}
