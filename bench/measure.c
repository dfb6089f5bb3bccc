/* SPDX-License-Identifier: MIT */
/* Verifies a step against the reference, then times it. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#define FORCED 512u /* forced ids of a request: more than the steps until it begins again */

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

uint32_t bench_history(const bench_setup *setup, const bench_case *c)
{
    return c->history != 0 ? c->history : c->penalized ? setup->history : 0;
}

uint32_t bench_window(const bench_case *c)
{
    const cls_params *const p = bench_params(c);
    const uint32_t loops = p->loop_repeats * p->loop_max;
    return p->dry_multiplier != 0.0f || p->watermark_context != 0 ? c->history
           : p->loop_repeats != 0                                 ? loops
                                                                  : p->penalty_window;
}

/* Begins the request of a row in a slot: the parameters, and the history, of which half is prompt
 * and half is output. */
static cls_status begin_row(const bench_setup *setup, const bench_case *c, uint32_t slot)
{
    const uint32_t row = setup->first + slot, history = bench_history(setup, c),
                   outputs = history / 2, prompts = history - outputs;
    const int32_t *const ids = setup->ids + (size_t)row * setup->longest;
    cls_params params = *bench_params(c);
    params.seed = row;
    if (setup->vocab <= 13) /* the largest of DRY's breakers */
        params.dry_breakers.count = 0;
    const cls_status status =
        cls_slot_begin(setup->sampler, slot, &params,
                       &(cls_text){.struct_size = sizeof(cls_text),
                                   .prompt = {prompts != 0 ? ids : NULL, prompts},
                                   .output = {outputs != 0 ? ids + prompts : NULL, outputs}});
    return status == CLS_OK && c->forced ? cls_slot_force(setup->sampler, slot, ids, FORCED)
                                         : status;
}

int bench_begin_slots(const bench_setup *setup, const bench_case *c)
{
    int failed = 0;
    for (uint32_t slot = 0; slot < setup->batch && !failed; slot++)
        failed = cli_try(begin_row(setup, c, slot), "bench: beginning a slot");
    return failed;
}

void bench_make_step(const bench_setup *setup, const bench_case *c, cls_step *step)
{
    cls_step_init(step);
    step->rows = setup->batch;
    step->logits.dtype = (int32_t)setup->dtype;
    step->logits.values = setup->logits;
    step->tokens = setup->tokens;
    if (c->mask != BENCH_ALL)
        step->mask.words = setup->mask;
}

/* The capacity of a case's kept sets. */
static uint32_t kept_capacity(const bench_setup *setup, const bench_case *c)
{
    return c->kept_set < setup->vocab ? c->kept_set : setup->vocab;
}

int bench_enqueue_step(const bench_setup *setup, const bench_case *c, cl_command_queue queue,
                       cl_event *done)
{
    cls_step step;
    cls_outputs outputs;
    bench_make_step(setup, c, &step);
    if (c->kept_set != 0) {
        cls_outputs_init(&outputs);
        outputs.kept_set.capacity = kept_capacity(setup, c);
        outputs.kept_set.ids = setup->kept;
        step.outputs = &outputs;
    }
    return cli_try(cls_sample(setup->sampler, queue, &step, 0, NULL, done), "bench: the step");
}

int bench_run_step(const bench_setup *setup, const bench_case *c, int32_t *tokens)
{
    return bench_enqueue_step(setup, c, setup->on->queue, NULL) ||
           bench_read(setup, &setup->tokens, setup->batch * sizeof *tokens, tokens);
}

int bench_read(const bench_setup *setup, const cls_buffer *from, size_t size, void *to)
{
    if (bench_is_host(setup)) {
        memcpy(to, from->pointer, size);
        return 0;
    }
    cl_int error =
        clEnqueueReadBuffer(setup->on->queue, from->buffer, CL_FALSE, 0, size, to, 0, NULL, NULL);
    if (error == CL_SUCCESS)
        error = clFinish(setup->on->queue);
    return cli_try_opencl(error, "bench: reading the results");
}

/* Runs as many empty kernels as a step launches. */
static int run_empty(const bench_setup *setup, const bench_floor *floor, uint32_t launches)
{
    const size_t one = 1;
    int32_t token;
    cl_int error = CL_SUCCESS;
    for (uint32_t i = 0; i < launches && error == CL_SUCCESS; i++)
        error = clEnqueueNDRangeKernel(setup->on->queue, floor->nothing, 1, NULL, &one, &one, 0,
                                       NULL, NULL);
    return cli_try_opencl(error, "bench: an empty launch") ||
           bench_read(setup, &setup->tokens, sizeof token, &token);
}

int bench_run_floor(const bench_setup *setup, const bench_floor *floor)
{
    cl_int error = bench_floor_enqueue(floor, setup->on->queue, NULL);
    if (error == CL_SUCCESS)
        error = clFinish(setup->on->queue);
    return cli_try_opencl(error, "bench: the floor's kernel");
}

/* The reference's results of a case. */
typedef struct reference {
    const bench_setup *setup;
    const bench_case *c;
    int32_t *tokens; /* [batch] */
    int32_t *sets;   /* [batch, kept_capacity()], or NULL: the case has no kept sets */
} reference;

static int sample_row(void *of, uint32_t row)
{
    const reference *const r = of;
    const size_t set = kept_capacity(r->setup, r->c) * sizeof(int32_t);
    bench_setup twin = bench_twin(r->setup, row);
    twin.tokens = bench_memory(&r->tokens[row], sizeof *r->tokens);
    if (r->sets != NULL)
        twin.kept = bench_memory((char *)r->sets + row * set, set);
    const int failed =
        cli_interrupted() || bench_new_sampler(&twin, r->setup->window, &twin.sampler) ||
        bench_begin_slots(&twin, r->c) || bench_enqueue_step(&twin, r->c, NULL, NULL);
    cls_sampler_destroy(twin.sampler);
    return failed;
}

/* ids: the kept sets of the device; NULL where there are none. */
static int verify_rows(reference *r, const int32_t *tokens, const int32_t *ids)
{
    const uint32_t batch = r->setup->batch, capacity = kept_capacity(r->setup, r->c);
    if (bench_each(batch, sample_row, r))
        return 1;
    for (uint32_t row = 0; row < batch; row++) {
        const size_t first = (size_t)row * capacity;
        if (r->tokens[row] != tokens[row])
            return cli_fail(
                "bench: %s, row %u: the device drew token %d, but the reference drew %d",
                r->c->name, (unsigned)row, (int)tokens[row], (int)r->tokens[row]);
        if (ids != NULL && memcmp(ids + first, r->sets + first, capacity * sizeof *ids) != 0)
            return cli_fail("bench: %s, row %u: the kept set is not the reference's", r->c->name,
                            (unsigned)row);
    }
    return 0;
}

/* Reads the kept sets, if the case has any, and compares all results. */
static int verify_results(reference *r, const int32_t *tokens)
{
    const size_t size = (size_t)r->setup->batch * kept_capacity(r->setup, r->c) * sizeof(int32_t);
    if (r->c->kept_set == 0)
        return verify_rows(r, tokens, NULL);
    int32_t *const ids = cli_alloc(size, 1);
    r->sets = cli_alloc(size, 1);
    const int failed =
        bench_read(r->setup, &r->setup->kept, size, ids) || verify_rows(r, tokens, ids);
    cli_free(ids);
    cli_free(r->sets);
    return failed;
}

int bench_verify(const bench_setup *setup, const bench_case *c)
{
    int32_t *const tokens = cli_alloc(2 * setup->batch, sizeof *tokens);
    reference r = {setup, c, tokens + setup->batch, NULL};
    const int failed = bench_begin_slots(setup, c) || bench_run_step(setup, c, tokens) ||
                       verify_results(&r, tokens);
    cli_free(tokens);
    return failed;
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

enum { FLOOR, STEP, EMPTY };

/* The floor, a step and as many empty launches, in turn. */
typedef struct turn {
    const bench_setup *setup;
    const bench_floor *floor;
    const bench_steps *steps;
    uint32_t turns, launches; /* of a step: those of the third, which uploads no requests */
} turn;

static int begin_turns(void *of)
{
    const turn *const t = of;
    return t->steps->begin(t->steps->of);
}

static int run_turn(void *of, double *us)
{
    turn *const t = of;
    const double begin = cli_clock();
    if (bench_run_floor(t->setup, t->floor))
        return 1;
    const double read = cli_clock();
    if (t->steps->run(t->steps->of))
        return 1;
    const double step = cli_clock();
    if (++t->turns == 3)
        t->launches = cls_sampler_launches(t->setup->sampler);
    if (run_empty(t->setup, t->floor, t->launches))
        return 1;
    us[FLOOR] = read - begin;
    us[STEP] = step - read;
    us[EMPTY] = cli_clock() - step;
    return 0;
}

int bench_time_steps(const bench_setup *setup, const bench_floor *floor, const bench_steps *steps,
                     bench_result *result)
{
    turn t = {setup, floor, steps, 0, 0};
    const bench_rounds rounds = {begin_turns, run_turn, &t, BENCH_STABLE};
    double us[BENCH_PARTS];
    if (bench_medians(&rounds, setup->runs, us, &result->runs))
        return 1;
    result->launches = t.launches;
    result->floor_us = us[FLOOR];
    result->step_us = us[STEP];
    result->empty_us = us[EMPTY];
    return bench_time_events(setup, floor, steps, result);
}

typedef struct plain {
    const bench_setup *setup;
    const bench_case *c;
    int32_t *tokens;
} plain;

static int enqueue_plain(void *of, cl_command_queue queue, cl_event *done)
{
    const plain *const p = of;
    return bench_enqueue_step(p->setup, p->c, queue, done);
}

static int run_plain(void *of)
{
    const plain *const p = of;
    return bench_run_step(p->setup, p->c, p->tokens);
}

/* After so many tokens Mirostat's mu is above 64 bits, and nothing is cut. */
#define LATE 1000

static int begin_plain(void *of)
{
    const plain *const p = of;
    int failed = bench_begin_slots(p->setup, p->c);
    for (int i = 0; i < LATE && !failed && !cli_interrupted() && p->c->late; i++)
        failed = run_plain(of);
    return failed;
}

int bench_time(const bench_setup *setup, const bench_floor *floor, const bench_case *c,
               bench_result *result)
{
    plain p = {setup, c, cli_alloc(setup->batch, sizeof *p.tokens)};
    const bench_steps steps = {begin_plain, enqueue_plain, run_plain, &p};
    result->host_bytes = setup->batch * sizeof *p.tokens;
    if (bench_is_host(setup))
        return bench_time_host(setup, &steps, result);
    return bench_time_steps(setup, floor, &steps, result);
}
