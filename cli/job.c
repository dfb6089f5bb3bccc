/* SPDX-License-Identifier: MIT */
/* What a job asks of a sampler and of the reference, and running a job by the reference.
 * cli/job_device.c runs one on devices. */
#include <inttypes.h>
#include <math.h>

#include "results.h"
#include "shards.h"

static const int32_t *row_of(const cli_tokens *tokens, uint32_t r)
{
    return tokens->ids == NULL ? NULL : tokens->ids + (size_t)r * tokens->width;
}

/* The tokens of a row that is padded with ids outside the vocabulary. */
static uint32_t tokens_in(const int32_t *ids, uint32_t count, uint32_t vocab)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++)
        n += ids[i] >= 0 && (uint32_t)ids[i] < vocab;
    return n;
}

uint64_t cli_position(const cli_job *job, uint32_t request)
{
    return (uint64_t)job->params[request].position +
           tokens_in(row_of(&job->output, request), job->output.width, job->logits->vocab);
}

size_t cli_mask_size(const cli_job *job)
{
    return job->mask_width * (job->mask_kind == CLS_MASK_BOOL ? (size_t)1 : 4);
}

size_t cli_bias_size(const cli_job *job)
{
    return job->bias == NULL ? 0
                             : job->logits->vocab * (job->bias_dtype == CLS_F32 ? (size_t)4 : 2);
}

cli_ids cli_forced_next(const cli_ids *force, const int32_t *output, uint32_t count, uint32_t vocab)
{
    const uint32_t n = tokens_in(output, count, vocab);
    return n < force->count ? (cli_ids){force->ids + n, force->count - n} : (cli_ids){NULL, 0};
}

static cli_ids forced_next(const cli_job *job, uint32_t request)
{
    if (job->force == NULL)
        return (cli_ids){NULL, 0};
    return cli_forced_next(&job->force[request], row_of(&job->output, request), job->output.width,
                           job->logits->vocab);
}

/* --------------------------------------------------------------------- the sampler */

/* Requests only the state that the parameters need, because it is large. */
void cli_sampler_options(const cli_job *job, uint32_t requests, cls_sampler_options *options)
{
    cls_sampler_options_init(options);
    options->vocab = job->logits->vocab;
    options->counts = CLS_COUNTS_NONE;
    for (uint32_t i = 0; i < requests; i++) {
        const cls_params *p = &job->params[i];
        if (p->repetition_penalty != 1.0f || p->frequency_penalty != 0.0f ||
            p->presence_penalty != 0.0f)
            options->counts = CLS_COUNTS_ALL;
    }
    options->max_history = job->history;
    options->dtypes = 1u << job->logits->dtype;
    options->features = job->features | CLS_FEATURE_SHORTLIST |
                        (job->mask != NULL ? CLS_FEATURE_MASK : 0u) |
                        (job->bias != NULL ? CLS_FEATURE_BIAS : 0u);
    if (job->results == NULL)
        return;
    const cli_results *const wanted = job->results;
    const bool reports = wanted->top_n != 0 || wanted->candidates,
               logprobs = wanted->logprobs && wanted->by_device;
    options->features |= (logprobs || reports ? CLS_FEATURE_LOGPROBS : 0u) |
                         (wanted->probs || reports ? CLS_FEATURE_PROBS : 0u) |
                         (wanted->set_n != 0 ? CLS_FEATURE_KEPT_SETS : 0u);
}

int cli_slot_begin(const cli_job *job, uint32_t request, cls_sampler *sampler, uint32_t slot)
{
    const cli_ids forced = forced_next(job, request);
    cls_status status =
        cls_slot_begin(sampler, slot, &job->params[request], row_of(&job->prompt, request),
                       job->prompt.width, row_of(&job->output, request), job->output.width);
    if (status == CLS_OK && forced.count != 0)
        status = cls_slot_force(sampler, slot, forced.ids, forced.count);
    if (cli_compile_done(status) == CLS_OK)
        return 0;
    return cli_fail("row %" PRIu32 ": %s", cli_row_number(job->picked, request),
                    cls_error_message());
}

/* -------------------------------------------------------------------- the host */

void cli_host_row(const cli_job *job, uint32_t request, uint32_t r, cls_host_row *row)
{
    const cli_logits *logits = job->logits;
    const cli_ids forced = forced_next(job, request);
    cls_host_row_init(row);
    row->logits = (const char *)logits->data + r * (size_t)logits->vocab * logits->size;
    row->dtype = (int32_t)logits->dtype;
    row->vocab = logits->vocab;
    if (job->mask != NULL) {
        row->mask = (const char *)job->mask + r * cli_mask_size(job);
        row->mask_width = job->mask_width;
        row->mask_kind = (int32_t)job->mask_kind;
    }
    if (job->bias != NULL) {
        row->bias = (const char *)job->bias + r * cli_bias_size(job);
        row->bias_dtype = (int32_t)job->bias_dtype;
        row->bias_factor = job->bias_factor;
    }
    row->prompt = row_of(&job->prompt, request);
    row->prompt_count = job->prompt.width;
    row->output = row_of(&job->output, request);
    row->output_count = job->output.width;
    row->position = (uint32_t)cli_position(job, request);
    row->params = &job->params[request];
    row->max_history = job->history;
    row->infill = job->infill;
    row->forced_ids = forced.ids;
    row->forced_count = forced.count;
}

void cli_sample_host(const cls_host_row *row, uint32_t number, cls_host_result *result)
{
    if (cls_host_sample(row, result) != CLS_OK)
        cli_die("row %" PRIu32 ": %s", number, cls_error_message());
}

int cli_job_run(const cli_job *job, const char *device, const cls_context_options *options,
                bool says_where)
{
    cls_context_options of_type = *options;
    cli_target *targets;
    if (cli_on_host(device)) {
        if (says_where)
            puts("On the host, by the reference:");
        cli_results_by_host(job);
        return 0;
    }
    of_type.dtypes = 1u << job->logits->dtype;
    if (cli_split_open(device, &of_type, &job->split, &targets) != 0)
        return 1;
    if (says_where)
        cli_put("On device {device}, {name} ({type}, {platform}):\n", targets->device.json);
    const int failed = cli_job_run_on(targets, job);
    cli_split_close(&job->split, targets);
    if (!failed && job->results->logprobs)
        cli_results_logprobs(job);
    return failed;
}
