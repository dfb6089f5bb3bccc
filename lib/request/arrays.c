/* SPDX-License-Identifier: MIT */
/* Copies, frees and measures the arrays that parameters point to. A request keeps copies of
 * them. */
#include "request/request.h"

#include <stddef.h>
#include <stdlib.h>

/* clang-format off */
#define AT(field) offsetof(cls_slot, field)
#define NONE 0
#define KEPT(id, matched, form, length, offset) id, matched, length, offset
#define ids_ARRAY "ids", sizeof(int32_t)
#define id_ARRAY ids_ARRAY
#define biases_ARRAY "biases", sizeof(cls_logit_bias)
#define sequences_ARRAY "sequences", sizeof(cls_ids)
#define ROW(p, kind, list, kept, option, meta, key, help) \
    {#list, kind##_ARRAY, CLS_LIST_##kind, offsetof(cls_params, list), KEPT kept},
/* clang-format on */

const cls_list_param cls_list_table[] = {CLS_LISTS(ROW, )};

_Static_assert(sizeof(cls_list) == sizeof(cls_ids) && sizeof(cls_list) == sizeof(cls_biases) &&
                   sizeof(cls_list) == sizeof(cls_sequences) &&
                   offsetof(cls_list, count) == offsetof(cls_ids, count) &&
                   offsetof(cls_list, count) == offsetof(cls_biases, count) &&
                   offsetof(cls_list, count) == offsetof(cls_sequences, count),
               "lists of all kinds have one layout");

/* The pointer's type differs from list to list, so lists are copied as bytes. */
cls_list cls_list_get(const cls_list_param *l, const cls_params *params)
{
    cls_list list;
    memcpy(&list, (const char *)params + l->at, sizeof list);
    return list;
}

void cls_list_set_array(const cls_list_param *l, cls_params *params, void *array)
{
    memcpy((char *)params + l->at, &array, sizeof array);
}

const cls_list_param *cls_list_after(const cls_list_param *before)
{
    const cls_list_param *next = NULL;
    for (const cls_list_param *l = cls_list_table; l < cls_list_table + CLS_LIST_COUNT; l++)
        if (l->id > (before != NULL ? before->id : 0) && (next == NULL || l->id < next->id))
            next = l;
    return next;
}

uint64_t cls_sequences_words(const cls_ids *sequences, uint32_t count)
{
    uint64_t words = count;
    for (uint32_t i = 0; i < count; i++)
        words += sequences[i].count;
    return words;
}

static uint64_t bytes_of(const cls_list_param *l, const cls_params *p)
{
    const cls_list list = cls_list_get(l, p);
    const uint64_t ids = l->kind == CLS_LIST_sequences
                             ? cls_sequences_words(list.array, list.count) - list.count
                             : 0;
    return list.count * (uint64_t)l->size + ids * sizeof(int32_t);
}

/* Moves the ids of copied sequences to the memory after the sequences. */
static void move_ids(cls_ids *sequences, uint32_t count)
{
    int32_t *ids = (int32_t *)(void *)(sequences + count);
    for (uint32_t i = 0; i < count; i++) {
        memcpy(ids, sequences[i].ids, sequences[i].count * sizeof *ids);
        sequences[i].ids = ids;
        ids += sequences[i].count;
    }
}

static cls_status copy_array(const cls_list_param *l, const cls_params *from, cls_params *to)
{
    const uint64_t size = bytes_of(l, from);
    const uint32_t n = cls_list_count(l, from);
    if (size == 0)
        return CLS_OK;
    void *const copy = size <= SIZE_MAX ? malloc((size_t)size) : NULL;
    if (copy == NULL)
        return cls_no_memory("%llu bytes of the parameters' arrays", (unsigned long long)size);
    memcpy(copy, cls_list_array(l, from), n * l->size);
    if (l->kind == CLS_LIST_sequences)
        move_ids(copy, n);
    cls_list_set_array(l, to, copy);
    return CLS_OK;
}

/* Copies the parameters outside the thinking, of which there are some. */
static cls_status copy_phase(const cls_params *second, cls_params *to)
{
    cls_params *const copy = malloc(sizeof *copy);
    if (copy == NULL)
        return cls_no_memory("parameters");
    const cls_status status = CLS_STRUCT_READ(copy, second, "params->post_thinking");
    to->post_thinking = copy;
    return status;
}

cls_status cls_arrays_copy(cls_params *params)
{
    cls_params copy = *params;
    cls_status status = CLS_OK;
    for (int i = 0; i < CLS_LIST_COUNT; i++)
        cls_list_set_array(&cls_list_table[i], &copy, NULL);
    copy.post_thinking = NULL;
    if (params->post_thinking != NULL)
        status = copy_phase(params->post_thinking, &copy);
    for (int i = 0; i < CLS_LIST_COUNT && status == CLS_OK; i++)
        status = copy_array(&cls_list_table[i], params, &copy);
    if (status == CLS_OK)
        *params = copy;
    else
        cls_arrays_free(&copy);
    return status;
}

void cls_arrays_free(cls_params *params)
{
    for (int i = 0; i < CLS_LIST_COUNT; i++) {
        free(cls_list_array(&cls_list_table[i], params));
        cls_list_set_array(&cls_list_table[i], params, NULL);
    }
    free((void *)(uintptr_t)params->post_thinking);
    params->post_thinking = NULL;
}

uint64_t cls_arrays_hash(uint64_t hash, const cls_params *params)
{
    for (const cls_list_param *l = cls_list_table; l < cls_list_table + CLS_LIST_COUNT; l++) {
        const cls_list list = cls_list_get(l, params);
        const cls_ids *const sequences = list.array;
        hash = cls_hash_word(hash, list.count);
        if (l->kind != CLS_LIST_sequences && list.count != 0)
            hash = cls_hash_bytes(hash, list.array, list.count * l->size);
        for (uint32_t i = 0; l->kind == CLS_LIST_sequences && i < list.count; i++)
            hash = cls_hash_bytes(cls_hash_word(hash, sequences[i].count), sequences[i].ids,
                                  sequences[i].count * sizeof *sequences[i].ids);
    }
    return hash;
}

uint64_t cls_arrays_size(const cls_params *params)
{
    uint64_t size = 0;
    for (int i = 0; i < CLS_LIST_COUNT; i++)
        size += bytes_of(&cls_list_table[i], params);
    return size;
}
