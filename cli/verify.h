/* SPDX-License-Identifier: MIT */
/* clsample verify: drafts against a model's logits.
 *
 *     verify.c         the command, and what it prints
 *     drafts.c         reads the files of drafts
 *     verify_device.c  verifies them on the device
 *     verify_host.c    and by the reference
 */
#ifndef CLS_CLI_VERIFY_H
#define CLS_CLI_VERIFY_H

#include "request.h"

/* Drafts of several requests, and how to verify them. Arrays are the files'. */
typedef struct cli_drafts {
    uint32_t requests;
    uint32_t count;   /* of all requests */
    uint32_t most;    /* of one */
    int32_t *cu;      /* [requests + 1]: request i has the target's rows cu[i] to cu[i + 1] - 1 */
    int32_t *ids;     /* [count] */
    int32_t *parents; /* [count]; NULL: chains */
    void *draft;      /* [count, vocab] as kind says */
    cls_draft_kind kind;
    int32_t method, disable_bonus;
    float epsilon, delta;
    uint32_t
        trials; /* of the same state, each at the positions behind those of the one before it */

    /* Results, C order. */
    int32_t *tokens;   /* [trials, requests, most + 1] */
    int32_t *nodes;    /* [trials, requests, most] */
    int32_t *accepted; /* [trials, requests] */
    int32_t *status;   /* [trials, requests] */
} cli_drafts;

/* The paths of these files; NULL: not given. */
typedef struct cli_draft_files {
    const char *target, *cu, *ids, *probs, *logits, *parents;
} cli_draft_files;

/* The target's logits were read: what the other files say of them. dtype: as cli_logits_read().
 * Free it after a failure, too. */
int cli_drafts_read(const cli_draft_files *files, const char *dtype, const cli_logits *target,
                    cli_drafts *drafts);
void cli_drafts_free(cli_drafts *drafts);

static inline uint32_t cli_drafts_of(const cli_drafts *drafts, uint32_t request)
{
    return (uint32_t)(drafts->cu[request + 1] - drafts->cu[request]) - 1;
}

/* Where a request's first row is in a trial. */
uint32_t cli_draft_position(const cli_job *job, const cli_drafts *drafts, uint32_t trial,
                            uint32_t request);

size_t cli_draft_size(const cli_job *job,
                      const cli_drafts *drafts); /* of an element of their distribution */

/* Tokens of a request's trial: those before the first -1. */
uint32_t cli_emitted(const cli_drafts *drafts, uint32_t trial, uint32_t request);

/* job: logits, parameters and what goes with them; the rows of masks and biases are the target's.
 */
int cli_verify(cli_target *target, const cli_job *job, const cli_drafts *drafts);
int cli_verify_host(const cli_job *job, const cli_drafts *drafts);

#endif
