/* SPDX-License-Identifier: MIT */
/* What 64-bit integers need beyond C's operators, in the common subset of C and OpenCL C. A product
 * of two 32-bit integers is written (u64)a * b. mul_hi(uint) is not used: PoCL emulates it 4 to 14
 * times more slowly. */
#ifndef CLS_INTEGERS_H
#define CLS_INTEGERS_H

#include "core/types.h"

CLS_INLINE u64 u64_make(u32 hi, u32 lo) { return (u64)hi << 32 | lo; }
CLS_INLINE u32 u64_hi(u64 x) { return (u32)(x >> 32); }
CLS_INLINE u32 u64_lo(u64 x) { return (u32)x; }

/* Returns floor(a * b / 2^64). */
CLS_INLINE u64 u64_mul_hi(u64 a, u64 b)
{
    const u64 ll = (u64)u64_lo(a) * u64_lo(b);
    const u64 lh = (u64)u64_lo(a) * u64_hi(b);
    const u64 hl = (u64)u64_hi(a) * u64_lo(b);
    const u64 hh = (u64)u64_hi(a) * u64_hi(b);
    const u64 mid = (ll >> 32) + u64_lo(lh) + u64_lo(hl);
    return hh + (lh >> 32) + (hl >> 32) + (mid >> 32);
}
/* Offsets of elements. Kernels get offsets and strides of 64 bits, since a size_t cannot be an
 * argument; where addresses have 32 bits, all valid offsets fit these. */
CLS_INLINE size_t row_offset(u64 offset, u64 stride, u32 row)
{
    return (size_t)offset + (size_t)stride * row;
}
CLS_INLINE u64 u64_of(cls_wide a) { return u64_make(a.hi, a.lo); }
CLS_INLINE size_t wide_offset(cls_wide offset, cls_wide stride, u32 row)
{
    return row_offset(u64_of(offset), u64_of(stride), row);
}
/* Returns a float for estimates and outputs; no decision depends on it. */
CLS_INLINE f32 u64_to_f32(u64 a) { return (f32)u64_hi(a) * 4294967296.0f + (f32)u64_lo(a); }

#endif
