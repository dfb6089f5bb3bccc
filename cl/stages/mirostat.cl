/* SPDX-License-Identifier: MIT */
/* mirostat: keep what is at most as surprising as a limit that follows the text. */
#include "row/list.cl"
#include "row/cut.cl"
#include "row/sums.cl"

/* Mirostat 1 without a list of the first ranks: key by key. */
static inline u32 mirostat_row(const row_logits *r, const cls_slot *slot, __global const i32 *row_key, u32 n, i32 top_key,
                               f32 scale, u32 tokens, __local u64 *scratch)
{
    const u32 ranks = min(tokens, (u32)CLS_MIROSTAT_RANKS);
    u64 terms = u64_from(0), squares = u64_from(0);
    i32 key = top_key;
    if (ranks < 2)
        return 1;
    for (u32 i = 0; i + 1 < ranks; i++)
        squares = u64_add(squares, u64_mul32(mirostat_step(i), mirostat_step(i)));
    for (u32 rank = key_count(r, row_key, n, key, scratch); rank < ranks;) {
        i32 lo = CLS_KEY_NONE, next = key - 1;
        key_range(r, row_key, n, &lo, &next, scratch);
        const u32 drop = depth_q20(of_key(next), of_key(top_key), scale) - depth_q20(of_key(key), of_key(top_key), scale);
        terms = u64_add(terms, u64_mul32(mirostat_step(rank - 1), drop));
        key = next;
        rank += key_count(r, row_key, n, key, scratch);
    }
    return mirostat_count(terms, squares, slot->mode.mu, r->vocab);
}
