/* SPDX-License-Identifier: MIT */
/* set: which tokens a row's chain keeps, how far the chain has run, and what is summed up over a
 * set. */
#include "row/view.cl"

/* What the weights of adaptive p depend on, beside a token's mass: the set's mass, the probability
 * that adaptive p aims at, and the least depth of the set. */
typedef struct adaptive_weights {
    u64 mass;
    u32 aim, min_depth;
} adaptive_weights;

/* The set of kept tokens: a range of the order (key descending, id ascending) between an upper and
 * a lower cut. */
typedef struct kept_set {
    cls_cut cut;
    int untruncated; /* nothing was truncated: masses are rounded down by tiles and not by tokens */
    i32 top_key;     /* the largest kept key, to which weights and depths are relative */
    int adapted;     /* weights are those of adaptive p */
    adaptive_weights by;
} kept_set;

static inline cls_cut whole_cut(void)
{
    const cls_cut whole = {CLS_KEY_NONE, CLS_MAX_ID, CLS_KEY_INF, 0, CLS_MAX_ID};
    return whole;
}
static inline int cuts_row(const cls_cut *cut)
{
    return cut->key != CLS_KEY_NONE || cut->upper_key != CLS_KEY_INF;
}

static inline void whole_row(i32 max_key, kept_set *set)
{
    set->cut = whole_cut();
    set->untruncated = 0;
    set->top_key = max_key;
    set->adapted = 0;
    set->by.mass = 0;
    set->by.aim = set->by.min_depth = 0;
}

/* From now on tokens outside the cut read as -inf. */
static inline void row_truncate(SHARED row_logits *r, const cls_cut *cut)
{
    SHARED_BARRIER();
    if (WRITES_SHARED) {
        r->truncated = 1;
        r->cut.key = cut->key;
        r->cut.id = cut->id;
        r->cut.upper_key = cut->upper_key;
        r->cut.upper_first = cut->upper_first;
        r->cut.upper_last = cut->upper_last;
    }
    SHARED_BARRIER();
}

/* A token's weight in row units is weight << spare_bits() or weight >> lost_bits(). */
static inline u32 lost_bits(u32 shift) { return min((u32)not_negative((i32)shift - 13), 31u); }
static inline u32 spare_bits(u32 shift) { return (u32)not_negative(13 - (i32)shift); }

static inline IV is_kept(const kept_set *set, FV x, u32 i)
{
    /* Not "& !higher": Oclgrind gets the ! of a vector wrong. */
    const IV higher = x > above(set->cut.key);
    const IV equal = (x > above(set->cut.key - 1)) & (x <= above(set->cut.key));
    return higher | (equal & (LANES + (IV)((i32)i) <= (IV)(set->cut.id)));
}

/* Converts a sum of kept weights to row units. Such sums have a unit in which they are exact in
 * 32-bit lanes: the row's where the tile's exponent is far below the row's, else the tile's. A
 * truncated set is rounded down token by token, the whole row tile by tile: see
 * doc/arithmetic.md. */
static inline u64 set_finish(u64 mass, const cls_unit *unit, const kept_set *set)
{
    if (set->untruncated)
        return to_row_units(mass, unit->shift);
    return mass << (set->adapted ? 0u : spare_bits(unit->shift));
}

/* ------------------------------------------------------------------- the chain */

/* Slots are read from memory, because a copy would fill an item's registers.
 *
 * A dynamic temperature has a stage number of its own here. */
#define STAGE_DYNAMIC CLS_STAGES
static inline u32 chain_stage(__global const cls_slot *slot, u32 i)
{
    const u32 stage =
        i < CLS_MAX_STAGES ? slot->chain[i / 4] >> (8 * (i % 4)) & 255u : CLS_STAGE_END;
#if CHAIN == 2
    if (stage == CLS_STAGE_TEMPERATURE && (slot->flags & CLS_SLOT_DYNAMIC))
        return STAGE_DYNAMIC;
#endif
    return stage;
}

/* Returns the first stage other than a static temperature. Every chain that is searched has one,
 * unless adaptive p is all it has. */
static inline u32 first_truncation(__global const cls_slot *slot)
{
    u32 i = 0;
    SHORT_LOOP
    while (chain_stage(slot, i) == CLS_STAGE_TEMPERATURE)
        i++;
    return chain_stage(slot, i);
}

/* Returns the static scale at which a stage of the chain works; if the stage is off, the last scale
 * of the chain. */
static inline f32 stage_scale(__global const cls_slot *slot, u32 stage)
{
    f32 scale = CLS_LOG2E;
    SHORT_LOOP
    for (u32 i = 0; chain_stage(slot, i) != CLS_STAGE_END && chain_stage(slot, i) != stage; i++)
        if (chain_stage(slot, i) == CLS_STAGE_TEMPERATURE)
            scale = slot->scale;
    return scale;
}

/* How far a row's chain has run. */
typedef struct chain_state {
    u32 at;        /* the next stage */
    int truncated; /* a truncation or a dynamic temperature came before */
    int complete;  /* the whole set is known */
    i32 floor;     /* the list holds all of the row's tokens with at least this key */
    u32 kept;      /* ranks of the list that are in the set */
    f32 scale;     /* the scale after the last temperature */
    f32 weighed;   /* the scale of the list's masses; 0: none are valid */
    int by_ids;    /* the set is not a range of the order, but the ids of a list: infill */
    kept_set set;  /* a list may hold less than this range, since its ranks are the lower cut */
} chain_state;

static inline void chain_begin(i32 max_key, chain_state *c)
{
    c->at = 0;
    c->truncated = c->complete = c->by_ids = 0;
    c->floor = CLS_KEY_NONE + 1;
    c->kept = 0;
    c->scale = CLS_LOG2E;
    c->weighed = 0.0f;
    whole_row(max_key, &c->set);
}
