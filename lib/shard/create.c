/* SPDX-License-Identifier: MIT */
/* Creates and destroys shards. */
#include "shard/shard.h"

#include <stdlib.h>

/* Returns a default border: a multiple of 1,024 where every shard then has tokens. */
static uint32_t default_border(uint32_t vocab, uint32_t shards, uint32_t i)
{
    const uint32_t tiles = (vocab + CLS_TILE - 1) / CLS_TILE;
    if (i == shards)
        return vocab;
    if (shards > tiles)
        return (uint32_t)((uint64_t)i * vocab / shards);
    return (uint32_t)((uint64_t)i * tiles / shards) * CLS_TILE;
}

static cls_status check_shard_options(const cls_shard_options *o, uint32_t vocab)
{
    if (o->shard_count < 1 || o->shard_count > CLS_MAX_SHARDS || o->shard_count > vocab)
        return cls_refuse(
            "options->shard_count is %u; it must be 1 to %d and at most the vocabulary of %u",
            (unsigned)o->shard_count, CLS_MAX_SHARDS, (unsigned)vocab);
    if (o->shard >= o->shard_count)
        return cls_refuse("options->shard is %u, but options->shard_count is %u",
                          (unsigned)o->shard, (unsigned)o->shard_count);
    for (uint32_t i = 0; o->borders != NULL && i <= o->shard_count; i++) {
        if (i == 0 && o->borders[i] != 0)
            return cls_refuse("options->borders[0] is %u; it must be 0", (unsigned)o->borders[0]);
        if (i > 0 && o->borders[i] <= o->borders[i - 1])
            return cls_refuse("options->borders[%u] is %u, which is not above borders[%u], %u",
                              (unsigned)i, (unsigned)o->borders[i], (unsigned)i - 1,
                              (unsigned)o->borders[i - 1]);
        if (i == o->shard_count && o->borders[i] != vocab)
            return cls_refuse("options->borders[%u], the last, is %u; it must be the sampler's "
                              "vocabulary of %u",
                              (unsigned)i, (unsigned)o->borders[i], (unsigned)vocab);
    }
    return CLS_OK;
}

/* Allocates what a shard needs beside its sampler. */
static cls_status allocate_shard(cls_shard *h, const cls_shard_options *o)
{
    const uint32_t n = o->shard_count, vocab = h->sampler->vocab;
    h->borders = malloc((n + 1) * sizeof *h->borders);
    if (h->borders == NULL)
        return cls_no_memory("%u borders", (unsigned)n + 1);
    for (uint32_t i = 0; i <= n; i++) {
        h->borders[i] = o->borders != NULL ? o->borders[i] : default_border(vocab, n, i);
        if (i > 0 && h->borders[i] - h->borders[i - 1] > h->widest)
            h->widest = h->borders[i] - h->borders[i - 1];
    }
    h->shards = n;
    h->on_device = o->on_device;
    h->shard = o->shard;
    h->first = h->borders[o->shard];
    h->width = h->borders[o->shard + 1] - h->first;
    return CLS_OK;
}

static cls_status create(cls_sampler *s, const cls_shard_options *callers, cls_shard **out)
{
    cls_shard_options o;
    cls_shard_options_init(&o);
    if (s == NULL)
        return cls_refuse("sampler is NULL");
    cls_status status = callers != NULL ? CLS_STRUCT_READ(&o, callers, "options") : CLS_OK;
    if (status == CLS_OK && s->host != NULL)
        status = cls_refuse_call("the sampler has no device, which a shard needs");
    if (status == CLS_OK && s->record != NULL)
        status = cls_refuse_call("the sampler was created with options->record, which writes no "
                                 "calls of shards");
    if (status == CLS_OK)
        status = check_shard_options(&o, s->vocab);
    if (status == CLS_OK)
        status = cls_switch_check("options->on_device", o.on_device);
    if (status == CLS_OK)
        status = cls_reserved_check("options->reserved", (uint32_t)o.reserved);
    if (status == CLS_OK && s->shard != NULL)
        status = cls_refuse_call("the sampler already has a shard: create a sampler for each");
    if (status != CLS_OK)
        return status;
    cls_shard *const h = calloc(1, sizeof *h);
    if (h == NULL)
        return cls_no_memory("a shard");
    h->sampler = s;
    status = allocate_shard(h, &o);
    if (status == CLS_OK)
        status = cls_rows_create(h);
    if (status != CLS_OK) {
        cls_shard_destroy(h);
        return status;
    }
    s->shard = h;
    *out = h;
    return CLS_OK;
}

cls_status cls_shard_create(cls_sampler *s, const cls_shard_options *options, cls_shard **out)
{
    if (out == NULL)
        return cls_refuse("out is NULL");
    *out = NULL;
    return CLS_GUARDED_CALL(s, create(s, options, out));
}

void cls_shard_destroy(cls_shard *h)
{
    if (h == NULL)
        return;
    cls_shard_abandon(h);
    cls_rows_finish(h, h->sampler->last_queue);
    h->sampler->shard = NULL;
    cls_rows_destroy(h);
    if (h->gathered.buffer != NULL)
        clReleaseMemObject(h->gathered.buffer);
    free(h->partial.data);
    free(h->borders);
    free(h);
}

cls_status cls_shard_query(const cls_shard *h, cls_shard_info *callers)
{
    cls_shard_info info;
    if (h == NULL)
        return cls_refuse("shard is NULL");
    const cls_status status = CLS_STRUCT_READ_OUTPUT(&info, callers, "info");
    if (status != CLS_OK)
        return status;
    info = (cls_shard_info){.struct_size = info.struct_size,
                            .vocab = h->sampler->vocab,
                            .first = h->first,
                            .count = h->width,
                            .shard = h->shard,
                            .shard_count = h->shards,
                            .shortlist = h->sampler->context->shape.shortlist,
                            .borders = cls_shard_borders(h)};
    CLS_STRUCT_WRITE(&info, callers);
    return CLS_OK;
}
