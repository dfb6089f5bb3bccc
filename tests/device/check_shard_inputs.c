/* SPDX-License-Identifier: MIT */
/* Proves that shards give the tokens and statuses of an unsharded sampler with every input of a
 * step: maps on the host and on the device, random bits, masks, biases, deferred steps; and on
 * out-of-order queues, in several OpenCL contexts, and with shards of different shapes. */
#include <string.h>

#include "twin.h"

enum { STEPS = 3 };

enum { VOCAB = 2500, SHARDS = 3 };
static const uint32_t borders_of_inputs[] = {0, 1000, 1025, VOCAB};

static batch *usual_batch(rng *r, int32_t most)
{
    batch *const b = batch_new(TWIN_KINDS, VOCAB, CLS_F32, 0, 0);
    b->history = 20;
    for (uint32_t row = 0; row < b->rows; row++) {
        batch_row(b, row, row % 2 ? ROW_LANGUAGE : ROW_NORMAL3, rng_bits(r));
        twin_params(&b->params[row], most == 0 ? row : row % 2 ? 4 : 9, VOCAB);
        if (most > 0) { /* all requests are bounded by top-k */
            b->params[row].top_k = row == 0 ? 1 : 1 + (int32_t)rng_below(r, (uint32_t)most);
            b->params[row].temperature = 2.0f;
        }
    }
    return b;
}

/* Opens a twin of usual rows. */
static void open_usual(twin *t, device *d, int32_t most, uint32_t features, const char *where,
                       rng *r)
{
    twin_open(t, d, usual_batch(r, most),
              &(twin_setup){.n = SHARDS, .borders = borders_of_inputs, .features = features},
              where);
}

static void close_usual(twin *t)
{
    batch *const b = t->b;
    twin_close(t);
    batch_free(b);
}

static void steps(twin *t)
{
    for (uint32_t i = 0; i < STEPS; i++)
        twin_step(t);
}

/* Maps of slots, of logits, of positions and of draws, on the host or on the device. Some rows are
 * skipped, and some requests stop. */
START_TEST(maps)
{
    rng r = {fixture_seed() + 702};
    for (uint32_t i = 0; i < 16; i++) {
        const uint32_t rows = TWIN_KINDS;
        const int on_device = (int)(i & 1), bounded = (int)(i >> 1 & 1), which = (int)(i >> 2);
        int32_t map[TWIN_KINDS];
        uint32_t skipped = 0, stopped = 0;
        twin t;
        open_usual(&t, fixture_device(_i), bounded ? 60 : 0, 0, "maps", &r);
        for (uint32_t row = 0; row < rows; row++) {
            cls_params p = t.b->params[row];
            const int32_t stop = (int32_t)rng_below(&r, VOCAB);
            map[row] = which == 0 ? (int32_t)((row * 7 + 3) % rows)
                                  : (int32_t)rng_below(&r, which == 1 ? rows : 1u << 20);
            if (which < 2 && row % 6 == 5)
                map[row] = -1;
            p.max_tokens = row % 4 == 0 ? 2 : 0;
            p.stop_ids = (cls_ids){&stop, 1};
            twin_each(&t, s, cls_slot_begin(s->sampler, row, &p, NULL, 0, NULL, 0));
        }
        for (uint32_t k = 0; k < t.sides; k++) {
            twin_side *const s = &t.side[k];
            cls_ints ints = {.host = map};
            if (on_device)
                ints = (cls_ints){.device.buffer = twin_buffer(s, sizeof map, map)};
            if (which == 0)
                s->step.slots = ints;
            else if (which == 1)
                s->step.logits_map = ints;
            else if (which == 2)
                s->step.positions = ints;
            else
                s->step.draws = ints;
        }
        steps(&t);
        for (uint32_t row = 0; row < rows; row++) {
            skipped += (twin_status(&t, row) & CLS_ROW_SKIPPED) != 0;
            stopped += (twin_status(&t, row) & CLS_ROW_STOPPED) != 0;
        }
        ck_assert_uint_ge(stopped, 3);
        ck_assert(which >= 2 || skipped > stopped);
        close_usual(&t);
    }
}
END_TEST

/* A device map that names no slot, or no row. */
START_TEST(impossible_maps)
{
    rng r = {fixture_seed() + 703};
    for (uint32_t i = 0; i < 4; i++) {
        int32_t map[TWIN_KINDS];
        twin t;
        open_usual(&t, fixture_device(_i), i % 2 ? 60 : 0, 0, "impossible maps", &r);
        for (int32_t row = 0; row < TWIN_KINDS; row++)
            map[row] = row % 5 == 1   ? 2 * TWIN_KINDS
                       : row % 5 == 2 ? TWIN_KINDS + row /* without a request */
                       : row % 5 == 3 ? INT32_MIN
                                      : row;
        for (uint32_t k = 0; k < t.sides; k++) {
            twin_side *const s = &t.side[k];
            const cls_ints ints = {.device.buffer = twin_buffer(s, sizeof map, map)};
            *(i < 2 ? &s->step.slots : &s->step.logits_map) = ints;
        }
        steps(&t);
        ck_assert_int_eq(twin_status(&t, 1), CLS_ROW_NO_SLOT);
        close_usual(&t);
    }
}
END_TEST

START_TEST(random_bits)
{
    rng r = {fixture_seed() + 704};
    uint64_t bits[TWIN_KINDS];
    twin t;
    for (uint32_t row = 0; row < TWIN_KINDS; row++)
        bits[row] = row % 3 == 0 ? 0 : row % 3 == 1 ? UINT64_MAX : rng_bits(&r);
    open_usual(&t, fixture_device(_i), 0, 0, "random bits", &r);
    for (uint32_t k = 0; k < t.sides; k++)
        t.side[k].step.random_bits.buffer = twin_buffer(&t.side[k], sizeof bits, bits);
    steps(&t);
    close_usual(&t);
}
END_TEST

/* Masks of both kinds, on the host and on the device, with a map; some allow the tokens of one
 * shard only, and some none. */
START_TEST(masks)
{
    rng r = {fixture_seed() + 705};
    static unsigned char bytes[TWIN_KINDS][VOCAB];
    static uint32_t words[TWIN_KINDS][(VOCAB + 31) / 32];
    int32_t map[TWIN_KINDS];
    memset(words, 0, sizeof words);
    for (uint32_t row = 0; row < TWIN_KINDS; row++) {
        const uint32_t shard = row % SHARDS;
        map[row] = row % 7 == 6 ? -1 : (int32_t)rng_below(&r, TWIN_KINDS);
        for (uint32_t i = 0; i < VOCAB; i++) {
            const int own = i >= borders_of_inputs[shard] && i < borders_of_inputs[shard + 1];
            bytes[row][i] = (unsigned char)(row % 4 == 0   ? own
                                            : row % 4 == 1 ? rng_below(&r, 2) == 0
                                            : row == 2     ? 0
                                                           : rng_below(&r, 100) == 0);
            words[row][i / 32] |= (uint32_t)bytes[row][i] << i % 32;
        }
    }
    for (uint32_t i = 0; i < 8; i++) {
        const int packed = (int)(i & 1), on_host = (int)(i >> 1 & 1);
        twin t;
        open_usual(&t, fixture_device(_i), i < 4 ? 0 : 60, CLS_FEATURE_MASK, "masks", &r);
        for (uint32_t k = 0; k < t.sides; k++) {
            cls_mask *const mask = &t.side[k].step.mask;
            const void *const data = packed ? (const void *)words : (const void *)bytes;
            mask->kind = packed ? CLS_MASK_PACKED : CLS_MASK_BOOL;
            mask->width = packed ? (VOCAB + 31) / 32 : VOCAB;
            mask->row_map.host = map;
            if (on_host)
                mask->host = data;
            else
                mask->words.buffer =
                    twin_buffer(&t.side[k], packed ? sizeof words : sizeof bytes, data);
        }
        steps(&t);
        close_usual(&t);
    }
}
END_TEST

START_TEST(biases)
{
    rng r = {fixture_seed() + 706};
    for (uint32_t i = 0; i < 4; i++) {
        batch *const b = usual_batch(&r, i < 2 ? 0 : 60);
        twin t;
        batch_bias(b, &r, (int)rng_below(&r, 3));
        b->forces = i % 3 == 0;
        batch_requests(b, &r);
        twin_open(&t, fixture_device(_i), b,
                  &(twin_setup){.n = SHARDS, .borders = borders_of_inputs}, "biases");
        steps(&t);
        close_usual(&t);
    }
}
END_TEST

/* Deferred steps, whose tokens are accepted afterwards; with several rows of one slot. */
START_TEST(deferred)
{
    rng r = {fixture_seed() + 707};
    for (uint32_t i = 0; i < 4; i++) {
        int32_t slots[TWIN_KINDS], draws[TWIN_KINDS], chosen[TWIN_KINDS];
        twin t;
        open_usual(&t, fixture_device(_i), i % 2 ? 60 : 0, CLS_FEATURE_ACCEPT, "deferred", &r);
        for (int32_t row = 0; row < TWIN_KINDS; row++) {
            slots[row] = i < 2 ? row : row / 2;
            draws[row] = i < 2 ? 0 : row % 2;
        }
        for (uint32_t k = 0; k < t.sides; k++) {
            cls_step *const step = &t.side[k].step;
            step->defer_accept = 1;
            step->slots.host = slots;
            step->draws.host = draws;
            if (i >= 2)
                t.side[k].outputs.latest.buffer = NULL; /* two rows of one slot */
        }
        for (uint32_t step = 0; step < 4; step++) {
            twin_step(&t);
            uint32_t n = i < 2 ? TWIN_KINDS : TWIN_KINDS / 2;
            for (uint32_t slot = 0; slot < n; slot++) {
                const uint32_t row = i < 2 ? slot : 2 * slot + rng_below(&r, 2);
                chosen[slot] = rng_below(&r, 4) ? twin_token(&t, row) : 7;
            }
            const cls_ints ids = {.host = chosen};
            twin_each(&t, s, accept_ints(s->sampler, s->queue, n, 1, &ids, NULL, 0, NULL, NULL));
        }
        close_usual(&t);
    }
}
END_TEST

/* ------------------------------------------------------------ queues and contexts */

START_TEST(out_of_order)
{
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 708};
    cl_command_queue queues[1 + SHARDS];
    twin t;
    open_usual(&t, d, 0, 0, "out of order", &r);
    for (uint32_t k = 0; k < t.sides; k++) {
        queues[k] = queue_out_of_order(d);
        queues[k] = queues[k] != NULL ? queues[k] : queue_in_order(d);
        t.side[k].queue = queues[k];
    }
    for (uint32_t i = 0; i < 4; i++)
        steps(&t);
    close_usual(&t);
    for (uint32_t k = 0; k <= SHARDS; k++)
        clReleaseCommandQueue(queues[k]);
}
END_TEST

/* Steps of different requests, which are all enqueued and merged before the device begins with the
 * first one. */
START_TEST(steps_ahead)
{
    enum { ROWS = TWIN_KINDS / 4 };
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 711};
    int32_t map[ROWS];
    cls_shard *shards[SHARDS];
    twin t;
    if (is_oclgrind(d))
        return;
    const cl_event gate = user_event(d->context);
    const twin_setup setup = {.n = SHARDS, .borders = borders_of_inputs, .on_device = 1};
    twin_open(&t, d, usual_batch(&r, 60), &setup, "steps ahead");
    for (uint32_t k = 0; k < t.sides; k++) {
        t.side[k].step.rows = ROWS;
        t.side[k].step.slots.host = map;
    }
    for (uint32_t k = 0; k < SHARDS; k++)
        shards[k] = t.side[1 + k].shard;
    for (uint32_t i = 0; i < TWIN_KINDS; i++) {
        map[i % ROWS] = (int32_t)i;
        if (i % ROWS != ROWS - 1)
            continue;
        for (uint32_t k = 1; k < t.sides; k++)
            must(cls_shard_sample(t.side[k].shard, t.side[k].queue, &t.side[k].step, i < ROWS,
                                  i < ROWS ? &gate : NULL));
        must(cls_shard_merge_all(shards, SHARDS, NULL));
    }
    must_cl(clSetUserEventStatus(gate, CL_COMPLETE));
    for (uint32_t i = 0; i < TWIN_KINDS - ROWS; i++) {
        twin_side *const whole = &t.side[0];
        map[i % ROWS] = (int32_t)i;
        if (i % ROWS == ROWS - 1)
            must(cls_sample(whole->sampler, whole->queue, &whole->step, 0, NULL, NULL));
    }
    for (uint32_t i = 0; i < ROWS; i++)
        map[i] = (int32_t)(TWIN_KINDS - ROWS + i);
    twin_compare(&t);
    close_usual(&t);
    clReleaseEvent(gate);
}
END_TEST

/* Each shard on an OpenCL context of its own. */
START_TEST(contexts)
{
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 709};
    static device others[2];
    cl_int code;
    twin t;
    for (uint32_t k = 0; k < 2; k++) {
        others[k] = *d;
        others[k].n_cached = 0;
        others[k].context = clCreateContext(NULL, 1, &d->id, NULL, NULL, &code);
        must_cl(code);
        others[k].queue = clCreateCommandQueue(others[k].context, d->id, 0, &code);
        must_cl(code);
    }
    device *const devices[1 + SHARDS] = {d, &others[0], d, &others[1]};
    batch *const b = usual_batch(&r, 0);
    twin_open(&t, d, b,
              &(twin_setup){.n = SHARDS, .borders = borders_of_inputs, .devices = devices},
              "several contexts");
    steps(&t);
    close_usual(&t);
    for (uint32_t k = 0; k < 2; k++) {
        for (unsigned i = 0; i < others[k].n_cached; i++)
            cls_context_destroy(others[k].cached[i]);
        clReleaseCommandQueue(others[k].queue);
        clReleaseContext(others[k].context);
    }
}
END_TEST

/* Shards of different work-groups, vectors and shortlists. */
START_TEST(shapes)
{
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 710};
    cls_context *const usual = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    cls_context *shaped[1 + SHARDS] = {usual, fixture_context(d, 1u << CLS_F32, 7, 0, 0),
                                       fixture_context(d, 1u << CLS_F32, 64, 0, 0),
                                       fixture_context(d, 1u << CLS_F32, 0, 4, 0)};
    for (uint32_t i = 0; i <= SHARDS; i++)
        shaped[i] = shaped[i] != NULL ? shaped[i] : usual;
    for (uint32_t i = 0; i < 2; i++) {
        batch *const b = usual_batch(&r, 0);
        twin t;
        if (i == 1)
            batch_requests(b, &r);
        twin_open(&t, d, b,
                  &(twin_setup){.n = SHARDS, .borders = borders_of_inputs, .contexts = shaped},
                  "several shapes");
        steps(&t);
        close_usual(&t);
    }
}
END_TEST

int main(void)
{
    fixture_random(CLS_FEATURE_MASK | CLS_FEATURE_BIAS | CLS_FEATURE_ACCEPT);
    fixture_begin(ON_DEVICES);
    add_device_test(maps);
    add_device_test(impossible_maps);
    add_device_test(random_bits);
    add_device_test(masks);
    add_device_test(biases);
    add_device_test(deferred);
    add_device_test(out_of_order);
    add_device_test(steps_ahead);
    add_device_test(contexts);
    add_device_test(shapes);
    return fixture_end();
}
