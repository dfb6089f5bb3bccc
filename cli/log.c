/* SPDX-License-Identifier: MIT */
/* The lines of a log and the members of their objects. A log may contain anything, so every value
 * in it is checked, and messages name its line. */
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
    for (; m->key != NULL; m++) {
        const void *const at = (const char *)from + m->at;
        json_object_set_new(object, m->key,
                            m->type == CLI_UINT64   ? cli_uint64_json(*(const uint64_t *)at)
                            : m->type == CLI_UINT   ? json_integer(*(const uint32_t *)at)
                            : m->type == CLI_CHOICE ? cli_word_json(DTYPES, *(const int32_t *)at)
                                                    : json_integer(*(const int32_t *)at));
    }
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
    if (!json_is_object(object))
        cli_die("%s: line %" PRIu64 " is damaged: %s", log->path, log->line,
                object == NULL ? error.text : "it is not an object");
    return object;
}
