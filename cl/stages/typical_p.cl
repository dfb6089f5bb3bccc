/* SPDX-License-Identifier: MIT */
/* typical p: keep the tokens whose information is nearest to the entropy. */
#include "row/list.cl"
#include "row/cut.cl"

/* Typical p on the list: takes the nearest to the mean depth, from both sides.
 * One item walks. Of a key on the head side the lower ids are taken first, so
 * that ranks between them and the rest may stay out. */
static inline void typical_list(const cls_slot *slot, shortlist *list, chain_state *c, u32 mean, u64 target)
{
    const f32 top = of_key(c->set.top_key), scale = c->scale;
    u32 head = 0, tail, hole = 0, hole_end = 0;
    u64 packed = u64_from(0);
    if (get_local_id(0) == 0) {
        u64 sum = u64_from(0);
        u32 count = 0;
        while (head < c->kept && depth_q20(rank_logit(list, head), top, scale) <= mean)
            head++;
        tail = head;
        while ((u64_less(sum, target) || count < slot->min_keep) && (head > 0 || tail < c->kept)) {
            const u32 up_to = head > 0 ? mean - depth_q20(rank_logit(list, head - 1), top, scale) : 0xffffffffu;
            const u32 down_to = tail < c->kept ? depth_q20(rank_logit(list, tail), top, scale) - mean : 0xffffffffu;
            if (head > 0 && up_to <= down_to) {
                const i32 key = list->key[list->order[head - 1]];
                u32 first = head - 1, i;
                while (first > 0 && list->key[list->order[first - 1]] == key)
                    first--;
                for (i = first; i < head && (u64_less(sum, target) || count < slot->min_keep); i++) {
                    sum = u64_add(sum, list->mass[list->order[i]]);
                    count++;
                }
                hole = i;
                hole_end = head;
                head = first;
            } else {
                sum = u64_add(sum, list->mass[list->order[tail]]);
                count++;
                tail++;
            }
        }
        packed = u64_make(head | tail << 16, hole | hole_end << 16);
    }
    packed = wg_broadcast(packed, get_local_id(0) == 0, list->scratch);
    head = u64_hi(packed) & 0xffffu;
    tail = u64_hi(packed) >> 16;
    hole = u64_lo(packed) & 0xffffu;
    hole_end = u64_lo(packed) >> 16;
    c->kept = tail;
    if (head == 0 && hole == hole_end)
        return;
    const i32 key = list->key[list->order[head]], last = list->id[list->order[hole < hole_end ? hole - 1 : 0]];
    c->set.head_first = key == c->set.head_key ? c->set.head_first : 0;
    c->set.head_last = hole < hole_end ? last : key == c->set.head_key ? c->set.head_last : CLS_MAX_ID;
    c->set.head_key = key;
    list_drop(list, hole, hole_end);
    c->kept -= hole_end - hole;
    drop_head(list, c, head);
}

/* Typical p: how far from the mean depth the set reaches, then how far into the
 * keys at just that distance on the head side. Cuts the head, and leaves what the
 * cut below is: a key, or (returns 1) a measure that the set must reach. */
static inline int typical_row(row_logits *r, __global const i32 *row_key, u32 tiles, const measure *m, u32 mean, u64 target,
                              __global u64 *work, kept_set *set, i32 *low, __local u64 *scratch)
{
    const f32 top = m->row_max;
    u64 below = u64_from(0); /* what is nearer than `lo` */
    u32 distance = 0;
    i32 group = 0, group_end = 0;
    /* Round 0: distances; round 1: keys of the head side at this distance. */
    for (u32 round = 0; round < 2; round++) {
        const u64 base = below;
        u32 lo = 0, hi = CLS_DEEPEST;
        if (round == 1) {
            lo = 0;
            hi = (u32)(group_end - group);
        }
        while (lo < hi) {
            const u32 at[2] = { lo + (hi - lo) / 3, lo + (hi - lo) / 3 * 2 };
            i32 key[CLS_PIVOTS];
            u64 sum[CLS_PIVOTS], to[2];
            for (u32 i = 0; i < 2; i++) {
                key[1 - i] = round == 1 ? group - 1 : depth_q20_key(top, m->scale, mean + at[i]) - 1;
                key[2 + i] = round == 1     ? group + (i32)at[i]
                             : mean > at[i] ? depth_q20_key(top, m->scale, mean - at[i] - 1) - 1
                                            : CLS_KEY_INF - 1;
            }
            measure_row(r, row_key, tiles, m, key, sum, scratch);
            for (u32 i = 0; i < 2; i++)
                to[i] = u64_add(base, u64_sub(sum[1 - i], sum[2 + i]));
            for (u32 i = 0; i < 2; i++) {
                if (u64_less(to[i], target)) {
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
            /* Keys whose depth is just mean - distance: none if that is below 0. */
            if (distance > mean)
                break; /* all of the head side is nearer */
            group = depth_q20_key(top, m->scale, mean - distance);
            group_end = mean > distance ? depth_q20_key(top, m->scale, mean - distance - 1) : key_of(top) + 1;
        } else {
            const i32 key = group + (i32)lo;
            const int tied = key < group_end;
            const i32 edge = tied ? key : group_end - 1;
            i32 last = edge == set->head_key ? set->head_last : CLS_MAX_ID;
            *low = distance > 0 ? depth_q20_key(top, m->scale, mean + distance - 1) : group;
            if (tied)
                last = tie_cut(r, row_key, tiles, m, key, below, target, work, scratch);
            set->head_first = edge == set->head_key ? set->head_first : 0;
            set->head_last = last;
            set->head_key = edge;
            row_narrow(r, set);
            return !tied;
        }
    }
    return 1;
}
