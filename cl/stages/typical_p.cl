/* SPDX-License-Identifier: MIT */
/* typical p: keeps the tokens whose information is nearest to the entropy. Its order begins at the
 * mean depth and goes to both sides. Of the tokens at one distance those above the mean come first,
 * the lower keys before the higher. */
#include "row/job.cl"

static inline void typical_p(const step_args *s, row_job *w)
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

/* The search for the least distance from the mean depth that the set reaches: an interval of
 * distances, and what is measured at two of them. */
typedef struct typical_distance {
    u32 lo, hi, at, beyond;
    u64 nearer, at_hi;    /* the measure of what is nearer than lo, and of all up to hi */
    i32 hole_lo, hole_hi; /* the keys that are nearer than lo */
    int missed;
} typical_distance;

/* The first distances are of few bits, as most tokens' are. Then they lie around where the measures
 * of both ends put the answer; and, once that has missed, as it does among few tokens, at thirds.
 */
static inline void typical_try(typical_distance *d, u64 target)
{
    const u32 width = d->hi - d->lo;
    u32 before = width / 3, step = before;
    if (d->hi == CLS_MAX_DEPTH) {
        before = step = min(before, d->lo + (1u << 19));
    } else if (!d->missed) {
        const f32 part = u64_to_f32(target - d->nearer) / u64_to_f32(d->at_hi - d->nearer);
        const u32 middle = min((u32)(part * (f32)width), width - 1);
        before = middle - min(middle, width / 16);
        step = min(width / 8, width - 1 - before);
    }
    d->at = d->lo + before;
    d->beyond = d->at + step;
}
static inline void typical_narrow(typical_distance *d, u32 at, u64 measured, u64 target,
                                  i32 hole_lo, i32 hole_hi)
{
    if (measured >= target && at < d->hi) {
        d->hi = at;
        d->at_hi = measured;
    } else if (measured < target && at >= d->lo) {
        d->lo = at + 1;
        d->nearer = measured;
        d->hole_lo = hole_lo;
        d->hole_hi = hole_hi;
    }
}

/* The key above which tokens are deeper than the mean by at most a distance, and that above which
 * they are higher than it by more. */
static inline i32 typical_low(const row_job *w, u32 distance)
{
    return depth_q20_key(w->top, w->scale, w->mean + distance) - 1;
}
static inline i32 typical_high(const row_job *w, u32 distance)
{
    return w->mean > distance ? depth_q20_key(w->top, w->scale, w->mean - distance - 1) - 1
                              : key_of(w->top);
}

/* Goes on until a token must be located: that at which the measure from the top reaches w->target.
 * It returns 1 then. When it returns 0, `set` has the upper cut, and *at the lower one. It is a
 * loop so that compilers that inline everything compile set_above() once. */
ONE_COPY int typical_next(row_job *w, const measure *m, typical_search *t, kept_set *set,
                          interval *within, cut *at)
{
    typical_distance d = {0, CLS_MAX_DEPTH, 0, 0, 0, 0, 0, 0, 0};
    i32 key[CLS_PIVOTS];
    u64 sum[CLS_PIVOTS];
    if (t->step == TYPICAL_BELOW)
        return 0;
    if (t->step == TYPICAL_TIES) {
        upper_cut(set, at->key);
        set->cut.upper_last = at->id;
        at->key = t->lowest;
        at->id = CLS_MAX_ID;
        return 0;
    }
    const int begins = t->step == TYPICAL_BEGINS;
    SHORT_LOOP
    for (int searches = begins;;) {
        i32 hi = CLS_KEY_INF, hole_lo = 0, hole_hi = 0;
        if (searches) {
            typical_try(&d, w->target);
            key[0] = typical_low(w, d.beyond);
            key[1] = typical_low(w, d.at);
            key[2] = typical_high(w, d.at);
            key[3] = hi = typical_high(w, d.beyond);
            hole_lo = d.hole_lo;
            hole_hi = d.hole_hi;
        } else if (begins) {
            /* Tokens above key[0] and not above key[1], and those above key[2] and not above
             * key[3], have the distance. Beyond the mean everything above it is nearer. */
            key[0] = typical_low(w, d.lo);
            key[3] = typical_high(w, d.lo);
            key[2] = d.lo <= w->mean ? depth_q20_key(w->top, w->scale, w->mean - d.lo) - 1 : key[3];
            key[1] = d.lo > 0 ? typical_low(w, d.lo - 1) : key[2];
        } else { /* TYPICAL_ABOVE */
            key[0] = key[1] = key[2] = at->key - 1;
            key[3] = at->key;
        }
        set_above(w, m, hi, hole_lo, hole_hi, key, sum);
        if (!searches)
            break;
        const u32 width = d.hi - d.lo;
        const u64 nearer = d.nearer;
        typical_narrow(&d, d.at, nearer + sum[1] - sum[2], w->target, key[1], key[2]);
        typical_narrow(&d, d.beyond, nearer + sum[0] - sum[3], w->target, key[0], key[3]);
        d.missed |= d.hi != CLS_MAX_DEPTH && d.hi - d.lo > width / 4;
        searches = d.lo < d.hi;
    }
    within->lo = key[2];
    within->hi = key[3];
    within->at_lo = sum[2];
    within->at_hi = sum[3];
    if (!begins) {
        t->step = TYPICAL_TIES;
        w->target = sum[3] + t->rest - (t->at_head - sum[2]);
        return 1;
    }
    t->rest = w->target - d.nearer;
    t->lowest = key[1] + 1;
    if (sum[2] - sum[3] < t->rest) {
        t->step = TYPICAL_BELOW;
        if (d.lo <= w->mean)
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
