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
 * of what is nearer. The first distances are of few bits, as most tokens' are; then they lie around
 * where the measures of both ends put the answer, and, once that has missed, as it does among few
 * tokens, at thirds. */
static inline u32 typical_distance(const row_job *w, const measure *m, u64 *nearer)
{
    const u32 mean = w->mean;
    u32 lo = 0, hi = CLS_MAX_DEPTH;
    i32 hole_lo = 0, hole_hi = 0; /* the keys that are nearer than lo */
    u64 at_hi = 0;
    int missed = 0;
    *nearer = 0;
    while (lo < hi) {
        const u32 width = hi - lo;
        const u64 before = *nearer;
        u32 at[2];
        i32 key[CLS_PIVOTS];
        u64 sum[CLS_PIVOTS];
        if (hi == CLS_MAX_DEPTH || missed) {
            const u32 third = hi == CLS_MAX_DEPTH ? min(width / 3, lo + (1u << 19)) : width / 3;
            at[0] = lo + third;
            at[1] = at[0] + third;
        } else {
            const f32 part = u64_to_f32(w->target - before) / u64_to_f32(at_hi - before);
            const u32 middle = min((u32)(part * (f32)width), width - 1);
            at[0] = lo + middle - min(middle, width / 16);
            at[1] = lo + min(middle + width / 16, width - 1);
        }
        for (u32 i = 0; i < 2; i++) {
            key[1 - i] = depth_q20_key(w->top, w->scale, mean + at[i]) - 1;
            key[2 + i] = mean > at[i] ? depth_q20_key(w->top, w->scale, mean - at[i] - 1) - 1
                                      : CLS_KEY_INF - 1;
        }
        set_above(w, m, key[3], hole_lo, hole_hi, key, sum);
        for (u32 i = 0; i < 2; i++) {
            const u64 reached = before + sum[1 - i] - sum[2 + i];
            if (reached >= w->target && at[i] < hi) {
                hi = at[i];
                at_hi = reached;
            } else if (reached < w->target && at[i] >= lo) {
                lo = at[i] + 1;
                *nearer = reached;
                hole_lo = key[1 - i];
                hole_hi = key[2 + i];
            }
        }
        missed |= hi != CLS_MAX_DEPTH && hi - lo > width / 4;
    }
    return lo;
}

/* Goes on until a token must be located: that at which the measure from the top reaches w->target.
 * It returns 1 then. When it returns 0, `set` has the upper cut, and *at the lower one. */
ONE_COPY int typical_next(row_job *w, const measure *m, typical_search *t, kept_set *set,
                          interval *within, cut *at)
{
    const f32 top = w->top, scale = w->scale;
    i32 key[CLS_PIVOTS];
    u64 sum[CLS_PIVOTS];
    int may_end_above = 1;
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
        may_end_above = distance <= mean; /* else everything above the mean is nearer */
        t->rest = w->target - nearer;
        /* Tokens above key[0] and not above key[1], and those above key[2] and not above key[3],
         * have the distance. */
        key[0] = depth_q20_key(top, scale, mean + distance) - 1;
        key[3] = mean > distance ? depth_q20_key(top, scale, mean - distance - 1) - 1 : key_of(top);
        key[2] = may_end_above ? depth_q20_key(top, scale, mean - distance) - 1 : key[3];
        key[1] = distance > 0 ? depth_q20_key(top, scale, mean + distance - 1) - 1 : key[2];
        t->lowest = key[1] + 1;
    } else { /* TYPICAL_ABOVE */
        key[0] = key[1] = key[2] = at->key - 1;
        key[3] = at->key;
    }
    set_above(w, m, CLS_KEY_INF, 0, 0, key, sum);
    within->lo = key[2];
    within->hi = key[3];
    within->at_lo = sum[2];
    within->at_hi = sum[3];
    if (t->step == TYPICAL_ABOVE) {
        t->step = TYPICAL_TIES;
        w->target = sum[3] + t->rest - (t->at_head - sum[2]);
    } else if (sum[2] - sum[3] < t->rest) {
        t->step = TYPICAL_BELOW;
        if (may_end_above)
            upper_cut(set, key[3]);
        within->lo = key[0];
        within->hi = key[1];
        within->at_lo = sum[0];
        within->at_hi = sum[1];
        w->target += sum[3];
    } else {
        t->step = TYPICAL_ABOVE;
        t->at_head = sum[2];
        w->target = sum[2] - t->rest + 1;
    }
    return 1;
}
