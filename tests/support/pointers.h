/* SPDX-License-Identifier: MIT */
/* Memory that is named by pointers: copies of buffers in SVM or USM. */
#ifndef TESTS_POINTERS_H
#define TESTS_POINTERS_H

#include "fixture.h"
#include "private.h"

enum { POINTERS_MOST = 64 };

typedef struct pointers {
    device *d;
    int32_t kind; /* a cls_buffer_kind */
    cls_pointer_calls calls;
    uint32_t n; /* copies */
    struct {
        cl_mem of;
        size_t size;
        void *at;
    } copy[POINTERS_MOST];
} pointers;

/* Returns 0 if the device has no memory of this kind. */
int pointers_open(pointers *p, device *d, int32_t kind);
void pointers_close(pointers *p);

/* Returns a copy of a buffer that the struct stands for, with the same offset; a buffer is copied
 * once. An absent buffer stays absent. */
cls_buffer pointers_to(pointers *p, cls_buffer of);

/* Reads the bytes of the copy of a buffer. */
void pointers_read(const pointers *p, cl_mem of, size_t size, void *out);

#endif
