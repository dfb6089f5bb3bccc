/* SPDX-License-Identifier: MIT */
/* Proves that the search over the full row finds the sets that the reference finds by sorting,
 * on rows that need the search and on rows where it is forced. */
#include "client.h"

/* The very rows that the shortlist's test has. */
START_TEST(forced)
{
    static const uint32_t sizes[] = {1025, 31, 4099, 1024, 1, 111, 2, 1023, 2500, 32001};
    device *const d = fixture_device(_i);
    rng r = {fixture_seed()};
    for (uint32_t i = 0; i < fixture_by_size(2, 27, 120); i++) {
        const uint32_t vocab = sizes[i % fixture_by_size(2, 9, 10)];
        batch *const b = batch_new(fixture_by_size(3, 16, 24), vocab, (int)rng_below(&r, 3),
                                   vocab + rng_below(&r, 2), 0);
        batch_random(b, &r);
        if (i % 4 == 3)
            batch_mask(b, &r, i % 8 == 3 ? 50 : 5, 0);
        batch_check(b, d, fixture_context(d, 0, 0, 0, 0), 1);
        batch_free(b);
    }
}
END_TEST

/* Cuts that lie among thousands of equal values, in flat rows, deep in tails. */
START_TEST(hard_cuts)
{
    static const row_kind kinds[] = {ROW_NORMAL1,   ROW_TIES,       ROW_EQUAL, ROW_SPREAD,
                                     ROW_ASCENDING, ROW_DESCENDING, ROW_TAIL,  ROW_SUBNORMAL,
                                     ROW_OFFSETS,   ROW_HUGE,       ROW_BITS,  ROW_LANGUAGE};
    static const float top_ps[] = {0.9f, 0.5f, 0.999f, 1.0f - 1e-7f, 0.05f};
    device *const d = fixture_device(_i);
    cls_context *const contexts[] = {fixture_context(d, 0, 0, 0, 0),
                                     fixture_context(d, 1u << CLS_F32, 0, 0, 16)};
    const uint32_t sizes[] = {4099, 2048, 32000, 128256, 151936};
    rng r = {fixture_seed() + 1};
    for (uint32_t i = 0; i < fixture_by_size(2, 8, 15); i++) {
        const uint32_t vocab =
            fixture_size() == TEST_TINY ? 600 : sizes[i % fixture_by_size(1, 2, 5)];
        batch *const b = batch_new(fixture_by_size(4, 12, 12), vocab, (int)(i % 3), 0, 0);
        for (uint32_t row = 0; row < b->rows; row++) {
            batch_row(b, row, kinds[(row + 4 * i) % 12], rng_bits(&r));
            cls_params *const p = &b->params[row];
            p->chain = (int32_t)rng_below(&r, 3);
            p->temperature = rng_below(&r, 2) ? 1.0f : 1.7f;
            p->top_p = top_ps[rng_below(&r, 5)];
            p->min_p = rng_below(&r, 4) ? 0.0f : 1e-4f;
            p->top_k = rng_below(&r, 3) ? 0 : (int32_t)(1 + rng_below(&r, vocab));
        }
        batch_check(b, d, i % 2 && contexts[1] && b->dtype == CLS_F32 ? contexts[1] : contexts[0],
                    0);
        batch_free(b);
    }
}
END_TEST

/* One row, every cut: k from 1 to all, then top-p between each two of them. */
START_TEST(every_cut)
{
    device *const d = fixture_device(_i);
    const uint32_t rows = 128, vocab = 600;
    for (int kind = 0; kind < 2; kind++) {
        for (uint32_t start = 1; start < vocab; start += rows) {
            batch *const b = batch_new(rows, vocab, CLS_F32, 0, 0);
            for (uint32_t row = 0; row < rows; row++) {
                batch_row(b, row, kind ? ROW_TIES : ROW_NORMAL3, 9);
                b->params[row].position = start + row;
                b->params[row].top_k = row % 2 ? (int32_t)(start + row) : 0;
                b->params[row].top_p = row % 2 ? 1.0f : (float)(start + row) / 730.0f;
            }
            batch_check(b, d, fixture_context(d, 0, 0, 0, 0), 1);
            batch_free(b);
        }
    }
}
END_TEST

int main(void)
{
    fixture_begin(ON_DEVICES);
    add_device_test(forced);
    add_device_test(hard_cuts);
    if (fixture_size() != TEST_TINY)
        add_device_test(every_cut);
    return fixture_end();
}
