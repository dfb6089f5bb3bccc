/* SPDX-License-Identifier: MIT */
/* The logits, masks and biases of the self-test. A hash makes them: multiples of 1/32 with at most
 * eight significant bits, which float32, float16 and bfloat16 hold exactly. */
#include "selftest/selftest.h"

enum { NOT_A_NUMBER = 100000, MINUS_INFINITY, PLUS_INFINITY };

/* What a row has one of is at the last token of a max tile: in the last lane of the last vector of
 * a share, which a fault may leave out. Every row is long enough. */
enum { LAST_OF_MAX_TILE = 959 };

static uint32_t mix(uint32_t row, uint32_t token)
{
    uint32_t x = row * 0x9e3779b1u ^ (token + 1u) * 0x85ebca6bu;
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    x = (x ^ x >> 12) * 0x297a2d39u;
    return x ^ x >> 15;
}

/* Returns a logit in eighths: one more unit for each leading zero of the hash, so that half as many
 * tokens have it, and a little noise. */
static int32_t peaked(uint32_t h, int32_t most)
{
    int32_t steps = 0;
    while (steps < most && !(h >> (31 - steps) & 1u))
        steps++;
    return 8 * steps + (int32_t)(h & 7u) - 48;
}

/* Returns a logit in units of 1/32, or one of the three values above. */
static int32_t row_logit(uint32_t seed, int kind, uint32_t token)
{
    const uint32_t h = mix(seed, token);
    switch (kind) {
    case ROW_TEXT:
        return token < 32 ? 4 * (int32_t)(24 + h % 24) : 4 * (peaked(h, 8) - 16);
    case ROW_FLAT:
        return (int32_t)(h % 64);
    case ROW_TIES:
        return 32 * (int32_t)(h % 3);
    case ROW_EQUAL:
        return 32;
    case ROW_EMPTY:
        return h & 1u ? NOT_A_NUMBER : MINUS_INFINITY;
    case ROW_INF:
        if (token == 4097 || token == 4500)
            return PLUS_INFINITY;
        break;
    case ROW_ONE_NAN:
        if (token == LAST_OF_MAX_TILE)
            return NOT_A_NUMBER;
        break;
    case ROW_ONE_INF:
        if (token == LAST_OF_MAX_TILE)
            return PLUS_INFINITY;
        break;
    case ROW_ONE:
        return token == LAST_OF_MAX_TILE ? 32 : MINUS_INFINITY;
    case ROW_NAN:
        if (h >> 8 & 1u) /* this bit is not part of the value, so that any value may be missing */
            return h & 1u ? NOT_A_NUMBER : MINUS_INFINITY;
        break;
    default:
        break;
    }
    return 4 * peaked(h, 12);
}

/* Returns the bits of a logit as float32. */
static uint32_t bits_of(int32_t x)
{
    switch (x) {
    case NOT_A_NUMBER:
        return 0x7fc00000u;
    case MINUS_INFINITY:
        return 0xff800000u;
    case PLUS_INFINITY:
        return 0x7f800000u;
    default:
        return cls_as_u32((float)x * 0.03125f);
    }
}

/* Writes a float32, given by its bits, in another type, which holds it exactly. */
static void put(void *logits, uint32_t i, int32_t dtype, uint32_t bits)
{
    if (dtype == CLS_F32) /* the caller reads floats */
        memcpy((float *)logits + i, &bits, sizeof bits);
    else
        ((uint16_t *)logits)[i] = dtype == CLS_F16 ? cls_f16_of(bits) : (uint16_t)(bits >> 16);
}

void cls_selftest_row(uint32_t seed, int kind, int32_t dtype, uint32_t vocab, void *logits)
{
    for (uint32_t i = 0; i < vocab; i++)
        put(logits, i, dtype, bits_of(row_logit(seed, kind, i)));
}

/* The mask allows a third of the tokens. */
void cls_selftest_mask(int32_t kind, uint32_t vocab, void *mask)
{
    memset(mask, 0, kind == CLS_MASK_BOOL ? vocab : (vocab + 31) / 32 * sizeof(uint32_t));
    for (uint32_t i = 0; i < vocab; i++) {
        const uint32_t may = mix(7777, i) % 3 == 0;
        if (kind == CLS_MASK_BOOL)
            ((uint8_t *)mask)[i] = (uint8_t)may;
        else
            ((uint32_t *)mask)[i / 32] |= may << (i % 32);
    }
}

/* The biases are from -2 to 2. */
void cls_selftest_dense(int32_t dtype, uint32_t vocab, void *bias)
{
    for (uint32_t i = 0; i < vocab; i++)
        put(bias, i, dtype, bits_of((int32_t)(mix(8888, i) % 129) - 64));
}

void cls_selftest_prefixes(int32_t prefix_of[SELFTEST_VOCAB])
{
    for (uint32_t i = 0; i < SELFTEST_VOCAB; i++)
        prefix_of[i] = i >= 8 && i % 3 == 0 ? (int32_t)(i / 4) : -1;
}

void cls_selftest_ends(int32_t ends[SELFTEST_ENDS])
{
    ends[0] = 4000;
    ends[1] = 3;
}
