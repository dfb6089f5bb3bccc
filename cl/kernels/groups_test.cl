/* SPDX-License-Identifier: MIT */
/* groups_test: computes known answers with core/groups.cl. It is a program of its own, by which
 * lib/device/subgroups.c decides whether to use sub-groups.
 *
 * Launch: one group of WGS items, each of which writes CLS_GROUP_WORDS words to `out`. Then, with
 * `compares`, any number of groups, each item of which sets its word of `wrong` if it computes
 * other words than these: what is wrong now and then shows only if many groups run at once. */
#include "core/groups.cl"
#include "core/groups_test.h"

KERNEL void cls_groups_test(__global u32 *out, __global const half *halves, __global u32 *wrong,
                            u32 compares)
{
    __local u64 array[WGS];
    /* The address of the array, in a form that is no constant for compilers: where LLVM makes one
     * of it in a function that is not inlined, PoCL's threads share the array (doc/porting.md). */
    __local u64 *const scratch = array + (compares >> 1);
    const u32 lid = LOCAL_ID, x = group_test_input(lid);
    __global u32 *const words = out + lid * CLS_GROUP_WORDS;
    u32 to[CLS_GROUP_WORDS], different = 0;
    u32 count;
    u64 mass;
    to[0] = (u32)wg_imax((i32)x, scratch);
    to[1] = wg_usum(x, scratch);
    to[2] = wg_uor(x & 0x01010101u, scratch);
    to[3] = as_uint(wg_fmax((f32)(x >> 8), scratch));
    to[4] = as_uint(wg_fsum((f32)(x >> 24), scratch));
    mass = wg_mass(u64_make(x >> 16, x), scratch);
    to[5] = u64_hi(mass);
    to[6] = u64_lo(mass);
    to[7] = wg_scan_u32(x, scratch, &count);
    to[8] = count;
    const u64 before = wg_scan_mass(u64_make(x >> 16, x), scratch, &mass);
    to[9] = u64_hi(before);
    to[10] = u64_lo(before);
    to[11] = u64_lo(wg_broadcast(x, lid == WGS - 1, scratch));
#if SUBGROUPS == 0
    to[12] = 1;
    to[13] = 0;
#else
    to[12] = SG_SIZE;
    to[13] = SG_LANE;
#endif
    /* Oclgrind reads zeros here when the program is built for another version of OpenCL C than
     * 1.2. */
    to[14] = as_uint(vload_half(lid & 3u, halves));
    /* The maximum and then the minimum, as kernels compute a range. The minimum is not computed as
     * the maximum of negated numbers: Intel's compiler for CPUs (2025.0.5 to 2026.2) breaks a store
     * of x, a barrier and a store of -x, and no kernel contains that. */
    const f32 again = wg_fmax((f32)(x >> 8), scratch), least = wg_fmin((f32)(x >> 8), scratch);
    to[15] = as_uint(least) + 3 * as_uint(again) + 5 * (u32)wg_imin((i32)x, scratch) +
             7 * wg_umin(x, scratch);
    for (u32 i = 0; i < CLS_GROUP_WORDS; i++) {
        if (compares)
            different |= to[i] ^ words[i];
        else
            words[i] = to[i];
    }
    if (different != 0)
        wrong[get_global_id(0)] = 1;
}
