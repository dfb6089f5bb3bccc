/* SPDX-License-Identifier: MIT */
/* The calls of a side whose vocabulary is divided. */
#include <string.h>

#include "run/calls.h"

/* Exchanges the partials of the shards' open step until it is complete. Three shards do so on the
 * device, five every other time. */
static cls_status exchange(run_side *side)
{
    const bool at_once = side->shards == 3 || (side->shards == 5 && side->index % 2);
    cls_status status = CLS_OK;
    unsigned char *partials = NULL;
    if (at_once)
        return cls_shard_merge_all(side->shard, side->shards, NULL);
    for (int more = 1; more && status == CLS_OK;) {
        size_t one = 0;
        for (uint32_t i = 0; i < side->shards && status == CLS_OK; i++) {
            const void *partial;
            status = cls_shard_partial(side->shard[i], &partial, &one);
            if (status == CLS_OK) {
                partials = cli_grow(partials, side->shards, one);
                memcpy(partials + i * one, partial, one);
            }
        }
        for (uint32_t i = 0; i < side->shards && status == CLS_OK; i++)
            status = cls_shard_merge(side->shard[i], partials, side->shards * one, &more, NULL);
    }
    cli_free(partials);
    return status;
}

cls_status run_step_of_shards(run_side *side, const cls_step *steps)
{
    cls_status status = CLS_OK;
    for (uint32_t i = 0; i < side->shards && status == CLS_OK; i++)
        do
            status = cls_shard_sample(side->shard[i], side->target.queue, &steps[i], 0, NULL);
        while (run_again(side, i, &status));
    if (status == CLS_OK)
        status = exchange(side);
    for (uint32_t i = 0; i < side->shards && status != CLS_OK; i++)
        cls_shard_abandon(side->shard[i]);
    return status;
}

void run_gather(run_side *side, const run_inputs *in, uint32_t rows, cls_logits *whole)
{
    cls_status status = CLS_OK;
    for (uint32_t i = 0; i < side->shards && status == CLS_OK; i++) {
        cls_logits own = run_logits(side, in, 0, rows, i);
        own.softcap = 0.0f;
        status = cls_shard_gather(side->shard[i], side->target.queue, rows, &own, 0, NULL);
    }
    if (status == CLS_OK)
        status = exchange(side);
    for (uint32_t i = 0; i < side->shards && status == CLS_OK; i++) {
        status = cls_shard_logits(side->shard[i], &whole[i]);
        whole[i].softcap = in->softcap;
    }
    if (status != CLS_OK)
        run_die(side->now, "%s: %s", side->name, cls_error_message());
}

void run_join_shards(run_side *side, uint32_t since)
{
    const uint32_t each = (side->records - since) / side->shards;
    run_drain(side);
    for (uint32_t i = since + each; i < side->records; i++) {
        run_record *const a = &side->record[since + (i - since) % each];
        if (!a->near && memcmp(a->bytes, side->record[i].bytes, a->size) != 0)
            *a = side->record[i];
    }
    side->records = since + each;
}
