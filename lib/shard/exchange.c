/* SPDX-License-Identifier: MIT */
/* The exchanges of a step: it is opened, each shard's partial is handed out, the partials of all
 * shards are merged, until the step is complete. */
#include "shard/shard.h"

#include <stdlib.h>

/* ------------------------------------------------------------------ closing a step */

/* Waits until the device has written the partial, or failed. If it may still be writing, that
 * memory is neither freed nor used again. */
static cl_int wait_ready(cls_shard *h)
{
    cl_int state = CL_RUNNING;
    if (h->ready == NULL)
        return CL_SUCCESS;
    cl_int code = clWaitForEvents(1, &h->ready);
    if (code != CL_SUCCESS) /* waiting may fail by itself */
        code = clWaitForEvents(1, &h->ready);
    if (code != CL_SUCCESS && (clGetEventInfo(h->ready, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                              sizeof state, &state, NULL) != CL_SUCCESS ||
                               state > CL_COMPLETE))
        h->partial = (cls_host_buffer){NULL, 0, 0};
    clReleaseEvent(h->ready);
    h->ready = NULL;
    return code;
}

static void close_step(cls_shard *h)
{
    wait_ready(h);
    if (h->computed != NULL)
        clReleaseEvent(h->computed);
    h->computed = NULL;
    if (h->queue != NULL)
        clReleaseCommandQueue(h->queue);
    h->queue = NULL;
    h->open = 0;
    h->sampler->refusal = NULL;
}

/* ------------------------------------------------------------------ opening a step */

static cls_status check_closed(const cls_shard *h)
{
    return h->open ? cls_refuse_call("the shard has an open step: merge its exchanges to the end, "
                                     "or call cls_shard_abandon() first")
                   : CLS_OK;
}

/* Computes the first partial of a step that was checked. */
static cls_status open_step(cls_shard *h, cl_command_queue queue, cl_uint n_wait,
                            const cl_event *wait)
{
    if (h->sampler->lost != CL_SUCCESS)
        return cls_sampler_lost(h->sampler);
    const cl_int code = clRetainCommandQueue(queue);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot retain the queue");
    h->queue = queue;
    h->open = 1;
    h->exchange = 1;
    h->protocol = cls_rows_decide(h);
    h->digest = cls_shard_step_digest(h);
    h->sampler->refusal = "the sampler's shard has an open step: merge its exchanges to the end, "
                          "or call cls_shard_abandon() first";
    h->logits.values.buffer = NULL;
    const cls_status status = h->protocol == CLS_PROTOCOL_ROWS ? cls_rows_open(h, n_wait, wait)
                                                               : cls_gather_open(h, n_wait, wait);
    if (status != CLS_OK)
        close_step(h);
    return status;
}

static cls_status sample_step(cls_shard *h, cl_command_queue queue, const cls_step *step,
                              cl_uint n_wait, const cl_event *wait)
{
    cls_status status = check_closed(h);
    if (status == CLS_OK)
        status = cls_call_check(&cls_step_call, h->sampler, queue, step, h->width, n_wait, wait,
                                &h->plan);
    h->gathers = 0;
    return status == CLS_OK ? open_step(h, queue, n_wait, wait) : status;
}

cls_status cls_shard_sample(cls_shard *h, cl_command_queue queue, const cls_step *step,
                            cl_uint n_wait, const cl_event *wait)
{
    if (h == NULL)
        return cls_refuse("shard is NULL");
    return cls_sampler_lock(h->sampler) == CLS_OK
               ? cls_sampler_leave(h->sampler, sample_step(h, queue, step, n_wait, wait))
               : CLS_BAD_ARGUMENT;
}

static cls_status gather_step(cls_shard *h, cl_command_queue queue, uint32_t rows,
                              const cls_logits *logits, cl_uint n_wait, const cl_event *wait)
{
    cls_plan *const plan = &h->plan;
    cls_status status = check_closed(h);
    if (status == CLS_OK && logits == NULL)
        status = cls_refuse("logits is NULL");
    if (status == CLS_OK && rows < 1)
        status = cls_refuse("rows is 0; it must be at least 1");
    if (status == CLS_OK && logits->softcap != 0.0f)
        status = cls_refuse("logits->softcap is %g; it must be 0, since rows are gathered as they "
                            "are: set it in the call that reads them",
                            (double)logits->softcap);
    if (status != CLS_OK)
        return status;
    cls_plan_begin(plan, &cls_gather_operands);
    plan->step.rows = rows;
    plan->step.logits = *logits;
    status = cls_plan_check(plan, h->sampler, queue, h->width, n_wait, wait);
    h->gathers = 1;
    return status == CLS_OK ? open_step(h, queue, n_wait, wait) : status;
}

cls_status cls_shard_gather(cls_shard *h, cl_command_queue queue, uint32_t rows,
                            const cls_logits *logits, cl_uint n_wait, const cl_event *wait)
{
    if (h == NULL)
        return cls_refuse("shard is NULL");
    return cls_sampler_lock(h->sampler) == CLS_OK
               ? cls_sampler_leave(h->sampler, gather_step(h, queue, rows, logits, n_wait, wait))
               : CLS_BAD_ARGUMENT;
}

/* --------------------------------------------------------------------- an exchange */

uint64_t cls_shard_digest(const cls_shard *h) { return h != NULL && h->open ? h->digest : 0; }

size_t cls_shard_partial_size(const cls_shard *h)
{
    return h != NULL && h->open ? h->partial.used : 0;
}

int cls_shard_is_ready(const cls_shard *h)
{
    cl_int state = CL_COMPLETE;
    const cl_event event = h == NULL || h->sealed ? NULL
                           : h->ready != NULL     ? h->ready
                                                  : h->computed;
    if (event == NULL || clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state,
                                        &state, NULL) != CL_SUCCESS)
        return 1;
    return state <= CL_COMPLETE;
}

static cls_status check_open(const cls_shard *h)
{
    return h->open ? CLS_OK
                   : cls_refuse_call("the shard has no open step: call cls_shard_sample() or "
                                     "cls_shard_gather() first");
}

/* Waits for the partial and completes it, unless that was done before. */
static cls_status finish_partial(cls_shard *h)
{
    if (h->sealed)
        return CLS_OK;
    const cl_int code = h->ready != NULL ? wait_ready(h) : cls_rows_read(h);
    if (code != CL_SUCCESS) {
        close_step(h);
        return cls_sampler_lose(h->sampler, code, "the device failed while it computed a partial");
    }
    cls_partial_seal(h);
    h->sealed = 1;
    return CLS_OK;
}

static cls_status partial(cls_shard *h, const void **out, size_t *size)
{
    cls_status status = check_open(h);
    if (status == CLS_OK)
        status = finish_partial(h);
    if (status != CLS_OK)
        return status;
    *out = h->partial.data;
    *size = h->partial.used;
    return CLS_OK;
}

cls_status cls_shard_partial(cls_shard *h, const void **out, size_t *size)
{
    if (h == NULL || out == NULL || size == NULL)
        return cls_refuse("%s is NULL", h == NULL ? "shard" : out == NULL ? "partial" : "size");
    *out = NULL;
    *size = 0;
    return cls_sampler_lock(h->sampler) == CLS_OK
               ? cls_sampler_leave(h->sampler, partial(h, out, size))
               : CLS_BAD_ARGUMENT;
}

/* Completes a gather: the rows are on the device. */
static cls_status end_gather(cls_shard *h, cl_event *done)
{
    h->logits = h->plan.step.logits;
    if (done == NULL)
        return CLS_OK;
    const cl_int code = clEnqueueMarkerWithWaitList(h->queue, 0, NULL, done);
    return cls_opencl_status(code, "cannot enqueue a marker");
}

/* Merges rows of logits, which ends the step. */
static cls_status merge_logits(cls_shard *h, const void *partials, cl_event *done)
{
    const cls_logits own = h->plan.step.logits;
    cls_status status = cls_gather_merge(h, partials);
    if (status == CLS_OK)
        status = h->gathers ? end_gather(h, done)
                            : cls_call_enqueue(&cls_step_call, &h->plan, h->sampler, h->queue, 0,
                                               NULL, done);
    if (status != CLS_OK)
        h->plan.step.logits = own;
    return status;
}

static cls_status merge(cls_shard *h, const void *partials, size_t size, int *more, cl_event *done)
{
    cls_status status = check_open(h);
    if (status == CLS_OK)
        status = finish_partial(h);
    if (status == CLS_OK)
        status = cls_partials_check(h, partials, size);
    if (status != CLS_OK)
        return status;
    status = h->protocol == CLS_PROTOCOL_ROWS ? cls_rows_merge(h, partials, more, done)
                                              : merge_logits(h, partials, done);
    if (status == CLS_BAD_ARGUMENT || status == CLS_BUSY || status == CLS_OUT_OF_MEMORY)
        return status;
    h->exchange++;
    if (status != CLS_OK)
        cls_rows_finish(h, h->queue);
    if (!*more) {
        h->completed += status == CLS_OK;
        close_step(h);
    }
    return status;
}

cls_status cls_shard_merge(cls_shard *h, const void *partials, size_t size, int *more,
                           cl_event *done)
{
    if (done != NULL)
        *done = NULL;
    if (h == NULL || partials == NULL || more == NULL)
        return cls_refuse("%s is NULL", h == NULL          ? "shard"
                                        : partials == NULL ? "partials"
                                                           : "more");
    *more = 0;
    return cls_sampler_lock(h->sampler) == CLS_OK
               ? cls_sampler_leave(h->sampler, merge(h, partials, size, more, done))
               : CLS_BAD_ARGUMENT;
}

/* --------------------------------------------------------- all shards of one process */

/* Checks that the shards are those of one vocabulary, with the same step open. */
static cls_status check_all(cls_shard *const *shards, uint32_t n)
{
    char also[CLS_SHORTLISTS_SIZE];
    if (shards == NULL)
        return cls_refuse("shards is NULL");
    for (uint32_t i = 0; i < n; i++) {
        const cls_shard *const h = shards[i];
        if (h == NULL)
            return cls_refuse("shards[%u] is NULL", (unsigned)i);
        if (!h->open)
            return cls_refuse("shards[%u] has no open step", (unsigned)i);
        if (h->shards != n || h->shard != i)
            return cls_refuse("shards[%u] is shard %u of %u, but %u of %u is expected there",
                              (unsigned)i, (unsigned)h->shard, (unsigned)h->shards, (unsigned)i,
                              (unsigned)n);
        cls_shortlists_describe(also, h->sampler->context->shape.shortlist,
                                shards[0]->sampler->context->shape.shortlist);
        if (h->digest != shards[0]->digest || h->exchange != shards[0]->exchange ||
            h->completed != shards[0]->completed)
            return cls_refuse("shards[%u] has another step open than shards[0]: other borders, "
                              "parameters, slots, maps, outputs or exchange%s",
                              (unsigned)i, also);
        if (h->sampler->context->cl != shards[0]->sampler->context->cl)
            return cls_refuse("shards[%u] is in another OpenCL context than shards[0]: use "
                              "cls_shard_partial() and cls_shard_merge()",
                              (unsigned)i);
    }
    return n != 0 ? CLS_OK : cls_refuse("n is 0");
}

/* Merges one exchange of all shards through the host. */
static cls_status merge_by_host(cls_shard *const *shards, uint32_t n, int *more, cl_event *done)
{
    const size_t one = shards[0]->partial.used;
    unsigned char *const all = malloc(n * one);
    cls_status status = CLS_OK;
    if (all == NULL)
        return cls_no_memory("%zu bytes of partials", n * one);
    for (uint32_t i = 0; i < n && status == CLS_OK; i++) {
        const void *partial;
        size_t size;
        status = cls_shard_partial(shards[i], &partial, &size);
        if (status == CLS_OK)
            memcpy(all + i * one, partial, one);
    }
    for (uint32_t i = 0; i < n && status == CLS_OK; i++)
        status = cls_shard_merge(shards[i], all, n * one, more, done != NULL ? &done[i] : NULL);
    free(all);
    return status;
}

/* Merges all shards from device to device. A shard's next step may overwrite its partial only when
 * all others have copied it: it waits for their steps. */
static cls_status merge_on_device(cls_shard *const *shards, uint32_t n, cl_event *done)
{
    cl_event ends[CLS_MAX_SHARDS];
    cls_status status = CLS_OK;
    cl_int code = CL_SUCCESS;
    int one_queue = shards[0]->plan.ordered;
    for (uint32_t i = 0; i < n && status == CLS_OK; i++) {
        status = cls_sampler_lock(shards[i]->sampler);
        if (status == CLS_OK)
            status = cls_sampler_leave(
                shards[i]->sampler,
                cls_rows_merge_all(shards[i], shards, done != NULL ? &done[i] : NULL));
        one_queue &= shards[i]->queue == shards[0]->queue;
    }
    for (uint32_t i = 0; i < n && status == CLS_OK; i++)
        ends[i] = shards[i]->sampler->last_event;
    for (uint32_t i = 0; i < n && status == CLS_OK && !one_queue; i++) {
        cls_sampler *const s = shards[i]->sampler;
        cl_event all;
        code = clEnqueueMarkerWithWaitList(shards[i]->queue, n, ends, &all);
        if (code != CL_SUCCESS) {
            status = cls_sampler_lose(s, code, "cannot enqueue a marker");
        } else {
            clFlush(shards[i]->queue);
            ends[i] = all; /* the others then wait for it, too, which is as good */
            clReleaseEvent(s->last_event);
            s->last_event = all;
        }
    }
    for (uint32_t i = 0; i < n && status == CLS_OK; i++) {
        shards[i]->completed++;
        close_step(shards[i]);
    }
    return status;
}

cls_status cls_shard_merge_all(cls_shard *const *shards, uint32_t n, cl_event *done)
{
    cls_status status = check_all(shards, n);
    int more = 1;
    for (uint32_t i = 0; i < n && status == CLS_OK && done != NULL; i++)
        done[i] = NULL;
    if (status == CLS_OK && cls_rows_are_single(shards[0]))
        return merge_on_device(shards, n, done);
    while (status == CLS_OK && more)
        status = merge_by_host(shards, n, &more, done);
    return status;
}

cls_status cls_shard_abandon(cls_shard *h)
{
    if (h == NULL)
        return cls_refuse("shard is NULL");
    if (h->open)
        close_step(h);
    return CLS_OK;
}

cls_status cls_shard_logits(const cls_shard *h, cls_logits *logits)
{
    if (h == NULL || logits == NULL)
        return cls_refuse("%s is NULL", h == NULL ? "shard" : "logits");
    if (h->logits.values.buffer == NULL)
        return cls_refuse_call("the shard has no gathered logits: complete a cls_shard_gather() "
                               "first, and use them before the next step is opened");
    *logits = h->logits;
    return CLS_OK;
}
