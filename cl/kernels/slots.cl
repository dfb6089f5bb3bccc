/* SPDX-License-Identifier: MIT */
/* slots: applies slot calls on the device, before the step that follows them. A work-group applies
 * one change. Changes of one slot have different rounds, and each round is a launch. Bitmaps are
 * walked word by word; a word without adjusted tokens only costs the look at it. */
#include "core/change.h"
#include "slot/rollback.cl"

/* CHANGES 0 supports only beginning, appending and reset, for slots without a penalty window,
 * thinking budget, loop stop or grammar. Most samplers never need more. CHANGES 1 is compiled with
 * FORCED 1. */
#ifndef CHANGES
#define CHANGES 1
#endif

#define COPY_VECTOR(k) VSTORE(VLOAD(from + i + 0x##k * VEC), to + i + 0x##k * VEC);
static inline void copy_words(__global u32 *to, __global const u32 *from, u32 n)
{
    const u32 whole = n / (16 * VEC) * (16 * VEC);
    for (u32 i = LOCAL_ID * (16 * VEC); i < whole; i += WGS * (16 * VEC)) {
        EACH_16(COPY_VECTOR)
    }
    for (u32 i = whole + LOCAL_ID; i < n; i += WGS)
        to[i] = from[i];
}

#if CHANGES
/* Copies a slot's state from another one. */
#define COPY_VECTOR_OF(field, at) VSTORE(VLOAD(from->field + (at)), s->field + (at));
static inline void copy_counts(const slot_state *s, const slot_state *from, u32 word)
{
    for (u32 k = 0; k < 16; k += VEC)
        COPY_VECTOR_OF(counts, word * 16 + k)
}
#define COPY_COUNTS(k) \
    if (either.s##k != 0) \
        copy_counts(s, from, w + 0x##k);
static inline void state_copy(const slot_state *s, const slot_state *from)
{
    for (u32 w = LOCAL_ID * VEC; w < WHOLE_WORDS(s); w += WGS * VEC) {
        const UV adjusted = VLOAD(from->adjusted + w), either = VLOAD(s->adjusted + w) | adjusted;
        if (!ANY(either != 0u))
            continue;
        VSTORE(adjusted, s->adjusted + w);
        COPY_VECTOR_OF(in_context, w)
        if (s->counting == CLS_COUNTS_PRESENCE) {
            COPY_VECTOR_OF(counts, w)
        } else {
            EACH_LANE(COPY_COUNTS)
        }
    }
    copy_words(s->ring, from->ring,
               (s->n_ring + 15) / 16 * 16 + (s->n_adaptive * CLS_ADAPTIVE_WORDS + 15) / 16 * 16 +
                   (s->n_adaptive + 15) / 16 * 32);
    BARRIER();
}
#endif

#if CHANGES
/* Returns the tokens of a word that count, a bit each. */
ONE_COPY u32 counted_word(const slot_state *s, u32 w)
{
    if (s->counting == CLS_COUNTS_PRESENCE)
        return s->counts[w];
    __global const ushort *const counts = (__global const ushort *)s->counts + w * 32;
    u32 bits = 0;
    for (u32 k = 0; k < 32; k += VEC)
        bits |= lane_bits(CAT(convert_int, VEC)(VLOAD(counts + k)) != 0) << k;
    return bits;
}

/* Output tokens become prompt: those that counted as output only are in context from now on. */
#define COUNT_AS_PROMPT(k) \
    if (adjusted.s##k != 0) { \
        s->in_context[w + 0x##k] |= counted_word(s, w + 0x##k); \
        if (s->counting == CLS_COUNTS_PRESENCE) \
            s->counts[w + 0x##k] = 0u; \
        else \
            clear_counts(s, w + 0x##k); \
    }
static inline void state_count_as_prompt(const slot_state *s)
{
    for (u32 w = LOCAL_ID * VEC; w < WHOLE_WORDS(s); w += WGS * VEC) {
        const UV adjusted = VLOAD(s->adjusted + w);
        if (!ANY(adjusted != 0u))
            continue;
        EACH_LANE(COUNT_AS_PROMPT)
    }
}

/* The next turn of a conversation: the whole history becomes prompt. */
static inline void state_turn(cls_slot *slot, const slot_state *s, __local u64 *scratch)
{
    for (u32 i = LOCAL_ID * VEC; i < s->n_ring; i += WGS * VEC)
        VSTORE(VLOAD(s->ring + i) & ~(CLS_ENTRY_OUTPUT | CLS_ENTRY_FIRST), s->ring + i);
    if (s->counting != CLS_COUNTS_NONE && slot->window == 0 && !(slot->flags & CLS_SLOT_SCOPE_ALL))
        state_count_as_prompt(s);
    BARRIER();
    if (slot->window != 0)
        state_recount(s, slot->length, min(slot->window, slot->length), slot->flags, scratch);
    slot->outputs = 0;
    slot->pending = -1;
    slot->adaptive.top_p = slot->top_p;
    slot->thinking = slot->thinking != 0; /* the budget of the turn begins */
    slot->n_forced = 0;
    slot->grammar_state = slot->grammar_begin;
}

/* Follows the thinking budget and the grammar through tokens that are about to be appended.
 * `rules`: the slot's parameters in memory. Most of a prompt changes neither: the items look for
 * the next entry that may, which each of them then follows alone, as it does output. */
static inline void append_states(cls_slot *slot, __global const cls_slot *rules,
                                 const slot_state *s, __global const u32 *lists,
                                 __global const u32 *entries, u32 n, __local u64 *scratch)
{
    text t = text_of(rules, s->ring, s->n_ring, 0);
    if (!(slot->flags & (CLS_SLOT_THINKING | CLS_SLOT_GRAMMAR)))
        return;
    t.following = entries;
    t.first = t.length = slot->length;
    t.outputs = slot->outputs;
    t.thinking = slot->thinking;
    t.grammar = slot->grammar_state;
    u32 done = 0;
    while (done < n) { /* the same for the whole group */
        const u32 last = min(done + WGS, n), mine = done + LOCAL_ID;
        t.length += LOCAL_ID;
        u32 next = mine < last && text_changes(rules, lists, &t, entries[mine]) ? mine : last;
        t.length -= LOCAL_ID;
        next = wg_umin(next, scratch);
        if (mine < next && mine + s->n_adaptive >= n) /* the ring keeps no others */
            text_store(s, t.length + LOCAL_ID, t.thinking, t.grammar);
        t.length += next - done;
        done = next;
        for (int more = done < last; more; more = done < n && (entries[done] & CLS_ENTRY_OUTPUT)) {
            if (LOCAL_ID == 0 && done + s->n_adaptive >= n)
                text_store(s, t.length, t.thinking, t.grammar);
            text_pass(rules, lists - rules->lists, &t, entries[done++]);
        }
    }
    slot->thinking = t.thinking;
    slot->grammar_state = t.grammar;
    BARRIER(); /* every item has read the ring */
}
#endif

/* Appends n tokens to a slot's history, `outputs` of which are output. */
static inline void state_append(cls_slot *slot, __global const cls_slot *rules, const slot_state *s,
                                __global const u32 *lists, __global const u32 *entries, u32 n,
                                u32 outputs, __local u64 *scratch)
{
#if CHANGES
    append_states(slot, rules, s, lists, entries, n, scratch);
#endif
    if (slot->flags & CLS_SLOT_DECAYS) {
        for (u32 j = 0; j < n; j++) {
            const u32 entry = entries[j];
            if (LOCAL_ID == 0)
                adaptive_store(s, slot->length + j, &slot->adaptive);
            if (entry & CLS_ENTRY_OUTPUT)
                slot->adaptive.top_p =
                    top_p_next(slot, slot->adaptive.top_p, (i32)(entry & CLS_ENTRY_ID));
        }
    } else { /* it does not change, and the last ones are kept */
        for (u32 j = n - min(n, s->n_adaptive) + LOCAL_ID; j < n; j += WGS)
            adaptive_store(s, slot->length + j, &slot->adaptive);
    }
    const u32 counted = outputs | (slot->flags & CLS_SLOT_SCOPE_ALL);
    const added a = {entries, 0, n, slot->length, n, slot->flags, slot->window == 0, counted};
    add_entries(s, &a, scratch);
    slot->pending = -1;
    slot->position += outputs;
    slot->outputs += outputs;
    slot->length += n;
    slot->longest = max(slot->longest, slot->length);
#if CHANGES
    if (slot->window != 0)
        state_recount(s, slot->length, min(slot->window, slot->length), slot->flags, scratch);
#endif
    BARRIER();
}

#if CHANGES
/* Applies new parameters to an adaptive state: it keeps the parts of samplers that were on before.
 * changes_only_params() in lib/sampler/changes.c must know everything that new parameters change in
 * a slot besides the parameters themselves. */
static inline void adaptive_carry(const cls_slot *slot, const cls_slot *was,
                                  cls_slot_adaptive *adaptive)
{
    const u32 both = slot->flags & was->flags;
    if (!(both & CLS_SLOT_MIROSTAT))
        adaptive->mu = slot->adaptive.mu;
    if (!(both & CLS_SLOT_ADAPTIVE)) {
        adaptive->sum = slot->adaptive.sum;
        adaptive->weight = slot->adaptive.weight;
    }
    if (!(both & CLS_SLOT_DECAYS) || slot->top_p != was->top_p)
        adaptive->top_p = slot->adaptive.top_p;
}
#define KEEP_ADAPTIVE(k) \
    if (i + k * WGS < s->n_adaptive) { \
        cls_slot_adaptive adaptive; \
        adaptive_load(s, i + k * WGS, &adaptive); \
        adaptive_carry(slot, &was, &adaptive); \
        adaptive_store(s, i + k * WGS, &adaptive); \
    }
#endif

#if CHANGES
/* Returns a state of the thinking budget under new parameters. The tokens that counted still count,
 * but not for more than the new budget; and of the ids that end the thinking, as many have been
 * emitted as before. Without any of these, no more count than the `outputs` that there are: a loop
 * had used up the budget. */
static inline u32 thinking_carry(const cls_slot *slot, const cls_slot *was, u32 outputs,
                                 u32 thinking)
{
    if (!(slot->flags & CLS_SLOT_THINKING))
        return 0;
    if (!(was->flags & CLS_SLOT_THINKING))
        return slot->n_start == 0;
    if (thinking == 0)
        return 0;
    const u32 count = thinking - 1, budget = was->thinking_budget;
    const u32 emitted = count > budget ? count - budget : 0u;
    if (emitted != 0 && emitted >= slot->n_thinking_forced)
        return 0;
    return 1 + (emitted != 0
                    ? slot->thinking_budget + emitted
                    : min(count, slot->n_thinking_forced != 0 ? slot->thinking_budget : outputs));
}
#endif

/* The arguments of the kernel. `history`: how many entries are counted again after a change of
 * scope; `rollback`: how many tokens can be rolled back. */
typedef struct slots_args {
    __global const cls_change *changes;
    __global u32 *words;
    __global cls_slot *slots;
    __global u32 *state, *lists;
    u32 layout, vocab, history, rollback;
} slots_args;

/* Applies one call to `slot`. `rules`: its parameters in memory, where tokens are appended.
 * `other`: the slot that is copied or loaded. */
static inline void change_slot(const slots_args *a, const cls_change *c, cls_slot *slot,
                               __global const cls_slot *rules, const slot_state *s,
                               const cls_slot *other, u32 outputs, __local u64 *scratch)
{
    __global const u32 *const words = a->words + c->words, *const lists = a->lists + rules->lists;
    const cls_slot was = *slot;
    const int begun = (was.flags & CLS_SLOT_BEGUN) != 0;
    if (c->kind == CLS_CHANGE_BEGIN) {
        *slot = c->params;
        state_clear(s);
#if CHANGES
    } else if (c->kind == CLS_CHANGE_PARAMS && begun) {
        *slot = c->params;
        slot->position = was.position;
        slot->outputs = was.outputs;
        slot->length = was.length;
        slot->longest = was.longest;
        slot->forced = was.forced;
        slot->n_forced = was.n_forced;
        slot->forced_from = was.forced_from;
        slot->thinking = thinking_carry(slot, &was, slot->outputs, was.thinking);
        if ((slot->flags | was.flags) & CLS_SLOT_THINKING)
            for (u32 i = LOCAL_ID; i < s->n_adaptive; i += WGS) {
                const u32 back = state_back(slot->length, i, s->n_adaptive);
                s->thinking[i] = thinking_carry(
                    slot, &was, slot->outputs - min(back, slot->outputs), s->thinking[i]);
            }
        /* Another grammar begins with the call, and so it does after a rollback behind it. */
        if ((slot->flags & was.flags & CLS_SLOT_GRAMMAR) && slot->grammar == was.grammar)
            slot->grammar_state = was.grammar_state;
        else if (slot->flags & CLS_SLOT_GRAMMAR)
            for (u32 i = LOCAL_ID; i < s->n_adaptive; i += WGS)
                grammar_ring(s)[i] = slot->grammar_state;
        if (slot->flags & (CLS_SLOT_STATEFUL | CLS_SLOT_DECAYS)) {
            for (u32 i = LOCAL_ID; i < s->n_adaptive; i += WGS * 4) {
                CLS_EACH_4(KEEP_ADAPTIVE)
            }
            cls_slot_adaptive adaptive = was.adaptive;
            adaptive_carry(slot, &was, &adaptive);
            slot->adaptive = adaptive;
        }
        if (slot->window != was.window || ((slot->flags ^ was.flags) & CLS_SLOT_SCOPE_ALL))
            state_recount(s, slot->length,
                          min(slot->window != 0 ? slot->window : a->history, slot->length),
                          slot->flags, scratch);
    } else if (c->kind == CLS_CHANGE_COPY || c->kind == CLS_CHANGE_LOAD) {
        const slot_state from = c->kind == CLS_CHANGE_LOAD
                                    ? state_at(a->words + c->words, a->layout, a->vocab)
                                    : state_of(a->state, a->layout, a->vocab, c->from);
        state_copy(s, &from);
        *slot = *other;
    } else if (c->kind == CLS_CHANGE_TURN && begun) {
        state_turn(slot, s, scratch);
    } else if (c->kind == CLS_CHANGE_ROLLBACK && begun) {
        if (!state_rollback(slot, s, c->tokens, a->rollback, scratch))
            slot->flags = 0;
    } else if (c->kind == CLS_CHANGE_FORCE && begun) {
        slot->forced = c->params.lists;
        slot->n_forced = c->tokens;
        slot->forced_from = slot->outputs;
#endif
    } else if (c->kind == CLS_CHANGE_RESET) {
        slot->flags = 0;
    }
    if (c->kind == CLS_CHANGE_BEGIN ||
        ((c->kind == CLS_CHANGE_APPEND || c->kind == CLS_CHANGE_TURN) && begun))
        state_append(slot, rules, s, lists, words, c->tokens, outputs, scratch);
}

/* Launch: [WGS, n]: a group for each change of a round. The words of `changes` from `first` on are
 * the indexes of the changes. */
ONE_COPY void make_change(const slots_args *a, u32 at, __local u64 *scratch)
{
    /* Through a pointer to bytes: Mesa 22.3 reads the wrong word if a pointer to structs is cast to
     * words. */
    const u32 index = *(__global const u32 *)((__global const uchar *)a->changes + at * 4);
    __global const cls_change *const change = a->changes + index;
    __global cls_slot *const changed = a->slots + change->slot;
    __global u32 *const words = a->words, *const lists = a->lists;
    const cls_change c = *change;
    const slot_state s = state_of(a->state, a->layout, a->vocab, c.slot);
    const cls_slot other = c.kind == CLS_CHANGE_LOAD ? c.params : a->slots[c.from];
    cls_slot slot = *changed;
    copy_words(lists + c.params.lists, words + c.lists, c.n_lists);
    /* Here, and not where the tokens are appended: PoCL 3.1 crashes when it compiles a reduction
     * there. */
    const u32 tokens =
        c.kind == CLS_CHANGE_BEGIN || c.kind == CLS_CHANGE_APPEND || c.kind == CLS_CHANGE_TURN
            ? c.tokens
            : 0u;
    u32 outputs = 0;
    for (u32 j = LOCAL_ID; j < tokens; j += WGS)
        outputs += words[c.words + j] >> 31;
    outputs = wg_usum(outputs, scratch);
    BARRIER(); /* every item has read the slots, and the lists are complete */
    change_slot(a, &c, &slot, c.kind == CLS_CHANGE_BEGIN ? &change->params : changed, &s, &other,
                outputs, scratch);
    store_changed(changed, &slot, &s, lists, scratch);
}

KERNEL void cls_slots(__global const cls_change *changes, const u32 first, __global u32 *words,
                      __global cls_slot *slots, __global u32 *state, const u32 layout,
                      __global u32 *lists, const u32 vocab, const u32 history, const u32 rollback)
{
    __local u64 scratch[WGS];
    const slots_args a = {changes, words, slots, state, lists, layout, vocab, history, rollback};
    make_change(&a, first + GROUP_OF_ALL, scratch);
}
