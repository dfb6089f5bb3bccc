/* SPDX-License-Identifier: MIT */
/* The stub's queues, each a thread that takes its commands in order, and their events. */
#include "stub_cl.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PATIENCE = 5 }; /* seconds */

atomic_int stub_lazy;

typedef enum stub_order { NOTHING, WRITE, READ, COPY, MOVE, FILL, RUN } stub_order;

struct stub_command {
    stub_command *next;
    stub_order what;
    cl_mem from, to;
    size_t at_from, at_to, size;
    const void *source; /* the host memory of a write, or what is moved */
    void *target;       /* the host memory of a read, or where it is moved */
    unsigned char pattern[128];
    size_t n_pattern;
    const stub_kernel *kernel;
    stub_value argument[STUB_ARGUMENTS];
    size_t global[2];
    cl_uint n_wait;
    cl_event *wait, event;
};

/* ----------------------------------------------------------------------- events */

static cl_event new_event(cl_context context)
{
    cl_event e = stub_new(STUB_EVENT, sizeof *e);
    e->context = context;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->ended, NULL);
    e->state = CL_QUEUED;
    return e;
}

static cl_int state_of(cl_event e)
{
    pthread_mutex_lock(&e->lock);
    const cl_int state = e->state;
    pthread_mutex_unlock(&e->lock);
    return state;
}

static void end(cl_event e, cl_int state)
{
    pthread_mutex_lock(&e->lock);
    e->state = state;
    pthread_cond_broadcast(&e->ended);
    pthread_mutex_unlock(&e->lock);
}

static cl_int await(cl_event e)
{
    struct timespec end;
    int code = 0;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += PATIENCE;
    pthread_mutex_lock(&e->lock);
    while (e->state > CL_COMPLETE && code == 0)
        code = stub_lazy ? pthread_cond_timedwait(&e->ended, &e->lock, &end)
                         : pthread_cond_wait(&e->ended, &e->lock);
    const cl_int state = e->state;
    pthread_mutex_unlock(&e->lock);
    return state > CL_COMPLETE ? CL_OUT_OF_RESOURCES : state;
}

cl_int clRetainEvent(cl_event e) { return stub_retain(&e->object, STUB_EVENT, CL_INVALID_EVENT); }

cl_int clReleaseEvent(cl_event e)
{
    if (stub_release(&e->object)) {
        pthread_mutex_destroy(&e->lock);
        pthread_cond_destroy(&e->ended);
        stub_free(&e->object);
    }
    return CL_SUCCESS;
}

cl_int clWaitForEvents(cl_uint n, const cl_event *events)
{
    cl_int code = n == 0 || events == NULL ? CL_INVALID_VALUE : CL_SUCCESS;
    for (cl_uint i = 0; i < n && events != NULL; i++)
        if (await(events[i]) < 0)
            code = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    return code;
}

cl_int clGetEventInfo(cl_event e, cl_event_info what, size_t size, void *out, size_t *size_out)
{
    const cl_int state = state_of(e);
    const size_t n = what == CL_EVENT_CONTEXT ? sizeof e->context : sizeof state;
    if ((what != CL_EVENT_CONTEXT && what != CL_EVENT_COMMAND_EXECUTION_STATUS) || size < n)
        return CL_INVALID_VALUE;
    memcpy(out, what == CL_EVENT_CONTEXT ? (const void *)&e->context : &state, n);
    if (size_out != NULL)
        *size_out = n;
    return CL_SUCCESS;
}

cl_int clGetEventProfilingInfo(cl_event e, cl_profiling_info what, size_t size, void *out,
                               size_t *size_out)
{
    (void)e, (void)what, (void)size, (void)out, (void)size_out;
    return CL_PROFILING_INFO_NOT_AVAILABLE;
}

/* --------------------------------------------------------------------- commands */

void (*stub_spy)(cl_kernel kernel);

/* Returns 0 if a buffer is too large to have memory. */
static int carry_out(const stub_command *c)
{
    unsigned char *const from = c->from != NULL ? stub_memory(c->from) : NULL;
    unsigned char *const to = c->to != NULL ? stub_memory(c->to) : NULL;
    if ((c->from != NULL && from == NULL) || (c->to != NULL && to == NULL))
        return 0;
    if (c->what == WRITE)
        memcpy(to + c->at_to, c->source, c->size);
    else if (c->what == READ)
        memcpy(c->target, from + c->at_from, c->size);
    else if (c->what == COPY)
        memcpy(to + c->at_to, from + c->at_from, c->size);
    else if (c->what == MOVE)
        memcpy(c->target, c->source, c->size);
    else if (c->what == RUN && c->kernel != NULL)
        c->kernel->run(c->argument, c->global);
    for (size_t i = 0; c->what == FILL && i < c->size; i += c->n_pattern)
        memcpy(to + c->at_to + i, c->pattern, c->n_pattern);
    return 1;
}

/* Retains the objects that a command uses until it is over. */
static void keep(const stub_command *c)
{
    if (c->from != NULL)
        clRetainMemObject(c->from);
    if (c->to != NULL)
        clRetainMemObject(c->to);
    for (int i = 0; c->kernel != NULL && i < 64; i++)
        if (c->kernel->buffers >> i & 1u)
            clRetainMemObject(c->argument[i].mem);
}

static void let_go(const stub_command *c)
{
    if (c->from != NULL)
        clReleaseMemObject(c->from);
    if (c->to != NULL)
        clReleaseMemObject(c->to);
    for (int i = 0; c->kernel != NULL && i < 64; i++)
        if (c->kernel->buffers >> i & 1u)
            clReleaseMemObject(c->argument[i].mem);
}

static void run(stub_command *c)
{
    cl_int state = CL_COMPLETE;
    for (cl_uint i = 0; i < c->n_wait; i++) {
        if (await(c->wait[i]) < 0)
            state = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
        clReleaseEvent(c->wait[i]);
    }
    if (state == CL_COMPLETE && !carry_out(c))
        state = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    let_go(c);
    end(c->event, state);
    clReleaseEvent(c->event);
    free(c->wait);
    free(c);
}

static void *serve(void *data)
{
    cl_command_queue const q = data;
    for (;;) {
        pthread_mutex_lock(&q->lock);
        while (q->flushed == 0 && !q->closing)
            pthread_cond_wait(&q->more, &q->lock);
        stub_command *const c = q->first;
        if (c != NULL && (q->first = c->next) == NULL)
            q->end = &q->first;
        q->commands -= c != NULL;
        q->flushed -= q->flushed != 0;
        pthread_mutex_unlock(&q->lock);
        if (c == NULL)
            return NULL;
        run(c);
    }
}

/* Copies a command into a queue. */
static cl_int enqueue(cl_command_queue q, const stub_command *what, cl_uint n_wait,
                      const cl_event *wait, cl_bool blocking, cl_event *event)
{
    if (q == NULL || q->object.kind != STUB_QUEUE)
        return CL_INVALID_COMMAND_QUEUE;
    if ((n_wait == 0) != (wait == NULL))
        return CL_INVALID_EVENT_WAIT_LIST;
    if ((what->from != NULL &&
         (what->at_from > what->from->size || what->size > what->from->size - what->at_from)) ||
        (what->to != NULL &&
         (what->at_to > what->to->size || what->size > what->to->size - what->at_to)))
        return CL_INVALID_VALUE;
    stub_command *const c = malloc(sizeof *c);
    if (c == NULL)
        return CL_OUT_OF_HOST_MEMORY;
    *c = *what;
    c->n_wait = n_wait;
    c->wait = n_wait != 0 ? malloc(n_wait * sizeof *wait) : NULL;
    for (cl_uint i = 0; i < n_wait; i++) {
        c->wait[i] = wait[i];
        clRetainEvent(wait[i]);
    }
    keep(c);
    const cl_event e = c->event = new_event(q->context);
    clRetainEvent(e); /* a reference for the caller: the command may end before this returns */
    pthread_mutex_lock(&q->lock);
    *q->end = c;
    q->end = &c->next;
    q->commands++;
    if (!stub_lazy || blocking)
        q->flushed = q->commands;
    pthread_cond_signal(&q->more);
    pthread_mutex_unlock(&q->lock);
    const cl_int state = blocking ? await(e) : CL_COMPLETE;
    if (event != NULL)
        *event = e;
    else
        clReleaseEvent(e);
    return state < 0 ? state : CL_SUCCESS;
}

cl_int clEnqueueWriteBuffer(cl_command_queue q, cl_mem to, cl_bool blocking, size_t at, size_t size,
                            const void *data, cl_uint n, const cl_event *wait, cl_event *event)
{
    const stub_command c = {.what = WRITE, .to = to, .at_to = at, .size = size, .source = data};
    return enqueue(q, &c, n, wait, blocking, event);
}

cl_int clEnqueueReadBuffer(cl_command_queue q, cl_mem from, cl_bool blocking, size_t at,
                           size_t size, void *data, cl_uint n, const cl_event *wait,
                           cl_event *event)
{
    const stub_command c = {
        .what = READ, .from = from, .at_from = at, .size = size, .target = data};
    return enqueue(q, &c, n, wait, blocking, event);
}

/* The number of bytes from a buffer's or an array's start to row `row` of a rectangle. */
static size_t rect_at(const size_t *origin, size_t row, size_t row_pitch)
{
    return origin[0] + (origin[1] + row) * row_pitch;
}

cl_int clEnqueueReadBufferRect(cl_command_queue q, cl_mem from, cl_bool blocking,
                               const size_t *origin, const size_t *host_origin,
                               const size_t *region, size_t row_pitch, size_t slice_pitch,
                               size_t host_row_pitch, size_t host_slice_pitch, void *data,
                               cl_uint n, const cl_event *wait, cl_event *event)
{
    cl_int code = CL_SUCCESS;
    (void)slice_pitch;
    (void)host_slice_pitch;
    for (size_t row = 0; row < region[1] && code == CL_SUCCESS; row++)
        code = clEnqueueReadBuffer(q, from, blocking, rect_at(origin, row, row_pitch), region[0],
                                   (char *)data + rect_at(host_origin, row, host_row_pitch), n,
                                   wait, row + 1 == region[1] ? event : NULL);
    return code;
}

cl_int clEnqueueWriteBufferRect(cl_command_queue q, cl_mem to, cl_bool blocking,
                                const size_t *origin, const size_t *host_origin,
                                const size_t *region, size_t row_pitch, size_t slice_pitch,
                                size_t host_row_pitch, size_t host_slice_pitch, const void *data,
                                cl_uint n, const cl_event *wait, cl_event *event)
{
    cl_int code = CL_SUCCESS;
    (void)slice_pitch;
    (void)host_slice_pitch;
    for (size_t row = 0; row < region[1] && code == CL_SUCCESS; row++)
        code = clEnqueueWriteBuffer(q, to, blocking, rect_at(origin, row, row_pitch), region[0],
                                    (const char *)data + rect_at(host_origin, row, host_row_pitch),
                                    n, wait, row + 1 == region[1] ? event : NULL);
    return code;
}

cl_int clEnqueueCopyBuffer(cl_command_queue q, cl_mem from, cl_mem to, size_t at_from, size_t at_to,
                           size_t size, cl_uint n, const cl_event *wait, cl_event *event)
{
    const stub_command c = {
        .what = COPY, .from = from, .to = to, .at_from = at_from, .at_to = at_to, .size = size};
    return enqueue(q, &c, n, wait, CL_FALSE, event);
}

cl_int CL_API_CALL stub_copy(cl_command_queue q, cl_bool blocking, void *to, const void *from,
                             size_t size, cl_uint n, const cl_event *wait, cl_event *event)
{
    const stub_command c = {.what = MOVE, .source = from, .target = to, .size = size};
    return enqueue(q, &c, n, wait, blocking, event);
}

cl_int clEnqueueFillBuffer(cl_command_queue q, cl_mem to, const void *pattern, size_t n_pattern,
                           size_t at, size_t size, cl_uint n, const cl_event *wait, cl_event *event)
{
    stub_command c = {.what = FILL, .to = to, .at_to = at, .size = size, .n_pattern = n_pattern};
    if (n_pattern == 0 || n_pattern > sizeof c.pattern || size % n_pattern != 0)
        return CL_INVALID_VALUE;
    memcpy(c.pattern, pattern, n_pattern);
    return enqueue(q, &c, n, wait, CL_FALSE, event);
}

cl_int clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel k, cl_uint dimensions,
                              const size_t *offset, const size_t *global, const size_t *local,
                              cl_uint n, const cl_event *wait, cl_event *event)
{
    stub_command c = {.what = RUN, .kernel = k->what};
    for (cl_uint i = 0; i < dimensions && i < 2; i++) {
        if (local != NULL && (local[i] == 0 || global[i] == 0 || global[i] % local[i] != 0))
            return CL_INVALID_WORK_GROUP_SIZE;
        if (i == 1 && local != NULL && global[i] / local[i] > STUB_GROUPS)
            return CL_INVALID_GLOBAL_WORK_SIZE;
        c.global[i] = global[i];
    }
    k->first = dimensions > 1 && offset != NULL ? offset[1] : 0;
    k->rows = dimensions > 1 ? global[1] : 1;
    if (stub_spy != NULL)
        stub_spy(k);
    memcpy(c.argument, k->argument, sizeof c.argument);
    return enqueue(q, &c, n, wait, CL_FALSE, event);
}

cl_int clEnqueueMarkerWithWaitList(cl_command_queue q, cl_uint n, const cl_event *wait,
                                   cl_event *event)
{
    return enqueue(q, &(const stub_command){.what = NOTHING}, n, wait, CL_FALSE, event);
}

cl_int clEnqueueBarrierWithWaitList(cl_command_queue q, cl_uint n, const cl_event *wait,
                                    cl_event *event)
{
    return clEnqueueMarkerWithWaitList(q, n, wait, event);
}

void *clEnqueueMapBuffer(cl_command_queue q, cl_mem m, cl_bool blocking, cl_map_flags flags,
                         size_t at, size_t size, cl_uint n, const cl_event *wait, cl_event *event,
                         cl_int *code)
{
    const stub_command c = {.what = NOTHING, .from = m, .at_from = at, .size = size};
    const cl_int result = enqueue(q, &c, n, wait, blocking, event);
    (void)flags;
    if (code != NULL)
        *code = result;
    return result == CL_SUCCESS ? stub_memory(m) + at : NULL;
}

cl_int clEnqueueUnmapMemObject(cl_command_queue q, cl_mem m, void *data, cl_uint n,
                               const cl_event *wait, cl_event *event)
{
    (void)data;
    return enqueue(q, &(const stub_command){.what = NOTHING, .from = m}, n, wait, CL_FALSE, event);
}

/* ----------------------------------------------------------------------- queues */

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device,
                                      cl_command_queue_properties properties, cl_int *code)
{
    cl_command_queue q = NULL;
    const cl_int known = clRetainContext(context);
    (void)device;
    if (known == CL_SUCCESS) {
        q = stub_new(STUB_QUEUE, sizeof *q);
        q->context = context;
        q->properties = properties;
        q->end = &q->first;
        pthread_mutex_init(&q->lock, NULL);
        pthread_cond_init(&q->more, NULL);
        if (pthread_create(&q->thread, NULL, serve, q) != 0)
            abort();
    }
    if (code != NULL)
        *code = known;
    return q;
}

cl_int clRetainCommandQueue(cl_command_queue q)
{
    return stub_retain(&q->object, STUB_QUEUE, CL_INVALID_COMMAND_QUEUE);
}

/* Commands in the queue are still executed. */
cl_int clReleaseCommandQueue(cl_command_queue q)
{
    if (!stub_release(&q->object))
        return CL_SUCCESS;
    pthread_mutex_lock(&q->lock);
    q->closing = 1;
    pthread_cond_signal(&q->more);
    pthread_mutex_unlock(&q->lock);
    pthread_join(q->thread, NULL);
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->more);
    clReleaseContext(q->context);
    stub_free(&q->object);
    return CL_SUCCESS;
}

cl_int clGetCommandQueueInfo(cl_command_queue q, cl_command_queue_info what, size_t size, void *out,
                             size_t *size_out)
{
    union {
        cl_context context;
        cl_device_id device;
        cl_command_queue_properties properties;
    } value;
    size_t n;
    if (q == NULL || q->object.kind != STUB_QUEUE)
        return CL_INVALID_COMMAND_QUEUE;
    if (what == CL_QUEUE_CONTEXT)
        value.context = q->context, n = sizeof value.context;
    else if (what == CL_QUEUE_DEVICE)
        value.device = stub_device(), n = sizeof value.device;
    else if (what == CL_QUEUE_PROPERTIES)
        value.properties = q->properties, n = sizeof value.properties;
    else
        return CL_INVALID_VALUE;
    if (size < n)
        return CL_INVALID_VALUE;
    memcpy(out, &value, n);
    if (size_out != NULL)
        *size_out = n;
    return CL_SUCCESS;
}

cl_int clFlush(cl_command_queue q)
{
    if (q == NULL || q->object.kind != STUB_QUEUE)
        return CL_INVALID_COMMAND_QUEUE;
    pthread_mutex_lock(&q->lock);
    q->flushed = q->commands;
    pthread_cond_signal(&q->more);
    pthread_mutex_unlock(&q->lock);
    return CL_SUCCESS;
}

cl_int clFinish(cl_command_queue q)
{
    return enqueue(q, &(const stub_command){.what = NOTHING}, 0, NULL, CL_TRUE, NULL);
}
