/* SPDX-License-Identifier: MIT */
/* effects: stores what the history does to a row's logits. This is computed before the logits are
 * read. There is a bitmap of the tokens that are changed (marks), a bitmap of those that are
 * banned, and for the tokens that DRY penalizes an entry each. The entry of a text position is for
 * the token at that position; the entries whose tokens share a word of the bitmap form a chain.
 * Kernels that read logits look at all this for marked tokens only.
 *
 * Work-items divide the work by words of the bitmap: a word and its chain belong to one item, so
 * that nothing need be atomic. */
#include "core/effects.h"
#include "core/vectors.cl"
#include "slot/state.cl"

typedef struct history_effects {
    __global u32 *marks, *banned, *chains, *text, *links;
    __global const u32 *amounts; /* the penalty of DRY, by exponent */
    u32 length;                  /* the number of links; what follows them is scratch */
    u32 has_text;                /* 0: there is no text, and `chains` points to the bans */
    __global cls_row_text *found;
    __global u32 *path, *patches; /* path: entries; patches: pairs of words */
    __global u32 *buckets; /* the chains of patches: the index of the first patch plus 1, or 0 */
} history_effects;

static inline history_effects effects_of(__global u32 *effects, u32 layout, u32 vocab, u32 row)
{
    history_effects p;
    p.marks = effects + (size_t)effects_words(vocab, layout) * row;
    p.banned = p.marks + effects_banned(vocab);
    p.chains = p.marks + effects_chains(vocab, layout);
    p.text = p.marks + effects_text(vocab, layout);
    p.length = effects_length(layout);
    p.has_text = CLS_LAYOUT_HISTORY(layout) > 1;
    p.links = p.text + p.length;
    p.found = (__global cls_row_text *)(p.marks + effects_drafts(vocab, layout));
    p.path = (__global u32 *)(p.found + 1);
    p.patches = p.path + CLS_MAX_DRAFTS;
    p.buckets = p.patches + 2 * CLS_MAX_PATCHES;
    p.amounts = 0; /* row_view() sets it */
    return p;
}

/* Returns whether history effects must be computed for a slot's rows. (Rows that follow drafts have
 * cls_row_text.marked for that.) */
static inline u32 has_effects(__global const cls_slot *slot)
{
    return (slot->flags & CLS_SLOT_HISTORY) && !slot->stopped &&
           ((slot->n_dry | slot->ngram | slot->n_banned | slot->n_bad_words | slot->windows |
             (slot->flags & CLS_SLOT_STOPS_BANNED)) != 0 ||
            slot->outputs < slot->min_tokens);
}

static inline u32 bit_of(__global const u32 *bitmap, u32 id)
{
    return bitmap[id >> 5] >> (id & 31) & 1u;
}

/* The first word of a patch has the id and, above it, the next patch of its chain; the second one
 * has what the token counts. The function returns the index of an id's patch plus 1, or 0. */
#define PATCH_NEXT 20
static inline u32 patch_of(const history_effects *p, u32 id)
{
    u32 at = p->buckets[id % CLS_PATCH_BUCKETS];
    while (at != 0 && (p->patches[2 * at - 2] & CLS_ENTRY_ID) != id)
        at = p->patches[2 * at - 2] >> PATCH_NEXT;
    return at;
}

/* How a token occurs, for each penalty in its window: how often it counts, whether it counts for
 * presence, and whether it occurs. */
#define OCCURS_COUNT 0xffffu
#define OCCURS_PRESENT 0x10000u
#define OCCURS 0x20000u
static inline u32 occurrences_of(u32 count, u32 in_context)
{
    return count | (count != 0 ? OCCURS_PRESENT | OCCURS : in_context != 0 ? OCCURS : 0u);
}

/* Returns the occurrences of a token that lies outside the short windows. */
static inline u32 beyond_windows(u32 windows, u32 known)
{
    return known & ~((CLS_WINDOW_OF(windows, CLS_REPETITION) ? OCCURS : 0u) |
                     (CLS_WINDOW_OF(windows, CLS_FREQUENCY) ? OCCURS_COUNT : 0u) |
                     (CLS_WINDOW_OF(windows, CLS_PRESENCE) ? OCCURS_PRESENT : 0u));
}

/* Returns the occurrences of a marked token: its new ones, if it has a patch. */
static inline u32 find_patch(const history_effects *p, u32 id, u32 known)
{
    const u32 at = patch_of(p, id);
    return at == 0 ? known : p->patches[2 * at - 1] & (OCCURS | OCCURS_PRESENT | OCCURS_COUNT);
}

/* The start of a chain and the low half of a link are a position plus 1, or 0. The high half of a
 * link is the exponent. */
#define LINK_BITS 15
#define LINK_NEXT 0x7fffu

/* The entry of an id, or 0. Each iteration makes two steps: chains have at most 32 entries, but a
 * text may need a search for every token. */
#define LINK_STEP \
    if (at != 0 && p->text[at - 1] != id) \
        at = p->links[at - 1] & LINK_NEXT;
static inline u32 find_entry(const history_effects *p, u32 id)
{
    u32 at = p->has_text ? p->chains[id >> 5] : 0u;
    while (at != 0 && p->text[at - 1] != id) {
        LINK_STEP LINK_STEP
    }
    return at;
}

/* Applies the history effects to a marked token's logit. */
static inline f32 apply_effects(const history_effects *p, u32 id, f32 x)
{
    if (!(x > CLS_MASKED) || (p->banned[id >> 5] >> (id & 31) & 1u))
        return CLS_MASKED;
    const u32 at = find_entry(p, id);
    return at == 0 ? x : settle(x - as_float(p->amounts[p->links[at - 1] >> LINK_BITS]));
}

/* What happens to a token: 0 only marks it, after all other marks; exponent + 1 penalizes it by
 * DRY; CODE_BAN, the largest, bans it. It is packed with a position of the text that has the token,
 * where its entry goes. */
#define CODE_BAN 0x7fffu
#define POSITION_BITS 14
#define PACK(code, position) ((code) << POSITION_BITS | (position))

/* Bans tokens of a word, a bit each. */
static inline void ban_word(const history_effects *p, u32 w, u32 bits)
{
    if (p->marks[w] == 0) {
        p->chains[w] = 0;
        p->banned[w] = 0;
    }
    p->marks[w] |= bits;
    p->banned[w] |= bits;
}

static inline void mark_token(const history_effects *p, u32 id, u32 pack)
{
    const u32 code = pack >> POSITION_BITS, position = pack & ((1u << POSITION_BITS) - 1);
    const u32 w = id >> 5, bit = 1u << (id & 31), marks = p->marks[w];
    if (marks == 0) {
        p->chains[w] = 0;
        p->banned[w] = 0;
    }
    p->marks[w] = marks | bit;
    if (code == CODE_BAN) {
        p->banned[w] |= bit;
    } else if (code != 0 && !(marks & bit)) {
        p->links[position] = (code - 1) << LINK_BITS | p->chains[w];
        p->chains[w] = position + 1;
    } else if (code > 1 && !(p->banned[w] & bit)) {
        __global u32 *const link = p->links + (find_entry(p, id) - 1);
        if (code - 1 > *link >> LINK_BITS)
            *link = (code - 1) << LINK_BITS | (*link & LINK_NEXT);
    }
}

/* Marks each item's token (or NO_ID) by the whole group: the item that owns the token's word writes
 * the mark. */
#define NO_ID CLS_MAX_VOCAB
static inline void mark_chunk(const history_effects *p, u32 id, u32 pack, __local uint2 *chunk)
{
#if WGS == 1
    if (id != NO_ID)
        mark_token(p, id, pack);
#else
    BARRIER();
    chunk[LOCAL_ID] = (uint2)(id, pack);
    BARRIER();
    for (u32 i = 0; i < WGS; i++)
        if ((chunk[i].x >> 5) % WGS == LOCAL_ID && chunk[i].x != NO_ID)
            mark_token(p, chunk[i].x, chunk[i].y);
#endif
}

static inline void clear_marks(const history_effects *p, u32 vocab)
{
    BARRIER();
    for (u32 w = LOCAL_ID * VEC; w < state_bitmap(vocab); w += WGS * VEC)
        VSTORE((UV)(0u), p->marks + w);
    BARRIER();
}
