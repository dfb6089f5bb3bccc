/* SPDX-License-Identifier: MIT */
/* Proves that kept sets with offsets are those of the fixed form, one behind the other: at any
 * capacity, with rows in between that have no set, in groups of any size; that the offsets are the
 * host's; and that nothing else is written or changes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

enum { BEFORE = 3, AFTER = 5, CANARY = 0x5a5a5a5a }; /* elements around the outputs */

/* The results of one step. */
typedef struct step_result {
    uint32_t rows, capacity, ids_size; /* ids_size: of all rows */
    cl_mem ids_buffer, counts_buffer, offsets_buffer;
    int32_t *ids, *counts, *offsets, *token, *status;
} step_result;

static cl_mem filled(device *d, uint32_t n, int32_t **host)
{
    const size_t size = ((size_t)BEFORE + n + AFTER) * sizeof **host;
    *host = must_malloc(size);
    memset(*host, CANARY & 255, size);
    return buffer_of(d, size, *host);
}

static void read_back(device *d, uint32_t n, cl_mem buffer, int32_t *host, const char *where)
{
    buffer_read(d, buffer, ((size_t)BEFORE + n + AFTER) * sizeof *host, host);
    for (uint32_t i = 0; i < BEFORE + AFTER; i++) {
        const uint32_t at = i < BEFORE ? i : n + i;
        ck_assert_msg(host[at] == CANARY, "%s: element %u, outside the output, was written", where,
                      at);
    }
}

/* Runs the step by a shard that has the whole vocabulary. */
static void step_by_shard(client *s)
{
    const void *partial;
    cls_shard *shard;
    size_t size;
    int more = 1;
    must(cls_shard_create(s->sampler, NULL, &shard));
    s->step.tokens.offset = s->step.status.offset = 0;
    s->step.outputs = &s->outputs;
    must(cls_shard_sample(shard, s->d->queue, &s->step, 0, NULL));
    while (more) {
        must(cls_shard_partial(shard, &partial, &size));
        must(cls_shard_merge(shard, partial, size, &more, NULL));
    }
    cls_shard_destroy(shard);
}

/* Runs a deferred step. capacity: of all rows, with offsets; 0: the fixed form with room for all.
 * wants: 1 for the ids, and 2 for the counts. by_shard: as step_by_shard(). */
static step_result run_step(client *s, uint32_t capacity, int wants, int by_shard,
                            const char *where)
{
    const cls_buffer none = {.buffer = NULL};
    batch *const b = s->b;
    cls_kept_set *const set = &s->outputs.kept_set;
    step_result o = {.rows = b->rows, .capacity = capacity};
    const size_t size = b->rows * sizeof(int32_t);
    const uint64_t begin = BEFORE * sizeof(int32_t);
    o.ids_size = capacity != 0 ? capacity : b->rows * b->vocab;
    o.ids_buffer = filled(s->d, o.ids_size, &o.ids);
    o.counts_buffer = filled(s->d, o.rows, &o.counts);
    o.offsets_buffer = filled(s->d, o.rows + 1, &o.offsets);
    o.token = must_malloc(size);
    o.status = must_malloc(size);
    set->capacity = capacity != 0 ? capacity : b->vocab;
    set->ids = wants & 1 ? (cls_buffer){.buffer = o.ids_buffer, .offset = begin} : none;
    set->counts = wants & 2 ? (cls_buffer){.buffer = o.counts_buffer, .offset = begin} : none;
    set->offsets = capacity != 0 ? (cls_buffer){.buffer = o.offsets_buffer, .offset = begin} : none;
    s->step.defer_accept = 1;
    if (by_shard)
        step_by_shard(s);
    else
        client_step(s, s->d->queue, 0, 0, NULL, NULL);
    client_tokens(s, 0);
    memcpy(o.token, b->token, size);
    memcpy(o.status, b->status, size);
    read_back(s->d, o.ids_size, o.ids_buffer, o.ids, where);
    read_back(s->d, o.rows, o.counts_buffer, o.counts, where);
    read_back(s->d, o.rows + 1, o.offsets_buffer, o.offsets, where);
    return o;
}

static void end_step(step_result *o)
{
    int32_t *const all[] = {o->ids, o->counts, o->offsets, o->token, o->status};
    release_buffers(o->ids_buffer, o->counts_buffer, o->offsets_buffer);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* Compares a step with offsets with one in the fixed form. Returns how many rows overflow. */
static uint32_t compare(const step_result *fixed, const step_result *packed, uint32_t vocab,
                        int wants, const char *where)
{
    const int32_t *const offsets = packed->offsets + BEFORE, *const ids = packed->ids + BEFORE;
    int32_t *const hosts = must_malloc((fixed->rows + 1) * sizeof *hosts);
    uint32_t at = 0, overflows = 0;
    must(cls_host_kept_offsets(fixed->rows, fixed->counts + BEFORE, packed->capacity, hosts));
    ck_assert_mem_eq(hosts, offsets, (fixed->rows + 1) * sizeof *hosts);
    for (uint32_t row = 0; row < fixed->rows; row++) {
        const uint32_t count = (uint32_t)fixed->counts[BEFORE + row],
                       fits = at + count <= packed->capacity;
        ck_assert_msg(offsets[row] == (int32_t)at, "%s: the offset of row %u is %d, not %u", where,
                      row, offsets[row], at);
        ck_assert_msg(
            packed->token[row] == fixed->token[row] &&
                packed->status[row] == (fixed->status[row] | (fits ? 0 : CLS_ROW_OVERFLOW)),
            "%s: row %u has the token %d and the status %d, not %d and %d", where, row,
            packed->token[row], packed->status[row], fixed->token[row], fixed->status[row]);
        ck_assert(!(wants & 2) || packed->counts[BEFORE + row] == fixed->counts[BEFORE + row]);
        if (wants & 1 && fits && count != 0)
            ck_assert_mem_eq(ids + at, fixed->ids + BEFORE + (size_t)row * vocab,
                             count * sizeof *ids);
        at += fits ? count : 0;
        overflows += !fits;
    }
    ck_assert_int_eq(offsets[fixed->rows], at);
    for (uint32_t i = wants & 1 ? at : 0; i < packed->capacity; i++)
        ck_assert_msg(ids[i] == CANARY, "%s: id %u, behind the last one, was written", where, i);
    free(hosts);
    return overflows;
}

/* Checks a client's step with capacities that leave nothing, just enough, and one too few. */
static void check_capacities(client *s, rng *r, const char *what)
{
    const batch *const b = s->b;
    char where[260];
    snprintf(where, sizeof where, "%s, fixed", what);
    step_result fixed = run_step(s, 0, 3, 0, where);
    uint32_t total = 0, part = 0, near = 0;
    const uint32_t before = rng_below(r, b->rows + 1), launches = b->launches;
    for (uint32_t row = 0; row < b->rows; row++) {
        const uint32_t count = (uint32_t)fixed.counts[BEFORE + row];
        total += count;
        part += row < before ? count : 0;
        near = count > near ? count : near;
        ck_assert(!(fixed.status[row] & CLS_ROW_OVERFLOW));
    }
    const uint32_t capacities[] = {total, total - 1, part, part - 1,
                                   1,     total / 2, near, b->rows * b->vocab};
    for (uint32_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
        const int wants = i % 4 == 3 ? 2 : i % 4 == 2 ? 1 : i == 5 ? 0 : 3;
        if (capacities[i] < 1 || capacities[i] > b->rows * b->vocab)
            continue;
        snprintf(where, sizeof where, "%s, capacity %u of %u", what, capacities[i], total);
        step_result packed = run_step(s, capacities[i], wants, 0, where);
        ck_assert_uint_eq(b->launches, launches + 1);
        const uint32_t overflows = compare(&fixed, &packed, b->vocab, wants, where);
        ck_assert_msg((overflows != 0) == (capacities[i] < total), "%s: %u rows overflow", where,
                      overflows);
        end_step(&packed);
    }
    end_step(&fixed);
}

/* Rows and parameters of all kinds; some rows are skipped, stopped, masked or have no slot. */
static void check_rows(device *d, cls_context *context, uint32_t rows, uint32_t vocab, int dtype,
                       rng *r)
{
    batch *const b = batch_new(rows, vocab, dtype, 0, 0);
    int32_t *const slots = must_malloc(rows * sizeof *slots);
    char what[200];
    client s;
    cl_mem map = NULL;
    b->forces = rng_below(r, 2) == 0;
    batch_random(b, r);
    batch_requests(b, r);
    if (rng_below(r, 2))
        batch_mask(b, r, 3, 0);
    for (uint32_t row = 0; row < rows; row++)
        slots[row] =
            rng_below(r, 5) ? (int32_t)rng_below(r, rows) : (int32_t)rng_below(r, rows + 1) * 3 - 1;
    client_open(&s, b, d, context, 1);
    if (rng_below(r, 3)) {
        map = buffer_of(d, rows * sizeof *slots, slots);
        s.step.slots.device.buffer = map;
    }
    cls_sampler_force_search(s.sampler, (int)rng_below(r, 4) == 0);
    snprintf(what, sizeof what, "%s: %u rows of %u", d->name, rows, vocab);
    check_capacities(&s, r, what);
    if (map != NULL)
        clReleaseMemObject(map);
    client_close(&s);
    free(slots);
    batch_free(b);
}

START_TEST(all_kinds)
{
    static const uint32_t sizes[][2] = {{7, 1025}, {300, 31},  {1, 2},   {12, 2500},
                                        {40, 111}, {5, 32001}, {600, 77}};
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 700};
    for (uint32_t i = 0; i < fixture_by_size(3, 10, 35); i++)
        check_rows(d, fixture_context(d, 0, 0, 0, 0), sizes[i % 7][0], sizes[i % 7][1],
                   (int)(i % 3), &r);
}
END_TEST

/* A step of a shard. */
START_TEST(shards)
{
    enum { ROWS = 9, VOCAB = 1100, CAPACITY = 300 };
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 702};
    batch *const b = batch_new(ROWS, VOCAB, CLS_F32, 0, 0);
    client s;
    for (uint32_t row = 0; row < ROWS; row++) {
        batch_row(b, row, ROW_NORMAL3, rng_bits(&r));
        b->params[row].temperature = 1.0f;
        b->params[row].top_k = (int32_t)(1 + rng_below(&r, 90));
    }
    client_open(&s, b, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), 1);
    step_result fixed = run_step(&s, 0, 3, 0, "fixed");
    step_result packed = run_step(&s, CAPACITY, 3, 1, "by a shard");
    ck_assert_uint_gt(compare(&fixed, &packed, VOCAB, 3, "by a shard"), 0);
    end_step(&packed);
    end_step(&fixed);
    client_close(&s);
    batch_free(b);
}
END_TEST

/* Groups of several work-items, which place several rows at once. */
START_TEST(shapes)
{
    static const uint32_t shape[][3] = {{7, 0, 0}, {64, 4, 0}, {256, 16, 2048}};
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 701};
    for (uint32_t i = 0; i < 3; i++) {
        cls_context *const context =
            fixture_context(d, 1u << CLS_F32, shape[i][0], shape[i][1], shape[i][2]);
        if (context != NULL)
            check_rows(d, context, i == 0 ? 30 : 300, 31, CLS_F32, &r);
    }
}
END_TEST

#define REFUSED(sentence) \
    must_refuse_exactly(cls_sample(s.sampler, d->queue, &s.step, 0, NULL, NULL), sentence)

START_TEST(bad_arguments)
{
    device *const d = fixture_device(_i);
    client s = small_client(d, 2); /* of 100 tokens */
    const cl_mem buffer = buffer_of(d, 800, NULL), offsets = buffer_of(d, 12, NULL);
    cls_kept_set *const set = &s.outputs.kept_set;
    s.step.outputs = &s.outputs;
    set->offsets.buffer = offsets;
    REFUSED("outputs->kept_set.offsets is set, but outputs->kept_set.capacity is 0");
    set->capacity = 201;
    REFUSED("outputs->kept_set.capacity is 201; it must be at most 200");
    set->capacity = 200;
    must(cls_sample(s.sampler, d->queue, &s.step, 0, NULL, NULL));
    set->ids.buffer = buffer;
    set->ids.offset = 4;
    REFUSED("outputs->kept_set.ids needs 800 bytes from offset 4 on, 804 in all, and the "
            "buffer has 800");
    set->ids.offset = 0;
    set->offsets.offset = 4;
    REFUSED("outputs->kept_set.offsets needs 12 bytes from offset 4 on, 16 in all, and the buffer "
            "has 12");
    set->offsets = (cls_buffer){.buffer = buffer, .offset = 788};
    REFUSED("outputs->kept_set.ids, bytes 0 to 799, and outputs->kept_set.offsets, bytes 788 to "
            "799, overlap in one buffer; bytes that are written must not overlap others");
    set->offsets.buffer = NULL;
    set->offsets.kind = 7;
    ck_assert_int_eq(cls_sample(s.sampler, d->queue, &s.step, 0, NULL, NULL), CLS_BAD_ARGUMENT);
    set->offsets = (cls_buffer){.buffer = offsets};
    set->reserved[4] = 1;
    REFUSED("outputs->kept_set.reserved is 1; it is reserved for later versions and must be 0");
    set->reserved[4] = 0;
    must(cls_sample(s.sampler, d->queue, &s.step, 0, NULL, NULL));
    must_cl(clFinish(d->queue));
    release_buffers(buffer, offsets);
    close_small(&s);
}
END_TEST

START_TEST(offsets_on_the_host)
{
    static const int32_t counts[] = {3, 0, 4, 1, 5, 0, 2}, none[] = {-1};
    static const int32_t in[3][8] = {
        {0, 3, 3, 7, 8, 13, 13, 15}, {0, 3, 3, 7, 8, 8, 8, 10}, {0, 0, 0, 0, 1, 1, 1, 1}};
    static const uint32_t capacity[] = {15, 12, 1};
    int32_t offsets[8];
    for (int i = 0; i < 3; i++) {
        must(cls_host_kept_offsets(7, counts, capacity[i], offsets));
        ck_assert_mem_eq(offsets, in[i], sizeof offsets);
    }
    must(cls_host_kept_offsets(0, counts, 5, offsets));
    ck_assert_int_eq(offsets[0], 0);
    must_refuse_exactly(cls_host_kept_offsets(1, none, 5, offsets), "counts[0] is -1");
    must_refuse_exactly(cls_host_kept_offsets(1, NULL, 5, offsets), "counts is NULL");
    must_refuse_exactly(cls_host_kept_offsets(1, counts, 5, NULL), "offsets is NULL");
    must_refuse_exactly(cls_host_kept_offsets(1, counts, 0x80000000u, offsets),
                        "capacity is 2147483648; it must be at most 2147483647");
}
END_TEST

int main(void)
{
    fixture_random(CLS_FEATURE_FORCED | CLS_FEATURE_MASK | CLS_FEATURE_KEPT_SETS);
    fixture_begin(ON_DEVICES);
    add_device_test(all_kinds);
    add_device_test(shards);
    if (fixture_size() == TEST_FULL)
        add_device_test(shapes);
    add_device_test(bad_arguments);
    add_test(offsets_on_the_host);
    return fixture_end();
}
