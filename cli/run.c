/* SPDX-License-Identifier: MIT */
/* Rows of logits to tokens: as a runtime would call the library, and on the
 * host by the reference. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

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

/* What a run holds on the device. */
typedef struct device_side {
    cls_sampler *sampler;
    cl_mem logits, mask, bias, tokens, logprobs, status, probs, report;
    uint32_t *positions; /* of the next draw */
} device_side;

static void let_go(device_side *held)
{
    const cl_mem all[] = {held->logits,   held->mask,   held->bias,  held->tokens,
                          held->logprobs, held->status, held->probs, held->report};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] != NULL)
            clReleaseMemObject(all[i]);
    cls_sampler_destroy(held->sampler);
    free(held->positions);
}

int cli_buffer(cli_target *target, cl_mem *buffer, const char *what, size_t size, const void *from)
{
    cl_int error;
    void *copy = NULL;
    memcpy(&copy, &from, sizeof copy); /* OpenCL asks for a pointer to non-const, and only reads */
    *buffer = clCreateBuffer(
        target->cl, from == NULL ? CL_MEM_WRITE_ONLY : CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
        size, copy, &error);
    return error == CL_SUCCESS
               ? 0
               : cli_fail("%s: OpenCL error %d for a buffer of %zu bytes", what, (int)error, size);
}

/* The state that the parameters ask for, and no more: it is large. */
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
    options->features = CLS_FEATURE_LISTS | (job->mask != NULL ? CLS_FEATURE_MASK : 0u) |
                        (job->bias != NULL ? CLS_FEATURE_BIAS : 0u) |
                        (job->logprobs != NULL || job->report != NULL ? CLS_FEATURE_LOGPROBS : 0u) |
                        (job->probs != NULL || job->report != NULL ? CLS_FEATURE_PROBS : 0u);
}

int cli_slot_begin(const cli_job *job, uint32_t request, cls_sampler *sampler, uint32_t slot)
{
    if (cli_compiled(cls_slot_begin(sampler, slot, &job->params[request],
                                    row_of(&job->prompt, request), job->prompt.width,
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

/* Room for the report, on both sides: as many candidates as the device tells of. */
static int make_report(cli_target *target, const cli_job *job, device_side *held)
{
    cls_device_info info = {.struct_size = sizeof info};
    if (job->report == NULL)
        return 0;
    if (cls_context_info(target->context, &info) != CLS_OK)
        return cli_fail_library("device");
    return cli_report_make(job->report, job->logits->rows, info.shortlist) ||
           cli_buffer(target, &held->report, "report", job->report->size, NULL);
}

static int make_all(cli_target *target, const cli_job *job, device_side *held)
{
    const size_t rows = job->logits->rows, vocab = job->logits->vocab,
                 drawn = rows * job->draws * 4;
    cls_sampler_options options;
    cli_sampler_options(job, job->logits->rows, &options);
    options.max_rows = job->logits->rows;
    if (cli_compiled(cls_sampler_create(target->context, &options, &held->sampler)) != CLS_OK)
        return cli_fail_library("sampler");
    if (job->infill != NULL && cls_sampler_infill(held->sampler, job->infill) != CLS_OK)
        return cli_fail_library("infill");
    if ((held->positions = calloc(rows, sizeof *held->positions)) == NULL)
        return cli_no_memory();
    for (uint32_t r = 0; r < rows; r++)
        held->positions[r] = (uint32_t)cli_position(job, r);
    return begin_all(job, held->sampler) ||
           cli_buffer(target, &held->logits, "logits", rows * vocab * job->logits->size,
                      job->logits->data) ||
           (job->mask != NULL &&
            cli_buffer(target, &held->mask, "mask", rows * job->mask_width * cli_mask_size(job),
                       job->mask)) ||
           (job->bias != NULL && cli_buffer(target, &held->bias, "bias",
                                            rows * vocab * cli_bias_size(job), job->bias)) ||
           cli_buffer(target, &held->tokens, "tokens", drawn, NULL) ||
           (job->logprobs != NULL &&
            cli_buffer(target, &held->logprobs, "logprobs", drawn, NULL)) ||
           (job->status != NULL && cli_buffer(target, &held->status, "status", drawn, NULL)) ||
           (job->probs != NULL &&
            cli_buffer(target, &held->probs, "probabilities", rows * vocab * 4, NULL)) ||
           make_report(target, job, held);
}

/* One step a draw: the slots stay as they are, the positions are given. */
static int enqueue(cli_target *target, const cli_job *job, device_side *held)
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
        step.logits.buffer = held->logits;
        step.positions.host = (const int32_t *)held->positions;
        step.mask.words.buffer = held->mask;
        step.mask.width = job->mask_width;
        step.mask.kind = (int32_t)job->mask_kind;
        step.bias.values.buffer = held->bias;
        step.bias.dtype = (int32_t)job->bias_dtype;
        step.tokens.buffer = held->tokens;
        step.tokens.offset = (uint64_t)d * rows * 4;
        outputs.logprobs.buffer = held->logprobs;
        outputs.logprobs.offset = step.tokens.offset;
        outputs.logprob_kind = (int32_t)job->kind;
        step.status.buffer = held->status;
        step.status.offset = step.tokens.offset;
        if (d == 0) {
            outputs.probs.buffer = held->probs;
            if (job->report != NULL)
                cli_report_ask(job->report, held->report, &outputs);
        }
        status = cls_sample(held->sampler, target->queue, &step, 0, NULL, NULL);
        if (status == CLS_BUSY) {
            clFinish(target->queue);
            status = cls_sample(held->sampler, target->queue, &step, 0, NULL, NULL);
        }
        if (status != CLS_OK)
            return cli_fail_library("step");
        for (uint32_t r = 0; r < rows; r++)
            held->positions[r]++;
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

/* The device writes [draws, rows]; files are [rows, draws]. */
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

int cli_run(cli_target *target, const cli_job *job)
{
    const size_t probs_size = (size_t)job->logits->rows * job->logits->vocab * 4;
    device_side held = {0};
    const int failed = make_all(target, job, &held) || enqueue(target, job, &held) ||
                       fetch_drawn(target, job, held.tokens, job->tokens) ||
                       fetch_drawn(target, job, held.logprobs, job->logprobs) ||
                       fetch_drawn(target, job, held.status, job->status) ||
                       cli_fetch(target, held.probs, job->probs, probs_size) ||
                       (job->report != NULL &&
                        cli_fetch(target, held.report, job->report->data, job->report->size));
    clFinish(target->queue);
    let_go(&held);
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
    if (job->report != NULL && d == 0)
        cli_report_host(job->logits, r, result.token, job->report);
    return 0;
}

int cli_run_host(const cli_job *job)
{
    if (job->report != NULL && cli_report_make(job->report, job->logits->rows, 0) != 0)
        return 1;
    for (uint32_t r = 0; r < job->logits->rows; r++)
        for (uint32_t d = 0; d < job->draws; d++)
            if (host_draw(job, r, d) != 0)
                return 1;
    return 0;
}
