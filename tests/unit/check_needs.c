/* SPDX-License-Identifier: MIT */
/* Proves that neither a step whose map of slots is on the device nor the end of a sampler looks at
 * slots that never had a request: what is written there behind the library's back changes nothing.
 * Proves, too, which steps get the token kernel with a small list, and which chains the search. The
 * OpenCL is a stub, which computes nothing (stub_cl.h). */
#include <string.h>

#include "fixture.h"
#include "sampler/sampler.h"
#include "shard/shard.h"

enum { VOCAB = 3000, SLOTS = 5000, SHARDS = 2 };

static cls_sampler *sampler_of(device *d)
{
    cls_sampler *sampler;
    cls_sampler_options o = sampler_options(VOCAB, SLOTS);
    o.max_rows = 1;
    o.counts = CLS_COUNTS_NONE;
    must(cls_sampler_create(fixture_context(d, 1u << CLS_F32, 0, 0, 0), &o, &sampler));
    cls_params p = default_params();
    p.top_k = 5;
    must(cls_slot_begin(sampler, 0, &p, NULL));
    p.top_k = 9;
    must(cls_slot_begin(sampler, SLOTS - 1, &p, NULL));
    return sampler;
}

static cls_step step_of(device *d)
{
    cls_step step = default_step(1, buffer_of(d, 2 * VOCAB * sizeof(float), NULL));
    step.slots.device.buffer = buffer_of(d, sizeof(int32_t), NULL);
    return step;
}

/* Makes the slots between those that have a request look as if they needed everything. */
static void pretend(cls_sampler *s)
{
    for (uint32_t slot = 1; slot < SLOTS - 1; slot++) {
        s->request[slot].slot.flags = CLS_SLOT_BEGUN | CLS_SLOT_SEARCH | CLS_SLOT_HISTORY;
        s->request[slot].digest = 1;
    }
}

static void forget(cls_sampler *s)
{
    for (uint32_t slot = 1; slot < SLOTS - 1; slot++)
        s->request[slot].slot.flags = 0;
}

static uint32_t launches_of(device *d, cls_sampler *s, const cls_step *step)
{
    must(cls_sample(s, d->queue, step, 0, NULL, NULL));
    must_cl(clFinish(d->queue));
    return cls_sampler_launches(s);
}

START_TEST(steps)
{
    device *const d = fixture_device(_i);
    cls_sampler *const s = sampler_of(d);
    cls_step step = step_of(d);
    cls_params p = default_params();
    (void)launches_of(d, s, &step); /* and the slot calls */
    const uint32_t lean = launches_of(d, s, &step);
    pretend(s);
    ck_assert_uint_eq(launches_of(d, s, &step), lean);
    forget(s);
    p.top_p = 0.9f; /* a request that needs the search, and ends */
    must(cls_slot_begin(s, 7, &p, NULL));
    (void)launches_of(d, s, &step);
    ck_assert_uint_gt(launches_of(d, s, &step), lean);
    must(cls_slot_reset(s, 7));
    (void)launches_of(d, s, &step);
    ck_assert_uint_eq(launches_of(d, s, &step), lean);
    cls_sampler_destroy(s);
    release_buffers(step.logits.values.buffer, step.slots.device.buffer);
}
END_TEST

START_TEST(shards)
{
    device *const d = fixture_device(_i);
    cls_sampler *const s = sampler_of(d);
    const cls_step step = step_of(d);
    cls_shard_options o;
    cls_shard *h;
    uint64_t digest = 0;
    cls_shard_options_init(&o);
    o.shard_count = SHARDS;
    must(cls_shard_create(s, &o, &h));
    for (int pretends = 0; pretends < 2; pretends++) {
        if (pretends)
            pretend(s);
        must(cls_shard_sample(h, d->queue, &step, 0, NULL));
        ck_assert_int_eq(h->protocol, CLS_PROTOCOL_ROWS);
        ck_assert_uint_eq(h->rows[0].k, 9); /* the longest list */
        if (pretends)
            ck_assert_uint_eq(cls_shard_digest(h), digest);
        digest = cls_shard_digest(h);
        must(cls_shard_abandon(h));
    }
    forget(s);
    cls_shard_destroy(h);
    cls_sampler_destroy(s);
    release_buffers(step.logits.values.buffer, step.slots.device.buffer);
}
END_TEST

/* A list that all these slots seem to refer to counts how many of them are freed. */
START_TEST(ends)
{
    device *const d = fixture_device(_i);
    cls_sampler *const s = sampler_of(d);
    cls_lists list = {.references = SLOTS};
    for (uint32_t slot = 1; slot < SLOTS - 1; slot++)
        s->request[slot].lists = &list;
    cls_sampler_destroy(s);
    ck_assert_uint_eq(list.references, SLOTS);
}
END_TEST

/* Returns a sampler of a device with so much local memory. It is of its own context, so that what
 * is compiled is known. */
static cls_sampler *sampler_with(device *d, uint64_t local, uint32_t shortlist,
                                 cls_context **context)
{
    cls_sampler *sampler;
    cls_context_options c = default_context_options();
    c.max_local_mem_size = local;
    c.shortlist = shortlist;
    must(cls_context_create(d->context, d->id, &c, context));
    /* The stub fails the test of groups, so that they have become those of one item. */
    (*context)->shape.row_group = (*context)->requested_shape.row_group;
    cls_sampler_options o = sampler_options(VOCAB, 3);
    o.features = CLS_FEATURE_SHORTLIST;
    must(cls_sampler_create(*context, &o, &sampler));
    return sampler;
}

/* Returns which variants of the token kernel a step has launched. */
static cls_variant_set tokens_by(device *d, cls_sampler *s, const cls_step *step)
{
    const cls_variant_set all = CLS_VARIANT_BIT(CLS_TOKEN_0) | CLS_VARIANT_BIT(CLS_TOKEN_SMALL) |
                                CLS_VARIANT_BIT(CLS_TOKEN_1) | CLS_VARIANT_BIT(CLS_TOKEN_3);
    s->launched_variants = 0;
    (void)launches_of(d, s, step);
    return s->launched_variants & all;
}

/* Small lists: only on devices with little local memory, and only for steps whose rows keep few
 * tokens. With a map on the device, any slot may be one of them. */
START_TEST(small_lists)
{
    static const struct {
        uint64_t local;
        uint32_t shortlist;
        int wants;
    } devices[] = {{32768, 0, 1}, {32769, 0, 0}, {32768, 512, 1}, {32768, 256, 0},
                   {20000, 0, 1}, {16384, 0, 0}, {8300, 0, 0},    {0, 0, 0}};
    device *const d = fixture_device(_i);
    cls_step step = step_of(d);
    cls_params p;
    const cl_mem map = step.slots.device.buffer;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        cls_context *context;
        cls_sampler *const s = sampler_with(d, devices[i].local, devices[i].shortlist, &context);
        const cls_variant_set usual = CLS_VARIANT_BIT(CLS_TOKEN_1),
                              small = devices[i].wants ? CLS_VARIANT_BIT(CLS_TOKEN_SMALL) : usual;
        ck_assert_msg(
            (context->program[CLS_F32][CLS_TOKEN_SMALL].program != NULL) == devices[i].wants,
            "%llu bytes, a shortlist of %u: token-small %s", (unsigned long long)devices[i].local,
            context->shape.shortlist, devices[i].wants ? "is missing" : "is there");
        cls_params_init(&p);
        for (uint32_t slot = 0; slot < 3; slot++) {
            p.top_k = (int32_t)slot + CLS_SMALL_TOP_K - 1;
            must(cls_slot_begin(s, slot, &p, NULL));
        }
        for (int on_device = 0; on_device < 2; on_device++) {
            step.slots.device.buffer = on_device ? map : NULL;
            step.rows = on_device ? 1 : 2;
            ck_assert_uint_eq(tokens_by(d, s, &step), on_device ? usual : small);
        }
        must(cls_slot_reset(s, 2)); /* the one of too many tokens */
        ck_assert_uint_eq(tokens_by(d, s, &step), small);
        p.temperature = 0.0f; /* with a top-k that does not matter */
        p.top_k = 1000;
        must(cls_slot_begin(s, 2, &p, NULL));
        ck_assert_uint_eq(tokens_by(d, s, &step), small);
        p.temperature = 1.0f;
        p.top_k = 0; /* not truncated */
        must(cls_slot_begin(s, 2, &p, NULL));
        ck_assert_uint_eq(tokens_by(d, s, &step), small);
        p.top_p = 0.9f;
        must(cls_slot_begin(s, 2, &p, NULL));
        ck_assert_uint_eq(tokens_by(d, s, &step), usual);
        p.repetition_penalty = 1.1f;
        p.top_k = 5;
        must(cls_slot_begin(s, 2, &p, NULL));
        ck_assert_uint_eq(tokens_by(d, s, &step), CLS_VARIANT_BIT(CLS_TOKEN_3));
        cls_sampler_destroy(s);
        cls_context_destroy(context);
    }
    release_buffers(step.logits.values.buffer, map);
}
END_TEST

/* Which chains of a sampler with the search the list serves, where groups have one item: those
 * whose top-k it holds, unless a long top-k is all that decides. */
START_TEST(long_top_k)
{
    static const struct {
        int32_t top_k;
        float top_p, min_p, adaptive;
        cls_chain chain;
        int searches;
    } rows[] = {
        {750, 1, 0, -1, CLS_CHAIN_DEFAULT, 0},    {751, 1, 0, -1, CLS_CHAIN_DEFAULT, 1},
        {1024, 1, 0, -1, CLS_CHAIN_LLAMA, 1},     {1024, .9f, 0, -1, CLS_CHAIN_DEFAULT, 0},
        {1024, .9f, 0, -1, CLS_CHAIN_LLAMA, 0},   {1024, 1, .1f, -1, CLS_CHAIN_DEFAULT, 0},
        {1024, 1, .1f, -1, CLS_CHAIN_VLLM, 0},    {1024, 1, 0, .3f, CLS_CHAIN_DEFAULT, 0},
        {1025, .9f, 0, -1, CLS_CHAIN_DEFAULT, 1}, {1025, 1, 0, -1, CLS_CHAIN_DEFAULT, 1},
    };
    device *const d = fixture_device(_i);
    cls_context *context;
    cls_sampler *s;
    const cls_context_options c = default_context_options();
    must(cls_context_create(d->context, d->id, &c, &context));
    cls_sampler_options o = sampler_options(VOCAB, 1);
    o.features = CLS_FEATURE_SHORTLIST | CLS_FEATURE_SEARCH | CLS_FEATURE_SAMPLERS;
    must(cls_sampler_create(context, &o, &s));
    context->shape.row_group = 1;
    s->features &= ~(uint32_t)CLS_FEATURE_SHARD; /* which has another limit */
    ck_assert_uint_eq(context->shape.shortlist, 1024);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cls_params p = default_params();
        p.top_k = rows[i].top_k;
        p.top_p = rows[i].top_p;
        p.min_p = rows[i].min_p;
        p.adaptive_target = rows[i].adaptive;
        p.chain = (int32_t)rows[i].chain;
        must(cls_slot_begin(s, 0, &p, NULL));
        ck_assert_msg(((s->request[0].slot.flags & CLS_SLOT_SEARCH) != 0) == rows[i].searches,
                      "row %zu, top-k %d: %s", i, (int)p.top_k,
                      rows[i].searches ? "it is not searched" : "it is searched");
    }
    cls_sampler_destroy(s);
    cls_context_destroy(context);
}
END_TEST

int main(void)
{
    fixture_features(CLS_FEATURES_ALL);
    cls_test_proofs_compare_nothing = 1; /* this OpenCL computes nothing */
    fixture_begin(ON_DEVICES);
    add_device_test(steps);
    add_device_test(shards);
    add_device_test(ends);
    add_device_test(small_lists);
    add_device_test(long_top_k);
    return fixture_end();
}
