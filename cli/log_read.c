/* SPDX-License-Identifier: MIT */
/* Reads a log line by line, and the rows of the files that it names. A log may contain anything, so
 * every value in it is checked, and messages name its line. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

#define MOST_WHERE (PATH_MAX + 64)

/* ----------------------------------------------------------------------- values */

/* The member of an object, and what messages call it. */
static json_t *member(const cli_log *log, json_t *object, const char *key, char what[MOST_WHERE])
{
    json_t *const value = json_object_get(object, key);
    snprintf(what, MOST_WHERE, CLI_LOG_WHERE "\"%s\"", log->path, log->line, key);
    if (value == NULL)
        cli_fail("%s is missing", what);
    return value;
}

int cli_log_take(const cli_log *log, json_t *object, const char *key, cli_type type, void *to)
{
    const cli_option option = {key, type, to, NULL, NULL, "f32|f16|bf16", 0};
    char what[MOST_WHERE];
    json_t *const value = member(log, object, key, what);
    return value == NULL || cli_set_from_json(&option, what, value) != 0;
}

int cli_log_take_ids(const cli_log *log, json_t *object, const char *key, cli_ids *ids)
{
    char what[MOST_WHERE];
    json_t *const value = member(log, object, key, what);
    return value == NULL || cli_ids_from_json(what, value, &ids->ids, &ids->count) != 0;
}

/* ------------------------------------------------------------------------ lines */

int cli_log_object(cli_log *log, json_t **object)
{
    json_error_t error;
    ssize_t length = getline(&log->text, &log->capacity, log->file);
    *object = NULL;
    if (length < 0)
        return feof(log->file) ? 0 : cli_fail("%s: cannot be read: %s", log->path, strerror(errno));
    log->line++;
    length -= log->text[length - 1] == '\n';
    *object = json_loadb(log->text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (*object == NULL)
        return cli_fail("%s: line %" PRIu64 " is damaged: %s", log->path, log->line, error.text);
    if (json_is_object(*object))
        return 0;
    json_decref(*object);
    *object = NULL;
    return cli_fail("%s: line %" PRIu64 " is damaged: it is not an object", log->path, log->line);
}

/* --------------------------------------------------------------------- requests */

void cli_log_request_free(cli_log_request *request)
{
    cli_params_free(&request->params, NULL, 0);
    free((void *)(uintptr_t)request->prompt.ids);
    free((void *)(uintptr_t)request->output.ids);
    free((void *)(uintptr_t)request->force.ids);
}

/* Reads a line of a request, which replaces an earlier one with the same number. */
static int read_request(cli_log *log, json_t *object)
{
    uint32_t number = 0;
    cli_log_request *request;
    char where[MOST_WHERE];
    int failed;
    if (cli_log_take(log, object, "request", CLI_UINT, &number) != 0)
        return 1;
    if (number > log->requests)
        return cli_fail(CLI_LOG_WHERE "request %" PRIu32 " follows request %" PRIu32 " requests",
                        log->path, log->line, number, log->requests);
    if (number == log->requests) {
        request = realloc(log->request, (log->requests + (size_t)1) * sizeof *request);
        if (request == NULL)
            return cli_no_memory();
        log->request = request;
        log->requests++;
    } else {
        cli_log_request_free(&log->request[number]);
    }
    request = &log->request[number];
    memset(request, 0, sizeof *request);
    cls_params_init(&request->params);
    snprintf(where, sizeof where, "%s: line %" PRIu64, log->path, log->line);
    failed = cli_params_from_json(where, json_object_get(object, "parameters"), log->logits.vocab,
                                  &request->params, &request->force) ||
             cli_log_take_ids(log, object, "prompt", &request->prompt) ||
             cli_log_take_ids(log, object, "output", &request->output);
    if (!failed && request->params.infill != 0 && !log->has_infill)
        failed = cli_fail("%s: the infill stage is on, but the log has no tables for it", where);
    return failed;
}

/* ----------------------------------------------------------------------- tokens */

/* Reads the row at the token's offset and updates the hash. A token without an offset has no such
 * row: *row is then NULL. */
static int read_row(const cli_log *log, json_t *object, const char *key, cli_log_rows *rows,
                    const void **row, uint64_t *hash)
{
    uint64_t offset = 0;
    *row = NULL;
    if (json_object_get(object, key) == NULL)
        return 0;
    if (rows->path == NULL)
        return cli_fail(CLI_LOG_WHERE "\"%s\" is set, but line 1 names no file for it", log->path,
                        log->line, key);
    if (cli_log_take(log, object, key, CLI_UINT64, &offset) != 0)
        return 1;
    if (offset < rows->array.begin || offset - rows->array.begin > rows->array.bytes - rows->size)
        return cli_fail(CLI_LOG_WHERE "\"%s\": %s has no row of %zu bytes at byte %" PRIu64,
                        log->path, log->line, key, rows->path, rows->size, offset);
    if (cli_npy_at(&rows->array, offset, rows->row, rows->size) != 0)
        return 1;
    *hash = cli_hash(*hash, rows->row, rows->size);
    *row = rows->row;
    return 0;
}

/* The state of Mirostat, adaptive p and top-p decay before the token. */
static int read_adaptive(const cli_log *log, json_t *object, cls_adaptive_state *state)
{
    json_t *const value = json_object_get(object, "adaptive");
    if (value == NULL)
        return 0;
    state->begun = 1;
    return cli_log_take(log, value, "mu", CLI_INT, &state->mu) ||
           cli_log_take(log, value, "sum", CLI_UINT, &state->sum) ||
           cli_log_take(log, value, "weight", CLI_UINT, &state->weight) ||
           cli_log_take(log, value, "top_p", CLI_UINT, &state->top_p);
}

static int read_inputs(cli_log *log, json_t *object, cli_logged *token)
{
    cls_host_row *const host = &token->host;
    const char *const logged = json_string_value(json_object_get(object, "hash"));
    uint64_t hash = CLI_HASH_BEGIN;
    char text[20];
    if (read_row(log, object, "logits", &log->logits_rows, &host->logits, &hash) != 0 ||
        read_row(log, object, "mask", &log->mask, &host->mask, &hash) != 0 ||
        read_row(log, object, "bias", &log->bias, &host->bias, &hash) != 0)
        return 1;
    if (host->logits == NULL)
        return cli_fail(CLI_LOG_WHERE "\"logits\" is missing", log->path, log->line);
    host->dtype = (int32_t)log->logits.dtype;
    host->vocab = log->logits.vocab;
    if (host->mask != NULL) {
        host->mask_width = (uint32_t)log->mask.array.shape[1];
        host->mask_kind = (int32_t)cli_mask_kind(&log->mask.array);
    }
    if (host->bias != NULL)
        host->bias_dtype = log->bias.array.size == 4 ? CLS_F32 : CLS_F16;
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    token->same_inputs = logged == NULL || strcmp(logged, text) == 0;
    return 0;
}

static int read_token(cli_log *log, json_t *object, cli_logged *token)
{
    cls_host_row *const host = &token->host;
    const cli_log_request *request;
    cli_ids forced;
    uint64_t seed = 0, stream = 0;
    memset(token, 0, sizeof *token);
    cls_host_row_init(host);
    if (cli_log_take(log, object, "token", CLI_INT, &token->token) != 0 ||
        cli_log_take(log, object, "status", CLI_INT, &token->status) != 0 ||
        cli_log_take(log, object, "request", CLI_UINT, &token->request) != 0 ||
        cli_log_take(log, object, "row", CLI_UINT, &token->row) != 0 ||
        cli_log_take(log, object, "step", CLI_UINT, &token->step) != 0 ||
        cli_log_take(log, object, "seed", CLI_UINT64, &seed) != 0 ||
        cli_log_take(log, object, "stream", CLI_UINT64, &stream) != 0 ||
        cli_log_take(log, object, "position", CLI_UINT, &host->position) != 0 ||
        cli_log_take(log, object, "draw", CLI_UINT, &host->draw) != 0 ||
        read_adaptive(log, object, &host->adaptive) != 0 || read_inputs(log, object, token) != 0)
        return 1;
    token->status &= ~CLS_ROW_OVERFLOW; /* concerns another output of the step, not the token */
    if (token->token < -1)
        return cli_fail(CLI_LOG_WHERE "%" PRId32 " is no token", log->path, log->line,
                        token->token);
    if (token->request >= log->requests)
        return cli_fail(CLI_LOG_WHERE "there is no request %" PRIu32 " before this token",
                        log->path, log->line, token->request);
    request = &log->request[token->request];
    token->params = request->params;
    token->params.seed = seed;
    token->params.stream = stream;
    host->params = &token->params;
    host->prompt = request->prompt.ids;
    host->prompt_count = request->prompt.count;
    host->output = request->output.ids;
    host->output_count = request->output.count;
    forced = cli_forced_next(&request->force, host->output, host->output_count, host->vocab);
    token->forced = request->force.count - forced.count;
    host->forced_ids = forced.ids;
    host->forced_count = forced.count;
    host->max_history = log->history;
    host->infill = log->has_infill ? &log->infill : NULL;
    return 0;
}

int cli_log_next(cli_log *log, bool *more, cli_logged *token)
{
    *more = true;
    for (;;) {
        json_t *object;
        int failed;
        bool is_token;
        if (cli_log_object(log, &object) != 0)
            return 1;
        if (object == NULL)
            break;
        is_token = json_object_get(object, "token") != NULL;
        if (is_token)
            failed = read_token(log, object, token);
        else if (json_object_get(object, "parameters") != NULL)
            failed = read_request(log, object);
        else
            failed = cli_fail("%s: line %" PRIu64 " is neither a request nor a token", log->path,
                              log->line);
        json_decref(object);
        log->tokens_read += is_token;
        if (failed || is_token)
            return failed;
    }
    *more = false;
    return log->tokens_read == log->tokens
               ? 0
               : cli_fail("%s: the log has %" PRIu64 " of its %" PRIu64 " tokens; it is cut short",
                          log->path, log->tokens_read, log->tokens);
}
