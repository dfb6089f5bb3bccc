/* SPDX-License-Identifier: MIT */
/* Lists: requests' biases, stop ids, sequences, in the device's form, and their
 * places in the one buffer that has them all. */
#include "request/request.h"

#include <math.h>
#include <stdlib.h>

/* -------------------------------------------------------------- their contents */

typedef struct bias_entry {
    uint32_t id, index; /* index: where the caller had it, for a sum in one order */
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

/* One bias an id, ascending, of those that `allowed` (a bitmap, or NULL) has; returns how many. */
static uint32_t merge_biases(const cls_params *p, const uint32_t *allowed, bias_entry *all)
{
    const uint32_t given = p->logit_bias_count;
    uint32_t n = 0;
    for (uint32_t i = 0; i < given; i++)
        all[i] = (bias_entry){(uint32_t)p->logit_bias[i].id, i, p->logit_bias[i].bias};
    qsort(all, given, sizeof *all, by_id_and_index);
    for (uint32_t i = 0; i < given;) {
        const uint32_t id = all[i].id;
        double sum = 0.0;
        for (; i < given && all[i].id == id; i++)
            sum += (double)all[i].bias;
        if (allowed != NULL && !(allowed[id / 32] >> (id % 32) & 1u))
            continue;
        all[n].id = id;
        all[n++].bias =
            sum == -INFINITY
                ? -INFINITY
                : cls_normal((float)fmax(-(double)CLS_FLT_MAX, fmin(sum, (double)CLS_FLT_MAX)));
    }
    return n;
}

/* The lists on their way: `used` of the words are written. */
typedef struct writer {
    uint32_t *words;
    size_t used;
} writer;

/* Room for n words, all zero. */
static uint32_t *take_words(writer *w, size_t n)
{
    uint32_t *const at = w->words + w->used;
    memset(at, 0, n * sizeof *at);
    w->used += n;
    return at;
}

/* Many biases are a row of all tokens, whose vectors are added as they lie: one of a list takes
 * some 15 ns wherever logits are read, a vector of the row 5. */
static int biases_are_row(const cls_params *p, uint32_t vocab)
{
    return p->logit_bias_count > vocab / CLS_BIAS_ROW_PART;
}

static size_t biases_words(const cls_params *p, uint32_t vocab)
{
    return p->logit_bias_count == 0   ? 0
           : biases_are_row(p, vocab) ? bias_row_place(vocab, state_bitmap(vocab) * 32)
                                      : bias_list_place(vocab, p->logit_bias_count);
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
        bitmap[row ? bias_row_place(vocab, all[i].id) : bias_list_place(vocab, i)] =
            (uint32_t)CLS_AS_I32(all[i].bias);
    }
    for (uint32_t word = 0, i = 0; n != 0 && !row && word < state_bitmap(vocab); word++) {
        bitmap[bias_before_place(vocab, word)] = i;
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

/* ------------------------------------------------------- what looks at the history */

int cls_dry_is_on(const cls_params *p) { return p->dry_multiplier != 0.0f && p->dry_base >= 1.0f; }

/* llama.cpp's limit, which keeps base^e a float32; a base of 1 needs none. */
uint32_t cls_dry_most(const cls_params *p)
{
    const double most = p->dry_base > 1.0f ? 88.7228391 / log((double)p->dry_base) : 0.0;
    return most < CLS_MAX_HISTORY ? (uint32_t)most : CLS_MAX_HISTORY;
}

float cls_dry_amount(const cls_params *p, uint32_t exponent)
{
    const double amount = (double)p->dry_multiplier * pow((double)p->dry_base, exponent);
    return cls_normal((float)fmax(-(double)CLS_FLT_MAX, fmin(amount, (double)CLS_FLT_MAX)));
}

/* By first id; of one first id the longest first. */
static int by_first_id(const void *a, const void *b)
{
    const cls_sequence *const x = a, *const y = b;
    if (x->ids[0] != y->ids[0])
        return x->ids[0] < y->ids[0] ? -1 : 1;
    return (x->count < y->count) - (x->count > y->count);
}

/* Places of sequences, then what is there. */
static uint32_t write_sequences(writer *w, const cls_sequence *sequences, uint32_t n)
{
    const size_t places = w->used;
    w->used += n;
    for (uint32_t i = 0; i < n; i++) {
        w->words[places + i] = (uint32_t)w->used;
        w->words[w->used++] = sequences[i].count;
        memcpy(w->words + w->used, sequences[i].ids, sequences[i].count * sizeof *w->words);
        w->used += sequences[i].count;
    }
    return (uint32_t)places;
}

static uint32_t write_bitmap(writer *w, uint32_t vocab, const cls_sequence *sequences, uint32_t n)
{
    uint32_t *const bitmap = take_words(w, state_bitmap(vocab));
    for (uint32_t i = 0; i < n; i++)
        bitmap[(uint32_t)sequences[i].ids[0] / 32] |= 1u << (sequences[i].ids[0] % 32);
    return (uint32_t)(bitmap - w->words);
}

/* DRY's amounts and breakers: those of one id to the front of `sequences`, the
 * others after them, sorted. */
static void write_dry(writer *w, const cls_params *p, uint32_t vocab, uint32_t amounts,
                      cls_sequence *sequences, cls_slot *slot)
{
    const uint32_t n = p->dry_breaker_count;
    uint32_t singles = 0, longer = n;
    slot->dry = (uint32_t)w->used;
    slot->n_dry = amounts;
    for (uint32_t e = 0; e < amounts; e++)
        w->words[w->used++] = (uint32_t)CLS_AS_I32(cls_dry_amount(p, e));
    if (n == 0)
        return;
    for (uint32_t i = 0; i < n; i++)
        sequences[p->dry_breakers[i].count == 1 ? singles++ : --longer] = p->dry_breakers[i];
    qsort(sequences + singles, n - singles, sizeof *sequences, by_first_id);
    slot->dry_heads = slot->dry_singles = write_bitmap(w, vocab, sequences, n);
    if (singles < n)
        slot->dry_singles = write_bitmap(w, vocab, sequences, singles);
    slot->n_breakers = n - singles;
    slot->breakers = write_sequences(w, sequences + singles, n - singles);
}

/* By the last id but one, of sequences of at least two. */
static int by_last_but_one(const void *a, const void *b)
{
    const cls_sequence *const x = a, *const y = b;
    const int32_t i = x->ids[x->count - 2], j = y->ids[y->count - 2];
    return (i > j) - (i < j);
}

/* Those of one id are a list like that of stop ids; of the others the device looks only at those
 * that the latest token may lead to. */
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
    qsort(sequences, longer, sizeof *sequences, by_last_but_one);
    slot->n_bad_words = longer;
    slot->bad_words = write_sequences(w, sequences, longer);
}

/* Words that the lists take at most. */
static uint64_t most_words(const cls_params *p, uint32_t vocab, uint32_t amounts)
{
    uint64_t n = cls_sequences_words(p->bad_words, p->bad_word_count) + p->bad_word_count +
                 amounts + p->stop_count;
    n += biases_words(p, vocab);
    if (cls_params_allow_some(p))
        n += state_bitmap(vocab);
    if (amounts != 0 && p->dry_breaker_count != 0)
        n += 2ull * state_bitmap(vocab) +
             cls_sequences_words(p->dry_breakers, p->dry_breaker_count) + p->dry_breaker_count;
    return n;
}

cls_status cls_lists_make(const cls_params *p, uint32_t vocab, uint32_t history, cls_slot *slot,
                          uint32_t **words, uint32_t *n_words)
{
    const uint32_t longest = p->dry_window != 0 ? p->dry_window : history, most = cls_dry_most(p);
    const uint32_t amounts = !cls_dry_is_on(p) ? 0 : 1 + (most < longest ? most : longest);
    const uint64_t need = most_words(p, vocab, amounts);
    *words = NULL;
    *n_words = 0;
    if (need == 0)
        return CLS_OK;
    if (need > UINT32_MAX / 8 || need > SIZE_MAX / sizeof **words)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "too many ids in lists: %llu words",
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
    free(biases);
    free(sequences);
    *words = w.words;
    *n_words = (uint32_t)w.used;
    return CLS_OK;
}

void cls_lists_place(cls_slot *slot, uint32_t at)
{
    slot->lists = at;
    slot->bias += at;
    slot->allowed += at;
    slot->stop += at;
    slot->dry += at;
    slot->dry_heads += slot->dry_heads != 0 ? at : 0; /* 0: there are no breakers */
    slot->dry_singles += at;
    slot->breakers += at;
    slot->banned += at;
    slot->bad_words += at;
}
