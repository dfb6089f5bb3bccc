/* SPDX-License-Identifier: MIT */
/* Proves that shards whose devices have other shortlists sample with any top-k that both hold or
 * neither, and that the refusal of one between names the shortlists. The OpenCL is a stub, which
 * computes nothing (stub_cl.h). */
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "sampler/sampler.h"

enum { VOCAB = 3000, SHARDS = 2, SHORT = 16, LONG = 1024 };

typedef struct bench {
    device *d;
    cls_sampler *sampler[SHARDS];
    cls_shard *shard[SHARDS];
    cls_step step;
    unsigned char *partials;
    size_t size;
} bench;

static bench open_bench(device *d)
{
    static const uint32_t shortlists[SHARDS] = {SHORT, LONG};
    bench b = {.d = d};
    for (uint32_t i = 0; i < SHARDS; i++) {
        cls_shard_options h;
        cls_sampler_options o = sampler_options(VOCAB, 1);
        must(cls_sampler_create(fixture_context(d, 1u << CLS_F32, 0, 0, shortlists[i]), &o,
                                &b.sampler[i]));
        cls_shard_options_init(&h);
        h.shard_count = SHARDS;
        h.shard = i;
        must(cls_shard_create(b.sampler[i], &h, &b.shard[i]));
    }
    b.step = default_step(1, buffer_of(d, VOCAB * sizeof(float), NULL));
    return b;
}

static void close_bench(bench *b)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        cls_shard_destroy(b->shard[i]);
        cls_sampler_destroy(b->sampler[i]);
    }
    clReleaseMemObject(b->step.logits.values.buffer);
    free(b->partials);
}

/* Opens a step with a top-k on both shards, and brings their partials together. */
static void open_step(bench *b, int32_t top_k)
{
    cls_params p = default_params();
    p.top_k = top_k;
    b->size = 0;
    for (uint32_t i = 0; i < SHARDS; i++) {
        const void *partial;
        size_t size;
        must(cls_slot_begin(b->sampler[i], 0, &p, NULL));
        must(cls_shard_sample(b->shard[i], b->d->queue, &b->step, 0, NULL));
        must(cls_shard_partial(b->shard[i], &partial, &size));
        b->partials = realloc(b->partials, b->size + size);
        ck_assert_ptr_nonnull(b->partials);
        memcpy(b->partials + b->size, partial, size);
        b->size += size;
    }
}

START_TEST(shortlists)
{
    static const int32_t common[] = {1, SHORT, LONG + 1};
    bench b = open_bench(fixture_device(_i));
    int more;
    for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
        open_step(&b, common[i]);
        for (uint32_t k = 0; k < SHARDS; k++)
            must(cls_shard_merge(b.shard[k], b.partials, b.size, &more, NULL));
        for (uint32_t k = 0; k < SHARDS; k++)
            must(cls_shard_abandon(b.shard[k]));
    }
    open_step(&b, SHORT + 1);
    must_refuse(cls_shard_merge(b.shard[0], b.partials, b.size, &more, NULL),
                "partial 1 is of a step with other borders, parameters, slots, maps or outputs "
                "than this shard's, or a top_k lies between the shortlists of their devices, of "
                "1024 and 16 tokens: create all contexts with the same options->shortlist");
    must_refuse(cls_shard_merge(b.shard[1], b.partials, b.size, &more, NULL),
                "or a top_k lies between the shortlists of their devices, of 16 and 1024 tokens");
    must_refuse(cls_shard_merge_all(b.shard, SHARDS, NULL),
                "or a top_k lies between the shortlists of their devices, of 1024 and 16 tokens");
    for (uint32_t k = 0; k < SHARDS; k++)
        must(cls_shard_abandon(b.shard[k]));
    /* With a map on the device, the shard with the shorter list exchanges logits. */
    b.step.slots.device.buffer = buffer_of(b.d, sizeof(int32_t), NULL);
    open_step(&b, SHORT + 1);
    must_refuse(cls_shard_merge(b.shard[1], b.partials, b.size, &more, NULL),
                "or a top_k lies between the shortlists of their devices, of 16 and 1024 tokens");
    clReleaseMemObject(b.step.slots.device.buffer);
    close_bench(&b);
}
END_TEST

int main(void)
{
    fixture_features(CLS_FEATURES_ALL);
    cls_test_proofs_compare_nothing = 1; /* this OpenCL computes nothing */
    fixture_begin(ON_DEVICES);
    add_device_test(shortlists);
    return fixture_end();
}
