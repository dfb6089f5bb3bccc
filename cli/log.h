/* SPDX-License-Identifier: MIT */
/* The log of the tokens that clsample sample drew, and what clsample replay reads from it. The
 * page of clsample-replay describes the format.
 *
 *     log_write.c  writes the log of a job
 *     log_open.c   opens a log and the files that it names
 *     log_read.c   reads a log line by line; the members of its objects
 *     replay.c     the command: proves each token by the reference
 */
#ifndef CLS_CLI_LOG_H
#define CLS_CLI_LOG_H

#include "request.h"

#define CLI_LOG_FORMAT 1

/* The inputs of which a token has the offset of its row, and the hash of these rows, by which
 * replay sees that a file changed: FNV-1a of 64 bits, which begins with CLI_HASH_BEGIN. */
enum { CLI_LOGITS, CLI_MASK, CLI_BIAS, CLI_ROWS };
extern const char *const cli_rows_key[CLI_ROWS];
#define CLI_HASH_BEGIN UINT64_C(14695981039346656037)
uint64_t cli_hash(uint64_t hash, const void *data, size_t size);

/* ----------------------------------------------------- writing, cli/log_write.c */

/* Fails if a file that the log would name cannot be read again, because it is a pipe. Call it
 * before the files are read. */
void cli_log_check(const cli_request *q);
void cli_log_write(const char *path, const cli_request *q, const cli_job *job);

/* ------------------------------------- reading, cli/log_open.c and cli/log_read.c */

/* A file of rows that the log names. */
typedef struct cli_log_rows {
    char *path; /* NULL: the log has no such file */
    cli_npy array;
    size_t size; /* bytes of a row */
    void *row;   /* the row that was read last */
} cli_log_rows;

typedef struct cli_log_request {
    cls_params params;
    cli_ids prompt, output, force;
} cli_log_request;

/* The numbers of the first line. */
typedef struct cli_log_header {
    uint32_t vocab, history;
    int32_t dtype;
    float bias_factor; /* a log without a bias, or of a version before 0.10, has none */
    uint64_t tokens;
} cli_log_header;

/* One token of a log, as the reference must draw it. */
typedef struct cli_logged {
    uint32_t request, row, step;
    int32_t token, status;
    cls_params params; /* of the request, with the token's seed and stream */
    uint32_t forced;   /* the ids of its "force" that its output has */
    cls_host_row host;
    bool same_inputs; /* the logits, the mask and the bias are those that were sampled */
} cli_logged;

typedef struct cli_log {
    const char *path;
    FILE *file;
    uint64_t line; /* the number of the line that was read last */
    char *text;    /* that line */
    size_t capacity;
    char version[32]; /* of the command that wrote the log */
    cli_log_header header;
    cli_logits logits;
    cli_log_rows rows[CLI_ROWS];
    cls_infill infill;
    bool has_infill;
    cls_grammar *grammar; /* of all requests, or NULL */
    uint64_t tokens_read;
    uint32_t requests;
    cli_log_request *request;
} cli_log;

/* Opens the log and the files that it names. */
void cli_log_open(const char *path, cli_log *log);

/* Reads up to the next token, whose pointers are valid until the next call. False: there is none.
 */
bool cli_log_next(cli_log *log, cli_logged *token);

/* ---------------------------------------------- ----- parts of these functions */

/* A member of an object of the log: its key, its type, and its place in a struct. */
typedef struct cli_member {
    const char *key;
    cli_type type;
    size_t at;
} cli_member;

/* Tables of members, which end with a key that is NULL. */
extern const cli_member cli_header_members[], /* of a cli_log_header */
    cli_token_members[],                      /* of a cli_logged */
    cli_adaptive_members[];                   /* of a cls_adaptive_state */

/* Writes the members of a struct to an object, and reads them. */
void cli_members_put(const cli_member *members, const void *from, json_t *object);
void cli_members_take(const cli_log *log, json_t *object, const cli_member *members, void *to);

#define CLI_LOG_WHERE "%s: line %" PRIu64 ": " /* the log's path and line */

/* Reads the object of the next line; NULL: the file has ended. */
json_t *cli_log_object(cli_log *log);

/* Set a value of the type, or ids, from the member of an object. Messages name line and key. */
void cli_log_take(const cli_log *log, json_t *object, const char *key, cli_type type, void *to);
void cli_log_take_ids(const cli_log *log, json_t *object, const char *key, cli_ids *ids);

#endif
