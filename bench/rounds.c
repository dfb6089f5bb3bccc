/* SPDX-License-Identifier: MIT */
/* Rounds that are timed, as many as a stable median needs. */
#include <stdlib.h>

#include "bench/measure.h"

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *times, size_t n)
{
    qsort(times, n, sizeof *times, compare);
    return n == 0 ? 0.0 : (times[(n - 1) / 2] + times[n / 2]) * 0.5;
}

/* The median of a hundred rounds and of one second is stable. Ten seconds are enough for the
 * slowest device. A number of rounds that is wanted needs no time. */
bool bench_enough(const bench_rounds *r, uint32_t wanted, uint32_t n, double spent)
{
    if (wanted != 0)
        return n >= wanted;
    return n == BENCH_MOST_RUNS || (n >= 3 && spent >= r->most_us) ||
           (n >= r->least && spent >= r->least_us);
}

/* Steps accept their tokens, so histories grow. After so many rounds the requests begin again. */
#define RESTART 256

int bench_medians(const bench_rounds *r, uint32_t wanted, double *medians, uint32_t *runs)
{
    double *const times = cli_alloc(BENCH_PARTS * BENCH_MOST_RUNS, sizeof *times);
    double us[BENCH_PARTS] = {0};
    uint32_t n = 0;
    int failed = r->begin(r->of);
    const double begin = cli_clock();
    for (int i = 0; i < 3 && !failed; i++) /* the first launches are slow */
        failed = r->run(r->of, us);
    while (!failed && !bench_enough(r, wanted, n, cli_clock() - begin)) {
        failed = cli_interrupted() ||
                 (n % RESTART == RESTART - 1 && (r->begin(r->of) || r->run(r->of, us))) ||
                 r->run(r->of, us);
        for (size_t k = 0; k < BENCH_PARTS; k++)
            times[k * BENCH_MOST_RUNS + n] = us[k];
        n++;
    }
    for (size_t k = 0; k < BENCH_PARTS && !failed; k++)
        medians[k] = bench_median(times + k * BENCH_MOST_RUNS, n);
    *runs = n;
    cli_free(times);
    return failed;
}
