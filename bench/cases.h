/* SPDX-License-Identifier: MIT */
/* The cases that are measured. */
#ifndef BENCH_CASES_H
#define BENCH_CASES_H

#include "bench/rows.h"

/* How drafts are verified, and which distributions come with them. */
typedef enum bench_drafts {
    BENCH_STEP,     /* no drafts: a plain step */
    BENCH_MATCH,    /* drafts without a distribution */
    BENCH_STANDARD, /* drafts with probabilities */
    BENCH_BLOCK     /* drafts with probabilities, verified as a block */
} bench_drafts;

/* What is timed. */
typedef enum bench_kind {
    BENCH_STEPS,   /* steps of one set of parameters */
    BENCH_SERVING, /* requests that come and go */
    BENCH_START    /* the first token of a process */
} bench_kind;

/* A case and the goal for the time of its step. The unit of `goal` is the floor or, if `goal_topk`
 * is set, the step of case topk; the goals are for [16, 128256] float32 on a CPU of two cores. The
 * unit of `goal_one`, the goal for one row, is the time of empty launches. 0: no goal. */
typedef struct bench_case {
    const char *name, *params; /* as in a text of calls */
    bench_rows rows;
    bench_mask mask;
    double goal, goal_one;
    int goal_topk;
    uint32_t history; /* tokens of a history */
    bool penalized;   /* there are as many as in the setup, if `history` is 0 */
    bool forced;      /* the tokens are forced */
    bool late;        /* after so many tokens that Mirostat's mu is too large to cut anything */
    bench_drafts drafts;
    float softcap;
    uint32_t kept_set; /* ids of a row's kept set that the step writes, at most vocab; 0: none */
    bench_kind kind;
    uint32_t features; /* of a start's sampler */
    bool extra;        /* only measured where --case names it */
} bench_case;

/* The `history` that a sampler needs for a case. */
uint32_t bench_window(const bench_case *c);

#define BENCH_CASES 44
extern const bench_case bench_cases[BENCH_CASES];
const bench_case *bench_find(const char *name);

/* Sets parameters by a text, and those of a case, which bench_read_cases() has read. */
void bench_set_params(const char *text, cls_params *params);
const cls_params *bench_params(const bench_case *c);
void bench_read_cases(void);

#endif
