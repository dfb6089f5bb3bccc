/* SPDX-License-Identifier: MIT */
/* load: converts logits from memory to floats, and cleans whole vectors. */
#include "core/vectors.cl"

/* Converts float16 by integer operations. PoCL 3.1 compiles vload_half8 to an aligned load, which
 * crashes where a row is aligned to its elements only. Subnormal numbers are made by a product,
 * because their bits as a float could be flushed to zero. */
static inline UV widen_bits(CAT(ushort, VEC) h)
{
    const UV bits = CAT(convert_uint, VEC)(h);
    const UV sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
    const UV normal = (magnitude << 13) + (112u << 23), special = (magnitude << 13) | 0x7f800000u;
    const UV subnormal = AS_UV(TO_FV(magnitude) * 0x1p-24f);
    UV r = magnitude < 0x0400u ? subnormal : normal;
    r = magnitude >= 0x7c00u ? special : r;
    return r | sign;
}
static inline FV widen(CAT(ushort, VEC) h) { return AS_FV(widen_bits(h)); }

#if DTYPE == 0
typedef float logit;
#define LOAD(p, i) ((p)[i])
#define LOAD_V(p, i) VLOAD((p) + (i))
#elif DTYPE == 1
typedef half logit; /* storage only: vload_half needs no extension */
#define LOAD(p, i) vload_half(i, p)
#if VEC == 16
#define LOAD_V(p, i) vload_half16(0, (p) + (i))
#else
#define LOAD_V(p, i) widen(VLOAD((__global const ushort *)(p) + (i)))
#endif
#else
typedef ushort logit; /* bfloat16: the upper half of a float32 */
#define LOAD(p, i) as_float((uint)(p)[i] << 16)
#define LOAD_V(p, i) AS_FV(CAT(convert_uint, VEC)(VLOAD((p) + (i))) << 16)
#endif

/* Where the host knows that rows start at multiples of 16 bytes (CLS_WIDE), groups of several items
 * load 16 bytes at once: vload promises the alignment of an element only, so that NVIDIA's compiler
 * makes a load for each element of it. LOAD_2() loads two consecutive vectors. A wider vector than
 * the 16 bytes of one load would need more alignment than is known. */
#if WGS > 1 && VEC == 4
#define WIDE 1
#if DTYPE == 0
#define LOAD_WIDE(p, i) (*(__global const float4 *)((p) + (i)))
/* What stands in the other branch must differ, or compilers merge the loads of both branches into
 * one with an element's alignment. */
#define LOAD_NARROW(p, i) (float4)(vload2(0, (p) + (i)), vload2(0, (p) + (i) + 2))
#define LOAD_2(p, i, a, b) \
    { \
        a = LOAD_WIDE(p, i); \
        b = LOAD_WIDE(p, (i) + 4); \
    }
#else
#if DTYPE == 1
#define WIDEN(v) widen(v)
#else
#define WIDEN(v) as_float4(convert_uint4(v) << 16)
#endif
#define LOAD_WIDE(p, i) WIDEN(*(__global const ushort4 *)((p) + (i)))
#define LOAD_2(p, i, a, b) \
    { \
        const ushort8 both = *(__global const ushort8 *)((p) + (i)); \
        a = WIDEN(both.lo); \
        b = WIDEN(both.hi); \
    }
#endif
#else
#define WIDE 0
#endif
#ifndef LOAD_NARROW
#define LOAD_NARROW LOAD_V
#endif

static inline FV clean_v(FV x)
{
    const IV bits = AS_IV(x);
    const IV magnitude = bits & 0x7fffffff;
    x = magnitude < 0x00800000 ? (FV)(0.0f) : x;
    x = bits == CLS_INF_BITS ? (FV)(CLS_FLT_MAX) : x;
    return magnitude > CLS_INF_BITS ? (FV)(CLS_MASKED) : x;
}
