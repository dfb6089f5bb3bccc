/* SPDX-License-Identifier: MIT */
/* Proves that a row draws only tokens that its mask allows: masks of every kind, shape and
 * pattern, from a buffer and from the host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "client.h"

enum { STEPS = 2, RING = 100, RING_ROWS = 4 };

/* ----------------------------------------------------------------------- patterns */

typedef enum pattern {
    HALF,
    PERCENT, /* one in a hundred */
    ALL_BUT_ONE,
    ONLY_ONE,
    WORDS, /* of 32 tokens, all or none; likewise: */
    MAX_TILES,
    MASS_TILES,
    MIXED, /* words that are all, none, or random */
    EVERYTHING,
    NOTHING,
    PATTERNS
} pattern;

static int word_of(uint64_t key, uint32_t i, uint32_t size)
{
    rng r = {key + 77u * (i / size)};
    return (int)rng_below(&r, 2);
}

static int allowed_by(pattern p, uint32_t i, uint32_t one, uint64_t key, rng *r)
{
    switch (p) {
    case HALF:
        return (int)rng_below(r, 2);
    case PERCENT:
        return rng_below(r, 100) == 0;
    case ALL_BUT_ONE:
        return i != one;
    case ONLY_ONE:
        return i == one;
    case WORDS:
        return word_of(key, i, 32);
    case MAX_TILES:
        return word_of(key, i, 64);
    case MASS_TILES:
        return word_of(key, i, 1024);
    case MIXED:
        return word_of(key, i, 32) ? word_of(key + 1, i, 32) : (int)rng_below(r, 2);
    default:
        return p == EVERYTHING;
    }
}

/* Fills one row of a mask; bits beyond the vocabulary are garbage. */
static void fill_row(batch *b, uint32_t row, pattern p, rng *r)
{
    const int packed = b->mask_kind == CLS_MASK_PACKED;
    const uint32_t n = b->mask_width * (packed ? 32 : 1), one = rng_below(r, b->vocab);
    const uint64_t key = rng_bits(r);
    uint32_t *const words = (uint32_t *)b->mask + (packed ? (size_t)row * b->mask_width : 0);
    unsigned char *const bytes =
        (unsigned char *)b->mask + (packed ? 0 : (size_t)row * b->mask_width);
    for (uint32_t i = 0; i < n; i++) {
        const int allowed = i < b->vocab ? allowed_by(p, i, one, key, r) : (int)rng_below(r, 2);
        if (packed)
            words[i / 32] = (words[i / 32] & ~(1u << i % 32)) | (uint32_t)allowed << i % 32;
        else
            bytes[i] = (unsigned char)(allowed ? 1 + rng_below(r, 255) : 0);
    }
}

static void fill(batch *b, rng *r)
{
    for (uint32_t row = 0; row < b->rows; row++)
        fill_row(b, row, (pattern)rng_below(r, PATTERNS), r);
}

/* Masks of any width; some rows have none, and some share one. */
static void random_masks(batch *b, rng *r)
{
    b->mask_kind = (int)rng_below(r, 2);
    const uint32_t whole = b->mask_kind == CLS_MASK_PACKED ? (b->vocab + 31) / 32 : b->vocab;
    const uint32_t widths[] = {whole, whole, whole, whole + 3, 1 + rng_below(r, whole)};
    batch_mask(b, r, 0, widths[rng_below(r, 5)]);
    fill(b, r);
    if (rng_below(r, 2))
        return;
    b->mask_map = must_calloc(b->rows, sizeof *b->mask_map);
    for (uint32_t row = 0; row < b->rows; row++)
        b->mask_map[row] = (int32_t)rng_below(r, b->rows + b->rows / 2) - (int32_t)b->rows / 2;
    for (uint32_t row = 0; row < b->rows; row++)
        b->mask_map[row] = b->mask_map[row] < 0 ? -1 : b->mask_map[row];
}

/* A client whose masks lie on the host, where another row's beginning follows each. */
static void *move_to_host(client *s, batch *b)
{
    const size_t size = b->mask_kind == CLS_MASK_PACKED ? 4 : 1, width = b->mask_width * size;
    unsigned char *const masks = must_malloc(b->rows * (width + 3 * size));
    memset(masks, 0xa5, b->rows * (width + 3 * size));
    for (uint32_t row = 0; row < b->rows; row++)
        memcpy(masks + row * (width + 3 * size), (unsigned char *)b->mask + row * width, width);
    clReleaseMemObject(s->step.mask.words.buffer);
    s->step.mask.words.buffer = NULL;
    s->step.mask.host = masks;
    s->step.mask.row_stride = b->mask_width + 3;
    return masks;
}

START_TEST(random_patterns)
{
    static const uint32_t sizes[] = {1025, 100, 3000, 31, 5000, 1, 2048, 33, 64, 20000};
    device *const d = fixture_device(_i);
    const uint32_t batches = fixture_by_size(5, 60, 250);
    uint32_t rows = 0, tokens_ = 0, empty = 0;
    rng r = {fixture_seed() + 70};
    for (uint32_t i = 0; i < batches; i++) {
        const uint32_t vocab = sizes[rng_below(&r, fixture_by_size(2, 9, 10))];
        batch *const b = batch_new(fixture_by_size(6, 12, 16), vocab, (int)rng_below(&r, 3), 0, 0);
        char where[240];
        client s;
        batch_random(b, &r);
        b->history = i % 3 ? 50 : 0;
        if (i % 2)
            batch_requests(b, &r);
        random_masks(b, &r);
        client_open(&s, b, d, fixture_context(d, 0, 0, 0, 0), 1);
        void *const host = rng_below(&r, 2) ? move_to_host(&s, b) : NULL;
        cls_sampler_force_search(s.sampler, i % 4 == 3);
        for (uint32_t step = 0; step < STEPS;
             step++) { /* the second tells what rows without a token have touched */
            snprintf(where, sizeof where, "%s, batch %u, step %u%s", d->name, i, step,
                     host ? ", masks on the host" : "");
            batch_reference(b);
            client_step(&s, d->queue, 0, 0, NULL, NULL);
            client_tokens(&s, 0);
            must(cls_sampler_trace(s.sampler, d->queue, b->device_trace, b->rows));
            batch_equal(b, where);
            for (uint32_t row = 0; row < b->rows; row++) {
                rows++;
                tokens_ += b->token[row] >= 0;
                empty += (b->status[row] & CLS_ROW_EMPTY) != 0;
                batch_accept(b, row);
            }
        }
        client_close(&s);
        free(host);
        batch_free(b);
    }
    printf("%s: %u rows, %u tokens, %u rows empty\n", d->name, rows, tokens_, empty);
    ck_assert(tokens_ > rows / 2 && empty > rows / 50);
}
END_TEST

/* ---------------------------------------------------------------------- the ring */

/* Masks that change with every step, in one array of the host's. */
typedef struct ring {
    client s;
    batch *b;
    unsigned char *kept[RING]; /* what they were */
    unsigned char *array;
    size_t size;
    uint32_t n;
    rng r;
} ring;

static void ring_open(ring *g, device *d, int kind)
{
    memset(g, 0, sizeof *g);
    g->r.state = fixture_seed() + 71;
    g->b = batch_new(RING_ROWS, 1500, CLS_F32, 0, 0);
    for (uint32_t row = 0; row < RING_ROWS; row++) {
        batch_row(g->b, row, ROW_NORMAL1, row);
        g->b->params[row].top_k = row % 2 ? 40 : 0;
        g->b->params[row].frequency_penalty = row == 3 ? 1.0f : 0.0f;
    }
    g->b->mask_kind = kind;
    batch_mask(g->b, &g->r, 50, 0);
    g->size = (size_t)RING_ROWS * g->b->mask_width * (kind == CLS_MASK_PACKED ? 4 : 1);
    client_open(&g->s, g->b, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), RING);
    clReleaseMemObject(g->s.step.mask.words.buffer);
    g->s.step.mask.words.buffer = NULL;
    g->array = must_malloc(g->size);
    g->s.step.mask.host = g->array;
}

/* The n-th step; its masks are overwritten when the call returns. */
static cls_status ring_step(ring *g, cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    cls_step *const step = &g->s.step;
    fill(g->b, &g->r);
    memcpy(g->array, g->b->mask, g->size);
    step->tokens.offset = step->status.offset = (uint64_t)g->n * RING_ROWS * sizeof(int32_t);
    const cls_status status = cls_sample(g->s.sampler, g->s.d->queue, step, n_wait, wait, done);
    if (status == CLS_OK) {
        g->kept[g->n] = must_malloc(g->size);
        memcpy(g->kept[g->n++], g->array, g->size);
    }
    memset(g->array, (int)rng_below(&g->r, 256), g->size);
    return status;
}

static void ring_close(ring *g)
{
    must_cl(clFinish(g->s.d->queue));
    for (uint32_t i = 0; i < g->n; i++) {
        memcpy(g->b->mask, g->kept[i], g->size);
        free(g->kept[i]);
        batch_reference(g->b);
        client_tokens(&g->s, i);
        for (uint32_t row = 0; row < RING_ROWS; row++) {
            ck_assert_msg(g->b->token[row] == g->b->host[row].token &&
                              g->b->status[row] == g->b->host[row].status,
                          "%s: step %u of %u, row %u: token %d, not %d", g->s.d->name, i, g->n, row,
                          g->b->token[row], g->b->host[row].token);
            batch_accept(g->b, row);
        }
    }
    client_close(&g->s);
    batch_free(g->b);
    free(g->array);
}

START_TEST(changing_masks)
{
    device *const d = fixture_device(_i);
    for (int kind = CLS_MASK_PACKED; kind <= CLS_MASK_BOOL; kind++) {
        cl_event done[RING];
        uint32_t busy = 0, oldest = 0;
        ring g;
        ring_open(&g, d, kind);
        while (g.n < fixture_by_size(10, RING, RING)) {
            const uint32_t n = g.n;
            const cls_status status = ring_step(&g, 0, NULL, &done[n]);
            ck_assert(status == CLS_OK || status == CLS_BUSY);
            if (status == CLS_BUSY) { /* as many under way as there is staging for */
                ck_assert(oldest < n);
                must_cl(clWaitForEvents(1, &done[oldest++]));
                busy++;
            }
        }
        printf("%s: %u steps with masks of their own, %u times busy\n", d->name, g.n, busy);
        for (uint32_t i = 0; i < g.n; i++)
            clReleaseEvent(done[i]);
        ring_close(&g);
    }
}
END_TEST

/* No step begins before all steps are enqueued. */
START_TEST(gated_masks)
{
    device *const d = fixture_device(_i);
    ring g;
    if (is_oclgrind(d))
        return;
    const cl_event gate = user_event(d->context);
    ring_open(&g, d, CLS_MASK_PACKED);
    cls_status status = ring_step(&g, 1, &gate, NULL);
    while (status == CLS_OK && g.n < RING)
        status = ring_step(&g, 0, NULL, NULL);
    must_cl(clSetUserEventStatus(gate, CL_COMPLETE));
    ck_assert_int_eq(status, CLS_BUSY);
    ck_assert_msg(g.n == CLS_STAGING_COUNT, "%u steps before the ring was full", g.n);
    must_cl(clFinish(d->queue));
    must(ring_step(&g, 0, NULL, NULL));
    ring_close(&g);
    clReleaseEvent(gate);
}
END_TEST

/* ------------------------------------------------------------------------ by hand */

/* Several positions of one request, each with its own mask, none accepted. */
START_TEST(rows_of_one_slot)
{
    enum { ROWS = 6 };
    static const int32_t slots[ROWS] = {0, 0, 1, 0, 1, 0}, draws[ROWS] = {0, 1, 0, 2, 1, 0};
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 72};
    for (int kind = CLS_MASK_PACKED; kind <= CLS_MASK_BOOL; kind++) {
        batch *const b = batch_new(ROWS, 1500, CLS_F32, 0, 0);
        client s;
        for (uint32_t row = 0; row < ROWS; row++)
            batch_row(b, row, ROW_NORMAL1, row);
        b->params[1].top_k = 10;
        b->mask_kind = kind;
        batch_mask(b, &r, 10, 0);
        fill_row(b, 3, NOTHING, &r);
        client_open(&s, b, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), 1);
        void *const host = kind == CLS_MASK_BOOL ? move_to_host(&s, b) : NULL;
        s.step.defer_accept = 1;
        s.step.slots.host = slots;
        s.step.draws.host = draws;
        for (uint32_t again = 0; again < 2; again++) {
            client_step(&s, d->queue, 0, 0, NULL, NULL);
            client_tokens(&s, 0);
            for (uint32_t row = 0; row < ROWS; row++) {
                cls_host_row h = batch_host_row(b, row);
                h.params = &b->params[slots[row]];
                h.position = h.params->position;
                h.draw = (uint32_t)draws[row];
                const cls_host_result result = host_result(&h);
                ck_assert_msg(b->token[row] == result.token && b->status[row] == result.status,
                              "%s: row %u: token %d, status %d, not %d, %d", d->name, row,
                              b->token[row], b->status[row], result.token, result.status);
            }
            ck_assert_int_eq(b->status[3], CLS_ROW_EMPTY);
        }
        client_close(&s);
        free(host);
        batch_free(b);
    }
}
END_TEST

/* Greedy rows that ascend: the last token that is allowed. */
static void expect_last(device *d, uint32_t vocab, int kind, const void *mask, uint32_t width,
                        int32_t token)
{
    batch *const b = batch_new(3, vocab, CLS_F32, 0, 0);
    const size_t size = width * (kind == CLS_MASK_PACKED ? sizeof(uint32_t) : 1);
    client s;
    for (uint32_t row = 0; row < 3; row++) {
        batch_row(b, row, ROW_ASCENDING, 1);
        b->params[row].temperature = 0.0f;
    }
    client_open(&s, b, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), 1);
    for (int host = 0; host < 2; host++) {
        static const int32_t map[] = {-1, 0, -1};
        s.step.mask = (cls_mask){.width = width, .rows = 1, .row_map.host = map, .kind = kind};
        s.step.mask.host = host ? mask : NULL;
        s.step.mask.words.buffer = host ? NULL : buffer_of(d, size, mask);
        client_step(&s, d->queue, 0, 0, NULL, NULL);
        client_tokens(&s, 0);
        const int32_t wanted[] = {(int32_t)vocab - 1, token, (int32_t)vocab - 1};
        for (uint32_t row = 0; row < 3; row++)
            ck_assert_msg(b->token[row] == wanted[row] &&
                              b->status[row] == (wanted[row] < 0 ? CLS_ROW_EMPTY : 0),
                          "%s: %s mask of %u, vocab %u, row %u: token %d, status %d", d->name,
                          host ? "host" : "device", width, vocab, row, b->token[row],
                          b->status[row]);
        if (!host)
            clReleaseMemObject(s.step.mask.words.buffer);
        s.step.mask.words.buffer = NULL;
    }
    client_close(&s);
    batch_free(b);
}

START_TEST(by_hand)
{
    device *const d = fixture_device(_i);
    const uint32_t all[] = {~0u, ~0u, ~0u, ~0u}, none[] = {0, 0, 0, ~0u}, first[] = {1, 0, 0, 0},
                   beyond[] = {4, 0, 0, 0xffffff00u};
    const unsigned char bytes[] = {0, 1, 0, 255, 128, 0, 0, 1};
    expect_last(d, 100, CLS_MASK_PACKED, all, 4, 99);
    expect_last(d, 100, CLS_MASK_PACKED, all, 2, 63); /* narrower: the others are not allowed */
    expect_last(d, 40, CLS_MASK_PACKED, all, 4, 39);  /* wider */
    expect_last(d, 33, CLS_MASK_PACKED, all, 1, 31);
    expect_last(d, 90, CLS_MASK_PACKED, none, 3, -1);
    expect_last(d, 90, CLS_MASK_PACKED, none, 4, -1); /* only bits beyond the vocabulary */
    expect_last(d, 100, CLS_MASK_PACKED, first, 4, 0);
    expect_last(d, 104, CLS_MASK_PACKED, beyond, 4, 2);
    expect_last(d, 7, CLS_MASK_BOOL, bytes, 8, 4);
    expect_last(d, 8, CLS_MASK_BOOL, bytes, 8, 7);
    expect_last(d, 8, CLS_MASK_BOOL, bytes, 3, 1);
    expect_last(d, 8, CLS_MASK_BOOL, bytes, 1, -1);
}
END_TEST

/* A list of no ids allows nothing, where its owner says that there is one; so does what was saved.
 */
START_TEST(empty_list)
{
    device *const d = fixture_device(_i);
    batch *const b = batch_new(3, 50, CLS_F32, 0, 0);
    static const int32_t ids[] = {7, 3};
    unsigned char saved[4096];
    size_t size = sizeof saved;
    client s;
    for (uint32_t row = 0; row < 3; row++) {
        batch_row(b, row, ROW_ASCENDING, 1);
        b->params[row].temperature = 0.0f;
        b->params[row].only_allowed = row != 0;
    }
    b->params[2].allowed_ids = (cls_ids){ids, 2};
    client_open(&s, b, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), 1);
    for (int again = 0; again < 2; again++) {
        client_step(&s, d->queue, 0, 0, NULL, NULL);
        client_tokens(&s, 0);
        ck_assert_int_eq(b->token[0], again ? -1 : 49);
        ck_assert_int_eq(b->token[1], -1);
        ck_assert_int_eq(b->status[1], CLS_ROW_EMPTY);
        ck_assert_int_eq(b->token[2], 7);
        must(cls_slot_save(s.sampler, d->queue, 1, saved, &size));
        must(cls_slot_load(s.sampler, 0, saved, size, NULL));
    }
    b->params[0].only_allowed = 2;
    must_refuse(cls_sampler_check(s.sampler, &b->params[0]),
                "params->only_allowed is 2; it must be 0 or 1");
    client_close(&s);
    batch_free(b);
}
END_TEST

/* Masks on the host take memory when they are first used, or when the sampler is created. */
START_TEST(room_for_host_masks)
{
    enum { VOCAB = 3200, ROWS_HERE = 2 };
    device *const d = fixture_device(_i);
    static uint32_t mask[ROWS_HERE * VOCAB / 32];
    for (int large = 0; large < 2; large++) {
        cls_memory before = {.struct_size = sizeof before}, after = before;
        cls_sampler_options o = sampler_options(VOCAB, ROWS_HERE);
        o.features = CLS_FEATURE_MASK;
        o.host_mask_size = large ? sizeof mask : 0;
        bench b = bench_open(d, &o, NULL);
        cls_params p = default_params();
        for (uint32_t row = 0; row < ROWS_HERE; row++)
            must(cls_slot_begin(b.sampler, row, &p, NULL, 0, NULL, 0));
        b.step.mask.host = mask;
        must(cls_sampler_memory(b.sampler, &before));
        for (uint32_t i = 0; i < 40; i++) { /* more than there are in flight */
            memset(mask, 0, sizeof mask);
            mask[i] = mask[VOCAB / 32 + i] = 1u << (i % 32);
            bench_step(&b);
            ck_assert(b.token[0] == (int32_t)(i * 32 + i % 32) && b.token[1] == b.token[0]);
        }
        must(cls_sampler_memory(b.sampler, &after));
        ck_assert((after.host == before.host) == large &&
                  (after.changes == before.changes) == large);
        bench_close(&b);
    }
}
END_TEST

int main(void)
{
    fixture_random(CLS_FEATURE_MASK | CLS_FEATURE_BIAS);
    fixture_begin(ON_DEVICES);
    add_device_test(by_hand);
    add_device_test(empty_list);
    add_device_test(room_for_host_masks);
    add_device_test(rows_of_one_slot);
    add_device_test(changing_masks);
    add_device_test(gated_masks);
    add_device_test(random_patterns);
    return fixture_end();
}
