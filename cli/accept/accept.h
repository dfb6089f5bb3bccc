/* SPDX-License-Identifier: MIT */
/* clsample accept: whether a device gets the host's results at production sizes. The command itself
 * never calls OpenCL: processes that it can end do, since drivers hang and abort.
 *
 *     child.c     a process with a limit of time, and what it says
 *     names.c     in it: which program is compiled and which one runs
 *     findings.c  what differs, and the program that it points at
 *     programs.c  all programs, and the self-test
 *     calls.c     texts of calls on device and host
 *     steps.c     steps that are enqueued ahead of their results
 *     shape.c     all of these in one shape; describes the device
 *
 * The command, cli/accept.c, has the shapes, the report and the verdict.
 */
#ifndef CLS_CLI_ACCEPT_H
#define CLS_CLI_ACCEPT_H

#include "run/script.h"

/* What a process does. */
typedef struct accept_job {
    const char *device; /* the value of --device, or NULL */
    cls_context_options options;
    double seconds;        /* for the random calls and the steps */
    uint32_t seed;         /* of the random calls */
    uint64_t most_logits;  /* of a step: what the device's memory allows */
    uint32_t largest_rows; /* of a step, and tokens of a row; both smaller in small memory */
    uint32_t largest_vocab;
} accept_job;

/* ------------------------------------------------------- cli/accept/child.c */

/* How a process ended. */
typedef enum accept_end {
    ACCEPT_DONE,        /* its function returned 0 */
    ACCEPT_DIFFERS,     /* it returned 1, after it has said what differs */
    ACCEPT_FAILED,      /* it ended itself by a sentence */
    ACCEPT_ABORTED,     /* by a signal */
    ACCEPT_HANGS,       /* it said nothing for so long that it was ended */
    ACCEPT_INTERRUPTED, /* Ctrl-C */
    ACCEPT_NO_PROCESS   /* none could be made */
} accept_end;

/* Whether this system has such processes. */
bool accept_can(void);

/* Calls run(job) in a process of its own, and hear(of, key, value) in this one for each thing that
 * it says. `text` becomes the last 4,000 bytes of what it, or the driver, has printed. limit: the
 * most seconds between two things that it says. *number: the signal, or the exit status. */
accept_end accept_in_child(int (*run)(const accept_job *job), const accept_job *job, uint32_t limit,
                           void (*hear)(void *of, const char *key, json_t *value), void *of,
                           char text[4001], int *number);

/* In such a process: says a thing. The value is the callee's. */
void accept_say(const char *key, json_t *value);

/* ------------------------------------------------------- cli/accept/names.c */

/* Lets this process say, as "at", which program is compiled, and which one runs: each of
 * its first launches, and later ones after a second without a word. OpenCL was found. */
void accept_names_watch(void);

/* Which programs a text launches: `now` is the number of the statement that runs. */
void accept_names_begin(const uint32_t *now);

/* The text gave the same results: its programs were right so often. */
void accept_names_agree(void);

/* The programs that a statement launched, in order: [{"program", "launched", "agreed"}]; the latter
 * are launches in this text, and in texts that were equal. */
json_t *accept_names_of(uint32_t statement);

/* ---------------------------------------------------- cli/accept/findings.c */

/* Say a finding, and return 1: with the program, or NULL; and with the library's message on the
 * latest call. */
int accept_find(const char *what, const char *program, const char *message);
int accept_fail(const char *what);

/* The program that a sentence of the library's begins with: "the program NAME ..."; or NULL. */
const char *accept_named_in(const char *message);

/* The program that a difference points at: of those that the statement launched, the one that was
 * right least often before; of several, the last. */
const char *accept_suspect(json_t *programs);

/* ---------------------------------------------------- cli/accept/programs.c */

/* Each of the tests returns 1 after it has said what it found. */

/* Compiles and proves all programs, few at a time, so that the one that hangs is known. */
int accept_programs(cls_context *context);

int accept_cases(cls_context *context); /* the self-test */

/* ------------------------------------------------------- cli/accept/calls.c */

/* The sides of a shape. */
typedef struct accept_test {
    const accept_job *job;
    run_side host, device, ahead, mixed; /* mixed: two queues, one of them out of order */
} accept_test;

/* until: seconds, as cli_seconds() counts them. */
int accept_texts(accept_test *t, double until);

/* ------------------------------------------------------- cli/accept/steps.c */

int accept_steps(accept_test *t);

/* ------------------------------------------------------- cli/accept/shape.c */

/* Says what the device is. */
int accept_describe(const accept_job *job);

/* Tests a shape. */
int accept_shape(const accept_job *job);

#endif
