/* SPDX-License-Identifier: MIT */
/* Compiles cl/core/integers.h and the files that use it for the host with 64-bit integers as pairs
 * of 32-bit halves, as kernels of tier 0 use them. */
#define CLS_HALVES
#include "core/types.h"

#include "core/integers.h"

#include "core/arithmetic.h"

#include "core/philox.h"

#include "halves.h"

static u64 of(uint64_t x) { return u64_make((u32)(x >> 32), (u32)x); }
static uint64_t to(u64 x) { return (uint64_t)u64_hi(x) << 32 | u64_lo(x); }

uint64_t halves(enum halves_function f, uint64_t a, uint64_t b)
{
    switch (f) {
    case HALVES_ADD:
        return to(u64_add(of(a), of(b)));
    case HALVES_SUB:
        return to(u64_sub(of(a), of(b)));
    case HALVES_LESS:
        return (uint64_t)u64_less(of(a), of(b));
    case HALVES_IS_ZERO:
        return (uint64_t)u64_is_zero(of(a));
    case HALVES_SHL:
        return to(u64_shl(of(a), (u32)b));
    case HALVES_SHR:
        return to(u64_shr(of(a), (u32)b));
    case HALVES_MUL32:
        return to(u64_mul32((u32)a, (u32)b));
    case HALVES_MUL:
        return to(u64_mul(of(a), of(b)));
    case HALVES_DIV:
        return to(u64_div(of(a), of(b)));
    case HALVES_MUL_HI:
        return to(u64_mul_hi(of(a), of(b)));
    case HALVES_SELF_TEST:
        return self_test_word((u32)a);
    case HALVES_FUNCTIONS:
        break;
    }
    return 0;
}
