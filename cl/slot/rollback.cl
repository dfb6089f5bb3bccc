/* SPDX-License-Identifier: MIT */
/* rollback: takes tokens back from a slot, whose counts may have to be made again from its history,
 * and stores a slot that has changed by more than a token. */
#include "slot/entries.cl"

/* A single item makes at most 32,768 iterations in each loop and fewer than 65,535 in all of a
 * call's loops (see the rules in doc/kernels.md), even with 1,048,576 tokens that all have a bias.
 * So words of bitmaps and of lists are processed as vectors. */
/* clang-format off */
#define EACH_16(STEP) \
    STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7) \
    STEP(8) STEP(9) STEP(a) STEP(b) STEP(c) STEP(d) STEP(e) STEP(f)
/* clang-format on */
#if VEC == 16
#define EACH_LANE EACH_16
#else
#define EACH_LANE CAT(CLS_EACH_, VEC)
#endif
/* A slot's bitmaps have so many words. */
#define WHOLE_WORDS(s) (((s)->words + 15) / 16 * 16)

/* Clears the counts of the tokens of a word. */
static inline void clear_counts(const slot_state *s, u32 word)
{
    for (u32 k = 0; k < 16; k += VEC)
        VSTORE((UV)(0u), s->counts + word * 16 + k);
}

/* Clears the counts and the tokens in context. */
#define CLEAR_COUNTS(k) \
    if (adjusted.s##k != 0) \
        clear_counts(s, w + 0x##k);
static inline void state_clear(const slot_state *s)
{
    for (u32 w = LOCAL_ID * VEC; w < WHOLE_WORDS(s); w += WGS * VEC) {
        const UV adjusted = VLOAD(s->adjusted + w);
        if (!ANY(adjusted != 0u))
            continue;
        VSTORE((UV)(0u), s->adjusted + w);
        VSTORE((UV)(0u), s->in_context + w);
        if (s->counting == CLS_COUNTS_PRESENCE) {
            VSTORE((UV)(0u), s->counts + w);
        } else {
            EACH_LANE(CLEAR_COUNTS)
        }
    }
    BARRIER();
}

/* Counts the ring's latest n entries again, and sets their CLS_ENTRY_FIRST. */
static inline void state_recount(const slot_state *s, u32 length, u32 n, u32 flags,
                                 __local u64 *scratch)
{
    if (s->counting == CLS_COUNTS_NONE)
        return;
    BARRIER();
    state_clear(s);
    if (n != 0) {
        const u32 at = length - n;
        const added a = {s->ring, at % s->n_ring, s->n_ring, at, n, flags, 1, 1};
        add_entries(s, &a, scratch);
    }
}

/* Rolls the latest n output tokens back; returns 0 if that is impossible. */
static inline int state_rollback(cls_slot *slot, const slot_state *s, u32 n, u32 most,
                                 __local u64 *scratch)
{
    u32 others = 0; /* entries that are not output */
    if (n > slot->length || (n != 0 && slot->length - (n - 1) + most <= slot->longest))
        return 0;
    for (u32 j = LOCAL_ID; j < n; j += WGS)
        others |= ~s->ring[(slot->length - 1 - j) % s->n_ring] & CLS_ENTRY_OUTPUT;
    if (n != 0 && wg_uor(others, scratch) != 0) /* the same for the whole group */
        return 0;
    if (slot->window == 0) {
        for (u32 j = 0; j < n; j++) {
            const u32 entry = s->ring[(slot->length - 1 - j) % s->n_ring];
            if ((entry & CLS_ENTRY_ID) / 32 % WGS == LOCAL_ID)
                state_remove(s, entry, slot->flags, (entry & CLS_ENTRY_FIRST) != 0);
        }
    }
    if (n > 0) {
        adaptive_load(s, slot->length - n, &slot->adaptive);
        if (slot->flags & CLS_SLOT_THINKING) /* else an earlier request may have left its states */
            slot->thinking = s->thinking[(slot->length - n) % s->n_adaptive];
        if (slot->flags & CLS_SLOT_GRAMMAR)
            slot->grammar_state = grammar_ring(s)[(slot->length - n) % s->n_adaptive];
    }
    slot->pending = -1;
    slot->position -= n;
    slot->outputs -= n;
    slot->length -= n;
    if (slot->window != 0)
        state_recount(s, slot->length, min(slot->window, slot->length), slot->flags, scratch);
    BARRIER();
    return 1;
}

/* Stores a slot that has changed, and whether its request has ended: by its latest token, by the
 * number of its tokens, by its grammar or in a loop. By the whole group. */
static inline void store_changed(__global cls_slot *to, cls_slot *slot, const slot_state *s,
                                 __global const u32 *lists, __local u64 *scratch)
{
    BARRIER(); /* every item has read the slot */
    if (LOCAL_ID == 0) {
        const u32 latest = s->ring[(slot->length - 1) % s->n_ring];
        *to = *slot;
        to->stopped = (slot->flags & CLS_SLOT_BEGUN) != 0 && slot->outputs != 0 &&
                      (slot->grammar_state == CLS_GRAMMAR_ENDED ||
                       ends_request(to,
                                    (latest & CLS_ENTRY_OUTPUT) &&
                                        is_stop(to, lists + slot->lists, latest & CLS_ENTRY_ID),
                                    slot->outputs, slot->thinking) != 0);
    }
#if FORCED
    if ((slot->flags & (CLS_SLOT_BEGUN | CLS_SLOT_LOOPS | CLS_SLOT_LOOPS_THINK)) !=
            (CLS_SLOT_BEGUN | CLS_SLOT_LOOPS) ||
        slot->length == 0)
        return; /* the same for the whole group */
    BARRIER();
    text t = text_of(to, s->ring, s->n_ring, 1);
    t.length--;
    const int loops = ends_in_loop(to, &t, s->ring[t.length % s->n_ring], 1, scratch);
    if (LOCAL_ID == 0 && loops)
        to->stopped = 1;
#endif
}
