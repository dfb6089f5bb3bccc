/* SPDX-License-Identifier: MIT */
/* terms: the terms of sums over tokens (core/samplers.h), and the weights of adaptive p, for whole
 * vectors. Each lane has exactly the bits of the scalar form. */
#include "core/samplers.h"
#include "row/set.cl"

/* Returns a token's weight by adaptive p, from its mass. */
static inline u32 adapted_weight(adaptive_weights by, u64 mass)
{
    return adaptive_weight(probability_q30(mass, by.mass), by.aim, by.min_depth);
}

#define LV CAT(ulong, VEC)
#define TO_LV(x) CAT(convert_ulong, VEC)(x)
#define ILV CAT(long, VEC)
#define AS_ILV(x) CAT(as_long, VEC)(x)
#define TO_IV(x) CAT(convert_int, VEC)(x)
#define LV_TO_UV(x) CAT(convert_uint, VEC)(x) /* the lower halves */
#define UV_TO_FV(x) CAT(convert_float, VEC)(x)
DEFINE_FOLD(fold_lsum, ulong, PLUS)
DEFINE_FOLD(fold_umax, uint, LARGER)
DEFINE_FOLD(fold_umin, uint, SMALLER)
#define LSUM CAT(fold_lsum, VEC)
#define UMAX CAT(fold_umax, VEC)
#define UMIN CAT(fold_umin, VEC)

/* to_row_units(), depth_term(), square_term() and sigma_unit(). */
static inline LV row_units_v(UV w, u32 shift) { return TO_LV(w) << 13 >> (u64)shift; }
static inline LV depth_term_v(FV x, UV w, f32 top, f32 scale, u32 shift)
{
    const FV d = ((FV)(top)-x) * scale;
    const UV depth = d < 64.0f ? TO_UV(d * 1048576.0f) : (UV)(CLS_MAX_DEPTH);
    return row_units_v(w, shift) * TO_LV(depth) >> 24;
}
static inline LV square_term_v(UV w, u32 shift)
{
    const LV v = TO_LV(w >> 9);
    return v * v >> (u64)min(2 * shift, 63u);
}
static inline UV sigma_unit_v(FV x, f32 top, f32 grid)
{
    const FV u = ((FV)(top)-x) * grid;
    return u < 1048575.0f ? TO_UV(u) : (UV)(1048575u);
}

/* log2_q24() of integers above 0. */
static inline IV log2_v(UV x)
{
    const UV left = clz(x);
    UV m = x << left, rest = (UV)(0u);
    SHORT_LOOP
    for (u32 i = 0; i < 24; i++) {
        const LV square = TO_LV(m) * TO_LV(m);
        const UV high = LV_TO_UV(square >> 32);
        rest = rest << 1 | high >> 31;
        m = high >> 31 != 0u ? high : LV_TO_UV(square >> 31);
    }
    return AS_IV(((UV)(31u) - left << 24) + rest);
}

/* Vectors have no division of integers that compilers do not make one division for each lane. So
 * floats estimate the quotients, and exact remainders correct them: the result does not depend on
 * how well a device divides floats. The estimate of the second round is off by less than 2 after
 * truncation. */

/* probability_q30() of the tokens whose weights are w, in their tile's unit. */
static inline UV probability_v(UV w, u32 shift, u64 mass)
{
    const u64 divisor = mass >> 10; /* at least 2^32, as the largest token is */
    const f32 one = 1.0f / u64_to_f32(divisor);
    const u32 bits = 64u - (u32)clz(divisor), down = bits - 21;
    const LV dividend = row_units_v(w, shift) << 20;
    /* It is off by at most 2^9, of up to 2^30. What is left has then at most 62 bits, and `down`
     * leaves 30 of them. */
    IV q = TO_IV(TO_FV(AS_IV(w)) * (as_float((160u - shift) << 23) * one));
    ILV rest = AS_ILV(dividend - TO_LV(AS_UV(q)) * divisor);
    q += TO_IV(TO_FV(TO_IV(rest >> (ILV)((long)down))) * (as_float((127u + down) << 23) * one));
    rest = AS_ILV(dividend - TO_LV(AS_UV(q)) * divisor);
    q += TO_IV(rest < 0);
    rest += (rest < 0) & (ILV)((long)divisor);
    q += TO_IV(rest < 0) - TO_IV(rest >= (ILV)((long)divisor));
    return AS_UV(q);
}

/* adaptive_weight(). With D = d + 2^24 its d^2 / D is D - 2^25 + 2^48 / D, and the lower 32 bits of
 * 2^48 are 0. */
CALLED_IN_LOOPS UV adapted_weights(adaptive_weights by, UV w, u32 shift)
{
    const UV q = probability_v(w, shift, by.mass), aim = (UV)(by.aim);
    const UV off = q > aim ? q - aim : aim - q, part = off / 96u;
    const UV d = part * 5u + (off - part * 96u) * 5u / 96u;
    const IV divisor = AS_IV(d + (1u << 24));
    const FV divisor_f = TO_FV(divisor);
    IV quotient = TO_IV((FV)(0x1p48f) / divisor_f); /* off by at most 2^4, of up to 2^24 */
    IV rest = AS_IV((UV)(0u) - AS_UV(quotient) * AS_UV(divisor));
    quotient += TO_IV(TO_FV(rest) / divisor_f);
    rest = AS_IV((UV)(0u) - AS_UV(quotient) * AS_UV(divisor));
    quotient += rest < 0;
    rest += (rest < 0) & divisor;
    quotient += (rest < 0) - (rest >= divisor);
    const UV ratio = AS_UV(divisor) - (2u << 24) + AS_UV(quotient);
    const IV depth = TO_IV(TO_LV(ratio) * 945484u >> 20) - (i32)by.min_depth;
    return weight_v(TO_FV(depth) * -0x1p-20f, 0.0f, 1.0f, 0.0f);
}

/* The tokens whose probabilities are nearest to what adaptive p aims at: the largest mass not above
 * the aim, plus 1, or 0; and the least one above it. One of them has the set's least depth. */
typedef struct around_aim {
    u64 below, above;
} around_aim;

/* Returns the least mass whose probability is above the aim. */
static inline u64 mass_above_aim(adaptive_weights by)
{
    const u64 divisor = by.mass >> 10, next = (u64)by.aim + 1;
    return next * (divisor >> 20) + ((next * (divisor & 0xfffffu) + 0xfffffu) >> 20);
}
/* Returns the least weight, in a tile's unit, that has a mass; no weight is above 2^31. */
static inline u32 weight_of_mass(u64 mass, u32 shift)
{
    if (shift >= (u32)clz(mass))
        return 0xffffffffu;
    const u64 least = ((mass << shift) + 8191u) >> 13;
    return least >> 31 != 0 ? 0xffffffffu : u64_lo(least);
}

/* Returns the least depth by adaptive p of a set. */
static inline u32 least_depth(adaptive_weights by, const around_aim *a)
{
    u32 least = CLS_MAX_DEPTH;
    if (a->below != 0)
        least = adaptive_depth(probability_q30(a->below - 1, by.mass), by.aim);
    if (a->above != ~(u64)0)
        least = min(least, adaptive_depth(probability_q30(a->above, by.mass), by.aim));
    return least;
}
