/* SPDX-License-Identifier: MIT */
/* prepare: computes the history effects of rows, which are what a request's latest tokens do to the
 * logits. DRY penalizes tokens that would continue a repetition; no-repeat n-grams, bad words and
 * min_tokens ban tokens. */
#include "row/patches.cl"
#include "row/maps.cl"

/* ------------------------------------------------------------------- the text */

/* Copies the ids of n entries of the ring. */
static inline void copy_ids(__global u32 *to, __global const u32 *ring, u32 n)
{
    for (u32 i = LOCAL_ID * 16; i < n; i += WGS * 16) {
        if (i + 16 <= n)
            vstore16(vload16(0, ring + i) & CLS_ENTRY_ID, 0, to + i);
        for (u32 k = i; i + 16 > n && k < n; k++)
            to[k] = ring[k] & CLS_ENTRY_ID;
    }
}

/* Copies the latest n tokens, oldest first. */
static inline void copy_text(const history_effects *p, const slot_state *s, u32 length, u32 n)
{
    const u32 from = (length - n) % s->n_ring, before_wrap = min(n, s->n_ring - from);
    copy_ids(p->text, s->ring + from, before_wrap);
    copy_ids(p->text + before_wrap, s->ring, n - before_wrap);
}

/* Returns the length of the repetition that ends at position j: how many tokens up to j equal those
 * up to the end, n - 1. The first `known` are equal; the result is at most `most`, which is at most
 * j + 1. */
static inline u32 repeat_length(const history_effects *p, u32 n, u32 j, u32 known, u32 most)
{
    u32 z = known;
    while (z < most) {
        const uint16 a = vload16(0, p->text + j - z - 15),
                     b = vload16(0, p->text + (n - 1) - z - 15);
        const u32 unequal = lane_bits_16(a != b); /* lane 15 is compared first */
        if (unequal != 0)
            return min(z + clz(unequal) - 16, most);
        z += 16;
    }
    return most;
}

/* ------------------------------------------------------------------------ DRY */

/* Returns the index of the first breaker that begins with an id; breakers are sorted by first
 * id. */
static inline u32 first_breaker(const cls_slot *slot, __global const u32 *lists, u32 id)
{
    u32 lo = 0, hi = slot->n_breakers;
    while (lo < hi) {
        const u32 mid = (lo + hi) / 2;
        if (lists[lists[slot->breakers + mid] + 1] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Returns the length of the breaker that begins `back` tokens before the last; 0 if there is none.
 * Of breakers with the same first id the longest comes first. */
static inline u32 breaker_at(const history_effects *p, const cls_slot *slot,
                             __global const u32 *lists, u32 n, u32 back)
{
    const u32 at = n - 1 - back, id = p->text[at];
    if (!bit_of(lists + slot->dry_first_ids, id))
        return 0;
    for (u32 i = first_breaker(slot, lists, id); i < slot->n_breakers; i++) {
        __global const u32 *const breaker = lists + lists[slot->breakers + i];
        const u32 count = breaker[0];
        u32 same = 0;
        if (breaker[1] != id)
            break;
        if (count > back + 1)
            continue;
        while (same < count && breaker[1 + same] == p->text[at + same])
            same++;
        if (same == count)
            return count;
    }
    return bit_of(lists + slot->dry_single_ids, id);
}

/* Returns the greatest length of a repetition of the latest n tokens: `most`, or less if a breaker
 * is nearer. */
static inline u32 length_to_breaker(const history_effects *p, const cls_slot *slot,
                                    __global const u32 *lists, u32 text, u32 n, u32 most,
                                    __local u64 *scratch)
{
    /* A breaker of several tokens may begin further back than `most` and end within it. */
    const u32 far = slot->dry_first_ids == 0 ? 0u : slot->n_breakers != 0 ? n : min(n, most);
    i32 found = -1;
    for (u32 back = 0; back < far && found < 0; back += WGS) {
        const u32 mine = back + LOCAL_ID;
        const u32 count = mine < far ? breaker_at(p, slot, lists, text, mine) : 0u;
        /* The nearest breaker that an item of the group has found: its position, then the length
         * after it. */
        found = wg_imax(
            count != 0 ? (i32)(((CLS_MAX_HISTORY - mine) << LINK_BITS) | (mine + 1 - count)) : -1,
            scratch);
    }
    return found < 0 ? most : min(most, (u32)found & LINK_NEXT);
}

/* ---------------------------------------------------------------- the search for repetitions */

/* The parameters of the search in a text of n tokens. */
typedef struct repeat_search {
    u32 n, first;       /* first: where the window of DRY begins; n if DRY is off */
    u32 allowed, limit; /* the greatest lengths without a penalty, and with a growing one */
    u32 ngram;          /* the length that bans; more than n: none */
    u32 every;          /* also positions without a repetition have an effect */
    __global const u32 *singles; /* tokens without a penalty, if has_singles */
    u32 has_singles;
} repeat_search;

static inline repeat_search repeat_search_of(const history_effects *p, const cls_slot *slot,
                                             __global const u32 *lists, u32 n, __local u64 *scratch)
{
    const u32 window = slot->dry_window != 0 ? min(slot->dry_window, n) : n;
    repeat_search h;
    h.n = n;
    h.first = n;
    h.allowed = slot->dry_allowed;
    h.limit = 0;
    h.ngram = slot->ngram != 0 ? slot->ngram - 1 : n + 1;
    h.singles = lists + slot->dry_single_ids;
    h.has_singles = slot->dry_first_ids != 0;
    if (slot->n_dry != 0 && h.allowed < window) { /* the same for the whole group */
        h.limit = length_to_breaker(p, slot, lists, n, window,
                                    min(window, h.allowed + slot->n_dry - 1), scratch);
        h.first = h.limit >= h.allowed ? n - window : n;
    }
    h.every = slot->ngram == 1 || (h.first < n && h.allowed == 0);
    return h;
}

/* Returns the code for the token after position j, where a repetition of length z ends. */
static inline u32 hit_code(const history_effects *p, const repeat_search *h, u32 j, u32 z)
{
    if (z >= h->ngram)
        return CODE_BAN;
    if (j < h->first)
        return 0;
    const u32 length = min(min(z, h->limit), j - h->first + 1);
    return length < h->allowed || (h->has_singles && bit_of(h->singles, p->text[j + 1]))
               ? 0u
               : length - h->allowed + 1;
}

/* Returns the greatest length up to position j that makes a difference. */
static inline u32 longest_at(const repeat_search *h, u32 j)
{
    return min(j + 1, h->ngram <= h->n ? max(h->limit, h->ngram) : h->limit);
}

#if WGS == 1

/* Searches from the newest position to the oldest, with Gusfield's Z boxes: what lies inside a
 * repetition that was measured is not compared again. A text of one repeated token costs one
 * comparison a position. */
static inline void search_repetitions(const history_effects *p, const repeat_search *h,
                                      __local uint2 *chunk, __local u64 *scratch)
{
    __global u32 *const lengths =
        p->links + p->length; /* the lengths of repetitions, by position */
    const u32 n = h->n, last = p->text[n - 1];
    u32 left = 0, right = 0;  /* the Z box: how far back its repetition ends and begins */
    u32 id = NO_ID, done = 0; /* the last token that was marked, and its code */
    for (u32 chunk = (n - 1 + 63) / 64 * 64; chunk > 0; chunk -= 64) {
        int16 some = (int16)(0);
        for (u32 k = 0; k < 64; k += 16)
            some |= vload16(0, p->text + (chunk - 64 + k)) == last;
        if (!h->every && fold_or16(some) == 0)
            continue;
        for (u32 base = chunk; base > chunk - 64; base -= 16) {
            const u32 start = base - 16;
            const u32 equal = lane_bits_16(vload16(0, p->text + start) == last);
            u32 hits = h->every ? 0xffffu : equal;
            if (start + 16 > n - 1)
                hits &= start >= n - 1 ? 0u : 0xffffu >> (start + 16 - (n - 1));
            while (hits != 0) {
                const u32 lane = 31 - clz(hits), j = start + lane, back = n - 1 - j;
                u32 z = 0;
                hits ^= 1u << lane;
                if (equal >> lane & 1u) {
                    z = back < right ? lengths[j + left] : 0u;
                    if (back + z >= right)
                        z = repeat_length(p, n, j, max(right, back + 1) - back, longest_at(h, j));
                    lengths[j] = z;
                    if (back + z > right) {
                        left = back;
                        right = back + z;
                    }
                }
                /* A text that repeats itself has the same token after each hit. */
                const u32 code = hit_code(p, h, j, z), next = p->text[j + 1];
                if (code > (next == id ? done : 0u)) {
                    mark_token(p, next, PACK(code, j + 1));
                    id = next;
                    done = code;
                }
            }
        }
    }
}

#else

/* Each item compares part of the positions. What they find goes into a list, from which each item
 * takes the tokens that it owns. */
static inline void search_repetitions(const history_effects *p, const repeat_search *h,
                                      __local uint2 *chunk, __local u64 *scratch)
{
    __global u32 *const found = p->links, *const list = p->links + p->length;
    const u32 lid = LOCAL_ID, n = h->n, last = p->text[n - 1];
    u32 count = 0, total = 0, pack = 0, id = 0;
    for (u32 j = lid; j + 1 < n; j += WGS) {
        const u32 hit = p->text[j] == last;
        const u32 code =
            hit || h->every
                ? hit_code(p, h, j, hit ? repeat_length(p, n, j, 1, longest_at(h, j)) : 0)
                : 0u;
        if (code == 0)
            continue;
        if (pack == 0 || p->text[j + 1] != id)
            count++;
        else if (pack > PACK(code, j + 1))
            continue;
        id = p->text[j + 1];
        pack = PACK(code, j + 1);
        found[(count - 1) * WGS + lid] = pack;
    }
    const u32 before = wg_scan_u32(count, scratch, &total);
    BARRIER(); /* the list takes the place of the links */
    for (u32 k = 0; k < count; k++)
        list[before + k] = found[k * WGS + lid];
    BARRIER(); /* the list is complete, and the links are free */
    for (u32 i = lid; i < total + lid; i += WGS) {
        pack = i < total ? list[i] : 0u;
        mark_chunk(p, i < total ? p->text[pack & ((1u << POSITION_BITS) - 1)] : (u32)NO_ID, pack,
                   chunk);
    }
}

#endif

/* ----------------------------------------------------------------------- bans */

/* Returns whether the output, followed by the path's first `drafts` tokens, ends with the given
 * ids. */
static inline int output_ends(const history_effects *p, const cls_slot *slot, const slot_state *s,
                              u32 drafts, __global const u32 *ids, u32 n)
{
    u32 same = 0, equal = 1;
    while (equal && same < n && same < slot->length + drafts) {
        u32 entry;
        if (same < drafts)
            entry = p->path[drafts - 1 - same] | CLS_ENTRY_OUTPUT;
        else
            entry = s->ring[(slot->length + drafts - 1 - same) % s->n_ring] & ~CLS_ENTRY_FIRST;
        equal = entry == (ids[n - 1 - same] | CLS_ENTRY_OUTPUT);
        same += equal;
    }
    return same == n;
}

/* Returns the words of a bad word: the number of its ids, then the ids. */
static inline __global const u32 *bad_word(const cls_slot *slot, __global const u32 *lists, u32 i)
{
    return lists + lists[slot->bad_words + i];
}
/* Returns the index of the first bad word whose last id but one is at least a given id. */
static inline u32 first_bad_word(const cls_slot *slot, __global const u32 *lists, u32 id)
{
    u32 lo = 0, hi = slot->n_bad_words;
    while (lo < hi) {
        const u32 mid = (lo + hi) / 2;
        __global const u32 *const word = bad_word(slot, lists, mid);
        if (word[word[0] - 1] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Bans the n ids of an ascending list. */
static inline void ban_list(const history_effects *p, __global const u32 *ids, u32 n, u32 vocab)
{
    BARRIER(); /* here each bitmap word belongs to another item than in mark_chunk() */
    const u32 words = state_bitmap(vocab), last = list_item_start(ids, n, LOCAL_ID + 1, words);
    for (u32 i = list_item_start(ids, n, LOCAL_ID, words); i < last;) {
        const uint2 found = list_word(ids, i, last);
        ban_word(p, ids[i] >> 5, found.x);
        i += found.y;
    }
    BARRIER();
}

static inline void ban(const history_effects *p, const cls_slot *slot, const slot_state *s,
                       u32 drafts, __global const u32 *lists, u32 vocab, __local uint2 *chunk)
{
    const u32 lid = LOCAL_ID;
    if (slot->outputs + drafts < slot->min_tokens &&
        slot->n_stop != 0) /* the same for the whole group */
        ban_list(p, lists + slot->stop, slot->n_stop, vocab);
    if (slot->n_banned != 0)
        ban_list(p, lists + slot->banned, slot->n_banned, vocab);
    /* Only bad words whose last id but one is the latest token can ban their last id. */
    const u32 length = slot->length + drafts;
    u32 first = 0, last = 0;
    if (slot->n_bad_words != 0 && length != 0) {
        const u32 latest =
            drafts != 0 ? p->path[drafts - 1] : s->ring[(length - 1) % s->n_ring] & CLS_ENTRY_ID;
        first = first_bad_word(slot, lists, latest);
        last = first_bad_word(slot, lists, latest + 1);
    }
    for (u32 i = first + lid; i < last + lid; i += WGS) {
        u32 id = NO_ID;
        if (i < last) {
            __global const u32 *const word = bad_word(slot, lists, i);
            if (output_ends(p, slot, s, drafts, word + 1, word[0] - 1))
                id = word[word[0]];
        }
        mark_chunk(p, id, PACK(CODE_BAN, 0u), chunk);
    }
}

/* --------------------------------------------------------------------- drafts */

/* Copies the drafts before a row, first to last, to the row's path; returns their number. If a
 * draft is outside the vocabulary, the row's result is not used, and the path is empty. */
static inline u32 copy_path(const history_effects *p, i32 node, __global const i32 *parents,
                            __global const i32 *ids, u32 vocab)
{
    u32 n = 0;
    int valid = 1;
    for (i32 at = node; at >= 0 && n < CLS_MAX_DRAFTS; at = parents[at]) {
        valid &= ids[at] >= 0 && (u32)ids[at] < vocab;
        n++;
    }
    n = valid ? n : 0;
    if (LOCAL_ID == 0)
        for (u32 i = n; i > 0; node = parents[node])
            p->path[--i] = (u32)ids[node];
    return n;
}

/* Runs before the survey, if a row may need it. It reads slots and their states, and writes the
 * rows' regions of `effects`. Launch: [WGS, rows]. */
ONE_COPY void prepare_row(const step_args *s, u32 row, __local u64 *scratch, __local uint2 *chunk)
{
    const u32 vocab = s->vocab, has = s->has, layout = s->args->layout, lid = LOCAL_ID;
    const i32 slot_index = mapped_slot(s, row);
    __global const cls_slot *const from = slot_of(s, slot_index);
    const history_effects p = effects_of(s->effects, layout, vocab, row);
    u32 drafts = 0, patched = 0, wanted = slot_index >= 0 && has_effects(from);
    if (has & CLS_DRAFTS) {
        drafts =
            copy_path(&p, draft_nodes(s)[row], draft_parents(s), AT_OFFSET(s, draft_ids), vocab);
        patched = slot_index >= 0 && drafts != 0 && (from->flags & CLS_SLOT_PENALIZED) &&
                  CLS_LAYOUT_KEEP(layout) != CLS_KEEPS_NONE;
        wanted |= patched;
        if (lid == 0) {
            p.draft_info[0] = wanted;
            p.draft_info[1] = drafts;
            p.draft_info[2] = 0;
        }
    }
    if (wanted) { /* the same for the whole group */
        const cls_slot slot = *from;
        __global const u32 *const lists = lists_of(s, from);
        const slot_state state = state_of(s->state, layout, vocab, (u32)slot_index);
        const u32 n = slot.n_dry != 0 || slot.ngram != 0
                          ? min(slot.length + drafts, CLS_LAYOUT_HISTORY(layout))
                          : 0u;
        const u32 late = min(drafts, n); /* the drafts that are in the text */
        clear_marks(&p, vocab);          /* after it the path is complete, too */
        if (patched)
            make_patches(&p, &slot, &state, drafts, vocab, chunk, scratch);
        copy_text(&p, &state, slot.length, n - late);
        for (u32 i = lid; i < late; i += WGS)
            p.text[n - late + i] = p.path[drafts - late + i];
        BARRIER(); /* text and marks are complete */
        if (n != 0) {
            const repeat_search h = repeat_search_of(&p, &slot, lists, n, scratch);
            if (h.first < n || h.ngram < n)
                search_repetitions(&p, &h, chunk, scratch);
            if (h.ngram == 0) /* the first token has no token before it */
                mark_chunk(&p, lid == 0 ? p.text[0] : (u32)NO_ID, PACK(CODE_BAN, 0u), chunk);
        }
        ban(&p, &slot, &state, drafts, lists, vocab, chunk);
        if (patched)
            mark_patches(&p, &slot, drafts, chunk);
    }
}

KERNEL void cls_prepare_rows(STEP_PARAMETERS(CLS_PREPARE_BUFFERS))
{
    __local u64 scratch[WGS];
    __local uint2 chunk[WGS];
    const step_args s = STEP_OF(CLS_PREPARE_BUFFERS);
    prepare_row(&s, get_group_id(1), scratch, chunk);
}
