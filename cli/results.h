/* SPDX-License-Identifier: MIT */
/* The results of a command: the tokens, their log-probabilities, and the further outputs of a step.
 */
#ifndef CLS_CLI_RESULTS_H
#define CLS_CLI_RESULTS_H

#include "request.h"

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

typedef struct cli_results {
    /* What is wanted; all but the first four parts are of the first draw. */
    uint32_t draws; /* of each row, at the positions from cli_position() on */
    bool logprobs, probs;
    bool by_device; /* whether a device computes the logprobs of `kind`; the host all others */
    cls_logprob_kind kind;
    uint32_t top_n;  /* 0: no ranks and no likeliest tokens */
    bool candidates; /* whether to return candidates */
    uint32_t set_n;  /* the most ids of a row's kept set; 0: no kept sets */

    uint32_t candidates_n; /* the most candidates of a row */
    uint32_t rows;
    size_t width[CLI_PARTS]; /* numbers in a row; 0: not returned */
    void *data[CLI_PARTS];   /* [rows, width] */
} cli_results;

/* Samples the requests on a device or on the host: one step for each draw. A failure returns 1. */
int cli_results_get(const cli_request *q, const char *device, const cls_context_options *options,
                    cli_results *results);

/* The part with the log-probabilities of the kind that was asked for. */
static inline cli_part cli_logprobs(const cli_results *results)
{
    return results->kind == CLS_LOGPROB_RAW ? CLI_LOGPROBS : CLI_FINAL_LOGPROBS;
}

/* Pointers to one part of a row. */
int32_t *cli_ints(const cli_results *results, cli_part part, uint32_t row);
float *cli_floats(const cli_results *results, cli_part part, uint32_t row);

/* The object of a row: {"row", "position", "status", "statuses", "status_words", "token", "tokens",
 * "logprob", "logprobs", "raw_probability", "final_probability"}, where a key in the singular has
 * the value of the first draw; and what was requested of {"rank", "top": [{"token", "logprob"},
 * ...]} and {"kept_count", "kept_ids"}. */
json_t *cli_row_json(const cli_request *q, const cli_results *results, uint32_t row);

/* Writes one part of all rows. */
void cli_part_write(const char *path, const cli_results *results, cli_part part);

/* Writes the kept sets one behind the other, and their offsets; sets that were cut are left out. */
void cli_sets_write(const char *ids_path, const char *offsets_path, const cli_results *results);

/* Writes an array with one object for each row: {"row", "token", "count", "entropy", "kept_mass",
 * "candidates": [{"token", "logit", "probability"}, ...]}. */
void cli_candidates_write(const char *path, const cli_request *q, const cli_results *results);

/* Fails if a log could not name the files of a request, because one is a pipe. Call it before the
 * files are read. */
void cli_log_check(const cli_request *q);

/* Writes a text of calls that clsample run proves. */
void cli_log_write(const char *path, const cli_request *q, const cli_results *results);

#endif
