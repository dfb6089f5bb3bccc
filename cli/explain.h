/* SPDX-License-Identifier: MIT */
/* clsample explain: a row's chain, a stage at a time.
 *
 *     stages.c   runs the reference on the chain's beginnings
 *     explain.c  prints what it found; the command
 *     plot.c     draws it
 */
#ifndef CLS_CLI_EXPLAIN_H
#define CLS_CLI_EXPLAIN_H

#include "request.h"

#define CLI_MOST_STAGES 16

/* The row after one of its stages. */
typedef struct cli_shown {
    const char *name;
    char parameter[192];
    uint32_t kept;
    double mass;        /* of the kept tokens in the adjusted row, at temperature 1 */
    double share;       /* ... in what the stage before left, at the temperature then */
    double temperature; /* in force; 0: greedy */
    float *probs;       /* [vocab], what would be drawn from */
    uint32_t tops;
    uint32_t *top; /* the likeliest `tops` tokens, likeliest first */
} cli_shown;

typedef struct cli_explained {
    uint32_t row, vocab, position, count;
    cli_shown stage[CLI_MOST_STAGES];
    int32_t token, status;
    double probability; /* of the token, when it was drawn */
} cli_explained;

/* top: the most tokens of a stage's list. Free it after a failure, too. */
int cli_explain(const cli_job *job, uint32_t row, uint32_t top, cli_explained *explained);
void cli_explained_free(cli_explained *explained);

/* Draws probability by rank after each stage, by gnuplot. The path's end says
 * in which format. */
int cli_plot_check(const char *path);
int cli_plot(const char *path, const cli_explained *explained, const cli_pieces *pieces);

#endif
