/* SPDX-License-Identifier: MIT */
/* The watermark of vLLM, by Gumbel's trick: the key and the latest ids of the output give every
 * token a number u in (0, 1), and the draw takes the token of the set whose -log(u) is the least
 * for its mass. C and OpenCL C both compile this file; doc/arithmetic.md has the rules X and why
 * they are so. */
#ifndef CLS_WATERMARK_H
#define CLS_WATERMARK_H

#include "core/philox.h"

#define CLS_WATERMARK_MOST 16          /* ids of a context */
#define CLS_WATERMARK_POSITIONS 8192u  /* latest positions, in which a context may not repeat */
#define CLS_WATERMARK_NONE 0xffffffffu /* the id before the output */

/* Hashes a context of w ids, four at a time: those from place `first` on. The state of an empty
 * context is watermark_begin(). */
CLS_INLINE void watermark_begin(u32 state[4], u32 w)
{
    state[0] = 0x574D4358u;
    state[1] = w;
    state[2] = state[3] = 0;
}
CLS_INLINE void watermark_hash(u32 state[4], u32 w, u32 first, const u32 ids[4], const u32 key[2])
{
    for (u32 i = 0; i < 4; i++)
        state[i] ^= first + i < w ? ids[i] : ~i;
    philox4x32(state, key[0] ^ first, key[1]);
}
/* Sets words to the random words of ids 4 block to 4 block + 3. */
CLS_INLINE void watermark_words(u32 words[4], const u32 state[4], u32 block, const u32 key[2])
{
    words[0] = block;
    words[1] = state[0];
    words[2] = state[1];
    words[3] = state[2];
    philox4x32(words, key[0] ^ state[3], key[1] ^ 0x574D544Bu);
}

/* Returns -log2(1 - c / (2^24 + 1)), for c from 1 to 2^24, in units of 2^-56. Winners have a small
 * c, where log2_q24() would be too coarse. */
CLS_INLINE u64 watermark_surprise(u32 c)
{
    const u32 n = (1u << 24) + 1u - c, whole = top_bit(n);
    u64 m = (u64)n << (63u - whole), log = whole;
    for (u32 i = 0; i < 56; i++) {
        m = u64_mul_hi(m, m);
        log <<= 1;
        if (m >> 63)
            log |= 1;
        else
            m <<= 1;
    }
    return u64_make(0x18000001u, 0x7154759au) - log; /* log2(2^24 + 1) */
}

/* The best token so far: the least surprise for its mass, and the lowest id of equal ones. A token
 * with a mass below `least` cannot be better, since no surprise is below 2^32. */
typedef struct cls_marked {
    u64 surprise, mass, least;
    u32 id;
} cls_marked;
CLS_INLINE cls_marked marked_none(void)
{
    const cls_marked none = {1, 0, 1, CLS_MAX_ID};
    return none;
}
CLS_INLINE int marked_before(u64 surprise, u64 mass, u32 id, const cls_marked *best)
{
    const u64 a = u64_mul_hi(surprise, best->mass), b = u64_mul_hi(best->surprise, mass),
              low_a = surprise * best->mass, low_b = best->surprise * mass;
    return a != b ? a < b : low_a != low_b ? low_a < low_b : id < best->id;
}
/* Compares a token, given by its random word and its mass, with the best one. Most need no
 * logarithm: the surprise of c is at least 2^32 c. */
CLS_INLINE void marked_try(u32 word, u64 mass, u32 id, cls_marked *best)
{
    const u32 c = (1u << 24) - (word >> 8);
    if (mass < best->least || (u64)c * (best->least >> 4) > mass >> 4)
        return;
    const u64 surprise = watermark_surprise(c);
    if (marked_before(surprise, mass, id, best)) {
        best->surprise = surprise;
        best->mass = mass;
        best->least = mass / ((surprise >> 32) + 1) + (u64)(mass <= surprise >> 32);
        best->id = id;
    }
}

#endif
