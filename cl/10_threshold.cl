/* SPDX-License-Identifier: MIT */
/* threshold: the full-row search, for rows whose set is not proven to fit the
 * shortlist. A sample of the row guesses four pivots around the cut, one pass
 * measures what lies above each, one collection between two of them gives the
 * cut exactly. Where the guess misses, or thousands of tokens tie, the bracket
 * is narrowed by further passes, each over the row's own group: bounded, exact,
 * and no work-group waits for another. */

/* What a row has above a key: a mass (at a scale) or a count. */
typedef struct measure {
    int counts;
    f32 row_max, scale;
    i32 exponent; /* the row's, at the scale */
} measure;

static inline measure measure_of(int counts, f32 row_max, f32 scale)
{
    measure m;
    m.counts = counts;
    m.row_max = row_max;
    m.scale = scale;
    m.exponent = split(row_max, scale).exponent;
    return m;
}

/* ------------------------------------------------------------ the first guess */

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

/* ------------------------------------------------------------ measuring above pivots */

/* acc = x > b ? acc + w : acc becomes one masked addition. */
#define GANG_ABOVE(g)                                     \
    {                                                     \
        const UV low = w[g] >> lost, high = low >> 7;     \
        l0 = x[g] > b0 ? l0 + low : l0;                   \
        h0 = x[g] > b0 ? h0 + high : h0;                  \
        l1 = x[g] > b1 ? l1 + low : l1;                   \
        h1 = x[g] > b1 ? h1 + high : h1;                  \
        l2 = x[g] > b2 ? l2 + low : l2;                   \
        h2 = x[g] > b2 ? h2 + high : h2;                  \
        l3 = x[g] > b3 ? l3 + low : l3;                   \
        h3 = x[g] > b3 ? h3 + high : h3;                  \
    }

#define GANG_ONE(g) w[g] = (UV)(1u);

/* What vectors first, first + step, ... of a tile have above each pivot, in
 * units that measure_finish() brings to the row's. */
static inline void measure_vectors(const row_logits *r, u32 tile, u32 first, u32 step, const measure *m,
                                   const cls_unit *unit, const f32 *bound, u64 *sum)
{
    const int kind = tile_kind(r, tile);
    const f32 b0 = bound[0], b1 = bound[1], b2 = bound[2], b3 = bound[3];
    const u32 lost = m->counts ? 0u : lost_bits(unit->shift);
    const UV none = (UV)(0u);
    UV h0 = none, h1 = none, h2 = none, h3 = none, l0 = none, l1 = none, l2 = none, l3 = none;
    for (u32 v = first; v < TILE_VECTORS; v += step * GANG) {
        FV x[GANG];
        UV w[GANG];
        load_gang(r, tile * CLS_TILE + v * VEC, step * VEC, kind, x);
        if (m->counts) {
            EACH_GANG(GANG_ONE)
        } else {
            weights_gang(x, w, unit->max, m->scale, unit->fraction);
        }
        EACH_GANG(GANG_ABOVE)
    }
    const weight_sum s0 = { h0, l0 }, s1 = { h1, l1 }, s2 = { h2, l2 }, s3 = { h3, l3 };
    sum[0] = sum_total(&s0);
    sum[1] = sum_total(&s1);
    sum[2] = sum_total(&s2);
    sum[3] = sum_total(&s3);
}
/* The same of a mass above one key: a quarter of the additions. */
#define GANG_OVER(g) w[g] = x[g] > bound ? w[g] >> lost : none;
static inline u64 measure_over(const row_logits *r, u32 tile, u32 first, u32 step, const measure *m,
                               const cls_unit *unit, f32 bound)
{
    const int kind = tile_kind(r, tile);
    const u32 lost = lost_bits(unit->shift);
    const UV none = (UV)(0u);
    weight_sum sum = { none, none };
    for (u32 v = first; v < TILE_VECTORS; v += step * GANG) {
        FV x[GANG];
        UV w[GANG];
        load_gang(r, tile * CLS_TILE + v * VEC, step * VEC, kind, x);
        weights_gang(x, w, unit->max, m->scale, unit->fraction);
        EACH_GANG(GANG_OVER)
        sum_gang(&sum, w);
    }
    return sum_total(&sum);
}

static inline u64 measure_finish(u64 sum, const measure *m, const cls_unit *unit)
{
    return u64_shl(sum, m->counts ? 0u : spare_bits(unit->shift));
}

/* What the whole row has above each of four keys, by the group. */
static inline void measure_row(const row_logits *r, __global const i32 *row_key, u32 tiles, const measure *m,
                               const i32 *key, u64 *sum, __local u64 *scratch)
{
    f32 bound[CLS_PIVOTS];
    u64 part[CLS_PIVOTS];
    for (u32 p = 0; p < CLS_PIVOTS; p++) {
        bound[p] = above(key[p]);
        sum[p] = u64_from(0);
    }
    for (u32 t = 0; t < tiles; t++) {
        const i32 top = tile_max_key(row_key, t);
        if (top <= key[0])
            continue;
        const cls_unit unit = tile_unit(row_key, t, m->row_max, m->exponent, m->scale);
        measure_vectors(r, t, get_local_id(0), WGS, m, &unit, bound, part);
        for (u32 p = 0; p < CLS_PIVOTS; p++)
            sum[p] = u64_add(sum[p], measure_finish(part[p], m, &unit));
    }
    for (u32 p = 0; p < CLS_PIVOTS; p++)
        sum[p] = wg_mass(sum[p], scratch);
}

/* pass: for the rows that are searched, what each tile has above the four
 * pivots; pass[row][tile][pivot]. Launch: as the survey. */
KERNEL void cls_pass(STEP_ARGS, const u32 tiles_per_group, __global u64 *pass)
{
    __local u64 scratch[WGS];
    const u32 row = get_group_id(1);
    const u32 todo = rows[row].state;
    const int idle = todo == CLS_ROW_DONE || todo == CLS_ROW_SEARCH_ALL;
    const row_logits r = ROW_VIEW(row, idle ? -1 : ROW_SLOT(row));
    const u32 first = get_group_id(0) * tiles_per_group;
    const u32 last = idle ? first : min(first + tiles_per_group, TILES);
    const measure m = measure_of(todo == CLS_ROW_SEARCH_COUNT, of_key(rows[row].max_key), rows[row].scale);
    /* A cut by a key that is known, not guessed, is all four pivots. */
    const int known = todo == CLS_ROW_SEARCH_MASS && rows[row].pivot[0] == rows[row].pivot[CLS_PIVOTS - 1];
    f32 bound[CLS_PIVOTS];
    u64 part[CLS_PIVOTS];
    for (u32 p = 0; p < CLS_PIVOTS; p++)
        bound[p] = above(rows[row].pivot[p]);
    for (u32 t = first; t < last; t++) {
        __global u64 *const out = pass + ((size_t)row * TILES + t) * CLS_PIVOTS;
        const i32 top = tile_max_key(tile_key + (size_t)row * MAX_TILES, t);
        cls_unit unit;
        for (u32 p = 0; p < CLS_PIVOTS; p++)
            part[p] = u64_from(0);
        if (of_key(top) > bound[0]) {
            unit = unit_of(of_key(top), m.row_max, m.exponent, m.scale);
            if (known)
                part[0] = measure_over(&r, t, get_local_id(0), WGS, &m, &unit, bound[0]);
            else
                measure_vectors(&r, t, get_local_id(0), WGS, &m, &unit, bound, part);
            for (u32 p = 0; p < CLS_PIVOTS; p++)
                part[p] = measure_finish(known ? part[0] : part[p], &m, &unit);
        }
        for (u32 p = 0; p < CLS_PIVOTS; p++)
            part[p] = wg_mass(part[p], scratch);
        if (get_local_id(0) == 0)
            for (u32 p = 0; p < CLS_PIVOTS; p++)
                out[p] = part[p];
    }
}
