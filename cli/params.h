/* SPDX-License-Identifier: MIT */
/* Sampling parameters on the command line and in files: a line each. */
#ifndef CLS_CLI_PARAMS_H
#define CLS_CLI_PARAMS_H

#include "cli.h"
#include "request/param_table.h"

/* The entries of those that are one value, for an option table, each with its comma; p: a
 * cls_params. CLI_NO_OPTION ends a table. Names of a file's keys: cli/params.c. */
/* clang-format off */
#define CLI_PARAM_OPTION(p, id, type, field, stage, initial, least, most, range, option, meta, \
                         help) \
    {option, CLI_##type, &(p)->field, meta, help, meta, 0},
#define CLI_PARAM_OPTIONS(p) CLS_PARAMS(CLI_PARAM_OPTION, p)
#define CLI_NO_OPTION {NULL, CLI_FLAG, NULL, NULL, NULL, NULL, 0}

/* Those that are more than one value; l: a cli_lists. */
#define CLI_LIST_OPTION(l, kind, array, counter, option, meta, key, help) \
    {option, CLI_LIST, &(l)->array, meta, help, NULL, 0},
#define CLI_LIST_OPTIONS(l) \
    {"chain", CLI_STRING, &(l)->chain, "ORDER", \
     "default, vllm, llama, or stages in order with commas between", NULL, 0}, \
    CLS_LISTS(CLI_LIST_OPTION, l)
/* clang-format on */

/* What these options leave: texts into argv. */
typedef struct cli_lists {
    const char *chain;
#define CLI_LIST_TEXTS(l, kind, array, counter, option, meta, key, help) cli_list array;
    CLS_LISTS(CLI_LIST_TEXTS, )
#undef CLI_LIST_TEXTS
} cli_lists;

/* ------------------------------------------------------------------ cli/lists.c */

/* Parses the texts into params, which must have no lists yet and owns what is
 * made, parsed or half parsed. */
int cli_lists_parse(const cli_lists *texts, uint32_t vocab, cls_params *params);
void cli_lists_free(cli_lists *texts); /* the texts, not what was parsed */

/* A list of a row from a JSON value; -1: no list has this key. `what` is for
 * the sentence. Replaces, and does not free, what params has. */
int cli_list_from_json(const char *key, const char *what, json_t *value, uint32_t vocab,
                       cls_params *params);

/* Reads ids with commas between; what it returns is the caller's. NULL: failed. */
int32_t *cli_ids_parse(const char *what, const cli_list *texts, uint32_t *count);

/* ----------------------------------------------------------------- cli/params.c */

/* Sets a value from JSON of its type; `what` is for the sentence. An integer
 * beyond JSON's 63 bits comes as a string. */
int cli_set_from_json(const cli_option *option, const char *what, json_t *value);

/* Names the option whose value the library refuses. options: as given. */
int cli_params_check(const cli_option *options, const cls_params *params, uint32_t vocab);

/* Rows of requests. */
typedef struct cli_rows {
    uint32_t count;           /* that are asked for */
    uint32_t all;             /* that files have */
    const cli_picked *picked; /* which of them; NULL: all */
    const char *of;           /* what they are rows of, for sentences: "rows of logits" */
} cli_rows;

/* The rows' parameters: base, for row r of the files with seed base->seed + r or that of the file
 * seeds_path (may be NULL), then what the file params_path (may be NULL) says. */
int cli_params_rows(const cls_params *base, const char *params_path, const char *seeds_path,
                    const cli_rows *rows, uint32_t vocab, cls_params *params);

/* Frees the lists of base and of the rows (params may be NULL), which may share them. */
void cli_params_free(cls_params *base, cls_params *params, uint32_t rows);

#endif
