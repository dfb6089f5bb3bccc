/* SPDX-License-Identifier: MIT */
/* adaptive p: draws by weights that favour tokens near a target probability. It is not a stage of
 * the chain; it replaces the draw after the chain. */
#include "row/fold.cl"
#include "row/shortlist.cl"

/* Replaces the masses of the list's first `kept` ranks by the weights of adaptive p. */
static inline void adapt_list(SHARED shortlist *list, u32 kept, kept_set *set)
{
    u32 least = CLS_MAX_DEPTH;
    for (u32 i = LOCAL_ID; i < list->n; i += WGS)
        if ((u32)list->rank[i] < kept)
            least = min(least,
                        adaptive_depth(probability_q30(list->mass[i], set->by.mass), set->by.aim));
    set->by.min_depth = wg_umin(least, list->scratch);
    for (u32 i = LOCAL_ID; i < list->n; i += WGS)
        if ((u32)list->rank[i] < kept)
            list->mass[i] = adapted_weight(set->by, list->mass[i]);
    BARRIER();
}

#if SEARCH
/* Sums up the weights of adaptive p by tiles in sums[]; returns the sum of all. The weights need
 * the least depth of the set. */
static inline u64 adapt_row(SHARED row_logits *r, f32 top, f32 scale, kept_set *set,
                            __global u64 *sums, __local u64 *scratch)
{
    fold q = fold_of(top, scale);
    u64 sum[CLS_PIVOTS];
    row_truncate(r, &set->cut);
    q.by = set->by;
    set->by.min_depth = fold_least_depth(r, &q, scratch);
    q.by.min_depth = set->by.min_depth;
    q.out = sums;
    fold_row(r, FOLD_ADAPTED, FOLD_ADAPTED, &q, sum, scratch);
    return sum[0];
}
#endif
