/* SPDX-License-Identifier: MIT */
/* Makes the lists of a request in the form that kernels read: biases, allowed ids, stop ids and
 * sequences. A request's lists lie together, and the slot has the offset of each. The column `kept`
 * of CLS_LISTS says which form a list has, and which field of a slot has its offset. */
#include "request/request.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

typedef struct bias_entry {
    uint32_t id;
    float bias;
} bias_entry;

/* The lists that are being written. If `words` is NULL, words are only counted. */
typedef struct cls_list_writer {
    const cls_params *p;
    uint32_t vocab, amounts; /* amounts: of DRY's penalties */
    cls_slot *slot;
    uint32_t *words;
    uint64_t used;           /* words that are written */
    const uint32_t *allowed; /* the bitmap of allowed ids, or NULL */
    bias_entry *biases; /* memory for sorting: twice as many elements as the longest list has */
    cls_ids *sequences;
    uint8_t *left; /* [classes of the grammar], if there are both it and min_tokens */
} writer;

/* Adds n words, all zero, and returns them, or NULL if words are only counted. */
static uint32_t *take_words(writer *w, uint64_t n)
{
    uint32_t *const words =
        w->words != NULL ? memset(w->words + w->used, 0, (size_t)n * sizeof *words) : NULL;
    w->used += n;
    return words;
}

static void set_bit(uint32_t *bitmap, uint32_t id) { bitmap[id / 32] |= 1u << (id % 32); }

/* -------------------------------------------------------------------------- ids */

static void write_plain(writer *w, const cls_list_param *l)
{
    const uint32_t n = cls_list_count(l, w->p);
    uint32_t *const out = take_words(w, n);
    if (out != NULL && n != 0)
        memcpy(out, cls_list_array(l, w->p), n * sizeof *out);
}

/* A count and the ids of each sequence. The numbers of relaxed acceptance lie before them: in the
 * slot they would cost the kernels that copy slots registers. */
static void write_thinking_ends(writer *w, const cls_list_param *l)
{
    const cls_ids *const ends = cls_list_array(l, w->p);
    const uint32_t n = cls_list_count(l, w->p);
    uint32_t *const numbers = take_words(w, w->p->relaxed_top_k != 0 ? 2 : 0);
    if (numbers != NULL && w->p->relaxed_top_k != 0) {
        numbers[0] = w->p->relaxed_top_k;
        numbers[1] = (uint32_t)CLS_AS_I32(w->p->relaxed_delta);
    }
    w->slot->thinking_ends = (uint32_t)w->used;
    uint32_t *out = take_words(w, cls_sequences_words(ends, n));
    for (uint32_t i = 0; i < n && out != NULL; i++) {
        *out++ = ends[i].count;
        memcpy(out, ends[i].ids, ends[i].count * sizeof *out);
        out += ends[i].count;
    }
}

static int by_id(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void write_sorted(writer *w, const cls_list_param *l)
{
    const uint64_t at = w->used;
    write_plain(w, l);
    if (w->words != NULL)
        qsort(w->words + at, cls_list_count(l, w->p), sizeof *w->words, by_id);
}

/* What the allowed ids of a class are, in ascending order: stop ids and end ids end the text. SEEN:
 * there are others, and the class need not be looked at again. */
enum { LEFT_NONE, LEFT_ENDS, LEFT_MORE, LEFT_SEEN };

static int is_stop(const uint32_t *stop, uint32_t n, uint32_t id)
{
    return n != 0 && bsearch(&id, stop, n, sizeof *stop, by_id) != NULL;
}

/* Sets w->left. Looks at allowed ids only, and without them at the classes of stop ids. */
static void find_left(const writer *w, const uint32_t *g, const uint32_t *stop, uint32_t n)
{
    const uint32_t *const class_of = g + g[CLS_GRAMMAR_CLASS_OF],
                          *const begin = g + g[CLS_GRAMMAR_MEMBERS],
                          classes = begin[0] - g[CLS_GRAMMAR_MEMBERS] - 1;
    const cls_ids *const allowed = &w->p->allowed_ids;
    const int all = !cls_params_allow_some(w->p);
    memset(w->left, all ? LEFT_MORE : LEFT_NONE, classes);
    for (uint32_t i = 0; i < allowed->count; i++) {
        const uint32_t id = (uint32_t)allowed->ids[i];
        uint8_t *const left = &w->left[class_of[id]];
        *left = !is_stop(stop, n, id) ? LEFT_MORE : *left == LEFT_NONE ? LEFT_ENDS : *left;
    }
    for (uint32_t i = 0; i < n && all; i++) {
        const uint32_t id_class = class_of[stop[i]];
        uint32_t k = begin[id_class];
        while (w->left[id_class] == LEFT_MORE && k < begin[id_class + 1] && is_stop(stop, n, g[k]))
            k++;
        if (w->left[id_class] == LEFT_MORE)
            w->left[id_class] = k == begin[id_class + 1] ? LEFT_ENDS : LEFT_SEEN;
    }
}

/* Marks the states that leave ids, but only those that end the text. */
static void mark_ends(const writer *w, const cls_grammar *grammar, uint32_t *marked)
{
    const uint32_t *const g = grammar->words;
    for (uint32_t s = 0; s < grammar->states; s++) {
        const uint32_t *const record = grammar_state_at(g, s);
        uint8_t most = LEFT_NONE;
        for (uint32_t i = record[0]; i < record[2] && most < LEFT_MORE; i += 2) {
            const uint8_t left = w->left[g[i]];
            const int ends = g[i + 1] == CLS_GRAMMAR_ENDED && left != LEFT_NONE;
            most = ends ? LEFT_ENDS : left > most ? left : most;
        }
        marked[s / 32] |= (uint32_t)(most == LEFT_ENDS) << (s % 32);
    }
}

/* Stop ids are banned before min_tokens, unless nothing else is left. If allowed_ids leave nothing
 * else, there is no min_tokens; the states of the grammar that do so are marked behind the list. */
static void write_stop(writer *w, const cls_list_param *l)
{
    const cls_grammar *const grammar = w->slot->min_tokens != 0 ? w->p->grammar : NULL;
    const cls_ids *const allowed = &w->p->allowed_ids;
    const uint64_t at = w->used;
    const uint32_t n = cls_list_count(l, w->p);
    uint32_t i = 0;
    write_sorted(w, l);
    uint32_t *const marked = take_words(w, grammar != NULL ? (grammar->states + 31ull) / 32 : 0);
    if (marked == NULL || w->slot->min_tokens == 0)
        return;
    const uint32_t *const stop = w->words + at;
    if (grammar != NULL) {
        find_left(w, grammar->words, stop, n);
        mark_ends(w, grammar, marked);
    }
    while (i < allowed->count && is_stop(stop, n, (uint32_t)allowed->ids[i]))
        i++;
    if (i != 0 && i == allowed->count)
        w->slot->min_tokens = 0;
}

static void write_allowed(writer *w, const cls_list_param *l)
{
    const uint32_t *const ids = cls_list_array(l, w->p), n = cls_list_count(l, w->p);
    if (!cls_params_allow_some(w->p))
        return;
    uint32_t *const bitmap = take_words(w, state_bitmap(w->vocab));
    for (uint32_t i = 0; i < n && bitmap != NULL; i++)
        set_bit(bitmap, ids[i]);
    w->allowed = bitmap;
}

/* ----------------------------------------------------------------------- biases */

/* Sorts biases by one digit of their ids; those of one digit stay in order. */
enum { DIGIT_BITS = 7, DIGIT_VALUES = 1 << DIGIT_BITS };
static void sort_biases(const bias_entry *from, uint32_t n, uint32_t digit, bias_entry *to)
{
    const uint32_t shift = digit * DIGIT_BITS;
    uint32_t at[DIGIT_VALUES + 1] = {0};
    for (uint32_t i = 0; i < n; i++)
        at[(from[i].id >> shift) % DIGIT_VALUES + 1]++;
    for (uint32_t value = 1; value < DIGIT_VALUES; value++)
        at[value] += at[value - 1];
    for (uint32_t i = 0; i < n; i++)
        to[at[(from[i].id >> shift) % DIGIT_VALUES]++] = from[i];
}

/* Makes one bias of all biases of an id, added in the caller's order, in ascending order of ids.
 * Leaves out ids that are not allowed. Returns the number of biases. With qsort() 100,000 biases
 * took a request 6.1 ms to begin, not 1.0. */
static uint32_t merge_biases(const writer *w, const cls_list_param *l)
{
    const cls_logit_bias *const given = cls_list_array(l, w->p);
    const uint32_t count = cls_list_count(l, w->p);
    bias_entry *const all = w->biases, *const other = all + count;
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++)
        other[i] = (bias_entry){(uint32_t)given[i].id, given[i].bias};
    sort_biases(other, count, 0, all);
    sort_biases(all, count, 1, other);
    sort_biases(other, count, 2, all);
    for (uint32_t i = 0; i < count;) {
        const uint32_t id = all[i].id;
        double sum = 0.0;
        for (; i < count && all[i].id == id; i++)
            sum += (double)all[i].bias;
        if (w->allowed != NULL && !(w->allowed[id / 32] >> (id % 32) & 1u))
            continue;
        all[n].id = id;
        all[n++].bias = sum == -INFINITY
                            ? -INFINITY
                            : cls_flush_subnormal((float)fmax(-(double)CLS_FLT_MAX,
                                                              fmin(sum, (double)CLS_FLT_MAX)));
    }
    return n;
}

/* Many biases are stored as a row of all tokens, which is added in vectors. A bias of a list takes
 * some 15 ns wherever logits are read, a vector of the row 5 ns. */
static int biases_are_row(uint32_t n, uint32_t vocab) { return n > vocab / 128; }

static void write_biases(writer *w, const cls_list_param *l)
{
    const uint32_t vocab = w->vocab, count = cls_list_count(l, w->p);
    const int row = biases_are_row(count, vocab);
    uint32_t *const bitmap = take_words(w, count == 0 ? 0
                                           : row ? bias_row_offset(vocab, state_bitmap(vocab) * 32)
                                                 : bias_list_offset(vocab, count));
    if (bitmap == NULL)
        return;
    const bias_entry *const all = w->biases;
    const uint32_t n = merge_biases(w, l);
    w->slot->n_bias = n;
    w->slot->flags |= row ? CLS_SLOT_BIAS_ROW : 0;
    for (uint32_t i = 0; i < n; i++) {
        set_bit(bitmap, all[i].id);
        bitmap[row ? bias_row_offset(vocab, all[i].id) : bias_list_offset(vocab, i)] =
            (uint32_t)CLS_AS_I32(all[i].bias);
    }
    for (uint32_t word = 0, i = 0; n != 0 && !row && word < state_bitmap(vocab); word++) {
        bitmap[bias_before_offset(vocab, word)] = i;
        while (i < n && all[i].id / 32 == word)
            i++;
    }
}

/* -------------------------------------------------------------------- sequences */

/* Puts the sequences of a list into the memory for sorting: those of one id first, then the longer
 * ones. Returns the number of those of one id. */
static uint32_t split_sequences(const writer *w, const cls_list_param *l)
{
    const cls_ids *const all = cls_list_array(l, w->p);
    const uint32_t n = cls_list_count(l, w->p);
    uint32_t singles = 0, longer = n;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t at = all[i].count == 1 ? singles++ : --longer;
        if (w->words != NULL)
            w->sequences[at] = all[i];
    }
    return singles;
}

/* Sorts the sequences that are longer than one id. Writes the offset of each, and then the
 * sequences: a count and the ids of each. Returns the offset of the offsets. */
static uint32_t write_longer(writer *w, const cls_list_param *l, uint32_t singles,
                             int (*compare)(const void *, const void *))
{
    const uint32_t all = cls_list_count(l, w->p), n = all - singles, offsets = (uint32_t)w->used;
    uint32_t at = offsets + n;
    uint32_t *const out =
        take_words(w, cls_sequences_words(cls_list_array(l, w->p), all) - 2ull * singles + n);
    if (out == NULL)
        return offsets;
    cls_ids *const sequences = w->sequences + singles;
    qsort(sequences, n, sizeof *sequences, compare);
    for (uint32_t i = 0; i < n; i++) {
        out[i] = at;
        w->words[at++] = sequences[i].count;
        memcpy(w->words + at, sequences[i].ids, sequences[i].count * sizeof *w->words);
        at += sequences[i].count;
    }
    return offsets;
}

/* Sorts sequences of at least two ids by the id before the last. */
static int by_second_to_last(const void *a, const void *b)
{
    const cls_ids *const x = a, *const y = b;
    const int32_t i = x->ids[x->count - 2], j = y->ids[y->count - 2];
    return (i > j) - (i < j);
}

/* Bad words of one id are a list like that of stop ids. The longer ones are sorted so that the
 * device reads only those whose id before the last is the latest token. */
static void write_bad_words(writer *w, const cls_list_param *l)
{
    const uint32_t singles = split_sequences(w, l);
    uint32_t *const banned = take_words(w, singles);
    for (uint32_t i = 0; i < singles && banned != NULL; i++)
        banned[i] = (uint32_t)w->sequences[i].ids[0];
    if (banned != NULL)
        qsort(banned, singles, sizeof *banned, by_id);
    w->slot->n_banned = singles;
    w->slot->n_bad_words = cls_list_count(l, w->p) - singles;
    w->slot->bad_words = write_longer(w, l, singles, by_second_to_last);
}

/* -------------------------------------------------------------------------- DRY */

int cls_dry_is_on(const cls_params *p) { return p->dry_multiplier != 0.0f && p->dry_base >= 1.0f; }

#define LN_2 0.693147180559945309
/* This is llama.cpp's limit, with which base^e is a finite float32. A base of 1 needs no limit. */
uint32_t cls_dry_max_exponent(const cls_params *p)
{
    const double most =
        p->dry_base > 1.0f ? 88.7228391 / (cls_log2((double)p->dry_base) * LN_2) : 0.0;
    return most < CLS_MAX_HISTORY ? (uint32_t)most : CLS_MAX_HISTORY;
}

float cls_dry_penalty(const cls_params *p, uint32_t exponent)
{
    const double amount = (double)p->dry_multiplier * cls_power(p->dry_base, exponent);
    return cls_flush_subnormal(
        (float)fmax(-(double)CLS_FLT_MAX, fmin(amount, (double)CLS_FLT_MAX)));
}

static uint32_t write_first_ids(writer *w, uint32_t n)
{
    const uint32_t offset = (uint32_t)w->used;
    uint32_t *const bitmap = take_words(w, state_bitmap(w->vocab));
    for (uint32_t i = 0; i < n && bitmap != NULL; i++)
        set_bit(bitmap, (uint32_t)w->sequences[i].ids[0]);
    return offset;
}

/* Sorts by first id, and sequences with the same first id by length, longest first. */
static int by_first_id(const void *a, const void *b)
{
    const cls_ids *const x = a, *const y = b;
    if (x->ids[0] != y->ids[0])
        return x->ids[0] < y->ids[0] ? -1 : 1;
    return (x->count < y->count) - (x->count > y->count);
}

/* Writes DRY's penalties, one for each exponent, and its breakers. */
static void write_dry(writer *w, const cls_list_param *l)
{
    const uint32_t n = w->amounts != 0 ? cls_list_count(l, w->p) : 0;
    cls_slot *const slot = w->slot;
    uint32_t *const penalties = take_words(w, w->amounts);
    slot->n_dry = w->amounts;
    for (uint32_t e = 0; e < w->amounts && penalties != NULL; e++)
        penalties[e] = (uint32_t)CLS_AS_I32(cls_dry_penalty(w->p, e));
    if (n == 0)
        return;
    const uint32_t singles = split_sequences(w, l);
    slot->dry_first_ids = slot->dry_single_ids = write_first_ids(w, n);
    if (singles < n)
        slot->dry_single_ids = write_first_ids(w, singles);
    slot->n_breakers = n - singles;
    slot->breakers = write_longer(w, l, singles, by_first_id);
}

/* -------------------------------------------------------------------- a watermark */

static uint32_t floor_q32(float p) { return (uint32_t)((double)p * 4294967296.0); }

void cls_sglang_words(const cls_params *p, uint32_t words[CLS_SGLANG_WORDS])
{
    words[CLS_SGLANG_KEYS] = (uint32_t)p->watermark_key;
    words[CLS_SGLANG_KEYS + 1] = (uint32_t)(p->watermark_key >> 32);
    words[CLS_SGLANG_KEYS + 2] = (uint32_t)p->watermark_key_b;
    words[CLS_SGLANG_KEYS + 3] = (uint32_t)(p->watermark_key_b >> 32);
    words[CLS_SGLANG_MIXING] = p->watermark_key_b != 0 ? floor_q32(p->watermark_mixing) : 0;
    words[CLS_SGLANG_MOST] =
        p->watermark_max_probability < 1.0f ? floor_q32(p->watermark_max_probability) : 0;
}

/* -------------------------------------------------------------------- the table */

/* clang-format off */
#define FORM(id, matched, form, ...) write_##form
#define WRITER(p, kind, list, kept, option, meta, key, help) FORM kept,
/* clang-format on */

/* By index of a list in the table. */
static void (*const writers[])(writer *, const cls_list_param *) = {CLS_LISTS(WRITER, )};

static uint32_t *in_slot(cls_slot *slot, size_t field)
{
    return (uint32_t *)(void *)((char *)slot + field);
}

/* Writes or counts the words of all lists. Biases, which are before the allowed ids in the table,
 * read their bitmap. */
static void write_lists(writer *w)
{
    w->used = 0;
    for (const cls_list_param *l = cls_list_table + CLS_LIST_COUNT; l-- > cls_list_table;) {
        *in_slot(w->slot, l->offset) = (uint32_t)w->used;
        writers[l - cls_list_table](w, l);
        if (l->length != 0)
            *in_slot(w->slot, l->length) = cls_list_count(l, w->p);
    }
    if (w->p->watermark_rule == CLS_WATERMARK_SGLANG) {
        w->slot->watermark_key[0] = (uint32_t)w->used;
        uint32_t *const numbers = take_words(w, CLS_SGLANG_WORDS);
        if (numbers != NULL)
            cls_sglang_words(w->p, numbers);
    }
}

cls_status cls_lists_create(const cls_params *p, uint32_t vocab, uint32_t history, cls_slot *slot,
                            uint32_t **words, uint32_t *n_words)
{
    const uint32_t longest = p->dry_window != 0 ? p->dry_window : history,
                   most = cls_dry_max_exponent(p);
    writer w = {.p = p, .vocab = vocab, .slot = slot};
    w.amounts = !cls_dry_is_on(p) ? 0 : 1 + (most < longest ? most : longest);
    write_lists(&w);
    const uint64_t need = w.used;
    size_t to_sort = 1;
    *words = NULL;
    *n_words = 0;
    if (need == 0)
        return CLS_OK;
    if (need > UINT32_MAX / 8 || need > SIZE_MAX / sizeof **words)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS,
                        "the lists of the parameters are too long: they take %llu words",
                        (unsigned long long)need);
    for (const cls_list_param *l = cls_list_table; l < cls_list_table + CLS_LIST_COUNT; l++)
        if (l->kind != CLS_LIST_ids && cls_list_count(l, p) > to_sort)
            to_sort = cls_list_count(l, p);
    w.words = malloc((size_t)need * sizeof *w.words);
    w.biases = calloc(to_sort, 2 * sizeof *w.biases); /* it checks the product */
    w.sequences = malloc(to_sort * sizeof *w.sequences);
    w.left = malloc(slot->min_tokens != 0 && p->grammar != NULL ? vocab + 2 : 1);
    const int has_memory =
        w.words != NULL && w.biases != NULL && w.sequences != NULL && w.left != NULL;
    if (has_memory)
        write_lists(&w);
    else
        free(w.words);
    free(w.biases);
    free(w.sequences);
    free(w.left);
    if (!has_memory)
        return cls_no_memory("%llu words of lists", (unsigned long long)need);
    *words = w.words;
    *n_words = (uint32_t)need;
    return CLS_OK;
}
