/* SPDX-License-Identifier: MIT */
/* A caller's queues, events and buffers. lib/private.h has the rest of what events.c and buffers.c
 * offer. */
#ifndef CLS_QUEUE_H
#define CLS_QUEUE_H

#include "programs/programs.h"

/* ------------------------------------------------------------- events.c */

#define CLS_STAGING 16 /* uploads in flight */

/* ---------------------------------------------------------- arguments.c */

/* Arguments of a kernel, set one after another; remembers the first failure. */
typedef struct cls_arguments {
    struct cls_ready to;
    cl_uint next;
    cl_int code;
} cls_arguments;
void cls_set_mem(cls_arguments *a, cl_mem x);
void cls_set_u32(cls_arguments *a, uint32_t x);
void cls_set_u64(cls_arguments *a, uint64_t x);

#endif
