/* SPDX-License-Identifier: MIT */
/* Watermarks by Gumbel's trick: the key and the latest ids of the text give every token a number u
 * in (0, 1), and the draw takes the token of the set whose -log(u) is the least for its mass. vLLM
 * takes u from Philox, SGLang from Murmur3. C and OpenCL C both compile this file;
 * doc/arithmetic.md has the rules X and why they are so. */
#ifndef CLS_WATERMARK_H
#define CLS_WATERMARK_H

#include "core/philox.h"

#define CLS_WATERMARK_MOST 64          /* ids of a context */
#define CLS_WATERMARK_POSITIONS 8192u  /* latest positions, in which a context may not repeat */
#define CLS_WATERMARK_NONE 0xffffffffu /* vLLM's id before the output */

/* How a row is marked: by SGLang's rule, which has the state of a hash alone, or vLLM's. */
typedef struct cls_mark {
    u32 sglang, state[4], key[2];
} cls_mark;

/* -------------------------------------------------------------------------- vLLM */

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

/* ------------------------------------------------------------------------ SGLang */

CLS_INLINE u32 murmur_word(u32 state, u32 word)
{
    word *= 0xCC9E2D51u;
    word = (word << 15 | word >> 17) * 0x1B873593u;
    state ^= word;
    return (state << 13 | state >> 19) * 5u + 0xE6546B64u;
}
CLS_INLINE u32 murmur_end(u32 state, u32 words)
{
    state ^= 4u * words;
    state = (state ^ state >> 16) * 0x85EBCA6Bu;
    state = (state ^ state >> 13) * 0xC2B2AE35u;
    return state ^ state >> 16;
}
/* Takes the key by the hash of a context; `threshold` is the first key's probability, times 2^32,
 * and 0 if there is no second key, behind the first one in `keys`. */
CLS_INLINE void watermark_keyed(cls_mark *mark, u32 context, const u32 keys[4], u32 threshold)
{
    u32 coin = 0, second = 0;
    if (threshold != 0) {
        for (u32 i = 0; i < 4; i++)
            coin = murmur_word(coin, keys[i]);
        second = (u32)(murmur_end(murmur_word(coin, context), 5) >= threshold);
    }
    mark->sglang = 1;
    mark->state[0] = murmur_word(0, second ? keys[2] : keys[0]);
    mark->state[0] = murmur_word(mark->state[0], second ? keys[3] : keys[1]);
    mark->state[0] = murmur_word(mark->state[0], context);
}

/* ------------------------------------------------------------------- the numbers */

/* Sets words to the random words of ids 4 block to 4 block + 3. */
CLS_INLINE void watermark_words(u32 words[4], const cls_mark *mark, u32 block)
{
    if (mark->sglang) {
        for (u32 i = 0; i < 4; i++)
            words[i] = murmur_end(murmur_word(mark->state[0], 4u * block + i), 4);
        return;
    }
    words[0] = block;
    words[1] = mark->state[0];
    words[2] = mark->state[1];
    words[3] = mark->state[2];
    philox4x32(words, mark->key[0] ^ mark->state[3], mark->key[1] ^ 0x574D544Bu);
}

/* Returns log2(n) for n from 1 to 2^33 - 1, in units of 2^-56. */
CLS_INLINE u64 log2_q56(u64 n)
{
    const u32 whole = n > 1 ? top_bit((u32)(n >> 1)) + 1u : 0u;
    u64 m = n << (63u - whole), log = whole;
    for (u32 i = 0; i < 56; i++) {
        m = u64_mul_hi(m, m);
        log <<= 1;
        if (m >> 63)
            log |= 1;
        else
            m <<= 1;
    }
    return log;
}
/* Returns -log2(u) of a word in units of 2^-56; u is (floor(word / 2^8) + 1) / (2^24 + 1), and
 * SGLang's (word + 1/2) / 2^32. Winners have u near 1, where log2_q24() would be too coarse. */
CLS_INLINE u64 watermark_surprise(u32 sglang, u32 word)
{
    const u64 all =
        sglang ? u64_make(33u << 24, 0) : u64_make(0x18000001u, 0x7154759au); /* log2(2^24 + 1) */
    return all - log2_q56(sglang ? (u64)word * 2 + 1 : (u64)(word >> 8) + 1);
}

/* The best token so far: the least surprise for its mass, and the lowest id of equal ones. A token
 * with a mass below `least` cannot be better, since no surprise is below 2^32, or SGLang's 2^23. */
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
 * logarithm: the surprise is at least 2^32 c, or SGLang's 2^23 c. Where the product of a c of 32
 * bits does not fit, less is left out. */
CLS_INLINE void marked_try(const cls_mark *mark, u32 word, u64 mass, u32 id, cls_marked *best)
{
    const u32 sglang = mark->sglang, c = ~word >> (sglang ? 0u : 8u), bits = sglang ? 23u : 32u;
    if (mass < best->least || (u64)c * (best->least >> 4) > mass >> 4)
        return;
    const u64 surprise = watermark_surprise(sglang, word);
    if (marked_before(surprise, mass, id, best)) {
        best->surprise = surprise;
        best->mass = mass;
        best->least = mass / ((surprise >> bits) + 1) + (u64)(mass <= surprise >> bits);
        best->id = id;
    }
}

/* Returns whether a row is drawn as usual, whose set of this mass has a token of the mass `top`:
 * whether it has more than this probability, times 2^32; 0: no row is. */
CLS_INLINE int watermark_spares(u64 top, u64 mass, u32 most)
{
    return most != 0 && top > u64_mul_hi(mass, (u64)most << 32);
}

#endif
