/* SPDX-License-Identifier: MIT */
/* A slot's resident state.
 *
 * Beside its cls_slot a slot has a region of the buffer `state`, in words of 32 bits: bitmaps of
 * the vocabulary (adjusted tokens, and those that are in context for the repetition penalty
 * alone), counts, a ring buffer of the latest tokens, and the adaptive state and the states of the
 * thinking budget and of the grammar before each token that can be rolled back. `layout` says which
 * of these parts exist: a cls_counts, the history (1 to 16,384, or a multiple of 64 up to
 * 1,048,576) and the rollback (0 to 16,384). */
#ifndef CLS_STATE_H
#define CLS_STATE_H

#include "core/tiles.h"

#ifdef __OPENCL_C_VERSION__
enum {
    CLS_COUNTS_NONE = 0,     /* nothing for penalties */
    CLS_COUNTS_PRESENCE = 1, /* whether a token counts, one bit */
    CLS_COUNTS_ALL = 2,      /* how often it counts, 16 bits */
};
#endif
#define CLS_LAYOUT(counts, history, rollback) \
    ((u32)(counts) | (u32)((history) > CLS_MAX_HISTORY) << 2 | \
     (u32)((history) > CLS_MAX_HISTORY ? (history) / CLS_HISTORY_UNIT - 1 : (history)-1) << 3 | \
     (u32)(rollback) << 17)
#define CLS_LAYOUT_COUNTS(layout) ((layout)&3u)
#define CLS_LAYOUT_IS_LONG(layout) ((layout) >> 2 & 1u)
#define CLS_LAYOUT_HISTORY(layout) \
    ((((layout) >> 3 & 0x3fffu) + 1) << 6 * CLS_LAYOUT_IS_LONG(layout))
#define CLS_LAYOUT_ROLLBACK(layout) ((layout) >> 17)
#define CLS_LAYOUT_RING(layout) (CLS_LAYOUT_HISTORY(layout) + CLS_LAYOUT_ROLLBACK(layout))
enum {
    CLS_MAX_HISTORY = 16384, /* tokens that parameters can be about; DRY and n-grams see no more */
    CLS_HISTORY_UNIT = 64,   /* of longer histories, which cls_draft() searches */
    CLS_MAX_TEXT = CLS_MAX_HISTORY * CLS_HISTORY_UNIT,
    CLS_ADAPTIVE_WORDS = 4, /* of a cls_slot_adaptive */
    CLS_MAX_COUNT = 65535,
};

/* An entry of the ring: a token's id, and what it was. */
#define CLS_ENTRY_ID 0x000fffffu
#define CLS_ENTRY_OUTPUT 0x80000000u
#define CLS_ENTRY_FIRST 0x40000000u /* no equal token counted before it */

/* These functions return the offset of each part, and the size of the region. */
CLS_INLINE u32 state_adjusted(void) { return 0; }
CLS_INLINE u32 state_in_context(u32 vocab, u32 layout)
{
    return CLS_LAYOUT_COUNTS(layout) != CLS_COUNTS_NONE ? state_bitmap(vocab) : 0u;
}
CLS_INLINE u32 state_counts(u32 vocab, u32 layout) { return state_in_context(vocab, layout) * 2; }
CLS_INLINE u32 state_ring(u32 vocab, u32 layout)
{
    /* A count takes 16 bits a token, or 1, or none. This is not written with ?:, which Oclgrind
     * gets wrong. */
    const u32 counts = CLS_LAYOUT_COUNTS(layout);
    return state_counts(vocab, layout) + state_bitmap(vocab) * ((counts >> 1) * 16 + (counts & 1u));
}
CLS_INLINE u32 state_adaptive(u32 vocab, u32 layout)
{
    return state_ring(vocab, layout) + (CLS_LAYOUT_RING(layout) + 15) / 16 * 16;
}
CLS_INLINE u32 state_thinking(u32 vocab, u32 layout)
{
    return state_adaptive(vocab, layout) +
           (CLS_LAYOUT_ROLLBACK(layout) * CLS_ADAPTIVE_WORDS + 15) / 16 * 16;
}
CLS_INLINE u32 state_grammar(u32 vocab, u32 layout)
{
    return state_thinking(vocab, layout) + (CLS_LAYOUT_ROLLBACK(layout) + 15) / 16 * 16;
}
CLS_INLINE u32 state_words(u32 vocab, u32 layout)
{
    return state_grammar(vocab, layout) + (CLS_LAYOUT_ROLLBACK(layout) + 15) / 16 * 16;
}

/* Returns how many tokens follow the state at a place of a ring of `rollback` states, if the text
 * has `length` tokens. */
CLS_INLINE u32 state_back(u32 length, u32 place, u32 rollback)
{
    return (length + rollback - 1 - place) % rollback + 1;
}

/* No history is as long: a longer sequence of tokens is as if it had this length. */
#define CLS_LONGER 0xffffu

#endif
