/* SPDX-License-Identifier: MIT */
/* What a device can do, and the shape that kernels get for it: sizes of work-groups and vectors,
 * the tier of features, sub-groups. This folder makes all queries about a device's limits and tests
 * whether its work-groups and sub-groups compute correctly. */
#ifndef CLS_DEVICE_H
#define CLS_DEVICE_H

#include "base/base.h"

/* ------------------------------------------------------------- source.c */

#ifdef CLS_PACKED /* the strings of the library in one file: see packaging/amalgamation/pack.awk \
                   */
extern const unsigned short cls_pairs[][2];
#endif

/* Creates a program from source strings. Returns NULL and sets *code if OpenCL fails. */
cl_program cls_program_create(cl_context cl, const char *const *strings, unsigned count,
                              cl_int *code);

/* ------------------------------------------------------------- device.c */

/* The most arguments of a kernel. OpenCL 1.2 guarantees them if a pointer has 8 bytes. */
#define CLS_MAX_ARGUMENTS 32

typedef struct cls_shape {
    uint32_t work_group; /* work-items in a group of the kernels that go over tiles */
    uint32_t row_group;  /* the same for the kernels that take a row to its token */
    uint32_t vector;     /* logits that a work-item loads at once */
    uint32_t shortlist;  /* entries of a row's ordered list in local memory */
    uint32_t compute_units;
    uint32_t groups_per_unit;                /* groups of a kernel over tiles, as in the options */
    uint64_t local_mem_size, max_work_group; /* the device's limits, or lower ones from options */
    uint32_t tier;                           /* a cls_tier other than CLS_TIER_AUTO */
    uint32_t subgroups;                      /* a cls_subgroups */
    uint32_t by_value;         /* 1: kernels get their cls_args by value, else in a buffer */
    uint32_t standard;         /* version of OpenCL C: 120, or what sub-groups require */
    int host;                  /* 1: there is no device */
    int compiler;              /* 1 if the device has a compiler */
    int nvidia;                /* 1 if that compiler accepts cl_nv_compiler_options */
    const char *extra_options; /* for its compiler: cls_test_build_options, or "" */
} cls_shape;

/* Checks the options and the device, and chooses the shape. shape->subgroups is what the device's
 * extensions suggest; cls_subgroups_find() tests it. Fails if an option is invalid or exceeds the
 * device's limits, or if the device cannot run the kernels. */
cls_status cls_shape_query(cl_device_id device, const cls_context_options *options,
                           cls_shape *shape);

/* Sets the shape of the host, which has no device. Fails if an option is invalid. */
cls_status cls_shape_of_host(const cls_context_options *options, cls_shape *shape);

/* Records that the device has no compiler and that there are no compiled programs for it. */
cls_status cls_fail_no_compiler(void);

/* Entries of a list that takes little local memory, for rows that keep few tokens, and the largest
 * top-k of such a row. What bounds a row's set lets some more tokens than k through, a quarter if
 * 500 max tiles share 128 of them by chance; if they do not fit, the bound is sought again, more
 * slowly. So the list has twice the room. */
#define CLS_SMALL_LIST 256
#define CLS_SMALL_TOP_K 128

/* Returns 1 if local memory is so scarce that more groups run at a time with small lists than with
 * those of shape->shortlist. */
int cls_shape_wants_small_lists(const cls_shape *shape);

/* Raises shape->vector from 2 to 4 if a group has one work-item. Call it whenever groups change. */
void cls_shape_adjust_vector(cls_shape *shape);

/* Returns how many mass tiles a work-group of the kernels over tiles reads at once: TEAMS of
 * cl/row/measure.cl. */
uint32_t cls_shape_round(const cls_shape *shape);

#define CLS_MOST_TILES_PER_GROUP 32

/* Returns how many mass tiles a work-group covers in the kernels that go over tiles. tiles: those
 * of all rows of the step. */
uint32_t cls_shape_tiles_per_group(const cls_shape *shape, uint64_t tiles);

/* Writes the shape and an origin (a cls_origin) into a caller's struct of any size. */
void cls_shape_report(const cls_shape *shape, uint32_t origin, cls_device_info *callers);

/* ---------------------------------------------------------- subgroups.c */

extern const char *const cls_source_groups_test[];
extern const unsigned cls_source_groups_test_count;

/* Returns the kind of sub-groups that a device's extensions suggest. Otherwise returns
 * CLS_SUBGROUPS_NONE and sets *reason, a sentence without its period. */
uint32_t cls_subgroups_candidate(cl_device_id device, const char **reason);

/* Compiles a small program with the device's candidate, and runs it in groups of the shape's sizes.
 * If every result is right, sets shape->subgroups and shape->standard and returns NULL. Otherwise
 * sets them to CLS_SUBGROUPS_NONE and 120 and returns the reason, a sentence without its period. */
const char *cls_subgroups_find(cl_context cl, cl_device_id device, cls_shape *shape);

/* Runs the same program without sub-groups. Returns NULL if groups of the shape's sizes compute
 * correctly, otherwise the reason. */
const char *cls_groups_check(cl_context cl, cl_device_id device, const cls_shape *shape);

#define CLS_SUBGROUPS_TEST 6

#endif
