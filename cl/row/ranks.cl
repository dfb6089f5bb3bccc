/* SPDX-License-Identifier: MIT */
/* ranks: how many tokens of a row reach each of many keys, in few reads of the row. */
#include "row/shortlist.cl"

/* Brings the keys of a list, of which some may be equal or CLS_KEY_NONE, into order: edge[]
 * has those that differ, descending, and list->rank[] of each entry the place of its key
 * there. Returns how many there are. */
static inline u32 order_keys(shortlist *list, __local i32 *edge)
{
    u32 edges = 0;
    list_sort(list);
    for (u32 base = 0; base < list->n; base += WGS) {
        const u32 rank = base + LOCAL_ID;
        u32 from = 0, is_new = 0, sum;
        if (rank < list->n) {
            from = (u32)list->order[rank];
            const i32 key = list->key[from];
            is_new = key != CLS_KEY_NONE && (rank == 0 || list->key[list->order[rank - 1]] != key);
        }
        const u32 at = edges + wg_scan_u32(is_new, list->scratch, &sum);
        if (is_new)
            edge[at] = list->key[from];
        if (rank < list->n)
            list->rank[from] = (i32)(at + is_new) - 1;
        edges += sum;
    }
    BARRIER();
    return edges;
}

#if WGS == 1 && LIST >= 128
#define COUNTS_BY_BUCKETS 1
/* One item counts all keys in one read. It divides the keys' range into buckets of equal width in
 * floats and counts the tokens of each; of a bucket in which a key lies it looks up each token,
 * against the one key or among all of them. All that buckets need is that the number of a token's
 * bucket never decreases as its logit falls: so it does not matter how the device rounds. 4,096
 * of them leave a tenth of the tokens of 256 keys to be looked up, where logits are float32. */
#define BUCKETS 4096        /* and one for tokens that reach no key */
#define HAS_KEY 0x80000000u /* with a bucket's number of tokens: a key lies in it */
#define SEVERAL_KEYS 0u     /* in place of its edge: several do */
#define BATCH (8 * CLS_MAX_TILE)

typedef struct buckets {
    u32 tokens[BUCKETS + 1];  /* and WAITS */
    u32 edge[BUCKETS + 1];    /* of the one key that lies in it, or CROWDED */
    u32 reached[BUCKETS + 1]; /* tokens that reach this */
} buckets;

typedef struct key_table {
    __local u32 *edge;  /* the float before each key, as an integer of the same order; descending */
    __local i32 *count; /* of each key the tokens that reach it; first, tokens looked up that reach
                           none above it */
    u32 edges;
    f32 top, per; /* where the buckets begin, and how many there are to a unit */
    f32 under;    /* what every token that reaches a key lies above */
} key_table;

static inline u32 ordered_bits(f32 x) { return (u32)key_of(x) ^ 0x80000000u; }
static inline f32 edge_float(const key_table *t, u32 i)
{
    return float_of_key((i32)(t->edge[i] ^ 0x80000000u));
}

/* The bucket of a logit. Comparisons put NaN, which an infinite range makes, into the first. */
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

/* The range of most keys: a sixteenth of them at either end may lie far away, and would leave
 * all others in one bucket. */
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

/* Looks up n tokens that wait, each among the keys of its bucket: in a crowded one the first key
 * that it reaches has one more. At most LIST / 2 keys; no loop over them, which for each token
 * would make more trips than there may be. */
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
/* Whether a token waits is the first bit of its bucket's number: no branch. */
#define COUNT_ONE(j) \
    { \
        const u32 at = (u32)bucket_of_token[v + j]; \
        const u32 before = b->tokens[at]; \
        b->tokens[at] = before + 1; \
        lookup[n_lookups] = v + j; \
        n_lookups += before >> 31; \
    }
#define COUNT_FOUR(j) COUNT_ONE(j) COUNT_ONE(j + 1) COUNT_ONE(j + 2) COUNT_ONE(j + 3)

ONE_COPY void buckets_count(const key_table *the_table, const row_logits *r,
                            __global const i32 *row_key, u32 n, buckets *b)
{
    const key_table table = *the_table;
    const i32 least_key = key_of(table.under);
    u32 bits[BATCH], lookup[BATCH + 1], held = 0, n_lookups = 0;
    i32 bucket_of_token[BATCH];
    for (u32 m = 0; m < n; m++) {
        if (row_key[m] <= least_key)
            continue;
        const int kind = max_tile_kind(r, m);
        for (u32 v = 0; v < CLS_MAX_TILE; v += UNROLL * VEC) {
            FV x[UNROLL];
            load_vectors(r, m * CLS_MAX_TILE + v, VEC, kind, x);
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

/* Makes the counts of all keys: what the buckets above a key's have, and in its own what reaches
 * it; of a crowded one those that were looked up, less such as are of crowded buckets above. */
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

ONE_COPY void count_by_buckets(const row_logits *r, __global const i32 *row_key, u32 n,
                               __local i32 *edge, u32 edges, __local i32 *count)
{
    buckets b;
    key_table table = {(__local u32 *)edge, count, edges, 0.0f, 0.0f, 0.0f};
    buckets_begin(&table, &b);
    buckets_count(&table, r, row_key, n, &b);
    buckets_sum(&table, &b);
}
#endif

/* Of each of `edges` keys, descending, how many tokens of the row reach it: count[], by the
 * whole group: in a read of the row for four of them, or where one item has memory for buckets
 * (and the keys would take it more than two reads) in one for all. */
static inline void count_keys(const row_logits *r, __global const i32 *row_key, u32 n,
                              __local i32 *edge, u32 edges, __local i32 *count, shortlist *list)
{
#ifdef COUNTS_BY_BUCKETS
    if (edges > 8) {
        count_by_buckets(r, row_key, n, edge, edges, count);
        return;
    }
#endif
    for (u32 i = 0; i < edges; i += 4) {
        i32 key[4];
        u32 counts[4];
        for (u32 p = 0; p < 4; p++) /* ascending */
            key[p] = edge[min(i + 3 - p, edges - 1)] - 1;
        if (edges == 1)
            counts[3] = tokens_above(r, row_key, n, key[3], list->scratch);
        else
            tokens_above_each(r, row_key, n, key, counts, list->scratch);
        for (u32 p = 0; p < 4; p++)
            if (LOCAL_ID == 0 && i + p < edges)
                count[i + p] = (i32)counts[3 - p];
    }
    BARRIER();
}
