/* SPDX-License-Identifier: MIT */
/* Random rows, and lists between them. */
#include "vectors.h"

/* Returns a probability from 2^-n to 1, or one near 1. */
static float next_probability(sequence *s, uint32_t n)
{
    const float x = (float)(1 + next_below(s, 1u << 20)) * 0x1p-20f;
    return next_is_one_in(s, 3) ? 1.0f - x * 0x1p-12f
                                : x * float_of((127 - next_below(s, n)) << 23);
}

static float next_temperature(sequence *s)
{
    static const float ends[] = {0.0f, 0x1.4f8b58p-17f, 1e-4f, 0.01f, 100.0f, 1e+30f, 3e+38f, 1.0f};
    return next_is_one_in(s, 3) ? ends[next_below(s, 8)]
                                : (float)(1 + next_below(s, 4095)) * 0x1p-11f;
}

static void random_chain(sequence *s, vector_row *row)
{
    row->chain = (int32_t)next_below(s, 4);
    for (uint8_t i = 0; row->chain == CLS_CHAIN_CUSTOM && i < 4; i++) {
        const uint32_t j = next_below(s, i + 1u);
        row->stages[i] = row->stages[j];
        row->stages[j] = (uint8_t)(i + 1);
    }
}

static vector_row random_row(sequence *s, uint32_t draws)
{
    vector_row row = {.name = "random", .draws = draws};
    const uint32_t size = next_below(s, 64);
    row.vocab = size < 24   ? 1 + next_below(s, 12)
                : size < 60 ? 1 + next_below(s, 400)
                : size < 63 ? 1000 + next_below(s, 50)
                            : 1 + next_below(s, VECTOR_MOST);
    row.kind = (row_kind)next_below(s, next_is_one_in(s, 10) ? ROW_KINDS : ROW_NOTHING);
    random_chain(s, &row);
    row.temperature = next_temperature(s);
    row.top_k = next_is_one_in(s, 2) ? (int32_t)next_below(s, row.vocab + 2) - 1 : 0;
    row.top_p = next_is_one_in(s, 2) ? next_probability(s, 6) : 1.0f;
    row.min_p = next_is_one_in(s, 2) ? next_probability(s, 30) : 0.0f;
    row.min_keep = next_is_one_in(s, 4) ? next_below(s, 10) : 1;
    row.masked = next_is_one_in(s, 4);
    return row;
}

int write_random(FILE *f, uint64_t seed, uint32_t n, uint32_t draws)
{
    sequence s = {seed};
    for (uint32_t i = 0; i < n; i++) {
        const vector_row row = random_row(&s, draws);
        if (!write_row(f, &row, &s) || (i % 10 == 0 && !write_list(f, "random", 64, draws, &s)))
            return 0;
    }
    return 1;
}
