/* SPDX-License-Identifier: MIT */
/* text: what a request's text says of its next token: the id that it must be, if it must be one,
 * whether the grammar allows it, and whether it ends the request. The text is a slot's, of which
 * the latest tokens are in a ring of entries, at the index of each token; it may go on with drafts.
 */
#include "core/grammar.h"
#include "core/record.h"
#include "core/state.h"
#include "core/vectors.cl"

/* 1 in the kernels that accept the tokens of requests with thinking budgets, forced ids, loop
 * stops or grammars. In the other kernels these requests draw, but accept nothing. */
#ifndef FORCED
#define FORCED 0
#endif

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

static inline int is_stop(__global const cls_slot *slot, __global const u32 *lists, u32 id)
{
    return list_find(lists + slot->stop, slot->n_stop, id) < slot->n_stop;
}

/* Returns the status bits with which a token ends its request, as output token number `outputs`, by
 * its id or by this number; 0 if it does not. Stop ids are banned before min_tokens; if one comes
 * from elsewhere by then, it ends nothing. `stops`: it is a stop id. `thinking`: the state after
 * the token, or 0 where no request's thinking is followed. */
static inline u32 ends_request(__global const cls_slot *slot, int stops, u32 outputs, u32 thinking)
{
    const int goes_on = thinking != 0 && (slot->flags & CLS_SLOT_STOPS) != 0;
    if (!goes_on && stops && outputs >= slot->min_tokens)
        return CLS_ROW_STOPPED;
    return slot->max_tokens != 0 && outputs >= slot->max_tokens ? CLS_ROW_STOPPED | CLS_ROW_LENGTH
                                                                : 0u;
}

#if FORCED
/* A text: the latest entries of a ring and, from index `first` on, others that are about to follow
 * them; how many output tokens it has, and the states of the thinking budget and the grammar at its
 * end. */
typedef struct text {
    __global const u32 *ring, *following;
    u32 n_ring, first, length, outputs, thinking, grammar;
} text;

/* Returns a slot's text, or an empty one unless `active` is 1: another group may be writing the
 * slot then. */
static inline text text_of(__global const cls_slot *slot, __global const u32 *ring, u32 n_ring,
                           int active)
{
    text t = {ring, ring, n_ring, 0xffffffffu, 0u, 0u, 0u, 0u};
    if (active) {
        t.length = slot->length;
        t.outputs = slot->outputs;
        t.thinking = slot->thinking;
        t.grammar = slot->grammar_state;
    }
    return t;
}

/* Returns the entry that is `back` entries before the end; the last one is 1 before it. */
static inline u32 text_entry(const text *t, u32 back)
{
    const u32 at = t->length - back;
    return at < t->first ? t->ring[at % t->n_ring] : t->following[at - t->first];
}

/* Returns whether a text, followed by `id`, ends with a sequence of n ids. */
static inline int ends_with(const text *t, u32 id, __global const u32 *ids, u32 n)
{
    if (n == 0 || n - 1 > t->length || ids[n - 1] != id)
        return 0;
    u32 back = 1;
    while (back < n && (text_entry(t, back) & CLS_ENTRY_ID) == ids[n - 1 - back])
        back++;
    return back == n;
}

/* Returns whether a text, followed by `id`, ends with one of the ends of the thinking. */
static inline int ends_thinking(__global const cls_slot *slot, __global const u32 *lists,
                                const text *t, u32 id)
{
    u32 at = slot->thinking_ends, i = 0;
    while (i < slot->n_ends && !ends_with(t, id, lists + at + 1, lists[at])) {
        at += 1 + lists[at];
        i++;
    }
    return i < slot->n_ends;
}

/* Returns which of the ids that end the thinking is due; n_thinking_forced if none is. */
static inline u32 thinking_due(__global const cls_slot *slot, u32 thinking)
{
    const u32 count = thinking - 1, at = count - slot->thinking_budget;
    return thinking != 0 && count >= slot->thinking_budget && at < slot->n_thinking_forced
               ? at
               : slot->n_thinking_forced;
}

/* Returns the state of the thinking budget after a text and `id`: 0 outside the thinking, else 1
 * plus the number of output tokens that count. While forced ids are due, only these count. With a
 * grammar only prompt begins the thinking: no string of the output may turn the grammar off. */
static inline u32 thinking_after(__global const cls_slot *slot, __global const u32 *lists,
                                 const text *t, u32 id, int is_output, int stops)
{
    const u32 thinking = t->thinking, due = thinking_due(slot, thinking);
    const int is_due = due < slot->n_thinking_forced;
    if (thinking == 0 && is_output && (slot->flags & CLS_SLOT_GRAMMAR))
        return 0;
    if (thinking == 0)
        return (u32)ends_with(t, id, lists + slot->thinking_start, slot->n_start);
    if (is_due && is_output && lists[slot->thinking_forced + due] == id)
        return due + 1 < slot->n_thinking_forced ? thinking + 1 : 0;
    if (ends_thinking(slot, lists, t, id))
        return 0;
    if (is_output && !is_due && stops && (slot->flags & CLS_SLOT_STOPS_THINK) &&
        t->outputs + 1 >= slot->min_tokens)
        return 1 + slot->thinking_budget; /* its end is due */
    return is_output && !is_due ? thinking + 1 : thinking;
}

/* Returns whether a state of the grammar, of which there must be one, and allowed_ids leave only
 * ids that end the text, where min_tokens does not apply. */
static inline int leaves_ends(__global const cls_slot *slot, __global const u32 *lists, u32 state)
{
    return slot->min_tokens != 0 &&
           (lists[slot->stop + slot->n_stop + (state >> 5)] >> (state & 31) & 1u);
}

/* Returns whether the grammar says what may follow a text: not while the request thinks. */
static inline int grammar_rules(__global const cls_slot *slot, const text *t)
{
    return (slot->flags & CLS_SLOT_GRAMMAR) != 0 && t->thinking == 0;
}

/* Returns the id that a request must emit after a text, or -1 if the row draws its token. `all`
 * here and below: the buffer of all lists. */
static inline i32 text_due(__global const cls_slot *slot, __global const u32 *all, const text *t)
{
    const u32 at = t->outputs - slot->forced_from;
    if (at < slot->n_forced)
        return (i32)all[slot->forced + at];
    if (!(slot->flags & CLS_SLOT_THINKING))
        return -1;
    const u32 due = thinking_due(slot, t->thinking);
    return due < slot->n_thinking_forced ? (i32)all[slot->lists + slot->thinking_forced + due] : -1;
}

/* Returns whether the grammar allows an id after a text. */
static inline int text_allows(__global const cls_slot *slot, __global const u32 *all, const text *t,
                              u32 id)
{
    return !grammar_rules(slot, t) ||
           grammar_next(all + slot->grammar, t->grammar, id) != CLS_GRAMMAR_DEAD;
}

/* Adds an id to a text. Returns the status bits with which it ends the request, but for that of a
 * loop. Where the grammar leaves only ends, a stop id ends it, too. */
static inline u32 text_next(__global const cls_slot *slot, __global const u32 *all, text *t, u32 id,
                            int is_output)
{
    __global const u32 *const lists = all + slot->lists;
    const int has_rules = is_output && grammar_rules(slot, t);
    const int stops = is_output && is_stop(slot, lists, id);
    u32 ended = 0;
    if (slot->flags & CLS_SLOT_THINKING)
        t->thinking = thinking_after(slot, lists, t, id, is_output, stops);
    if (is_output)
        ended = ends_request(slot, stops, ++t->outputs, t->thinking);
    if (has_rules) {
        const u32 next = grammar_next(all + slot->grammar, t->grammar, id);
        t->grammar = next != CLS_GRAMMAR_DEAD && t->outputs < slot->min_tokens &&
                             leaves_ends(slot, lists, t->grammar) && stops
                         ? CLS_GRAMMAR_ENDED
                         : next;
        ended |= t->grammar == CLS_GRAMMAR_ENDED ? CLS_ROW_STOPPED : 0u;
    }
    t->length++;
    return ended;
}

#define DIFFERS(at) \
    ((text_entry(t, (at) + n) ^ text_entry(t, at)) | (~text_entry(t, at) & CLS_ENTRY_OUTPUT))
/* Returns how many entries before the end of a text, which an entry follows, equal those n entries
 * earlier in the bits of `kind`; at most `most`. If `kind` has CLS_ENTRY_OUTPUT, these entries are
 * output, as the one that follows must be. An item that is alone in its group takes eight a trip:
 * some texts have 200,000 to compare (rule 5). Others would need more registers for it. */
static inline u32 entries_alike(const text *t, u32 entry, u32 n, u32 most, u32 kind)
{
    u32 back = 1;
    if (((text_entry(t, n) ^ entry) & kind) != 0)
        return 0;
#if WGS == 1
    while (back + 8 <= most &&
           ((DIFFERS(back) | DIFFERS(back + 1) | DIFFERS(back + 2) | DIFFERS(back + 3) |
             DIFFERS(back + 4) | DIFFERS(back + 5) | DIFFERS(back + 6) | DIFFERS(back + 7)) &
            kind) == 0)
        back += 8;
#endif
    while (back < most && (DIFFERS(back) & kind) == 0)
        back++;
    return back;
}

/* Returns 1 if a text, followed by an entry, ends in a loop of output tokens; where loops end the
 * thinking, of tokens of its open section. Of the lengths n it tries those a `stride` apart from
 * `first` on, as an item does whose group shares them. If the last `all` entries repeat every n
 * entries, they do so every m entries for all multiples m of n, and m is a loop if its copies fit
 * into them. No other length up to all - n needs a try. The end of a text that repeats with such a
 * length, and does not with a smaller one that is tried, repeats with n, too, because two periods
 * that fit into a text together have their greatest common divisor as a period (Fine and Wilf). */
static inline u32 finds_loop(__global const cls_slot *slot, const text *t, u32 entry, u32 first,
                             u32 stride)
{
    u32 found = 0;
    if ((slot->flags & CLS_SLOT_LOOPS) && (entry & CLS_ENTRY_OUTPUT)) {
        const u32 repeats = slot->loop_repeats, shortest = slot->loop_min,
                  most = min(slot->flags & CLS_SLOT_LOOPS_THINK ? t->thinking : 0xffffffffu,
                             t->length + 1),
                  reach = min(slot->loop_max * repeats, most);
        u32 n = first;
        while (n * repeats <= reach) {
            const u32 same = entries_alike(t, entry, n, reach - n, CLS_ENTRY_ID | CLS_ENTRY_OUTPUT),
                      all = same + n, loop = max((shortest + n - 1) / n, 1u) * n;
            found |= (u32)(loop * repeats <= all);
            n += same < n ? stride : ((same - n) / stride + 1) * stride;
        }
    }
    return found;
}
/* Does this by the whole group; `active` is the same for all of it. */
static inline u32 ends_in_loop(__global const cls_slot *slot, const text *t, u32 entry, int active,
                               __local u64 *scratch)
{
    return wg_uor(active ? finds_loop(slot, t, entry, 1 + LOCAL_ID, WGS) : 0u, scratch);
}

/* Returns whether a loop at the end of a text would end its thinking: that goes on, and its end was
 * not due before. `was`: its state before the latest token. */
static inline int loops_matter(__global const cls_slot *slot, const text *t, u32 was)
{
    return t->thinking != 0 && was - 1 < slot->thinking_budget;
}

/* Adds an id to a text as text_next() does, and ends the thinking at a loop, by each item alone. */
static inline void text_pass(__global const cls_slot *slot, __global const u32 *all, text *t,
                             u32 entry)
{
    const text before = *t;
    text_next(slot, all, t, entry & CLS_ENTRY_ID, (entry & CLS_ENTRY_OUTPUT) != 0);
    if ((slot->flags & CLS_SLOT_LOOPS_THINK) && loops_matter(slot, t, before.thinking) &&
        finds_loop(slot, &before, entry, 1, 1))
        t->thinking = 1 + slot->thinking_budget; /* its end is due */
}

/* Returns whether an entry may change the states of a text that it follows: all output may, and of
 * a prompt what begins or ends the thinking. */
static inline int text_changes(__global const cls_slot *slot, __global const u32 *lists,
                               const text *t, u32 entry)
{
    const u32 id = entry & CLS_ENTRY_ID;
    if ((entry & CLS_ENTRY_OUTPUT) || !(slot->flags & CLS_SLOT_THINKING))
        return (entry & CLS_ENTRY_OUTPUT) != 0;
    return t->thinking != 0 ? ends_thinking(slot, lists, t, id)
                            : ends_with(t, id, lists + slot->thinking_start, slot->n_start);
}

/* Adds an output token to a text, by the whole group, if `active` is 1. Returns the status bits
 * with which it ends the request. */
static inline u32 text_follow(__global const cls_slot *slot, __global const u32 *all, text *t,
                              u32 id, int active, __local u64 *scratch)
{
    const text before = *t;
    const u32 ended = active ? text_next(slot, all, t, id, 1) : 0u;
    const int thinks = active && (slot->flags & CLS_SLOT_LOOPS_THINK),
              matters = active && (!thinks || loops_matter(slot, t, before.thinking));
    const u32 loops = ends_in_loop(slot, &before, id | CLS_ENTRY_OUTPUT, matters, scratch);
    if (loops && thinks)
        t->thinking = 1 + slot->thinking_budget;
    return ended | (loops ? CLS_ROW_LOOP | (thinks ? 0u : CLS_ROW_STOPPED) : 0u);
}
#endif
