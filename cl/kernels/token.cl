/* SPDX-License-Identifier: MIT */
/* token: draws the token of each row whose set is certain to fit the list, in vocabularies of any
 * size. For the other rows it chooses pivots for the pass, and leaves them to the search. A
 * work-group has one row.
 *
 * Launch: [WGS, rows]. */
#include "row/pivots.cl"
#include "draw/sample.cl"
#include "stages/chain.cl"

/* Collects the tokens that a truncated row's chain may keep. Returns 0 if the list cannot hold
 * them, or if there is no bound. It tries two bounds, one after the other. It is a loop so that
 * compilers that inline everything compile collect() once. */
static inline int list_row(row_job *w)
{
    SHARED const row_logits *const r = VIEW(w);
    SHARED shortlist *const list = w->list;
    const i32 max_key = w->out.max_key;
    SHORT_LOOP
    for (u32 attempt = 0; attempt < 2; attempt++) {
        chain_bound b;
        bound_chain(w->slot, max_key, w->out.total, &b);
        i32 lo = b.lowest;
        if (WGS == 1 && b.k != 0 && (w->flags & CLS_SLOT_SEARCH)) /* CLS_LISTED_TOP_K */
            break;
        if (attempt == 0 && r->vocab <= LIST) {
            lo = CLS_KEY_NONE + 1;
        } else if (attempt == 0 && b.k != 0) {
            /* Behind another stage shards have merged tiles: two can have the key of one token. */
            const u32 k = b.by_maxima ? 2 * b.k : b.k;
            const i32 bound = tile_bound(r, k, max_key, list->scratch);
            lo = bound > lo ? bound : lo;
        } else if (attempt == 0) {
            if (!b.bounded)
                continue;
        } else {
            if (!b.by_maxima)
                continue;
            lo = maxima_bound(r, b.top, stage_scale(w->slot, CLS_STAGE_TOP_P),
                              top_p_target(w->out.total, row_top_p(w->slot)), w->scratch,
                              list->scratch);
            if (lo == CLS_KEY_NONE)
                continue;
        }
        w->c.floor = collect_first(r, attempt == 0 ? b.k : 0u, lo, max_key, list);
        if (w->c.floor != CLS_KEY_NONE) {
            w->c.complete = w->c.floor == CLS_KEY_NONE + 1;
            w->c.kept = list->n;
            return 1;
        }
    }
    w->c.floor = CLS_KEY_NONE + 1;
    return 0;
}

/* Returns the first token that has the maximum, in the first max tile that has it. If none has it,
 * the device is wrong, and the last tile is read in place of memory behind the row. */
static inline i32 largest(SHARED const row_logits *r, i32 max_key, __local u64 *scratch)
{
    const u32 lid = LOCAL_ID, n = max_tiles(r);
    u32 first = 0x7fffffffu;
    for (u32 base = lid * VEC; base < n && first == 0x7fffffffu; base += WGS * VEC) {
        const u32 tops = lane_bits(LOAD_KEYS(r->key + base) == max_key);
        first = tops != 0 ? base + lowest_bit(tops) : first;
    }
    first = min(wg_umin(first, scratch), n - 1);
    const int kind = max_tile_kind(r, first);
    const f32 under = above(max_key - 1);
    i32 id = CLS_MAX_ID;
    for (u32 v = lid * VEC; v < CLS_MAX_TILE && id == CLS_MAX_ID; v += WGS * VEC) {
        const u32 tops = lane_bits(load_v(r, first * CLS_MAX_TILE + v, kind, CLS_MASKED) > under);
        id = tops != 0 ? (i32)(first * CLS_MAX_TILE + v + lowest_bit(tops)) : id;
    }
    return wg_imin(id, scratch);
}

/* Chooses what the pass measures in a row that must be searched: above four keys, for the first
 * truncation. */
static inline void plan_pass(row_job *w)
{
    __global const cls_slot *const slot = w->slot;
    cls_row *const out = &w->out;
    const u32 stage = first_truncation(slot), is = stage_properties(stage);
    const f32 scale = stage_scale(slot, stage), row_max = float_of_key(out->max_key);
    out->state = stage == CLS_STAGE_TOP_K ? CLS_RECORD_SEARCH_COUNT
                 : is & BY_PASS           ? CLS_RECORD_SEARCH_MASS
                                          : CLS_RECORD_SEARCH_ALL;
    out->scale = scale;
    if (is & BY_KEY) {
        i32 lowest = depth_key(row_max, scale, slot->min_p);
#if CHAIN == 2
        if (stage == CLS_STAGE_MIROSTAT_2)
            lowest = min(mirostat_2_key(slot, out->total, row_max, scale), out->max_key);
#endif
        for (u32 p = 0; p < CLS_PIVOTS; p++)
            out->pivot[p] = lowest - 1;
    } else if (out->state != CLS_RECORD_SEARCH_ALL) {
        const measure m = measure_of(stage == CLS_STAGE_TOP_K, row_max, scale);
        const u64 target = stage == CLS_STAGE_TOP_K ? (u64)(u32)slot->top_k
                                                    : top_p_target(out->total, row_top_p(slot));
        guess_pivots(VIEW(w), &m, target, out->total, w->scratch, out->pivot, w->list->scratch);
    }
}

ONE_COPY void token_row(const step_args *s, u32 row, SHARED row_logits *r, SHARED shortlist *list)
{
    row_job w;
    job_begin(s, row, r, list, &w);
    if (w.slot_index >= 0 && slot_of(s, w.slot_index)->stopped) {
        w.out.status = CLS_ROW_STOPPED | CLS_ROW_SKIPPED;
    } else if (w.slot_index >= 0) {
        w.out.max_key = w.out.top_key = row_summary(VIEW(&w), &w.out.status, w.list->scratch);
        w.out.status &= CLS_ROW_NAN | CLS_ROW_INF | CLS_ROW_UNFIT;
        w.out.no_token = w.out.max_key == CLS_KEY_NONE;
        w.out.status |= w.out.no_token ? CLS_ROW_EMPTY : 0u;
        w.out.scale = w.slot->scale;
    }
    if (!w.out.no_token &&
        (w.flags & CLS_SLOT_GREEDY)) { /* the same for the whole group, as all conditions here */
        w.out.token = largest(VIEW(&w), w.out.max_key, w.list->scratch);
        w.out.cut.key = w.out.max_key;
        w.out.cut.id = w.out.token;
        w.out.kept = 1;
    } else if (!w.out.no_token) {
        chain_begin(w.out.max_key, &w.c);
        if (w.flags & CLS_SLOT_TOTAL)
            w.out.total = row_total(VIEW(&w)->key, s->tile_mass + (size_t)row * VIEW(&w)->tiles,
                                    VIEW(&w)->tiles, float_of_key(w.out.max_key),
                                    w.slot->total_scale, 1, w.sums, w.list->scratch);
        BARRIER();
        if (CHAIN == 0 || chain_is_untruncated(w.flags, w.slot->chain[0], w.slot->adaptive.mu)) {
            w.c.set.untruncated = 1;
            w.c.scale = w.slot->scale;
            w.out.mass = w.out.total;
#if CHAIN > 0 && ROW
            w.out.token = s->has & CLS_DRAWN ? ((__global const i32 *)w.scratch)[0] : -1;
#endif
        }
#if CHAIN > 0
        else if (!(s->has & CLS_FORCE_SEARCH) && list_row(&w)) {
            list_sort(w.list);
            w.listed = run_chain(s, &w);
        }
#endif
        if ((w.c.set.untruncated || w.listed) &&
            !(w.out.status & (CLS_ROW_UNFIT | CLS_ROW_EMPTY))) {
            pick_token(s, &w);
        } else if (w.listed || !(s->has & CLS_HAS_SEARCH)) {
            /* There is nothing to draw from; or the host expected that the list would do, and
             * enqueued no search. The row gets a status instead of a wrong token. */
            w.out.status |= w.listed ? 0u : CLS_ROW_UNFIT;
            w.out.state = CLS_RECORD_DONE;
            w.out.no_token = 1;
        }
#if CHAIN > 0
        else {
            plan_pass(&w);
        }
#endif
    }
    job_end(s, &w, w.out.state == CLS_RECORD_DONE);
}

KERNEL void cls_token(STEP_PARAMETERS(CLS_TOKEN_BUFFERS))
{
    SHARED row_logits r;
    SHORTLIST(list)
    const step_args s = STEP_OF(CLS_TOKEN_BUFFERS);
    token_row(&s, get_group_id(1), &r, &list);
}
