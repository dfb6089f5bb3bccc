/* SPDX-License-Identifier: MIT */
/* drafts: finds the drafts that follow rows, and computes their target and draft probabilities. */
#include "core/verify.h"
#include "draw/distribution.cl"

/* A draft's own distribution, and where those of all drafts are surveyed. */
typedef struct draft_rows {
    u32 kind;
    __global const logit *x; /* or floats, if these are probabilities */
    __global const i32 *key; /* the survey of the drafts, if these are logits */
    __global const u64 *mass;
} draft_rows;
static inline draft_rows draft_rows_of(const step_args *s, u32 row, u32 draft)
{
    ARGS const cls_args *const args = s->args;
    const size_t offset = (size_t)u64_of(args->draft_offset) +
                          draft_place(s, row - draft, draft, args->draft_stride, args->draft_apart);
    draft_rows d;
    d.kind = args->draft_kind;
    d.x = d.kind == CLS_DRAFT_PROBS
              ? (__global const logit *)((__global const f32 *)s->draft_x + offset)
              : s->draft_x + offset;
    d.key = s->raw_key;
    d.mass = s->raw_mass;
    return d;
}

/* Returns the draft that follows a row of a chain; -1: none. */
static inline i32 draft_after(const step_args *s, u32 row)
{
    __global const i32 *const nodes = draft_nodes(s), *const parents = draft_parents(s);
    const i32 next = row + 1 < s->args->n_rows ? nodes[row + 1] : -1;
    return next >= 0 && parents[next] == nodes[row] ? next : -1;
}

/* Returns the unit of a tile of a draft's logits; top_key is their largest key. */
static inline cls_unit draft_unit(const draft_rows *d, u32 draft, u32 tile, u32 n, i32 top_key)
{
    const f32 top = float_of_key(top_key);
    return tile_unit(d->key + (size_t)n * draft, tile, top, split(top, CLS_LOG2E).exponent,
                     CLS_LOG2E);
}
/* Returns the probability of a token in a draft's distribution. `reciprocal` is that of the mass of
 * the draft's logits. */
static inline u64 draft_probability(const draft_rows *d, u32 id, const cls_unit *unit,
                                    const cls_reciprocal *reciprocal)
{
    if (d->kind == CLS_DRAFT_PROBS)
        return probability_q63(((__global const u32 *)d->x)[id]);
    const f32 z = clean(LOAD(d->x, id));
    return z > CLS_MASKED
               ? fraction_q63(
                     reciprocal,
                     to_row_units(weight(z, unit->max, CLS_LOG2E, unit->fraction), unit->shift))
               : 0;
}

/* Computes the two probabilities of the draft that follows a row, by the whole group: in the
 * distribution from which the row's token was drawn, and in the draft's own. `done`: the row needs
 * no search. */
ONE_COPY void weigh_draft(const step_args *s, const row_logits *r, u32 flags, int done, u32 row,
                          cls_row *out, __local u64 *scratch)
{
    const u32 n = max_tiles(r);
    const i32 draft = done && !out->no_token ? draft_after(s, row) : -1;
    const i32 drafted = draft >= 0 ? draft_id(s, row - (u32)draft, draft) : -1;
    cls_reciprocal reciprocal;
    cls_unit unit = {0.0f, 0.0f, 0};
    out->target_prob = out->draft_prob = out->draft_mass = 0;
    out->draft_key = CLS_KEY_NONE;
    if (drafted < 0 || (u32)drafted >= r->vocab || (flags & CLS_SLOT_GREEDY))
        return; /* the same for the whole group */
    const draft_rows d = draft_rows_of(s, row, (u32)draft);
    const u32 id = (u32)drafted;
    out->draft_prob = CLS_ONE_Q63;
    if (d.kind == CLS_DRAFT_LOGITS) {
        out->draft_key = row_max_key(d.key + (size_t)n * draft, n, scratch);
        out->draft_prob = 0;
        if (out->draft_key != CLS_KEY_NONE)
            out->draft_mass =
                row_total(d.key + (size_t)n * draft, d.mass + (size_t)draft * r->tiles, r->tiles,
                          float_of_key(out->draft_key), CLS_LOG2E, tile_sums_of(s, row), scratch);
    }
    if (d.kind == CLS_DRAFT_PROBS || out->draft_key != CLS_KEY_NONE) {
        reciprocal = reciprocal_of(out->draft_mass);
        if (d.kind == CLS_DRAFT_LOGITS)
            unit = draft_unit(&d, (u32)draft, id / CLS_TILE, n, out->draft_key);
        out->draft_prob = draft_probability(&d, id, &unit, &reciprocal);
    }
    BARRIER(); /* the list of kept ids is complete */
    report t;
    report_final(r, out, flags, kept_ids_of(s, row), &t);
    const f32 z = report_kept(&t, id, load_one(&t.r, id));
    if (z > CLS_MASKED) {
        unit = report_unit(&t, id);
        reciprocal = reciprocal_of(out->mass);
        out->target_prob = fraction_q63(&reciprocal, report_mass(&t, z, &unit));
    }
}
