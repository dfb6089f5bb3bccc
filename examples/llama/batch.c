/* SPDX-License-Identifier: MIT */
/* Continuous batching. A step is a batch of rows, each of them one token of a
 * request: the latest of those that write, and chunks of the prompts of those
 * that have just joined. The host enqueues step after step and looks at the
 * tokens some steps later: it knows where every request is, but not what it
 * writes. */
#include <stdlib.h>

#include "llama.h"

typedef struct step {
    int32_t *rows;  /* [ROW_FIELDS, batch] */
    int32_t *slots; /* of the rows that are sampled */
    uint32_t *who;  /* ... and their requests */
    uint32_t n_rows, n_sampled;
    cl_event uploaded, computed, done;
    uint64_t ticket;
} step;

typedef struct schedule {
    model *m;
    sampling *s;
    const options *o;
    const tokenizer *t;
    totals *sum;
    int64_t *tenant;       /* the request in a slot, or -1 */
    uint32_t joined;       /* requests that have or had a slot */
    step *ring;            /* [ahead + 1] */
    uint64_t begun, ended; /* steps enqueued; steps whose tokens have been taken */
    double start;
} schedule;

/* ------------------------------------------------------- which rows a step has */

static void add_row(const schedule *b, step *p, const request *r, int32_t token, uint32_t position)
{
    const uint32_t batch = b->m->batch, i = p->n_rows++;
    p->rows[ROW_TOKEN * batch + i] = token;
    p->rows[ROW_SLOT * batch + i] = (int32_t)r->slot;
    p->rows[ROW_POSITION * batch + i] = (int32_t)position;
}

/* The row added last gets a token. */
static void sample_row(const schedule *b, step *p, request *r)
{
    const uint32_t i = p->n_sampled++;
    p->rows[ROW_PICK * b->m->batch + i] = (int32_t)p->n_rows - 1;
    p->slots[i] = (int32_t)r->slot;
    p->who[i] = (uint32_t)(r - b->o->requests);
    r->sampled++;
}

/* A slot is free as soon as its request's last step is enqueued: what comes
 * into it is enqueued after that. */
static void join(schedule *b)
{
    for (uint32_t slot = 0; slot < b->m->slots; slot++) {
        const request *r = b->tenant[slot] < 0 ? NULL : &b->o->requests[b->tenant[slot]];
        if (r != NULL && r->end == RUNNING && r->sampled < r->most)
            continue;
        b->tenant[slot] = -1;
        if (b->joined < b->o->n_requests) {
            b->tenant[slot] = b->joined++;
            b->o->requests[b->tenant[slot]].slot = slot;
            sampling_begin(b->s, &b->o->requests[b->tenant[slot]]);
        }
    }
}

static void plan(schedule *b, step *p)
{
    p->n_rows = p->n_sampled = 0;
    join(b);
    /* Who writes looks up its slot's latest token, which is on the device. */
    for (uint32_t slot = 0; slot < b->m->slots; slot++) {
        request *r = b->tenant[slot] < 0 ? NULL : &b->o->requests[b->tenant[slot]];
        if (r == NULL || r->sampled == 0)
            continue;
        add_row(b, p, r, -1 - (int32_t)r->slot, r->n_prompt + r->sampled - 1);
        sample_row(b, p, r);
    }
    /* The other rows are for prompts. */
    for (uint32_t slot = 0; slot < b->m->slots; slot++) {
        request *r = b->tenant[slot] < 0 ? NULL : &b->o->requests[b->tenant[slot]];
        if (r == NULL || r->fed == r->n_prompt)
            continue;
        for (uint32_t n = 0; n < b->o->chunk && r->fed < r->n_prompt && p->n_rows < b->m->batch; n++, r->fed++)
            add_row(b, p, r, r->tokens[r->fed], r->fed);
        if (r->fed == r->n_prompt)
            sample_row(b, p, r);
    }
}

/* ------------------------------------------------------------ what became of it */

static void take(schedule *b, request *r, int32_t token, int32_t status)
{
    const int32_t lost = CLS_ROW_EMPTY | CLS_ROW_SKIPPED | CLS_ROW_NO_SLOT;
    if (r->end != RUNNING) /* it went on until the host knew */
        return;
    r->status |= status & ~(CLS_ROW_STOPPED | CLS_ROW_LENGTH);
    if (status & lost) {
        r->end = FAILED;
    } else {
        b->sum->tokens++;
        r->tokens[r->n_prompt + r->n_output++] = token;
        if (status & CLS_ROW_STOPPED)
            r->end = status & CLS_ROW_LENGTH ? FULL : STOPPED;
    }
    b->sum->finished += r->end != RUNNING;
}

static double profile(cl_event event, cl_profiling_info what)
{
    cl_ulong t = 0;
    must_cl(clGetEventProfilingInfo(event, what, sizeof t, &t, NULL), "clGetEventProfilingInfo");
    return 1e-9 * (double)t;
}

static void take_tokens(schedule *b, const step *p, sampled got)
{
    for (uint32_t i = 0; i < p->n_sampled; i++)
        take(b, &b->o->requests[p->who[i]], got.tokens[i], got.status[i]);
}

/* Waits for the oldest step in flight. */
static void end_step(schedule *b)
{
    step *p = &b->ring[b->ended++ % (b->o->ahead + 1)];
    if (p->ticket != UINT64_MAX)
        take_tokens(b, p, sampling_wait(b->s, p->ticket));
    cl_event last = p->done != NULL ? p->done : p->computed;
    must_cl(clWaitForEvents(1, &last), "clWaitForEvents");
    if (!b->s->on_host) {
        b->sum->working += profile(last, CL_PROFILING_COMMAND_END) - profile(p->uploaded, CL_PROFILING_COMMAND_START);
        b->sum->sampling += profile(last, CL_PROFILING_COMMAND_END) - profile(p->computed, CL_PROFILING_COMMAND_END);
    }
    clReleaseEvent(p->uploaded);
    clReleaseEvent(p->computed);
    if (p->done != NULL)
        clReleaseEvent(p->done);
    b->sum->seconds = now() - b->start;
    text_show(b->o, b->t, b->sum);
}

/* ------------------------------------------------------------------------ steps */

/* clsample has no more room for what steps in flight still read. */
static void make_room(schedule *b)
{
    if (b->ended == b->begun)
        die("a step: %s", cls_error_message());
    end_step(b);
}

static void begin_step(schedule *b, step *p)
{
    const double begun = now();
    p->done = NULL;
    p->ticket = UINT64_MAX;
    model_forward(b->m, p->rows, p->n_rows, b->s->latest, &p->uploaded);
    while (p->n_sampled > 0 && !sampling_logits(b->s, p->rows, p->n_sampled))
        make_room(b);
    must_cl(clEnqueueMarkerWithWaitList(b->m->d->queue, 0, NULL, &p->computed), "clEnqueueMarkerWithWaitList");
    if (b->s->on_host) {
        must_cl(clFinish(b->m->d->queue), "clFinish");
        const double computed = now();
        if (p->n_sampled > 0)
            take_tokens(b, p, sampling_on_host(b->s, b->o->requests, p->who, p->n_sampled));
        b->sum->working += now() - begun;
        b->sum->sampling += now() - computed;
    } else if (p->n_sampled > 0) {
        while (!sampling_start(b->s, p->slots, p->n_sampled, &p->done, &p->ticket))
            make_room(b);
    }
    must_cl(clFlush(b->m->d->queue), "clFlush");
    b->begun++;
    b->sum->steps++;
    b->sum->rows += p->n_rows;
}

void batch_run(model *m, sampling *s, const options *o, const tokenizer *t, totals *sum)
{
    schedule b = {.m = m, .s = s, .o = o, .t = t, .sum = sum, .start = now()};
    b.tenant = allocate(m->slots, sizeof *b.tenant);
    b.ring = allocate(o->ahead + 1, sizeof *b.ring);
    for (uint32_t slot = 0; slot < m->slots; slot++)
        b.tenant[slot] = -1;
    for (uint32_t i = 0; i <= o->ahead; i++) {
        b.ring[i].rows = allocate(ROW_FIELDS * (size_t)m->batch, sizeof(int32_t));
        b.ring[i].slots = allocate(m->batch, sizeof(int32_t));
        b.ring[i].who = allocate(m->batch, sizeof(uint32_t));
    }
    while (sum->finished < o->n_requests) {
        step *p = &b.ring[b.begun % (o->ahead + 1)];
        plan(&b, p);
        if (p->n_rows > 0)
            begin_step(&b, p);
        /* With nothing to enqueue, or `ahead` steps that run: look at the oldest. */
        if (p->n_rows == 0 || b.begun - b.ended > o->ahead)
            end_step(&b);
    }
    while (b.ended < b.begun) /* of requests that had stopped */
        end_step(&b);
    for (uint32_t i = 0; i < o->n_requests; i++)
        sum->prompt_tokens += o->requests[i].n_prompt;
    for (uint32_t i = 0; i <= o->ahead; i++) {
        free(b.ring[i].rows);
        free(b.ring[i].slots);
        free(b.ring[i].who);
    }
    free(b.ring);
    free(b.tenant);
}
