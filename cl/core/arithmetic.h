/* SPDX-License-Identifier: MIT */
/* The arithmetic that decides tokens, in the common subset of C and OpenCL C.
 *
 * It uses single float32 additions, subtractions and multiplications, conversions, and integers,
 * and nothing else, so that every device with round-to-nearest computes the same bits.
 * doc/arithmetic.md derives it and gives the error bounds. In short: a token's weight is an integer
 * in units of its tile's exponent (weight()), a tile's exponent is exact (split()), and
 * to_row_units() brings weights and masses of tiles to the row's unit, 2^(E-43), with 13 guard
 * bits. */
#ifndef CLS_ARITHMETIC_H
#define CLS_ARITHMETIC_H

#include "core/integers.h"

/* ------------------------------------------------------------ values and order */

#define CLS_FLT_MAX 0x1.fffffep+127f
#define CLS_INF_BITS 0x7f800000
#define CLS_INF CLS_AS_F32(CLS_INF_BITS)
#define CLS_MASKED CLS_AS_F32(CLS_INF_BITS | (i32)0x80000000) /* -inf: masked, NaN or absent */
#define CLS_KEY_INF CLS_INF_BITS     /* the key of +inf, which no token has after clean() */
#define CLS_KEY_NONE (~CLS_INF_BITS) /* the key of -inf */
#define CLS_LOG2E 0x1.715476p+0f
#define CLS_MAX_ID 0x7fffffff

/* Makes a logit what the sampler works with: NaN becomes -inf, +inf the largest finite number, and
 * zeros and subnormals +0, so that a device that flushes subnormals agrees. */
CLS_INLINE f32 clean(f32 x)
{
    const i32 bits = CLS_AS_I32(x);
    const i32 magnitude = bits & 0x7fffffff;
    if (magnitude > CLS_INF_BITS || bits == (i32)0xff800000)
        return CLS_MASKED;
    if (bits == CLS_INF_BITS)
        return CLS_FLT_MAX;
    return magnitude < 0x00800000 ? 0.0f : x;
}

/* Returns the key of a float: an integer in the same order. The function is its own inverse on the
 * bits. It is not written (x ^ m) - m, which compilers turn into llvm.abs, which Oclgrind lacks. */
CLS_INLINE i32 key_of(f32 x)
{
    const i32 bits = CLS_AS_I32(x);
    return bits ^ ((bits >> 31) & 0x7fffffff);
}
CLS_INLINE f32 float_of_key(i32 key) { return CLS_AS_F32(key ^ ((key >> 31) & 0x7fffffff)); }

/* For x that is not +inf, x > above(key) if and only if key_of(clean(x)) > key. So raw logits can
 * be compared without cleaning each. The result differs from the key's float around zero only,
 * because subnormals of either sign count as zero. */
CLS_INLINE f32 above(i32 key)
{
    if (key >= -0x00800000 && key < 0)
        return -0x1p-126f;
    if (key >= 0 && key < 0x00800000)
        return CLS_AS_F32(0x007fffff);
    return float_of_key(key);
}

/* Brings the result of an adjustment of a finite logit back to the finite floats. Results below
 * 2^-120 become zero, because there devices that flush subnormals begin to differ. */
CLS_INLINE f32 settle(f32 x)
{
    const i32 bits = CLS_AS_I32(x);
    const i32 magnitude = bits & 0x7fffffff;
    if (magnitude >= CLS_INF_BITS)
        return CLS_AS_F32(
            (bits & (i32)0x80000000) |
            (CLS_INF_BITS - 1)); /* not by ?:, for which Oclgrind lacks llvm.copysign */
    return magnitude < 0x03800000 ? 0.0f : x;
}

/* Applies the penalties to one token: repetition if it occurs, frequency by how often it counts,
 * presence if it is present, each in its window. */
CLS_INLINE f32 penalize_each(f32 x, int occurs, u32 count, int present, f32 repetition,
                             f32 reciprocal, f32 frequency, f32 presence)
{
    const f32 often = frequency * (f32)count;
    if (!(x > CLS_MASKED))
        return x;
    if (occurs)
        x = settle(x * (x > 0.0f ? reciprocal : repetition));
    if (count != 0)
        x = settle(x - often);
    return present ? settle(x - presence) : x;
}

/* Adds a logit bias; a bias of -inf bans the token. */
CLS_INLINE f32 add_bias(f32 x, f32 bias)
{
    return x > CLS_MASKED && bias > CLS_MASKED ? settle(x + bias) : CLS_MASKED;
}

/* Multiplies a value of a dense bias by the step's factor. -inf remains, since it bans the token;
 * +inf and NaN become NaN. The product of a finite value is finite. */
CLS_INLINE f32 scale_bias(f32 value, f32 factor)
{
    const i32 bits = CLS_AS_I32(value);
    const i32 magnitude = bits & 0x7fffffff;
    if (magnitude >= CLS_INF_BITS)
        return bits == (i32)0xff800000 ? value : CLS_AS_F32(0x7fc00000);
    return magnitude < 0x00800000 ? 0.0f : settle(value * factor);
}

/* Returns how many bits a token lies below the row's maximum. Unlike the integer weights, the depth
 * is monotone in z over the whole row. All cuts by value compare it. */
CLS_INLINE f32 depth(f32 z, f32 row_max, f32 scale) { return (row_max - z) * scale; }

/* ------------------------------------------------------------------- weights */

/* max * scale, truncated to 24 fractional bits, is exponent + fraction with fraction in (-1, 0].
 * This is exact, however large the logits are. */
typedef struct cls_split {
    i32 exponent;
    f32 fraction;
} cls_split;

CLS_INLINE cls_split split_here(f32 max, f32 scale)
{
    const i32 a = CLS_AS_I32(max), b = CLS_AS_I32(scale);
    cls_split r;
    u64 y;
    u32 whole, fraction;
    i32 shift;
    r.exponent = 0;
    r.fraction = 0.0f;
    if ((a & 0x7f800000) == 0)
        return r;
    y = (u64)(u32)((a & 0x007fffff) | 0x00800000) * (u32)((b & 0x007fffff) | 0x00800000);
    /* The value is y * 2^(ea + eb - 300); y becomes the value times 2^24. */
    shift = ((a >> 23) & 0xff) + ((b >> 23) & 0xff) - 276;
    if (shift > 15) {
        whole = 1u << 30;
        fraction = 0;
    } else {
        if (shift >= 0)
            y <<= (u32)shift;
        else
            y = shift < -63 ? 0 : y >> (u32)-shift;
        fraction = u64_lo(y) & 0x00ffffffu;
        if (u64_make(1u << 22, 0) < y) { /* above 2^30 */
            whole = 1u << 30;
            fraction = 0;
        } else {
            whole = u64_lo(y >> 24);
        }
    }
    if (a < 0) {
        r.exponent = -(i32)whole;
        r.fraction = -((f32)fraction * 0x1p-24f);
    } else {
        r.exponent = (i32)whole + (fraction != 0);
        r.fraction = fraction != 0 ? ((f32)fraction - 16777216.0f) * 0x1p-24f : 0.0f;
    }
    return r;
}
CLS_CALLED cls_split split(f32 max, f32 scale) { return split_here(max, scale); }
/* Of each tile. Calls would cost CPUs 2 % of a step that weighs all of a row. */
#if defined WGS && WGS == 1
#define tile_split split_here
#else
#define tile_split split
#endif

/* Computes the weights of N tokens, or of N vectors of tokens, relative to their tile's maximum:
 * 2^(-depth) in units of 2^(exponent - 30), from 0 to 2^30 + 128. -inf and NaN give 0. One body
 * serves scalars and vectors: F and U are the types, LAST converts to integers. All indices are
 * constants, because compilers keep indexed arrays in memory. N = 4 interleaves four chains of 20
 * dependent operations, which keeps a CPU busy (on PoCL a pass costs 2.5 reads of the row instead
 * of 3.5). */
#define CLS_W_DIFFERENCE(i) q[i] = z[i] - tile_max;
#define CLS_W_SCALE(i) q[i] = q[i] * scale;
#define CLS_W_FRACTION(i) q[i] = q[i] + fraction;
#define CLS_W_FLOOR(i) q[i] = q[i] > lowest ? q[i] : lowest;
#define CLS_W_ROUND(i) r[i] = q[i] + magic;
#define CLS_W_WHOLE(i) f[i] = r[i] - magic;
#define CLS_W_REST(i) f[i] = q[i] - f[i];
#define CLS_W_C5(i) p[i] = f[i] * c5;
#define CLS_W_C4(i) p[i] = p[i] + c4;
#define CLS_W_TIMES(i) p[i] = p[i] * f[i];
#define CLS_W_C3(i) p[i] = p[i] + c3;
#define CLS_W_C2(i) p[i] = p[i] + c2;
#define CLS_W_C1(i) p[i] = p[i] + c1;
#define CLS_W_C0(i) p[i] = p[i] + c0;
#define CLS_EACH_1(STEP) STEP(0)
#define CLS_EACH_2(STEP) STEP(0) STEP(1)
#define CLS_EACH_4(STEP) STEP(0) STEP(1) STEP(2) STEP(3)
#define CLS_EACH_8(STEP) CLS_EACH_4(STEP) STEP(4) STEP(5) STEP(6) STEP(7)
#define CLS_DEFINE_WEIGHTS(NAME, N, EACH, F, U, LAST) \
    CLS_INLINE void NAME(const F *z, U *w, f32 tile_max, f32 scale, f32 fraction) \
    { \
        const F lowest = (F)(-40.0f), magic = (F)(12582912.0f); /* 1.5 * 2^23: the sum has the \
                                                                   integer part in its low bits */ \
        const F c5 = (F)(0x1.657ba4p-10f * 1073741824.0f), \
                c4 = (F)(0x1.3d5aa0p-7f * 1073741824.0f); \
        const F c3 = (F)(0x1.c6a2c2p-5f * 1073741824.0f), \
                c2 = (F)(0x1.ebf80ap-3f * 1073741824.0f); \
        const F c1 = (F)(0x1.62e438p-1f * 1073741824.0f), \
                c0 = (F)(0x1.000002p+0f * 1073741824.0f); \
        F q[N], r[N], f[N], p[N]; \
        EACH(CLS_W_DIFFERENCE) \
        EACH(CLS_W_SCALE) \
        EACH(CLS_W_FRACTION) \
        EACH(CLS_W_FLOOR) \
        EACH(CLS_W_ROUND) \
        EACH(CLS_W_WHOLE) \
        EACH(CLS_W_REST) \
        EACH(CLS_W_C5) \
        EACH(CLS_W_C4) \
        EACH(CLS_W_TIMES) \
        EACH(CLS_W_C3) \
        EACH(CLS_W_TIMES) \
        EACH(CLS_W_C2) \
        EACH(CLS_W_TIMES) \
        EACH(CLS_W_C1) \
        EACH(CLS_W_TIMES) \
        EACH(CLS_W_C0) \
        EACH(LAST) \
    }

#ifndef __OPENCL_C_VERSION__
CLS_INLINE u32 cls_as_u32(f32 x) { return (u32)CLS_AS_I32(x); }
CLS_INLINE f32 cls_u32_as_f32(u32 x) { return CLS_AS_F32((i32)x); }
#define CLS_TO_U32(x) ((u32)(i32)(x))
#define CLS_W_SCALAR(i) \
    w[i] = CLS_TO_U32(cls_u32_as_f32(cls_as_u32(p[i]) + (cls_as_u32(r[i]) << 23)));
CLS_DEFINE_WEIGHTS(weights_scalar, 1, CLS_EACH_1, f32, u32, CLS_W_SCALAR)
#else
#define CLS_TO_U32(x) as_uint(convert_int(x))
#define CLS_W_SCALAR(i) w[i] = CLS_TO_U32(as_float(as_uint(p[i]) + (as_uint(r[i]) << 23)));
CLS_DEFINE_WEIGHTS(weights_scalar, 1, CLS_EACH_1, f32, u32, CLS_W_SCALAR)
#endif
CLS_INLINE u32 weight(f32 z, f32 tile_max, f32 scale, f32 fraction)
{
    u32 w;
    weights_scalar(&z, &w, tile_max, scale, fraction);
    return w;
}

/* Returns how many bits a tile's unit lies below the row's: E - E_t, at most 63, where all weight
 * is lost. The comparison of floats gives the right answer where the exponents of huge logits were
 * clamped. */
CLS_INLINE u32 shift_of(f32 row_max, f32 tile_max, f32 scale, i32 row_exponent, i32 tile_exponent)
{
    i32 d;
    if (!(depth(tile_max, row_max, scale) < 80.0f))
        return 63;
    d = row_exponent - tile_exponent;
    return d > 63 ? 63u : (u32)d;
}

/* Converts from tile units to row units, 2^(E-43). */
CLS_INLINE u64 to_row_units(u64 mass, u32 shift) { return (mass << 13) >> shift; }

/* What is needed to weigh a tile's tokens in row units. */
typedef struct cls_unit {
    f32 max, fraction;
    u32 shift;
} cls_unit;

CLS_INLINE cls_unit unit_of(f32 tile_max, f32 row_max, i32 row_exponent, f32 scale)
{
    const cls_split t = tile_split(tile_max, scale);
    cls_unit unit;
    unit.max = tile_max;
    unit.fraction = t.fraction;
    unit.shift = shift_of(row_max, tile_max, scale, row_exponent, t.exponent);
    return unit;
}

/* ------------------------------------------------------------ cuts and draws */

/* Returns the mass that top-p must reach: ceil(mass * p / 2^32). */
CLS_INLINE u64 top_p_target(u64 mass, u32 p)
{
    const u64 low = (u64)u64_lo(mass) * p + 0xffffffffu;
    return (u64)u64_hi(mass) * p + (low >> 32);
}

/* The depth as an integer, in units of 2^-20 bits, at most 64 bits. */
#define CLS_MAX_DEPTH (64u << 20)
CLS_INLINE u32 depth_q20(f32 z, f32 top, f32 scale)
{
    const f32 d = depth(z, top, scale);
    return d < 64.0f ? (u32)(i32)(d * 1048576.0f) : CLS_MAX_DEPTH;
}

/* The lowest key that a cut by depth keeps: the key of the least z with depth(z) <= most, or with
 * depth_q20(z) <= most. The depth is monotone in z, so bisections find it: some seven if it lies
 * between two keys just below and above where it should be, else 32. `most` is 0 or at least
 * 2^-100; a depth that a device could flush to zero counts as zero. */
#define CLS_DEFINE_DEPTH_KEY(NAME, T, DEPTH, BITS) \
    CLS_CALLED i32 NAME(f32 top, f32 scale, T most) \
    { \
        const f32 below = (BITS) / scale, z = top - below; \
        const f32 margin = (below + (top < 0.0f ? -top : top)) * 0x1p-22f; \
        i32 lo = key_of(clean(z - margin)), hi = key_of(clean(z + margin)); \
        if (lo <= CLS_KEY_NONE || DEPTH(float_of_key(lo), top, scale) <= most) \
            lo = CLS_KEY_NONE + 1; \
        if (hi > key_of(top) || !(DEPTH(float_of_key(hi), top, scale) <= most)) \
            hi = key_of(top); /* the maximum itself is kept */ \
        while (lo < hi) { \
            const i32 mid = (lo & hi) + ((lo ^ hi) >> 1); /* the floor of the mean */ \
            if (DEPTH(clean(float_of_key(mid)), top, scale) <= most) \
                hi = mid; \
            else \
                lo = mid + 1; \
        } \
        return hi; \
    }
CLS_DEFINE_DEPTH_KEY(depth_key, f32, depth, most)
CLS_DEFINE_DEPTH_KEY(depth_q20_key, u32, depth_q20, ((f32)most + 1.0f) * 0x1p-20f)

/* Returns the position of the highest bit of x > 0. Devices use clz() and no loop: Mirostat 1 takes
 * 198 logarithms a row, and llvmpipe allows 65,535 loop iterations in all. */
CLS_INLINE u32 top_bit(u32 x)
{
#ifdef __OPENCL_C_VERSION__
    return 31 - clz(x);
#else
    u32 at = 0;
    while (x >>= 1)
        at++;
    return at;
#endif
}

/* Returns log2(x) for x > 0, in units of 2^-24; the error is in (-1.02, 0] units. */
CLS_CALLED i32 log2_q24(u64 x)
{
    const i32 whole = u64_hi(x) != 0 ? 32 + (i32)top_bit(u64_hi(x)) : (i32)top_bit(u64_lo(x));
    i32 r = 0;
    u32 m;
    m = whole >= 31 ? u64_lo(x >> (u32)(whole - 31)) : u64_lo(x) << (31 - whole);
    for (int i = 0; i < 24; i++) {
        u64 sq = ((u64)m * m) >> 31;
        r <<= 1;
        if (u64_hi(sq) != 0) {
            r |= 1;
            sq >>= 1;
        }
        m = u64_lo(sq);
    }
    return (whole << 24) + r;
}

/* Returns log2 of a set's mass relative to the weight of its largest token, in units of 2^-20. A
 * token's surprisal in bits is this plus its depth. */
CLS_CALLED u32 mass_q20(u64 mass, f32 top, f32 scale)
{
    const i32 fraction = (i32)(split(top, scale).fraction * 16777216.0f);
    const i32 relative = log2_q24(mass) - (43 << 24) - fraction;
    return relative > 0 ? (u32)relative >> 4 : 0u;
}

/* Returns 2^-bits in units of 2^-30; `bits` is in units of 2^-20. */
CLS_CALLED u32 exp2_q30(u64 bits)
{
    if (bits >= CLS_MAX_DEPTH)
        return 0;
    return weight(-((f32)u64_lo(bits) * 0x1p-20f), 0.0f, 1.0f, 0.0f);
}

/* Returns the natural logarithm of a token's probability, from the mass of its set. Depth and log2
 * of the mass, both relative to the maximum, are the same on every device. */
CLS_INLINE f32 logprob_of(f32 z, f32 row_max, f32 scale, u64 mass)
{
    const i32 fraction = (i32)(split(row_max, scale).fraction * 16777216.0f);
    const i32 relative = log2_q24(mass) - (43 << 24) - fraction;
    return ((f32)relative * 0x1p-24f + depth(z, row_max, scale)) * -0x1.62e430p-1f;
}

#endif
