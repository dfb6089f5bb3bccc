/* SPDX-License-Identifier: MIT */
/* Partials: their header, and the checks that they belong to the same step. */
#include "shard/shard.h"

#include <stdio.h>
#include <stdlib.h>

#define MAGIC 0x50534c43u /* "CLSP" */
#define FORMAT 2u

/* --------------------------------------------------------------------- the digest */

/* Mixes in a host array of the step's rows. */
static uint64_t mix_map(uint64_t hash, const cls_ints *map, uint32_t rows)
{
    hash = cls_hash_word(hash, (uint64_t)cls_buffer_is_set(&map->device));
    return map->host != NULL ? cls_hash_bytes(hash, map->host, rows * sizeof *map->host) : hash;
}

uint64_t cls_shard_borders(const cls_shard *h)
{
    return cls_hash_bytes(1, h->borders, (h->shards + 1) * sizeof *h->borders);
}

uint64_t cls_shard_step_digest(const cls_shard *h)
{
    const cls_sampler *const s = h->sampler;
    const cls_plan *const plan = &h->plan;
    const cls_step *const step = &plan->step;
    uint64_t hash = cls_shard_borders(h);
    const uint32_t words[] = {s->vocab,
                              step->rows,
                              step->logits_rows,
                              (uint32_t)plan->count[CLS_N_LOGIT_BYTES],
                              plan->has,
                              plan->wants,
                              plan->outputs.top.count,
                              plan->outputs.given.count,
                              plan->outputs.kept.count,
                              plan->outputs.kept_set.capacity + plan->packed.capacity,
                              (uint32_t)h->gathers,
                              (uint32_t)step->invalid_token,
                              (uint32_t)step->logits.dtype};
    hash = cls_hash_bytes(hash, words, sizeof words);
    if (step->logits.softcap != 0.0f)
        hash = cls_hash_word(hash, (uint32_t)CLS_AS_I32(step->logits.softcap));
    if (h->gathers)
        return hash != 0 ? hash : 1;
    const cls_ints *const maps[] = {&step->slots,        &step->positions,    &step->draws,
                                    &step->mask.row_map, &step->bias.row_map, &step->logits_map};
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++)
        hash = mix_map(hash, maps[i], step->rows);
    if (cls_buffer_is_set(&step->slots.device)) {
        hash = cls_hash_word(hash, s->needs.digest);
    } else {
        for (uint32_t row = 0; row < step->rows; row++) {
            const int32_t slot = step->slots.host != NULL ? step->slots.host[row] : (int32_t)row;
            if (slot >= 0)
                hash = cls_hash_word(hash, s->request[slot].digest);
        }
    }
    return hash != 0 ? hash : 1;
}

/* --------------------------------------------------------------------- the header */

static uint64_t checksum(const cls_partial_header *header, const void *body)
{
    const uint64_t fields = cls_hash_bytes(2, header, offsetof(cls_partial_header, checksum));
    return cls_hash_bytes(fields, body, (size_t)header->size - sizeof *header);
}

cls_status cls_partial_reserve(cls_shard *h, size_t body)
{
    const size_t size = body + sizeof(cls_partial_header);
    if (h->partial.size < size) {
        void *const larger = realloc(h->partial.data, size);
        if (larger == NULL)
            return cls_no_memory("a partial of %zu bytes", size);
        h->partial.data = larger;
        h->partial.size = size;
    }
    h->partial.used = size;
    return CLS_OK;
}

void cls_partial_seal(cls_shard *h)
{
    cls_partial_header header = {
        .magic = MAGIC,
        .version = FORMAT,
        .shortlist = (uint16_t)h->sampler->context->shape.shortlist,
        .step = h->completed,
        .exchange = h->exchange,
        .protocol = (uint32_t)h->protocol,
        .shard = h->shard,
        .shards = h->shards,
        .rows = h->plan.step.rows,
        .vocab = h->sampler->vocab,
        .digest = h->digest,
        .size = h->partial.used,
    };
    header.checksum = checksum(&header, cls_partial_body(h->partial.data));
    memcpy(h->partial.data, &header, sizeof header);
}

/* ----------------------------------------------------------------------- the check */

void cls_shortlists_describe(char text[CLS_SHORTLISTS_SIZE], uint32_t theirs, uint32_t ours)
{
    *text = 0;
    if (theirs != ours)
        snprintf(text, CLS_SHORTLISTS_SIZE,
                 ", or a top_k lies between the shortlists of their devices, of %u and %u tokens: "
                 "create all contexts with the same options->shortlist",
                 (unsigned)theirs, (unsigned)ours);
}

/* Fails if a partial is of another step than the shard's. */
static cls_status check_step(const cls_shard *h, uint32_t i, const void *partial)
{
    cls_partial_header p;
    char also[CLS_SHORTLISTS_SIZE];
    memcpy(&p, partial, sizeof p);
    if (p.magic != MAGIC)
        return cls_refuse(
            "partial %u is not a partial of this library, or its host has another byte order",
            (unsigned)i);
    if (p.version != FORMAT)
        return cls_refuse("partial %u has the format %u, and this library knows %u: all shards "
                          "need the same version",
                          (unsigned)i, (unsigned)p.version, FORMAT);
    const struct {
        const char *what;
        uint64_t is, should;
    } fields[] = {
        {"of a split into %llu shards, not %llu", p.shards, h->shards},
        {"of shard %llu; shard %llu is expected there", p.shard, i},
        {"of a vocabulary of %llu tokens, not %llu", p.vocab, h->sampler->vocab},
        {"of a step with %llu rows, not %llu", p.rows, h->plan.step.rows},
        {"of a step after %llu complete steps; this shard has completed %llu", p.step,
         h->completed},
        {"of exchange %llu, not %llu", p.exchange, h->exchange},
    };
    for (size_t k = 0; k < sizeof fields / sizeof fields[0]; k++)
        if (fields[k].is != fields[k].should) {
            char what[160];
            snprintf(what, sizeof what, fields[k].what, (unsigned long long)fields[k].is,
                     (unsigned long long)fields[k].should);
            return cls_refuse("partial %u is %s", (unsigned)i, what);
        }
    cls_shortlists_describe(also, p.shortlist, h->sampler->context->shape.shortlist);
    if (p.protocol != h->protocol)
        return cls_refuse("partial %u is of kind %u, not %u: other parameters or outputs%s",
                          (unsigned)i, (unsigned)p.protocol, (unsigned)h->protocol, also);
    return p.digest == h->digest
               ? CLS_OK
               : cls_refuse("partial %u is of a step with other borders, parameters, slots, maps "
                            "or outputs than this shard's%s",
                            (unsigned)i, also);
}

static cls_status check_bytes(const cls_shard *h, uint32_t i, const void *partial)
{
    cls_partial_header p;
    memcpy(&p, partial, sizeof p);
    if (p.size != h->partial.used || p.checksum != checksum(&p, cls_partial_body(partial)))
        return cls_refuse("partial %u is damaged: its checksum does not match its bytes",
                          (unsigned)i);
    return CLS_OK;
}

/* `partial` is no argument of the calls that merge. */
cls_status cls_partials_check(const cls_shard *h, const void *partials, size_t size)
{
    const size_t one = h->partial.used, header = sizeof(cls_partial_header);
    cls_status status = CLS_OK;
    /* The partials of another step may have another size; its header says more about it. */
    for (uint32_t i = 0; i < h->shards && i * one + header <= size && status == CLS_OK; i++)
        status = check_step(h, i, (const char *)partials + i * one);
    if (status == CLS_OK && size != h->shards * one)
        return cls_refuse("size is %zu, but %u partials of %zu bytes are %zu", size,
                          (unsigned)h->shards, one, h->shards * one);
    for (uint32_t i = 0; i < h->shards && status == CLS_OK; i++)
        status = check_bytes(h, i, (const char *)partials + i * one);
    return status == CLS_OK ? status : cls_no_field(status);
}
