/* SPDX-License-Identifier: MIT */
/* Writes the log of a job: a header, then each request with its tokens, one JSON object a line. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

uint64_t cli_hash(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *const bytes = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

/* -------------------------------------------------------------------- the files */

static int check_file(const char *path)
{
    cli_npy array;
    if (path == NULL)
        return 0;
    if (cli_npy_open(path, &array) != 0)
        return 1;
    const bool seekable = array.seekable;
    cli_npy_close(&array);
    return seekable ? 0
                    : cli_fail("--log: %s is a pipe, which replay cannot read again; store the "
                               "array in a file",
                               path);
}

int cli_log_check(const cli_request *q)
{
    return check_file(q->logits_path) || check_file(q->mask) || check_file(q->bias) ||
           check_file(q->prefixes);
}

/* The offset of the first row, and {"file", "size"}. */
static int file_json(const char *path, uint64_t *begin, json_t **object)
{
    cli_npy array;
    *object = NULL;
    if (path == NULL)
        return 0;
    if (cli_npy_open(path, &array) != 0)
        return 1;
    *begin = array.begin;
    json_t *const name = json_string(path);
    if (name == NULL)
        cli_fail("--log: the name %s is not valid UTF-8, which JSON requires", path);
    else
        *object =
            json_pack("{s:o, s:I}", "file", name, "size", (json_int_t)(array.begin + array.bytes));
    cli_npy_close(&array);
    return *object == NULL;
}

/* ------------------------------------------------------------------------ lines */

typedef struct writing {
    const char *path;
    FILE *file;
    const cli_request *q;
    const cli_job *job;
    uint64_t logits, mask, bias; /* offsets of the first rows */
} writing;

/* Writes an object as a line and takes the reference. NULL means out of memory. */
static int put_line(const writing *w, json_t *object)
{
    int failed;
    if (object == NULL)
        return cli_no_memory();
    failed = json_dumpf(object, w->file, JSON_COMPACT | JSON_REAL_PRECISION(9)) != 0 ||
             putc('\n', w->file) == EOF;
    json_decref(object);
    return failed ? cli_fail("%s: cannot be written: %s", w->path, strerror(errno)) : 0;
}

static int put_header(writing *w)
{
    const cli_job *const job = w->job;
    json_t *logits = NULL, *mask = NULL, *bias = NULL, *infill = NULL, *prefix = NULL;
    uint64_t ignored;
    const int failed = file_json(w->q->logits_path, &w->logits, &logits) ||
                       file_json(w->q->mask, &w->mask, &mask) ||
                       file_json(w->q->bias, &w->bias, &bias) ||
                       (job->infill != NULL && file_json(w->q->prefixes, &ignored, &prefix));
    if (job->infill != NULL)
        infill = json_pack("{s:o, s:o*}", "end_ids",
                           cli_ids_json(job->infill->end_ids.ids, job->infill->end_ids.count),
                           "prefix_of", prefix);
    /* With o* json_pack() leaves out NULL. */
    json_t *const header =
        json_pack("{s:i, s:s, s:I, s:s, s:I, s:I, s:o*, s:o*, s:o*, s:o*}", "clsample_log",
                  CLI_LOG_FORMAT, "version", cls_version(), "vocab", (json_int_t)job->logits->vocab,
                  "dtype", cli_logits_type(job->logits->dtype), "history", (json_int_t)job->history,
                  "tokens", (json_int_t)((uint64_t)job->logits->rows * job->draws), "logits",
                  logits, "mask", mask, "bias", bias, "infill", infill);
    if (!failed)
        return put_line(w, header);
    json_decref(header);
    return 1;
}

/* A row of tokens without its padding. */
static json_t *tokens_json(const cli_job *job, const cli_tokens *tokens, uint32_t r)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < tokens->width; i++) {
        const int32_t id = tokens->ids[(size_t)r * tokens->width + i];
        if (id >= 0 && (uint32_t)id < job->logits->vocab)
            cli_append(&array, json_integer(id));
    }
    return array;
}

static int put_request(const writing *w, uint32_t r)
{
    const cli_job *const job = w->job;
    const cli_ids force = job->force[r];
    json_t *const parameters = cli_params_to_json(&job->params[r]);
    if (force.count != 0 &&
        json_object_set_new(parameters, "force", cli_ids_json(force.ids, force.count)) != 0) {
        json_decref(parameters);
        return cli_no_memory();
    }
    return put_line(w, json_pack("{s:I, s:o, s:o, s:o}", "request", (json_int_t)r, "parameters",
                                 parameters, "prompt", tokens_json(job, &job->prompt, r), "output",
                                 tokens_json(job, &job->output, r)));
}

/* Adds the offsets of a row, and the hash of what is there. */
static int add_places(const writing *w, uint32_t r, json_t *token)
{
    const cli_job *const job = w->job;
    const uint64_t row = cli_row_number(job->picked, r);
    const size_t logits = job->logits->vocab * job->logits->size, mask = cli_mask_size(job),
                 bias = cli_bias_size(job);
    uint64_t hash = cli_hash(CLI_HASH_BEGIN, (const char *)job->logits->data + r * logits, logits);
    char text[20];
    int failed = json_object_set_new(token, "logits", cli_uint64_json(w->logits + row * logits));
    if (job->mask != NULL) {
        failed |= json_object_set_new(token, "mask", cli_uint64_json(w->mask + row * mask));
        hash = cli_hash(hash, (const char *)job->mask + r * mask, mask);
    }
    if (job->bias != NULL) {
        failed |= json_object_set_new(token, "bias", cli_uint64_json(w->bias + row * bias));
        hash = cli_hash(hash, (const char *)job->bias + r * bias, bias);
    }
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    return failed | json_object_set_new(token, "hash", json_string(text));
}

static int put_token(const writing *w, uint32_t r, uint32_t d)
{
    const cli_job *const job = w->job;
    const cls_params *const p = &job->params[r];
    const size_t at = (size_t)r * job->draws + d;
    json_t *const token =
        json_pack("{s:i, s:i, s:I, s:I, s:I, s:o, s:o, s:I, s:i}", "token", (int)job->tokens[at],
                  "status", (int)job->status[at], "request", (json_int_t)r, "row",
                  (json_int_t)cli_row_number(job->picked, r), "step", (json_int_t)d, "seed",
                  cli_uint64_json(p->seed), "stream", cli_uint64_json(p->stream), "position",
                  (json_int_t)(cli_position(job, r) + d), "draw", 0);
    if (token != NULL && add_places(w, r, token) == 0)
        return put_line(w, token);
    json_decref(token);
    return cli_no_memory();
}

int cli_log_write(const char *path, const cli_request *q, const cli_job *job)
{
    writing w = {.path = path, .q = q, .job = job, .file = fopen(path, "w")};
    int failed;
    if (w.file == NULL)
        return cli_fail("%s: cannot be written: %s", path, strerror(errno));
    failed = put_header(&w);
    for (uint32_t r = 0; r < job->logits->rows && !failed; r++) {
        failed = put_request(&w, r);
        for (uint32_t d = 0; d < job->draws && !failed; d++)
            failed = put_token(&w, r, d);
    }
    if (fclose(w.file) != 0 && !failed)
        failed = cli_fail("%s: cannot be written: %s", path, strerror(errno));
    return failed;
}
