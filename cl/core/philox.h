/* SPDX-License-Identifier: MIT */
/* Philox4x32-10, the counter-based random numbers of Salmon et al., "Parallel random numbers: as
 * easy as 1, 2, 3" (2011). There is no state: the same counter and key give the same bits
 * everywhere. C and OpenCL C both compile this file. */
#ifndef CLS_PHILOX_H
#define CLS_PHILOX_H

#include "core/arithmetic.h"
#include "core/softcap.h"

/* What a random number is for. The counter's second word is purpose | draw << 8. */
enum {
    CLS_PURPOSE_TOKEN = 0,
    CLS_PURPOSE_XTC = 1,
    CLS_PURPOSE_DRAFT = 2,
    CLS_PURPOSE_ACCEPT = 3,
    CLS_PURPOSE_RESIDUAL = 4,
};
/* Block verification draws numbers for prefixes longer than what it emits, and the next call, which
 * begins inside them, must not use these numbers again. So they are keyed by the position of a
 * call's first row, at which no other call begins; the purpose is 128 + i for the prefix of i + 1
 * drafts. */
#define CLS_PURPOSE_BLOCK 128u

/* Computes one block: counter c[4] and key k0, k1 in, four random words in c. */
CLS_INLINE void philox4x32(u32 c[4], u32 k0, u32 k1)
{
    for (int round = 0; round < 10; round++) {
        const u64 a = (u64)0xD2511F53u * c[0];
        const u64 b = (u64)0xCD9E8D57u * c[2];
        const u32 c0 = u64_hi(b) ^ c[1] ^ k0;
        const u32 c2 = u64_hi(a) ^ c[3] ^ k1;
        c[1] = u64_lo(b);
        c[3] = u64_lo(a);
        c[0] = c0;
        c[2] = c2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* Returns 64 random bits for a purpose: number `draw` at a position. */
CLS_INLINE u64 philox_bits(u32 purpose, const u32 *seed, const u32 *stream, u32 position, u32 draw)
{
    u32 c[4];
    c[0] = position;
    c[1] = purpose | draw << 8;
    c[2] = stream[0];
    c[3] = stream[1];
    philox4x32(c, seed[0], seed[1]);
    return u64_make(c[1], c[0]);
}

/* Returns one word of the self-test: random logits, scales and sums through all of the arithmetic,
 * and the special values of floats. The host and the device must agree on every word. So a compiler
 * that assumes that there are no infinities and NaN is found out, too. */
CLS_INLINE u32 self_test_word(u32 i)
{
    u32 c[4];
    f32 z, max, scale, edge;
    cls_unit unit;
    u64 mass;
    u32 special;
    c[0] = i;
    c[1] = c[2] = c[3] = 0x5e1f7e57u;
    philox4x32(c, 1u, 2u);
    max = ((f32)(c[0] >> 8) - 8388608.0f) * (1.0f / 131072.0f);
    z = max - (f32)(c[1] >> 8) * (1.0f / 1048576.0f);
    scale = CLS_LOG2E * (0.25f + (f32)(c[2] >> 8) * (1.0f / 4194304.0f));
    unit = unit_of(max, max + (f32)(c[3] >> 28), split(max + (f32)(c[3] >> 28), scale).exponent,
                   scale);
    mass = to_row_units(weight(clean(z), unit.max, scale, unit.fraction), unit.shift);
    mass = u64_mul_hi(u64_make(c[3], c[2]), mass + top_p_target(mass, c[1]));
    /* Infinity, NaN, the largest float or 0, of either sign: a masked logit is -inf. The value is
     * chosen by bits, not by a chain of i == n, which clang turns into a table that Oclgrind reads
     * as zeros. */
    special = (i & 1u) ? ((i & 2u) ? 0u : 0x7fc00000u) : ((i & 2u) ? 0x7f7fffffu : 0x7f800000u);
    edge = CLS_AS_F32((i32)((c[0] & 0x80000000u) | special));
    special = (u32)(edge > CLS_AS_F32((i32)0xff800000)) | (u32)(edge < max) << 1 |
              (u32)(clean(edge) > z) << 2 | (u32)(edge != edge) << 3 |
              (u32)(edge == CLS_AS_F32(0x7f800000)) << 4;
    special ^= (u32)key_of(clean(edge));
    special ^= (u32)CLS_AS_I32(softcap(edge, 30.0f, 0x1.111112p-5f)) ^
               (u32)CLS_AS_I32(softcap(z, scale, 0.5f));
    return u64_hi(mass) ^ u64_lo(mass) ^ (u32)key_of(depth(z, max, scale)) ^
           (u32)CLS_AS_I32(unit.fraction) ^ special;
}

#endif
