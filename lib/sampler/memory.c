/* SPDX-License-Identifier: MIT */
/* Device memory that grows, and where lists lie in it. */
#include "sampler/sampler.h"

#include <stdlib.h>

/* What steps in flight use of the old buffer, OpenCL keeps for them. */
cls_status cls_device_grow(const cls_sampler *s, cls_device_block *block, size_t need,
                           const char *what)
{
    cl_int code;
    if (need <= block->size)
        return CLS_OK;
    const size_t size = need <= SIZE_MAX / 3 * 2 ? need + need / 2 : need;
    const cl_mem buffer = clCreateBuffer(s->context->cl, CL_MEM_READ_WRITE, size, NULL, &code);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot allocate %zu bytes on the device for %s",
                        size, what);
    if (block->buffer != NULL)
        clReleaseMemObject(block->buffer);
    block->buffer = buffer;
    block->size = size;
    return CLS_OK;
}

/* Forgets the lists that nobody uses, once a step has passed that knew them. */
void cls_lists_drop(cls_sampler *s)
{
    s->lists_dropped = s->flush;
    memset(s->lists_before, 0, sizeof s->lists_before);
    for (cls_lists **at = &s->first_lists; *at != NULL;) {
        cls_lists *const l = *at;
        if (l->references == 0 && l->flush != s->flush) {
            *at = l->next;
            free(l);
        } else {
            at = &l->next;
        }
    }
}

/* The binary digits of n, which is not 0. */
static int digits(uint32_t n)
{
    int i = 0;
    for (; n != 0; n >>= 1)
        i++;
    return i;
}

/* A place for n words among the lists, or a larger buffer. Until the next step the search goes
 * on behind the last place that was found for about as many words, so that many calls
 * walk the lists once for each number of digits. */
cls_status cls_lists_new(cls_sampler *s, uint32_t n, cls_lists **out)
{
    *out = NULL;
    if (n == 0)
        return CLS_OK;
    if (s->lists_dropped != s->flush)
        cls_lists_drop(s);
    cls_lists **const before = &s->lists_before[digits(n) - 1];
    cls_lists **at = *before != NULL ? &(*before)->next : &s->first_lists;
    size_t end = *before != NULL ? (size_t)(*before)->at + (*before)->n : 0;
    for (; *at != NULL && (*at)->at - end < n; at = &(*at)->next)
        end = (*at)->at + (*at)->n;
    if (end + n > UINT32_MAX / 8)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "too many ids in lists: %zu words", end + n);
    cls_lists *const l = malloc(sizeof *l);
    if (l == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for a list");
    if ((end + n) * sizeof(uint32_t) > s->lists.size) {
        cls_device_block grown = {NULL, s->lists.size};
        const cls_status status = cls_device_grow(s, &grown, (end + n) * sizeof(uint32_t), "lists");
        if (status != CLS_OK) {
            free(l);
            return status;
        }
        if (s->old_lists != NULL) {
            clReleaseMemObject(s->lists.buffer); /* it has no contents yet */
        } else {
            s->old_lists = s->lists.buffer;
            s->old_lists_size = s->lists.size;
        }
        s->lists = grown;
    }
    l->references = 1;
    l->flush = 0;
    l->at = (uint32_t)end;
    l->n = n;
    l->next = *at;
    *at = l;
    *before = l;
    *out = l;
    return CLS_OK;
}

void cls_lists_release(const cls_sampler *s, cls_lists *l)
{
    if (l == NULL)
        return;
    l->references--;
    l->flush = s->flush;
}
