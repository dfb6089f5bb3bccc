/* SPDX-License-Identifier: MIT */
#include "row/maps.cl"
#include "slot/state.cl"

/* lookup: drafts what followed when the text of a request last ended as it does now (cls_draft()),
 * and what its grammar's states draft. The work-items divide the distances from the end among them,
 * so that each finds its nearest place. Launch: [WGS, requests]. */

/* A place is a number, which is the larger the more tokens before the place equal those before the
 * end and, where these are as many, the nearer to the end the place is. */
#define DISTANCES 0xfffffu
#define PLACE(same, distance) (((same) << 20) | (DISTANCES - (distance)))
#define SAME_OF(place) ((place) >> 20)

/* Returns the best place in the last n tokens of a text, by the whole group; 0 if there is none. */
static inline u32 find_place(const text *t, u32 n, u32 most, __local u64 *scratch)
{
    text before = *t;
    before.length--;
    const u32 end = n > 1 ? before.length % t->n_ring : 0u, last = n > 1 ? t->ring[end] : 0u;
    u32 best = 0;
    for (u32 distance = 1 + LOCAL_ID; distance < n && SAME_OF(best) < most; distance += WGS) {
        const u32 at = end >= distance ? end - distance : end + t->n_ring - distance;
        if (((t->ring[at] ^ last) & CLS_ENTRY_ID) == 0)
            best = max(best, PLACE(entries_alike(&before, last, distance, min(most, n - distance),
                                                 CLS_ENTRY_ID),
                                   distance));
    }
    return (u32)wg_imax((i32)best, scratch);
}

/* Returns whether the parameters of a request forbid an id after a text that a grammar rules: it is
 * not among the allowed ids, a bad word, or a stop id before min_tokens. */
static inline int forbids(__global const cls_slot *slot, __global const u32 *lists, const text *t,
                          u32 id)
{
    return ((slot->flags & CLS_SLOT_ALLOWED) &&
            !(lists[slot->allowed + (id >> 5)] >> (id & 31) & 1u)) ||
           list_find(lists + slot->banned, slot->n_banned, id) < slot->n_banned ||
           (t->outputs < slot->min_tokens && is_stop(slot, lists, id) &&
            !leaves_ends(slot, lists, t->grammar));
}

/* Writes the drafts of a request whose text a grammar rules: of each state its draft token or,
 * where it has none, what the text has at a distance from its end (0: nothing), as long as the
 * drafts before are the text's, too. They end with the text, or before what is certain to be
 * refused. Returns their number. By one item. */
static inline u32 draft_by_grammar(const step_args *s, __global const cls_slot *slot, const text *t,
                                   u32 distance, __global i32 *drafts, size_t stride)
{
    __global const u32 *const g = s->lists + slot->grammar, *const lists = lists_of(s, slot);
    text now = *t;
    u32 n = 0, ended = 0;
    while (n < s->args->drafts && !ended && now.grammar < g[CLS_GRAMMAR_STATES]) {
        const u32 copied =
            distance != 0 ? text_entry(t, distance - n % distance) & CLS_ENTRY_ID : CLS_NO_DRAFT;
        u32 id = grammar_draft(g, now.grammar);
        if (id == CLS_NO_DRAFT)
            id = copied;
        if (id == CLS_NO_DRAFT || forbids(slot, lists, &now, id))
            break;
        ended = text_next(slot, s->lists, &now, id, 1);
        if (now.grammar == CLS_GRAMMAR_DEAD)
            break;
        drafts[stride * n++] = (i32)id;
        if (id != copied)
            distance = 0;
    }
    for (u32 i = n; i < s->args->drafts; i++)
        drafts[stride * i] = s->args->invalid_token;
    return n;
}

KERNEL void cls_lookup(STEP_PARAMETERS(CLS_LOOKUP_BUFFERS))
{
    __local u64 scratch[WGS];
    const step_args s = STEP_OF(CLS_LOOKUP_BUFFERS);
    const u32 request = get_group_id(1);
    const i32 slot_index = mapped_slot(&s, request);
    __global const cls_slot *const slot = slot_of(&s, slot_index);
    const slot_state kept = state_of(state, s.args->layout, s.vocab, valid_slot(slot_index));
    const int searches = slot_index >= 0 && !slot->stopped;
    const text t = text_of(slot, kept.ring, kept.n_ring, searches);
    const u32 place =
        find_place(&t, min(t.length, CLS_LAYOUT_HISTORY(s.args->layout)), s.args->max_n, scratch);
    const int found = place != 0 && SAME_OF(place) >= s.args->min_n;
    const u32 distance = found ? DISTANCES - (place & DISTANCES) : 0u;
    const size_t first = wide_offset(s.args->tokens_offset, s.args->ids_apart, request),
                 stride = (size_t)u64_of(s.args->ids_stride);
    u32 n = found ? s.args->drafts : 0u;
    if (searches && grammar_rules(slot, &t)) {
        if (LOCAL_ID == 0)
            n = draft_by_grammar(&s, slot, &t, distance, tokens + first, stride);
    } else {
        for (u32 i = LOCAL_ID; i < s.args->drafts; i += WGS)
            tokens[first + stride * i] =
                found ? (i32)(text_entry(&t, distance - i % distance) & CLS_ENTRY_ID)
                      : s.args->invalid_token;
    }
    if (LOCAL_ID == 0 && (s.args->wants & CLS_WANTS(CLS_VERIFIED_EMITTED)))
        OUTPUT(&s, emitted, CLS_VERIFIED_EMITTED)[request] = (i32)n;
}
