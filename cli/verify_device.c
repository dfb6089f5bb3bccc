/* SPDX-License-Identifier: MIT */
/* Drafts to tokens on the device, as a runtime would call the library.
 *
 * Trials are requests of their own, as many to a call as its memory allows: a
 * call costs more than a trial of a small vocabulary. Requests that are too many
 * for one call take several. Each has a slot, which begins anew before the call. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "verify.h"

/* The rows of one call: most of them, and what they may take, about: logits, requests' tokens, the
 * library's lists. */
#define CALL_ROWS 65535u
#define CALL_BYTES ((size_t)128 << 20)
#define LISTS_BYTES ((size_t)32 << 10)

/* What a run holds: the inputs of as many trials as a call takes, and the results of all. */
typedef struct device_side {
    uint32_t trials, rows_of_call, slots; /* most of a call */
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

static void size_calls(const cli_job *job, const cli_drafts *drafts, device_side *held)
{
    const cli_logits *const logits = job->logits;
    const size_t row = logits->vocab * (logits->size + (drafts->draft != NULL ? 4 : 0)) +
                       16 * (size_t)job->history +
                       4 * ((size_t)job->prompt.width + job->output.width);
    const size_t by_memory = CALL_BYTES / (row + LISTS_BYTES);
    const uint32_t least = CLS_MAX_DRAFTS + 1,
                   most = by_memory < CALL_ROWS ? (uint32_t)by_memory : CALL_ROWS;
    held->rows_of_call = most > least ? most : least;
    held->trials = held->rows_of_call / logits->rows;
    if (held->trials > drafts->trials)
        held->trials = drafts->trials;
    if (held->trials == 0)
        held->trials = 1;
    else
        held->rows_of_call = held->trials * logits->rows;
    held->slots = held->trials * drafts->requests < held->rows_of_call
                      ? held->trials * drafts->requests
                      : held->rows_of_call;
}

/* `size` bytes, n times. */
static void *repeated(const void *from, size_t size, uint32_t n)
{
    char *const to = malloc(size * n);
    for (uint32_t i = 0; i < n && to != NULL; i++)
        memcpy(to + i * size, from, size);
    return to;
}

static int make_repeated(cli_target *target, cl_mem *buffer, const char *what, size_t size,
                         const void *from, uint32_t n)
{
    void *const all = repeated(from, size, n);
    const int failed =
        all == NULL ? cli_no_memory() : cli_buffer(target, buffer, what, size * n, all);
    free(all);
    return failed;
}

/* The host's arrays of calls. A row of masks and biases is that of all trials. */
static int make_arrays(const cli_job *job, const cli_drafts *drafts, device_side *held)
{
    const size_t ids = drafts->count * sizeof *drafts->ids, rows = job->logits->rows;
    held->cu = calloc(held->slots + (size_t)1, sizeof *held->cu);
    held->positions = calloc(held->slots, sizeof *held->positions);
    held->rows = calloc(held->trials * rows, sizeof *held->rows);
    if (drafts->ids != NULL)
        held->ids = repeated(drafts->ids, ids, held->trials);
    if (drafts->parents != NULL)
        held->parents = repeated(drafts->parents, ids, held->trials);
    if (held->cu == NULL || held->positions == NULL || held->rows == NULL ||
        (held->ids == NULL && drafts->count != 0) ||
        (held->parents == NULL && drafts->parents != NULL))
        return cli_no_memory();
    for (size_t r = 0; r < held->trials * rows; r++)
        held->rows[r] = (int32_t)(r % rows);
    return 0;
}

static int make_sampler(cli_target *target, const cli_job *job, const cli_drafts *drafts,
                        device_side *held)
{
    cls_sampler_options options;
    cli_sampler_options(job, drafts->requests, &options);
    options.features |= CLS_FEATURE_VERIFY;
    options.max_rows = held->rows_of_call;
    options.slot_count = held->slots;
    if (cli_compiled(cls_sampler_create(target->context, &options, &held->sampler)) != CLS_OK)
        return cli_fail_library("sampler");
    if (job->infill != NULL && cls_sampler_infill(held->sampler, job->infill) != CLS_OK)
        return cli_fail_library("infill");
    return 0;
}

static int make_all(cli_target *target, const cli_job *job, const cli_drafts *drafts,
                    device_side *held)
{
    const size_t rows = job->logits->rows, vocab = job->logits->vocab,
                 results = (size_t)drafts->trials * drafts->requests;
    size_calls(job, drafts, held);
    return make_sampler(target, job, drafts, held) || make_arrays(job, drafts, held) ||
           make_repeated(target, &held->logits, "logits", rows * vocab * job->logits->size,
                         job->logits->data, held->trials) ||
           (drafts->draft != NULL &&
            make_repeated(target, &held->draft, "draft",
                          drafts->count * vocab * cli_draft_size(job, drafts), drafts->draft,
                          held->trials)) ||
           (job->mask != NULL &&
            cli_buffer(target, &held->mask, "mask", rows * job->mask_width * cli_mask_size(job),
                       job->mask)) ||
           (job->bias != NULL && cli_buffer(target, &held->bias, "bias",
                                            rows * vocab * cli_bias_size(job), job->bias)) ||
           cli_buffer(target, &held->tokens, "tokens", results * (drafts->most + 1) * 4, NULL) ||
           (drafts->most != 0 &&
            cli_buffer(target, &held->nodes, "nodes", results * drafts->most * 4, NULL)) ||
           cli_buffer(target, &held->accepted, "accepted", results * 4, NULL) ||
           cli_buffer(target, &held->status, "status", results * 4, NULL);
}

/* Some of the requests in some of the trials: all of them, or a single trial. */
typedef struct part {
    uint32_t trial, trials, request, requests;
} part;

/* Begins their slots, and says where their rows begin. */
static int begin_part(const cli_job *job, const cli_drafts *drafts, const part *of,
                      device_side *held)
{
    const int32_t *const cu = drafts->cu + of->request;
    const uint32_t n = of->trials * of->requests;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t trial = i / of->requests, k = i % of->requests;
        held->cu[i] = (int32_t)(trial * job->logits->rows) + cu[k] - cu[0];
        held->positions[i] =
            (int32_t)cli_draft_position(job, drafts, of->trial + trial, of->request + k);
        if (cli_slot_begin(job, of->request + k, held->sampler, i) != 0)
            return 1;
    }
    held->cu[n] = (int32_t)((of->trials - 1) * job->logits->rows) + cu[of->requests] - cu[0];
    return 0;
}

static void make_call(const cli_job *job, const cli_drafts *drafts, const part *of,
                      const device_side *held, cls_verify_call *call)
{
    const uint64_t row = (uint64_t)drafts->cu[of->request], draft = row - of->request;
    const uint64_t result = (uint64_t)of->trial * drafts->requests + of->request;
    cls_verify_call_default(call, sizeof *call);
    call->requests = of->trials * of->requests;
    call->method = drafts->method;
    call->row_offsets = held->cu;
    call->logits.dtype = (int32_t)job->logits->dtype;
    call->logits.buffer = held->logits;
    call->logits.offset = row * job->logits->vocab * job->logits->size;
    call->positions.host = held->positions;
    call->draft_ids.host = held->ids != NULL ? held->ids + draft : NULL;
    call->parents.host = held->parents != NULL ? held->parents + draft : NULL;
    if (held->draft != NULL) {
        call->draft_kind = (int32_t)drafts->kind;
        call->draft =
            (cls_buffer){held->draft, draft * job->logits->vocab * cli_draft_size(job, drafts)};
    }
    call->disable_bonus = drafts->disable_bonus;
    call->epsilon = drafts->epsilon;
    call->delta = drafts->delta;
    if (held->mask != NULL) {
        call->mask.words.buffer = held->mask;
        call->mask.width = job->mask_width;
        call->mask.kind = (int32_t)job->mask_kind;
        call->mask.rows = job->logits->rows;
        call->mask.row_map.host = held->rows + row;
    }
    if (held->bias != NULL) {
        call->bias.values.buffer = held->bias;
        call->bias.dtype = (int32_t)job->bias_dtype;
        call->bias.rows = job->logits->rows;
        call->bias.row_map.host = held->rows + row;
    }
    call->max_drafts = drafts->most;
    call->tokens = (cls_buffer){held->tokens, result * (drafts->most + 1) * 4};
    if (held->nodes != NULL)
        call->nodes = (cls_buffer){held->nodes, result * drafts->most * 4};
    call->accepted = (cls_buffer){held->accepted, result * 4};
    call->status = (cls_buffer){held->status, result * 4};
}

static int enqueue_part(cli_target *target, const cli_job *job, const cli_drafts *drafts,
                        const part *of, device_side *held)
{
    cls_verify_call call;
    cls_status status;
    if (begin_part(job, drafts, of, held) != 0)
        return 1;
    make_call(job, drafts, of, held, &call);
    status = cls_verify(held->sampler, target->queue, &call, 0, NULL, NULL);
    if (status == CLS_BUSY) {
        clFinish(target->queue);
        status = cls_verify(held->sampler, target->queue, &call, 0, NULL, NULL);
    }
    return status == CLS_OK ? 0 : cli_fail_library("verification");
}

/* As many requests from one on as a call takes. */
static uint32_t fitting(const cli_drafts *drafts, uint32_t first, uint32_t rows)
{
    uint32_t n = 1;
    while (first + n < drafts->requests &&
           (uint32_t)(drafts->cu[first + n + 1] - drafts->cu[first]) <= rows)
        n++;
    return n;
}

static int enqueue(cli_target *target, const cli_job *job, const cli_drafts *drafts,
                   device_side *held)
{
    part of = {.trial = 0};
    for (; of.trial < drafts->trials; of.trial += of.trials) {
        const uint32_t left = drafts->trials - of.trial;
        of.trials = left < held->trials ? left : held->trials;
        for (of.request = 0; of.request < drafts->requests; of.request += of.requests) {
            of.requests = fitting(drafts, of.request, held->rows_of_call);
            if (enqueue_part(target, job, drafts, &of, held) != 0)
                return 1;
        }
    }
    return 0;
}

int cli_verify(cli_target *target, const cli_job *job, const cli_drafts *drafts)
{
    const size_t results = (size_t)drafts->trials * drafts->requests * 4;
    device_side held = {0};
    const int failed =
        make_all(target, job, drafts, &held) || enqueue(target, job, drafts, &held) ||
        cli_fetch(target, held.tokens, drafts->tokens, results * (drafts->most + 1)) ||
        (held.nodes != NULL &&
         cli_fetch(target, held.nodes, drafts->nodes, results * drafts->most)) ||
        cli_fetch(target, held.accepted, drafts->accepted, results) ||
        cli_fetch(target, held.status, drafts->status, results);
    clFinish(target->queue);
    let_go(&held);
    return failed;
}
