/* SPDX-License-Identifier: MIT */
/* random: the random numbers of a row. They are a function of the seed, the stream and the
 * position, so there is no generator with a state. */
#include "core/philox.h"
#include "row/step.cl"

/* Returns a row's 64 random bits for a purpose. */
ONE_COPY u64 row_bits(const step_args *s, u32 purpose, __global const cls_slot *slot, u32 row)
{
    const u32 has = s->has;
    if ((has & CLS_HAS_RANDOM) && purpose == CLS_PURPOSE_TOKEN)
        return AT_OFFSET(s, random)[row];
    u32 position = has & CLS_HAS_POSITIONS ? (u32)AT_OFFSET(s, positions)[row] : slot->position;
    if (has & CLS_POSITIONS_ADD)
        position = slot->position + (u32)AT_OFFSET(s, positions)[row];
    const u32 draw = has & CLS_HAS_DRAWS ? (u32)AT_OFFSET(s, draws)[row] : 0u;
    const u32 seed[2] = {slot->seed[0], slot->seed[1]},
              stream[2] = {slot->stream[0], slot->stream[1]};
    return philox_bits(purpose, seed, stream, position, draw);
}
