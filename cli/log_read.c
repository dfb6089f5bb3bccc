/* SPDX-License-Identifier: MIT */
/* Reads a log line by line, and the rows of the files that it names. A log may contain anything, so
 * every value in it is checked, and messages name its line. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "log.h"

const char *const cli_rows_key[CLI_ROWS] = {"logits", "mask", "bias"};

#define DTYPES "f32|f16|bf16"
#define MEMBER(key, type, of, field) \
    { \
        key, CLI_##type, offsetof(of, field) \
    }
#define END \
    { \
        NULL, CLI_INT, 0 \
    }

const cli_member cli_header_members[] = {MEMBER("vocab", UINT, cli_log_header, vocab),
                                         MEMBER("dtype", CHOICE, cli_log_header, dtype),
                                         MEMBER("history", UINT, cli_log_header, history),
                                         MEMBER("tokens", UINT64, cli_log_header, tokens), END},
                 cli_token_members[] = {MEMBER("token", INT, cli_logged, token),
                                        MEMBER("status", INT, cli_logged, status),
                                        MEMBER("request", UINT, cli_logged, request),
                                        MEMBER("row", UINT, cli_logged, row),
                                        MEMBER("step", UINT, cli_logged, step),
                                        MEMBER("seed", UINT64, cli_logged, params.seed),
                                        MEMBER("stream", UINT64, cli_logged, params.stream),
                                        MEMBER("position", UINT, cli_logged, host.position),
                                        MEMBER("draw", UINT, cli_logged, host.draw),
                                        END},
                 cli_adaptive_members[] = {MEMBER("mu", INT, cls_adaptive_state, mu),
                                           MEMBER("sum", UINT, cls_adaptive_state, sum),
                                           MEMBER("weight", UINT, cls_adaptive_state, weight),
                                           MEMBER("top_p", UINT, cls_adaptive_state, top_p), END};

void cli_members_put(const cli_member *m, const void *from, json_t *object)
{
    for (; m->key != NULL; m++)
        json_object_set_new(object, m->key,
                            cli_to_json(m->type, (const char *)from + m->at, DTYPES));
}

void cli_members_take(const cli_log *log, json_t *object, const cli_member *m, void *to)
{
    for (; m->key != NULL; m++)
        cli_log_take(log, object, m->key, m->type, (char *)to + m->at);
}

/* ----------------------------------------------------------------------- reading */

#define MOST_WHERE (PATH_MAX + 64)

/* The member of an object, and what messages call it. */
static json_t *member(const cli_log *log, json_t *object, const char *key, char what[MOST_WHERE])
{
    json_t *const value = json_object_get(object, key);
    snprintf(what, MOST_WHERE, CLI_LOG_WHERE "\"%s\"", log->path, log->line, key);
    if (value == NULL)
        cli_die("%s is missing", what);
    return value;
}

void cli_log_take(const cli_log *log, json_t *object, const char *key, cli_type type, void *to)
{
    char what[MOST_WHERE];
    json_t *const value = member(log, object, key, what);
    cli_set_from_json(type, to, DTYPES, what, value);
}

void cli_log_take_ids(const cli_log *log, json_t *object, const char *key, cli_ids *ids)
{
    char what[MOST_WHERE];
    json_t *const value = member(log, object, key, what);
    cli_ids_from_json(what, value, &ids->ids, &ids->count);
}

json_t *cli_log_object(cli_log *log)
{
    json_error_t error;
    ssize_t length = getline(&log->text, &log->capacity, log->file);
    if (length < 0 && !feof(log->file))
        cli_die("%s: cannot be read: %s", log->path, strerror(errno));
    if (length < 0)
        return NULL;
    log->line++;
    length -= log->text[length - 1] == '\n';
    json_t *const object = json_loadb(log->text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(object) && log->line == 1)
        cli_die("%s: the file is no log of clsample sample: line 1 is not a JSON object",
                log->path);
    if (!json_is_object(object))
        cli_die("%s: line %" PRIu64 " is damaged: %s", log->path, log->line,
                object == NULL ? error.text : "it is not an object");
    return object;
}

/* --------------------------------------------------------------------- requests */

/* Reads a line of a request, which replaces an earlier one with the same number. */
static void read_request(cli_log *log, json_t *object)
{
    uint32_t number = 0;
    char where[PATH_MAX + 64];
    cli_log_take(log, object, "request", CLI_UINT, &number);
    if (number > log->requests)
        cli_die(CLI_LOG_WHERE "request %" PRIu32 " follows request %" PRIu32 " requests", log->path,
                log->line, number, log->requests);
    if (number == log->requests)
        log->request = cli_grow(log->request, ++log->requests, sizeof *log->request);
    cli_log_request *const request = &log->request[number];
    memset(request, 0, sizeof *request);
    cls_params_init(&request->params);
    request->params.grammar = log->grammar;
    snprintf(where, sizeof where, "%s: line %" PRIu64, log->path, log->line);
    cli_params_from_json(where, json_object_get(object, "parameters"), log->logits.vocab,
                         &request->params, &request->force);
    cli_log_take_ids(log, object, "prompt", &request->prompt);
    cli_log_take_ids(log, object, "output", &request->output);
    if (request->params.infill != 0 && !log->has_infill)
        cli_die("%s: the infill stage is on, but the log has no tables for it", where);
}

/* ----------------------------------------------------------------------- tokens */

/* Reads the row at the token's offset and updates the hash. NULL: a token without an offset has no
 * such row. */
static const void *read_row(cli_log *log, json_t *object, int i, uint64_t *hash)
{
    const char *const key = cli_rows_key[i];
    cli_log_rows *const rows = &log->rows[i];
    uint64_t offset = 0;
    if (json_object_get(object, key) == NULL)
        return NULL;
    if (rows->path == NULL)
        cli_die(CLI_LOG_WHERE "\"%s\" is set, but line 1 names no file for it", log->path,
                log->line, key);
    cli_log_take(log, object, key, CLI_UINT64, &offset);
    if (offset < rows->array.begin || offset - rows->array.begin > rows->array.bytes - rows->size)
        cli_die(CLI_LOG_WHERE "\"%s\": %s has no row of %zu bytes at byte %" PRIu64, log->path,
                log->line, key, rows->path, rows->size, offset);
    cli_npy_at(&rows->array, offset, rows->row, rows->size);
    *hash = cli_hash(*hash, rows->row, rows->size);
    return rows->row;
}

static void read_inputs(cli_log *log, json_t *object, cli_logged *token)
{
    cls_host_row *const host = &token->host;
    const cli_npy *const mask = &log->rows[CLI_MASK].array, *const bias =
                                                                &log->rows[CLI_BIAS].array;
    const char *const logged = cli_string(object, "hash");
    uint64_t hash = CLI_HASH_BEGIN;
    char text[20];
    host->logits = read_row(log, object, CLI_LOGITS, &hash);
    host->mask = read_row(log, object, CLI_MASK, &hash);
    host->bias = read_row(log, object, CLI_BIAS, &hash);
    if (host->logits == NULL)
        cli_die(CLI_LOG_WHERE "\"logits\" is missing", log->path, log->line);
    host->dtype = (int32_t)log->logits.dtype;
    host->vocab = log->logits.vocab;
    if (host->mask != NULL) {
        host->mask_width = (uint32_t)mask->shape[1];
        host->mask_kind = (int32_t)cli_mask_kind(mask);
    }
    if (host->bias != NULL)
        host->bias_dtype = (int32_t)cli_bias_dtype(bias);
    host->bias_factor = log->header.bias_factor;
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    token->same_inputs = logged == NULL || strcmp(logged, text) == 0;
}

/* Sets what the token has from its request. */
static void take_request(const cli_log *log, cli_logged *token)
{
    const cli_log_request *const request = &log->request[token->request];
    cls_host_row *const host = &token->host;
    const uint64_t seed = token->params.seed, stream = token->params.stream;
    token->params = request->params;
    token->params.seed = seed;
    token->params.stream = stream;
    host->params = &token->params;
    host->prompt = request->prompt.ids;
    host->prompt_count = request->prompt.count;
    host->output = request->output.ids;
    host->output_count = request->output.count;
    const cli_ids forced =
        cli_forced_next(&request->force, host->output, host->output_count, host->vocab);
    token->forced = request->force.count - forced.count;
    host->forced_ids = forced.ids;
    host->forced_count = forced.count;
    host->max_history = log->header.history;
    host->infill = log->has_infill ? &log->infill : NULL;
}

static void read_token(cli_log *log, json_t *object, cli_logged *token)
{
    json_t *const adaptive = json_object_get(object, "adaptive");
    memset(token, 0, sizeof *token);
    cls_host_row_init(&token->host);
    token->host.adaptive.begun = adaptive != NULL;
    cli_members_take(log, object, cli_token_members, token);
    if (adaptive != NULL)
        cli_members_take(log, adaptive, cli_adaptive_members, &token->host.adaptive);
    read_inputs(log, object, token);
    token->status &= ~CLS_ROW_OVERFLOW; /* concerns another output of the step, not the token */
    if (token->token < -1)
        cli_die(CLI_LOG_WHERE "%" PRId32 " is no token", log->path, log->line, token->token);
    if (token->request >= log->requests)
        cli_die(CLI_LOG_WHERE "there is no request %" PRIu32 " before this token", log->path,
                log->line, token->request);
    take_request(log, token);
}

bool cli_log_next(cli_log *log, cli_logged *token)
{
    json_t *object;
    while ((object = cli_log_object(log)) != NULL) {
        const bool is_token = json_object_get(object, "token") != NULL;
        if (is_token)
            read_token(log, object, token);
        else if (json_object_get(object, "parameters") != NULL)
            read_request(log, object);
        else
            cli_die("%s: line %" PRIu64 " is neither a request nor a token", log->path, log->line);
        json_decref(object);
        log->tokens_read += is_token;
        if (is_token)
            return true;
    }
    if (log->tokens_read != log->header.tokens)
        cli_die("%s: the log has %" PRIu64 " of its %" PRIu64 " tokens; it is cut short", log->path,
                log->tokens_read, log->header.tokens);
    return false;
}
