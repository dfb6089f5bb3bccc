/* SPDX-License-Identifier: MIT */
/* Times what a new process waits for: the context, a sampler with its programs, and the first
 * token. Where the case is the first of a process, and the driver's cache is empty, nothing is
 * compiled before it. */
#include "bench/bench.h"

#include <time.h>

#define LATER 100 /* steps that are timed after the first */

static double since(double *begin)
{
    const double end = cli_clock(), ms = (end - *begin) * 1e-3;
    *begin = end;
    return ms;
}

static double cpu_ms(void) { return (double)clock() * 1e3 / CLOCKS_PER_SEC; }

/* Runs the first step and later ones, and sets their milliseconds; 0: the first. */
static int run_steps(const bench_setup *setup, const bench_case *c, double ms[1 + LATER],
                     double *cpu)
{
    int32_t token;
    double begin = cli_clock();
    int failed = bench_begin_slots(setup, c);
    for (int i = 0; i <= LATER && !failed; i++) {
        failed = cli_interrupted() || bench_run_step(setup, c, &token);
        ms[i] = since(&begin);
        if (i == 0)
            *cpu = cpu_ms();
    }
    return failed;
}

static json_t *measure(cli_target *target, const cls_context_options *options, bench_setup *setup,
                       const bench_case *c)
{
    double ms[1 + LATER], begin = cli_clock(), first_cpu = 0;
    cls_device_info info = {.struct_size = sizeof info};
    if (cli_open_queue(target, 0))
        return NULL;
    const double opencl = since(&begin), before = cpu_ms();
    if (cli_open_context(target, options))
        return NULL;
    const double context = since(&begin), cpu = cpu_ms() - before;
    if (bench_open_setup(setup) || bench_write_rows(setup, c->rows))
        return NULL;
    const double again = cpu_ms();
    since(&begin);
    if (bench_make_sampler(setup, 0))
        return NULL;
    const double sampler = since(&begin);
    if (run_steps(setup, c, ms, &first_cpu) || bench_verify(setup, c) ||
        cli_try(cls_context_info(target->context, &info), "bench"))
        return NULL;
    return json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f}", "case", c->name, "from",
                     cli_origin_name(info.origin), "opencl_ms", opencl, "context_ms", context,
                     "sampler_ms", sampler, "first_ms", ms[0], "cpu_ms", cpu + first_cpu - again,
                     "later_ms", bench_median(ms + 1, LATER));
}

json_t *bench_start(const bench_run *run, const bench_case *c)
{
    cli_target target = {.device = run->target.device, .index = run->target.index};
    bench_setup setup = {.on = &target,
                         .batch = 1,
                         .vocab = run->setup.vocab,
                         .dtype = run->setup.dtype,
                         .features = c->features};
    json_t *const object = measure(&target, run->options, &setup, c);
    bench_close_setup(&setup);
    cli_close(&target);
    return object;
}
