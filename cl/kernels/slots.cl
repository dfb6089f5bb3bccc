/* SPDX-License-Identifier: MIT */
/* slots: what slot calls change, on the device, before the step that follows
 * them. A work-group takes a change; changes of one slot have different rounds, and
 * a launch each. Bitmaps are walked by what they touch: an untouched word costs
 * a look at it. */
#include "row/state.cl"

/* CHANGES 0 leaves out all but the beginning, appending and reset of slots without
 * a penalty window: what most samplers ever do. */
#ifndef CHANGES
#define CHANGES 1
#endif

/* Four vectors a trip: a row of biases has up to 2^20 words, which one item copies where groups are of
 * one, and has 65,535 trips for all that it does (llvmpipe). */
static inline void copy_words(__global u32 *to, __global const u32 *from, u32 n)
{
    for (u32 i = LOCAL_ID * 64; i < n; i += WGS * 64) {
        if (i + 64 <= n) {
            for (u32 v = 0; v < 64; v += 16)
                vstore16(vload16(0, from + i + v), 0, to + i + v);
        }
        for (u32 k = i; i + 64 > n && k < n; k++)
            to[k] = from[k];
    }
}

/* Makes a state what another is; `empty`: nothing at all. */
static inline void state_take(const slot_state *s, const slot_state *from, int empty)
{
    for (u32 w = LOCAL_ID; w < s->words; w += WGS) {
        const u32 touched = empty ? 0u : from->touched[w];
        if ((s->touched[w] | touched) == 0)
            continue;
        s->touched[w] = touched;
        s->seen[w] = empty ? 0u : from->seen[w];
        if (s->keep == CLS_KEEPS_SEEN)
            s->counts[w] = empty ? 0u : from->counts[w];
        else
            vstore16(empty ? (uint16)(0u) : vload16(w, from->counts), w, s->counts);
    }
    if (!empty)
        for (u32 i = LOCAL_ID; i < (s->n_ring + 15) / 16 + (s->n_modes * CLS_MODE_WORDS + 15) / 16; i += WGS)
            vstore16(vload16(i, from->ring), i, s->ring);
    BARRIER();
}

#if CHANGES
/* Makes the counts anew from the ring's latest n entries, and their marks. All
 * items look at all entries, WGS at a time in `chunk`, since the ring itself
 * changes under them. */
static inline void state_recount(const slot_state *s, u32 length, u32 n, u32 flags, __local u32 *chunk)
{
    if (s->keep == CLS_KEEPS_NONE)
        return;
    BARRIER();
    for (u32 w = LOCAL_ID; w < s->words; w += WGS) {
        if (s->touched[w] == 0)
            continue;
        s->touched[w] = 0;
        s->seen[w] = 0;
        if (s->keep == CLS_KEEPS_SEEN)
            s->counts[w] = 0;
        else
            vstore16((uint16)(0u), w, s->counts);
    }
    BARRIER();
    for (u32 first = length - n; first < length; first += WGS) {
        if (first + LOCAL_ID < length)
            chunk[LOCAL_ID] = s->ring[(first + LOCAL_ID) % s->n_ring];
        BARRIER();
        for (u32 i = first; i < first + WGS && i < length; i++)
            if ((chunk[i - first] & CLS_ENTRY_ID) / 32 % WGS == LOCAL_ID)
                s->ring[i % s->n_ring] = state_add(s, chunk[i - first], flags);
        BARRIER();
    }
}
#endif

/* Appends tokens to a slot's history. */
static inline void state_append(cls_slot *slot, const slot_state *s, __global const u32 *entries, u32 n,
                                __local u32 *chunk)
{
    u32 outputs = 0;
    for (u32 j = 0; j < n; j++) {
        u32 entry = entries[j];
        outputs += entry >> 31;
        if (LOCAL_ID == 0)
            mode_store(s, slot->length + j, &slot->mode);
        if ((entry & CLS_ENTRY_OUTPUT) && (slot->flags & CLS_SLOT_DECAYS))
            slot->mode.top_p = top_p_next(slot, slot->mode.top_p, (i32)(entry & CLS_ENTRY_ID));
        if ((entry & CLS_ENTRY_ID) / 32 % WGS == LOCAL_ID) {
            if (slot->window == 0)
                entry = state_add(s, entry, slot->flags);
            if (j + s->n_ring >= n) /* what comes later would overwrite it */
                s->ring[(slot->length + j) % s->n_ring] = entry;
        }
    }
    slot->pending = -1;
    slot->position += outputs;
    slot->outputs += outputs;
    slot->length += n;
    slot->longest = max(slot->longest, slot->length);
#if CHANGES
    if (slot->window != 0)
        state_recount(s, slot->length, min(slot->window, slot->length), slot->flags, chunk);
#endif
    BARRIER();
}

#if CHANGES
/* Takes the latest n output tokens back; 0 if that cannot be. */
static inline int state_rollback(cls_slot *slot, const slot_state *s, u32 n, u32 most, __local u32 *chunk)
{
    u32 found = 0;
    while (found < n && found < slot->length && slot->length - found + most > slot->longest &&
           (s->ring[(slot->length - 1 - found) % s->n_ring] & CLS_ENTRY_OUTPUT) != 0)
        found++;
    if (found < n)
        return 0;
    if (slot->window == 0) {
        for (u32 j = 0; j < n; j++) {
            const u32 entry = s->ring[(slot->length - 1 - j) % s->n_ring];
            if ((entry & CLS_ENTRY_ID) / 32 % WGS == LOCAL_ID)
                state_drop(s, entry, slot->flags, (entry & CLS_ENTRY_FIRST) != 0);
        }
    }
    if (n > 0)
        mode_load(s, slot->length - n, &slot->mode);
    slot->pending = -1;
    slot->position -= n;
    slot->outputs -= n;
    slot->length -= n;
    if (slot->window != 0)
        state_recount(s, slot->length, min(slot->window, slot->length), slot->flags, chunk);
    BARRIER();
    return 1;
}

/* New parameters: what samplers remember that were on before, stays. What parameters do to a
 * slot beside taking the place of others, is_traceless() in lib/changes.c must know. */
static inline void mode_keep(const cls_slot *slot, const cls_slot *was, cls_mode *mode)
{
    const u32 both = slot->flags & was->flags;
    if (!(both & CLS_SLOT_MIROSTAT))
        mode->mu = slot->mode.mu;
    if (!(both & CLS_SLOT_ADAPTIVE)) {
        mode->sum = slot->mode.sum;
        mode->weight = slot->mode.weight;
    }
    if (!(both & CLS_SLOT_DECAYS) || slot->top_p != was->top_p)
        mode->top_p = slot->mode.top_p;
}
#endif

/* Runs one call; `slot` is what its slot was, and becomes what it is. */
static inline void change_slot(const cls_change *c, cls_slot *slot, const slot_state *s, const slot_state *from,
                               const cls_slot *other, __global const u32 *words, __global const u32 *lists,
                               u32 history, u32 rollback, __local u32 *chunk)
{
    const cls_slot was = *slot;
    const int begun = (was.flags & CLS_SLOT_BEGUN) != 0;
    if (c->kind == CLS_CHANGE_BEGIN) {
        *slot = c->params;
        state_take(s, s, 1);
        state_append(slot, s, words, c->tokens, chunk);
    } else if (c->kind == CLS_CHANGE_APPEND && begun) {
        state_append(slot, s, words, c->tokens, chunk);
#if CHANGES
    } else if (c->kind == CLS_CHANGE_PARAMS && begun) {
        *slot = c->params;
        slot->position = was.position;
        slot->outputs = was.outputs;
        slot->length = was.length;
        slot->longest = was.longest;
        if (slot->flags & (CLS_SLOT_MODES | CLS_SLOT_DECAYS)) {
            for (u32 i = LOCAL_ID; i < s->n_modes; i += WGS) {
                cls_mode mode;
                mode_load(s, i, &mode);
                mode_keep(slot, &was, &mode);
                mode_store(s, i, &mode);
            }
            cls_mode mode = was.mode;
            mode_keep(slot, &was, &mode);
            slot->mode = mode;
        }
        if (slot->window != was.window || ((slot->flags ^ was.flags) & CLS_SLOT_SCOPE_ALL))
            state_recount(s, slot->length, min(slot->window != 0 ? slot->window : history, slot->length), slot->flags, chunk);
    } else if (c->kind == CLS_CHANGE_COPY || c->kind == CLS_CHANGE_LOAD) {
        state_take(s, from, 0);
        *slot = *other;
    } else if (c->kind == CLS_CHANGE_ROLLBACK && begun) {
        if (!state_rollback(slot, s, c->tokens, rollback, chunk))
            slot->flags = 0;
#endif
    } else if (c->kind == CLS_CHANGE_RESET) {
        slot->flags = 0;
    }
}

/* Launch: [WGS, n]: a group a change, none of which concerns what another one writes.
 * `first`: from there on the words of `changes` have their numbers.
 * `history`: how many entries a new scope counts again; `rollback`: how many
 * may be taken back. */
#define SLOTS_ARGS                                                                                     \
    __global const cls_change *changes, const u32 first, __global u32 *words, __global cls_slot *slots, \
        __global u32 *state, const u32 layout, __global u32 *lists, const u32 vocab, const u32 history, \
        const u32 rollback
ONE_COPY void make_change(u32 place, __local u32 *chunk, SLOTS_ARGS)
{
    const cls_change c = changes[((__global const u32 *)changes)[first + place]];
    const slot_state s = state_of(state, layout, vocab, c.slot);
    const slot_state from = c.kind == CLS_CHANGE_LOAD ? state_at(words + c.words, layout, vocab)
                                                      : state_of(state, layout, vocab, c.from);
    const cls_slot other = c.kind == CLS_CHANGE_LOAD ? c.params : slots[c.from];
    cls_slot slot = slots[c.slot];
    copy_words(lists + c.params.lists, words + c.lists, c.n_lists);
    BARRIER(); /* all have read the slots, the lists are there */
    change_slot(&c, &slot, &s, &from, &other, words + c.words, lists, history, rollback, chunk);
    BARRIER();
    if (LOCAL_ID == 0) {
        slot.stopped = (slot.flags & CLS_SLOT_BEGUN) ? has_stopped(&slot, &s, lists) : 0u;
        slots[c.slot] = slot;
    }
}

KERNEL void cls_slots(SLOTS_ARGS)
{
    __local u32 chunk[WGS];
    make_change(get_group_id(1), chunk, changes, first, words, slots, state, layout, lists, vocab, history, rollback);
}
