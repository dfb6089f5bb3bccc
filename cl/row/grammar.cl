/* SPDX-License-Identifier: MIT */
/* grammar: finds the bitmap of the ids that a row's grammar allows. */
#include "row/maps.cl"
#include "slot/state.cl"

/* Writes the ids of a state to the row's own bitmap: those of a bitmap, or the listed ones of the
 * state; with `allowed` only those that this bitmap has. Each item owns some words. */
static inline void write_own(__global u32 *own, __global const u32 *g, u32 state, u32 bitmap,
                             __global const u32 *allowed, u32 words)
{
    for (u32 w = LOCAL_ID * VEC; w < words; w += WGS * VEC) {
        UV ids = (UV)(0u);
        if (bitmap != 0)
            ids = VLOAD(g + bitmap + w) & VLOAD(allowed + w);
        VSTORE(ids, own + w);
    }
    if (bitmap != 0 || state >= g[CLS_GRAMMAR_STATES])
        return;
    __global const u32 *const record = grammar_state_at(g, state), *const begin =
                                                                       g + g[CLS_GRAMMAR_MEMBERS];
    for (u32 i = record[0]; i < record[2]; i += 2)
        for (u32 k = begin[g[i]]; k < begin[g[i] + 1]; k++) {
            const u32 w = g[k] >> 5, bit = 1u << (g[k] & 31);
            if (w / VEC % WGS == LOCAL_ID && (allowed == 0 || (allowed[w] & bit)))
                own[w] |= bit;
        }
}

/* Returns the text of a slot with drafts behind it, by each item alone in the whole group. */
static inline text text_with_drafts(const step_args *s, i32 slot_index, __global const u32 *path,
                                    u32 drafts)
{
    __global const cls_slot *const slot = slot_of(s, slot_index);
    const slot_state state = state_of(s->state, s->args->layout, s->vocab, (u32)slot_index);
    BARRIER(); /* the path is complete */
    text t = text_of(slot, state.ring, state.n_ring, 1);
    t.following = path;
    t.first = t.length;
    for (u32 i = 0; i < drafts; i++)
        text_pass(slot, s->lists, &t, path[i] | CLS_ENTRY_OUTPUT);
    return t;
}

/* Finds a row's bitmap, by the whole group. `path`: the drafts before the row. *ends becomes
 * whether only ids that end the text are left. */
static inline void prepare_grammar(const step_args *s, __global u32 *all_lists, u32 row,
                                   i32 slot_index, __global const u32 *path, u32 drafts,
                                   __global u32 *ends)
{
    const u32 vocab = s->vocab, part = s->args->grammar_rows + row * grammar_row_words(vocab);
    __global const cls_slot *const slot = slot_of(s, slot_index);
    __global const u32 *const g = s->lists + slot->grammar, *const lists = lists_of(s, slot);
    const int some = (slot->flags & CLS_SLOT_ALLOWED) != 0;
    u32 at = some ? slot->lists + slot->allowed : CLS_NO_BITMAP;
    const text t = text_with_drafts(s, slot_index, path, drafts);
    const u32 now = t.grammar;
    if (t.thinking == 0) {
        const u32 bitmap = now < g[CLS_GRAMMAR_STATES] ? grammar_state_at(g, now)[1] : 0u;
        at = slot->grammar + bitmap;
        if (bitmap == 0 || some) {
            at = part + 1;
            write_own(all_lists + at, g, now, bitmap, some ? lists + slot->allowed : 0,
                      state_bitmap(vocab));
        }
    }
    if (LOCAL_ID == 0) {
        all_lists[part] = at;
        *ends =
            (u32)(t.thinking == 0 && now < g[CLS_GRAMMAR_STATES] && leaves_ends(slot, lists, now));
    }
}
