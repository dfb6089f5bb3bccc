/* SPDX-License-Identifier: MIT */
/* ranks_cpu: how one work-item counts the tokens that reach many keys, in one read of the row. */
#include "row/shortlist.cl"

#if WGS == 1 && LIST >= 128
#define COUNTS_BY_BUCKETS 1
/* One item counts for all keys in one read. It divides the range of the keys into buckets of equal
 * width, as floats, and counts the tokens of each bucket. Tokens in a bucket with a key are also
 * compared with that key, or looked up among all keys if the bucket has several. The only
 * requirement is that a token's bucket number never decreases as its logit falls, so the device's
 * rounding does not matter. With 4,096 buckets, a tenth of the tokens are looked up for 256 keys of
 * float32 logits. */
#define BUCKETS 4096        /* and one more for tokens that reach no key */
#define HAS_KEY 0x80000000u /* a flag in the bucket's token count: a key lies in it */
#define SEVERAL_KEYS 0u     /* instead of the edge: several keys lie in it */
#define BATCH (8 * CLS_MAX_TILE)

typedef struct buckets {
    u32 tokens[BUCKETS + 1];  /* with HAS_KEY */
    u32 edge[BUCKETS + 1];    /* of the key that lies in it, or SEVERAL_KEYS */
    u32 reached[BUCKETS + 1]; /* the tokens that reach that key */
} buckets;

typedef struct key_table {
    __local u32 *edge;  /* the float before each key, as an integer; descending */
    __local i32 *count; /* of each key, the tokens that reach it; at first, those looked up that
                           reach no larger key */
    u32 edges;
    f32 top, per; /* the upper end of the buckets, and buckets per unit */
    f32 under;    /* tokens that reach a key are larger than this */
} key_table;

static inline u32 ordered_bits(f32 x) { return (u32)key_of(x) ^ 0x80000000u; }
static inline f32 edge_float(const key_table *t, u32 i)
{
    return float_of_key((i32)(t->edge[i] ^ 0x80000000u));
}

/* Returns the bucket of a logit. The comparisons put NaN, which comes from an infinite range, into
 * the first one. */
static inline u32 bucket_of(const key_table *t, f32 x)
{
    const f32 b = (t->top - x) * t->per, least = b > 0.0f ? b : 0.0f;
    return (u32)(i32)(least < (f32)(BUCKETS - 1) ? least : (f32)(BUCKETS - 1));
}
static inline IV buckets_of(const key_table *t, FV x)
{
    const FV b = (t->top - x) * t->per, least = b > 0.0f ? b : (FV)(0.0f);
    return CAT(convert_int, VEC)(least < (f32)(BUCKETS - 1) ? least : (FV)((f32)(BUCKETS - 1)));
}

/* Sets the range of the buckets by most of the keys: a sixteenth of them at either end may lie far
 * away, which would leave all others in one bucket. */
static inline void bucket_range(key_table *t)
{
    const u32 n = t->edges, some = n / 16;
    const f32 most = edge_float(t, 0), least = edge_float(t, n - 1);
    const f32 high = edge_float(t, some), low = edge_float(t, n - 1 - some), width = high - low;
    const f32 top = high + width < most ? high + width : most,
              bottom = low - width > least ? low - width : least;
    t->top = top;
    t->per = top > bottom ? (f32)(BUCKETS - 1) / (top - bottom) : 0.0f;
    t->under = least;
}

static inline void buckets_begin(key_table *t, buckets *b)
{
    for (u32 i = 0; i <= BUCKETS; i++)
        b->tokens[i] = b->reached[i] = 0;
    for (u32 i = 0; i < t->edges; i++)
        t->edge[i] = ordered_bits(above((i32)t->edge[i] - 1));
    bucket_range(t);
    for (u32 i = 0; i < t->edges; i++) {
        const u32 at = bucket_of(t, edge_float(t, i));
        b->edge[at] = b->tokens[at] & HAS_KEY ? SEVERAL_KEYS : t->edge[i];
        b->tokens[at] = HAS_KEY;
        t->count[i] = 0;
    }
    t->count[t->edges] = 0;
}

/* Looks up n tokens, each in its bucket. If several keys lie in it, the count of the largest key
 * that the token reaches is incremented. There are at most LIST / 2 keys. The search is not a loop,
 * which would make too many iterations (doc/kernels.md). */
#define FIND(step) at += at + step <= t->edges && x <= t->edge[at + step - 1] ? step : 0u;
ONE_COPY void buckets_look_up(const key_table *t, const u32 *bits, const i32 *bucket_of_token,
                              const u32 *lookup, u32 n, buckets *b)
{
    SHORT_LOOP
    for (u32 i = 0; i < n; i++) {
        const u32 x = bits[lookup[i]], bucket = (u32)bucket_of_token[lookup[i]],
                  edge = b->edge[bucket];
        if (edge != SEVERAL_KEYS) {
            b->reached[bucket] += x > edge;
        } else {
            u32 at = 0;
            /* clang-format off */
            FIND(512u) FIND(512u) FIND(256u) FIND(128u) FIND(64u) FIND(32u)
            FIND(16u) FIND(8u) FIND(4u) FIND(2u) FIND(1u)
                /* clang-format on */
                t->count[at]++;
        }
    }
}

#define STEP_BUCKET(g) \
    { \
        const IV in = x[g] > table.under, raw = AS_IV(x[g]); \
        VSTORE(AS_UV(raw ^ ((raw >> 31) & 0x7fffffff)) ^ 0x80000000u, bits + held + v + g * VEC); \
        VSTORE(in ? buckets_of(&table, x[g]) : (IV)(BUCKETS), \
               bucket_of_token + held + v + g * VEC); \
    }
/* The highest bit of a bucket's count says whether the token must be looked up, so there is no
 * branch. */
#define COUNT_ONE(j) \
    { \
        const u32 at = (u32)bucket_of_token[v + j]; \
        const u32 before = b->tokens[at]; \
        b->tokens[at] = before + 1; \
        lookup[n_lookups] = v + j; \
        n_lookups += before >> 31; \
    }
#define COUNT_FOUR(j) COUNT_ONE(j) COUNT_ONE(j + 1) COUNT_ONE(j + 2) COUNT_ONE(j + 3)

ONE_COPY void buckets_count(const key_table *the_table, const row_logits *r, buckets *b)
{
    const key_table table = *the_table;
    const i32 least_key = key_of(table.under);
    u32 bits[BATCH], lookup[BATCH + 1], held = 0, n_lookups = 0;
    i32 bucket_of_token[BATCH];
    for (u32 m = 0; m < max_tiles(r); m++) {
        if (r->key[m] <= least_key)
            continue;
        const int kind = max_tile_kind(r, m);
        for (u32 v = 0; v < CLS_MAX_TILE; v += UNROLL * VEC) {
            FV x[UNROLL];
            load_vectors(r, m * CLS_MAX_TILE + v, kind, CLS_MASKED, x);
            EACH_UNROLLED(STEP_BUCKET)
        }
        SHORT_LOOP
        for (u32 v = held; v < held + CLS_MAX_TILE; v += 16) {
            COUNT_FOUR(0) COUNT_FOUR(4) COUNT_FOUR(8) COUNT_FOUR(12)
        }
        held += CLS_MAX_TILE;
        if (held == BATCH) {
            buckets_look_up(&table, bits, bucket_of_token, lookup, n_lookups, b);
            held = n_lookups = 0;
        }
    }
    buckets_look_up(&table, bits, bucket_of_token, lookup, n_lookups, b);
}

/* Computes the counts of all keys: the tokens of all buckets above the key's own, plus those of its
 * own bucket that reach the key. If a bucket has several keys, these are the tokens that were
 * looked up so far, less those of such buckets above. */
static inline void buckets_sum(key_table *t, const buckets *b)
{
    u32 all = 0, shared = 0, found = 0, next = 0;
    for (u32 i = 0; i < t->edges; i++) {
        const u32 at = bucket_of(t, edge_float(t, i));
        for (; next < at; next++) {
            const u32 tokens = b->tokens[next] & ~HAS_KEY;
            all += tokens;
            if ((b->tokens[next] & HAS_KEY) && b->edge[next] == SEVERAL_KEYS)
                shared += tokens;
        }
        found += (u32)t->count[i];
        t->count[i] = (i32)(all + (b->edge[at] == SEVERAL_KEYS ? found - shared : b->reached[at]));
    }
}

ONE_COPY void count_by_buckets(const row_logits *r, __local i32 *edge, u32 edges,
                               __local i32 *count)
{
    buckets b;
    key_table table = {(__local u32 *)edge, count, edges, 0.0f, 0.0f, 0.0f};
    buckets_begin(&table, &b);
    buckets_count(&table, r, &b);
    buckets_sum(&table, &b);
}
#endif
