/* SPDX-License-Identifier: MIT */
/* Lists: requests' biases and stop ids, sorted for the device, and their places
 * in the one buffer that has them all. */
#include "internal.h"

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

cls_status cls_lists_make(const cls_params *p, uint32_t **words, uint32_t *n_bias, uint32_t *n_stop)
{
    const size_t count = 2 * (size_t)p->logit_bias_count + p->stop_count;
    uint32_t n = 0;
    *words = NULL;
    *n_bias = *n_stop = 0;
    if (count == 0)
        return CLS_OK;
    uint32_t *const out = malloc(count * sizeof *out);
    bias_entry *const all = malloc((p->logit_bias_count + 1) * sizeof *all);
    if (out == NULL || all == NULL) {
        free(out);
        free(all);
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for %zu biases and stop ids", count);
    }
    for (uint32_t i = 0; i < p->logit_bias_count; i++)
        all[i] = (bias_entry){ (uint32_t)p->logit_bias[i].id, i, p->logit_bias[i].bias };
    qsort(all, p->logit_bias_count, sizeof *all, by_id_and_index);
    for (uint32_t i = 0; i < p->logit_bias_count; n++) {
        const uint32_t id = all[i].id;
        double sum = 0.0;
        for (; i < p->logit_bias_count && all[i].id == id; i++)
            sum += (double)all[i].bias;
        all[n].id = id;
        all[n].bias = sum == -INFINITY ? -INFINITY : cls_normal((float)fmax(-(double)CLS_FLT_MAX, fmin(sum, (double)CLS_FLT_MAX)));
    }
    for (uint32_t i = 0; i < n; i++) {
        out[i] = all[i].id;
        out[n + i] = (uint32_t)CLS_AS_I32(all[i].bias);
    }
    uint32_t *const stop = out + 2 * n;
    for (uint32_t i = 0; i < p->stop_count; i++)
        stop[i] = (uint32_t)p->stop_ids[i];
    qsort(stop, p->stop_count, sizeof *stop, by_id);
    free(all);
    *words = out;
    *n_bias = n;
    *n_stop = p->stop_count;
    return CLS_OK;
}

/* ---------------------------------------------------------------- their places */

/* What steps in flight use of the old buffer, OpenCL keeps for them. */
cls_status cls_device_grow(const cls_sampler *s, cls_device_block *block, size_t need, const char *what)
{
    cl_int code;
    if (need <= block->size)
        return CLS_OK;
    const size_t size = need + need / 2;
    const cl_mem buffer = clCreateBuffer(s->context->cl, CL_MEM_READ_WRITE, size, NULL, &code);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot allocate %zu bytes on the device for %s", size, what);
    if (block->buffer != NULL)
        clReleaseMemObject(block->buffer);
    block->buffer = buffer;
    block->size = size;
    return CLS_OK;
}

/* Forgets the lists that nobody uses, once a step has passed that knew them. */
void cls_lists_drop(cls_sampler *s)
{
    for (cls_lists **at = &s->first_lists; *at != NULL;) {
        cls_lists *const l = *at;
        if (l->references == 0) {
            *at = l->next;
            free(l);
        } else {
            at = &l->next;
        }
    }
}

/* A place for n words among the lists: the first that fits, or a larger buffer. */
cls_status cls_lists_new(cls_sampler *s, uint32_t n, cls_lists **out)
{
    cls_lists **at = &s->first_lists;
    size_t end = 0;
    *out = NULL;
    if (n == 0)
        return CLS_OK;
    if (s->rounds == 0)
        cls_lists_drop(s);
    for (; *at != NULL && (*at)->at - end < n; at = &(*at)->next)
        end = (*at)->at + (*at)->n;
    if (end + n > UINT32_MAX / 8)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "too many biases and stop ids: %zu words", end + n);
    cls_lists *const l = malloc(sizeof *l);
    if (l == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for a list");
    if ((end + n) * sizeof(uint32_t) > s->lists.size) {
        const cls_device_block old = s->lists;
        clRetainMemObject(old.buffer);
        const cls_status status = cls_device_grow(s, &s->lists, (end + n) * sizeof(uint32_t), "biases and stop ids");
        if (status != CLS_OK || s->old_lists != NULL) {
            clReleaseMemObject(old.buffer); /* not needed: still there, or without contents yet */
        } else {
            s->old_lists = old.buffer;
            s->old_lists_size = old.size;
        }
        if (status != CLS_OK) {
            free(l);
            return status;
        }
    }
    l->references = 1;
    l->at = (uint32_t)end;
    l->n = n;
    l->next = *at;
    *at = l;
    *out = l;
    return CLS_OK;
}

void cls_lists_release(cls_lists *l)
{
    if (l != NULL)
        l->references--;
}
