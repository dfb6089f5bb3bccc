/* SPDX-License-Identifier: MIT */
/* fold: the loop over a row's tiles. What it sums up is a constant where it is compiled. */
#include "row/measure.cl"
#include "row/share.cl"
#include "row/terms.cl"

/* What is folded, and for whom. */
#define EACH_FOLD(KIND) \
    KIND(MASS)   /* the mass, and in the second sum the number of tokens */ \
    KIND(ABOVE)  /* the masses above each of four keys */ \
    KIND(COUNT)  /* the number of tokens */ \
    KIND(COUNTS) /* those above each of four keys */ \
    KIND(DEPTHS) /* these and the next ones as CLS_SUM_* */ \
    KIND(SQUARES) \
    KIND(UNITS)   /* and their squares, in the second sum */ \
    KIND(ADAPTED) /* the weights of adaptive p */ \
    KIND(NEAREST) /* the two masses around the aim of adaptive p */ \
    KIND(RANGE)   /* the least and the largest logit, as the bits of floats */
#define FOLD_BIT(kind) FOLD_BIT_##kind,
#define FOLD_KIND(kind) FOLD_##kind = 1 << FOLD_BIT_##kind,
enum { EACH_FOLD(FOLD_BIT) };
enum { EACH_FOLD(FOLD_KIND) };
/* `kinds`, a constant: what may be folded at a place of the source. */
#define IS(some) ((kinds & (some)) != 0 && ((kinds & (some)) == kinds || (what & (some)) != 0))
#define STORES (q->out != 0)
#define BOUNDS (FOLD_ABOVE | FOLD_COUNTS)
#define WEIGHS (FOLD_MASS | FOLD_ABOVE | FOLD_DEPTHS | FOLD_SQUARES | FOLD_ADAPTED | FOLD_NEAREST)

/* Which tokens are folded: those of the row with lo < key <= hi; above keys (BOUNDS), without those
 * of hole_lo < key <= hole_hi. */
typedef struct fold {
    f32 top, scale; /* the set's largest logit, and the scale (or the grid of the units) */
    i32 lo, hi, hole_lo, hole_hi;
    i32 key[CLS_PIVOTS]; /* the four keys, ascending, none below lo */
    adaptive_weights by;
    __global u64 *out; /* if there: gets the sums of each tile, four or one of them, */
    u32 stride;        /* of which those of tile t begin at t * stride */
} fold;

static inline fold fold_of(f32 top, f32 scale)
{
    const fold q = {top, scale, CLS_KEY_NONE, CLS_KEY_INF, 0, 0, {0, 0, 0, 0}, {0, 0, 0}, 0, 1};
    return q;
}

/* One item keeps vectors of sums for a tile. An item of a group has a share of it, whose lanes are
 * added up at once: vectors of sums would occupy 32 registers. */
#if WGS == 1
typedef weight_sum fold_sum;
#define FOLD_SUM(p) &s##p
/* Compilers make one masked addition of acc = x > b ? acc + w : acc. */
#define FOLD_OVER(g) \
    s->low = x[g] > bound ? s->low + w[g] : s->low; \
    s->high = x[g] > bound ? s->high + (w[g] >> 7) : s->high;
#define FOLD_ADD(s, w, spare) sum_vectors(s, w)
#else
typedef u64 fold_sum;
#define FOLD_SUM(p) (sum + p)
/* The lanes of a share, two of whose weights fit 32 bits. */
#define FOLD_LANES(W) (SUM_64(W(0) + W(1)) + SUM_64(W(2) + W(3)))
#define FOLD_IF(g) (x[g] > bound ? w[g] : (UV)(0u))
#define FOLD_W(g) w[g]
#define FOLD_ADD(s, w, spare) *(s) += FOLD_LANES(FOLD_W) << spare
#endif
static inline void fold_over(fold_sum *s, const FV *x, const UV *w, f32 b, u32 spare)
{
    const f32 bound = b;
#if WGS == 1
    CLS_EACH_4(FOLD_OVER)
#else
    *s += FOLD_LANES(FOLD_IF) << spare;
#endif
}

/* One item weighs the vectors side by side; of a group one after the other, for fewer registers. */
#define FOLD_WEIGH(g) w[g] = weight_v(x[g], max, scale, fraction);
static inline void fold_weigh(const FV *x, UV *w, f32 max, f32 scale, f32 fraction)
{
#if WGS == 1
    weigh_vectors(x, w, max, scale, fraction);
#else
    CLS_EACH_4(FOLD_WEIGH)
#endif
}

#define FOLD_CLIP(g) x[g] = ((x[g] > in.under) & (x[g] <= in.over)) ? x[g] : (FV)(CLS_MASKED);
#define FOLD_HOLE(g) x[g] = ((x[g] > hole) & (x[g] <= hole_end)) ? (FV)(CLS_MASKED) : x[g];
#define FOLD_ANY(g) any |= x[g] > CLS_MASKED;
#define FOLD_CLEAN(g) x[g] = clean_v(x[g]);
#define FOLD_ONE(g) w[g] = one[g] = (UV)(1u);
#define FOLD_LOSE(g) w[g] = w[g] >> lost;
#define FOLD_PIVOT(p) fold_over(FOLD_SUM(p), x, w, LARGER(b##p, in.under), spare);
#define FOLD_NONE(p) weight_sum s##p = {(UV)(0u), (UV)(0u)};
#define FOLD_END(p) sum[p] += sum_total(&s##p) << spare;
#define FOLD_DEPTH(g) terms += depth_term_v(x[g], w[g], top, scale, unit.shift);
#define FOLD_SQUARE(g) terms += square_term_v(w[g], unit.shift);
#define FOLD_UNIT(g) \
    { \
        const UV u = x[g] > CLS_MASKED ? sigma_unit_v(x[g], top, scale) : (UV)(0u); \
        units += u; \
        terms += TO_LV(u) * TO_LV(u); \
    }
#define FOLD_WEIGHT(g) \
    terms += TO_LV(x[g] > CLS_MASKED ? adapted_weights(by, w[g], unit.shift) : (UV)(0u));
#define FOLD_AROUND(g) \
    { \
        const IV here = x[g] > CLS_MASKED, beyond = w[g] >= (UV)(edge); \
        low = max(low, (here & ~beyond) ? w[g] + 1u : (UV)(0u)); \
        high = min(high, (here & beyond) ? w[g] : (UV)(0xffffffffu)); \
    }
#define FOLD_ENDS(g) \
    least_v = ((x[g] > CLS_MASKED) & (x[g] < least_v)) ? x[g] : least_v; \
    most_v = x[g] > most_v ? x[g] : most_v;

#if WGS == 1
/* Puts what is left of vectors one behind the other, and takes vectors of these: a token's weight
 * by adaptive p costs seven times as much as to move it. Returns 0 while there are too few;
 * `ends`: there are no more. */
typedef struct packed {
    f32 x[2 * UNROLL * VEC];
    u32 n;
} packed;
#define PACK_STORE(g) \
    VSTORE(ends ? (FV)(CLS_MASKED) : x[g], lane + g * VEC); \
    VSTORE(ends ? (IV)(-1) : x[g] > CLS_MASKED, is + g * VEC);
#define PACK_TAKE(g) x[g] = VLOAD(p->x + g * VEC);
#define PACK_MOVE(g) VSTORE(VLOAD(p->x + (UNROLL + g) * VEC), p->x + g * VEC);
static inline int pack_vectors(packed *p, int ends, FV *x)
{
    f32 lane[UNROLL * VEC];
    i32 is[UNROLL * VEC];
    u32 n = p->n;
    CLS_EACH_4(PACK_STORE)
#pragma unroll 16
    for (u32 j = 0; j < UNROLL * VEC; j++) {
        p->x[n] = lane[j];
        n -= (u32)is[j];
    }
    p->n = ends ? 0 : n % (UNROLL * VEC);
    if (n < UNROLL * VEC)
        return 0;
    CLS_EACH_4(PACK_TAKE)
    CLS_EACH_4(PACK_MOVE)
    return 1;
}
#define IS_PACKED (IS(FOLD_ADAPTED) && clips)
#define MORE_PACKED (IS_PACKED && few.n != 0)
#else
#define MORE_PACKED 0
#endif

/* The items of a team, which folds a tile, and this item's team and place in it. */
#define TEAM_ITEMS (WGS < SHARES ? WGS : SHARES)
#define TEAM (LOCAL_ID / TEAM_ITEMS)
#define TEAM_PLACE (LOCAL_ID % TEAM_ITEMS)

/* Stores the sums of `tiles` tiles, one a team, from those of the items. */
static inline void fold_store(const u64 *part, u32 sums, u32 tiles, __global u64 *out, u32 stride,
                              __local u64 *scratch)
{
#if WGS == 1
    for (u32 p = 0; p < sums; p++)
        out[p] = part[p];
#else
    const u32 side = min(WG_SIDE, TEAM_ITEMS);
    LOCAL_BARRIER();
    for (u32 p = 0; p < CLS_PIVOTS; p++)
        if (p < sums && TEAM < TEAMS)
            scratch[(p * TEAMS + TEAM) * TEAM_ITEMS + TEAM_PLACE] = part[p];
    LOCAL_BARRIER();
    for (u32 i = LOCAL_ID; i < sums * TEAMS * side; i += WGS) {
        __local u64 *const column = scratch + i / side * TEAM_ITEMS + i % side;
        u64 sum = column[0];
        for (u32 j = side; i % side + j < TEAM_ITEMS; j += side)
            sum += column[j];
        column[0] = sum;
    }
    LOCAL_BARRIER();
    for (u32 i = LOCAL_ID; i < sums * TEAMS; i += WGS) {
        u64 sum = 0;
        for (u32 j = 0; j < side; j++)
            sum += scratch[i * TEAM_ITEMS + j];
        if (i % TEAMS < tiles)
            out[i % TEAMS * stride + i / TEAMS] = sum;
    }
#endif
}

/* Folds tiles first to last - 1, as many at once as the group has teams. A tile's keys, its flags
 * and its logits are waited for one after another, some 1,000 cycles: the search of a flat row
 * waited 126 times for one vector an item, and now 32 times for four. sum[] gets what this item
 * has found, and q->out[] the sums of tiles, for which `scratch` has room for a u64 for each item
 * and sum. */
static inline __attribute__((always_inline)) void fold_tiles(SHARED const row_logits *r,
                                                             const u32 kinds, u32 what,
                                                             const fold *q, u32 first, u32 last,
                                                             u64 *sum, __local u64 *scratch)
{
#if WGS == 1
    row_logits copy = *r, *const own = &copy;
#else
    SHARED const row_logits *const own = r;
#endif
    const f32 top = q->top, scale = q->scale, under = above(q->lo),
              over = q->hi == CLS_KEY_INF ? CLS_INF : above(q->hi), b0 = above(q->key[0]),
              b1 = above(q->key[1]), b2 = above(q->key[2]), b3 = above(q->key[3]),
              hole = above(q->hole_lo), hole_end = above(q->hole_hi);
    const adaptive_weights by = q->by;
    const i32 exponent = split(top, scale).exponent,
              cut = r->truncated && r->cut.key != CLS_KEY_NONE ? r->cut.key - 1 : CLS_KEY_NONE,
              lowest = cut > q->lo ? cut : q->lo;
    const f32 least = least_above(r, above(lowest));
    const u32 sums = IS(BOUNDS) ? CLS_PIVOTS : 1;
    const window all = {CLS_MASKED, CLS_INF, (int)r->truncated};
    f32 bottom = CLS_INF, most = CLS_MASKED;
    for (u32 p = 0; p < CLS_PIVOTS; p++)
        sum[p] = IS(FOLD_NEAREST) && p == 1 ? ~(u64)0 : 0;
    for (u32 t = first; t < last; t += TEAMS) {
        const u32 tile = TEAM < TEAMS ? t + TEAM : last; /* some items may be in no team */
        /* No array: PoCL 3.1 loses one over the barriers below in groups of 5, 7 or 12. */
        const u64 p0 = sum[0], p1 = sum[1], p2 = sum[2], p3 = sum[3];
        if (tile < last && tile_max_key(r->key, tile) > lowest) {
            /* Groups load what no cut has left out, for fewer registers. */
            window in = WGS == 1 ? window_of(r, tile) : all;
            cls_unit unit = {0.0f, 0.0f, 0};
#if WGS == 1
            CLS_EACH_4(FOLD_NONE)
            packed few;
            few.n = 0;
#endif
            FV least_v = (FV)(CLS_INF), most_v = (FV)(CLS_MASKED);
            in.under = LARGER(in.under, under);
            in.over = SMALLER(in.over, over);
#if WGS == 1
            own->truncated = (u32)in.by_id;
#endif
            const u32 vectors = WGS == 1 ? tile_vectors(r, tile) : (u32)TILE_VECTORS;
            if (IS(WEIGHS))
                unit = tile_unit(r->key, tile, top, exponent, scale);
            const u32 lost = lost_bits(unit.shift),
                      spare = IS(WEIGHS) ? spare_bits(unit.shift) : 0u;
            const int clips = in.over < CLS_INF || (!IS(BOUNDS) && in.under > CLS_MASKED);
            for (u32 v = TEAM_PLACE * UNROLL; v < vectors || MORE_PACKED;
                 v += TEAM_ITEMS * UNROLL) {
                const u32 i = tile * CLS_TILE + share_token(v / UNROLL), m = i / CLS_MAX_TILE;
                if (v < vectors && r->key[m] <= lowest)
                    continue;
                FV x[UNROLL];
                UV w[UNROLL], one[UNROLL], units = (UV)(0u);
                LV terms = (LV)(0);
                if (v < vectors)
                    load_share(own, i, max_tile_kind(own, m), least, x);
                if (IS(FOLD_DEPTHS | FOLD_UNITS)) {
                    CLS_EACH_4(FOLD_CLEAN)
                }
                if (clips) {
                    CLS_EACH_4(FOLD_CLIP)
                }
                if (IS(BOUNDS) && clips) { /* a narrow interval leaves out most vectors */
                    IV any = (IV)(0);
                    CLS_EACH_4(FOLD_HOLE)
                    CLS_EACH_4(FOLD_ANY)
                    if (!ANY(any))
                        continue;
                }
#if WGS == 1
                if (IS_PACKED && !pack_vectors(&few, v >= vectors, x))
                    continue;
#endif
                CLS_EACH_4(FOLD_ONE)
                if (IS(WEIGHS))
                    fold_weigh(x, w, unit.max, scale, unit.fraction);
                if (IS(FOLD_MASS | FOLD_ABOVE)) {
                    CLS_EACH_4(FOLD_LOSE)
                }
                if (IS(BOUNDS)) {
                    CLS_EACH_4(FOLD_PIVOT)
                } else if (IS(FOLD_COUNT)) {
                    fold_over(FOLD_SUM(0), x, one, CLS_MASKED, 0u);
                } else if (IS(FOLD_MASS)) {
                    FOLD_ADD(FOLD_SUM(0), w, spare);
                    fold_over(FOLD_SUM(1), x, one, CLS_MASKED, 0u);
                } else if (IS(FOLD_UNITS)) {
                    CLS_EACH_4(FOLD_UNIT)
                    sum[0] += USUM(units);
                    sum[1] += LSUM(terms);
                } else if (IS(FOLD_NEAREST)) {
                    const u32 edge = weight_of_mass(mass_above_aim(by), unit.shift);
                    UV low = (UV)(0u), high = (UV)(0xffffffffu);
                    CLS_EACH_4(FOLD_AROUND)
                    const u32 below = UMAX(low), beyond = UMIN(high);
                    if (below != 0)
                        sum[0] = max(sum[0], to_row_units(below - 1, unit.shift) + 1);
                    if (beyond != 0xffffffffu)
                        sum[1] = min(sum[1], to_row_units(beyond, unit.shift));
                } else if (IS(FOLD_RANGE)) {
                    CLS_EACH_4(FOLD_ENDS)
                } else if (IS(FOLD_DEPTHS)) {
                    CLS_EACH_4(FOLD_DEPTH)
                } else if (IS(FOLD_SQUARES)) {
                    CLS_EACH_4(FOLD_SQUARE)
                } else if (IS(FOLD_ADAPTED)) {
                    CLS_EACH_4(FOLD_WEIGHT)
                }
                if (IS(FOLD_DEPTHS | FOLD_SQUARES | FOLD_ADAPTED))
                    sum[0] += LSUM(terms);
            }
#if WGS == 1
            if (IS(BOUNDS)) {
                CLS_EACH_4(FOLD_END)
            } else if (IS(FOLD_COUNT | FOLD_MASS)) {
                FOLD_END(0)
                sum[1] += sum_total(&s1);
            }
#endif
            if (IS(FOLD_RANGE)) {
                bottom = SMALLER(bottom, FMIN(least_v));
                most = LARGER(most, FMAX(most_v));
            }
        }
        if (STORES) {
            const u64 part[CLS_PIVOTS] = {sum[0] - p0, sum[1] - p1, sum[2] - p2, sum[3] - p3};
            fold_store(part, sums, min((u32)TEAMS, last - t), q->out + t * q->stride, q->stride,
                       scratch);
        }
    }
    if (IS(FOLD_RANGE)) {
        sum[0] = as_uint(bottom);
        sum[1] = as_uint(most);
    }
}

/* The same. Compilers for CPUs make one function of each kind. */
#if WGS == 1 || CALLS
#define FOLD_FUNCTION(kind) \
    CALLED void fold_tiles_##kind(SHARED const row_logits *r, const fold *q, u32 first, u32 last, \
                                  u64 *sum, __local u64 *scratch) \
    { \
        fold_tiles(r, FOLD_##kind, FOLD_##kind, q, first, last, sum, scratch); \
    }
EACH_FOLD(FOLD_FUNCTION)
#define FOLD_CALL(kind) \
    if (IS(FOLD_##kind)) \
        fold_tiles_##kind(r, q, first, last, sum, scratch);
#endif
static inline void fold_part(SHARED const row_logits *r, const u32 kinds, u32 what, const fold *q,
                             u32 first, u32 last, u64 *sum, __local u64 *scratch)
{
#if WGS == 1 || CALLS
    EACH_FOLD(FOLD_CALL)
#else
    fold_tiles(r, kinds, what, q, first, last, sum, scratch);
#endif
}

/* Folds a row by the whole group; each sum gets that of all items. */
static inline void fold_row(SHARED const row_logits *r, const u32 kinds, u32 what, const fold *q,
                            u64 *sum, __local u64 *scratch)
{
    fold_part(r, kinds, what, q, 0, r->tiles, sum, scratch);
    if (IS(FOLD_RANGE)) {
        sum[0] = as_uint(wg_fmin(as_float(u64_lo(sum[0])), scratch));
        sum[1] = as_uint(wg_fmax(as_float(u64_lo(sum[1])), scratch));
        return;
    }
    wg_masses(sum, (kinds & BOUNDS) ? 4 : (kinds & (FOLD_MASS | FOLD_UNITS)) ? 2 : 1, scratch);
}

/* Sums up what the row has above each of four ascending keys, but not above hi, nor in a hole. */
static inline void measure_row(SHARED const row_logits *r, const measure *m, i32 hi, i32 hole_lo,
                               i32 hole_hi, const i32 *key, u64 *sum, __local u64 *scratch)
{
    fold q = fold_of(m->row_max, m->scale);
    q.lo = key[0];
    q.hi = hi;
    q.hole_lo = hole_lo;
    q.hole_hi = hole_hi;
    for (u32 p = 0; p < CLS_PIVOTS; p++)
        q.key[p] = key[p];
    fold_row(r, BOUNDS, m->counts ? FOLD_COUNTS : FOLD_ABOVE, &q, sum, scratch);
}

/* Shrinks (lo, hi] to the keys that occur in it: hi becomes the largest, lo + 1 the least. */
CALLED void key_range(SHARED const row_logits *r, i32 *lo, i32 *hi, __local u64 *scratch)
{
    fold q = fold_of(0.0f, 1.0f);
    u64 ends[CLS_PIVOTS];
    q.lo = *lo;
    q.hi = *hi;
    fold_row(r, FOLD_RANGE, FOLD_RANGE, &q, ends, scratch);
    const f32 bottom = as_float(u64_lo(ends[0])), top = as_float(u64_lo(ends[1]));
    if (bottom <= top) {
        *lo = key_of(clean(bottom)) - 1;
        *hi = key_of(clean(top));
    } else {
        *lo = *hi; /* no key occurs: the measure is the same in all of the interval */
    }
}

/* Returns the least depth by adaptive p of a set. Where no token's mass reaches the aim, it is that
 * of the largest mass, and tokens of less than half of it are not read. Weights of equal logits
 * differ from tile to tile in their last bit. */
CALLED u32 fold_least_depth(SHARED const row_logits *r, fold *q, __local u64 *scratch)
{
    u64 ends[CLS_PIVOTS];
    const u64 most =
        to_row_units(weight(q->top, q->top, q->scale, split(q->top, q->scale).fraction), 0u);
    if (most + (most >> 16) < mass_above_aim(q->by))
        q->lo = depth_key(q->top, q->scale, 1.0f) - 1;
    fold_part(r, FOLD_NEAREST, FOLD_NEAREST, q, 0, r->tiles, ends, scratch);
    const around_aim aim = {ends[0], ends[1]};
    q->lo = CLS_KEY_NONE;
    return wg_umin(least_depth(q->by, &aim), scratch);
}
