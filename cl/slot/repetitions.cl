/* SPDX-License-Identifier: MIT */
/* repetitions: what repetitions of a text's end do to the next token: DRY penalizes tokens that
 * would continue one, and no-repeat n-grams ban them. The search of one item is in
 * slot/repetitions_cpu.cl. */
#include "slot/effects.cl"

/* Returns the length of the repetition that ends at position j: how many tokens up to j equal those
 * up to the end, n - 1. The first `known` are equal; the result is at most `most`, which is at most
 * j + 1. */
static inline u32 repeat_length(const history_effects *p, u32 n, u32 j, u32 known, u32 most)
{
    u32 z = known;
    while (z < most) {
        const UV a = VLOAD(p->text + j - z - (VEC - 1)),
                 b = VLOAD(p->text + (n - 1) - z - (VEC - 1));
        const u32 unequal = lane_bits(a != b); /* the last lane is compared first */
        if (unequal != 0)
            return min(z + clz(unequal) - (32 - VEC), most);
        z += VEC;
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
    u32 n, first;               /* first: where the window of DRY begins; n if DRY is off */
    u32 allowed, limit;         /* the greatest lengths without a penalty, and with a growing one */
    u32 ngram;                  /* the length that bans; more than n: none */
    u32 ngram_first;            /* where the n-grams that ban begin */
    __global const u32 *exempt; /* n_exempt tokens, ascending, that they do not ban */
    u32 n_exempt;
    u32 every;                   /* also positions without a repetition have an effect */
    __global const u32 *singles; /* tokens without a penalty, if has_singles */
    u32 has_singles;
} repeat_search;

/* `ngrams`: how many of the latest tokens have n-grams that ban. */
static inline repeat_search repeat_search_of(const history_effects *p, const cls_slot *slot,
                                             __global const u32 *lists, u32 n, u32 ngrams,
                                             __local u64 *scratch)
{
    const u32 window = slot->dry_window != 0 ? min((u32)slot->dry_window, n) : n;
    repeat_search h;
    h.n = n;
    h.first = n;
    h.allowed = slot->dry_allowed;
    h.limit = 0;
    h.ngram = slot->ngram != 0 ? slot->ngram - 1 : n + 1;
    h.ngram_first = n - ngrams;
    h.exempt = lists + slot->ngram_exempt;
    h.n_exempt = slot->n_ngram_exempt;
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

/* Returns whether an n-gram of which the first tokens occur up to position j bans the token after
 * it. */
static inline int ngram_bans(const history_effects *p, const repeat_search *h, u32 j)
{
    return j + 1 >= h->ngram_first + h->ngram &&
           list_find(h->exempt, h->n_exempt, p->text[j + 1]) == h->n_exempt;
}

/* Returns the code for the token after position j, where a repetition of length z ends. */
static inline u32 hit_code(const history_effects *p, const repeat_search *h, u32 j, u32 z)
{
    if (z >= h->ngram && ngram_bans(p, h, j))
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

#if WGS > 1
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
