/* SPDX-License-Identifier: MIT */
/* windows: finds how a token occurs in the windows of penalties that are shorter than the one that
 * a slot counts. Few requests have such windows: keeping counts for each would take memory of every
 * slot. */
#include "slot/effects.cl"

/* One entry, from the latest on: of the drafts before the row, and then of the text. */
#define LOOK_BACK(k) \
    if (age < most) { \
        const u32 entry = age < drafts ? p->path[drafts - 1 - age] : s->ring[at]; \
        at = age < drafts ? at : at == 0 ? s->n_ring - 1 : at - 1; \
        if (((entry ^ id) & CLS_ENTRY_ID) == 0) { \
            const u32 counts = (u32)entry_counts(entry, slot->flags); \
            known |= age < repetition ? OCCURS : 0u; \
            known |= counts != 0 && age < presence ? OCCURS_PRESENT : 0u; \
            known += counts & (u32)(age < frequency); \
        } \
        age++; \
    }

/* Returns a token's occurrences, of which the longest window has `known`. */
static inline u32 look_in_windows(const history_effects *p, const cls_slot *slot,
                                  const slot_state *s, u32 drafts, u32 id, u32 known)
{
    const u32 repetition = CLS_WINDOW_OF(slot->windows, CLS_REPETITION),
              frequency = CLS_WINDOW_OF(slot->windows, CLS_FREQUENCY),
              presence = CLS_WINDOW_OF(slot->windows, CLS_PRESENCE),
              most = min(longest_short_window(slot->windows), slot->length + drafts);
    u32 age = 0, at = (slot->length + s->n_ring - 1) % s->n_ring;
    known = beyond_windows(slot->windows, known);
    SHORT_LOOP
    while (age < most) {
        CLS_EACH_4(LOOK_BACK)
    }
    return known;
}
