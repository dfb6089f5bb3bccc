/* SPDX-License-Identifier: MIT */
/* make_cut: makes the cut that a stage has named. On the list a lower cut is a number of ranks. In
 * a row that is searched it is a token; and so is an upper cut, of which the list then loses
 * tokens. */
#include "row/job.cl"
#include "stages/typical_p.cl"

/* Returns how many ranks of the list reach the target; one more than it has if they do not. */
static inline u32 ranks_to_target(const row_job *w)
{
    if (w->counts)
        return u64_lo(max(w->target, (u64)1));
    return list_reach(w->list, 0, w->c.kept, 0, w->target);
}

/* Keeps ranks of the list, but not fewer than min_keep. A list that is not complete stays as it is
 * if the set reaches beyond it, or may do so. */
static inline void list_cut(row_job *w, u32 is)
{
    chain_state *const c = &w->c;
    int inside = 1; /* the cut certainly lies inside the list */
    u32 count;
    if (w->cut == CUT_AT_KEY) {
        count = max(list_count(w->list, c->kept, w->key), 1u);
        inside = w->key >= c->floor || count < c->kept;
    } else {
        count = ranks_to_target(w);
    }
    const u32 least = max(count, is & KEEPS_LEAST ? (u32)w->slot->min_keep : 0u);
    if (!c->complete && (count > c->kept || (least > c->kept && least > count)))
        return;
    c->complete |= inside;
    c->kept = min(least, c->kept);
}

#if SEARCH || CHAIN == 2

/* Finds the token at which the measure from the top reaches the target. */
static inline void locate(row_job *w, const measure *m, const interval *within, cut *at)
{
#if SEARCH
    if (!w->listed) {
        const f32 pivots =
            float_of_key(w->out.pivot[CLS_PIVOTS - 1]) - float_of_key(w->out.pivot[0]);
        locate_in_row(VIEW(w), m, max(w->target, (u64)1), within, pivots, w->sums, w->list, at);
        return;
    }
#endif
    const u32 i = (u32)w->list->order[min(ranks_to_target(w), w->c.kept) - 1];
    at->key = w->list->key[i];
    at->id = w->list->id[i];
}

#if CHAIN == 2
/* Returns the key of a token of the set; CLS_KEY_NONE if the set does not have it. */
static inline i32 key_in_set(const row_job *w, u32 id)
{
#if SEARCH
    if (!w->listed)
        return key_of(load_one(VIEW(w), id));
#endif
    const i32 i = kept_index(w->list, w->c.kept, (i32)id);
    return i >= 0 ? w->list->key[i] : CLS_KEY_NONE;
}

/* Returns whether the set has a token before another one in order that XTC must not remove. */
static inline int has_exempt_before(const step_args *s, const row_job *w, const cut *at)
{
    __global const u32 *const exempt = lists_of(s, slot_of(s, w->slot_index)) + w->slot->xtc_exempt;
    u32 found = 0;
    SHORT_LOOP
    for (u32 i = LOCAL_ID; i < w->slot->n_xtc_exempt; i += WGS) {
        const i32 key = key_in_set(w, exempt[i]);
        found |= (u32)(key > at->key || (key == at->key && (i32)exempt[i] < at->id));
    }
    return wg_uor(found, w->list->scratch) != 0;
}
#endif

/* Removes what is outside the set from the list. A row that is searched is read for its largest key
 * before the next stage: see measure_set(). */
static inline void drop_top(row_job *w, i32 upper_before)
{
    kept_set *const set = &w->c.set;
    SHARED shortlist *const list = w->list;
#if SEARCH
    w->finds_top = !w->listed;
    w->upper_before = upper_before;
    if (!w->listed)
        return;
#endif
    SHORT_LOOP
    for (u32 i = LOCAL_ID; i < list->n; i += WGS)
        if (!(truncate_one(set->cut, (u32)list->id[i], float_of_key(list->key[i])) > CLS_MASKED))
            list->rank[i] = RANK_REMOVED;
    list_drop(list, w->c.kept);
    w->c.kept = list->n;
    w->c.weighed = 0.0f;
    new_top(set, upper_before, list->key[list->order[0]]);
}

/* Returns how many tokens lie inside the cuts. */
static inline u32 tokens_inside(row_job *w)
{
    const cls_cut cut = w->c.set.cut;
    SHARED shortlist *const list = w->list;
    u32 count = 0;
#if SEARCH
    if (!w->listed) {
        const u32 truncated = VIEW(w)->truncated;
        const cls_cut before = VIEW(w)->cut;
        row_truncate(VIEW(w), &w->c.set.cut);
        count = tokens_above(VIEW(w), CLS_KEY_NONE, list->scratch);
        row_truncate(VIEW(w), &before);
        if (WRITES_SHARED)
            VIEW(w)->truncated = truncated;
        SHARED_BARRIER();
        return count;
    }
#endif
    SHORT_LOOP
    for (u32 i = LOCAL_ID; i < list->n; i += WGS)
        count += (u32)list->rank[i] < w->c.kept &&
                 truncate_one(cut, (u32)list->id[i], float_of_key(list->key[i])) > CLS_MASKED;
    return wg_usum(count, list->scratch);
}

#if SEARCH
/* Takes what the pass has measured for the chain's first truncation. */
static inline void begin_with_pass(row_job *w, u32 is, interval *within, cut *at)
{
    u64 known[CLS_PIVOTS] = {0, 0, 0, 0};
    if (!(is & BY_PASS) || !w->pass.valid)
        return;
    if (w->cut == CUT_AT_KEY && !w->pass.counts) {
        at->pivot = 0; /* all four pivots are this key, so the pass alone has the masses */
        list_end(w->list, 0);
    }
    if (w->cut != CUT_REACH || w->pass.counts != w->counts)
        return;
    SHORT_LOOP
    for (u32 t = LOCAL_ID; t < VIEW(w)->tiles; t += WGS)
        for (u32 p = 0; p < CLS_PIVOTS; p++)
            known[p] += w->pass.by_tile[t * CLS_PIVOTS + p];
    wg_masses(known, CLS_PIVOTS, w->list->scratch);
    interval_narrow(w->out.pivot, known, w->target, 1, within);
}

/* Takes what measure_set() has measured: all of the set lies above the key before its cut. */
static inline void begin_with_set(const row_job *w, const cls_cut *cut, interval *within)
{
    const u64 all = w->counts ? w->tokens : w->mass;
    if (cut->key == CLS_KEY_NONE || all < w->target)
        return;
    within->lo = cut->key - 1;
    within->at_lo = all;
}
#endif

/* Makes the cut in the set. If too few tokens are left, it keeps as many as min_keep says, in the
 * stage's own order. */
ONE_COPY void set_cut(const step_args *s, row_job *w, u32 is, int is_first)
{
    kept_set *const set = &w->c.set;
    const cls_cut before = set->cut;
    for (u32 attempt = 0; attempt < 2; attempt++) {
        const measure m = measure_of(w->counts, w->top, w->scale);
        cut at = {w->key, CLS_MAX_ID, -1, 0, 0, 0};
        interval within = {CLS_KEY_NONE, set->top_key, 0, 0, -1, -1};
        set->cut = before;
        if (w->cut == CUT_TOP) {
            within.lo = w->key - 1;
            within.at_lo = w->target;
        }
#if SEARCH
        if (!is_first && !w->listed && w->cut == CUT_REACH)
            begin_with_set(w, &before, &within);
        w->pass.last.pivot = -1; /* the list may change */
        if (is_first && !w->listed)
            begin_with_pass(w, is, &within, &at);
#endif
#if CHAIN == 2
        typical_search t = {TYPICAL_BEGINS, 0, 0, 0};
#endif
        /* A loop, so that compilers that inline everything compile locate() once. */
        for (int more = w->cut != CUT_AT_KEY; more; more = w->cut == CUT_TYPICAL) {
#if CHAIN == 2
            if (w->cut == CUT_TYPICAL && !typical_next(w, &m, &t, set, &within, &at))
                break;
#endif
            locate(w, &m, &within, &at);
        }
#if CHAIN == 2
        if (w->cut == CUT_TOP && has_exempt_before(s, w, &at))
            return;
#endif
        if (w->cut == CUT_TOP) {
            upper_cut(set, at.key);
            set->cut.upper_first = at.id;
        } else if (at.key > set->cut.key || (at.key == set->cut.key && at.id < set->cut.id)) {
            set->cut.key = at.key;
            set->cut.id = at.id;
#if SEARCH
            w->pass.last = at;
            if (!is_first || w->pass.counts || w->cut == CUT_TYPICAL || attempt > 0)
                w->pass.last.pivot = -1;
#endif
        }
        if (!(is & KEEPS_LEAST) || w->slot->min_keep <= 1 || attempt == 1 ||
            tokens_inside(w) >= w->slot->min_keep)
            break;
        if (w->cut == CUT_AT_KEY)
            w->cut = CUT_REACH;
        w->counts = 1;
        w->target = w->slot->min_keep;
    }
    if (w->cut == CUT_TOP || w->cut == CUT_TYPICAL)
        drop_top(w, before.upper_key);
}
#endif

static inline void make_cut(const step_args *s, row_job *w, u32 is, int is_first)
{
    if (LISTED(w) && (w->cut == CUT_AT_KEY || w->cut == CUT_REACH))
        list_cut(w, is);
#if SEARCH || CHAIN == 2
    else if (w->cut != CUT_NOTHING && w->cut != CUT_DONE)
        set_cut(s, w, is, is_first);
#endif
}
