/* SPDX-License-Identifier: MIT */
/* The results of a job: the tokens, their log-probabilities, and the further outputs of a step.
 * They are one block of 32-bit numbers, with the same offsets on the host and on the device. */
#ifndef CLS_CLI_RESULTS_H
#define CLS_CLI_RESULTS_H

#include "params.h"

#define CLI_MOST_TOP 128u

typedef enum cli_part {
    CLI_TOKENS,
    CLI_STATUS,
    CLI_LOGPROBS, /* raw ones, and then final ones: CLI_LOGPROBS + a cls_logprob_kind */
    CLI_FINAL_LOGPROBS,
    CLI_PROBS,
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

struct cli_results {
    /* What is wanted; all but the first four parts are of the first draw. */
    uint32_t draws; /* of each row, at the positions from cli_position() on */
    bool logprobs, probs;
    bool by_device; /* whether a device computes the logprobs of `kind`; the reference all others */
    cls_logprob_kind kind;
    uint32_t top_n;  /* 0: no ranks and no likeliest tokens */
    bool candidates; /* whether to return candidates */
    uint32_t set_n;  /* the most ids of a row's kept set; 0: no kept sets */

    uint32_t candidates_n; /* the most candidates of a row */
    uint32_t rows;
    size_t width[CLI_PARTS]; /* numbers in a row; 0: not returned */
    size_t size;             /* bytes */
    void *data;
};

/* Whether the reference also computes log-probabilities of a device's tokens. */
bool cli_is_small(const cli_job *job);

/* Allocates the block for a job's rows. most: the most candidates that the device can return. */
void cli_results_alloc(const cli_job *job, uint32_t most);

/* The part with the log-probabilities of the kind that was asked for. */
static inline cli_part cli_logprobs(const cli_results *results)
{
    return results->kind == CLS_LOGPROB_RAW ? CLI_LOGPROBS : CLI_FINAL_LOGPROBS;
}

/* Pointers to one part of a row. */
int32_t *cli_ints(const cli_results *results, cli_part part, uint32_t row);
float *cli_floats(const cli_results *results, cli_part part, uint32_t row);

/* Sets the outputs of the step of a draw to their offsets in a buffer of results->size bytes. There
 * the parts of all draws are [draws, rows]; cli_results_turn() makes them [rows, draws]. */
void cli_results_bind(const cli_results *results, uint32_t draw, cl_mem buffer, cls_step *step,
                      cls_outputs *outputs);
void cli_results_turn(const cli_results *results);

/* Allocates the results and computes them by the reference: rank and likeliest tokens are by the
 * raw logits, and there are no candidates. */
void cli_results_by_host(const cli_job *job);

/* Computes the log-probabilities of a device's tokens that the device did not, by the reference:
 * the bits that a device computes. NaN: the job is too large, or the reference has another token.
 */
void cli_results_logprobs(const cli_job *job);

/* Finds the tokens with the largest numbers above a limit, in descending order. top: [most].
 * Returns how many there are. */
uint32_t cli_likeliest(const float *probs, uint32_t vocab, float above, uint32_t most,
                       uint32_t *top);

/* The object of a row: {"row", "position", "status", "statuses", "status_words", "token", "tokens",
 * "logprob", "logprobs", "raw_probability", "final_probability"}, where a key in the singular has
 * the value of the first draw; and what was requested of {"rank", "top": [{"token", "logprob"},
 * ...]} and {"kept_count", "kept_ids"}. */
json_t *cli_row_json(const cli_job *job, uint32_t row);

/* Writes one part of all rows. */
void cli_part_write(const char *path, const cli_results *results, cli_part part);

/* Writes the kept sets one behind the other, and their offsets; sets that were cut are left out. */
void cli_sets_write(const char *ids_path, const char *offsets_path, const cli_results *results);

/* Writes an array with one object for each row: {"row", "token", "count", "entropy", "kept_mass",
 * "candidates": [{"token", "logit", "probability"}, ...]}. */
void cli_candidates_write(const char *path, const cli_job *job);

#endif
