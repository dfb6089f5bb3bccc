/* SPDX-License-Identifier: MIT */
/* pivots: the first guess of the search of a whole row. A sample of the row guesses
 * four keys around the cut, for the pass to measure what lies above each. */
#include "row/measure.cl"

/* Where the j-th sampled token is, j a multiple of VEC: runs at changing
 * places of their blocks, so that no pattern of ids is always missed. */
static inline u32 sample_id(u32 vocab, u32 j)
{
    const u32 run = j / CLS_SAMPLE_RUN;
    if (vocab <= CLS_SAMPLE_ALL)
        return j;
    return run * CLS_SAMPLE_BLOCK + (run * 11 & 31) * CLS_SAMPLE_RUN + j % CLS_SAMPLE_RUN;
}

/* The sampled weight deeper than each of four depths. */
static inline void sample_deeper(__global const f32 *depths, __global const f32 *weights, u32 n,
                                 const f32 *at, f32 *sum, __local u64 *scratch)
{
    FV s0 = (FV)(0.0f), s1 = s0, s2 = s0, s3 = s0;
    for (u32 j = LOCAL_ID * VEC; j < n; j += WGS * VEC) {
        const FV d = VLOAD(depths + j), w = VLOAD(weights + j), zero = (FV)(0.0f);
        s0 += d > at[0] ? w : zero;
        s1 += d > at[1] ? w : zero;
        s2 += d > at[2] ? w : zero;
        s3 += d > at[3] ? w : zero;
    }
    sum[0] = wg_fsum(FSUM(s0), scratch);
    sum[1] = wg_fsum(FSUM(s1), scratch);
    sum[2] = wg_fsum(FSUM(s2), scratch);
    sum[3] = wg_fsum(FSUM(s3), scratch);
}

/* Samples a row: how deep each sampled token lies and what it weighs (1 each, where
 * counts are measured). Returns the greatest depth that weighs anything, and in *sum
 * what all weigh. */
static inline f32 sample_row(const row_logits *r, const measure *m, u32 n, __global f32 *depths,
                             __global f32 *weights, f32 *sum, __local u64 *scratch)
{
    const f32 fraction = split(m->row_max, m->scale).fraction;
    f32 deepest = 0.0f, mine = 0.0f;
    for (u32 j = LOCAL_ID * VEC; j < n; j += WGS * VEC) {
        const FV x = load_adjusted(r, sample_id(r->vocab, j), 0, CLS_MASKED);
        const FV d = ((FV)(m->row_max) - x) * m->scale;
        const FV mass = TO_FV(AS_IV(weight_v(x, m->row_max, m->scale, fraction)));
        const FV w = m->counts ? (x > (FV)(CLS_MASKED) ? (FV)(1.0f) : (FV)(0.0f)) : mass;
        const FV reach = w > 0.0f ? d : (FV)(0.0f);
        VSTORE(d, depths + j);
        VSTORE(w, weights + j);
        deepest = LARGER(deepest, FMAX(reach));
        mine += FSUM(w);
    }
    deepest = wg_fmax(deepest, scratch);
    *sum = wg_fsum(mine, scratch);
    return deepest;
}

/* How uncertain it is that the tail under a depth has its weight: the root of its
 * weights, squared; of counts, of how many they are. */
static inline f32 sample_spread(__global const f32 *depths, __global const f32 *weights, u32 n,
                                f32 low, const measure *m, f32 wanted_count, __local u64 *scratch)
{
    FV squares = (FV)(0.0f);
    for (u32 j = LOCAL_ID * VEC; j < n; j += WGS * VEC) {
        const FV w = VLOAD(weights + j);
        squares += VLOAD(depths + j) > low ? w * w : (FV)(0.0f);
    }
    const f32 spread = wg_fsum(FSUM(squares), scratch);
    return sqrt(m->counts ? wanted_count + 1.0f : spread);
}

/* Four pivots around the place where the measure above reaches the target, of
 * `total` in all. Masses are estimated from the tail: its weights are bounded,
 * so a head that the sample misses does no harm. Counts from the head: the
 * tail may be -inf. Floats, because it is only a guess. `sample` takes
 * 2 * sample_size() floats. */
ONE_COPY void guess_pivots(const row_logits *r, const measure *m, u64 target, u64 total,
                           __global f32 *sample, i32 *pivot, __local u64 *scratch)
{
    const u32 n = sample_size(r->vocab);
    const f32 share = (f32)n / (f32)r->vocab;
    __global f32 *const depths = sample, *const weights = sample + n;
    f32 sum, wanted, spread = 0.0f;
    f32 lo[CLS_PIVOTS] = {0.0f, 0.0f, 0.0f, 0.0f}, hi[CLS_PIVOTS] = {0.0f, 0.0f, 0.0f, 0.0f};
    const f32 deepest = sample_row(r, m, n, depths, weights, &sum, scratch);
    if (m->counts)
        wanted = LARGER(sum - u64_to_f32(target) * share, 0.0f);
    else
        wanted = (u64_to_f32(total) - u64_to_f32(target)) * 0x1p-13f * share;

    /* Where the tail has the wanted weight: five rounds of five. Then the depths of
     * wanted -2.4, -0.6, +0.6, +2.4 spreads, all four at once: between the inner two
     * lies the cut of 45 % of rows, some 900 tokens apart where 78,000 of 128,256 are
     * kept; beyond the outer two that of 2 %. */
    const f32 away[CLS_PIVOTS] = {-2.4f, -0.6f, 0.6f, 2.4f};
    f32 low = 0.0f, high = deepest;
    for (u32 round = 0; round < 5 + 13; round++) {
        const int spreads = round >= 5;
        const f32 part = (high - low) * 0.2f;
        f32 at[CLS_PIVOTS], value[CLS_PIVOTS], start = low;
        if (round == 5)
            spread = sample_spread(depths, weights, n, low, m, u64_to_f32(target) * share, scratch);
        for (u32 p = 0; p < CLS_PIVOTS; p++) {
            lo[p] = round > 5 ? lo[p] : 0.0f;
            hi[p] = round > 5 ? hi[p] : deepest;
            at[p] = spreads ? 0.5f * (lo[p] + hi[p]) : low + part * (f32)(p + 1);
        }
        sample_deeper(depths, weights, n, at, value, scratch);
        for (u32 p = 0; p < CLS_PIVOTS; p++) {
            const int deeper = value[p] > wanted + spread * away[p];
            lo[p] = deeper ? at[p] : lo[p];
            hi[p] = deeper ? hi[p] : at[p];
            start = deeper ? at[p] : start;
        }
        high = spreads ? high : start + part;
        low = spreads ? low : start;
    }
    /* Outer ends, so that a cluster of equal logits lies between two pivots;
     * ascending and apart, whatever the estimate. p = 0 is the deepest. */
    i32 key = CLS_KEY_NONE;
    for (u32 p = 0; p < CLS_PIVOTS; p++) {
        const f32 d = p < CLS_PIVOTS / 2 ? hi[p] : lo[p];
        const i32 k = key_of(clean(m->row_max - d / m->scale));
        key = k > key ? k : key + 1;
        pivot[p] = key;
    }
}
