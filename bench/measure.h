/* SPDX-License-Identifier: MIT */
/* Timing the step of a case beside the floor, the time of a plain read of the same logits. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "bench/setup.h"

/* ------------------------------------------------------------ bench/rounds.c */

/* Sorts `times` and returns the median. */
double bench_median(double *times, size_t n);

#define BENCH_PARTS 3 /* the most parts of a round */

/* Rounds of which each has parts that are timed: `run` sets their microseconds. `begin` begins the
 * requests, at first and again after many rounds, since histories grow. There are `least` rounds in
 * `least_us`, but no more than `most_us` allow. */
typedef struct bench_rounds {
    int (*begin)(void *of);
    int (*run)(void *of, double *us);
    void *of;
    uint32_t least;
    double least_us, most_us;
} bench_rounds;
#define BENCH_STABLE 101, 1e6, 1e7

/* Whether n rounds in `spent` microseconds are enough, or as many as are wanted. */
bool bench_enough(const bench_rounds *rounds, uint32_t wanted, uint32_t n, double spent);

/* Runs rounds, and finds the medians of their parts. wanted: their number; 0: as many as the rounds
 * say. */
int bench_medians(const bench_rounds *rounds, uint32_t wanted, double *medians, uint32_t *runs);

/* ------------------------------------------------------------- bench/floor.c */

/* The floor's kernel, which reads logits and keeps maxima only, in one shape. */
typedef struct bench_floor {
    cl_program program;
    cl_kernel kernel, nothing, busy;
    cl_mem out;
    size_t local, global;
    size_t maxima;  /* numbers that it writes to `out` */
    char shape[64]; /* the shape in words */
} bench_floor;

/* Tries several shapes on setup->logits, which must be filled, and keeps the fastest one that
 * computes the right maximum. */
int bench_floor_open(bench_floor *floor, const bench_setup *setup);
void bench_floor_close(bench_floor *floor);

/* done: the event, or NULL. */
cl_int bench_floor_enqueue(const bench_floor *floor, cl_command_queue queue, cl_event *done);

/* Enqueues a kernel that keeps the device busy until the host has enqueued what follows it. */
cl_int bench_floor_busy(const bench_floor *floor, cl_command_queue queue, cl_event *done);

/* Runs the floor's kernel and waits for it. */
int bench_run_floor(const bench_setup *setup, const bench_floor *floor);

/* -------------------------------------------------------------- bench/step.c */

/* Begins the requests of a case in all slots of setup->sampler. */
int bench_begin_slots(const bench_setup *setup, const bench_case *c);

/* Describes the step of a case, which writes setup->tokens. */
void bench_make_step(const bench_setup *setup, const bench_case *c, cls_step *step);

/* Enqueues it. done: its event, or NULL. */
int bench_enqueue_step(const bench_setup *setup, const bench_case *c, cl_command_queue queue,
                       cl_event *done);

/* Does what a decode loop does: it enqueues the step, reads its tokens and waits. */
int bench_run_step(const bench_setup *setup, const bench_case *c, int32_t *tokens);

/* The capacity of a case's kept sets. */
uint32_t bench_kept_capacity(const bench_setup *setup, const bench_case *c);

/* ------------------------------------------------------------ bench/verify.c */

/* Begins all slots, samples one step and compares each token, and each kept set, with those of the
 * same calls on the host. */
int bench_verify(const bench_setup *setup, const bench_case *c);

/* ----------------------------------------------------------- bench/measure.c */

#define BENCH_EXCHANGES 8u /* of a step on shards, whose sizes are recorded */

typedef struct bench_result {
    double floor_us, step_us, empty_us; /* medians, from enqueue to finish */
    /* Medians by the device's clock; 0 if its events have no times. */
    double floor_device_us, step_device_us;
    uint32_t launches, runs;
    uint64_t host_bytes; /* that the host reads in a step */
    double accepted;     /* accepted drafts divided by all drafts */

    /* With setup->shards, and then without floor_us and empty_us: */
    double local_us; /* medians: all shards' first partials, from the step's beginning on */
    double merge_us; /* of shard 0: all that follows, until its queue is finished */
    uint32_t exchanges;
    double partial_row[BENCH_EXCHANGES]; /* bytes of a partial, divided by the rows */
} bench_result;

/* Any kind of step. `begin` begins the requests, `enqueue` enqueues one step, whose last event is
 * *done, and `run` also reads its results and waits for them. */
typedef struct bench_steps {
    int (*begin)(void *of);
    int (*enqueue)(void *of, cl_command_queue queue, cl_event *done);
    int (*run)(void *of);
    void *of;
} bench_steps;

int bench_time_steps(const bench_setup *setup, const bench_floor *floor, const bench_steps *steps,
                     bench_result *result);

/* Times floor, step and empty launches in turn. */
int bench_time(const bench_setup *setup, const bench_floor *floor, const bench_case *c,
               bench_result *result);

/* -------------------------------------------------------------- bench/host.c */

/* Times steps and the floor, a read of the logits by one thread, in turn. */
int bench_time_host(const bench_setup *setup, const bench_steps *steps, bench_result *result);

/* ------------------------------------------------------------ bench/events.c */

/* Sets result->floor_device_us and step_device_us. */
int bench_time_events(const bench_setup *setup, const bench_floor *floor, const bench_steps *steps,
                      bench_result *result);

#endif
