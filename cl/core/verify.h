/* SPDX-License-Identifier: MIT */
/* The arithmetic of verification. Probabilities of the target and of the draft are integers in
 * units of 2^-63, so that the acceptance test and the residual are exact comparisons and sums. C
 * and OpenCL C both compile this file. */
#ifndef CLS_VERIFY_H
#define CLS_VERIFY_H

#include "core/arithmetic.h"

#define CLS_ONE_Q63 u64_make(0x80000000u, 0u)

/* The tokens of a sparse distribution, CLS_MAX_DRAFT_WIDTH words: each has an id and, in the bits
 * below, its place in the caller's list. They ascend, and behind them are the probabilities.
 * CLS_NO_SPARSE: no token of the vocabulary. */
#define CLS_SPARSE_BITS 8
#define CLS_SPARSE_WORDS (2 * CLS_MAX_DRAFT_WIDTH)
#define CLS_NO_SPARSE 0xffffffffu
CLS_INLINE u32 sparse_word(u32 id, u32 place) { return (id << CLS_SPARSE_BITS) + place; }

/* The methods as the host and the kernels call them: cls_verify_method of clsample.h. */
#ifdef __OPENCL_C_VERSION__
enum {
    CLS_VERIFY_MATCH = 0,
    CLS_VERIFY_STANDARD = 1,
    CLS_VERIFY_BLOCK = 2,
    CLS_VERIFY_TYPICAL = 3,
    CLS_DRAFT_NONE = 0,
    CLS_DRAFT_PROBS = 1,
    CLS_DRAFT_LOGITS = 2,
    CLS_DRAFT_SPARSE = 3,
    CLS_MAX_DRAFT_WIDTH = 256,
};
#endif

/* Returns floor(a * b / c) of Q63 numbers; 2^63 if that is 2^63 or more, or if c is 0. */
CLS_INLINE u64 ratio_q63(u64 a, u64 b, u64 c)
{
    const u64 low = a * b;
    u64 rest = u64_mul_hi(a, b), quotient = 0;
    if (rest << 1 >= c) /* a * b / c >= 2^63; rest < 2^62, so the shift loses nothing */
        return CLS_ONE_Q63;
    for (u32 i = 0; i < 64; i++) {
        /* Only the needed bit of `low` is taken. Shifting both words together would be llvm.fshl,
         * which Oclgrind lacks. */
        rest = (rest << 1) + (u64)(u64_lo(low >> (63 - i)) & 1u);
        quotient <<= 1;
        if (rest >= c) {
            rest -= c;
            quotient += 1;
        }
    }
    return quotient;
}

/* Divides masses by their total, to get probabilities: the reciprocal of the total is computed
 * once, and a mass times that loses less than 2 units of 2^-63. */
typedef struct cls_reciprocal {
    u64 reciprocal; /* floor((2^127 - 1) / (total << shift)) */
    u32 shift;      /* moves the total's first bit to the top */
} cls_reciprocal;

CLS_INLINE cls_reciprocal reciprocal_of(u64 whole)
{
    cls_reciprocal s;
    u64 rest = CLS_ONE_Q63 - 1, quotient = 0;
    s.shift = 0;
    while (whole != 0 && whole << s.shift < CLS_ONE_Q63)
        s.shift++;
    whole <<= s.shift;
    /* (2^127 - 1) / total, bit by bit. The upper half is below the total already. */
    for (u32 i = 0; i < 64 && whole != 0; i++) {
        const int carry = rest >= CLS_ONE_Q63;
        rest = (rest << 1) + 1;
        quotient <<= 1;
        if (carry || rest >= whole) {
            rest -= whole;
            quotient += 1;
        }
    }
    s.reciprocal = quotient;
    return s;
}
CLS_INLINE u64 fraction_q63(const cls_reciprocal *s, u64 mass)
{
    return u64_mul_hi(mass << s->shift, s->reciprocal);
}

/* Returns a float probability, given by its bits, as an integer. Only bits below 2^-63 are lost. */
CLS_INLINE u64 probability_q63(u32 bits)
{
    const u32 exponent = bits >> 23; /* includes the sign */
    const u64 digits = (u64)((bits & 0x7fffffu) | 0x800000u);
    if (bits > 0x7f800000u || exponent < 64) /* negative, NaN, or below 2^-63 */
        return 0;
    if (exponent >= 127)
        return CLS_ONE_Q63;
    /* p = digits * 2^(exponent - 150) */
    return exponent >= 87 ? digits << (exponent - 87) : digits >> (87 - exponent);
}

/* Returns the residual of a token: what is left of its target probability, times `prefix_prob`
 * (2^63 is one), when its draft probability is subtracted; at least 0. */
CLS_INLINE u64 residual_q63(u64 p, u64 q, u64 prefix_prob)
{
    const u64 part = u64_mul_hi(p, prefix_prob) << 1, rest = part - q;
    const u32 keep = ~((u32)(q < part) - 1u);
    return u64_make(u64_hi(rest) & keep,
                    u64_lo(rest) & keep); /* not by ?:, for which Oclgrind lacks llvm.usub.sat */
}

/* Returns whether a random number accepts a draft of target probability p and draft probability
 * q. */
CLS_INLINE int accepts(u64 bits, u64 p, u64 q) { return u64_mul_hi(bits, q) < p; }

/* Returns whether a probability is at least that of the likeliest token less `delta`, a float given
 * by its bits. The likeliest one may have lost more than 0 by rounding. */
CLS_INLINE int is_near(u64 likeliest, u64 p, u32 delta)
{
    return likeliest <= p || likeliest - p <= probability_q63(delta);
}

#endif
