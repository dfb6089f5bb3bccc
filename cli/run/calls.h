/* SPDX-License-Identifier: MIT */
/* The statements of clsample run: each has a function. */
#ifndef CLS_CLI_RUN_CALLS_H
#define CLS_CLI_RUN_CALLS_H

#include "run/inputs.h"

/* ---------------------------------------------------------- cli/run/shards.c */

/* Brings the rows of the shards together on each of them. */
void run_gather(run_side *side, const run_inputs *in, uint32_t rows, cls_logits *whole);

/* Keeps the results of the first shard, or those of another one that differ. */
void run_join_shards(run_side *side, uint32_t since);

/* Makes the step of each shard, and completes it. */
cls_status run_step_of_shards(run_side *side, const cls_step *steps);

/* -------------------------------------------------------- cli/run/launches.c */

/* Lets the slot calls take effect that come before, by a step of a row that is skipped. */
void run_flush(run_side *side);

void run_launches(run_side *side, const run_statement *s);

/* Whether statements `launches` count: a test may choose other programs, which take more. */
extern bool run_counts_launches;

/* ----------------------------------------------------------- cli/run/calls.c */

void run_step(run_side *side, const run_statement *s);
void run_accept(run_side *side, const run_statement *s);
void run_draft(run_side *side, const run_statement *s);
void run_logprobs(run_side *side, const run_statement *s);

/* ---------------------------------------------------------- cli/run/drafts.c */

void run_verify(run_side *side, const run_statement *s);

/* -------------------------------------------------------- cli/run/samplers.c */

void run_sampler(run_side *side, const run_statement *s);
void run_grammar(run_side *side, const run_statement *s);
void run_infill(run_side *side, const run_statement *s);
void run_compile(run_side *side, const run_statement *s);

/* The options that a statement `sampler` gives. */
cls_sampler_options run_sampler_options(const run_statement *s, uint32_t features);

/* What a test does with each new sampler of a device; or NULL. */
extern void (*run_prepare)(cls_sampler *sampler);

/* -------------------------------------------------------- cli/run/recorded.c */

/* Lets the library write the calls of a side's next sampler as a text, if side->records_to is set.
 */
void run_record_calls(run_side *side, cls_sampler_options *options);

/* ----------------------------------------------------------- cli/run/slots.c */

/* A slot call on each slot of a statement. */
void run_slot_call(run_side *side, const run_statement *s);

void run_save(run_side *side, const run_statement *s);
void run_load(run_side *side, const run_statement *s);
void run_same(run_side *side, const run_statement *s);

/* Saves each slot and loads it again. */
void run_move(run_side *side);

#endif
