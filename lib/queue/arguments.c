/* SPDX-License-Identifier: MIT */
/* Sets the arguments of a kernel one after another and keeps the first error. */
#include "queue/queue.h"

#include <stddef.h>

static void keep_error(cls_arguments *a, cl_int code)
{
    if (a->code == CL_SUCCESS)
        a->code = code;
}

static void set(cls_arguments *a, size_t size, const void *value)
{
    keep_error(a, clSetKernelArg(a->kernel.handle, a->next++, size, value));
}

void cls_set_mem(cls_arguments *a, cl_mem x) { set(a, sizeof x, &x); }
void cls_set_u32(cls_arguments *a, uint32_t x) { set(a, sizeof x, &x); }

/* The offsets of each kernel's buffers in a cls_buffers, then 0. */
#define OFFSET(type, name) offsetof(cls_buffers, name),
#define OFFSETS(BUFFERS) ((const uint16_t[]){BUFFERS(OFFSET) 0})
static const uint16_t *const lists[CLS_KERNELS] = {
    [CLS_PREPARE] = OFFSETS(CLS_PREPARE_BUFFERS),
    [CLS_SURVEY] = OFFSETS(CLS_SURVEY_BUFFERS),
    [CLS_TOKEN] = OFFSETS(CLS_TOKEN_BUFFERS),
    [CLS_PASS] = OFFSETS(CLS_PASS_BUFFERS),
    [CLS_SEARCH] = OFFSETS(CLS_TOKEN_BUFFERS),
    [CLS_DISTRIBUTION] = OFFSETS(CLS_DISTRIBUTION_BUFFERS),
    [CLS_REPORT] = OFFSETS(CLS_REPORT_BUFFERS),
    [CLS_WATERMARK] = OFFSETS(CLS_WATERMARK_BUFFERS),
    [CLS_FORCE] = OFFSETS(CLS_FORCE_BUFFERS),
    [CLS_KEPT] = OFFSETS(CLS_KEPT_BUFFERS),
    [CLS_ACCEPT] = OFFSETS(CLS_ACCEPT_BUFFERS),
    [CLS_RESIDUAL] = OFFSETS(CLS_RESIDUAL_BUFFERS),
    [CLS_VERIFY] = OFFSETS(CLS_VERIFY_BUFFERS),
    [CLS_LOOKUP] = OFFSETS(CLS_LOOKUP_BUFFERS),
    [CLS_PARTIAL] = OFFSETS(CLS_PARTIAL_BUFFERS),
    [CLS_MERGE] = OFFSETS(CLS_MERGE_ROW_BUFFERS),
};

void cls_buffers_bind(cls_buffers *to, size_t at, const cls_buffer *b,
                      const cls_pointer_calls calls[CLS_BUFFER_KINDS])
{
    const void *const bound = b->pointer != NULL ? b->pointer : b->buffer;
    memcpy((char *)to + at, &bound, sizeof bound);
    to->set[at / sizeof bound] = calls[b->kind].set;
    to->lasts[at / sizeof bound] = 0;
}

/* Sets the next argument to a buffer, unless it is known to be that one. */
static void set_known(cls_arguments *a, cl_mem x, int lasts)
{
    cl_mem *const known = &a->kernel.known->buffer[a->next];
    if (lasts && *known == x) {
        a->next++;
        return;
    }
    cls_set_mem(a, x);
    *known = lasts && a->code == CL_SUCCESS ? x : NULL;
}

static void set_values(cls_arguments *a, const cls_args *values)
{
    cls_known *const known = a->kernel.known;
    if (known->has_values && memcmp(&known->values, values, sizeof *values) == 0) {
        a->next++;
        return;
    }
    set(a, sizeof *values, values);
    known->values = *values;
    known->has_values = a->code == CL_SUCCESS;
}

cls_arguments cls_kernel_arguments(struct cls_compiled_kernel kernel, enum cls_kernel which,
                                   const cls_buffers *b)
{
    cls_arguments a = {kernel, 0, kernel.handle != NULL ? CL_SUCCESS : CL_INVALID_KERNEL};
    if (a.code != CL_SUCCESS)
        return a;
    if (b->values != NULL)
        set_values(&a, b->values);
    else
        set_known(&a, b->args, 1);
    for (const uint16_t *at = lists[which]; *at != 0; at++) {
        const size_t i = *at / sizeof(cl_mem);
        const cl_mem x = *(const cl_mem *)(const void *)((const char *)b + *at);
        if (b->set[i] == NULL) {
            set_known(&a, x != NULL ? x : b->rows, x == NULL || b->lasts[i]);
        } else {
            a.kernel.known->buffer[a.next] = NULL;
            keep_error(&a, b->set[i](a.kernel.handle, a.next++, x));
        }
    }
    return a;
}
