/* SPDX-License-Identifier: MIT */
/* Arguments of a kernel. */
#include "queue/queue.h"

static void set(cls_arguments *a, size_t size, const void *value)
{
    const cl_int code = clSetKernelArg(a->to.kernel, a->next++, size, value);
    if (a->code == CL_SUCCESS)
        a->code = code;
}

void cls_set_mem(cls_arguments *a, cl_mem x) { set(a, sizeof x, &x); }
void cls_set_u32(cls_arguments *a, uint32_t x) { set(a, sizeof x, &x); }
void cls_set_u64(cls_arguments *a, uint64_t x) { set(a, sizeof x, &x); }
