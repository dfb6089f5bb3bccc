/* SPDX-License-Identifier: MIT */
/* clsample sample: logits in a file to tokens. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* What the options say. */
typedef struct request {
    const char *logits, *dtype, *device, *mask, *seeds, *params_file;
    const char *tokens, *probs, *logprobs;
    uint32_t draws, work_group, vector;
    int32_t kind; /* of logprobs */
    bool json;
    cls_params params;
} request;

static int mask_read(const char *path, uint32_t rows, cli_npy *mask)
{
    if (cli_npy_read(path, mask) != 0)
        return 1;
    if (mask->kind == 'f' || mask->size != 4 || mask->dims != 2)
        cli_fail("%s: not an array int32 [rows, words]", path);
    else if (mask->shape[0] != rows)
        cli_fail("%s: %" PRIu64 " mask rows for %" PRIu32 " rows of logits", path, mask->shape[0], rows);
    else if (mask->shape[1] > 32768)
        cli_fail("%s: rows of %" PRIu64 " words are longer than 32768", path, mask->shape[1]);
    else
        return 0;
    free(mask->data);
    mask->data = NULL;
    return 1;
}

/* ------------------------------------------------------------------- results */

static void print_table(const request *q, const cli_job *job)
{
    printf("%6s %8s %8s %10s %11s  %s\n", "row", "position", "token", "logprob", "probability", "status");
    for (uint32_t r = 0; r < job->logits->rows; r++)
        for (uint32_t d = 0; d < q->draws; d++) {
            const size_t at = (size_t)r * q->draws + d;
            char words[64];
            printf("%6" PRIu32 " %8" PRIu32 " %8" PRId32 " %10.4f %11.6f  %s\n", r, job->params[r].position + d,
                   job->tokens[at], (double)job->logprobs[at], exp((double)job->logprobs[at]),
                   cli_status_words(job->status[r], words));
        }
}

/* {"row", "status", "status_words", "token", "tokens", "logprob", "logprobs"}:
 * the singular ones are those of the first draw. */
static json_t *row_json(const cli_job *job, uint32_t r)
{
    const int32_t *tokens = job->tokens + (size_t)r * job->draws;
    const float *logprobs = job->logprobs + (size_t)r * job->draws;
    json_t *all_tokens = json_array(), *all_logprobs = json_array();
    char words[64];
    for (uint32_t d = 0; d < job->draws; d++) {
        json_array_append_new(all_tokens, json_integer(tokens[d]));
        json_array_append_new(all_logprobs, cli_real((double)logprobs[d]));
    }
    return json_pack("{s:i, s:i, s:s, s:i, s:o, s:o, s:o}", "row", (int)r, "status", (int)job->status[r],
                     "status_words", cli_status_words(job->status[r], words), "token", (int)tokens[0], "tokens",
                     all_tokens, "logprob", cli_real((double)logprobs[0]), "logprobs", all_logprobs);
}

static int print_results(const request *q, const cli_job *job)
{
    json_t *array;
    if (!q->json) {
        print_table(q, job);
        return cli_flush();
    }
    array = json_array();
    for (uint32_t r = 0; r < job->logits->rows; r++)
        if (json_array_append_new(array, row_json(job, r)) != 0) {
            json_decref(array);
            return cli_no_memory();
        }
    return cli_print_json(array);
}

static int write_files(const request *q, const cli_job *job)
{
    const uint64_t drawn[2] = {job->logits->rows, q->draws};
    const uint64_t whole[2] = {job->logits->rows, job->logits->vocab};
    const unsigned dims = q->draws > 1 ? 2 : 1;
    return (q->tokens != NULL && cli_npy_write(q->tokens, 'i', dims, drawn, job->tokens)) ||
           (q->logprobs != NULL && cli_npy_write(q->logprobs, 'f', dims, drawn, job->logprobs)) ||
           (q->probs != NULL && cli_npy_write(q->probs, 'f', 2, whole, job->probs));
}

/* ----------------------------------------------------------------------- run */

static int run(const request *q, const cli_job *job)
{
    cls_context_options options;
    cli_target target;
    int failed;
    if (q->device != NULL && strcmp(q->device, "host") == 0)
        return cli_run_host(job);
    cls_context_options_default(&options, sizeof options);
    options.dtypes = 1u << job->logits->dtype;
    options.work_group = q->work_group;
    options.vector = q->vector;
    if (cli_open(q->device, &options, 0, &target) != 0)
        return 1;
    failed = cli_run(&target, job);
    cli_close(&target);
    return failed;
}

static int sample(const request *q, const cli_option *options, cli_logits *logits, cli_npy *mask, cli_job *job)
{
    const uint32_t rows = logits->rows;
    cls_params *params;
    if (cli_params_check(options, &q->params, logits->vocab) != 0)
        return 1;
    if (q->draws > SIZE_MAX / 8 / rows)
        return cli_fail("--draws: %" PRIu32 " draws of %" PRIu32 " rows are too many", q->draws, rows);
    job->params = params = calloc(rows, sizeof *params);
    job->tokens = calloc((size_t)rows * q->draws, sizeof *job->tokens);
    job->logprobs = calloc((size_t)rows * q->draws, sizeof *job->logprobs);
    job->status = calloc(rows, sizeof *job->status);
    if (q->probs != NULL)
        job->probs = calloc((size_t)rows * logits->vocab, sizeof *job->probs);
    if (params == NULL || job->tokens == NULL || job->logprobs == NULL || job->status == NULL ||
        (q->probs != NULL && job->probs == NULL))
        return cli_no_memory();
    if (cli_params_rows(&q->params, q->params_file, q->seeds, rows, logits->vocab, params) != 0)
        return 1;
    for (uint32_t r = 0; r < rows; r++)
        if (params[r].position > UINT32_MAX - (q->draws - 1))
            return cli_fail("--draws: row %" PRIu32 " has no %" PRIu32 " positions from %" PRIu32 " on", r, q->draws,
                            params[r].position);
    if (q->mask != NULL) {
        if (mask_read(q->mask, rows, mask) != 0)
            return 1;
        job->mask = mask->data;
        job->mask_width = (uint32_t)mask->shape[1];
    }
    job->logits = logits;
    job->draws = q->draws;
    job->kind = q->kind == 1 ? CLS_LOGPROB_FINAL : CLS_LOGPROB_RAW;
    return run(q, job) || write_files(q, job) || print_results(q, job);
}

int cls_cmd_sample(int argc, char **argv)
{
    request q = {.draws = 1};
    cli_logits logits;
    cli_npy mask = {0};
    cli_job job = {0};
    int failed;
    cli_option options[] = {
        {"logits", CLI_STRING, &q.logits, "FILE.npy", "[rows, vocab] float32 or float16, or uint16 as bf16", NULL, 0},
        {"dtype", CLI_STRING, &q.dtype, "TYPE", "f32, f16 or bf16 (default: by the file)", NULL, 0},
        {"device", CLI_STRING, &q.device, "N|host", "a number of clsample devices, or the reference on the host", NULL,
         0},
        CLI_PARAM_OPTIONS(&q.params),
        {"seeds", CLI_STRING, &q.seeds, "FILE.npy", "uint64 [rows]: each row's seed", NULL, 0},
        {"params", CLI_STRING, &q.params_file, "FILE.json", "an array with one object of parameters a row", NULL, 0},
        {"mask", CLI_STRING, &q.mask, "FILE.npy", "int32 [rows, words]: bit t % 32 of word t / 32 allows token t", NULL,
         0},
        {"draws", CLI_UINT, &q.draws, "N", "draw N times a row, at successive positions (default 1)", NULL, 0},
        {"tokens", CLI_STRING, &q.tokens, "OUT.npy", "write the tokens: int32 [rows], or [rows, draws]", NULL, 0},
        {"logprobs", CLI_STRING, &q.logprobs, "OUT.npy", "write their logprobs: float32, shaped alike", NULL, 0},
        {"logprob-kind", CLI_CHOICE, &q.kind, "KIND", "raw (of the logits; default) or final (drawn from)", "raw|final",
         0},
        {"probs", CLI_STRING, &q.probs, "OUT.npy", "write what was drawn from: float32 [rows, vocab]", NULL, 0},
        {"work-group", CLI_UINT, &q.work_group, "N", "work-items of a group (default: by the device)", NULL, 0},
        {"vector", CLI_UINT, &q.vector, "N", "logits loaded at once: 2, 4, 8 or 16 (default: by the device)", NULL, 0},
        {"json", CLI_FLAG, &q.json, NULL, "print an array with one object a row", NULL, 0},
        {NULL, CLI_FLAG, NULL, NULL, NULL, NULL, 0}};
    cls_params_default(&q.params, sizeof q.params);
    switch (cli_parse(argc, argv, "sample --logits FILE.npy [OPTION]...", "Draws a token for each row of logits.",
                      options)) {
    case CLI_HELPED:
        return 0;
    case CLI_FAILED:
        return 1;
    case CLI_GO:
        break;
    }
    if (q.logits == NULL)
        return cli_fail("--logits: a file of logits is needed");
    if (q.draws == 0)
        return cli_fail("--draws: at least one is needed");
    if (q.vector != 0 && q.vector != 2 && q.vector != 4 && q.vector != 8 && q.vector != 16)
        return cli_fail("--vector: %" PRIu32 " is none of 2, 4, 8, 16", q.vector);
    if (cli_logits_read(q.logits, q.dtype, &logits) != 0)
        return 1;
    failed = sample(&q, options, &logits, &mask, &job);
    free((void *)(uintptr_t)job.params);
    free(job.tokens);
    free(job.logprobs);
    free(job.status);
    free(job.probs);
    free(mask.data);
    free(logits.data);
    return failed;
}
