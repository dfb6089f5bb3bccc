/* SPDX-License-Identifier: MIT */
/* chain: what is kept of a row while its chain runs, and where in the chain it
 * is: what the shortlist's truncations and the search of the whole row share. */
#include "row/view.cl"

/* What is kept of a row: everything down to a place in the order (key
 * descending, id ascending), from a place on above. */
typedef struct kept_set {
    i32 key, id;                         /* the cut */
    int plain;                           /* nothing was truncated: tiles' floors, not tokens' */
    i32 head_key, head_first, head_last; /* as in cls_row */
    i32 top_key; /* the largest key of what is kept, for weights and depths */
    int adapted; /* weights are those of adaptive p, by what follows */
    u32 aim, least;
    u64 mass;
} kept_set;

static inline void whole_row(i32 max_key, kept_set *set)
{
    set->key = CLS_KEY_NONE;
    set->id = CLS_MAX_ID;
    set->plain = 0;
    set->head_key = CLS_KEY_INF;
    set->head_first = 0;
    set->head_last = CLS_MAX_ID;
    set->top_key = max_key;
    set->adapted = 0;
    set->aim = set->least = 0;
    set->mass = u64_from(0);
}

/* From now on the row reads as if nothing but the set were there. */
static inline void row_narrow(row_logits *r, const kept_set *set)
{
    r->narrowed = 1;
    r->cut_key = set->key;
    r->cut_id = set->id;
    r->head_key = set->head_key;
    r->head_first = set->head_first;
    r->head_last = set->head_last;
}

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
    return u64_shl(mass, set->adapted ? 0u : spare_bits(unit->shift));
}

/* ------------------------------------------------------------------- the chain */

/* Slots are read where they lie, for a copy would fill an item's registers.
 *
 * A dynamic temperature is a stage of another number here. */
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

/* Sets of stages, as bits. */
#define STAGE(name) (1u << (name))
#define STAGE_IS(stage, set) ((STAGE(stage) & (set)) != 0)

/* The first stage that is no static temperature; a chain that is searched has one,
 * but for that of adaptive p alone. */
static inline u32 first_truncation(__global const cls_slot *slot)
{
    u32 i = 0;
    SHORT_LOOP
    while (chain_stage(slot, i) == CLS_STAGE_TEMPERATURE)
        i++;
    return chain_stage(slot, i);
}

/* The static scale at which a stage of the chain works; the last one if it is off. */
static inline f32 stage_scale(__global const cls_slot *slot, u32 stage)
{
    f32 scale = CLS_LOG2E;
    SHORT_LOOP
    for (u32 i = 0; chain_stage(slot, i) != CLS_STAGE_END && chain_stage(slot, i) != stage; i++)
        if (chain_stage(slot, i) == CLS_STAGE_TEMPERATURE)
            scale = slot->scale;
    return scale;
}

/* Where a row is in its chain. */
typedef struct chain_state {
    u32 at;       /* the next stage */
    int touched;  /* a truncation, or a dynamic temperature, has come before */
    int complete; /* the list holds all of the set */
    i32 floor;    /* the list holds all of the row's tokens from this key on */
    u32 kept;     /* ranks of the list that are in the set */
    f32 scale;    /* in force */
    f32 weighed;  /* the scale of the list's masses; 0: none are valid */
    u32 wanted;   /* mirostat 1: how many tokens it keeps, once that is known */
    int listed;   /* the set is no band of the order: infill */
    kept_set set; /* but for its cut, which the list has */
} chain_state;

static inline void chain_begin(i32 max_key, chain_state *c)
{
    c->at = 0;
    c->touched = c->complete = c->listed = 0;
    c->floor = CLS_KEY_NONE + 1;
    c->kept = c->wanted = 0;
    c->scale = CLS_LOG2E;
    c->weighed = 0.0f;
    whole_row(max_key, &c->set);
}

/* ------------------------------------------------------------------- sums */

/* What may be summed up over a set. */
#define SUM_MASS 0
#define SUM_DEPTHS 1  /* depth_term() */
#define SUM_SQUARES 2 /* square_term() */
#define SUM_UNITS 3   /* sigma_unit(), of which `scale` is the grid */
#define SUM_UNIT_SQUARES 4

static inline u64 sum_term(u32 what, f32 z, f32 top, f32 scale, const cls_unit *unit)
{
    if (what == SUM_UNITS)
        return u64_from(sigma_unit(z, top, scale));
    if (what == SUM_UNIT_SQUARES)
        return u64_mul32(sigma_unit(z, top, scale), sigma_unit(z, top, scale));
    const u32 w = weight(z, unit->max, scale, unit->fraction);
    if (what == SUM_SQUARES)
        return square_term(w, unit->shift);
    const u64 mass = up(u64_from(w), unit->shift);
    return what == SUM_DEPTHS ? depth_term(mass, depth_q20(z, top, scale)) : mass;
}
