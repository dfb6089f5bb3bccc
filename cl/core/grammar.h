/* SPDX-License-Identifier: MIT */
/* A grammar as the host and the kernels read it: words of 32 bits, in the order of this file. All
 * offsets are from the first word. C and OpenCL C both compile this file. */
#ifndef CLS_GRAMMAR_WORDS_H
#define CLS_GRAMMAR_WORDS_H

#include "core/tiles.h"

#ifdef __OPENCL_C_VERSION__
#define CLS_GLOBAL __global
#define CLS_GRAMMAR_ENDED 0x7ffffffeu
#define CLS_GRAMMAR_DEAD 0x7fffffffu
#else
#define CLS_GLOBAL
#endif

/* The first words: the number of states, then the offsets of the parts that follow.
 *
 * class_of [vocab]: each id's class.
 * members [classes + 1]: where the ids of each class begin, ascending; then these ids. Class 0, of
 * the ids that no state allows, has none of them here.
 * states [states + 1]: of each state two words: the offset of its transitions, and that of the
 * bitmap of its ids, or 0 if these are at most CLS_GRAMMAR_LISTED.
 * The transitions of all states: a class and the state after it, in ascending order of classes.
 * The bitmaps, state_bitmap() words each.
 * drafts [states], unless its offset is 0: the draft token of each state, or CLS_NO_DRAFT. A state
 * that allows one id has none here: that id is its draft token. */
enum {
    CLS_GRAMMAR_STATES = 0,
    CLS_GRAMMAR_CLASS_OF = 1,
    CLS_GRAMMAR_MEMBERS = 2,
    CLS_GRAMMAR_STATE = 3,
    CLS_GRAMMAR_DRAFTS = 4,
    CLS_GRAMMAR_HEADER = 5, /* words */
};
#define CLS_NO_DRAFT 0xffffffffu

/* The most ids of a set that is no bitmap. A row writes such a set to a bitmap of its own. */
#define CLS_GRAMMAR_LISTED 256u

/* Returns the two words of a state. */
CLS_INLINE CLS_GLOBAL const u32 *grammar_state_at(CLS_GLOBAL const u32 *g, u32 state)
{
    return g + g[CLS_GRAMMAR_STATE] + 2 * state;
}

/* Returns the state after an id. The loop makes at most three trips (rule 5 in doc/kernels.md). */
#define CLS_GRAMMAR_HALVE \
    { \
        const u32 middle = n >> 1; \
        at += (u32)(n > 1 && pairs[2 * (at + middle)] <= id_class) * middle; \
        n -= middle; \
    }
CLS_INLINE u32 grammar_next(CLS_GLOBAL const u32 *g, u32 state, u32 id)
{
    if (state >= g[CLS_GRAMMAR_STATES])
        return CLS_GRAMMAR_DEAD;
    CLS_GLOBAL const u32 *const record = grammar_state_at(g, state), *const pairs = g + record[0];
    const u32 id_class = g[g[CLS_GRAMMAR_CLASS_OF] + id];
    u32 n = (record[2] - record[0]) / 2, at = 0;
    while (n > 1) {
        CLS_GRAMMAR_HALVE CLS_GRAMMAR_HALVE CLS_GRAMMAR_HALVE CLS_GRAMMAR_HALVE CLS_GRAMMAR_HALVE
            CLS_GRAMMAR_HALVE CLS_GRAMMAR_HALVE CLS_GRAMMAR_HALVE
    }
    return n != 0 && pairs[2 * at] == id_class ? pairs[2 * at + 1] : CLS_GRAMMAR_DEAD;
}

/* Returns the draft token of a state, or CLS_NO_DRAFT. */
CLS_INLINE u32 grammar_draft(CLS_GLOBAL const u32 *g, u32 state)
{
    if (state >= g[CLS_GRAMMAR_STATES])
        return CLS_NO_DRAFT;
    CLS_GLOBAL const u32 *const record = grammar_state_at(g, state);
    CLS_GLOBAL const u32 *const begin = g + g[CLS_GRAMMAR_MEMBERS] + g[record[0]];
    if (record[2] - record[0] == 2 && begin[1] - begin[0] == 1)
        return g[begin[0]];
    return g[CLS_GRAMMAR_DRAFTS] != 0 ? g[g[CLS_GRAMMAR_DRAFTS] + state] : CLS_NO_DRAFT;
}

/* Where the bitmaps of rows with a grammar are: the lists have for each row, from
 * args->grammar_rows on, a word and room for a bitmap. The word is the offset of the row's bitmap
 * of allowed ids, which is that of the grammar's state, the request's, or the row's own; or
 * CLS_NO_BITMAP. */
#define CLS_NO_BITMAP 0xffffffffu
CLS_INLINE u32 grammar_row_words(u32 vocab) { return 1 + state_bitmap(vocab); }

#endif
