/* SPDX-License-Identifier: MIT */
/* Manages device memory that grows, and allocates lists in it. */
#include "sampler/sampler.h"

#include <stdlib.h>

cls_status cls_device_buffer_grow(const cls_sampler *s, cls_device_buffer *buffer, size_t need,
                                  const char *what)
{
    cl_int code;
    if (need <= buffer->size)
        return CLS_OK;
    const size_t size = need <= SIZE_MAX / 3 * 2 ? need + need / 2 : need;
    const cl_mem larger = clCreateBuffer(s->context->cl, CL_MEM_READ_WRITE, size, NULL, &code);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot allocate %zu bytes on the device for %s",
                        size, what);
    if (buffer->buffer != NULL)
        clReleaseMemObject(buffer->buffer);
    buffer->buffer = larger;
    buffer->size = size;
    return CLS_OK;
}

/* Returns 1 if no change will use the lists again. */
static int lists_are_unused(const cls_sampler *s, const cls_lists *l)
{
    return l->references == 0 && l->batch != s->batch;
}

static void collect_grammars(cls_sampler *s)
{
    for (cls_lists **link = &s->grammars; *link != NULL;) {
        cls_lists *const l = *link;
        if (!lists_are_unused(s, l)) {
            link = &l->next_grammar;
            continue;
        }
        *link = l->next_grammar;
        cls_grammar_release(l->grammar);
        if (l->upload != NULL)
            clReleaseMemObject(l->upload);
    }
}

void cls_lists_collect(cls_sampler *s)
{
    s->lists_collected = s->batch;
    memset(s->lists_search, 0, sizeof s->lists_search);
    collect_grammars(s);
    for (cls_lists **link = &s->first_lists; *link != NULL;) {
        cls_lists *const l = *link;
        if (lists_are_unused(s, l)) {
            *link = l->next;
            free(l);
        } else {
            link = &l->next;
        }
    }
}

/* Returns the number of binary digits of n. */
static int binary_digits(uint32_t n)
{
    int i = 0;
    for (; n != 0; n >>= 1)
        i++;
    return i;
}

/* The search for free memory between lists continues, until the next step, after the last list of
 * about the same size (the same number of binary digits). Many calls thus go through the lists once
 * per number of digits. */
cls_status cls_lists_allocate(cls_sampler *s, uint32_t n, cls_lists **out)
{
    *out = NULL;
    if (n == 0 || s->host != NULL)
        return CLS_OK;
    if (s->lists_collected != s->batch)
        cls_lists_collect(s);
    cls_lists **const before = &s->lists_search[binary_digits(n) - 1];
    cls_lists **link = *before != NULL ? &(*before)->next : &s->first_lists;
    size_t end = *before != NULL ? (size_t)(*before)->offset + (*before)->words : 0;
    for (; *link != NULL && (*link)->offset - end < n; link = &(*link)->next)
        end = (*link)->offset + (*link)->words;
    if (end + n > UINT32_MAX / 8)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS,
                        "the lists of all slots together are too long: %zu words", end + n);
    cls_lists *const l = calloc(1, sizeof *l);
    if (l == NULL)
        return cls_no_memory("a list");
    if ((end + n) * sizeof(uint32_t) > s->lists.size) {
        cls_device_buffer grown = {NULL, s->lists.size};
        const cls_status status =
            cls_device_buffer_grow(s, &grown, (end + n) * sizeof(uint32_t), "lists");
        if (status != CLS_OK) {
            free(l);
            return status;
        }
        if (s->lists_to_copy != NULL) {
            clReleaseMemObject(s->lists.buffer); /* no step has filled it yet */
        } else {
            s->lists_to_copy = s->lists.buffer;
            s->lists_to_copy_size = s->lists.size;
        }
        s->lists = grown;
    }
    l->references = 1;
    l->offset = (uint32_t)end;
    l->words = n;
    l->next = *link;
    *link = l;
    *before = l;
    *out = l;
    return CLS_OK;
}

static cls_status add_grammar(cls_sampler *s, const cls_grammar *grammar, cls_lists **out)
{
    const size_t size = grammar->n_words * sizeof *grammar->words;
    cl_int code;
    cls_status status = CLS_OK;
    if (s->grammar_rows == NULL)
        status = cls_lists_allocate(s, s->max_rows * grammar_row_words(s->vocab), &s->grammar_rows);
    if (status == CLS_OK)
        status = cls_lists_allocate(s, grammar->n_words, out);
    if (status != CLS_OK)
        return status;
    cls_lists *const l = *out;
    l->upload = clCreateBuffer(s->context->cl, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, size,
                               grammar->words, &code);
    if (code != CL_SUCCESS) {
        cls_lists_release(s, l);
        *out = NULL;
        return cls_fail(CLS_OPENCL_ERROR, code,
                        "cannot allocate %zu bytes on the device for a grammar", size);
    }
    cls_grammar_retain(grammar);
    l->grammar = grammar;
    l->next_grammar = s->grammars;
    s->grammars = l;
    return CLS_OK;
}

cls_status cls_lists_of_grammar(cls_sampler *s, const cls_grammar *grammar, cls_lists **out)
{
    *out = NULL;
    if (grammar == NULL || s->host != NULL)
        return CLS_OK;
    for (cls_lists *l = s->grammars; l != NULL; l = l->next_grammar)
        if (memcmp(l->grammar->digest, grammar->digest, CLS_DIGEST_SIZE) == 0) {
            l->references++;
            *out = l;
            return CLS_OK;
        }
    return add_grammar(s, grammar, out);
}

void cls_lists_release(const cls_sampler *s, cls_lists *l)
{
    if (l == NULL)
        return;
    l->references--;
    l->batch = s->batch;
}
