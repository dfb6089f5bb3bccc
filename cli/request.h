/* SPDX-License-Identifier: MIT */
/* The options that sample, verify and explain share, and the files that these options name. */
#ifndef CLS_CLI_REQUEST_H
#define CLS_CLI_REQUEST_H

#include "params.h"

#define CLI_MOST_HISTORY 16384u /* tokens of a request that a sampler can keep */

typedef struct cli_request {
    const char *logits_path, *dtype, *mask, *bias, *prompt, *output, *seeds, *params_file,
        *prefixes;
    cls_params params; /* from the command line, for all rows */
    cli_lists lists;
    cli_list end_ids; /* --infill-end */
    cli_list force;
    cli_picked picked; /* the rows to read */

    /* Read from the files. */
    cli_logits logits;
    uint32_t requests; /* rows of parameters, prompts and outputs */
    const char *of;    /* the noun for these rows in messages */
    cls_params *rows;  /* [requests] */
    cli_ids *forces;   /* [requests] */
    cls_infill infill;
} cli_request;

/* clang-format off */
#define CLI_REQUEST_OPTIONS(q) \
    {"logits", CLI_INPUT, &(q)->logits_path, "FILE.npy", \
     "the logits: float32 or float16 [rows, vocab], or bfloat16 stored as uint16"}, \
    CLI_SAMPLING_OPTIONS(q)

/* All of these options except --logits. */
#define CLI_SAMPLING_OPTIONS(q) \
    {"dtype", CLI_STRING, &(q)->dtype, "TYPE", \
     "the type of the logits: f32, f16 or bf16 (default: the type of the file)"}, \
    CLI_PARAM_OPTIONS(&(q)->params) \
    CLI_LIST_OPTIONS(&(q)->lists) \
    {"force", CLI_LIST, &(q)->force, "IDS", \
     "the first tokens of the output, separated by commas, in place of those drawn"}, \
    {"infill-end", CLI_LIST, &(q)->end_ids, "IDS", \
     "the tokens that end a text, separated by commas"}, \
    {"infill-prefix", CLI_INPUT, &(q)->prefixes, "FILE.npy", \
     "the longest token that is a prefix of each token, or -1: int32 [vocab]"}, \
    {"seeds", CLI_INPUT, &(q)->seeds, "FILE.npy", \
     "the seed of each row: uint64 [rows]"}, \
    {"params", CLI_INPUT, &(q)->params_file, "FILE.json", \
     "the parameters of each row: an array with one object per row"}, \
    {"prompt", CLI_INPUT, &(q)->prompt, "FILE.npy", \
     "the prompt of each request: int32 [rows, tokens], padded with -1"}, \
    {"output", CLI_INPUT, &(q)->output, "FILE.npy", \
     "the tokens generated so far, in the same format as --prompt"}, \
    {"mask", CLI_INPUT, &(q)->mask, "FILE.npy", \
     "the allowed tokens: bool [rows, vocab], or int32 [rows, words] of 32 bits each"}, \
    {"bias", CLI_INPUT, &(q)->bias, "FILE.npy", \
     "values to add to the logits: float32 or float16 [rows, vocab]"}
/* clang-format on */

/* Sets all fields to zero and the parameters to their defaults. */
void cli_request_default(cli_request *q);

/* Reads all files that the options name. */
void cli_request_read(cli_request *q, cli_job *job);

/* Reads all files except the logits. q->logits, q->requests and q->of must be set. */
void cli_sampling_read(cli_request *q, cli_job *job);

/* Converts token ids of `size` bytes each to int32 in place; numbers that int32 cannot hold and
 * negative ones become -1. */
void cli_ids_narrow(void *ids, unsigned size, size_t count);

#define CLI_MASK_TYPES "bool [rows, vocab], or int32 [rows, words] of 32 tokens each"

/* Whether the type of an array is that of a mask, or of a bias; and which mask it is. */
bool cli_is_mask(const cli_npy *array);
bool cli_is_bias(const cli_npy *array);
cls_mask_kind cli_mask_kind(const cli_npy *array);

/* Reads the prefixes of the infill stage; path NULL: no token is a prefix. */
void cli_prefixes_read(const char *path, uint32_t vocab, cls_infill *infill);

#endif
