/* SPDX-License-Identifier: MIT */
/* What most steps ask, with the least that is compiled for it: greedy, plain and
 * top-k rows with top-p and min-p, of float32, against the host. Short enough for
 * compilers that take a minute for one kernel (llvmpipe). */
#include <stdlib.h>

#include "fixture.h"
#include "inputs.h"

enum { ROWS = 12, VOCAB = 5003, STEPS = 4 };

static void parameters(uint32_t row, cls_params *p)
{
    static const float temperatures[] = {0.0f, 1.0f, 0.7f, 1.6f};
    cls_params_default(p, sizeof *p);
    p->temperature = temperatures[row % 4];
    p->seed = 77;
    p->stream = row;
    if (row < 4) /* no truncation */
        return;
    p->top_k = row < 8 ? 5 : 200;
    p->top_p = row % 3 == 0 ? 1.0f : 0.8f;
    p->min_p = row % 2 == 0 ? 0.0f : 0.03f;
}

static int32_t expected(const float *logits, const cls_params *p, uint32_t position)
{
    cls_host_row row;
    cls_host_result result = {.struct_size = sizeof result};
    cls_host_row_default(&row, sizeof row);
    row.logits = logits;
    row.dtype = CLS_F32;
    row.vocab = VOCAB;
    row.params = p;
    row.position = position;
    must(cls_host_sample(&row, &result));
    return result.token;
}

START_TEST(usual)
{
    device *const d = fixture_device(_i);
    rng r = {fixture_seed()};
    cls_sampler_options o;
    cls_sampler *sampler;
    cls_params params[ROWS];
    float *const logits = malloc(sizeof(float) * ROWS * VOCAB);
    ck_assert_ptr_nonnull(logits);
    for (uint32_t i = 0; i < ROWS * VOCAB; i++) /* eighths: many ties */
        logits[i] = (float)rng_below(&r, 129) * 0.125f - 8.0f;
    cls_sampler_options_default(&o, sizeof o);
    o.vocab = VOCAB;
    o.max_rows = ROWS;
    o.dtypes = 1u << CLS_F32;
    must(cls_sampler_create(fixture_context(d, 1u << CLS_F32, 0, 0, 0), &o, &sampler));
    for (uint32_t row = 0; row < ROWS; row++) {
        parameters(row, &params[row]);
        must(cls_slot_begin(sampler, row, &params[row], NULL, 0, NULL, 0));
    }
    const cl_mem in = buffer_of(d, sizeof(float) * ROWS * VOCAB, logits),
                 out = buffer_of(d, sizeof(int32_t) * ROWS, NULL);
    cls_step step;
    cls_step_default(&step, sizeof step);
    step.rows = ROWS;
    step.logits.buffer = in;
    step.tokens.buffer = out;
    for (uint32_t i = 0; i < STEPS; i++) {
        int32_t tokens[ROWS];
        must(cls_sample(sampler, d->queue, &step, 0, NULL, NULL));
        buffer_read(d, out, sizeof tokens, tokens);
        for (uint32_t row = 0; row < ROWS; row++) {
            const int32_t should = expected(logits + (size_t)row * VOCAB, &params[row], i);
            ck_assert_msg(tokens[row] == should, "%s: step %u, row %u: %d, not %d", d->name, i, row,
                          tokens[row], should);
        }
    }
    cls_sampler_destroy(sampler);
    clReleaseMemObject(in);
    clReleaseMemObject(out);
    free(logits);
}
END_TEST

static Suite *make(void)
{
    Suite *const s = suite_create("usual");
    TCase *const t = tcase_create("usual");
    tcase_set_timeout(t, 0);
    add_device_test(t, usual);
    suite_add_tcase(s, t);
    return s;
}

int main(void) { return fixture_run(make, 1); }
