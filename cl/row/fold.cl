/* SPDX-License-Identifier: MIT */
/* fold: the loop over a row's tiles that sums up what a stage needs to know of the current set. */
#include "row/measure.cl"
#include "row/terms.cl"

/* What is folded. */
enum {
    FOLD_MASS = CLS_SUM_MASS,
    FOLD_DEPTHS = CLS_SUM_DEPTHS,
    FOLD_SQUARES = CLS_SUM_SQUARES,
    FOLD_UNITS = CLS_SUM_UNITS, /* and their squares, in the second sum */
    FOLD_ADAPTED,               /* the weights of adaptive p */
    FOLD_NEAREST,               /* the two masses around the aim of adaptive p */
};

/* Loads UNROLL vectors, in which tokens that the row does not have are -inf. Only one copy adjusts
 * tokens: it would else be compiled for each sum. */
#define FOLD_COPY(g) vectors[g] = x[g];
#define FOLD_TAKE(g) x[g] = vectors[g];
#define FOLD_CLIP(g) x[g] = ((x[g] > w->under) & (x[g] <= w->over)) ? x[g] : (FV)(CLS_MASKED);
#define FOLD_CLEAN(g) x[g] = clean_v(x[g]);
ONE_COPY void fold_load_adjusted(const row_logits *r, u32 i, int kind, FV *vectors)
{
    FV x[UNROLL];
    load_vectors(r, i, VEC, kind, x);
    EACH_UNROLLED(FOLD_COPY)
}
static inline __attribute__((always_inline)) void fold_load(const row_logits *r, u32 i, int kind,
                                                            const window *w, FV *x)
{
    if (kind == TILE_RAW) {
        load_vectors(r, i, VEC, TILE_RAW, x);
        EACH_UNROLLED(FOLD_CLEAN)
    } else {
        FV vectors[UNROLL];
        fold_load_adjusted(r, i, kind, vectors);
        EACH_UNROLLED(FOLD_TAKE)
    }
    EACH_UNROLLED(FOLD_CLIP)
}

#define FOLD_LOSE(g) w[g] = w[g] >> lost;
#define FOLD_DEPTH(g) terms += depth_term_v(x[g], w[g], top, scale, unit.shift);
#define FOLD_SQUARE(g) terms += square_term_v(w[g], unit.shift);
#define FOLD_UNIT(g) \
    { \
        const UV u = x[g] > CLS_MASKED ? sigma_unit_v(x[g], top, scale) : (UV)(0u); \
        units += u; \
        terms += TO_LV(u) * TO_LV(u); \
    }
#define FOLD_WEIGHT(g) \
    terms += TO_LV(x[g] > CLS_MASKED ? adapted_weights(set, w[g], unit.shift) : (UV)(0u));
#define FOLD_AROUND(g) \
    { \
        const IV in = x[g] > CLS_MASKED, over = w[g] >= (UV)(edge); \
        below = max(below, (in & ~over) ? w[g] + 1u : (UV)(0u)); \
        beyond = min(beyond, (in & over) ? w[g] : (UV)(0xffffffffu)); \
    }

/* Folds a row. With `out` each item takes whole tiles, whose sums go there; else the items share
 * each tile: a row of 128,256 tokens has 126 of them, fewer than a group of 256 has items. */
static inline __attribute__((always_inline)) void fold_tiles(const row_logits *r, const u32 what,
                                                             f32 top, f32 scale,
                                                             const kept_set *set, __global u64 *out,
                                                             u64 *sum, around_aim *aim)
{
    row_logits own = *r;
    const i32 exponent = split(top, scale).exponent,
              lowest = r->truncated && r->cut_key != CLS_KEY_NONE ? r->cut_key - 1 : CLS_KEY_NONE;
    const u32 lid = LOCAL_ID;
    u64 first_sum = 0, second_sum = 0, largest = 0, least = ~(u64)0;
    for (u32 t = out != 0 ? lid : 0u; t < r->tiles; t += out != 0 ? WGS : 1) {
        u64 part = 0;
        if (tile_max_key(r->key, t) > lowest) {
            const window in = window_of(r, t);
            const cls_unit unit = tile_unit(r->key, t, top, exponent, scale);
            const u32 n = tile_vectors(r, t), step = out != 0 ? UNROLL : UNROLL * WGS;
            const u32 lost = lost_bits(unit.shift);
            weight_sum mass = {(UV)(0u), (UV)(0u)};
            own.truncated = (u32)in.by_id;
            for (u32 v = out != 0 ? 0u : lid * UNROLL; v < n; v += step) {
                const u32 i = t * CLS_TILE + v * VEC, m = i / CLS_MAX_TILE;
                FV x[UNROLL];
                UV w[UNROLL], units = (UV)(0u);
                LV terms = (LV)(0);
                if (r->key[m] <= lowest)
                    continue;
                fold_load(&own, i, max_tile_kind(&own, m), &in, x);
                if (what == FOLD_UNITS) {
                    EACH_UNROLLED(FOLD_UNIT)
                    second_sum += LSUM(terms);
                    part += USUM(units);
                    continue;
                }
                weigh_vectors(x, w, unit.max, scale, unit.fraction);
                if (what == FOLD_MASS) {
                    EACH_UNROLLED(FOLD_LOSE)
                    sum_vectors(&mass, w);
                    continue;
                }
                if (what == FOLD_NEAREST) {
                    const u32 edge = weight_of_mass(mass_above_aim(set), unit.shift);
                    UV below = (UV)(0u), beyond = (UV)(0xffffffffu);
                    EACH_UNROLLED(FOLD_AROUND)
                    const u32 low = UMAX(below), high = UMIN(beyond);
                    if (low != 0)
                        largest = max(largest, to_row_units(low - 1, unit.shift) + 1);
                    if (high != 0xffffffffu)
                        least = min(least, to_row_units(high, unit.shift));
                } else if (what == FOLD_DEPTHS) {
                    EACH_UNROLLED(FOLD_DEPTH)
                } else if (what == FOLD_SQUARES) {
                    EACH_UNROLLED(FOLD_SQUARE)
                } else {
                    EACH_UNROLLED(FOLD_WEIGHT)
                }
                part += LSUM(terms);
            }
            if (what == FOLD_MASS)
                part = sum_total(&mass) << spare_bits(unit.shift);
        }
        if (out != 0)
            out[t] = part;
        first_sum += part;
    }
    sum[0] = first_sum;
    sum[1] = second_sum;
    aim->below = largest;
    aim->above = least;
}

/* Does this by the whole group: sum[] has two sums. For FOLD_NEAREST the first one is the set's
 * least depth by adaptive p. Compilers for CPUs make a loop of each kind. */
ONE_COPY void fold_set(const row_logits *r, u32 what, f32 top, f32 scale, const kept_set *set,
                       __global u64 *out, u64 *sum, __local u64 *scratch)
{
    around_aim aim;
    switch (what) {
    case FOLD_MASS:
        fold_tiles(r, FOLD_MASS, top, scale, set, out, sum, &aim);
        break;
    case FOLD_DEPTHS:
        fold_tiles(r, FOLD_DEPTHS, top, scale, set, 0, sum, &aim);
        break;
    case FOLD_SQUARES:
        fold_tiles(r, FOLD_SQUARES, top, scale, set, 0, sum, &aim);
        break;
    case FOLD_UNITS:
        fold_tiles(r, FOLD_UNITS, top, scale, set, 0, sum, &aim);
        break;
    case FOLD_ADAPTED:
        fold_tiles(r, FOLD_ADAPTED, top, scale, set, out, sum, &aim);
        break;
    default:
        fold_tiles(r, FOLD_NEAREST, top, scale, set, 0, sum, &aim);
        break;
    }
    if (what == FOLD_NEAREST) {
        sum[0] = (u64)wg_umin(least_depth(set, &aim), scratch);
        return;
    }
    sum[0] = wg_mass(sum[0], scratch);
    if (what == FOLD_UNITS)
        sum[1] = wg_mass(sum[1], scratch);
}
