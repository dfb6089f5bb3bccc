/* SPDX-License-Identifier: MIT */
/* clsample verify: verifies draft tokens against a model's logits.
 *
 *     verify.c        the command; prints and writes the results
 *     verify_files.c  reads the drafts from files
 *     verify_run.c    verifies them on the device or by the reference
 */
#ifndef CLS_CLI_VERIFY_H
#define CLS_CLI_VERIFY_H

#include "request.h"

/* The drafts of several requests, and how to verify them. The arrays are as in the files. */
typedef struct cli_drafts {
    uint32_t requests;
    uint32_t count;   /* drafts of these requests */
    uint32_t most;    /* the most drafts of a request */
    int32_t *cu;      /* [requests + 1]: request i has rows cu[i] to cu[i + 1] - 1 of the target */
    int32_t *ids;     /* [count] */
    int32_t *parents; /* [count]; NULL: each draft follows the one before it */
    void *draft;      /* [count, vocab], the draft model's probabilities or logits, by kind */
    cls_draft_kind kind;
    int32_t method, disable_bonus;
    float epsilon, delta;
    uint32_t trials; /* all from the same state, each at the positions after the previous trial */

    /* Results, in C order. */
    int32_t *tokens;   /* [trials, requests, most + 1] */
    int32_t *nodes;    /* [trials, requests, most] */
    int32_t *accepted; /* [trials, requests] */
    int32_t *status;   /* [trials, requests] */
    float *logprobs;   /* [trials, requests, most + 1] of logprob_kind, or NULL */
    int32_t logprob_kind;
} cli_drafts;

/* The paths of the files; NULL: there is none. */
typedef struct cli_draft_files {
    const char *target, *cu, *ids, *probs, *logits, *parents;
} cli_draft_files;

/* Reads the drafts and the target's logits of the requests that q->picked selects. Sets the fields
 * of q that concern the rows of files. */
void cli_drafts_read(const cli_draft_files *files, cli_request *q, cli_drafts *drafts);

static inline uint32_t cli_drafts_of(const cli_drafts *drafts, uint32_t request)
{
    return (uint32_t)(drafts->cu[request + 1] - drafts->cu[request]) - 1;
}

/* The position of a request's first row in a trial. */
uint32_t cli_draft_position(const cli_job *job, const cli_drafts *drafts, uint32_t trial,
                            uint32_t request);

/* Bytes of an element of the draft model's distribution. */
size_t cli_draft_size(const cli_job *job, const cli_drafts *drafts);

/* The number of tokens that a request emitted in a trial: those before the first -1. */
uint32_t cli_emitted(const cli_drafts *drafts, uint32_t trial, uint32_t request);

/* Verifies the drafts and stores the results. device: the value of --device. job: the target's
 * logits and the requests; the rows of masks and biases are the target's. */
int cli_verify(const char *device, const cls_context_options *options, const cli_job *job,
               const cli_drafts *drafts);

#endif
