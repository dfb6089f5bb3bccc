/* SPDX-License-Identifier: MIT */
/* Continuous batching. A step is a batch of rows, and each row is one token of a request: the
 * latest token of a request that generates, or a token of the prompt of one that has joined. The
 * host enqueues step after step and reads the tokens some steps later: it knows the position of
 * every request, but not yet its tokens. */
#include <stdlib.h>

#include "llama.h"

typedef struct step {
    int32_t *rows;      /* [ROW_FIELDS, batch] */
    int32_t *slots;     /* of the rows that are sampled */
    uint32_t *requests; /* of the rows that are sampled */
    uint32_t n_rows, n_sampled;
    cl_event begun, computed, done;
    uint64_t ticket;
} step;

typedef struct schedule {
    model *m;
    sampling *s;
    const options *o;
    const tokenizer *t;
    totals *sum;
    drafts d;
    request **generating;  /* [slots]: those that are past their prompts */
    int64_t *occupant;     /* [slots]: the request in a slot, or -1 */
    uint32_t joined;       /* requests that have or had a slot */
    step *ring;            /* [ahead + 1] */
    uint64_t begun, ended; /* numbers of enqueued and of finished steps */
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

/* Samples the last rows of a request: its latest token, and the n drafts after it. */
static void sample_row(const schedule *b, step *p, request *r, uint32_t n)
{
    const uint32_t i = p->n_sampled++, width = b->d.most + 1, first = p->n_rows - 1 - n;
    for (uint32_t k = 0; k < width; k++) /* an unused draft selects any row */
        p->rows[ROW_PICK * b->m->batch + i * width + k] = (int32_t)(first + (k < n ? k : n));
    p->slots[i] = (int32_t)r->slot;
    p->requests[i] = (uint32_t)(r - b->o->requests);
    r->sampled++;
}

static request *occupant(const schedule *b, uint32_t slot)
{
    return b->occupant[slot] < 0 ? NULL : &b->o->requests[b->occupant[slot]];
}

/* Lets requests join. A slot is free as soon as the last step of its request is enqueued, since the
 * commands of the next request come later in the queue. */
static void join(schedule *b)
{
    for (uint32_t slot = 0; slot < b->m->slots; slot++) {
        const request *r = occupant(b, slot);
        if (r != NULL && r->end == RUNNING && r->sampled < r->most)
            continue;
        b->occupant[slot] = -1;
        if (b->joined < b->o->n_requests) {
            b->occupant[slot] = b->joined++;
            b->o->requests[b->occupant[slot]].slot = slot;
            sampling_begin(b->s, &b->o->requests[b->occupant[slot]]);
        }
    }
}

/* Adds a row for each request that generates. Its token is the latest one of the slot, which is on
 * the device. */
static void plan_rows(schedule *b, step *p, request *const *generating, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        request *r = generating[i];
        add_row(b, p, r, -1 - (int32_t)r->slot, r->n_prompt + r->sampled - 1);
        sample_row(b, p, r, 0);
    }
}

/* Adds rows for the latest token and the drafts of each request. The host has all tokens so far. */
static void plan_drafts(schedule *b, step *p, request *const *generating, uint32_t n)
{
    drafts_propose(&b->d, generating, n, &p->begun);
    for (uint32_t i = 0; i < n; i++) {
        request *r = generating[i];
        const uint32_t last = r->n_prompt + r->n_output - 1;
        add_row(b, p, r, r->tokens[last], last);
        for (uint32_t k = 0; k < b->d.n[i]; k++)
            add_row(b, p, r, drafts_token(&b->d, i, k), last + 1 + k);
        sample_row(b, p, r, b->d.n[i]);
        b->sum->drafted += b->d.n[i];
    }
}

static void plan(schedule *b, step *p)
{
    uint32_t n = 0;
    p->n_rows = p->n_sampled = 0;
    p->begun = NULL;
    join(b);
    for (uint32_t slot = 0; slot < b->m->slots; slot++)
        if (occupant(b, slot) != NULL && occupant(b, slot)->sampled > 0)
            b->generating[n++] = occupant(b, slot);
    if (b->d.most > 0)
        plan_drafts(b, p, b->generating, n);
    else
        plan_rows(b, p, b->generating, n);
    /* The remaining rows are for prompts. */
    for (uint32_t slot = 0; slot < b->m->slots; slot++) {
        request *r = occupant(b, slot);
        if (r == NULL || r->fed == r->n_prompt)
            continue;
        for (uint32_t i = 0; i < b->o->chunk && r->fed < r->n_prompt && p->n_rows < b->m->batch;
             i++, r->fed++)
            add_row(b, p, r, r->tokens[r->fed], r->fed);
        if (r->fed == r->n_prompt)
            sample_row(b, p, r, 0);
    }
}

/* ---------------------------------------------------------- the results of a step */

static void take(schedule *b, request *r, int32_t token, int32_t status)
{
    const int32_t lost = CLS_ROW_EMPTY | CLS_ROW_SKIPPED | CLS_ROW_NO_SLOT;
    if (r->end != RUNNING) /* this row was enqueued before the host knew of the end */
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

/* Takes the tokens of a verification. The status belongs to the last of them. */
static void take_drafts(schedule *b, request *r, const int32_t *tokens, int32_t status)
{
    uint32_t n = 0;
    while (n <= b->d.most && tokens[n] >= 0)
        n++;
    for (uint32_t k = 0; k + 1 < n; k++)
        take(b, r, tokens[k], CLS_ROW_OK);
    take(b, r, tokens[n > 0 ? n - 1 : 0], n > 0 ? status & ~(int32_t)CLS_ROW_EMPTY : status);
    r->sampled = r->n_output;
}

static void take_tokens(schedule *b, const step *p, sampled got)
{
    const uint32_t width = b->d.most + 1;
    for (uint32_t i = 0; i < p->n_sampled; i++) {
        request *r = &b->o->requests[p->requests[i]];
        if (b->d.most == 0) {
            take(b, r, got.tokens[i], got.status[i]);
            continue;
        }
        take_drafts(b, r, got.tokens + (size_t)i * width, got.status[i]);
        b->sum->accepted += (uint32_t)got.accepted[i];
    }
}

/* Waits for the oldest step in flight. */
static void end_step(schedule *b)
{
    step *p = &b->ring[b->ended++ % (b->o->ahead + 1)];
    if (p->ticket != UINT64_MAX)
        take_tokens(b, p, sampling_wait(b->s, p->ticket));
    cl_event last = p->done != NULL ? p->done : p->computed;
    must_cl(clWaitForEvents(1, &last), "clWaitForEvents");
    b->sum->working +=
        profile(last, CL_PROFILING_COMMAND_END) - profile(p->begun, CL_PROFILING_COMMAND_START);
    b->sum->sampling +=
        profile(last, CL_PROFILING_COMMAND_END) - profile(p->computed, CL_PROFILING_COMMAND_END);
    clReleaseEvent(p->begun);
    clReleaseEvent(p->computed);
    if (p->done != NULL)
        clReleaseEvent(p->done);
    b->sum->seconds = now() - b->start;
    text_show(b->o, b->t, b->sum);
}

/* ------------------------------------------------------------------------ steps */

/* Waits for a step: clsample's staging is full of data that steps in flight still read. */
static void make_room(schedule *b)
{
    if (b->ended == b->begun)
        die("a step: %s", cls_error_message());
    end_step(b);
}

static void begin_step(schedule *b, step *p)
{
    p->done = NULL;
    p->ticket = UINT64_MAX;
    cl_event uploaded;
    model_forward(b->m, p->rows, p->n_rows, b->m->c.layers,
                  b->d.most > 0 ? b->d.device_ids : b->s->latest, &uploaded);
    if (p->begun == NULL)
        p->begun = uploaded;
    else
        clReleaseEvent(uploaded);
    while (p->n_sampled > 0 && !sampling_logits(b->s, p->rows, p->n_sampled * (b->d.most + 1)))
        make_room(b);
    must_cl(clEnqueueMarkerWithWaitList(b->m->d->queue, 0, NULL, &p->computed),
            "clEnqueueMarkerWithWaitList");
    while (p->n_sampled > 0 &&
           (b->d.most > 0 ? !drafts_verify(&b->d, p->slots, p->n_sampled, &p->done, &p->ticket)
                          : !sampling_start(b->s, p->slots, p->n_sampled, &p->done, &p->ticket)))
        make_room(b);
    must_cl(clFlush(b->m->d->queue), "clFlush");
    b->begun++;
    b->sum->steps++;
    b->sum->rows += p->n_rows;
}

void batch_run(model *m, sampling *s, const options *o, const tokenizer *t, totals *sum)
{
    schedule b = {.m = m, .s = s, .o = o, .t = t, .sum = sum, .start = now()};
    drafts_open(&b.d, m, s, o);
    b.generating = allocate(m->slots, sizeof *b.generating);
    b.occupant = allocate(m->slots, sizeof *b.occupant);
    b.ring = allocate(o->ahead + 1, sizeof *b.ring);
    for (uint32_t slot = 0; slot < m->slots; slot++)
        b.occupant[slot] = -1;
    for (uint32_t i = 0; i <= o->ahead; i++) {
        b.ring[i].rows = allocate(ROW_FIELDS * (size_t)m->batch, sizeof(int32_t));
        b.ring[i].slots = allocate(m->batch, sizeof(int32_t));
        b.ring[i].requests = allocate(m->batch, sizeof(uint32_t));
    }
    while (sum->finished < o->n_requests) {
        step *p = &b.ring[b.begun % (o->ahead + 1)];
        plan(&b, p);
        if (p->n_rows > 0)
            begin_step(&b, p);
        /* If there is nothing to enqueue, or `ahead` steps are in flight, finish the oldest. */
        if (p->n_rows == 0 || b.begun - b.ended > o->ahead)
            end_step(&b);
    }
    while (b.ended < b.begun) /* steps after the last end */
        end_step(&b);
    for (uint32_t i = 0; i < o->n_requests; i++)
        sum->prompt_tokens += o->requests[i].n_prompt;
    for (uint32_t i = 0; i <= o->ahead; i++) {
        free(b.ring[i].rows);
        free(b.ring[i].slots);
        free(b.ring[i].requests);
    }
    free(b.ring);
    free(b.occupant);
    free(b.generating);
    drafts_close(&b.d);
}
