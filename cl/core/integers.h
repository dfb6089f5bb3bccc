/* SPDX-License-Identifier: MIT */
/* 64-bit integers, in the common subset of C and OpenCL C. All other code uses these functions and
 * no operators. Shifts are by 0 to 63. */
#ifndef CLS_INTEGERS_H
#define CLS_INTEGERS_H

#include "core/types.h"

CLS_INLINE u64 u64_make(u32 hi, u32 lo) { return ((u64)hi << 32) | (u64)lo; }
CLS_INLINE u64 u64_from(u32 x) { return (u64)x; }
CLS_INLINE u32 u64_hi(u64 x) { return (u32)(x >> 32); }
CLS_INLINE u32 u64_lo(u64 x) { return (u32)(x & 0xffffffffu); }
CLS_INLINE u64 u64_add(u64 a, u64 b) { return a + b; }
CLS_INLINE u64 u64_sub(u64 a, u64 b) { return a - b; }
CLS_INLINE int u64_less(u64 a, u64 b) { return a < b; }
CLS_INLINE int u64_is_zero(u64 a) { return a == 0; }
CLS_INLINE u64 u64_shl(u64 a, u32 n) { return a << n; }
CLS_INLINE u64 u64_shr(u64 a, u32 n) { return a >> n; }
/* u64_mul() returns the low half of the product, u64_div() the quotient. */
CLS_INLINE u64 u64_mul(u64 a, u64 b) { return a * b; }
CLS_INLINE u64 u64_div(u64 a, u64 b) { return a / b; }
/* Returns the full product of two 32-bit integers. It does not use mul_hi(uint), which PoCL
 * emulates 4 to 14 times more slowly. */
CLS_INLINE u64 u64_mul32(u32 a, u32 b) { return (u64)a * (u64)b; }

/* Returns floor(a * b / 2^64). */
CLS_INLINE u64 u64_mul_hi(u64 a, u64 b)
{
    const u64 ll = u64_mul32(u64_lo(a), u64_lo(b));
    const u64 lh = u64_mul32(u64_lo(a), u64_hi(b));
    const u64 hl = u64_mul32(u64_hi(a), u64_lo(b));
    const u64 hh = u64_mul32(u64_hi(a), u64_hi(b));
    const u64 mid =
        u64_add(u64_add(u64_from(u64_hi(ll)), u64_from(u64_lo(lh))), u64_from(u64_lo(hl)));
    return u64_add(u64_add(hh, u64_from(u64_hi(lh))),
                   u64_add(u64_from(u64_hi(hl)), u64_from(u64_hi(mid))));
}
/* Offsets of elements. Kernels get offsets and strides of 64 bits, since a size_t cannot be an
 * argument; where addresses have 32 bits, all valid offsets fit these. The shift is done in two
 * steps, because there a shift by 32 would be undefined. */
CLS_INLINE size_t u64_to_size(u64 a) { return (((size_t)u64_hi(a) << 16) << 16) | u64_lo(a); }
CLS_INLINE size_t row_offset(u64 offset, u64 stride, u32 row)
{
    return u64_to_size(offset) + u64_to_size(stride) * row;
}
CLS_INLINE u64 u64_of(cls_wide a) { return u64_make(a.hi, a.lo); }
CLS_INLINE size_t wide_offset(cls_wide offset, cls_wide stride, u32 row)
{
    return row_offset(u64_of(offset), u64_of(stride), row);
}
/* Returns a float for estimates and outputs; no decision depends on it. */
CLS_INLINE f32 u64_to_f32(u64 a) { return (f32)u64_hi(a) * 4294967296.0f + (f32)u64_lo(a); }

#endif
