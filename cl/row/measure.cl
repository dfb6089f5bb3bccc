/* SPDX-License-Identifier: MIT */
/* measure: says what is summed up of a row's tiles, and which of their tokens. */
#include "row/tiles.cl"
#include "row/set.cl"

#if WGS > 1
/* The sum of a vector's lanes, each below 2^32. For sums of two vectors of weights this takes 1.5
 * operations a token; a weight_sum would take 4.3 for a share. */
#define DEFINE_SUM_64(N, HALF) \
    static inline u64 sum_64_##N(uint##N v) { return sum_64_##HALF(v.lo) + sum_64_##HALF(v.hi); }
static inline u64 sum_64_2(uint2 v) { return (u64)v.x + v.y; }
DEFINE_SUM_64(4, 2)
DEFINE_SUM_64(8, 4)
DEFINE_SUM_64(16, 8)
#define SUM_64 CAT(sum_64_, VEC)
#endif

/* What is summed up above a key: masses at a scale, or the number of tokens. */
typedef struct measure {
    int counts;
    f32 row_max, scale;
    i32 exponent; /* of the row's unit at this scale */
} measure;

static inline measure measure_of(int counts, f32 row_max, f32 scale)
{
    measure m;
    m.counts = counts;
    m.row_max = row_max;
    m.scale = scale;
    m.exponent = split(row_max, scale).exponent;
    return m;
}

/* A tile's tokens that the row still has are those above `under` and not above `over`; or, with
 * `by_id`, where a cut lies at a token of the tile, those that truncate_v() leaves. */
typedef struct window {
    f32 under, over;
    int by_id;
} window;
static inline window window_of(const row_logits *r, u32 tile)
{
    window w = {CLS_MASKED, CLS_INF, 0};
    if (r->truncated) {
        const i32 first = (i32)(tile * CLS_TILE), last = first + CLS_TILE - 1;
        const int keeps = last <= r->cut.id, drops = first > r->cut.id,
                  upper_keeps = first >= r->cut.upper_first && last <= r->cut.upper_last,
                  upper_drops = last < r->cut.upper_first || first > r->cut.upper_last;
        w.by_id = !(keeps || drops) || !(upper_keeps || upper_drops);
        if (!w.by_id) {
            if (r->cut.key != CLS_KEY_NONE)
                w.under = above(drops ? r->cut.key : r->cut.key - 1);
            w.over = above(upper_keeps ? r->cut.upper_key : r->cut.upper_key - 1);
        }
    }
    return w;
}
