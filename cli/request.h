/* SPDX-License-Identifier: MIT */
/* Rows of requests: the options that sample, verify and explain share. */
#ifndef CLS_CLI_REQUEST_H
#define CLS_CLI_REQUEST_H

#include "params.h"

#define CLI_MOST_HISTORY 16384u /* that a sampler keeps of a request */

typedef struct cli_request {
    const char *logits_path, *dtype, *mask, *bias, *prompt, *output, *seeds, *params_file,
        *prefixes;
    cls_params params; /* of the command line, for all rows */
    cli_lists lists;
    cli_list end_ids;  /* of the infill stage */
    cli_picked picked; /* rows to read; its owner frees them */

    /* What is read by them. */
    cli_logits logits;
    uint32_t requests; /* rows of parameters, prompts and outputs */
    const char *of;    /* what a sentence on their number calls them */
    cls_params *rows;  /* [requests] */
    cls_infill infill;
    int32_t *ends, *prefix_of;
} cli_request;

/* clang-format off */
#define CLI_REQUEST_OPTIONS(q) \
    {"logits", CLI_STRING, &(q)->logits_path, "FILE.npy", \
     "[rows, vocab] float32 or float16, or uint16 as bf16", NULL, 0}, \
    CLI_SAMPLING_OPTIONS(q)

/* All of them but the logits. */
#define CLI_SAMPLING_OPTIONS(q) \
    {"dtype", CLI_STRING, &(q)->dtype, "TYPE", \
     "f32, f16 or bf16 (default: by the file)", NULL, 0}, \
    CLI_PARAM_OPTIONS(&(q)->params) \
    CLI_LIST_OPTIONS(&(q)->lists) \
    {"infill-end", CLI_LIST, &(q)->end_ids, "IDS", \
     "tokens, with commas between, that end a generation", NULL, 0}, \
    {"infill-prefix", CLI_STRING, &(q)->prefixes, "FILE.npy", \
     "int32 [vocab]: the longest token that begins each one; -1: none", NULL, 0}, \
    {"seeds", CLI_STRING, &(q)->seeds, "FILE.npy", \
     "uint64 [rows]: each row's seed", NULL, 0}, \
    {"params", CLI_STRING, &(q)->params_file, "FILE.json", \
     "an array with one object of parameters a row", NULL, 0}, \
    {"prompt", CLI_STRING, &(q)->prompt, "FILE.npy", \
     "int32 [rows, tokens], -1 padded: the requests' prompts", NULL, 0}, \
    {"output", CLI_STRING, &(q)->output, "FILE.npy", \
     "and what they have generated so far, shaped alike", NULL, 0}, \
    {"mask", CLI_STRING, &(q)->mask, "FILE.npy", \
     "allowed tokens: int32 [rows, words of 32], or bool [rows, vocab]", NULL, 0}, \
    {"bias", CLI_STRING, &(q)->bias, "FILE.npy", \
     "added to the logits: float32 or float16 [rows, vocab]", NULL, 0}
/* clang-format on */

void cli_request_default(cli_request *q);

/* Reads all that the options name. Free both after a failure, too. */
int cli_request_read(cli_request *q, const cli_option *options, cli_job *job);

/* The same of the rest, where logits and the number of requests are there. */
int cli_sampling_read(cli_request *q, const cli_option *options, cli_job *job);

/* Token ids as int32, one of `size` bytes each before; what is none becomes -1. */
void cli_ids_narrow(void *ids, unsigned size, size_t count);

/* The request, its lists of texts, and the job's inputs. */
void cli_request_free(cli_request *q, cli_job *job);

#endif
