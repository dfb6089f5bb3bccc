/* SPDX-License-Identifier: MIT */
/* Proves that the kept sets of rows are the reference's and those of final_logits, at any size and
 * with any capacity; and that tokens, statuses and slots are the same without them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

enum { BEFORE = 3, AFTER = 5, CANARY = 0x5a5a5a5a }; /* elements around the ids */

/* The outputs of a step, on the device and back. */
typedef struct sets {
    uint32_t rows, vocab, capacity;
    cl_mem ids_buffer, counts_buffer, final_buffer;
    int32_t *ids, *counts;
    float *final;
} sets;

static size_t ids_size(const sets *o)
{
    return (BEFORE + (size_t)o->rows * o->capacity + AFTER) * sizeof *o->ids;
}

static void open_sets(sets *o, client *s, uint32_t capacity)
{
    memset(o, 0, sizeof *o);
    o->rows = s->b->rows;
    o->vocab = s->b->vocab;
    o->capacity = capacity;
    o->ids = must_malloc(ids_size(o));
    o->counts = must_malloc((o->rows + 1) * sizeof *o->counts);
    o->final = must_malloc((size_t)o->rows * o->vocab * sizeof *o->final);
    memset(o->ids, CANARY & 255, ids_size(o));
    o->ids_buffer = buffer_of(s->d, ids_size(o), o->ids);
    o->counts_buffer = buffer_of(s->d, (o->rows + 1) * sizeof *o->counts, NULL);
    o->final_buffer = buffer_of(s->d, (size_t)o->rows * o->vocab * sizeof *o->final, NULL);
    s->outputs.kept_set.capacity = capacity;
    s->outputs.kept_set.ids =
        (cls_buffer){.buffer = o->ids_buffer, .offset = BEFORE * sizeof *o->ids};
    s->outputs.kept_set.counts =
        (cls_buffer){.buffer = o->counts_buffer, .offset = sizeof *o->counts};
    s->outputs.final_logits.buffer = o->final_buffer;
}

static void read_sets(sets *o, const client *s)
{
    buffer_read(s->d, o->ids_buffer, ids_size(o), o->ids);
    buffer_read(s->d, o->counts_buffer, (o->rows + 1) * sizeof *o->counts, o->counts);
    buffer_read(s->d, o->final_buffer, (size_t)o->rows * o->vocab * sizeof *o->final, o->final);
}

static void close_sets(sets *o)
{
    release_buffers(o->ids_buffer, o->counts_buffer, o->final_buffer);
    free(o->ids);
    free(o->counts);
    free(o->final);
}

/* Compares a row's set with the tokens of final_logits, of which it must have the first ones. */
static void check_final(const sets *o, uint32_t row, const char *where)
{
    const float *const final = o->final + (size_t)row * o->vocab;
    const int32_t *const ids = o->ids + BEFORE + (size_t)row * o->capacity;
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->vocab; i++) {
        if (!(final[i] > -INFINITY))
            continue;
        ck_assert_msg(n >= o->capacity || ids[n] == (int32_t)i,
                      "%s: the id at %u is %d, but the next final logit is that of %u", where, n,
                      n < o->capacity ? ids[n] : 0, i);
        n++;
    }
    ck_assert_msg(o->counts[1 + row] == (int32_t)n, "%s: %d are counted, but %u have final logits",
                  where, o->counts[1 + row], n);
    for (; n < o->capacity; n++)
        ck_assert_msg(ids[n] == -1, "%s: the id behind the last one, at %u, is %d", where, n,
                      ids[n]);
}

/* Compares a row's set with the reference's. A row that the device refused for its infill stage has
 * none. */
static void check_reference(const batch *b, uint32_t row, const sets *o, const char *where)
{
    const int32_t *const ids = o->ids + BEFORE + (size_t)row * o->capacity;
    const int none = b->token[row] < 0;
    const uint32_t count = none ? 0 : b->host[row].kept_count;
    ck_assert_msg(o->counts[1 + row] == (int32_t)count, "%s: %d are counted, not %u", where,
                  o->counts[1 + row], count);
    for (uint32_t i = 0; i < o->capacity; i++)
        ck_assert_msg(ids[i] == (none ? -1 : b->host[row].kept_ids[i]),
                      "%s: the id at %u is %d, not %d", where, i, ids[i],
                      none ? -1 : b->host[row].kept_ids[i]);
}

static void check_canaries(const sets *o, const char *where)
{
    const size_t end = BEFORE + (size_t)o->rows * o->capacity;
    for (size_t i = 0; i < end + AFTER; i++)
        ck_assert_msg((i >= BEFORE && i < end) || o->ids[i] == CANARY,
                      "%s: element %zu, outside the ids, was written", where, i);
    ck_assert_msg(o->counts[0] == 0, "%s: the element before the counts was written", where);
}

/* Checks one step of a batch with one capacity. */
static void check_capacity(batch *b, device *d, cls_context *context, uint32_t capacity, int search,
                           int defer)
{
    int32_t *const expected = must_malloc((size_t)b->rows * capacity * sizeof *expected);
    char where[1700];
    client s;
    sets o;
    for (uint32_t row = 0; row < b->rows; row++) {
        b->host[row].kept_ids = expected + (size_t)row * capacity;
        b->host[row].kept_capacity = capacity;
    }
    client_open(&s, b, d, context, 1);
    batch_reference(b);
    cls_sampler_force_search(s.sampler, search);
    s.step.defer_accept = defer;
    open_sets(&o, &s, capacity);
    client_step(&s, d->queue, 0, 0, NULL, NULL);
    client_tokens(&s, 0);
    must(cls_sampler_trace(s.sampler, d->queue, b->device_trace, b->rows));
    read_sets(&o, &s);
    snprintf(where, sizeof where, "%s, capacity %u%s", d->name, capacity, search ? ", search" : "");
    check_canaries(&o, where);
    batch_equal(b, where);
    for (uint32_t row = 0; row < b->rows; row++) {
        snprintf(where, sizeof where, "%s, capacity %u%s: %s", d->name, capacity,
                 search ? ", search" : "", batch_words(b, row));
        check_reference(b, row, &o, where);
        check_final(&o, row, where);
        ck_assert_msg((int32_t)b->device_trace[row].status == b->status[row],
                      "%s: the record has status %u, the output %d", where,
                      b->device_trace[row].status, b->status[row]);
    }
    close_sets(&o);
    client_close(&s);
    for (uint32_t row = 0; row < b->rows; row++) {
        b->host[row].kept_ids = NULL;
        b->host[row].kept_capacity = 0;
    }
    free(expected);
}

/* Checks a batch with the whole vocabulary, one id, and the size of a row's set and its
 * neighbours. */
static void check_sets(batch *b, device *d, cls_context *context, int search, rng *r)
{
    const cls_device_info info = context_info(context);
    b->shortlist = info.shortlist;
    batch_reference(b);
    const uint32_t near = b->host[rng_below(r, b->rows)].kept_count;
    const uint32_t capacities[] = {b->vocab, 1, near - 1, near, near + 1};
    for (uint32_t i = 0; i < sizeof capacities / sizeof *capacities; i++)
        if (capacities[i] >= 1 && capacities[i] <= b->vocab && (i < 2 || capacities[i] != 1))
            check_capacity(b, d, context, capacities[i], search, (int)rng_below(r, 2));
}

/* Every kind of row and parameters, with masks, biases and requests, in all types of logits. */
START_TEST(all_kinds)
{
    static const uint32_t sizes[] = {1023, 2, 31, 1, 1025, 2500, 32001};
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 600};
    for (uint32_t i = 0; i < fixture_by_size(4, 14, 42); i++) {
        const uint32_t vocab = sizes[i % fixture_by_size(5, 6, 7)];
        batch *const b =
            batch_new(fixture_by_size(5, 10, 12), vocab, (int)(i % 3), vocab + rng_below(&r, 5), 0);
        b->history = i % 4 == 3 ? 60 : 0;
        batch_random(b, &r);
        if (i % 3 == 1) {
            b->mask_kind = i % 2 ? CLS_MASK_BOOL : CLS_MASK_PACKED;
            batch_mask(b, &r, i % 4 == 0 ? 3 : 50, 0);
        }
        b->forces = i % 2 == 0;
        if (i % 3 != 0)
            batch_requests(b, &r);
        if (i % 4 == 2)
            batch_bias(b, &r, (int)rng_below(&r, 3));
        const int short_list = i % 5 == 3 && (fixture_size() == TEST_FULL || b->dtype == CLS_F32);
        check_sets(b, d, fixture_context(d, 0, 0, 0, short_list ? 16 : 0), i % 5 == 4, &r);
        batch_free(b);
    }
}
END_TEST

/* Sets that end among equal logits, that are nearly everything or next to nothing, and that span
 * many groups of tiles. */
START_TEST(ties_and_sizes)
{
    static const row_kind kinds[] = {ROW_TIES,       ROW_EQUAL, ROW_ASCENDING,
                                     ROW_DESCENDING, ROW_HALF,  ROW_OFFSETS};
    enum { KINDS = sizeof kinds / sizeof *kinds };
    static const uint32_t sizes[] = {1025, 70000, 32001, 300001};
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 601};
    for (uint32_t i = 0; i < fixture_by_size(1, 2, 4); i++) {
        const uint32_t vocab = fixture_by_size(1025, sizes[i], sizes[i]);
        batch *const b = batch_new(KINDS, vocab, (int)(i % 3), 0, 0);
        for (uint32_t row = 0; row < KINDS; row++) {
            cls_params *const p = &b->params[row];
            batch_row(b, row, kinds[(row + i) % KINDS], rng_bits(&r));
            p->temperature = 0.9f;
            if (row % 3 == 0)
                p->top_k = (int32_t)(1 + rng_below(&r, vocab));
            else if (row % 3 == 1)
                p->top_p = 0.01f * (float)(1 + rng_below(&r, 99));
            p->xtc_probability = row == 4 ? 1.0f : 0.0f;
        }
        check_sets(b, d, fixture_context(d, 1u << b->dtype, 0, 0, 0), i % 2, &r);
        batch_free(b);
    }
}
END_TEST

/* Groups of several work-items, whose ids follow each other. */
START_TEST(shapes)
{
    static const uint32_t shape[][3] = {{12, 4, 16}, {7, 0, 0}, {64, 4, 0}, {256, 16, 2048}};
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 602};
    for (uint32_t i = 0; i < 4; i++) {
        cls_context *const context =
            fixture_context(d, 1u << CLS_F32, shape[i][0], shape[i][1], shape[i][2]);
        if (context == NULL)
            continue;
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t vocab = k % 2 ? 300 : 4099;
            batch *const b = batch_new(6, vocab, CLS_F32, 0, 0);
            batch_random(b, &r);
            batch_requests(b, &r);
            batch_row(b, 0, ROW_HALF, rng_bits(&r)); /* without truncation */
            check_sets(b, d, context, 0, &r);
            batch_free(b);
        }
    }
}
END_TEST

/* Rows without a token have no set: they are masked, stopped, skipped or without a slot. Several
 * rows share a row of logits. */
START_TEST(rows_without_tokens)
{
    enum { ROWS = 6, VOCAB = 700 };
    static const int32_t slots[ROWS] = {0, -1, 2, 40, 4, 5}, logits[ROWS] = {3, 3, 0, 1, 2, 3};
    device *const d = fixture_device(_i);
    batch *const b = batch_new(ROWS, VOCAB, CLS_F32, 0, 0);
    static int32_t stop_with[] = {7};
    client s;
    sets o;
    for (uint32_t row = 0; row < ROWS; row++) {
        batch_row(b, row, ROW_NORMAL3, row);
        b->params[row].top_p = 0.9f;
        b->params[row].temperature = row == 5 ? 0.0f : 1.0f;
    }
    b->params[2].max_tokens = 1;
    b->tokens[2] = (tokens){.output = stop_with, .output_count = 1};
    b->mask_width = (VOCAB + 31) / 32;
    b->mask = must_malloc(ROWS * b->mask_width * 4);
    memset(b->mask, 0xff, ROWS * b->mask_width * 4);
    memset((char *)b->mask + 4 * b->mask_width * 4, 0, b->mask_width * 4);
    client_open(&s, b, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), 1);
    const cl_mem map = buffer_of(d, sizeof slots, slots);
    s.step.slots.device.buffer = map;
    s.step.logits_map.host = logits;
    open_sets(&o, &s, 10);
    client_step(&s, d->queue, 0, 0, NULL, NULL);
    client_tokens(&s, 0);
    read_sets(&o, &s);
    check_canaries(&o, d->name);
    for (uint32_t row = 0; row < ROWS; row++) {
        const int has_token = row == 0 || row == 5;
        ck_assert_int_eq(b->token[row] >= 0, has_token);
        ck_assert_int_eq(o.counts[1 + row] > 0, has_token);
        ck_assert_int_eq((b->status[row] & CLS_ROW_OVERFLOW) != 0, row == 0);
        check_final(&o, row, d->name);
    }
    ck_assert_int_eq(b->status[1], CLS_ROW_SKIPPED);
    ck_assert_int_eq(b->status[2], CLS_ROW_SKIPPED | CLS_ROW_STOPPED);
    ck_assert_int_eq(b->status[3], CLS_ROW_NO_SLOT);
    ck_assert_int_eq(b->status[4], CLS_ROW_EMPTY);
    ck_assert_int_eq(o.counts[1 + 5], 1);
    ck_assert_int_eq(o.ids[BEFORE + 5 * 10], b->token[5]);
    close_sets(&o);
    clReleaseMemObject(map);
    client_close(&s);
    b->tokens[2].output = NULL;
    batch_free(b);
}
END_TEST

/* The sets of rows whose tokens are forced are those that the rows would have drawn from; a row
 * whose forced id is masked has none. */
START_TEST(forced_rows)
{
    enum { ROWS = 4, VOCAB = 700, CAPACITY = 10 };
    static const int32_t id = 77;
    device *const d = fixture_device(_i);
    batch *const b = batch_new(ROWS, VOCAB, CLS_F32, 0, 0);
    int32_t expected[CAPACITY];
    client s;
    sets o;
    b->mask_width = (VOCAB + 31) / 32;
    b->mask = must_malloc(ROWS * b->mask_width * 4);
    memset(b->mask, 0xff, ROWS * b->mask_width * 4);
    ((uint32_t *)b->mask)[2 * b->mask_width + (uint32_t)id / 32] ^= UINT32_C(1) << id % 32;
    for (uint32_t row = 0; row < ROWS; row++) {
        batch_row(b, row, ROW_NORMAL3, row);
        b->params[row].top_p = 0.9f;
        b->params[row].temperature = row == 1 ? 0.0f : 1.0f;
    }
    client_open(&s, b, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), 1);
    for (uint32_t row = 0; row < 3; row++)
        must(cls_slot_force(s.sampler, row, &id, 1));
    open_sets(&o, &s, CAPACITY);
    client_step(&s, d->queue, 0, 0, NULL, NULL);
    client_tokens(&s, 0);
    read_sets(&o, &s);
    check_canaries(&o, d->name);
    for (uint32_t row = 0; row < ROWS; row++) {
        cls_host_row h = batch_host_row(b, row);
        cls_host_result result = {.kept_ids = expected, .kept_capacity = CAPACITY};
        h.forced_ids = row < 3 ? &id : NULL;
        h.forced_count = row < 3;
        must(cls_host_sample(&h, &result));
        ck_assert_int_eq(b->token[row], result.token);
        ck_assert_int_eq(b->status[row], result.status);
        ck_assert_int_eq(o.counts[1 + row], result.kept_count);
        ck_assert_mem_eq(o.ids + BEFORE + row * CAPACITY, expected, sizeof expected);
        check_final(&o, row, d->name);
    }
    ck_assert_int_eq(b->status[0], CLS_ROW_FORCED | CLS_ROW_OVERFLOW);
    ck_assert_int_eq(b->status[1], CLS_ROW_FORCED);
    ck_assert_int_eq(b->status[2], CLS_ROW_EMPTY);
    ck_assert_int_eq(o.counts[1 + 1], 1);
    ck_assert_int_eq(o.counts[1 + 2], 0);
    close_sets(&o);
    client_close(&s);
    batch_free(b);
}
END_TEST

/* Steps with kept sets draw and accept the same tokens as steps with another output of the final
 * distribution, also where the status is not written, or only one of the two buffers is there.
 * (Both accept after the outputs, which leaves the same bytes in slots.) */
START_TEST(nothing_else_changes)
{
    enum { ROWS = 8, STEPS = 6, CAPACITY = 3 };
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 603};
    batch *const b = batch_new(ROWS, fixture_by_size(300, 1500, 5000), CLS_F32, 0, 0);
    client s[2];
    sets o;
    int32_t status[ROWS], token[ROWS];
    b->history = 40;
    batch_random(b, &r);
    batch_requests(b, &r);
    for (int i = 0; i < 2; i++)
        client_open(&s[i], b, d, fixture_context(d, 0, 0, 0, 0), STEPS);
    open_sets(&o, &s[1], CAPACITY);
    s[0].outputs.final_logits = s[1].outputs.final_logits;
    s[1].outputs.final_logits.buffer = NULL;
    for (uint32_t step = 0; step < STEPS; step++) {
        const cl_mem status_buffer = s[1].step.status.buffer;
        client_step(&s[0], d->queue, step, 0, NULL, NULL);
        client_tokens(&s[0], step);
        memcpy(token, b->token, sizeof token);
        memcpy(status, b->status, sizeof status);
        const uint32_t launches = b->launches;
        s[1].outputs.kept_set.ids.buffer = step == 1 ? NULL : o.ids_buffer;
        s[1].outputs.kept_set.counts.buffer = step == 2 ? NULL : o.counts_buffer;
        s[1].step.status.buffer = step == 3 ? NULL : status_buffer;
        client_step(&s[1], d->queue, step, 0, NULL, NULL);
        s[1].step.status.buffer = status_buffer;
        ck_assert_uint_eq(b->launches, launches + 1);
        client_tokens(&s[1], step);
        ck_assert_mem_eq(b->token, token, sizeof token);
        buffer_read(d, o.counts_buffer, sizeof *o.counts * (ROWS + 1), o.counts);
        for (uint32_t row = 0; row < ROWS && step != 3; row++)
            ck_assert_msg(
                step == 2
                    ? (b->status[row] & ~CLS_ROW_OVERFLOW) == status[row]
                    : b->status[row] ==
                          (status[row] | (o.counts[1 + row] > CAPACITY ? CLS_ROW_OVERFLOW : 0)),
                "step %u, row %u: status %d, not %d", step, row, b->status[row], status[row]);
    }
    for (uint32_t slot = 0; slot < ROWS; slot++)
        ck_assert_msg(slots_are_same(d->queue, s[0].sampler, slot, s[1].sampler, slot),
                      "slot %u has another state", slot);
    close_sets(&o);
    client_close(&s[0]);
    client_close(&s[1]);
    batch_free(b);
}
END_TEST

/* What doc/integration.md says of training: the ids of a deferred step are the given ids of a
 * second one, which draws the same tokens and has the final log-probability of each token of the
 * set. */
START_TEST(replayed)
{
    enum { ROWS = 8 };
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 604};
    for (uint32_t i = 0; i < fixture_by_size(2, 6, 20); i++) {
        const uint32_t vocab = i % 2 ? 1000 : 77;
        const size_t n = (size_t)ROWS * vocab;
        batch *const b = batch_new(ROWS, vocab, (int)(i % 3), 0, 0);
        float *const probs = must_calloc(n, sizeof *probs);
        float *const logprobs = must_calloc(n, sizeof *logprobs);
        int32_t token[ROWS];
        client s;
        sets o;
        batch_random(b, &r);
        batch_requests(b, &r);
        for (uint32_t row = 0; row < ROWS; row++)
            b->host[row].probs = probs + (size_t)row * vocab;
        client_open(&s, b, d, fixture_context(d, 0, 0, 0, 0), 1);
        batch_reference(b);
        s.step.defer_accept = 1;
        open_sets(&o, &s, vocab);
        client_step(&s, d->queue, 0, 0, NULL, NULL);
        client_tokens(&s, 0);
        memcpy(token, b->token, sizeof token);
        read_sets(&o, &s);
        cls_outputs_init(&s.outputs);
        s.outputs.logprob_kind = CLS_LOGPROB_FINAL;
        s.outputs.given.count = vocab;
        s.outputs.given.ids =
            (cls_buffer){.buffer = o.ids_buffer, .offset = BEFORE * sizeof *o.ids};
        s.outputs.given.logprobs.buffer = buffer_of(d, n * sizeof *logprobs, NULL);
        client_step(&s, d->queue, 0, 0, NULL, NULL);
        client_tokens(&s, 0);
        buffer_read(d, s.outputs.given.logprobs.buffer, n * sizeof *logprobs, logprobs);
        ck_assert_mem_eq(b->token, token, sizeof token);
        for (uint32_t row = 0; row < ROWS; row++) {
            double sum = token[row] < 0;
            for (size_t k = row * vocab; k < (row + (size_t)1) * vocab; k++) {
                const int32_t id = o.ids[BEFORE + k];
                const double p = id < 0 ? 0.0 : (double)probs[row * vocab + (uint32_t)id],
                             got = exp((double)logprobs[k]);
                ck_assert_msg(fabs(got - p) <= 1e-5 && (p > 0.0) == (got > 0.0),
                              "%s: id %d has the probability %g, not %g: %s", d->name, id, got, p,
                              batch_words(b, row));
                sum += got;
            }
            ck_assert_msg(fabs(sum - 1.0) <= 1e-4, "%s: the sum is %g: %s", d->name, sum,
                          batch_words(b, row));
        }
        clReleaseMemObject(s.outputs.given.logprobs.buffer);
        close_sets(&o);
        client_close(&s);
        batch_free(b);
        free(probs);
        free(logprobs);
    }
}
END_TEST

#define REFUSED(sentence) \
    must_refuse_exactly(cls_sample(s.sampler, d->queue, &s.step, 0, NULL, NULL), sentence)

START_TEST(bad_arguments)
{
    device *const d = fixture_device(_i);
    client s = small_client(d, 2); /* of 100 tokens */
    const cl_mem buffer = buffer_of(d, 800, NULL);
    cls_kept_set *const set = &s.outputs.kept_set;
    s.step.outputs = &s.outputs;
    set->capacity = 5;
    REFUSED("outputs->kept_set.capacity is 5, but no buffer for it is set (such as "
            "outputs->kept_set.ids)");
    set->ids.buffer = buffer;
    set->capacity = 101;
    REFUSED("outputs->kept_set.capacity is 101; it must be at most 100");
    set->capacity = 0;
    REFUSED("outputs->kept_set.ids is set, but outputs->kept_set.capacity is 0");
    set->ids.buffer = NULL;
    set->counts.buffer = buffer;
    REFUSED("outputs->kept_set.counts is set, but outputs->kept_set.capacity is 0");
    set->counts.buffer = NULL;
    set->ids.buffer = buffer;
    set->capacity = 100;
    set->ids.offset = 4;
    REFUSED("outputs->kept_set.ids needs 800 bytes from offset 4 on, 804 in all, and the "
            "buffer has 800");
    set->ids.offset = 0;
    set->counts.buffer = buffer;
    set->counts.offset = 792;
    REFUSED("outputs->kept_set.ids, bytes 0 to 799, and outputs->kept_set.counts, bytes 792 to "
            "799, overlap in one buffer; bytes that are written must not overlap others");
    set->counts.buffer = NULL;
    set->reserved[4] = 1;
    REFUSED("outputs->kept_set.reserved is 1; it is reserved for later versions and must be 0");
    set->reserved[4] = 0;
    must(cls_sample(s.sampler, d->queue, &s.step, 0, NULL, NULL));
    must_cl(clFinish(d->queue));
    clReleaseMemObject(buffer);
    close_small(&s);
}
END_TEST

int main(void)
{
    fixture_random(CLS_FEATURE_FORCED | CLS_FEATURE_MASK | CLS_FEATURE_BIAS | CLS_FEATURE_LOGPROBS |
                   CLS_FEATURE_PROBS | CLS_FEATURE_KEPT_SETS);
    fixture_begin(ON_DEVICES);
    add_device_test(all_kinds);
    add_device_test(ties_and_sizes);
    if (fixture_size() == TEST_FULL)
        add_device_test(shapes);
    add_device_test(rows_without_tokens);
    add_device_test(forced_rows);
    add_device_test(nothing_else_changes);
    add_device_test(replayed);
    add_device_test(bad_arguments);
    return fixture_end();
}
