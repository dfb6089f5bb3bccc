/* SPDX-License-Identifier: MIT */
/* Further outputs of a step: the rank of the token, the likeliest tokens, the candidates and the
 * kept set. They are one block of 32-bit numbers, with the same offsets on the host and on the
 * device. */
#ifndef CLS_CLI_OUTPUTS_H
#define CLS_CLI_OUTPUTS_H

#include "params.h"

#define CLI_MOST_TOP 128u

typedef enum cli_part {
    CLI_RANKS,
    CLI_TOP_IDS,
    CLI_TOP_LOGPROBS,
    CLI_CANDIDATE_IDS,
    CLI_CANDIDATE_LOGITS,
    CLI_CANDIDATE_PROBS,
    CLI_CANDIDATE_COUNTS,
    CLI_ENTROPY,
    CLI_KEPT_MASS,
    CLI_SET_IDS,
    CLI_SET_COUNTS,
    CLI_PARTS
} cli_part;

struct cli_outputs {
    uint32_t top_n;        /* 0: no ranks and no likeliest tokens */
    bool candidates;       /* whether to return candidates */
    uint32_t candidates_n; /* the most candidates of a row */
    uint32_t set_n;        /* the most ids of a row's kept set; 0: no kept sets */
    uint32_t rows;
    size_t width[CLI_PARTS]; /* numbers in a row; 0: not returned */
    size_t size;             /* bytes */
    void *data;
};

/* Allocates the block for `rows` rows. most: the most candidates that the device can return. */
void cli_outputs_alloc(cli_outputs *outputs, uint32_t rows, uint32_t most);

/* Pointers to one output of a row. */
const int32_t *cli_outputs_ints(const cli_outputs *outputs, cli_part part, uint32_t row);
const float *cli_outputs_floats(const cli_outputs *outputs, cli_part part, uint32_t row);

/* Sets the outputs of a step to their offsets in a buffer of outputs->size bytes. */
void cli_outputs_bind(const cli_outputs *outputs, cl_mem buffer, cls_outputs *to);

/* Sets where the reference writes the kept set of a row. Then stores how many tokens it has, and
 * computes the rank and the likeliest tokens by the raw logits. */
void cli_outputs_host_begin(const cli_outputs *outputs, uint32_t row, cls_host_result *result);
void cli_outputs_host_end(const cli_outputs *outputs, const cli_logits *logits, uint32_t row,
                          const cls_host_result *result);

/* Finds the tokens with the largest numbers above a limit, in descending order. top: [most].
 * Returns how many there are. */
uint32_t cli_likeliest(const float *probs, uint32_t vocab, float above, uint32_t most,
                       uint32_t *top);

/* Adds to the object of a row what was requested: {"rank", "top": [{"token", "logprob"}, ...]} and
 * {"kept_count", "kept_ids": [id, ...]}. */
void cli_outputs_json(const cli_outputs *outputs, uint32_t row, json_t *object);

/* Writes an array with one object for each row: {"row", "token", "count", "entropy", "kept_mass",
 * "candidates": [{"token", "logit", "probability"}, ...]}. */
int cli_candidates_write(const char *path, const cli_job *job);

#endif
