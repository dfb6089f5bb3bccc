/* SPDX-License-Identifier: MIT */
/* Serving: requests join and leave at every step, as in a server with continuous batching. Slot r
 * is row r. When a request leaves, its row is skipped for one step, and then the next request takes
 * the slot. Steps are enqueued ahead, so the host learns of a token, or of the end of a request,
 * only some steps later. */
#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>

#define AHEAD 4u    /* steps in flight */
#define WARM 32u    /* steps before the first that is timed */
#define CHECKED 32u /* tokens of a request that the reference repeats */
#define FREE UINT32_MAX

/* The request in a slot. */
typedef struct occupant {
    uint32_t number; /* FREE: the slot has no request */
    uint32_t steps;  /* that the request has left */
} occupant;

/* The tokens and statuses of a request that the reference will repeat. */
typedef struct trace {
    uint32_t number, slot, first; /* first: the index of its first step */
    uint32_t n;
    int32_t token[CHECKED], status[CHECKED];
} trace;

typedef struct serving {
    const bench_setup *setup;
    cls_readback *readback;
    occupant *occupants;           /* [batch] */
    int32_t *map;                  /* [batch]: the step's slots */
    uint32_t *numbers;             /* [AHEAD, batch]: the requests of steps in flight */
    double *step_us, *host_us;     /* [WARM + BENCH_MOST_RUNS] */
    uint8_t *changes;              /* of each step: whether requests joined or left before it */
    trace traces[2 * BENCH_KINDS]; /* of the first requests, and of the first that join later */
    bench_request request;         /* the current one */
    uint32_t requests;             /* that joined so far */
    uint64_t tokens;               /* that timed steps returned */
    double last;                   /* the time at which the last step was read */
} serving;

/* The trace of a request, or NULL if it is not traced. */
static trace *trace_of(serving *s, uint32_t number)
{
    if (number < BENCH_KINDS)
        return &s->traces[number];
    if (number >= s->setup->batch && number - s->setup->batch < BENCH_KINDS)
        return &s->traces[BENCH_KINDS + number - s->setup->batch];
    return NULL;
}

/* The next request joins in a slot. Adds the microseconds of library calls to *host_us. */
static int join(serving *s, uint32_t slot, uint32_t step, double *host_us)
{
    const uint32_t number = s->requests++;
    trace *const t = trace_of(s, number);
    bench_request *const r = &s->request;
    double start;
    cls_status status;

    bench_make_request(s->setup, number, r);
    if (t != NULL)
        *t = (trace){.number = number, .slot = slot, .first = step};
    s->occupants[slot] = (occupant){.number = number, .steps = r->steps};
    start = cli_clock();
    status = cls_slot_begin(
        s->setup->sampler, slot, &r->params,
        &(cls_text){.struct_size = sizeof(cls_text), .prompt = {r->prompt, r->prompt_count}});
    *host_us += cli_clock() - start;
    return cli_try(status, "bench: serving: beginning a slot");
}

static int leave(serving *s, uint32_t slot, double *host_us)
{
    const double start = cli_clock();
    const cls_status status = cls_slot_reset(s->setup->sampler, slot);
    *host_us += cli_clock() - start;
    s->occupants[slot].number = FREE;
    return cli_try(status, "bench: serving: resetting a slot");
}

/* Lets requests leave and join, then enqueues a step of all rows and the readback of its tokens. */
static int enqueue(serving *s, uint32_t n)
{
    const bench_setup *const setup = s->setup;
    uint64_t ticket;
    double start;
    cls_step step;

    s->host_us[n] = 0;
    s->changes[n] = 0;
    for (uint32_t slot = 0; slot < setup->batch; slot++) {
        occupant *const at = &s->occupants[slot];
        if (at->number == FREE || at->steps == 0) {
            s->changes[n] = 1;
            if (at->number == FREE ? join(s, slot, n, &s->host_us[n])
                                   : leave(s, slot, &s->host_us[n]))
                return 1;
        }
        if (at->number != FREE)
            at->steps--;
        s->map[slot] = at->number != FREE ? (int32_t)slot : -1;
        s->numbers[(size_t)(n % AHEAD) * setup->batch + slot] = at->number;
    }
    cls_step_init(&step);
    step.rows = setup->batch;
    step.logits.dtype = (int32_t)setup->dtype;
    step.logits.values = setup->logits;
    step.logits.values.offset =
        (uint64_t)(n % BENCH_SPARE) * setup->vocab * bench_dtype_size(setup->dtype);
    step.slots.host = s->map;
    step.tokens = step.status = setup->tokens;
    step.status.offset = setup->batch * sizeof(int32_t);
    start = cli_clock();
    if (cli_try(cls_sample(setup->sampler, setup->on->queue, &step, 0, NULL, NULL),
                "bench: serving") ||
        cli_try(cls_readback_start(s->readback, setup->on->queue, &setup->tokens,
                                   2 * setup->batch * sizeof(int32_t), 0, NULL, &ticket),
                "bench: serving"))
        return 1;
    s->host_us[n] += cli_clock() - start;
    return clFlush(setup->on->queue) == CL_SUCCESS
               ? 0
               : cli_fail("bench: serving: the queue cannot be flushed");
}

/* Waits for the tokens of a step and records them. */
static int finish_step(serving *s, uint32_t n)
{
    const uint32_t batch = s->setup->batch;
    const void *data;
    double now;

    if (cli_try(cls_readback_get(s->readback, n, 1, &data), "bench: serving: reading the tokens"))
        return 1;
    now = cli_clock();
    s->step_us[n] = now - s->last;
    s->last = now;
    for (uint32_t slot = 0; slot < batch; slot++) {
        const uint32_t number = s->numbers[(size_t)(n % AHEAD) * batch + slot];
        const int32_t token = ((const int32_t *)data)[slot],
                      status = ((const int32_t *)data)[batch + slot];
        trace *const t = number == FREE ? NULL : trace_of(s, number);
        s->tokens += n >= WARM && token >= 0;
        if ((status & CLS_ROW_STOPPED) && s->occupants[slot].number == number)
            s->occupants[slot].steps = 0;
        if (t != NULL && t->n < CHECKED) {
            t->token[t->n] = token;
            t->status[t->n++] = status;
        }
    }
    return 0;
}

/* Repeats a traced request on the host, alone, and compares its tokens. */
static int check(serving *s, const bench_setup *twin, const trace *t)
{
    const bench_request *const r = &s->request;
    int32_t token, status;
    cls_step step;
    bench_make_request(s->setup, t->number, &s->request);
    cls_step_init(&step);
    step.rows = 1;
    step.logits.dtype = (int32_t)twin->dtype;
    step.tokens = bench_memory(&token, sizeof token);
    step.status = bench_memory(&status, sizeof status);
    if (cli_try(cls_slot_begin(twin->sampler, 0, &r->params,
                               &(cls_text){.struct_size = sizeof(cls_text),
                                           .prompt = {r->prompt, r->prompt_count}}),
                "bench: the reference"))
        return 1;
    for (uint32_t i = 0; i < t->n; i++) {
        step.logits.values = bench_twin(twin, t->slot + (t->first + i) % BENCH_SPARE).logits;
        if (cli_try(cls_sample(twin->sampler, NULL, &step, 0, NULL, NULL), "bench: the reference"))
            return 1;
        if (token != t->token[i] || status != t->status[i])
            return cli_fail("bench: serving, request %u, token %u: the device drew %d (status %d), "
                            "but the reference drew %d (status %d)",
                            (unsigned)t->number, (unsigned)i, (int)t->token[i], (int)t->status[i],
                            (int)token, (int)status);
    }
    return 0;
}

static int check_all(serving *s, bench_served *served)
{
    bench_setup twin = bench_twin(s->setup, 0);
    int failed = bench_new_sampler(&twin, twin.window, &twin.sampler);
    for (size_t i = 0; i < sizeof s->traces / sizeof *s->traces && !failed; i++) {
        failed = cli_interrupted() || check(s, &twin, &s->traces[i]);
        served->checked += s->traces[i].n != 0;
        served->checked_tokens += s->traces[i].n;
    }
    cls_sampler_destroy(twin.sampler);
    return failed;
}

static int open_serving(serving *s, const bench_setup *setup)
{
    const size_t batch = setup->batch, most = WARM + BENCH_MOST_RUNS;
    s->setup = setup;
    s->occupants = cli_alloc(batch, sizeof *s->occupants);
    s->map = cli_alloc(batch, sizeof *s->map);
    s->numbers = cli_alloc(AHEAD * batch, sizeof *s->numbers);
    s->step_us = cli_alloc(most, sizeof *s->step_us);
    s->host_us = cli_alloc(most, sizeof *s->host_us);
    s->changes = cli_alloc(most, 1);
    for (size_t i = 0; i < batch; i++)
        s->occupants[i].number = FREE;
    return cli_try(
        cls_readback_create(setup->on->context, 2 * batch * sizeof(int32_t), AHEAD, &s->readback),
        "bench: serving: the readback");
}

/* Computes the medians of the quiet steps, before which no request joined or left, and of all. */
static void medians(serving *s, uint32_t n, bench_served *served)
{
    double *const step = s->step_us + WARM, *const host = s->host_us + WARM;
    uint32_t quiet = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!s->changes[WARM + i]) {
            const double step_us = step[i], host_us = host[i];
            step[i] = step[quiet];
            host[i] = host[quiet];
            step[quiet] = step_us;
            host[quiet++] = host_us;
        }
    served->runs = n;
    served->quiet_runs = quiet;
    served->quiet_us = bench_median(step, quiet);
    served->quiet_host_us = bench_median(host, quiet);
    served->step_us = bench_median(step, n);
    served->host_us = bench_median(host, n);
}

static int serve(serving *s, bench_served *served)
{
    static const bench_rounds stable = {NULL, NULL, NULL, BENCH_STABLE};
    double start = 0;
    uint32_t n = 0; /* finished steps */
    for (uint32_t i = 0; n < WARM + BENCH_MOST_RUNS; i++) {
        if (cli_interrupted() || (i < WARM + BENCH_MOST_RUNS && enqueue(s, i)))
            return 1;
        if (i + 1 < AHEAD)
            continue;
        if (n == WARM)
            start = s->last;
        if (finish_step(s, n++))
            return 1;
        if (n > WARM && bench_enough(&stable, s->setup->runs, n - WARM, 0.5 * (s->last - start)))
            break;
    }
    served->tokens_per_s = (double)s->tokens / ((s->last - start) * 1e-6);
    served->requests = s->requests;
    medians(s, n - WARM, served);
    served->memory.struct_size = sizeof served->memory;
    if (cli_try(cls_sampler_memory(s->setup->sampler, &served->memory),
                "bench: serving: the sampler's memory"))
        return 1;
    return check_all(s, served);
}

static int begin_nothing(void *of)
{
    (void)of;
    return 0;
}

typedef struct floor_of {
    const bench_setup *setup;
    const bench_floor *floor;
} floor_of;

static int run_floor(void *of, double *us)
{
    const floor_of *const f = of;
    const double start = cli_clock();
    const int failed = bench_run_floor(f->setup, f->floor);
    us[0] = cli_clock() - start;
    return failed;
}

/* Times the floor before the steps, which overlap. */
int bench_serve(const bench_setup *setup, const bench_floor *floor, bench_served *served)
{
    serving *const s = cli_alloc(1, sizeof *s);
    floor_of f = {setup, floor};
    const bench_rounds rounds = {begin_nothing, run_floor, &f, BENCH_STABLE};
    double us[BENCH_PARTS];
    uint32_t runs;
    memset(served, 0, sizeof *served);
    const int failed =
        bench_medians(&rounds, 101, us, &runs) || open_serving(s, setup) || serve(s, served);
    served->floor_us = us[0];
    cls_readback_destroy(s->readback);
    return failed;
}
