/* SPDX-License-Identifier: MIT */
/* sample: draws the token from what a chain has left of a row, and completes the row's record. */
#include "row/job.cl"
#include "draw/drafts.cl"
#include "draw/finish.cl"

/* Fills a row's record before anything is known about the row. */
static inline void record_begin(i32 slot_index, i32 invalid_token, cls_row *out)
{
    out->mass = out->total = out->target = out->drawn = out->adapted = 0;
    out->target_prob = out->draft_prob = out->draft_mass = 0;
    out->draft_key = 0;
    out->forced = 0;
    out->relaxed = 0;
    out->emitted = -1;
    out->next.mu = 0;
    out->next.sum = out->next.weight = out->next.top_p = 0;
    out->token = invalid_token;
    out->status = slot_index == -1 ? CLS_ROW_SKIPPED : slot_index < 0 ? CLS_ROW_NO_SLOT : 0u;
    out->state = CLS_RECORD_DONE;
    out->max_key = out->top_key = CLS_KEY_NONE;
    out->cut = whole_cut();
    out->scale = CLS_LOG2E;
    out->no_token = 1;
    out->kept = out->listed = out->aim = out->min_depth = 0;
    for (u32 p = 0; p < CLS_PIVOTS; p++)
        out->pivot[p] = CLS_KEY_NONE;
}

/* Computes the slot's adaptive state after the drawn token. */
ONE_COPY void adaptive_after(SHARED const row_logits *r, __global const cls_slot *slot, u32 flags,
                             const cls_row *out, cls_slot_adaptive *m)
{
    if (out->no_token || out->state != CLS_RECORD_DONE)
        return;
    *m = slot->adaptive;
    if (!(flags & CLS_SLOT_STATEFUL))
        return;
    const f32 top = float_of_key(out->top_key), z = load_whole(r, (u32)out->token);
    if (flags & CLS_SLOT_MIROSTAT)
        m->mu = mirostat_next(m->mu,
                              depth_q20(z, top, out->scale) + mass_q20(out->mass, top, out->scale),
                              slot->tau, slot->eta);
    if (flags & CLS_SLOT_ADAPTIVE) {
        const cls_unit unit = tile_unit(r->key, (u32)out->token / CLS_TILE, top,
                                        split(top, out->scale).exponent, out->scale);
        const u64 mass = to_row_units(weight(z, unit.max, out->scale, unit.fraction), unit.shift);
        adaptive_p_accept(m, probability_q30(mass, out->mass), slot->adaptive_decay);
    }
}

/* Begins a row's work in the two kernels that can draw its token. */
static inline void job_begin(const step_args *s, u32 row, SHARED row_logits *r,
                             SHARED shortlist *list, row_job *w)
{
#if SHARES_VIEW
    w->r = r;
#endif
    w->row = row;
    w->slot_index = row_slot(s, row);
    w->slot = row_rules(s, row, w->slot_index);
    w->flags = row_flags(s, row, w->slot_index);
    if (WRITES_SHARED)
        *VIEW(w) = row_view(s, row, w->slot_index);
    SHARED_BARRIER();
    w->list = list;
    w->sums = tile_sums_of(s, row);
    w->scratch = scratch_of(s, row);
    w->listed = 0;
    record_begin(w->slot_index, s->args->invalid_token, &w->out);
}

/* Ends it. `done`: the row needs no search. */
static inline void job_end(const step_args *s, row_job *w, int done)
{
    cls_slot_adaptive next = {0, 0u, 0u, 0u};
    int first = 0;
#if ROW
    if (s->has & CLS_DRAFTS)
        weigh_draft(s, VIEW(w), w->flags, done, w->row, &w->out, w->list->scratch);
#endif
#if CHAIN == 2
    adaptive_after(VIEW(w), w->slot, w->flags, &w->out, &next);
    first = !(s->has & CLS_DRAFTS) && first_of_slot(s, w->flags, w->row, w->slot_index);
#endif
    finish_row(s, w->row, w->slot_index, &w->out, done, first, &next, w->list->scratch);
}

#if SEARCH
/* Computes the masses of the set by tiles, where the set is not in the list; returns their sum.
 * `pass_scale`: the scale of what the pass has measured. */
ONE_COPY u64 set_masses(row_job *w, f32 pass_scale)
{
    u64 sum[CLS_PIVOTS];
    if (w->pass.last.pivot >= 0 && w->c.scale == pass_scale) {
        sum[0] = pass_masses(w->list, &w->pass.last, w->pass.by_tile, VIEW(w)->tiles, w->sums,
                             w->list->scratch);
    } else {
        row_truncate(VIEW(w), &w->c.set.cut);
        BARRIER(); /* every item has read sums[] */
        fold q = fold_of(float_of_key(w->c.set.top_key), w->c.scale);
        q.out = w->sums;
        fold_row(VIEW(w), FOLD_MASS, FOLD_MASS, &q, sum, w->list->scratch);
    }
    BARRIER();
    return sum[0];
}
#endif

/* Replaces the masses of the set by the weights of adaptive p; returns their sum. */
ONE_COPY u64 adapt_set(row_job *w)
{
    kept_set *const set = &w->c.set;
    set->adapted = 1;
    set->by.mass = w->out.mass;
    w->out.aim = set->by.aim =
        adaptive_aim(w->slot->target, w->slot->adaptive.sum, w->slot->adaptive.weight);
#if SEARCH
    if (!w->listed) {
        w->out.adapted = adapt_row(VIEW(w), float_of_key(set->top_key), w->c.scale, set, w->sums,
                                   w->list->scratch);
        BARRIER();
    } else
#endif
    {
        adapt_list(w->list, w->c.kept, set);
        w->out.adapted = list_mass(w->list, w->c.kept);
    }
    w->out.min_depth = set->by.min_depth;
    return w->out.adapted;
}

/* Writes the set into the record: for a list its cut and its mass. */
static inline void record_set(row_job *w)
{
    chain_state *const c = &w->c;
    cls_row *const out = &w->out;
    out->state = CLS_RECORD_DONE;
    out->scale = c->scale;
    out->top_key = c->set.top_key;
    out->kept = 0; /* counted only if the set is a list */
#if CHAIN > 0
    if (w->listed) {
        SHARED shortlist *const list = w->list;
        const u32 end = c->kept != 0 ? (u32)list->order[c->kept - 1] : 0u;
        c->set.cut.key = list->key[end];
        c->set.cut.id = list->id[end];
        out->kept = c->kept;
        if (c->weighed != c->scale)
            list_weigh(VIEW(w), list, float_of_key(c->set.top_key), c->scale);
        out->mass = list_mass(list, c->kept);
    }
#endif
    if (!c->truncated)
        out->mass = out->total;
    out->cut = c->set.cut;
    out->listed = (u32)c->by_ids;
}

/* Draws from the set that a chain has left: from the list, or by tiles, whose masses are in
 * w->sums[] with the sum in out.mass. */
ONE_COPY void pick_token(const step_args *s, row_job *w)
{
    cls_row *const out = &w->out;
    record_set(w);
    u64 drawable = out->mass;
#if CHAIN == 2
    if (w->slot->flags & CLS_SLOT_ADAPTIVE)
        drawable = adapt_set(w);
#endif
    out->drawn =
        u64_mul_hi(row_bits(s, CLS_PURPOSE_TOKEN, slot_of(s, w->slot_index), w->row), drawable);
#if CHAIN > 0
    if (w->listed)
        out->token = draw_list(w->list, w->c.kept, out->drawn);
    else
#endif
#if CHAIN > 0 && ROW
        if (!w->c.set.untruncated || out->token < 0) /* otherwise a shard drew it */
#endif
        out->token = draw_row(VIEW(w), w->sums, float_of_key(w->c.set.top_key), w->c.scale,
                              &w->c.set, out->drawn, w->list->scratch);
    if (out->token < 0) { /* impossible by the arithmetic, but llvmpipe may cut loops short */
        out->token = s->args->invalid_token;
        out->status |= CLS_ROW_UNFIT;
        out->no_token = 1;
    }
#if CHAIN == 2
    for (u32 i = LOCAL_ID; w->c.by_ids && i < w->list->n; i += WGS) {
        u32 at = 0;
        SHORT_LOOP
        for (u32 j = 0; j < i; j++)
            at += (u32)w->list->rank[j] < w->c.kept;
        if ((u32)w->list->rank[i] < w->c.kept)
            ((__global u32 *)w->scratch)[at] = (u32)w->list->id[i];
    }
#endif
}
