/* SPDX-License-Identifier: MIT */
#include "stub_shard.h"
#include "private.h"

#include <stdlib.h>
#include <string.h>

stub_plan stub = {.exchanges = 1, .size = {64, 64, 64, 64}};

struct cls_shard {
    uint32_t shards, shard, borders[65];
    int open, gathers;
    uint32_t exchange, polls, busy, steps;
    uint64_t digest, token;
    unsigned char partial[4096];
};

static struct cls_shard the_shard;
static int exists;
static uint64_t last_token;
static uint32_t completed;

uint64_t stub_token(void) { return last_token; }
uint32_t stub_completed(void) { return completed; }
int stub_is_open(void) { return the_shard.open; }
int stub_exists(void) { return exists; }

/* Whether a call fails now. It fails once. */
static int fails(stub_call call)
{
    if (stub.fails != call || stub.at != the_shard.exchange)
        return 0;
    stub.fails = STUB_NOTHING;
    return 1;
}

static cls_status fault(void) { return cls_fail(stub.status, CL_SUCCESS, "%s", stub.sentence); }

cls_status cls_shard_create(cls_sampler *sampler, const cls_shard_options *o, cls_shard **out)
{
    cls_shard *const h = &the_shard;
    (void)sampler;
    memset(h, 0, sizeof *h);
    *out = NULL;
    if (fails(STUB_CREATE))
        return fault();
    h->shards = o->shard_count;
    h->shard = o->shard;
    for (uint32_t i = 0; i <= h->shards; i++)
        h->borders[i] = o->borders != NULL ? o->borders[i] : 10 * i;
    exists = 1;
    *out = h;
    return CLS_OK;
}

void cls_shard_destroy(cls_shard *h)
{
    if (h != NULL)
        exists = 0;
}

cls_status cls_shard_query(const cls_shard *h, cls_shard_info *info)
{
    info->shortlist = stub.shortlist;
    info->vocab = h->borders[h->shards];
    info->first = h->borders[h->shard];
    info->count = h->borders[h->shard + 1] - info->first;
    info->borders = 1;
    for (uint32_t i = 0; i <= h->shards; i++)
        info->borders = info->borders * 31 + h->borders[i];
    return CLS_OK;
}

/* Fills the partial: the number of the step, of the exchange and of the shard, then a sum. */
static void fill(cls_shard *h)
{
    memset(h->partial, 0, sizeof h->partial);
    const uint32_t words[] = {0x50534c43u, h->steps, h->exchange, h->shard, h->shard * 7 + 1};
    memcpy(h->partial, words, sizeof words);
    for (size_t i = sizeof words; i < stub.size[h->exchange]; i++)
        h->partial[i] = (unsigned char)(i * (h->shard + 3));
    h->polls = stub.polls;
}

static cls_status stub_open(cls_shard *h, uint64_t digest)
{
    h->exchange = 0;
    if (fails(STUB_OPEN))
        return fault();
    h->open = 1;
    h->digest = digest;
    h->token = 0;
    h->busy = 0;
    fill(h);
    return CLS_OK;
}

cls_status cls_shard_sample(cls_shard *h, cl_command_queue queue, const cls_step *step,
                            cl_uint n_wait, const cl_event *wait)
{
    (void)queue;
    (void)n_wait;
    (void)wait;
    return stub_open(h, step->rows);
}

cls_status cls_shard_gather(cls_shard *h, cl_command_queue queue, uint32_t rows,
                            const cls_logits *logits, cl_uint n_wait, const cl_event *wait)
{
    (void)queue;
    (void)logits;
    (void)n_wait;
    (void)wait;
    return stub_open(h, 1000000 + rows);
}

cls_status cls_shard_logits(const cls_shard *h, cls_logits *logits)
{
    (void)h;
    (void)logits;
    return CLS_OK;
}

uint64_t cls_shard_digest(const cls_shard *h) { return h->open ? h->digest : 0; }

size_t cls_shard_partial_size(const cls_shard *h) { return h->open ? stub.size[h->exchange] : 0; }

int cls_shard_is_ready(const cls_shard *h)
{
    if (h->polls == 0)
        return 1;
    the_shard.polls--;
    return 0;
}

cls_status cls_shard_partial(cls_shard *h, const void **partial, size_t *size)
{
    if (fails(STUB_PARTIAL)) {
        h->open = 0;
        return fault();
    }
    h->polls = 0;
    if (fails(STUB_DAMAGE))
        h->partial[20] ^= 4;
    *partial = h->partial;
    *size = stub.size[h->exchange];
    return CLS_OK;
}

static cls_status check(const cls_shard *h, uint32_t i, const unsigned char *at, size_t size)
{
    const uint32_t words[] = {0x50534c43u, h->steps, h->exchange, i, i * 7 + 1};
    int good = memcmp(at, words, sizeof words) == 0;
    for (size_t k = sizeof words; k < size; k++)
        good &= at[k] == (unsigned char)(k * (i + 3));
    return good ? CLS_OK
                : cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "partial %u is damaged", (unsigned)i);
}

cls_status cls_shard_merge(cls_shard *h, const void *partials, size_t size, int *more,
                           cl_event *done)
{
    const size_t one = stub.size[h->exchange];
    (void)done;
    if (size != h->shards * one)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "size is %zu", size);
    for (uint32_t i = 0; i < h->shards; i++) {
        const cls_status status = check(h, i, (const unsigned char *)partials + i * one, one);
        if (status != CLS_OK)
            return status;
    }
    if (h->busy > 0 || fails(STUB_BUSY)) {
        h->busy = h->busy > 0 ? h->busy - 1 : 5;
        if (h->busy > 0)
            return cls_fail(CLS_BUSY, CL_SUCCESS, "too many steps are in flight");
    }
    if (fails(STUB_MERGE))
        return fault();
    h->token = h->token * 31 + h->digest;
    *more = ++h->exchange < stub.exchanges;
    if (*more) {
        fill(h);
        return CLS_OK;
    }
    h->open = 0;
    h->steps++;
    completed++;
    last_token = h->token;
    return CLS_OK;
}

cls_status cls_shard_abandon(cls_shard *h)
{
    h->open = 0;
    return CLS_OK;
}
