/* SPDX-License-Identifier: MIT */
/* One step: its checks, its arguments, its launches. */
#ifndef CLS_STEP_H
#define CLS_STEP_H

#include "sampler/sampler.h"

/* -------------------------------------------------------------- check.c */

/* What is to be told of a step's rows beside their tokens. */
typedef struct cls_report {
    uint32_t wants; /* CLS_WANTS() of each output that has a buffer */
    uint32_t top_n, given_n, candidates_n;
    cls_buffer output[CLS_OUTPUTS];
} cls_report;

/* A step after its checks: every default filled in. */
typedef struct cls_plan {
    cls_step step;
    cls_report report;
    cls_ranges ranges;
    const cls_ints *map[CLS_STEP_MAPS];
    uint32_t has;       /* CLS_HAS_* and CLS_DEFER */
    enum cls_role role; /* of its kernels: CLS_ROLE_STEP or CLS_ROLE_VERIFY */
    int ordered;        /* the queue is in order */
    uint32_t needs;     /* cls_feature bits of its rows and inputs */
    int search;         /* a row may need the threshold search */
    int prepare;        /* a row's parameters look at its history */
    uint32_t logit_size, bias_size;

    /* Of a verification: what rows follow, and the drafts' own distributions. */
    cls_ints nodes, parents, draft_ids;
    uint32_t draft_kind;
    cls_buffer draft;
    uint64_t draft_stride;
} cls_plan;

/* Refuses what a sampler was not compiled for, by the feature's name. */
cls_status cls_features_missing(const cls_sampler *sampler, uint32_t features);

/* Checks the logits of a call, whose name is for messages. */
cls_status cls_logits_check(const cls_sampler *sampler, const char *call, cls_plan *plan);

/* Checks the masks and biases of a call, whose name is for messages, and their maps. */
cls_status cls_masks_check(const cls_sampler *sampler, const char *call, cls_plan *plan);

/* Checks an input or an output, if it is there. */
cls_status cls_optional_check(const cls_sampler *sampler, const char *what,
                              const cls_buffer *buffer, uint64_t size, uint64_t element,
                              enum cls_access access, cls_ranges *ranges);

/* Refuses an invalid_token that is a token's id, where rows without a token may be accepted later.
 */
cls_status cls_invalid_token_check(const cls_sampler *sampler, const char *call, int32_t token);

/* Checks one of the rows' maps; fails if it has two sources. */
cls_status cls_map_check(const cls_sampler *sampler, const char *what, const cls_ints *map,
                         uint32_t rows, cls_ranges *ranges);

/* Checks the slots that rows name, as far as the host can see them, and notes
 * what they may need: plan->search, plan->prepare. */
cls_status cls_row_slots_check(cls_sampler *sampler, const char *what, const cls_ints *slots,
                               uint32_t rows, int shared, cls_plan *plan);

/* Checks everything that can be known before enqueueing. */
cls_status cls_step_check(cls_sampler *sampler, cl_command_queue queue, const cls_step *callers,
                          cl_uint n_wait, const cl_event *wait, cls_plan *plan);

/* Checks numbers of draws that the host has. */
cls_status cls_draws_check(const char *what, const int32_t *draws, uint32_t rows);

/* ------------------------------------------------------------- sample.c */

/* Offsets and strides as kernels are told them; a buffer's in elements, a map's where
 * it lies on the device. */
cls_wide cls_wide_of(uint64_t x);
cls_wide cls_place(const cls_buffer *b, size_t element);
cls_wide cls_map_place(const cls_sampler *sampler, enum cls_map which, const cls_ints *map);

/* What kernels are told of requests, slots and their map; of draws; of all of a step.
 * Raw roles have CLS_RAW. */
void cls_request_args(cls_args *args, const cls_sampler *sampler, const cls_ints *slots,
                      uint32_t has);
void cls_draw_args(cls_args *args, const cls_sampler *sampler, const cls_plan *plan);
void cls_step_args(cls_args *args, const cls_sampler *sampler, const cls_plan *plan,
                   enum cls_role role);

/* The buffers of a kernel's STEP_ARGS; of a raw role those of the raw rows' survey. */
cls_arguments cls_step_buffers(const cls_sampler *sampler, const cls_plan *plan,
                               enum cls_kernel which, enum cls_role role);
/* Those of the RANDOM_ARGS, of the DRAW_ARGS, and of the DRAFT_ARGS and DRAFT_ROW_ARGS. */
void cls_random_buffers(cls_arguments *a, const cls_sampler *sampler, const cls_plan *plan);
void cls_draw_buffers(cls_arguments *a, const cls_sampler *sampler, const cls_plan *plan);
void cls_draft_buffers(cls_arguments *a, const cls_sampler *sampler, const cls_plan *plan);

/* What kernels that read no logits begin with: arguments, slots, their map and state,
 * lists. */
cls_arguments cls_request_buffers(const cls_sampler *sampler, enum cls_kernel which,
                                  enum cls_role role, uint32_t features, const cls_ints *slots);

/* Mass tiles of a group that goes over tiles. */
uint32_t cls_tiles_per_group(const cls_sampler *sampler, uint32_t rows);

/* Launches a kernel of the step. */
cl_int cls_step_launch(const cls_plan *plan, cls_commands *c, enum cls_kernel which,
                       const cls_arguments *a, cl_event *done);

/* The step's parts: what histories ask for; the token or, after the pass, the
 * search; the pass. */
cl_int cls_step_prepare(const cls_plan *plan, cls_commands *c);
cl_int cls_step_rows(const cls_plan *plan, cls_commands *c, enum cls_kernel which, cl_event *done);
cl_int cls_step_pass(const cls_plan *plan, cls_commands *c);

/* The survey of the rows as they are (the plan's role) or of raw ones. */
cl_int cls_step_survey(const cls_plan *plan, cls_commands *c, enum cls_role role);

/* ------------------------------------------------------------ outputs.c */

/* Checks the outputs of a call, whose name is for messages; fills in `wants`. */
cls_status cls_report_check(const cls_sampler *sampler, const char *call, uint32_t rows,
                            cls_report *report, cls_ranges *ranges);

/* Whether something of the final distribution is told, or of the raw row. */
int cls_report_of_final(const cls_plan *plan);
int cls_report_of_raw(const cls_plan *plan);

/* What the reports' kernels are told, and the groups that a row has of them. */
void cls_report_args(cls_args *args, const cls_sampler *s, const cls_plan *plan, int raw);
uint32_t cls_report_groups(const cls_sampler *s, const cls_plan *plan);

/* Launches what tells it; the last one has the event. */
cl_int cls_report_launch(const cls_plan *plan, cls_commands *c, cl_event *done);

#endif
