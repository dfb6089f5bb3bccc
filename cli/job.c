/* SPDX-License-Identifier: MIT */
/* Runs a job: samples rows of logits on the device, as a runtime would call the library, or by the
 * reference on the host. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "outputs.h"

uint64_t cli_position(const cli_job *job, uint32_t request)
{
    uint64_t position = job->params[request].position;
    for (uint32_t i = 0; i < job->output.width; i++) {
        const int32_t id = job->output.ids[(size_t)request * job->output.width + i];
        position += id >= 0 && (uint32_t)id < job->logits->vocab;
    }
    return position;
}

size_t cli_mask_size(const cli_job *job) { return job->mask_kind == CLS_MASK_BOOL ? 1 : 4; }
size_t cli_bias_size(const cli_job *job) { return job->bias_dtype == CLS_F32 ? 4 : 2; }

static const int32_t *row_of(const cli_tokens *tokens, uint32_t r)
{
    return tokens->ids == NULL ? NULL : tokens->ids + (size_t)r * tokens->width;
}

/* ------------------------------------------------------------------ the device */

/* The objects on the device. */
typedef struct device_side {
    cls_sampler *sampler;
    cl_mem logits, mask, bias, tokens, logprobs, status, probs, outputs;
    uint32_t *positions; /* [rows], of the next draw */
} device_side;

static void release_all(device_side *side)
{
    const cl_mem all[] = {side->logits,   side->mask,   side->bias,  side->tokens,
                          side->logprobs, side->status, side->probs, side->outputs};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] != NULL)
            clReleaseMemObject(all[i]);
    cls_sampler_destroy(side->sampler);
    free(side->positions);
}

int cli_buffer(cli_target *target, cl_mem *buffer, const char *what, size_t size, const void *from)
{
    cl_int error;
    void *copy = NULL;
    memcpy(&copy, &from, sizeof copy); /* OpenCL reads it, but takes a pointer to non-const */
    *buffer = clCreateBuffer(
        target->cl, from == NULL ? CL_MEM_WRITE_ONLY : CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
        size, copy, &error);
    return error == CL_SUCCESS
               ? 0
               : cli_fail("%s: a buffer of %zu bytes cannot be created (OpenCL error %d)", what,
                          size, (int)error);
}

/* Requests only the state that the parameters need, because it is large. */
void cli_sampler_options(const cli_job *job, uint32_t requests, cls_sampler_options *options)
{
    cls_sampler_options_default(options, sizeof *options);
    options->vocab = job->logits->vocab;
    options->keep = CLS_KEEP_NONE;
    options->logit_bias = 0;
    for (uint32_t i = 0; i < requests; i++) {
        const cls_params *p = &job->params[i];
        if (p->repetition_penalty != 1.0f || p->frequency_penalty != 0.0f ||
            p->presence_penalty != 0.0f)
            options->keep = CLS_KEEP_COUNTS;
        if (p->logit_bias_count != 0 || p->allowed_count != 0)
            options->logit_bias = 1;
    }
    options->history = job->history;
    options->dtypes = 1u << job->logits->dtype;
    options->features =
        CLS_FEATURE_LISTS | (job->mask != NULL ? CLS_FEATURE_MASK : 0u) |
        (job->bias != NULL ? CLS_FEATURE_BIAS : 0u) |
        (job->logprobs != NULL || job->outputs != NULL ? CLS_FEATURE_LOGPROBS : 0u) |
        (job->probs != NULL || job->outputs != NULL ? CLS_FEATURE_PROBS : 0u);
}

int cli_slot_begin(const cli_job *job, uint32_t request, cls_sampler *sampler, uint32_t slot)
{
    if (cli_compile_done(cls_slot_begin(
            sampler, slot, &job->params[request], row_of(&job->prompt, request), job->prompt.width,
            row_of(&job->output, request), job->output.width)) == CLS_OK)
        return 0;
    return cli_fail("row %" PRIu32 ": %s", cli_row_number(job->picked, request),
                    cls_error_message());
}

static int begin_all(const cli_job *job, cls_sampler *sampler)
{
    for (uint32_t r = 0; r < job->logits->rows; r++)
        if (cli_slot_begin(job, r, sampler, r) != 0)
            return 1;
    return 0;
}

/* Allocates the further outputs on host and device, with room for as many candidates as the
 * device can return. */
static int create_outputs(cli_target *target, const cli_job *job, device_side *side)
{
    cls_device_info info = {.struct_size = sizeof info};
    if (job->outputs == NULL)
        return 0;
    if (cls_context_info(target->context, &info) != CLS_OK)
        return cli_fail_library("querying the device");
    return cli_outputs_alloc(job->outputs, job->logits->rows, info.shortlist) ||
           cli_buffer(target, &side->outputs, "outputs", job->outputs->size, NULL);
}

static int create_all(cli_target *target, const cli_job *job, device_side *side)
{
    const size_t rows = job->logits->rows, vocab = job->logits->vocab,
                 drawn = rows * job->draws * 4;
    cls_sampler_options options;
    cli_sampler_options(job, job->logits->rows, &options);
    options.max_rows = job->logits->rows;
    if (cli_compile_done(cls_sampler_create(target->context, &options, &side->sampler)) != CLS_OK)
        return cli_fail_library("creating the sampler");
    if (job->infill != NULL && cls_sampler_infill(side->sampler, job->infill) != CLS_OK)
        return cli_fail_library("setting the infill tables");
    if ((side->positions = calloc(rows, sizeof *side->positions)) == NULL)
        return cli_no_memory();
    for (uint32_t r = 0; r < rows; r++)
        side->positions[r] = (uint32_t)cli_position(job, r);
    return begin_all(job, side->sampler) ||
           cli_buffer(target, &side->logits, "logits", rows * vocab * job->logits->size,
                      job->logits->data) ||
           (job->mask != NULL &&
            cli_buffer(target, &side->mask, "mask", rows * job->mask_width * cli_mask_size(job),
                       job->mask)) ||
           (job->bias != NULL && cli_buffer(target, &side->bias, "bias",
                                            rows * vocab * cli_bias_size(job), job->bias)) ||
           cli_buffer(target, &side->tokens, "tokens", drawn, NULL) ||
           (job->logprobs != NULL &&
            cli_buffer(target, &side->logprobs, "logprobs", drawn, NULL)) ||
           (job->status != NULL && cli_buffer(target, &side->status, "status", drawn, NULL)) ||
           (job->probs != NULL &&
            cli_buffer(target, &side->probs, "probabilities", rows * vocab * 4, NULL)) ||
           create_outputs(target, job, side);
}

/* Enqueues one step for each draw. The slots do not change; each step has its own positions. */
static int enqueue(cli_target *target, const cli_job *job, device_side *side)
{
    const uint32_t rows = job->logits->rows;
    for (uint32_t d = 0; d < job->draws; d++) {
        cls_step step;
        cls_outputs outputs;
        cls_status status;
        cls_outputs_init(&outputs);
        cls_step_init(&step);
        step.outputs = &outputs;
        step.rows = rows;
        step.defer_accept = 1;
        step.logits.kind = CLS_LOGITS_BUFFER;
        step.logits.dtype = (int32_t)job->logits->dtype;
        step.logits.buffer = side->logits;
        step.positions.host = (const int32_t *)side->positions;
        step.mask.words.buffer = side->mask;
        step.mask.width = job->mask_width;
        step.mask.kind = (int32_t)job->mask_kind;
        step.bias.values.buffer = side->bias;
        step.bias.dtype = (int32_t)job->bias_dtype;
        step.tokens.buffer = side->tokens;
        step.tokens.offset = (uint64_t)d * rows * 4;
        outputs.logprobs.buffer = side->logprobs;
        outputs.logprobs.offset = step.tokens.offset;
        outputs.logprob_kind = (int32_t)job->kind;
        step.status.buffer = side->status;
        step.status.offset = step.tokens.offset;
        if (d == 0) {
            outputs.probs.buffer = side->probs;
            if (job->outputs != NULL)
                cli_outputs_bind(job->outputs, side->outputs, &outputs);
        }
        status = cls_sample(side->sampler, target->queue, &step, 0, NULL, NULL);
        if (status == CLS_BUSY) {
            clFinish(target->queue);
            status = cls_sample(side->sampler, target->queue, &step, 0, NULL, NULL);
        }
        if (status != CLS_OK)
            return cli_fail_library("sampling");
        for (uint32_t r = 0; r < rows; r++)
            side->positions[r]++;
    }
    return 0;
}

int cli_fetch(cli_target *target, cl_mem from, void *to, size_t size)
{
    const cl_int error =
        to == NULL ? CL_SUCCESS
                   : clEnqueueReadBuffer(target->queue, from, CL_TRUE, 0, size, to, 0, NULL, NULL);
    return error == CL_SUCCESS ? 0 : cli_fail_opencl("reading the results", error);
}

/* Reads [draws, rows] from the device and stores [rows, draws]. */
static int fetch_drawn(cli_target *target, const cli_job *job, cl_mem from, void *to)
{
    const size_t rows = job->logits->rows, draws = job->draws;
    uint32_t *words;
    int failed;
    if (to == NULL)
        return 0;
    if ((words = malloc(rows * draws * 4)) == NULL)
        return cli_no_memory();
    failed = cli_fetch(target, from, words, rows * draws * 4);
    for (size_t i = 0; i < rows * draws && !failed; i++)
        memcpy((char *)to + 4 * i, &words[i % draws * rows + i / draws], 4);
    free(words);
    return failed;
}

int cli_job_run(cli_target *target, const cli_job *job)
{
    const size_t probs_size = (size_t)job->logits->rows * job->logits->vocab * 4;
    device_side side = {0};
    const int failed = create_all(target, job, &side) || enqueue(target, job, &side) ||
                       fetch_drawn(target, job, side.tokens, job->tokens) ||
                       fetch_drawn(target, job, side.logprobs, job->logprobs) ||
                       fetch_drawn(target, job, side.status, job->status) ||
                       cli_fetch(target, side.probs, job->probs, probs_size) ||
                       (job->outputs != NULL &&
                        cli_fetch(target, side.outputs, job->outputs->data, job->outputs->size));
    clFinish(target->queue);
    release_all(&side);
    return failed;
}

/* -------------------------------------------------------------------- the host */

void cli_host_row(const cli_job *job, uint32_t request, uint32_t r, cls_host_row *row)
{
    const cli_logits *logits = job->logits;
    cls_host_row_default(row, sizeof *row);
    row->logits = (const char *)logits->data + (size_t)r * logits->vocab * logits->size;
    row->dtype = (int32_t)logits->dtype;
    row->vocab = logits->vocab;
    if (job->mask != NULL) {
        row->mask = (const char *)job->mask + (size_t)r * job->mask_width * cli_mask_size(job);
        row->mask_width = job->mask_width;
        row->mask_kind = (int32_t)job->mask_kind;
    }
    if (job->bias != NULL) {
        row->bias = (const char *)job->bias + (size_t)r * logits->vocab * cli_bias_size(job);
        row->bias_dtype = (int32_t)job->bias_dtype;
    }
    row->prompt = row_of(&job->prompt, request);
    row->prompt_count = job->prompt.width;
    row->output = row_of(&job->output, request);
    row->output_count = job->output.width;
    row->position = (uint32_t)cli_position(job, request);
    row->params = &job->params[request];
    row->history = job->history;
    row->infill = job->infill;
}

static int host_draw(const cli_job *job, uint32_t r, uint32_t d)
{
    const size_t at = (size_t)r * job->draws + d;
    cls_host_row row;
    cls_host_result result = {.struct_size = sizeof result};
    cli_host_row(job, r, r, &row);
    row.position += d;
    if (job->probs != NULL && d == 0)
        result.probs = job->probs + (size_t)r * job->logits->vocab;
    if (cls_host_sample(&row, &result) != CLS_OK)
        return cli_fail("row %" PRIu32 ": %s", cli_row_number(job->picked, r), cls_error_message());
    if (job->tokens != NULL)
        job->tokens[at] = result.token;
    if (job->logprobs != NULL)
        job->logprobs[at] =
            job->kind == CLS_LOGPROB_RAW ? result.logprob_raw : result.logprob_final;
    if (job->status != NULL)
        job->status[at] = result.status;
    if (job->outputs != NULL && d == 0)
        cli_outputs_host(job->logits, r, result.token, job->outputs);
    return 0;
}

int cli_job_run_host(const cli_job *job)
{
    if (job->outputs != NULL && cli_outputs_alloc(job->outputs, job->logits->rows, 0) != 0)
        return 1;
    for (uint32_t r = 0; r < job->logits->rows; r++)
        for (uint32_t d = 0; d < job->draws; d++)
            if (host_draw(job, r, d) != 0)
                return 1;
    return 0;
}
