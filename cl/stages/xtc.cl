/* SPDX-License-Identifier: MIT */
/* XTC: removes the tokens that are at least as likely as a threshold, except the least likely of
 * them. */
#include "row/stage.cl"

/* Runs the stage on the list. Returns 0 if the list cannot decide. */
static inline int xtc_list(list_stage *w, int xtc_cuts)
{
    chain_state *const c = w->c;
    const u32 size = mass_q20(w->mass, w->top, c->scale);
    if (!xtc_cuts || w->slot->xtc_depth < size)
        return 1;
    const u32 count =
        list_count(w->list, c->kept, depth_q20_key(w->top, c->scale, w->slot->xtc_depth - size));
    const int enough = c->kept + 1 - count >= w->slot->min_keep;
    if (!c->complete && (count == c->kept || !enough))
        return 0;
    if (count >= 2 && enough) {
        const u32 last = (u32)w->list->order[count - 1];
        c->set.upper_last = w->list->key[last] == c->set.upper_key ? c->set.upper_last : CLS_MAX_ID;
        c->set.upper_key = w->list->key[last];
        c->set.upper_first = w->list->id[last];
        remove_top_ranks(w->list, c, count - 1);
    }
    return 1;
}

/* Runs the stage over the whole row. Of the least likely key above the threshold, the last id is
 * kept. */
static inline void xtc_row(row_stage *w)
{
    __local u64 *const scratch = w->list->scratch;
    kept_set *const set = &w->c->set;
    const u32 bits = mass_q20(w->mass, w->top, w->scale);
    if (!w->xtc_cuts || w->slot->xtc_depth < bits)
        return;
    i32 lo = depth_q20_key(w->top, w->scale, w->slot->xtc_depth - bits) - 1, hi = w->out->max_key;
    const u32 many = tokens_above(w->r, lo, scratch);
    if (many < 2 || w->tokens + 1 - many < w->slot->min_keep)
        return;
    key_range(w->r, &lo, &hi, scratch);
    const i32 last_key = lo + 1;
    const measure m = measure_of(1, w->top, w->scale);
    const i32 id =
        tie_cut(w->r, &m, last_key, 0, key_count(w->r, last_key, scratch), w->work, scratch);
    set->upper_last = last_key == set->upper_key ? set->upper_last : CLS_MAX_ID;
    set->upper_key = last_key;
    set->upper_first = id;
    w->cut = CUT_UPPER;
}
