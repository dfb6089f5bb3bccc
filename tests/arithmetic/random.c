/* SPDX-License-Identifier: MIT */
/* The random numbers of the test vectors. */
#include "vectors.h"

/* SplitMix64 (Steele et al. 2014). */
uint64_t next_bits(sequence *s)
{
    uint64_t z = s->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint32_t next_below(sequence *s, uint32_t n)
{
    return (uint32_t)(((next_bits(s) >> 32) * n) >> 32);
}

int next_is_one_in(sequence *s, uint32_t n) { return next_below(s, n) == 0; }

uint64_t next_wide(sequence *s, uint32_t most)
{
    const uint32_t by = next_below(s, most + 1);
    return next_bits(s) >> by;
}

uint32_t bits_of(float x) { return (uint32_t)CLS_AS_I32(x); }
float float_of(uint32_t bits) { return CLS_AS_F32((int32_t)bits); }

float next_normal(sequence *s)
{
    const uint64_t bits = next_bits(s);
    int32_t sum = -2 * 65536;
    for (int i = 0; i < 4; i++)
        sum += (int32_t)(bits >> (16 * i) & 0xffffu);
    return (float)sum * 0x1p-14f;
}

float next_special(sequence *s)
{
    static const uint32_t special[] = {
        0x7fc00000, 0xffc00000, 0x7f800001, 0xffffffff, /* NaN */
        0x7f800000, 0xff800000, 0x7f7fffff, 0xff7fffff, /* infinities, the largest */
        0x00000000, 0x80000000, 0x00000001, 0x80000001, /* zeros, subnormals */
        0x007fffff, 0x807fffff, 0x00800000, 0x80800000, /* the border to normal numbers */
    };
    const uint32_t i = next_below(s, 24);
    return float_of(i < 16 ? special[i] : (uint32_t)next_bits(s));
}
