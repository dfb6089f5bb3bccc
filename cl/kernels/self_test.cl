/* SPDX-License-Identifier: MIT */
#include "core/vectors.cl"
#include "core/philox.h"

/* self_test: computes weights, splits and sums that the host knows, out[i] from seed i, in some
 * microseconds. A device whose arithmetic differs is refused. The kernel takes as much local memory
 * as kernels with a list, so that the driver shows with it whether the lists of a context fit; some
 * drivers count more than a kernel declares (rusticl twice as much). Launch: one group. */
KERNEL void cls_self_test(__global u32 *out, const u32 n)
{
    __local u64 room[3 * LIST + WGS];
    const u32 lid = LOCAL_ID;
    for (u32 i = lid; i < n; i += WGS) {
        room[3 * LIST + lid] = self_test_word(i);
        out[i] = u64_lo(room[3 * LIST + lid +
                             (n >> 31)]); /* compilers cannot know that this is the same element */
    }
}
