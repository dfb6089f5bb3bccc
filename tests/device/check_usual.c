/* SPDX-License-Identifier: MIT */
/* Proves the steps that most callers need, with the fewest compiled programs, against the
 * host: greedy, plain and top-k rows of float32 with top-p and min-p; and their kept sets, whose
 * loops must not exceed what a device allows. It is short enough for compilers that need a minute
 * for one kernel (llvmpipe). */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "inputs.h"

enum { ROWS = 12, VOCAB = 5003, STEPS = 4 };

static void parameters(uint32_t row, cls_params *p)
{
    static const float temperatures[] = {0.0f, 1.0f, 0.7f, 1.6f};
    cls_params_init(p);
    p->temperature = temperatures[row % 4];
    p->seed = 77;
    p->stream = row;
    if (row < 4) /* no truncation */
        return;
    p->top_k = row < 8 ? 5 : 200;
    p->top_p = row % 3 == 0 ? 1.0f : 0.8f;
    p->min_p = row % 2 == 0 ? 0.0f : 0.03f;
}

/* ids: [VOCAB], gets the kept set. */
static int32_t expected(const float *logits, const cls_params *p, uint32_t position, int32_t *ids)
{
    cls_host_result result = {.kept_ids = ids, .kept_capacity = VOCAB};
    cls_host_row row = host_row(logits, VOCAB, p);
    row.position = position;
    must(cls_host_sample(&row, &result));
    return result.token;
}

START_TEST(usual)
{
    device *const d = fixture_device(_i);
    rng r = {fixture_seed()};
    cls_params params[ROWS];
    float *const logits = must_malloc(sizeof(float) * ROWS * VOCAB);
    int32_t *const ids = must_malloc(sizeof(int32_t) * ROWS * VOCAB);
    for (uint32_t i = 0; i < ROWS * VOCAB; i++) /* eighths: many ties */
        logits[i] = (float)rng_below(&r, 129) * 0.125f - 8.0f;
    cls_sampler_options o = sampler_options(VOCAB, ROWS);
    o.dtypes = 1u << CLS_F32;
    o.features = CLS_FEATURE_SHORTLIST | CLS_FEATURE_KEPT_SETS;
    bench b = bench_open(d, &o, logits);
    for (uint32_t row = 0; row < ROWS; row++) {
        parameters(row, &params[row]);
        must(cls_slot_begin(b.sampler, row, &params[row], NULL, 0, NULL, 0));
    }
    const cl_mem sets = buffer_of(d, sizeof(int32_t) * ROWS * VOCAB, NULL);
    cls_outputs outputs;
    cls_outputs_init(&outputs);
    outputs.kept_set.capacity = VOCAB;
    outputs.kept_set.ids.buffer = sets;
    for (uint32_t i = 0; i < STEPS; i++) {
        int32_t kept[VOCAB];
        b.step.outputs = i % 2 ? &outputs : NULL;
        bench_step(&b);
        buffer_read(d, sets, sizeof(int32_t) * ROWS * VOCAB, ids);
        for (uint32_t row = 0; row < ROWS; row++) {
            const int32_t should = expected(logits + (size_t)row * VOCAB, &params[row], i, kept);
            ck_assert_msg(b.token[row] == should, "%s: step %u, row %u: %d, not %d", d->name, i,
                          row, b.token[row], should);
            ck_assert_msg(i % 2 == 0 || memcmp(ids + (size_t)row * VOCAB, kept, sizeof kept) == 0,
                          "%s: step %u, row %u: another kept set", d->name, i, row);
        }
    }
    bench_close(&b);
    clReleaseMemObject(sets);
    free(logits);
    free(ids);
}
END_TEST

int main(void)
{
    fixture_begin(ON_DEVICES);
    add_device_test(usual);
    return fixture_end();
}
