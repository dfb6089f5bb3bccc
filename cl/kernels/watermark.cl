/* SPDX-License-Identifier: MIT */
/* watermark: draws the tokens of rows whose requests have a watermark again, from the final sets.
 * The first launch leaves the best token of each group's tiles in `pass`; the second one takes the
 * best of these, unless the row's context occurred before. A row cannot accept its token before, so
 * these steps end with the force kernel. */
#include "core/watermark.h"
#include "draw/distribution.cl"
#include "slot/text.cl"

/* Returns the id of the entry `back` entries before the end of a text, if it is output, or if any
 * counts. */
static inline u32 id_before(const text *t, u32 back, u32 any)
{
    const u32 entry = back <= t->length ? text_entry(t, back) : 0u;
    return entry & CLS_ENTRY_OUTPUT || (any && back <= t->length) ? entry & CLS_ENTRY_ID
                                                                  : CLS_WATERMARK_NONE;
}

/* Hashes the last w ids of a text. What is before an entry that is no output does not count. */
static inline void hash_context(const text *t, u32 w, cls_mark *mark)
{
    u32 own = 0;
    while (own < w && id_before(t, own + 1, 0) != CLS_WATERMARK_NONE)
        own++;
    watermark_begin(mark->state, w);
    for (u32 first = 0; first < w; first += 4) {
        u32 ids[4];
        for (u32 i = 0; i < 4; i++) {
            const u32 back = w - first - i;
            ids[i] = first + i < w && back <= own ? id_before(t, back, 0) : CLS_WATERMARK_NONE;
        }
        watermark_hash(mark->state, w, first, ids, mark->key);
    }
}

/* Does this by SGLang's rule. */
static inline void hash_words(const text *t, u32 w, __global const u32 *words, cls_mark *mark)
{
    const u32 keys[4] = {words[0], words[1], words[2], words[3]}, n = min(w, t->length);
    u32 hash = 0;
    for (u32 back = n; back > 0; back--)
        hash = murmur_word(hash, id_before(t, back, 1));
    watermark_keyed(mark, murmur_end(hash, n), keys, words[CLS_SGLANG_MIXING]);
}

/* Returns whether the last w ids of a text stand before one of its latest outputs, too, as far as
 * the last `known` entries show; by the whole group. */
static inline u32 context_repeats(const text *t, u32 w, u32 any, u32 known, __local u64 *scratch)
{
    const u32 most = min(min(known - w, CLS_WATERMARK_POSITIONS), t->length),
              latest = id_before(t, 1, any);
    u32 found = 0;
    for (u32 back = 1 + LOCAL_ID; back <= most && !found; back += WGS) {
        if (id_before(t, back + 1, any) != latest || id_before(t, back, 0) == CLS_WATERMARK_NONE)
            continue;
        u32 same = 1, id = latest;
        for (; same < w && id != CLS_WATERMARK_NONE && id == id_before(t, back + same, any); same++)
            id = id_before(t, same + 1, any);
        found = (u32)(id == id_before(t, back + same, any));
    }
    return wg_uor(found, scratch);
}

/* Returns whether a row is drawn as usual, because a token of its set is too likely. */
static inline int is_too_likely(const cls_row *out, __global const u32 *words)
{
    const f32 top = float_of_key(out->top_key);
    const u32 most = weight(top, top, out->scale, split(top, out->scale).fraction);
    return watermark_spares((u64)most << 13, out->mass, words[CLS_SGLANG_MOST]);
}

/* Compares the tokens of the vector at i, which is in the set's tile of this unit. */
static inline void mark_vector(SHARED const row_logits *r, const report *t, u32 i, int kind,
                               const cls_unit *unit, const cls_mark *mark, cls_marked *best)
{
    const UV w = weight_v(load_v(r, i, kind, CLS_MASKED), unit->max, t->scale, unit->fraction);
    u32 weights[VEC], words[4];
    if (to_row_units((u64)(u32)IMAX(AS_IV(w)), unit->shift) < best->least)
        return;
    VSTORE(w, weights);
    for (u32 j = 0; j < VEC; j++) {
        const u64 mass = to_row_units(weights[j], unit->shift);
        if (j % 4 == 0)
            watermark_words(words, mark, (i + j) / 4);
        if (mass >= best->least && (!t->listed || list_find(t->ids, t->n_ids, i + j) < t->n_ids))
            marked_try(mark, words[j % 4], mass, i + j, best);
    }
}

/* Compares the token that was drawn: it is likely, so that few others need a closer look. */
static inline void mark_drawn(SHARED const row_logits *r, const report *t, u32 id,
                              const cls_mark *mark, cls_marked *best)
{
    const cls_unit unit = report_unit(t, id);
    u32 words[4];
    watermark_words(words, mark, id / 4);
    marked_try(mark, words[id % 4], report_mass(t, load_one(r, id), &unit), id, best);
}

/* Does this with all tokens of tiles first to last - 1, and before with the one that was drawn. */
static inline void mark_tiles(SHARED const row_logits *r, const report *t, u32 first, u32 last,
                              u32 drawn, const cls_mark *mark, cls_marked *best)
{
    const i32 least = report_lowest(t);
    mark_drawn(r, t, drawn, mark, best);
    for (u32 tile = first; tile < last; tile++) {
        if (tile_max_key(r->key, tile) < least) /* the same for the whole group */
            continue;
        const cls_unit unit = report_unit(t, tile * CLS_TILE);
        for (u32 v = LOCAL_ID; v < TILE_VECTORS; v += WGS) {
            const u32 i = tile * CLS_TILE + v * VEC, m = i / CLS_MAX_TILE;
            if (r->key[m] >= least)
                mark_vector(r, t, i, max_tile_kind(r, m), &unit, mark, best);
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
    const u32 sglang = slot->flags & CLS_SLOT_SGLANG;
    __global const u32 *const words =
        sglang ? lists_of(s, slot) + slot->watermark_key[0] : (__global const u32 *)0;
    row_logits r = row_view(s, row, slot_index);
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
        const u32 repeats =
            context_repeats(&t, w, sglang, CLS_LAYOUT_HISTORY(layout), items->scratch);
        BARRIER(); /* every item has read the row */
        if (LOCAL_ID == 0 && !repeats && best->mass != 0 &&
            !(sglang && (t.length == 0 || is_too_likely(&out, words)))) {
            s->rows[row].token = (i32)best->id;
            s->rows[row].status = out.status & (CLS_ROW_NAN | CLS_ROW_INF);
        }
        return;
    }
    const u32 tile = group * per_group, end = min(tile + per_group, r.tiles);
    report set;
    report_final(&r, &out, rules->flags, kept_ids_of(s, row), &set);
    report_truncate(&set, &r);
    cls_mark mark = {0, {0, 0, 0, 0}, {slot->watermark_key[0], slot->watermark_key[1]}};
    if (sglang)
        hash_words(&t, w, words, &mark);
    else
        hash_context(&t, w, &mark);
    mark_tiles(&r, &set, tile, end, (u32)out.token, &mark, best);
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
