/* SPDX-License-Identifier: MIT */
/* Proves rows that the survey alone decides, greedy ones and those that nothing truncates:
 * maxima, masses and statuses, at every index and in every type. */
#include "client.h"

static const uint32_t sizes[] = {1,    2,     31,    111,    1023,   1024,  1025,
                                 4099, 32000, 32001, 128256, 151936, 262144};

static uint32_t n_sizes(void) { return fixture_by_size(7, 8, sizeof sizes / sizeof *sizes); }

START_TEST(kinds_and_sizes)
{
    static const float temperatures[] = {1.0f, 0.0f, 0.8f, 1e-4f, 100.0f, 9.9e-6f};
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 0, 0, 0, 0);
    const test_size size = fixture_size();
    rng r = {fixture_seed()};
    for (uint32_t i = 0; i < n_sizes(); i += size == TEST_TINY ? 2 : 1) {
        const int dtype = (int)(i % 3);
        const uint32_t rows = size == TEST_TINY ? 6 : sizes[i] > 100000 ? 12 : ROW_KINDS;
        batch *const b = batch_new(rows, sizes[i], dtype, i % 2 ? sizes[i] + 7 * i : 0,
                                   i % 5 * dtype_size(dtype));
        for (uint32_t row = 0; row < rows; row++) {
            batch_row(b, row,
                      rows == ROW_KINDS ? (row_kind)row : (row_kind)rng_below(&r, ROW_KINDS),
                      rng_bits(&r));
            b->params[row].temperature = temperatures[rng_below(&r, 6)];
        }
        batch_check(b, d, context, 0);
        ck_assert_msg(b->launches == 2, "%u launches for rows that nothing truncates", b->launches);
        batch_free(b);
    }
}
END_TEST

START_TEST(masked_rows)
{
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 0, 0, 0, 0);
    rng r = {fixture_seed() + 1};
    static const uint32_t percents[] = {50, 0, 10, 1, 99, 100};
    for (uint32_t i = 0; i < fixture_by_size(2, 6, 12); i++) {
        const uint32_t vocab = i % 6 == 4 ? fixture_by_size(33, 4099, 32001) : i % 2 ? 1025 : 111;
        batch *const b = batch_new(fixture_by_size(4, 16, 16), vocab, (int)(i % 3), 0, 0);
        for (uint32_t row = 0; row < b->rows; row++) {
            batch_row(b, row, (row_kind)rng_below(&r, ROW_KINDS), rng_bits(&r));
            b->params[row].temperature = row % 3 ? 1.0f : 0.0f;
        }
        batch_mask(b, &r, percents[i % 6], i % 4 == 3 ? (vocab + 63) / 64 : 0);
        batch_check(b, d, context, 0);
        batch_free(b);
    }
}
END_TEST

/* The largest value at every index of a vector, a tile and a row. */
START_TEST(every_place)
{
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 0, 0, 0, 0);
    const uint32_t vocab = fixture_by_size(70, 1100, 1100), rows = fixture_by_size(14, 110, 110);
    for (uint32_t start = 0; start < vocab; start += rows) {
        batch *const b = batch_new(rows, vocab, CLS_F32, vocab + 1, 4);
        for (uint32_t row = 0; row < rows; row++) {
            batch_row(b, row, ROW_EQUAL, 1);
            b->params[row].temperature = 0.0f;
            float *const values = b->values + (size_t)row * vocab;
            values[start + row] = 1.0f;
            values[vocab - 1] = 1.0f; /* a tie further on */
            for (uint32_t i = 0; i < vocab; i++)
                dtype_encode(CLS_F32, values[i], b->data + 4 + ((size_t)row * b->stride + i) * 4);
        }
        batch_check(b, d, context, 0);
        for (uint32_t row = 0; row < rows; row++)
            ck_assert_int_eq(b->token[row], (int32_t)(start + row));
        batch_free(b);
    }
}
END_TEST

int main(void)
{
    fixture_features(CLS_FEATURE_MASK);
    fixture_begin(ON_DEVICES);
    add_device_test(kinds_and_sizes);
    add_device_test(masked_rows);
    add_device_test(every_place);
    return fixture_end();
}
