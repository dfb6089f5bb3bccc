/* SPDX-License-Identifier: MIT */
/* Steps that are enqueued ahead of their results, on two queues. */
#include <inttypes.h>
#include <string.h>

#include "accept/accept.h"

enum { AHEAD = 32 }; /* steps that are enqueued before any of them is waited for */

/* A run of steps of one size: the device's tokens in one buffer, and the host's. */
typedef struct stretch {
    const accept_test *t;
    uint32_t rows, vocab;
    cls_sampler *device, *host;
    cl_mem logits, tokens;
    void *data; /* the logits: one more row than the step has, so that each step reads others */
    int32_t *got, *should;
} stretch;

static int begin_requests(const stretch *s, cls_sampler *sampler)
{
    static const struct {
        float temperature, top_p, min_p;
        int32_t top_k;
    } kinds[] = {{0.0f, 1.0f, 0.0f, 0},   {0.8f, 1.0f, 0.0f, 0}, {1.0f, 0.9f, 0.0f, 50},
                 {0.7f, 1.0f, 0.05f, 40}, {1.3f, 0.9f, 0.0f, 0}, {1.0f, 1.0f, 0.02f, 0}};
    const size_t n = sizeof kinds / sizeof *kinds;
    for (uint32_t i = 0; i < s->rows; i++) {
        cls_params p;
        cls_params_init(&p);
        p.temperature = kinds[i % n].temperature;
        p.top_p = kinds[i % n].top_p;
        p.min_p = kinds[i % n].min_p;
        p.top_k = kinds[i % n].top_k;
        p.repetition_penalty = i % 4 == 3 ? 1.2f : 1.0f;
        p.seed = s->t->job->seed;
        p.stream = i;
        if (cli_compile_done(cls_slot_begin(sampler, i, &p, NULL)) != CLS_OK)
            return accept_fail("a request");
    }
    return 0;
}

static int open_stretch(stretch *s)
{
    cls_sampler_options o;
    cl_int error = CL_SUCCESS, other = CL_SUCCESS;
    const size_t size = ((size_t)s->rows + 1) * s->vocab * sizeof(float);
    const cli_target *const on = &s->t->device.target;
    cls_sampler_options_init(&o);
    o.late_compile = 1;
    o.vocab = s->vocab;
    o.max_rows = s->rows;
    o.dtypes = 1u << CLS_F32;
    o.features =
        CLS_FEATURE_PLAIN | CLS_FEATURE_SHORTLIST | CLS_FEATURE_SEARCH | CLS_FEATURE_PENALTIES;
    s->data = run_random_logits(s->t->job->seed, -1, s->rows + 1, s->vocab, CLS_F32);
    s->got = cli_alloc((size_t)AHEAD * s->rows, sizeof *s->got);
    s->should = cli_alloc((size_t)AHEAD * s->rows, sizeof *s->should);
    if (cli_compile_done(cls_sampler_create(on->context, &o, &s->device)) != CLS_OK ||
        cls_sampler_create(s->t->host.target.context, &o, &s->host) != CLS_OK)
        return accept_fail("a sampler");
    s->logits =
        clCreateBuffer(on->cl, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, size, s->data, &error);
    s->tokens = clCreateBuffer(on->cl, CL_MEM_READ_WRITE, (size_t)AHEAD * s->rows * sizeof *s->got,
                               NULL, &other);
    if (error != CL_SUCCESS || other != CL_SUCCESS)
        return accept_find("memory", NULL, "the device has no memory for the logits of a step");
    return begin_requests(s, s->device) || begin_requests(s, s->host);
}

static void close_stretch(stretch *s)
{
    cls_sampler_destroy(s->device);
    cls_sampler_destroy(s->host);
    if (s->logits != NULL)
        clReleaseMemObject(s->logits);
    if (s->tokens != NULL)
        clReleaseMemObject(s->tokens);
}

/* Step i reads its rows from row i % 2 on, and writes its tokens behind those of step i - 1. */
static cls_step step_of(const stretch *s, uint32_t i)
{
    cls_step step;
    cls_step_init(&step);
    step.rows = s->rows;
    step.logits.dtype = CLS_F32;
    step.logits.values.buffer = s->logits;
    step.logits.values.offset = (uint64_t)(i % 2) * s->vocab * sizeof(float);
    step.tokens.buffer = s->tokens;
    step.tokens.offset = (uint64_t)i * s->rows * sizeof *s->got;
    return step;
}

static int sample_ahead(const stretch *s, double *took)
{
    const run_side *const of = &s->t->ahead;
    const double begin = cli_seconds();
    for (uint32_t i = 0; i < AHEAD; i++) {
        const cls_step step = step_of(s, i);
        cl_command_queue const queue = of->queue[i / 3 % 2];
        cls_status status = cls_sample(s->device, queue, &step, 0, NULL, NULL);
        if (status == CLS_BUSY) {
            run_finish(of);
            status = cls_sample(s->device, queue, &step, 0, NULL, NULL);
        }
        if (status != CLS_OK)
            return accept_fail("a step");
        clFlush(queue);
    }
    run_finish(of);
    *took = (cli_seconds() - begin) / AHEAD;
    if (clEnqueueReadBuffer(of->queue[0], s->tokens, CL_TRUE, 0,
                            (size_t)AHEAD * s->rows * sizeof *s->got, s->got, 0, NULL,
                            NULL) != CL_SUCCESS)
        return accept_find("a step", NULL, "the tokens of a step cannot be read");
    return 0;
}

static int sample_on_host(const stretch *s)
{
    for (uint32_t i = 0; i < AHEAD; i++) {
        cls_step step = step_of(s, i);
        step.logits.values = (cls_buffer){.pointer = (char *)s->data + step.logits.values.offset,
                                          .size = (uint64_t)s->rows * s->vocab * sizeof(float),
                                          .kind = CLS_BUFFER_HOST};
        step.tokens = (cls_buffer){.pointer = s->should + (size_t)i * s->rows,
                                   .size = s->rows * sizeof *s->should,
                                   .kind = CLS_BUFFER_HOST};
        if (cls_sample(s->host, NULL, &step, 0, NULL, NULL) != CLS_OK)
            return accept_fail("a step of the host");
    }
    return 0;
}

static int compare_stretch(const stretch *s)
{
    char text[200];
    for (uint32_t i = 0; i < AHEAD * s->rows; i++) {
        if (s->got[i] == s->should[i])
            continue;
        snprintf(text, sizeof text,
                 "steps ahead on two queues, %" PRIu32 " rows of %" PRIu32 " tokens: step %" PRIu32
                 ", row %" PRIu32 " is %" PRId32 ", on the host %" PRId32,
                 s->rows, s->vocab, i / s->rows, i % s->rows, s->got[i], s->should[i]);
        json_t *const programs = accept_names_of(0);
        const char *const name = accept_suspect(programs);
        accept_say("finding", json_pack("{s:s, s:o, s:s, s:o}", "what", "a result", "program",
                                        name != NULL ? json_string(name) : json_null(), "message",
                                        text, "programs", programs));
        return 1;
    }
    return 0;
}

/* Several stretches of one size; what the first one took includes what the driver does once. */
static int test_stretch(const accept_test *t, uint32_t rows, uint32_t vocab, json_t *row)
{
    static const uint32_t no_statement;
    const void *const memory = cli_memory();
    stretch s = {.t = t, .rows = rows, .vocab = vocab};
    double least = 0, took = 0;
    int failed = open_stretch(&s);
    for (int i = 0; i < 3 && !failed; i++) {
        accept_say("at", json_pack("{s:s, s:s}", "program", "steps ahead", "does", "run"));
        accept_names_begin(&no_statement);
        failed = sample_ahead(&s, &took) || sample_on_host(&s) || compare_stretch(&s);
        if (!failed)
            accept_names_agree();
        if (i == 0 || took < least)
            least = took;
    }
    close_stretch(&s);
    cli_memory_end(memory);
    json_object_set_new(row, "seconds", json_real(least));
    return failed;
}

int accept_steps(accept_test *t)
{
    static const uint32_t sizes[] = {1, 16, 64};
    json_t *const rows = json_array();
    json_int_t steps = 0;
    const uint32_t vocab = run_least(128256, t->job->largest_vocab);
    accept_names_begin(NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        json_t *const row = json_pack(
            "{s:I, s:I, s:I, s:f}", "rows", (json_int_t)run_least(sizes[i], t->job->largest_rows),
            "vocab", (json_int_t)vocab, "steps", (json_int_t)(3 * AHEAD), "seconds", 0.0);
        json_array_append_new(rows, row);
        if (test_stretch(t, run_least(sizes[i], t->job->largest_rows), vocab, row))
            return 1;
        steps += 3 * AHEAD;
        accept_say("seconds_a_step", json_deep_copy(rows));
        accept_say("steps", json_integer(steps));
    }
    return 0;
}
