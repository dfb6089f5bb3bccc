/* SPDX-License-Identifier: MIT */
/* text: what follows from the end of a request's text: the id that its next row must emit, if there
 * is one, the state of its thinking budget, and whether its output repeats itself.
 *
 * The latest tokens are in a ring of entries, at the index of each token in the text. */
#include "core/vectors.cl"

/* 1 in the kernels that accept the tokens of requests with thinking budgets, forced ids or loop
 * stops. In the other kernels these requests draw, but accept nothing. */
#ifndef FORCED
#define FORCED 0
#endif

#if FORCED
/* The entries of a text: the latest ones of a ring and, from index `first` on, others that are
 * about to follow them. */
typedef struct text {
    __global const u32 *ring, *following;
    u32 n_ring, first, length;
} text;

static inline text text_in(__global const u32 *ring, u32 n_ring, u32 length)
{
    const text t = {ring, ring, n_ring, 0xffffffffu, length};
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

/* Returns which of the ids that end the thinking is due in a state of the thinking budget;
 * n_thinking_forced if none is. */
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
                                 const text *t, u32 thinking, u32 id, int is_output)
{
    const u32 due = thinking_due(slot, thinking);
    const int is_due = due < slot->n_thinking_forced;
    if (thinking == 0 && is_output && (slot->flags & CLS_SLOT_GRAMMAR))
        return 0;
    if (thinking == 0)
        return (u32)ends_with(t, id, lists + slot->thinking_start, slot->n_start);
    if (is_due && is_output && lists[slot->thinking_forced + due] == id)
        return due + 1 < slot->n_thinking_forced ? thinking + 1 : 0;
    if (ends_with(t, id, lists + slot->thinking_end, slot->n_end))
        return 0;
    return is_output && !is_due ? thinking + 1 : thinking;
}

/* Returns the id that a request must emit after `outputs` tokens of output, in a state of the
 * thinking budget; -1 if the row draws its token. `all`: the buffer of all lists. */
static inline i32 forced_id(__global const cls_slot *slot, __global const u32 *all,
                            __global const u32 *lists, u32 outputs, u32 thinking)
{
    const u32 at = outputs - slot->forced_from;
    if (at < slot->n_forced)
        return (i32)all[slot->forced + at];
    if (!(slot->flags & CLS_SLOT_THINKING))
        return -1;
    const u32 due = thinking_due(slot, thinking);
    return due < slot->n_thinking_forced ? (i32)lists[slot->thinking_forced + due] : -1;
}

#define ENTRY_KIND (CLS_ENTRY_ID | CLS_ENTRY_OUTPUT)
#define DIFFERS(at) (text_entry(t, (at) + n) ^ text_entry(t, at))
/* Returns how many entries before the end of a text, which an entry follows, equal those n entries
 * earlier in the bits of `kind`; at most `most`. An item that is alone in its group takes eight a
 * trip: some texts have 200,000 to compare (rule 5). Others would need more registers for it. */
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

/* Returns whether a text, followed by an entry, ends in a loop of output tokens, by the whole
 * group; `active` is the same for all of it. Each item tries some lengths n. If the last `all`
 * entries repeat every n entries, they do so every m entries for all multiples m of n, and m is a
 * loop if its copies fit into them. No other length up to all - n needs a try. The end of a text
 * that repeats with such a length, and does not with a smaller one that is tried, repeats with n,
 * too, because two periods that fit into a text together have their greatest common divisor as a
 * period (Fine and Wilf). */
static inline u32 ends_in_loop(__global const cls_slot *slot, const text *t, u32 entry, int active,
                               __local u64 *scratch)
{
    u32 found = 0;
    if (active && (slot->flags & CLS_SLOT_LOOPS) && (entry & CLS_ENTRY_OUTPUT)) {
        const u32 repeats = slot->loop_repeats, shortest = slot->loop_min,
                  reach = min(slot->loop_max * repeats, t->length + 1);
        u32 n = 1 + LOCAL_ID;
        while (n * repeats <= reach) {
            const u32 same = entries_alike(t, entry, n, reach - n, ENTRY_KIND), all = same + n,
                      loop = max((shortest + n - 1) / n, 1u) * n;
            found |= (u32)(loop * repeats <= all);
            n += same < n ? WGS : ((same - n) / WGS + 1) * WGS;
        }
    }
    return wg_uor(found, scratch);
}
#endif
