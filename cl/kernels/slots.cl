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

/* An item alone makes each walk in at most 32,768 trips and all of a call's in fewer than
 * 65,535 (HACKING.md, rule 5), with 1,048,576 tokens that all have a bias: words of bitmaps and of
 * lists go by vectors. */
/* clang-format off */
#define EACH_16(STEP) \
    STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7) \
    STEP(8) STEP(9) STEP(a) STEP(b) STEP(c) STEP(d) STEP(e) STEP(f)
/* clang-format on */
#define VECTORS(s) (((s)->words + 15) / 16)

#define COPY_32(k) \
    vstore16(vload16(0x##k, from + i), 0x##k, to + i); \
    vstore16(vload16(0x1##k, from + i), 0x1##k, to + i);
static inline void copy_words(__global u32 *to, __global const u32 *from, u32 n)
{
    const u32 whole = n / 512 * 512;
    for (u32 i = LOCAL_ID * 512; i < whole; i += WGS * 512) {
        EACH_16(COPY_32)
    }
    for (u32 i = whole + LOCAL_ID; i < n; i += WGS)
        to[i] = from[i];
}

/* Nothing counts any more, and nothing is seen. */
#define CLEAR_COUNTS(k) \
    if (touched.s##k != 0) \
        vstore16((uint16)(0u), v * 16 + 0x##k, s->counts);
static inline void state_clear(const slot_state *s)
{
    for (u32 v = LOCAL_ID; v < VECTORS(s); v += WGS) {
        const uint16 touched = vload16(v, s->touched);
        if (fold_or16(as_int16(touched)) == 0)
            continue;
        vstore16((uint16)(0u), v, s->touched);
        vstore16((uint16)(0u), v, s->seen);
        if (s->keep == CLS_KEEPS_SEEN) {
            vstore16((uint16)(0u), v, s->counts);
        } else {
            EACH_16(CLEAR_COUNTS)
        }
    }
    BARRIER();
}

#if CHANGES
/* Makes a state what another is. */
#define TAKE_COUNTS(k) \
    if (either.s##k != 0) \
        vstore16(vload16(v * 16 + 0x##k, from->counts), v * 16 + 0x##k, s->counts);
static inline void state_take(const slot_state *s, const slot_state *from)
{
    for (u32 v = LOCAL_ID; v < VECTORS(s); v += WGS) {
        const uint16 touched = vload16(v, from->touched), either = vload16(v, s->touched) | touched;
        if (fold_or16(as_int16(either)) == 0)
            continue;
        vstore16(touched, v, s->touched);
        vstore16(vload16(v, from->seen), v, s->seen);
        if (s->keep == CLS_KEEPS_SEEN) {
            vstore16(vload16(v, from->counts), v, s->counts);
        } else {
            EACH_16(TAKE_COUNTS)
        }
    }
    for (u32 i = LOCAL_ID; i < (s->n_ring + 15) / 16 + (s->n_modes * CLS_MODE_WORDS + 15) / 16;
         i += WGS)
        vstore16(vload16(i, from->ring), i, s->ring);
    BARRIER();
}

static inline void recount_one(const slot_state *s, u32 i, u32 entry, u32 flags)
{
    s->ring[i % s->n_ring] = state_add(s, entry, flags);
}
/* Makes the counts anew from the ring's latest n entries, and their marks. All
 * items look at all entries, WGS at a time in `chunk`, since the ring itself
 * changes under them. */
static inline void state_recount(const slot_state *s, u32 length, u32 n, u32 flags,
                                 __local u32 *chunk)
{
    if (s->keep == CLS_KEEPS_NONE)
        return;
    BARRIER();
    state_clear(s);
#if WGS == 1
    for (u32 i = length - n; i < length; i += 2) {
        recount_one(s, i, s->ring[i % s->n_ring], flags);
        if (i + 1 < length)
            recount_one(s, i + 1, s->ring[(i + 1) % s->n_ring], flags);
    }
#else
    for (u32 first = length - n; first < length; first += WGS) {
        if (first + LOCAL_ID < length)
            chunk[LOCAL_ID] = s->ring[(first + LOCAL_ID) % s->n_ring];
        BARRIER();
        for (u32 i = first; i < first + WGS && i < length; i++)
            if ((chunk[i - first] & CLS_ENTRY_ID) / 32 % WGS == LOCAL_ID)
                recount_one(s, i, chunk[i - first], flags);
        BARRIER();
    }
#endif
}
#endif

#if CHANGES
/* The tokens of a word that count, a bit each. */
static inline u32 counted_word(const slot_state *s, u32 w)
{
    if (s->keep == CLS_KEEPS_SEEN)
        return s->counts[w];
    __global const ushort *const counts = (__global const ushort *)s->counts + w * 32;
    const int16 low = convert_int16(vload16(0, counts)), high = convert_int16(vload16(1, counts));
    return lane_bits_16(low != 0) | lane_bits_16(high != 0) << 16;
}

/* What counted by the scope of the output is now prompt, and only seen. */
#define UNCOUNT(k) \
    if (touched.s##k != 0) { \
        s->seen[v * 16 + 0x##k] |= counted_word(s, v * 16 + 0x##k); \
        if (s->keep == CLS_KEEPS_SEEN) \
            s->counts[v * 16 + 0x##k] = 0u; \
        else \
            vstore16((uint16)(0u), v * 16 + 0x##k, s->counts); \
    }
static inline void state_uncount(const slot_state *s)
{
    for (u32 v = LOCAL_ID; v < VECTORS(s); v += WGS) {
        const uint16 touched = vload16(v, s->touched);
        if (fold_or16(as_int16(touched)) == 0)
            continue;
        EACH_16(UNCOUNT)
    }
}

/* The next turn of a conversation: all there is becomes prompt. */
static inline void state_turn(cls_slot *slot, const slot_state *s, __local u32 *chunk)
{
    for (u32 i = LOCAL_ID * 16; i < s->n_ring; i += WGS * 16)
        vstore16(vload16(0, s->ring + i) & ~(CLS_ENTRY_OUTPUT | CLS_ENTRY_FIRST), 0, s->ring + i);
    if (s->keep != CLS_KEEPS_NONE && slot->window == 0 && !(slot->flags & CLS_SLOT_SCOPE_ALL))
        state_uncount(s);
    BARRIER();
    if (slot->window != 0)
        state_recount(s, slot->length, min(slot->window, slot->length), slot->flags, chunk);
    slot->outputs = 0;
    slot->pending = -1;
    slot->mode.top_p = slot->top_p;
}
#endif

/* Appends tokens to a slot's history. */
static inline void state_append(cls_slot *slot, const slot_state *s, __global const u32 *entries,
                                u32 n, __local u32 *chunk)
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
static inline int state_rollback(cls_slot *slot, const slot_state *s, u32 n, u32 most,
                                 __local u32 *chunk)
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
 * slot beside taking the place of others, is_traceless() in lib/sampler/changes.c must know. */
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
#define KEEP_MODE(k) \
    if (i + k * WGS < s->n_modes) { \
        cls_mode mode; \
        mode_load(s, i + k * WGS, &mode); \
        mode_keep(slot, &was, &mode); \
        mode_store(s, i + k * WGS, &mode); \
    }
#endif

/* Runs one call; `slot` is what its slot was, and becomes what it is. */
static inline void change_slot(const cls_change *c, cls_slot *slot, const slot_state *s,
                               const slot_state *from, const cls_slot *other,
                               __global const u32 *words, __global const u32 *lists, u32 history,
                               u32 rollback, __local u32 *chunk)
{
    const cls_slot was = *slot;
    const int begun = (was.flags & CLS_SLOT_BEGUN) != 0;
    if (c->kind == CLS_CHANGE_BEGIN) {
        *slot = c->params;
        state_clear(s);
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
            for (u32 i = LOCAL_ID; i < s->n_modes; i += WGS * 4) {
                CLS_EACH_4(KEEP_MODE)
            }
            cls_mode mode = was.mode;
            mode_keep(slot, &was, &mode);
            slot->mode = mode;
        }
        if (slot->window != was.window || ((slot->flags ^ was.flags) & CLS_SLOT_SCOPE_ALL))
            state_recount(s, slot->length,
                          min(slot->window != 0 ? slot->window : history, slot->length),
                          slot->flags, chunk);
    } else if (c->kind == CLS_CHANGE_COPY || c->kind == CLS_CHANGE_LOAD) {
        state_take(s, from);
        *slot = *other;
    } else if (c->kind == CLS_CHANGE_TURN && begun) {
        state_turn(slot, s, chunk);
        state_append(slot, s, words, c->tokens, chunk);
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
#define SLOTS_ARGS \
    __global const cls_change *changes, const u32 first, __global u32 *words, \
        __global cls_slot *slots, __global u32 *state, const u32 layout, __global u32 *lists, \
        const u32 vocab, const u32 history, const u32 rollback
ONE_COPY void make_change(u32 place, __local u32 *chunk, SLOTS_ARGS)
{
    /* By way of bytes: Mesa 22.3 reads another word where structs are cast to words. */
    __global const u32 *const order =
        (__global const u32 *)((__global const uchar *)changes + (first + place) * 4);
    const cls_change c = changes[*order];
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
    make_change(get_group_id(1), chunk, changes, first, words, slots, state, layout, lists, vocab,
                history, rollback);
}
