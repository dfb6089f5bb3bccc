/* SPDX-License-Identifier: MIT */
/* report: writes the outputs that need another read of the row: log-probabilities and ranks of the
 * token and of given ids, the most likely tokens, and sums. */
#include "draw/distribution.cl"
#include "row/ranks.cl"

/* Returns the mass of the raw row, from the masses of its tiles. */
static inline u64 report_total(const row_logits *r, __global const u64 *row_mass, f32 max,
                               __local u64 *scratch)
{
    const i32 exponent = split(max, CLS_LOG2E).exponent;
    u64 total = 0;
    for (u32 tile = LOCAL_ID; tile < r->tiles; tile += WGS)
        if (tile_max_key(r->key, tile) != CLS_KEY_NONE)
            total += to_row_units(row_mass[tile],
                                  tile_unit(r->key, tile, max, exponent, CLS_LOG2E).shift);
    return wg_mass(total, scratch);
}

/* Puts the first `wanted` tokens of the set, at most LIST, into the list, or all if it has fewer.
 * The list may get more. */
static inline void report_first(const report *t, i32 max_key, u32 wanted, shortlist *list)
{
    i32 lo = report_lowest(t);
    /* The maxima of tiles are of the whole row; with an upper cut they bound nothing. */
    if (t->set.cut.upper_key == CLS_KEY_INF) {
        const i32 bound = tile_bound(&t->r, wanted, max_key, list->scratch);
        lo = lo > bound ? lo : bound;
    }
    collect_first(&t->r, wanted, lo, max_key, list);
}

/* Returns how many tokens of the set reach a key. */
static inline u32 report_count(const report *t, i32 key, shortlist *list)
{
    u32 count = 0;
    if (!t->listed)
        return tokens_above(&t->r, key - 1, list->scratch);
    for (u32 i = LOCAL_ID; i < t->n_ids; i += WGS)
        count += list->key[i] >= key;
    return wg_usum(count, list->scratch);
}

/* Fills the list with the tokens of a set that is not a range of the order. */
static inline void report_listed(const report *t, const row_logits *r, shortlist *list)
{
    list->n = t->n_ids;
    for (u32 i = LOCAL_ID; i < t->n_ids; i += WGS) {
        list->id[i] = (i32)t->ids[i];
        list->key[i] = key_of(load_one(r, t->ids[i]));
    }
    for (u32 i = t->n_ids + LOCAL_ID; i < LIST && i < t->n_ids + VEC; i += WGS)
        list->key[i] = CLS_KEY_NONE;
    BARRIER();
}

/* What each of a row's groups reports, by its number in the launch. From REPORT_GIVEN on there is a
 * group for every args->given_each of the given ids. */
enum {
    REPORT_TOKEN = 0,
    REPORT_WHOLE = 1,
    REPORT_TOP = 2,
    REPORT_GIVEN = 3,
};

/* Returns a token's logit if it is in the set, else -inf, and its log-probability. `drawn`: it was
 * drawn from the row. */
static inline f32 report_token(const report *t, const row_logits *r, i32 id, int no_token,
                               int drawn, f32 *logprob)
{
    *logprob = CLS_MASKED;
    if (no_token || id < 0 || (u32)id >= r->vocab)
        return CLS_MASKED;
    const f32 z = report_kept(t, (u32)id, load_one(r, (u32)id));
    const cls_unit unit = report_unit(t, (u32)id);
    *logprob = report_logprob(t, z, &unit, drawn);
    return z;
}

/* Writes an element of an output, if the step wants it. */
#define REPORT(name, NAME, at, value) \
    if (wants & CLS_WANTS(CLS_OUT_##NAME)) \
        OUTPUT(s, name, CLS_OUT_##NAME)[at] = (value);

/* Reports the log-probability and the rank of the row's token. */
static inline void report_drawn(const step_args *s, const report *t, const row_logits *r, i32 token,
                                int no_token, int drawn, u32 place, shortlist *list)
{
    const u32 wants = s->args->wants;
    f32 logprob;
    const f32 z = report_token(t, r, token, no_token, drawn, &logprob);
    u32 rank = 0;
    if ((wants & CLS_WANTS(CLS_OUT_RANKS)) && z > CLS_MASKED) /* the same for the whole group */
        rank = report_count(t, key_of(z), list);
    if (LOCAL_ID != 0)
        return;
    REPORT(logprobs, LOGPROBS, place, logprob)
    REPORT(ranks, RANKS, place, (i32)rank)
}

/* Returns the rank of a key in the list. */
static inline u32 listed_rank(const shortlist *list, i32 key)
{
    IV count = (IV)(0);
    for (u32 i = 0; i < list->n; i += VEC)
        count += VLOAD(list->key + i) >= key;
    return COUNT(count);
}

/* Reports log-probabilities and ranks of given ids first to first + n_ids - 1. If the set is not a
 * list, the keys of the ids are put into the list. The list must have room for twice as many,
 * because the rest is needed for counting them. */
static inline void report_given(const step_args *s, const report *t, const row_logits *r,
                                int no_token, u32 place, u32 first, u32 n_ids, shortlist *list)
{
    const u32 wants = s->args->wants;
    const size_t from = (size_t)place * s->args->given_n + first;
    __global const i32 *const ids = OUTPUT(s, given_ids, CLS_OUT_GIVEN_IDS) + from;
    __global f32 *const logprobs = OUTPUT(s, given_logprobs, CLS_OUT_GIVEN_LOGPROBS) + from;
    __global i32 *const ranks = OUTPUT(s, given_ranks, CLS_OUT_GIVEN_RANKS) + from;
    const int ranked = wants & CLS_WANTS(CLS_OUT_GIVEN_RANKS),
              counted = ranked && !no_token && !t->listed;
    if (!ranked && !(wants & CLS_WANTS(CLS_OUT_GIVEN_LOGPROBS)))
        return; /* the given ids are for the raw row, which another launch reports */
    for (u32 i = LOCAL_ID; i < n_ids; i += WGS) {
        f32 logprob;
        const f32 z = report_token(t, r, ids[i], no_token, 0, &logprob);
        if (wants & CLS_WANTS(CLS_OUT_GIVEN_LOGPROBS))
            logprobs[i] = logprob;
        if (counted)
            list->key[i] = key_of(z);
        else if (ranked)
            ranks[i] = z > CLS_MASKED ? (i32)listed_rank(list, key_of(z)) : 0;
    }
    if (!counted) /* the same for the whole group */
        return;
    list->n = n_ids;
    for (u32 i = n_ids + LOCAL_ID; i < LIST && i < n_ids + VEC; i += WGS)
        list->key[i] = CLS_KEY_NONE;
    BARRIER();
    const u32 edges = order_keys(list, list->id);
    count_keys(&t->r, list->id, edges, list->order, list);
    for (u32 i = LOCAL_ID; i < n_ids; i += WGS)
        ranks[i] = list->key[i] > CLS_KEY_NONE ? list->order[list->rank[i]] : 0;
}

/* Reports the number of tokens in the set, and from the sums that the distribution left the entropy
 * and the kept share of the mass. */
static inline void report_whole(const step_args *s, const report *t, int no_token, u32 row,
                                u32 place, shortlist *list)
{
    const u32 wants = s->args->wants, per_group = s->args->tiles_per_group;
    __global const u64 *const sums = s->pass + (size_t)row * t->r.tiles * CLS_PIVOTS;
    u64 sum[3] = {0, 0, 0};
    u32 count = 0;
    if ((wants & CLS_WANTS(CLS_OUT_KEPT)) && !no_token) /* the same for the whole group */
        count = report_count(t, report_lowest(t), list);
    for (u32 i = 0; i < 3 && (wants & CLS_WANTS_SUMS); i++) {
        for (u32 g = LOCAL_ID; g * per_group < t->r.tiles; g += WGS)
            sum[i] += sums[g * CLS_PIVOTS + i];
        sum[i] = wg_mass(sum[i], list->scratch);
    }
    if (LOCAL_ID != 0)
        return;
    REPORT(kept, KEPT, place, (i32)count)
    REPORT(entropy, ENTROPY, place, no_token || t->greedy ? 0.0f : report_entropy(t, sum[2]))
    REPORT(kept_mass, KEPT_MASS, place,
           no_token    ? 0.0f
           : t->greedy ? 1.0f
                       : u64_to_f32(sum[1]) / u64_to_f32(sum[0]))
}

/* Reports the most likely tokens and the candidates, from the sorted list. */
static inline void report_top(const step_args *s, const report *t, const shortlist *list, u32 place)
{
    const u32 wants = s->args->wants, top_n = s->args->top_n, candidates_n = s->args->candidates_n;
    for (u32 i = LOCAL_ID; i < max(top_n, candidates_n); i += WGS) {
        const size_t top = (size_t)place * top_n + i, candidate = (size_t)place * candidates_n + i;
        const int exists = i < list->n;
        const i32 from = exists ? list->order[i] : 0, id = exists ? list->id[from] : -1;
        const f32 z = exists ? float_of_key(list->key[from]) : CLS_MASKED;
        cls_unit unit = {0.0f, 0.0f, 0};
        if (exists)
            unit = report_unit(t, (u32)id);
        if (i < top_n) {
            REPORT(top_ids, TOP_IDS, top, id)
            REPORT(top_logprobs, TOP_LOGPROBS, top, report_logprob(t, z, &unit, 0))
        }
        if (i < candidates_n) {
            REPORT(candidate_ids, CANDIDATE_IDS, candidate, id)
            REPORT(candidate_logits, CANDIDATE_LOGITS, candidate, z)
            REPORT(candidate_probs, CANDIDATE_PROBS, candidate,
                   exists ? report_probability(t, report_mass(t, z, &unit)) : 0.0f)
        }
    }
}

/* Reports on each row's token, the given ids, the most likely tokens, and sums, each by a separate
 * group. A place behind the rows, where a verification has no token, has what a row without a token
 * has. With CLS_RAW it reports on the raw row, and the survey in the arguments is that of the raw
 * row; otherwise on the final distribution. Launch: [(3 + given_n / given_each, rounded up) * WGS,
 * rows]. */
ONE_COPY void report_row(const step_args *s, u32 group, u32 part, const shortlist *the_list)
{
    ARGS const cls_args *const args = s->args;
    shortlist list = *the_list;
    const u32 given_n = args->given_n, listed_n = max(args->top_n, args->candidates_n);
    const int behind = is_behind(s, group);
    const u32 row = behind ? 0u : group, place = output_index(s, group);
    const i32 slot_index = behind ? -1 : row_slot(s, row);
    const row_logits r = row_view(s, row, slot_index);
    const cls_row out = s->rows[row];
    i32 max_key = out.max_key;
    int no_token = slot_index < 0 || (out.no_token && !(s->has & CLS_NO_SLOTS));
    report t;
    if (s->has & CLS_RAW) {
        no_token &= slot_index < 0 || !out.forced; /* nothing could be drawn, but the model's
                                                      distribution has the forced token */
        max_key = row_max_key(r.key, max_tiles(&r), list.scratch);
        no_token |= max_key == CLS_KEY_NONE;
        const u64 total = report_total(&r, s->tile_mass + (size_t)row * r.tiles,
                                       float_of_key(max_key), list.scratch);
        report_raw(&r, max_key, total, &t);
    } else {
        report_final(&r, &out, no_token ? 0u : r.slot->flags, kept_ids_of(s, row), &t);
    }
    t.listed = no_token ? 0u : t.listed;
    if (t.listed) /* the same for the whole group, as are no_token and part */
        report_listed(&t, &r, &list);
    if (part >= REPORT_GIVEN) {
        const u32 each = args->given_each, first = (part - REPORT_GIVEN) * each;
        report_given(s, &t, &r, no_token, place, first, min(each, given_n - first), &list);
    } else if (part == REPORT_TOKEN) {
        report_drawn(s, &t, &r, out.token, no_token, !out.forced, place, &list);
    } else if (part == REPORT_WHOLE) {
        report_whole(s, &t, no_token, row, place, &list);
    } else if (listed_n > 0) {
        if (no_token)
            list.n = 0;
        else if (!t.listed)
            report_first(&t, max_key, listed_n, &list);
        list_sort(&list);
        report_top(s, &t, &list, place);
    }
}

KERNEL void cls_report(STEP_PARAMETERS(CLS_REPORT_BUFFERS))
{
    SHORTLIST(list);
    const step_args s = STEP_OF(CLS_REPORT_BUFFERS);
    report_row(&s, GROUP_OF_ALL, get_group_id(0), &list);
}
