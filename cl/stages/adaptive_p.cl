/* SPDX-License-Identifier: MIT */
/* adaptive p: draws by weights that favour tokens near a target probability. It is not a stage of
 * the chain; it replaces the draw after the chain. */
#include "row/shortlist.cl"

/* Returns a token's weight by adaptive p, from its mass. */
static inline u32 adapted_weight(const kept_set *set, u64 mass)
{
    return adaptive_weight(probability_q30(mass, set->mass), set->aim, set->min_depth);
}

/* Returns the weights by adaptive p of a vector's kept lanes, from weights in the tile's unit. */
static inline UV adapted_vector(const kept_set *set, UV kept, UV w, const cls_unit *unit)
{
    u32 lane[VEC];
    VSTORE((w & 0x7fffffffu) | (kept << 31), lane);
    for (u32 j = 0; j < VEC; j++)
        lane[j] = lane[j] >> 31
                      ? adapted_weight(set, to_row_units(lane[j] & 0x7fffffffu, unit->shift))
                      : 0u;
    return VLOAD(lane);
}

/* Replaces the masses of the list's first `kept` ranks by the weights of adaptive p. */
static inline void adapt_list(shortlist *list, u32 kept, kept_set *set)
{
    u32 least = CLS_MAX_DEPTH;
    for (u32 i = LOCAL_ID; i < list->n; i += WGS)
        if ((u32)list->rank[i] < kept)
            least = min(least, adaptive_depth(probability_q30(list->mass[i], set->mass), set->aim));
    set->min_depth = wg_umin(least, list->scratch);
    for (u32 i = LOCAL_ID; i < list->n; i += WGS)
        if ((u32)list->rank[i] < kept)
            list->mass[i] = adapted_weight(set, list->mass[i]);
    BARRIER();
}

/* Processes one vector for adapt_row(): its least depth in round 0, its weights in round 1. */
static inline void adapt_vector(const kept_set *set, FV x, const cls_unit *unit, f32 scale,
                                u32 round, u32 *least, u64 *mass)
{
    f32 lane[VEC];
    VSTORE(x, lane);
    for (u32 j = 0; j < VEC; j++) {
        const f32 z = clean(lane[j]);
        if (!(z > CLS_MASKED))
            continue;
        const u64 one = to_row_units(weight(z, unit->max, scale, unit->fraction), unit->shift);
        if (round == 0)
            *least = min(*least, adaptive_depth(probability_q30(one, set->mass), set->aim));
        else
            *mass += adapted_weight(set, one);
    }
}

/* Sums up the weights of adaptive p by tiles in sums[]; returns the sum of all. Round 0 finds the
 * least depth of the set, which the weights need. */
static inline u64 adapt_row(const row_logits *r, f32 top, f32 scale, kept_set *set,
                            __global u64 *sums, __local u64 *scratch)
{
    const i32 exponent = split(top, scale).exponent;
    u64 sum = 0;
    u32 least = CLS_MAX_DEPTH;
    for (u32 round = 0; round < 2; round++) {
        for (u32 t = LOCAL_ID; t < r->tiles; t += WGS) {
            const i32 highest = tile_max_key(r->key, t);
            u64 mass = 0;
            if (highest >= set->key && highest != CLS_KEY_NONE) {
                const int kind = tile_kind(r, t);
                const cls_unit unit = tile_unit(r->key, t, top, exponent, scale);
                for (u32 i = t * CLS_TILE; i < (t + 1) * CLS_TILE; i += VEC) {
                    const FV x = load_v(r, i, kind);
                    adapt_vector(set, is_kept(set, x, i) ? x : (FV)(CLS_MASKED), &unit, scale,
                                 round, &least, &mass);
                }
            }
            sums[t] = mass;
            sum += mass;
        }
        set->min_depth = wg_umin(least, scratch);
    }
    return wg_mass(sum, scratch);
}
