/* SPDX-License-Identifier: MIT */
/* sample: draws the token from what a chain has left of a row, and completes the row's record. */
#include "row/job.cl"
#include "draw/drafts.cl"
#include "draw/finish.cl"

/* Returns a request's flags as if its temperature were 0. */
static inline u32 greedy_flags(u32 flags)
{
    return (flags | CLS_SLOT_GREEDY) & ~(CLS_SLOT_STATEFUL | CLS_SLOT_DECAYS | CLS_SLOT_TOTAL);
}

/* Fills a row's record before anything is known about the row. */
static inline void record_begin(i32 slot_index, i32 invalid_token, cls_row *out)
{
    out->mass = out->total = out->target = out->drawn = out->adapted = 0;
    out->target_prob = out->draft_prob = out->draft_mass = 0;
    out->draft_key = 0;
    out->forced = 0;
    out->next.mu = 0;
    out->next.sum = out->next.weight = out->next.top_p = 0;
    out->token = invalid_token;
    out->status = slot_index == -1 ? CLS_STATUS_SKIPPED : slot_index < 0 ? CLS_STATUS_NO_SLOT : 0u;
    out->state = CLS_ROW_DONE;
    out->max_key = out->cut_key = out->top_key = CLS_KEY_NONE;
    out->cut_id = out->upper_last = CLS_MAX_ID;
    out->upper_key = CLS_KEY_INF;
    out->upper_first = 0;
    out->scale = CLS_LOG2E;
    out->no_token = 1;
    out->kept = out->listed = out->aim = out->min_depth = 0;
    for (u32 p = 0; p < CLS_PIVOTS; p++)
        out->pivot[p] = CLS_KEY_NONE;
}

/* The arguments of the two kernels that can draw a row's token, cls_token and cls_search, and of
 * their functions that do the work. */
#define ROW_KERNEL_ARGS ROWS_ARGS, DRAW_ARGS, DRAFT_ARGS, DRAFT_ROW_ARGS
#define ROW_NAMES ROWS_NAMES, DRAW_NAMES, DRAFT_NAMES, DRAFT_ROW_NAMES
#define ROW_ARGS u32 row, const shortlist *the_list, ROW_KERNEL_ARGS

/* The beginning of both functions. `flags` are the request's. A row without a request must not read
 * from the slot, because another row may be writing it. */
#define ROW_BEGIN \
    STEP_LOCALS \
    const i32 slot_index = ROW_SLOT(row); \
    __global const cls_slot *const slot = slots + (slot_index >= 0 ? slot_index : 0); \
    const u32 own_flags = slot_index >= 0 ? slot->flags : 0u; \
    const u32 flags = has & CLS_ALL_GREEDY ? greedy_flags(own_flags) : own_flags; \
    row_job w; \
    w.slot = slot; \
    w.list = *the_list; \
    w.r = ROW_VIEW(row, slot_index); \
    w.masses = work + (size_t)row * TILES; \
    w.sample = sample + (size_t)row * args->sample_stride; \
    w.infill = infill; \
    w.n_end = args->n_end; \
    w.listed = 0; \
    record_begin(slot_index, args->invalid_token, &w.out);

/* The end of both functions. `done`: the row needs no search. */
#if ROW
#define ROW_DRAFT(done) \
    if (has & CLS_DRAFTS) \
        weigh_draft(&w.r, flags, \
                    done && !w.out.no_token ? draft_after(NODES, PARENTS, row, args->n_rows) : -1, \
                    AT_OFFSET(draft_ids), ROW_DRAFTS, w.masses, (__global const u32 *)w.sample, \
                    &w.out, w.list.scratch);
#else
#define ROW_DRAFT(done) (void)flags; /* the search does not use them otherwise */
#endif
#if CHAIN == 2
#define ROW_ADAPTIVE \
    cls_slot_adaptive next = {0, 0u, 0u, 0u}; \
    adaptive_after(&w.r, slot, flags, &w.out, &next); \
    const int first = \
        !(has & CLS_DRAFTS) && first_of_slot(args, flags, slot_map, has, row, slot_index);
#else
#define ROW_ADAPTIVE \
    const cls_slot_adaptive next = {0, 0u, 0u, 0u}; \
    const int first = 0;
#endif
#define ROW_END(done) \
    ROW_DRAFT(done) \
    ROW_ADAPTIVE \
    FINISH_ROW(&w.out, row, slot_index, done, first, &next, w.list.scratch);

/* Whether XTC cuts the row: a uniform draw decides. */
#if CHAIN == 2
#define ROW_XTC_CUTS(slot, row) \
    ((slot)->xtc != 0 && u64_hi(ROW_BITS(CLS_PURPOSE_XTC, slot, row)) >> 1 < (slot)->xtc)
#else
#define ROW_XTC_CUTS(slot, row) 0
#endif

/* Computes the slot's adaptive state after the drawn token. */
ONE_COPY void adaptive_after(const row_logits *r, __global const cls_slot *slot, u32 flags,
                             const cls_row *out, cls_slot_adaptive *m)
{
    if (out->no_token || out->state != CLS_ROW_DONE)
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

#if SEARCH
/* Computes the masses of the set by tiles, where the set is not in the list; returns their sum.
 * `pass_scale`: the scale of what the pass has measured. */
ONE_COPY u64 set_masses(const row_job *w, f32 pass_scale)
{
    const measure m = measure_of(0, float_of_key(w->c.set.top_key), w->c.scale);
    const u64 mass = w->pass.last.pivot >= 0 && w->c.scale == pass_scale
                         ? pass_masses(&w->list, &w->pass.last, w->pass.by_tile, w->r.tiles,
                                       w->masses, w->list.scratch)
                         : cut_masses(&w->r, &m, &w->c.set, w->masses, w->list.scratch);
    BARRIER();
    return mass;
}
#endif

/* Replaces the masses of the set by the weights of adaptive p; returns their sum. */
ONE_COPY u64 adapt_set(row_job *w)
{
    kept_set *const set = &w->c.set;
    set->adapted = 1;
    set->mass = w->out.mass;
    w->out.aim = set->aim =
        adaptive_aim(w->slot->target, w->slot->adaptive.sum, w->slot->adaptive.weight);
    if (w->listed) {
        adapt_list(&w->list, w->c.kept, set);
        w->out.adapted = list_mass(&w->list, w->c.kept);
    } else {
        w->out.adapted = adapt_row(&w->r, float_of_key(set->top_key), w->c.scale, set, w->masses,
                                   w->list.scratch);
        BARRIER();
    }
    w->out.min_depth = set->min_depth;
    return w->out.adapted;
}

/* Writes the set into the record: for a list its cut and its mass. */
static inline void record_set(row_job *w)
{
    chain_state *const c = &w->c;
    cls_row *const out = &w->out;
    out->state = CLS_ROW_DONE;
    out->scale = c->scale;
    out->top_key = c->set.top_key;
    out->kept = 0; /* counted only if the set is a list */
#if CHAIN > 0
    if (w->listed) {
        shortlist *const list = &w->list;
        const u32 end = c->kept != 0 ? (u32)list->order[c->kept - 1] : 0u;
        c->set.key = list->key[end];
        c->set.id = list->id[end];
        out->kept = c->kept;
        if (c->weighed != c->scale)
            list_weigh(&w->r, list, float_of_key(c->set.top_key), c->scale);
        out->mass = list_mass(list, c->kept);
    }
#endif
    if (!c->truncated)
        out->mass = out->total;
    out->cut_key = c->set.key;
    out->cut_id = c->set.id;
    out->upper_key = c->set.upper_key;
    out->upper_first = c->set.upper_first;
    out->upper_last = c->set.upper_last;
    out->listed = (u32)c->by_ids;
}

/* Draws from the set that a chain has left: from the list, or by tiles, whose masses are in
 * w->masses[] with the sum in out.mass. */
ONE_COPY void pick_token(row_job *w, u64 bits, i32 invalid_token)
{
    cls_row *const out = &w->out;
    record_set(w);
    u64 drawable = out->mass;
#if CHAIN == 2
    if (w->slot->flags & CLS_SLOT_ADAPTIVE)
        drawable = adapt_set(w);
#endif
    out->drawn = u64_mul_hi(bits, drawable);
#if CHAIN > 0
    if (w->listed)
        out->token = draw_list(&w->list, w->c.kept, out->drawn);
    else
#endif
#if CHAIN > 0 && ROW
        if (!w->c.set.untruncated || out->token < 0) /* otherwise a shard drew it */
#endif
        out->token = draw_row(&w->r, w->masses, float_of_key(w->c.set.top_key), w->c.scale,
                              &w->c.set, out->drawn, w->list.scratch);
    if (out->token < 0) { /* impossible by the arithmetic, but llvmpipe may cut loops short */
        out->token = invalid_token;
        out->status |= CLS_STATUS_UNFIT;
        out->no_token = 1;
    }
#if CHAIN == 2
    if (LOCAL_ID == 0 && w->c.by_ids) {
        u32 at = 0;
        SHORT_LOOP
        for (u32 i = 0; i < w->list.n; i++)
            if ((u32)w->list.rank[i] < w->c.kept)
                ((__global u32 *)w->sample)[at++] = (u32)w->list.id[i];
    }
#endif
}
