/* SPDX-License-Identifier: MIT */
/* repetitions_cpu: the search for repetitions by one work-item. */
#include "slot/repetitions.cl"

#if WGS == 1
/* Searches from the newest position to the oldest, with Gusfield's Z boxes: what lies inside a
 * repetition that was measured is not compared again. A text of one repeated token costs one
 * comparison a position. */
static inline void search_repetitions(const history_effects *p, const repeat_search *h,
                                      __local uint2 *chunk, __local u64 *scratch)
{
    __global u32 *const lengths =
        p->links + p->length; /* the lengths of repetitions, by position */
    const u32 n = h->n, last = p->text[n - 1];
    u32 left = 0, right = 0;  /* the Z box: how far back its repetition ends and begins */
    u32 id = NO_ID, done = 0; /* the last token that was marked, and its code */
    for (u32 chunk = (n - 1 + 63) / 64 * 64; chunk > 0; chunk -= 64) {
        int16 some = (int16)(0);
        for (u32 k = 0; k < 64; k += 16)
            some |= vload16(0, p->text + (chunk - 64 + k)) == last;
        if (!h->every && fold_or16(some) == 0)
            continue;
        for (u32 base = chunk; base > chunk - 64; base -= 16) {
            const u32 start = base - 16;
            const u32 equal = lane_bits_16(vload16(0, p->text + start) == last);
            u32 hits = h->every ? 0xffffu : equal;
            if (start + 16 > n - 1)
                hits &= start >= n - 1 ? 0u : 0xffffu >> (start + 16 - (n - 1));
            while (hits != 0) {
                const u32 lane = 31 - clz(hits), j = start + lane, back = n - 1 - j;
                u32 z = 0;
                hits ^= 1u << lane;
                if (equal >> lane & 1u) {
                    z = back < right ? lengths[j + left] : 0u;
                    if (back + z >= right)
                        z = repeat_length(p, n, j, max(right, back + 1) - back, longest_at(h, j));
                    lengths[j] = z;
                    if (back + z > right) {
                        left = back;
                        right = back + z;
                    }
                }
                /* A text that repeats itself has the same token after each hit. */
                const u32 code = hit_code(p, h, j, z), next = p->text[j + 1];
                if (code > (next == id ? done : 0u)) {
                    mark_token(p, next, PACK(code, j + 1));
                    id = next;
                    done = code;
                }
            }
        }
    }
}
#endif
