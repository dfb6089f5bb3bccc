/* SPDX-License-Identifier: MIT */
/* ranks_cpu: how one work-item counts the tokens that reach many keys, in one read of the row. */
#include "row/share.cl"
#include "row/shortlist.cl"

#if WGS == 1 && LIST >= 128
#define COUNTS_BY_BUCKETS 1
/* The range of the keys is divided into buckets of equal width, as floats, whose tokens are
 * counted. Tokens in a bucket with a key are also looked up. The only requirement is that a token's
 * bucket number never decreases as its logit falls, so the device's rounding does not matter. With
 * 4,096 buckets, a tenth of the tokens are looked up for 256 keys of float32 logits. */
#define BUCKETS 4096        /* and one more for tokens that reach no key */
#define HAS_KEY 0x80000000u /* a flag in the bucket's token count: a key lies in it */
#define BATCH (8 * CLS_MAX_TILE)

/* Returns the buckets of logits. The comparisons put NaN, which comes from an infinite range, into
 * the first one. */
static inline IV buckets_of(f32 top, f32 per, FV x)
{
    const FV b = ((FV)(top)-x) * per, least = b > 0.0f ? b : (FV)(0.0f);
    return CAT(convert_int, VEC)(least < (f32)(BUCKETS - 1) ? least : (FV)((f32)(BUCKETS - 1)));
}

#define STEP_BUCKET(g) \
    VSTORE(x[g], lane + held + v + g * VEC); \
    VSTORE(x[g] > under ? buckets_of(top, per, x[g]) : (IV)(BUCKETS), bucket + held + v + g * VEC);
/* The highest bit of a bucket's count says whether the token must be looked up, so there is no
 * branch. */
#define COUNT_ONE(j) \
    { \
        const u32 b = (u32)bucket[v + j], before = tokens[b]; \
        tokens[b] = before + 1; \
        lookup[n_lookups] = v + j; \
        n_lookups += before >> 31; \
    }
#define COUNT_FOUR(j) COUNT_ONE(j) COUNT_ONE(j + 1) COUNT_ONE(j + 2) COUNT_ONE(j + 3)

ONE_COPY void count_by_buckets(SHARED const row_logits *r, __local const i32 *key, u32 edges,
                               __local i32 *count)
{
    f32 edge[LIST / 2], lane[BATCH]; /* edge: the floats before the keys, descending */
    i32 bucket[BATCH];
    u32 lookup[BATCH + 1], tokens[BUCKETS + 1];
    u32 home[LIST / 2 + 1];    /* each key's bucket */
    u32 first[BUCKETS + 1];    /* a bucket's first key, and in the upper half the next one's */
    u32 reached[LIST / 2 + 1]; /* those looked up that reach the key, but no larger one */
    u32 held = 0, n_lookups = 0, all = 0;
    for (u32 i = 0; i < edges; i++)
        edge[i] = above(key[i] - 1);
    /* A sixteenth of the keys at either end may lie far away, which would leave all others in one
     * bucket. */
    const f32 under = edge[edges - 1], high = edge[edges / 16], low = edge[edges - 1 - edges / 16],
              width = high - low, top = SMALLER(high + width, edge[0]),
              bottom = LARGER(low - width, under),
              per = top > bottom ? (f32)(BUCKETS - 1) / (top - bottom) : 0.0f;
    for (u32 i = 0, next = 0; i <= edges; i++) {
        home[i] = i < edges ? (u32)IMAX(buckets_of(top, per, (FV)(edge[i]))) : BUCKETS;
        reached[i] = 0;
        for (; next <= home[i]; next++) {
            first[next] = i | i << 16;
            tokens[next] = 0;
        }
        if (i < edges) {
            first[home[i]] += 1 << 16;
            tokens[home[i]] = HAS_KEY;
        }
    }
    for (u32 m = 0; m < max_tiles(r); m++) {
        if (r->key[m] >= key[edges - 1]) {
            const int kind = max_tile_kind(r, m);
            for (u32 v = 0; v < CLS_MAX_TILE; v += UNROLL * VEC) {
                FV x[UNROLL];
                load_share(r, m * CLS_MAX_TILE + v, kind, CLS_MASKED, x);
                CLS_EACH_4(STEP_BUCKET)
            }
            SHORT_LOOP
            for (u32 v = held; v < held + CLS_MAX_TILE; v += 16) {
                COUNT_FOUR(0) COUNT_FOUR(4) COUNT_FOUR(8) COUNT_FOUR(12)
            }
            held += CLS_MAX_TILE;
        }
        if (held != BATCH && m + 1 != max_tiles(r))
            continue;
        SHORT_LOOP
        for (u32 i = 0; i < n_lookups; i++) {
            const u32 here = first[bucket[lookup[i]]], end = here >> 16;
            const f32 z = lane[lookup[i]];
            u32 at = here & 0xffffu;
            for (u32 over = end; over - at > 1;) {
                const u32 mid = (at + over) / 2;
                const int reaches = z > edge[mid - 1];
                over = reaches ? mid : over;
                at = reaches ? at : mid;
            }
            at += z > edge[at] ? 0u : 1u;
            reached[at] += at < end ? 1u : 0u;
        }
        held = n_lookups = 0;
    }
    for (u32 i = 0, next = 0, own = 0; i < edges; i++) {
        for (; next < home[i]; next++) {
            all += tokens[next] & ~HAS_KEY;
            own = 0;
        }
        own += reached[i];
        count[i] = (i32)(all + own);
    }
}
#endif
