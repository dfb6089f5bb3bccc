/* SPDX-License-Identifier: MIT */
/* The effects of a row's history.
 *
 * A row whose slot has CLS_SLOT_HISTORY has a region of the buffer `effects`, in words: a bitmap of
 * the tokens that the history changes (marks), and a bitmap of those that it bans, which is valid
 * only in words that have a mark. With a history of more than one token there are also: for each
 * word of these bitmaps the start of its chain of entries (valid likewise); the text, which is the
 * ids of the latest tokens, oldest first, behind 16 words that a vector load may read and ignore;
 * and twice the text's length for the entries and for scratch. */
#ifndef CLS_EFFECTS_H
#define CLS_EFFECTS_H

#include "core/slot.h"
#include "core/state.h"

CLS_INLINE u32 effects_banned(u32 vocab) { return state_bitmap(vocab); }
CLS_INLINE u32 effects_chains(u32 vocab, u32 layout) /* without a text the offset of the bans, which
                                                        is never followed: there is no entry */
{
    return state_bitmap(vocab) * (1 + (u32)(CLS_LAYOUT_HISTORY(layout) > 1));
}
CLS_INLINE u32 effects_text(u32 vocab, u32 layout)
{
    return effects_chains(vocab, layout) + state_bitmap(vocab) + 16;
}
CLS_INLINE u32 effects_tokens(u32 layout) /* that DRY, n-grams and bad words see */
{
    if (CLS_LAYOUT_IS_LONG(layout))
        return CLS_MAX_HISTORY;
    return CLS_LAYOUT_HISTORY(layout);
}
CLS_INLINE u32 effects_length(u32 layout) { return (effects_tokens(layout) + 63) / 64 * 64; }
/* What cls_prepare_rows has found about a row's text. The last two are for every row, the others
 * for rows that follow drafts. */
typedef struct cls_row_text {
    u32 marked;     /* marks are for this row */
    u32 drafts;     /* their number */
    u32 patches;    /* their number */
    u32 answers;    /* the request does not think, and has parameters for that */
    u32 only_ends;  /* the grammar and the allowed ids leave only ids that end the text */
    u32 bans_stops; /* the request thinks, and stop ids are banned meanwhile */
    u32 reserved[10];
} cls_row_text;

/* Behind these a cls_row_text, and where rows follow drafts or penalties have windows of their own:
 * the drafts as entries; the patches, which are tokens whose counts the drafts change, or that lie
 * in the short windows, with their new counts; and the starts of the chains of patches. */
#define CLS_MAX_DRAFTS 128
#define CLS_MAX_PATCHES (2 * CLS_MAX_DRAFTS + CLS_MAX_OWN_WINDOW)
#define CLS_PATCH_BUCKETS 256 /* chains of patches, by id */
CLS_INLINE u32 effects_drafts(u32 vocab, u32 layout)
{
    return effects_text(vocab, layout) + effects_length(layout) * 3;
}
CLS_INLINE u32 effects_words(u32 vocab, u32 layout)
{
    return effects_drafts(vocab, layout) + sizeof(cls_row_text) / 4 + CLS_MAX_DRAFTS +
           2 * CLS_MAX_PATCHES + CLS_PATCH_BUCKETS;
}

#endif
