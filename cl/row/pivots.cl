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
static inline void sample_deeper(__global const f32 *deep, __global const f32 *weighs, u32 n, const f32 *at, f32 *sum,
                                 __local u64 *scratch)
{
    FV s0 = (FV)(0.0f), s1 = s0, s2 = s0, s3 = s0;
    for (u32 j = get_local_id(0) * VEC; j < n; j += WGS * VEC) {
        const FV d = VLOAD(deep + j), w = VLOAD(weighs + j), none = (FV)(0.0f);
        s0 += d > at[0] ? w : none;
        s1 += d > at[1] ? w : none;
        s2 += d > at[2] ? w : none;
        s3 += d > at[3] ? w : none;
    }
    sum[0] = wg_fsum(FSUM(s0), scratch);
    sum[1] = wg_fsum(FSUM(s1), scratch);
    sum[2] = wg_fsum(FSUM(s2), scratch);
    sum[3] = wg_fsum(FSUM(s3), scratch);
}

/* Four pivots around the place where the measure above reaches the target, of
 * `total` in all. Masses are estimated from the tail: its weights are bounded,
 * so a head that the sample misses does no harm. Counts from the head: the
 * tail may be -inf. Floats, because it is only a guess. `sample` takes
 * 2 * sample_size() floats. */
static inline void guess_pivots(const row_logits *r, const measure *m, u64 target, u64 total, __global f32 *sample,
                                i32 *pivot, __local u64 *scratch)
{
    const u32 n = sample_size(r->vocab);
    const f32 fraction = split(m->row_max, m->scale).fraction;
    const f32 share = (f32)n / (f32)r->vocab;
    __global f32 *const deep = sample, *const weighs = sample + n;
    f32 deepest = 0.0f, sum = 0.0f, wanted, spread;
    f32 at[CLS_PIVOTS], lo[CLS_PIVOTS], hi[CLS_PIVOTS], value[CLS_PIVOTS];
    for (u32 j = get_local_id(0) * VEC; j < n; j += WGS * VEC) {
        const FV x = load_adjusted(r, sample_id(r->vocab, j), 0, CLS_MASKED);
        const FV d = ((FV)(m->row_max) - x) * m->scale;
        const FV mass = TO_FV(AS_IV(weight_v(x, m->row_max, m->scale, fraction)));
        const FV w = m->counts ? (x > (FV)(CLS_MASKED) ? (FV)(1.0f) : (FV)(0.0f)) : mass;
        const FV reach = w > 0.0f ? d : (FV)(0.0f);
        VSTORE(d, deep + j);
        VSTORE(w, weighs + j);
        deepest = LARGER(deepest, FMAX(reach));
        sum += FSUM(w);
    }
    deepest = wg_fmax(deepest, scratch);
    sum = wg_fsum(sum, scratch);
    if (m->counts)
        wanted = LARGER(sum - u64_to_f32(target) * share, 0.0f);
    else
        wanted = (u64_to_f32(total) - u64_to_f32(target)) * 0x1p-13f * share;

    /* Where the tail has the wanted weight: five rounds of five. */
    f32 low = 0.0f, high = deepest;
    for (u32 round = 0; round < 5; round++) {
        const f32 part = (high - low) * 0.2f;
        f32 start = low;
        for (u32 p = 0; p < CLS_PIVOTS; p++)
            at[p] = low + part * (f32)(p + 1);
        sample_deeper(deep, weighs, n, at, value, scratch);
        for (u32 p = 0; p < CLS_PIVOTS; p++)
            if (value[p] > wanted)
                start = at[p];
        high = start + part;
        low = start;
    }
    /* How uncertain that is: the tail's weights, squared. */
    FV squares = (FV)(0.0f);
    for (u32 j = get_local_id(0) * VEC; j < n; j += WGS * VEC) {
        const FV w = VLOAD(weighs + j);
        squares += VLOAD(deep + j) > low ? w * w : (FV)(0.0f);
    }
    spread = wg_fsum(FSUM(squares), scratch);
    if (m->counts)
        spread = u64_to_f32(target) * share + 1.0f;
    spread = sqrt(spread);

    /* The depths of wanted -2.4, -0.6, +0.6, +2.4 spreads, all four at once:
     * between the inner two lies the cut of 45 % of rows, some 900 tokens apart
     * where 78,000 of 128,256 are kept; beyond the outer two that of 2 %. */
    const f32 away[CLS_PIVOTS] = { -2.4f, -0.6f, 0.6f, 2.4f };
    for (u32 p = 0; p < CLS_PIVOTS; p++) {
        lo[p] = 0.0f;
        hi[p] = deepest;
    }
    for (u32 round = 0; round < 13; round++) {
        for (u32 p = 0; p < CLS_PIVOTS; p++)
            at[p] = 0.5f * (lo[p] + hi[p]);
        sample_deeper(deep, weighs, n, at, value, scratch);
        for (u32 p = 0; p < CLS_PIVOTS; p++) {
            if (value[p] > wanted + spread * away[p])
                lo[p] = at[p];
            else
                hi[p] = at[p];
        }
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
