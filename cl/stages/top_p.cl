/* SPDX-License-Identifier: MIT */
/* top-p: keeps the smallest set of most likely tokens whose mass reaches a share of the whole. */
#include "row/job.cl"

/* Returns the slot's top-p, which decay may have lowered. */
static inline u32 row_top_p(__global const cls_slot *slot)
{
#if CHAIN == 2
    if (slot->flags & CLS_SLOT_DECAYS)
        return slot->adaptive.top_p;
#endif
    return slot->top_p;
}

/* Returns a bound for top-p from the maxima alone: the highest key such that the largest logits of
 * the max tiles that reach it have the target mass already; CLS_KEY_NONE if all of them together do
 * not. It is computed in floats, because the list made with it is checked with exact masses.
 * `weights` has room for a float for each max tile. */
ONE_COPY i32 maxima_bound(SHARED const row_logits *r, f32 row_max, f32 scale, u64 target,
                          __global f32 *weights, __local u64 *scratch)
{
    const u32 n = max_tiles(r);
    const cls_split row = split(row_max, scale);
    const f32 wanted = u64_to_f32(target) * (1.0f + 0x1p-16f) * 0x1p-13f; /* in units of 2^(E-30) */
    f32 lo = row_max - 44.0f / scale, hi = row_max;
    FV all = (FV)(0.0f);
    for (u32 i = LOCAL_ID * VEC; i < n; i += WGS * VEC) {
        const IV k = LOAD_KEYS(r->key + i);
        const FV z = AS_FV(k ^ ((k >> 31) & 0x7fffffff));
        const FV w = TO_FV(AS_IV(weight_v(z, row_max, scale, row.fraction)));
        VSTORE(w, weights + i);
        all += w;
    }
    if (wg_fsum(FSUM(all), scratch) < wanted)
        return CLS_KEY_NONE;
    for (u32 round = 0; round < 13; round++) {
        const f32 mid = 0.5f * lo + 0.5f * hi;
        const i32 key = key_of(clean(mid));
        FV sum = (FV)(0.0f);
        for (u32 i = LOCAL_ID * VEC; i < n; i += WGS * VEC)
            sum += LOAD_KEYS(r->key + i) >= key ? LOAD_FLOATS(weights + i) : (FV)(0.0f);
        if (wg_fsum(FSUM(sum), scratch) < wanted)
            hi = mid;
        else
            lo = mid;
    }
    return key_of(clean(lo));
}

static inline void top_p_bound(__global const cls_slot *slot, chain_bound *b)
{
    b->by_maxima = b->first;
    b->goes_on = b->first;
}

static inline void top_p(const step_args *s, row_job *w)
{
    w->out.total = w->mass;
    w->out.target = top_p_target(w->mass, row_top_p(w->slot));
    reach(w, 0, w->out.target);
}
