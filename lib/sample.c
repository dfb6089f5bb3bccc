/* SPDX-License-Identifier: MIT */
/* cls_sample(): one step. Checks, uploads what changed, enqueues the kernels
 * in the order of the flow; never waits and never allocates. */
#include "internal.h"

/* The commands of a step on their way into a queue. In order, the queue
 * orders them; out of order, each waits for the one before it. */
typedef struct command_chain {
    cl_command_queue queue;
    int ordered;
    cl_uint n_wait;       /* of the first command */
    const cl_event *wait;
    cl_event own[2];      /* what `wait` points to after the first, or for it */
    cl_event previous;    /* out of order: the last command's, ours */
} command_chain;

static void chain_waits(const command_chain *c, cl_uint *n, const cl_event **wait)
{
    *n = c->previous != NULL ? 1 : c->n_wait;
    *wait = c->previous != NULL ? &c->previous : c->n_wait != 0 ? c->wait : NULL;
}

/* After a command whose event is `event` (NULL in order). */
static void chain_advance(command_chain *c, cl_event event)
{
    if (c->previous != NULL)
        clReleaseEvent(c->previous);
    c->previous = c->ordered ? NULL : event;
    c->n_wait = 0;
}

/* Joins the caller's events with this sampler's last step, which may be on
 * another queue. */
static cl_int chain_begin(command_chain *c, cls_sampler *s, cl_uint n_wait, const cl_event *wait)
{
    c->n_wait = n_wait;
    c->wait = wait;
    if (s->last == NULL || (c->ordered && s->last_queue == c->queue))
        return CL_SUCCESS;
    c->own[0] = s->last;
    if (n_wait == 1)
        c->own[1] = wait[0];
    if (n_wait > 1) {
        const cl_int code = clEnqueueMarkerWithWaitList(c->queue, n_wait, wait, &c->own[1]);
        if (code != CL_SUCCESS)
            return code;
        c->previous = NULL;
    }
    c->n_wait = n_wait > 0 ? 2 : 1;
    c->wait = c->own;
    return CL_SUCCESS;
}

/* ------------------------------------------------------------------- uploads */

static int map_changed(const cls_sampler *s, const cls_plan *plan, int which)
{
    const int32_t *const host = plan->map[which]->host;
    const uint32_t rows = plan->step.rows;
    return host != NULL && (s->sent_rows[which] < rows ||
                            memcmp(host, s->sent + (size_t)which * s->max_rows, rows * sizeof *host) != 0);
}

static cls_staging *free_staging(cls_sampler *s)
{
    for (int i = 0; i < CLS_STAGING; i++) {
        cls_staging *const staging = &s->staging[i];
        cl_int state = CL_COMPLETE;
        if (staging->done != NULL) {
            if (clGetEventInfo(staging->done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL) != CL_SUCCESS ||
                state > CL_COMPLETE)
                continue;
            clReleaseEvent(staging->done);
            staging->done = NULL;
        }
        return staging;
    }
    return NULL;
}

static cl_int write(command_chain *c, cls_staging *staging, cl_mem buffer, size_t offset, size_t size, const void *data)
{
    cl_uint n;
    const cl_event *wait;
    cl_event event;
    chain_waits(c, &n, &wait);
    const cl_int code = clEnqueueWriteBuffer(c->queue, buffer, CL_FALSE, offset, size, data, n, wait, &event);
    if (code != CL_SUCCESS)
        return code;
    if (staging->done != NULL)
        clReleaseEvent(staging->done);
    staging->done = event;
    if (!c->ordered)
        clRetainEvent(event);
    chain_advance(c, event);
    return CL_SUCCESS;
}

/* Begun slots that lie side by side go in one write, parameters one by one:
 * the position between them belongs to the device. */
static cl_int write_slots(cls_sampler *s, command_chain *c, cls_staging *staging)
{
    cl_int code = CL_SUCCESS;
    for (uint32_t i = 0, n; i < s->slots && code == CL_SUCCESS; i += n) {
        n = 1;
        if (s->dirty[i] == 0)
            continue;
        const int begun = (s->dirty[i] & CLS_DIRTY_BEGUN) != 0;
        while (begun && i + n < s->slots && (s->dirty[i + n] & CLS_DIRTY_BEGUN) != 0)
            n++;
        memcpy(staging->slots + i, s->slot + i, n * sizeof *s->slot);
        code = write(c, staging, s->slot_buffer, i * sizeof *s->slot,
                     begun ? n * sizeof *s->slot : offsetof(cls_slot, position), staging->slots + i);
        if (code == CL_SUCCESS)
            memset(s->dirty + i, 0, n);
    }
    return code;
}

static cl_int write_maps(cls_sampler *s, const cls_plan *plan, command_chain *c, cls_staging *staging)
{
    cl_int code = CL_SUCCESS;
    for (int which = 0; which < CLS_MAPS && code == CL_SUCCESS; which++) {
        const size_t at = (size_t)which * s->max_rows, size = plan->step.rows * sizeof(int32_t);
        if (!map_changed(s, plan, which))
            continue;
        memcpy(staging->maps + at, plan->map[which]->host, size);
        s->sent_rows[which] = 0;
        code = write(c, staging, s->maps, at * sizeof(int32_t), size, staging->maps + at);
        if (code == CL_SUCCESS) {
            memcpy(s->sent + at, staging->maps + at, size);
            s->sent_rows[which] = plan->step.rows;
        }
    }
    return code;
}

/* ------------------------------------------------------------------- kernels */

/* Sets arguments one after another, remembering the first failure. */
typedef struct arguments {
    cl_kernel kernel;
    cl_uint next;
    cl_int code;
} arguments;

static void set(arguments *a, size_t size, const void *value)
{
    const cl_int code = clSetKernelArg(a->kernel, a->next++, size, value);
    if (a->code == CL_SUCCESS)
        a->code = code;
}
static void set_mem(arguments *a, cl_mem x) { set(a, sizeof x, &x); }
static void set_u32(arguments *a, uint32_t x) { set(a, sizeof x, &x); }
static void set_u64(arguments *a, uint64_t x) { set(a, sizeof x, &x); }
/* A buffer that may be absent, and its offset in elements; kernels look at `has` first. */
static void set_buffer(arguments *a, const cls_sampler *s, const cls_buffer *b, size_t element)
{
    set_mem(a, b->buffer != NULL ? b->buffer : s->rows);
    set_u64(a, b->offset / element);
}
static void set_map(arguments *a, const cls_sampler *s, const cls_plan *plan, enum cls_map which)
{
    const cls_buffer host = { s->maps, (uint64_t)which * s->max_rows * sizeof(int32_t) };
    set_buffer(a, s, plan->map[which]->host != NULL ? &host : &plan->map[which]->device, sizeof(int32_t));
}

/* STEP_ARGS of cl/02_adjust.cl. */
static arguments step_arguments(const cls_sampler *s, const cls_plan *plan, enum cls_kernel which, uint32_t has)
{
    const cls_step *const step = &plan->step;
    const int raw = (has & CLS_RAW) != 0;
    arguments a = { s->kernel[step->logits.dtype][which], 0, CL_SUCCESS };
    set_mem(&a, step->logits.buffer);
    set_u64(&a, step->logits.offset / plan->logit_size);
    set_u64(&a, step->logits.row_stride);
    set_u32(&a, s->vocab);
    set_buffer(&a, s, &step->mask.words, sizeof(int32_t));
    set_u64(&a, step->mask.row_stride);
    set_u32(&a, step->mask.width);
    set_u32(&a, step->mask.rows);
    set_mem(&a, s->slot_buffer);
    set_u32(&a, s->slots);
    set_map(&a, s, plan, CLS_MAP_SLOTS);
    set_map(&a, s, plan, CLS_MAP_MASKS);
    set_u32(&a, plan->has | has);
    set_mem(&a, raw ? s->raw_key : s->tile_key);
    set_mem(&a, raw ? s->raw_mass : s->tile_mass);
    set_mem(&a, raw ? s->raw_flags : s->tile_flags);
    set_mem(&a, s->rows);
    return a;
}

/* DRAW_ARGS of cl/06_draw.cl. */
static void draw_arguments(arguments *a, const cls_sampler *s, const cls_plan *plan)
{
    const cls_step *const step = &plan->step;
    set_map(a, s, plan, CLS_MAP_POSITIONS);
    set_buffer(a, s, &step->random, sizeof(uint64_t));
    set_mem(a, s->work);
    set_mem(a, s->pass);
    set_mem(a, s->sample);
    set_u32(a, (uint32_t)step->invalid_token);
    set_buffer(a, s, &step->tokens, sizeof(int32_t));
    set_buffer(a, s, &step->status, sizeof(int32_t));
}

/* Enough groups to feed the device and to even out rows that need less work;
 * a group a mass tile at most. 32 tiles at most, too, so that a work-item's
 * loops stay below the 65,535 trips that llvmpipe allows it. */
static uint32_t tiles_per_group(const cls_sampler *s, uint32_t rows)
{
    const uint64_t all = (uint64_t)s->tiles * rows, groups = 32ull * s->context->shape.compute_units;
    const uint64_t n = all / groups;
    return n < 1 ? 1 : n > 32 ? 32 : (uint32_t)n;
}

static cl_int launch(cls_sampler *s, const cls_plan *plan, command_chain *c, enum cls_kernel which, arguments *a,
                     int last, cl_event *done)
{
    const int over_tiles = cls_kernel_part(which) == CLS_OVER_TILES;
    const uint32_t per_group = tiles_per_group(s, plan->step.rows);
    const size_t size[2] = { over_tiles ? s->context->shape.work_group : s->context->shape.row_group, 1 };
    const size_t global[2] = { size[0] * (over_tiles ? (s->tiles + per_group - 1) / per_group : 1), plan->step.rows };
    cl_uint n;
    const cl_event *wait;
    cl_event event = NULL;
    if (a->code != CL_SUCCESS)
        return a->code;
    chain_waits(c, &n, &wait);
    const cl_int code = clEnqueueNDRangeKernel(c->queue, a->kernel, 2, NULL, global, size, n, wait,
                                               !c->ordered || last ? &event : NULL);
    if (code != CL_SUCCESS)
        return code;
    s->launches++;
    if (last) {
        *done = event;
        if (!c->ordered)
            clRetainEvent(event);
    }
    chain_advance(c, event);
    return CL_SUCCESS;
}

static cl_int launch_all(cls_sampler *s, const cls_plan *plan, command_chain *c, cl_event *done)
{
    const cls_step *const step = &plan->step;
    const uint32_t per_group = tiles_per_group(s, step->rows);
    const int logprobs = step->logprobs.buffer != NULL, probs = step->probs.buffer != NULL;
    const int raw = logprobs && step->logprob_kind == CLS_LOGPROB_RAW;
    arguments a = step_arguments(s, plan, CLS_SURVEY, 0);
    set_u32(&a, per_group);
    cl_int code = launch(s, plan, c, CLS_SURVEY, &a, 0, done);
    if (code == CL_SUCCESS) {
        a = step_arguments(s, plan, CLS_SHORTLIST, 0);
        draw_arguments(&a, s, plan);
        set_u32(&a, s->sample_stride);
        code = launch(s, plan, c, CLS_SHORTLIST, &a, !plan->search && !logprobs && !probs, done);
    }
    if (code == CL_SUCCESS && plan->search) {
        a = step_arguments(s, plan, CLS_PASS, 0);
        set_u32(&a, per_group);
        set_mem(&a, s->pass);
        code = launch(s, plan, c, CLS_PASS, &a, 0, done);
    }
    if (code == CL_SUCCESS && plan->search) {
        a = step_arguments(s, plan, CLS_FINAL, 0);
        draw_arguments(&a, s, plan);
        code = launch(s, plan, c, CLS_FINAL, &a, !logprobs && !probs, done);
    }
    if (code == CL_SUCCESS && raw) {
        a = step_arguments(s, plan, CLS_SURVEY, CLS_RAW);
        set_u32(&a, per_group);
        code = launch(s, plan, c, CLS_SURVEY, &a, 0, done);
    }
    if (code == CL_SUCCESS && logprobs) {
        a = step_arguments(s, plan, CLS_LOGPROB, raw ? 0 : CLS_OF_FINAL);
        set_mem(&a, s->raw_key);
        set_mem(&a, s->raw_mass);
        set_mem(&a, s->work);
        set_buffer(&a, s, &step->logprobs, sizeof(float));
        code = launch(s, plan, c, CLS_LOGPROB, &a, !probs, done);
    }
    if (code == CL_SUCCESS && probs) {
        a = step_arguments(s, plan, CLS_PROBS, 0);
        set_u32(&a, per_group);
        set_buffer(&a, s, &step->probs, sizeof(float));
        code = launch(s, plan, c, CLS_PROBS, &a, 1, done);
    }
    return code;
}

cls_status cls_sample(cls_sampler *s, cl_command_queue queue, const cls_step *step, cl_uint n_wait, const cl_event *wait,
                      cl_event *done)
{
    cls_plan plan;
    cl_event end = NULL;
    if (done != NULL)
        *done = NULL;
    const cls_status status = cls_step_check(s, queue, step, n_wait, wait, &plan);
    if (status != CLS_OK)
        return status;
    command_chain c = { .queue = queue, .ordered = plan.ordered };
    cls_staging *staging = NULL;
    if (s->any_dirty || map_changed(s, &plan, CLS_MAP_SLOTS) || map_changed(s, &plan, CLS_MAP_POSITIONS) ||
        map_changed(s, &plan, CLS_MAP_MASKS)) {
        staging = free_staging(s);
        if (staging == NULL)
            return cls_fail(CLS_BUSY, CL_SUCCESS, "%d steps with changed parameters or maps are in flight: flush the queue and wait for one",
                            CLS_STAGING);
    }
    s->launches = 0;
    cl_int code = chain_begin(&c, s, n_wait, wait);
    if (code == CL_SUCCESS && staging != NULL) {
        code = write_slots(s, &c, staging);
        s->any_dirty = code != CL_SUCCESS;
        if (code == CL_SUCCESS)
            code = write_maps(s, &plan, &c, staging);
    }
    if (code == CL_SUCCESS)
        code = launch_all(s, &plan, &c, &end);
    if (c.own[1] != NULL && n_wait > 1)
        clReleaseEvent(c.own[1]);
    if (c.previous != NULL)
        clReleaseEvent(c.previous);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot enqueue the step");
    if (s->last != NULL)
        clReleaseEvent(s->last);
    if (s->last_queue != queue) { /* retained: another queue must not get its address */
        if (s->last_queue != NULL)
            clReleaseCommandQueue(s->last_queue);
        clRetainCommandQueue(queue);
        s->last_queue = queue;
    }
    s->last = end;
    if (done != NULL) {
        clRetainEvent(end);
        *done = end;
    }
    return CLS_OK;
}

uint32_t cls_sampler_launches(const cls_sampler *s)
{
    return s != NULL ? s->launches : 0;
}

/* ----------------------------------------------------------------- for tests */

void cls_sampler_force_search(cls_sampler *s, int on)
{
    s->force_search = on;
}

cls_status cls_sampler_trace(cls_sampler *s, cl_command_queue queue, cls_row *rows, uint32_t n)
{
    const cl_int code = clEnqueueReadBuffer(queue, s->rows, CL_TRUE, 0, n * sizeof *rows, rows, s->last != NULL ? 1 : 0,
                                            s->last != NULL ? &s->last : NULL, NULL);
    return code == CL_SUCCESS ? CLS_OK : cls_fail(CLS_OPENCL_ERROR, code, "cannot read the row records");
}
