/* SPDX-License-Identifier: MIT */
/* The numbers that the host and the kernels share: integers and floats of fixed width. C and OpenCL
 * C both compile this file, and those that include it. */
#ifndef CLS_TYPES_H
#define CLS_TYPES_H

#ifdef __OPENCL_C_VERSION__
#pragma OPENCL FP_CONTRACT OFF
typedef uint u32;
typedef ushort u16;
typedef int i32;
typedef ulong u64;
typedef float f32;
#define CLS_INLINE static inline
/* A function of numbers that NVIDIA's compiler must call: it otherwise inlines every function at
 * every place, and token-all has 485 KB of code, not 329, and spills 1,036 bytes, not 476. A struct
 * whose address such a function takes would move to memory. Compilers for CPUs, where groups have
 * one item, have 4 % less to compile by calls. Others inline them: AMD's calls save registers
 * (search: 224 bytes of scratch, not 12), and on Intel's GPUs a thread of token-row takes 32 KB of
 * scratch, not 8. */
#if defined SUBGROUPS && (SUBGROUPS == 5 || WGS == 1)
#define CLS_CALLED static __attribute__((noinline, unused))
#else
#define CLS_CALLED static inline
#endif
#define CLS_AS_I32(x) as_int(x)
#define CLS_AS_F32(x) as_float(x)
#else
#include <stdint.h>
#include <string.h>
typedef uint32_t u32;
typedef uint16_t u16;
typedef int32_t i32;
typedef uint64_t u64;
typedef float f32;
#define CLS_INLINE static inline
#define CLS_CALLED static inline
CLS_INLINE i32 CLS_AS_I32(f32 x)
{
    i32 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
CLS_INLINE f32 CLS_AS_F32(i32 bits)
{
    f32 x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
#endif
typedef struct cls_wide { /* 64 bits, for devices without such integers */
    u32 lo, hi;
} cls_wide;

#endif
