/* SPDX-License-Identifier: MIT */
/* clsample sample: draws tokens from logits in a file. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "log.h"
#include "outputs.h"
#include "shards.h"

/* The most rows of --rows, which are listed before the file is read. */
#define MOST_PICKED (1u << 24)

/* The most logits whose log-probabilities the host computes for the table. */
#define MOST_BY_HOST (UINT64_C(1) << 24)

/* The values of the options. */
typedef struct command {
    cli_request request;
    const char *rows, *device, *tokens, *probs, *logprobs, *top_ids, *top_values, *set_ids,
        *set_counts, *candidates, *log;
    uint32_t draws;
    cls_context_options kernels;
    cli_split_options split;
    int32_t logprob_kind;
    bool json;
    cli_outputs outputs;
} command;

/* ------------------------------------------------------------------- results */

/* Prints the likeliest tokens below the row's first draw. */
static void print_top(const cli_outputs *outputs, uint32_t r)
{
    const int32_t *const ids = cli_outputs_ints(outputs, CLI_TOP_IDS, r);
    const float *const logprobs = cli_outputs_floats(outputs, CLI_TOP_LOGPROBS, r);
    for (uint32_t i = 0; i < outputs->top_n && ids[i] >= 0; i++)
        printf("%15s %8" PRId32 " %10.4f %11.6f\n", i == 0 ? "likeliest" : "", ids[i],
               (double)logprobs[i], exp((double)logprobs[i]));
}

/* Prints the kept set of the row's first draw. */
static void print_set(const cli_outputs *outputs, uint32_t r)
{
    const int32_t *const ids = cli_outputs_ints(outputs, CLI_SET_IDS, r);
    printf("%15s %8" PRId32 ":", "kept", *cli_outputs_ints(outputs, CLI_SET_COUNTS, r));
    for (uint32_t i = 0; i < outputs->set_n && ids[i] >= 0; i++)
        printf(" %" PRId32, ids[i]);
    putchar('\n');
}

static int print_table(const command *q, const cli_job *job)
{
    printf("%6s %8s %8s %10s %11s  %s\n", "row", "position", "token", "logprob", "probability",
           "status");
    for (uint32_t r = 0; r < job->logits->rows; r++)
        for (uint32_t d = 0; d < q->draws; d++) {
            const size_t at = (size_t)r * q->draws + d;
            char words[CLI_STATUS_WORDS];
            printf("%6" PRIu32 " %8" PRIu64 " %8" PRId32 " %10.4f %11.6f  %s\n",
                   cli_row_number(job->picked, r), cli_position(job, r) + d, job->tokens[at],
                   (double)job->logprobs[at], exp((double)job->logprobs[at]),
                   cli_status_words(job->status[at], words));
            if (d == 0 && job->outputs != NULL)
                print_top(job->outputs, r);
            if (d == 0 && q->outputs.set_n != 0)
                print_set(job->outputs, r);
        }
    return cli_flush_output();
}

/* {"row", "position", "status", "statuses", "status_words", "token", "tokens",
 * "logprob", "logprobs"}: a key in the singular has the value of the first draw. */
static json_t *row_json(const cli_job *job, uint32_t r)
{
    const size_t at = (size_t)r * job->draws;
    json_t *const logprobs = json_array();
    char words[CLI_STATUS_WORDS];
    for (uint32_t d = 0; d < job->draws; d++)
        json_array_append_new(logprobs, cli_real((double)job->logprobs[at + d]));
    json_t *const object = json_pack(
        "{s:i, s:I, s:i, s:o, s:s, s:i, s:o, s:o, s:o}", "row", (int)cli_row_number(job->picked, r),
        "position", (json_int_t)cli_position(job, r), "status", (int)job->status[at], "statuses",
        cli_ids_json(job->status + at, job->draws), "status_words",
        cli_status_words(job->status[at], words), "token", (int)job->tokens[at], "tokens",
        cli_ids_json(job->tokens + at, job->draws), "logprob", cli_real((double)job->logprobs[at]),
        "logprobs", logprobs);
    if (job->outputs != NULL)
        cli_outputs_json(job->outputs, r, object);
    return object;
}

static int print_results(const command *q, const cli_job *job)
{
    json_t *const array = json_array();
    if (!q->json)
        return print_table(q, job);
    for (uint32_t r = 0; r < job->logits->rows; r++)
        json_array_append_new(array, row_json(job, r));
    return cli_print_json(array);
}

/* Writes one of the further outputs of all rows. */
static int write_part(const char *path, char kind, unsigned dims, const cli_outputs *outputs,
                      cli_part part)
{
    const uint64_t shape[2] = {outputs->rows, outputs->width[part]};
    return path != NULL &&
           cli_npy_write(path, kind, dims, shape, cli_outputs_ints(outputs, part, 0));
}

static int write_files(const command *q, const cli_job *job)
{
    const uint64_t drawn[2] = {job->logits->rows, q->draws};
    const uint64_t whole[2] = {job->logits->rows, job->logits->vocab};
    const unsigned dims = q->draws > 1 ? 2 : 1;
    return (q->tokens != NULL && cli_npy_write(q->tokens, 'i', dims, drawn, job->tokens)) ||
           (q->logprobs != NULL && cli_npy_write(q->logprobs, 'f', dims, drawn, job->logprobs)) ||
           (q->probs != NULL && cli_npy_write(q->probs, 'f', 2, whole, job->probs)) ||
           write_part(q->top_ids, 'i', 2, &q->outputs, CLI_TOP_IDS) ||
           write_part(q->top_values, 'f', 2, &q->outputs, CLI_TOP_LOGPROBS) ||
           write_part(q->set_ids, 'i', 2, &q->outputs, CLI_SET_IDS) ||
           write_part(q->set_counts, 'i', 1, &q->outputs, CLI_SET_COUNTS) ||
           (q->candidates != NULL && cli_candidates_write(q->candidates, job)) ||
           (q->log != NULL && cli_log_write(q->log, &q->request, job));
}

/* ----------------------------------------------------------------------- run */

/* Whether the log-probabilities are for the table alone and few. The host then computes them, in
 * less time than three more programs take to compile. */
static bool host_has_logprobs(const command *q, const cli_job *job)
{
    const uint64_t logits = (uint64_t)job->logits->rows * q->draws * job->logits->vocab;
    return !q->json && q->logprobs == NULL && job->kind == CLS_LOGPROB_RAW &&
           logits <= MOST_BY_HOST;
}

static int run(const command *q, const cli_job *job)
{
    const bool by_host = host_has_logprobs(q, job);
    cls_context_options options = q->kernels;
    cli_job drawn = *job;
    cli_target *targets;
    int failed;
    if (cli_on_host(q->device))
        return cli_job_run_host(job);
    options.dtypes = 1u << job->logits->dtype;
    if (cli_split_open(q->device, &options, &job->split, &targets) != 0)
        return 1;
    if (by_host)
        drawn.logprobs = NULL;
    failed = cli_job_run(targets, &drawn);
    cli_split_close(&job->split, targets);
    return failed || (by_host && cli_job_logprobs(job));
}

/* Fails if options are out of range or exclude each other. */
static int check(const command *q)
{
    const char *const of_top = q->top_ids != NULL ? "--logprobs-top-ids" : "--logprobs-top-values";
    const char *const of_set = q->set_ids != NULL ? "--kept-set-ids" : "--kept-set-counts";
    const uint32_t vector = q->kernels.vector;
    const bool on_host = cli_on_host(q->device);
    if (q->draws == 0)
        return cli_fail("--draws: it must be at least 1");
    if (vector != 0 && vector != 2 && vector != 4 && vector != 8 && vector != 16)
        return cli_fail("--vector: %" PRIu32 " is not one of 2, 4, 8, 16", vector);
    if (q->outputs.top_n > CLI_MOST_TOP)
        return cli_fail("--logprobs-top: %" PRIu32 " is too large; the most is %u",
                        q->outputs.top_n, CLI_MOST_TOP);
    if ((q->top_ids != NULL || q->top_values != NULL) && q->outputs.top_n == 0)
        return cli_fail("%s: it requires --logprobs-top", of_top);
    if ((q->set_ids != NULL || q->set_counts != NULL) && q->outputs.set_n == 0)
        return cli_fail("%s: it requires --kept-set", of_set);
    if (on_host && q->candidates != NULL)
        return cli_fail(
            "--candidates: the reference does not return them; choose another --device");
    if (on_host && q->outputs.top_n != 0 && q->logprob_kind == 1)
        return cli_fail("--logprobs-top: the reference has only those of raw logits; choose "
                        "another --device");
    return 0;
}

static void results_alloc(const command *q, cli_job *job)
{
    const size_t rows = job->logits->rows, drawn = rows * q->draws;
    job->draws = q->draws;
    job->kind = q->logprob_kind == 1 ? CLS_LOGPROB_FINAL : CLS_LOGPROB_RAW;
    job->tokens = cli_alloc(drawn, sizeof *job->tokens);
    job->logprobs = cli_alloc(drawn, sizeof *job->logprobs);
    job->status = cli_alloc(drawn, sizeof *job->status);
    if (q->probs != NULL)
        job->probs = cli_alloc(rows, job->logits->vocab * sizeof *job->probs);
}

static int sample(command *q, cli_job *job)
{
    const uint32_t rows = job->logits->rows;
    if (q->outputs.top_n != 0 || q->outputs.candidates || q->outputs.set_n != 0)
        job->outputs = &q->outputs;
    if (q->outputs.set_n > job->logits->vocab)
        return cli_fail("--kept-set: %" PRIu32 " is more than the vocabulary's %" PRIu32 " tokens",
                        q->outputs.set_n, job->logits->vocab);
    if (q->draws > SIZE_MAX / 8 / rows)
        return cli_fail("--draws: %" PRIu32 " draws of %" PRIu32 " rows need too much memory",
                        q->draws, rows);
    for (uint32_t r = 0; r < rows; r++)
        if (cli_position(job, r) > UINT32_MAX - (q->draws - 1))
            return cli_fail("--draws: %" PRIu32 " draws of row %" PRIu32 " from position %" PRIu64
                            " on exceed the last position, 4294967295",
                            q->draws, cli_row_number(job->picked, r), cli_position(job, r));
    results_alloc(q, job);
    return run(q, job) || write_files(q, job) || print_results(q, job);
}

int cls_cmd_sample(int argc, char **argv)
{
    command q = {.draws = 1};
    cli_job job = {0};
    cli_option options[] = {
        CLI_REQUEST_OPTIONS(&q.request),
        {"rows", CLI_STRING, &q.rows, "LIST",
         "read and sample only these rows, such as 0,3,8-15 (default: all)"},
        CLI_DEVICE_OR_HOST(&q.device),
        {"shards", CLI_UINT, &q.split.shards, "N",
         "split the vocabulary over N shards, as a runtime splits it over devices"},
        {"borders", CLI_LIST, &q.split.borders, "IDS",
         "the first token of each shard but shard 0, separated by commas"},
        {"draws", CLI_UINT, &q.draws, "N",
         "draw N tokens for each row, at successive positions (default 1)"},
        {"tokens", CLI_OUTPUT, &q.tokens, "OUT.npy",
         "write the tokens: int32 [rows], or [rows, draws]"},
        {"logprobs", CLI_OUTPUT, &q.logprobs, "OUT.npy",
         "write their log-probabilities: float32 of the same shape"},
        {"logprob-kind", CLI_CHOICE, &q.logprob_kind, "KIND=raw|final",
         "raw (default): by the logits; final: by the distribution that is drawn from"},
        {"probs", CLI_OUTPUT, &q.probs, "OUT.npy",
         "write the final distribution: float32 [rows, vocab]"},
        {"logprobs-top", CLI_UINT, &q.outputs.top_n, "N",
         "also print the N likeliest tokens of each row"},
        {"logprobs-top-ids", CLI_OUTPUT, &q.top_ids, "OUT.npy", "write their ids: int32 [rows, N]"},
        {"logprobs-top-values", CLI_OUTPUT, &q.top_values, "OUT.npy",
         "write their log-probabilities: float32 [rows, N]"},
        {"kept-set", CLI_UINT, &q.outputs.set_n, "N",
         "also print the ids of each row's kept set, at most N"},
        {"kept-set-ids", CLI_OUTPUT, &q.set_ids, "OUT.npy", "write these ids: int32 [rows, N]"},
        {"kept-set-counts", CLI_OUTPUT, &q.set_counts, "OUT.npy",
         "write the sizes of the whole sets: int32 [rows]"},
        {"candidates", CLI_OUTPUT, &q.candidates, "OUT.json",
         "write the tokens of each row that the chain keeps"},
        {"log", CLI_OUTPUT, &q.log, "FILE", "write what was sampled, for clsample replay"},
        {"work-group", CLI_UINT, &q.kernels.work_group, "N",
         "work-items in a group (default: chosen for the device)"},
        {"vector", CLI_UINT, &q.kernels.vector, "N",
         "logits per load: 2, 4, 8 or 16 (default: chosen for the device)"},
        CLI_DEVICE_OPTIONS(&q.kernels),
        {"json", CLI_FLAG, &q.json, NULL, "print an array with one object for each row"},
        CLI_NO_OPTION};
    cli_request_default(&q.request);
    cls_context_options_default(&q.kernels, sizeof q.kernels);
    const cli_parsed parsed = cli_parse(argc, argv, "sample --logits FILE.npy [OPTION]...",
                                        "Draws a token for each row of logits.", options);
    if (parsed != CLI_GO)
        return parsed == CLI_FAILED;
    q.outputs.candidates = q.candidates != NULL;
    q.request.picked.option = "--rows";
    return check(&q) || cli_split_check(&q.split, q.device) ||
           (q.log != NULL && cli_log_check(&q.request)) ||
           (q.rows != NULL && cli_picked_parse(q.rows, MOST_PICKED, &q.request.picked)) ||
           cli_request_read(&q.request, &job) ||
           cli_split_read(&q.split, q.device, job.logits->vocab, &job.split) || sample(&q, &job);
}
