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
    options->features = CLS_FEATURE_SHORTLIST | (job->mask != NULL ? CLS_FEATURE_MASK : 0u) |
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

static void host_logits(const cli_logits *logits, size_t r, cls_host_row *row)
{
    cls_host_row_init(row);
    row->logits = (const char *)logits->data + r * logits->vocab * logits->size;
    row->dtype = (int32_t)logits->dtype;
    row->vocab = logits->vocab;
}

void cli_host_row(const cli_job *job, uint32_t request, uint32_t r, cls_host_row *row)
{
    const cli_logits *logits = job->logits;
    const cli_ids forced = forced_next(job, request);
    host_logits(logits, r, row);
    if (job->mask != NULL) {
        row->mask = (const char *)job->mask + r * cli_mask_size(job);
        row->mask_width = job->mask_width;
        row->mask_kind = (int32_t)job->mask_kind;
    }
    if (job->bias != NULL) {
        row->bias = (const char *)job->bias + r * cli_bias_size(job);
        row->bias_dtype = (int32_t)job->bias_dtype;
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

void cli_sample_host(const cls_host_row *row, const char *what, cls_host_result *result)
{
    if (cls_host_sample(row, result) != CLS_OK)
        cli_die("%s: %s", what, cls_error_message());
}

static void sample_host(const cli_job *job, uint32_t r, uint32_t draw, cls_host_result *result)
{
    cls_host_row row;
    cli_host_row(job, r, r, &row);
    row.position += draw;
    if (cls_host_sample(&row, result) != CLS_OK)
        cli_die("row %" PRIu32 ": %s", cli_row_number(job->picked, r), cls_error_message());
}

static void run_on_host(const cli_job *job)
{
    cli_results_alloc(job, 0);
    for (uint32_t r = 0; r < job->logits->rows; r++)
        for (uint32_t d = 0; d < job->results->draws; d++) {
            cls_host_result result = {.struct_size = sizeof result};
            cli_results_begin(job->results, r, d, &result);
            sample_host(job, r, d, &result);
            cli_results_take(job, r, d, &result);
        }
}

/* The most logits for which the reference computes log-probabilities after a device: it takes less
 * time than the programs for them take to compile, less than a second. */
#define MOST_BY_HOST (UINT64_C(1) << 24)

bool cli_is_small(const cli_job *job)
{
    return (uint64_t)job->logits->rows * job->results->draws * job->logits->vocab <= MOST_BY_HOST;
}

/* Computes the log-probabilities of a device's tokens by the reference: the bits that a device
 * computes. NaN: the job is too large, or the reference has another token. */
static void find_logprobs(const cli_job *job)
{
    cli_results *const results = job->results;
    for (uint32_t r = 0; r < job->logits->rows; r++)
        for (uint32_t d = 0; d < results->draws; d++) {
            cls_host_result result = {.struct_size = sizeof result, .token = INT32_MIN};
            if (cli_is_small(job))
                sample_host(job, r, d, &result);
            if (result.token != cli_ints(results, CLI_TOKENS, r)[d])
                result.logprob_raw = result.logprob_final = NAN;
            const float found[] = {result.logprob_raw, result.logprob_final};
            for (int kind = CLS_LOGPROB_RAW; kind <= CLS_LOGPROB_FINAL; kind++)
                if (!results->by_device || kind != (int)results->kind)
                    cli_floats(results, CLI_LOGPROBS + kind, r)[d] = found[kind];
        }
}

int cli_job_run(const cli_job *job, const char *device, const cls_context_options *options,
                bool says_where)
{
    cls_context_options of_type = *options;
    cli_target *targets;
    if (cli_on_host(device)) {
        if (says_where)
            puts("On the host, by the reference:");
        run_on_host(job);
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
        find_logprobs(job);
    return failed;
}
