/* SPDX-License-Identifier: MIT */
/* The calls that run rows on the device: cls_sample(), cls_accept(), cls_logprobs(), cls_verify()
 * and cls_draft(). Each makes a plan of its arguments, checks it by its table of operands, writes
 * the arguments of the kernels and launches them. */
#ifndef CLS_STEP_H
#define CLS_STEP_H

#include "step/operands.h"

/* A call whose arguments were checked, with all defaults set. */
typedef struct cls_plan {
    const cls_operands *operands;
    void (*args)(cls_args *, const cls_sampler *, const struct cls_plan *); /* as in cls_call */
    uint64_t count[CLS_COUNTS];
    cls_step step;
    cls_outputs outputs; /* the step's, in this version's size */
    cls_kept_set packed; /* with offsets: outputs.kept_set, which is then cleared */
    union {
        cls_verify_call verify; /* of a verification; its rows' inputs are in `step` */
        cls_accept_call accept; /* of cls_accept() */
        cls_draft_call draft;   /* of cls_draft() */
    };
    uint32_t has;             /* CLS_HAS_* and CLS_DEFER */
    uint32_t wants;           /* CLS_WANTS() of each output that has a buffer */
    uint32_t needs;           /* cls_feature and CLS_NEED bits: of its rows and inputs */
    uint32_t missing;         /* those of them that the sampler was not compiled for */
    enum cls_arg_set arg_set; /* CLS_ARG_SET_STEP or CLS_ARG_SET_VERIFY */
    int ordered;              /* 1 if the queue is in order */
    int search;               /* 1 if a row may need the search */
    int prepare;              /* 1 if a row's parameters need its history */
    int uploads;              /* 1 if there is more to upload than the operands */
    int forces;               /* 1 if the force kernel finishes the rows */
    int accept_later;         /* 1 if tokens are accepted after the outputs are written */
    const cl_mem *survey; /* [3]: tile_key, tile_mass and tile_flags in place of the sampler's; or
                             NULL */

    /* For a verification: the drafts that rows and drafts follow, the requests' first rows, and
     * whether the drafts' distributions are read. */
    cls_ints nodes, parents, firsts;
    uint32_t draft_kind;

    /* The drafts' own logits as rows that are draft_unit elements apart, and, where that is not
     * their stride, the row of each draft. */
    uint64_t draft_unit;
    cls_ints draft_rows;

    uint8_t present[CLS_MAX_RANGES], n_present; /* rows of the table that are not absent */
    cls_pointer_calls calls[CLS_BUFFER_KINDS];  /* for operands that are pointers */
    uint32_t wide;                              /* CLS_WIDE, or 0: see cls_plan_set_logits() */
    cls_buffers buffers; /* of the kernels, once the data are on the device */
} cls_plan;

/* ----------------------------------------------------------- operands.c */

/* Returns the buffer of an operand. */
const cls_buffer *cls_operand_buffer(const cls_plan *plan, const cls_operand *operand);

/* Returns 1 if a buffer is absent and says nothing else. */
int cls_buffer_is_blank(const cls_buffer *buffer);

/* Checks all operands, and adds their bits to `has`, `wants` and `needs`. Fails if one is invalid,
 * too small or overlaps another, or if the sampler was not compiled for `needs` or an operand. */
cls_status cls_operands_check(const cls_sampler *sampler, cls_plan *plan);

/* Begins the commands of a call, uploads its data on the host, and sets plan->buffers. Fails as
 * cls_commands_begin() does; an error of OpenCL in between is in *code. */
cls_status cls_plan_upload(cls_plan *plan, cls_sampler *sampler, cl_command_queue queue,
                           cl_uint n_wait, const cl_event *wait, cls_commands *c, cl_int *code);

/* Copies the arrays on the host that outputs of a call without a device could change: maps to the
 * sampler's own memory, and masks that an output overwrites to *copy, which the caller frees. */
cls_status cls_operands_copy(cls_plan *plan, const cls_sampler *sampler, void **copy);

/* Writes where the operands are into the arguments of kernels. */
void cls_operands_args(cls_args *args, const cls_sampler *sampler, const cls_plan *plan);

/* Makes the kernels read other logits than those of the operand, and looks whether kernels can use
 * that each row starts at a multiple of 16 bytes (WIDE in cl/core/load.cl). */
void cls_plan_set_logits(cls_plan *plan, const cls_sampler *sampler, const cls_logits *logits);

/* -------------------------------------------------------------- check.c */

/* A call that enqueues: its table, how the caller's struct is read into the plan, what is done once
 * all operands are right, how its kernels are launched, what the host does in their place, the
 * message if a launch fails, and what sets the arguments of kernels that no other call has, or
 * NULL. */
typedef struct cls_call {
    const cls_operands *operands;
    cls_status (*read)(const void *callers, cls_plan *plan);
    cls_status (*finish)(cls_sampler *sampler, cls_plan *plan);
    cl_int (*launch)(cls_plan *plan, cls_commands *c, cl_event *done);
    void (*run)(const cls_plan *plan, cls_sampler *sampler); /* without a device */
    const char *failure;
    void (*args)(cls_args *, const cls_sampler *, const cls_plan *);
} cls_call;
extern const cls_call cls_step_call; /* of cls_sample() */

/* Makes the plan of a call, and enqueues a plan; cls_call_run() does both for a public function.
 * width: logits of a row in the caller's buffer; 0: those of the vocabulary. */
cls_status cls_call_check(const cls_call *call, cls_sampler *sampler, cl_command_queue queue,
                          const void *callers, uint32_t width, cl_uint n_wait, const cl_event *wait,
                          cls_plan *plan);
cls_status cls_call_enqueue(const cls_call *call, cls_plan *plan, cls_sampler *sampler,
                            cl_command_queue queue, cl_uint n_wait, const cl_event *wait,
                            cl_event *done);
cls_status cls_call_run(const cls_call *call, cls_sampler *sampler, cl_command_queue queue,
                        const void *callers, cl_uint n_wait, const cl_event *wait, cl_event *done);

/* Begins a plan with what is the same in all calls; and checks its queue, events and operands once
 * plan->step has the caller's fields. */
void cls_plan_begin(cls_plan *plan, const cls_operands *operands);
cls_status cls_plan_check(cls_plan *plan, const cls_sampler *sampler, cl_command_queue queue,
                          uint32_t width, cl_uint n_wait, const cl_event *wait);

/* Checks the slots of n rows or requests and adds what they may need to plan->search, plan->prepare
 * and plan->needs. Fails if a row's slot does not exist or has no request, or if `shared` is 0 and
 * two rows use one slot. The slots of a map on the device are unknown to the host and not checked.
 */
cls_status cls_row_slots_check(cls_sampler *sampler, const cls_ints *slots, uint32_t n, int shared,
                               cls_plan *plan);

/* ----------------------------------------------------------- recorded.c */

/* The line of a call in the text of a sampler's calls (options->record). */
struct cls_recorded;

/* Lets a call write the tokens and statuses that the caller does not ask for, if the sampler has
 * the room. */
void cls_recorded_results(cls_plan *plan, const cls_sampler *sampler);

/* Copies what a checked call has on the host. NULL: the call has no line. */
struct cls_recorded *cls_recorded_begin(const cls_plan *plan, cls_sampler *sampler);

/* Take over the line once the call has run: on the host, or on a device, where *end is the event of
 * the last command, and becomes that of the last read. */
void cls_recorded_on_host(struct cls_recorded *line, cls_sampler *sampler);
void cls_recorded_read(struct cls_recorded *line, cls_sampler *sampler, cl_command_queue queue,
                       cl_event *end);

/* --------------------------------------------------------------- host.c */

/* Do what the kernels of a checked call do, for a sampler without a device. */
void cls_run_step(const cls_plan *plan, cls_sampler *sampler);
void cls_run_accept(const cls_plan *plan, cls_sampler *sampler);
void cls_run_logprobs(const cls_plan *plan, cls_sampler *sampler);
void cls_run_lookup(const cls_plan *plan, cls_sampler *sampler);
void cls_run_verify(const cls_plan *plan, cls_sampler *sampler);

/* ------------------------------------------------- launch.c and sample.c */

/* Returns 64 bits as the arguments of kernels have them. */
static inline cls_wide cls_wide_of(uint64_t x)
{
    return (cls_wide){(uint32_t)x, (uint32_t)(x >> 32)};
}

/* Returns how many mass tiles a group covers in a sampler's kernels over tiles. tiles: those of all
 * rows of the step. */
uint32_t cls_step_tiles_per_group(const cls_sampler *sampler, uint64_t tiles);

/* Sets all arguments of a step. Adds CLS_RAW to `has` for the argument sets of raw rows. */
void cls_step_args(cls_args *args, const cls_sampler *sampler, const cls_plan *plan,
                   enum cls_arg_set arg_set);

/* Returns a kernel for a plan's rows with its buffers. A raw row is read without masks, biases and
 * penalties, and surveyed to buffers of its own. */
cls_arguments cls_step_arguments(cls_plan *plan, const cls_sampler *sampler, enum cls_kernel which,
                                 enum cls_arg_set arg_set);

/* The functions from here to cls_step_draw() return OpenCL's error code. */

/* Sets all arguments of a step and writes those that have changed. */
cl_int cls_args_write(const cls_plan *plan, cls_commands *c, enum cls_arg_set arg_set);

/* Launches a kernel over the rows or the tiles of a step; cls_step_launch() sets its arguments.
 * `done` is as for cls_commands_launch(). */
cl_int cls_step_launch_arguments(const cls_plan *plan, cls_commands *c, enum cls_kernel which,
                                 const cls_arguments *a, cl_event *done);
cl_int cls_step_launch(cls_plan *plan, cls_commands *c, enum cls_kernel which,
                       enum cls_arg_set arg_set, cl_event *done);

/* Launches a kernel over tiles, and once more with a group for each row: a last argument of 0 or 1
 * tells it which. */
cl_int cls_step_launch_twice(cls_plan *plan, cls_commands *c, enum cls_kernel which);

/* Launches CLS_TOKEN and, if a row may need them, CLS_PASS and CLS_SEARCH, and CLS_WATERMARK. */
cl_int cls_step_rows(cls_plan *plan, cls_commands *c, cl_event *done);

/* Write the arguments of a step's kernels, all before the first launch, so that a failure changes
 * no slot; and launch the kernels after the survey, which draw, report and accept. */
cl_int cls_step_write_args(cls_plan *plan, cls_commands *c);
cl_int cls_step_draw(cls_plan *plan, cls_commands *c, cl_event *done);

/* Launches the kernels that write outputs and returns OpenCL's error code. The last launch has the
 * event. */
cl_int cls_report_launch(cls_plan *plan, cls_commands *c, cl_event *done);

/* ------------------------------------------------------------ outputs.c */

/* Reads the caller's outputs, which may be NULL. Kept sets with offsets become `packed`. */
cls_status cls_outputs_read(cls_plan *plan, const cls_outputs *callers);

/* The launches that write outputs, as returned by cls_report_kinds(): the report of the raw row,
 * the distribution over all tokens, the report of the final set, and the kept set. */
enum {
    CLS_REPORT_OF_RAW = 1,
    CLS_REPORT_OF_TILES = 2,
    CLS_REPORT_OF_FINAL = 4,
    CLS_REPORT_OF_KEPT = 8
};
int cls_report_kinds(const cls_plan *plan);

/* Return 1 if an output needs the final distribution, or the raw row. */
int cls_report_of_final(const cls_plan *plan);
int cls_report_of_raw(const cls_plan *plan);

/* Set the arguments of the kernels that write outputs, and return how many work-groups of
 * CLS_REPORT a row has. */
void cls_report_args(cls_args *args, const cls_sampler *s, const cls_plan *plan, int raw);
uint32_t cls_report_groups(const cls_sampler *s, const cls_plan *plan);

#endif
