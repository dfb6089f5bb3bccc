/* SPDX-License-Identifier: MIT */
/* Proves truncated rows: every chain and limit, with sets that fit the shortlist and sets that
 * do not, and the number of launches of each. */
#include <float.h>

#include "client.h"

START_TEST(random_chains)
{
    static const uint32_t sizes[] = {1025, 31, 4099, 1024, 1, 111, 2, 1023, 2500, 32001};
    device *const d = fixture_device(_i);
    cls_context *const contexts[] = {fixture_context(d, 0, 0, 0, 0),
                                     fixture_context(d, 1u << CLS_F32, 0, 0, 16)};
    rng r = {fixture_seed()};
    for (uint32_t i = 0; i < fixture_by_size(5, 27, 120); i++) {
        const uint32_t vocab = sizes[i % fixture_by_size(2, 9, 10)];
        batch *const b = batch_new(fixture_by_size(3, 16, 24), vocab, (int)rng_below(&r, 3),
                                   vocab + rng_below(&r, 2), 0);
        batch_random(b, &r);
        if (i % 4 == 3)
            batch_mask(b, &r, i % 8 == 3 ? 50 : 5, 0);
        batch_check(b, d, i % 2 && contexts[1] && b->dtype == CLS_F32 ? contexts[1] : contexts[0],
                    0);
        batch_free(b);
    }
}
END_TEST

START_TEST(large_vocabularies)
{
    static const uint32_t sizes[] = {32000, 128256, 151936, 262144};
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 1};
    for (uint32_t i = 0; i < 4; i++) {
        batch *const b = batch_new(10, sizes[i], (int)(i % 3), 0, 0);
        batch_random(b, &r);
        batch_check(b, d, fixture_context(d, 0, 0, 0, 0), 0);
        batch_free(b);
    }
}
END_TEST

/* k around the capacity, over rows where ties and orders fill every list. */
START_TEST(around_the_capacity)
{
    static const row_kind kinds[] = {ROW_NORMAL1, ROW_ASCENDING, ROW_DESCENDING, ROW_EQUAL,
                                     ROW_TIES,    ROW_HALF,      ROW_FEW50};
    device *const d = fixture_device(_i);
    for (uint32_t list = 0; list <= 64; list += 16) {
        cls_context *const context = list == 32 || list == 48
                                         ? NULL
                                         : fixture_context(d, list ? 1u << CLS_F32 : 0, 0, 0, list);
        if (context == NULL || (fixture_size() == TEST_TINY && list == 64))
            continue;
        const cls_device_info info = context_info(context);
        const int32_t capacity = (int32_t)info.shortlist;
        batch *const b = batch_new(7 * 4, fixture_by_size(300, 2500, 2500), CLS_F32, 0, 0);
        for (uint32_t row = 0; row < b->rows; row++) {
            batch_row(b, row, kinds[row % 7], row);
            b->params[row].top_k = capacity - 1 + (int32_t)(row / 7);
            b->params[row].top_p = row % 2 ? 0.95f : 1.0f;
        }
        batch_check(b, d, context, 0);
        batch_free(b);
    }
}
END_TEST

START_TEST(launches)
{
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 0, 0, 0, 0);
    const struct {
        float temperature;
        int32_t k;
        float p, m;
        uint32_t launches;
    } table[] = {
        {0.0f, 0, 0.9f, 0.1f, 2},    {1.0f, 0, 1.0f, 0.0f, 2},    {0.8f, 10, 0.9f, 0.05f, 2},
        {0.8f, 1, 1.0f, 0.0f, 2},    {1.0f, 0, 0.9f, 0.0f, 4},    {1.0f, 0, 1.0f, 0.1f, 4},
        {1.0f, 1024, 1.0f, 0.0f, 2}, {1.0f, 1023, 1.0f, 0.0f, 4},
    };
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++) {
        const cls_device_info info = context_info(context);
        if (table[i].k == 1023 && info.shortlist >= 1023)
            continue;
        batch *const b = batch_new(2, 1024, CLS_F32, 0, 0);
        batch_row(b, 0, ROW_NORMAL1, 5);
        batch_row(b, 1, ROW_NORMAL1, 6);
        b->params[1].temperature = table[i].temperature;
        b->params[1].top_k = table[i].k;
        b->params[1].top_p = table[i].p;
        b->params[1].min_p = table[i].m;
        batch_check(b, d, context, 0);
        ck_assert_msg(b->launches == table[i].launches, "%s: %u launches, not %u",
                      batch_words(b, 1), b->launches, table[i].launches);
        batch_free(b);
    }
}
END_TEST

int main(void)
{
    fixture_random(0);
    fixture_begin(ON_DEVICES);
    add_device_test(random_chains);
    if (fixture_size() == TEST_FULL)
        add_device_test(large_vocabularies);
    add_device_test(around_the_capacity);
    add_device_test(launches);
    return fixture_end();
}
