/* SPDX-License-Identifier: MIT */
#include "split.h"

#include <stdlib.h>
#include <string.h>

void split_logits(const batch *b, device *d, uint32_t first, uint32_t width, cls_logits *out)
{
    const size_t element = dtype_size(b->dtype), stride = width + 3, offset = 5 * element;
    const size_t size = offset + b->rows * stride * element;
    unsigned char *const data = must_malloc(size);
    memset(data, 0xff, size); /* NaN, which no row may read */
    for (uint32_t row = 0; row < b->rows; row++)
        memcpy(data + offset + row * stride * element,
               b->data + b->offset + ((size_t)row * b->stride + first) * element, width * element);
    if (out->values.buffer == NULL)
        out->values.buffer = buffer_of(d, size, data);
    else
        buffer_write(d, out->values.buffer, 0, size, data);
    free(data);
    out->values.offset = offset;
    out->row_stride = stride;
}

void split_open(splits *p, client *s, cls_context *const *contexts, uint32_t n,
                const uint32_t *borders)
{
    batch *const b = s->b;
    memset(p, 0, sizeof *p);
    ck_assert_uint_le(n, SPLIT_MOST);
    p->client = s;
    p->n = n;
    for (uint32_t i = 0; i < n; i++) {
        cls_shard_options o;
        p->sampler[i] = client_sampler(b, contexts[i]);
        cls_shard_options_init(&o);
        o.shard_count = n;
        o.shard = i;
        o.borders = borders;
        o.on_device = p->n % 2; /* with cls_shard_partial() both must give the same */
        must(cls_shard_create(p->sampler[i], &o, &p->shard[i]));
        cls_shard_info info;
        cls_shard_info_init(&info);
        must(cls_shard_query(p->shard[i], &info));
        p->first[i] = info.first;
        p->width[i] = info.count;
        p->step[i] = s->step;
        p->step[i].logits.values.buffer = NULL;
        split_logits(b, s->d, p->first[i], p->width[i], &p->step[i].logits);
        p->step[i].tokens.buffer = buffer_of(s->d, b->rows * sizeof(int32_t), NULL);
        p->step[i].status.buffer = buffer_of(s->d, b->rows * sizeof(int32_t), NULL);
    }
}

void split_close(splits *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        cls_shard_destroy(p->shard[i]);
        cls_sampler_destroy(p->sampler[i]);
        release_buffers(p->step[i].logits.values.buffer, p->step[i].tokens.buffer,
                        p->step[i].status.buffer);
    }
    free(p->partials);
}

void split_begin(splits *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        must(cls_shard_sample(p->shard[i], p->client->d->queue, &p->step[i], 0, NULL));
        ck_assert_uint_eq(cls_shard_digest(p->shard[i]), cls_shard_digest(p->shard[0]));
    }
    p->exchanges = 0;
}

size_t split_gather(cls_shard *const *shards, uint32_t n, unsigned char **partials, size_t *size)
{
    size_t one = 0;
    for (uint32_t i = 0; i < n; i++) {
        const void *partial;
        size_t its;
        must(cls_shard_partial(shards[i], &partial, &its));
        ck_assert_uint_eq(its, cls_shard_partial_size(shards[i]));
        if (i == 0) {
            one = its;
            *size = n * one;
            *partials = realloc(*partials, *size);
            ck_assert_ptr_nonnull(*partials);
        }
        ck_assert_uint_eq(its, one);
        memcpy(*partials + i * one, partial, one);
    }
    return one;
}

void split_exchange(splits *p)
{
    const size_t one = split_gather(p->shard, p->n, &p->partials, &p->size);
    ck_assert_uint_lt(p->exchanges, SPLIT_EXCHANGES);
    p->bytes[p->exchanges++] = one;
}

void split_finish(splits *p)
{
    int more = 1;
    while (more) {
        int first = 0;
        split_exchange(p);
        for (uint32_t i = 0; i < p->n; i++) {
            must(cls_shard_merge(p->shard[i], p->partials, p->size, &more, NULL));
            if (i == 0)
                first = more;
            ck_assert_int_eq(more, first);
        }
    }
}

void split_step(splits *p)
{
    split_begin(p);
    split_finish(p);
}

void split_tokens(splits *p, uint32_t i)
{
    batch *const b = p->client->b;
    const size_t size = b->rows * sizeof(int32_t);
    buffer_read(p->client->d, p->step[i].tokens.buffer, size, b->token);
    buffer_read(p->client->d, p->step[i].status.buffer, size, b->status);
    must(cls_sampler_trace(p->sampler[i], p->client->d->queue, b->device_trace, b->rows));
}

void split_borders(uint32_t vocab, uint32_t n, int even, rng *r, uint32_t *borders)
{
    for (uint32_t i = 0; i <= n; i++)
        borders[i] = (uint32_t)((uint64_t)i * vocab / n);
    if (even)
        return;
    for (uint32_t i = 1; i < n; i++) { /* anywhere between the neighbours */
        const uint32_t low = borders[i - 1] + 1, high = borders[i + 1];
        borders[i] = low < high ? low + rng_below(r, high - low) : borders[i];
    }
}
