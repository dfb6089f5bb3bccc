/* SPDX-License-Identifier: MIT */
/* A sampler's memory on the device: the lists of its requests, which share a buffer, and buffers
 * that grow. */
#ifndef CLS_SAMPLER_MEMORY_H
#define CLS_SAMPLER_MEMORY_H

#include "queue/queue.h"

/* Host memory that grows; sizes in bytes. */
typedef struct cls_host_buffer {
    void *data;
    size_t used, size;
} cls_host_buffer;

/* Device memory that grows; size in bytes. */
typedef struct cls_device_buffer {
    cl_mem buffer;
    size_t size;
} cls_device_buffer;

/* A request's biases and stop ids in the device's buffer of lists. Copies of a slot share them. A
 * grammar's words are lists, too, which all requests that follow it share. */
typedef struct cls_lists {
    struct cls_lists *next; /* in the order of offsets */
    uint32_t references;    /* 0: the memory is free after the next step */
    uint64_t batch;         /* the batch in which the last reference was released */
    uint32_t offset, words; /* offset and length, in words */

    const cls_grammar *grammar;     /* retained; NULL if the lists are a request's */
    struct cls_lists *next_grammar; /* of the sampler's grammars */
    cl_mem upload;                  /* its words, until the next step copies them, or NULL */
} cls_lists;

/* Allocates room for n words in the buffer of lists, which grows if necessary. *out is NULL if n is
 * 0, and on the host, which needs no lists. Fails if memory runs out. */
cls_status cls_lists_allocate(cls_sampler *sampler, uint32_t n, cls_lists **out);

/* Returns the words of a grammar in the buffer of lists, with a reference: those of an equal one,
 * or new ones, which the next step copies. *out is NULL if `grammar` is, and on the host. Fails if
 * memory runs out.
 */
cls_status cls_lists_of_grammar(cls_sampler *sampler, const cls_grammar *grammar, cls_lists **out);

/* Removes a reference; `lists` may be NULL. */
void cls_lists_release(const cls_sampler *sampler, cls_lists *lists);

/* Frees the lists without references that were released in an earlier batch. Those of the current
 * batch stay, since its changes may still refer to them. */
void cls_lists_collect(cls_sampler *sampler);

/* Replaces a buffer by a larger one if it has less than `need` bytes. The contents are lost. OpenCL
 * keeps the old buffer for steps in flight. `what` is its purpose, for messages. */
cls_status cls_device_buffer_grow(const cls_sampler *sampler, cls_device_buffer *buffer,
                                  size_t need, const char *what);

#endif
