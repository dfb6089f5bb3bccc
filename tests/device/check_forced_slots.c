/* SPDX-License-Identifier: MIT */
/* Proves what forced ids do to the slots of requests: a forced row does what a deferred step and
 * cls_accept() of its id do; masks, ends, tokens that cls_accept() takes, saved slots,
 * and what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "bench.h"

#define FEATURES \
    (CLS_FEATURE_FORCED | CLS_FEATURE_ACCEPT | CLS_FEATURE_MASK | CLS_FEATURE_LOGPROBS | \
     CLS_FEATURE_PROBS)

enum { VOCAB = 40, SLOTS = 3 };

/* Opens a bench with one row of logits for all slots. */
static bench open_one_row(device *d)
{
    static const int32_t same[SLOTS] = {0};
    cls_sampler_options o = sampler_options(VOCAB, SLOTS);
    float x[VOCAB];
    o.max_history = 64;
    o.max_rollback = 8;
    for (uint32_t i = 0; i < VOCAB; i++)
        x[i] = (float)(i * 7 % 11) / 4.0f;
    bench k = bench_open(d, &o, NULL);
    bench_logits(&k, x, 1);
    k.step.logits_rows = 1;
    k.step.logits_map.host = same;
    return k;
}

static void begin_all(bench *k, const cls_params *p)
{
    static const int32_t prompt[] = {1, 2, 3, 2, 3};
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        must(cls_slot_begin(k->sampler, slot, p, prompt, 5, NULL, 0));
}

static void expect_same_slots(const bench *k, uint32_t a, uint32_t b, const char *where)
{
    ck_assert_msg(slots_are_same(k->d->queue, k->sampler, a, k->sampler, b),
                  "%s: %s: slots %u and %u differ", k->d->name, where, a, b);
}

/* The requests of each kind of adaptive state, and one without. */
static void adaptive_params(cls_params *p, int kind)
{
    cls_params_init(p);
    p->seed = 5;
    p->presence_penalty = 0.5f;
    p->mirostat = kind == 1 || kind == 2 ? kind : 0;
    p->adaptive_target = kind == 3 ? 0.3f : -1.0f;
    if (kind == 4) {
        p->top_p = 0.9f;
        p->top_p_decay = 0.8f;
        p->top_p_reset_id = 6;
    }
}

/* A mask that forbids a forced id: the row is empty and nothing changes, in memory that its step
 * could have written either. The next row tries again. */
START_TEST(masked)
{
    static const int32_t forced[] = {6, 9}, map[] = {1, 1, 1};
    device *const d = fixture_device(_i);
    uint8_t bytes[2][VOCAB];
    uint32_t words[2][2];
    memset(bytes, 1, sizeof bytes);
    memset(words, 0xff, sizeof words);
    bytes[1][6] = 0;
    words[1][0] &= ~(1u << 6);
    bench k = open_one_row(d);
    const cl_mem byte_buffer = buffer_of(d, sizeof bytes, bytes),
                 word_buffer = buffer_of(d, sizeof words, words);
    for (int kind = 0; kind < 5; kind++)
        for (int how = 0; how < 8; how++) {
            cls_mask *const m = &k.step.mask;
            const cls_mask none = {.kind = 0};
            cls_params p;
            size_t size[2];
            adaptive_params(&p, kind);
            p.thinking_forced = (cls_ids){forced, how & 4 ? 2 : 0};
            p.thinking_budget = how & 4 ? 2 : 0;
            begin_all(&k, &p);
            for (uint32_t slot = 0; slot < SLOTS && !(how & 4); slot++)
                must(cls_slot_force(k.sampler, slot, forced, 2));
            *m = none;
            for (int i = 0; i < 2 && (how & 4); i++)
                bench_step(&k);      /* the budget's tokens */
            k.step.defer_accept = 1; /* leaves a token that cls_accept() may take */
            bench_step(&k);
            k.step.defer_accept = 0;
            *m = (cls_mask){.kind = how & 1, .rows = 2, .row_map = {.host = map}};
            if (how & 2)
                m->host = how & 1 ? (const void *)bytes : (const void *)words;
            else
                m->words.buffer = how & 1 ? byte_buffer : word_buffer;
            unsigned char *const before = slot_saved(k.sampler, d->queue, 1, &size[0]);
            for (int i = 0; i < 2; i++) {
                bench_step(&k);
                for (uint32_t slot = 0; slot < SLOTS; slot++)
                    ck_assert_msg(k.token[slot] == -1 && k.status[slot] == CLS_ROW_EMPTY,
                                  "%s: kind %d, mask %d: token %d, status %d", d->name, kind, how,
                                  k.token[slot], k.status[slot]);
            }
            unsigned char *const after = slot_saved(k.sampler, d->queue, 1, &size[1]);
            ck_assert_msg(size[0] == size[1] && memcmp(before, after, size[0]) == 0,
                          "%s: kind %d, mask %d: an empty row changed its slot", d->name, kind,
                          how);
            free(before);
            free(after);
            *m = none;
            for (int i = 0; i < 3; i++) {
                bench_step(&k);
                ck_assert_int_eq(k.status[1], i < 2 ? CLS_ROW_FORCED : 0);
                ck_assert(i == 2 || k.token[1] == forced[i]);
            }
        }
    release_buffers(byte_buffer, word_buffer);
    bench_close(&k);
}
END_TEST

/* A forced row leaves the state that a deferred step and cls_accept() of its id leave, with each
 * kind of adaptive state: where the id is the row's own draw, where it is another one, and where
 * nothing can be drawn. */
START_TEST(as_accepted)
{
    static const int32_t first = 0, second = 1;
    device *const d = fixture_device(_i);
    float nan_row[VOCAB];
    bench k = open_one_row(d);
    for (uint32_t i = 0; i < VOCAB; i++)
        nan_row[i] = NAN;
    const cl_mem in = k.step.logits.values.buffer, empty = buffer_of(d, sizeof nan_row, nan_row);
    for (int kind = 0; kind < 5; kind++)
        for (int how = 0; how < 3; how++) {
            char where[60];
            cls_params p;
            snprintf(where, sizeof where, "kind %d, case %d", kind, how);
            adaptive_params(&p, kind);
            p.temperature = 0.5f;
            begin_all(&k, &p);
            for (int i = 0; i < 4; i++) {
                k.step.defer_accept = i == 3; /* what the next step will draw */
                bench_step(&k);
            }
            const int32_t id = (k.token[0] + how) % VOCAB;
            const cls_ints ids = {.host = &id}, slots = {.host = &second};
            must(cls_slot_force(k.sampler, 0, &id, 1));
            k.step.rows = 1;
            k.step.logits.values.buffer = how == 2 ? empty : in;
            k.step.slots.host = &first;
            k.step.defer_accept = 0;
            bench_step(&k);
            ck_assert_msg(k.token[0] == id && (k.status[0] & ~CLS_ROW_NAN) == CLS_ROW_FORCED,
                          "%s: %s: token %d, status %d", d->name, where, k.token[0], k.status[0]);
            must(cls_slot_force(k.sampler, 0, NULL, 0)); /* saved without a place for ids */
            k.step.slots.host = &second;
            k.step.defer_accept = 1;
            bench_step(&k);
            must(accept_ints(k.sampler, d->queue, 1, 1, &ids, &slots, 0, NULL, NULL));
            k.step.defer_accept = 0;
            k.step.slots.host = NULL;
            k.step.logits.values.buffer = in;
            k.step.rows = SLOTS;
            if (kind == 0 || kind == 4)
                expect_same_slots(&k, 0, 1, where);
            for (int i = 0; i < 4; i++) {
                bench_step(&k);
                ck_assert_msg(k.token[0] == k.token[1] && k.status[0] == k.status[1],
                              "%s: %s, %d tokens later: %d; accepted: %d", d->name, where, i,
                              k.token[0], k.token[1]);
            }
        }
    clReleaseMemObject(empty);
    bench_close(&k);
}
END_TEST

/* Forced ids that end a request, by stop ids, max_tokens and loops; forced ids of several rows that
 * share a slot; forced ids under the caller's positions, draws and random bits. */
START_TEST(ends)
{
    static const int32_t forced[] = {4, 5, 4, 5, 4, 5}, stop = 5, shared[SLOTS] = {1, 1, 1},
                         positions[SLOTS] = {7, 8, 9}, draws[SLOTS] = {0, 1, 2};
    static const struct {
        uint32_t max_tokens, min_tokens, stops, repeats, last;
        int32_t status;
    } cases[] = {{0, 0, 1, 0, 2, CLS_ROW_STOPPED},
                 {0, 3, 1, 0, 4, CLS_ROW_STOPPED},
                 {3, 0, 0, 0, 3, CLS_ROW_STOPPED | CLS_ROW_LENGTH},
                 {2, 0, 1, 0, 2, CLS_ROW_STOPPED},
                 {0, 0, 0, 2, 4, CLS_ROW_STOPPED | CLS_ROW_LOOP},
                 {0, 0, 0, 3, 6, CLS_ROW_STOPPED | CLS_ROW_LOOP},
                 {4, 0, 0, 2, 4, CLS_ROW_STOPPED | CLS_ROW_LENGTH | CLS_ROW_LOOP}};
    device *const d = fixture_device(_i);
    const uint64_t bits[SLOTS] = {1, 2, 3};
    bench k = open_one_row(d);
    for (uint32_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        cls_params p = default_params();
        p.max_tokens = cases[c].max_tokens;
        p.min_tokens = cases[c].min_tokens;
        p.stop_ids = (cls_ids){cases[c].stops ? &stop : NULL, cases[c].stops};
        p.loop_repeats = cases[c].repeats;
        p.loop_max = 8;
        begin_all(&k, &p);
        for (uint32_t slot = 0; slot < SLOTS; slot++)
            must(cls_slot_force(k.sampler, slot, forced, 6));
        for (uint32_t i = 0; i <= cases[c].last; i++) {
            bench_step(&k);
            const int32_t token = i < cases[c].last ? forced[i] : -1,
                          status = i == cases[c].last       ? CLS_ROW_STOPPED | CLS_ROW_SKIPPED
                                   : i + 1 == cases[c].last ? CLS_ROW_FORCED | cases[c].status
                                                            : CLS_ROW_FORCED;
            for (uint32_t slot = 0; slot < SLOTS; slot++)
                ck_assert_msg(k.token[slot] == token && k.status[slot] == status,
                              "%s: case %u, token %u: %d, status %d", d->name, c, i, k.token[slot],
                              k.status[slot]);
        }
    }
    const cl_mem random = buffer_of(d, sizeof bits, bits);
    cls_params p = default_params();
    begin_all(&k, &p);
    must(cls_slot_force(k.sampler, 1, forced, 1));
    k.step.defer_accept = 1;
    k.step.slots.host = shared;
    k.step.positions.host = positions;
    k.step.draws.host = draws;
    for (int with = 0; with < 2; with++) {
        k.step.random_bits.buffer = with ? random : NULL;
        bench_step(&k);
        for (uint32_t row = 0; row < SLOTS; row++)
            ck_assert(k.token[row] == 4 && k.status[row] == CLS_ROW_FORCED);
    }
    clReleaseMemObject(random);
    bench_close(&k);
}
END_TEST

/* Steps and draws take one launch more as long as a request may be forced. */
START_TEST(launches)
{
    static const int32_t forced[] = {4, 5};
    device *const d = fixture_device(_i);
    cls_params plain, thinks, loops;
    bench k = open_one_row(d);
    cls_params_init(&plain);
    thinks = loops = plain;
    thinks.thinking_forced = (cls_ids){forced, 2};
    thinks.thinking_budget = 100;
    loops.loop_repeats = 2;
#define EXPECT_LAUNCHES(n) \
    bench_step(&k); \
    ck_assert_uint_eq(cls_sampler_launches(k.sampler), (n))
    begin_all(&k, &plain);
    EXPECT_LAUNCHES(3);
    EXPECT_LAUNCHES(2);
    must(cls_slot_force(k.sampler, 1, forced, 2));
    EXPECT_LAUNCHES(4);
    for (int i = 0; i < 4; i++) {
        EXPECT_LAUNCHES(3); /* also after the last id */
    }
    must(cls_slot_force(k.sampler, 1, NULL, 0));
    EXPECT_LAUNCHES(3);
    EXPECT_LAUNCHES(2);
    must(cls_slot_force(k.sampler, 1, forced, 2));
    must(cls_slot_copy(k.sampler, 2, 1));
    must(cls_slot_reset(k.sampler, 1));
    must(cls_slot_begin(k.sampler, 1, &plain, NULL, 0, NULL, 0));
    bench_step(&k);
    EXPECT_LAUNCHES(3); /* the fork */
    must(cls_slot_params(k.sampler, 2, &plain));
    bench_step(&k);
    EXPECT_LAUNCHES(3); /* new parameters keep the ids */
    must(cls_slot_begin(k.sampler, 2, &plain, NULL, 0, NULL, 0));
    bench_step(&k);
    EXPECT_LAUNCHES(2);
    for (int i = 0; i < 2; i++) {
        must(cls_slot_params(k.sampler, 0, i ? &thinks : &loops));
        bench_step(&k);
        EXPECT_LAUNCHES(3);
        must(cls_slot_params(k.sampler, 0, &plain));
        bench_step(&k);
        EXPECT_LAUNCHES(2);
    }
    bench_close(&k);
}
END_TEST

/* --------------------------------------------------------------------------- accepted */

/* Accepts tokens of a slot one by one, which cls_accept() with several of them must equal. */
static void accept_each(bench *k, const int32_t *ids, uint32_t n, int32_t slot)
{
    const cls_ints map = {.host = &slot};
    for (uint32_t i = 0; i < n; i++) {
        const cls_ints one = {.host = &ids[i]};
        must(accept_ints(k->sampler, k->d->queue, 1, 1, &one, &map, 0, NULL, NULL));
    }
}

/* Rows of several tokens, from the host and the device, with short rows and ids that are no
 * tokens. A stop id in the middle ends them. */
START_TEST(accepted)
{
    enum { EACH = 9 };
    static const int32_t stop[] = {17}, forced[] = {3, 4};
    device *const d = fixture_device(_i);
    const uint32_t many = fixture_by_size(64, 600, CLS_MAX_ACCEPTED);
    rng r = {fixture_seed() + 5};
    int32_t ids[2 * EACH], *const all = must_malloc(CLS_MAX_ACCEPTED * sizeof *all);
    bench k = open_one_row(d);
    const cl_mem buffer = buffer_of(d, CLS_MAX_ACCEPTED * sizeof *all + 8, NULL);
    for (uint32_t i = 0; i < fixture_by_size(6, 30, 150); i++) {
        static const int32_t pair[2] = {2, 0}, row_of_1 = 1;
        const uint32_t per_row = i % 4 ? 2 + rng_below(&r, EACH - 1) : EACH;
        cls_params p;
        adaptive_params(&p, (int)(i % 5));
        p.stop_ids.ids = i % 3 == 0 ? stop : NULL;
        p.stop_ids.count = i % 3 == 0;
        p.max_tokens = i % 3 == 1 ? 5 : 0;
        p.loop_repeats = i % 3 == 2 ? 3 : 0;
        p.loop_max = 2;
        p.thinking_forced = (cls_ids){forced, 2};
        p.thinking_budget = 4;
        p.thinking_end = (cls_ids){forced + 1, 1};
        begin_all(&k, &p);
        for (uint32_t at = 0; at < 2 * per_row; at++) {
            const uint32_t what = rng_below(&r, 8);
            ids[at] = what == 0   ? -1
                      : what == 1 ? VOCAB
                      : what == 2 ? 17
                      : what < 5  ? 3
                                  : (int32_t)rng_below(&r, VOCAB);
        }
        if (i % 2) { /* both rows; the second one belongs to slot 0 */
            const cls_ints map = {.host = pair}, host = {.host = ids},
                           device_ids = {.device = {.buffer = buffer, .offset = 8}};
            buffer_write(d, buffer, 8, sizeof ids, ids);
            must(accept_ints(k.sampler, d->queue, 2, per_row, i % 4 == 1 ? &host : &device_ids,
                             &map, 0, NULL, NULL));
            accept_each(&k, ids + per_row, per_row, 1);
            expect_same_slots(&k, 0, 1, "several rows");
        } else {
            const cls_ints map = {.host = &row_of_1}, host = {.host = ids};
            must(accept_ints(k.sampler, d->queue, 1, per_row, &host, &map, 0, NULL, NULL));
            accept_each(&k, ids, per_row, 0);
            expect_same_slots(&k, 0, 1, "one row");
        }
        bench_step(&k);
        ck_assert(k.token[0] == k.token[1] && k.status[0] == k.status[1]);
    }
    cls_params p = default_params();
    p.frequency_penalty = 0.01f;
    p.penalty_window = 30;
    for (uint32_t i = 0; i < many; i++)
        all[i] = (int32_t)rng_below(&r, VOCAB);
    for (int on_device = 0; on_device < 2; on_device++) { /* as many as there may be */
        const cls_ints host = {.host = all}, device_ids = {.device = {.buffer = buffer}};
        buffer_write(d, buffer, 0, many * sizeof *all, all);
        begin_all(&k, &p);
        must(accept_ints(k.sampler, d->queue, 1, many, on_device ? &device_ids : &host, NULL, 0,
                         NULL, NULL));
        must(cls_slot_begin(k.sampler, 1, &p, (const int32_t[]){1, 2, 3, 2, 3}, 5, all, many));
        bench_step(&k);
        ck_assert(k.token[0] == k.token[1] && k.status[0] == k.status[1]);
    }
    clReleaseMemObject(buffer);
    free(all);
    bench_close(&k);
}
END_TEST

/* ------------------------------------------------------------------------------- saved */

static uint32_t word_at(const unsigned char *bytes, size_t at)
{
    return bytes[at] | (uint32_t)bytes[at + 1] << 8 | (uint32_t)bytes[at + 2] << 16 |
           (uint32_t)bytes[at + 3] << 24;
}

static void put_word(unsigned char *bytes, size_t at, uint32_t word)
{
    for (int i = 0; i < 4; i++)
        bytes[at + (size_t)i] = (unsigned char)(word >> 8 * i);
}

/* Loads bytes with one word changed. Returns the message of the refusal, or "". */
static const char *load_with(bench *k, const unsigned char *bytes, size_t size, size_t at,
                             uint32_t word)
{
    unsigned char *const changed = must_malloc(size);
    memcpy(changed, bytes, size);
    put_word(changed, at, word);
    fixture_put_checksum(changed, size - 8);
    const cls_status status = cls_slot_load(k->sampler, 2, changed, size, NULL);
    free(changed);
    ck_assert(status == CLS_OK || status == CLS_BAD_ARGUMENT);
    return status == CLS_OK ? "" : cls_error_message();
}

/* A slot with a thinking budget or forced ids that
 * was loaded goes on as the one that was saved; also after the thinking's budget has grown while
 * ids are due, and where an earlier request of the slot had a budget. */
START_TEST(saves)
{
    static const int32_t forced[] = {3, 4, 5}, ids[] = {7, 8};
    static const uint32_t wrong[] = {0, 1, 2, 0xff, 0x7fffffff, 0x80000000, 0xffffffff};
    device *const d = fixture_device(_i);
    cls_params plain, thinks;
    size_t size;
    bench k = open_one_row(d);
    cls_params_init(&plain);
    plain.loop_max = 8;
    plain.loop_repeats = 5;
    thinks = plain;
    thinks.thinking_forced = (cls_ids){forced, 3};
    thinks.thinking_budget = 2;
    for (int kind = 0; kind < 5; kind++) { /* 1: a budget, 2: ids, 3: both, 4: ids where it was */
        begin_all(&k, kind == 1 || kind >= 3 ? &thinks : &plain);
        for (int i = 0; i < 3; i++)
            bench_step(&k);
        if (kind == 4)
            must(cls_slot_begin(k.sampler, 0, &plain, NULL, 0, ids, 2));
        if (kind == 1 || kind == 3) { /* one id was emitted: it stays the next one's turn */
            thinks.thinking_budget = 1000;
            must(cls_slot_params(k.sampler, 0, &thinks));
            thinks.thinking_budget = 2;
        }
        if (kind >= 2)
            must(cls_slot_force(k.sampler, 0, ids, 2));
        unsigned char *const bytes = slot_saved(k.sampler, d->queue, 0, &size);
        ck_assert_uint_eq(word_at(bytes, 8), 7);
        must(cls_slot_load(k.sampler, 1, bytes, size, NULL));
        expect_same_slots(&k, 0, 1, "loaded");
        must(cls_slot_copy(k.sampler, 2, 1));
        expect_same_slots(&k, 0, 2, "a fork of it");
        for (int i = 0; i < 6; i++) {
            if (i == 4)
                for (uint32_t slot = 0; slot < SLOTS; slot++)
                    must(cls_slot_rollback(k.sampler, slot, 4));
            bench_step(&k);
            const int at = i % 4;
            const int32_t expected = kind >= 2 && at < 2   ? ids[at]
                                     : kind == 3           ? forced[at - 1]
                                     : kind == 1 && at < 2 ? forced[at + 1]
                                                           : -1;
            for (uint32_t slot = 0; slot < SLOTS; slot++)
                ck_assert_msg(k.token[slot] == k.token[0] &&
                                  ((k.status[slot] & CLS_ROW_FORCED) != 0) == (expected >= 0) &&
                                  (expected < 0 || k.token[slot] == expected),
                              "%s: kind %d, token %d of slot %u: %d, status %d", d->name, kind, i,
                              slot, k.token[slot], k.status[slot]);
        }
        free(bytes);
    }

    begin_all(&k, &thinks);
    for (int i = 0; i < 3; i++)
        bench_step(&k);
    must(cls_slot_force(k.sampler, 0, ids, 2));
    unsigned char *const bytes = slot_saved(k.sampler, d->queue, 0, &size);
    const size_t n_at = size - 8 - 4 * 4, now_at = n_at - 4 * (3 + 1); /* of 3 tokens */
    ck_assert(word_at(bytes, n_at) == 2 && word_at(bytes, n_at + 4) == 3 &&
              word_at(bytes, n_at + 8) == 7 && word_at(bytes, now_at) == 1 + 2 + 1);
    ck_assert(strstr(load_with(&k, bytes, size, now_at, 6), "thinking budget is impossible"));
    ck_assert_str_eq(load_with(&k, bytes, size, now_at, 5), "");
    ck_assert(strstr(load_with(&k, bytes, size, n_at - 4, 6), "thinking budget is impossible"));
    ck_assert(strstr(load_with(&k, bytes, size, n_at, 3), "cut short"));
    ck_assert(strstr(load_with(&k, bytes, size, n_at, 1), "after the end"));
    ck_assert(strstr(load_with(&k, bytes, size, n_at, 0xffffffff), "cut short"));
    ck_assert(strstr(load_with(&k, bytes, size, n_at + 12, VOCAB), "forced id is not a token"));
    ck_assert(strstr(load_with(&k, bytes, size, 8, 6), "format 6; this library reads format 7"));
    for (size_t at = 12; at + 8 < size; at += 4) /* whatever is loaded is sampled */
        for (uint32_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            const char *const message = load_with(&k, bytes, size, at, wrong[i]);
            if (*message != '\0')
                ck_assert_msg(strstr(message, "bytes") || strstr(message, "params->"), "%s",
                              message);
            else if (at % 3 == 0)
                bench_step(&k);
        }
    free(bytes);
    bench_close(&k);
}
END_TEST

/* A slot whose text is so long that the number of its tokens would soon have no room is not loaded:
 * after the next tokens it could not be saved and loaded again. */
START_TEST(long_texts)
{
    enum { STEPS = 200, TOKENS = STEPS + 5 };
    static const uint32_t lengths[] = {TOKENS + 1, 0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff};
    device *const d = fixture_device(_i);
    size_t size, at = 0, size_2;
    bench k = open_one_row(d);
    cls_params p = default_params();
    begin_all(&k, &p);
    for (int i = 0; i < STEPS; i++)
        bench_step(&k);
    unsigned char *const bytes = slot_saved(k.sampler, d->queue, 0, &size);
    while (word_at(bytes, at) != STEPS || word_at(bytes, at + 4) != STEPS ||
           word_at(bytes, at + 8) != TOKENS || word_at(bytes, at + 12) != TOKENS)
        at += 4; /* outputs, position, length, longest length */
    for (uint32_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        put_word(bytes, at + 8, lengths[i]);
        const char *const message = load_with(&k, bytes, size, at + 12, lengths[i]);
        if (lengths[i] > 0x7fffffff) {
            ck_assert_msg(strstr(message, "history's length is impossible"), "0x%x: \"%s\"",
                          lengths[i], message);
            continue;
        }
        ck_assert_str_eq(message, "");
        unsigned char *const again = slot_saved(k.sampler, d->queue, 2, &size_2);
        must(cls_slot_load(k.sampler, 2, again, size_2, NULL));
        free(again);
    }
    free(bytes);
    bench_close(&k);
}
END_TEST

/* ----------------------------------------------------------------------------- refused */

START_TEST(refusals)
{
    static const int32_t ids[] = {1, VOCAB, -1}, zeroes[80] = {0};
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    const cls_ints one = {.host = ids}, none = {.host = NULL};
    bench k = open_one_row(d);
    cls_params p = default_params();
    must_refuse(cls_slot_force(NULL, 0, ids, 1), "sampler is NULL");
    must_refuse(cls_slot_force(k.sampler, SLOTS, ids, 1),
                "slot is 3, but the sampler has slots 0 to 2");
    must_refuse(cls_slot_force(k.sampler, 0, ids, 1), "slot 0 has no request");
    begin_all(&k, &p);
    must_refuse(cls_slot_force(k.sampler, 0, NULL, 1), "id_count is 1, but ids is NULL");
    must_refuse(cls_slot_force(k.sampler, 0, ids, 2),
                "ids[1] is 40, which is not a token of a vocabulary of 40");
    must_refuse(cls_slot_force(k.sampler, 0, ids + 2, 1), "ids[0] is -1, which is not a token");
    must(cls_slot_force(k.sampler, 0, ids, 0));
    must_refuse(accept_ints(k.sampler, d->queue, 1, 0, &one, NULL, 0, NULL, NULL),
                "per_row is 0; it must be 1 to 4096");
    must_refuse(
        accept_ints(k.sampler, d->queue, 1, CLS_MAX_ACCEPTED + 1, &one, NULL, 0, NULL, NULL),
        "per_row is 4097; it must be 1 to 4096");
    must_refuse(accept_ints(k.sampler, d->queue, 4, 1, &one, NULL, 0, NULL, NULL),
                "rows is 4; the sampler was created for 1 to 3");
    must_refuse(accept_ints(k.sampler, d->queue, 1, 2, &none, NULL, 0, NULL, NULL),
                "tokens is NULL");
    const cl_mem small = buffer_of(d, 5 * 4, NULL);
    const cls_ints too_small = {.device = {.buffer = small}};
    must_refuse(accept_ints(k.sampler, d->queue, 2, 3, &too_small, NULL, 0, NULL, NULL), "tokens");
    must(accept_ints(k.sampler, d->queue, 1, 5, &too_small, NULL, 0, NULL, NULL));
    clReleaseMemObject(small);
    p.loop_repeats = 3;
    p.loop_max = 22;
    must_refuse(cls_slot_begin(k.sampler, 0, &p, NULL, 0, NULL, 0),
                "params->loop_repeats is 3 and params->loop_max 22, but options->max_history is "
                "64: at least 66 is needed");
    p.loop_max = 21;
    must(cls_slot_begin(k.sampler, 0, &p, NULL, 0, NULL, 0));
    for (int end = 0; end < 2; end++) {
        cls_params_init(&p);
        p.thinking_forced = (cls_ids){ids, 1};
        *(end ? &p.thinking_end.ids : &p.thinking_start.ids) = zeroes;
        uint32_t *const n = end ? &p.thinking_end.count : &p.thinking_start.count;
        *n = 66;
        must_refuse(cls_slot_params(k.sampler, 0, &p),
                    end ? "params->thinking_end.count is 66, but options->max_history is 64: at "
                          "least 65 is needed"
                        : "params->thinking_start.count is 66, but options->max_history is 64: at "
                          "least 65 is needed");
        *n = 65;
        must(cls_slot_params(k.sampler, 0, &p));
    }
    p.thinking_budget = 1u << 31;
    must_refuse(cls_sampler_check(k.sampler, &p), "; it must be at most 2147483647");
    bench_close(&k);

    cls_sampler *sampler;
    cls_sampler_options o = sampler_options(VOCAB, 2);
    o.max_rows = 1;
    o.max_history = 8;
    o.no_late_compile = 1;
    o.features = CLS_FEATURE_STATE;
    fixture_features(0);
    must(cls_sampler_create(context, &o, &sampler));
    cls_params_init(&p);
    must(cls_slot_begin(sampler, 0, &p, NULL, 0, NULL, 0));
    const char *const lacks =
        "this needs CLS_FEATURE_FORCED, which the sampler's options->features lack";
    must_refuse(cls_slot_force(sampler, 0, ids, 1), lacks);
    ck_assert_uint_eq(cls_sampler_missing(sampler), CLS_FEATURE_FORCED);
    p.loop_repeats = 2;
    p.loop_max = 2;
    must_refuse(cls_slot_begin(sampler, 1, &p, NULL, 0, NULL, 0), lacks);
    cls_params_init(&p);
    p.thinking_forced = (cls_ids){ids, 1};
    must_refuse(cls_slot_params(sampler, 0, &p), lacks);
    must(cls_slot_force(sampler, 0, NULL, 0));
    cls_sampler_destroy(sampler);
    fixture_random(FEATURES);
}
END_TEST

int main(void)
{
    fixture_random(FEATURES);
    fixture_begin(ON_DEVICES);
    add_device_test(masked);
    add_device_test(as_accepted);
    add_device_test(ends);
    add_device_test(launches);
    add_device_test(accepted);
    add_device_test(saves);
    add_device_test(long_texts);
    add_device_test(refusals);
    return fixture_end();
}
