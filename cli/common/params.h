/* SPDX-License-Identifier: MIT */
/* Sampling parameters on the command line and in files. */
#ifndef CLS_CLI_PARAMS_H
#define CLS_CLI_PARAMS_H

#include "common/cli.h"
#include "base/param_table.h"

/* Entries of an option table for the parameters that are a single value; p points to the
 * cls_params that they set. A comma follows each entry. */
/* clang-format off */
#define CLI_PARAM_OPTION(p, id, type, field, stage, phase, initial, least, most, range, option, \
                         meta, help) \
    {option, CLI_##type, &(p)->field, meta, help},

/* Entries for the parameters that are lists; l points to a cli_lists. */
#define CLI_LIST_OPTION(l, kind, list, kept, option, meta, key, help) \
    {option, CLI_LIST, &(l)->list, meta, help},
/* clang-format on */

/* The arguments of these options, which point into argv. */
typedef struct cli_lists {
    const char *chain;
#define CLI_LIST_TEXTS(l, kind, list, kept, option, meta, key, help) cli_list list;
    CLS_LISTS(CLI_LIST_TEXTS, )
#undef CLI_LIST_TEXTS
} cli_lists;

/* -------------------------------------------------------- cli/common/json.c */

/* Reads a file; if it is no JSON the command ends. */
json_t *cli_json_read(const char *path);

/* Stores a JSON value as cli_set() does a text. An integer that exceeds JSON's 63 bits is a string.
 */
void cli_set_from_json(cli_type type, void *to, const char *meta, const char *what, json_t *value);

json_t *cli_ids_json(const int32_t *ids, size_t count);

/* ------------------------------------------------------- cli/common/lists.c */

/* Parses the texts into params. */
void cli_lists_parse(const cli_lists *texts, cls_params *params);

/* Sets the chain, or the list that is this field, from a text. Returns false if there is none. */
bool cli_list_from_text(const char *field, const char *what, const char *text, cls_params *params);

/* Sets the chain, or the list with this key, from a JSON value. Messages begin with `what`. */
void cli_list_from_json(const char *key, const char *what, json_t *value, cls_params *params);

/* Parses ids of the vocabulary that are separated by commas, if there are any. */
void cli_ids_parse(const char *what, const cli_list *texts, uint32_t vocab, cls_ids *list);

/* Fails if an id is not a token of the vocabulary. Messages begin with `what`. */
void cli_ids_check(const char *what, const cls_ids *list, uint32_t vocab);

/* Takes the ids of a JSON array. */
void cli_ids_from_json(const char *what, json_t *value, cls_ids *list);

/* ----------------------------------------------------- cli/common/grammar.c */

/* What is wrong with a grammar, in words of its states; NULL: nothing. final, end: what the user
 * calls the final states and the ids that end a text. */
const char *cli_grammar_fault(const cls_grammar_options *o, const char *final, const char *end,
                              const char *drafts);

/* Reads a grammar for a vocabulary; cls_grammar_destroy() gives it up. */
cls_grammar *cli_grammar_read(const char *path, uint32_t vocab);

/* The digest of a grammar, in hexadecimal. */
#define CLI_DIGEST 65
void cli_grammar_digest(const cls_grammar *grammar, char digest[CLI_DIGEST]);

/* ------------------------------------------------------ cli/common/params.c */

/* Sets a parameter by the name of its field from a text: a number, a list of ids "1,2", of biases
 * "1:0.5,2:-inf", or of sequences "1,2/3", or the chain. Returns false if there is no such
 * parameter. `what` is what messages begin with. */
bool cli_param_set(const char *what, const char *field, const char *text, cls_params *params);

/* Checks the parameters of the command line. The message names the option whose value the library
 * refuses. */
void cli_params_check(const cls_params *params, uint32_t vocab);

/* The rows that a command reads from its files. A file has all rows, or only those to read. */
typedef struct cli_rows {
    uint32_t count; /* rows to read */
    uint32_t all;
    const cli_picked *picked; /* the rows to read; NULL: all */
    const char *of;           /* the noun in messages: "rows of logits" or "requests" */
} cli_rows;

/* The selection of rows from a file that has `have` rows; NULL: all of them. It fails if the file
 * has another number of rows, which messages call `what`. */
const cli_picked *cli_rows_in(const char *path, uint64_t have, const char *what,
                              const cli_rows *rows);

/* Sets the parameters of each row. They are those of base, with seed base->seed + r for row r of
 * the files; the file seeds_path replaces the seeds, and the file params_path replaces any
 * parameter, and the ids of --force, which the caller has set. Both paths may be NULL. */
void cli_params_rows(const cls_params *base, const char *params_path, const char *seeds_path,
                     const cli_rows *rows, uint32_t vocab, cls_params *params, cls_ids *force);

/* Sets the parameters that an object names, and the ids of "force", which is no key if force is
 * NULL. Messages begin with `where`: "FILE: row 3". */
void cli_params_from_json(const char *where, json_t *object, uint32_t vocab, cls_params *params,
                          cls_ids *force);

#endif
