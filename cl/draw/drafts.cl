/* SPDX-License-Identifier: MIT */
/* drafts: finds the drafts that follow rows, and computes their target and draft probabilities. */
#include "core/verify.h"
#include "draw/distribution.cl"

/* A draft and its own distribution. */
typedef struct draft_row {
    u32 kind, id;
    /* Or floats, if these are probabilities; sparse: the words and then the probabilities. */
    __global const logit *x;
    __global const i32 *key;  /* the survey, if these are logits */
    __global const u64 *mass; /* its masses of tiles */
    i32 top_key;              /* the largest key, and the reciprocal of their mass */
    cls_reciprocal reciprocal;
} draft_row;
static inline draft_row draft_row_of(const step_args *s, u32 row, u32 draft)
{
    ARGS const cls_args *const args = s->args;
    const u32 request = row - draft;
    const size_t offset = (size_t)u64_of(args->draft_offset) +
                          draft_place(s, request, draft, args->draft_stride, args->draft_apart);
    draft_row d;
    d.kind = args->draft_kind;
    d.id = (u32)draft_id(s, request, (i32)draft);
    d.x = d.kind == CLS_DRAFT_LOGITS
              ? s->draft_x + offset
              : (__global const logit *)((__global const f32 *)s->draft_x + offset);
    if (d.kind == CLS_DRAFT_SPARSE)
        d.x = (__global const logit *)(s->raw_key + (size_t)CLS_SPARSE_WORDS * draft);
    d.key = s->raw_key + (size_t)row_max_tiles(s) * draft;
    d.mass = s->raw_mass + (size_t)row_tiles(s) * draft;
    return d;
}
/* Takes what weigh_draft() has left in the record of the row before the draft. */
static inline void draft_weighed(const cls_row *out, draft_row *d)
{
    d->top_key = out->draft_key;
    d->reciprocal = reciprocal_of(out->draft_mass);
}

/* Returns the draft that follows a row of a chain; -1: none. */
static inline i32 draft_after(const step_args *s, u32 row)
{
    __global const i32 *const nodes = draft_nodes(s), *const parents = draft_parents(s);
    const i32 next = row + 1 < s->args->n_rows ? nodes[row + 1] : -1;
    return next >= 0 && parents[next] == nodes[row] ? next : -1;
}

/* Returns the unit of a tile of a draft's logits. */
static inline cls_unit draft_unit(const draft_row *d, u32 tile)
{
    const f32 top = float_of_key(d->top_key);
    const cls_unit none = {0.0f, 0.0f, 0};
    return d->kind != CLS_DRAFT_LOGITS || d->top_key == CLS_KEY_NONE
               ? none
               : tile_unit(d->key, tile, top, split(top, CLS_LOG2E).exponent, CLS_LOG2E);
}
/* Returns the bits of the probability of a token in a sparse distribution. */
CLS_CALLED u32 sparse_probability(__global const u32 *words, u32 id)
{
    const u32 at = list_from(words, CLS_MAX_DRAFT_WIDTH, sparse_word(id, 0u));
    return at < CLS_MAX_DRAFT_WIDTH && words[at] >> CLS_SPARSE_BITS == id
               ? words[CLS_MAX_DRAFT_WIDTH + at]
               : 0u;
}
/* Returns the probability of a token in a draft's distribution. */
static inline u64 draft_probability(const draft_row *d, u32 id, const cls_unit *unit)
{
    if (d->kind == CLS_DRAFT_NONE)
        return id == d->id ? CLS_ONE_Q63 : 0;
    if (d->kind != CLS_DRAFT_LOGITS) {
        __global const u32 *const x = (__global const u32 *)d->x;
        return probability_q63(d->kind == CLS_DRAFT_SPARSE ? sparse_probability(x, id) : x[id]);
    }
    const f32 z = clean(LOAD(d->x, id));
    return z > CLS_MASKED
               ? fraction_q63(
                     &d->reciprocal,
                     to_row_units(weight(z, unit->max, CLS_LOG2E, unit->fraction), unit->shift))
               : 0;
}

/* Computes the two probabilities of the draft that follows a row, by the whole group: in the
 * distribution from which the row's token was drawn, and in the draft's own. `done`: the row needs
 * no search. */
ONE_COPY void weigh_draft(const step_args *s, SHARED const row_logits *r, u32 flags, int done,
                          u32 row, cls_row *out, __local u64 *scratch)
{
    const i32 draft = done && !out->no_token ? draft_after(s, row) : -1;
    out->target_prob = out->draft_prob = out->draft_mass = 0;
    out->draft_key = CLS_KEY_NONE;
    if (draft < 0 || (flags & CLS_SLOT_GREEDY))
        return; /* the same for the whole group */
    draft_row d = draft_row_of(s, row, (u32)draft);
    const u32 id = d.id;
    if (id >= r->vocab) /* none, or not a token */
        return;
    if (d.kind == CLS_DRAFT_LOGITS)
        out->draft_key = row_max_key(d.key, max_tiles(r), scratch);
    if (out->draft_key != CLS_KEY_NONE)
        out->draft_mass = row_total(d.key, d.mass, r->tiles, float_of_key(out->draft_key),
                                    CLS_LOG2E, 0, 0, scratch);
    draft_weighed(out, &d);
    cls_unit unit = draft_unit(&d, id / CLS_TILE);
    out->draft_prob = draft_probability(&d, id, &unit);
    BARRIER(); /* the list of kept ids is complete */
    report t;
    report_final(r, out, flags, kept_ids_of(s, row), &t);
    const f32 z = report_kept(&t, id, load_whole(r, id));
    if (z > CLS_MASKED) {
        unit = report_unit(&t, id);
        const cls_reciprocal whole = reciprocal_of(out->mass);
        out->target_prob = fraction_q63(&whole, report_mass(&t, z, &unit));
    }
}
