/* SPDX-License-Identifier: MIT */
/* distribution: describes the final distribution, from which a row's token was drawn, for the
 * kernels that write outputs: whether it contains a token, and with which mass and probability. */
#include "draw/draw.cl"
#include "row/terms.cl"

/* What is reported on: the raw row, or the final distribution. */
typedef struct report {
    __global const i32 *key; /* of the row's max tiles */
    __global const u32 *ids; /* the tokens of a set that is not a range of the order, ascending */
    u32 n_ids, listed, truncated, greedy, raw; /* truncated: the set is a part of the row */
    f32 scale;
    i32 exponent;
    kept_set set; /* only its cuts, top and mass, and adaptive p */
    u64 adapted;
} report;

/* Reports on the distribution from which the token was drawn. */
static inline void report_final(SHARED const row_logits *r, const cls_row *out, u32 flags,
                                __global const u32 *ids, report *t)
{
    t->key = r->key;
    t->ids = ids;
    t->n_ids = min(out->kept, (u32)LIST);
    t->listed = out->listed;
    t->truncated = !t->listed && cuts_row(&out->cut);
    t->greedy = flags & CLS_SLOT_GREEDY;
    t->raw = 0;
    t->scale = out->scale;
    t->exponent = split(float_of_key(out->top_key), out->scale).exponent;
    whole_row(out->top_key, &t->set);
    t->set.cut = out->cut;
    t->set.adapted = !t->greedy && (flags & CLS_SLOT_ADAPTIVE);
    t->set.by.aim = out->aim;
    t->set.by.min_depth = out->min_depth;
    t->set.by.mass = out->mass;
    t->adapted = out->adapted;
}

/* Reports on the raw row at temperature 1, with a given largest key and mass. */
static inline void report_raw(SHARED const row_logits *r, i32 max_key, u64 mass, report *t)
{
    t->key = r->key;
    t->ids = r->list;
    t->n_ids = t->listed = t->truncated = t->greedy = 0;
    t->raw = 1;
    t->scale = CLS_LOG2E;
    t->exponent = split(float_of_key(max_key), CLS_LOG2E).exponent;
    whole_row(max_key, &t->set);
    t->set.by.mass = mass;
    t->adapted = 0;
}

/* From now on the row reads as -inf beyond the set, where that is a range of the order. Of others
 * it reads as the whole: if infill finds nothing, it keeps a token that an earlier stage may have
 * cut. */
static inline void report_truncate(const report *t, SHARED row_logits *r)
{
    if (t->truncated) /* the same for the whole group */
        row_truncate(r, &t->set.cut);
}

/* Returns a token's logit x if the set has the token, else -inf. */
static inline f32 report_kept(const report *t, u32 id, f32 x)
{
    if (t->listed)
        return list_find(t->ids, t->n_ids, id) < t->n_ids ? x : CLS_MASKED;
    return t->truncated ? truncate_one(t->set.cut, id, x) : x;
}

/* Does this for the vector at i. */
static inline FV report_kept_v(const report *t, u32 i, FV x)
{
    u32 bits = 0;
    if (!t->listed)
        return t->truncated ? truncate_v(t->set.cut, i, x) : x;
    SHORT_LOOP
    for (u32 at = list_from(t->ids, t->n_ids, i); at < t->n_ids && t->ids[at] < i + VEC; at++)
        bits |= 1u << (t->ids[at] - i);
    return lane_signs(bits) < 0 ? x : (FV)(CLS_MASKED);
}

/* Returns a key that all tokens of the set reach. */
static inline i32 report_lowest(const report *t)
{
    return t->listed || t->set.cut.key == CLS_KEY_NONE ? CLS_KEY_NONE + 1 : t->set.cut.key;
}

static inline cls_unit report_unit(const report *t, u32 id)
{
    return tile_unit(t->key, id / CLS_TILE, float_of_key(t->set.top_key), t->exponent, t->scale);
}

/* Returns a kept token's mass, or its weight by adaptive p. */
static inline u64 report_mass(const report *t, f32 z, const cls_unit *unit)
{
    const u64 mass = to_row_units(weight(z, unit->max, t->scale, unit->fraction), unit->shift);
    return t->set.adapted ? (u64)adapted_weight(t->set.by, mass) : mass;
}

/* Returns the probability of a kept token, from its mass. */
static inline f32 report_probability(const report *t, u64 mass)
{
    return t->greedy ? 1.0f
                     : u64_to_f32(mass) / u64_to_f32(t->set.adapted ? t->adapted : t->set.by.mass);
}
/* Returns the natural logarithm of a token's probability; CLS_MASKED for a token that weighs
 * nothing, except in the raw row. The drawn token always has one: in a row that nothing truncates,
 * the draw rounds down the sum of a tile's weights and not each weight, so it may choose a token
 * whose own weight is below the row's unit. */
static inline f32 report_logprob(const report *t, f32 z, const cls_unit *unit, int drawn)
{
    if (z == CLS_MASKED || t->greedy)
        return z == CLS_MASKED ? CLS_MASKED : 0.0f;
    const int weighed = t->set.adapted || !(t->raw || drawn);
    const u64 mass = weighed ? report_mass(t, z, unit) : 1;
    if (mass == 0)
        return CLS_MASKED;
    if (!t->set.adapted)
        return logprob_of(z, float_of_key(t->set.top_key), t->scale, t->set.by.mass);
    return (f32)(log2_q24(mass) - log2_q24(t->adapted)) * (0x1p-24f * 0x1.62e430p-1f);
}

/* ------------------------------------------------------------ every token of the row */

/* The weights of a tile's tokens z, which are -inf where the set lacks them, or their weights by
 * adaptive p; and from these report_mass() and report_probability(). */
static inline UV report_weights(const report *t, FV z, const cls_unit *unit)
{
    const UV w = weight_v(z, unit->max, t->scale, unit->fraction);
    if (!t->set.adapted)
        return w;
    return z > CLS_MASKED ? adapted_weights(t->set.by, w, unit->shift) : (UV)(0u);
}
static inline LV report_masses(const report *t, UV w, const cls_unit *unit)
{
    return t->set.adapted ? TO_LV(w) : row_units_v(w, unit->shift);
}
static inline FV report_probabilities(const report *t, FV z, UV w, const cls_unit *unit)
{
    const LV mass = report_masses(t, w, unit);
    const f32 all = u64_to_f32(t->set.adapted ? t->adapted : t->set.by.mass);
    const FV p = (UV_TO_FV(LV_TO_UV(mass >> 32)) * 4294967296.0f + UV_TO_FV(LV_TO_UV(mass))) / all;
    return z > CLS_MASKED ? (t->greedy ? (FV)(1.0f) : p) : (FV)(0.0f);
}

/* Sums up these tokens' terms of what the entropy comes from: mass times depth. With adaptive p the
 * depth is relative to the greatest possible weight. */
static inline u64 report_terms(const report *t, FV z, UV w, const cls_unit *unit)
{
    if (!t->set.adapted)
        return LSUM(depth_term_v(z, w, float_of_key(t->set.top_key), t->scale, unit->shift));
    /* Oclgrind 21.10 reads what stands behind a scalar in max() of a vector and a scalar. */
    const IV depth = max((IV)(30 << 24) - log2_v(max(w, (UV)(1u))), (IV)(0));
    return LSUM((TO_LV(w) << 13) * TO_LV(AS_UV(depth) >> 4) >> 24);
}
/* Returns the entropy in nats, from the sum of these terms. */
static inline f32 report_entropy(const report *t, u64 terms)
{
    u32 bits;
    if (t->set.adapted)
        bits = (u32)((log2_q24(t->adapted) - (30 << 24)) >> 4) +
               mean_depth_q20(terms, t->adapted << 13);
    else
        bits = mass_q20(t->set.by.mass, float_of_key(t->set.top_key), t->scale) +
               mean_depth_q20(terms, t->set.by.mass);
    return (f32)bits * (0x1p-20f * 0x1.62e430p-1f);
}
