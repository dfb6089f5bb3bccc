/* SPDX-License-Identifier: MIT */
/* truncate: runs a row's chain over its shortlist, in the row's own order.
 * Every truncation so far is a cut on the ordered list, so what is kept is a
 * number of ranks. */

/* What is kept of a row: everything up to a place in the order (key
 * descending, id ascending). */
typedef struct kept_set {
    i32 key, id; /* the cut */
    int plain;   /* nothing was truncated: tiles' floors, not tokens' */
} kept_set;

/* A token's weight in row units is weight << spare_bits() or >> lost_bits(). */
static inline u32 lost_bits(u32 shift) { return min((u32)not_negative((i32)shift - 13), 31u); }
static inline u32 spare_bits(u32 shift) { return (u32)not_negative(13 - (i32)shift); }

static inline IV is_kept(const kept_set *set, FV x, u32 i)
{
    /* Not "& !higher": of a vector's ! oclgrind makes something else. */
    const IV higher = x > above(set->key);
    const IV equal = (x > above(set->key - 1)) & (x <= above(set->key));
    return higher | (equal & (LANES + (IV)((i32)i) <= (IV)(set->id)));
}

/* Sums of kept weights come in a unit in which they are exact in 32-bit lanes:
 * of the row if the tile lies deep, else of the tile. This makes it the row's.
 * A set floors per token, the untouched row per tile: see doc/arithmetic.md. */
static inline u64 set_finish(u64 mass, const cls_unit *unit, const kept_set *set)
{
    if (set->plain)
        return up(mass, unit->shift);
    return u64_shl(mass, spare_bits(unit->shift));
}

static inline u32 chain_stage(const cls_slot *slot, u32 i)
{
    return i < CLS_MAX_STAGES ? slot->chain[i / 4] >> (8 * (i % 4)) & 255u : CLS_STAGE_END;
}

/* The scale at which a stage of the chain works; 0 if the stage is off. */
static inline f32 stage_scale(const cls_slot *slot, u32 stage)
{
    f32 scale = CLS_LOG2E;
    for (u32 i = 0; chain_stage(slot, i) != CLS_STAGE_END; i++) {
        if (chain_stage(slot, i) == CLS_STAGE_TEMPERATURE)
            scale = slot->scale;
        if (chain_stage(slot, i) == stage)
            return scale;
    }
    return 0.0f;
}

/* Whether a stage comes before another, or the other is off. */
static inline int stage_precedes(const cls_slot *slot, u32 stage, u32 other)
{
    for (u32 i = 0; chain_stage(slot, i) != CLS_STAGE_END; i++) {
        if (chain_stage(slot, i) == stage)
            return 1;
        if (chain_stage(slot, i) == other)
            return 0;
    }
    return 1;
}

/* A list's keys at or above a key. */
static inline u32 list_count(const shortlist *list, i32 key)
{
    IV count = (IV)(0);
    for (u32 i = get_local_id(0) * VEC; i < list->n; i += WGS * VEC)
        count += VLOAD(list->key + i) >= key;
    return wg_usum(COUNT(count), list->scratch);
}

/* How many ranks of the sorted list the chain keeps. `bounded`: the list holds
 * the whole final set for certain; if not, 0 tells that top-p ran off its end. */
static inline u32 truncate_list(const cls_slot *slot, shortlist *list, __global const i32 *row_key, f32 row_max,
                                int bounded, cls_row *out)
{
    f32 scale = CLS_LOG2E, weighed = 0.0f;
    u32 kept = list->n;
    int touched = 0;
    for (u32 i = 0; chain_stage(slot, i) != CLS_STAGE_END; i++) {
        const u32 stage = chain_stage(slot, i);
        if (stage == CLS_STAGE_TEMPERATURE) {
            scale = slot->scale;
            continue;
        }
        if (stage == CLS_STAGE_TOP_K) {
            kept = min(kept, (u32)slot->top_k);
        } else if (stage == CLS_STAGE_MIN_P) {
            kept = min(kept, list_count(list, depth_key(row_max, scale, slot->min_p)));
        } else if (stage == CLS_STAGE_TOP_P) {
            if (weighed != scale)
                list_weigh(list, row_key, row_max, scale);
            weighed = scale;
            if (touched)
                out->total = list_mass(list, kept);
            out->target = top_p_target(out->total, slot->top_p);
            const u32 reach = list_reach(list, u64_from(0), out->target);
            if (reach > list->n && !bounded)
                return 0;
            kept = min(kept, reach);
        }
        touched = 1;
    }
    if (weighed != slot->scale)
        list_weigh(list, row_key, row_max, slot->scale);
    return kept;
}
