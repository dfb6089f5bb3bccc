/* SPDX-License-Identifier: MIT */
/* The shape of the work: vectors of VEC tokens, and work-groups of WGS items (core/groups.cl). The
 * host defines VEC, WGS, DTYPE and LIST.
 *
 * One source serves CPUs (VEC 16, WGS 1: PoCL is fast with explicit vectors) and GPUs (VEC 4,
 * WGS 256). WGS is a compile-time constant, because PoCL 3.1 miscompiles reductions whose bound is
 * the local size. */
#include "core/arithmetic.h"
#include "core/groups.cl"

#ifndef VEC
#define VEC 16
#endif
#ifndef DTYPE
#define DTYPE 0
#endif
#ifndef LIST
#define LIST 1024
#endif

/* What the rows of a launch and their chains may use: everything by default. For rows that need
 * less, the host compiles less; their tokens are the same. ROW 0: no mask, no dense bias, no logit
 * biases, no penalties and no window for them, no history effects, no drafts. CHAIN 0: greedy rows,
 * and rows that nothing truncates. CHAIN 1: these, and static temperature, top-k, top-p, min-p and
 * min_keep. */
#ifndef ROW
#define ROW 1
#endif
#ifndef CHAIN
#define CHAIN 2
#endif
/* SEARCH 1: the whole row is searched where the shortlist does not hold the set. */
#ifndef SEARCH
#define SEARCH 0
#endif

/* SHARED_VIEW 1: functions get the view of a row by address, and it lies in local memory, once for
 * the group; one item writes it, between barriers. So NVIDIA's compiler can call these functions
 * (CALLED): in private memory each item would have a view in its stack. Compilers of AMD and Intel
 * inline the functions and keep the view in registers. Groups without sub-groups have it in local
 * memory, too, where each register counts; so the tests on CPUs run it. */
#ifndef SHARED_VIEW
#define SHARED_VIEW 0
#endif
#define SHARES_VIEW (SHARED_VIEW && WGS > 1 && (SUBGROUPS == 0 || SUBGROUPS == 5))
#if SHARES_VIEW
#define SHARED __local
#define SHARED_BARRIER() LOCAL_BARRIER()
#define WRITES_SHARED (LOCAL_ID == 0)
#else
#define SHARED
#define SHARED_BARRIER()
#define WRITES_SHARED 1
#endif
#define CALLS (SHARES_VIEW && SUBGROUPS == 5)
#if CALLS
#define CALLED static __attribute__((noinline, unused))
#define CALLED_IN_LOOPS CALLED
#else
#define CALLED ONE_COPY
#define CALLED_IN_LOOPS static inline __attribute__((always_inline))
#endif

/* SHARD 1: rows have only the tokens from args->first to args->last - 1. */
#ifndef SHARD
#define SHARD 0
#endif

/* Stands before a loop of few iterations, or one whose iterations depend on each other. Unrolled or
 * vectorized, it would be many times the code, would take more registers and would hardly be
 * faster. */
#ifdef __clang__
#define SHORT_LOOP _Pragma("clang loop unroll(disable) vectorize(disable)")
#else
#define SHORT_LOOP
#endif

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)

#define FV CAT(float, VEC)
#define IV CAT(int, VEC)
#define UV CAT(uint, VEC)
#define VLOAD(p) CAT(vload, VEC)(0, p)
#define VSTORE(v, p) CAT(vstore, VEC)(v, 0, p)
/* Load vectors from the library's own buffers, where each starts at a multiple of its size. vload
 * promises less: see WIDE in core/load.cl. */
#if WGS > 1
#define LOAD_KEYS(p) (*(__global const IV *)(p))
#define LOAD_FLOATS(p) (*(__global const FV *)(p))
#else
#define LOAD_KEYS VLOAD
#define LOAD_FLOATS VLOAD
#endif
#define AS_FV CAT(as_float, VEC)
#define AS_IV CAT(as_int, VEC)
#define AS_UV CAT(as_uint, VEC)
#define TO_UV(x) AS_UV(CAT(convert_int, VEC)(x))
#define TO_FV(x) CAT(convert_float, VEC)(x)

/* The number of vectors that a work-item loads and weighs at once. */
#define UNROLL 4
#define W_VECTOR(i) w[i] = TO_UV(AS_FV(AS_UV(p[i]) + (AS_UV(r[i]) << 23)));
CLS_DEFINE_WEIGHTS(weigh_vectors, UNROLL, CLS_EACH_4, FV, UV, W_VECTOR)
CLS_DEFINE_WEIGHTS(weigh_vector, 1, CLS_EACH_1, FV, UV, W_VECTOR)
static inline UV weight_v(FV z, f32 tile_max, f32 scale, f32 fraction)
{
    UV w;
    weigh_vector(&z, &w, tile_max, scale, fraction);
    return w;
}

#if VEC == 2
#define LANES (IV)(0, 1)
#elif VEC == 4
#define LANES (IV)(0, 1, 2, 3)
#elif VEC == 8
#define LANES (IV)(0, 1, 2, 3, 4, 5, 6, 7)
#else
#define LANES (IV)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#endif

/* Reduces a vector to a scalar, by halves. */
#define DEFINE_FOLD(NAME, T, OP) \
    static inline T NAME##2(CAT(T, 2) v) { return OP(v.x, v.y); } \
    static inline T NAME##4(CAT(T, 4) v) { return NAME##2(OP(v.lo, v.hi)); } \
    static inline T NAME##8(CAT(T, 8) v) { return NAME##4(OP(v.lo, v.hi)); } \
    static inline T NAME##16(CAT(T, 16) v) { return NAME##8(OP(v.lo, v.hi)); }
DEFINE_FOLD(fold_fmax, float, LARGER)
DEFINE_FOLD(fold_fmin, float, SMALLER)
DEFINE_FOLD(fold_imax, int, LARGER)
DEFINE_FOLD(fold_fsum, float, PLUS)
DEFINE_FOLD(fold_isum, int, PLUS)
DEFINE_FOLD(fold_usum, uint, PLUS)
DEFINE_FOLD(fold_or, int, EITHER)
#define FMAX CAT(fold_fmax, VEC)
#define FMIN CAT(fold_fmin, VEC)
#define IMAX CAT(fold_imax, VEC)
#define FSUM CAT(fold_fsum, VEC)
#define ISUM CAT(fold_isum, VEC)
#define USUM CAT(fold_usum, VEC)
/* The number of true lanes, from a sum of comparisons (-1 each). The comparisons are summed up and
 * not subtracted: compilers turn count -= a > b into a widening that Oclgrind gets wrong (255 for a
 * true lane). */
#define COUNT(v) ((u32)-ISUM(v))
#define ANY(v) (CAT(fold_or, VEC)(v) < 0)

/* Returns the index of a word's lowest bit; one must be set. Compilers for CPUs make that one
 * instruction. word & -word would be BLSI, which waits for the last value of its destination on
 * Zen 5: loops over tiles then ran one trip after another, four times as long. */
#define lowest_bit(word) ((u32)popcount(~(word) & ((word)-1)))

/* Returns the true lanes of a comparison as bits. */
static inline u32 lane_bits(IV v) { return (u32)CAT(fold_or, VEC)(v & ((IV)(1) << LANES)); }

#define LANES_16 (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
static inline u32 lane_bits_16(int16 v) { return (u32)fold_or16(v & ((int16)(1) << LANES_16)); }

/* Lane j, which must be larger than CLS_MASKED. CPUs store the vector and read the lane from
 * memory; GPUs would need private memory for that. */
#if WGS == 1
static inline f32 lane_of(FV x, u32 j)
{
    f32 lane[VEC];
    VSTORE(x, lane);
    return lane[j];
}
#else
static inline f32 lane_of(FV x, u32 j)
{
    return FMAX(LANES == (IV)((i32)j) ? x : (FV)(CLS_MASKED));
}
#endif

/* x > 0 ? x : 0. Written that way, compilers make it a saturating subtraction, which Oclgrind
 * lacks. */
static inline i32 not_negative(i32 x) { return x & ~(x >> 31); }

/* Exact sums of weights. They fit 32-bit lanes only in two parts: the sum of x >> 7, for at most 64
 * vectors, and the low 32 bits of the whole sum, which give the sum of x & 127. Two weights added
 * up first cost two operations each instead of three. */
typedef struct weight_sum {
    UV high, low;
} weight_sum;
static inline void sum_add(weight_sum *s, UV x)
{
    s->high += x >> 7;
    s->low += x;
}
static inline void sum_vectors(weight_sum *s, const UV *x)
{
    sum_add(s, x[0] + x[1]); /* at most 2^31 + 256 */
    sum_add(s, x[2] + x[3]);
}
static inline u64 sum_total(const weight_sum *s)
{
    const UV rest = s->low - (s->high << 7); /* the sum of x & 127, which is small */
    const u64 high = ((u64)USUM(s->high >> 16) << 16) + USUM(s->high & 0xffffu);
    return (high << 7) + USUM(rest);
}

/* The sum of a vector's lanes, each below 2^32. For sums of two vectors of weights this takes 1.5
 * operations a token; a weight_sum would take 4.3 for a share. */
#define DEFINE_SUM_64(N, HALF) \
    static inline u64 sum_64_##N(uint##N v) { return sum_64_##HALF(v.lo) + sum_64_##HALF(v.hi); }
static inline u64 sum_64_2(uint2 v) { return (u64)v.x + v.y; }
DEFINE_SUM_64(4, 2)
DEFINE_SUM_64(8, 4)
DEFINE_SUM_64(16, 8)
#define SUM_64 CAT(sum_64_, VEC)
