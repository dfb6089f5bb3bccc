/* SPDX-License-Identifier: MIT */
/* Runs a job on devices, as a runtime would call the library: by one sampler or, if the vocabulary
 * is split, by a sampler for each shard. */
#include <inttypes.h>
#include <string.h>

#include "results.h"
#include "shards.h"

/* A sampler and its buffers. */
typedef struct side {
    cli_target *target;
    cls_sampler *sampler;
    uint32_t first, width; /* the tokens whose logits it has */
    cl_mem logits, mask, bias, results;
    cls_outputs wanted; /* of the current step */
} side;

typedef struct running {
    const cli_job *job;
    uint32_t count;
    side *side;          /* [count] */
    cli_shards shards;   /* one for each side, if the vocabulary is split */
    uint32_t *positions; /* [rows], of the next draw */
} running;

static bool is_split(const cli_job *job) { return job->split.shards != 0; }

/* ---------------------------------------------------------------- preparations */

/* Creates the buffer with the logits of the side's tokens. */
static int create_logits(const cli_job *job, side *s)
{
    const cli_logits *const from = job->logits;
    const size_t row = s->width * from->size, whole = from->vocab * from->size;
    if (!is_split(job))
        return cli_buffer(s->target, &s->logits, "logits", from->rows * row, from->data);
    char *const some = cli_alloc(from->rows, row);
    for (size_t r = 0; r < from->rows; r++)
        memcpy(some + r * row, (const char *)from->data + r * whole + s->first * from->size, row);
    const int failed = cli_buffer(s->target, &s->logits, "logits", from->rows * row, some);
    cli_free(some);
    return failed;
}

int cli_sampler_create(const cli_target *target, const cli_job *job,
                       const cls_sampler_options *options, cls_sampler **sampler)
{
    return cli_try(cli_compile_done(cls_sampler_create(target->context, options, sampler)),
                   "creating the sampler") ||
           (job->infill != NULL &&
            cli_try(cls_sampler_infill(*sampler, job->infill), "setting the infill tables"));
}

/* Creates the side's sampler with its slots, its shard and its buffers. */
static int create_side(running *run, side *s)
{
    const cli_job *const job = run->job;
    const size_t rows = job->logits->rows;
    cls_sampler_options options;
    cli_sampler_options(job, job->logits->rows, &options);
    options.max_rows = job->logits->rows;
    if (cli_sampler_create(s->target, job, &options, &s->sampler) != 0)
        return 1;
    for (uint32_t r = 0; r < job->logits->rows; r++)
        if (cli_slot_begin(job, r, s->sampler, r) != 0)
            return 1;
    s->width = job->logits->vocab;
    return (is_split(job) && cli_shards_add(&run->shards, &job->split, s->sampler, s->target->queue,
                                            &s->first, &s->width)) ||
           create_logits(job, s) ||
           cli_buffer(s->target, &s->mask, "mask", rows * cli_mask_size(job), job->mask) ||
           cli_buffer(s->target, &s->bias, "bias", rows * cli_bias_size(job), job->bias) ||
           cli_buffer(s->target, &s->results, "results", job->results->size, NULL);
}

/* Allocates the results on the host, with room for as many candidates as every device can return.
 */
static int alloc_results(const running *run)
{
    uint32_t most = UINT32_MAX;
    for (uint32_t i = 0; i < run->count; i++) {
        cls_device_info info = {.struct_size = sizeof info};
        if (cli_try(cls_context_info(run->side[i].target->context, &info), "querying the device"))
            return 1;
        most = info.shortlist < most ? info.shortlist : most;
    }
    cli_results_alloc(run->job, most);
    return 0;
}

static int create_all(cli_target *targets, running *run)
{
    const cli_job *const job = run->job;
    const uint32_t rows = job->logits->rows;
    run->side = cli_alloc(run->count, sizeof *run->side);
    run->positions = cli_alloc(rows, sizeof *run->positions);
    for (uint32_t r = 0; r < rows; r++)
        run->positions[r] = (uint32_t)cli_position(job, r);
    for (uint32_t i = 0; i < run->count; i++)
        run->side[i].target = &targets[i % job->split.targets];
    if (alloc_results(run) != 0)
        return 1;
    if (is_split(job))
        cli_shards_alloc(&run->shards, run->count);
    for (uint32_t i = 0; i < run->count; i++)
        if (create_side(run, &run->side[i]) != 0)
            return 1;
    return 0;
}

/* ---------------------------------------------------------------------- steps */

/* Describes the step of a draw. The slots do not change; each step has its own positions. */
static void make_step(const running *run, side *s, uint32_t draw, cls_step *step)
{
    const cli_job *const job = run->job;
    cls_outputs_init(&s->wanted);
    cls_step_init(step);
    step->outputs = &s->wanted;
    step->rows = job->logits->rows;
    step->defer_accept = 1;
    step->logits.dtype = (int32_t)job->logits->dtype;
    step->logits.values.buffer = s->logits;
    step->positions.host = (const int32_t *)run->positions;
    step->mask.words.buffer = s->mask;
    step->mask.width = job->mask_width;
    step->mask.kind = (int32_t)job->mask_kind;
    step->bias.values.buffer = s->bias;
    step->bias.dtype = (int32_t)job->bias_dtype;
    step->bias.factor = job->bias_factor;
    cli_results_bind(job->results, draw, s->results, step, &s->wanted);
}

/* Enqueues a step of the only sampler. */
static int sample(side *s, const cls_step *step)
{
    cls_status status;
    CLI_RETRY(status, s->target->queue,
              cls_sample(s->sampler, s->target->queue, step, 0, NULL, NULL));
    return cli_try(status, "sampling");
}

/* Enqueues one step for each draw. */
static int enqueue(running *run)
{
    const cli_job *const job = run->job;
    cls_step step;
    for (uint32_t d = 0; d < job->results->draws; d++) {
        for (uint32_t i = 0; i < run->count; i++)
            make_step(run, &run->side[i], d, is_split(job) ? &run->shards.step[i] : &step);
        if (is_split(job) ? cli_shards_step(&run->shards, NULL) : sample(run->side, &step))
            return 1;
        for (uint32_t r = 0; r < job->logits->rows; r++)
            run->positions[r]++;
    }
    return 0;
}

/* -------------------------------------------------------------------- results */

/* Reads the results of the first side. It fails if the tokens of another one differ. */
static int fetch(const running *run)
{
    const cli_results *const results = run->job->results;
    const size_t size = (size_t)results->rows * results->draws * 4;
    const side *const first = run->side;
    int32_t *const tokens = cli_alloc(1, size);
    if (cli_fetch(first->target, first->results, results->data, results->size) != 0)
        return 1;
    for (uint32_t i = 1; i < run->count; i++) {
        if (cli_fetch(run->side[i].target, run->side[i].results, tokens, size) != 0)
            return 1;
        if (memcmp(tokens, cli_ints(results, CLI_TOKENS, 0), size) != 0)
            return cli_fail("shard %" PRIu32 " drew other tokens than shard 0", i);
    }
    cli_results_turn(results);
    return 0;
}

int cli_job_run_on(cli_target *targets, const cli_job *job)
{
    running run = {.job = job, .count = is_split(job) ? job->split.shards : 1};
    const int failed = create_all(targets, &run) || enqueue(&run) || fetch(&run);
    for (uint32_t i = 0; i < job->split.targets; i++)
        clFinish(targets[i].queue);
    cli_shards_free(&run.shards);
    for (uint32_t i = 0; i < run.count; i++)
        cls_sampler_destroy(run.side[i].sampler);
    return failed;
}
