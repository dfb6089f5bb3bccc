/* SPDX-License-Identifier: MIT */
/* slot_state: defines what a slot keeps of its request's tokens, and how that changes. An entry of
 * the ring either counts (output tokens do, and with CLS_SLOT_SCOPE_ALL prompt tokens, too) and is
 * in `counts`, or it is in `in_context`, for the repetition penalty alone. `adjusted` has every id
 * that is in one of them; kernels that read logits look at the other two for these ids only.
 *
 * Work-items divide the work by words of the bitmaps: an id's word belongs to one item, so that no
 * two items write the same word and nothing need be atomic. */
#include "core/vectors.cl"
#include "core/grammar.h"
#include "core/samplers.h"
#include "row/text.cl"

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

/* Returns the index of the first id of an ascending list that is at least `id`; n if there is
 * none. */
static inline u32 list_from(__global const u32 *ids, u32 n, u32 id)
{
    u32 lo = 0, hi = n;
    SHORT_LOOP
    while (lo < hi) {
        const u32 mid = (lo + hi) / 2;
        if (ids[mid] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}
/* Returns the index of an id in an ascending list; n if it is not there. */
static inline u32 list_find(__global const u32 *ids, u32 n, u32 id)
{
    const u32 at = list_from(ids, n, id);
    return at < n && ids[at] == id ? at : n;
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
    const uint16 a = vload16(0, ids + i), b = vload16(1, ids + i);
    const int16 in_a = (a >> 5) == ids[i] >> 5, in_b = (b >> 5) == ids[i] >> 5;
    const uint16 bits =
        (as_uint16(in_a) & (uint16)(1u) << (a & 31)) | (as_uint16(in_b) & (uint16)(1u) << (b & 31));
    return (uint2)((u32)fold_or16(as_int16(bits)), (u32)-fold_isum16(in_a + in_b));
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
static inline u32 entries_have(__global const u32 *ring, u32 n, u32 entry, u32 mask)
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

static inline int is_stop(__global const cls_slot *slot, __global const u32 *lists, u32 id)
{
    return list_find(lists + slot->stop, slot->n_stop, id) < slot->n_stop;
}

/* Returns the status bits with which a token ends its request, as output token number `outputs`; 0
 * if it does not. Stop ids are banned before min_tokens; if one comes from elsewhere by then, it
 * ends nothing. */
static inline u32 ends_request(__global const cls_slot *slot, __global const u32 *lists, u32 id,
                               u32 outputs)
{
    if (outputs >= slot->min_tokens && is_stop(slot, lists, id))
        return CLS_ROW_STOPPED;
    return slot->max_tokens != 0 && outputs >= slot->max_tokens ? CLS_ROW_STOPPED | CLS_ROW_LENGTH
                                                                : 0u;
}

#if FORCED
/* Returns whether a state of the grammar, of which there must be one, and allowed_ids leave only
 * ids that end the text, where min_tokens does not apply. */
static inline int leaves_ends(__global const cls_slot *slot, __global const u32 *lists, u32 state)
{
    return slot->min_tokens != 0 &&
           (lists[slot->stop + slot->n_stop + (state >> 5)] >> (state & 31) & 1u);
}

/* Returns the state of a request's grammar after an id, output token number `outputs`. It stays
 * where it is while the request thinks, and without a grammar. Where only ends are left, a stop id
 * ends the grammar, too. `all`: the buffer of all lists. */
static inline u32 grammar_after(__global const cls_slot *slot, __global const u32 *all, u32 state,
                                u32 thinking, u32 id, u32 outputs)
{
    __global const u32 *const lists = all + slot->lists;
    if (!(slot->flags & CLS_SLOT_GRAMMAR) || thinking != 0)
        return state;
    const u32 next = grammar_next(all + slot->grammar, state, id);
    return next != CLS_GRAMMAR_DEAD && outputs < slot->min_tokens &&
                   leaves_ends(slot, lists, state) && is_stop(slot, lists, id)
               ? CLS_GRAMMAR_ENDED
               : next;
}
/* Returns whether a request's grammar allows an id in a state. */
static inline int grammar_allows(__global const cls_slot *slot, __global const u32 *all, u32 state,
                                 u32 thinking, u32 id)
{
    return !(slot->flags & CLS_SLOT_GRAMMAR) || thinking != 0 ||
           grammar_next(all + slot->grammar, state, id) != CLS_GRAMMAR_DEAD;
}
/* Returns the cls_row_status bits of a token that leads to a state. */
static inline u32 grammar_status(u32 state)
{
    return state == CLS_GRAMMAR_ENDED ? CLS_ROW_STOPPED : 0u;
}
#endif

/* Returns whether a request has ended: by its latest token, or by the number of its tokens. Loops
 * are not looked for. */
static inline u32 has_stopped(const cls_slot *slot, const slot_state *s, __global const u32 *lists)
{
    if (slot->outputs == 0)
        return 0;
    if (slot->grammar_state == CLS_GRAMMAR_ENDED)
        return 1;
    if (slot->max_tokens != 0 && slot->outputs >= slot->max_tokens)
        return 1;
    if (slot->outputs < slot->min_tokens)
        return 0;
    const u32 latest = s->ring[(slot->length - 1) % s->n_ring];
    return (latest & CLS_ENTRY_OUTPUT) && slot->length > 0 &&
           list_find(lists + slot->stop, slot->n_stop, latest & CLS_ENTRY_ID) < slot->n_stop;
}

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
/* Store the state of the thinking budget, and that of the grammar, before the token at an index of
 * the history. */
static inline void thinking_store(const slot_state *s, u32 at, u32 thinking)
{
    if (s->n_adaptive != 0)
        s->thinking[at % s->n_adaptive] = thinking;
}
static inline void grammar_store(const slot_state *s, u32 at, u32 grammar_state)
{
    if (s->n_adaptive != 0)
        grammar_ring(s)[at % s->n_adaptive] = grammar_state;
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
    const text t = text_in(s->ring, s->n_ring, active ? slot->length : 0u);
    const u32 loops = ends_in_loop(slot, &t, id | CLS_ENTRY_OUTPUT, active, scratch);
#else
    const u32 loops = 0;
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
        if (flags & CLS_SLOT_GRAMMAR) { /* before the thinking: its last id is no text of it */
            grammar_store(s, length, slot->grammar_state);
            slot->grammar_state = grammar_after(slot, lists - slot->lists, slot->grammar_state,
                                                slot->thinking, id, outputs);
        }
        if (flags & CLS_SLOT_THINKING) {
            thinking_store(s, length, slot->thinking);
            slot->thinking = thinking_after(slot, lists, &t, slot->thinking, id, 1);
        }
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
        slot->stopped = (ends_request(slot, lists, id, outputs) | loops) != 0 ||
                        slot->grammar_state == CLS_GRAMMAR_ENDED;
    }
}
