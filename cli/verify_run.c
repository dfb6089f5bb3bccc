/* SPDX-License-Identifier: MIT */
/* Verifies drafts: by the reference, or on the device, as a runtime would call the library.
 *
 * There each trial of a request is a separate request with a slot, which begins before the call. A
 * call has as many trials as memory allows, because it costs more than a trial of a small
 * vocabulary. If there are too many requests for one call, several calls share them. */
#include <inttypes.h>
#include <string.h>

#include "verify.h"

/* Limits of one call: its rows, and roughly its memory for logits, tokens and the library's
 * lists. */
#define CALL_ROWS 65535u
#define CALL_BYTES ((size_t)128 << 20)
#define LISTS_BYTES ((size_t)32 << 10)

/* The objects of a run: the inputs of one call, and the results of all. */
typedef struct device_side {
    uint32_t trials, rows_of_call, slots; /* the most of a call */
    cls_sampler *sampler;
    cl_mem logits, draft, mask, bias, tokens, nodes, accepted, status;
    int32_t *cu, *ids, *parents, *positions, *rows;
} device_side;

static void size_calls(const cli_job *job, const cli_drafts *drafts, device_side *side)
{
    const cli_logits *const logits = job->logits;
    const size_t row = logits->vocab * (logits->size + (drafts->draft != NULL ? 4 : 0)) +
                       16 * (size_t)job->history +
                       4 * ((size_t)job->prompt.width + job->output.width);
    const size_t by_memory = CALL_BYTES / (row + LISTS_BYTES);
    const uint32_t least = CLS_MAX_DRAFTS + 1,
                   most = by_memory < CALL_ROWS ? (uint32_t)by_memory : CALL_ROWS;
    side->rows_of_call = most > least ? most : least;
    side->trials = side->rows_of_call / logits->rows;
    if (side->trials > drafts->trials)
        side->trials = drafts->trials;
    if (side->trials == 0)
        side->trials = 1;
    else
        side->rows_of_call = side->trials * logits->rows;
    side->slots = side->trials * drafts->requests < side->rows_of_call
                      ? side->trials * drafts->requests
                      : side->rows_of_call;
}

/* n copies of `size` bytes, one after another; NULL of NULL. */
static void *repeated(const void *from, size_t size, uint32_t n)
{
    char *const to = from != NULL ? cli_alloc(n, size) : NULL;
    for (uint32_t i = 0; i < n && from != NULL; i++)
        memcpy(to + i * size, from, size);
    return to;
}

static int create_repeated(cli_target *target, cl_mem *buffer, const char *what, size_t size,
                           const void *from, uint32_t n)
{
    void *const all = repeated(from, size, n);
    const int failed = all != NULL && cli_buffer(target, buffer, what, size * n, all);
    cli_free(all);
    return failed;
}

/* Allocates the arrays of a call on the host. All trials share the rows of masks and biases. */
static void create_arrays(const cli_job *job, const cli_drafts *drafts, device_side *side)
{
    const size_t ids = drafts->count * sizeof *drafts->ids, rows = job->logits->rows;
    side->cu = cli_alloc(side->slots + (size_t)1, sizeof *side->cu);
    side->positions = cli_alloc(side->slots, sizeof *side->positions);
    side->rows = cli_alloc(side->trials * rows, sizeof *side->rows);
    side->ids = repeated(drafts->ids, ids, side->trials);
    side->parents = repeated(drafts->parents, ids, side->trials);
    for (size_t r = 0; r < side->trials * rows; r++)
        side->rows[r] = (int32_t)(r % rows);
}

static int create_all(cli_target *target, const cli_job *job, const cli_drafts *drafts,
                      device_side *side)
{
    const size_t rows = job->logits->rows, vocab = job->logits->vocab,
                 results = (size_t)drafts->trials * drafts->requests;
    cls_sampler_options options;
    size_calls(job, drafts, side);
    create_arrays(job, drafts, side);
    cli_sampler_options(job, drafts->requests, &options);
    options.features |= CLS_FEATURE_VERIFY;
    options.max_rows = side->rows_of_call;
    options.slot_count = side->slots;
    return cli_sampler_create(target, job, &options, &side->sampler) ||
           create_repeated(target, &side->logits, "logits", rows * vocab * job->logits->size,
                           job->logits->data, side->trials) ||
           create_repeated(target, &side->draft, "draft",
                           drafts->count * vocab * cli_draft_size(job, drafts), drafts->draft,
                           side->trials) ||
           cli_buffer(target, &side->mask, "mask", rows * cli_mask_size(job), job->mask) ||
           cli_buffer(target, &side->bias, "bias", rows * cli_bias_size(job), job->bias) ||
           cli_buffer(target, &side->tokens, "tokens", results * (drafts->most + 1) * 4, NULL) ||
           cli_buffer(target, &side->nodes, "nodes", results * drafts->most * 4, NULL) ||
           cli_buffer(target, &side->accepted, "accepted", results * 4, NULL) ||
           cli_buffer(target, &side->status, "status", results * 4, NULL);
}

/* The requests of one call: all requests of some trials, or some requests of one trial. */
typedef struct part {
    uint32_t trial, trials, request, requests;
} part;

/* Begins the slots of a part, and computes the first rows and positions of its requests. */
static int begin_part(const cli_job *job, const cli_drafts *drafts, const part *of,
                      device_side *side)
{
    const int32_t *const cu = drafts->cu + of->request;
    const uint32_t n = of->trials * of->requests;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t trial = i / of->requests, k = i % of->requests;
        side->cu[i] = (int32_t)(trial * job->logits->rows) + cu[k] - cu[0];
        side->positions[i] =
            (int32_t)cli_draft_position(job, drafts, of->trial + trial, of->request + k);
        if (cli_slot_begin(job, of->request + k, side->sampler, i) != 0)
            return 1;
    }
    side->cu[n] = (int32_t)((of->trials - 1) * job->logits->rows) + cu[of->requests] - cu[0];
    return 0;
}

static void make_call(const cli_job *job, const cli_drafts *drafts, const part *of,
                      const device_side *side, cls_verify_call *call)
{
    const uint64_t row = (uint64_t)drafts->cu[of->request], draft = row - of->request;
    const uint64_t result = (uint64_t)of->trial * drafts->requests + of->request;
    cls_verify_call_init(call);
    call->requests = of->trials * of->requests;
    call->method = drafts->method;
    call->row_offsets = side->cu;
    call->logits.dtype = (int32_t)job->logits->dtype;
    call->logits.values.buffer = side->logits;
    call->logits.values.offset = row * job->logits->vocab * job->logits->size;
    call->positions.host = side->positions;
    call->draft_ids.host = side->ids != NULL ? side->ids + draft : NULL;
    call->parents.host = side->parents != NULL ? side->parents + draft : NULL;
    if (side->draft != NULL) {
        call->draft_kind = (int32_t)drafts->kind;
        call->draft =
            (cls_buffer){.buffer = side->draft,
                         .offset = draft * job->logits->vocab * cli_draft_size(job, drafts)};
    }
    call->disable_bonus = drafts->disable_bonus;
    call->epsilon = drafts->epsilon;
    call->delta = drafts->delta;
    if (side->mask != NULL) {
        call->mask.words.buffer = side->mask;
        call->mask.width = job->mask_width;
        call->mask.kind = (int32_t)job->mask_kind;
        call->mask.rows = job->logits->rows;
        call->mask.row_map.host = side->rows + row;
    }
    if (side->bias != NULL) {
        call->bias.values.buffer = side->bias;
        call->bias.dtype = (int32_t)job->bias_dtype;
        call->bias.rows = job->logits->rows;
        call->bias.row_map.host = side->rows + row;
    }
    call->max_drafts = drafts->most;
    call->tokens = (cls_buffer){.buffer = side->tokens, .offset = result * (drafts->most + 1) * 4};
    if (side->nodes != NULL)
        call->nodes = (cls_buffer){.buffer = side->nodes, .offset = result * drafts->most * 4};
    call->accepted = (cls_buffer){.buffer = side->accepted, .offset = result * 4};
    call->status = (cls_buffer){.buffer = side->status, .offset = result * 4};
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
    for (; of.trial < drafts->trials; of.trial += of.trials) {
        const uint32_t left = drafts->trials - of.trial;
        of.trials = left < side->trials ? left : side->trials;
        for (of.request = 0; of.request < drafts->requests; of.request += of.requests) {
            of.requests = fitting(drafts, of.request, side->rows_of_call);
            if (enqueue_part(target, job, drafts, &of, side) != 0)
                return 1;
        }
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
        cli_fetch(target, side.status, drafts->status, results);
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
