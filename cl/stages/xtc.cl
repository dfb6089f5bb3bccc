/* SPDX-License-Identifier: MIT */
/* XTC: removes the tokens that are at least as likely as a threshold, except the least likely of
 * them. If the request exempts one of those that it removes, it removes none: see
 * has_exempt_before() in make_cut.cl. */
#include "row/job.cl"
#include "row/random.cl"

/* Returns whether XTC cuts the row: a uniform draw decides. */
static inline int xtc_cuts(const step_args *s, const row_job *w)
{
    return u64_hi(row_bits(s, CLS_PURPOSE_XTC, slot_of(s, w->slot_index), w->row)) >> 1 <
           w->slot->xtc;
}

static inline void xtc(const step_args *s, row_job *w)
{
    const u32 size = mass_q20(w->mass, w->top, w->scale);
    if (!xtc_cuts(s, w) || w->slot->xtc_depth < size)
        return;
    const i32 key = depth_q20_key(w->top, w->scale, w->slot->xtc_depth - size);
    const u32 count = need_count(w, key);
    const int enough = w->tokens + 1 - count >= w->slot->min_keep;
    if (!w->c.complete && (count == w->tokens || !enough))
        w->cut = CUT_UNDECIDED;
    else if (count >= 2 && enough)
        upper(w, key, count);
}
