/* SPDX-License-Identifier: MIT */
/* typical p: keeps the tokens whose information is nearest to the entropy. */
#include "row/stage.cl"

/* The ranks that typical p keeps: first to end - 1, except gap to gap_end - 1. */
typedef struct typical_ranks {
    u32 first, end, gap, gap_end;
} typical_ranks;

/* Takes ranks by their distance from the mean depth, from both sides. Above the mean, tokens of
 * equal keys are taken in ascending order of ids, so there may be a gap between them and the ranks
 * that were taken before. */
ONE_COPY void typical_walk(const list_stage *w, u32 mean, u64 target, typical_ranks *t)
{
    const shortlist *const list = w->list;
    const f32 top = w->top, scale = w->c->scale;
    const u32 kept = w->c->kept, least = w->slot->min_keep;
    u64 sum = 0;
    u32 count = 0;
    t->first = t->gap = t->gap_end = 0;
    while (t->first < kept && depth_q20(rank_logit(list, t->first), top, scale) <= mean)
        t->first++;
    t->end = t->first;
    while ((sum < target || count < least) && (t->first > 0 || t->end < kept)) {
        const u32 up_to = t->first > 0
                              ? mean - depth_q20(rank_logit(list, t->first - 1), top, scale)
                              : 0xffffffffu;
        const u32 down_to =
            t->end < kept ? depth_q20(rank_logit(list, t->end), top, scale) - mean : 0xffffffffu;
        if (t->first > 0 && up_to <= down_to) {
            const i32 key = list->key[list->order[t->first - 1]];
            u32 first = t->first - 1, i;
            while (first > 0 && list->key[list->order[first - 1]] == key)
                first--;
            for (i = first; i < t->first && (sum < target || count < least); i++) {
                sum += list->mass[list->order[i]];
                count++;
            }
            t->gap = i;
            t->gap_end = t->first;
            t->first = first;
        } else {
            sum += list->mass[list->order[t->end]];
            count++;
            t->end++;
        }
    }
}

/* Runs the stage on the list. One item takes the ranks. */
static inline void typical_list(list_stage *w)
{
    shortlist *const list = w->list;
    chain_state *const c = w->c;
    const u32 mean =
        mean_depth_q20(list_sum(w->r, list, c->kept, SUM_DEPTHS, w->top, c->scale), w->mass);
    u64 packed = 0;
    typical_ranks t;
    if (LOCAL_ID == 0) {
        typical_walk(w, mean, typical_target(w->mass, w->slot->typical_p), &t);
        packed = u64_make(t.first | t.end << 16, t.gap | t.gap_end << 16);
    }
    packed = wg_broadcast(packed, LOCAL_ID == 0, list->scratch);
    t.first = u64_hi(packed) & 0xffffu;
    t.end = u64_hi(packed) >> 16;
    t.gap = u64_lo(packed) & 0xffffu;
    t.gap_end = u64_lo(packed) >> 16;
    c->kept = t.end;
    if (t.first == 0 && t.gap == t.gap_end)
        return;
    const i32 key = list->key[list->order[t.first]],
              last = list->id[list->order[t.gap < t.gap_end ? t.gap - 1 : 0]];
    c->set.upper_first = key == c->set.upper_key ? c->set.upper_first : 0;
    c->set.upper_last = t.gap < t.gap_end         ? last
                        : key == c->set.upper_key ? c->set.upper_last
                                                  : CLS_MAX_ID;
    c->set.upper_key = key;
    list_remove(list, t.gap, t.gap_end);
    c->kept -= t.gap_end - t.gap;
    remove_top_ranks(list, c, t.first);
}

static inline void typical_row(row_stage *w)
{
    const u64 sum = row_sum(w->r, SUM_DEPTHS, w->top, w->scale, w->list->scratch);
    w->cut = CUT_TYPICAL;
    w->counts = 0;
    w->mean = mean_depth_q20(sum, w->mass);
    w->target = typical_target(w->mass, w->slot->typical_p);
}

/* Runs the stage over the whole row: finds the distance from the mean depth that the set reaches,
 * and then how many of the keys at exactly that distance above the mean it includes. Makes the
 * upper cut, and prepares the lower one: as a key in *low, or (if it returns 1) as a measure that
 * the set must reach. */
ONE_COPY int typical_cut(row_logits *r, const measure *m, u32 mean, u64 target, __global u64 *work,
                         kept_set *set, i32 *low, __local u64 *scratch)
{
    const f32 top = m->row_max;
    u64 below = 0; /* the measure of what is nearer than `lo` */
    u32 distance = 0;
    i32 group = 0, group_end = 0;
    /* Round 0 searches distances, round 1 the keys above the mean that have the found distance. */
    for (u32 round = 0; round < 2; round++) {
        const u64 base = below;
        u32 lo = 0, hi = CLS_MAX_DEPTH;
        if (round == 1) {
            lo = 0;
            hi = (u32)(group_end - group);
        }
        while (lo < hi) {
            const u32 at[2] = {lo + (hi - lo) / 3, lo + (hi - lo) / 3 * 2};
            i32 key[CLS_PIVOTS];
            u64 sum[CLS_PIVOTS], to[2];
            for (u32 i = 0; i < 2; i++) {
                key[1 - i] =
                    round == 1 ? group - 1 : depth_q20_key(top, m->scale, mean + at[i]) - 1;
                key[2 + i] = round == 1     ? group + (i32)at[i]
                             : mean > at[i] ? depth_q20_key(top, m->scale, mean - at[i] - 1) - 1
                                            : CLS_KEY_INF - 1;
            }
            measure_row(r, m, key, sum, scratch);
            for (u32 i = 0; i < 2; i++)
                to[i] = base + sum[1 - i] - sum[2 + i];
            for (u32 i = 0; i < 2; i++) {
                if (to[i] < target) {
                    if (at[i] >= lo) {
                        lo = at[i] + 1;
                        below = to[i];
                    }
                } else if (at[i] < hi) {
                    hi = at[i];
                }
            }
        }
        if (round == 0) {
            distance = lo;
            /* These are the keys whose depth is mean - distance; if that is negative, there are
             * none. */
            if (distance > mean)
                break; /* everything above the mean is nearer */
            group = depth_q20_key(top, m->scale, mean - distance);
            group_end = mean > distance ? depth_q20_key(top, m->scale, mean - distance - 1)
                                        : key_of(top) + 1;
        } else {
            const i32 key = group + (i32)lo;
            const int tied = key < group_end;
            const i32 edge = tied ? key : group_end - 1;
            i32 last = edge == set->upper_key ? set->upper_last : CLS_MAX_ID;
            *low = distance > 0 ? depth_q20_key(top, m->scale, mean + distance - 1) : group;
            if (tied)
                last = tie_cut(r, m, key, below, target, work, scratch);
            set->upper_first = edge == set->upper_key ? set->upper_first : 0;
            set->upper_last = last;
            set->upper_key = edge;
            row_truncate(r, set);
            return !tied;
        }
    }
    return 1;
}
