/* SPDX-License-Identifier: MIT */
/* A step, or the step of one of its rows, of a statement. */
#ifndef CLS_CLI_RUN_STEP_H
#define CLS_CLI_RUN_STEP_H

#include "run/inputs.h"

/* A statement `step` that was read. */
typedef struct run_step_call {
    uint32_t rows, logits_rows;
    run_map slots, positions, draws;
    const uint64_t *random;
    run_inputs in;
    cls_step fields; /* what statements set by its name */
    int32_t own_slot;
} run_step_call;

#define RUN_STEP_KEYS \
    RUN_INPUT_KEYS "rows slots positions draws logits_map random_bits outputs defer"

run_step_call run_step_read(run_side *side, const run_statement *s);

/* Puts its slots, and on the permuted side its rows, where they are on this side. */
void run_step_turn(run_side *side, run_step_call *c);

/* Sets a step of rows from `first` on: all of them, or one. */
void run_step_make(run_side *side, run_step_call *c, uint32_t first, uint32_t rows, uint32_t shard,
                   cls_step *step);

/* Makes the step of one row of a statement. */
void run_step_row(run_side *side, const run_statement *s, uint32_t row, cls_step *step);

#endif
