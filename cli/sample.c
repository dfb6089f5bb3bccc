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
    const char *logits, *dtype, *device, *mask, *bias, *prompt, *output, *seeds, *params_file;
    const char *tokens, *probs, *logprobs;
    uint32_t draws, work_group, vector;
    int32_t kind; /* of logprobs */
    bool json;
    cls_params params;
    cli_list stop_ids, logit_bias;
} request;

/* --------------------------------------------------------------------- inputs */

/* An array with a row for each of the logits'; `what` it should be is for the sentence. */
static int array_read(const char *path, uint32_t rows, const char *what, bool (*fits)(const cli_npy *), cli_npy *array)
{
    if (cli_npy_read(path, array) != 0)
        return 1;
    if (array->dims != 2 || !fits(array))
        cli_fail("%s: not an array %s", path, what);
    else if (array->shape[0] != rows)
        cli_fail("%s: %" PRIu64 " rows for %" PRIu32 " rows of logits", path, array->shape[0], rows);
    else if (array->shape[1] > INT32_MAX)
        cli_fail("%s: rows of %" PRIu64 " are too long", path, array->shape[1]);
    else
        return 0;
    free(array->data);
    array->data = NULL;
    return 1;
}

static bool is_bool(const cli_npy *array) { return array->size == 1 && array->kind != 'i'; }
static bool is_mask(const cli_npy *array) { return is_bool(array) || (array->size == 4 && array->kind != 'f'); }
static bool is_bias(const cli_npy *array) { return array->kind == 'f' && array->size != 8; }
static bool is_ids(const cli_npy *array) { return array->kind == 'i' && array->size >= 4; }

static int mask_read(const char *path, cli_job *job)
{
    cli_npy mask;
    if (array_read(path, job->logits->rows, "int32 [rows, words] or bool [rows, vocab]", is_mask, &mask) != 0)
        return 1;
    job->mask = mask.data;
    job->mask_width = (uint32_t)mask.shape[1];
    job->mask_kind = is_bool(&mask) ? CLS_MASK_BOOL : CLS_MASK_PACKED;
    if (mask.shape[1] > (is_bool(&mask) ? 1048576 : 32768))
        return cli_fail("%s: rows of %" PRIu32 " are longer than any vocabulary", path, job->mask_width);
    return 0;
}

static int bias_read(const char *path, cli_job *job)
{
    cli_npy bias;
    if (array_read(path, job->logits->rows, "float32 or float16 [rows, vocab]", is_bias, &bias) != 0)
        return 1;
    job->bias = bias.data;
    job->bias_dtype = bias.size == 4 ? CLS_F32 : CLS_F16;
    if (bias.shape[1] != job->logits->vocab)
        return cli_fail("%s: rows of %" PRIu64 " values for a vocabulary of %" PRIu32, path, bias.shape[1],
                        job->logits->vocab);
    return 0;
}

/* Token ids; what is none becomes -1, as the padding is. */
static int tokens_read(const char *path, uint32_t rows, cli_tokens *tokens)
{
    cli_npy array;
    const int64_t *wide;
    if (array_read(path, rows, "int32 [rows, tokens]", is_ids, &array) != 0)
        return 1;
    tokens->ids = array.data;
    tokens->width = (uint32_t)array.shape[1];
    wide = array.data;
    for (size_t i = 0; array.size == 8 && i < (size_t)rows * tokens->width; i++) {
        const int64_t id = wide[i];
        tokens->ids[i] = id < 0 || id > INT32_MAX ? -1 : (int32_t)id;
    }
    return 0;
}

static int inputs_read(const request *q, cli_job *job)
{
    const uint32_t rows = job->logits->rows;
    return (q->mask != NULL && mask_read(q->mask, job)) || (q->bias != NULL && bias_read(q->bias, job)) ||
           (q->prompt != NULL && tokens_read(q->prompt, rows, &job->prompt)) ||
           (q->output != NULL && tokens_read(q->output, rows, &job->output));
}

/* ------------------------------------------------------------------- results */

static void print_table(const request *q, const cli_job *job)
{
    printf("%6s %8s %8s %10s %11s  %s\n", "row", "position", "token", "logprob", "probability", "status");
    for (uint32_t r = 0; r < job->logits->rows; r++)
        for (uint32_t d = 0; d < q->draws; d++) {
            const size_t at = (size_t)r * q->draws + d;
            char words[64];
            printf("%6" PRIu32 " %8" PRIu64 " %8" PRId32 " %10.4f %11.6f  %s\n", r, cli_position(job, r) + d,
                   job->tokens[at], (double)job->logprobs[at], exp((double)job->logprobs[at]),
                   cli_status_words(job->status[at], words));
        }
}

/* {"row", "position", "status", "statuses", "status_words", "token", "tokens",
 * "logprob", "logprobs"}: the singular ones are those of the first draw. */
static json_t *row_json(const cli_job *job, uint32_t r)
{
    const size_t at = (size_t)r * job->draws;
    json_t *tokens = json_array(), *logprobs = json_array(), *statuses = json_array();
    char words[64];
    for (uint32_t d = 0; d < job->draws; d++) {
        json_array_append_new(tokens, json_integer(job->tokens[at + d]));
        json_array_append_new(logprobs, cli_real((double)job->logprobs[at + d]));
        json_array_append_new(statuses, json_integer(job->status[at + d]));
    }
    return json_pack("{s:i, s:I, s:i, s:o, s:s, s:i, s:o, s:o, s:o}", "row", (int)r, "position",
                     (json_int_t)cli_position(job, r), "status", (int)job->status[at], "statuses", statuses,
                     "status_words", cli_status_words(job->status[at], words), "token", (int)job->tokens[at], "tokens",
                     tokens, "logprob", cli_real((double)job->logprobs[at]), "logprobs", logprobs);
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

/* All parameters: those of the command line into q, those of each row into params. */
static int params_read(request *q, const cli_option *options, uint32_t rows, uint32_t vocab, cls_params *params)
{
    return cli_params_check(options, &q->params, vocab) || cli_params_stop_ids(&q->stop_ids, vocab, &q->params) ||
           cli_params_logit_bias(&q->logit_bias, vocab, &q->params) ||
           cli_params_rows(&q->params, q->params_file, q->seeds, rows, vocab, params);
}

static int sample(request *q, const cli_option *options, cls_params *params, cli_job *job)
{
    const size_t rows = job->logits->rows, vocab = job->logits->vocab;
    job->draws = q->draws;
    job->kind = q->kind == 1 ? CLS_LOGPROB_FINAL : CLS_LOGPROB_RAW;
    job->tokens = calloc(rows * q->draws, sizeof *job->tokens);
    job->logprobs = calloc(rows * q->draws, sizeof *job->logprobs);
    job->status = calloc(rows * q->draws, sizeof *job->status);
    if (q->probs != NULL)
        job->probs = calloc(rows * vocab, sizeof *job->probs);
    if (job->tokens == NULL || job->logprobs == NULL || job->status == NULL || (q->probs != NULL && job->probs == NULL))
        return cli_no_memory();
    if (params_read(q, options, (uint32_t)rows, (uint32_t)vocab, params) != 0 || inputs_read(q, job) != 0)
        return 1;
    for (uint32_t r = 0; r < rows; r++)
        if (cli_position(job, r) > UINT32_MAX - (q->draws - 1))
            return cli_fail("--draws: row %" PRIu32 " has no %" PRIu32 " positions from %" PRIu64 " on", r, q->draws,
                            cli_position(job, r));
    return run(q, job) || write_files(q, job) || print_results(q, job);
}

static void job_free(cli_job *job)
{
    free((void *)(uintptr_t)job->mask);
    free((void *)(uintptr_t)job->bias);
    free(job->prompt.ids);
    free(job->output.ids);
    free(job->tokens);
    free(job->logprobs);
    free(job->status);
    free(job->probs);
}

/* Everything from the file of logits on. */
static int sample_file(request *q, const cli_option *options)
{
    cli_logits logits;
    cls_params *params = NULL;
    cli_job job = {.logits = &logits};
    int failed;
    if (cli_logits_read(q->logits, q->dtype, &logits) != 0)
        return 1;
    if (q->draws > SIZE_MAX / 8 / logits.rows)
        failed = cli_fail("--draws: %" PRIu32 " draws of %" PRIu32 " rows are too many", q->draws, logits.rows);
    else if ((params = calloc(logits.rows, sizeof *params)) == NULL)
        failed = cli_no_memory();
    else {
        job.params = params;
        failed = sample(q, options, params, &job);
    }
    job_free(&job);
    cli_params_free(&q->params, params, logits.rows);
    free(logits.data);
    return failed;
}

int cls_cmd_sample(int argc, char **argv)
{
    request q = {.draws = 1};
    int failed = 1;
    cli_option options[] = {
        {"logits", CLI_STRING, &q.logits, "FILE.npy", "[rows, vocab] float32 or float16, or uint16 as bf16", NULL, 0},
        {"dtype", CLI_STRING, &q.dtype, "TYPE", "f32, f16 or bf16 (default: by the file)", NULL, 0},
        {"device", CLI_STRING, &q.device, "N|host", "a number of clsample devices, or the reference on the host", NULL,
         0},
        CLI_PARAM_OPTIONS(&q.params),
        {"stop-id", CLI_LIST, &q.stop_ids, "ID", "stop with this token", NULL, 0},
        {"logit-bias", CLI_LIST, &q.logit_bias, "ID:VALUE", "add VALUE to a token's logit; -inf bans it", NULL, 0},
        {"seeds", CLI_STRING, &q.seeds, "FILE.npy", "uint64 [rows]: each row's seed", NULL, 0},
        {"params", CLI_STRING, &q.params_file, "FILE.json", "an array with one object of parameters a row", NULL, 0},
        {"prompt", CLI_STRING, &q.prompt, "FILE.npy", "int32 [rows, tokens], -1 padded: the requests' prompts", NULL,
         0},
        {"output", CLI_STRING, &q.output, "FILE.npy", "and what they have generated so far, shaped alike", NULL, 0},
        {"mask", CLI_STRING, &q.mask, "FILE.npy", "allowed tokens: int32 [rows, words of 32], or bool [rows, vocab]",
         NULL, 0},
        {"bias", CLI_STRING, &q.bias, "FILE.npy", "added to the logits: float32 or float16 [rows, vocab]", NULL, 0},
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
        failed = 0;
        break;
    case CLI_FAILED:
        break;
    case CLI_GO:
        if (q.logits == NULL)
            cli_fail("--logits: a file of logits is needed");
        else if (q.draws == 0)
            cli_fail("--draws: at least one is needed");
        else if (q.vector != 0 && q.vector != 2 && q.vector != 4 && q.vector != 8 && q.vector != 16)
            cli_fail("--vector: %" PRIu32 " is none of 2, 4, 8, 16", q.vector);
        else
            failed = sample_file(&q, options);
    }
    free(q.stop_ids.text);
    free(q.logit_bias.text);
    return failed;
}
