/* SPDX-License-Identifier: MIT */
/* What a device can do, and how kernels are shaped for it. */
#ifndef CLS_DEVICE_H
#define CLS_DEVICE_H

#include "base/base.h"

/* ------------------------------------------------------------- source.c */

/* A program of strings; NULL and *code if it cannot be had. */
cl_program cls_program_create(cl_context cl, const char *const *strings, unsigned count,
                              cl_int *code);

/* ------------------------------------------------------------- device.c */

#define CLS_MAX_ARGUMENTS \
    32 /* of a kernel; in OpenCL 1.2 no device takes fewer, where a pointer has 8 bytes */

typedef struct cls_shape {
    uint32_t work_group; /* of the kernels that go over tiles */
    uint32_t row_group;  /* of those that take a row to its token */
    uint32_t vector, shortlist;
    uint32_t compute_units;
    uint64_t local_mem_size, max_work_group;
    uint32_t tier;      /* a cls_tier, resolved */
    uint32_t subgroups; /* a cls_subgroups */
    uint32_t standard;  /* of OpenCL C: 120, or what the sub-groups' functions want */
    int compiler;       /* whether the device has one */
    int nvidia;         /* whether that takes NVIDIA's options (cl_nv_compiler_options) */
    int limited;        /* whether it has no infinities nor NaN */
    const char *extra;  /* options for its compiler: cls_limits_pretended, or an empty text */
} cls_shape;

/* Checks that a device can run the kernels and shapes them for it. Sub-groups
 * are those that are worth a try, and the tier is the one with them. */
cls_status cls_shape_query(cl_device_id device, const cls_context_options *options,
                           cls_shape *shape);

/* The failure of a device without one, for which there are no programs. */
cls_status cls_shape_no_compiler(void);

/* For tests, NULL else: every device is one without infinities, and this, which
 * begins with a space, is added to its compiler's options. */
extern const char *cls_limits_pretended;

/* Makes vectors fit the groups. */
void cls_shape_settle(cls_shape *shape);

/* Fills in a caller's struct of any size. */
void cls_shape_tell(const cls_shape *shape, uint32_t origin, cls_device_info *callers);

/* ---------------------------------------------------------- subgroups.c */

extern const char *const cls_source_groups_test[];
extern const unsigned cls_source_groups_test_count;

/* The sub-groups that a device seems to have, by what it says of itself. */
uint32_t cls_subgroups_candidate(cl_device_id device);

/* Compiles and runs a small program for them, in groups of the shape's sizes.
 * NULL if every answer is right: shape->subgroups is what they are and
 * shape->standard what they want; else why not: NONE, and 120. */
const char *cls_subgroups_find(cl_context cl, cl_device_id device, cls_shape *shape);

/* Runs the same program without sub-groups: NULL if groups of the shape's sizes
 * compute right, else what they get wrong. */
const char *cls_groups_check(cl_context cl, cl_device_id device, const cls_shape *shape);

/* For tests: what cls_subgroups_candidate() says of every device, if not
 * CLS_SUBGROUPS_NONE; 6 and 7 are made of local memory, the latter wrong. */
extern uint32_t cls_subgroups_pretended;
#define CLS_SUBGROUPS_MADE 6
#define CLS_SUBGROUPS_WRONG 7

#endif
