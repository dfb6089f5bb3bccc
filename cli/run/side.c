/* SPDX-License-Identifier: MIT */
/* A side of clsample run: the sampler of a script on the host or on a device, the memory of its
 * calls, and the records of what they wrote. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "run/side.h"

enum { CANARY = 0x5a, MOST_AHEAD = 12 };

/* ---------------------------------------------------------------------- open */

/* Returns what the side's device does not have that the side needs, or NULL. */
static const char *lack_of(const run_side *side)
{
    cl_bitfield svm = 0, queues = 0;
    const cl_device_id id = side->target.device.id;
    const cls_opencl_functions *const cl = cls_opencl();
    clGetDeviceInfo(id, CL_DEVICE_QUEUE_PROPERTIES, sizeof queues, &queues, NULL);
    clGetDeviceInfo(id, 0x1053 /* CL_DEVICE_SVM_CAPABILITIES */, sizeof svm, &svm, NULL);
    if (side->way == RUN_OUT_OF_ORDER && !(queues & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE))
        return "the device has no queues that are out of order";
    if (side->way == RUN_SVM && (svm == 0 || cl->clSVMAlloc == NULL || cl->clSVMFree == NULL ||
                                 cl->clEnqueueSVMMemcpy == NULL))
        return "the device has no shared virtual memory";
    return NULL;
}

void run_open(run_side *side, const char *device, const run_side *opened)
{
    cl_int error = CL_SUCCESS;
    if (side->on_host) {
        if (cls_context_create_host(&side->options, &side->target.context) != CLS_OK)
            cli_die("%s", cli_reason());
        return;
    }
    if (opened == NULL && cli_open(device, &side->options, 0, &side->target) != 0)
        exit(cli_failure);
    if (opened != NULL)
        side->target = opened->target;
    side->shares = opened != NULL;
    side->lacks = lack_of(side);
    side->queue[0] = side->target.queue;
    if ((side->way == RUN_OUT_OF_ORDER || side->way == RUN_AHEAD) && side->lacks == NULL)
        side->queue[1] = clCreateCommandQueue(
            side->target.cl, side->target.device.id,
            side->way == RUN_AHEAD ? 0 : CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &error);
    if (error != CL_SUCCESS)
        cli_die("%s: a queue cannot be created (OpenCL error %d)", side->name, (int)error);
}

void run_close(run_side *side)
{
    run_end(side);
    if (side->queue[1] != NULL)
        clReleaseCommandQueue(side->queue[1]);
    side->target.queue = side->queue[0];
    if (side->on_host)
        cls_context_destroy(side->target.context);
    else if (!side->shares)
        cli_close(&side->target);
}

uint32_t run_samplers(const run_side *side) { return side->shards != 0 ? side->shards : 1; }

int32_t run_slot(const run_side *side, int32_t slot)
{
    const int32_t slots = (int32_t)side->sampler_options.slot_count;
    return side->way == RUN_PERMUTED && slot >= 0 && slot < slots ? slots - 1 - slot : slot;
}

void run_leave_out(run_side *side, const char *why) { side->left_out = why; }

/* --------------------------------------------------------------------- memory */

/* Returns an array of n elements with room for one more. It doubles at each power of two: a text of
 * 8,192 appends writes 90,000 records, which a sanitizer's realloc() copies each time. */
static void *one_more(void *array, uint32_t n, size_t size)
{
    return (n & (n - 1)) != 0 ? array : cli_grow(array, n != 0 ? 2 * (size_t)n : 1, size);
}

void run_finish(const run_side *side)
{
    for (int i = 0; i < 2 && !side->on_host; i++)
        if (side->queue[i] != NULL && clFinish(side->queue[i]) != CL_SUCCESS)
            run_die(side->now, "%s: the device failed", side->name);
}

bool run_again(run_side *side, uint32_t i, cls_status *status)
{
    const uint32_t missing =
        side->compiles_late && *status != CLS_OK ? cls_sampler_missing(side->sampler[i]) : 0;
    if (missing != 0) {
        *status = cli_compile_done(cls_sampler_compile(side->sampler[i], missing));
        return *status == CLS_OK;
    }
    if (*status != CLS_BUSY || side->was_busy) {
        side->was_busy = false;
        return false;
    }
    run_finish(side);
    return side->was_busy = true;
}

/* Bytes before and behind the memory of a side whose buffers have offsets. */
static size_t around(const run_side *side) { return side->way == RUN_PERMUTED ? 16 : 0; }

/* Memory for `size` bytes; b->offset is `pad`. */
static cls_buffer allocate(run_side *side, const void *data, size_t size, size_t pad)
{
    cls_buffer b = {.size = size, .offset = pad};
    unsigned char *const whole = cli_alloc(size + 2 * pad, 1);
    cl_int error = CL_SUCCESS;
    memset(whole, CANARY, size + 2 * pad);
    memcpy(whole + pad, data, size);
    if (side->on_host) {
        b.kind = CLS_BUFFER_HOST;
        b.pointer = whole;
        return b;
    }
    if (side->way == RUN_SVM) {
        b.kind = CLS_BUFFER_SVM;
        b.pointer = clSVMAlloc(side->target.cl, CL_MEM_READ_WRITE, size, 0);
        error = b.pointer == NULL ? CL_MEM_OBJECT_ALLOCATION_FAILURE
                                  : clEnqueueSVMMemcpy(side->target.queue, CL_TRUE, b.pointer,
                                                       whole, size, 0, NULL, NULL);
    } else {
        b.buffer = clCreateBuffer(side->target.cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                  size + 2 * pad, whole, &error);
    }
    if (error != CL_SUCCESS)
        run_die(side->now, "%s: a buffer of %zu bytes cannot be created (OpenCL error %d)",
                side->name, size, (int)error);
    cli_free(whole);
    return b;
}

/* Reads the whole memory of a result. */
static void read_back(const run_side *side, const cls_buffer *b, unsigned char *to)
{
    const size_t size = (size_t)(b->size + 2 * b->offset);
    cl_int error = CL_SUCCESS;
    if (side->on_host)
        memcpy(to, b->pointer, size);
    else if (side->way == RUN_SVM)
        error =
            clEnqueueSVMMemcpy(side->target.queue, CL_TRUE, to, b->pointer, size, 0, NULL, NULL);
    else
        error =
            clEnqueueReadBuffer(side->target.queue, b->buffer, CL_TRUE, 0, size, to, 0, NULL, NULL);
    if (error != CL_SUCCESS)
        run_die(side->now, "%s: a result cannot be read", side->name);
}

static void release(const run_side *side, const cls_buffer *b)
{
    if (side->on_host)
        cli_free(b->pointer);
    else if (side->way == RUN_SVM)
        clSVMFree(side->target.cl, b->pointer);
    else
        clReleaseMemObject(b->buffer);
}

cls_buffer run_buffer(run_side *side, const void *data, size_t size)
{
    if (size == 0)
        return (cls_buffer){.buffer = NULL};
    const cls_buffer b = allocate(side, data, size, around(side));
    side->memory = one_more(side->memory, side->n_memory, sizeof *side->memory);
    side->memory[side->n_memory++] = b;
    return b;
}

void *run_passing(run_side *side, const void *data, size_t size)
{
    void *const copy = cli_alloc(size + 1, 1);
    memcpy(copy, data, size);
    side->passing = one_more(side->passing, side->n_passing, sizeof *side->passing);
    side->passing[side->n_passing++] = (run_passed){copy, size};
    return copy;
}

/* The call has returned: it must not read what it was passed once more. */
static void end_passing(run_side *side)
{
    while (side->n_passing > 0) {
        const run_passed *const p = &side->passing[--side->n_passing];
        memset(p->memory, CANARY, p->size);
        cli_free(p->memory);
    }
}

static run_record *add_record(run_side *side, const char *name, size_t size)
{
    side->record = one_more(side->record, side->records, sizeof *side->record);
    run_record *const r = &side->record[side->records++];
    *r = (run_record){.statement = side->index, .name = name, .size = size, .width = 1};
    r->bytes = cli_alloc(size, 1);
    return r;
}

cls_buffer run_result(run_side *side, const char *name, uint32_t rows, size_t width, bool near)
{
    const size_t size = rows * width * sizeof(float);
    if (size == 0)
        return (cls_buffer){.buffer = NULL};
    if (width > RUN_MOST_ELEMENTS / rows)
        run_die(side->now, "%s: %" PRIu32 " rows of %zu elements are too many", name, rows, width);
    run_record *const r = add_record(side, name, size);
    r->near = near;
    r->width = width;
    /* Counters are added to. */
    memset(r->bytes, strcmp(name, "counters") == 0 ? 0 : CANARY, size);
    const cls_buffer b = run_buffer(side, r->bytes, size);
    side->pending = one_more(side->pending, side->n_pending, sizeof *side->pending);
    side->pending[side->n_pending++] =
        (run_pending){side->records - 1, side->reverses ? rows : 0, b};
    return b;
}

void run_note(run_side *side, const char *name, const void *bytes, size_t size)
{
    memcpy(add_record(side, name, size)->bytes, bytes, size);
}

void run_returned(run_side *side, cls_status status, uint32_t since)
{
    end_passing(side);
    if (status != CLS_OK) { /* nothing was written */
        side->records = since;
        while (side->n_pending > 0 && side->pending[side->n_pending - 1].record >= since)
            side->n_pending--;
        const char *const message = cls_error_message();
        run_note(side, "refusal", message, strlen(message));
        if (side->dies)
            run_die(side->now, "%s", cli_reason());
    }
    if (status == CLS_OPENCL_ERROR || status == CLS_LOST || status == CLS_BUILD_FAILED ||
        status == CLS_SELF_TEST_FAILED)
        run_die(side->now, "%s: %s", side->name, cli_reason());
    const int32_t value = status;
    run_note(side, "returned", &value, sizeof value);
    if (side->way != RUN_AHEAD || side->n_pending > MOST_AHEAD)
        run_drain(side);
}

const run_record *run_record_of(const run_side *side, uint32_t statement, const char *name)
{
    uint32_t lo = 0, hi = side->records;
    while (lo < hi) {
        const uint32_t middle = (lo + hi) / 2;
        if (side->record[middle].statement < statement)
            lo = middle + 1;
        else
            hi = middle;
    }
    for (; lo < side->records && side->record[lo].statement == statement; lo++)
        if (strcmp(side->record[lo].name, name) == 0)
            return &side->record[lo];
    return NULL;
}

cls_status run_reference(const run_side *side)
{
    const run_side *const of = side->reference;
    const run_record *const r = of != NULL ? run_record_of(of, side->index, "returned") : NULL;
    cls_status status = CLS_OK;
    if (r != NULL)
        memcpy(&status, r->bytes, sizeof(int32_t));
    return status;
}

static void read_result(const run_side *side, const cls_buffer *b, run_record *r)
{
    const size_t pad = (size_t)b->offset;
    unsigned char *const whole = cli_alloc(r->size + 2 * pad, 1);
    read_back(side, b, whole);
    memcpy(r->bytes, whole + pad, r->size);
    for (size_t i = 0; i < pad; i++)
        if (whole[i] != CANARY || whole[pad + r->size + i] != CANARY)
            r->name = "memory around a result";
    cli_free(whole);
}

static void release_memory(run_side *side)
{
    for (uint32_t i = 0; i < side->n_memory; i++)
        release(side, &side->memory[i]);
    side->n_memory = side->n_pending = 0;
}

void run_drain(run_side *side)
{
    if (side->n_memory != 0)
        run_finish(side);
    for (uint32_t i = 0; i < side->n_pending; i++) {
        run_record *const r = &side->record[side->pending[i].record];
        read_result(side, &side->pending[i].buffer, r);
        const uint32_t rows = side->pending[i].reverse;
        if (rows > 1)
            r->bytes = run_turned(r->bytes, rows, r->size / rows);
    }
    release_memory(side);
}

void run_abandon(run_side *side)
{
    run_finish(side);
    release_memory(side);
    run_end(side);
}

/* ---------------------------------------------------------------------- names */

run_named *run_name_find(run_side *side, const char *name)
{
    for (uint32_t i = 0; i < side->names; i++)
        if (strcmp(side->named[i].name, name) == 0)
            return &side->named[i];
    return NULL;
}

static void destroy_named(const run_named *named)
{
    if (named->size == 0 && !named->given)
        cls_grammar_destroy(named->object);
}

run_named *run_name_set(run_side *side, const char *name, void *object, size_t size)
{
    run_named *found = run_name_find(side, name);
    if (found == NULL) {
        side->named = cli_grow(side->named, side->names + (size_t)1, sizeof *side->named);
        found = &side->named[side->names++];
    } else {
        destroy_named(found);
    }
    *found = (run_named){.name = name, .object = object, .size = size};
    return found;
}

bool run_has_rules(const run_side *side, int32_t slot)
{
    const run_statement *const s = side->rules[slot];
    return s != NULL && strcmp(s->verb, "load") != 0;
}

/* ------------------------------------------------------------------------- end */

void run_end_samplers(run_side *side)
{
    for (uint32_t i = 0; i < RUN_MOST_SHARDS; i++) {
        cls_shard_destroy(side->shard[i]);
        cls_sampler_destroy(side->sampler[i]);
        side->shard[i] = NULL;
        side->sampler[i] = NULL;
    }
}

void run_end(run_side *side)
{
    run_end_samplers(side);
    for (uint32_t i = 0; i < side->names; i++)
        destroy_named(&side->named[i]);
    side->names = 0;
    side->named = NULL; /* these arrays are freed with the script's memory */
    side->memory = NULL;
    side->pending = NULL;
    side->passing = NULL;
    side->n_passing = 0;
}
