/* SPDX-License-Identifier: MIT */
/* entries: adds entries to a slot's history: to its counts and to its ring. */
#include "slot/state.cl"

/* The item to which an entry belongs, as a byte: only one item may change a word of the bitmaps,
 * and it takes a token's entries in order. */
#define OWNERS (WGS < 256 ? WGS : 256)
static inline u32 entry_owner(u32 entry) { return (entry & CLS_ENTRY_ID) / 32 % OWNERS; }

/* Entries that are added to a history: n of them, from index `at` of the history on. Entry j is
 * from[first + j], where `from` begins again after `size` entries. */
typedef struct added {
    __global const u32 *from;
    u32 first, size, at, n;
    u32 flags; /* the slot's */
    int counts;
    u32 counted; /* beside `counts`: 0 if entry_counts() of none of them, as of most prompts */
} added;

/* Returns entry j. */
static inline u32 entry_of(const added *a, u32 j)
{
    return a->from[a->first + j - (a->first + j < a->size ? 0u : a->size)];
}

/* Stores entry j in the ring. */
static inline void add_entry(const slot_state *s, const added *a, u32 j)
{
    u32 entry = entry_of(a, j);
    if (a->counts)
        entry = state_add(s, entry, a->flags);
    if (j + s->n_ring >= a->n) /* later entries would overwrite it */
        s->ring[(a->at + j) % s->n_ring] = entry;
}

#if WGS == 1
static inline void add_entries(const slot_state *s, const added *a, __local u64 *scratch)
{
    for (u32 j = 0; j < a->n; j++)
        add_entry(s, a, j);
}
#else

#define ENTRIES (WGS < 16 ? 16 : WGS < 256 ? WGS / 8 * 16 : 512) /* of a chunk, at most 2^9 */
#define FOUND 7 /* as many numbers of 9 bits fit a u64 */

/* Returns which of 16 bytes equal one, a bit each. */
static inline u32 equal_bytes(uint4 bytes, u32 byte)
{
    const uint4 other = bytes ^ byte * 0x01010101u;
    const uint4 equal = (~((other & 0x7f7f7f7fu) + 0x7f7f7f7fu | other) & 0x80808080u) >> 7;
    const uint4 bits = equal * 0x10204080u >> 28; /* bits 0, 8, 16 and 24 become 0 to 3 */
    return bits.x | bits.y << 4 | bits.z << 8 | bits.w << 12;
}

/* Adds the entries whose numbers in a chunk of `here` entries an item has found. */
static inline void add_found(const slot_state *s, const added *a, u32 base, u32 here, u64 found,
                             u32 n_found)
{
    SHORT_LOOP
    for (; n_found > 0; n_found--) {
        const u32 j = u64_lo(found >> (9 * (n_found - 1))) & 511u;
        if (j < here)
            add_entry(s, a, base + j);
    }
}

/* Adds entries that are not counted: their order does not matter, and bits are set by atomic
 * operations. */
static inline void add_uncounted(const slot_state *s, const added *a)
{
    BARRIER(); /* the bitmaps were cleared by words */
    for (u32 j = LOCAL_ID; j < a->n; j += WGS) {
        u32 entry = entry_of(a, j);
        if (a->counts) {
            const u32 word = (entry & CLS_ENTRY_ID) >> 5, bit = 1u << (entry & 31);
            entry &= ~CLS_ENTRY_FIRST;
            if (s->counting != CLS_COUNTS_NONE) {
                atomic_or(s->adjusted + word, bit);
                atomic_or(s->in_context + word, bit);
            }
        }
        if (j + s->n_ring >= a->n)
            s->ring[(a->at + j) % s->n_ring] = entry;
    }
    BARRIER();
}

/* Adds entries, of which each item has those that belong to it. For each chunk of entries the items
 * write down to whom these belong, a byte each, and then look for their own, 16 at a time. An item
 * adds what it has found when it has seen the whole chunk: if it did so at once, the others would
 * wait for it each time. */
static inline void add_entries(const slot_state *s, const added *a, __local u64 *scratch)
{
    __local uchar *const owner = (__local uchar *)scratch;
    if (!a->counts || !a->counted) { /* the same for the whole group */
        add_uncounted(s, a);
        return;
    }
    for (u32 base = 0; base < a->n; base += ENTRIES) {
        const u32 here = min(a->n - base, (u32)ENTRIES);
        BARRIER();
        for (u32 j = LOCAL_ID; j < here; j += WGS)
            owner[j] = (uchar)entry_owner(entry_of(a, base + j));
        BARRIER();
        u64 found = 0;
        u32 n_found = 0;
        for (u32 j = 0; j < here && LOCAL_ID < OWNERS; j += 16) {
            u32 hits = equal_bytes(vload4(j / 16, (__local const u32 *)owner), LOCAL_ID);
            for (; hits != 0; hits &= hits - 1) {
                found = (found << 9) + (j + lowest_bit(hits));
                if (++n_found == FOUND) {
                    add_found(s, a, base, here, found, FOUND);
                    n_found = 0;
                }
            }
        }
        add_found(s, a, base, here, found, n_found);
    }
    BARRIER();
}
#endif
