/* SPDX-License-Identifier: MIT */
/* Copies, frees and measures the arrays that parameters point to. A request keeps copies of
 * them. */
#include "request/request.h"

#include <stdlib.h>

enum { ARRAYS = 8 };

/* One of the arrays. In the copy of an array of sequences, their ids follow in the same block. */
typedef struct array {
    void *pointer; /* the address of the field that points to the array */
    uint64_t count;
    size_t size;   /* bytes of an element */
    int sequences; /* 1 if the elements are sequences */
} array;

static void arrays_of(cls_params *p, array all[ARRAYS])
{
    const array table[ARRAYS] = {
        {&p->logit_bias, p->logit_bias_count, sizeof *p->logit_bias, 0},
        {&p->stop_ids, p->stop_count, sizeof *p->stop_ids, 0},
        {&p->allowed_ids, p->allowed_count, sizeof *p->allowed_ids, 0},
        {&p->dry_breakers, p->dry_breaker_count, sizeof *p->dry_breakers, 1},
        {&p->bad_words, p->bad_word_count, sizeof *p->bad_words, 1},
        {&p->thinking_start, p->thinking_start_count, sizeof *p->thinking_start, 0},
        {&p->thinking_end, p->thinking_end_count, sizeof *p->thinking_end, 0},
        {&p->thinking_forced, p->thinking_forced_count, sizeof *p->thinking_forced, 0},
    };
    memcpy(all, table, sizeof table);
}

/* Returns the pointer to the array. Its type differs from array to array, so it is copied as bytes.
 */
static void *pointer_of(const array *a)
{
    void *p;
    memcpy(&p, a->pointer, sizeof p);
    return p;
}

static void set_pointer(const array *a, void *p) { memcpy(a->pointer, &p, sizeof p); }

uint64_t cls_sequences_words(const cls_sequence *sequences, uint32_t count)
{
    uint64_t words = count;
    for (uint32_t i = 0; i < count; i++)
        words += sequences[i].count;
    return words;
}

static uint64_t bytes_of(const array *a)
{
    const uint64_t ids =
        a->sequences ? cls_sequences_words(pointer_of(a), (uint32_t)a->count) - a->count : 0;
    return a->count * a->size + ids * sizeof(int32_t);
}

/* Moves the ids of copied sequences to the memory after the sequences. */
static void move_ids(cls_sequence *sequences, uint64_t count)
{
    int32_t *ids = (int32_t *)(void *)(sequences + count);
    for (uint64_t i = 0; i < count; i++) {
        memcpy(ids, sequences[i].ids, sequences[i].count * sizeof *ids);
        sequences[i].ids = ids;
        ids += sequences[i].count;
    }
}

cls_status cls_arrays_copy(cls_params *params)
{
    cls_params copy = *params;
    array all[ARRAYS];
    cls_status status = CLS_OK;
    arrays_of(&copy, all);
    for (int i = 0; i < ARRAYS; i++) {
        const void *const from = pointer_of(&all[i]);
        const uint64_t size = all[i].count != 0 ? bytes_of(&all[i]) : 0;
        void *const to =
            status == CLS_OK && size != 0 && size <= SIZE_MAX ? malloc((size_t)size) : NULL;
        set_pointer(&all[i], to);
        if (size == 0 || status != CLS_OK)
            continue;
        if (to == NULL) {
            status = cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS,
                              "out of host memory for %llu bytes of the parameters' arrays",
                              (unsigned long long)size);
            continue;
        }
        memcpy(to, from, (size_t)all[i].count * all[i].size);
        if (all[i].sequences)
            move_ids(to, all[i].count);
    }
    if (status == CLS_OK)
        *params = copy;
    else
        cls_arrays_free(&copy);
    return status;
}

void cls_arrays_free(cls_params *params)
{
    array all[ARRAYS];
    arrays_of(params, all);
    for (int i = 0; i < ARRAYS; i++) {
        free(pointer_of(&all[i]));
        set_pointer(&all[i], NULL);
    }
}

uint64_t cls_arrays_size(const cls_params *params)
{
    cls_params p = *params;
    array all[ARRAYS];
    uint64_t size = 0;
    arrays_of(&p, all);
    for (int i = 0; i < ARRAYS; i++)
        size += all[i].count != 0 ? bytes_of(&all[i]) : 0;
    return size;
}
