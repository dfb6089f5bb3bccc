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

void cls_lists_collect(cls_sampler *s)
{
    s->lists_collected = s->batch;
    memset(s->lists_search, 0, sizeof s->lists_search);
    for (cls_lists **link = &s->first_lists; *link != NULL;) {
        cls_lists *const l = *link;
        if (l->references == 0 && l->batch != s->batch) {
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
    if (n == 0)
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
    cls_lists *const l = malloc(sizeof *l);
    if (l == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for a list");
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
    l->batch = 0;
    l->offset = (uint32_t)end;
    l->words = n;
    l->next = *link;
    *link = l;
    *before = l;
    *out = l;
    return CLS_OK;
}

void cls_lists_release(const cls_sampler *s, cls_lists *l)
{
    if (l == NULL)
        return;
    l->references--;
    l->batch = s->batch;
}
