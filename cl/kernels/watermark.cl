/* SPDX-License-Identifier: MIT */
/* watermark: draws the tokens of rows whose requests have a watermark again, from the final sets.
 * The first launch leaves the best token of each group's tiles in `pass`; the second one takes the
 * best of these, unless the row's context occurred before. A row cannot accept its token before, so
 * these steps end with the force kernel. */
#include "core/watermark.h"
#include "draw/distribution.cl"
#include "slot/text.cl"

/* Returns the id of the entry `back` entries before the end of a text, if it is output. */
static inline u32 output_before(const text *t, u32 back)
{
    const u32 entry = back <= t->length ? text_entry(t, back) : 0u;
    return entry & CLS_ENTRY_OUTPUT ? entry & CLS_ENTRY_ID : CLS_WATERMARK_NONE;
}

/* Hashes the last w ids of a text. What is before an entry that is no output does not count. */
static inline void hash_context(const text *t, u32 w, const u32 *key, u32 *state)
{
    u32 own = 0;
    while (own < w && output_before(t, own + 1) != CLS_WATERMARK_NONE)
        own++;
    watermark_begin(state, w);
    for (u32 first = 0; first < w; first += 4) {
        u32 ids[4];
        for (u32 i = 0; i < 4; i++) {
            const u32 back = w - first - i;
            ids[i] = first + i < w && back <= own ? output_before(t, back) : CLS_WATERMARK_NONE;
        }
        watermark_hash(state, w, first, ids, key);
    }
}

/* Returns whether the last w ids of a text stand before one of its latest outputs, too, as far as
 * the last `known` entries show; by the whole group. */
static inline u32 context_repeats(const text *t, u32 w, u32 known, __local u64 *scratch)
{
    const u32 most = min(min(known - w, CLS_WATERMARK_POSITIONS), t->length),
              latest = output_before(t, 1);
    u32 found = 0;
    for (u32 back = 1 + LOCAL_ID; back <= most && !found; back += WGS) {
        if (output_before(t, back + 1) != latest || output_before(t, back) == CLS_WATERMARK_NONE)
            continue;
        u32 same = 1, id = latest;
        for (; same < w && id != CLS_WATERMARK_NONE && id == output_before(t, back + same); same++)
            id = output_before(t, same + 1);
        found = (u32)(id == output_before(t, back + same));
    }
    return wg_uor(found, scratch);
}

/* Compares the tokens of the vector at i, which is in the set's tile of this unit. */
static inline void mark_vector(const report *t, u32 i, int kind, const cls_unit *unit,
                               const u32 *state, const u32 *key, cls_marked *best)
{
    const UV w = weight_v(load_v(&t->r, i, kind, CLS_MASKED), unit->max, t->scale, unit->fraction);
    u32 weights[VEC], words[4];
    if (to_row_units((u64)(u32)IMAX(AS_IV(w)), unit->shift) < best->least)
        return;
    VSTORE(w, weights);
    for (u32 j = 0; j < VEC; j++) {
        const u64 mass = to_row_units(weights[j], unit->shift);
        if (j % 4 == 0)
            watermark_words(words, state, (i + j) / 4, key);
        if (mass >= best->least && (!t->listed || list_find(t->ids, t->n_ids, i + j) < t->n_ids))
            marked_try(words[j % 4], mass, i + j, best);
    }
}

/* Compares the token that was drawn: it is likely, so that few others need a closer look. */
static inline void mark_drawn(const report *t, u32 id, const u32 *state, const u32 *key,
                              cls_marked *best)
{
    const cls_unit unit = report_unit(t, id);
    u32 words[4];
    watermark_words(words, state, id / 4, key);
    marked_try(words[id % 4], report_mass(t, load_one(&t->r, id), &unit), id, best);
}

/* Does this with all tokens of tiles first to last - 1. */
static inline void mark_tiles(const report *t, u32 first, u32 last, const u32 *state,
                              const u32 *key, cls_marked *best)
{
    const i32 least = report_lowest(t);
    for (u32 tile = first; tile < last; tile++) {
        if (tile_max_key(t->r.key, tile) < least) /* the same for the whole group */
            continue;
        const cls_unit unit = report_unit(t, tile * CLS_TILE);
        for (u32 v = LOCAL_ID; v < TILE_VECTORS; v += WGS) {
            const u32 i = tile * CLS_TILE + v * VEC, m = i / CLS_MAX_TILE;
            if (t->r.key[m] >= least)
                mark_vector(t, i, max_tile_kind(&t->r, m), &unit, state, key, best);
        }
    }
}

/* The tokens of a group's items. */
typedef struct marked_items {
    __local u64 *surprise, *mass, *scratch;
    __local u32 *id;
} marked_items;

/* Compares the token of an item, or of `pass`, with the best one. */
#define MARKED_TAKE(e, w, t) \
    if (marked_before(e, w, t, best)) { \
        best->surprise = e; \
        best->mass = w; \
        best->id = t; \
    }
static inline void best_of_group(const marked_items *of, cls_marked *best)
{
#if WGS > 1
    for (u32 round = 0; WGS > 1u << round; round++) {
        const u32 n = (WGS + (1u << round) - 1) >> round, other = LOCAL_ID + (n + 1) / 2;
        LOCAL_BARRIER();
        of->surprise[LOCAL_ID] = best->surprise;
        of->mass[LOCAL_ID] = best->mass;
        of->id[LOCAL_ID] = best->id;
        LOCAL_BARRIER();
        if (other < n)
            MARKED_TAKE(of->surprise[other], of->mass[other], of->id[other])
    }
#endif
}

/* Launch: as the survey, and then [WGS, rows] with `ends` 1. */
ONE_COPY void mark_row(const step_args *s, u32 row, u32 group, int ends, const marked_items *items)
{
    const i32 slot_index = row_slot(s, row);
    const cls_row out = s->rows[row];
    __global const cls_slot *const slot = slot_of(s, slot_index), *const rules =
                                                                      row_rules(s, row, slot_index);
    const u32 layout = s->args->layout, per_group = s->args->tiles_per_group;
    const u32 w = slot_index < 0 || out.no_token ? 0u : rules->watermark;
    if (w == 0) /* the same for the whole group */
        return;
    const row_logits r = row_view(s, row, slot_index);
    __global u64 *const pass = s->pass + (size_t)row * r.tiles * CLS_PIVOTS;
    const slot_state own = state_of(s->state, layout, s->vocab, (u32)slot_index);
    text t = text_of(slot, own.ring, own.n_ring, 1);
    if (s->has & CLS_DRAFTS) {
        const history_effects p = effects_of(s->effects, layout, s->vocab, row);
        t.following = p.path;
        t.first = t.length;
        t.length += p.found->drafts;
    }
    cls_marked first = marked_none(), *const best = &first;
    if (ends) {
        for (u32 g = LOCAL_ID; g * per_group < r.tiles; g += WGS) {
            __global const u64 *const at = pass + (size_t)(g * per_group) * CLS_PIVOTS;
            MARKED_TAKE(at[0], at[1], u64_lo(at[2]))
        }
        best_of_group(items, best);
        const u32 repeats = context_repeats(&t, w, CLS_LAYOUT_HISTORY(layout), items->scratch);
        BARRIER(); /* every item has read the row */
        if (LOCAL_ID == 0 && !repeats && best->mass != 0) {
            s->rows[row].token = (i32)best->id;
            s->rows[row].status = out.status & (CLS_ROW_NAN | CLS_ROW_INF);
        }
        return;
    }
    const u32 key[2] = {slot->watermark_key[0], slot->watermark_key[1]};
    u32 state[4];
    report set;
    hash_context(&t, w, key, state);
    report_final(&r, &out, rules->flags, kept_ids_of(s, row), &set);
    mark_drawn(&set, (u32)out.token, state, key, best);
    mark_tiles(&set, group * per_group, min((group + 1) * per_group, r.tiles), state, key, best);
    best_of_group(items, best);
    __global u64 *const at = pass + (size_t)(group * per_group) * CLS_PIVOTS;
    if (LOCAL_ID == 0) {
        at[0] = best->surprise;
        at[1] = best->mass;
        at[2] = (u64)best->id;
    }
}

KERNEL void cls_watermark(STEP_PARAMETERS(CLS_WATERMARK_BUFFERS), u32 ends)
{
    __local u64 surprise[WGS], mass[WGS], scratch[WGS];
    __local u32 id[WGS];
    const step_args s = STEP_OF(CLS_WATERMARK_BUFFERS);
    const marked_items items = {surprise, mass, scratch, id};
    mark_row(&s, get_group_id(1), get_group_id(0), (int)ends, &items);
}
