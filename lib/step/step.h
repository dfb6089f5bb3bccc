/* SPDX-License-Identifier: MIT */
/* The calls that run rows on the device: cls_sample(), cls_accept(), cls_logprobs() and
 * cls_verify(). Each checks its arguments, writes the arguments of the kernels and launches them.
 */
#ifndef CLS_STEP_H
#define CLS_STEP_H

#include "sampler/sampler.h"

/* -------------------------------------------------------------- check.c */

/* The outputs that a call requests beside tokens and status. */
typedef struct cls_report {
    uint32_t wants; /* CLS_WANTS() of each output that has a buffer */
    uint32_t top_n, given_n, candidates_n, set_capacity;
    cls_buffer output[CLS_OUTPUTS];
} cls_report;

/* A step whose arguments were checked, with all defaults set. */
typedef struct cls_plan {
    cls_step step;
    cls_outputs outputs; /* the step's, in this version's size */
    cls_report report;
    cls_ranges ranges;
    const cls_ints *map[CLS_STEP_MAPS];
    uint32_t has;             /* CLS_HAS_* and CLS_DEFER */
    enum cls_arg_set arg_set; /* CLS_ARG_SET_STEP or CLS_ARG_SET_VERIFY */
    int ordered;              /* 1 if the queue is in order */
    uint32_t needs; /* cls_feature bits, CLS_NEED_LONG_LIST: what its rows and inputs need */
    int search;     /* 1 if a row may need the threshold search */
    int prepare;    /* 1 if a row's parameters need its history */
    int uploads;    /* 1 if there is more to upload than maps and masks */
    uint32_t logit_size, bias_size;
    int forces;           /* 1 if the force kernel finishes the rows */
    int accept_later;     /* 1 if tokens are accepted after the outputs are written */
    const cl_mem *survey; /* [3]: tile_key, tile_mass and tile_flags in place of the sampler's; or
                             NULL */
    uint32_t width;       /* logits of a row in the caller's buffer; 0: those of the vocabulary */

    /* For a verification: the drafts that rows and drafts follow, and the drafts' distributions. */
    cls_ints nodes, parents, draft_ids;
    uint32_t draft_kind;
    cls_buffer draft;
    uint64_t draft_stride;
} cls_plan;

/* Fails if the sampler was not compiled for one of the features. The message names the feature. */
cls_status cls_compiled_features_check(const cls_sampler *sampler, uint32_t features);

/* Checks the logits of a call and sets their defaults. `call` is the name of the call's struct, for
 * messages. Fails if a field is invalid or the rows exceed the buffer. */
cls_status cls_logits_check(const cls_sampler *sampler, const char *call, cls_plan *plan);

/* Checks the masks and biases of a call and their maps, and sets their defaults. Fails if a field
 * is invalid or the sampler was not compiled for them. */
cls_status cls_masks_check(const cls_sampler *sampler, const char *call, cls_plan *plan);

/* Checks the buffer of an input or output unless it is NULL. Fails if it is invalid or too small.
 */
cls_status cls_optional_check(const cls_sampler *sampler, const char *what,
                              const cls_buffer *buffer, uint64_t size, uint64_t element,
                              enum cls_access access, cls_ranges *ranges);

/* Fails if invalid_token is the id of a token. It is called if the tokens of the call may be
 * accepted later: rows without a token must not add one then. */
cls_status cls_invalid_token_check(const cls_sampler *sampler, const char *call, int32_t token);

/* Checks a map of the rows. Fails if it has both a host array and a buffer, or if the buffer is
 * invalid. */
cls_status cls_map_check(const cls_sampler *sampler, const char *what, const cls_ints *map,
                         uint32_t rows, cls_ranges *ranges);

/* Checks the slots of the rows and adds what they may need to plan->search, plan->prepare and
 * plan->needs. Fails if a row's slot does not exist or has no request, or if `shared` is 0 and two
 * rows use one slot. The slots of a map on the device are unknown to the host and not checked. */
cls_status cls_row_slots_check(cls_sampler *sampler, const char *what, const cls_ints *slots,
                               uint32_t rows, int shared, cls_plan *plan);

/* Checks a step whose rows of logits have `width` tokens, or those of the vocabulary if it is 0,
 * and makes its plan. Fails if an argument is invalid. */
cls_status cls_step_check(cls_sampler *sampler, cl_command_queue queue, const cls_step *callers,
                          uint32_t width, cl_uint n_wait, const cl_event *wait, cls_plan *plan);

/* Checks a host array of draws. Fails if one is not 0 to 2^24 - 1. */
cls_status cls_draws_check(const char *what, const int32_t *draws, uint32_t rows);

/* ------------------------------------------------------------- sample.c */

/* Return offsets and strides for the arguments of kernels: any number, the offset of a buffer in
 * elements, and the offset of a map in the buffer that has it on the device. */
cls_wide cls_wide_of(uint64_t x);
cls_wide cls_element_offset(const cls_buffer *b, size_t element);
cls_wide cls_map_offset(const cls_sampler *sampler, enum cls_map which, const cls_ints *map);

/* Returns how many mass tiles a group covers in a sampler's kernels over tiles. tiles: those of all
 * rows of the step. */
uint32_t cls_step_tiles_per_group(const cls_sampler *sampler, uint64_t tiles);

/* Set the arguments that describe slots and their map, those of draws, and all arguments of a step.
 * cls_step_args() adds CLS_RAW to `has` for the argument sets of raw rows. */
void cls_request_args(cls_args *args, const cls_sampler *sampler, const cls_ints *slots,
                      uint32_t has);
void cls_draw_args(cls_args *args, const cls_sampler *sampler, const cls_plan *plan);
void cls_step_args(cls_args *args, const cls_sampler *sampler, const cls_plan *plan,
                   enum cls_arg_set arg_set);

/* Returns the buffers of a step, its outputs included. For the argument sets of raw rows, these
 * have the survey of the raw rows. */
cls_buffers cls_step_buffers(const cls_sampler *sampler, const cls_plan *plan,
                             enum cls_arg_set arg_set);

/* Returns the variant of a kernel for a plan's rows. A raw row is read without masks, biases and
 * penalties. */
struct cls_compiled_kernel cls_step_kernel(const cls_sampler *sampler, const cls_plan *plan,
                                           enum cls_kernel which, enum cls_arg_set arg_set);

/* The functions from here to cls_step_rows() return OpenCL's error code. */

/* Launches a kernel over the rows or the tiles of a step; cls_step_launch() sets its arguments.
 * `done` is as for cls_commands_launch(). */
cl_int cls_step_launch_arguments(const cls_plan *plan, cls_commands *c, enum cls_kernel which,
                                 const cls_arguments *a, cl_event *done);
cl_int cls_step_launch(const cls_plan *plan, cls_commands *c, enum cls_kernel which,
                       enum cls_arg_set arg_set, cl_event *done);

/* Launches CLS_TOKEN and, if a row may need them, CLS_PASS and CLS_SEARCH. */
cl_int cls_step_rows(const cls_plan *plan, cls_commands *c, cl_event *done);

/* Begins the commands of a step and uploads its maps and masks. Fails as cls_commands_begin() does;
 * an error of OpenCL in between is in *code. */
cls_status cls_step_upload(cls_plan *plan, cls_sampler *sampler, cl_command_queue queue,
                           cl_uint n_wait, const cl_event *wait, cls_commands *c, cl_int *code);

/* Write the arguments of a step's kernels, all before the first launch, so that a failure changes
 * no slot; and launch the kernels after the survey, which draw, report and accept. Return OpenCL's
 * error code. */
cl_int cls_step_write_args(cls_plan *plan, cls_commands *c);
cl_int cls_step_draw(const cls_plan *plan, cls_commands *c, cl_event *done);

/* Writes the arguments of the force kernel, which finishes a plan's rows, if they need it. The
 * kernels before it then accept nothing and do not write `latest`; it writes tokens and statuses
 * again. */
cl_int cls_step_force_args(cls_plan *plan, cls_commands *c);

/* Enqueues a step that was checked, as cls_sample() does. */
cls_status cls_step_enqueue(cls_plan *plan, cls_sampler *sampler, cl_command_queue queue,
                            cl_uint n_wait, const cl_event *wait, cl_event *done);

/* ------------------------------------------------------------ outputs.c */

/* Checks the outputs of a call and sets `wants`. Fails if a count is too large or does not match
 * its buffers, if a buffer is invalid, or if the sampler was not compiled for an output. */
cls_status cls_report_check(const cls_sampler *sampler, const char *call, uint32_t rows,
                            cls_report *report, cls_ranges *ranges);

/* Return 1 if an output needs the final distribution, or the raw row. */
int cls_report_of_final(const cls_plan *plan);
int cls_report_of_raw(const cls_plan *plan);

/* Set the arguments of the kernels that write outputs, and return how many work-groups of
 * CLS_REPORT a row has. */
void cls_report_args(cls_args *args, const cls_sampler *s, const cls_plan *plan, int raw);
uint32_t cls_report_groups(const cls_sampler *s, const cls_plan *plan);

/* Sets the buffers of the outputs. */
void cls_report_buffers(const cls_report *report, cls_buffers *buffers);

/* Launches the kernels that write outputs and returns OpenCL's error code. The last launch has the
 * event. */
cl_int cls_report_launch(const cls_plan *plan, cls_commands *c, cl_event *done);

#endif
