/* SPDX-License-Identifier: MIT */
/* Proves that steps on shards write the outputs of cls_sample() on the whole logits, byte for byte:
 * those of the raw logits, those of the final distribution, and tokens and statuses, for all kinds
 * of chains. Then it proves that gathered logits are the whole ones: cls_verify() by each method
 * equals the reference, and cls_logprobs() the unsharded call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "twin.h"
#include "verifier.h"

enum { STEPS = 3 };

/* ----------------------------------------------------------------------- outputs */

/* Makes a row of each kind of parameters. With `adjusted` most requests also have penalties, biases
 * and a mask. */
static batch *mixed_batch(uint32_t vocab, int dtype, int adjusted, rng *r)
{
    static const row_kind usual[] = {ROW_LANGUAGE, ROW_NORMAL3, ROW_PEAKED, ROW_TIES,
                                     ROW_EQUAL,    ROW_HALF,    ROW_COARSE, ROW_SPRINKLED};
    batch *const b = batch_new(TWIN_KINDS, vocab, dtype, 0, 0);
    for (uint32_t row = 0; row < b->rows; row++) {
        const row_kind kind =
            rng_below(r, 3) ? usual[rng_below(r, 8)] : (row_kind)rng_below(r, ROW_KINDS);
        batch_row(b, row, kind, rng_bits(r));
        twin_params(&b->params[row], row, vocab);
    }
    b->history = 50;
    b->forces = adjusted && vocab > 100;
    if (adjusted) {
        batch_mask(b, r, 60, 0);
        batch_requests(b, r);
    }
    return b;
}

/* Gives each row other logits; its parameters stay. */
static void new_logits(batch *b, rng *r)
{
    for (uint32_t row = 0; row < b->rows; row++) {
        const cls_params p = b->params[row];
        batch_row(b, row, (row_kind)rng_below(r, ROW_KINDS), rng_bits(r));
        b->params[row] = p;
    }
}

static void run_outputs(device *d, twin_outputs outputs, uint64_t seed)
{
    static const struct {
        uint32_t vocab, n, even;
    } shapes[] = {{2500, 3, 0}, {31, 7, 0}, {1025, 2, 0}, {2500, 7, 0}, {4099, 2, 1}, {111, 3, 1}};
    rng r = {fixture_seed() + seed};
    uint32_t forced = 0;
    for (uint32_t i = 0; i < fixture_by_size(2, 6, 24); i++) {
        const uint32_t vocab = shapes[i % 6].vocab, n = shapes[i % 6].n;
        batch *const b = mixed_batch(vocab, (int)(i % 3), i % 2 == 0, &r);
        uint32_t borders[SPLIT_MOST + 1];
        twin t;
        split_borders(vocab, n, (int)shapes[i % 6].even, &r, borders);
        twin_open(&t, d, b, &(twin_setup){.n = n, .borders = borders, .outputs = outputs},
                  outputs == TWIN_RAW ? "raw outputs" : "final outputs");
        for (uint32_t step = 0; step < STEPS; step++) {
            twin_step(&t);
            for (uint32_t row = 0; row < b->rows; row++)
                forced += (twin_status(&t, row) & CLS_ROW_FORCED) != 0;
            new_logits(b, &r);
            twin_logits(&t);
        }
        twin_close(&t);
        batch_free(b);
    }
    printf("%s: outputs of %u forced rows\n", d->name, forced);
    ck_assert(forced > 0 || fixture_size() == TEST_TINY);
}

START_TEST(final_outputs) { run_outputs(fixture_device(_i), TWIN_FINAL, 500); }
END_TEST

START_TEST(raw_outputs) { run_outputs(fixture_device(_i), TWIN_RAW, 501); }
END_TEST

/* ----------------------------------------------------------------- gathered logits */

/* A verifier on a shard. */
typedef struct shard_verifier {
    verifier v;
    cls_shard *shard;
    cls_logits own; /* of the shard's tokens */
    cl_mem whole;   /* the verifier's own logits */
    uint32_t first, width;
} shard_verifier;

/* Returns a buffer with the columns of a shard. */
static cl_mem columns(device *d, const batch *rows, uint32_t first, uint32_t width)
{
    const size_t element = dtype_size(rows->dtype);
    unsigned char *const data = must_malloc(rows->rows * width * element);
    for (uint32_t row = 0; row < rows->rows; row++)
        memcpy(data + row * width * element,
               rows->data + rows->offset + ((size_t)row * rows->stride + first) * element,
               width * element);
    const cl_mem buffer = buffer_of(d, rows->rows * width * element, data);
    free(data);
    return buffer;
}

static void open_shards(shard_verifier *all, uint32_t n, const uint32_t *borders, device *d,
                        drafts *of)
{
    for (uint32_t i = 0; i < n; i++) {
        shard_verifier *const s = &all[i];
        cls_shard_options o;
        cls_shard_options_init(&o);
        o.shard_count = n;
        o.shard = i;
        o.borders = borders;
        verifier_open(&s->v, d, fixture_context(d, 0, 0, 0, 0), of, i % 2 == 0,
                      of->most + i <= CLS_MAX_DRAFTS ? i : 0);
        must(cls_shard_create(s->v.sampler, &o, &s->shard));
        cls_shard_info info;
        cls_shard_info_init(&info);
        must(cls_shard_query(s->shard, &info));
        s->first = info.first;
        s->width = info.count;
        s->whole = s->v.call.logits.values.buffer;
        s->own = (cls_logits){.dtype = of->rows->dtype,
                              .values.buffer = columns(d, of->rows, s->first, s->width)};
    }
}

static void close_shards(shard_verifier *all, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        all[i].v.call.logits.values.buffer = all[i].whole;
        clReleaseMemObject(all[i].own.values.buffer);
        cls_shard_destroy(all[i].shard);
        verifier_close(&all[i].v);
    }
}

/* Brings the shards' rows together in each shard's sampler, for the verifier's call. */
static void gather(shard_verifier *all, uint32_t n, device *d, uint32_t rows)
{
    unsigned char *partials = NULL;
    size_t one = 0;
    for (uint32_t i = 0; i < n; i++)
        must(cls_shard_gather(all[i].shard, d->queue, rows, &all[i].own, 0, NULL));
    for (uint32_t i = 0; i < n; i++) {
        const void *partial;
        size_t size;
        must(cls_shard_partial(all[i].shard, &partial, &size));
        partials = partials == NULL ? malloc(n * size) : partials;
        ck_assert_ptr_nonnull(partials);
        ck_assert(i == 0 || one == size);
        one = size;
        memcpy(partials + i * one, partial, one);
    }
    for (uint32_t i = 0; i < n; i++) {
        int more = 7;
        must(cls_shard_merge(all[i].shard, partials, n * one, &more, NULL));
        ck_assert_int_eq(more, 0);
        must(cls_shard_logits(all[i].shard, &all[i].v.call.logits));
    }
    free(partials);
}

START_TEST(gathered_drafts)
{
    static const int methods[] = {CLS_VERIFY_MATCH, CLS_VERIFY_STANDARD, CLS_VERIFY_BLOCK,
                                  CLS_VERIFY_TYPICAL};
    static const uint32_t sizes[] = {300, 1025, 31, 2500}, counts[] = {3, 2, 7};
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 502};
    for (uint32_t i = 0; i < fixture_by_size(5, 15, 60); i++) {
        const uint32_t vocab = sizes[i % fixture_by_size(1, 4, 4)], n = counts[i % 3];
        drafts *const of = drafts_random(4, vocab, methods[i % 4], &r);
        uint32_t borders[SPLIT_MOST + 1];
        shard_verifier all[7];
        char where[80];
        split_borders(vocab, n, 0, &r, borders);
        memset(all, 0, sizeof all);
        open_shards(all, n, borders, d, of);
        for (uint32_t step = 0; step < 2; step++) {
            drafts_choose(of, &r);
            drafts_reference(of);
            gather(all, n, d, of->rows->rows);
            for (uint32_t k = 0; k < n; k++) {
                snprintf(where, sizeof where, "method %d on shard %u of %u", of->method, k, n);
                verifier_run(&all[k].v);
                verifier_equal(&all[k].v, where);
            }
            drafts_accept(of);
        }
        close_shards(all, n);
        drafts_free(of);
    }
}
END_TEST

/* Log-probabilities of gathered rows, after a gather of other rows. */
START_TEST(gathered_logprobs)
{
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 503};
    static const uint32_t lengths[] = {3, 1, 0};
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t vocab = 1025, rows = 7;
        const uint32_t borders[] = {0, 77, 1000, vocab};
        drafts *const of = drafts_new(3, lengths, vocab, (int)i, CLS_DRAFT_NONE, &r);
        shard_verifier all[3];
        int32_t ids[7], results[4][7 * 10];
        cls_logprobs_call call;
        memset(all, 0, sizeof all);
        for (uint32_t row = 0; row < rows; row++) {
            batch_row(of->rows, row, (row_kind)rng_below(&r, ROW_KINDS), rng_bits(&r));
            ids[row] = (int32_t)rng_below(&r, vocab);
        }
        for (uint32_t row = 0; row < 3; row++)
            batch_row(of->requests, row, ROW_NORMAL1, row);
        open_shards(all, 3, borders, d, of);
        gather(all, 3, d, 2); /* fewer rows come first: the buffer grows */
        gather(all, 3, d, rows);
        const cl_mem given = buffer_of(d, sizeof ids, ids), out = buffer_of(d, 7 * 40, NULL);
        for (uint32_t k = 0; k < 4; k++) { /* at last the unsharded logits */
            const shard_verifier *const s = &all[k < 3 ? k : 0];
            cls_logprobs_call_init(&call);
            call.rows = rows;
            call.logits = s->v.call.logits;
            if (k == 3)
                call.logits = (cls_logits){.dtype = of->rows->dtype,
                                           .values.buffer = s->whole,
                                           .values.offset = of->rows->offset,
                                           .row_stride = of->rows->stride};
            call.top.count = 4;
            call.top.ids.buffer = call.top.logprobs.buffer = out;
            call.top.logprobs.offset = 4 * rows * 4;
            call.given.count = 1;
            call.given.ids.buffer = given;
            call.given.logprobs = (cls_buffer){.buffer = out, .offset = 8 * rows * 4};
            call.given.ranks = (cls_buffer){.buffer = out, .offset = 9 * rows * 4};
            must(cls_logprobs(s->v.sampler, d->queue, &call, 0, NULL, NULL));
            buffer_read(d, out, sizeof results[k], results[k]);
        }
        for (uint32_t k = 0; k < 3; k++)
            ck_assert_msg(memcmp(results[k], results[3], sizeof results[k]) == 0,
                          "shard %u: log-probabilities differ from the unsharded ones", k);
        ck_assert_int_ne(results[3][0], results[3][1]);
        release_buffers(given, out);
        close_shards(all, 3);
        drafts_free(of);
    }
}
END_TEST

int main(void)
{
    fixture_random(CLS_FEATURE_MASK | CLS_FEATURE_BIAS | CLS_FEATURE_LOGPROBS | CLS_FEATURE_PROBS |
                   CLS_FEATURE_KEPT_SETS | CLS_FEATURE_VERIFY);
    fixture_begin(ON_DEVICES);
    add_device_test(final_outputs);
    add_device_test(raw_outputs);
    add_device_test(gathered_drafts);
    add_device_test(gathered_logprobs);
    return fixture_end();
}
