/* SPDX-License-Identifier: MIT */
/* token: draws the token of each row whose set is certain to fit the list, in vocabularies of any
 * size. For the other rows it chooses pivots for the pass, and leaves them to the search. A
 * work-group has one row.
 *
 * Launch: [WGS, rows]. */
#include "row/pivots.cl"
#include "draw/sample.cl"
#include "stages/truncate.cl"

/* Collects the tokens that a truncated row's chain may keep. Returns 0 if the list cannot hold
 * them, or if there is no bound. It tries three bounds, one after the other. It is a loop so that
 * compilers that inline everything compile collect() once. */
static inline int list_row(const row_logits *r, __global const cls_slot *slot, i32 max_key,
                           __global f32 *work, shortlist *list, chain_state *c, const cls_row *out)
{
    stage_bound b;
    chain_bound(slot, max_key, out->total, &b);
    i32 bound = CLS_KEY_NONE + 1;
    SHORT_LOOP
    for (u32 attempt = 0; attempt < 3; attempt++) {
        u32 ties = ALL_TIES;
        i32 lo = b.lowest;
        if (attempt == 0 && r->vocab <= LIST) {
            lo = CLS_KEY_NONE + 1;
        } else if (attempt == 0 && b.k != 0) {
            bound = tile_bound(r, b.k, max_key, list->scratch);
            lo = bound > lo ? bound : lo;
        } else if (attempt == 0) {
            if (!b.bounded)
                continue;
        } else if (attempt == 1) {
            /* Logits may be clustered, sorted or tied; then the exact k-th key decides. */
            u32 over;
            if (b.k == 0)
                continue;
            lo = kth_key(r, b.k, bound, max_key, &over, list->scratch);
            ties = b.k - over;
        } else {
            if (!b.by_maxima)
                continue;
            lo = maxima_bound(r, float_of_key(max_key), stage_scale(slot, CLS_STAGE_TOP_P),
                              top_p_target(out->total, row_top_p(slot)), work, list->scratch);
            if (lo == CLS_KEY_NONE)
                continue;
        }
        if (collect(r, lo, CLS_KEY_INF, ties, list)) {
            c->floor = ties == ALL_TIES ? lo : lo + 1;
            c->complete = c->floor == CLS_KEY_NONE + 1;
            c->kept = list->n;
            return 1;
        }
    }
    return 0;
}

/* Returns the first token that has the maximum, in the first max tile that has it. If none has it,
 * the device is wrong, and the last tile is read in place of memory behind the row. */
static inline i32 largest(const row_logits *r, i32 max_key, __local u64 *scratch)
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
        const u32 tops = lane_bits(load_v(r, first * CLS_MAX_TILE + v, kind) > under);
        id = tops != 0 ? (i32)(first * CLS_MAX_TILE + v + lowest_bit(tops)) : id;
    }
    return wg_imin(id, scratch);
}

/* Chooses what the pass measures in a row that must be searched: above four keys, for the first
 * truncation. */
static inline void plan_pass(const row_logits *r, __global const cls_slot *slot, u32 mirostat_k,
                             __global f32 *row_sample, cls_row *out, __local u64 *scratch)
{
    const u32 stage = first_truncation(slot);
    const f32 scale = stage_scale(slot, stage), row_max = float_of_key(out->max_key);
    out->state = stage == CLS_STAGE_TOP_K          ? CLS_ROW_SEARCH_COUNT
                 : STAGE_IS(stage, STAGES_OF_PASS) ? CLS_ROW_SEARCH_MASS
                                                   : CLS_ROW_SEARCH_ALL;
    out->scale = scale;
    out->kept = mirostat_k;
    if (STAGE_IS(stage, STAGES_OF_KEY)) {
        i32 lowest = depth_key(row_max, scale, slot->min_p);
#if CHAIN == 2
        if (stage == CLS_STAGE_MIROSTAT_2) {
            stage_bound b;
            chain_bound(slot, out->max_key, out->total, &b);
            lowest = b.lowest;
        }
#endif
        for (u32 p = 0; p < CLS_PIVOTS; p++)
            out->pivot[p] = lowest - 1;
    } else if (out->state != CLS_ROW_SEARCH_ALL) {
        const measure m = measure_of(stage == CLS_STAGE_TOP_K, row_max, scale);
        const u64 target = stage == CLS_STAGE_TOP_K ? (u64)(u32)slot->top_k
                                                    : top_p_target(out->total, row_top_p(slot));
        guess_pivots(r, &m, target, out->total, row_sample, out->pivot, scratch);
    }
}

ONE_COPY void token_row(const step_args *s, u32 row, const shortlist *the_list)
{
    __global const cls_args *const args = s->args;
    shortlist list = *the_list;
    const u32 has = s->has, tiles = row_tiles(s);
    const i32 slot_index = row_slot(s, row);
    __global u64 *const row_work = work_of(s, row);
    __global f32 *const row_sample = sample_of(s, row);
    __global const cls_slot *const slot = slot_of(s, slot_index);
    row_logits r = row_view(s, row, slot_index);
    const u32 flags = row_flags(s, slot_index);
    cls_row out;
    record_begin(slot_index, args->invalid_token, &out);
    if (slot_index >= 0 && slot->stopped) {
        out.status = CLS_STATUS_STOPPED | CLS_STATUS_SKIPPED;
    } else if (slot_index >= 0) {
        out.max_key = out.top_key = row_summary(&r, &out.status, list.scratch);
        out.status &= CLS_STATUS_NAN | CLS_STATUS_INF | CLS_STATUS_UNFIT;
        out.no_token = out.max_key == CLS_KEY_NONE;
        out.status |= out.no_token ? CLS_STATUS_EMPTY : 0u;
        out.scale = slot->scale;
    }
    if (!out.no_token &&
        (flags & CLS_SLOT_GREEDY)) { /* the same for the whole group, as all conditions here */
        out.token = largest(&r, out.max_key, list.scratch);
        out.cut_key = out.max_key;
        out.cut_id = out.token;
        out.kept = 1;
    } else if (!out.no_token) {
        chain_state c;
        int listed = 0;
        chain_begin(out.max_key, &c);
        if (flags & CLS_SLOT_TOTAL)
            out.total =
                row_total(r.key, s->tile_mass + (size_t)row * tiles, tiles,
                          float_of_key(out.max_key), slot->total_scale, row_work, list.scratch);
        BARRIER();
        if (CHAIN == 0 || chain_is_untruncated(flags, slot->chain[0], slot->adaptive.mu)) {
            c.set.untruncated = 1;
            c.scale = slot->scale;
            out.mass = out.total;
#if CHAIN > 0 && ROW
            out.token = has & CLS_DRAWN ? ((__global const i32 *)row_sample)[0] : -1;
#endif
        }
#if CHAIN > 0
        else if (!(has & CLS_FORCE_SEARCH) &&
                 list_row(&r, slot, out.max_key, row_sample, &list, &c, &out)) {
            list_sort(&list);
            listed = truncate_list(slot, &list, &r, row_xtc_cuts(s, slot, row), s->infill,
                                   args->n_end, &c, &out);
        }
#endif
        if ((c.set.untruncated || listed) &&
            !(out.status & (CLS_STATUS_UNFIT | CLS_STATUS_EMPTY))) {
            pick_token(&r, slot, listed, row_bits(s, CLS_PURPOSE_TOKEN, slot, row),
                       args->invalid_token, row_work, row_sample, &list, &c, &out);
        } else if (listed || !(has & CLS_HAS_SEARCH)) {
            /* There is nothing to draw from; or the host expected that the list would do, and
             * enqueued no search. The row gets a status instead of a wrong token. */
            out.status |= listed ? 0u : CLS_STATUS_UNFIT;
            out.state = CLS_ROW_DONE;
            out.no_token = 1;
        }
#if CHAIN > 0
        else {
            plan_pass(&r, slot, c.mirostat_k, row_sample, &out, list.scratch);
        }
#endif
    }
    row_end(s, &r, flags, row, slot_index, out.state == CLS_ROW_DONE, &out, list.scratch);
}

KERNEL void cls_token(STEP_PARAMETERS(CLS_TOKEN_BUFFERS))
{
    SHORTLIST(list);
    const step_args s = STEP_OF(CLS_TOKEN_BUFFERS);
    token_row(&s, get_group_id(1), &list);
}
