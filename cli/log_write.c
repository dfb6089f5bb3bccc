/* SPDX-License-Identifier: MIT */
/* Writes the log of a job: a header, then each request with its tokens, one JSON object a line. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "results.h"

uint64_t cli_hash(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *const bytes = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

/* -------------------------------------------------------------------- the files */

static void check_file(const char *path)
{
    cli_npy array;
    if (path == NULL)
        return;
    cli_npy_open(path, &array);
    cli_npy_close(&array);
    if (!array.seekable)
        cli_die("--log: %s is a pipe, which replay cannot read again; store the "
                "array in a file",
                path);
}

void cli_log_check(const cli_request *q)
{
    check_file(q->logits_path);
    check_file(q->mask);
    check_file(q->bias);
    check_file(q->prefixes);
}

/* Opens the file, and returns {"file", "size"}. */
static json_t *file_json(const char *path, cli_npy *array)
{
    cli_npy_open(path, array);
    cli_npy_close(array);
    json_t *const file =
        json_pack("{s:s, s:I}", "file", path, "size", (json_int_t)(array->begin + array->bytes));
    if (file == NULL)
        cli_die("--log: the name %s is not valid UTF-8, which JSON requires", path);
    return file;
}

/* {"file", "digest"}: a grammar is the same if its digest is, however the file is written. */
static json_t *grammar_json(const cli_request *q)
{
    json_t *const file = json_pack("{s:s}", "file", q->grammar_path);
    char digest[CLI_DIGEST];
    if (file == NULL)
        cli_die("--log: the name %s is not valid UTF-8, which JSON requires", q->grammar_path);
    cli_grammar_digest(q->grammar, digest);
    json_object_set_new(file, "digest", json_string(digest));
    return file;
}

/* ------------------------------------------------------------------------ lines */

typedef struct writing {
    const char *path;
    FILE *file;
    const cli_request *q;
    const cli_job *job;

    /* Of the inputs: their data, the bytes of a row, and their files. */
    const void *data[CLI_ROWS];
    size_t size[CLI_ROWS];
    cli_npy array[CLI_ROWS];
} writing;

/* Writes an object as a line and takes the reference. */
static void put_line(const writing *w, json_t *object)
{
    const int failed = json_dumpf(object, w->file, JSON_COMPACT | JSON_REAL_PRECISION(9)) != 0 ||
                       putc('\n', w->file) == EOF;
    json_decref(object);
    if (failed)
        cli_die("%s: cannot be written: %s", w->path, strerror(errno));
}

static void put_header(writing *w)
{
    const cli_job *const job = w->job;
    const char *const paths[CLI_ROWS] = {w->q->logits_path, w->q->mask, w->q->bias};
    const cli_log_header numbers = {.vocab = job->logits->vocab,
                                    .history = job->history,
                                    .dtype = (int32_t)job->logits->dtype,
                                    .tokens = (uint64_t)job->logits->rows * job->results->draws};
    json_t *const header =
        json_pack("{s:i, s:s}", "clsample_log", CLI_LOG_FORMAT, "version", cls_version());
    cli_members_put(cli_header_members, &numbers, header);
    for (int i = 0; i < CLI_ROWS; i++)
        if (paths[i] != NULL)
            json_object_set_new(header, cli_rows_key[i], file_json(paths[i], &w->array[i]));
    if (job->bias != NULL && job->bias_factor != 1.0f)
        json_object_set_new(header, "bias_factor", json_real((double)job->bias_factor));
    if (w->q->grammar != NULL)
        json_object_set_new(header, "grammar", grammar_json(w->q));
    if (job->infill != NULL) {
        cli_npy ignored;
        json_object_set_new(
            header, "infill",
            json_pack("{s:o, s:o*}", "end_ids", /* o* leaves out NULL */
                      cli_ids_json(job->infill->end_ids.ids, job->infill->end_ids.count),
                      "prefix_of",
                      w->q->prefixes != NULL ? file_json(w->q->prefixes, &ignored) : NULL));
    }
    put_line(w, header);
}

/* A row of tokens without its padding. */
static json_t *tokens_json(const cli_job *job, const cli_tokens *tokens, uint32_t r)
{
    json_t *const array = json_array();
    for (uint32_t i = 0; i < tokens->width; i++) {
        const int32_t id = tokens->ids[(size_t)r * tokens->width + i];
        if (id >= 0 && (uint32_t)id < job->logits->vocab)
            json_array_append_new(array, json_integer(id));
    }
    return array;
}

static void put_request(const writing *w, uint32_t r)
{
    const cli_job *const job = w->job;
    const cli_ids force = job->force[r];
    json_t *const parameters = cli_params_to_json(&job->params[r]);
    if (force.count != 0)
        json_object_set_new(parameters, "force", cli_ids_json(force.ids, force.count));
    put_line(w, json_pack("{s:I, s:o, s:o, s:o}", "request", (json_int_t)r, "parameters",
                          parameters, "prompt", tokens_json(job, &job->prompt, r), "output",
                          tokens_json(job, &job->output, r)));
}

static void put_token(const writing *w, uint32_t r, uint32_t d)
{
    const cli_job *const job = w->job;
    const uint32_t row = cli_row_number(job->picked, r);
    const cli_logged logged = {.token = cli_ints(job->results, CLI_TOKENS, r)[d],
                               .status = cli_ints(job->results, CLI_STATUS, r)[d],
                               .request = r,
                               .row = row,
                               .step = d,
                               .params = job->params[r],
                               .host.position = (uint32_t)cli_position(job, r) + d};
    json_t *const token = json_object();
    uint64_t hash = CLI_HASH_BEGIN;
    char text[20];
    cli_members_put(cli_token_members, &logged, token);
    for (int i = 0; i < CLI_ROWS; i++)
        if (w->data[i] != NULL) {
            const uint64_t at = w->array[i].shape[0] == job->logits->file_rows ? row : r;
            json_object_set_new(token, cli_rows_key[i],
                                cli_uint64_json(w->array[i].begin + at * w->size[i]));
            hash = cli_hash(hash, (const char *)w->data[i] + r * w->size[i], w->size[i]);
        }
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    json_object_set_new(token, "hash", json_string(text));
    put_line(w, token);
}

void cli_log_write(const char *path, const cli_request *q, const cli_job *job)
{
    writing w = {
        .path = path,
        .q = q,
        .job = job,
        .file = fopen(path, "w"),
        .data = {job->logits->data, job->mask, job->bias},
        .size = {job->logits->vocab * job->logits->size, cli_mask_size(job), cli_bias_size(job)}};
    if (w.file == NULL)
        cli_die("%s: cannot be written: %s", path, strerror(errno));
    put_header(&w);
    for (uint32_t r = 0; r < job->logits->rows; r++) {
        put_request(&w, r);
        for (uint32_t d = 0; d < job->results->draws; d++)
            put_token(&w, r, d);
    }
    if (fclose(w.file) != 0)
        cli_die("%s: cannot be written: %s", path, strerror(errno));
}
