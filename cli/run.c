/* SPDX-License-Identifier: MIT */
/* Rows of logits to tokens: as a runtime would call the library, and on the
 * host by the reference. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* ------------------------------------------------------------------ the device */

/* What a run holds on the device. */
typedef struct device_side {
    cls_sampler *sampler;
    cl_mem logits, mask, tokens, logprobs, status, probs;
    int32_t *positions;
} device_side;

static void let_go(device_side *held)
{
    const cl_mem all[] = {held->logits, held->mask, held->tokens, held->logprobs, held->status, held->probs};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] != NULL)
            clReleaseMemObject(all[i]);
    cls_sampler_destroy(held->sampler);
    free(held->positions);
}

static int make(cli_target *target, cl_mem *buffer, const char *what, size_t size, const void *from)
{
    cl_int error;
    void *copy = NULL;
    memcpy(&copy, &from, sizeof copy); /* OpenCL asks for a pointer to non-const, and only reads */
    *buffer = clCreateBuffer(target->cl, from == NULL ? CL_MEM_WRITE_ONLY : CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                             size, copy, &error);
    return error == CL_SUCCESS ? 0 : cli_fail("%s: OpenCL error %d for a buffer of %zu bytes", what, (int)error, size);
}

static int make_all(cli_target *target, const cli_job *job, device_side *held)
{
    const size_t rows = job->logits->rows, vocab = job->logits->vocab, drawn = rows * job->draws * 4;
    cls_sampler_options options;
    cls_sampler_options_default(&options, sizeof options);
    options.vocab = job->logits->vocab;
    options.max_rows = job->logits->rows;
    if (cls_sampler_create(target->context, &options, &held->sampler) != CLS_OK)
        return cli_fail_library("sampler");
    for (uint32_t r = 0; r < rows; r++)
        if (cls_slot_begin(held->sampler, r, &job->params[r], NULL, 0, NULL, 0) != CLS_OK)
            return cli_fail("row %" PRIu32 ": %s", r, cls_error_message());
    if ((held->positions = calloc(rows, sizeof *held->positions)) == NULL)
        return cli_no_memory();
    return make(target, &held->logits, "logits", rows * vocab * job->logits->size, job->logits->data) ||
           (job->mask != NULL && make(target, &held->mask, "mask", rows * job->mask_width * 4, job->mask)) ||
           make(target, &held->tokens, "tokens", drawn, NULL) ||
           (job->logprobs != NULL && make(target, &held->logprobs, "logprobs", drawn, NULL)) ||
           (job->status != NULL && make(target, &held->status, "status", rows * 4, NULL)) ||
           (job->probs != NULL && make(target, &held->probs, "probabilities", rows * vocab * 4, NULL));
}

/* One step a draw: the slots stay as they are, the positions are given. */
static int enqueue(cli_target *target, const cli_job *job, device_side *held)
{
    const uint32_t rows = job->logits->rows;
    for (uint32_t d = 0; d < job->draws; d++) {
        cls_step step;
        cls_status status;
        cls_step_default(&step, sizeof step);
        step.rows = rows;
        step.defer_accept = 1;
        step.logits.kind = CLS_LOGITS_BUFFER;
        step.logits.dtype = (int32_t)job->logits->dtype;
        step.logits.buffer = held->logits;
        for (uint32_t r = 0; r < rows; r++) {
            const uint32_t position = job->params[r].position + d;
            memcpy(&held->positions[r], &position, sizeof position);
        }
        step.positions.host = held->positions;
        step.mask.words.buffer = held->mask;
        step.mask.width = job->mask_width;
        step.tokens.buffer = held->tokens;
        step.tokens.offset = (uint64_t)d * rows * 4;
        step.logprobs.buffer = held->logprobs;
        step.logprobs.offset = step.tokens.offset;
        step.logprob_kind = (int32_t)job->kind;
        if (d == 0) { /* these are the same for every draw */
            step.status.buffer = held->status;
            step.probs.buffer = held->probs;
        }
        status = cls_sample(held->sampler, target->queue, &step, 0, NULL, NULL);
        if (status == CLS_BUSY) {
            clFinish(target->queue);
            status = cls_sample(held->sampler, target->queue, &step, 0, NULL, NULL);
        }
        if (status != CLS_OK)
            return cli_fail_library("step");
    }
    return 0;
}

static int fetch(cli_target *target, cl_mem from, void *to, size_t size)
{
    const cl_int error =
        to == NULL ? CL_SUCCESS : clEnqueueReadBuffer(target->queue, from, CL_TRUE, 0, size, to, 0, NULL, NULL);
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
    failed = fetch(target, from, words, rows * draws * 4);
    for (size_t i = 0; i < rows * draws && !failed; i++)
        memcpy((char *)to + 4 * i, &words[i % draws * rows + i / draws], 4);
    free(words);
    return failed;
}

int cli_run(cli_target *target, const cli_job *job)
{
    const size_t rows = job->logits->rows;
    device_side held = {0};
    const int failed = make_all(target, job, &held) || enqueue(target, job, &held) ||
                       fetch_drawn(target, job, held.tokens, job->tokens) ||
                       fetch_drawn(target, job, held.logprobs, job->logprobs) ||
                       fetch(target, held.status, job->status, rows * 4) ||
                       fetch(target, held.probs, job->probs, rows * job->logits->vocab * 4);
    clFinish(target->queue);
    let_go(&held);
    return failed;
}

/* -------------------------------------------------------------------- the host */

static int host_draw(const cli_job *job, uint32_t r, uint32_t d)
{
    const cli_logits *logits = job->logits;
    const size_t at = (size_t)r * job->draws + d;
    cls_host_row row;
    cls_host_result result = {.struct_size = sizeof result};
    cls_host_row_default(&row, sizeof row);
    row.logits = (const char *)logits->data + (size_t)r * logits->vocab * logits->size;
    row.dtype = (int32_t)logits->dtype;
    row.vocab = logits->vocab;
    if (job->mask != NULL) {
        row.mask = job->mask + (size_t)r * job->mask_width;
        row.mask_width = job->mask_width;
    }
    row.position = job->params[r].position + d;
    row.params = &job->params[r];
    if (job->probs != NULL && d == 0)
        result.probs = job->probs + (size_t)r * logits->vocab;
    if (cls_host_sample(&row, &result) != CLS_OK)
        return cli_fail("row %" PRIu32 ": %s", r, cls_error_message());
    if (job->tokens != NULL)
        job->tokens[at] = result.token;
    if (job->logprobs != NULL)
        job->logprobs[at] = job->kind == CLS_LOGPROB_RAW ? result.logprob_raw : result.logprob_final;
    if (job->status != NULL)
        job->status[r] = result.status;
    return 0;
}

int cli_run_host(const cli_job *job)
{
    for (uint32_t r = 0; r < job->logits->rows; r++)
        for (uint32_t d = 0; d < job->draws; d++)
            if (host_draw(job, r, d) != 0)
                return 1;
    return 0;
}
