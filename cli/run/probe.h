/* SPDX-License-Identifier: MIT */
/* One row of a step, which the host samples again: in other ways, or stage by stage. */
#ifndef CLS_CLI_RUN_PROBE_H
#define CLS_CLI_RUN_PROBE_H

#include "run/step.h"

/* A row of a request on the host, to be sampled in several ways. */
typedef struct cli_probe {
    cls_sampler *sampler; /* slot 0 has the request, slot 1 is free */
    cls_step step;        /* of one row */
    cls_params params;    /* of the request */
    uint32_t vocab;
} cli_probe;

/* ---------------------------------------------------------- cli/run/stages.c */

/* What a probe gives. */
typedef struct cli_probed {
    int32_t token, status;
    uint32_t kept;    /* tokens of the kept set */
    float raw, final; /* log-probabilities of the token */
} cli_probed;

/* Samples the row with other parameters and inputs. params NULL: the request as it is, with forced
 * ids, which other parameters leave out. probs: [vocab] or NULL. */
cli_probed cli_probe_row(const cli_probe *probe, const cls_params *params, const cls_step *inputs,
                         float *probs);

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
    uint32_t vocab, count;
    cli_shown stage[CLI_MOST_STAGES];
    int32_t token, status;
    double raw, final; /* the token's probability by the logits, and in what it was drawn from */
} cli_explained;

/* Samples the row once for each stage of its chain. top: how many tokens to list after each stage.
 */
void cli_explain(const cli_probe *probe, uint32_t top, cli_explained *explained);

/* ----------------------------------------------------------- cli/run/probe.c */

/* Makes the probe of a row of a step, of a host's side that has run what comes before the step.
 * cls_sampler_destroy() ends it. sampler NULL: the row has no request. */
cli_probe run_probe(run_side *side, const run_statement *step, uint32_t row);

/* The first or the last random bits that draw a token of a row, on a host's side. */
uint64_t run_edge(run_side *side, const run_statement *s, uint32_t row, uint64_t seed);

#endif
