/* SPDX-License-Identifier: MIT */
/* The soft-cap of logits, cap tanh(x / cap), in the common subset of C and OpenCL C: single float32
 * operations, conversions and integers, so that every device gets the same bits
 * (doc/arithmetic.md, rules L5 and L6).
 *
 * It never decreases as x grows, for any cap. y and cap t never decrease as |x| and t grow, since
 * one rounding keeps the order; that t never decreases as y grows, tests/arithmetic shows for each
 * float. Near 0, where devices may flush y, |x| is the smaller number, and the result. */
#ifndef CLS_SOFTCAP_H
#define CLS_SOFTCAP_H

#include "core/types.h"

/* A soft-cap is from 2^-100 to 2^100, so that neither it, its reciprocal nor 2^-13 of it is
 * subnormal. */
#define CLS_SOFTCAP_LEAST 0x1p-100f
#define CLS_SOFTCAP_MOST 0x1p+100f

/* One body serves scalars and vectors. Below 1/2 t is y less a small part of it, and from there on
 * 1 less a part that e^-2y has: g is 2 e^-2y, and 1 - tanh y is g - g (g / (2 + g)). The factors of
 * 2^h are positive, so that g never increases. */
#define CLS_DEFINE_SOFTCAP(QUALIFIERS, NAME, F, I, AS_F, AS_I, TO_F, TO_I) \
    QUALIFIERS F NAME(F x, f32 cap, f32 reciprocal) \
    { \
        const I bits = AS_I(x), magnitude = bits & 0x7fffffff; \
        const F size = AS_F(magnitude), limit = (F)(10.0f); /* beyond it t is 1 */ \
        const F least = (F)(cap * 0x1p-13f); \
        F y = size * reciprocal, t, u, g, h; \
        I n; \
        y = y < limit ? y : limit; \
        u = y * y; \
        t = u * -0x1.1abd18p-6f; \
        t = t + 0x1.b29c1cp-5f; \
        t = t * u; \
        t = t - 0x1.10ea8ep-3f; \
        t = t * u; \
        t = t + 0x1.5554dap-2f; \
        t = t * u; \
        t = t * y; \
        t = y - t; \
        u = y * 0x1.715476p+1f; \
        n = TO_I(u); \
        h = TO_F(n + 1) - u; \
        g = h * 0x1.e974fcp-10f; \
        g = g + 0x1.277854p-7f; \
        g = g * h; \
        g = g + 0x1.c91ce6p-5f; \
        g = g * h; \
        g = g + 0x1.ebdb56p-3f; \
        g = g * h; \
        g = g + 0x1.62e4bap-1f; \
        g = g * h; \
        g = g + 1.0f; \
        g = AS_F(AS_I(g) - (n << 23)); \
        h = g * -0x1.2eca02p-8f; \
        h = h + 0x1.68461ap-6f; \
        h = h * g; \
        h = h - 0x1.db1bd6p-5f; \
        h = h * g; \
        h = h + 0x1.fb0048p-4f; \
        h = h * g; \
        h = h - 0x1.ffa88ep-3f; \
        h = h * g; \
        h = h + 0x1.fffdbep-2f; \
        h = h * g; \
        h = h * g; \
        h = g - h; \
        h = 1.0f - h; \
        t = y < (F)(0.5f) ? t : h; \
        t = t * cap; \
        t = t > least ? t : least; \
        t = size < t ? size : t; \
        return magnitude >= 0x7f800000 ? x : AS_F(AS_I(t) | (bits ^ magnitude)); \
    }
#define CLS_SOFTCAP_TO_F32(x) ((f32)(x))
#define CLS_SOFTCAP_TO_I32(x) ((i32)(x))

/* Returns the soft-cap of a logit; NaN and infinities as they are. `reciprocal`: 1 / cap, from the
 * host. */
CLS_DEFINE_SOFTCAP(CLS_CALLED, softcap, f32, i32, CLS_AS_F32, CLS_AS_I32, CLS_SOFTCAP_TO_F32,
                   CLS_SOFTCAP_TO_I32)

#endif
