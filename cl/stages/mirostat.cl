/* SPDX-License-Identifier: MIT */
/* Mirostat: keeps the tokens whose surprisal is at most a limit, which follows the surprisal of the
 * text. */
#include "row/stage.cl"

/* Returns the greatest surprisal that Mirostat 2 keeps. */
static inline u32 mirostat_limit(__global const cls_slot *slot)
{
    return (u32)not_negative(slot->adaptive.mu);
}

static inline void mirostat_1_bound(stage_bound *b) { b->k = min(256u, (u32)LIST); }

/* Bounds the set where Mirostat 2 is the first truncation, so that the mass is known. */
static inline void mirostat_2_bound(__global const cls_slot *slot, i32 max_key, u64 total,
                                    stage_bound *b)
{
    const f32 top = float_of_key(max_key);
    const u32 size = mass_q20(total, top, b->scale), most = mirostat_limit(slot);
    b->lowest = most < size ? max_key : depth_q20_key(top, b->scale, most - size);
    b->bounded = 1;
}

static inline void mirostat_2_list(list_stage *w)
{
    chain_state *const c = w->c;
    const u32 size = mass_q20(w->mass, w->top, c->scale), most = mirostat_limit(w->slot);
    i32 key = CLS_KEY_INF;
    u32 count = 1;
    if (most >= size) {
        key = depth_q20_key(w->top, c->scale, most - size);
        count = max(list_count(w->list, c->kept, key), 1u);
    }
    c->complete |= most < size || key >= c->floor || count < c->kept;
    c->kept = count;
}

static inline void mirostat_2_row(row_stage *w)
{
    const u32 bits = mass_q20(w->mass, w->top, w->scale), most = mirostat_limit(w->slot);
    if (most >= bits)
        cut_at_key(w, depth_q20_key(w->top, w->scale, most - bits));
    else
        cut_at_count(w, 1);
}

/* Runs Mirostat 1 on the list. Returns 0 if more ranks must be known. */
static inline int mirostat_1_list(list_stage *w)
{
    chain_state *const c = w->c;
    const shortlist *const list = w->list;
    u64 terms = 0, squares = 0;
    if (!c->complete && c->kept < CLS_MIROSTAT_RANKS)
        return 0;
    if (c->kept < 2)
        return 1;
    for (u32 i = LOCAL_ID; i < min(c->kept, (u32)CLS_MIROSTAT_RANKS) - 1; i += WGS) {
        const u32 step = mirostat_step(i);
        const u32 drop = depth_q20(rank_logit(list, i + 1), w->top, c->scale) -
                         depth_q20(rank_logit(list, i), w->top, c->scale);
        terms += (u64)step * drop;
        squares += (u64)step * step;
    }
    terms = wg_mass(terms, list->scratch);
    squares = wg_mass(squares, list->scratch);
    c->mirostat_k = mirostat_count(terms, squares, w->slot->adaptive.mu, w->r->vocab);
    if (c->mirostat_k > c->kept && !c->complete)
        return 0;
    c->complete = 1;
    c->kept = min(c->kept, c->mirostat_k);
    return 1;
}

/* Returns how many tokens Mirostat 1 keeps, where the list does not hold the first ranks: it walks
 * the row key by key. */
ONE_COPY u32 mirostat_1_count(const row_stage *w)
{
    __local u64 *const scratch = w->list->scratch;
    const u32 ranks = min(w->tokens, (u32)CLS_MIROSTAT_RANKS);
    u64 terms = 0, squares = 0;
    i32 key = w->c->set.top_key;
    if (ranks < 2)
        return 1;
    for (u32 i = 0; i + 1 < ranks; i++)
        squares += (u64)mirostat_step(i) * mirostat_step(i);
    for (u32 rank = key_count(w->r, key, scratch); rank < ranks;) {
        i32 lo = CLS_KEY_NONE, next = key - 1;
        key_range(w->r, &lo, &next, scratch);
        const u32 drop = depth_q20(float_of_key(next), w->top, w->scale) -
                         depth_q20(float_of_key(key), w->top, w->scale);
        terms += (u64)mirostat_step(rank - 1) * drop;
        key = next;
        rank += key_count(w->r, key, scratch);
    }
    return mirostat_count(terms, squares, w->slot->adaptive.mu, w->r->vocab);
}

/* The token kernel may have computed the number already; it is in out->kept then. */
static inline void mirostat_1_row(row_stage *w)
{
    w->c->mirostat_k = w->out->kept != 0 ? w->out->kept : mirostat_1_count(w);
    cut_at_count(w, w->c->mirostat_k);
}
