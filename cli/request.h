/* SPDX-License-Identifier: MIT */
/* The options that sample and explain share, the files that these options name, and the text of
 * calls that they make (see run/text.h). */
#ifndef CLS_CLI_REQUEST_H
#define CLS_CLI_REQUEST_H

#include "run/script.h"

#define CLI_MOST_HISTORY 16384u /* tokens of a request that a sampler can keep */

/* The requests of a command, one for each row of logits. */
typedef struct cli_request {
    const char *path[CLI_INPUTS]; /* of the logits, the mask and the bias */
    const char *prompt, *output, *seeds, *params_file, *prefixes, *grammar_path;
    float bias_factor, softcap;
    int32_t dtype;     /* -1: the type of the file */
    cls_params params; /* from the command line, for all rows */
    cli_lists lists;
    cli_list end_ids; /* --infill-end */
    cli_list force;
    cli_list rows_text; /* --rows */
    cli_picked picked;  /* by --rows */

    /* Read from the files. */
    cli_array array[CLI_INPUTS]; /* data NULL: there is none */
    uint32_t rows, vocab;
    cls_params *rules;          /* [rows] */
    cls_ids *prompts, *outputs; /* [rows] */
    cls_ids *forces;            /* [rows], the first ids of the outputs */
    cls_ids ends;               /* of infill, if a row has it */
    cls_infill infill;          /* its tables */
    cls_grammar *grammar;       /* of all rows, or NULL; the command destroys it */
    run_given given[6];
} cli_request;

/* clang-format off */
#define CLI_REQUEST_OPTIONS(q) \
    CLI_TITLE("Input"), \
    {"logits", CLI_INPUT, &(q)->path[CLI_LOGITS], "FILE.npy", \
     "the logits: float32 or float16 [rows, vocab], or bfloat16 stored as uint16"}, \
    CLI_SAMPLING_OPTIONS(q)

/* All of these options except --logits. A comma follows. */
#define CLI_SAMPLING_OPTIONS(q) \
    CLI_ROWS(&(q)->rows_text, \
             "the rows to take, such as 0,3,8-15 (default: all, in explain row 0)"), \
    {"dtype", CLI_CHOICE, &(q)->dtype, "TYPE=f32|f16|bf16", \
     "the type of the logits: f32, f16 or bf16 (default: the type of the file)"}, \
    {"softcap", CLI_FLOAT, &(q)->softcap, "C", \
     "the model's soft-cap: each logit x becomes C tanh(x / C) first (default 0: none)"}, \
    {"mask", CLI_INPUT, &(q)->path[CLI_MASK], "FILE.npy", \
     "the allowed tokens: bool [rows, vocab], or int32 [rows, words] of 32 bits each; tokens " \
     "beyond a narrower mask are banned"}, \
    {"bias", CLI_INPUT, &(q)->path[CLI_BIAS], "FILE.npy", \
     "values to add to the logits: float32 or float16 [rows, vocab], or bfloat16 as uint16"}, \
    {"bias-factor", CLI_FLOAT, &(q)->bias_factor, "X", \
     "multiply the bias by X first (default 1); for guidance of scale s, X = 1/s - 1"}, \
    CLI_TITLE("Requests"), \
    {"prompt", CLI_INPUT, &(q)->prompt, "FILE.npy", \
     "the prompt of each request: int32 [rows, tokens], padded with -1"}, \
    {"output", CLI_INPUT, &(q)->output, "FILE.npy", \
     "the tokens generated so far, in the same format as --prompt"}, \
    {"params", CLI_INPUT, &(q)->params_file, "FILE.json", \
     "the parameters of each row: an array with one object per row, or an object for all rows"}, \
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

/* Reads --rows and all files that the options name. `picked` and `rules` are kept if they are set.
 */
void cli_request_read(cli_request *q);

/* The position of a row's first draw: its parameter, plus the tokens of its output. */
uint64_t cli_position(const cli_request *q, uint32_t row);

/* Writes the statements that make the sampler, its tables and its requests; and the words of a step
 * for its logits, its mask and its bias. features: of the sampler, beyond those of the inputs.
 * log: the text is a log, which names the grammar's digest. */
void cli_request_write(const cli_request *q, const char *features, bool log, run_text *t);
void cli_request_write_inputs(const cli_request *q, run_text *t);

/* The script of a text that cli_request_write() began, with the arrays that were read. Messages on
 * a request name its row. */
run_script cli_request_script(const cli_request *q, const char *text);

#endif
