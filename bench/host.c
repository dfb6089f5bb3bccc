/* SPDX-License-Identifier: MIT */
/* Times steps of the host, beside a plain read of the same logits by one thread. */
#include "bench/measure.h"

#include <string.h>

/* Returns the largest of the logits' elements as integers. The loop has a constant length, so that
 * compilers vectorize it. */
static int32_t read_logits(const bench_setup *setup)
{
    const size_t n = (size_t)setup->batch * setup->vocab * bench_dtype_size(setup->dtype);
    const char *const from = setup->logits.pointer;
    int32_t most = INT32_MIN, words[256];
    for (size_t at = 0; at + sizeof words <= n; at += sizeof words) {
        memcpy(words, from + at, sizeof words);
        for (int i = 0; i < 256; i++)
            most = words[i] > most ? words[i] : most;
    }
    return most;
}

enum { FLOOR, STEP };

typedef struct host_turn {
    const bench_setup *setup;
    const bench_steps *steps;
    volatile int32_t most; /* so that the read is not left out */
} host_turn;

static int begin_turns(void *of)
{
    const host_turn *const t = of;
    return t->steps->begin(t->steps->of);
}

static int run_turn(void *of, double *us)
{
    host_turn *const t = of;
    const double begin = cli_clock();
    t->most = read_logits(t->setup);
    const double read = cli_clock();
    if (t->steps->run(t->steps->of))
        return 1;
    us[FLOOR] = read - begin;
    us[STEP] = cli_clock() - read;
    return 0;
}

int bench_time_host(const bench_setup *setup, const bench_steps *steps, bench_result *result)
{
    host_turn t = {setup, steps, 0};
    const bench_rounds rounds = {begin_turns, run_turn, &t, BENCH_STABLE};
    double us[BENCH_PARTS];
    if (bench_medians(&rounds, setup->runs, us, &result->runs))
        return 1;
    result->floor_us = us[FLOOR];
    result->step_us = us[STEP];
    return 0;
}
