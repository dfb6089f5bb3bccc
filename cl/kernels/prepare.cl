/* SPDX-License-Identifier: MIT */
/* prepare: computes the history effects of rows, which are what a request's latest tokens do to the
 * logits. DRY penalizes tokens that would continue a repetition; no-repeat n-grams, bad words and
 * min_tokens ban tokens. It also finds the bitmaps of the ids that grammars allow. */
#include "core/verify.h"
#include "row/maps.cl"
#include "row/grammar.cl"
#include "slot/patches.cl"
#include "slot/repetitions_cpu.cl"

/* ------------------------------------------------------------------- the text */

/* Copies the ids of n entries of the ring. */
static inline void copy_ids(__global u32 *to, __global const u32 *ring, u32 n)
{
    for (u32 i = LOCAL_ID * VEC; i < n; i += WGS * VEC) {
        if (i + VEC <= n)
            VSTORE(VLOAD(ring + i) & CLS_ENTRY_ID, to + i);
        for (u32 k = i; i + VEC > n && k < n; k++)
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

/* Returns how many of the latest n tokens have n-grams that ban. The last of them are drafts. */
static inline u32 count_ngrams(const cls_slot *slot, const slot_state *s, u32 drafts, u32 n,
                               __local u64 *scratch)
{
    u32 most = slot->ngram == 0          ? 0u
               : slot->ngram_window == 0 ? n
                                         : min((u32)slot->ngram_window, n);
    if (!(slot->flags & CLS_SLOT_NGRAM_OUTPUT)) /* the same for the whole group */
        return most;
    most = min(most, slot->outputs + drafts);
    u32 since = most; /* the number of tokens since the latest one of the prompt */
    for (u32 i = drafts + LOCAL_ID; i < since; i += WGS)
        if (!(s->ring[(slot->length + drafts - 1 - i) % s->n_ring] & CLS_ENTRY_OUTPUT))
            since = i;
    return wg_umin(since, scratch);
}

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
            entry = p->path[drafts - 1 - same];
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

static inline void ban_words(const history_effects *p, const cls_slot *slot, const slot_state *s,
                             u32 drafts, __global const u32 *lists, u32 vocab, __local uint2 *chunk)
{
    const u32 lid = LOCAL_ID;
    if (slot->n_banned != 0)
        ban_list(p, lists + slot->banned, slot->n_banned, vocab);
    /* Only bad words whose last id but one is the latest token can ban their last id. */
    const u32 length = slot->length + drafts;
    u32 first = 0, last = 0;
    if (slot->n_bad_words != 0 && length != 0) {
        const u32 latest =
            (drafts != 0 ? p->path[drafts - 1] : s->ring[(length - 1) % s->n_ring]) & CLS_ENTRY_ID;
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
static inline u32 copy_path(const step_args *s, const history_effects *p, u32 row)
{
    __global const i32 *const parents = draft_parents(s);
    i32 node = draft_nodes(s)[row];
    const u32 request = row - (u32)node - 1;
    u32 n = 0;
    int valid = 1;
    for (i32 at = node; at >= 0 && n < CLS_MAX_DRAFTS; at = parents[at]) {
        const i32 id = draft_id(s, request, at);
        valid &= id >= 0 && (u32)id < s->vocab;
        n++;
    }
    n = valid ? n : 0;
    if (LOCAL_ID == 0)
        for (u32 i = n; i > 0; node = parents[node])
            p->path[--i] = (u32)draft_id(s, request, node) | CLS_ENTRY_OUTPUT;
    return n;
}

/* Returns the word of a place of a draft's sparse distribution, whose ids begin at `tokens`. */
static inline u32 sparse_at(const step_args *s, __global const i32 *tokens, u32 place)
{
    const u32 draft_vocab = s->args->draft_vocab;
    u32 id = (u32)tokens[place];
    if (draft_vocab != 0)
        id = id < draft_vocab ? id + (u32)AT_OFFSET(s, draft_map)[id] : CLS_NO_SPARSE;
    return id < s->vocab ? sparse_word(id, place) : CLS_NO_SPARSE;
}

/* Writes these words, ascending, each to the place of its rank, and their probabilities. The words
 * are made anew for each rank: PoCL 3.1 gives all its threads one local array, where the address of
 * that reaches a function as a constant. */
ONE_COPY void sort_sparse(const step_args *s, __global i32 *all_words, u32 row, u32 draft)
{
    ARGS const cls_args *const args = s->args;
    const u32 width = args->draft_width;
    const size_t from =
        draft_place(s, row - draft - 1, draft, args->draft_stride, args->draft_apart);
    __global const i32 *const tokens = AT_OFFSET(s, draft_tokens) + from;
    __global const u32 *const probs = AT_OFFSET(s, draft_probs) + from;
    __global u32 *const to = (__global u32 *)all_words + (size_t)draft * CLS_SPARSE_WORDS;
    for (u32 i = LOCAL_ID; i < CLS_MAX_DRAFT_WIDTH; i += WGS) {
        const u32 word = i < width ? sparse_at(s, tokens, i) : CLS_NO_SPARSE;
        u32 rank = i < width ? 0u : i;
        for (u32 j = 0; j < width && i < width; j++) {
            const u32 other = sparse_at(s, tokens, j);
            rank += other < word || (other == word && j < i);
        }
        to[rank] = word;
        to[CLS_MAX_DRAFT_WIDTH + rank] = i < width ? probs[i] : 0u;
    }
}

/* Runs before the survey, if a row may need it. It reads slots and their states, and writes the
 * rows' regions of `effects`, what grammar_row_words() describes to the lists, and the words of
 * sparse distributions. Launch: [WGS, rows]. */
ONE_COPY void prepare_row(const step_args *s, __global u32 *all_lists, u32 row,
                          __local u64 *scratch, __local uint2 *chunk)
{
    const u32 vocab = s->vocab, has = s->has, layout = s->args->layout, lid = LOCAL_ID;
    const i32 slot_index = mapped_slot(s, row);
    __global const cls_slot *const from = slot_of(s, slot_index);
    const history_effects p = effects_of(s->effects, layout, vocab, row);
    const int counts = CLS_LAYOUT_COUNTS(layout) != CLS_COUNTS_NONE;
    u32 drafts = 0, patched = slot_index >= 0 && from->windows != 0 && counts,
        wanted = slot_index >= 0 && has_effects(from),
        thinking = slot_index >= 0 ? from->thinking : 0u;
    if (has & CLS_DRAFTS) {
        drafts = copy_path(s, &p, row);
        u32 flags = slot_index >= 0 ? from->flags : 0u, answers = 0;
        if (slot_index >= 0 && (from->answer != 0 || (flags & CLS_SLOT_STOPS_BANNED)))
            thinking = text_with_drafts(s, slot_index, p.path, drafts).thinking; /* by all */
        if (slot_index >= 0 && from->answer != 0 && thinking == 0) {
            answers = 1;
            flags = answer_of(s, from)->flags;
        }
        if (lid == 0)
            p.found->answers = answers;
        patched =
            slot_index >= 0 && (drafts != 0 || patched) && (flags & CLS_SLOT_PENALIZED) && counts;
        wanted |= patched;
        if (lid == 0) {
            p.found->marked = wanted;
            p.found->drafts = drafts;
        }
    }
    if (lid == 0) {
        p.found->patches = 0;
        p.found->bans_stops = thinking != 0 && (from->flags & CLS_SLOT_STOPS_BANNED);
    }
    /* Whether only ends are left is in memory: a variable takes 256 bytes of scratch on Intel's
     * GPUs, where this kernel needs none. */
    if (slot_index >= 0 && (from->flags & CLS_SLOT_GRAMMAR)) /* the same for the whole group */
        prepare_grammar(s, all_lists, row, slot_index, p.path, drafts, &p.found->only_ends);
    else if (lid == 0)
        p.found->only_ends = 0;
    if (wanted) { /* the same for the whole group */
        const cls_slot slot = *from;
        __global const u32 *const lists = lists_of(s, from);
        const slot_state state = state_of(s->state, layout, vocab, (u32)slot_index);
        const u32 kept = min(slot.length + drafts, effects_tokens(layout)),
                  ngrams = count_ngrams(&slot, &state, drafts, kept, scratch);
        const u32 n = slot.n_dry != 0 ? kept : ngrams;
        const u32 late = min(drafts, n); /* the drafts that are in the text */
        clear_marks(&p, vocab);          /* after it the path is complete, too */
        if (patched)
            make_patches(&p, &slot, &state, drafts, vocab, chunk, scratch);
        copy_text(&p, &state, slot.length, n - late);
        for (u32 i = lid; i < late; i += WGS)
            p.text[n - late + i] = p.path[drafts - late + i] & CLS_ENTRY_ID;
        BARRIER(); /* text and marks are complete */
        if (n != 0) {
            const repeat_search h = repeat_search_of(&p, &slot, lists, n, ngrams, scratch);
            if (h.first < n || h.ngram < n)
                search_repetitions(&p, &h, chunk, scratch);
            if (h.ngram == 0) /* the first token has no token before it */
                mark_chunk(&p, lid == 0 && ngram_bans(&p, &h, 0xffffffffu) ? p.text[0] : (u32)NO_ID,
                           PACK(CODE_BAN, 0u), chunk);
        }
        if (slot.n_stop != 0 &&
            (p.found->bans_stops != 0 ||
             (p.found->only_ends == 0 && slot.outputs + drafts < slot.min_tokens)))
            ban_list(&p, lists + slot.stop, slot.n_stop, vocab);
        ban_words(&p, &slot, &state, drafts, lists, vocab, chunk);
        if (patched)
            mark_patches(&p, &slot, drafts, chunk);
    }
}

KERNEL void cls_prepare_rows(STEP_PARAMETERS(CLS_PREPARE_BUFFERS))
{
    __local u64 scratch[WGS];
    __local uint2 chunk[WGS];
    const step_args s = STEP_OF(CLS_PREPARE_BUFFERS);
    const u32 row = get_group_id(1);
    if ((s.has & CLS_DRAFTS) && s.args->draft_kind == CLS_DRAFT_SPARSE) {
        const i32 draft = draft_nodes(&s)[row]; /* the one before the row */
        if (draft >= 0)
            sort_sparse(&s, raw_key, row, (u32)draft);
    }
    prepare_row(&s, lists, row, scratch, chunk);
}
