/* SPDX-License-Identifier: MIT */
/* Makes the words of a grammar (cl/core/grammar.h) from the caller's arrays, and follows them.
 *
 * The classes are refined state by state: the ids of one class with the same next state become a
 * class of their own, unless the state has all ids of their class. Each transition costs one
 * look-up in a table of hashes. */
#include "request/maker.h"

#include <stdlib.h>

cls_status cls_no_grammar_memory(void) { return cls_no_memory("a grammar"); }

/* ---------------------------------------------------------------------- checks */

static cls_status check_grammar_numbers(const cls_grammar_options *o)
{
    if (o->vocab < 1 || o->vocab > CLS_MAX_VOCAB)
        return cls_refuse("options->vocab is %u; it must be 1 to %d", (unsigned)o->vocab,
                          CLS_MAX_VOCAB);
    if (o->states < 1 || o->states >= 1u << 30)
        return cls_refuse("options->states is %u; it must be 1 to 1073741823", (unsigned)o->states);
    if (o->offsets == NULL)
        return cls_refuse("options->offsets is NULL");
    if (o->offsets[0] != 0)
        return cls_refuse("options->offsets[0] is %llu; it must be 0",
                          (unsigned long long)o->offsets[0]);
    for (uint32_t s = 0; s < o->states; s++)
        if (o->offsets[s + 1] < o->offsets[s] || o->offsets[s + 1] - o->offsets[s] > o->vocab)
            return cls_refuse("options->offsets[%u] is %llu after %llu: a state has 0 to %u "
                              "transitions, one for an id",
                              (unsigned)s + 1, (unsigned long long)o->offsets[s + 1],
                              (unsigned long long)o->offsets[s], (unsigned)o->vocab);
    if (o->offsets[o->states] != 0 && (o->ids == NULL || o->next == NULL))
        return cls_refuse("options->%s is NULL, but there are %llu transitions",
                          o->ids == NULL ? "ids" : "next",
                          (unsigned long long)o->offsets[o->states]);
    if (o->end_ids.count != 0 && o->end_ids.ids == NULL)
        return cls_refuse("options->end_ids.count is %u, but options->end_ids.ids is NULL",
                          (unsigned)o->end_ids.count);
    return CLS_OK;
}

static cls_status check_end_ids(cls_grammar_maker *m)
{
    const cls_ids *const end = &m->o.end_ids;
    for (uint32_t i = 0; i < end->count; i++) {
        if (end->ids[i] < 0 || (uint32_t)end->ids[i] >= m->o.vocab)
            return cls_refuse(
                "options->end_ids.ids[%u] is %d, which is not a token of a vocabulary of %u",
                (unsigned)i, (int)end->ids[i], (unsigned)m->o.vocab);
        m->is_end[end->ids[i]] = 1;
    }
    return CLS_OK;
}

static int is_final(const cls_grammar_maker *m, uint32_t s)
{
    return m->o.final_states != NULL && m->o.final_states[s] != 0;
}

/* Fails if a state or a transition of it is invalid. */
static cls_status check_grammar_state(const cls_grammar_maker *m, uint32_t s)
{
    const cls_grammar_options *const o = &m->o;
    const uint64_t first = o->offsets[s], last = o->offsets[s + 1];
    if (o->final_states != NULL && o->final_states[s] > 1)
        return cls_refuse("options->final_states[%u] is %d; it must be 0 or 1", (unsigned)s,
                          (int)o->final_states[s]);
    if (first == last && !is_final(m, s))
        return cls_refuse_call(
            "state %u has no way out: options->offsets gives it no transition, and it is not final",
            (unsigned)s);
    if (is_final(m, s) && o->end_ids.count == 0)
        return cls_refuse("options->end_ids is empty, but options->final_states[%u] is 1",
                          (unsigned)s);
    for (uint64_t i = first; i < last; i++) {
        const int32_t id = o->ids[i];
        if (id < 0 || (uint32_t)id >= o->vocab)
            return cls_refuse(
                "options->ids[%llu] is %d, which is not a token of a vocabulary of %u",
                (unsigned long long)i, (int)id, (unsigned)o->vocab);
        if (i > first && id <= o->ids[i - 1])
            return cls_refuse("options->ids[%llu] is %d after %d: the ids of state %u must ascend",
                              (unsigned long long)i, (int)id, (int)o->ids[i - 1], (unsigned)s);
        if (m->is_end[id])
            return cls_refuse("options->ids[%llu] is %d, which options->end_ids has, too",
                              (unsigned long long)i, (int)id);
        if (o->next[i] >= o->states)
            return cls_refuse("options->next[%llu] is %u, but options->states is %u",
                              (unsigned long long)i, (unsigned)o->next[i], (unsigned)o->states);
    }
    return CLS_OK;
}

static cls_status check_grammar_states(cls_grammar_maker *m)
{
    cls_status status = check_end_ids(m);
    for (uint32_t s = 0; s < m->o.states && status == CLS_OK; s++)
        status = check_grammar_state(m, s);
    return status;
}

/* --------------------------------------------------------------------- classes */

static uint32_t power_of_two(uint64_t least)
{
    uint32_t n = 16;
    while (n < least && n < 1u << 31)
        n *= 2;
    return n;
}

/* Returns the class of those ids of a class that go from a state to the next one. `unused` is the
 * number of unused classes. */
static uint32_t class_to(cls_grammar_maker *m, uint32_t state, uint32_t from, uint32_t next,
                         uint32_t *unused)
{
    uint32_t at = (uint32_t)(cls_hash_word(cls_hash_word(1, from), next) >> 32);
    for (;; at++) {
        struct cls_class_key *const key = &m->key[at & (m->keys - 1)];
        if (key->state == state + 1 && key->from == from && key->next == next)
            return key->to;
        if (key->state == state + 1)
            continue;
        *key = (struct cls_class_key){state + 1, from, next, m->renamed[--*unused]};
        return key->to;
    }
}

/* Divides the ids into classes. A class whose last id leaves is used again, which is safe within a
 * state, since each id has at most one transition there. */
static void refine(cls_grammar_maker *m)
{
    const cls_grammar_options *const o = &m->o;
    uint32_t unused = 0;
    for (uint32_t i = m->most; i-- > CLS_CLASS_FIRST;)
        m->renamed[unused++] = i;
    for (uint32_t id = 0; id < o->vocab; id++)
        m->size[m->class_of[id] = m->is_end[id] ? CLS_CLASS_ENDS : CLS_CLASS_NEVER]++;
    for (uint32_t s = 0; s < o->states; s++)
        for (uint64_t i = o->offsets[s]; i < o->offsets[s + 1]; i++) {
            uint32_t *const id_class = &m->class_of[o->ids[i]], from = *id_class;
            m->size[ *id_class = class_to(m, s, from, o->next[i], &unused)]++;
            if (--m->size[from] == 0 && from >= CLS_CLASS_FIRST)
                m->renamed[unused++] = from;
        }
}

/* Numbers the classes by their lowest ids, so that equal automata have equal words. */
static void number_classes(cls_grammar_maker *m)
{
    const uint32_t vocab = m->o.vocab;
    memset(m->renamed, 0, m->most * sizeof *m->renamed);
    m->classes = CLS_CLASS_FIRST;
    for (uint32_t id = 0; id < vocab; id++) {
        uint32_t *const number = &m->renamed[m->class_of[id]];
        if (m->class_of[id] >= CLS_CLASS_FIRST && *number == 0)
            *number = m->classes++;
        m->class_of[id] = m->class_of[id] < CLS_CLASS_FIRST ? m->class_of[id] : *number;
    }
    memset(m->size, 0, m->most * sizeof *m->size);
    for (uint32_t id = 0; id < vocab; id++)
        m->size[m->class_of[id]]++;
}

/* ----------------------------------------------------------------- transitions */

static int add_pair(cls_grammar_maker *m, uint32_t id_class, uint32_t next)
{
    if (m->n_pairs == m->pairs_size) {
        const uint64_t size = m->pairs_size * 2 + 1024;
        uint32_t *const larger = size < SIZE_MAX / 8 ? realloc(m->pairs, (size_t)size * 8) : NULL;
        if (larger == NULL)
            return 0;
        m->pairs = larger;
        m->pairs_size = size;
    }
    m->pairs[2 * m->n_pairs] = id_class;
    m->pairs[2 * m->n_pairs++ + 1] = next;
    return 1;
}

/* Makes the transitions by class. A state has all ids of a class or none, and the lowest id of each
 * comes first, so that the classes ascend. */
static int make_pairs(cls_grammar_maker *m)
{
    const cls_grammar_options *const o = &m->o;
    int fits = 1;
    for (uint32_t s = 0; s < o->states && fits; s++) {
        uint32_t latest = CLS_CLASS_ENDS;
        m->offsets[s] = m->n_pairs;
        if (is_final(m, s))
            fits = add_pair(m, CLS_CLASS_ENDS, CLS_GRAMMAR_ENDED);
        for (uint64_t i = o->offsets[s]; i < o->offsets[s + 1] && fits; i++)
            if (m->class_of[o->ids[i]] > latest) {
                latest = m->class_of[o->ids[i]];
                fits = add_pair(m, latest, o->next[i]);
            }
    }
    m->offsets[o->states] = m->n_pairs;
    return fits;
}

/* ---------------------------------------------------------------------- drafts */

int cls_maker_allows(const cls_grammar_maker *m, uint32_t s, uint32_t id)
{
    uint64_t i = m->offsets[s];
    while (i < m->offsets[s + 1] && m->pairs[2 * i] != m->class_of[id])
        i++;
    return i < m->offsets[s + 1];
}

int cls_maker_allows_one(const cls_grammar_maker *m, uint32_t s)
{
    return m->offsets[s + 1] - m->offsets[s] == 1 && m->size[m->pairs[2 * m->offsets[s]]] == 1;
}

/* Takes the draft tokens that are not the only ids of their states. */
static cls_status take_drafts(cls_grammar_maker *m)
{
    const int32_t *const ids = m->o.draft_ids;
    int some = 0;
    if (ids == NULL)
        return CLS_OK;
    m->drafts = malloc(m->o.states * sizeof *m->drafts);
    if (m->drafts == NULL)
        return cls_no_grammar_memory();
    for (uint32_t s = 0; s < m->o.states; s++) {
        const int is_token = ids[s] >= 0 && (uint32_t)ids[s] < m->o.vocab;
        if (ids[s] != -1 && !(is_token && cls_maker_allows(m, s, (uint32_t)ids[s])))
            return cls_refuse("options->draft_ids[%u] is %d, which state %u does not allow",
                              (unsigned)s, (int)ids[s], (unsigned)s);
        const int stays = ids[s] != -1 && !cls_maker_allows_one(m, s);
        m->drafts[s] = stays ? (uint32_t)ids[s] : CLS_NO_DRAFT;
        some |= stays;
    }
    if (!some) {
        free(m->drafts);
        m->drafts = NULL;
    }
    return CLS_OK;
}

/* ------------------------------------------------------------------------ sets */

/* Returns the number of ids that a state allows. */
static uint32_t ids_of(const cls_grammar_maker *m, uint32_t s)
{
    uint32_t n = 0;
    for (uint64_t i = m->offsets[s]; i < m->offsets[s + 1]; i++)
        n += m->size[m->pairs[2 * i]];
    return n;
}

static int same_set(const cls_grammar_maker *m, uint32_t a, uint32_t b)
{
    const uint64_t n = m->offsets[a + 1] - m->offsets[a];
    uint64_t i = 0;
    if (n != m->offsets[b + 1] - m->offsets[b])
        return 0;
    while (i < n && m->pairs[2 * (m->offsets[a] + i)] == m->pairs[2 * (m->offsets[b] + i)])
        i++;
    return i == n;
}

/* Finds the bitmap of a state, or makes it the owner of a new one. */
static void find_set(cls_grammar_maker *m, uint32_t s)
{
    uint64_t hash = 1;
    for (uint64_t i = m->offsets[s]; i < m->offsets[s + 1]; i++)
        hash = cls_hash_word(hash, m->pairs[2 * i]);
    for (uint32_t at = (uint32_t)(hash >> 32);; at++) {
        uint32_t *const entry = &m->lookup[at & (m->lookups - 1)];
        if (*entry == 0) {
            m->owner[m->bitmaps] = s;
            *entry = ++m->bitmaps;
        } else if (!same_set(m, m->owner[*entry - 1], s)) {
            continue;
        }
        m->set[s] = *entry;
        return;
    }
}

static int find_sets(cls_grammar_maker *m)
{
    uint32_t large = 0;
    for (uint32_t s = 0; s < m->o.states; s++)
        large += m->set[s] = ids_of(m, s) > CLS_GRAMMAR_LISTED;
    m->lookups = power_of_two(2 * (uint64_t)large);
    m->lookup = calloc(m->lookups, sizeof *m->lookup);
    m->owner = malloc(((size_t)large + 1) * sizeof *m->owner);
    if (m->lookup == NULL || m->owner == NULL)
        return 0;
    for (uint32_t s = 0; s < m->o.states; s++)
        if (m->set[s] != 0)
            find_set(m, s);
    return 1;
}

/* ----------------------------------------------------------------------- words */

/* Returns the offsets of the parts, each behind the one before it. */
typedef struct grammar_parts {
    uint64_t class_of, members, states, pairs, bitmaps, drafts, end;
} grammar_parts;

static grammar_parts parts_of_grammar(const cls_grammar_maker *m)
{
    grammar_parts p;
    p.class_of = CLS_GRAMMAR_HEADER;
    p.members = p.class_of + m->o.vocab;
    p.states = p.members + m->classes + 1 + (m->o.vocab - m->size[CLS_CLASS_NEVER]);
    p.pairs = p.states + 2 * ((uint64_t)m->o.states + 1);
    p.bitmaps = p.pairs + 2 * m->n_pairs;
    p.drafts = p.bitmaps + (uint64_t)m->bitmaps * state_bitmap(m->o.vocab);
    p.end = p.drafts + (m->drafts != NULL ? m->o.states : 0);
    return p;
}

/* Writes where the ids of each class begin, and the ids. */
static void write_members(cls_grammar_maker *m, uint32_t *g, uint32_t at)
{
    uint32_t *const begin = g + at, next = at + m->classes + 1;
    uint32_t *const room = m->renamed; /* where the next id of a class goes */
    uint32_t end = next;
    for (uint32_t c = 0; c < m->classes; c++) {
        begin[c] = room[c] = end;
        end += c != CLS_CLASS_NEVER ? m->size[c] : 0;
    }
    begin[m->classes] = end;
    for (uint32_t id = 0; id < m->o.vocab; id++)
        if (m->class_of[id] != CLS_CLASS_NEVER)
            g[room[m->class_of[id]]++] = id;
}

static void mark_members(const uint32_t *g, uint32_t state, uint32_t *bitmap)
{
    const uint32_t *const record = grammar_state_at(g, state), *const begin =
                                                                   g + g[CLS_GRAMMAR_MEMBERS];
    for (uint32_t i = record[0]; i < record[2]; i += 2)
        for (uint32_t k = begin[g[i]]; k < begin[g[i] + 1]; k++)
            bitmap[g[k] / 32] |= 1u << (g[k] % 32);
}

static void write_grammar(cls_grammar_maker *m, const grammar_parts *p, uint32_t *g)
{
    g[CLS_GRAMMAR_STATES] = m->o.states;
    g[CLS_GRAMMAR_CLASS_OF] = (uint32_t)p->class_of;
    g[CLS_GRAMMAR_MEMBERS] = (uint32_t)p->members;
    g[CLS_GRAMMAR_STATE] = (uint32_t)p->states;
    memcpy(g + p->class_of, m->class_of, m->o.vocab * sizeof *g);
    write_members(m, g, (uint32_t)p->members);
    for (uint32_t s = 0; s <= m->o.states; s++) {
        const uint32_t set = s < m->o.states ? m->set[s] : 0;
        g[p->states + 2 * s] = (uint32_t)(p->pairs + 2 * m->offsets[s]);
        g[p->states + 2 * s + 1] =
            set != 0 ? (uint32_t)p->bitmaps + (set - 1) * state_bitmap(m->o.vocab) : 0;
    }
    if (m->n_pairs != 0)
        memcpy(g + p->pairs, m->pairs, (size_t)m->n_pairs * 2 * sizeof *g);
    for (uint32_t i = 0; i < m->bitmaps; i++)
        mark_members(g, m->owner[i], g + p->bitmaps + (size_t)i * state_bitmap(m->o.vocab));
    if (m->drafts != NULL) {
        g[CLS_GRAMMAR_DRAFTS] = (uint32_t)p->drafts;
        memcpy(g + p->drafts, m->drafts, m->o.states * sizeof *g);
    }
}

void cls_hash_words(cls_sha256 *hash, const uint32_t *words, uint64_t n)
{
    uint8_t bytes[256 * 4];
    for (uint64_t i = 0; i < n;) {
        size_t size = 0;
        for (; i < n && size < sizeof bytes; i++)
            for (int b = 0; b < 4; b++)
                bytes[size++] = (uint8_t)(words[i] >> 8 * b);
        cls_sha256_update(hash, bytes, size);
    }
}

void cls_maker_digest(const cls_grammar_maker *m, uint8_t digest[CLS_DIGEST_SIZE])
{
    const uint32_t head[] = {m->o.vocab, m->o.states};
    cls_sha256 hash;
    cls_sha256_init(&hash);
    cls_hash_words(&hash, head, 2);
    cls_hash_words(&hash, m->class_of, m->o.vocab);
    for (uint32_t s = 0; s < m->o.states; s++) {
        const uint32_t n = (uint32_t)(m->offsets[s + 1] - m->offsets[s]);
        cls_hash_words(&hash, &n, 1);
        cls_hash_words(&hash, m->pairs + 2 * m->offsets[s], 2 * (uint64_t)n);
    }
    if (m->drafts != NULL)
        cls_hash_words(&hash, m->drafts, m->o.states);
    cls_sha256_final(&hash, digest);
}

/* -------------------------------------------------------------------- creation */

int cls_maker_allocate(cls_grammar_maker *m)
{
    const size_t vocab = m->o.vocab, states = m->o.states;
    m->keys = power_of_two(2 * (uint64_t)vocab);
    m->most = CLS_CLASS_FIRST + m->o.vocab + 1;
    m->is_end = calloc(vocab, sizeof *m->is_end);
    m->class_of = malloc(vocab * sizeof *m->class_of);
    m->size = calloc(m->most, sizeof *m->size);
    m->renamed = malloc(m->most * sizeof *m->renamed);
    m->key = calloc(m->keys, sizeof *m->key);
    m->offsets = malloc((states + 1) * sizeof *m->offsets);
    m->set = malloc(states * sizeof *m->set);
    return m->is_end != NULL && m->class_of != NULL && m->size != NULL && m->renamed != NULL &&
           m->key != NULL && m->offsets != NULL && m->set != NULL;
}

void cls_maker_free(cls_grammar_maker *m)
{
    void *const all[] = {m->is_end, m->class_of, m->size, m->renamed, m->key,   m->offsets,
                         m->pairs,  m->drafts,   m->set,  m->owner,   m->lookup};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

cls_status cls_maker_finish(cls_grammar_maker *m, cls_grammar **out)
{
    if (!find_sets(m))
        return cls_no_grammar_memory();
    const grammar_parts parts = parts_of_grammar(m);
    const uint64_t bytes = parts.end * sizeof(uint32_t);
    if (bytes > m->o.max_bytes || parts.end > UINT32_MAX / 8)
        return cls_refuse_call(
            "the grammar takes %llu bytes, but %s is %llu", (unsigned long long)bytes,
            bytes > m->o.max_bytes ? "max_bytes" : "the most",
            bytes > m->o.max_bytes ? (unsigned long long)m->o.max_bytes : UINT32_MAX / 8 * 4ull);
    cls_grammar *const g = calloc(1, sizeof *g);
    uint32_t *const words = bytes <= SIZE_MAX ? calloc((size_t)parts.end, sizeof *words) : NULL;
    if (g == NULL || words == NULL) {
        free(g);
        free(words);
        return cls_no_grammar_memory();
    }
    write_grammar(m, &parts, words);
    cls_maker_digest(m, g->digest);
    atomic_init(&g->references, 1);
    g->vocab = m->o.vocab;
    g->states = m->o.states;
    g->classes = m->classes - (m->size[CLS_CLASS_NEVER] == 0) - (m->size[CLS_CLASS_ENDS] == 0);
    g->bitmaps = m->bitmaps;
    g->words = words;
    g->n_words = (uint32_t)parts.end;
    for (uint32_t s = 0; s < g->states; s++)
        g->drafts += grammar_draft(words, s) != CLS_NO_DRAFT;
    *out = g;
    return CLS_OK;
}

static cls_status make_grammar(cls_grammar_maker *m, cls_grammar **out)
{
    if (!cls_maker_allocate(m))
        return cls_no_grammar_memory();
    cls_status status = check_grammar_states(m);
    if (status != CLS_OK)
        return status;
    refine(m);
    number_classes(m);
    status = make_pairs(m) ? take_drafts(m) : cls_no_grammar_memory();
    return status == CLS_OK ? cls_maker_finish(m, out) : status;
}

cls_status cls_grammar_create(const cls_grammar_options *callers, cls_grammar **out)
{
    cls_grammar_maker m;
    memset(&m, 0, sizeof m);
    if (out == NULL)
        return cls_refuse("grammar is NULL");
    *out = NULL;
    cls_status status = CLS_STRUCT_READ(&m.o, callers, "options");
    if (status == CLS_OK)
        status = check_grammar_numbers(&m.o);
    if (status == CLS_OK)
        status = make_grammar(&m, out);
    cls_maker_free(&m);
    return status;
}

void cls_grammar_retain(const cls_grammar *g)
{
    atomic_fetch_add_explicit(&((cls_grammar *)(uintptr_t)g)->references, 1, memory_order_relaxed);
}

void cls_grammar_release(const cls_grammar *g)
{
    cls_grammar *const mine = (cls_grammar *)(uintptr_t)g;
    if (g == NULL || atomic_fetch_sub_explicit(&mine->references, 1, memory_order_acq_rel) != 1)
        return;
    free(mine->words);
    free(mine);
}

void cls_grammar_destroy(cls_grammar *g) { cls_grammar_release(g); }

/* --------------------------------------------------------------------- queries */

cls_status cls_grammar_query(const cls_grammar *g, cls_grammar_info *callers)
{
    cls_grammar_info info;
    if (g == NULL)
        return cls_refuse("grammar is NULL");
    const cls_status status = CLS_STRUCT_READ_OUTPUT(&info, callers, "info");
    if (status != CLS_OK)
        return status;
    info.vocab = g->vocab;
    info.states = g->states;
    info.classes = g->classes;
    info.bitmaps = g->bitmaps;
    info.drafts = g->drafts;
    info.bytes = g->n_words * (uint64_t)sizeof *g->words;
    memcpy(info.digest, g->digest, sizeof info.digest);
    CLS_STRUCT_WRITE(&info, callers);
    return CLS_OK;
}

/* Fails unless a state is one of the grammar's or one of those that it has left. */
static cls_status check_state_of(const cls_grammar *g, uint32_t state)
{
    if (g == NULL)
        return cls_refuse("grammar is NULL");
    return state < g->states || state == CLS_GRAMMAR_ENDED || state == CLS_GRAMMAR_DEAD
               ? CLS_OK
               : cls_refuse("state is %u, but the grammar has %u states", (unsigned)state,
                            (unsigned)g->states);
}

void cls_grammar_set(const cls_grammar *grammar, uint32_t state, uint32_t *words)
{
    const uint32_t *const g = grammar->words;
    const size_t size = (grammar->vocab + 31) / 32 * sizeof *words;
    const uint32_t bitmap = state < grammar->states ? grammar_state_at(g, state)[1] : 0;
    if (bitmap != 0) {
        memcpy(words, g + bitmap, size);
        return;
    }
    memset(words, 0, size);
    if (state < grammar->states)
        mark_members(g, state, words);
}

cls_status cls_grammar_mask(const cls_grammar *g, uint32_t state, int32_t *words)
{
    const cls_status status = check_state_of(g, state);
    if (status != CLS_OK)
        return status;
    if (words == NULL)
        return cls_refuse("words is NULL");
    cls_grammar_set(g, state, (uint32_t *)words);
    return CLS_OK;
}

cls_status cls_grammar_advance(const cls_grammar *g, const int32_t *ids, uint32_t count,
                               uint32_t *state)
{
    if (state == NULL)
        return cls_refuse("state is NULL");
    const cls_status status = check_state_of(g, *state);
    if (status != CLS_OK)
        return status;
    if (ids == NULL && count != 0)
        return cls_refuse("count is %u, but ids is NULL", (unsigned)count);
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] >= 0 && (uint32_t)ids[i] < g->vocab)
            *state = grammar_next(g->words, *state, (uint32_t)ids[i]);
    return CLS_OK;
}
