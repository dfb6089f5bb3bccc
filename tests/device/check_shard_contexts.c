/* SPDX-License-Identifier: MIT */
/* Proves that shards give the tokens and statuses of an unsharded sampler where no text of calls
 * can put them: with steps that are enqueued before the device begins, in several OpenCL contexts,
 * and with shards of different shapes. shards.run has every input of a step. */
#include <string.h>

#include "twin.h"

enum { STEPS = 3 };

enum { VOCAB = 2500, SHARDS = 3 };
static const uint32_t borders_of_inputs[] = {0, 1000, 1025, VOCAB};

static batch *usual_batch(rng *r, int32_t most)
{
    batch *const b = batch_new(PARAMS_KINDS, VOCAB, CLS_F32, 0, 0);
    b->history = 20;
    for (uint32_t row = 0; row < b->rows; row++) {
        batch_row(b, row, row % 2 ? ROW_LANGUAGE : ROW_NORMAL3, rng_bits(r));
        batch_kind(b, row, most == 0 ? row : row % 2 ? 4 : 9);
        if (most > 0) { /* all requests are bounded by top-k */
            b->params[row].top_k = row == 0 ? 1 : 1 + (int32_t)rng_below(r, (uint32_t)most);
            b->params[row].temperature = 2.0f;
        }
    }
    return b;
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

/* Steps of different requests, which are all enqueued and merged before the device begins with the
 * first one. */
START_TEST(steps_ahead)
{
    enum { ROWS = PARAMS_KINDS / 4 };
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
    for (uint32_t i = 0; i < PARAMS_KINDS; i++) {
        map[i % ROWS] = (int32_t)i;
        if (i % ROWS != ROWS - 1)
            continue;
        for (uint32_t k = 1; k < t.sides; k++)
            must(cls_shard_sample(t.side[k].shard, t.side[k].queue, &t.side[k].step, i < ROWS,
                                  i < ROWS ? &gate : NULL));
        must(cls_shard_merge_all(shards, SHARDS, NULL));
    }
    must_cl(clSetUserEventStatus(gate, CL_COMPLETE));
    for (uint32_t i = 0; i < PARAMS_KINDS - ROWS; i++) {
        twin_side *const whole = &t.side[0];
        map[i % ROWS] = (int32_t)i;
        if (i % ROWS == ROWS - 1)
            must(cls_sample(whole->sampler, whole->queue, &whole->step, 0, NULL, NULL));
    }
    for (uint32_t i = 0; i < ROWS; i++)
        map[i] = (int32_t)(PARAMS_KINDS - ROWS + i);
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
            batch_prompts(b, &r);
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
    add_device_test(steps_ahead);
    add_device_test(contexts);
    add_device_test(shapes);
    return fixture_end();
}
