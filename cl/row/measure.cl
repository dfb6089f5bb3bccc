/* SPDX-License-Identifier: MIT */
/* measure: says what is summed up of a row's tiles, and which of their tokens. */
#include "row/tiles.cl"
#include "row/set.cl"

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
static inline window window_of(SHARED const row_logits *r, u32 tile)
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
