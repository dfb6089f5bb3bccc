/* SPDX-License-Identifier: MIT */
/* Drafts to tokens: as a runtime would call the library, and by the reference.
 *
 * Trials are requests of their own, as many to a call as its memory allows: a
 * call costs more than a trial of a small vocabulary. Each has a slot, which
 * begins anew before the call. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "verify.h"

/* What the rows of one call may take, about: logits, and the library's lists. */
#define CALL_BYTES ((size_t)128 << 20)
#define LISTS_BYTES ((size_t)32 << 10)

/* Of a trial's first request; the last trial's fit, see verify.c. */
static uint32_t position_of(const cli_job *job, const cli_drafts *drafts, uint32_t trial, uint32_t request)
{
    return (uint32_t)cli_position(job, request) + trial * (drafts->most + 1);
}

uint32_t cli_emitted(const cli_drafts *drafts, uint32_t trial, uint32_t request)
{
    const size_t width = drafts->most + 1;
    const int32_t *const tokens = drafts->tokens + ((size_t)trial * drafts->requests + request) * width;
    uint32_t n = 0;
    while (n < width && tokens[n] >= 0)
        n++;
    return n;
}

/* ------------------------------------------------------------------ the device */

/* What a run holds: the inputs of as many trials as a call has, `trials`, and the results of all. */
typedef struct device_side {
    uint32_t trials;
    cls_sampler *sampler;
    cl_mem logits, draft, mask, bias, tokens, nodes, accepted, status;
    int32_t *cu, *ids, *parents, *positions, *rows;
} device_side;

static void let_go(device_side *held)
{
    const cl_mem buffers[] = {held->logits, held->draft, held->mask,     held->bias,
                              held->tokens, held->nodes, held->accepted, held->status};
    int32_t *const arrays[] = {held->cu, held->ids, held->parents, held->positions, held->rows};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        if (buffers[i] != NULL)
            clReleaseMemObject(buffers[i]);
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        free(arrays[i]);
    cls_sampler_destroy(held->sampler);
}

static uint32_t trials_of_call(const cli_job *job, const cli_drafts *drafts)
{
    const cli_logits *const logits = job->logits;
    const size_t row = logits->vocab * (logits->size + (drafts->draft != NULL ? 4 : 0)) + 16 * (size_t)job->history;
    const size_t by_memory = CALL_BYTES / (logits->rows * (row + LISTS_BYTES)), by_rows = CLI_MOST_ROWS / logits->rows;
    const size_t most = by_memory < by_rows ? by_memory : by_rows;
    return most < 1 ? 1 : most < drafts->trials ? (uint32_t)most : drafts->trials;
}

/* `size` bytes, n times. */
static void *repeated(const void *from, size_t size, uint32_t n)
{
    char *const to = malloc(size * n);
    for (uint32_t i = 0; i < n && to != NULL; i++)
        memcpy(to + i * size, from, size);
    return to;
}

static int make_repeated(cli_target *target, cl_mem *buffer, const char *what, size_t size, const void *from,
                         uint32_t n)
{
    void *const all = repeated(from, size, n);
    const int failed = all == NULL ? cli_no_memory() : cli_buffer(target, buffer, what, size * n, all);
    free(all);
    return failed;
}

/* The host's arrays of a call. A row of masks and biases is that of all trials. */
static int make_arrays(const cli_job *job, const cli_drafts *drafts, device_side *held)
{
    const size_t ids = drafts->count * sizeof *drafts->ids, rows = job->logits->rows;
    const uint32_t all = held->trials * drafts->requests;
    held->cu = calloc(all + (size_t)1, sizeof *held->cu);
    held->positions = calloc(all, sizeof *held->positions);
    held->rows = calloc(held->trials * rows, sizeof *held->rows);
    if (drafts->ids != NULL)
        held->ids = repeated(drafts->ids, ids, held->trials);
    if (drafts->parents != NULL)
        held->parents = repeated(drafts->parents, ids, held->trials);
    if (held->cu == NULL || held->positions == NULL || held->rows == NULL ||
        (held->ids == NULL && drafts->count != 0) || (held->parents == NULL && drafts->parents != NULL))
        return cli_no_memory();
    for (uint32_t i = 0; i <= all; i++)
        held->cu[i] = (int32_t)(i / drafts->requests * rows) + drafts->cu[i % drafts->requests];
    for (size_t r = 0; r < held->trials * rows; r++)
        held->rows[r] = (int32_t)(r % rows);
    return 0;
}

static int make_sampler(cli_target *target, const cli_job *job, const cli_drafts *drafts, device_side *held)
{
    cls_sampler_options options;
    cli_sampler_options(job, drafts->requests, &options);
    options.max_rows = held->trials * job->logits->rows;
    options.slots = held->trials * drafts->requests;
    if (cls_sampler_create(target->context, &options, &held->sampler) != CLS_OK)
        return cli_fail_library("sampler");
    if (job->infill != NULL && cls_sampler_infill(held->sampler, job->infill) != CLS_OK)
        return cli_fail_library("infill");
    return 0;
}

static int make_all(cli_target *target, const cli_job *job, const cli_drafts *drafts, device_side *held)
{
    const size_t rows = job->logits->rows, vocab = job->logits->vocab,
                 results = (size_t)drafts->trials * drafts->requests;
    const size_t draft = drafts->kind == CLS_DRAFT_LOGITS ? job->logits->size : 4;
    held->trials = trials_of_call(job, drafts);
    return make_sampler(target, job, drafts, held) || make_arrays(job, drafts, held) ||
           make_repeated(target, &held->logits, "logits", rows * vocab * job->logits->size, job->logits->data,
                         held->trials) ||
           (drafts->draft != NULL &&
            make_repeated(target, &held->draft, "draft", drafts->count * vocab * draft, drafts->draft, held->trials)) ||
           (job->mask != NULL &&
            cli_buffer(target, &held->mask, "mask", rows * job->mask_width * cli_mask_size(job), job->mask)) ||
           (job->bias != NULL &&
            cli_buffer(target, &held->bias, "bias", rows * vocab * cli_bias_size(job), job->bias)) ||
           cli_buffer(target, &held->tokens, "tokens", results * (drafts->most + 1) * 4, NULL) ||
           (drafts->most != 0 && cli_buffer(target, &held->nodes, "nodes", results * drafts->most * 4, NULL)) ||
           cli_buffer(target, &held->accepted, "accepted", results * 4, NULL) ||
           cli_buffer(target, &held->status, "status", results * 4, NULL);
}

/* The call of `n` trials from `first` on. */
static void make_call(const cli_job *job, const cli_drafts *drafts, const device_side *held, uint32_t first, uint32_t n,
                      cls_verify_call *call)
{
    const uint64_t before = (uint64_t)first * drafts->requests * 4;
    cls_verify_call_default(call, sizeof *call);
    call->requests = n * drafts->requests;
    call->method = drafts->method;
    call->cu = held->cu;
    call->logits.dtype = (int32_t)job->logits->dtype;
    call->logits.buffer = held->logits;
    call->positions = held->positions;
    call->draft_ids.host = held->ids;
    call->parents = held->parents;
    if (drafts->draft != NULL)
        call->draft_kind = (int32_t)drafts->kind;
    call->draft.buffer = held->draft;
    call->disable_bonus = drafts->disable_bonus;
    call->epsilon = drafts->epsilon;
    call->delta = drafts->delta;
    if (held->mask != NULL) {
        call->mask.words.buffer = held->mask;
        call->mask.width = job->mask_width;
        call->mask.kind = (int32_t)job->mask_kind;
        call->mask.rows = job->logits->rows;
        call->mask.row_map.host = held->rows;
    }
    if (held->bias != NULL) {
        call->bias.values.buffer = held->bias;
        call->bias.dtype = (int32_t)job->bias_dtype;
        call->bias.rows = job->logits->rows;
        call->bias.row_map.host = held->rows;
    }
    call->max_drafts = drafts->most;
    call->tokens = (cls_buffer){held->tokens, before * (drafts->most + 1)};
    if (held->nodes != NULL)
        call->nodes = (cls_buffer){held->nodes, before * drafts->most};
    call->accepted = (cls_buffer){held->accepted, before};
    call->status = (cls_buffer){held->status, before};
}

static int enqueue(cli_target *target, const cli_job *job, const cli_drafts *drafts, device_side *held)
{
    for (uint32_t first = 0, n; first < drafts->trials; first += n) {
        cls_verify_call call;
        cls_status status;
        n = drafts->trials - first < held->trials ? drafts->trials - first : held->trials;
        for (uint32_t i = 0; i < n * drafts->requests; i++) {
            const uint32_t request = i % drafts->requests;
            held->positions[i] = (int32_t)position_of(job, drafts, first + i / drafts->requests, request);
            if (cli_slot_begin(job, request, held->sampler, i) != 0)
                return 1;
        }
        make_call(job, drafts, held, first, n, &call);
        status = cls_verify(held->sampler, target->queue, &call, 0, NULL, NULL);
        if (status == CLS_BUSY) {
            clFinish(target->queue);
            status = cls_verify(held->sampler, target->queue, &call, 0, NULL, NULL);
        }
        if (status != CLS_OK)
            return cli_fail_library("verification");
    }
    return 0;
}

int cli_verify(cli_target *target, const cli_job *job, const cli_drafts *drafts)
{
    const size_t results = (size_t)drafts->trials * drafts->requests * 4;
    device_side held = {0};
    const int failed = make_all(target, job, drafts, &held) || enqueue(target, job, drafts, &held) ||
                       cli_fetch(target, held.tokens, drafts->tokens, results * (drafts->most + 1)) ||
                       (held.nodes != NULL && cli_fetch(target, held.nodes, drafts->nodes, results * drafts->most)) ||
                       cli_fetch(target, held.accepted, drafts->accepted, results) ||
                       cli_fetch(target, held.status, drafts->status, results);
    clFinish(target->queue);
    let_go(&held);
    return failed;
}

/* -------------------------------------------------------------------- the host */

static int host_trial(const cli_job *job, const cli_drafts *drafts, uint32_t trial, uint32_t request)
{
    const uint32_t row = (uint32_t)drafts->cu[request], before = row - request;
    const size_t at = (size_t)trial * drafts->requests + request, width = drafts->most + 1;
    const size_t draft = drafts->kind == CLS_DRAFT_LOGITS ? job->logits->size : 4;
    cls_host_row host;
    cls_host_drafts of;
    cls_host_verified result = {.struct_size = sizeof result};
    cli_host_row(job, request, row, &host);
    host.position = position_of(job, drafts, trial, request);
    cls_host_drafts_default(&of, sizeof of);
    of.row = &host;
    of.n = cli_drafts_of(drafts, request);
    of.method = drafts->method;
    of.ids = of.n != 0 ? drafts->ids + before : NULL;
    of.parents = drafts->parents != NULL ? drafts->parents + before : NULL;
    if (drafts->draft != NULL) {
        of.draft = (const char *)drafts->draft + before * job->logits->vocab * draft;
        of.draft_kind = (int32_t)drafts->kind;
    }
    of.disable_bonus = drafts->disable_bonus;
    of.epsilon = drafts->epsilon;
    of.delta = drafts->delta;
    if (cls_host_verify(&of, &result) != CLS_OK)
        return cli_fail("request %" PRIu32 ": %s", request, cls_error_message());
    memcpy(drafts->tokens + at * width, result.tokens, width * 4);
    memcpy(drafts->nodes + at * drafts->most, result.nodes, drafts->most * 4);
    drafts->accepted[at] = result.accepted;
    drafts->status[at] = result.status;
    return 0;
}

int cli_verify_host(const cli_job *job, const cli_drafts *drafts)
{
    for (uint32_t t = 0; t < drafts->trials; t++)
        for (uint32_t i = 0; i < drafts->requests; i++)
            if (host_trial(job, drafts, t, i) != 0)
                return 1;
    return 0;
}
