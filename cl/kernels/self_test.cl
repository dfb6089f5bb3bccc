/* SPDX-License-Identifier: MIT */
#include "core/vectors.cl"
#include "core/philox.h"

#ifdef CLS_LIMITED
#define ENDS 0u
#else
#define ENDS 1u
#endif
/* self_test: weights, splits and sums that the host knows: out[i] from seed i.
 * One item, some microseconds: a device whose arithmetic differs is refused. */
KERNEL void cls_self_test(__global u32 *out, const u32 n)
{
    for (u32 i = get_local_id(0); i < n; i += WGS)
        out[i] = self_test_word(i, ENDS);
}
