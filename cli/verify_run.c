/* SPDX-License-Identifier: MIT */
/* Verifies drafts: by the reference, or on the device, as a runtime would call the library. There a
 * trial is a call for all requests, each with a slot, or several calls if they are too many for
 * one. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "verify.h"

/* Limits of one call: its rows, and roughly its memory for tokens and the library's lists. */
#define CALL_ROWS 65535u
#define CALL_BYTES ((size_t)128 << 20)
#define LISTS_BYTES ((size_t)32 << 10)

/* The objects of a run. */
typedef struct device_side {
    uint32_t max_rows;
    cls_sampler *sampler;
    cl_mem logits, draft, mask, bias, tokens, nodes, accepted, status, logprobs;
    cls_outputs outputs; /* of a call, as are: */
    int32_t *cu, *positions;
} device_side;

static uint32_t rows_of_call(const cli_job *job)
{
    const size_t row = 16 * (size_t)job->history +
                       4 * ((size_t)job->prompt.width + job->output.width) + LISTS_BYTES;
    const size_t by_memory = CALL_BYTES / row, least = CLS_MAX_DRAFTS + 1;
    const uint32_t most = by_memory < CALL_ROWS ? (uint32_t)by_memory : CALL_ROWS;
    const uint32_t rows = job->logits->rows < most ? job->logits->rows : most;
    return rows > least ? rows : (uint32_t)least;
}

static int create_all(cli_target *target, const cli_job *job, const cli_drafts *drafts,
                      device_side *side)
{
    const size_t rows = job->logits->rows, vocab = job->logits->vocab,
                 results = (size_t)drafts->trials * drafts->requests;
    cls_sampler_options options;
    side->max_rows = rows_of_call(job);
    side->cu = cli_alloc(drafts->requests + (size_t)1, sizeof *side->cu);
    side->positions = cli_alloc(drafts->requests, sizeof *side->positions);
    cli_sampler_options(job, drafts->requests, &options);
    options.features |= CLS_FEATURE_VERIFY | (drafts->logprobs != NULL ? CLS_FEATURE_LOGPROBS : 0u);
    options.max_rows = side->max_rows;
    options.slot_count = drafts->requests < side->max_rows ? drafts->requests : side->max_rows;
    return cli_sampler_create(target, job, &options, &side->sampler) ||
           cli_buffer(target, &side->logits, "logits", rows * vocab * job->logits->size,
                      job->logits->data) ||
           cli_buffer(target, &side->draft, "draft",
                      drafts->draft != NULL ? drafts->count * vocab * cli_draft_size(job, drafts)
                                            : 0,
                      drafts->draft) ||
           cli_buffer(target, &side->mask, "mask", rows * cli_mask_size(job), job->mask) ||
           cli_buffer(target, &side->bias, "bias", rows * cli_bias_size(job), job->bias) ||
           cli_buffer(target, &side->tokens, "tokens", results * (drafts->most + 1) * 4, NULL) ||
           cli_buffer(target, &side->nodes, "nodes", results * drafts->most * 4, NULL) ||
           cli_buffer(target, &side->accepted, "accepted", results * 4, NULL) ||
           cli_buffer(target, &side->status, "status", results * 4, NULL) ||
           cli_buffer(target, &side->logprobs, "logprobs",
                      drafts->logprobs != NULL ? results * (drafts->most + 1) * 4 : 0, NULL);
}

/* Some requests of a trial, which one call verifies. */
typedef struct part {
    uint32_t trial, request, requests;
} part;

/* Begins the slots of a part, and computes the first rows and positions of its requests. */
static int begin_part(const cli_job *job, const cli_drafts *drafts, const part *of,
                      device_side *side)
{
    const int32_t *const cu = drafts->cu + of->request;
    for (uint32_t i = 0; i < of->requests; i++) {
        side->cu[i] = cu[i] - cu[0];
        side->positions[i] = (int32_t)cli_draft_position(job, drafts, of->trial, of->request + i);
        if (cli_slot_begin(job, of->request + i, side->sampler, i) != 0)
            return 1;
    }
    side->cu[of->requests] = cu[of->requests] - cu[0];
    return 0;
}

/* A part of a buffer, from element `first` of `size` bytes on. */
static cls_buffer part_of(cl_mem buffer, uint64_t first, size_t size)
{
    return (cls_buffer){.buffer = buffer, .offset = buffer != NULL ? first * size : 0};
}

static void make_call(const cli_job *job, const cli_drafts *drafts, const part *of,
                      device_side *side, cls_verify_call *call)
{
    const cli_logits *const logits = job->logits;
    const uint64_t row = (uint64_t)drafts->cu[of->request], draft = row - of->request,
                   result = (uint64_t)of->trial * drafts->requests + of->request;
    cls_verify_call_init(call);
    call->requests = of->requests;
    call->method = drafts->method;
    call->row_offsets = side->cu;
    call->logits.dtype = (int32_t)logits->dtype;
    call->logits.values = part_of(side->logits, row, logits->vocab * logits->size);
    call->positions.host = side->positions;
    call->draft_ids.host = drafts->ids != NULL ? drafts->ids + draft : NULL;
    call->parents.host = drafts->parents != NULL ? drafts->parents + draft : NULL;
    call->draft = part_of(side->draft, draft, logits->vocab * cli_draft_size(job, drafts));
    if (side->draft != NULL)
        call->draft_kind = (int32_t)drafts->kind;
    call->disable_bonus = drafts->disable_bonus;
    call->epsilon = drafts->epsilon;
    call->delta = drafts->delta;
    call->mask.words = part_of(side->mask, row, cli_mask_size(job));
    call->mask.width = job->mask_width;
    call->mask.kind = (int32_t)job->mask_kind;
    call->bias.values = part_of(side->bias, row, cli_bias_size(job));
    call->bias.dtype = (int32_t)job->bias_dtype;
    call->bias.factor = job->bias_factor;
    call->max_drafts = drafts->most;
    call->tokens = part_of(side->tokens, result, (drafts->most + (size_t)1) * 4);
    call->nodes = part_of(side->nodes, result, drafts->most * (size_t)4);
    call->accepted = part_of(side->accepted, result, 4);
    call->status = part_of(side->status, result, 4);
    if (side->logprobs == NULL)
        return;
    cls_outputs_init(&side->outputs);
    side->outputs.logprob_kind = drafts->logprob_kind;
    side->outputs.logprobs = part_of(side->logprobs, result, (drafts->most + (size_t)1) * 4);
    call->outputs = &side->outputs;
}

static int enqueue_part(cli_target *target, const cli_job *job, const cli_drafts *drafts,
                        const part *of, device_side *side)
{
    cls_verify_call call;
    cls_status status;
    if (begin_part(job, drafts, of, side) != 0)
        return 1;
    make_call(job, drafts, of, side, &call);
    CLI_RETRY(status, target->queue,
              cls_verify(side->sampler, target->queue, &call, 0, NULL, NULL));
    return cli_try(status, "verifying");
}

/* The number of requests from `first` on that fit into one call. */
static uint32_t fitting(const cli_drafts *drafts, uint32_t first, uint32_t rows)
{
    uint32_t n = 1;
    while (first + n < drafts->requests &&
           (uint32_t)(drafts->cu[first + n + 1] - drafts->cu[first]) <= rows)
        n++;
    return n;
}

static int enqueue(cli_target *target, const cli_job *job, const cli_drafts *drafts,
                   device_side *side)
{
    part of = {.trial = 0};
    for (; of.trial < drafts->trials; of.trial++)
        for (of.request = 0; of.request < drafts->requests; of.request += of.requests) {
            of.requests = fitting(drafts, of.request, side->max_rows);
            if (enqueue_part(target, job, drafts, &of, side) != 0)
                return 1;
        }
    return 0;
}

static int verify_on(cli_target *target, const cli_job *job, const cli_drafts *drafts)
{
    const size_t results = (size_t)drafts->trials * drafts->requests * 4;
    device_side side = {0};
    const int failed =
        create_all(target, job, drafts, &side) || enqueue(target, job, drafts, &side) ||
        cli_fetch(target, side.tokens, drafts->tokens, results * (drafts->most + 1)) ||
        cli_fetch(target, side.nodes, drafts->nodes, results * drafts->most) ||
        cli_fetch(target, side.accepted, drafts->accepted, results) ||
        cli_fetch(target, side.status, drafts->status, results) ||
        (side.logprobs != NULL &&
         cli_fetch(target, side.logprobs, drafts->logprobs, results * (drafts->most + 1)));
    clFinish(target->queue);
    cls_sampler_destroy(side.sampler);
    return failed;
}

/* ----------------------------------------------------------------------- the host */

static void host_trial(const cli_job *job, const cli_drafts *drafts, uint32_t trial,
                       uint32_t request)
{
    const uint32_t row = (uint32_t)drafts->cu[request];
    const size_t before = row - request; /* drafts */
    const size_t at = (size_t)trial * drafts->requests + request, width = drafts->most + 1;
    cls_host_row host;
    cls_host_drafts of;
    cls_host_verified result = {.struct_size = sizeof result};
    cli_host_row(job, request, row, &host);
    host.position = cli_draft_position(job, drafts, trial, request);
    cls_host_drafts_init(&of);
    of.row = &host;
    of.draft_count = cli_drafts_of(drafts, request);
    of.method = drafts->method;
    of.ids = of.draft_count != 0 ? drafts->ids + before : NULL;
    of.parents = drafts->parents != NULL ? drafts->parents + before : NULL;
    if (drafts->draft != NULL) {
        of.draft =
            (const char *)drafts->draft + before * job->logits->vocab * cli_draft_size(job, drafts);
        of.draft_kind = (int32_t)drafts->kind;
    }
    of.disable_bonus = drafts->disable_bonus;
    of.epsilon = drafts->epsilon;
    of.delta = drafts->delta;
    for (size_t k = 0; k < width && drafts->logprobs != NULL; k++)
        drafts->logprobs[at * width + k] = -INFINITY;
    if (drafts->logprobs != NULL)
        *(drafts->logprob_kind == CLS_LOGPROB_RAW ? &of.logprobs_raw : &of.logprobs_final) =
            drafts->logprobs + at * width;
    if (cls_host_verify(&of, &result) != CLS_OK)
        cli_die("request %" PRIu32 ": %s", cli_row_number(job->picked, request),
                cls_error_message());
    memcpy(drafts->tokens + at * width, result.tokens, width * 4);
    memcpy(drafts->nodes + at * drafts->most, result.nodes, drafts->most * 4);
    drafts->accepted[at] = result.accepted;
    drafts->status[at] = result.status;
}

int cli_verify(const char *device, const cls_context_options *options, const cli_job *job,
               const cli_drafts *drafts)
{
    cls_context_options of_type = *options;
    cli_target target;
    if (cli_on_host(device)) {
        for (uint32_t t = 0; t < drafts->trials; t++)
            for (uint32_t i = 0; i < drafts->requests; i++)
                host_trial(job, drafts, t, i);
        return 0;
    }
    of_type.dtypes = 1u << job->logits->dtype;
    if (cli_open(device, &of_type, 0, &target) != 0)
        return 1;
    const int failed = verify_on(&target, job, drafts);
    cli_close(&target);
    return failed;
}
