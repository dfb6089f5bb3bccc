/* SPDX-License-Identifier: MIT */
/* The arithmetic of the samplers that need more than a mass and a depth, in the common subset of C
 * and OpenCL C. Each takes sums over the current set and returns a cut, a scale or a state. The
 * sums are integers and therefore do not depend on the order of addition. doc/arithmetic.md has the
 * error bounds.
 *
 * Depths are relative to `top`, the largest logit of the current set. A suffix names the unit: _q20
 * is 2^-20. */
#ifndef CLS_SAMPLERS_H
#define CLS_SAMPLERS_H

#include "core/arithmetic.h"
#include "core/slot.h"

/* ------------------------------------------------------------ entropy, typical p */

/* Returns a token's term of the sum behind the mean depth. */
CLS_INLINE u64 depth_term(u64 mass, u32 depth) { return (mass * depth) >> 24; }
/* Returns the mean depth in bits, weighted by mass. */
CLS_INLINE u32 mean_depth_q20(u64 terms, u64 mass) { return u64_lo((terms << 5) / (mass >> 19)); }

/* Typical p (Meister et al. 2022): the mass that the kept tokens must reach so that it exceeds p.
 * Tokens are taken in order of their depth's distance from the mean depth; log2 of the mass, which
 * turns both into information, cancels. */
CLS_INLINE u64 typical_target(u64 mass, u32 p)
{
    return (u64)u64_hi(mass) * p + (((u64)u64_lo(mass) * p) >> 32) + 1;
}

/* ------------------------------------------------------------ dynamic temperature */

/* log2(e) / t, truncated to 24 bits; t is at least 2^-100. */
CLS_CALLED f32 scale_of(f32 t)
{
    const i32 bits = CLS_AS_I32(t);
    const u64 quotient =
        u64_make(0xb8aa3b29u, 0x5c17f0bcu) / (u64)((u32)((bits & 0x007fffff) | 0x00800000));
    const u32 drop = quotient < u64_make(1u << 8, 0) ? 16u : 17u; /* 2^39 <= quotient < 2^41 */
    const i32 exponent = (i32)drop - 40 - ((bits >> 23) - 127) + 23 + 127;
    return exponent < 1
               ? CLS_AS_F32(0x00800000)
               : CLS_AS_F32((exponent << 23) | (i32)(u64_lo(quotient >> drop) & 0x007fffffu));
}

/* Returns the temperature for n tokens of an entropy: low + span * (entropy / log2 n)^exponent. */
CLS_CALLED f32 dynamic_temperature(u32 entropy, u32 n, f32 low, f32 span, u32 exponent_q16)
{
    const i32 most = log2_q24(n) >> 4;
    u64 bits = 0;
    f32 power;
    if (entropy == 0) {
        power = exponent_q16 == 0 ? 1.0f : 0.0f;
    } else {
        const i32 ratio = log2_q24((u32)most) - log2_q24(entropy);
        if (ratio > 0)
            bits = ((u64)(u32)ratio * exponent_q16) >> 20;
        power = (f32)exp2_q30(bits) * 0x1p-30f;
        power = power < 1.0f ? power : 1.0f;
    }
    return low + span * power;
}

/* ------------------------------------------------------------ top-n-sigma */

/* Returns a power of two that scales the row's range to below 2^20; range > 0. */
CLS_INLINE f32 sigma_grid(f32 range)
{
    i32 k = 19 - ((CLS_AS_I32(range) >> 23) - 127);
    k = k > 126 ? 126 : k < -126 ? -126 : k;
    return CLS_AS_F32((k + 127) << 23);
}
CLS_INLINE u32 sigma_unit(f32 z, f32 top, f32 grid)
{
    const f32 u = depth(z, top, grid);
    return u < 1048575.0f ? (u32)(i32)u : 1048575u;
}
CLS_INLINE u32 square_root(u64 x)
{
    u32 r = 0;
    for (u32 bit = 1u << 31; bit != 0; bit >>= 1)
        if (x >= (u64)(r | bit) * (r | bit))
            r |= bit;
    return r;
}
/* Returns the greatest depth, on the grid, that n standard deviations of the population allow. */
CLS_CALLED f32 sigma_limit(u32 n, u64 sum, u64 squares, f32 sigmas)
{
    const u64 count = n, mean = sum / count, rest = sum - mean * count;
    /* The spread is taken around the floor of the mean; the square of the error of that is
     * subtracted. */
    u64 spread = squares - ((mean * sum) << 1) + mean * mean * count;
    spread -= rest * rest / count;
    const u64 whole = spread / count;
    const u64 fraction = ((spread - whole * count) << 24) / count;
    const f32 limit = ((f32)square_root((whole << 24) + fraction) * sigmas) * 0x1p-12f;
    return limit < 0x1p-100f ? 0.0f : limit;
}

/* ------------------------------------------------------------ p-less */

/* Returns a token's term of the sum of squares, from its weight in tile units. */
CLS_INLINE u64 square_term(u32 weight, u32 shift)
{
    return shift > 31 ? 0 : ((u64)(weight >> 9) * (weight >> 9)) >> (2 * shift);
}
/* Returns the greatest depth at which the probability is not below the sum of squares less 2^-17 of
 * it. This margin is larger than the error of the logarithms. */
CLS_CALLED u32 p_less_depth(u64 mass, u64 squares, f32 top, f32 scale)
{
    const i32 wanted = 2 * (log2_q24(mass) >> 4) - (log2_q24(squares) >> 4) - (44 << 20) -
                       (i32)mass_q20(mass, top, scale);
    return wanted > 0 ? (u32)wanted + 8 : 8u;
}

/* ------------------------------------------------------------ top-a */

/* The greatest depth of a token that is at least a times as likely as the largest probability
 * squared: log2 of the mass is the largest one's surprisal, and `a` is -log2(a). And 2^-17 bits
 * more, which is more than the logarithm is off. */
CLS_INLINE u32 top_a_depth(u64 mass, u32 a, f32 top, f32 scale)
{
    return mass_q20(mass, top, scale) + a + 8;
}

/* ------------------------------------------------------------ mirostat */

/* Mirostat 1 (Basu et al. 2021): the number of tokens to keep, from the slope over the first ranks.
 * `terms` is the sum of step * (difference of the depths of ranks i + 1 and i), Q44, and `squares`
 * the sum of step^2, Q48, where step is log2((i + 2) / (i + 1)) for rank i, Q24. */
CLS_INLINE u32 mirostat_step(u32 rank) { return (u32)(log2_q24(rank + 2) - log2_q24(rank + 1)); }
CLS_CALLED u32 mirostat_count(u64 terms, u64 squares, i32 mu, u32 vocab)
{
    const u32 s = u64_lo(terms / ((squares >> 24) + 1)); /* Q20 */
    const i32 e = (i32)s - (1 << 20), lg = log2_q24(vocab) >> 4;
    const u32 size = (u32)(e < 0 ? -e : e);
    i32 ratio; /* log2(e / (1 - vocab^-e)), Q20 */
    if (vocab < 2)
        return 1;
    if (size < 128) { /* the limit: 1 / ln(vocab), 0.6931... = 2^-0.528766 */
        ratio = (20 << 20) - (log2_q24((u32)lg) >> 4) + 554452;
    } else {
        const u64 bits = ((u64)size * (u32)lg) >> 20;
        const u32 rest = (1u << 30) - exp2_q30(bits);
        ratio = (log2_q24(size) >> 4) - (20 << 20) - ((log2_q24(rest) >> 4) - (30 << 20));
        if (e < 0)
            ratio -= bits < (u64)(1u << 30) ? (i32)u64_lo(bits) : 1 << 30;
    }
    const i32 power = ratio + mu; /* log2 of k^s */
    if (power <= 0)
        return 1;
    if ((u64)(u32)power << 20 >= (u64)s * (20u << 20)) /* k >= 2^20 */
        return vocab;
    const u32 bits = u64_lo(((u64)(u32)power << 20) / s);
    const u32 k = exp2_q30((20u << 20) - bits) >> 10;
    return k < 1 ? 1u : k < vocab ? k : vocab;
}

/* Returns whether nothing is cut from a row: no truncation is on, or the only one is Mirostat 2 and
 * its mu is above the depth of every weight. It gets there where the entropy of rows stays below
 * tau. `stages` is the first word of the chain. */
CLS_INLINE int chain_is_untruncated(u32 flags, u32 stages, i32 mu)
{
    const u32 second = stages >> 8 & 255u, last = second != 0 ? second : stages & 255u;
    return (flags & CLS_SLOT_UNTRUNCATED) != 0 ||
           (last == CLS_STAGE_MIROSTAT_2 && !(flags & CLS_SLOT_DYNAMIC) &&
            mu >= (i32)CLS_MAX_DEPTH);
}
CLS_INLINE int row_is_untruncated(const cls_slot *slot)
{
    return chain_is_untruncated(slot->flags, slot->chain[0], slot->adaptive.mu);
}

/* Returns mu after a token of a given surprise, for both versions of Mirostat. */
CLS_INLINE i32 mirostat_next(i32 mu, u32 surprise, u32 tau, u32 eta_q24)
{
    const u32 error = surprise > tau ? surprise - tau : tau - surprise;
    const u64 move = ((u64)error * eta_q24) >> 24;
    const i32 most = CLS_MAX_MU, by = move < (u64)(u32)most ? (i32)u64_lo(move) : most;
    mu = surprise > tau ? mu - by : mu + by;
    return mu > most ? most : mu < -most ? -most : mu;
}

/* ------------------------------------------------------------ adaptive p */

/* Returns a token's probability, Q30. */
CLS_CALLED u32 probability_q30(u64 token, u64 mass) { return u64_lo((token << 20) / (mass >> 10)); }

/* Returns the probability that adaptive p aims at: 2 * target - average, within [0, 1], Q30. */
CLS_INLINE u32 adaptive_aim(u32 target, u32 sum, u32 weight)
{
    const u32 average = u64_lo(((u64)sum << 30) / weight);
    const u32 twice = 2 * target;
    return twice <= average ? 0u : twice - average < 1u << 30 ? twice - average : 1u << 30;
}
/* Returns the depth that adaptive p gives to a probability, in bits, Q20: 10 log2(e) d^2 / (1 + d)
 * with d = |q - aim| / 0.3. It is at most 37. */
CLS_CALLED u32 adaptive_depth(u32 q, u32 aim)
{
    const u32 off = q > aim ? q - aim : aim - q;
    const u64 d = ((u64)off * 10u / 3) >> 6; /* Q24 */
    const u64 ratio = d * d / (d + (1u << 24));
    return u64_lo((ratio * 945484u) >> 20);
}
/* Returns the weight that adaptive p gives to a token. `least` is the least depth in the set. */
CLS_INLINE u32 adaptive_weight(u32 q, u32 aim, u32 least)
{
    return exp2_q30(adaptive_depth(q, aim) - least);
}

/* ------------------------------------------------------------ adaptive state */

/* Returns the adaptive state before a request's first token. */
CLS_INLINE cls_slot_adaptive adaptive_begin(const cls_slot *slot)
{
    cls_slot_adaptive m;
    m.mu = (i32)(2 * slot->tau);
    m.sum = m.weight = 0;
    if (slot->flags & CLS_SLOT_ADAPTIVE) {
        /* target / (1 - decay) and 1 / (1 - decay); decay is at most 0.99. */
        const u64 rest = u64_make(1, 0) - slot->adaptive_decay;
        m.sum = u64_lo(((u64)slot->target << 26) / rest);
        m.weight = u64_lo(((u64)(1u << 24) << 32) / rest);
    }
    m.top_p = slot->top_p;
    return m;
}
/* Updates the averages of adaptive p with an accepted token of probability q (Q30). */
CLS_INLINE void adaptive_p_accept(cls_slot_adaptive *m, u32 q, u32 decay)
{
    m->sum = (q >> 6) + u64_hi((u64)m->sum * decay);
    m->weight = (1u << 24) + u64_hi((u64)m->weight * decay);
}
/* Returns top-p after the next token, by TensorRT-LLM's decay. */
CLS_INLINE u32 top_p_decayed(u32 top_p, u32 decay, u32 least)
{
    top_p = u64_hi((u64)top_p * decay);
    return top_p > least ? top_p : least;
}
CLS_INLINE u32 top_p_next(const cls_slot *slot, u32 top_p, i32 token)
{
    return token == slot->reset_id ? slot->top_p
                                   : top_p_decayed(top_p, slot->decay, slot->top_p_min);
}

/* ------------------------------------------------------------ sums */

/* What a stage can need of a set: a sum of these over its tokens. */
typedef enum cls_sum {
    CLS_SUM_MASS, /* without truncation it is the sum of the tiles */
    CLS_SUM_DEPTHS,
    CLS_SUM_SQUARES,
    CLS_SUM_UNITS, /* with `scale` as their grid, as the next one */
    CLS_SUM_UNIT_SQUARES
} cls_sum;
CLS_INLINE u64 sum_term(cls_sum what, f32 z, f32 top, f32 scale, const cls_unit *unit)
{
    if (what == CLS_SUM_UNITS)
        return sigma_unit(z, top, scale);
    if (what == CLS_SUM_UNIT_SQUARES)
        return (u64)sigma_unit(z, top, scale) * sigma_unit(z, top, scale);
    const u32 w = weight(z, unit->max, scale, unit->fraction);
    if (what == CLS_SUM_SQUARES)
        return square_term(w, unit->shift);
    const u64 mass = to_row_units(w, unit->shift);
    return what == CLS_SUM_DEPTHS ? depth_term(mass, depth_q20(z, top, scale)) : mass;
}

#endif
