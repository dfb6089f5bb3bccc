/* SPDX-License-Identifier: MIT */
/* Opens a log: reads its header, and opens the files that the header names. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "log.h"

/* ------------------------------------------------------------------------ files */

/* A relative name is that of a file in the log's folder or, if there is none, in the current one. A
 * log may come from anybody, so it must not name a pipe, for whose writer the command would wait.
 */
static char *find_file(const cli_log *log, const char *name)
{
    const char *const slash = strrchr(log->path, '/');
    const size_t folder = slash == NULL || *name == '/' ? 0 : (size_t)(slash - log->path) + 1;
    char *const path = cli_alloc(folder + strlen(name) + 1, 1);
    memcpy(path, log->path, folder);
    strcpy(path + folder, name);
    cli_file_kind kind = cli_kind_of(path);
    if (folder != 0 && kind == CLI_NO_FILE) {
        strcpy(path, name);
        kind = cli_kind_of(path);
    }
    if (kind == CLI_REGULAR || (kind == CLI_NO_FILE && folder == 0))
        return path;
    cli_die(kind == CLI_NO_FILE ? CLI_LOG_WHERE
                "%s is neither in the folder of the log nor in the current one"
                                : CLI_LOG_WHERE "%s is no regular file",
            log->path, log->line, path);
}

/* Finds the file that {"file", "size"} names. Without such a member it leaves the path NULL. */
static void take_file(const cli_log *log, json_t *object, const char *key, char **path,
                      uint64_t *size)
{
    json_t *const file = json_object_get(object, key);
    const char *const name = cli_string(file, "file");
    *path = NULL;
    if (file == NULL)
        return;
    if (name == NULL)
        cli_die(CLI_LOG_WHERE "\"%s\" does not name a file", log->path, log->line, key);
    cli_log_take(log, file, "size", CLI_UINT64, size);
    *path = find_file(log, name);
}

static void check_vocab(const cli_log *log, const cli_log_rows *rows)
{
    if (rows->path != NULL && rows->array.shape[1] != log->header.vocab)
        cli_die("%s: the rows have %" PRIu64 " tokens, but %s has a vocabulary of %" PRIu32,
                rows->path, rows->array.shape[1], log->path, log->header.vocab);
}

/* Checks that an open file has the length that the log has, and makes room for a row. */
static void prepare_rows(const cli_log *log, uint64_t size, cli_log_rows *rows)
{
    const cli_npy *const array = &rows->array;
    if (!array->seekable)
        cli_die("%s: the file is a pipe, which cannot be read at an offset", array->path);
    if (array->begin + array->bytes != size)
        cli_die("%s: the file has %" PRIu64 " bytes, but it had %" PRIu64 " when %s was written",
                array->path, array->begin + array->bytes, size, log->path);
    if (array->shape[1] == 0)
        cli_die("%s: the rows have no elements", array->path);
    if (array->shape[1] > 1048576)
        cli_die("%s: rows of %" PRIu64 " elements are longer than any vocabulary", array->path,
                array->shape[1]);
    rows->size = (size_t)array->shape[1] * array->size;
    rows->row = cli_alloc(1, rows->size);
}

static void open_logits(cli_log *log, json_t *header)
{
    cli_log_rows *const rows = &log->rows[CLI_LOGITS];
    const cls_dtype dtype = (cls_dtype)log->header.dtype;
    uint64_t size = 0;
    take_file(log, header, "logits", &rows->path, &size);
    if (rows->path == NULL)
        cli_die(CLI_LOG_WHERE "\"logits\" is missing", log->path, log->line);
    cli_logits_open(rows->path, dtype == CLS_BF16 ? CLS_BF16 : -1, NULL, &rows->array,
                    &log->logits);
    if (log->logits.dtype != dtype)
        cli_die("%s: the logits are %s, but %s has the type %s", rows->path,
                cli_logits_type(log->logits.dtype), log->path, cli_logits_type(dtype));
    check_vocab(log, rows);
    prepare_rows(log, size, rows);
}

/* Opens the mask or the bias. */
static void open_rows(cli_log *log, json_t *header, int i, bool (*fits)(const cli_npy *),
                      const char *what)
{
    cli_log_rows *const rows = &log->rows[i];
    uint64_t size = 0;
    take_file(log, header, cli_rows_key[i], &rows->path, &size);
    if (rows->path == NULL)
        return;
    cli_npy_open(rows->path, &rows->array);
    if (rows->array.dims != 2 || !fits(&rows->array))
        cli_npy_refuse(&rows->array, what);
    prepare_rows(log, size, rows);
}

static void open_infill(cli_log *log, json_t *header)
{
    json_t *const infill = json_object_get(header, "infill");
    cli_ids ends = {NULL, 0};
    uint64_t size;
    char *path;
    if (infill == NULL)
        return;
    log->has_infill = true;
    cli_log_take_ids(log, infill, "end_ids", &ends);
    log->infill.end_ids.ids = ends.ids;
    log->infill.end_ids.count = ends.count;
    take_file(log, infill, "prefix_of", &path, &size);
    cli_prefixes_read(path, log->logits.vocab, &log->infill);
}

static void open_grammar(cli_log *log, json_t *header)
{
    json_t *const grammar = json_object_get(header, "grammar");
    char digest[CLI_DIGEST];
    if (grammar == NULL)
        return;
    const char *const name = cli_string(grammar, "file"), *const logged =
                                                              cli_string(grammar, "digest");
    if (name == NULL || logged == NULL)
        cli_die(CLI_LOG_WHERE "\"grammar\" does not name a file and its digest", log->path,
                log->line);
    const char *const path = find_file(log, name);
    log->grammar = cli_grammar_read(path, log->header.vocab);
    cli_grammar_digest(log->grammar, digest);
    if (strcmp(digest, logged) != 0)
        cli_die("%s: this is another grammar than when %s was written", path, log->path);
}

/* ----------------------------------------------------------------------- header */

static void read_header(cli_log *log, json_t *header)
{
    const char *const version = cli_string(header, "version");
    uint32_t format = 0;
    if (json_object_get(header, "clsample_log") == NULL)
        cli_die("%s: the file is no log of clsample sample: line 1 has no "
                "\"clsample_log\"",
                log->path);
    cli_log_take(log, header, "clsample_log", CLI_UINT, &format);
    if (format != CLI_LOG_FORMAT)
        cli_die("%s: the log has format %" PRIu32 ", but this version reads format %d", log->path,
                format, CLI_LOG_FORMAT);
    snprintf(log->version, sizeof log->version, "%s", version == NULL ? "unknown" : version);
    cli_members_take(log, header, cli_header_members, &log->header);
    open_logits(log, header);
    open_rows(log, header, CLI_MASK, cli_is_mask, CLI_MASK_TYPES);
    open_rows(log, header, CLI_BIAS, cli_is_bias, CLI_BIAS_TYPES);
    check_vocab(log, &log->rows[CLI_BIAS]);
    log->header.bias_factor = 1.0f;
    if (json_object_get(header, "bias_factor") != NULL)
        cli_log_take(log, header, "bias_factor", CLI_FLOAT, &log->header.bias_factor);
    open_infill(log, header);
    open_grammar(log, header);
}

void cli_log_open(const char *path, cli_log *log)
{
    memset(log, 0, sizeof *log);
    log->path = path;
    if ((log->file = fopen(path, "rb")) == NULL)
        cli_die("%s: cannot be opened: %s", path, strerror(errno));
    json_t *const header = cli_log_object(log);
    if (header == NULL)
        cli_die("%s: the log is empty", path);
    read_header(log, header);
}
