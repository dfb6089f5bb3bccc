/* SPDX-License-Identifier: MIT */
/* What the WGS items of a work-group compute together: reductions, prefix sums and a broadcast.
 *
 * Every item of the group must call these functions. `scratch` is local memory of WGS u64. Each
 * function begins with a barrier, so that the previous result may be read until then. Their
 * barriers order local memory only: whoever reads next what another item wrote to a buffer needs a
 * BARRIER().
 *
 * SUBGROUPS (a cls_subgroups) does most of the steps within sub-groups, without barriers. Of each
 * driver's extensions only one function is used: the value of the lane whose number differs by a
 * mask. lib/device/subgroups.c enables it after cls_groups_test has computed the right answers. It
 * requests sub-groups whose size is a power of two and divides WGS. */
#include "core/types.h"
#include "core/integers.h"

#ifndef WGS
#define WGS 1
#endif
#ifndef SUBGROUPS
#define SUBGROUPS 0
#endif

#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
#define PLUS(a, b) ((a) + (b))
#define EITHER(a, b) ((a) | (b))

/* ONE_COPY marks a function that compilers for CPUs, where groups have one item, do not inline.
 * PoCL compiles a kernel three times, once for each way to launch it, with everything that it
 * inlines. So the body of each kernel is such a function, and so is a function with several callers
 * outside hot loops. PoCL still inlines every function that calls get_local_id() or get_group_id();
 * so LOCAL_ID is a constant there, and the group's number is an argument. This compiles all
 * programs of a type in 14 s instead of 28. */
#if WGS == 1
#define ONE_COPY static __attribute__((noinline))
#define LOCAL_ID 0u
#define BARRIER()
#define LOCAL_BARRIER()
#else
#ifdef cl_intel_vec_len_hint /* see ITEMS_WIDTH */
#define ONE_COPY static inline __attribute__((always_inline))
#else
#define ONE_COPY static inline
#endif
#define LOCAL_ID ((u32)get_local_id(0))
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
/* For places where no item reads what another one wrote to a buffer. With it AMD's compiler keeps
 * loads in flight across the barrier, and no device waits for stores. */
#define LOCAL_BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#endif

/* The group's number in the second dimension of a launch that may need more groups there than the
 * 65,535 of GPUs: it is then launched in parts, all but the first one with an offset. */
#define GROUP_OF_ALL ((u32)(get_group_id(1) + get_global_offset(1)))

/* Intel's compiler for CPUs merges the items of a group into vectors, 16 at a time. A function that
 * it then calls, and does not inline, runs from its beginning to its end for one item after
 * another, as if it had no barriers (2026.2). So it must leave items apart; and where sub-groups
 * make it merge them all the same, it must inline.
 *
 * Other compilers choose the size of sub-groups for each kernel, so the one that was tested is
 * required of all kernels. (If it is required of Intel's compiler for CPUs, that merges the items
 * by 16, and one of the self-test's cases gets a wrong token.) */
#if defined cl_intel_vec_len_hint
#define ITEMS_WIDTH __attribute__((intel_vec_len_hint(1)))
#elif SUBGROUPS == 2 && defined cl_intel_required_subgroup_size && WGS % 16 == 0
#pragma OPENCL EXTENSION cl_intel_required_subgroup_size : enable
#define ITEMS_WIDTH __attribute__((intel_reqd_sub_group_size(16)))
#elif SUBGROUPS == 3 && defined cl_qcom_reqd_sub_group_size && WGS % 64 == 0
#pragma OPENCL EXTENSION cl_qcom_reqd_sub_group_size : enable
#define ITEMS_WIDTH __attribute__((qcom_reqd_sub_group_size("half")))
#else
#define ITEMS_WIDTH
#endif
#define KERNEL __kernel ITEMS_WIDTH __attribute__((reqd_work_group_size(WGS, 1, 1)))

/* ------------------------------------------------------------- sub-groups */

/* Each kind defines SG_SIZE, SG_LANE and SG_XOR(), the value of the lane whose number differs. */
#if SUBGROUPS == 1 || SUBGROUPS == 2 || SUBGROUPS == 3
#define SG_SIZE ((uint)get_sub_group_size())
#define SG_LANE ((uint)get_sub_group_local_id())
#endif
#if SUBGROUPS == 1 /* cl_khr_subgroup_shuffle */
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable
#define SG_XOR(x, mask) sub_group_shuffle_xor((uint)(x), (uint)(mask))
#elif SUBGROUPS == 2 /* cl_intel_subgroups */
#pragma OPENCL EXTENSION cl_intel_subgroups : enable
#define SG_XOR(x, mask) intel_sub_group_shuffle_xor((uint)(x), (uint)(mask))
#elif SUBGROUPS == 3 /* cl_qcom_subgroup_shuffle */
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#pragma OPENCL EXTENSION cl_qcom_subgroup_shuffle : enable
#define SG_XOR(x, mask) \
    qcom_sub_group_shuffle_xor((uint)(x), (uint)(mask), \
                               CLK_SUB_GROUP_SHUFFLE_WIDTH_WAVE_SIZE_QCOM, (uint)(x))
#elif SUBGROUPS == 4           /* AMD's compiler; its sub-group functions require OpenCL C 2.0 */
#ifdef __AMDGCN_WAVEFRONT_SIZE /* newer compilers have the builtin function instead */
#define SG_SIZE ((uint)__AMDGCN_WAVEFRONT_SIZE)
#else
#define SG_SIZE ((uint)__builtin_amdgcn_wavefrontsize())
#endif
#define SG_LANE ((uint)__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)))
#define SG_XOR(x, mask) \
    ((uint)__builtin_amdgcn_ds_bpermute((int)((SG_LANE ^ (mask)) << 2), (int)(x)))
#elif SUBGROUPS == 5 /* NVIDIA: PTX 6.0 */
#define SG_SIZE 32u
static inline uint sg_lane(void)
{
    uint lane;
    __asm__ volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}
static inline uint sg_xor(uint x, uint mask)
{
    uint other;
    __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;"
                     : "=r"(other)
                     : "r"(x), "r"(mask));
    return other;
}
#define SG_LANE sg_lane()
#define SG_XOR(x, mask) sg_xor(x, mask)
#endif

#define sg_u32(x, mask) SG_XOR(x, mask)
#define sg_i32(x, mask) ((i32)SG_XOR((u32)(x), mask))
#define sg_f32(x, mask) as_float(SG_XOR(as_uint(x), mask))
#define sg_u64(x, mask) u64_make(SG_XOR(u64_hi(x), mask), SG_XOR(u64_lo(x), mask))

/* ------------------------------------------------------ reductions and prefix sums */

/* Without sub-groups, local memory is a matrix with rows of WG_SIDE numbers; the last row may be
 * short. A reduction takes three barriers and a prefix sum four, in groups of any size; by halving
 * they took 10 and 18 in groups of 256. Up to 16 items form one row, which takes two barriers. */
#if WGS <= 16
#define WG_SIDE WGS
#elif WGS <= 64
#define WG_SIDE 8
#elif WGS <= 256
#define WG_SIDE 16
#else
#define WG_SIDE 32
#endif
#define WG_ROWS ((WGS + WG_SIDE - 1) / WG_SIDE)

#if WGS == 1

#define DEFINE_WG_REDUCE(NAME, T, SG, OP) \
    static inline T NAME(T x, __local u64 *scratch) { return x; }
#define DEFINE_WG_SCAN(NAME, T, SG, ADD, ZERO) \
    static inline T NAME(T x, __local u64 *scratch, T *total) \
    { \
        *total = x; \
        return ZERO; \
    }

#elif SUBGROUPS != 0

#define DEFINE_WG_REDUCE(NAME, T, SG, OP) \
    CLS_CALLED T NAME(T x, __local u64 *scratch) \
    { \
        __local T *const s = (__local T *)scratch; \
        const uint size = SG_SIZE; \
        for (uint mask = size >> 1; mask > 0; mask >>= 1) { \
            const T other = SG(x, mask); \
            x = OP(x, other); \
        } \
        LOCAL_BARRIER(); \
        if (SG_LANE == 0) \
            s[LOCAL_ID / size] = x; \
        LOCAL_BARRIER(); \
        x = s[0]; \
        for (uint i = 1; i < WGS / size; i++) \
            x = OP(x, s[i]); \
        return x; \
    }
/* Returns the sum over the items before this one; *total gets the sum over all. Each round joins
 * neighbouring blocks of `mask` lanes: the lanes of the upper block add the sum of the lower
 * one. */
#define DEFINE_WG_SCAN(NAME, T, SG, ADD, ZERO) \
    CLS_CALLED T NAME(T x, __local u64 *scratch, T *total) \
    { \
        __local T *const s = (__local T *)scratch; \
        const uint size = SG_SIZE, lane = SG_LANE, own = LOCAL_ID / size; \
        T before = ZERO, sum = ZERO; \
        for (uint mask = 1; mask < size; mask <<= 1) { \
            const T other = SG(x, mask); \
            if (lane & mask) \
                before = ADD(before, other); \
            x = ADD(x, other); \
        } \
        LOCAL_BARRIER(); \
        if (lane == 0) \
            s[own] = x; \
        LOCAL_BARRIER(); \
        for (uint i = 0; i < WGS / size; i++) { \
            if (i == own) \
                before = ADD(before, sum); \
            sum = ADD(sum, s[i]); \
        } \
        *total = sum; \
        return before; \
    }

#else

/* The first items reduce the columns; then every item reduces the row of their results. */
#define DEFINE_WG_REDUCE(NAME, T, SG, OP) \
    static inline T NAME(T x, __local u64 *scratch) \
    { \
        __local T *const s = (__local T *)scratch; \
        const uint lid = LOCAL_ID; \
        LOCAL_BARRIER(); \
        s[lid] = x; \
        LOCAL_BARRIER(); \
        if (WG_ROWS > 1) { \
            if (lid < WG_SIDE) { \
                for (uint i = 1; i < WG_ROWS; i++) { \
                    if (i * WG_SIDE + lid < WGS) { \
                        const T other = s[i * WG_SIDE + lid]; \
                        x = OP(x, other); \
                    } \
                } \
                s[lid] = x; \
            } \
            LOCAL_BARRIER(); \
        } \
        x = s[0]; \
        for (uint i = 1; i < WG_SIDE; i++) { \
            const T other = s[i]; \
            x = OP(x, other); \
        } \
        return x; \
    }
/* Each item adds up the items before it in its row, then the rows before its own, whose last items
 * have stored the sums of their rows. */
#define DEFINE_WG_SCAN(NAME, T, SG, ADD, ZERO) \
    static inline T NAME(T x, __local u64 *scratch, T *total) \
    { \
        __local T *const s = (__local T *)scratch; \
        const uint lid = LOCAL_ID, row_ = lid / WG_SIDE; \
        T before = ZERO, sum = ZERO; \
        LOCAL_BARRIER(); \
        s[lid] = x; \
        LOCAL_BARRIER(); \
        for (uint i = 0; i < WG_SIDE; i++) \
            if (row_ * WG_SIDE + i < lid) \
                before = ADD(before, s[row_ * WG_SIDE + i]); \
        if (WG_ROWS == 1) { \
            for (uint i = 0; i < WG_SIDE; i++) \
                sum = ADD(sum, s[i]); \
            *total = sum; \
            return before; \
        } \
        LOCAL_BARRIER(); \
        if (lid % WG_SIDE == WG_SIDE - 1 || lid == WGS - 1) \
            s[row_] = ADD(before, x); \
        LOCAL_BARRIER(); \
        for (uint i = 0; i < WG_ROWS; i++) { \
            if (i == row_) \
                before = ADD(before, sum); \
            sum = ADD(sum, s[i]); \
        } \
        *total = sum; \
        return before; \
    }
#endif

DEFINE_WG_REDUCE(wg_imax, i32, sg_i32, LARGER)
DEFINE_WG_REDUCE(wg_imin, i32, sg_i32, SMALLER)
DEFINE_WG_REDUCE(wg_umin, u32, sg_u32, SMALLER)
DEFINE_WG_REDUCE(wg_usum, u32, sg_u32, PLUS)
DEFINE_WG_REDUCE(wg_uor, u32, sg_u32, EITHER)
DEFINE_WG_REDUCE(wg_fsum, f32, sg_f32, PLUS)
DEFINE_WG_REDUCE(wg_fmax, f32, sg_f32, LARGER)
DEFINE_WG_REDUCE(wg_fmin, f32, sg_f32, SMALLER)
DEFINE_WG_REDUCE(wg_mass, u64, sg_u64, PLUS)

/* Adds up the first n of four sums, n a constant. They take turns at one place, since an index that
 * is not constant would put them into memory. */
static inline void wg_masses(u64 *sum, const u32 n, __local u64 *scratch)
{
    for (u32 i = 0; i < 4; i++) {
        const u64 mine = sum[0];
        sum[0] = sum[1];
        sum[1] = sum[2];
        sum[2] = sum[3];
        sum[3] = i < n ? wg_mass(mine, scratch) : mine;
    }
}

/* Two sums at once, of floats whose bits are the words of a u64. */
static inline u64 two_floats(f32 a, f32 b) { return u64_make(as_uint(a), as_uint(b)); }
static inline f32 first_float(u64 x) { return as_float(u64_hi(x)); }
static inline f32 second_float(u64 x) { return as_float(u64_lo(x)); }
static inline u64 add_two_floats(u64 a, u64 b)
{
    return two_floats(first_float(a) + first_float(b), second_float(a) + second_float(b));
}
DEFINE_WG_REDUCE(wg_fsum_2, u64, sg_u64, add_two_floats)
DEFINE_WG_SCAN(wg_scan_u32, u32, sg_u32, PLUS, 0)
DEFINE_WG_SCAN(wg_scan_mass, u64, sg_u64, PLUS, 0)

/* Broadcasts the number of the item for which `mine` is set; the others pass any number. */
static inline u64 wg_broadcast(u64 x, int mine, __local u64 *scratch)
{
#if WGS == 1
    return x;
#else
    LOCAL_BARRIER();
    if (mine)
        scratch[0] = x;
    LOCAL_BARRIER();
    return scratch[0];
#endif
}
