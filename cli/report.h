/* SPDX-License-Identifier: MIT */
/* What else a step can tell of its rows: the token's rank, the likeliest tokens,
 * the candidates that are left. One block of 32-bit numbers, on the host and,
 * with the same places, on the device. */
#ifndef CLS_CLI_REPORT_H
#define CLS_CLI_REPORT_H

#include "cli.h"

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
    CLI_PARTS
} cli_part;

struct cli_report {
    uint32_t top_n;        /* 0: no ranks, no top tokens */
    bool candidates;       /* whether these are wanted ... */
    uint32_t candidates_n; /* ... and how many fit */
    uint32_t rows;
    size_t width[CLI_PARTS]; /* numbers of a row; 0: not wanted */
    size_t size;             /* bytes */
    void *data;              /* free() it */
};

/* Makes room; most: candidates that a device can tell of. */
int cli_report_make(cli_report *report, uint32_t rows, uint32_t most);

/* A part of a row. */
const int32_t *cli_report_ints(const cli_report *report, cli_part part, uint32_t row);
const float *cli_report_floats(const cli_report *report, cli_part part, uint32_t row);

/* Asks a step for all of it, into a buffer of report->size. */
void cli_report_ask(const cli_report *report, cl_mem buffer, cls_outputs *outputs);

/* The same of a row on the host, of the raw logits: no candidates. */
void cli_report_host(const cli_logits *logits, uint32_t row, int32_t token, cli_report *report);

/* {"rank", "top": [{"token", "logprob"}, ...]} into a row's object. */
int cli_report_json(const cli_report *report, uint32_t row, json_t *object);

/* An array with {"row", "token", "count", "entropy", "kept_mass", "candidates":
 * [{"token", "logit", "probability"}, ...]} a row, of job->report. */
int cli_candidates_write(const char *path, const cli_job *job);

#endif
