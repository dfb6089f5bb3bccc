/* SPDX-License-Identifier: MIT */
/* final: what a row's token was drawn from, for those who ask: whether a token is
 * in it, and with which mass and probability. */
#include "core/samplers.h"
#include "row/draw.cl"

/* Where an output begins; the buffer is at least some buffer, and `wants` tells. */
#define OUTPUT(buffer, which) ((buffer) + u64_to_size(u64_of(args->output_offset[which])))

/* A logit where the caller reads it, and the logarithm of a probability, which has no
 * bounds but 0: infinities by their bits. */
#ifdef CLS_LIMITED
static inline i32 output_bits(f32 x)
{
    const i32 bits = as_int(x), magnitude = bits & 0x7fffffff, sign = bits & (i32)0x80000000;
    if (magnitude == CLS_INF_BITS - 1)
        return sign | 0x7f7fffff;
    return magnitude >= CLS_INF_BITS ? sign | 0x7f800000 : bits;
}
#define WRITE_LOGIT(out, at, x) ((__global i32 *)(out))[at] = output_bits(x)
#define NO_LOGPROB CLS_FLT_MAX
static inline i32 logprob_bits(f32 x) { return x == NO_LOGPROB ? (i32)0xff800000 : as_int(x); }
#define WRITE_LOGPROB(out, at, x) ((__global i32 *)(out))[at] = logprob_bits(x)
#else
#define WRITE_LOGIT(out, at, x) (out)[at] = (x)
#define NO_LOGPROB CLS_MASKED
#define WRITE_LOGPROB(out, at, x) (out)[at] = (x)
#endif

/* What is reported on: the raw row, or what the token was drawn from. */
typedef struct report {
    row_logits r;            /* narrowed to the set, where that is a band of the order ... */
    __global const u32 *ids; /* ... and where not, its tokens, ascending */
    u32 n_ids, listed, greedy, raw;
    f32 scale;
    i32 exponent;
    kept_set set; /* its top, its mass, adaptive p */
    u64 adapted;
} report;

/* The row that the token was drawn from. */
static inline void report_final(const row_logits *r, const cls_row *out, u32 flags,
                                __global const u32 *ids, report *t)
{
    t->r = *r;
    t->ids = ids;
    t->n_ids = min(out->kept, (u32)LIST);
    t->listed = out->listed;
    t->greedy = flags & CLS_SLOT_GREEDY;
    t->raw = 0;
    t->scale = out->scale;
    t->exponent = split(float_of_key(out->top_key), out->scale).exponent;
    whole_row(out->top_key, &t->set);
    t->set.key = out->cut_key;
    t->set.id = out->cut_id;
    t->set.upper_key = out->upper_key;
    t->set.upper_first = out->upper_first;
    t->set.upper_last = out->upper_last;
    t->set.adapted = !t->greedy && (flags & CLS_SLOT_ADAPTIVE);
    t->set.aim = out->aim;
    t->set.min_depth = out->min_depth;
    t->set.mass = out->mass;
    t->adapted = out->adapted;
    if (t->listed)
        t->r.truncated = 0; /* infill's last resort may be what a stage before it has cut */
    else if (out->cut_key != CLS_KEY_NONE || out->upper_key != CLS_KEY_INF)
        row_truncate(&t->r, &t->set);
}

/* The raw row at temperature 1, of a largest key and a mass. */
static inline void report_raw(const row_logits *r, i32 max_key, u64 mass, report *t)
{
    t->r = *r;
    t->ids = r->list;
    t->n_ids = t->listed = t->greedy = 0;
    t->raw = 1;
    t->scale = CLS_LOG2E;
    t->exponent = split(float_of_key(max_key), CLS_LOG2E).exponent;
    whole_row(max_key, &t->set);
    t->set.mass = mass;
    t->adapted = u64_from(0);
}

/* What is left of a token's logit x in the set: -inf if it is not kept. */
static inline f32 report_kept(const report *t, u32 id, f32 x)
{
    if (t->listed)
        return list_find(t->ids, t->n_ids, id) < t->n_ids ? x : CLS_MASKED;
    return t->r.truncated ? truncate_one(&t->r, id, x) : x;
}

static inline cls_unit report_unit(const report *t, __global const i32 *row_key, u32 id)
{
    return tile_unit(row_key, id / CLS_TILE, float_of_key(t->set.top_key), t->exponent, t->scale);
}

/* A kept token's mass, or what adaptive p puts in its place. */
static inline u64 report_mass(const report *t, f32 z, const cls_unit *unit)
{
    const u64 mass =
        to_row_units(u64_from(weight(z, unit->max, t->scale, unit->fraction)), unit->shift);
    return t->set.adapted ? u64_from(adapted_weight(&t->set, mass)) : mass;
}

/* Its probability, and the natural logarithm of that. */
static inline f32 report_probability(const report *t, u64 mass)
{
    return t->greedy ? 1.0f
                     : u64_to_f32(mass) / u64_to_f32(t->set.adapted ? t->adapted : t->set.mass);
}
/* A token that weighs nothing has none, but in the raw row. The token that was drawn has one
 * all the same: of a row that nothing truncates the draw floors the sum of a tile's weights,
 * not each, and may find a token that by itself comes to less than the row's unit. */
static inline f32 report_logprob(const report *t, f32 z, const cls_unit *unit, int drawn)
{
    if (z == CLS_MASKED || t->greedy)
        return z == CLS_MASKED ? NO_LOGPROB : 0.0f;
    const int weighed = t->set.adapted || !(t->raw || drawn);
    const u64 mass = weighed ? report_mass(t, z, unit) : u64_from(1);
    if (u64_is_zero(mass))
        return NO_LOGPROB;
    if (!t->set.adapted)
        return logprob_of(z, float_of_key(t->set.top_key), t->scale, t->set.mass);
    return (f32)(log2_q24(mass) - log2_q24(t->adapted)) * (0x1p-24f * 0x1.62e430p-1f);
}

/* ------------------------------------------------------------ every token of the row */

/* A token's share of the sum behind the entropy: its mass times its depth. That of
 * adaptive p is what lies under the greatest of its weights. */
static inline u64 report_term(const report *t, f32 z, u64 mass)
{
    if (!t->set.adapted)
        return depth_term(mass, depth_q20(z, float_of_key(t->set.top_key), t->scale));
    if (u64_is_zero(mass))
        return mass;
    return depth_term(u64_shl(mass, 13), (u32)not_negative((30 << 24) - log2_q24(mass)) >> 4);
}
/* The entropy in nats, from the sum of these. */
static inline f32 report_entropy(const report *t, u64 terms)
{
    u32 bits;
    if (t->set.adapted)
        bits = (u32)((log2_q24(t->adapted) - (30 << 24)) >> 4) +
               mean_depth_q20(terms, u64_shl(t->adapted, 13));
    else
        bits = mass_q20(t->set.mass, float_of_key(t->set.top_key), t->scale) +
               mean_depth_q20(terms, t->set.mass);
    return (f32)bits * (0x1p-20f * 0x1.62e430p-1f);
}
