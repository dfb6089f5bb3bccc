/* SPDX-License-Identifier: MIT */
/* patches: computes new counts of tokens for a row that follows drafts, and of tokens in windows of
 * penalties that are shorter than the one that the slot counts. The drafts before the row, its
 * path, count like accepted tokens, and they push the oldest tokens out of the penalty window. A
 * patch holds what such a token counts once the path is in the history. The patches lie in a small
 * hash table, in chains by id.
 *
 * Where only the window can tell whether a token still occurs in it, the window is searched. The
 * row's bitmap of marks, which is not in use yet, then holds the tokens to search for, and each
 * entry of the window is looked up in it once. */
#include "slot/windows.cl"

/* A patch while it is computed: how often the path has the token within the window (PATCH_IN); how
 * many counting entries leave the window (PATCH_OUT); that an entry of a kind (0: in context, 1:
 * counts) leaves and the window must be searched for others (PATCH_LEAVES); that the search found
 * one (PATCH_STAYS). */
enum {
    PATCH_IN = 1,
    PATCH_OUT = 1 << 8,
    PATCH_SUMS = 0xffff,
};
#define PATCH_LEAVES(kind) ((1u << 16) << (kind))
#define PATCH_STAYS(kind) ((1u << 18) << (kind))
#define PATCH_USED (1u << 20)

/* How the path changes the window. */
typedef struct window_change {
    u32 drafts, recent; /* recent: those of the history that short windows have */
    u32 n;              /* the tokens of the path, those that leave the window, and `recent` */
    u32 old, kept;      /* the start of the window in the history, before and after */
    u32 from;           /* the start of the new window in history and path together */
} window_change;

static inline window_change window_change_of(const cls_slot *slot, u32 drafts)
{
    const u32 length = slot->length, end = length + drafts;
    window_change c;
    c.drafts = drafts;
    c.old = slot->window != 0 && length > slot->window ? length - slot->window : 0;
    c.from = slot->window != 0 && end > slot->window ? end - slot->window : 0;
    c.kept = min(max(c.from, c.old), length);
    c.recent = min(longest_short_window(slot->windows), length);
    c.n = drafts + (c.kept - c.old) + c.recent;
    return c;
}

/* Token i: its id, and what it adds to its patch. */
static inline uint2 window_change_token(const history_effects *p, const window_change *c,
                                        const cls_slot *slot, const slot_state *s, u32 i)
{
    if (i < c->drafts)
        return (uint2)(p->path[i] & CLS_ENTRY_ID,
                       PATCH_USED | (slot->length + i >= c->from ? PATCH_IN : 0u));
    if (i >= c->n - c->recent)
        return (uint2)(s->ring[(slot->length - (c->n - i)) % s->n_ring] & CLS_ENTRY_ID, PATCH_USED);
    const u32 entry = s->ring[(c->old + i - c->drafts) % s->n_ring];
    const u32 counts = (u32)entry_counts(entry, slot->flags);
    u32 adds = PATCH_USED | counts * PATCH_OUT;
    if (!counts || s->counting == CLS_COUNTS_PRESENCE) /* counts know how many entries are left; for
                                                 bits the window must be searched */
        adds |= PATCH_LEAVES(counts);
    return (uint2)(entry & CLS_ENTRY_ID, adds);
}

/* Adds to the token's patch, or makes a new one with index i. The patches of a chain belong to one
 * work-item. */
static inline void add_patch(const history_effects *p, u32 i, uint2 token)
{
    const u32 at = patch_of(p, token.x);
    if (at != 0) {
        __global u32 *const word = p->patches + (2 * at - 1);
        *word = (*word | (token.y & ~PATCH_SUMS)) + (token.y & PATCH_SUMS);
    } else {
        __global u32 *const first = p->buckets + token.x % CLS_PATCH_BUCKETS;
        p->patches[2 * i] = *first << PATCH_NEXT | token.x;
        p->patches[2 * i + 1] = token.y;
        *first = i + 1;
    }
}

/* Makes patches for all tokens. Returns the kinds for which the window must be searched, as
 * PATCH_LEAVES() bits. */
static inline u32 add_patches(const history_effects *p, const window_change *c,
                              const cls_slot *slot, const slot_state *s, __local uint2 *chunk,
                              __local u64 *scratch)
{
    const u32 lid = LOCAL_ID;
    u32 searches = 0;
    for (u32 i = lid * VEC; i < CLS_PATCH_BUCKETS; i += WGS * VEC)
        VSTORE((UV)(0u), p->buckets + i);
    for (u32 i = lid; i < c->n; i += WGS)
        p->patches[2 * i + 1] = 0;
    for (u32 first = 0; first < c->n; first += WGS) {
        const uint2 mine = first + lid < c->n ? window_change_token(p, c, slot, s, first + lid)
                                              : (uint2)(NO_ID, 0u);
        searches |= mine.y;
#if WGS == 1
        add_patch(p, first, mine);
#else
        BARRIER();
        chunk[lid] = mine;
        BARRIER();
        for (u32 k = 0; k < WGS; k++)
            if (chunk[k].x != NO_ID && chunk[k].x % CLS_PATCH_BUCKETS % WGS == lid)
                add_patch(p, first + k, chunk[k]);
#endif
    }
    BARRIER();
    return wg_uor(searches, scratch) & (PATCH_LEAVES(0) | PATCH_LEAVES(1));
}

/* ------------------------------------------------------------------ searching the window */

#define WORDS_OF(marks, w) \
    (uint16)((marks)[w.s0], (marks)[w.s1], (marks)[w.s2], (marks)[w.s3], (marks)[w.s4], \
             (marks)[w.s5], (marks)[w.s6], (marks)[w.s7], (marks)[w.s8], (marks)[w.s9], \
             (marks)[w.sa], (marks)[w.sb], (marks)[w.sc], (marks)[w.sd], (marks)[w.se], \
             (marks)[w.sf])

/* Notes in the patches of those of n ring entries whose tokens are marked and that are of a kind,
 * which `mask` tells, that the window still has them. A group of one item clears a mark once its
 * token is found, so that a frequent token is looked up once. */
static inline void search_entries(const history_effects *p, __global const u32 *ring, u32 n,
                                  u32 kind, u32 mask)
{
    const u32 is = kind * CLS_ENTRY_OUTPUT;
    for (u32 i = LOCAL_ID * VEC; i < n; i += WGS * VEC) {
        u32 hits = 0, k = i;
#if VEC == 16
        if (i + VEC <= n) {
            const UV entry = VLOAD(ring + i), w = (entry & CLS_ENTRY_ID) >> 5;
            const UV marked = WORDS_OF(p->marks, w) >> (entry & 31u) & 1u;
            hits = lane_bits((marked != 0u) & (((entry ^ is) & mask) == 0u));
            k = n;
        }
#endif
        for (; k < n && k < i + VEC; k++)
            hits |= (bit_of(p->marks, ring[k] & CLS_ENTRY_ID) & (u32)(((ring[k] ^ is) & mask) == 0))
                    << (k - i);
        for (; hits != 0; hits &= hits - 1) {
            const u32 id = ring[i + lowest_bit(hits)] & CLS_ENTRY_ID;
            atomic_or(p->patches + 2 * patch_of(p, id) - 1, PATCH_STAYS(kind));
#if WGS == 1
            p->marks[id >> 5] &= ~(1u << (id & 31));
#endif
        }
    }
}

/* Searches what stays of the window for the tokens of which an entry of a kind leaves. */
static inline void search_window(const history_effects *p, const window_change *c,
                                 const cls_slot *slot, const slot_state *s, u32 kind,
                                 __local uint2 *chunk)
{
    const u32 from = c->kept % s->n_ring, n = slot->length - c->kept,
              before_wrap = min(n, s->n_ring - from), lid = LOCAL_ID;
    const u32 mask = slot->flags & CLS_SLOT_SCOPE_ALL ? 0u : CLS_ENTRY_OUTPUT;
    for (u32 i = lid; i < c->n + lid; i += WGS) {
        const u32 wanted = i < c->n && (p->patches[2 * i + 1] & PATCH_LEAVES(kind));
        mark_chunk(p, wanted ? p->patches[2 * i] & CLS_ENTRY_ID : (u32)NO_ID, PACK(0u, 0u), chunk);
    }
    BARRIER();
    search_entries(p, s->ring + from, before_wrap, kind, mask);
    search_entries(p, s->ring, n - before_wrap, kind, mask);
    BARRIER();
}

/* ------------------------------------------------------------------ all together */

/* Makes a row's patches, by the whole group. The marks must be 0 before; they are 0 afterwards. */
static inline void make_patches(const history_effects *p, const cls_slot *slot, const slot_state *s,
                                u32 drafts, u32 vocab, __local uint2 *chunk, __local u64 *scratch)
{
    const window_change c = window_change_of(slot, drafts);
    const u32 searches = add_patches(p, &c, slot, s, chunk, scratch);
    for (u32 kind = 0; kind < 2; kind++)
        if (searches & PATCH_LEAVES(kind)) /* the same for the whole group */
            search_window(p, &c, slot, s, kind, chunk);
    if (searches != 0)
        clear_marks(p, vocab);
    for (u32 i = LOCAL_ID; i < c.n; i += WGS) {
        const u32 id = p->patches[2 * i] & CLS_ENTRY_ID, word = p->patches[2 * i + 1];
        if (!(word & PATCH_USED))
            continue;
        const u32 in = word & (PATCH_OUT - 1), out = (word & PATCH_SUMS) / PATCH_OUT;
        u32 in_context = bit_of(s->in_context, id), counts = count_of(s, id);
        if (word & PATCH_LEAVES(0))
            in_context = (u32)((word & PATCH_STAYS(0)) != 0);
        if (s->counting == CLS_COUNTS_ALL) {
            counts = min(counts - out + in, (u32)CLS_MAX_COUNT);
        } else {
            if (word & PATCH_LEAVES(1))
                counts = (u32)((word & PATCH_STAYS(1)) != 0);
            counts |= (u32)(in != 0);
        }
        u32 known = occurrences_of(counts, in_context);
        if (slot->windows != 0)
            known = look_in_windows(p, slot, s, drafts, id, known);
        p->patches[2 * i + 1] = PATCH_USED | known;
    }
    BARRIER();
    if (LOCAL_ID == 0)
        p->found->patches = c.n;
}

/* Marks the tokens that have patches, after all other marks are made. */
static inline void mark_patches(const history_effects *p, const cls_slot *slot, u32 drafts,
                                __local uint2 *chunk)
{
    const u32 n = window_change_of(slot, drafts).n, lid = LOCAL_ID;
    for (u32 i = lid; i < n + lid; i += WGS) {
        const u32 used = i < n && (p->patches[2 * i + 1] & PATCH_USED);
        mark_chunk(p, used ? p->patches[2 * i] & CLS_ENTRY_ID : (u32)NO_ID, PACK(0u, 0u), chunk);
    }
}
