/* SPDX-License-Identifier: MIT */
/* pivots: takes the first step of searching a whole row. A sample of the row gives four keys around
 * the expected cut; the pass then measures what lies above each. */
#include "row/measure.cl"

/* Returns the id of sampled token j, a multiple of VEC. Each block has a run of sampled tokens, at
 * changing positions, so that no regular pattern of ids escapes the sample. */
static inline u32 sample_id(u32 vocab, u32 j)
{
    const u32 run = j / CLS_SAMPLE_RUN;
    if (vocab <= CLS_SAMPLE_ALL)
        return j;
    return run * CLS_SAMPLE_BLOCK + (run * 11 & 31) * CLS_SAMPLE_RUN + j % CLS_SAMPLE_RUN;
}

/* Sums up the sampled weight that lies deeper than each of four depths. */
static inline void sample_deeper(__global const f32 *depths, __global const f32 *weights, u32 n,
                                 const f32 *at, f32 *sum, __local u64 *scratch)
{
    FV s0 = (FV)(0.0f), s1 = s0, s2 = s0, s3 = s0;
    for (u32 j = LOCAL_ID * VEC; j < n; j += WGS * VEC) {
        const FV d = LOAD_FLOATS(depths + j), w = LOAD_FLOATS(weights + j), zero = (FV)(0.0f);
        s0 += d > at[0] ? w : zero;
        s1 += d > at[1] ? w : zero;
        s2 += d > at[2] ? w : zero;
        s3 += d > at[3] ? w : zero;
    }
    const u64 low = wg_fsum_2(two_floats(FSUM(s0), FSUM(s1)), scratch);
    const u64 high = wg_fsum_2(two_floats(FSUM(s2), FSUM(s3)), scratch);
    sum[0] = first_float(low);
    sum[1] = second_float(low);
    sum[2] = first_float(high);
    sum[3] = second_float(high);
}

/* Samples a row: the depth and the weight of each sampled token; all weights are 1 where tokens are
 * counted. Returns the greatest depth with a weight, and in *sum the total weight. */
static inline f32 sample_row(SHARED const row_logits *r, const measure *m, u32 n,
                             __global f32 *depths, __global f32 *weights, f32 *sum,
                             __local u64 *scratch)
{
    const f32 fraction = split(m->row_max, m->scale).fraction;
    f32 deepest = 0.0f, mine = 0.0f;
    for (u32 j = LOCAL_ID * VEC; j < n; j += WGS * VEC) {
        const FV x = load_v(r, sample_id(r->vocab, j), TILE_CHECKED, CLS_MASKED);
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

/* Returns the standard deviation of the estimated weight below a depth: the root of the sum of
 * squared weights, or for counts of their number. */
static inline f32 sample_spread(__global const f32 *depths, __global const f32 *weights, u32 n,
                                f32 low, const measure *m, f32 wanted_count, __local u64 *scratch)
{
    FV squares = (FV)(0.0f);
    for (u32 j = LOCAL_ID * VEC; j < n; j += WGS * VEC) {
        const FV w = LOAD_FLOATS(weights + j);
        squares += LOAD_FLOATS(depths + j) > low ? w * w : (FV)(0.0f);
    }
    const f32 spread = wg_fsum(FSUM(squares), scratch);
    return sqrt(m->counts ? wanted_count + 1.0f : spread);
}

/* Chooses four pivots around the key above which the measure reaches the target. Masses are
 * estimated from the tail, where weights are bounded, so that it does no harm if the sample misses
 * the most likely tokens. Counts are estimated from the top, because the tail may be -inf. The
 * estimate is in floats, since the pass measures exactly. `total` is the measure of the whole row;
 * `scratch_floats` has room for 2 * sample_size() floats. */
ONE_COPY void guess_pivots(SHARED const row_logits *r, const measure *m, u64 target, u64 total,
                           __global f32 *scratch_floats, i32 *pivot, __local u64 *scratch)
{
    const u32 n = sample_size(r->vocab);
    const f32 share = (f32)n / (f32)r->vocab;
    __global f32 *const depths = scratch_floats, *const weights = scratch_floats + n;
    f32 sum, wanted, spread = 0.0f;
    f32 lo[CLS_PIVOTS] = {0.0f, 0.0f, 0.0f, 0.0f}, hi[CLS_PIVOTS] = {0.0f, 0.0f, 0.0f, 0.0f};
    const f32 deepest = sample_row(r, m, n, depths, weights, &sum, scratch);
    if (m->counts)
        wanted = LARGER(sum - u64_to_f32(target) * share, 0.0f);
    else
        wanted = (u64_to_f32(total) - u64_to_f32(target)) * 0x1p-13f * share;

    /* Three rounds of four depths find where the tail has the wanted weight, and how fast it grows
     * there. Then seven rounds bisect for the depths at which it has the wanted weight -2.4, -0.6,
     * +0.6 and +2.4 standard deviations, all four at once, in an interval of 8 of these. For 45 %
     * of rows the cut lies between the inner two, which are some 900 tokens apart where 78,000 of
     * 128,256 are kept; for 2 % it lies outside the outer two. */
    const f32 away[CLS_PIVOTS] = {-2.4f, -0.6f, 0.6f, 2.4f};
    f32 low = 0.0f, high = deepest, at_low = sum,
        at_high = 0.0f; /* the weights deeper than these */
    for (u32 round = 0; round < 3 + 7; round++) {
        const int spreads = round >= 3;
        const f32 part = (high - low) * 0.2f, start = low;
        f32 at[CLS_PIVOTS], value[CLS_PIVOTS];
        if (round == 3) {
            const f32 width = high - low, drop = at_low - at_high;
            const f32 middle = drop > 0.0f ? low + width * ((at_low - wanted) / drop) : low;
            spread =
                sample_spread(depths, weights, n, middle, m, u64_to_f32(target) * share, scratch);
            const f32 around = width * (2.0f + 4.0f * spread / drop); /* inf where drop is 0 */
            for (u32 p = 0; p < CLS_PIVOTS; p++) {
                lo[p] = LARGER(middle - around, 0.0f);
                hi[p] = SMALLER(middle + around, deepest);
            }
        }
        for (u32 p = 0; p < CLS_PIVOTS; p++)
            at[p] = spreads ? 0.5f * (lo[p] + hi[p]) : start + part * (f32)(p + 1);
        sample_deeper(depths, weights, n, at, value, scratch);
        for (u32 p = 0; p < CLS_PIVOTS; p++) {
            const int deeper = value[p] > wanted + spread * away[p];
            if (spreads) {
                lo[p] = deeper ? at[p] : lo[p];
                hi[p] = deeper ? hi[p] : at[p];
            } else if (deeper) {
                low = at[p];
                at_low = value[p];
            } else if (low < at[p] && at[p] < high) {
                high = at[p];
                at_high = value[p];
            }
        }
    }
    /* The outer ends of the intervals are taken, so that a cluster of equal logits lies between two
     * pivots. The pivots are ascending and different, whatever the estimate is. p = 0 is the
     * deepest. */
    i32 key = CLS_KEY_NONE;
    for (u32 p = 0; p < CLS_PIVOTS; p++) {
        const f32 d = p < CLS_PIVOTS / 2 ? hi[p] : lo[p];
        const i32 k = key_of(clean(m->row_max - d / m->scale));
        key = k > key ? k : key + 1;
        pivot[p] = key;
    }
}
