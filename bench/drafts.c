/* SPDX-License-Identifier: MIT */
/* Verifies and times the verification of drafts: each request has some drafts, of which about 7 in
 * 10 are accepted. The probabilities of the drafts follow the logits in one buffer, so that the
 * floor reads everything that a verification reads. */
#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>

#define ROWS (BENCH_DRAFTS + 1)

typedef struct verification {
    bench_setup setup; /* its batch: the rows of logits, plus the probabilities counted in rows */
    const bench_case *c;
    uint32_t requests;
    int32_t *cu, *ids, *out;
    size_t probs;     /* byte offset of the probabilities */
    cls_buffer draft; /* the probabilities */
    cls_ints drafts;  /* the ids */
    cls_buffer to;    /* tokens, accepted, emitted, status, counters */
} verification;

static int with_probs(const verification *v) { return v->c->drafts != BENCH_MATCH; }

/* The numbers of int32 in the outputs: tokens, and all of them. */
static size_t tokens_of(const verification *v) { return (size_t)v->requests * ROWS; }
static size_t outputs_of(const verification *v)
{
    return tokens_of(v) + (3 + 3) * (size_t)v->requests;
}

/* What a draft is made of: the row whose distribution its model has, and the number that draws it.
 */
typedef struct origin {
    uint32_t row;
    double uniform;
} origin;

typedef struct making {
    const verification *v;
    origin *origins; /* of each draft */
} making;

static int make_draft(void *of, uint32_t draft)
{
    const making *const m = of;
    const bench_setup *const setup = &m->v->setup;
    const origin *const o = &m->origins[draft];
    float *const probs = (float *)((char *)setup->rows + m->v->probs);
    m->v->ids[draft] =
        with_probs(m->v) ? bench_fill_draft(probs + (size_t)draft * setup->vocab, setup->rows,
                                            setup->dtype, o->row, setup->vocab,
                                            (double)bench_params(m->v->c)->temperature, o->uniform)
                         : bench_likeliest(setup->rows, setup->dtype, o->row, setup->vocab);
    return 0;
}

/* Makes the drafts of a model that mostly has the distribution of the target's row, and otherwise
 * that of another row. The shares are such that 7 drafts in 10 are accepted if the earlier ones
 * were. */
static void make_drafts(verification *v)
{
    const uint32_t targets = v->requests * ROWS, n = v->requests * BENCH_DRAFTS;
    const uint32_t alike = with_probs(v) ? 86 : 66; /* in 100 */
    making m = {v, cli_alloc(n, sizeof *m.origins)};
    uint64_t state = 1;
    for (uint32_t draft = 0; draft < n; draft++) {
        const uint32_t target = draft / BENCH_DRAFTS * ROWS + draft % BENCH_DRAFTS;
        origin *const o = &m.origins[draft];
        o->row = bench_random(&state, 100) < alike ? target : (target + ROWS) % targets;
        o->uniform = with_probs(v) ? bench_uniform(&state) : 0.0;
    }
    bench_each(n, make_draft, &m);
}

static int open_buffers(verification *v)
{
    bench_setup *const setup = &v->setup;
    const size_t ids = (size_t)v->requests * BENCH_DRAFTS * sizeof(int32_t);
    cl_mem *const logits = &setup->logits.buffer, *const drafts = &v->drafts.device.buffer;
    cl_int error = CL_SUCCESS;
    *logits = clCreateBuffer(setup->on->cl, CL_MEM_READ_WRITE, setup->size, NULL, &error);
    if (error == CL_SUCCESS)
        *drafts = clCreateBuffer(setup->on->cl, CL_MEM_READ_WRITE, ids, NULL, &error);
    if (error == CL_SUCCESS)
        v->to.buffer = clCreateBuffer(setup->on->cl, CL_MEM_READ_WRITE,
                                      outputs_of(v) * sizeof(int32_t), NULL, &error);
    if (error == CL_SUCCESS)
        error = clEnqueueWriteBuffer(setup->on->queue, *logits, CL_TRUE, 0, setup->size,
                                     setup->rows, 0, NULL, NULL);
    if (error == CL_SUCCESS)
        error =
            clEnqueueWriteBuffer(setup->on->queue, *drafts, CL_TRUE, 0, ids, v->ids, 0, NULL, NULL);
    if (with_probs(v))
        v->draft = (cls_buffer){.buffer = *logits, .offset = v->probs};
    return cli_try_opencl(error, "bench: the drafts' buffers");
}

/* Creates the sampler of a verification's requests. */
static int new_sampler(verification *v)
{
    cls_sampler_options options;
    cls_sampler_options_init(&options);
    options.late_compile = 1;
    options.vocab = v->setup.vocab;
    options.max_rows = v->requests * ROWS;
    options.slot_count = v->requests;
    options.dtypes = 1u << v->setup.dtype;
    options.features = CLS_FEATURE_SHORTLIST | CLS_FEATURE_VERIFY;
    return cli_try(cls_sampler_create(v->setup.on->context, &options, &v->setup.sampler),
                   "bench: creating the sampler");
}

static int open_verification(verification *v)
{
    bench_setup *const setup = &v->setup;
    const size_t element = bench_dtype_size(setup->dtype), targets = (size_t)v->requests * ROWS;
    const size_t drafts = with_probs(v) ? (size_t)v->requests * BENCH_DRAFTS : 0;

    v->probs = (targets * setup->vocab * element + 3) / 4 * 4;
    setup->batch = (uint32_t)(targets + drafts * sizeof(float) / element);
    setup->size = v->probs + drafts * setup->vocab * sizeof(float) + BENCH_PAD * element;
    setup->rows = cli_alloc(setup->size, 1);
    v->cu = cli_alloc(v->requests + 1, sizeof *v->cu);
    v->ids = cli_alloc((size_t)v->requests * BENCH_DRAFTS, sizeof *v->ids);
    v->out = cli_alloc(outputs_of(v), sizeof *v->out);
    for (uint32_t i = 0; i <= v->requests; i++)
        v->cu[i] = (int32_t)(i * ROWS);
    if (bench_fill_rows(setup->rows, setup->dtype, (uint32_t)targets, setup->vocab, v->c->rows))
        return 1;
    make_drafts(v);
    return new_sampler(v) || open_buffers(v);
}

static void close_verification(verification *v)
{
    cls_sampler_destroy(v->setup.sampler);
    const cl_mem buffers[] = {v->to.buffer, v->drafts.device.buffer, v->setup.logits.buffer};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (buffers[i] != NULL)
            clReleaseMemObject(buffers[i]);
    cli_free(v->setup.rows);
}

static int32_t method(const bench_case *c)
{
    return c->drafts == BENCH_MATCH      ? CLS_VERIFY_MATCH
           : c->drafts == BENCH_STANDARD ? CLS_VERIFY_STANDARD
                                         : CLS_VERIFY_BLOCK;
}

static int begin_requests(const verification *v)
{
    for (uint32_t slot = 0; slot < v->requests; slot++) {
        cls_params params = *bench_params(v->c);
        params.seed = v->setup.first + slot;
        if (cli_try(cls_slot_begin(v->setup.sampler, slot, &params, NULL),
                    "bench: beginning a slot"))
            return 1;
    }
    return 0;
}

/* Begins the requests and clears the counters. */
static int begin(void *of)
{
    const verification *const v = of;
    const size_t counters = 3 * (size_t)v->requests * sizeof(int32_t);
    cl_int error;
    if (begin_requests(v))
        return 1;
    error =
        clEnqueueFillBuffer(v->setup.on->queue, v->to.buffer, &(cl_int){0}, sizeof(cl_int),
                            outputs_of(v) * sizeof(int32_t) - counters, counters, 0, NULL, NULL);
    return cli_try_opencl(error, "bench: the counters");
}

/* Returns the memory of outputs from the n-th number on. */
static cls_buffer output_from(const verification *v, size_t n)
{
    cls_buffer b = v->to;
    b.offset = n * sizeof(int32_t);
    b.size -= b.size != 0 ? b.offset : 0; /* it is 0 on a device */
    return b;
}

static int enqueue(void *of, cl_command_queue queue, cl_event *done)
{
    const verification *const v = of;
    const bench_setup *const setup = &v->setup;
    const size_t one = v->requests, tokens = tokens_of(v);
    cls_verify_call call;
    cls_verify_call_init(&call);
    call.requests = v->requests;
    call.method = method(v->c);
    call.row_offsets = v->cu;
    call.logits.values = setup->logits;
    call.logits.dtype = (int32_t)setup->dtype;
    call.draft_ids = v->drafts;
    call.draft_kind = with_probs(v) ? CLS_DRAFT_PROBS : CLS_DRAFT_NONE;
    call.draft = v->draft;
    call.max_drafts = BENCH_DRAFTS;
    call.tokens = v->to;
    call.accepted = output_from(v, tokens);
    call.emitted = output_from(v, tokens + one);
    call.status = output_from(v, tokens + 2 * one);
    call.counters = output_from(v, tokens + 3 * one);
    return cli_try(cls_verify(setup->sampler, queue, &call, 0, NULL, done),
                   "bench: the verification");
}

static int run(void *of)
{
    verification *const v = of;
    return enqueue(of, v->setup.on->queue, NULL) ||
           bench_read(&v->setup, &v->to, outputs_of(v) * sizeof(int32_t), v->out);
}

enum { NUMBERS = ROWS + 6 }; /* in the outputs of one request */

/* The reference's results: [requests] of a request each. */
typedef struct reference {
    const verification *v;
    int32_t (*out)[NUMBERS];
} reference;

static int verify_request(void *of, uint32_t i)
{
    const reference *const r = of;
    const bench_setup *const setup = &r->v->setup;
    const size_t logits = (size_t)ROWS * setup->vocab * bench_dtype_size(setup->dtype),
                 probs = (size_t)BENCH_DRAFTS * setup->vocab * sizeof(float);
    verification twin = *r->v;
    twin.setup.on = &setup->host;
    twin.setup.sampler = NULL;
    twin.setup.first = i;
    twin.setup.logits = bench_memory((char *)setup->rows + i * logits, logits);
    twin.requests = 1;
    if (with_probs(&twin))
        twin.draft = bench_memory((char *)setup->rows + twin.probs + i * probs, probs);
    twin.drafts = (cls_ints){.host = twin.ids + (size_t)i * BENCH_DRAFTS};
    twin.to = bench_memory(r->out[i], sizeof r->out[i]);
    const int failed = cli_interrupted() || new_sampler(&twin) || begin_requests(&twin) ||
                       enqueue(&twin, NULL, NULL);
    cls_sampler_destroy(twin.setup.sampler);
    return failed;
}

/* Compares the results that run() has read with the reference's. */
static int compare(const verification *v, const int32_t expected[NUMBERS], uint32_t i)
{
    const int32_t *const tokens = v->out + (size_t)i * ROWS, *const rest = expected + ROWS;
    int32_t of[3]; /* accepted, emitted, status */
    for (size_t k = 0; k < 3; k++)
        of[k] = v->out[tokens_of(v) + k * v->requests + i];
    if (memcmp(tokens, expected, ROWS * sizeof *tokens) != 0 || memcmp(of, rest, sizeof of) != 0)
        return cli_fail("bench: %s, request %u: the device accepted %d drafts and emitted %d "
                        "tokens (first token %d, status %d), but the reference accepted %d and "
                        "emitted %d (first token %d, status %d)",
                        v->c->name, (unsigned)i, (int)of[0], (int)of[1], (int)tokens[0], (int)of[2],
                        (int)rest[0], (int)rest[1], (int)expected[0], (int)rest[2]);
    return 0;
}

static int check(const verification *v)
{
    reference r = {v, cli_alloc(v->requests, sizeof *r.out)};
    int failed = bench_each(v->requests, verify_request, &r);
    for (uint32_t i = 0; i < v->requests && !failed; i++)
        failed = compare(v, r.out[i], i);
    return failed;
}

static int measure(verification *v, bench_result *result)
{
    const bench_steps steps = {begin, enqueue, run, v};
    const int32_t *counters;
    uint64_t drafted = 0, accepted = 0;
    bench_floor floor;
    int failed;
    if (begin(v) || run(v) || check(v))
        return 1;
    memset(&floor, 0, sizeof floor);
    failed =
        bench_floor_open(&floor, &v->setup) || bench_time_steps(&v->setup, &floor, &steps, result);
    bench_floor_close(&floor);
    counters = v->out + outputs_of(v) - 3 * (size_t)v->requests;
    for (uint32_t i = 0; i < v->requests; i++) {
        drafted += (uint32_t)counters[3 * i];
        accepted += (uint32_t)counters[3 * i + 1];
    }
    result->accepted = drafted == 0 ? 0.0 : (double)accepted / (double)drafted;
    result->host_bytes = outputs_of(v) * sizeof(int32_t);
    return failed;
}

int bench_verify_drafts(const bench_setup *setup, const bench_case *c, bench_result *result)
{
    verification v = {.setup = *setup, .c = c, .requests = setup->batch};
    int failed;
    v.setup.sampler = NULL;
    v.setup.logits = (cls_buffer){.buffer = NULL};
    v.setup.rows = NULL;
    failed = open_verification(&v) || measure(&v, result);
    close_verification(&v);
    return failed;
}
