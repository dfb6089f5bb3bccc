/* SPDX-License-Identifier: MIT */
/* clsample bench: times sampling steps and compares them with the floor, the time of a plain read
 * of the same logits. Each header is a layer, which uses those before it:
 *
 *     rows.h     parallel.c  runs the host's work on all its processors
 *                rows.c      makes the logits, masks and histories
 *     cases.h    cases.c     the list of cases
 *     setup.h    setup.c     holds rows and requests on host and device
 *     measure.h  rounds.c    repeats what is timed, until the median is stable
 *                floor.c     finds the fastest plain read of the logits
 *                step.c      the step of a case
 *                verify.c    verifies it against the reference
 *                host.c      times a step of the host
 *                events.c    times a step and the floor by the device's clock
 *                measure.c   times the step of a case
 *     bench.h    drafts.c    verifies and times the verification of drafts
 *                shards.c    times the steps of a vocabulary that is split over shards
 *                requests.c  makes the requests of the serving case
 *                serving.c   times steps while requests join and leave
 *                start.c     times the first token of a process
 *                table.c     prints the results as tables and as JSON
 *                tune.c      clsample bench --tune: measures shapes of the kernels by some cases
 *                bench.c     the command
 */
#ifndef BENCH_H
#define BENCH_H

#include "bench/measure.h"

/* ------------------------------------------------------------ bench/drafts.c */

#define BENCH_DRAFTS 4 /* of a request */

/* Verifies and times a case with drafts. It has separate logits, and its floor reads these and the
 * probabilities of the drafts. */
int bench_verify_drafts(const bench_setup *setup, const bench_case *c, bench_result *result);

/* ------------------------------------------------------------ bench/shards.c */

/* Whether a case can be split over shards: it is a step without drafts, and its requests begin
 * without a thousand steps. */
bool bench_can_split(const bench_case *c);

/* Times the whole step and that of setup->shards shards in turn, and compares their tokens. */
int bench_time_shards(const bench_setup *setup, const bench_case *c, bench_result *result);

/* ---------------------------------------------------------- bench/requests.c */

#define BENCH_KINDS 7   /* kinds of requests, which take turns */
#define BENCH_WINDOW 16 /* the penalty window of the requests that have one */
#define BENCH_MOST_PROMPT 500
#define BENCH_MOST_BIASES 100
#define BENCH_MOST_STOPS 64

/* A request with the arrays that its parameters point to. */
typedef struct bench_request {
    cls_params params;
    uint32_t steps; /* until it leaves, unless it stops earlier */
    uint32_t prompt_count;
    int32_t prompt[BENCH_MOST_PROMPT];
    cls_logit_bias bias[BENCH_MOST_BIASES];
    int32_t stop_ids[BENCH_MOST_STOPS];
} bench_request;

/* Makes a request. It depends on its number only, so it can be made again. */
void bench_make_request(const bench_setup *setup, uint32_t number, bench_request *r);

/* ----------------------------------------------------------- bench/serving.c */

#define BENCH_SPARE 8 /* spare rows: steps begin at different rows */

typedef struct bench_served {
    double floor_us;
    double step_us;       /* median, from the tokens of a step to those of the next */
    double host_us;       /* median, in slot calls and in cls_sample() */
    double quiet_us;      /* medians of the steps before which no request */
    double quiet_host_us; /* joined or left */
    double tokens_per_s;
    uint32_t runs, quiet_runs;
    uint32_t requests;                /* that joined */
    uint32_t checked, checked_tokens; /* requests that the reference repeated, and their tokens */
    cls_memory memory;
} bench_served;

/* setup: with BENCH_SPARE and BENCH_WINDOW. */
int bench_serve(const bench_setup *setup, const bench_floor *floor, bench_served *served);

/* ------------------------------------------------------------- bench/bench.c */

/* What cases have in common. */
typedef struct bench_run {
    bench_setup setup; /* the values of the options, and what bench_measure() opens */
    const cls_context_options *options;
    cli_target target; /* the device, which bench_measure() opens */
    bool on_host;      /* whether the target is the host */
    bool is_open;      /* whether the device and the setup are */
    bench_floor floor;
    int written; /* the bench_rows in the setup's buffers, plus 1; 0: there are none yet */
} bench_run;

/* Verifies and times a case. NULL: it failed, or was interrupted. */
json_t *bench_measure(bench_run *run, const bench_case *c);

/* ------------------------------------------------------------- bench/start.c */

/* Opens the device that run->target names, once more, and times that and the first token. NULL: it
 * failed. */
json_t *bench_start(const bench_run *run, const bench_case *c);

/* -------------------------------------------------------------- bench/tune.c */

/* Tries shapes of the kernels on run->target, which is not open, until `limit` seconds are over,
 * and prints which is the fastest. */
int bench_tune(const bench_run *run, uint32_t limit, bool json);

/* ------------------------------------------------------------- bench/table.c */

/* The objects of the results, which clsample-bench(1) describes. */
json_t *bench_json_case(const bench_setup *setup, const bench_floor *floor, const bench_case *c,
                        const bench_result *result);
json_t *bench_json_shards(const bench_setup *setup, const bench_case *c,
                          const bench_result *result);
json_t *bench_json_served(const bench_setup *setup, const bench_floor *floor,
                          const bench_served *served);

/* Prints an array of such objects as tables. */
int bench_print(const bench_run *run, const json_t *results);

#endif
