/* SPDX-License-Identifier: MIT */
/* sample: draws the token from what a chain has left of a row, and completes the row's record. */
#include "row/cut.cl"
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

/* Returns the flags of a row's request in this step. A row without a request must not read from the
 * slot, because another row may be writing it. */
static inline u32 row_flags(const step_args *s, i32 slot_index)
{
    const u32 flags = slot_index >= 0 ? s->slots[slot_index].flags : 0u;
    return s->has & CLS_ALL_GREEDY ? greedy_flags(flags) : flags;
}

/* Returns whether XTC cuts the row: a uniform draw decides. */
static inline int row_xtc_cuts(const step_args *s, __global const cls_slot *slot, u32 row)
{
#if CHAIN == 2
    return slot->xtc != 0 && u64_hi(row_bits(s, CLS_PURPOSE_XTC, slot, row)) >> 1 < slot->xtc;
#else
    return 0;
#endif
}

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

/* The end of the two kernels that can draw a row's token. `done`: the row needs no search. */
static inline void row_end(const step_args *s, const row_logits *r, u32 flags, u32 row,
                           i32 slot_index, int done, cls_row *out, __local u64 *scratch)
{
    cls_slot_adaptive next = {0, 0u, 0u, 0u};
    int first = 0;
#if ROW
    if (s->has & CLS_DRAFTS)
        weigh_draft(s, r, flags, done, row, out, scratch);
#endif
#if CHAIN == 2
    adaptive_after(r, slot_of(s, slot_index), flags, out, &next);
    first = !(s->has & CLS_DRAFTS) && first_of_slot(s, flags, row, slot_index);
#endif
    finish_row(s, row, slot_index, out, done, first, &next, scratch);
}

/* Fills row_work[] with the masses of the set by tiles, where the set is not in the list; returns
 * their sum. `last`: the cut whose masses follow from the pass. */
ONE_COPY u64 set_masses(const row_logits *r, const chain_state *c, const cut *last, f32 pass_scale,
                        __global const u64 *row_pass, __global u64 *row_work, const shortlist *list)
{
    const measure m = measure_of(0, float_of_key(c->set.top_key), c->scale);
    const u64 mass = last->pivot >= 0 && c->scale == pass_scale
                         ? pass_masses(list, last, row_pass, r->tiles, row_work, list->scratch)
                         : cut_masses(r, &m, &c->set, row_work, list->scratch);
    BARRIER();
    return mass;
}

/* Replaces the masses of the set by the weights of adaptive p; returns their sum. */
ONE_COPY u64 adapt_set(const row_logits *r, __global const cls_slot *slot, int listed,
                       __global u64 *row_work, shortlist *list, chain_state *c, cls_row *out)
{
    c->set.adapted = 1;
    c->set.mass = out->mass;
    out->aim = c->set.aim = adaptive_aim(slot->target, slot->adaptive.sum, slot->adaptive.weight);
    if (listed) {
        adapt_list(list, c->kept, &c->set);
        out->adapted = list_mass(list, c->kept);
    } else {
        out->adapted =
            adapt_row(r, float_of_key(c->set.top_key), c->scale, &c->set, row_work, list->scratch);
        BARRIER();
    }
    out->min_depth = c->set.min_depth;
    return out->adapted;
}

/* Writes the set into the record: for a list its cut and its mass. */
static inline void record_set(const row_logits *r, int listed, shortlist *list, chain_state *c,
                              cls_row *out)
{
    out->state = CLS_ROW_DONE;
    out->scale = c->scale;
    out->top_key = c->set.top_key;
    out->kept = 0; /* counted only if the set is a list */
#if CHAIN > 0
    if (listed) {
        const u32 end = c->kept != 0 ? (u32)list->order[c->kept - 1] : 0u;
        c->set.key = list->key[end];
        c->set.id = list->id[end];
        out->kept = c->kept;
        if (c->weighed != c->scale)
            list_weigh(r, list, float_of_key(c->set.top_key), c->scale);
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
    out->listed = (u32)c->listed;
}

/* Draws from the set that a chain has left: from the list (`listed`), or by tiles, whose masses are
 * in row_work[] with the sum in out->mass. */
ONE_COPY void pick_token(const row_logits *r, __global const cls_slot *slot, int listed, u64 bits,
                         i32 invalid_token, __global u64 *row_work, __global f32 *row_sample,
                         shortlist *list, chain_state *c, cls_row *out)
{
    record_set(r, listed, list, c, out);
    u64 drawable = out->mass;
#if CHAIN == 2
    if (slot->flags & CLS_SLOT_ADAPTIVE)
        drawable = adapt_set(r, slot, listed, row_work, list, c, out);
#endif
    out->drawn = u64_mul_hi(bits, drawable);
#if CHAIN > 0
    if (listed)
        out->token = draw_list(list, c->kept, out->drawn);
    else
#endif
#if CHAIN > 0 && ROW
        if (!c->set.untruncated || out->token < 0) /* otherwise a shard drew it */
#endif
        out->token = draw_row(r, row_work, float_of_key(c->set.top_key), c->scale, &c->set,
                              out->drawn, list->scratch);
    if (out->token < 0) { /* impossible by the arithmetic, but llvmpipe may cut loops short */
        out->token = invalid_token;
        out->status |= CLS_STATUS_UNFIT;
        out->no_token = 1;
    }
#if CHAIN == 2
    if (LOCAL_ID == 0 && c->listed) {
        u32 at = 0;
        SHORT_LOOP
        for (u32 i = 0; i < list->n; i++)
            if ((u32)list->rank[i] < c->kept)
                ((__global u32 *)row_sample)[at++] = (u32)list->id[i];
    }
#endif
}
