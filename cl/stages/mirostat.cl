/* SPDX-License-Identifier: MIT */
/* Mirostat: keeps the tokens whose surprisal is at most a limit, which follows the surprisal of the
 * text. */
#include "row/job.cl"

static inline void mirostat_1_bound(__global const cls_slot *slot, chain_bound *b)
{
    b->k = min(256u, (u32)LIST);
}

#if SEARCH && LIST < CLS_MIROSTAT_RANKS
/* Returns the k-th largest key of a row. Each round counts for four keys, so that the row is read
 * at most 14 times. */
static inline i32 kth_key(SHARED const row_logits *r, u32 k, i32 max_key, __local u64 *scratch)
{
    interval b = {CLS_KEY_NONE, max_key, 0, 0, -1, -1};
    SHORT_LOOP
    while (b.lo + 1 < b.hi) {
        i32 key[CLS_PIVOTS];
        u64 count[CLS_PIVOTS];
        interval_keys(&b, key);
        tokens_above_each(r, key, count, scratch);
        interval_narrow(key, count, k, 0, &b);
    }
    return b.hi;
}
#endif

/* Returns the term of rank i: how much deeper the next rank is. */
static inline u64 mirostat_term(const row_job *w, u32 i, f32 z, f32 next)
{
    return (u64)mirostat_step(i) *
           (depth_q20(next, w->top, w->scale) - depth_q20(z, w->top, w->scale));
}

/* The first version estimates the exponent of Zipf's law from the first ranks, and keeps as many
 * tokens as have that surprisal by the law. The list has these ranks even where the row is
 * searched: see measure_set(). A list that is too short for them is not used. */
static inline void mirostat_1(const step_args *s, row_job *w)
{
    const u32 ranks = min(w->tokens, (u32)CLS_MIROSTAT_RANKS);
    u64 terms = 0, squares = 0;
    if (!w->c.complete && ranks < CLS_MIROSTAT_RANKS)
        w->cut = CUT_UNDECIDED;
    if (w->cut == CUT_UNDECIDED || ranks < 2)
        return;
    for (u32 i = 0; i < ranks - 1; i++) {
        const u32 step = mirostat_step(i);
        squares += (u64)step * step;
    }
    if (ranks <= LIST) {
        for (u32 i = LOCAL_ID; i < ranks - 1; i += WGS)
            terms += mirostat_term(w, i, rank_logit(w->list, i), rank_logit(w->list, i + 1));
        terms = wg_mass(terms, w->list->scratch);
    }
#if SEARCH && LIST < CLS_MIROSTAT_RANKS
    i32 key = w->c.set.top_key;
    for (u32 i = 0; ranks > LIST && i < ranks - 1; i++) {
        const i32 next = kth_key(VIEW(w), i + 2, key, w->list->scratch);
        terms += mirostat_term(w, i, float_of_key(key), float_of_key(next));
        key = next;
    }
#endif
    reach(w, 1, mirostat_count(terms, squares, w->slot->adaptive.mu, VIEW(w)->vocab));
}

/* Returns the key down to which the second version keeps tokens: the first one's, if even that has
 * more surprisal than the limit. */
static inline i32 mirostat_2_key(__global const cls_slot *slot, u64 mass, f32 top, f32 scale)
{
    const u32 size = mass_q20(mass, top, scale), most = (u32)not_negative(slot->adaptive.mu);
    return most < size ? CLS_KEY_INF : depth_q20_key(top, scale, most - size);
}

/* Bounds the set where Mirostat 2 is the first truncation, so that the mass is known. */
static inline void mirostat_2_bound(__global const cls_slot *slot, chain_bound *b)
{
    b->goes_on = b->first;
    if (b->first) {
        b->lowest = min(mirostat_2_key(slot, b->total, b->top, b->scale), key_of(b->top));
        b->bounded = 1;
    }
}

static inline void mirostat_2(const step_args *s, row_job *w)
{
    const i32 key = mirostat_2_key(w->slot, w->mass, w->top, w->scale);
    if (key == CLS_KEY_INF)
        reach(w, 1, 1);
    else
        at_key(w, key);
}
