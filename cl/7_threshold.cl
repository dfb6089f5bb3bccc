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
        const FV x = clean_v(load_checked(r, sample_id(r->vocab, j)));
        const FV d = ((FV)(m->row_max) - x) * m->scale;
        const FV mass = TO_FV(AS_IV(weight_v(x, m->row_max, m->scale, fraction)));
        const FV w = m->counts ? (x > (FV)(-INFINITY) ? (FV)(1.0f) : (FV)(0.0f)) : mass;
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
#define GANG_KEPT(g) w[g] = (AS_UV(is_kept(set, x[g], i + g * VEC)) & w[g]) >> lost;

/* What vectors first, first + step, ... of a tile have above each pivot, in
 * units that measure_finish() brings to the row's. */
static inline void measure_vectors(const row_logits *r, u32 tile, u32 first, u32 step, const measure *m,
                                   const cls_unit *unit, const f32 *bound, u64 *sum)
{
    const int plain = tile_is_plain(r, tile);
    const f32 b0 = bound[0], b1 = bound[1], b2 = bound[2], b3 = bound[3];
    if (m->counts) {
        IV c0 = (IV)(0), c1 = c0, c2 = c0, c3 = c0;
        for (u32 v = first; v < TILE_VECTORS; v += step) {
            const FV x = load_v(r, tile * CLS_TILE + v * VEC, plain);
            c0 += x > b0;
            c1 += x > b1;
            c2 += x > b2;
            c3 += x > b3;
        }
        sum[0] = u64_from(COUNT(c0));
        sum[1] = u64_from(COUNT(c1));
        sum[2] = u64_from(COUNT(c2));
        sum[3] = u64_from(COUNT(c3));
        return;
    }
    const u32 lost = lost_bits(unit->shift);
    const UV none = (UV)(0u);
    UV h0 = none, h1 = none, h2 = none, h3 = none, l0 = none, l1 = none, l2 = none, l3 = none;
    for (u32 v = first; v < TILE_VECTORS; v += step * GANG) {
        FV x[GANG];
        UV w[GANG];
        load_gang(r, tile * CLS_TILE + v * VEC, step * VEC, plain, x);
        weights_gang(x, w, unit->max, m->scale, unit->fraction);
        EACH_GANG(GANG_ABOVE)
    }
    const weight_sum s0 = { h0, l0 }, s1 = { h1, l1 }, s2 = { h2, l2 }, s3 = { h3, l3 };
    sum[0] = sum_total(&s0);
    sum[1] = sum_total(&s1);
    sum[2] = sum_total(&s2);
    sum[3] = sum_total(&s3);
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
        const cls_unit unit = unit_of(of_key(top), m->row_max, m->exponent, m->scale);
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
    const u32 state = rows[row].state;
    const row_logits r = ROW_VIEW(row);
    const u32 first = get_group_id(0) * tiles_per_group;
    const u32 last = state == CLS_ROW_DONE ? first : min(first + tiles_per_group, TILES);
    const measure m = measure_of(state == CLS_ROW_SEARCH_COUNT, of_key(rows[row].max_key), rows[row].scale);
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
            measure_vectors(&r, t, get_local_id(0), WGS, &m, &unit, bound, part);
            for (u32 p = 0; p < CLS_PIVOTS; p++)
                part[p] = measure_finish(part[p], &m, &unit);
        }
        for (u32 p = 0; p < CLS_PIVOTS; p++)
            part[p] = wg_mass(part[p], scratch);
        if (get_local_id(0) == 0)
            for (u32 p = 0; p < CLS_PIVOTS; p++)
                out[p] = part[p];
    }
}

/* ------------------------------------------------------------ the exact cut */

/* A cut, and how the masses per tile of what it keeps can be had from the
 * pass: those above `pivot` (none: -1), plus the list's kept tokens, or less
 * its dropped ones, or plus the kept ties. */
typedef struct cut {
    i32 key, id;
    i32 pivot;
    int from_below, tied; /* tied: what tiles keep of the ties is in work[] instead */
    u32 kept; /* ranks of the list */
} cut;

/* The least and the largest key in (lo, hi], by the group. */
static inline void key_range(const row_logits *r, __global const i32 *row_key, u32 n, i32 *lo, i32 *hi,
                             __local u64 *scratch)
{
    const f32 under = above(*lo), over = above(*hi);
    FV least = (FV)(INFINITY), most = (FV)(-INFINITY);
    for (u32 m = get_local_id(0); m < n; m += WGS) {
        if (row_key[m] > *lo) {
            const int plain = tile_is_plain(r, m / CLS_MAX_TILES_PER_TILE);
            for (u32 v = 0; v < CLS_MAX_TILE; v += VEC) {
                const FV x = clean_v(load_v(r, m * CLS_MAX_TILE + v, plain));
                const IV hit = (x > under) & (x <= over);
                least = (hit & (x < least)) ? x : least;
                most = (hit & (x > most)) ? x : most;
            }
        }
    }
    const f32 top = wg_fmax(FMAX(most), scratch), bottom = -wg_fmax(FMAX(-least), scratch);
    if (bottom <= top) {
        *lo = key_of(clean(bottom)) - 1;
        *hi = key_of(clean(top));
    } else {
        *lo = *hi; /* nothing there: the measure does not change inside */
    }
}

/* What one token of a key measures in a tile. */
static inline u64 tie_measure(const measure *m, i32 key, const cls_unit *unit)
{
    return m->counts ? u64_from(1)
                     : up(u64_from(weight(of_key(key), unit->max, m->scale, unit->fraction)), unit->shift);
}

/* The cut among the tokens of one key: the last id it takes for base plus
 * their measure to reach the target. Tile sums first, then one tile. Leaves in
 * work[tiles] what each tile keeps of them. */
static inline i32 tie_cut(const row_logits *r, __global const i32 *row_key, u32 tiles, const measure *m, i32 key,
                          u64 base, u64 target, __global u64 *work, __local u64 *scratch)
{
    const f32 under = above(key - 1), over = above(key);
    u64 total = u64_from(0);
    i32 id = CLS_MAX_ID;
    for (u32 t = get_local_id(0); t < tiles; t += WGS) {
        const i32 top = tile_max_key(row_key, t);
        u64 mass = u64_from(0);
        if (top >= key) {
            const int plain = tile_is_plain(r, t);
            const cls_unit unit = unit_of(of_key(top), m->row_max, m->exponent, m->scale);
            const u64 one = tie_measure(m, key, &unit);
            IV c = (IV)(0);
            for (u32 v = 0; v < TILE_VECTORS; v++) {
                const FV x = load_v(r, t * CLS_TILE + v * VEC, plain);
                c += (x > under) & (x <= over);
            }
            mass = u64_add(u64_mul32(u64_lo(one), COUNT(c)), u64_shl(u64_mul32(u64_hi(one), COUNT(c)), 32));
        }
        work[t] = mass;
        total = u64_add(total, mass);
    }
    total = u64_add(base, wg_mass(total, scratch));
    BARRIER();
    if (get_local_id(0) == 0 && !u64_less(total, target)) {
        u64 sum = base;
        u32 t = 0;
        while (t + 1 < tiles && u64_less(u64_add(sum, work[t]), target))
            sum = u64_add(sum, work[t++]);
        const i32 top = tile_max_key(row_key, t);
        const cls_unit unit = unit_of(of_key(top), m->row_max, m->exponent, m->scale);
        const u64 one = tie_measure(m, key, &unit);
        for (u32 i = t * CLS_TILE; i < r->vocab && i < (t + 1) * CLS_TILE && id == CLS_MAX_ID; i++) {
            if (key_of(load_one(r, i)) == key) {
                sum = u64_add(sum, one);
                if (!u64_less(sum, target))
                    id = (i32)i;
            }
        }
    }
    id = -wg_imax(-id, scratch);
    for (u32 t = get_local_id(0); t < tiles; t += WGS) {
        if (t > (u32)id / CLS_TILE)
            work[t] = u64_from(0);
        if (t != (u32)id / CLS_TILE)
            continue;
        const cls_unit unit = unit_of(of_key(tile_max_key(row_key, t)), m->row_max, m->exponent, m->scale);
        const u64 one = tie_measure(m, key, &unit);
        u64 sum = u64_from(0);
        for (u32 i = t * CLS_TILE; i <= (u32)id; i++)
            sum = u64_add(sum, key_of(load_one(r, i)) == key ? one : u64_from(0));
        work[t] = sum;
    }
    BARRIER();
    return id;
}

/* Sorts a list and gives each entry its measure. */
static inline void list_measure(shortlist *list, __global const i32 *row_key, const measure *m)
{
    list_sort(list);
    if (m->counts) {
        for (u32 i = get_local_id(0); i < list->n; i += WGS)
            list->mass[i] = u64_from(1);
        BARRIER();
    } else {
        list_weigh(list, row_key, m->row_max, m->scale);
    }
}

/* Solves a bracket (lo, hi] whose tokens fit the list: `base` is the measure
 * above hi. Returns 0 if they don't fit, or don't reach the target. */
static inline int solve_list(const row_logits *r, __global const i32 *row_key, u32 n, const measure *m, i32 lo, i32 hi,
                             u64 base, u64 target, shortlist *list, cut *c)
{
    if (!collect(r, row_key, n, lo + 1, hi, ALL_TIES, list))
        return 0;
    list_measure(list, row_key, m);
    c->kept = list_reach(list, base, target);
    if (c->kept > list->n)
        return 0;
    c->key = list->key[list->order[c->kept - 1]];
    c->id = list->id[list->order[c->kept - 1]];
    return 1;
}

/* The cut at which the measure from the top reaches the target: the place of
 * the token that does it. `pivot` and `known`: keys, ascending, and what lies
 * above each, from the pass; n_known 0 without. */
static inline void find_cut(const row_logits *r, __global const i32 *row_key, u32 tiles, const measure *m, u64 target,
                           const i32 *pivot, const u64 *known, u32 n_known, i32 max_key, __global u64 *work,
                           shortlist *list, cut *c)
{
    const u32 n = tiles * CLS_MAX_TILES_PER_TILE;
    i32 lo = CLS_KEY_NONE, hi = max_key; /* reaches above lo, not above hi */
    u64 at_hi = u64_from(0), at_lo = u64_from(0);
    i32 lo_pivot = -1, hi_pivot = -1;
    c->key = CLS_KEY_NONE;
    c->id = CLS_MAX_ID;
    c->pivot = -1;
    c->from_below = c->tied = 0;
    c->kept = 0;
    if (u64_is_zero(target))
        target = u64_from(1); /* at least one token */
    for (u32 p = 0; p < n_known; p++) {
        if (!u64_less(known[p], target) && pivot[p] > lo) {
            lo = pivot[p];
            at_lo = known[p];
            lo_pivot = (i32)p;
        }
        if (u64_less(known[p], target) && pivot[p] < hi) {
            hi = pivot[p];
            at_hi = known[p];
            hi_pivot = (i32)p;
        }
    }
    if (lo_pivot >= 0 && hi_pivot >= 0) {
        /* Measured from both sides: interpolate, and collect from the nearer. */
        const f32 zl = of_key(lo), zh = of_key(hi);
        const f32 part = u64_to_f32(u64_sub(target, at_hi)) / u64_to_f32(u64_sub(at_lo, at_hi));
        if (part <= 0.5f) {
            const i32 edge = key_of(clean(zh - (part + 0.08f) * (zh - zl)));
            c->pivot = hi_pivot;
            if (edge >= lo && edge < hi && solve_list(r, row_key, n, m, edge, hi, at_hi, target, list, c))
                return;
        } else {
            const i32 edge = key_of(clean(zh - (part - 0.08f) * (zh - zl)));
            if (edge > lo && edge <= hi && collect(r, row_key, n, lo + 1, edge, ALL_TIES, list)) {
                list_measure(list, row_key, m);
                const u64 base = u64_sub(at_lo, list_mass(list, list->n));
                if (u64_less(base, target)) {
                    c->kept = list_reach(list, base, target);
                    c->key = list->key[list->order[c->kept - 1]];
                    c->id = list->id[list->order[c->kept - 1]];
                    c->pivot = lo_pivot;
                    c->from_below = 1;
                    return;
                }
            }
        }
    }
    if (lo == CLS_KEY_NONE) {
        i32 all[CLS_PIVOTS] = { CLS_KEY_NONE, CLS_KEY_NONE, CLS_KEY_NONE, CLS_KEY_NONE };
        u64 sum[CLS_PIVOTS];
        measure_row(r, row_key, tiles, m, all, sum, list->scratch);
        if (u64_less(sum[0], target)) { /* everything does not reach it: keep everything */
            c->pivot = -1;
            return;
        }
    }
    /* Each round leaves at most a fifth of the bracket in floats: some 60 at
     * the very worst, 2 or 3 where the guess was good but missed. */
    for (u32 round = 0;; round++) {
        i32 key[CLS_PIVOTS];
        u64 sum[CLS_PIVOTS];
        c->pivot = hi_pivot;
        if (solve_list(r, row_key, n, m, lo, hi, at_hi, target, list, c))
            return;
        c->kept = 0;
        if (round > 0 || (lo_pivot >= 0 && hi_pivot >= 0)) {
            key_range(r, row_key, n, &lo, &hi, list->scratch);
            if (lo + 1 >= hi) {
                c->key = hi;
                c->id = tie_cut(r, row_key, tiles, m, hi, at_hi, target, work, list->scratch);
                c->tied = 1;
                return;
            }
        }
        const f32 zl = of_key(lo), zh = of_key(hi), width = zh - zl;
        const f32 reach = n_known > 0 ? of_key(pivot[CLS_PIVOTS - 1]) - of_key(pivot[0]) : 0.0f;
        const i32 fifth = (i32)(((u32)hi - (u32)lo) / 5u);
        f32 far = 1.0f;
        for (u32 p = 0; p < CLS_PIVOTS; p++) {
            /* Just beyond the pass's pivots first; then evenly in floats,
             * which is even in depth; in keys where floats overflow. */
            i32 k = lo + fifth * (i32)(p + 1);
            if (round == 0 && lo_pivot >= 0 && hi_pivot < 0)
                k = key_of(clean(zl + reach * far));
            else if (round == 0 && hi_pivot >= 0 && lo_pivot < 0)
                k = key_of(clean(zh - reach * (27.0f / far)));
            else if (width < CLS_FLT_MAX)
                k = key_of(clean(zl + width * (0.2f * (f32)(p + 1))));
            far *= 3.0f;
            const i32 before = p > 0 ? key[p - 1] : lo;
            key[p] = min(k > before ? k : before + 1, hi - 1);
        }
        measure_row(r, row_key, tiles, m, key, sum, list->scratch);
        for (u32 p = 0; p < CLS_PIVOTS; p++) {
            if (!u64_less(sum[p], target)) {
                lo = key[p] > lo ? key[p] : lo;
            } else if (key[p] < hi) {
                hi = key[p];
                at_hi = sum[p];
                hi_pivot = -1;
            }
        }
    }
}

/* The masses of what a cut keeps, tile by tile; returns their sum. Items own
 * whole tiles. */
static inline u64 cut_masses(const row_logits *r, __global const i32 *row_key, u32 tiles, const measure *m,
                             const kept_set *set, __global u64 *work, __local u64 *scratch)
{
    u64 total = u64_from(0);
    BARRIER();
    for (u32 t = get_local_id(0); t < tiles; t += WGS) {
        const i32 top = tile_max_key(row_key, t);
        u64 mass = u64_from(0);
        if (top >= set->key && top != CLS_KEY_NONE) {
            const int plain = tile_is_plain(r, t);
            const cls_unit unit = unit_of(of_key(top), m->row_max, m->exponent, m->scale);
            const u32 lost = lost_bits(unit.shift);
            weight_sum sum = { (UV)(0), (UV)(0) };
            for (u32 v = 0; v < TILE_VECTORS; v += GANG) {
                const u32 i = t * CLS_TILE + v * VEC;
                FV x[GANG];
                UV w[GANG];
                load_gang(r, i, VEC, plain, x);
                weights_gang(x, w, unit.max, m->scale, unit.fraction);
                EACH_GANG(GANG_KEPT)
                sum_gang(&sum, w);
            }
            mass = set_finish(sum_total(&sum), &unit, set);
        }
        work[t] = mass;
        total = u64_add(total, mass);
    }
    return wg_mass(total, scratch);
}

/* The same from the pass and the list, without another read of the row. */
static inline u64 pass_masses(const shortlist *list, const cut *c, __global const u64 *row_pass, u32 tiles,
                              __global u64 *work, __local u64 *scratch)
{
    u64 total = u64_from(0);
    BARRIER();
    for (u32 t = get_local_id(0); t < tiles; t += WGS) {
        const u64 over = row_pass[t * CLS_PIVOTS + (u32)c->pivot];
        work[t] = c->tied ? u64_add(over, work[t]) : over;
    }
    BARRIER();
    if (get_local_id(0) == 0 && !c->tied) {
        for (u32 i = 0; i < list->n; i++) {
            const u32 t = (u32)list->id[i] / CLS_TILE;
            const int kept = (u32)list->rank[i] < c->kept;
            if (kept && !c->from_below)
                work[t] = u64_add(work[t], list->mass[i]);
            if (!kept && c->from_below)
                work[t] = u64_sub(work[t], list->mass[i]);
        }
    }
    BARRIER();
    for (u32 t = get_local_id(0); t < tiles; t += WGS)
        total = u64_add(total, work[t]);
    return wg_mass(total, scratch);
}
