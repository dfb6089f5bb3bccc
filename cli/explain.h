/* SPDX-License-Identifier: MIT */
/* clsample explain: the stages of a row's chain, one at a time.
 *
 *     explain.c         the command; prints the stages as a table or as JSON
 *     explain_stages.c  runs the reference once for each stage
 *     explain_plot.c    plots the probabilities by gnuplot
 */
#ifndef CLS_CLI_EXPLAIN_H
#define CLS_CLI_EXPLAIN_H

#include "request.h"

#define CLI_MOST_STAGES 16

/* The row after one stage. */
typedef struct cli_shown {
    const char *name;
    char parameter[192];
    uint32_t kept;
    double mass;        /* of the kept tokens, in the adjusted row at temperature 1 */
    double share;       /* of the kept tokens, in the distribution after the previous stage */
    double temperature; /* that the stages so far apply; 0: greedy */
    float *probs;       /* [vocab], the distribution after this stage */
    uint8_t *keeps;     /* [vocab], 1 for the kept tokens */
    uint32_t top_count;
    uint32_t *top; /* [top_count], the likeliest tokens in descending order */
} cli_shown;

typedef struct cli_explained {
    uint32_t row, vocab, position, count;
    cli_shown stage[CLI_MOST_STAGES];
    int32_t token, status;
    double raw, final; /* the token's probability by the logits, and in what it was drawn from */
} cli_explained;

/* top: how many tokens to list after each stage. */
void cli_explain(const cls_host_row *row, uint32_t number, uint32_t top, cli_explained *explained);

/* Plots probability by rank after each stage. The path ends with .png or .svg, which decides the
 * format; cli_plot_check() fails on other paths. */
void cli_plot_check(const char *path);
int cli_plot(const char *path, const cli_explained *explained, const cli_pieces *pieces);

#endif
