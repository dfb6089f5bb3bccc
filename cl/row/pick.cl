/* SPDX-License-Identifier: MIT */
/* pick: draws the token from what a chain has left of a row, and completes the
 * row's record. */
#include "row/cut.cl"
#include "row/drafts.cl"
#include "row/finish.cl"

/* A request's flags as if its temperature were 0. */
static inline u32 greedy_flags(u32 flags)
{
    return (flags | CLS_SLOT_GREEDY) & ~(CLS_SLOT_MODES | CLS_SLOT_DECAYS | CLS_SLOT_TOTAL);
}

/* What both kernels that take a row to its token begin with. */
#define ROW_BEGIN                                                                     \
    SHORTLIST(list);                                                                  \
    const u32 row = get_group_id(1), tiles = TILES, n = MAX_TILES;                    \
    const i32 place = ROW_SLOT(row);                                                  \
    __global const i32 *const row_key = tile_key + (size_t)row * n;                   \
    __global u64 *const row_work = work + (size_t)row * tiles;                        \
    __global f32 *const row_sample = sample + (size_t)row * sample_stride;            \
    cls_row out = rows[row];                                                          \
    row_logits r = ROW_VIEW(row, place);                                              \
    cls_slot slot;                                                                    \
    slot.flags = slot.stopped = 0;                                                    \
    if (place >= 0) /* what is no slot of this row's another may be writing */        \
        slot = slots[place];                                                          \
    if (has & CLS_ALL_GREEDY)                                                         \
        slot.flags = greedy_flags(slot.flags);                                        \
    BARRIER(); /* all have read the record, which the first item writes anew */

/* ... and end with: `done` says that the row needs no search. */
#define ROW_END(done)                                                                                              \
    if (has & CLS_DRAFTS)                                                                                          \
        weigh_draft(&r, slot.flags, row_key, done && !out.none ? draft_after(OF(nodes), OF(parents), row, get_num_groups(1)) : -1, \
                    OF(draft_ids), ROW_DRAFTS, n, row_work, (__global const u32 *)row_sample, &out, list.scratch); \
    cls_mode made;                                                                                                 \
    next_mode(&r, &slot, row_key, &out, &made);                                                                    \
    FINISH_ROW(&out, row, place, &r, done,                                                                         \
               !(has & CLS_DRAFTS) && first_of_slot(&slot, slots, n_slots, slot_map, slot_map_offset, has, row, place), &made, list.scratch);

/* Whether this step's random number says that XTC cuts. */
#define ROW_COIN(slot, row) \
    ((slot)->xtc != 0 && u64_hi(ROW_BITS(CLS_PURPOSE_XTC, slot, row)) >> 1 < (slot)->xtc)

/* What accepting the drawn token makes of the slot's mode. */
static inline void next_mode(const row_logits *r, const cls_slot *slot, __global const i32 *row_key, const cls_row *out,
                             cls_mode *m)
{
    *m = slot->mode;
    if (out->none || out->state != CLS_ROW_DONE || !(slot->flags & CLS_SLOT_MODES))
        return;
    const f32 top = of_key(out->top_key), z = load_whole(r, (u32)out->token);
    if (slot->flags & CLS_SLOT_MIROSTAT)
        m->mu = mirostat_next(m->mu, depth_q20(z, top, out->scale) + mass_q20(out->mass, top, out->scale), slot->tau, slot->eta);
    if (slot->flags & CLS_SLOT_ADAPTIVE) {
        const cls_unit unit = tile_unit(row_key, (u32)out->token / CLS_TILE, top, split(top, out->scale).exponent, out->scale);
        const u64 mass = up(u64_from(weight(z, unit.max, out->scale, unit.fraction)), unit.shift);
        mode_adapt(m, probability_q30(mass, out->mass), slot->adaptive_decay);
    }
}

/* The mass of the set in row_work[], where it is no list: by tiles, as whoever has
 * the whole row takes it. `last`: whose masses the pass has. */
static inline u64 set_masses(const row_logits *r, __global const i32 *row_key, u32 tiles, const chain_state *c,
                             const cut *last, f32 pass_scale, __global const u64 *row_pass, __global u64 *row_work,
                             const shortlist *list)
{
    const measure m = measure_of(0, of_key(c->set.top_key), c->scale);
    const u64 mass = last->pivot >= 0 && c->scale == pass_scale
                         ? pass_masses(list, last, row_pass, tiles, row_work, list->scratch)
                         : cut_masses(r, row_key, tiles, &m, &c->set, row_work, list->scratch);
    BARRIER();
    return mass;
}

/* The weights of adaptive p, tile by tile in work[]; returns their sum. What is
 * not known yet, the least depth of the set, is found first. */
static inline u64 row_adapt(const row_logits *r, __global const i32 *row_key, u32 tiles, f32 top, f32 scale,
                            kept_set *set, __global u64 *work, __local u64 *scratch)
{
    const i32 exponent = split(top, scale).exponent;
    u64 sum = u64_from(0);
    u32 least = CLS_DEEPEST;
    for (u32 round = 0; round < 2; round++) {
        for (u32 t = get_local_id(0); t < tiles; t += WGS) {
            u64 mass = u64_from(0);
            if (tile_max_key(row_key, t) >= set->key && tile_max_key(row_key, t) != CLS_KEY_NONE) {
                const int kind = tile_kind(r, t);
                const cls_unit unit = tile_unit(row_key, t, top, exponent, scale);
                for (u32 v = 0; v < TILE_VECTORS; v++) {
                    const u32 i = t * CLS_TILE + v * VEC;
                    const FV x = load_v(r, i, kind);
                    f32 lane[VEC];
                    VSTORE(is_kept(set, x, i) ? x : (FV)(CLS_MASKED), lane);
                    for (u32 j = 0; j < VEC; j++) {
                        const f32 z = clean(lane[j]);
                        if (!(z > CLS_MASKED))
                            continue;
                        const u64 one = up(u64_from(weight(z, unit.max, scale, unit.fraction)), unit.shift);
                        if (round == 0)
                            least = min(least, adaptive_depth(probability_q30(one, set->mass), set->aim));
                        else
                            mass = u64_add(mass, u64_from(adapted_weight(set, one)));
                    }
                }
            }
            work[t] = mass;
            sum = u64_add(sum, mass);
        }
        set->least = wg_umin(least, scratch);
    }
    return wg_mass(sum, scratch);
}

/* Draws from the set that a chain has left: a list (listed), or what has its
 * masses in row_work[] and out->mass. */
static inline void pick_token(const row_logits *r, const cls_slot *slot, __global const i32 *row_key, u32 tiles, int listed,
                              u64 bits, i32 invalid_token, __global u64 *row_work, __global f32 *row_sample,
                              shortlist *list, chain_state *c, cls_row *out)
{
    const f32 top = of_key(c->set.top_key);
    out->state = CLS_ROW_DONE;
    out->scale = c->scale;
    out->top_key = c->set.top_key;
    out->kept = 0; /* nobody counted, unless it is a list */
    if (listed) {
        const u32 end = (u32)list->order[c->kept - 1];
        c->set.key = list->key[end];
        c->set.id = list->id[end];
        out->kept = c->kept;
        if (c->weighed != c->scale)
            list_weigh(list, row_key, top, c->scale);
        out->mass = list_mass(list, c->kept);
    }
    if (!c->touched)
        out->mass = out->total;
    u64 drawable = out->mass;
    if (slot->flags & CLS_SLOT_ADAPTIVE) {
        c->set.adapted = 1;
        c->set.mass = out->mass;
        out->aim = c->set.aim = adaptive_aim(slot->target, slot->mode.sum, slot->mode.weight);
        if (listed) {
            list_adapt(list, c->kept, &c->set);
            out->adapted = list_mass(list, c->kept);
        } else {
            out->adapted = row_adapt(r, row_key, tiles, top, c->scale, &c->set, row_work, list->scratch);
            BARRIER();
        }
        out->least = c->set.least;
        drawable = out->adapted;
    }
    out->drawn = u64_mul_hi(bits, drawable);
    out->cut_key = c->set.key;
    out->cut_id = c->set.id;
    out->head_key = c->set.head_key;
    out->head_first = c->set.head_first;
    out->head_last = c->set.head_last;
    out->listed = (u32)c->listed;
    if (listed)
        out->token = draw_list(list, c->kept, out->drawn);
    else
        out->token = draw_row(r, row_key, row_work, tiles, top, c->scale, &c->set, out->drawn, list->scratch);
    if (out->token < 0) { /* never, by the arithmetic; but a device may cut loops short (llvmpipe) */
        out->token = invalid_token;
        out->status |= CLS_STATUS_UNFIT;
        out->none = 1;
    }
    if (c->listed && get_local_id(0) == 0) {
        u32 at = 0;
        for (u32 i = 0; i < list->n; i++)
            if ((u32)list->rank[i] < c->kept)
                ((__global u32 *)row_sample)[at++] = (u32)list->id[i];
    }
}
