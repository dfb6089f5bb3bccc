/* SPDX-License-Identifier: MIT */
/* The options that sample, verify, explain and draft share, and the files that these options name.
 */
#ifndef CLS_CLI_REQUEST_H
#define CLS_CLI_REQUEST_H

#include "params.h"

#define CLI_MOST_HISTORY 16384u /* tokens of a request that a sampler can keep */

typedef struct cli_request {
    const char *logits_path, *mask, *bias, *prompt, *output, *seeds, *params_file, *prefixes,
        *grammar_path;
    float bias_factor;
    int32_t dtype;     /* -1: the type of the file */
    cls_params params; /* from the command line, for all rows */
    cli_lists lists;
    cli_list end_ids; /* --infill-end */
    cli_list force;
    cli_list rows_text; /* --rows */

    /* The rows to read: of the requests' files, and of the logits, the mask and the bias. */
    cli_picked picked;
    const cli_picked *picked_logits;

    /* Read from the files. */
    cli_logits logits;
    uint32_t requests;      /* rows of parameters, prompts and outputs */
    uint32_t file_requests; /* those that --rows selects from; 0: as many as the first text has */
    const char *of;         /* the noun for these rows in messages */
    cls_params *rows;       /* [requests] */
    cli_ids *forces;        /* [requests] */
    cls_infill infill;
    cls_grammar *grammar; /* of all rows, or NULL; the command destroys it */
} cli_request;

/* clang-format off */
#define CLI_REQUEST_OPTIONS(q) \
    CLI_TITLE("Input"), \
    {"logits", CLI_INPUT, &(q)->logits_path, "FILE.npy", \
     "the logits: float32 or float16 [rows, vocab], or bfloat16 stored as uint16"}, \
    CLI_SAMPLING_OPTIONS(q, "the rows to take, such as 0,3,8-15 (default: all, in explain row 0)")

#define CLI_TEXT_OPTIONS(q) \
    {"prompt", CLI_INPUT, &(q)->prompt, "FILE.npy", \
     "the prompt of each request: int32 [rows, tokens], padded with -1"}, \
    {"output", CLI_INPUT, &(q)->output, "FILE.npy", \
     "the tokens generated so far, in the same format as --prompt"}

/* Where --rows selects requests. */
#define CLI_REQUESTS_HELP "the requests to take, such as 0,3,8-15 (default: all)"

/* All of these options except --logits, with the help of --rows. A comma follows. */
#define CLI_SAMPLING_OPTIONS(q, rows) \
    CLI_ROWS(&(q)->rows_text, rows), \
    {"dtype", CLI_CHOICE, &(q)->dtype, "TYPE=f32|f16|bf16", \
     "the type of the logits: f32, f16 or bf16 (default: the type of the file)"}, \
    {"mask", CLI_INPUT, &(q)->mask, "FILE.npy", \
     "the allowed tokens: bool [rows, vocab], or int32 [rows, words] of 32 bits each; tokens " \
     "beyond a narrower mask are banned"}, \
    {"bias", CLI_INPUT, &(q)->bias, "FILE.npy", \
     "values to add to the logits: float32 or float16 [rows, vocab], or bfloat16 as uint16"}, \
    {"bias-factor", CLI_FLOAT, &(q)->bias_factor, "X", \
     "multiply the bias by X first (default 1); for guidance of scale s, X = 1/s - 1"}, \
    CLI_TITLE("Requests"), \
    CLI_TEXT_OPTIONS(q), \
    {"params", CLI_INPUT, &(q)->params_file, "FILE.json", \
     "the parameters of each row: an array with one object per row, or an object for all rows, " \
     "such as Transformers' generation_config.json"}, \
    {"seeds", CLI_INPUT, &(q)->seeds, "FILE.npy", \
     "the seed of each row: uint64 [rows]"}, \
    CLI_PARAMS_TITLE("Temperature"), \
    CLS_TEMPERATURE_PARAMS(CLI_PARAM_OPTION, &(q)->params) \
    CLI_PARAMS_TITLE("Truncation"), \
    CLS_TRUNCATION_PARAMS(CLI_PARAM_OPTION, &(q)->params) \
    {"infill-end", CLI_LIST, &(q)->end_ids, "IDS", \
     "the tokens that end a text, separated by commas"}, \
    {"infill-prefix", CLI_INPUT, &(q)->prefixes, "FILE.npy", \
     "the longest token that is a prefix of each token, or -1: int32 [vocab]"}, \
    {"chain", CLI_STRING, &(q)->lists.chain, "ORDER", \
     "the order of the stages: default, vllm, llama, or stages separated by commas"}, \
    CLI_PARAMS_TITLE("Mirostat and adaptive p"), \
    CLS_DRAW_PARAMS(CLI_PARAM_OPTION, &(q)->params) \
    CLI_PARAMS_TITLE("Penalties"), \
    CLS_PENALTY_PARAMS(CLI_PARAM_OPTION, &(q)->params) \
    CLS_PENALTY_LISTS(CLI_LIST_OPTION, &(q)->lists) \
    CLI_PARAMS_TITLE("Biases and bans"), \
    CLS_BAN_LISTS(CLI_LIST_OPTION, &(q)->lists) \
    CLS_BAN_PARAMS(CLI_PARAM_OPTION, &(q)->params) \
    {"grammar", CLI_INPUT, &(q)->grammar_path, "FILE.json", \
     "the grammar that the output follows: states, and the ids that lead from one to another"}, \
    CLI_PARAMS_TITLE("The end"), \
    CLS_STOP_LISTS(CLI_LIST_OPTION, &(q)->lists) \
    CLS_STOP_PARAMS(CLI_PARAM_OPTION, &(q)->params) \
    CLI_PARAMS_TITLE("Forced tokens and thinking"), \
    {"force", CLI_LIST, &(q)->force, "IDS", \
     "the first tokens of the output, separated by commas, in place of those drawn"}, \
    CLS_THINKING_PARAMS(CLI_PARAM_OPTION, &(q)->params) \
    CLS_THINKING_LISTS(CLI_LIST_OPTION, &(q)->lists) \
    CLI_PARAMS_TITLE("Seed and position"), \
    CLS_SEED_PARAMS(CLI_PARAM_OPTION, &(q)->params)
/* clang-format on */

/* Sets all fields to zero and the parameters to their defaults. */
void cli_request_default(cli_request *q);

void cli_picked_read(cli_request *q); /* --rows */

/* Reads --rows and all files that the options name. */
void cli_request_read(cli_request *q, cli_job *job);

/* Reads --prompt and --output. The fields from `picked` to `of` must be set. */
void cli_texts_read(cli_request *q, cli_job *job);

/* Reads all files except the logits. The fields from `picked` to `of` must be set. */
void cli_sampling_read(cli_request *q, cli_job *job);

/* Converts token ids of `size` bytes each to int32 in place; numbers that int32 cannot hold and
 * negative ones become -1. */
void cli_ids_narrow(void *ids, unsigned size, size_t count);

#define CLI_MASK_TYPES "bool [rows, vocab], or int32 [rows, words] of 32 tokens each"

/* Whether the type of an array is that of a mask, or of a bias; and which mask or bias it is. */
#define CLI_BIAS_TYPES "float32 or float16 [rows, vocab], or bfloat16 as uint16"
bool cli_is_mask(const cli_npy *array);
bool cli_is_bias(const cli_npy *array);
cls_dtype cli_bias_dtype(const cli_npy *array);
cls_mask_kind cli_mask_kind(const cli_npy *array);

/* Reads the prefixes of the infill stage; path NULL: no token is a prefix. */
void cli_prefixes_read(const char *path, uint32_t vocab, cls_infill *infill);

#endif
