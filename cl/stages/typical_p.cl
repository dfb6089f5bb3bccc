/* SPDX-License-Identifier: MIT */
/* typical p: keeps the tokens whose information is nearest to the entropy. Its order begins at the
 * mean depth and goes to both sides. Of the tokens at one distance those above the mean come first,
 * the lower keys before the higher. */
#include "row/job.cl"

static inline void typical_p(row_job *w)
{
    w->cut = CUT_TYPICAL;
    w->counts = 0;
    w->mean = mean_depth_q20(need(w, CLS_SUM_DEPTHS), w->mass);
    w->target = typical_target(w->mass, w->slot->typical_p);
}

/* The search for the cut, and how far it is. */
enum {
    TYPICAL_BEGINS = 0,
    TYPICAL_BELOW = 1, /* the set reaches a distance on both sides, and ends below the mean */
    TYPICAL_ABOVE = 2, /* it ends above the mean, at a key that is being located */
    TYPICAL_TIES = 3,  /* it ends at a token of that key, which is being located */
};
typedef struct typical_search {
    u32 step;
    i32 lowest;        /* the least key that is kept, if the set ends above the mean */
    u64 rest, at_head; /* what is needed of the tokens at the distance, and what the set has from
                          the least of their keys above the mean on */
} typical_search;

/* Returns the least distance from the mean depth that the set reaches, and in *nearer the measure
 * of what is nearer. */
static inline u32 typical_distance(const row_job *w, const measure *m, u64 *nearer)
{
    const u32 mean = w->mean;
    u32 lo = 0, hi = CLS_MAX_DEPTH;
    *nearer = 0;
    while (lo < hi) {
        const u32 third = (hi - lo) / 3, from = lo;
        i32 key[CLS_PIVOTS];
        u64 sum[CLS_PIVOTS];
        for (u32 i = 0; i < 2; i++) {
            const u32 at = from + third * (i + 1);
            key[1 - i] = depth_q20_key(w->top, w->scale, mean + at) - 1;
            key[2 + i] =
                mean > at ? depth_q20_key(w->top, w->scale, mean - at - 1) - 1 : CLS_KEY_INF - 1;
        }
        set_above(w, m, key, sum);
        for (u32 i = 0; i < 2; i++) {
            const u32 at = from + third * (i + 1);
            const u64 reached = sum[1 - i] - sum[2 + i];
            if (reached >= w->target) {
                hi = at < hi ? at : hi;
            } else if (at >= lo) {
                lo = at + 1;
                *nearer = reached;
            }
        }
    }
    return lo;
}

/* Goes on until a token must be located: that at which the measure from the top reaches w->target.
 * It returns 1 then. When it returns 0, `set` has the upper cut, and *at the lower one. */
ONE_COPY int typical_next(row_job *w, const measure *m, typical_search *t, kept_set *set,
                          interval *within, cut *at)
{
    const f32 top = w->top, scale = w->scale;
    i32 head, head_end;
    u64 sum[CLS_PIVOTS];
    if (t->step == TYPICAL_BELOW)
        return 0;
    if (t->step == TYPICAL_TIES) {
        upper_cut(set, at->key);
        set->upper_last = at->id;
        at->key = t->lowest;
        at->id = CLS_MAX_ID;
        return 0;
    }
    if (t->step == TYPICAL_BEGINS) {
        u64 nearer;
        const u32 mean = w->mean, distance = typical_distance(w, m, &nearer);
        t->step = TYPICAL_BELOW;
        if (distance > mean) /* everything above the mean is nearer */
            return 1;
        /* These keys above the mean have the distance. */
        head = depth_q20_key(top, scale, mean - distance);
        head_end =
            mean > distance ? depth_q20_key(top, scale, mean - distance - 1) : key_of(top) + 1;
        t->lowest = distance > 0 ? depth_q20_key(top, scale, mean + distance - 1) : head;
        t->rest = w->target - nearer;
    } else { /* TYPICAL_ABOVE */
        head = at->key;
        head_end = head + 1;
    }
    const i32 key[CLS_PIVOTS] = {head - 1, head - 1, head_end - 1, head_end - 1};
    set_above(w, m, key, sum);
    within->hi = head_end - 1;
    within->at_hi = sum[3];
    if (t->step == TYPICAL_ABOVE) {
        t->step = TYPICAL_TIES;
        w->target = sum[3] + t->rest - (t->at_head - sum[0]);
    } else if (sum[0] - sum[3] < t->rest) {
        upper_cut(set, head_end - 1);
        w->target += sum[3];
        return 1;
    } else {
        t->step = TYPICAL_ABOVE;
        t->at_head = sum[0];
        w->target = sum[0] - t->rest + 1;
    }
    within->lo = head - 1;
    within->at_lo = sum[0];
    return 1;
}
