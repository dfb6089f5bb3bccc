/* SPDX-License-Identifier: MIT */
/* slot_state: defines what a slot keeps of its request's tokens, and how that changes. An entry of
 * the ring either counts (output tokens do, and with CLS_SLOT_SCOPE_ALL prompt tokens, too) and is
 * in `counts`, or it is in `in_context`, for the repetition penalty alone. `adjusted` has every id
 * that is in one of them; kernels that read logits look at the other two for these ids only.
 *
 * Work-items divide the work by words of the bitmaps: an id's word belongs to one item, so that no
 * two items write the same word. Only the bits of entries that do not count are set by atomic
 * operations. */
#include "core/vectors.cl"
#include "core/args.h"
#include "core/samplers.h"
#include "core/state.h"
#include "slot/text.cl"

typedef struct slot_state {
    __global u32 *adjusted, *in_context, *counts, *ring, *adaptive, *thinking;
    u32 counting, n_ring, n_adaptive, words; /* words: of a bitmap */
} slot_state;

static inline slot_state state_at(__global u32 *region, u32 layout, u32 vocab)
{
    slot_state s;
    s.adjusted = region + state_adjusted();
    s.in_context = region + state_in_context(vocab, layout);
    s.counts = region + state_counts(vocab, layout);
    s.ring = region + state_ring(vocab, layout);
    s.adaptive = region + state_adaptive(vocab, layout);
    s.thinking = region + state_thinking(vocab, layout);
    s.counting = CLS_LAYOUT_COUNTS(layout);
    s.n_ring = CLS_LAYOUT_RING(layout);
    s.n_adaptive = CLS_LAYOUT_ROLLBACK(layout);
    s.words = s.counting != CLS_COUNTS_NONE ? (vocab + 31) / 32 : 0u;
    return s;
}
/* Returns the states of the grammar, which lie behind those of the thinking budget: a pointer in
 * the struct would fill registers. */
static inline __global u32 *grammar_ring(const slot_state *s)
{
    return s->thinking + (s->n_adaptive + 15) / 16 * 16;
}
static inline slot_state state_of(__global u32 *state, u32 layout, u32 vocab, u32 slot)
{
    return state_at(state + (size_t)state_words(vocab, layout) * slot, layout, vocab);
}

/* A long list is divided among items by words of the bitmap of its ids: each item gets a range of
 * the `words`, and so a range of the list. The function returns the index at which an item's range
 * begins. */
static inline u32 list_item_start(__global const u32 *ids, u32 n, u32 item, u32 words)
{
    return list_from(ids, n, item * ((words + WGS - 1) / WGS) * 32);
}
/* Returns the ids from index i up to `last` that share a bitmap word with ids[i], up to 32 of them:
 * their bits in that word, and their number, at least one. */
static inline uint2 list_word(__global const u32 *ids, u32 i, u32 last)
{
    if (i + 32 > last)
        return (uint2)(1u << (ids[i] & 31), 1u);
    IV bits = (IV)(0), same = bits;
    for (u32 k = 0; k < 32; k += VEC) {
        const UV id = VLOAD(ids + i + k);
        const IV is = (id >> 5) == ids[i] >> 5;
        bits |= is & (IV)(1) << AS_IV(id & 31u);
        same += is;
    }
    return (uint2)((u32)CAT(fold_or, VEC)(bits), COUNT(same));
}

static inline int entry_counts(u32 entry, u32 flags)
{
    return (entry & CLS_ENTRY_OUTPUT) != 0 || (flags & CLS_SLOT_SCOPE_ALL) != 0;
}

static inline u32 count_of(const slot_state *s, u32 id)
{
    if (s->counting == CLS_COUNTS_ALL)
        return ((__global const ushort *)s->counts)[id];
    return s->counting == CLS_COUNTS_PRESENCE ? s->counts[id >> 5] >> (id & 31) & 1u : 0u;
}

/* Adds an entry to the counts. Returns it, with CLS_ENTRY_FIRST if it is the first of its token
 * that counts. */
static inline u32 state_add(const slot_state *s, u32 entry, u32 flags)
{
    const u32 id = entry & CLS_ENTRY_ID, word = id >> 5, bit = 1u << (id & 31);
    entry &= ~CLS_ENTRY_FIRST;
    if (s->counting == CLS_COUNTS_NONE)
        return entry;
    s->adjusted[word] |= bit;
    if (!entry_counts(entry, flags)) {
        s->in_context[word] |= bit;
        return entry;
    }
    const u32 count = count_of(s, id);
    if (s->counting == CLS_COUNTS_PRESENCE)
        s->counts[word] |= bit;
    else if (count < CLS_MAX_COUNT)
        ((__global ushort *)s->counts)[id] = (ushort)(count + 1);
    return count == 0 ? entry | CLS_ENTRY_FIRST : entry;
}

/* Removes an entry from the counts. last: no other entry of its token and kind is left. A count at
 * its maximum stays there, because its true value is unknown. */
static inline void state_remove(const slot_state *s, u32 entry, u32 flags, int last)
{
    const u32 id = entry & CLS_ENTRY_ID, word = id >> 5, bit = 1u << (id & 31);
    if (s->counting == CLS_COUNTS_NONE)
        return;
    if (!entry_counts(entry, flags)) {
        if (last)
            s->in_context[word] &= ~bit;
    } else if (s->counting == CLS_COUNTS_PRESENCE) {
        if (last)
            s->counts[word] &= ~bit;
    } else {
        const u32 count = count_of(s, id);
        if (count > 0 && count < CLS_MAX_COUNT)
            ((__global ushort *)s->counts)[id] = (ushort)(count - 1);
    }
    if (!(s->in_context[word] & bit) && count_of(s, id) == 0)
        s->adjusted[word] &= ~bit;
}

/* Whether any of the ring's entries first to last - 1 has the id and kind of a given entry, by the
 * whole group. A group of one item takes 64 entries at a time: a verification searches a window of
 * up to 16,384 entries for up to 129 tokens. */
#if WGS == 1
#define SAME_16(at) (((vload16(0, ring + (at)) ^ entry) & mask) == 0)
ONE_COPY u32 entries_have(__global const u32 *ring, u32 n, u32 entry, u32 mask)
{
    int16 found = (int16)(0);
    u32 rest = 0;
    for (u32 i = 0; i + 64 <= n; i += 64)
        found |= SAME_16(i) | SAME_16(i + 16) | SAME_16(i + 32) | SAME_16(i + 48);
    for (u32 i = n & ~63u; i < n; i++)
        rest |= (u32)(((ring[i] ^ entry) & mask) == 0);
    return rest | (u32)(fold_or16(found) != 0);
}
static inline u32 ring_has(const slot_state *s, u32 first, u32 last, u32 entry, u32 flags,
                           __local u64 *scratch)
{
    const u32 from = first % s->n_ring, n = last - first, before_wrap = min(n, s->n_ring - from);
    const u32 mask = CLS_ENTRY_ID | (flags & CLS_SLOT_SCOPE_ALL ? 0u : CLS_ENTRY_OUTPUT);
    return entries_have(s->ring + from, before_wrap, entry, mask) |
           entries_have(s->ring, n - before_wrap, entry, mask);
}
#else
static inline u32 ring_has(const slot_state *s, u32 first, u32 last, u32 entry, u32 flags,
                           __local u64 *scratch)
{
    u32 found = 0;
    for (u32 i = first + LOCAL_ID; i < last; i += WGS) {
        const u32 other = s->ring[i % s->n_ring];
        found |= ((other ^ entry) & CLS_ENTRY_ID) == 0 &&
                 entry_counts(other, flags) == entry_counts(entry, flags);
    }
    return wg_uor(found, scratch);
}
#endif

/* Store and load the adaptive state before the token at an index of the history. */
static inline void adaptive_store(const slot_state *s, u32 at, const cls_slot_adaptive *adaptive)
{
    if (s->n_adaptive == 0)
        return;
    __global u32 *const m = s->adaptive + at % s->n_adaptive * CLS_ADAPTIVE_WORDS;
    m[0] = (u32)adaptive->mu;
    m[1] = adaptive->sum;
    m[2] = adaptive->weight;
    m[3] = adaptive->top_p;
}
static inline void adaptive_load(const slot_state *s, u32 at, cls_slot_adaptive *adaptive)
{
    __global const u32 *const m = s->adaptive + at % s->n_adaptive * CLS_ADAPTIVE_WORDS;
    adaptive->mu = (i32)m[0];
    adaptive->sum = m[1];
    adaptive->weight = m[2];
    adaptive->top_p = m[3];
}

/* Returns the adaptive state of a request once a row's token is accepted, from the row's record. */
static inline cls_slot_adaptive adaptive_once(__global const cls_slot *slot,
                                              __global const cls_slot_adaptive *next)
{
    cls_slot_adaptive adaptive = slot->adaptive;
    if (slot->flags & CLS_SLOT_STATEFUL)
        adaptive = *next;
    return adaptive;
}

/* Keeps the token that a deferred step drew, and the adaptive state after it, for cls_accept(). */
static inline void store_pending(__global cls_slot *slot, u32 has, i32 token,
                                 const cls_slot_adaptive *next)
{
    if ((has & (CLS_DEFER | CLS_ACCEPTS_LATER)) == CLS_DEFER && (slot->flags & CLS_SLOT_STATEFUL)) {
        slot->pending = token;
        slot->next_adaptive = *next;
    }
}

#if FORCED
/* Stores the states of the thinking budget and of the grammar before the token at an index of the
 * history. */
static inline void text_store(const slot_state *s, u32 at, u32 thinking, u32 grammar)
{
    if (s->n_adaptive == 0)
        return;
    s->thinking[at % s->n_adaptive] = thinking;
    grammar_ring(s)[at % s->n_adaptive] = grammar;
}
#endif

/* Accepts an output token, by the whole group; `active` is the same for all of it. Entries that
 * leave the window leave the counts. `next`: the adaptive state after the token if this draw chose
 * it; NULL if it is the pending token. */
ONE_COPY void state_accept(__global cls_slot *slot, const slot_state *s, __global const u32 *lists,
                           u32 id, int active, const cls_slot_adaptive *next, __local u64 *scratch)
{
    /* The slot is read from memory: a copy would fill an item's registers. */
#if ROW
    u32 leaving = 0, first = 0, last = 0;
    int leaves = 0;
    if (active) {
        const u32 window = slot->window, length = slot->length;
        leaves = window != 0 && length >= window && s->counting != CLS_COUNTS_NONE;
        if (leaves) {
            leaving = s->ring[(length - window) % s->n_ring];
            /* Counts know how many entries are left; for bits the window must be searched. */
            if (s->counting == CLS_COUNTS_PRESENCE || !entry_counts(leaving, slot->flags)) {
                first = length - window + 1;
                last = length;
            }
        }
    }
    const u32 others = ring_has(s, first, last, leaving, active ? slot->flags : 0u, scratch);
#endif
#if FORCED
    text t = text_of(slot, s->ring, s->n_ring, active);
    const u32 ended =
        text_follow(slot, lists - (active ? slot->lists : 0u), &t, id, active, scratch);
#endif
    BARRIER(); /* every item has read the slot and the ring */
    if (LOCAL_ID == 0 && active) {
        const u32 flags = slot->flags, length = slot->length, outputs = slot->outputs + 1;
        const u32 entry = state_add(s, id | CLS_ENTRY_OUTPUT, flags);
#if ROW
        if (leaves)
            state_remove(s, leaving, flags,
                         !others && !(((leaving ^ entry) & CLS_ENTRY_ID) == 0 &&
                                      entry_counts(leaving, flags)));
#endif
#if FORCED
        if (flags & (CLS_SLOT_THINKING | CLS_SLOT_GRAMMAR)) {
            text_store(s, length, slot->thinking, slot->grammar_state);
            slot->thinking = t.thinking;
            slot->grammar_state = t.grammar;
        }
#else
        const u32 ended = ends_request(slot, is_stop(slot, lists, id), outputs, 0u);
#endif
        s->ring[length % s->n_ring] = entry;
        cls_slot_adaptive adaptive = slot->adaptive;
        adaptive_store(s, length, &adaptive);
#if CHAIN == 2
        const u32 top_p = adaptive.top_p;
        if (next != 0)
            adaptive = *next;
        else if (slot->pending == (i32)id)
            adaptive = slot->next_adaptive;
        adaptive.top_p = top_p;
        if (flags & CLS_SLOT_DECAYS)
            adaptive.top_p = slot->reset_id == (i32)id
                                 ? slot->top_p
                                 : top_p_decayed(top_p, slot->decay, slot->top_p_min);
        slot->adaptive = adaptive;
#endif
        slot->pending = -1;
        slot->position += 1;
        slot->outputs = outputs;
        slot->length = length + 1;
        slot->longest = max(slot->longest, length + 1);
        slot->stopped = (ended & CLS_ROW_STOPPED) != 0;
    }
}
