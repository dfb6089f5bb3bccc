/* SPDX-License-Identifier: MIT */
/* clsample run: a text of calls, which runs on several sides: the host, devices, and devices in
 * other ways. All that the calls write is compared. The page of clsample-run describes the text,
 * and cli/run.c is the command. Each header is a layer, which uses those before it:
 *
 *     text.h    text.c      reads a text: statements, and their words
 *               words.c     the values of words
 *               write.c     writes statements
 *     data.h    data.c      makes what words stand for: logits, masks, drafts
 *               grammars.c  and grammars
 *     side.h    side.c      a side: its sampler, its memory, and what it wrote
 *     inputs.h  fields.c    fields of the library's structs that words name
 *               params.c    the parameters of a request
 *               maps.c      numbers of a call, one for each row
 *               inputs.c    logits, masks and biases of a call
 *               outputs.c   what it writes
 *     step.h    step.c      makes a step, or that of one row
 *     probe.h   stages.c    samples one row again, stage by stage
 *               probe.c     the row of a side that is sampled again
 *     calls.h   shards.c    calls of a divided vocabulary
 *               launches.c  what slot calls enqueue
 *               recorded.c  the calls as the library writes them
 *               calls.c     statements that enqueue, but for
 *               drafts.c    verifications
 *               samplers.c  statements on samplers, grammars and prefixes
 *               slots.c     statements on slots
 *     script.h  script.c    runs a script: each statement by its verb
 *               random.c    makes texts of random calls, with random_*.c and random.h
 *               compare.c   compares what sides wrote
 *               shrink.c    makes a text that differs shorter
 *               why.c       says why a token of a text is not the one that is drawn
 *               expect.c    checks what a text expects
 */
#ifndef CLS_CLI_RUN_SCRIPT_H
#define CLS_CLI_RUN_SCRIPT_H

#include "run/side.h"

/* ---------------------------------------------------------- cli/run/script.c */

/* Runs a script; afterwards side->record has what it wrote. run_first() runs the first statements,
 * after which the samplers are still there. */
void run_script_on(run_side *side, const run_script *script);
void run_first(run_side *side, const run_script *script, uint32_t count);

/* How a test judges what each statement gave on the host: returns what is wrong, or NULL. NULL:
 * there is no test. */
extern const char *(*run_judge)(run_side *side, const run_statement *s);

/* ---------------------------------------------------------- cli/run/random.c */

/* Expands the random statements of a script, to whose seeds a number is added, with so many calls
 * at most. */
run_script run_expand(const run_script *script, uint32_t add_to_seed, uint32_t most_calls);

/* --------------------------------------------------------- cli/run/compare.c */

/* A difference between what two sides wrote. */
typedef struct run_difference {
    uint32_t statement;
    char text[1000];
} run_difference;

/* Whether a side that has run the host's script wrote something else; *d describes the first. */
bool run_sides_differ(const run_side *host, const run_side *side, run_difference *d);

/* Whether a test's judge has found something. */
bool run_is_faulty(const run_side *host, run_difference *d);

/* Describes an element of four bytes, a number or a float. */
void run_describe_element(const run_record *r, size_t i, char text[64]);

/* ---------------------------------------------------------- cli/run/shrink.c */

/* Leaves out rows of steps, then statements, in ever smaller parts, as long as the rest fails, then
 * words, for so many seconds. side NULL: by a test's judge. */
void run_shrink(run_side *host, run_side *side, run_script *script, uint32_t seconds,
                run_difference *d);

/* Appends a script that the host has run, with a mark at the statement that differs. */
void run_add_script(const run_side *host, const run_script *script, const run_difference *d,
                    run_text *t);

/* ------------------------------------------------------------- cli/run/why.c */

/* Appends why a row of a step does not give a token, on a host's side that has run what comes
 * before the step. forced: it was expected to be forced. */
void run_why(run_side *side, const run_statement *s, uint32_t row, int32_t token, bool forced,
             run_text *t);

/* ---------------------------------------------------------- cli/run/expect.c */

/* Whether the host's script wrote something that the text does not expect; *d says what. */
bool run_expects_other(run_side *host, const run_script *script, run_difference *d);

#endif
