/* SPDX-License-Identifier: MIT */
/* Verifies drafts by the reference on the host. */
#include <inttypes.h>
#include <string.h>

#include "verify.h"

static int host_trial(const cli_job *job, const cli_drafts *drafts, uint32_t trial,
                      uint32_t request)
{
    const uint32_t row = (uint32_t)drafts->cu[request];
    const size_t before = row - request; /* drafts */
    const size_t at = (size_t)trial * drafts->requests + request, width = drafts->most + 1;
    cls_host_row host;
    cls_host_drafts of;
    cls_host_verified result;
    cls_host_verified_init(&result);
    cli_host_row(job, request, row, &host);
    host.position = cli_draft_position(job, drafts, trial, request);
    cls_host_drafts_init(&of);
    of.row = &host;
    of.draft_count = cli_drafts_of(drafts, request);
    of.method = drafts->method;
    of.ids = of.draft_count != 0 ? drafts->ids + before : NULL;
    of.parents = drafts->parents != NULL ? drafts->parents + before : NULL;
    if (drafts->draft != NULL) {
        of.draft =
            (const char *)drafts->draft + before * job->logits->vocab * cli_draft_size(job, drafts);
        of.draft_kind = (int32_t)drafts->kind;
    }
    of.disable_bonus = drafts->disable_bonus;
    of.epsilon = drafts->epsilon;
    of.delta = drafts->delta;
    if (cls_host_verify(&of, &result) != CLS_OK)
        return cli_fail("request %" PRIu32 ": %s", request, cls_error_message());
    memcpy(drafts->tokens + at * width, result.tokens, width * 4);
    memcpy(drafts->nodes + at * drafts->most, result.nodes, drafts->most * 4);
    drafts->accepted[at] = result.accepted;
    drafts->status[at] = result.status;
    return 0;
}

int cli_verify_host(const cli_job *job, const cli_drafts *drafts)
{
    for (uint32_t t = 0; t < drafts->trials; t++)
        for (uint32_t i = 0; i < drafts->requests; i++)
            if (host_trial(job, drafts, t, i) != 0)
                return 1;
    return 0;
}
