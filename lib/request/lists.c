/* SPDX-License-Identifier: MIT */
/* Makes the lists of a request in the form that kernels read: biases, allowed ids, stop ids and
 * sequences. All lists are in one buffer, and the slot has the offset of each. */
#include "request/request.h"

#include <math.h>
#include <stdlib.h>

/* ----------------------------------------------------------- biases and stop ids */

typedef struct bias_entry {
    uint32_t id, index; /* index in the caller's array: biases of one id are added in its order */
    float bias;
} bias_entry;

static int by_id_and_index(const void *a, const void *b)
{
    const bias_entry *const x = a, *const y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static int by_id(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Makes one bias of all biases of an id, in ascending order of ids. Leaves out ids that are not in
 * `allowed`, a bitmap, unless it is NULL. Returns the number of biases. */
static uint32_t merge_biases(const cls_params *p, const uint32_t *allowed, bias_entry *all)
{
    const uint32_t count = p->logit_bias_count;
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++)
        all[i] = (bias_entry){(uint32_t)p->logit_bias[i].id, i, p->logit_bias[i].bias};
    qsort(all, count, sizeof *all, by_id_and_index);
    for (uint32_t i = 0; i < count;) {
        const uint32_t id = all[i].id;
        double sum = 0.0;
        for (; i < count && all[i].id == id; i++)
            sum += (double)all[i].bias;
        if (allowed != NULL && !(allowed[id / 32] >> (id % 32) & 1u))
            continue;
        all[n].id = id;
        all[n++].bias = sum == -INFINITY
                            ? -INFINITY
                            : cls_flush_subnormal((float)fmax(-(double)CLS_FLT_MAX,
                                                              fmin(sum, (double)CLS_FLT_MAX)));
    }
    return n;
}

/* The lists that are being written. */
typedef struct writer {
    uint32_t *words;
    size_t used; /* words that are written */
} writer;

/* Adds n words, all zero, and returns them. */
static uint32_t *take_words(writer *w, size_t n)
{
    uint32_t *const words = w->words + w->used;
    memset(words, 0, n * sizeof *words);
    w->used += n;
    return words;
}

/* Many biases are stored as a row of all tokens, which is added in vectors. A bias of a list takes
 * some 15 ns wherever logits are read, a vector of the row 5 ns. */
static int biases_are_row(const cls_params *p, uint32_t vocab)
{
    return p->logit_bias_count > vocab / CLS_BIAS_ROW_PART;
}

static size_t biases_words(const cls_params *p, uint32_t vocab)
{
    return p->logit_bias_count == 0   ? 0
           : biases_are_row(p, vocab) ? bias_row_offset(vocab, state_bitmap(vocab) * 32)
                                      : bias_list_offset(vocab, p->logit_bias_count);
}

static void write_biases(writer *w, const cls_params *p, uint32_t vocab, const uint32_t *allowed,
                         bias_entry *all, cls_slot *slot)
{
    const uint32_t n = merge_biases(p, allowed, all);
    const int row = biases_are_row(p, vocab);
    uint32_t *const bitmap = take_words(w, biases_words(p, vocab));
    slot->bias = (uint32_t)(bitmap - w->words);
    slot->n_bias = n;
    slot->flags |= row ? CLS_SLOT_BIAS_ROW : 0;
    for (uint32_t i = 0; i < n; i++) {
        bitmap[all[i].id / 32] |= 1u << (all[i].id % 32);
        bitmap[row ? bias_row_offset(vocab, all[i].id) : bias_list_offset(vocab, i)] =
            (uint32_t)CLS_AS_I32(all[i].bias);
    }
    for (uint32_t word = 0, i = 0; n != 0 && !row && word < state_bitmap(vocab); word++) {
        bitmap[bias_before_offset(vocab, word)] = i;
        while (i < n && all[i].id / 32 == word)
            i++;
    }
}

static const uint32_t *write_allowed(writer *w, const cls_params *p, uint32_t vocab, cls_slot *slot)
{
    if (!cls_params_allow_some(p))
        return NULL;
    slot->allowed = (uint32_t)w->used;
    uint32_t *const bitmap = take_words(w, state_bitmap(vocab));
    for (uint32_t i = 0; i < p->allowed_count; i++)
        bitmap[(uint32_t)p->allowed_ids[i] / 32] |= 1u << (p->allowed_ids[i] % 32);
    return bitmap;
}

static void write_stops(writer *w, const cls_params *p, cls_slot *slot)
{
    slot->stop = (uint32_t)w->used;
    slot->n_stop = p->stop_count;
    uint32_t *const out = take_words(w, p->stop_count);
    for (uint32_t i = 0; i < p->stop_count; i++)
        out[i] = (uint32_t)p->stop_ids[i];
    qsort(out, p->stop_count, sizeof *out, by_id);
}

/* Copies n ids and returns their offset. */
static uint32_t write_ids(writer *w, const int32_t *ids, uint32_t n)
{
    uint32_t *const out = take_words(w, n);
    for (uint32_t i = 0; i < n; i++)
        out[i] = (uint32_t)ids[i];
    return (uint32_t)(out - w->words);
}

static void write_thinking(writer *w, const cls_params *p, cls_slot *slot)
{
    slot->thinking_start = write_ids(w, p->thinking_start, p->thinking_start_count);
    slot->n_start = p->thinking_start_count;
    slot->thinking_end = write_ids(w, p->thinking_end, p->thinking_end_count);
    slot->n_end = p->thinking_end_count;
    slot->thinking_forced = write_ids(w, p->thinking_forced, p->thinking_forced_count);
    slot->n_thinking_forced = p->thinking_forced_count;
}

/* ------------------------------------------------- adjustments by the history */

int cls_dry_is_on(const cls_params *p) { return p->dry_multiplier != 0.0f && p->dry_base >= 1.0f; }

/* This is llama.cpp's limit, with which base^e is a finite float32. A base of 1 needs no limit. */
uint32_t cls_dry_max_exponent(const cls_params *p)
{
    const double most = p->dry_base > 1.0f ? 88.7228391 / log((double)p->dry_base) : 0.0;
    return most < CLS_MAX_HISTORY ? (uint32_t)most : CLS_MAX_HISTORY;
}

float cls_dry_penalty(const cls_params *p, uint32_t exponent)
{
    const double amount = (double)p->dry_multiplier * pow((double)p->dry_base, exponent);
    return cls_flush_subnormal(
        (float)fmax(-(double)CLS_FLT_MAX, fmin(amount, (double)CLS_FLT_MAX)));
}

/* Sorts by first id, and sequences with the same first id by length, longest first. */
static int by_first_id(const void *a, const void *b)
{
    const cls_sequence *const x = a, *const y = b;
    if (x->ids[0] != y->ids[0])
        return x->ids[0] < y->ids[0] ? -1 : 1;
    return (x->count < y->count) - (x->count > y->count);
}

/* Writes the offset of each sequence, and then the sequences: a count and the ids of each. */
static uint32_t write_sequences(writer *w, const cls_sequence *sequences, uint32_t n)
{
    const size_t offsets = w->used;
    w->used += n;
    for (uint32_t i = 0; i < n; i++) {
        w->words[offsets + i] = (uint32_t)w->used;
        w->words[w->used++] = sequences[i].count;
        memcpy(w->words + w->used, sequences[i].ids, sequences[i].count * sizeof *w->words);
        w->used += sequences[i].count;
    }
    return (uint32_t)offsets;
}

static uint32_t write_bitmap(writer *w, uint32_t vocab, const cls_sequence *sequences, uint32_t n)
{
    uint32_t *const bitmap = take_words(w, state_bitmap(vocab));
    for (uint32_t i = 0; i < n; i++)
        bitmap[(uint32_t)sequences[i].ids[0] / 32] |= 1u << (sequences[i].ids[0] % 32);
    return (uint32_t)(bitmap - w->words);
}

/* Writes DRY's penalties, one for each exponent, and its breakers. `sequences` is memory for
 * sorting: breakers of one id come first, the longer ones are sorted after them. */
static void write_dry(writer *w, const cls_params *p, uint32_t vocab, uint32_t amounts,
                      cls_sequence *sequences, cls_slot *slot)
{
    const uint32_t n = p->dry_breaker_count;
    uint32_t singles = 0, longer = n;
    slot->dry = (uint32_t)w->used;
    slot->n_dry = amounts;
    for (uint32_t e = 0; e < amounts; e++)
        w->words[w->used++] = (uint32_t)CLS_AS_I32(cls_dry_penalty(p, e));
    if (n == 0)
        return;
    for (uint32_t i = 0; i < n; i++)
        sequences[p->dry_breakers[i].count == 1 ? singles++ : --longer] = p->dry_breakers[i];
    qsort(sequences + singles, n - singles, sizeof *sequences, by_first_id);
    slot->dry_first_ids = slot->dry_single_ids = write_bitmap(w, vocab, sequences, n);
    if (singles < n)
        slot->dry_single_ids = write_bitmap(w, vocab, sequences, singles);
    slot->n_breakers = n - singles;
    slot->breakers = write_sequences(w, sequences + singles, n - singles);
}

/* Sorts sequences of at least two ids by the id before the last. */
static int by_second_to_last(const void *a, const void *b)
{
    const cls_sequence *const x = a, *const y = b;
    const int32_t i = x->ids[x->count - 2], j = y->ids[y->count - 2];
    return (i > j) - (i < j);
}

/* Bad words of one id are a list like that of stop ids. The longer ones are sorted so that the
 * device reads only those whose id before the last is the latest token. */
static void write_bad_words(writer *w, const cls_params *p, cls_sequence *sequences, cls_slot *slot)
{
    uint32_t longer = 0;
    uint32_t *const banned = w->words + w->used;
    slot->banned = (uint32_t)w->used;
    for (uint32_t i = 0; i < p->bad_word_count; i++)
        if (p->bad_words[i].count == 1)
            w->words[w->used++] = (uint32_t)p->bad_words[i].ids[0];
        else
            sequences[longer++] = p->bad_words[i];
    slot->n_banned = p->bad_word_count - longer;
    qsort(banned, slot->n_banned, sizeof *banned, by_id);
    qsort(sequences, longer, sizeof *sequences, by_second_to_last);
    slot->n_bad_words = longer;
    slot->bad_words = write_sequences(w, sequences, longer);
}

/* Returns the largest number of words that the lists may take. */
static uint64_t max_words(const cls_params *p, uint32_t vocab, uint32_t amounts)
{
    uint64_t n = cls_sequences_words(p->bad_words, p->bad_word_count) + p->bad_word_count +
                 amounts + p->stop_count + (uint64_t)p->thinking_start_count +
                 p->thinking_end_count + p->thinking_forced_count;
    n += biases_words(p, vocab);
    if (cls_params_allow_some(p))
        n += state_bitmap(vocab);
    if (amounts != 0 && p->dry_breaker_count != 0)
        n += 2ull * state_bitmap(vocab) +
             cls_sequences_words(p->dry_breakers, p->dry_breaker_count) + p->dry_breaker_count;
    return n;
}

cls_status cls_lists_create(const cls_params *p, uint32_t vocab, uint32_t history, cls_slot *slot,
                            uint32_t **words, uint32_t *n_words)
{
    const uint32_t longest = p->dry_window != 0 ? p->dry_window : history,
                   most = cls_dry_max_exponent(p);
    const uint32_t amounts = !cls_dry_is_on(p) ? 0 : 1 + (most < longest ? most : longest);
    const uint64_t need = max_words(p, vocab, amounts);
    *words = NULL;
    *n_words = 0;
    if (need == 0)
        return CLS_OK;
    if (need > UINT32_MAX / 8 || need > SIZE_MAX / sizeof **words)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS,
                        "the lists of the parameters are too long: they take %llu words",
                        (unsigned long long)need);
    writer w = {malloc((size_t)need * sizeof *w.words), 0};
    bias_entry *const biases = malloc((p->logit_bias_count + (size_t)1) * sizeof *biases);
    const uint32_t most_sequences =
        p->dry_breaker_count > p->bad_word_count ? p->dry_breaker_count : p->bad_word_count;
    cls_sequence *const sequences = malloc((most_sequences + (size_t)1) * sizeof *sequences);
    if (w.words == NULL || biases == NULL || sequences == NULL) {
        free(w.words);
        free(biases);
        free(sequences);
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for %llu words of lists",
                        (unsigned long long)need);
    }
    write_biases(&w, p, vocab, write_allowed(&w, p, vocab, slot), biases, slot);
    write_stops(&w, p, slot);
    if (amounts != 0)
        write_dry(&w, p, vocab, amounts, sequences, slot);
    write_bad_words(&w, p, sequences, slot);
    write_thinking(&w, p, slot);
    free(biases);
    free(sequences);
    *words = w.words;
    *n_words = (uint32_t)w.used;
    return CLS_OK;
}

void cls_lists_set_offset(cls_slot *slot, uint32_t offset)
{
    slot->lists = offset;
    slot->bias += offset;
    slot->allowed += offset;
    slot->stop += offset;
    slot->dry += offset;
    slot->dry_first_ids += slot->dry_first_ids != 0 ? offset : 0; /* 0 if there are no breakers */
    slot->dry_single_ids += offset;
    slot->breakers += offset;
    slot->banned += offset;
    slot->bad_words += offset;
    slot->thinking_start += offset;
    slot->thinking_end += offset;
    slot->thinking_forced += offset;
    slot->forced += offset;
}
